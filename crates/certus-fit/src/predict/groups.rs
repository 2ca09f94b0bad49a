//! Whose response is predicted where there are groups.

use std::str::FromStr;

use crate::refusal::RequestError;

/// Whose response is expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Groups {
    /// That of a row in its own group, which is in the fit: its effect's posterior.
    #[default]
    Known,
    /// That of a row in an unseen group: its effect is N(0, sd²).
    New,
    /// The average over the population of groups; quantiles are those of that average.
    Population,
}

impl FromStr for Groups {
    type Err = RequestError;

    fn from_str(word: &str) -> Result<Self, RequestError> {
        match word {
            "known" => Ok(Self::Known),
            "new" => Ok(Self::New),
            "population" => Ok(Self::Population),
            _ => Err(RequestError::word("groups", word, ["known", "new", "population"])),
        }
    }
}
