//! Fresh draws: points of q that nobody has looked at, evaluated in runs of 64. [`Purpose`] says who has which.

use std::ops::Range;

use crate::error::{Error, same_length};
use crate::gaussian::Gaussian;
use crate::random::{Purpose, Random};
use crate::target::Target;

/// Draws that are evaluated together.
pub(crate) const RUN: usize = 64;

/// A number of draws of one purpose and iteration: draw k depends on nothing else but the seed and the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fresh {
    pub(crate) draws: usize,
    random: Random,
    iteration: u64,
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

impl Fresh {
    /// The draws of check number `check`, counted from 1.
    pub(crate) fn check(draws: usize, seed: u64, model_key: u64, check: u64) -> Self {
        Self { draws, random: Random::new(seed, Purpose::Check, model_key), iteration: check }
    }

    /// The draws of an estimate, which need not be those of another.
    pub(crate) fn estimate(draws: usize, seed: u64, which: u64) -> Result<Self, Error> {
        if draws < 2 || u32::try_from(draws).is_err() {
            let required = "at least 2 are needed for a standard error, and there are 2^32 − 1 at most";
            return Err(Error::invalid("the number of draws", draws, required));
        }
        Ok(Self { draws, random: Random::new(seed, Purpose::Estimate, 0), iteration: which })
    }

    /// Calls `visit` with u for the draws of `range`, in order, in runs of 64.
    pub(crate) fn normals(
        &self,
        dim: usize,
        range: Range<usize>,
        visit: &mut impl FnMut(usize, &[f64]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut u = vec![0.0; dim * RUN.min(range.len())];
        for start in range.clone().step_by(RUN) {
            let u = &mut u[..dim * RUN.min(range.end - start)];
            self.random.normals(self.iteration, start as u64, dim, u);
            visit(start, u)?;
        }
        Ok(())
    }

    /// The same with the target evaluated there. A log density that is not finite is an error; no draw is skipped.
    pub(crate) fn run(
        &self,
        target: &dyn Target,
        w: &Gaussian,
        range: Range<usize>,
        visit: &mut impl FnMut(Run<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        same_length("the target", w.dim(), target.dim())?;
        let dim = w.dim();
        let constant = w.log_normaliser();
        let (mut z, mut g, mut values) = (Vec::new(), Vec::new(), Vec::new());
        self.normals(dim, range, &mut |start, u| {
            z.resize(u.len(), 0.0);
            g.resize(u.len(), 0.0);
            values.resize(u.len() / dim, 0.0);
            w.transform(u, &mut z);
            target.log_density(&z, &mut values, &mut g).map_err(Error::Target)?;
            for (k, (value, u)) in values.iter_mut().zip(u.chunks_exact(dim)).enumerate() {
                if !value.is_finite() {
                    let place = format!("draw {} of {}", start + k, self.draws);
                    return Err(Error::NonFinite { what: "the log density", value: *value, place });
                }
                *value += constant + 0.5 * u.iter().map(|x| x * x).sum::<f64>();
            }
            visit(Run { start, u, gradients: &mut g, log_weights: &values })
        })
    }
}
