//! Estimates with standard errors, from fresh draws; never a proof.

pub mod importance;
mod loo;
pub mod psis;
mod weighted;

use crate::error::Error;
use crate::fresh::Fresh;
use crate::gaussian::Gaussian;
use crate::target::Target;

pub use importance::{Importance, importance, importance_of};
pub use loo::RowFit;
pub use weighted::WeightedDraws;

/// A Monte-Carlo estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean of the draws.
    pub value: f64,
    /// Its standard error.
    pub standard_error: f64,
}

impl Estimate {
    /// The mean of independent terms; the standard error is infinite for fewer than two.
    pub fn of(terms: &[f64]) -> Self {
        let (n, first) = (terms.len() as f64, terms.first().copied().unwrap_or(f64::NAN));
        // shifted by the first term, so that the variance does not cancel
        let sum: f64 = terms.iter().map(|x| x - first).sum();
        let squares: f64 = terms.iter().map(|x| (x - first).powi(2)).sum();
        let variance = ((squares - sum * sum / n) / (n - 1.0)).max(0.0);
        let standard_error = if terms.len() < 2 { f64::INFINITY } else { (variance / n).sqrt() };
        Self { value: first + sum / n, standard_error }
    }

    /// What a number that cannot be negative is at most: the estimate and twice its standard error.
    pub fn upper(self) -> f64 {
        self.value.max(0.0) + 2.0 * self.standard_error
    }
}

/// The negative ELBO f(w) = E[−log p(z) + log q_w(z)], z ~ q_w, from `draws` points.
///
/// With z = m + C u the second term is −log det C − |u|²/2 − (d/2) log 2π, so only log p needs evaluating and the noise
/// vanishes when p is Gaussian and q_w equals it.
pub fn neg_elbo(target: &dyn Target, w: &Gaussian, draws: usize, seed: u64) -> Result<Estimate, Error> {
    let mut terms = Vec::with_capacity(draws);
    Fresh::estimate(draws, seed, 0)?.run(target, w, 0..draws, &mut |part| {
        terms.extend(part.log_weights.iter().map(|r| -r));
        Ok(())
    })?;
    Ok(Estimate::of(&terms))
}
