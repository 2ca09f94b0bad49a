//! Estimates with standard errors, from fresh draws; never a proof.

pub mod importance;
pub mod psis;

use crate::error::{Error, same_length};
use crate::gaussian::Gaussian;
use crate::random::{Purpose, Random};
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
    Check { draws, seed, iteration: 0 }.run(target, w, &mut |part| {
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

/// Which fresh draws a check uses: draw k of [`Purpose::Check`] depends on the seed, the iteration and k only.
///
/// What holds "with probability 1 − δ over the draws" holds for a Gaussian that was chosen without looking at them, so
/// give every check of a run its own iteration; [`neg_elbo`] uses iteration 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// How many.
    pub draws: usize,
    /// The seed.
    pub seed: u64,
    /// The number of the check.
    pub iteration: u64,
}

/// At most 64 evaluated draws.
pub(crate) struct Run<'a> {
    /// The number of its first draw.
    pub(crate) start: usize,
    /// u, `d × n`.
    pub(crate) u: &'a [f64],
    /// ∇ log p at z = m + C u, `d × n`; not checked.
    pub(crate) gradients: &'a mut [f64],
    /// log p(z) − log q_w(z), finite.
    pub(crate) log_weights: &'a [f64],
}

impl Check {
    const RUN: usize = 64;

    /// The error of a quantity that is not finite at a draw.
    pub(crate) fn not_finite(&self, what: &'static str, value: f64, draw: usize) -> Error {
        Error::NonFinite { what, value, place: format!("draw {draw} of {}", self.draws) }
    }

    /// Calls `visit` with u for all draws, in order, in runs of 64.
    pub(crate) fn normals(
        &self,
        dim: usize,
        visit: &mut impl FnMut(usize, &[f64]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let random = Random::new(self.seed, Purpose::Check, 0);
        let mut u = vec![0.0; dim * Self::RUN.min(self.draws)];
        for start in (0..self.draws).step_by(Self::RUN) {
            let u = &mut u[..dim * Self::RUN.min(self.draws - start)];
            random.normals(self.iteration, start as u64, dim, u);
            visit(start, u)?;
        }
        Ok(())
    }

    /// The same with the target evaluated there. A log density that is not finite is an error; no draw is skipped.
    pub(crate) fn run(
        &self,
        target: &dyn Target,
        w: &Gaussian,
        visit: &mut impl FnMut(Run<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        same_length("the target", w.dim(), target.dim())?;
        if self.draws < 2 || u32::try_from(self.draws).is_err() {
            let required = "at least 2 are needed for a standard error, and there are 2^32 − 1 at most";
            return Err(Error::invalid("the number of draws", self.draws, required));
        }
        let dim = w.dim();
        let constant = w.factor().log_det() + 0.5 * dim as f64 * (2.0 * std::f64::consts::PI).ln();
        let (mut z, mut g, mut values) = (Vec::new(), Vec::new(), Vec::new());
        self.normals(dim, &mut |start, u| {
            z.resize(u.len(), 0.0);
            g.resize(u.len(), 0.0);
            values.resize(u.len() / dim, 0.0);
            w.transform(u, &mut z);
            target.log_density(&z, &mut values, &mut g).map_err(Error::Target)?;
            for (k, (value, u)) in values.iter_mut().zip(u.chunks_exact(dim)).enumerate() {
                if !value.is_finite() {
                    return Err(self.not_finite("the log density", *value, start + k));
                }
                *value += constant + 0.5 * u.iter().map(|x| x * x).sum::<f64>();
            }
            visit(Run { start, u, gradients: &mut g, log_weights: &values })
        })
    }
}
