//! What is wrong with a formula, with the place and what to write instead.

use std::fmt;

/// A formula that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormulaError {
    /// The formula.
    pub text: String,
    /// Where in it, in bytes.
    pub at: usize,
    /// What is wrong there.
    pub fault: Fault,
}

/// What is wrong at a place of a formula.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Something else was expected.
    #[error("{expected} is required here, but {}", found_words(found))]
    Expected {
        /// What.
        expected: &'static str,
        /// What is there; `None` at the end.
        found: Option<char>,
    },
    /// No response.
    #[error(
        "there is no response: write y ~ {}, with the name of the response before ~",
        if *tilde { "…" } else { "x" }
    )]
    NoResponse {
        /// True if there is a `~`.
        tilde: bool,
    },
    /// A function that formulas do not have.
    #[error(
        "{call} is not supported in formulas: there are log, log2, log10, log1p, sqrt, exp, abs, I(x^2), scale, \
            poly, bs, ns, factor and offset; make any other column first, on the command line with --sql \"SELECT *, \
            x*x AS new FROM data\""
    )]
    Function {
        /// The call.
        call: String,
    },
    /// `C(x)` or `as.factor(x)`.
    #[error("{call}: write factor({column}), or factor({column}, ref=\"level\")")]
    Factor {
        /// The call.
        call: String,
        /// The column.
        column: String,
    },
    /// A factor of something that is no column.
    #[error("factor() takes a column, but {call} was found")]
    FactorOf {
        /// What was found.
        call: String,
    },
    /// A group that is no column.
    #[error("the levels of a group are the cells of a column, but {call} was found: make the column first")]
    GroupOf {
        /// What was found.
        call: String,
    },
    /// A call without a column.
    #[error("{call} is the same in every row: name a column in it")]
    NoColumn {
        /// The call.
        call: String,
    },
    /// A response that is computed.
    #[error(
        "the response is {call}, but a column is required: compute it first, as a column of its own (on the command \
            line --sql \"SELECT *, ln(y) AS log_y FROM data\")"
    )]
    Response {
        /// The call.
        call: String,
    },
    /// Failures that are not trials less successes.
    #[error(
        "{call} does not name the trials: write p(successes, trials), or cbind(successes, trials - successes); compute \
            trials first if there is only a column of failures (on the command line --sql \"SELECT *, yes + no AS n \
            FROM data\")"
    )]
    Failures {
        /// The call.
        call: String,
    },
    /// `.`, every other column.
    #[error(
        "'.' stands for all other columns, alone, y ~ . or y ~ . - a + log(b): write products and the effects of \
            groups with the names of columns"
    )]
    Dot,
    /// A sign that formulas of R have and these do not.
    #[error("'{sign}' is not supported here: {instead}")]
    Sign {
        /// The sign.
        sign: char,
        /// What to write.
        instead: &'static str,
    },
    /// Parentheses without a bar.
    #[error("parentheses are for group terms only, such as (1 | g): write the terms out")]
    Parentheses,
    /// A number other than 0 and 1.
    #[error(
        "'{number}' is not a term: only 0 (no intercept) and 1 (intercept) are; a name that begins with a digit \
        stands between backquotes"
    )]
    Number {
        /// The number.
        number: String,
    },
    /// A number within a product.
    #[error("a number cannot be part of a product: write + or - before and after it")]
    NumberInProduct,
    /// A term that is removed and is not there.
    #[error(
        "- {term} removes a term, but there is no {term} before it; a name with a dash stands between backquotes"
    )]
    Absent {
        /// The term.
        term: String,
    },
    /// A group term or an offset that is removed.
    #[error("only terms and the intercept can be removed: leave {what} out instead")]
    Removed {
        /// What.
        what: &'static str,
    },
    /// A second offset.
    #[error("there are two offsets: write their sum, offset(a + log(b))")]
    TwoOffsets,
    /// An offset among the effects of a group.
    #[error("an offset has no effect that could vary by group: write it outside of the parentheses")]
    OffsetByGroup,
    /// A group term without effects.
    #[error(
        "nothing varies by {group}: write (1 | {group}) for an intercept, or (0 + x | {group}) for a slope"
    )]
    NothingVaries {
        /// The group.
        group: String,
    },
    /// A backquote without its pair.
    #[error("this backquote is never closed: write `name`")]
    Backquote,
    /// A product of too many columns.
    #[error(
        "a product of {count} columns written with * has {} terms: write out those that are needed",
        (1_u128 << count) - 1
    )]
    TooMany {
        /// How many columns.
        count: usize,
    },
}

fn found_words(found: &Option<char>) -> String {
    match found {
        Some(c) if c.is_control() => format!("character {:x} was found", u32::from(*c)),
        Some(c) => format!("'{c}' was found"),
        None => "the formula ends".into(),
    }
}

impl fmt::Display for FormulaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let column = self.text[..self.at].chars().count();
        writeln!(f, "the formula cannot be read at character {}:\n  {shown}\n  {:column$}^", column + 1, "")?;
        write!(f, "{}", self.fault)
    }
}

impl std::error::Error for FormulaError {}
