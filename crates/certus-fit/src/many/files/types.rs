//! What the files of many fits hold.

use serde::{Deserialize, Serialize};

/// The request, and its groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Of this file's form.
    pub version: u32,
    /// What the user set; only the caller reads it.
    pub settings: serde_json::Value,
    /// Tells these fits from others: settings that matter, groups and numbers of rows.
    pub fingerprint: String,
    /// The key column.
    pub by: String,
    /// Groups.
    pub groups: usize,
    /// Rows of all groups.
    pub rows: usize,
    /// Groups of a chunk.
    pub chunk: usize,
    /// Parameters whose columns come first.
    pub parameters: Vec<String>,
}

impl Manifest {
    /// The version written.
    pub const VERSION: u32 = super::VERSION;

    /// Number of chunks.
    pub fn chunks(&self) -> usize {
        self.groups.div_ceil(self.chunk.max(1))
    }
}

/// The key of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Key {
    /// A number.
    Number(f64),
    /// Days since 1970-01-01.
    Date(f64),
    /// A truth value.
    Boolean(bool),
    /// Text.
    Text(String),
}

/// The result of one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupResult {
    /// Its key.
    pub key: Key,
    /// Its rows.
    pub rows: u64,
    /// How it ended, in the words of `fit.json`.
    pub status: String,
    /// The bound on the gap, in nats.
    pub gap_bound: Option<f64>,
    /// proved, probable, estimated or none.
    pub gap_level: String,
    /// The negative ELBO.
    pub neg_elbo: Option<f64>,
    /// In words.
    pub message: String,
    /// Mean and sd by the chunk's names.
    pub parameters: Vec<Option<[f64; 2]>>,
}

/// The results of a run of groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    /// The manifest's fingerprint.
    pub of: String,
    /// A hash of the rows it was made of, in hexadecimal digits.
    pub data: String,
    /// Names of the parameters.
    pub names: Vec<String>,
    /// A result per group, in their order.
    pub fits: Vec<GroupResult>,
}
