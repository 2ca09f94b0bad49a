//! What can go wrong: with requests, data and files.

use std::io;
use std::path::{Path, PathBuf};

pub use certus_data::ErrorKind;
use certus_data::{DataError, FormulaError};

use crate::refusal::RequestError;

/// Every error of the crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request that is refused.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A formula that cannot be read.
    #[error(transparent)]
    Formula(#[from] FormulaError),
    /// Columns, rows and models.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The output already exists.
    #[error("{} already exists: choose another name, or overwrite it", path.display())]
    Exists {
        /// Where.
        path: PathBuf,
    },
    /// The output exists and does not look like a fit, so it is not overwritten.
    #[error("{} contains other files and no fit, so it is not overwritten", path.display())]
    NotAFit {
        /// Where.
        path: PathBuf,
    },
    /// The output contains many fits with other settings or other data.
    #[error(
        "{} contains fits with other settings, other groups or other numbers of rows: choose another directory, or \
            overwrite it",
        path.display()
    )]
    OtherFits {
        /// Where.
        path: PathBuf,
    },
    /// Another process writes there.
    #[error("{} is in use by another process", path.display())]
    InUse {
        /// Where.
        path: PathBuf,
    },
    /// The output cannot be created.
    #[error("{} cannot be created: {source}", path.display())]
    CannotCreate {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Writing failed (disk full, no permission); what was there before is still there.
    #[error("{} could not be written: {source}", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no such input, or it cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Missing {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The input was read and is not what it should be.
    #[error("{} is damaged or was not written by certus: {reason}", path.display())]
    Damaged {
        /// Where.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file of a result is not the one that was written.
    #[error("{} has changed since certus wrote it: {reason}", path.display())]
    Changed {
        /// Which.
        path: PathBuf,
        /// What differs, and what to do.
        reason: String,
    },
    /// Parts of a fit that do not belong together.
    #[error(transparent)]
    Inconsistent(#[from] Inconsistency),
    /// A run that has no result yet.
    #[error("{} has no result yet: run certus resume {}", path.display(), path.display())]
    Unfinished {
        /// Where.
        path: PathBuf,
    },
    /// A result that was replaced while it was read.
    #[error("{} was replaced by another process while it was being read: run the command again", path.display())]
    Replaced {
        /// Where.
        path: PathBuf,
    },
    /// A checkpoint of other settings or other data.
    #[error("the checkpoint in {} belongs to another fit: its settings or its data differ", path.display())]
    AnotherFit {
        /// Where.
        path: PathBuf,
    },
    /// A file whose name does not say a format that can be written.
    #[error("{} cannot be written: its name must end in .csv or .parquet", path.display())]
    Format {
        /// Where.
        path: PathBuf,
    },
    /// A fit of which no proof can be exported.
    #[error("no proof can be exported: {0}")]
    NoProof(String),
    /// The caller's parts do not fit together.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
}

/// Why the parts of a stored fit do not belong together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Inconsistency {
    /// The Gaussian and the encoding differ in their latents.
    #[error("the arrays have {arrays} latents, the encoding has {meaning}")]
    Latents {
        /// Of the Gaussian.
        arrays: usize,
        /// Of the encoding.
        meaning: usize,
    },
    /// The printed numbers come from draws that are not there.
    #[error("the arrays have no draws of {dim} latents, where the printed numbers come from")]
    NoDraws {
        /// Numbers per draw.
        dim: usize,
    },
    /// A response that this version does not know.
    #[error(transparent)]
    Response(#[from] certus_likelihood::Error),
    /// An encoding of groups that no fit writes.
    #[error(transparent)]
    Scales(Box<Error>),
    /// Variance parameters were not given, and the mixture over them is not there.
    #[error("the arrays have no grid, but {names} was not given")]
    NoMixture {
        /// What was not given.
        names: String,
    },
    /// A vector of the mixture is not there.
    #[error("the arrays have no {name}")]
    NoVector {
        /// Its name.
        name: &'static str,
    },
    /// A vector of the mixture has another length.
    #[error("{name} has {found} entries, but {required} are required")]
    Length {
        /// Its name.
        name: &'static str,
        /// Its length.
        found: usize,
        /// What it must be.
        required: usize,
    },
    /// Draws of deviations that are not whole.
    #[error("effect.deviations has {found} entries, not draws of {dim}")]
    Deviations {
        /// Their number.
        found: usize,
        /// Numbers per draw.
        dim: usize,
    },
    /// A grid that no fit writes.
    #[error("the scales of the grid are not increasing, or their weights do not sum to 1")]
    Grid,
}

/// Why something cannot be written: a defect of the caller.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// Columns of different lengths.
    #[error("the column {name} has {cells} cells for {rows} rows")]
    Cells {
        /// Which.
        name: String,
        /// Its cells.
        cells: usize,
        /// Those of the first column.
        rows: usize,
    },
    /// Two columns of one name.
    #[error("two columns are called {name}")]
    Twice {
        /// The name.
        name: String,
    },
    /// Numbers that do not fill whole rows.
    #[error("{given} numbers were given for {columns} columns")]
    Numbers {
        /// How many.
        given: usize,
        /// Numbers per row.
        columns: usize,
    },
    /// A vector with an entry that is not finite.
    #[error("the vector {name} has an entry that is not finite")]
    NotFinite {
        /// Which.
        name: String,
    },
    /// Parquet's writer refused.
    #[error("the columns cannot be encoded: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// Safetensors' writer refused.
    #[error(transparent)]
    Safetensors(#[from] safetensors::SafeTensorError),
}

impl Error {
    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Request(error) => error.kind(),
            Error::Data(error) => error.kind(),
            Error::Damaged { .. }
            | Error::Changed { .. }
            | Error::AnotherFit { .. }
            | Error::Inconsistent(_) => ErrorKind::Data,
            Error::Format { .. } | Error::Formula(_) | Error::NoProof(_) => ErrorKind::Request,
            Error::Missing { .. } | Error::Unfinished { .. } | Error::Replaced { .. } => ErrorKind::NotFound,
            Error::Mismatch(_) => ErrorKind::Defect,
            Error::Exists { .. } | Error::NotAFit { .. } | Error::InUse { .. } => ErrorKind::Output,
            Error::CannotCreate { .. } | Error::OtherFits { .. } => ErrorKind::Output,
            Error::Write { .. } => ErrorKind::Io,
        }
    }

    pub(crate) fn write(path: &Path, source: io::Error) -> Self {
        Self::Write { path: path.to_path_buf(), source }
    }

    pub(crate) fn cannot_create(path: &Path, source: io::Error) -> Self {
        Self::CannotCreate { path: path.to_path_buf(), source }
    }

    pub(crate) fn changed(path: &Path, reason: impl Into<String>) -> Self {
        let advice = "restore it from a copy, or fit again with `overwrite`";
        Self::Changed { path: path.to_path_buf(), reason: format!("{}; {advice}", reason.into()) }
    }

    pub(crate) fn changed_chunk(path: &Path, reason: String) -> Self {
        let advice = "remove it, then run certus resume to compute it again";
        Self::Changed { path: path.to_path_buf(), reason: format!("{reason}; {advice}") }
    }

    pub(crate) fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_path_buf(), reason: reason.into() }
    }
}

impl From<certus_data::SpecError> for Error {
    fn from(error: certus_data::SpecError) -> Self {
        Self::Data(error.into())
    }
}

impl From<certus_likelihood::Error> for Error {
    fn from(error: certus_likelihood::Error) -> Self {
        Self::Data(error.into())
    }
}

impl From<certus_models::Error> for Error {
    fn from(error: certus_models::Error) -> Self {
        Self::Data(error.into())
    }
}
