//! Leave-one-out cross-validation and WAIC from draws of the posterior, row by row (Vehtari, Gelman and Gabry 2017).

use super::psis;
use crate::error::Error;

/// How well a model predicts one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowFit {
    /// log p(yᵢ | y₋ᵢ), by smoothed importance weights: the posterior without the row is the one with it divided by the
    /// row's likelihood.
    pub elpd: f64,
    /// The tail of those weights; above 0.7 the row moves the posterior too much for them.
    pub k_hat: Option<f64>,
    /// log p(yᵢ | y).
    pub lppd: f64,
    /// The posterior variance of the row's log likelihood, by which WAIC reduces `lppd`.
    pub variance: f64,
}

impl RowFit {
    /// From log p(yᵢ | θ) at draws of the posterior.
    pub fn new(log_likelihoods: &[f64]) -> Result<Self, Error> {
        let inverse: Vec<f64> = log_likelihoods.iter().map(|l| -l).collect();
        let smoothed = psis::smooth(&inverse)?;
        let n = log_likelihoods.len() as f64;
        let weighed = smoothed.log_weights.iter().zip(log_likelihoods).map(|(w, l)| w + l);
        let mean = log_likelihoods.iter().sum::<f64>() / n;
        let squares: f64 = log_likelihoods.iter().map(|l| (l - mean).powi(2)).sum();
        Ok(Self {
            elpd: log_sum(weighed),
            k_hat: smoothed.k_hat,
            lppd: log_sum(log_likelihoods.iter().copied()) - n.ln(),
            variance: squares / (n - 1.0).max(1.0),
        })
    }
}

/// log Σ e^x.
fn log_sum(x: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = x.clone().fold(f64::NEG_INFINITY, f64::max);
    largest + x.map(|x| (x - largest).exp()).sum::<f64>().ln()
}
