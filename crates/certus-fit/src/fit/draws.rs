//! Draws of the parameters of a fit.

use super::{Fit, draws_with_scales};
use crate::problem;
use crate::refusal::RequestError;

impl Fit {
    /// `n` draws of the parameters, one after the other; draw k depends on the seed and k only.
    pub fn draws(&self, n: usize, seed: u64) -> Vec<f64> {
        match (&self.mixture, &self.posterior_draws) {
            (Some((_, unknown_scales)), Some(own)) => {
                draws_with_scales(&self.quantities, unknown_scales, own.dim(), &own.take(n, seed))
            }
            (Some((mixture_posterior, unknown_scales)), None) => {
                mixture_posterior.draws(&self.quantities, unknown_scales, n, seed)
            }
            (None, _) => problem::draws(&self.quantities, self.gaussian.dim(), &self.latents(n, seed)),
        }
    }

    /// Refuses more draws than memory can hold: a table of them has 2³¹ numbers at most, 16 GiB.
    pub fn check_draws(&self, n: usize) -> Result<(), RequestError> {
        let columns = self.record.parameters.len().max(self.gaussian.dim());
        match n.checked_mul(columns.max(1)) {
            Some(numbers) if numbers <= 1 << 31 => Ok(()),
            _ => Err(RequestError::Number {
                setting: "draws".into(),
                value: n as f64,
                required: "a table of at most 2147483648 numbers, all parameters together,",
            }),
        }
    }

    /// The latents of the same draws, of a fit that is not a mixture.
    pub fn latents(&self, n: usize, seed: u64) -> Vec<f64> {
        match &self.posterior_draws {
            Some(draws) => draws.take(n, seed),
            None => self.gaussian.sample(n, seed),
        }
    }

    /// A with A Aᵀ the covariance of the parameters, a row each, and its columns, of a fit that has draws of the
    /// posterior: correlations are those of the draws, sds those that are printed.
    pub fn spread_of_draws(&self) -> Option<(Vec<f64>, usize)> {
        let draws = self.posterior_draws.as_ref()?;
        let (n, rows) = (draws.count(), self.record.parameters.len());
        let drawn = match &self.mixture {
            Some((_, scales)) => draws_with_scales(&self.quantities, scales, draws.dim(), draws.latents()),
            None => problem::draws(&self.quantities, draws.dim(), draws.latents()),
        };
        let mut out = Vec::with_capacity(n * rows);
        for (k, printed) in self.record.parameters.iter().enumerate() {
            let values: Vec<f64> = drawn.iter().skip(k).step_by(rows).copied().collect();
            let mean = values.iter().sum::<f64>() / n as f64;
            let length = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>().sqrt();
            let sd = printed.sd.unwrap_or(f64::NAN);
            out.extend(values.iter().map(|x| (x - mean) / length * sd));
        }
        Some((out, n))
    }
}
