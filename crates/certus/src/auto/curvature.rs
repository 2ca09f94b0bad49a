//! The frame at the mode: scales of the coordinates found by probing, the Hessian from secants of half a standard
//! deviation, and Newton steps with it.
//!
//! A secant over a good part of a standard deviation says more about the best Gaussian than a derivative does, is exact
//! for Gaussian targets, and shrugs at rounding, kinks and noise.

use super::mode::{LARGEST, Place, Search};
use super::slope::short;
use crate::error::Error;
use crate::linalg;
use crate::moving::Axes;
use crate::target::Target;

/// Points evaluated together.
const RUN: usize = 64;
/// Rounds of looking for scales: each may change one by 10⁴.
const ROUNDS: usize = 8;
/// Up to here a secant goes to both sides.
const BOTH_SIDES: usize = 128;
/// A secant's length in conditional standard deviations that is aimed at, and the range that is good enough.
const AIM: f64 = 0.5;
const RANGE: std::ops::Range<f64> = 0.05..1.5;

/// An eigenvalue this much smaller than the largest, in units of the secants, is rounding: the log density is flat
/// along its vector.
const FLAT: f64 = 1e-12;

/// What was found at the mode.
pub(super) struct Curved {
    /// P with P Pᵀ = H⁻¹ (|eigenvalues| where H is not positive definite).
    pub(super) axes: Axes,
    /// Along what the log density seems flat, in words.
    pub(super) flat: Option<String>,
    /// Along which coordinate gradients are not finite (or above 1e150) however near, and such an entry.
    pub(super) not_finite: Option<(usize, f64)>,
    /// True if H is positive definite.
    pub(super) convex: bool,
}

/// −∇ log p at `point` + `lengths[k]` e_k for the coordinates `which`, one column each.
fn probe(
    target: &dyn Target,
    point: &[f64],
    lengths: &[f64],
    which: &[usize],
    sign: f64,
) -> Result<Vec<f64>, Error> {
    let dim = point.len();
    let (mut out, mut values, mut points) = (vec![0.0; dim * which.len()], vec![0.0; RUN], Vec::new());
    for (part, which) in out.chunks_mut(dim * RUN).zip(which.chunks(RUN)) {
        points.clear();
        for &k in which {
            let start = points.len();
            points.extend_from_slice(point);
            points[start + k] += sign * lengths[k];
        }
        target.log_density(&points, &mut values[..which.len()], part).map_err(Error::Target)?;
    }
    out.iter_mut().for_each(|x| *x = -*x);
    Ok(out)
}

/// The Hessian at `search.here` from secants, as axes.
pub(super) fn curved(target: &dyn Target, search: &Search) -> Result<Curved, Error> {
    let here = &search.here;
    let dim = here.point.len();
    let mut unit = vec![0.0; dim];
    let mut lengths: Vec<f64> = (0..dim)
        .map(|k| {
            unit[k] = 1.0;
            let variance = search.inverse_hessian_times(&unit)[k];
            unit[k] = 0.0;
            let known = search.has_pairs() && variance > 0.0 && variance.is_finite();
            if known { AIM * variance.sqrt() } else { 1.0 }
        })
        .collect();
    let mut hessian = vec![0.0; dim * dim];
    let (mut left, mut flat, mut not_finite): (Vec<usize>, _, _) = ((0..dim).collect(), None, None);
    for round in 0..ROUNDS {
        let plus = probe(target, &here.point, &lengths, &left, 1.0)?;
        let minus =
            if dim <= BOTH_SIDES { Some(probe(target, &here.point, &lengths, &left, -1.0)?) } else { None };
        let mut again = Vec::new();
        for (c, &k) in left.iter().enumerate() {
            let column = &mut hessian[k * dim..][..dim];
            let (step, up) = (lengths[k], &plus[c * dim..][..dim]);
            let below = minus.as_ref().map_or(&here.slope[..], |m| &m[c * dim..][..dim]);
            for i in 0..dim {
                column[i] = (up[i] - below[i]) / if minus.is_some() { 2.0 * step } else { step };
            }
            let wild = up.iter().chain(below).find(|x| x.is_nan() || x.abs() > LARGEST);
            let wild = wild.or(column.iter().find(|x| !x.is_finite())).copied();
            let finite = wild.is_none();
            let second_derivative = column[k];
            // what rounding of the two slopes can fake
            let noise = 1e-12 * (up[k].abs() + here.slope[k].abs()) / step;
            let sds = step * second_derivative.abs().sqrt();
            if finite && RANGE.contains(&sds) && second_derivative.abs() > 8.0 * noise {
                continue;
            }
            if round + 1 == ROUNDS {
                if let Some(x) = wild {
                    not_finite = not_finite.or(Some((k, -x)));
                    column.fill(0.0);
                } else if second_derivative.abs() <= 8.0 * noise {
                    flat = flat.or(Some(format!("coordinate {k}")));
                    column.fill(0.0);
                }
                continue;
            }
            lengths[k] = if !finite {
                step / 16.0
            } else if second_derivative.abs() <= 8.0 * noise {
                step * 1e4
            } else {
                (AIM / second_derivative.abs().sqrt()).clamp(step * 1e-4, step * 1e4)
            };
            again.push(k);
        }
        left = again;
        if left.is_empty() {
            break;
        }
    }
    linalg::symmetrise(&mut hessian, dim);
    let found = axes(&hessian, &lengths);
    Ok(Curved { flat: flat.or(found.flat), not_finite, ..found })
}

/// P = Δ V |λ|^{−1/2} with Δ H Δ = V λ Vᵀ, Δ the lengths of the secants: in these units the diagonal is of order one.
fn axes(hessian: &[f64], lengths: &[f64]) -> Curved {
    let dim = lengths.len();
    let mut scaled = vec![0.0; dim * dim];
    for j in 0..dim {
        for i in 0..dim {
            scaled[j * dim + i] = lengths[i] * hessian[j * dim + i] * lengths[j];
        }
    }
    let (values, vectors) = linalg::eigen(&scaled, dim).unwrap_or_else(|| {
        let mut identity = vec![0.0; dim * dim];
        identity.iter_mut().step_by(dim + 1).for_each(|x| *x = 1.0);
        (vec![AIM * AIM; dim], identity)
    });
    let largest = values.iter().fold(0.0_f64, |a, b| a.max(b.abs()));
    // below this an eigenvalue is rounding or a flat direction; a sd of 10⁴ secants is as wide as a start should be
    let floor = (1e-10 * largest).max(1e-8 * AIM * AIM);
    let smallest =
        values.iter().zip(vectors.chunks_exact(dim)).min_by(|a, b| a.0.abs().total_cmp(&b.0.abs()));
    let flat = smallest.filter(|(value, _)| value.abs() <= FLAT * largest).map(|(_, v)| {
        let direction: Vec<f64> = v.iter().zip(lengths).map(|(x, length)| x * length).collect();
        format!("the direction {}", short(&direction))
    });
    let mut p = vectors;
    for (column, value) in p.chunks_exact_mut(dim).zip(&values) {
        let scale = value.abs().max(floor).powf(-0.5);
        column.iter_mut().zip(lengths).for_each(|(x, length)| *x *= length * scale);
    }
    Curved { axes: Axes::Dense { dim, values: p }, flat, not_finite: None, convex: values[0] > 0.0 }
}

/// Newton steps m ← m − P Pᵀ∇ψ while they gain, to half a thousandth of a nat.
pub(super) fn polish(target: &dyn Target, here: &mut Place, axes: &Axes) -> Result<(), Error> {
    let dim = here.point.len();
    for _ in 0..8 {
        let (mut whitened, mut step) = (vec![0.0; dim], vec![0.0; dim]);
        axes.add_apply_transpose(&here.slope, &mut whitened);
        axes.add_apply(&whitened, &mut step);
        let mut promise = 0.5 * linalg::norm_squared(&whitened);
        if !(promise > 5e-4 && promise.is_finite()) {
            return Ok(());
        }
        let mut t = 1.0;
        loop {
            let point = here.point.iter().zip(&step).map(|(z, s)| z - t * s).collect();
            let there = Place::at(target, point)?;
            if there.is_finite() && there.value < here.value - 1e-4 * promise {
                *here = there;
                break;
            }
            t *= 0.25;
            promise *= 0.25;
            if t < 1e-3 {
                return Ok(());
            }
        }
    }
    Ok(())
}
