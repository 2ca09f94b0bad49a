//! R1: the derivatives that L1 and L2 use, with bounds of their errors against those of the rows without any rounding
//! (docs/mixed.md, R1).

use super::derivatives::{Direction, traces};
use super::enclosure::{Enclosure, gamma};
use super::moments::{Moments, whitened};
use super::point::{Criterion, Point};
use super::residuals::{Bound, SAFE, U, dot, norm};
use super::slopes::Slopes;
use super::small;
use super::statistics::Statistics;

/// Derivatives along directions, and at least how far each is off.
#[derive(Clone)]
pub(super) struct Verified {
    pub(super) m: f64,
    pub(super) gradient: Vec<f64>,
    pub(super) gradient_error: Vec<f64>,
    pub(super) hessian: Vec<f64>,
    pub(super) hessian_error: Vec<f64>,
    pub(super) e: Vec<f64>,
    pub(super) e_error: Vec<f64>,
    pub(super) q1: Vec<f64>,
    pub(super) q1_error: Vec<f64>,
    pub(super) q2: Vec<f64>,
    pub(super) q2_error: Vec<f64>,
    /// Q, and what it is off as a part of it.
    pub(super) q: f64,
    pub(super) q_error: f64,
}

/// Bv of a direction at its factor's columns, 0 elsewhere.
fn moved(s: &Statistics, direction: &Direction, v: &[f64]) -> Vec<f64> {
    let factor = s.layout.factors[direction.factor];
    let (k, at) = (factor.effects, factor.start..factor.start + factor.columns());
    let mut out = vec![0.0; v.len()];
    for (to, v) in out[at.clone()].chunks_exact_mut(k).zip(v[at].chunks_exact(k)) {
        (0..k).for_each(|i| to[i] = (0..k).map(|l| direction.e[l * k + i] * v[l]).sum());
    }
    out
}

/// The columns of X and r, solved.
struct Solved {
    /// DM: the columns of X, whitened; v last.
    x: Vec<Vec<f64>>,
    /// ‖v̂ − v‖.
    v_error: f64,
    /// Lemma R1b: of DΞDᵀ, in the nuclear norm.
    projection: f64,
    q: f64,
    q_error: f64,
}

/// Lemma R1b; nothing if coefficients can hardly be told apart, or Q may be rounding.
fn solved(bound: &Bound<'_>) -> Option<Solved> {
    let (point, slopes) = (bound.point, bound.slopes);
    let (p, all) = (point.statistics.layout.fixed, point.statistics.layout.columns());
    let width = p + 1;
    let lx: Vec<f64> = (0..p * p).map(|e| point.lx[e / p * width + e % p]).collect();
    // columns of M, and −β̂ beside 1 for r
    let mut combinations = vec![vec![0.0; width]; width];
    for c in 0..p {
        let mut column = vec![0.0; p];
        column[c] = 1.0;
        small::forward(&lx, p, &mut column);
        (0..p).for_each(|j| combinations[j][c] = column[j]);
        combinations[p][c] = -slopes.beta[c];
    }
    combinations[p][p] = 1.0;
    let columns = whitened(point, slopes, p);
    let mut x: Vec<Vec<f64>> = (0..p).map(|j| (0..all).map(|at| columns[at * p + j]).collect()).collect();
    x.push(slopes.u.clone());
    let rights: Vec<(Vec<f64>, Vec<f64>)> = combinations.iter().map(|m| bound.right(m)).collect();
    let residuals: Vec<(Vec<f64>, Vec<f64>)> =
        x.iter().zip(&rights).map(|(x, (b, off))| bound.residual(x, b, off)).collect();
    let offs: Vec<f64> = residuals.iter().map(|r| bound.off(r)).collect();
    let modulus = |x: &[f64], r: &[f64]| x.iter().zip(r).map(|(x, r)| x.abs() * r).sum::<f64>();
    // [X r]ᵀV⁻¹[X r] in these combinations
    let gram = |a: usize, b: usize| -> (f64, f64) {
        let (kept_a, kept_b) = (bound.kept(&x[a]), bound.kept(&x[b]));
        let (own, own_off) = bound.fixed(&combinations[a], &combinations[b]);
        let (through, through_off) = dot(&rights[a].0, &kept_b);
        let (beside, beside_off) = dot(&kept_a, &residuals[b].0);
        let off = own_off
            + (through_off + modulus(&kept_b, &rights[a].1))
            + (beside_off + modulus(&kept_a, &residuals[b].1))
            + offs[a] * offs[b]
            + 4.0 * U * (own.abs() + through.abs() + beside.abs());
        (own - through - beside, SAFE * off)
    };
    let mut theta = 0.0f64;
    for (a, b) in (0..p).flat_map(|b| (0..=b).map(move |a| (a, b))) {
        let (value, off) = gram(a, b);
        let wanted = f64::from(u8::from(a == b));
        theta += (if a == b { 1.0 } else { 2.0 }) * ((value - wanted).abs() + off).powi(2);
    }
    let theta = SAFE * theta.sqrt();
    if theta.is_nan() || theta > 0.1 {
        return None;
    }
    let left: f64 = (0..p).map(|a| gram(a, p)).map(|(value, off)| (value.abs() + off).powi(2)).sum();
    let left = SAFE * left.sqrt() / (1.0 - theta);
    let (q, off) = gram(p, p);
    let off = off + left * left;
    let q_error = SAFE * off / (q - off);
    if q_error.is_nan() || q <= off || q_error > 0.1 {
        return None;
    }
    let e = SAFE * norm(&offs[..p]);
    let (p, through) = (p as f64, theta / (1.0 - theta) * (1.0 + theta));
    Some(Solved {
        v_error: SAFE * (offs[width - 1] + (1.0 + theta).sqrt() * left),
        projection: SAFE * (2.0 * (p * (1.0 + theta)).sqrt() * e + e * e + through * p),
        x,
        q,
        q_error,
    })
}

/// Derivatives at an estimate in units of which Z is given (T is the identity, or 0 for columns without a variance);
/// nothing if rounding may hide what they are.
pub(super) fn verified(
    exact: &Enclosure,
    criterion: Criterion,
    point: &Point<'_>,
    slopes: &Slopes,
    directions: &[Direction],
) -> Option<Verified> {
    let s = &exact.middle;
    let (p, d) = (s.layout.fixed, directions.len());
    let bound = Bound::new(exact, point, slopes);
    let solved = solved(&bound)?;
    let (own, parts) = bound.parts()?;
    let (trace, trace_error, total) = bound.traces(&own, &parts, directions);
    let projection = if criterion == Criterion::Reml { solved.projection } else { 0.0 };
    let v = &solved.x[p];
    let moves: Vec<Vec<f64>> = directions.iter().map(|direction| moved(s, direction, v)).collect();
    let m = point.freedom();
    let whole = s.whole.iter().flatten().chain(&s.whole_fixed).any(|whole| *whole);
    let m_error = if whole { 0.0 } else { gamma(s.depth as f64 + 4.0) * (m + p as f64) };
    let mut out = Verified {
        m,
        gradient: Vec::with_capacity(d),
        gradient_error: Vec::with_capacity(d),
        hessian: vec![0.0; d * d],
        hessian_error: vec![0.0; d * d],
        e: traces(&Moments::new(point, slopes), directions),
        e_error: vec![bound.second(&own, &parts, total, projection); d * d],
        q1: Vec::with_capacity(d),
        q1_error: Vec::with_capacity(d),
        q2: vec![0.0; d * d],
        q2_error: vec![0.0; d * d],
        q: solved.q,
        q_error: solved.q_error,
    };
    for ((direction, w), (t, t_error)) in directions.iter().zip(&moves).zip(trace.iter().zip(&trace_error)) {
        let factor = s.layout.factors[direction.factor];
        let rounding = gamma(factor.effects as f64 + 2.0);
        let (sum, sum_off) = dot(v, w);
        let size = norm(&v[factor.start..][..factor.columns()]);
        let off = sum_off + (2.0 * solved.v_error + 2.0 * rounding * size) * size + solved.v_error.powi(2);
        let slope = -sum / solved.q;
        let slope_off = off / solved.q * (1.0 + 2.0 * solved.q_error);
        let slope_off = SAFE * (slope_off + slope.abs() * (solved.q_error + 4.0 * U));
        let (mut along, mut along_off) = (*t, *t_error + projection);
        for column in solved.x[..p].iter().filter(|_| criterion == Criterion::Reml) {
            let (square, off) = dot(column, &moved(s, direction, column));
            along -= square;
            along_off += off + 2.0 * rounding * small::inner(column, column);
            along_off += 4.0 * U * (t.abs() + square.abs());
        }
        let sizes = along.abs() + m * slope.abs();
        let off = along_off + m * slope_off + m_error * slope.abs() + 4.0 * U * sizes;
        out.gradient.push(along + m * slope);
        out.gradient_error.push(SAFE * off);
        out.q1.push(slope);
        out.q1_error.push(slope_off);
    }
    second(&bound, &solved, &moves, m_error, &mut out);
    let errors = [&out.gradient_error, &out.hessian_error, &out.e_error, &out.q1_error, &out.q2_error];
    errors.iter().all(|errors| errors.iter().all(|x| x.is_finite())).then_some(out)
}

/// q₂ from images of the moves of v under ẐᵀPẐ, and H.
fn second(bound: &Bound<'_>, solved: &Solved, moves: &[Vec<f64>], m_error: f64, out: &mut Verified) {
    let (d, p, m) = (moves.len(), solved.x.len() - 1, out.m);
    let all = solved.x[p].len();
    let image = bound.slopes.times(bound.point, &moves.concat());
    let image_off = moves.iter().zip(image.chunks_exact(all)).map(|(w, z)| {
        // without the part of X, the image solves (I + ĈΠ)x = Ĉw
        let times = bound.times_all(w);
        let mut back = z.to_vec();
        for column in &solved.x[..p] {
            let by = dot(column, w).0;
            back.iter_mut().zip(column).for_each(|(b, x)| *b += by * x);
        }
        let rounding = |i: usize| times.radius[i] + gamma(bound.terms[i] + 2.0) * times.size[i];
        let off: Vec<f64> = (0..all).map(rounding).collect();
        let left = bound.off(&bound.residual(&back, &times.value, &off));
        let size = norm(w);
        let rounding = gamma(2.0 * p as f64 + 10.0) * (norm(z) + 2.0 * p as f64 * size);
        SAFE * (left + solved.projection * size + rounding)
    });
    let image_off: Vec<f64> = image_off.collect();
    for (a, b) in (0..d).flat_map(|b| (0..d).map(move |a| (a, b))) {
        // the larger index has the image, so that all stays symmetric
        let (low, high) = (a.min(b), a.max(b));
        let (w, z, z_off) = (&moves[low], &image[high * all..][..all], image_off[high]);
        let (sum, off) = dot(w, z);
        let (w_size, z_size) = (norm(w), norm(z));
        let w_off = solved.v_error + gamma(16.0) * w_size.max(norm(&moves[high]));
        let off = off + w_size * (z_off + w_off) + w_off * (z_size + z_off + w_off);
        let at = b * d + a;
        out.q2[at] = 2.0 * sum / solved.q;
        let part = solved.q_error + 4.0 * U;
        out.q2_error[at] =
            SAFE * (2.0 * off / solved.q * (1.0 + 2.0 * solved.q_error) + out.q2[at].abs() * part);
        let (q1, q1_off) = (&out.q1, &out.q1_error);
        out.hessian[at] = -out.e[at] + m * (out.q2[at] - q1[a] * q1[b]);
        let products = q1[a].abs() * q1_off[b] + q1[b].abs() * q1_off[a] + q1_off[a] * q1_off[b];
        let sizes = out.e[at].abs() + m * (out.q2[at].abs() + (q1[a] * q1[b]).abs());
        let off = out.e_error[at] + m * (out.q2_error[at] + products) + (8.0 * U + m_error / m) * sizes;
        out.hessian_error[at] = SAFE * off;
    }
}
