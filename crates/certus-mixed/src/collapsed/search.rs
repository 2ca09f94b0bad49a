//! Every maximum of the profile that a search over the whole range of the sd finds: F_p and its slope on a grid of log
//! sd, then Newton's method from every place where the slope changes its sign, on all rows.

use std::f64::consts::LN_2;

use certus::linalg;

use super::group::EPSILON;
use super::profile::{CLOSE, Profile, ROUGH, SMALLEST, STEPS, flat, solve};
use super::{Collapsed, EvaluationOptions};
use crate::evaluations::Evaluations;
use certus_models::Error;

/// The step of the grid in log sd.
const STEP: f64 = LN_2;
/// The largest sd of the grid, per unit of the effect's column and in units of the likelihood.
const LARGEST: f64 = 20.0;
/// The search goes at least this far beyond the estimate.
const BEYOND: f64 = 4.0;
/// Pieces of the rows that the grid is computed from, about; Newton's method takes all of them.
const PIECES: usize = 8;
/// Rows from which on the step is twice that.
const MANY: usize = 100_000;
/// Below this sd, in the same units, integrals are computed with care.
const FINE: f64 = 0.02;
/// Slopes below this, per group, may be an error of the quadrature (5e-9 was seen).
const NOISE: f64 = 2e-8;
/// Maxima whose logarithms differ by less are the same; those of a part of the rows are found less well.
const SAME: f64 = 1e-3;
const APART: f64 = 0.05;

/// A maximum of the profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Maximum {
    /// The sd.
    pub sd: f64,
    /// The coefficients there.
    pub beta: Vec<f64>,
    /// F there.
    pub value: f64,
    /// The log likelihood there.
    pub log_likelihood: f64,
}

impl Maximum {
    pub(super) fn of((theta, profile): &(f64, Profile)) -> Self {
        let (value, log_likelihood) = (profile.at.value, profile.at.log_likelihood);
        Self { sd: theta.exp(), beta: profile.beta.clone(), value, log_likelihood }
    }
}

/// A point of the grid.
struct Point {
    theta: f64,
    beta: Vec<f64>,
    /// F_p′(θ).
    slope: f64,
}

impl Collapsed {
    /// The unit of sds: 1 for counts and choices, the sd of the noise for a linear model.
    pub(super) fn unit(&self) -> f64 {
        let least = self.data.first().map_or(0.0, |datum| self.likelihood.second_derivative_min(*datum));
        let unit = if least > 0.0 { 1.0 / least.sqrt() } else { 1.0 };
        unit / self.effect_size()
    }

    /// The largest sd that is searched when a maximum is at θ.
    pub(super) fn largest(&self, theta: f64) -> f64 {
        (LARGEST * self.unit()).max(BEYOND * theta.exp())
    }

    /// A part of the rows for the grid; all of them if they are few.
    fn some(&self) -> Self {
        let every = ((self.pieces.len() - 1) / PIECES).max(1) * self.every;
        Self { every, ..self.clone() }
    }

    /// Coefficients and log sds from which all maxima that the grid shows are reached.
    pub(super) fn starts(
        &self,
        start: &[f64],
        evaluations: &mut Evaluations<'_>,
    ) -> Result<Vec<(Vec<f64>, f64)>, Error> {
        let few = self.some();
        // a few large groups are not made smaller by leaving out pieces
        let step = if few.rows() / few.every > MANY { 2.0 * STEP } else { STEP };
        let middle = (0.5 * self.unit()).ln();
        let (low, high) = ((SMALLEST * self.unit()).ln(), self.largest(f64::NEG_INFINITY).ln());
        let mut points: Vec<Point> = Vec::new();
        let mut beta = start.to_vec();
        let mut theta = middle;
        while theta < high + 0.5 * step {
            few.look(&mut points, &mut beta, theta, evaluations)?;
            theta += step;
        }
        points.reverse();
        beta = points.last().map_or(start, |p| &p.beta).to_vec();
        theta = middle - step;
        while theta > low - 0.5 * step {
            few.look(&mut points, &mut beta, theta, evaluations)?;
            theta -= step;
        }
        points.reverse();
        let noise = NOISE * few.groups() as f64;
        points.retain(|p| p.slope.abs() > noise);
        let mut out = Vec::new();
        // F grows with the sd from the beginning: a maximum of the likelihood at 0
        out.extend(points.first().filter(|p| p.slope > 0.0).map(|p| (p.beta.clone(), low)));
        for pair in points.windows(2) {
            let [left, right] = [&pair[0], &pair[1]];
            if left.slope < 0.0 && right.slope > 0.0 {
                let part = left.slope / (left.slope - right.slope);
                let nearer = if part < 0.5 { left } else { right };
                out.push((nearer.beta.clone(), left.theta + part * (right.theta - left.theta)));
            }
        }
        out.extend(points.last().filter(|p| p.slope < 0.0).map(|p| (p.beta.clone(), p.theta)));
        if few.every > self.every {
            out = few.distinct(&out, low, evaluations);
        }
        if out.is_empty() {
            out.push((start.to_vec(), middle));
        }
        Ok(out)
    }

    /// The maxima of this part of the rows that are reached from some starts, each once: a pass over all rows costs
    /// more.
    fn distinct(
        &self,
        starts: &[(Vec<f64>, f64)],
        low: f64,
        evaluations: &mut Evaluations<'_>,
    ) -> Vec<(Vec<f64>, f64)> {
        let mut out: Vec<(Vec<f64>, f64)> = Vec::new();
        for (beta, theta) in starts {
            let Ok((found, at)) = self.climb(beta, *theta, EPSILON, evaluations) else { continue };
            let at = at.max(low);
            if out.iter().all(|(_, other)| (other - at).abs() > APART) {
                out.push((found.beta, at));
            }
        }
        out
    }

    /// Adds the profile at θ; a place where there is none is left out.
    fn look(
        &self,
        points: &mut Vec<Point>,
        beta: &mut Vec<f64>,
        theta: f64,
        evaluations: &mut Evaluations<'_>,
    ) -> Result<(), Error> {
        // what few nodes leave out of E u² adds up over groups; only a few large groups may do with them, where sds are
        // not small
        let large = self.rows() / self.every > MANY && theta > (FINE * self.unit()).ln();
        let epsilon = if large { ROUGH } else { EPSILON };
        let options = EvaluationOptions { epsilon, ..EvaluationOptions::default() };
        let found = self.profile_by(beta, theta, self.close_enough(), options, evaluations);
        let Profile { beta: there, at } = match found {
            Err(Error::Stopped) => return Err(Error::Stopped),
            Err(_) => return Ok(()),
            Ok(found) => found,
        };
        let d = self.dim;
        let Ok(ridge) = (Profile { beta: there.clone(), at: at.clone() }).ridge(d) else { return Ok(()) };
        let alone = solve(&ridge.factor, d, at.gradient[..d].to_vec());
        let slope = at.gradient[d] - linalg::dot(&ridge.cross, &alone);
        beta.clone_from(&there);
        points.push(Point { theta, beta: there, slope });
        Ok(())
    }

    /// The maximum over (β, θ), by Newton's method on both together with few nodes until it is close. The block of β is
    /// positive definite; where what is left of θ (the Schur complement) is not, θ goes downhill by 1. Begins at the
    /// maximum of a part of the rows, where there are many.
    pub(super) fn climb(
        &self,
        start: &[f64],
        from: f64,
        epsilon: f64,
        evaluations: &mut Evaluations<'_>,
    ) -> Result<(Profile, f64), Error> {
        let (d, smallest) = (self.dim, self.smallest());
        let (mut beta, mut theta) = (start.to_vec(), from);
        match self.thinned().map(|fewer| fewer.climb(start, from, ROUGH, evaluations)) {
            // a part of the rows may have no effect where all have one
            Some(Ok((found, log_sd))) => {
                (beta, theta) = (found.beta, if log_sd < smallest { from } else { log_sd });
            }
            Some(Err(Error::Stopped)) => return Err(Error::Stopped),
            // a part of the rows may tell too little
            Some(Err(_)) | None => {}
        }
        let mut options = EvaluationOptions { epsilon: ROUGH, ..EvaluationOptions::default() };
        let first = self.at_in(evaluations, &beta, theta, options)?;
        let mut here = Profile { beta, at: first };
        for _ in 0..2 * STEPS {
            let ridge = here.ridge(d)?;
            let alone = solve(&ridge.factor, d, here.at.gradient[..d].to_vec());
            let slope = here.at.gradient[d] - linalg::dot(&ridge.cross, &alone);
            let step = if ridge.curvature > 0.0 { -slope / ridge.curvature } else { -slope.signum() }
                .clamp(-1.0, 1.0);
            let promised = linalg::dot(&alone, &here.at.gradient[..d]) - step * slope;
            // beside the error of F, or its rounding, it does not matter
            let nothing = if here.at.error.is_finite() { 1e-4 * here.at.error } else { 0.0 };
            let nothing = nothing.max(1e-3 * flat(here.at.value));
            let done = promised <= nothing || (theta < smallest && step < 0.0);
            if done && options.epsilon <= epsilon {
                break;
            }
            let down: Vec<f64> = alone.iter().zip(&ridge.turned).map(|(a, t)| a + step * t).collect();
            if options.epsilon == ROUGH && (done || promised <= CLOSE * (1.0 + here.at.value.abs())) {
                // from here on in earnest; rough values and others can't be compared, so this step is not shortened
                here.beta.iter_mut().zip(&down).for_each(|(b, s)| *b -= s);
                theta += step;
                if epsilon == ROUGH {
                    break;
                }
                options = EvaluationOptions { epsilon, ..options };
                here.at = self.at_in(evaluations, &here.beta, theta, options)?;
                continue;
            }
            let next =
                self.shortened(&here.beta, theta, &here.at, &down, step, promised, options, evaluations)?;
            if next.is_none() && epsilon < options.epsilon {
                options = EvaluationOptions { epsilon, ..options };
                here.at = self.at_in(evaluations, &here.beta, theta, options)?;
                continue;
            }
            let Some((trial, log_sd, there)) = next else { break };
            theta = log_sd;
            (here.beta, here.at) = (trial, there);
        }
        Ok((here, theta))
    }

    /// All maxima found, the highest first: where they are (log sd; −∞ for 0) and the profile there.
    pub(super) fn maxima(
        &self,
        start: &[f64],
        epsilon: f64,
        evaluations: &mut Evaluations<'_>,
    ) -> Result<Vec<(f64, Profile)>, Error> {
        let starts = self.starts(start, evaluations)?;
        let mut out: Vec<(f64, Profile)> = Vec::new();
        let mut failed = None;
        for (beta, theta) in starts {
            let found = match self.climb(&beta, theta, epsilon, evaluations) {
                Ok((profile, theta)) if theta < self.smallest() => {
                    // F at σ = 0 is F at an sd too small to matter
                    let zero = self.profile(&profile.beta, self.smallest() - 8.0, 0.0, evaluations);
                    zero.map(|zero| (f64::NEG_INFINITY, zero))
                }
                Ok((profile, theta)) => Ok((theta, profile)),
                Err(other) => Err(other),
            };
            match found {
                Ok((theta, profile)) => {
                    let known = |(other, _): &(f64, Profile)| *other == theta || (other - theta).abs() < SAME;
                    if !out.iter().any(known) {
                        out.push((theta, profile));
                    }
                }
                Err(Error::Stopped) => return Err(Error::Stopped),
                Err(other) => failed = Some(other),
            }
        }
        out.sort_by(|a, b| a.1.at.value.total_cmp(&b.1.at.value));
        match (out.is_empty(), failed) {
            (true, Some(error)) => Err(error),
            _ => Ok(out),
        }
    }
}
