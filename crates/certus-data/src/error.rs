//! What can go wrong between a user's columns and the rows of a model.

use certus_models::Error;

/// Every error of this crate. A message names the value, its place, what was required and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The data do not fit the request, unknown columns included.
    #[error("{0}")]
    BadData(String),
    /// A file or directory that does not exist or holds nothing to read.
    #[error("{0}")]
    NoInput(String),
    /// A request that contradicts itself.
    #[error("{0}")]
    Usage(String),
    /// Reading or writing failed.
    #[error("{0}")]
    Read(String),
    /// The model refuses what it was given.
    #[error(transparent)]
    Model(#[from] certus_models::Error),
}

impl DataError {
    /// The exit code of the command line.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 64,
            Self::BadData(_) => 65,
            Self::NoInput(_) => 66,
            Self::Read(_) => 74,
            Self::Model(error) => match error {
                Error::Model(_) | Error::TooLarge(_) | Error::Declined(_) => 64,
                Error::Data(_) => 65,
                Error::NotFinite(_) | Error::Core(certus::Error::NonFinite { .. }) => 12,
                Error::NotIdentified { .. } => 13,
                Error::Core(
                    certus::Error::Invalid { .. }
                    | certus::Error::IllegalMethod { .. }
                    | certus::Error::Missing { .. },
                ) => 64,
                _ => 70,
            },
        }
    }
}
