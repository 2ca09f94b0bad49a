//! Descent in the iterate's own frame: sticking the landing with antithetic pairs, re-centred at every step, so that
//! steps are dimensionless and need no constant of the target (docs/maths.md, part J).
//!
//! With z = m + P u, v = Pᵀ∇(−log p)(z) − u is the residual in the frame in which q is N(0, I), where sticking the
//! landing and the control variate of B6 are the same estimator. For a Gaussian target the Hessian there is 1 on the
//! mean and 2 on symmetric factors, so
//!
//! ```text
//! m ← m − γ P E v,    P ← P (I − (γ/2) sym E v uᵀ)
//! ```
//!
//! is Newton's step at γ = 1. The noise of n pairs is at most about (d + 3)|g|²/n plus what is left at the optimum, and
//! the step that makes the expected error smallest, folded along the run, is γ = n/(n + d + 3 + s/4) after s pairs: the
//! 4 keeps directions converging whose curvature is as small as 1/8 of a Gaussian's. Where γ would go further than ½ in
//! this frame it is cut: on a pattern for each block of the diagonal (with its means) and for what is below it, since a
//! million blocks with a little noise each are not far away.

mod axes;
mod concavity;
mod measure;
mod state;

pub use axes::Axes;
pub use concavity::{Convexity, Violation, concave_direction, convexity};
pub use measure::Measured;

use crate::error::{Error, same_length};
use crate::estimator::negate_finite;
use crate::gaussian::Gaussian;
use crate::linalg;
use crate::random::Random;
use crate::target::Target;

/// The longest step, in the frame of the iterate: P(I − γD) with |γD| ≤ ½ stays invertible.
const LONGEST: f64 = 0.5;
/// Directions with more than 1/(2 PATIENCE) of a Gaussian's curvature still converge as fast as the noise falls.
const PATIENCE: f64 = 4.0;

/// Numbers of draws that are held at once, and the pairs that are held however long they are.
const ROOM: usize = 1 << 22;
const FEWEST: usize = 4;

/// The iterate with what the next step needs: plain data, saveable.
#[derive(Clone, Debug, PartialEq)]
pub struct Moving {
    mean: Vec<f64>,
    axes: Axes,
    /// The mean of the iterates since [`Moving::restart_average`], and how many pairs they stand for.
    average: (Vec<f64>, Axes),
    averaged: u64,
    /// Pairs that the step size counts, in every part.
    seen: Vec<f64>,
    iteration: u64,
}

/// Buffers of a step.
#[derive(Default)]
pub struct MovingMemory {
    pairs: Pairs,
    direction: Option<Axes>,
    slope: Vec<f64>,
    parts: Vec<f64>,
    scratch: Vec<f64>,
}

impl Moving {
    /// At the Gaussian `w`, before the first step.
    pub fn new(w: &Gaussian) -> Self {
        Self::at(w.mean().to_vec(), Axes::of(w.factor()))
    }

    /// At N(m, P Pᵀ), before the first step.
    pub fn at(mean: Vec<f64>, axes: Axes) -> Self {
        let seen = vec![0.0; axes.parts()];
        Self { average: (mean.clone(), axes.clone()), mean, axes, averaged: 0, seen, iteration: 0 }
    }

    /// One step with `pairs` pairs (u, −u). If the target fails or is not finite, the iterate is as before.
    pub fn step(
        &mut self,
        target: &dyn Target,
        random: &Random,
        pairs: usize,
        memory: &mut MovingMemory,
    ) -> Result<(), Error> {
        let MovingMemory { pairs: p, direction, slope, parts, scratch } = memory;
        let n = pairs as f64;
        // E v and D = H⁻¹ sym E v uᵀ
        scratch.clear();
        scratch.resize(self.mean.len(), 0.0);
        let d = direction.get_or_insert_with(|| self.axes.zeros_like());
        d.values_mut().fill(0.0);
        let run = (ROOM / self.mean.len()).max(FEWEST).min(pairs);
        for first in (0..pairs).step_by(run) {
            let here = run.min(pairs - first);
            p.evaluate(target, &self.mean, &self.axes, random, self.iteration, first as u64, here)?;
            p.add_gradients(&self.axes, 1.0 / n, scratch, d);
        }
        slope.clear();
        slope.resize(self.mean.len(), 0.0);
        self.axes.add_apply_transpose(scratch, slope);
        d.precondition();
        parts.clear();
        parts.resize(self.seen.len(), 0.0);
        d.for_each_part(slope, |part, piece| parts[part] += linalg::norm_squared(piece));
        if let Some(&value) = parts.iter().find(|square| !square.is_finite()) {
            let place = format!("iteration {}", self.iteration);
            return Err(Error::NonFinite { what: "the square of the length of a step", value, place });
        }
        let noise = self.axes.noise_factor();
        for (part, seen) in parts.iter_mut().zip(&mut self.seen) {
            let free = n / (n + noise + *seen / PATIENCE);
            let gamma = free.min(LONGEST / part.sqrt());
            // while steps are cut short the way is long, and noise is not what limits it
            if gamma == free {
                *seen += n;
            }
            *part = -gamma;
        }
        d.for_each_part(slope, |part, piece| piece.iter_mut().for_each(|x| *x *= parts[part]));
        self.axes.add_apply(slope, &mut self.mean);
        self.axes.multiply_right(d, scratch);
        self.iteration += 1;
        self.averaged += pairs as u64;
        let share = n / self.averaged as f64;
        let (mean, axes) = &mut self.average;
        mean.iter_mut().zip(&self.mean).for_each(|(a, m)| *a += share * (m - *a));
        axes.move_towards(&self.axes, share);
        Ok(())
    }

    /// d.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// Moves to `w`; the next steps draw on as if nothing had happened.
    pub fn go_to(&mut self, w: &Gaussian) {
        (self.mean, self.axes) = (w.mean().to_vec(), Axes::of(w.factor()));
        self.averaged = 0;
    }

    /// Forgets the average, so that it is over the iterates from here on.
    pub fn restart_average(&mut self) {
        self.averaged = 0;
    }

    /// The mean of the iterates since the last [`Moving::restart_average`]; the iterate itself if there was no step
    /// since.
    pub fn averaged(&self) -> Result<Gaussian, Error> {
        let (mean, axes) =
            if self.averaged == 0 { (&self.mean, &self.axes) } else { (&self.average.0, &self.average.1) };
        axes.gaussian(mean)
    }

    /// The last iterate.
    pub fn last(&self) -> Result<Gaussian, Error> {
        self.axes.gaussian(&self.mean)
    }

    /// Steps taken.
    pub fn iteration(&self) -> u64 {
        self.iteration
    }

    /// Pairs seen, as the step size counts them, on average over the parts.
    pub fn seen(&self) -> f64 {
        self.seen.iter().sum::<f64>() / self.seen.len() as f64
    }

    /// About how many pairs the first useful step needs: d + 3, or less on a pattern.
    pub fn noise_factor(&self) -> f64 {
        self.axes.noise_factor()
    }

    /// Counts `times` the pairs seen from here on: fewer makes the next steps longer, more shorter.
    pub fn scale_seen(&mut self, times: f64) {
        linalg::scale(&mut self.seen, times);
    }
}

/// Antithetic pairs with the target evaluated at both ends, split into even and odd parts.
#[derive(Default)]
pub(crate) struct Pairs {
    /// u, d × n.
    pub(crate) u: Vec<f64>,
    /// P u.
    pub(crate) shifts: Vec<f64>,
    points: Vec<f64>,
    gradients: Vec<f64>,
    /// log p at m + P u, then at m − P u.
    pub(crate) values: Vec<f64>,
    /// (π(z₊) + π(z₋))/2 with π = −∇ log p; its mean, turned into the frame, is that of v.
    even: Vec<f64>,
    /// (π(z₊) − π(z₋))/2; whitened: the odd part of v.
    odd: Vec<f64>,
    whitened: Vec<f64>,
}

impl Pairs {
    /// Draws pairs `first..first + pairs` of `iteration` and evaluates the target.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn evaluate(
        &mut self,
        target: &dyn Target,
        mean: &[f64],
        axes: &Axes,
        random: &Random,
        iteration: u64,
        first: u64,
        pairs: usize,
    ) -> Result<(), Error> {
        let dim = mean.len();
        same_length("the target", dim, target.dim())?;
        let size = dim * pairs;
        for buffer in [&mut self.u, &mut self.shifts, &mut self.even, &mut self.odd] {
            buffer.resize(size, 0.0);
        }
        for buffer in [&mut self.points, &mut self.gradients] {
            buffer.resize(2 * size, 0.0);
        }
        self.values.resize(2 * pairs, 0.0);
        random.normals(iteration, first, dim, &mut self.u);
        self.shifts.fill(0.0);
        axes.add_apply(&self.u, &mut self.shifts);
        let (plus, minus) = self.points.split_at_mut(size);
        let columns =
            plus.chunks_exact_mut(dim).zip(minus.chunks_exact_mut(dim)).zip(self.shifts.chunks_exact(dim));
        for ((plus, minus), shift) in columns {
            for i in 0..dim {
                (plus[i], minus[i]) = (mean[i] + shift[i], mean[i] - shift[i]);
            }
        }
        target.log_density(&self.points, &mut self.values, &mut self.gradients).map_err(Error::Target)?;
        negate_finite(&mut self.gradients, &self.values, dim)?;
        let (plus, minus) = self.gradients.split_at(size);
        for k in 0..size {
            self.even[k] = 0.5 * (plus[k] + minus[k]);
            self.odd[k] = 0.5 * (plus[k] - minus[k]);
        }
        Ok(())
    }

    /// Adds alpha times the gradients of these pairs: the mean part, not turned into the frame yet, and the factor
    /// part.
    pub(crate) fn add_gradients(&mut self, axes: &Axes, alpha: f64, mean: &mut [f64], factor: &mut Axes) {
        self.whiten(axes);
        linalg::add_columns(mean, alpha, &self.even);
        factor.add_moment(alpha, &self.odd, &self.u);
    }

    /// π → v = Pᵀπ − u in the odd part; the u of the two ends cancels in the even one, of which only the mean is
    /// needed.
    fn whiten(&mut self, axes: &Axes) {
        self.whitened.clear();
        self.whitened.resize(self.odd.len(), 0.0);
        axes.add_apply_transpose(&self.odd, &mut self.whitened);
        std::mem::swap(&mut self.odd, &mut self.whitened);
        linalg::add_scaled(&mut self.odd, -1.0, &self.u);
    }

    /// z₊ and z₋, and −∇ log p there, all d × n.
    pub(crate) fn ends(&self) -> (&[f64], &[f64]) {
        (&self.points, &self.gradients)
    }
}
