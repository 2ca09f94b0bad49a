//! The two sides of a response, of which separated data know the border.

use certus_likelihood::{Datum, Response, Values};

use crate::problem::Problem;

/// What an observation requires of a direction d along which the likelihood must never fall.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Side {
    /// xᵀd ≥ 0: all trials succeeded.
    Above,
    /// xᵀd ≤ 0: none did, or a count is 0.
    Below,
    /// xᵀd = 0.
    Both,
}

/// That of a row.
pub(crate) fn side(response: Response, datum: Datum) -> Side {
    let counts = response.values() == Values::Counts;
    match (datum.y <= 0.0, datum.y >= datum.trials && !counts) {
        (true, false) => Side::Below,
        (false, true) => Side::Above,
        _ => Side::Both,
    }
}

impl Problem {
    /// The response whose probability rises with the predictor, in words.
    pub(crate) fn success(&self) -> &str {
        match &self.prepared.encoding.event {
            Some(event) => &event.level,
            None if self.response.values() == Values::Successes => "all of its trials",
            None => "1",
        }
    }

    /// The other one.
    pub(crate) fn failure(&self) -> &str {
        let event = self.prepared.encoding.event.as_ref();
        event.and_then(|event| event.other.as_deref()).unwrap_or("0")
    }
}
