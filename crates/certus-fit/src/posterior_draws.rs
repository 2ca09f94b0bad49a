//! Draws of the posterior that a fit keeps.

use certus::random::{Purpose, Random};

use crate::quantile::quantile;

/// Their name in the arrays.
pub(crate) const DRAWS: &str = "draws";

/// Points of a density.
const POINTS: usize = 40;

/// Latents of draws, in random order.
#[derive(Clone, Debug, PartialEq)]
pub struct PosteriorDraws {
    dim: usize,
    latents: Vec<f64>,
}

impl PosteriorDraws {
    /// Of latents, one draw after the other.
    pub(crate) fn new(dim: usize, latents: Vec<f64>) -> Self {
        Self { dim, latents }
    }

    /// All of them, one after the other.
    pub fn latents(&self) -> &[f64] {
        &self.latents
    }

    /// Draw by draw.
    pub fn each(&self) -> impl Iterator<Item = &[f64]> {
        self.latents.chunks_exact(self.dim)
    }

    /// Latents of a draw.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Points of the density of e^x, x a coordinate, in units: by normal kernels on the logarithms, as wide as
    /// Silverman's rule has it.
    pub(crate) fn density(&self, coordinate: usize, unit: f64) -> Vec<(f64, f64)> {
        let mut logs: Vec<f64> = self.each().map(|z| z[coordinate]).collect();
        logs.sort_by(f64::total_cmp);
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let sd = (logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
        let spread = sd.min((quantile(&logs, 0.75) - quantile(&logs, 0.25)) / 1.34);
        let width = 0.9 * spread * n.powf(-0.2);
        if width.is_nan() || width <= 0.0 {
            return Vec::new();
        }
        let (low, high) = (quantile(&logs, 1e-3), quantile(&logs, 1.0 - 1e-3));
        let place = |k: usize| low + (high - low) * k as f64 / (POINTS - 1) as f64;
        let at = |x: f64| {
            let kernels = logs.iter().map(|l| (-0.5 * ((x - l) / width).powi(2)).exp()).sum::<f64>();
            let scale = unit * x.exp();
            (scale, kernels / (n * width * std::f64::consts::TAU.sqrt() * scale))
        };
        (0..POINTS).map(|k| at(place(k))).collect()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.latents.len() / self.dim
    }

    /// `n` of them, from one that the seed chooses on, again from the first after the last: draw k depends on the seed
    /// and k only.
    pub(crate) fn take(&self, n: usize, seed: u64) -> Vec<f64> {
        let own = |k: usize| &self.latents[k * self.dim..][..self.dim];
        self.places(n, seed).into_iter().flat_map(own).copied().collect()
    }

    /// The places of these.
    pub(crate) fn places(&self, n: usize, seed: u64) -> Vec<usize> {
        let mut dice = [0.0];
        Random::new(seed, Purpose::Sample, 0).uniforms(1, 0, 1, &mut dice);
        let first = (dice[0] * self.count() as f64) as usize;
        (0..n).map(|k| (first + k) % self.count()).collect()
    }
}
