//! What was left out of the design.

/// A column that is not in the design, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedColumn {
    /// Its name.
    pub name: String,
    /// The reason, in words that follow the name.
    pub reason: String,
}
