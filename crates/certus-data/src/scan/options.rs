//! What is asked of files.

use serde::{Deserialize, Serialize};

use super::limits::ReadLimits;

/// Which rows of files are read, and how.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FileOptions {
    /// Only the rows that satisfy this condition.
    pub filter: Option<String>,
    /// The rows of this query on the table `data`.
    pub sql: Option<String>,
    /// Texts that stand for a missing value, beside those that always do.
    pub na: Vec<String>,
    /// Columns that a query may name although the files do not have them: numbers, all of them missing.
    pub absent: Vec<String>,
    /// The columns that are used, if that is known: others of text files are not looked at. Without effect on what a
    /// condition or a query may name.
    pub used: Option<Vec<String>>,
    /// What a file may ask of the reader.
    #[serde(skip)]
    pub limits: ReadLimits,
}
