//! How strong a statement must be for the goal to count as reached.

use std::str::FromStr;

use certus::Outcome;
use certus::certificate::Level;
use certus::fit::Status;

use crate::refusal::RequestError;

/// How strong the statement must be for the goal to count as reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequiredLevel {
    /// A number without a guarantee.
    Estimated,
    /// With probability 1 − δ.
    Probable,
    /// A theorem.
    Proved,
}

impl FromStr for RequiredLevel {
    type Err = RequestError;

    fn from_str(word: &str) -> Result<Self, RequestError> {
        match word {
            "estimated" => Ok(Self::Estimated),
            "probable" => Ok(Self::Probable),
            "proved" => Ok(Self::Proved),
            _ => Err(RequestError::word("level", word, ["proved", "probable", "estimated"])),
        }
    }
}

impl RequiredLevel {
    /// True of a level that is strong enough.
    pub(crate) fn allows(self, level: Level) -> bool {
        match self {
            Self::Proved => level == Level::Proved,
            Self::Probable => matches!(level, Level::Proved | Level::Probable { .. }),
            Self::Estimated => true,
        }
    }

    /// As the setting has it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Estimated => "estimated",
            Self::Probable => "probable",
            Self::Proved => "proved",
        }
    }

    /// An outcome whose statement is weaker than that has not reached its goal.
    pub fn judge(self, outcome: &mut Outcome) {
        let level = outcome.certificate.gap.statement.level();
        if outcome.status == Status::Reached && !self.allows(level) {
            outcome.status = Status::Limit;
            outcome.message = format!("{}; a stronger statement was requested", outcome.message);
        }
    }
}
