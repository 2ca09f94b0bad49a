//! Columns, cells and rows that do not fit the request.

use super::words::{no_rows, of, prefix, without_group, wrong_kind};
use crate::kind::Kind;
use crate::left::UnusedColumn;
use crate::names::quoted;
use crate::nearest::{first_names, nearest_of};

/// What is wrong with the data. A `place` is a row in words, such as "row 3 of trips.csv".
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnError {
    /// A column that there is none of.
    #[error("{}there is no column '{name}'{}", prefix(within), nearest_of(available, name))]
    NotFound {
        /// Its name.
        name: String,
        /// What asks for it, if not the request itself.
        within: Option<String>,
        /// The columns that there are.
        available: Vec<String>,
    },
    /// Two columns of one name.
    #[error("two columns{} are called '{name}': rename one", of(file))]
    Repeated {
        /// The name.
        name: String,
        /// The file, if there is one.
        file: Option<String>,
    },
    /// Columns of different lengths.
    #[error("column '{column}' has {rows} rows, but '{other}' has {other_rows}")]
    Lengths {
        /// One column.
        column: String,
        /// Its rows.
        rows: usize,
        /// The other column.
        other: String,
        /// Its rows.
        other_rows: usize,
    },
    /// A column whose cells are of the wrong kind.
    #[error("{role} '{name}' holds {}{}", kind.words(), wrong_kind(first_cell, required))]
    WrongKind {
        /// Such as `column` or `the response`.
        role: String,
        /// Its name.
        name: String,
        /// What it holds.
        kind: Box<Kind>,
        /// Its first cell and where it is, if that was looked for.
        first_cell: Option<String>,
        /// What it must hold.
        required: &'static str,
    },
    /// A column of numbers and text.
    #[error(
        "column '{name}' mixes numbers and text: the first number is {number}, the first other cell {other}; if they \
            are levels, write factor({}) in a formula or name the column in `categorical`; else correct the cells or \
            leave the column out",
        quoted(name)
    )]
    Mixed {
        /// Its name.
        name: String,
        /// The first number, and where it is.
        number: String,
        /// The first other cell, and where it is.
        other: String,
    },
    /// A column of whole numbers that are not exact as 64-bit floats.
    #[error(
        "column '{name}' holds whole numbers of more digits than a number keeps, the first {first}: they may be \
            names; leave the column out, or write factor({}) in a formula",
        quoted(name)
    )]
    Inexact {
        /// Its name.
        name: String,
        /// The first of them, and where it is.
        first: String,
    },
    /// A whole number that is not exact as a 64-bit float.
    #[error(
        "{place} of column '{name}' is about {value}, a whole number of more digits than a number keeps: it may be a \
            name; leave the column out or make it text (on the command line with --sql, cast({name} as varchar))"
    )]
    InexactCell {
        /// Which row.
        place: String,
        /// The column.
        name: String,
        /// The nearest 64-bit float.
        value: f64,
    },
    /// A column of a file whose cells cannot be converted.
    #[error("column '{name}' of type {data_type} can't be read: {reason}")]
    Unreadable {
        /// Its name.
        name: String,
        /// Its type in the file.
        data_type: String,
        /// Why not.
        reason: String,
    },
    /// A cell out of its range.
    #[error("{place}{subject} is {value}, but {required} is required")]
    Value {
        /// Which row.
        place: String,
        /// Of what.
        subject: Subject,
        /// What it is.
        value: String,
        /// What it must be.
        required: &'static str,
    },
    /// A response that the likelihood does not have.
    #[error("{place}, column '{column}': {reason}")]
    Response {
        /// Which row.
        place: String,
        /// The column of responses.
        column: String,
        /// What it is, and what it must be.
        reason: String,
    },
    /// A binary response without two levels.
    #[error(
        "the response '{column}' has {} ({}), but two levels are required{}",
        if levels.len() == 1 { "one level only".into() } else { format!("{} levels", levels.len()) },
        first_names(levels, 10),
        if levels.len() == 1 { ", or say which is the event (`event`)" } else { "" }
    )]
    ResponseLevels {
        /// The column.
        column: String,
        /// Its levels.
        levels: Vec<String>,
    },
    /// An event that is no level of the response.
    #[error("the response '{column}' has no level '{level}'{}", nearest_of(known, level))]
    UnknownEvent {
        /// The column.
        column: String,
        /// The level named.
        level: String,
        /// Its levels.
        known: Vec<String>,
    },
    /// A reference level that there is none of.
    #[error(
        "column '{column}' has no level '{level}' that could be the reference{}",
        nearest_of(known, level)
    )]
    UnknownReference {
        /// The column.
        column: String,
        /// The level named.
        level: String,
        /// Its levels.
        known: Vec<String>,
    },
    /// Too few different values for a basis.
    #[error("{term} needs at least {needed} different values, but there are {found}: use fewer columns")]
    TooFewValues {
        /// The term.
        term: String,
        /// Values that it needs.
        needed: usize,
        /// Values that there are.
        found: usize,
    },
    /// Missing values in the data of a fit.
    #[error(
        "{incomplete} of {rows} rows {} missing values: {}; fill them in, leave these columns out, or leave out the \
            rows (`missing` drop)",
        if *incomplete == 1 { "has" } else { "have" },
        each_missing(columns)
    )]
    Missing {
        /// Rows with a missing value.
        incomplete: usize,
        /// All rows.
        rows: usize,
        /// The columns with missing values.
        columns: Vec<MissingIn>,
    },
    /// A missing value in new data.
    #[error("{place} of column '{column}' is missing, but a prediction needs it")]
    MissingInNewData {
        /// Which row.
        place: String,
        /// The column.
        column: String,
    },
    /// A row without a key.
    #[error(
        "{place} has no value of the key '{key}', so its model is unknown: fill it in, or leave out such rows \
            (`missing` drop)"
    )]
    MissingKey {
        /// Which row.
        place: String,
        /// The key column.
        key: String,
    },
    /// No complete row.
    #[error("{}", no_rows(*incomplete))]
    NoRows {
        /// Rows with a missing value.
        incomplete: usize,
    },
    /// No feature.
    #[error("no feature is left{0}")]
    NoFeature(NoFeature),
    /// A column of text with too many values for a feature.
    #[error(
        "column '{column}' has more than {most} different values, too many for a feature: make it a group or leave it \
            out"
    )]
    TooManyLevels {
        /// The column.
        column: String,
        /// How many it may have.
        most: usize,
    },
    /// A key column with too many values.
    #[error("the key '{key}' has more than {most} values")]
    TooManyKeys {
        /// The key column.
        key: String,
        /// How many it may have.
        most: u32,
    },
    /// A level that was not in the data of the fit.
    #[error(
        "{place}: column '{column}' has the level '{level}', which was not in the data of the fit; its levels are {}",
        first_names(known, 10)
    )]
    UnknownLevel {
        /// Which row.
        place: String,
        /// The column.
        column: String,
        /// The level.
        level: String,
        /// The levels of the fit.
        known: Vec<String>,
    },
    /// A level of a group that was not in the data of the fit.
    #[error("{place}: the group '{group}' has no level '{level}' in the fit{}", without_group(*predictable))]
    UnknownGroupLevel {
        /// Which row.
        place: String,
        /// The group.
        group: String,
        /// The level.
        level: String,
        /// True if predictions can be made without the effect of the group.
        predictable: bool,
    },
    /// A key that appeared between two passes over the data.
    #[error("{place}: the key '{key}' was not there when the data were first read: they changed meanwhile")]
    NewKey {
        /// Which row.
        place: String,
        /// The key.
        key: String,
    },
    /// Rows of a group that appeared or disappeared between two passes over the data.
    #[error("the rows of the group '{key}' changed between two passes over the data")]
    RowsChanged {
        /// The key of the group.
        key: String,
    },
    /// A column of a group that was not kept in memory.
    #[error("column '{name}' was not kept, because no model uses it")]
    NotKept {
        /// Its name.
        name: String,
    },
}

/// What a value belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A column.
    Column(String),
    /// A feature of the design.
    Feature(String),
    /// A number that is computed, in words.
    Computed(String),
    /// The offset of a row.
    Offset,
    /// The weight of a row.
    Weight,
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Column(name) => write!(f, " of column '{name}'"),
            Self::Feature(name) => write!(f, ": the feature '{name}'"),
            Self::Computed(what) => write!(f, ": {what}"),
            Self::Offset => f.write_str(": the offset"),
            Self::Weight => f.write_str(": the weight"),
        }
    }
}

/// The missing values of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingIn {
    /// The column.
    pub column: String,
    /// How many.
    pub count: usize,
    /// Where the first is.
    pub first: String,
}

impl std::fmt::Display for MissingIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let values = if self.count == 1 { "value" } else { "values" };
        write!(f, "'{}' has {} missing {values}", self.column, self.count)
    }
}

/// Why there is no feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoFeature {
    /// There is no column and no intercept.
    NoColumn,
    /// Every column has another role.
    OtherRoles,
    /// No column holds numbers; the first of them with its first cell.
    NotNumbers(UnusedColumn, String),
    /// Every term has a column of text with one level, which is the reference.
    OneLevel,
    /// All were dropped.
    Dropped(Vec<UnusedColumn>),
}

impl std::fmt::Display for NoFeature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoColumn => f.write_str(": there is no column and no intercept"),
            Self::OneLevel => f.write_str(": every term has a column of text with one level only"),
            Self::OtherRoles => f.write_str(" among all columns of numbers: every column has another role"),
            Self::NotNumbers(left, cell) => write!(
                f,
                " among all columns of numbers: '{}' {}, its first cell is {cell}",
                left.name, left.reason
            ),
            Self::Dropped(dropped) => {
                let each: Vec<String> =
                    dropped.iter().map(|left| format!("'{}' {}", left.name, left.reason)).collect();
                write!(f, ": {}", each.join("; "))
            }
        }
    }
}

impl ColumnError {
    /// The error of a column that can be read neither as numbers nor as text.
    pub(crate) fn unclear(name: &str, kind: &Kind) -> Option<Self> {
        let name = name.to_string();
        match kind.clone() {
            Kind::Mixed { number, other } => Some(Self::Mixed { name, number, other }),
            Kind::Inexact { first } => Some(Self::Inexact { name, first }),
            _ => None,
        }
    }
}

impl ColumnError {
    pub(crate) fn wrong_kind(role: &str, name: &str, kind: &Kind, required: &'static str) -> Self {
        let (role, name, kind) = (role.into(), name.into(), Box::new(kind.clone()));
        Self::WrongKind { role, name, kind, first_cell: None, required }
    }

    pub(crate) fn not_finite(place: String, subject: Subject, value: String) -> Self {
        Self::Value { place, subject, value, required: "a finite number" }
    }

    pub(crate) fn weight(place: String, value: f64) -> Self {
        let (subject, value) = (Subject::Weight, value.to_string());
        Self::Value { place, subject, value, required: "a number of at least 0" }
    }
}

fn each_missing(columns: &[MissingIn]) -> String {
    let each: Vec<String> =
        columns.iter().map(|missing| format!("{missing}, the first in {}", missing.first)).collect();
    each.join("; ")
}
