//! R's formulas: `y ~ a*b + (1 + a | g)`, for the command line and Python alike.

mod error;
mod parse;
mod pieces;
mod request;

use std::fmt;
use std::str::FromStr;

pub use error::{Fault, FormulaError};
pub use pieces::{GroupPiece, Pieces};

use crate::names::{quoted, same};

/// What a formula asks for, products and nested groups written out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formula {
    /// The column on the left.
    pub response: String,
    /// False after `0 +` or `- 1`.
    pub intercept: bool,
    /// The fixed effects, in the order of the formula, each once.
    pub fixed: Vec<Term>,
    /// The random effects; `(1 | a/b)` is `(1 | a) + (1 | a:b)`.
    pub groups: Vec<GroupTerm>,
    /// The column of `offset(x)`.
    pub offset: Option<String>,
}

/// A column, or the product of columns, `a:b`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The columns, each once.
    pub columns: Vec<String>,
}

/// One group term, `(1 + a | g)`: per level of `g`, effects that are normal with mean 0 and one covariance matrix for
/// all levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupTerm {
    /// The columns whose labels together are a level: one for `g`, two for `a:b`.
    pub factor: Vec<String>,
    /// True if the intercept is one of the effects.
    pub intercept: bool,
    /// The other effects.
    pub effects: Vec<Term>,
    /// True if their covariance matrix is full (`|`), false if it is diagonal (`||`).
    pub correlated: bool,
}

impl Term {
    /// True for the same columns in any order.
    pub fn is_same(&self, other: &Self) -> bool {
        same(&self.columns, &other.columns)
    }
}

impl GroupTerm {
    /// How many effects it has, a column of levels counted once.
    pub fn count(&self) -> usize {
        usize::from(self.intercept) + self.effects.len()
    }
}

impl FromStr for Formula {
    type Err = FormulaError;

    fn from_str(text: &str) -> Result<Self, FormulaError> {
        parse::formula(text)
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.columns.iter().map(|name| quoted(name)).collect();
        f.write_str(&names.join(":"))
    }
}

/// A sum, of `0` or `1` and terms.
fn sum(intercept: bool, terms: &[Term]) -> Vec<String> {
    let first = if intercept { "1" } else { "0" };
    [first.to_string()].into_iter().chain(terms.iter().map(Term::to_string)).collect()
}

impl fmt::Display for GroupTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effects = sum(self.intercept, &self.effects).join(" + ");
        let bar = if self.correlated { "|" } else { "||" };
        let factor: Vec<_> = self.factor.iter().map(|name| quoted(name)).collect();
        write!(f, "({effects} {bar} {})", factor.join(":"))
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = self.groups.iter().map(ToString::to_string);
        let offset = self.offset.iter().map(|name| format!("offset({})", quoted(name)));
        let all: Vec<String> =
            sum(self.intercept, &self.fixed).into_iter().chain(groups).chain(offset).collect();
        write!(f, "{} ~ {}", quoted(&self.response), all.join(" + "))
    }
}
