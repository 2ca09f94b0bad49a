//! What is added to the linear predictor with a coefficient of 1.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::expression::{Expression, Function};
use crate::names::quoted;

/// An offset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Offset {
    /// A column.
    Column(String),
    /// A number computed from columns.
    Computed {
        /// The number.
        of: Expression,
    },
}

impl Offset {
    /// The logarithm of a column of exposures, with another offset if there is one.
    pub fn exposure(column: &str, other: Option<Self>) -> Self {
        let column = Expression::Column(column.into());
        let log = Expression::Of(Function::Log, Box::new(column));
        Self::Computed {
            of: match other {
                Some(other) => Expression::Two('+', Box::new(other.expression()), Box::new(log)),
                None => log,
            },
        }
    }

    /// As a number per row.
    pub fn expression(&self) -> Expression {
        match self {
            Self::Column(name) => Expression::Column(name.clone()),
            Self::Computed { of } => of.clone(),
        }
    }

    /// The columns it is made of.
    pub fn columns(&self) -> Vec<&str> {
        match self {
            Self::Column(name) => vec![name],
            Self::Computed { of } => of.columns(),
        }
    }
}

impl From<&str> for Offset {
    fn from(column: &str) -> Self {
        Self::Column(column.into())
    }
}

impl From<String> for Offset {
    fn from(column: String) -> Self {
        Self::Column(column)
    }
}

/// As a formula writes it.
impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(name) => f.write_str(&quoted(name)),
            Self::Computed { of } => write!(f, "{of}"),
        }
    }
}
