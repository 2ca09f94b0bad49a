//! Reads the columns of a source the way a recipe says: that of a fit in the making, or of an encoding.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use crate::encoding::{Coding, ColumnEncoding, Encoded, Encoding, Group, Part, Reading, SEPARATOR};
use crate::error::{ColumnError, DataError, Subject};
use crate::leaves::{Extras, Storage, Writer};
use crate::spec::find;
use crate::table::{Batch, Column, ColumnInfo, Kind, Source};

impl Encoding {
    /// Rows of new data. Missing values, unknown levels and unknown groups are refused by name and place. Weights are
    /// not asked for.
    pub fn encode(&self, source: &dyn Source, storage: &Storage) -> Result<Encoded, DataError> {
        let reader = Reader::new(self.recipe(), source.columns())?;
        let mut writer = Writer::new(self.features.len() + reader.extras.count(), storage);
        let mut codes = vec![Vec::new(); self.groups.len()];
        source.scan(&reader.wanted, &mut |batch| {
            for i in 0..batch.rows() {
                if let Some(c) = reader.missing(batch, i) {
                    let column = source.columns()[reader.wanted[c]].name.clone();
                    return Err(ColumnError::MissingInNewData { place: batch.place(i), column }.into());
                }
            }
            let keep: Vec<usize> = (0..batch.rows()).collect();
            writer.push(&reader.values(batch, &keep, &mut codes)?, keep.len())
        })?;
        Ok(Encoded { rows: Arc::new(writer.finish(reader.extras)?), codes })
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
            response: None,
            trials: self.trials.as_deref(),
            offset: self.offset.as_deref(),
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
    /// Column of responses, if they are read.
    pub(crate) response: Option<&'a str>,
    /// Column of trials.
    pub(crate) trials: Option<&'a str>,
    /// Column of offsets.
    pub(crate) offset: Option<&'a str>,
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

/// What a column's cells have become.
enum Cells {
    Numbers(Vec<f64>),
    Levels(Vec<u32>),
}

/// A recipe with the places of its columns in a source.
pub(crate) struct Reader<'a> {
    recipe: Recipe<'a>,
    /// Columns of the source: those of the recipe, then response, trials, offset, weights as far as they are there.
    pub(crate) wanted: Vec<usize>,
    pub(crate) extras: Extras,
    levels: Vec<HashMap<&'a str, u32>>,
    groups: Vec<HashMap<&'a str, u32>>,
    names: Vec<&'a str>,
}

/// The places of columns in a source, each of which must hold what is read from it.
pub(crate) fn places<'n>(
    columns: &[ColumnInfo],
    named: impl Iterator<Item = (&'n str, Reading)>,
) -> Result<Vec<usize>, DataError> {
    let place = |(name, reading): (&str, Reading)| {
        let place = find(columns, name)?;
        check_kind(&columns[place], reading)?;
        Ok(place)
    };
    named.map(place).collect()
}

fn lookup(levels: &[String]) -> HashMap<&str, u32> {
    levels.iter().enumerate().map(|(k, level)| (level.as_str(), k as u32)).collect()
}

impl<'a> Reader<'a> {
    pub(crate) fn new(recipe: Recipe<'a>, columns: &[ColumnInfo]) -> Result<Self, DataError> {
        let Recipe { response, trials, offset, weights, .. } = recipe;
        let roles = [response, trials, offset, weights];
        let coded = recipe.columns.iter().map(|c| (c.name.as_str(), c.how.reading()));
        let named: Vec<(&str, Reading)> =
            coded.chain(roles.into_iter().flatten().map(|name| (name, Reading::Number))).collect();
        let wanted = places(columns, named.iter().copied())?;
        let [response, trials, offset, weight] = roles.map(|name| name.is_some());
        let extras = Extras { response, trials, offset, weight };
        let levels = recipe.columns.iter().map(|c| match &c.how {
            ColumnEncoding::Levels { levels, .. } => lookup(levels),
            _ => HashMap::new(),
        });
        let levels = levels.collect();
        let groups = recipe.groups.iter().map(|g| lookup(g.levels)).collect();
        let names = named.into_iter().map(|(name, _)| name).collect();
        Ok(Self { recipe, levels, groups, wanted, extras, names })
    }

    /// The first missing cell of row i, as a place in `wanted`.
    pub(crate) fn missing(&self, batch: &Batch<'_>, i: usize) -> Option<usize> {
        (0..self.wanted.len()).find(|&c| {
            let (column, row) = batch.cell(c, i);
            column.is_missing(row)
        })
    }

    /// The rows `keep` of a batch: the features and then the extras, column by column; levels of groups are appended to
    /// `codes`.
    pub(crate) fn values(
        &self,
        batch: &Batch<'_>,
        keep: &[usize],
        codes: &mut [Vec<u32>],
    ) -> Result<Vec<Vec<f64>>, DataError> {
        let codings = self.recipe.columns.iter().enumerate();
        let cells: Vec<Cells> =
            codings.map(|(c, coding)| self.cells(batch, c, &coding.how, keep)).collect::<Result<_, _>>()?;
        let features = self.recipe.features.iter().map(|(_, parts)| {
            let mut product = vec![1.0; keep.len()];
            for part in *parts {
                match (&cells[part.column], part.level) {
                    (Cells::Numbers(x), _) => product.iter_mut().zip(x).for_each(|(p, x)| *p *= x),
                    (Cells::Levels(code), level) => {
                        product
                            .iter_mut()
                            .zip(code)
                            .for_each(|(p, c)| *p *= f64::from(u8::from(Some(*c) == level)));
                    }
                }
            }
            product
        });
        let mut out: Vec<Vec<f64>> = features.collect();
        for ((name, _), product) in self.recipe.features.iter().zip(&out) {
            if let Some(k) = product.iter().position(|x| !x.is_finite()) {
                let subject = Subject::Feature((*name).into());
                let error = ColumnError::not_finite(batch.place(keep[k]), subject, product[k].to_string());
                return Err(error.into());
            }
        }
        for c in self.recipe.columns.len()..self.wanted.len() {
            out.push(self.numbers(batch, c, keep, 0.0)?);
        }
        let mut key = String::new();
        for (t, group) in self.recipe.groups.iter().enumerate() {
            for &i in keep {
                group_key(batch, group.columns, i, &mut key);
                let code =
                    self.groups[t].get(key.as_str()).ok_or_else(|| ColumnError::UnknownGroupLevel {
                        place: batch.place(i),
                        group: group.name.into(),
                        level: key.replace(SEPARATOR, "/"),
                        predictable: !group.known_sd,
                    })?;
                codes[t].push(*code);
            }
        }
        Ok(out)
    }

    /// The numbers of a column of the recipe.
    pub(crate) fn column(&self, batch: &Batch<'_>, c: usize, keep: &[usize]) -> Result<Vec<f64>, DataError> {
        match self.cells(batch, c, &self.recipe.columns[c].how, keep)? {
            Cells::Numbers(x) => Ok(x),
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
        match how {
            ColumnEncoding::Number | ColumnEncoding::Boolean => {
                Ok(Cells::Numbers(self.numbers(batch, c, keep, 0.0)?))
            }
            ColumnEncoding::Days { first } => Ok(Cells::Numbers(self.numbers(batch, c, keep, *first)?)),
            ColumnEncoding::Label => Ok(Cells::Levels(Vec::new())),
            ColumnEncoding::Levels { levels, .. } => {
                let code = |&i: &usize| {
                    let label = label(batch, c, i);
                    self.levels[c].get(label.as_ref()).copied().ok_or_else(|| ColumnError::UnknownLevel {
                        place: batch.place(i),
                        column: self.names[c].into(),
                        level: label.into_owned(),
                        known: levels.clone(),
                    })
                };
                Ok(Cells::Levels(keep.iter().map(code).collect::<Result<_, _>>()?))
            }
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
                    let subject = Subject::Column(self.names[c].into());
                    let value = format!("'{}'", column.label(row));
                    Err(ColumnError::not_finite(batch.place(i), subject, value).into())
                }
            }
        };
        keep.iter().map(number).collect()
    }
}

/// The label of a cell, borrowed where it is text already.
pub(crate) fn label<'a>(batch: &Batch<'a>, c: usize, i: usize) -> Cow<'a, str> {
    let (column, row) = batch.cell(c, i);
    match column {
        Column::Text(v) => Cow::Borrowed(v[row].as_deref().unwrap_or_default()),
        _ => Cow::Owned(column.label(row)),
    }
}

/// The labels of several columns as one key.
pub(crate) fn group_key(batch: &Batch<'_>, columns: &[usize], i: usize, key: &mut String) {
    key.clear();
    for (k, &c) in columns.iter().enumerate() {
        if k > 0 {
            key.push(SEPARATOR);
        }
        key.push_str(&label(batch, c, i));
    }
}

/// Refuses a column whose cells can't be read in this way.
fn check_kind(column: &ColumnInfo, reading: Reading) -> Result<(), DataError> {
    let (name, kind) = (&column.name, &column.kind);
    if let Some(error) = ColumnError::unclear(name, kind) {
        return Err(error.into());
    }
    let required = match (reading, kind) {
        (_, Kind::Other(_)) => "numbers, truth values, text or dates",
        (_, Kind::Empty) => "a value in every row that is used",
        (Reading::Number | Reading::Boolean, Kind::Text | Kind::Date) => "numbers or truth values",
        (Reading::Days, Kind::Number | Kind::Boolean | Kind::Text) => "dates",
        _ => return Ok(()),
    };
    Err(ColumnError::wrong_kind("column", name, kind, required).into())
}
