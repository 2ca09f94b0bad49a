//! R's formulas: `y ~ a*b + (1 + a | g)`, for the command line and Python alike.

mod error;
mod expression;
mod left;
mod lex;
mod offset;
mod parse;
mod pieces;
mod request;
mod variable;

use std::fmt;
use std::str::FromStr;

pub use error::{Fault, FormulaError};
pub use expression::{Expression, Function};
pub(crate) use left::response_columns;
pub use offset::Offset;
pub use pieces::{GroupPiece, Pieces};
pub use variable::{Basis, Variable};

use crate::names::{quoted, quoted_level, split};

/// What a formula asks for, products and nested groups written out.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    /// The column on the left, or the name of what is computed there.
    pub response: String,
    /// What the left side computes from columns, `log(y)`.
    pub computed: Option<Expression>,
    /// The column of trials, where the left side counts successes: `p(y, n)`, `cbind(y, n - y)`, `y | trials(n)`.
    pub trials: Option<String>,
    /// The level that counts as 1, of `y['yes']`.
    pub event: Option<String>,
    /// False after `0 +` or `- 1`.
    pub intercept: bool,
    /// The fixed effects, in the order of the formula, each once.
    pub fixed: Vec<Term>,
    /// With `.`, every other column is a fixed effect, but for these: `. - a`.
    pub others: Option<Vec<String>>,
    /// The random effects; `(1 | a/b)` is `(1 | a) + (1 | a:b)`.
    pub groups: Vec<GroupTerm>,
    /// What `offset(x)` adds to the linear predictor.
    pub offset: Option<Offset>,
}

/// A variable, or the product of several, `a:b`.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// The variables, each once.
    pub variables: Vec<Variable>,
}

/// One group term, `(1 + a | g)`: per level of `g`, effects that are normal with mean 0 and one covariance matrix for
/// all levels.
#[derive(Clone, Debug, PartialEq)]
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
    /// True for the same variables in any order.
    pub fn is_same(&self, other: &Self) -> bool {
        let (own, other) = (&self.variables, &other.variables);
        own.len() == other.len() && own.iter().all(|variable| other.contains(variable))
    }

    /// As a setting names it: variables with `:` between them, names with or without backquotes.
    pub(crate) fn of_text(text: &str) -> Self {
        Self { variables: split(text, &[':']).into_iter().map(Variable::of_text).collect() }
    }

    /// The column, if it is one and nothing else.
    pub fn as_column(&self) -> Option<&str> {
        match &self.variables[..] {
            [Variable::Column(name)] => Some(name),
            _ => None,
        }
    }

    /// The columns it is made of.
    pub fn columns(&self) -> Vec<&str> {
        self.variables.iter().flat_map(Variable::columns).collect()
    }

    /// Its name among the coefficients, if none of its variables has levels.
    pub(crate) fn label(&self) -> String {
        self.variables.iter().map(Variable::label).collect::<Vec<_>>().join(":")
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
        let names: Vec<String> = self.variables.iter().map(Variable::to_string).collect();
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
        let offset = self.offset.iter().map(|offset| format!("offset({offset})"));
        let without =
            |names: &[String]| names.iter().map(|name| format!(" - {}", quoted(name))).collect::<String>();
        let others = self.others.iter().map(|names| format!(".{}", without(names)));
        // before the terms: what is taken from the dot is taken from everything before it
        let mut all = sum(self.intercept, &self.fixed);
        all.splice(1..1, others);
        all.extend(groups.chain(offset));
        let own = quoted(&self.response);
        let left = match (&self.trials, &self.event) {
            _ if self.computed.is_some() => self.response.clone(),
            (Some(trials), _) => format!("p({own}, {})", quoted(trials)),
            (None, Some(event)) => format!("{own}[{}]", quoted_level(event)),
            (None, None) => own.into_owned(),
        };
        write!(f, "{left} ~ {}", all.join(" + "))
    }
}
