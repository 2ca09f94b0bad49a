//! What is known about scales that were not given (the sd between groups, the noise, the dispersion): the estimate with
//! a proved interval, the posterior, and the groups that differ most.

use serde::{Deserialize, Serialize};

use super::RecordedLevel;

/// `certificate.scale`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// The parameter it speaks of, such as `sd(city)`, `sigma` or `sd(rates)`; that of the groups where there are two.
    pub name: String,
    /// The group; null if there is none.
    pub group: Option<String>,
    /// How many groups there are.
    pub groups: u64,
    /// `posterior` or `estimate`: what the parameters are.
    pub scales: String,
    /// Its prior; null for an estimate.
    pub prior: Option<String>,
    /// What is maximised: `likelihood`, or `penalised likelihood`, which is the likelihood times the prior of the
    /// coefficients. Files from before this field do not say, and a flat prior is a penalty of 0.
    #[serde(default = "penalised")]
    pub objective: String,
    /// The scale at which the objective, maximised over the coefficients, has the highest of the maxima that were
    /// found.
    pub estimate: Option<f64>,
    /// Standard error of its logarithm, from the curvature of the profile.
    pub log_standard_error: Option<f64>,
    /// An interval that holds a maximum; null if nothing is stated.
    pub interval: Option<[f64; 2]>,
    /// How strong that is: proved, estimated (models whose likelihood is sampled), or none.
    pub level: RecordedLevel,
    /// Its label in docs/collapsed.md or docs/mixed.md.
    pub theorem: Option<String>,
    /// Why nothing is proved.
    pub reason: Option<String>,
    /// Of several group effects: the variance of every combination of a group's effects (of linear models relative
    /// to sigma²) at a maximum differs by at most this part of it; only with a proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub radius: Option<f64>,
    /// No other stationary point has all these variances within this part of them; only with a proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclusion: Option<f64>,
    /// Whether it is proved that no other variances have an objective as high (Theorem L3); null where that was not
    /// looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global: Option<bool>,
    /// Why that is not proved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_reason: Option<String>,
    /// Sds that are proved to be 0 at the maximum.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zero: Vec<String>,
    /// The other scales, and correlations.
    #[serde(default)]
    pub others: Vec<OtherScale>,
    /// Every maximum that was found, the highest first; older files have none.
    #[serde(default)]
    pub maxima: Vec<ScaleMaximum>,
    /// The range of the scale that was searched for maxima; null for two scales and in older files.
    #[serde(default)]
    pub searched: Option<[f64; 2]>,
    /// Parts of that range, from small to large: outside them it is proved that the objective is lower than at the
    /// estimate. Null if nothing is proved.
    #[serde(default)]
    pub not_excluded: Option<Vec<[f64; 2]>>,
    /// Why nothing is excluded.
    #[serde(default)]
    pub not_excluded_reason: Option<String>,
    /// The log likelihood at the estimate, without any prior.
    pub log_likelihood: Option<f64>,
    /// Bound on its error by quadrature and rounding; null where none is proved.
    pub log_likelihood_error: Option<f64>,
    /// log p(data), estimated; null for an estimate, and meaningless with flat priors.
    pub log_evidence: Option<f64>,
    /// Nodes of the grid.
    pub nodes: u64,
    /// What halving the step of the grid changed last: of means in sds, of sds in parts.
    pub refinement: Option<f64>,
    /// The groups with the smallest effects.
    pub smallest: Vec<GroupEffect>,
    /// The groups with the largest, the largest last.
    pub largest: Vec<GroupEffect>,
}

/// A maximum of the objective over the scales and the coefficients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScaleMaximum {
    /// The scale.
    pub estimate: f64,
    /// The other scales there.
    pub others: Vec<f64>,
    /// The log likelihood there, without any prior.
    pub log_likelihood: f64,
    /// The logarithm of the objective there, by which maxima are compared.
    pub log_objective: f64,
}

fn penalised() -> String {
    objective(true).into()
}

/// What REML maximises.
pub const RESTRICTED: &str = "restricted likelihood";

/// The name of what is maximised, the only place that decides it: with a prior of a coefficient, or with flat priors
/// alone.
pub fn objective(penalised: bool) -> &'static str {
    if penalised { "penalised likelihood" } else { "likelihood" }
}

/// A scale beside the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherScale {
    /// Its parameter.
    pub name: String,
    /// Its prior; null for an estimate.
    pub prior: Option<String>,
    /// Where the likelihood has its maximum.
    pub estimate: Option<f64>,
    /// Standard error of its logarithm.
    pub log_standard_error: Option<f64>,
    /// An interval that holds it at the same maximum; only where one is proved for every scale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
}

/// The posterior of one group's effect, its deviation from the coefficient of all rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupEffect {
    /// The group.
    pub group: String,
    /// Its rows.
    pub rows: u64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub sd: f64,
    /// The 5 % quantile.
    pub q05: f64,
    /// The median.
    pub q50: f64,
    /// The 95 % quantile.
    pub q95: f64,
}

impl Scale {
    /// All names, in words.
    pub fn names(&self) -> String {
        let others = self.others.iter().map(|o| o.name.as_str());
        std::iter::once(self.name.as_str()).chain(others).collect::<Vec<_>>().join(" and ")
    }

    /// True if a prior of the coefficients is part of what is maximised.
    pub fn is_penalised(&self) -> bool {
        self.objective == objective(true)
    }

    /// An interval goes with a proof, and is one.
    pub(super) fn consistent(&self) -> Result<(), String> {
        let sorted = self.maxima.windows(2).all(|m| m[0].log_objective >= m[1].log_objective);
        if !sorted || self.maxima.first().is_some_and(|m| Some(m.estimate) != self.estimate) {
            return Err("the estimate of the scale is not the highest of its maxima".into());
        }
        let proved = self.level == RecordedLevel::Proved;
        let known =
            matches!(self.level, RecordedLevel::Proved | RecordedLevel::Estimated | RecordedLevel::None);
        let ordered = self.interval.is_none_or(|[low, high]| low >= 0.0 && low <= high);
        if self.interval.is_some() == proved && known && ordered {
            return Ok(());
        }
        Err(format!("the scale has the level {:?} and the interval {:?}", self.level, self.interval))
    }
}
