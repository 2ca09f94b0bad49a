//! What can go wrong before a run starts or because of its input; how a run *ended* is a
//! [`Status`](crate::fit::Status).

use std::fmt::Display;

/// An error of user code inside a [`Target`](crate::target::Target), carried back unchanged.
pub type TargetError = Box<dyn std::error::Error + Send + Sync>;

/// What a target returns that was told to stop: no fault of its own. A run ends with what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped")]
pub struct Stopped;

/// Every error of the core. Each message names the value, the place, what was required and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two things that must have the same size do not.
    #[error("{what} has {found} entries, but {expected} are required")]
    Dimension {
        /// What was measured.
        what: &'static str,
        /// The required size.
        expected: usize,
        /// The size found.
        found: usize,
    },
    /// A setting or constant outside its range.
    #[error("{name} is {value}, but {required}")]
    Invalid {
        /// The setting's name.
        name: &'static str,
        /// Its value, printed.
        value: String,
        /// What is required and what to do.
        required: &'static str,
    },
    /// An estimator, an update and a family of factors that no theorem allows together.
    #[error("{combination} is not a valid method: {reason}")]
    IllegalMethod {
        /// The combination asked for.
        combination: String,
        /// Why there is no theorem, and what to use instead.
        reason: &'static str,
    },
    /// A constant is needed that nobody gave.
    #[error("{needed} is not known: {remedy}")]
    Missing {
        /// The constant.
        needed: &'static str,
        /// Who can give it.
        remedy: &'static str,
    },
    /// A factor, density or gradient that is not finite (or not positive where it must be).
    #[error("{what} is {value} at {place}")]
    NonFinite {
        /// Which quantity.
        what: &'static str,
        /// The value seen.
        value: f64,
        /// Where: iteration, sample, coordinate.
        place: String,
    },
    /// The user's log density returned an error.
    #[error("the log density failed: {0}")]
    Target(#[source] TargetError),
    /// A saved state that does not belong to this plan or is damaged.
    #[error("the saved state cannot be used: {0}")]
    BadState(String),
}

impl Error {
    pub(crate) fn invalid(name: &'static str, value: impl Display, required: &'static str) -> Self {
        Self::Invalid { name, value: value.to_string(), required }
    }
}

/// Checks that `found` equals `expected`.
pub(crate) fn same_length(what: &'static str, expected: usize, found: usize) -> Result<(), Error> {
    if expected == found { Ok(()) } else { Err(Error::Dimension { what, expected, found }) }
}
