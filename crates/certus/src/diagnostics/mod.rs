//! Estimates with standard errors, from fresh draws; never a proof.

pub mod importance;
pub mod psis;

use crate::error::Error;
use crate::fresh::Fresh;
use crate::gaussian::Gaussian;
use crate::target::Target;

pub use importance::{Importance, importance};

/// A Monte-Carlo estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean of the draws.
    pub value: f64,
    /// Its standard error.
    pub standard_error: f64,
}

/// The negative ELBO f(w) = E[−log p(z) + log q_w(z)], z ~ q_w, from `draws` points.
///
/// With z = m + C u the second term is −log det C − |u|²/2 − (d/2) log 2π, so only log p needs evaluating and the noise
/// vanishes when p is Gaussian and q_w equals it.
pub fn neg_elbo(target: &dyn Target, w: &Gaussian, draws: usize, seed: u64) -> Result<Estimate, Error> {
    let (mut sum, mut squares) = (0.0, 0.0);
    let mut first = None;
    Fresh::estimate(draws, seed, 0)?.run(target, w, 0..draws, &mut |part| {
        for term in part.log_weights.iter().map(|r| -r) {
            // shifted by the first term, so that the variance does not cancel
            let x = term - *first.get_or_insert(term);
            sum += x;
            squares += x * x;
        }
        Ok(())
    })?;
    let n = draws as f64;
    let variance = ((squares - sum * sum / n) / (n - 1.0)).max(0.0);
    Ok(Estimate { value: first.unwrap_or(0.0) + sum / n, standard_error: (variance / n).sqrt() })
}
