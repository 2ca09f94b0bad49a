//! What is known of scales that were not given (the sd between groups, the noise, the dispersion): the estimate with a proved interval, the posterior, and the groups that
//! differ most.

use serde::{Deserialize, Serialize};

use super::Level;

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
    /// The scale at which the likelihood, profiled over the coefficients and with their prior, has its maximum.
    pub estimate: Option<f64>,
    /// Standard error of its logarithm, from the curvature of the profile.
    pub log_standard_error: Option<f64>,
    /// An interval that holds a maximum; null if nothing is stated.
    pub interval: Option<[f64; 2]>,
    /// How strong that is: proved, or none.
    pub level: Level,
    /// Its label in docs/collapsed.md.
    pub theorem: Option<String>,
    /// Why nothing is proved.
    pub reason: Option<String>,
    /// The other scale, if there are two.
    #[serde(default)]
    pub others: Vec<OtherScale>,
    /// The log likelihood at the estimate.
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

    /// An interval goes with a proof, and is one.
    pub(super) fn consistent(&self) -> Result<(), String> {
        let proved = self.level == Level::Proved;
        let ordered = self.interval.is_none_or(|[low, high]| low >= 0.0 && low <= high);
        if self.interval.is_some() == proved && (proved || self.level == Level::None) && ordered {
            return Ok(());
        }
        Err(format!("the scale has the level {:?} and the interval {:?}", self.level, self.interval))
    }
}
