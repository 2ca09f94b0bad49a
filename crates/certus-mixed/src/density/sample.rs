//! Importance sampling of a collapsed density: draws of a proposal, their Pareto-smoothed weights and moments.

use certus::diagnostics::psis;
use certus::parallel;

use super::proposal::Proposal;
use super::{CollapsedDensity, LogDensity};
use certus_models::Error;

/// Draws evaluated by one thread at a time.
const PIECE: usize = 8;

/// Draws with weights.
#[derive(Clone, Debug)]
pub struct CollapsedSample {
    /// Points (β, log scales), one after the other.
    pub points: Vec<f64>,
    /// Logarithms of their smoothed weights, which sum to one.
    pub log_weights: Vec<f64>,
    /// The shape of the tail of the weights; see [`psis::Smoothed::k_hat`].
    pub k_hat: Option<f64>,
    /// 1/Σw².
    pub effective_sample_size: f64,
    /// The weighted mean of the bounds on the error of the log likelihood at the draws that have one, in nats.
    pub error: f64,
    /// The weight of the others.
    pub unproved: f64,
}

/// Importance sampling with weights p/q of a batch of draws of q: r_i = log p(z_i) − log q(z_i), smoothed.
pub fn sample(
    density: &dyn CollapsedDensity,
    proposal: &Proposal,
    draws: usize,
    seed: u64,
    batch: u64,
) -> Result<CollapsedSample, Error> {
    let dim = proposal.dim();
    let points = proposal.draws(draws, seed, batch);
    let mut found: Vec<Result<(f64, LogDensity), Error>> = Vec::with_capacity(draws);
    found.resize_with(draws, || Ok((0.0, LogDensity { value: 0.0, error: 0.0 })));
    parallel::for_each_piece(&mut found, PIECE, 1, &|piece, part| {
        for (k, one) in part.iter_mut().enumerate() {
            let z = &points[(piece * PIECE + k) * dim..][..dim];
            *one = density.log_density(z).map(|p| (p.value - proposal.log_density(z), p));
        }
    });
    let found = found.into_iter().collect::<Result<Vec<_>, _>>()?;
    let raw: Vec<f64> = found.iter().map(|(weight, _)| *weight).collect();
    let errors: Vec<f64> = found.iter().map(|(_, p)| p.error).collect();
    CollapsedSample::weighted(points, &raw, &errors)
}

impl CollapsedSample {
    /// Points with the logarithms of their raw weights, which are smoothed, and bounds on the errors of these.
    pub fn weighted(points: Vec<f64>, raw: &[f64], errors: &[f64]) -> Result<Self, Error> {
        let smoothed = psis::smooth(raw)?;
        let squares: f64 = smoothed.log_weights.iter().map(|x| (2.0 * x).exp()).sum();
        let (log_weights, k_hat) = (smoothed.log_weights, smoothed.k_hat);
        let effective_sample_size = 1.0 / squares;
        let (mut error, mut unproved) = (0.0, 0.0);
        for (own, w) in errors.iter().zip(&log_weights) {
            if own.is_finite() {
                error += w.exp() * own;
            } else {
                unproved += w.exp();
            }
        }
        Ok(Self { points, log_weights, k_hat, effective_sample_size, error, unproved })
    }

    /// The weighted mean and covariance (column-major) of the points.
    pub fn moments(&self, dim: usize) -> (Vec<f64>, Vec<f64>) {
        let weighted = || self.points.chunks_exact(dim).zip(self.log_weights.iter().map(|x| x.exp()));
        let (mut mean, mut covariance) = (vec![0.0; dim], vec![0.0; dim * dim]);
        for (z, w) in weighted() {
            mean.iter_mut().zip(z).for_each(|(m, z)| *m += w * z);
        }
        for (z, w) in weighted() {
            for (i, j) in (0..dim).flat_map(|i| (0..dim).map(move |j| (i, j))) {
                covariance[j * dim + i] += w * (z[i] - mean[i]) * (z[j] - mean[j]);
            }
        }
        (mean, covariance)
    }
}
