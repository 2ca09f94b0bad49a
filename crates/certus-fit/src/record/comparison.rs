//! What the numbers of a black box are worth: the verdict, and what it was decided by.

use certus::auto::{self, Verdict};
use certus::diagnostics::Estimate;
use certus::moving::Convexity;
use serde::de::{Deserializer, Error};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use super::Record;
use super::convert::finite;

/// What q was compared with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// What decided the verdict, in words.
    pub why: String,
    /// The largest change of a mean by the importance weights, in sds of q.
    pub mean_shift: Option<f64>,
    /// Its standard error.
    pub mean_shift_se: Option<f64>,
    /// The largest change of an sd, as a fraction of it.
    pub sd_shift: Option<f64>,
    /// Its standard error.
    pub sd_shift_se: Option<f64>,
    /// What is known of log-concavity.
    pub log_concave: LogConcave,
    /// Why nothing holds with a probability, of a target that is declared log-concave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_certified: Option<String>,
    /// Searches for modes.
    pub starts: u64,
    /// Those that ended at no maximum.
    pub unended: u64,
    /// Modes that q does not describe and that matter.
    pub missed: u64,
    /// The modes: q's own, then those that are missed, then others.
    pub modes: Vec<Mode>,
}

/// What is known of log-concavity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogConcave {
    /// The user declares it.
    Declared,
    /// A search found no violation.
    NoViolation,
    /// Two points contradict it.
    Violated,
    /// There was no search.
    NotChecked,
}

/// A maximum of the log density.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mode {
    /// Where it is.
    pub point: Vec<f64>,
    /// Its height: log p there, up to the constant of the target.
    pub log_density: f64,
    /// The logarithm of the integral of p around it, by Laplace's approximation.
    pub log_mass: f64,
    /// Its distance from q's mean, in sds of q.
    pub distance: f64,
    /// The symmetry that maps q's own mode to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symmetry: Option<String>,
}

impl Comparison {
    /// Of a run; `declared` if the target is declared log-concave.
    pub(super) fn new(found: &auto::Comparison) -> Self {
        let value = |e: Option<Estimate>| e.and_then(|e| finite(e.value));
        let error = |e: Option<Estimate>| e.and_then(|e| finite(e.standard_error));
        let mode = |mode: &auto::Mode| Mode {
            point: mode.point.clone(),
            log_density: mode.log_density,
            log_mass: mode.log_mass,
            distance: mode.distance,
            symmetry: mode.symmetry.clone(),
        };
        Self {
            why: found.why.clone(),
            mean_shift: value(found.mean_shift),
            mean_shift_se: error(found.mean_shift),
            sd_shift: value(found.sd_shift),
            sd_shift_se: error(found.sd_shift),
            log_concave: match &found.convexity {
                Convexity::Violated(_) => LogConcave::Violated,
                _ if found.is_declared() => LogConcave::Declared,
                Convexity::NoViolation => LogConcave::NoViolation,
                Convexity::NotChecked => LogConcave::NotChecked,
            },
            not_certified: found.not_certified.clone(),
            starts: found.modes.starts,
            unended: found.modes.unended,
            missed: found.modes.missed as u64,
            modes: found.modes.found.iter().map(mode).collect(),
        }
    }
}

impl Record {
    /// "accurate: k-hat 0.08; …", of a black box.
    pub fn verdict_sentence(&self) -> Option<String> {
        let comparison = self.comparison.as_ref()?;
        Some(format!("{}: {}", self.verdict?.as_str(), comparison.why))
    }
}

/// The verdict as the word that fit.json has.
pub(super) mod word {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        verdict: &Option<Verdict>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        verdict.map(Verdict::as_str).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Verdict>, D::Error> {
        let Some(word) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
        let known = Verdict::ALL.into_iter().find(|verdict| verdict.as_str() == word);
        known.map(Some).ok_or_else(|| D::Error::custom(format!("unknown verdict \"{word}\"")))
    }
}
