//! What a column holds.

/// What a column holds.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum Kind {
    /// Numbers.
    Number,
    /// Truth values.
    Boolean,
    /// Text.
    Text,
    /// Dates.
    Date,
    /// Numbers and text in one column.
    Mixed {
        /// The first number, and where it is.
        number: String,
        /// The first other cell, and where it is.
        other: String,
    },
    /// Whole numbers that are not all exact as 64-bit floats.
    Inexact {
        /// The first of them, and where it is.
        first: String,
    },
    /// No value in any row.
    Empty,
    /// A type of the file that is no column of cells, such as a list.
    Other(String),
}

impl Kind {
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Number => "numbers".into(),
            Self::Boolean => "truth values".into(),
            Self::Text => "text".into(),
            Self::Date => "dates".into(),
            Self::Mixed { .. } => "numbers and text mixed".into(),
            Self::Inexact { .. } => "whole numbers of too many digits".into(),
            Self::Empty => "no value at all".into(),
            Self::Other(name) => format!("cells of type {name}"),
        }
    }
}
