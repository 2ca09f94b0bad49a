//! Why a checker proves nothing.

/// Why something is not proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is outside of what this checker knows.
    NotCheckable(String),
    /// It is inside, and something does not hold.
    NotProved(String),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotCheckable(why) => write!(f, "not checkable: {why}"),
            Self::NotProved(why) => write!(f, "not proved: {why}"),
        }
    }
}
