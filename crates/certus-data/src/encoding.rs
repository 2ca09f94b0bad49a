//! How cells become numbers: kept with a fit, so that new data are read the way the old ones were.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use certus_models::rows::Rows;
use serde::{Deserialize, Serialize};

use crate::error::DataError;
use crate::leaves::{Extras, Storage, Writer};
use crate::spec::find;
use crate::table::{Batch, Column, ColumnInfo, Kind, Source, date_label};

/// Between the parts of a nested level's name, where nobody writes it.
pub(crate) const SEPARATOR: char = '\u{1f}';

/// How the cells of a column are read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// As numbers.
    Number,
    /// 0 or 1.
    Boolean,
    /// As days since the first date of the data the fit was made of.
    Days {
        /// That date, in days since 1970-01-01.
        first: f64,
    },
    /// By level.
    Levels {
        /// All levels, numbers by size and before names, names by their letters.
        levels: Vec<String>,
        /// The level that has no coefficient of its own; `None` if all have one.
        reference: Option<String>,
    },
    /// As the label of a group.
    Label,
}

/// A column of the source and how it is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Coding {
    /// Its name.
    pub name: String,
    /// How it is read.
    pub how: How,
}

/// One factor of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Which of [`Encoding::columns`].
    pub column: usize,
    /// The level that counts as 1, the others as 0; `None` for the number itself.
    pub level: Option<u32>,
}

/// One column of the design matrix: the product of its parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Feature {
    /// Such as `rain`, `city[Utrecht]` or `city[Utrecht]:rain`.
    pub name: String,
    /// The term it comes from, such as `city:rain`.
    pub term: String,
    /// What is multiplied.
    pub parts: Vec<Part>,
    /// Its mean over the rows of the fit.
    pub mean: f64,
    /// Its standard deviation over them (divided by N); 0 if it is constant.
    pub sd: f64,
    /// What the design divides by, so that a prior is about one of it (docs/priors.md, P1): the sd of a number, the distance between the values of a column that
    /// has two, 1 for a level, the product of these over the parts of an interaction. Absent in older fits: the sd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<f64>,
}

/// A factor by which coefficients vary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Such as `school` or `school/class`.
    pub name: String,
    /// The columns whose labels together are a level.
    pub columns: Vec<usize>,
    /// The levels in order; parts of nested ones are separated by U+001F.
    pub levels: Vec<String>,
    /// Which columns of the design vary (0 is the intercept if there is one).
    pub slopes: Vec<usize>,
    /// Their standard deviation between groups, if it is given.
    pub sd: Option<f64>,
    /// The group this one is nested in.
    pub within: Option<usize>,
}

impl Group {
    /// The name of a level as people read it.
    pub fn level_name(&self, level: usize) -> String {
        self.levels[level].replace(SEPARATOR, "/")
    }
}

/// How a source's columns become rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Encoding {
    /// The response.
    pub response: String,
    /// Columns that features and groups are made of.
    pub columns: Vec<Coding>,
    /// The features, in the order of the design.
    pub features: Vec<Feature>,
    /// The groups.
    pub groups: Vec<Group>,
    /// Column of trials.
    pub trials: Option<String>,
    /// Column of offsets.
    pub offset: Option<String>,
    /// Column of weights.
    pub weights: Option<String>,
    /// True if the design begins with an intercept.
    pub intercept: bool,
    /// True if the design centres and scales the features.
    pub standardise: bool,
}

/// New data, encoded.
pub struct Encoded {
    /// The rows; their responses are 0.
    pub rows: Arc<dyn Rows>,
    /// The level of each row, per group.
    pub codes: Vec<Vec<u32>>,
}

impl Encoding {
    /// Names of the coefficients, the intercept's first.
    pub fn coefficients(&self) -> Vec<String> {
        (0..self.features.len() + usize::from(self.intercept)).map(|j| self.coefficient(j)).collect()
    }

    /// The name of one of them.
    pub(crate) fn coefficient(&self, j: usize) -> String {
        let feature = j.checked_sub(usize::from(self.intercept)).map(|j| self.features[j].name.clone());
        feature.unwrap_or_else(|| "(Intercept)".into())
    }

    /// The data in a few lines: what, and its value.
    pub fn described(&self) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        let mut line = |what: &str, value: String| lines.push((what.to_string(), value));
        line("response", self.response.clone());
        let features: Vec<&str> = self.features.iter().map(|f| f.name.as_str()).collect();
        line("features", format!("{}: {}", features.len(), features.join(", ")));
        for coding in &self.columns {
            if let How::Levels { levels, reference } = &coding.how {
                let reference = reference.as_ref().map_or(String::new(), |r| format!(" (reference {r})"));
                line(&format!("levels of {}", coding.name), format!("{}{reference}", levels.join(", ")));
            }
        }
        for group in &self.groups {
            let sd = group.sd.map_or(String::new(), |sd| format!(", sd {sd}"));
            line(&format!("group {}", group.name), format!("{} levels{sd}", group.levels.len()));
        }
        for (what, column) in [("trials", &self.trials), ("offset", &self.offset), ("weights", &self.weights)]
        {
            column.iter().for_each(|name| line(what, name.clone()));
        }
        line("standardised", if self.standardise { "yes" } else { "no" }.into());
        lines
    }

    /// Center and scale of every feature: column j of the design is (x_j − center_j)/scale_j.
    pub fn center_and_scale(&self) -> (Vec<f64>, Vec<f64>) {
        let center = |f: &Feature| if self.standardise && self.intercept { f.mean } else { 0.0 };
        let scale = |f: &Feature| match f.unit.unwrap_or(f.sd) {
            unit if self.standardise && unit > 0.0 => unit,
            _ => 1.0,
        };
        (self.features.iter().map(center).collect(), self.features.iter().map(scale).collect())
    }

    /// Rows of new data. Missing values, unknown levels and unknown groups are refused by name and place. Weights are not asked for.
    pub fn encode(&self, source: &dyn Source, storage: &Storage) -> Result<Encoded, DataError> {
        let reader = Reader::new(self, source.columns(), false)?;
        let mut writer = Writer::new(self.features.len() + reader.extras.count(), storage);
        let mut codes = vec![Vec::new(); self.groups.len()];
        source.scan(&reader.wanted, &mut |batch| {
            for i in 0..batch.rows() {
                if let Some(c) = reader.missing(batch, i) {
                    return Err(DataError::BadData(format!(
                        "{} of column '{}' is missing, but a prediction needs it",
                        batch.place(i),
                        source.columns()[reader.wanted[c]].name
                    )));
                }
            }
            let keep: Vec<usize> = (0..batch.rows()).collect();
            writer.push(&reader.values(batch, &keep, &mut codes)?, keep.len())
        })?;
        Ok(Encoded { rows: Arc::new(writer.finish(reader.extras)?), codes })
    }
}

/// What a column's cells have become.
enum Cells {
    Numbers(Vec<f64>),
    Levels(Vec<u32>),
}

/// An encoding with the places of its columns in a source.
pub(crate) struct Reader<'a> {
    encoding: &'a Encoding,
    /// Columns of the source: those of the encoding, then response, trials, offset, weights as far as they are there.
    pub(crate) wanted: Vec<usize>,
    pub(crate) extras: Extras,
    levels: Vec<HashMap<&'a str, u32>>,
    groups: Vec<HashMap<&'a str, u32>>,
    names: Vec<&'a str>,
}

fn lookup(levels: &[String]) -> HashMap<&str, u32> {
    levels.iter().enumerate().map(|(k, level)| (level.as_str(), k as u32)).collect()
}

impl<'a> Reader<'a> {
    /// `fitting` asks for response and weights too.
    pub(crate) fn new(
        encoding: &'a Encoding,
        columns: &[ColumnInfo],
        fitting: bool,
    ) -> Result<Self, DataError> {
        let mut wanted = Vec::new();
        let mut names = Vec::new();
        for coding in &encoding.columns {
            let place = find(columns, &coding.name)?;
            check_kind(&columns[place], &coding.how)?;
            wanted.push(place);
            names.push(coding.name.as_str());
        }
        let roles = [
            Some(&encoding.response).filter(|_| fitting),
            encoding.trials.as_ref(),
            encoding.offset.as_ref(),
            encoding.weights.as_ref().filter(|_| fitting),
        ];
        for name in roles.into_iter().flatten() {
            let place = find(columns, name)?;
            check_kind(&columns[place], &How::Number)?;
            wanted.push(place);
            names.push(name);
        }
        let [response, trials, offset, weight] = roles.map(|name| name.is_some());
        let extras = Extras { response, trials, offset, weight };
        let levels = encoding.columns.iter().map(|c| match &c.how {
            How::Levels { levels, .. } => lookup(levels),
            _ => HashMap::new(),
        });
        let groups = encoding.groups.iter().map(|g| lookup(&g.levels)).collect();
        Ok(Self { encoding, levels: levels.collect(), groups, wanted, extras, names })
    }

    /// The first missing cell of row i, as a place in `wanted`.
    pub(crate) fn missing(&self, batch: &Batch<'_>, i: usize) -> Option<usize> {
        (0..self.wanted.len()).find(|&c| {
            let (column, row) = batch.cell(c, i);
            column.is_missing(row)
        })
    }

    /// The rows `keep` of a batch: the features and then the extras, column by column; levels of groups are appended to `codes`.
    pub(crate) fn values(
        &self,
        batch: &Batch<'_>,
        keep: &[usize],
        codes: &mut [Vec<u32>],
    ) -> Result<Vec<Vec<f64>>, DataError> {
        let codings = self.encoding.columns.iter().enumerate();
        let cells: Vec<Cells> =
            codings.map(|(c, coding)| self.cells(batch, c, &coding.how, keep)).collect::<Result<_, _>>()?;
        let features = self.encoding.features.iter().map(|feature| {
            let mut product = vec![1.0; keep.len()];
            for part in &feature.parts {
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
        for (feature, product) in self.encoding.features.iter().zip(&out) {
            if let Some(k) = product.iter().position(|x| !x.is_finite()) {
                return Err(DataError::BadData(format!(
                    "{}: the feature '{}' is {}, but a finite number is required",
                    batch.place(keep[k]),
                    feature.name,
                    product[k]
                )));
            }
        }
        for c in self.encoding.columns.len()..self.wanted.len() {
            out.push(self.numbers(batch, c, keep, 0.0)?);
        }
        let mut key = String::new();
        for (t, group) in self.encoding.groups.iter().enumerate() {
            for &i in keep {
                group_key(batch, &group.columns, i, &mut key);
                let code = self.groups[t].get(key.as_str()).ok_or_else(|| {
                    let without = if group.sd.is_none() {
                        ": groups new or population predicts without it"
                    } else {
                        ""
                    };
                    DataError::BadData(format!(
                        "{}: the group '{}' has no level '{}' in the fit{without}",
                        batch.place(i),
                        group.name,
                        key.replace(SEPARATOR, "/")
                    ))
                })?;
                codes[t].push(*code);
            }
        }
        Ok(out)
    }

    /// The numbers of a column of the encoding.
    pub(crate) fn column(&self, batch: &Batch<'_>, c: usize, keep: &[usize]) -> Result<Vec<f64>, DataError> {
        match self.cells(batch, c, &self.encoding.columns[c].how, keep)? {
            Cells::Numbers(x) => Ok(x),
            Cells::Levels(_) => Ok(Vec::new()),
        }
    }

    fn cells(&self, batch: &Batch<'_>, c: usize, how: &How, keep: &[usize]) -> Result<Cells, DataError> {
        match how {
            How::Number | How::Boolean => Ok(Cells::Numbers(self.numbers(batch, c, keep, 0.0)?)),
            How::Days { first } => Ok(Cells::Numbers(self.numbers(batch, c, keep, *first)?)),
            How::Label => Ok(Cells::Levels(Vec::new())),
            How::Levels { levels, .. } => {
                let code = |&i: &usize| {
                    let label = label(batch, c, i);
                    self.levels[c].get(label.as_ref()).copied().ok_or_else(|| {
                        let shown = levels[..levels.len().min(10)].join(", ");
                        DataError::BadData(format!(
                            "{}: column '{}' has the level '{label}', which the fit does not know; it knows {shown}{}",
                            batch.place(i),
                            self.names[c],
                            if levels.len() > 10 { ", …" } else { "" }
                        ))
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
                _ => Err(DataError::BadData(format!(
                    "{} of column '{}' is '{}', but a finite number is required",
                    batch.place(i),
                    self.names[c],
                    column.label(row)
                ))),
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
fn check_kind(column: &ColumnInfo, how: &How) -> Result<(), DataError> {
    let (name, kind) = (&column.name, &column.kind);
    let needed = match (how, kind) {
        (_, Kind::Mixed(words)) => return Err(DataError::BadData(words.clone())),
        (_, Kind::Other(_)) => "numbers, truth values, text or dates",
        (_, Kind::Empty) => "a value in every row that is used",
        (How::Number | How::Boolean, Kind::Text | Kind::Date) => "numbers or truth values",
        (How::Days { .. }, Kind::Number | Kind::Boolean | Kind::Text) => "dates",
        _ => return Ok(()),
    };
    Err(DataError::BadData(format!("column '{name}' holds {}; required: {needed}", kind.words())))
}

/// The note on a column of dates.
pub(crate) fn date_note(name: &str, first: f64) -> String {
    format!("'{name}' counts the days since {}, its first date", date_label(first))
}
