//! Draws of the posterior that a fit keeps.

use certus::random::{Purpose, Random};

/// Their name in the arrays.
pub(crate) const DRAWS: &str = "draws";

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

    /// How many there are.
    pub fn count(&self) -> usize {
        self.latents.len() / self.dim
    }

    /// `n` of them, from one that the seed chooses on, again from the first after the last: draw k depends on the seed
    /// and k only.
    pub(crate) fn take(&self, n: usize, seed: u64) -> Vec<f64> {
        let mut dice = [0.0];
        Random::new(seed, Purpose::Sample, 0).uniforms(1, 0, 1, &mut dice);
        let first = (dice[0] * self.count() as f64) as usize;
        (0..n)
            .flat_map(|k| &self.latents[(first + k) % self.count() * self.dim..][..self.dim])
            .copied()
            .collect()
    }
}
