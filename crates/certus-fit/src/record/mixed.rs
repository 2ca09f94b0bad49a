//! What fit.json says of a linear mixed model beside its parameters.

use certus::certificate::counted;
use serde::{Deserialize, Serialize};

use super::Record;

/// A term of random effects, an entry of `groups`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupTerm {
    /// The group.
    pub name: String,
    /// The coefficients that vary.
    pub effects: Vec<String>,
    /// Levels of the group.
    pub levels: u64,
    /// Sds of the effects.
    pub sd: Vec<f64>,
    /// Their correlations; null beside an sd of 0.
    pub correlation: Vec<Vec<Option<f64>>>,
    /// lme4's θ: the lower Cholesky factor of the covariance matrix relative to sigma², by columns; of independent
    /// effects the ratios of their sds to sigma.
    pub theta: Vec<f64>,
}

/// `criterion`: what was maximised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CriterionValue {
    /// `REML` or `ML`.
    pub kind: String,
    /// −2 log L.
    pub value: f64,
    /// log L, restricted for REML.
    pub log_likelihood: f64,
    /// Coefficients and variance parameters.
    pub df: u64,
    /// −2 log L + 2 df.
    pub aic: f64,
    /// −2 log L + df log n, n the sum of the weights.
    pub bic: f64,
    /// The part of the variance of the latent response that the coefficients explain (Nakagawa and Schielzeth, 2013);
    /// absent where the noise has none on the scale of the link, and in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r2_marginal: Option<f64>,
    /// The part that coefficients and groups explain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r2_conditional: Option<f64>,
}

impl CriterionValue {
    /// "REML criterion", or what ML minimises.
    pub fn name(&self) -> &'static str {
        if self.kind == "REML" { "REML criterion" } else { "-2 log likelihood" }
    }

    /// "REML criterion 1743.6283, 6 parameters, AIC 1755.63, BIC 1774.79, R² 0.279 (marginal), 0.799
    /// (conditional)".
    pub fn sentence(&self) -> String {
        let (name, Self { value, df, aic, bic, .. }) = (self.name(), self);
        let explained = match (self.r2_marginal, self.r2_conditional) {
            (Some(own), Some(all)) => format!(", R² {own:.3} (marginal), {all:.3} (conditional)"),
            _ => String::new(),
        };
        format!("{name} {value:.4}, {}, AIC {aic:.2}, BIC {bic:.2}{explained}", counted(*df, "parameter"))
    }
}

impl Record {
    /// Adds `groups` and `criterion`.
    pub(crate) fn describe(&mut self, mixed: Option<(Vec<GroupTerm>, CriterionValue)>) {
        if let Some((groups, criterion)) = mixed {
            (self.groups, self.criterion) = (groups, Some(criterion));
        }
    }
}
