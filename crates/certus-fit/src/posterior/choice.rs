//! Which source of the posterior's numbers is asked for.

use std::str::FromStr;

use crate::choices;
use crate::record::Source;
use crate::refusal::RequestError;

/// What is printed of the posterior.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PosteriorChoice {
    /// The first rung of the ladder that is accurate enough.
    Auto,
    /// This one.
    Only(Source),
}

impl FromStr for PosteriorChoice {
    type Err = RequestError;

    fn from_str(word: &str) -> Result<Self, RequestError> {
        if word == "auto" {
            return Ok(Self::Auto);
        }
        let known = Source::ALL.into_iter().find(|source| source.as_str() == word);
        let names = choices::posteriors().into_iter().map(|(name, _)| name);
        known.map(Self::Only).ok_or_else(|| RequestError::word("posterior", word, names))
    }
}

impl PosteriorChoice {
    pub(super) fn rungs(self) -> Vec<Source> {
        match self {
            // where q's tails are too light, the standard errors of importance sampling do not see what it misses
            Self::Auto => vec![Source::Corrected, Source::Exact, Source::Nuts, Source::Importance],
            Self::Only(source) => vec![source],
        }
    }
}
