//! How cells become numbers: kept with a fit, so that new data are read the way the old ones were.

use std::sync::Arc;

use certus_models::rows::Rows;
use serde::{Deserialize, Serialize};

use crate::basis::FittedBasis;
use crate::error::{ColumnError, DataError};
use crate::event::Event;
use crate::formula::{Expression, Offset, response_columns};
use crate::table::date_label;

/// Between the parts of a nested level's name, where nobody writes it.
pub(crate) const SEPARATOR: char = '\u{1f}';

/// The name of the intercept.
pub(crate) const INTERCEPT: &str = "(Intercept)";

/// How the cells of a column are read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnEncoding {
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
    /// As numbers that are computed from columns.
    Computed {
        /// The number per row.
        of: Expression,
        /// What is made of it.
        basis: FittedBasis,
    },
}

/// What is read from the cells of a column, without what only the data tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// [`ColumnEncoding::Number`].
    Number,
    /// [`ColumnEncoding::Boolean`].
    Boolean,
    /// [`ColumnEncoding::Days`].
    Days,
    /// [`ColumnEncoding::Levels`].
    Levels,
    /// [`ColumnEncoding::Label`].
    Label,
    /// [`ColumnEncoding::Computed`].
    Computed,
}

impl ColumnEncoding {
    pub(crate) fn reading(&self) -> Reading {
        match self {
            Self::Number => Reading::Number,
            Self::Boolean => Reading::Boolean,
            Self::Days { .. } => Reading::Days,
            Self::Levels { .. } => Reading::Levels,
            Self::Label => Reading::Label,
            Self::Computed { .. } => Reading::Computed,
        }
    }
}

/// A variable of the terms, or a column of labels, and how it is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Coding {
    /// Its name: that of the column, or such as `factor(x)`, `poly(x, 2)`.
    pub name: String,
    /// How it is read.
    pub how: ColumnEncoding,
    /// The column, if it has another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
}

impl Coding {
    /// The columns of the source that it is read from.
    pub fn columns(&self) -> Vec<&str> {
        match (&self.how, &self.column) {
            (ColumnEncoding::Computed { of, .. }, _) => of.columns(),
            (_, Some(column)) => vec![column],
            (_, None) => vec![&self.name],
        }
    }
}

/// One factor of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Which of [`Encoding::columns`].
    pub column: usize,
    /// The level that counts as 1, the others as 0; `None` for the number itself.
    pub level: Option<u32>,
    /// Which function of a basis of several; `None` for the number itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<u32>,
}

impl Part {
    /// The number of a column itself.
    pub fn number(column: usize) -> Self {
        Self { column, level: None, function: None }
    }
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
    /// What the design divides by, so that a prior is about one of it (docs/priors.md, P1): the sd of a number, the
    /// distance between the values of a column that has two, 1 for a level, the product of these over the parts of an
    /// interaction. Absent in older fits: the sd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<f64>,
}

/// A column that varies by group around 0, because it is not among the features: the product of its parts, 1 without
/// any.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EffectColumn {
    /// Such as `rain` or `city[Utrecht]`; `(Intercept)` without parts.
    pub name: String,
    /// What is multiplied.
    pub parts: Vec<Part>,
    /// What it is divided by ([`Feature::unit`]).
    pub unit: f64,
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
    /// Which columns vary: 0 is the intercept if there is one, then the features, then [`Encoding::effects`].
    pub slopes: Vec<usize>,
    /// Their standard deviation between groups, if it is given.
    pub sd: Option<f64>,
    /// The group this one is nested in.
    pub within: Option<usize>,
    /// True if several coefficients vary and are correlated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub correlated: bool,
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
    /// What is computed from columns as the response, under that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computed: Option<Expression>,
    /// Columns that features and groups are made of.
    pub columns: Vec<Coding>,
    /// The features, in the order of the design.
    pub features: Vec<Feature>,
    /// The groups.
    pub groups: Vec<Group>,
    /// What varies by group without being a feature.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<EffectColumn>,
    /// Column of trials.
    pub trials: Option<String>,
    /// The offset.
    pub offset: Option<Offset>,
    /// Column of weights.
    pub weights: Option<String>,
    /// The event of a binary response that is not 0 and 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Event>,
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
    /// The columns of [`Encoding::effects`].
    pub effects: Vec<Vec<f64>>,
}

/// Rows of new data in which a value that is needed is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Their places among all rows.
    pub rows: Vec<usize>,
    /// The first such row in words, and the column.
    pub first: Option<(String, String)>,
}

impl Gaps {
    /// An error if there is any.
    pub fn refuse(self) -> Result<(), DataError> {
        match self.first {
            Some((place, column)) => Err(ColumnError::MissingInNewData { place, column }.into()),
            None => Ok(()),
        }
    }
}

impl Encoding {
    /// Names of the coefficients, the intercept's first.
    pub fn coefficients(&self) -> Vec<String> {
        (0..self.features.len() + usize::from(self.intercept)).map(|j| self.coefficient(j)).collect()
    }

    /// Names of what may vary by group: the coefficients, and what is none.
    pub fn varying(&self) -> Vec<String> {
        let effects = self.effects.iter().map(|effect| effect.name.clone());
        self.coefficients().into_iter().chain(effects).collect()
    }

    /// The name of one of them, or of what varies by group without being one.
    pub fn coefficient(&self, j: usize) -> String {
        let feature = j.checked_sub(usize::from(self.intercept));
        let name = feature.map(|j| match self.features.get(j) {
            Some(feature) => feature.name.clone(),
            None => self.effects[j - self.features.len()].name.clone(),
        });
        name.unwrap_or_else(|| INTERCEPT.into())
    }

    /// What varies by group as column `j` of [`Group::slopes`] without being a feature: its place among
    /// [`Encoding::effects`].
    pub fn effect(&self, j: usize) -> Option<usize> {
        j.checked_sub(usize::from(self.intercept) + self.features.len())
    }

    /// True if column `j` of [`Group::slopes`] is an intercept, that of all rows or one that only varies.
    pub fn is_intercept(&self, j: usize) -> bool {
        match self.effect(j) {
            Some(effect) => self.effects[effect].parts.is_empty(),
            None => self.intercept && j == 0,
        }
    }

    /// The columns that the response is read from.
    pub fn response_columns(&self) -> Vec<&str> {
        response_columns(&self.response, self.computed.as_ref())
    }

    /// The data in a few lines: what, and its value.
    pub fn described(&self) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        let mut line = |what: &str, value: String| lines.push((what.to_string(), value));
        let event = self.event.as_ref().map_or(String::new(), |event| format!(", event {}", event.level));
        line("response", format!("{}{event}", self.response));
        let features: Vec<&str> = self.features.iter().map(|f| f.name.as_str()).collect();
        line("features", format!("{}: {}", features.len(), features.join(", ")));
        for coding in &self.columns {
            if let ColumnEncoding::Levels { levels, reference } = &coding.how {
                let reference = reference.as_ref().map_or(String::new(), |r| format!(" (reference {r})"));
                line(&format!("levels of {}", coding.name), format!("{}{reference}", levels.join(", ")));
            }
        }
        for group in &self.groups {
            let sd = group.sd.map_or(String::new(), |sd| format!(", sd {sd}"));
            line(&format!("group {}", group.name), format!("{} levels{sd}", group.levels.len()));
        }
        let offset = self.offset.as_ref().map(|offset| match offset {
            Offset::Column(name) => name.clone(),
            computed => computed.to_string(),
        });
        for (what, column) in [("trials", &self.trials), ("offset", &offset), ("weights", &self.weights)] {
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
}

/// The note on a column of dates.
pub(crate) fn date_note(name: &str, first: f64) -> String {
    format!("'{name}' is measured in days since {}, its first date", date_label(first))
}
