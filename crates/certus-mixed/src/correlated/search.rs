//! Newton's method for (β, Σ) with exact derivatives, from several starts, through matrices of any rank (docs/mixed.md,
//! G1).

use std::ops::ControlFlow;

use certus::linalg;

use super::error::Error;
use super::evaluate::{Objective, Options, sds};
use super::rows::Model;
use crate::linear::chart::Frame;

/// First guesses of the sds, as they enter the linear predictor.
const STARTS: [f64; 2] = [0.5, 2.0];
/// The second start is tried with as many rows, at most.
const CHEAP: usize = 20_000;
/// Steps, at most.
const STEPS: usize = 120;
/// |S| of one step, at most.
const LONGEST: f64 = 1.5;
/// The relative error of a group's integral on the way, and at the end.
pub(super) const COARSE: f64 = 1e-6;
pub(super) const FINE: f64 = 1e-10;
/// The same for the proof, whose gradient must be right.
pub(super) const FINEST: f64 = 1e-13;
/// Below the first decrement integrals are exact to [`FINE`], or below the second if it no longer falls.
const NEAR: [f64; 2] = [1e-6, 1e-3];
/// Below this one the next step is the last or nearly so, and is evaluated as the proof needs it, to [`FINEST`].
const LAST: f64 = 1e-8;
/// Converged.
const DONE: f64 = 1e-19;
/// A direction whose sd falls below this is tried at 0.
pub(super) const SMALL: f64 = 0.05;
/// Directions that are released from 0, at most.
const RELEASES: usize = 4;
/// Minima whose values differ by less are the same.
const AGREE: f64 = 1e-6;

/// Sees T (k × k, by columns) and log L at every step, and may end the search.
pub type Watch<'a> = dyn FnMut(&[f64], f64) -> ControlFlow<()> + 'a;

/// A point with everything known there.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) beta: Vec<f64>,
    pub(super) frame: Frame,
    pub(super) objective: Objective,
    /// The relative error of a group's integral that was aimed at.
    pub(super) epsilon: f64,
}

/// A minimum of F.
pub(super) struct Found {
    pub(super) place: Place,
    pub(super) iterations: usize,
    pub(super) evaluations: usize,
    /// Newton's decrement gᵀH⁻¹g at the end.
    pub(super) decrement: f64,
}

impl Place {
    pub(super) fn at(model: &Model, beta: Vec<f64>, frame: Frame, epsilon: f64) -> Result<Self, Error> {
        let options = Options { second: true, epsilon, halved: false };
        let objective = model.evaluate(&beta, &frame, options)?;
        Ok(Self { beta, frame, objective, epsilon })
    }
}

/// −|H|⁻¹g and gᵀ|H|⁻¹g, |H| with the moduli of its eigenvalues, in units of its diagonal.
pub(super) fn newton(hessian: &[f64], gradient: &[f64]) -> Option<(Vec<f64>, f64)> {
    let d = gradient.len();
    if d == 0 {
        return Some((Vec::new(), 0.0));
    }
    let unit: Vec<f64> = (0..d).map(|j| 1.0 / hessian[j * (d + 1)].abs().sqrt().max(1e-150)).collect();
    let scaled: Vec<f64> = (0..d * d).map(|e| hessian[e] * unit[e % d] * unit[e / d]).collect();
    let (values, vectors) = linalg::eigen(&scaled, d)?;
    let top = values.iter().fold(0.0_f64, |a, v| a.max(v.abs()));
    let (mut step, mut decrement) = (vec![0.0; d], 0.0);
    for (value, v) in values.iter().zip(vectors.chunks_exact(d)) {
        let along: f64 = (0..d).map(|j| v[j] * unit[j] * gradient[j]).sum();
        let by = along / value.abs().max(1e-12 * top);
        decrement += along * by;
        (0..d).for_each(|j| step[j] -= by * v[j] * unit[j]);
    }
    decrement.is_finite().then_some((step, decrement))
}

/// The lowest minimum found.
pub(super) fn search(model: &Model, watch: &mut Watch<'_>) -> Result<Found, Error> {
    let (p, rms) = (model.design.fixed, model.rms());
    // the coefficients of the model without effects
    let mut none = Frame::start(rms, STARTS[0]);
    none.rank = 0;
    let mut zero = model.prior.mean().to_vec();
    zero.resize(p, 0.0);
    let alone = descend(model, zero, none, watch)?;
    let starts = if model.rows() <= CHEAP { &STARTS[..] } else { &STARTS[..1] };
    let mut evaluations = alone.evaluations;
    let mut best: Option<Found> = None;
    let mut failed = None;
    for &start in starts {
        match descend(model, alone.place.beta.clone(), Frame::start(rms, start), watch) {
            Ok(found) => {
                evaluations += found.evaluations;
                // the first wins where they agree
                let value = found.place.objective.value;
                if best.as_ref().is_none_or(|b| value < b.place.objective.value - AGREE) {
                    best = Some(found);
                }
            }
            Err(Error::Stopped) => return Err(Error::Stopped),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    match (best, failed) {
        (Some(best), _) => Ok(Found { evaluations, ..best }),
        (None, Some(error)) => Err(error),
        (None, None) => unreachable!("there is a start"),
    }
}

/// S from its coordinates, k × k.
pub(super) fn unpacked(frame: &Frame, step: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; frame.k * frame.k];
    for (b, x) in frame.basis().iter().zip(step) {
        out.iter_mut().zip(b).for_each(|(s, b)| *s += x * b);
    }
    out
}

/// A minimum of F, from a point; a frame of rank 0 keeps it.
pub(super) fn descend(
    model: &Model,
    beta: Vec<f64>,
    frame: Frame,
    watch: &mut Watch<'_>,
) -> Result<Found, Error> {
    let (p, fixed) = (model.design.fixed, frame.rank == 0);
    let groups = model.levels().len() as f64;
    let mut epsilon = COARSE;
    let mut place = Place::at(model, beta, frame, epsilon)?;
    let (mut evaluations, mut last, mut tried, mut releases) = (1, f64::INFINITY, SMALL, 0);
    for iterations in 0..STEPS {
        if watch(&place.frame.t(), place.objective.log_likelihood).is_break() {
            return Err(Error::Stopped);
        }
        let not_converged = |decrement: f64, place: &Place| Error::NotConverged {
            iterations,
            decrement,
            sds: sds(&place.frame),
        };
        let Objective { gradient, hessian, value, .. } = &place.objective;
        let Some((step, decrement)) = newton(hessian, gradient) else {
            return Err(not_converged(f64::NAN, &place));
        };
        let near = decrement < NEAR[0] || (decrement < NEAR[1] && decrement > 0.25 * last);
        if near && epsilon == COARSE {
            epsilon = FINE;
            place = Place::at(model, place.beta, place.frame, epsilon)?;
            (evaluations, last) = (evaluations + 1, f64::INFINITY);
            continue;
        }
        if decrement < DONE || (decrement < 1e-11 && decrement > 0.25 * last) {
            let outward = place.frame.outward(&place.objective.outward);
            match outward.filter(|(least, _)| !fixed && *least < -1e-6) {
                Some(_) if releases == RELEASES => return Err(not_converged(decrement, &place)),
                Some((_, vector)) => {
                    let frame = place.frame.released(&vector);
                    epsilon = COARSE;
                    place = Place::at(model, place.beta, frame, epsilon)?;
                    (releases, last, evaluations, tried) =
                        (releases + 1, f64::INFINITY, evaluations + 1, 1e-4);
                    continue;
                }
                None => return Ok(Found { place, iterations, evaluations, decrement }),
            }
        }
        last = decrement;
        let s = unpacked(&place.frame, &step[p..]);
        let mut by = (LONGEST / linalg::dot(&s, &s).sqrt()).min(1.0);
        let (shortest, descent) = (1e-9 * by, -linalg::dot(&step, gradient));
        let slack = 1e-11 * (1.0 + value.abs()) + 2.0 * epsilon * groups.sqrt();
        if decrement < LAST && epsilon == FINE {
            epsilon = FINEST;
        }
        let next = loop {
            let to: Vec<f64> = place.beta.iter().zip(&step).map(|(b, x)| b + by * x).collect();
            let moved = place.frame.moved(&s.iter().map(|x| by * x).collect::<Vec<_>>());
            if let Some(frame) = moved {
                evaluations += 1;
                match Place::at(model, to, frame, epsilon) {
                    Ok(there) if there.objective.value <= value - 1e-4 * by * descent + slack => {
                        break Some(there);
                    }
                    Err(Error::Stopped) => return Err(Error::Stopped),
                    _ => {}
                }
            }
            by /= 3.0;
            if by < shortest {
                break None;
            }
        };
        let Some(next) = next else {
            if decrement < 1e-9 {
                return Ok(Found { place, iterations, evaluations, decrement });
            }
            return Err(not_converged(decrement, &place));
        };
        place = next;
        let Some((least, frame)) = place.frame.reduced(model.rms()) else { continue };
        if least >= tried {
            continue;
        }
        // a direction at 0: kept if F is not larger there and does not fall outward
        evaluations += 1;
        let singular = Place::at(model, place.beta.clone(), frame, epsilon)?;
        let outward = singular.frame.outward(&singular.objective.outward);
        let better = singular.objective.value <= place.objective.value + 1e-3 * descent.min(1.0);
        if better && outward.is_some_and(|(least, _)| least > 0.0) {
            (place, last) = (singular, f64::INFINITY);
        } else {
            tried = 0.1 * least;
        }
    }
    Err(Error::NotConverged { iterations: STEPS, decrement: last, sds: sds(&place.frame) })
}
