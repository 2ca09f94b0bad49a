//! Files that cannot be found, read or understood.

use std::io;
use std::path::PathBuf;

use super::ErrorKind;

/// What is wrong with files, queries and conditions.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// No such file or directory.
    #[error("there is no file or directory {}", path.display())]
    NotFound {
        /// Its path.
        path: PathBuf,
    },
    /// A directory without a file of a known format.
    #[error(
        "the directory {} holds no file that ends in csv, tsv (each also with .gz), parquet, pq, arrow, ipc or feather",
        path.display()
    )]
    EmptyDirectory {
        /// Its path.
        path: PathBuf,
    },
    /// A file or directory that cannot be opened.
    #[error("{} can't be opened: {source}", path.display())]
    Open {
        /// Its path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Reading failed.
    #[error("{name} can't be read: {reason}")]
    Read {
        /// The file, or the query.
        name: String,
        /// Why not.
        reason: String,
    },
    /// The contents of a file are not of its format.
    #[error("{name} can't be read: {reason}")]
    Damaged {
        /// The file, or the query.
        name: String,
        /// Why not.
        reason: String,
    },
    /// A file beyond the limits of the reader.
    #[error("{name} can't be read: {reason}")]
    TooLarge {
        /// The file or the row.
        name: String,
        /// What is too large.
        reason: String,
    },
    /// A name without the ending of a known format.
    #[error(
        "{} is of an unknown format: its name must end in csv, tsv, txt (each also with .gz), parquet, pq, arrow, \
            ipc or feather",
        path.display()
    )]
    UnknownFormat {
        /// Its path.
        path: PathBuf,
    },
    /// A file that cannot be unpacked because of the place it is unpacked to.
    #[error(
        "{name} can't be unpacked into a file in {}: {source}; set TMPDIR to a directory with enough space",
        directory.display()
    )]
    Unpack {
        /// The file.
        name: String,
        /// The directory of temporary files.
        directory: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// No file at all.
    #[error("no file is named")]
    NoFile,
    /// Files of two formats.
    #[error("{} and {} are of different formats: read one format at a time", first.display(), other.display())]
    TwoFormats {
        /// One of them.
        first: PathBuf,
        /// The other.
        other: PathBuf,
    },
    /// A header without rows.
    #[error("{name} has a header and no rows")]
    NoRows {
        /// The file, or the first of several.
        name: String,
    },
    /// A file without a header.
    #[error("{name} has no columns: it must begin with their names")]
    NoColumns {
        /// The file.
        name: String,
    },
    /// Files of different columns.
    #[error("{first} and {other} do not fit together: {difference}")]
    Different {
        /// One of them.
        first: String,
        /// The other.
        other: String,
        /// Where they differ.
        difference: Difference,
    },
    /// A condition beside a query.
    #[error("a query has its own conditions: put --where into --sql")]
    ConditionAndQuery,
    /// A query or a condition that is not understood.
    #[error("{name} is not understood: {reason}")]
    Query {
        /// The query or the condition.
        name: String,
        /// Why not.
        reason: String,
    },
    /// The reader cannot be started.
    #[error("the reader can't be started: {source}")]
    Start {
        /// Why not.
        source: io::Error,
    },
    /// Rows beyond the memory given that cannot be written to a scratch file.
    #[error(
        "the rows do not fit the memory given and can't be put into a scratch file in {}: {source}",
        directory.display()
    )]
    Scratch {
        /// Its directory.
        directory: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Where the columns of two files differ.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Difference {
    /// In a name.
    #[error("where one has the column '{first}' the other has '{other}'")]
    Name {
        /// In the one.
        first: String,
        /// In the other.
        other: String,
    },
    /// In their number.
    #[error("one has {first} columns, the other {other}")]
    Count {
        /// In the one.
        first: usize,
        /// In the other.
        other: usize,
    },
    /// In a type.
    #[error("column '{column}' is of type {first} in one and {other} in the other")]
    Type {
        /// The column.
        column: String,
        /// In the one.
        first: String,
        /// In the other.
        other: String,
    },
}

impl FileError {
    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } | Self::EmptyDirectory { .. } => ErrorKind::NotFound,
            Self::Open { .. }
            | Self::Read { .. }
            | Self::Start { .. }
            | Self::Scratch { .. }
            | Self::Unpack { .. } => ErrorKind::Io,
            Self::Damaged { .. }
            | Self::TooLarge { .. }
            | Self::NoColumns { .. }
            | Self::NoRows { .. }
            | Self::Different { .. } => ErrorKind::Data,
            Self::UnknownFormat { .. } | Self::NoFile | Self::TwoFormats { .. } => ErrorKind::Request,
            Self::ConditionAndQuery | Self::Query { .. } => ErrorKind::Request,
        }
    }
}
