//! Profile intervals of scales: where they end, up to which size of the data they are computed, and why one is missing.

use certus::gaussian::NORMAL_95;
use certus_mixed::ProfileInterval;

/// The 90 % quantile of χ² with one degree of freedom: the cut of profile intervals.
pub(crate) const CUT: f64 = NORMAL_95 * NORMAL_95;
/// Rows up to which the profiles of other than linear models are computed: they take several times as long as the fit.
pub(crate) const PROFILED: usize = 20_000;

/// What is known of the profile interval of a scale.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Profiled {
    /// The interval.
    Interval([f64; 2]),
    /// Why the search for it failed.
    NotFound(String),
    /// None was looked for.
    NotTried,
}

impl Profiled {
    /// An interval of an engine, or that its search failed.
    pub(crate) fn of(found: Option<ProfileInterval>) -> Self {
        match found.map(|own| [own.low, own.high]) {
            Some(ends) if ends.iter().all(|end| end.is_finite()) => Self::Interval(ends),
            Some([low, _]) => {
                let which = if low.is_finite() { "upper" } else { "lower" };
                Self::NotFound(format!("its {which} end is not finite"))
            }
            None => Self::NotFound("the search for an end failed".into()),
        }
    }

    /// The interval, if there is one.
    pub(crate) fn interval(&self) -> Option<[f64; 2]> {
        match self {
            Self::Interval(ends) => Some(*ends),
            _ => None,
        }
    }
}
