//! Standard deviations of 0: where the criterion increases as they leave 0 (docs/mixed.md, L2).

use super::ball::{Ball, Constants, Unproved, dual, part, radii};
use super::small;
use super::statistics::Statistics;

/// {‖S_I‖ ≤ radius in H_II, 0 ≤ S_f ≤ side}.
pub(super) struct Region {
    pub(super) radius: f64,
    pub(super) side: f64,
}

/// τ with (number of terms at 0) τ² max_g (Z_fᵀZ_f)_gg ≤ 1, so that Σ τ²Z_fZ_fᵀ ⪯ I.
pub(super) fn frame(s: &Statistics, term: usize, count: usize) -> f64 {
    let k = s.layout.places[term].effects;
    unit(s, term, count, &small::identity(k))
}

/// The same for directions U of a term, k numbers each: (number of terms) τ² max_g tr UᵀZ_fᵀZ_fU ≤ 1.
pub(super) fn unit(s: &Statistics, term: usize, count: usize, directions: &[f64]) -> f64 {
    let place = &s.layout.places[term];
    let (k, own) = (s.layout.factors[place.factor].effects, place.effects);
    let of = |a: &[f64]| -> f64 {
        let a = s.layout.part(place, a);
        let square = |u: &[f64]| -> f64 { (0..own * own).map(|e| u[e % own] * a[e] * u[e / own]).sum() };
        directions.chunks_exact(own).map(square).sum()
    };
    let most = s.own[place.factor].chunks_exact(k * k).map(of).fold(0.0, f64::max);
    // a little below, for the rounding of the sum and of the root
    (1.0 - 1e-6) / (count as f64 * most).sqrt()
}

/// The largest region found in which the criterion increases in every S_f of the terms `zero`.
pub(super) fn increasing(
    c: &Constants<'_>,
    inside: &[usize],
    zero: &[usize],
    ball: Option<&Ball>,
) -> Result<Region, Unproved> {
    let d = c.at.gradient.len();
    let at: Vec<usize> = (0..d).filter(|&i| zero.contains(&c.directions[i].term)).collect();
    let level = |i: usize| Unproved::Level { term: c.directions[i].term, slope: c.at.gradient[i] };
    let slopes: Vec<f64> = at.iter().map(|&i| c.at.gradient[i] - c.at.gradient_error[i]).collect();
    if let Some(i) = slopes.iter().position(|g| g.is_nan() || *g <= 0.0) {
        return Err(level(at[i]));
    }
    let mut weakest = at[0];
    for step in 0..80 {
        let side = 0.95 * 0.85f64.powi(step);
        match ball {
            None if at.len() == 1 => {
                if alone(c, at[0], slopes[0], side) {
                    return Ok(Region { radius: 0.0, side });
                }
            }
            _ => {
                let radius = ball.map_or(0.0, |b| b.outer * (side / 0.95));
                if ball.is_some_and(|b| b.inner > radius) {
                    break;
                }
                match region(c, inside, &at, &slopes, radius, side) {
                    None => return Ok(Region { radius, side }),
                    Some(i) => weakest = i,
                }
            }
        }
    }
    Err(level(weakest))
}

/// One term alone: F′(t) ≥ g + tH − ½t²C(s) on [0, s], a concave function of t.
fn alone(c: &Constants<'_>, i: usize, slope: f64, s: f64) -> bool {
    let (d, m) = (c.at.gradient.len(), c.at.m);
    let at = i * (d + 1);
    let (kappa, f) = (s / (1.0 - s), (1.0 + s) / (1.0 - s).powi(3));
    let (e, q2) = (c.at.e[at] + c.at.e_error[at], c.at.q2[at] + c.at.q2_error[at]);
    let (q1, h) = (c.at.q1[i].abs() + c.at.q1_error[i], c.at.hessian[at] - c.at.hessian_error[at]);
    let first = kappa.min(q1 * s + f * q2 * s * s);
    let cubic = (2.0 * kappa * e / (1.0 - s).powi(2) + 3.0 * m * f * q2 * (kappa + first)) / s;
    slope + s * h - 0.5 * s * s * cubic > 0.0
}

/// Theorem L2 on one region: the direction for which it fails, if it does.
fn region(
    c: &Constants<'_>,
    inside: &[usize],
    at: &[usize],
    slopes: &[f64],
    radius: f64,
    side: f64,
) -> Option<usize> {
    let (d, m) = (c.at.gradient.len(), c.at.m);
    let groups: Vec<Vec<usize>> = vec![(0..inside.len()).collect()];
    let (mut s, mut e, mut q) = (side, 0.0, 0.0);
    let (mut factor, mut roots, mut grown) = (Vec::new(), Vec::new(), 1.0);
    if !inside.is_empty() {
        let Some((l, radii, _)) = radii(c, inside, &groups) else { return Some(at[0]) };
        s = side.max(radius * radii.omega);
        e = radius * radii.trace.sqrt();
        q = radius * (radii.quadratic / m).sqrt();
        (factor, roots, grown) = (l, radii.roots, radii.grown);
    }
    for &i in at {
        let own = i * (d + 1);
        e += side * (c.at.e[own] + c.at.e_error[own]).max(0.0).sqrt();
        q += side * (c.at.q2[own] + c.at.q2_error[own]).max(0.0).sqrt();
    }
    if s >= 1.0 {
        return Some(at[0]);
    }
    let (kappa, f) = (s / (1.0 - s), (1.0 + s) / (1.0 - s).powi(3));
    let (e, q) = (e * e, f * q * q);
    let cubic = 2.0 * e / (1.0 - s).powi(3) + 2.0 * m * (q + 4.0 * kappa * (0.5 * q).sqrt()) / (1.0 - s);
    for (&i, &slope) in at.iter().zip(slopes) {
        let mut across = 0.0;
        if !inside.is_empty() {
            let off = part(&c.at.hessian_error, d, inside, &[i]);
            across =
                grown * dual(&factor, &part(&c.at.hessian, d, inside, &[i])) + small::inner(&off, &roots);
        }
        let size = |j: usize| c.at.hessian[j * d + i].abs() + c.at.hessian_error[j * d + i];
        let beside: f64 = at.iter().map(|&j| size(j) * side).sum();
        let bound = slope - across * radius - beside - 0.5 * cubic;
        if bound.is_nan() || bound <= 0.0 {
            return Some(i);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::chart::Frame;
    use super::super::point::Criterion;
    use super::super::proof::{Proof, prove};
    use super::super::sample::{Noise, random};
    use super::super::search::Place;
    use super::*;

    /// At an sd of 0 from which the criterion falls nothing is proved, for one term and beside another.
    #[test]
    fn nothing_is_proved_where_the_criterion_falls() {
        let mut noise = Noise(7);
        let one: &[(usize, usize)] = &[(0, 1)];
        let two: &[(usize, usize)] = &[(0, 1), (1, 1)];
        for (levels, terms) in [(&[6usize][..], one), (&[8, 5], two)] {
            let s = random(levels, terms, 60, &mut noise);
            for criterion in [Criterion::Ml, Criterion::Reml] {
                let frames = vec![Frame { k: 1, rank: 0, w: vec![1.0] }; terms.len()];
                let proof = prove(&s, &Place::at(&s, criterion, frames).unwrap());
                let Proof::None { reason: Unproved::Level { slope, .. } } = proof else {
                    panic!("{levels:?}, {criterion:?}: {proof:?}")
                };
                // it falls: no matter of rounding
                assert!(slope < -1e-3, "{slope}");
            }
        }
    }
}
