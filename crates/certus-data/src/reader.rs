//! Reads the columns of a source the way a recipe says: that of a fit in the making, or of an encoding.

use std::collections::HashMap;
use std::sync::Arc;

use crate::encoding::{Coding, ColumnEncoding, Encoded, Encoding, Gaps, Group, Part, Reading, SEPARATOR};
use crate::error::{ColumnError, DataError, Subject};
use crate::event::Event;
use crate::formula::{Expression, Offset, response_columns};
use crate::inputs::Inputs;
use crate::leaves::{Extras, Storage, Writer};
use crate::levels::{group_key, label};
use crate::table::{Batch, ColumnInfo, Source};

impl Encoding {
    /// Rows of new data. Missing values, unknown levels and unknown groups are refused by name and place. Weights are
    /// not asked for.
    pub fn encode(&self, source: &dyn Source, storage: &Storage) -> Result<Encoded, DataError> {
        let (encoded, gaps) = self.encode_complete(source, storage)?;
        gaps.refuse()?;
        Ok(encoded)
    }

    /// The rows of new data without missing values, and where the others are.
    pub fn encode_complete(
        &self,
        source: &dyn Source,
        storage: &Storage,
    ) -> Result<(Encoded, Gaps), DataError> {
        let reader = Reader::new(self.recipe(), source.columns())?;
        let mut writer = Writer::new(self.features.len() + reader.extras.count(), storage);
        let mut groups = GroupColumns::new(self.groups.len(), self.effects.len());
        let (mut gaps, mut rows) = (Gaps::default(), 0);
        source.scan(&reader.wanted, &mut |batch| {
            let mut keep = Vec::with_capacity(batch.rows());
            for i in 0..batch.rows() {
                let Some(c) = reader.missing(batch, i) else {
                    keep.push(i);
                    continue;
                };
                let name = || source.columns()[reader.wanted[c]].name.clone();
                gaps.first.get_or_insert_with(|| (batch.place(i), name()));
                gaps.rows.push(rows + i);
            }
            rows += batch.rows();
            writer.push(&reader.values(batch, &keep, &mut groups)?, keep.len())
        })?;
        let GroupColumns { codes, effects } = groups;
        Ok((Encoded { rows: Arc::new(writer.finish(reader.extras)?), codes, effects }, gaps))
    }

    /// What a reader of new data needs.
    fn recipe<'a>(&'a self) -> Recipe<'a> {
        let labels = |group: &'a Group| Labels {
            name: &group.name,
            columns: &group.columns,
            levels: &group.levels,
            known_sd: group.sd.is_some(),
        };
        Recipe {
            columns: &self.columns,
            features: self.features.iter().map(|f| (f.name.as_str(), f.parts.as_slice())).collect(),
            groups: self.groups.iter().map(labels).collect(),
            effects: self.effects.iter().map(|e| (e.name.as_str(), e.parts.as_slice())).collect(),
            response: None,
            computed: None,
            trials: self.trials.as_deref(),
            offset: self.offset.as_ref(),
            weights: None,
        }
    }
}

/// What a reader needs to know.
pub(crate) struct Recipe<'a> {
    /// Columns that features and groups are made of.
    pub(crate) columns: &'a [Coding],
    /// Name and parts of every feature.
    pub(crate) features: Vec<(&'a str, &'a [Part])>,
    /// The groups.
    pub(crate) groups: Vec<Labels<'a>>,
    /// Name and parts of what varies by group without being a feature.
    pub(crate) effects: Vec<(&'a str, &'a [Part])>,
    /// Column of responses, if they are read, and their event.
    pub(crate) response: Option<(&'a str, Option<&'a Event>)>,
    /// What is computed under that name.
    pub(crate) computed: Option<&'a Expression>,
    /// Column of trials.
    pub(crate) trials: Option<&'a str>,
    /// The offset.
    pub(crate) offset: Option<&'a Offset>,
    /// Column of weights, if they are read.
    pub(crate) weights: Option<&'a str>,
}

/// A group as its labels are read.
pub(crate) struct Labels<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// The columns whose labels together are a level.
    pub(crate) columns: &'a [usize],
    /// The levels in order.
    pub(crate) levels: &'a [String],
    /// True if the standard deviation between groups is given.
    pub(crate) known_sd: bool,
}

/// What group terms need of rows beside the features.
pub(crate) struct GroupColumns {
    /// Levels, per group.
    pub(crate) codes: Vec<Vec<u32>>,
    /// What varies without being a feature.
    pub(crate) effects: Vec<Vec<f64>>,
}

impl GroupColumns {
    pub(crate) fn new(groups: usize, effects: usize) -> Self {
        Self { codes: vec![Vec::new(); groups], effects: vec![Vec::new(); effects] }
    }
}

/// What the cells of a coding have become.
enum Cells {
    Numbers(Vec<f64>),
    Levels(Vec<u32>),
    /// Per function of a basis.
    Functions(Vec<Vec<f64>>),
}

/// A recipe with the places of its columns in a source.
pub(crate) struct Reader<'a> {
    recipe: Recipe<'a>,
    /// Columns of the source: those of the recipe, then response, trials, offset, weights as far as they are there.
    pub(crate) wanted: Vec<usize>,
    pub(crate) extras: Extras,
    /// Per coding, its columns in `wanted`.
    inputs: Vec<Vec<usize>>,
    /// Response, trials, offset and weights in `wanted`.
    roles: [Vec<usize>; 4],
    levels: Vec<HashMap<&'a str, u32>>,
    groups: Vec<HashMap<&'a str, u32>>,
    /// Per column of `wanted`.
    names: Vec<String>,
}

fn lookup(levels: &[String]) -> HashMap<&str, u32> {
    levels.iter().enumerate().map(|(k, level)| (level.as_str(), k as u32)).collect()
}

impl<'a> Reader<'a> {
    pub(crate) fn new(recipe: Recipe<'a>, columns: &[ColumnInfo]) -> Result<Self, DataError> {
        let mut all = Inputs::new(columns);
        let mut add = |names: Vec<&str>, reading: Reading| -> Result<Vec<usize>, DataError> {
            names.into_iter().map(|name| all.add(name, reading)).collect()
        };
        let mut inputs = Vec::with_capacity(recipe.columns.len());
        for coding in recipe.columns {
            inputs.push(add(coding.columns(), coding.how.reading())?);
        }
        let one = |name: Option<&'a str>| name.into_iter().collect::<Vec<_>>();
        let response = recipe.response.map_or(Reading::Number, |(_, event)| match event {
            Some(_) => Reading::Levels,
            None => Reading::Number,
        });
        let roles = [
            add(
                recipe.response.map_or(Vec::new(), |(name, _)| response_columns(name, recipe.computed)),
                response,
            )?,
            add(one(recipe.trials), Reading::Number)?,
            add(recipe.offset.map_or(Vec::new(), Offset::columns), Reading::Number)?,
            add(one(recipe.weights), Reading::Number)?,
        ];
        let extras = Extras {
            response: recipe.response.is_some(),
            trials: recipe.trials.is_some(),
            offset: recipe.offset.is_some(),
            weight: recipe.weights.is_some(),
        };
        let levels = recipe.columns.iter().map(|c| match &c.how {
            ColumnEncoding::Levels { levels, .. } => lookup(levels),
            _ => HashMap::new(),
        });
        let levels = levels.collect();
        let groups = recipe.groups.iter().map(|g| lookup(g.levels)).collect();
        let names = (0..all.wanted.len()).map(|k| all.name(k).to_string()).collect();
        Ok(Self { recipe, wanted: all.wanted, extras, inputs, roles, levels, groups, names })
    }

    /// The first missing cell of row i, as a place in `wanted`.
    pub(crate) fn missing(&self, batch: &Batch<'_>, i: usize) -> Option<usize> {
        (0..self.wanted.len()).find(|&c| {
            let (column, row) = batch.cell(c, i);
            column.is_missing(row)
        })
    }

    /// The rows `keep` of a batch: the features and then the extras, column by column; what belongs to groups is
    /// appended to `groups`.
    pub(crate) fn values(
        &self,
        batch: &Batch<'_>,
        keep: &[usize],
        groups: &mut GroupColumns,
    ) -> Result<Vec<Vec<f64>>, DataError> {
        let codings = self.recipe.columns.iter().enumerate();
        let cells: Vec<Cells> =
            codings.map(|(c, coding)| self.cells(batch, c, &coding.how, keep)).collect::<Result<_, _>>()?;
        let product = |(name, parts): &(&str, &[Part])| {
            let mut product = vec![1.0; keep.len()];
            for part in *parts {
                let mut times = |x: &[f64]| product.iter_mut().zip(x).for_each(|(p, x)| *p *= x);
                match (&cells[part.column], part.level) {
                    (Cells::Numbers(x), _) => times(x),
                    (Cells::Functions(all), _) => times(&all[part.function.unwrap_or(0) as usize]),
                    (Cells::Levels(code), level) => {
                        product
                            .iter_mut()
                            .zip(code)
                            .for_each(|(p, c)| *p *= f64::from(u8::from(Some(*c) == level)));
                    }
                }
            }
            match product.iter().position(|x| !x.is_finite()) {
                Some(k) => {
                    let subject = Subject::Feature((*name).into());
                    Err(ColumnError::not_finite(batch.place(keep[k]), subject, product[k].to_string()))
                }
                None => Ok(product),
            }
        };
        let mut out = self.recipe.features.iter().map(product).collect::<Result<Vec<_>, _>>()?;
        for (own, effects) in self.recipe.effects.iter().zip(&mut groups.effects) {
            effects.extend(product(own)?);
        }
        let [response, trials, offset, weights] = &self.roles;
        if let Some(of) = self.recipe.computed {
            out.push(self.finite(batch, of, response, keep, "the response")?);
        } else if let (Some((column, Some(event))), [c]) = (self.recipe.response, &response[..]) {
            out.push(events(batch, *c, keep, column, event)?);
        } else if let [c] = response[..] {
            out.push(self.numbers(batch, c, keep, 0.0)?);
        }
        if let [c] = trials[..] {
            out.push(self.numbers(batch, c, keep, 0.0)?);
        }
        if let Some(own) = self.recipe.offset {
            out.push(self.offset(batch, own, offset, keep)?);
        }
        if let [c] = weights[..] {
            out.push(self.numbers(batch, c, keep, 0.0)?);
        }
        let mut key = String::new();
        for (t, group) in self.recipe.groups.iter().enumerate() {
            let inputs: Vec<usize> = group.columns.iter().map(|c| self.inputs[*c][0]).collect();
            for &i in keep {
                group_key(batch, &inputs, i, &mut key);
                let code =
                    self.groups[t].get(key.as_str()).ok_or_else(|| ColumnError::UnknownGroupLevel {
                        place: batch.place(i),
                        group: group.name.into(),
                        level: key.replace(SEPARATOR, "/"),
                        predictable: !group.known_sd,
                    })?;
                groups.codes[t].push(*code);
            }
        }
        Ok(out)
    }

    /// The numbers of a part that is not a level.
    pub(crate) fn numbers_of(
        &self,
        batch: &Batch<'_>,
        part: Part,
        keep: &[usize],
    ) -> Result<Vec<f64>, DataError> {
        match self.cells(batch, part.column, &self.recipe.columns[part.column].how, keep)? {
            Cells::Numbers(x) => Ok(x),
            Cells::Functions(mut all) => Ok(all.swap_remove(part.function.unwrap_or(0) as usize)),
            Cells::Levels(_) => Ok(Vec::new()),
        }
    }

    fn cells(
        &self,
        batch: &Batch<'_>,
        c: usize,
        how: &ColumnEncoding,
        keep: &[usize],
    ) -> Result<Cells, DataError> {
        let input = self.inputs[c][0];
        match how {
            ColumnEncoding::Number | ColumnEncoding::Boolean => {
                Ok(Cells::Numbers(self.numbers(batch, input, keep, 0.0)?))
            }
            ColumnEncoding::Days { first } => Ok(Cells::Numbers(self.numbers(batch, input, keep, *first)?)),
            ColumnEncoding::Label => Ok(Cells::Levels(Vec::new())),
            ColumnEncoding::Levels { levels, .. } => {
                let code = |&i: &usize| {
                    let label = label(batch, input, i);
                    self.levels[c].get(label.as_ref()).copied().ok_or_else(|| ColumnError::UnknownLevel {
                        place: batch.place(i),
                        column: self.names[input].clone(),
                        level: label.into_owned(),
                        known: levels.clone(),
                    })
                };
                Ok(Cells::Levels(keep.iter().map(code).collect::<Result<_, _>>()?))
            }
            ColumnEncoding::Computed { of, basis } => {
                let numbers = self.computed(batch, of, &self.inputs[c], keep)?;
                let mut functions = vec![Vec::with_capacity(keep.len()); basis.columns()];
                for x in numbers {
                    basis.values(x).into_iter().zip(&mut functions).for_each(|(value, own)| own.push(value));
                }
                Ok(Cells::Functions(functions))
            }
        }
    }

    /// An expression of numbers; its value may be infinite or not a number.
    fn computed(
        &self,
        batch: &Batch<'_>,
        of: &Expression,
        inputs: &[usize],
        keep: &[usize],
    ) -> Result<Vec<f64>, DataError> {
        let names = of.columns();
        let columns: Vec<Vec<f64>> =
            inputs.iter().map(|c| self.numbers(batch, *c, keep, 0.0)).collect::<Result<_, _>>()?;
        let value = |k: usize| {
            let cell = |name: &str| {
                let place = names.iter().position(|own| *own == name).expect("one of its columns");
                columns[place][k]
            };
            of.value(&cell)
        };
        Ok((0..keep.len()).map(value).collect())
    }

    fn offset(
        &self,
        batch: &Batch<'_>,
        offset: &Offset,
        inputs: &[usize],
        keep: &[usize],
    ) -> Result<Vec<f64>, DataError> {
        match offset {
            Offset::Column(_) => self.numbers(batch, inputs[0], keep, 0.0),
            Offset::Computed { of } => self.finite(batch, of, inputs, keep, "the offset"),
        }
    }

    /// An expression of numbers, which must be finite.
    fn finite(
        &self,
        batch: &Batch<'_>,
        of: &Expression,
        inputs: &[usize],
        keep: &[usize],
        what: &str,
    ) -> Result<Vec<f64>, DataError> {
        let values = self.computed(batch, of, inputs, keep)?;
        match values.iter().position(|x| !x.is_finite()) {
            Some(k) => {
                let subject = Subject::Computed(format!("{what} {of}"));
                Err(ColumnError::not_finite(batch.place(keep[k]), subject, values[k].to_string()).into())
            }
            None => Ok(values),
        }
    }

    fn numbers(
        &self,
        batch: &Batch<'_>,
        c: usize,
        keep: &[usize],
        minus: f64,
    ) -> Result<Vec<f64>, DataError> {
        let number = |&i: &usize| {
            let (column, row) = batch.cell(c, i);
            match column.number(row) {
                Some(x) if x.is_finite() => Ok(x - minus),
                _ => {
                    let subject = Subject::Column(self.names[c].clone());
                    let value = format!("'{}'", column.label(row));
                    Err(ColumnError::not_finite(batch.place(i), subject, value).into())
                }
            }
        };
        keep.iter().map(number).collect()
    }
}

/// 1 for the event, 0 for the other level.
fn events(
    batch: &Batch<'_>,
    c: usize,
    keep: &[usize],
    column: &str,
    event: &Event,
) -> Result<Vec<f64>, DataError> {
    let number = |&i: &usize| {
        let label = label(batch, c, i);
        event.number(&label).ok_or_else(|| {
            let known = [Some(event.level.clone()), event.other.clone()].into_iter().flatten().collect();
            let (place, column, level) = (batch.place(i), column.into(), label.into_owned());
            ColumnError::UnknownLevel { place, column, level, known }.into()
        })
    };
    keep.iter().map(number).collect()
}
