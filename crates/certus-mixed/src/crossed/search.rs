//! The minimum of the Laplace criterion over (β, θ): BFGS with exact gradients, then Newton's method with a Hessian by
//! differences of them.
//!
//! θ are the entries of T itself. The criterion is even in every column of T, so that 0 is an interior point: a column
//! that becomes small is tried at 0, and stays there if the criterion is not larger.

use std::ops::ControlFlow;

use certus::linalg;

use super::conditional::Conditional;
use super::error::Error;
use super::inner::Inner;
use super::layout::lower;
use super::model::CrossedModel;
use super::start::Start;

/// Steps of BFGS and of Newton's method, at most.
const STEPS: usize = 200;
/// Decrements at which BFGS ends, and Newton's method.
const CLOSE: f64 = 1e-7;
const THERE: f64 = 1e-13;
/// Step of the differences, in standard errors.
const DIFFERENCE: f64 = 0.01;
/// Standard deviations below this (effects scaled by their root mean square) are tried at 0.
const SMALL: f64 = 0.05;

/// Is told every point with its log likelihood, and may end the search.
pub type Watch<'w> = dyn FnMut(&[f64], f64) -> ControlFlow<()> + 'w;

/// A minimum.
pub(super) struct Found<'a> {
    pub(super) at: Conditional<'a>,
    /// Parameters that are not held at 0.
    pub(super) free: Vec<usize>,
    /// The Hessian in the free parameters.
    pub(super) hessian: Vec<f64>,
    pub(super) decrement: f64,
}

/// The search; `watch` is told every point with its log likelihood.
pub(super) struct Search<'a, 'w> {
    pub(super) model: &'a CrossedModel,
    pub(super) inner: Inner,
    pub(super) watch: &'w mut Watch<'w>,
    pub(super) evaluations: usize,
    pub(super) iterations: usize,
}

impl<'a> Search<'a, '_> {
    pub(super) fn evaluate(&mut self, x: &[f64], v: Option<&[f64]>) -> Result<Conditional<'a>, Error> {
        self.evaluations += 1;
        Conditional::new(self.model, self.inner, x, v)
    }

    pub(super) fn minimise(&mut self, start: &Start) -> Result<Found<'a>, Error> {
        let mut free: Vec<usize> = (0..self.model.parameters()).collect();
        let mut at = self.evaluate(&start.parameters, None)?;
        let mut inverse: Vec<f64> = vec![0.0; free.len() * free.len()];
        free.iter().for_each(|&j| inverse[j * (free.len() + 1)] = start.spread[j].powi(2));
        loop {
            at = self.descend(at, &free, &mut inverse)?;
            let fewer = self.shrink(&mut at, &free)?;
            if fewer.len() == free.len() {
                return self.finish(at, free, inverse);
            }
            let keep: Vec<usize> = (0..free.len()).filter(|&i| fewer.contains(&free[i])).collect();
            let d = free.len();
            inverse =
                keep.iter().flat_map(|&j| keep.iter().map(move |&i| j * d + i)).map(|e| inverse[e]).collect();
            free = fewer;
        }
    }

    /// BFGS until the decrement is small; `inverse` is kept up to date.
    fn descend(
        &mut self,
        mut at: Conditional<'a>,
        free: &[usize],
        inverse: &mut [f64],
    ) -> Result<Conditional<'a>, Error> {
        let d = free.len();
        let mut g = picked(&at.gradient(), free);
        let mut decrement = f64::INFINITY;
        for _ in 0..STEPS {
            let direction = times(inverse, &g);
            decrement = linalg::dot(&direction, &g);
            if decrement < CLOSE {
                return Ok(at);
            }
            let (next, part) = self.line(&at, free, &direction, decrement)?;
            let Some(next) = next else { return Ok(at) };
            let slope = picked(&next.gradient(), free);
            let step: Vec<f64> = direction.iter().map(|x| -part * x).collect();
            let change: Vec<f64> = slope.iter().zip(&g).map(|(a, b)| a - b).collect();
            update(inverse, d, &step, &change);
            (at, g) = (next, slope);
            self.iterations += 1;
            self.look(&at)?;
        }
        let sds = self.model.layout.sds(&at.parameters);
        Err(Error::NotConverged { iterations: self.iterations, decrement, sds })
    }

    /// A point along −direction at which the criterion falls, and how far it is; none if rounding hides it.
    fn line(
        &mut self,
        at: &Conditional<'a>,
        free: &[usize],
        direction: &[f64],
        decrement: f64,
    ) -> Result<(Option<Conditional<'a>>, f64), Error> {
        // far from the minimum steps of many standard errors lead anywhere
        let mut part = (4.0 / decrement.sqrt()).min(1.0);
        for _ in 0..40 {
            let mut x = at.parameters.clone();
            free.iter().zip(direction).for_each(|(&j, s)| x[j] -= part * s);
            match self.evaluate(&x, Some(&at.v)) {
                Ok(next) if next.value <= at.value - 1e-4 * part * decrement => {
                    return Ok((Some(next), part));
                }
                Err(Error::Stopped) => return Err(Error::Stopped),
                _ => part *= 0.4,
            }
        }
        Ok((None, 0.0))
    }

    /// Tries small columns of T at 0; what is left free.
    fn shrink(&mut self, at: &mut Conditional<'a>, free: &[usize]) -> Result<Vec<usize>, Error> {
        let mut left = free.to_vec();
        let model = self.model;
        for (place, rms) in model.layout.places.iter().zip(model.rms()) {
            for column in 0..place.effects {
                let of: Vec<(usize, usize)> = lower(place.effects)
                    .enumerate()
                    .filter(|(_, (_, j))| *j == column)
                    .map(|(e, (i, _))| (place.start + e, i))
                    .collect();
                let size: f64 = of.iter().map(|&(e, i)| (at.parameters[e] * rms[i]).powi(2)).sum();
                if !left.contains(&of[0].0) || size.sqrt() > SMALL {
                    continue;
                }
                let mut x = at.parameters.clone();
                of.iter().for_each(|&(e, _)| x[e] = 0.0);
                let next = self.evaluate(&x, Some(&at.v))?;
                if next.value <= at.value + 1e-8 * (1.0 + at.value.abs()) {
                    *at = next;
                    left.retain(|j| !of.iter().any(|(e, _)| e == j));
                }
            }
        }
        Ok(left)
    }

    /// Newton's method with the Hessian by differences.
    fn finish(
        &mut self,
        mut at: Conditional<'a>,
        free: Vec<usize>,
        inverse: Vec<f64>,
    ) -> Result<Found<'a>, Error> {
        let d = free.len();
        let steps: Vec<f64> = (0..d).map(|j| DIFFERENCE * inverse[j * (d + 1)].sqrt()).collect();
        let mut hessian = self.hessian(&at, &free, &steps)?;
        let mut decrement = f64::INFINITY;
        for _ in 0..20 {
            let g = picked(&at.gradient(), &free);
            let Some(direction) = solved(&hessian, &g) else {
                // not a minimum yet: along the inverse that BFGS has, which is positive definite
                return Err(self.lost(&at, decrement));
            };
            let now = linalg::dot(&direction, &g);
            if now < THERE || (now < 1e-9 && now > 0.25 * decrement) {
                return Ok(Self::found(at, free, hessian, now));
            }
            decrement = now;
            let (next, _) = self.line(&at, &free, &direction, decrement)?;
            let Some(next) = next else {
                // below rounding
                return if now < 1e-6 {
                    Ok(Self::found(at, free, hessian, now))
                } else {
                    Err(self.lost(&at, now))
                };
            };
            at = next;
            self.iterations += 1;
            self.look(&at)?;
            if now > 1e-4 {
                hessian = self.hessian(&at, &free, &steps)?;
            }
        }
        Err(self.lost(&at, decrement))
    }

    /// Tells where the search is; an error if it is to end.
    pub(super) fn look(&mut self, at: &Conditional<'_>) -> Result<(), Error> {
        match (self.watch)(&at.parameters, at.log_likelihood()) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Stopped),
        }
    }

    pub(super) fn lost(&self, at: &Conditional<'_>, decrement: f64) -> Error {
        let sds = self.model.layout.sds(&at.parameters);
        Error::NotConverged { iterations: self.iterations, decrement, sds }
    }

    fn found(at: Conditional<'a>, free: Vec<usize>, hessian: Vec<f64>, decrement: f64) -> Found<'a> {
        Found { at, free, hessian, decrement }
    }

    /// The Hessian by central differences of the gradient, symmetric.
    pub(super) fn hessian(
        &mut self,
        at: &Conditional<'a>,
        free: &[usize],
        steps: &[f64],
    ) -> Result<Vec<f64>, Error> {
        let d = free.len();
        let mut out = vec![0.0; d * d];
        for j in 0..d {
            let mut side = |sign: f64| -> Result<Vec<f64>, Error> {
                let mut x = at.parameters.clone();
                x[free[j]] += sign * steps[j];
                Ok(picked(&self.evaluate(&x, Some(&at.v))?.gradient(), free))
            };
            let (up, down) = (side(1.0)?, side(-1.0)?);
            for i in 0..d {
                let slope = (up[i] - down[i]) / (2.0 * steps[j]);
                out[j * d + i] += 0.5 * slope;
                out[i * d + j] += 0.5 * slope;
            }
        }
        Ok(out)
    }
}

/// The entries of x that are free.
pub(super) fn picked(x: &[f64], free: &[usize]) -> Vec<f64> {
    free.iter().map(|&j| x[j]).collect()
}

/// A x for a symmetric A.
pub(super) fn times(a: &[f64], x: &[f64]) -> Vec<f64> {
    a.chunks_exact(x.len().max(1)).map(|row| linalg::dot(row, x)).collect()
}

/// H⁻¹g; none if H is not positive definite.
pub(super) fn solved(hessian: &[f64], g: &[f64]) -> Option<Vec<f64>> {
    let (d, mut factor, mut x) = (g.len(), hessian.to_vec(), g.to_vec());
    if d == 0 {
        return Some(x);
    }
    linalg::cholesky(&mut factor, d).then(|| {
        linalg::solve_lower(&factor, d, false, &mut x);
        linalg::solve_lower(&factor, d, true, &mut x);
        x
    })
}

/// BFGS: the inverse Hessian B with B·change = step; nothing if the curvature along the step is not positive.
pub(super) fn update(inverse: &mut [f64], d: usize, step: &[f64], change: &[f64]) {
    let along = linalg::dot(step, change);
    let by = times(inverse, change);
    let size = linalg::dot(&by, change);
    if along.is_nan() || along <= 1e-10 * (size * along.abs()).sqrt() {
        return;
    }
    let scale = (1.0 + size / along) / along;
    for j in 0..d {
        for i in 0..d {
            inverse[j * d + i] += scale * step[i] * step[j] - (by[i] * step[j] + step[i] * by[j]) / along;
        }
    }
}
