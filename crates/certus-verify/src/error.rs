//! Why a claim could not be looked at.

/// Every error of this crate. A claim that was looked at and not confirmed is no error: its verdict says why.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The parts of the claim do not fit together, or one is no legal value.
    #[error("{0}")]
    Malformed(String),
    /// A row that its likelihood refuses.
    #[error("row {row}: {reason}")]
    Row {
        /// Which, from 0.
        row: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A line of a file that cannot be read.
    #[error("line {line}: {reason}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A claim that is out of the checker's scope.
    #[error("{0}")]
    Declined(String),
    /// A likelihood that there is none of.
    #[error(transparent)]
    Likelihood(#[from] certus_likelihood::Error),
}
