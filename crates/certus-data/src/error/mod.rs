//! What can go wrong between a user's columns and the rows of a model.

mod column;
mod file;
mod spec;
mod words;

use certus_models::Error;

pub use column::{ColumnError, MissingIn, NoFeature, Subject};
pub use file::{Difference, FileError};
pub use spec::{SpecError, Unavailable};

/// Every error of this crate. A message names the value, its place, what was required and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A request that contradicts itself.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Columns, cells or rows that do not fit the request.
    #[error(transparent)]
    Column(#[from] ColumnError),
    /// Files that cannot be found, read or understood.
    #[error(transparent)]
    File(#[from] FileError),
    /// A response, a parameter of its likelihood or a prior that there is none of.
    #[error(transparent)]
    Likelihood(#[from] certus_likelihood::Error),
    /// The model refuses what it was given.
    #[error(transparent)]
    Model(#[from] certus_models::Error),
    /// A source that was asked to stop before its last row.
    #[error("stopped while the data were read")]
    Stopped,
    /// What a reader in another process says.
    #[error("{message}")]
    Elsewhere {
        /// What kind of failure it is.
        kind: ErrorKind,
        /// Its message.
        message: String,
    },
}

/// What kind of failure an error is: what a caller decides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum ErrorKind {
    /// A request that contradicts itself, has a value out of range, or asks for what is not supported.
    Request,
    /// Data or files that do not fit the request, unknown columns included.
    Data,
    /// An input that does not exist or holds nothing to read.
    NotFound,
    /// An output that exists already or cannot be created.
    Output,
    /// Reading or writing failed or was stopped.
    Io,
    /// A number that is infinite or not a number.
    NotFinite,
    /// The posterior is not proper, or the data do not identify a coefficient.
    NotIdentified,
    /// A defect of certus.
    Defect,
}

impl DataError {
    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Spec(_) | Self::Likelihood(_) => ErrorKind::Request,
            Self::Column(_) => ErrorKind::Data,
            Self::File(error) => error.kind(),
            Self::Stopped => ErrorKind::Io,
            Self::Elsewhere { kind, .. } => *kind,
            Self::Model(error) => match error {
                Error::Model(_) | Error::Likelihood(_) | Error::TooLarge(_) | Error::Declined(_) => {
                    ErrorKind::Request
                }
                Error::Data(_) => ErrorKind::Data,
                Error::NotFinite(_) | Error::Core(certus::Error::NonFinite { .. }) => ErrorKind::NotFinite,
                Error::NotIdentified { .. } => ErrorKind::NotIdentified,
                Error::Core(
                    certus::Error::Invalid { .. }
                    | certus::Error::IllegalMethod { .. }
                    | certus::Error::Missing { .. },
                ) => ErrorKind::Request,
                _ => ErrorKind::Defect,
            },
        }
    }
}
