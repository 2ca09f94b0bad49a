//! What can go wrong with files, and the exit code that says so.

use std::io;
use std::path::{Path, PathBuf};

/// Every error of the crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The output is there already.
    #[error("{} exists already: choose another name, or overwrite it", path.display())]
    Exists {
        /// Where.
        path: PathBuf,
    },
    /// The output exists and does not look like a fit, so it is not overwritten.
    #[error("{} holds other files and no fit, so it is not overwritten", path.display())]
    NotAFit {
        /// Where.
        path: PathBuf,
    },
    /// The output holds many fits of other settings or other data.
    #[error(
        "{} holds fits of other settings, other groups or other numbers of rows: choose another directory, or overwrite it",
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
    #[error("{} is damaged or not ours: {reason}", path.display())]
    Damaged {
        /// Where.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file of a result is not the one that was written.
    #[error("{} is not as certus wrote it: {reason}", path.display())]
    Changed {
        /// Which.
        path: PathBuf,
        /// What differs, and what to do.
        reason: String,
    },
    /// A run that has no result yet.
    #[error("{} has no result yet: certus resume {} makes it", path.display(), path.display())]
    Unfinished {
        /// Where.
        path: PathBuf,
    },
    /// A result that was replaced while it was read.
    #[error("{} was replaced by another process while it was read: run the command again", path.display())]
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
    /// The caller's parts do not fit together.
    #[error("{0}")]
    Mismatch(String),
}

impl Error {
    /// The exit code of a program that ends with this error.
    ///
    /// | code | meaning |
    /// |---|---|
    /// | 64 | usage: a format that cannot be written |
    /// | 65 | bad data: a damaged or changed file, a checkpoint of another fit |
    /// | 66 | no such input |
    /// | 70 | our own bug |
    /// | 73 | the output exists or cannot be created |
    /// | 74 | writing failed |
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Damaged { .. } | Error::Changed { .. } | Error::AnotherFit { .. } => 65,
            Error::Format { .. } => 64,
            Error::Missing { .. } | Error::Unfinished { .. } | Error::Replaced { .. } => 66,
            Error::Mismatch(_) => 70,
            Error::Exists { .. } | Error::NotAFit { .. } | Error::InUse { .. } => 73,
            Error::CannotCreate { .. } | Error::OtherFits { .. } => 73,
            Error::Write { .. } => 74,
        }
    }

    pub(crate) fn write(path: &Path, source: io::Error) -> Self {
        Self::Write { path: path.to_path_buf(), source }
    }

    pub(crate) fn cannot_create(path: &Path, source: io::Error) -> Self {
        Self::CannotCreate { path: path.to_path_buf(), source }
    }

    pub(crate) fn changed(path: &Path, reason: impl Into<String>) -> Self {
        let advice = "restore it from a copy, or fit again with --overwrite";
        Self::Changed { path: path.to_path_buf(), reason: format!("{}; {advice}", reason.into()) }
    }

    #[cfg(feature = "parquet")]
    pub(crate) fn changed_chunk(path: &Path, reason: String) -> Self {
        let advice = "remove it, and certus resume makes it again";
        Self::Changed { path: path.to_path_buf(), reason: format!("{reason}; {advice}") }
    }

    pub(crate) fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_path_buf(), reason: reason.into() }
    }
}
