//! A ball around the estimate with a maximum inside, from a bound on the third derivatives along rays
//! (docs/mixed.md, G2).

use certus::linalg;

use super::error::Error;
use super::evaluate::{Room, pairs};
use super::lattice::GroupRows;
use super::nodes::{Line, sum};
use super::rows::Model;
use super::search::{COARSE, Place};
use super::space::{MOST_EFFECTS, Vector};
use crate::linear::small;

/// The bound on third derivatives is taken by sums over nodes, and so many times what they say: far more than they
/// err by,
/// but an allowance and not a bound.
const ALLOWANCE: f64 = 2.0;
/// What the Hessian's own error may be of it, an allowance, too.
const HESSIAN: f64 = 1e-3;
/// The least eigenvalue of the scaled Hessian for which that allowance is taken to hold: rounding changes the
/// Hessian of a group of 10⁴ rows by some 10⁻¹⁰ of itself.
const LEAST: f64 = 1e-6;
/// Radii that are tried, at most.
const TRIALS: usize = 8;

/// A ball in (β, S), its radius in the norm of the Hessian: standard errors.
#[derive(Debug, Clone, PartialEq)]
pub struct Ball {
    /// A maximum is this near.
    pub radius: f64,
    /// No stationary point is this near but those within `radius`.
    pub exclusion: f64,
    /// The length of the gradient with the errors of the sums, in standard errors.
    pub gradient: f64,
    /// Every variance of the maximum is within e^{±this} of the estimate's (of a singular matrix: those of
    /// combinations within its range).
    pub log_variance: f64,
}

/// Why nothing is proved.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Unproved {
    /// The likelihood has no bounds.
    #[error("no bounds on the derivatives of this likelihood are known")]
    Likelihood,
    /// The errors of the gradient have no bound here.
    #[error("the errors of the gradient are not bounded at this estimate")]
    Unbounded,
    /// The Hessian is not positive definite, or nearly not.
    #[error(
        "the Hessian is not positive definite, or nearly not (least eigenvalue {least:e} of its scaled form)"
    )]
    Hessian {
        /// Its least eigenvalue, scaled to a unit diagonal.
        least: f64,
    },
    /// The covariance matrix is singular, and F falls outward or hardly rises.
    #[error(
        "the covariance matrix is singular, and the criterion does not rise away from it (derivative {outward:e})"
    )]
    Outward {
        /// The least derivative outward.
        outward: f64,
    },
    /// The gradient with its errors is too long.
    #[error(
        "the gradient with its errors ({gradient:e} standard errors) is too long for a ball of radius {radius:e}"
    )]
    Gradient {
        /// In standard errors.
        gradient: f64,
        /// The largest radius in which the third derivatives are small.
        radius: f64,
    },
}

/// What is proved of an estimate, in exact arithmetic on the computed derivatives, with rounding allowed for.
#[derive(Debug, Clone, PartialEq)]
pub enum Proof {
    /// G2: a maximum is in the ball.
    Ball(Ball),
    /// G2 among matrices of the same rank; that F rises outward is computed, not proved.
    Face {
        /// The ball on the face.
        ball: Ball,
        /// The least derivative outward.
        outward: f64,
    },
    /// Nothing.
    None {
        /// Why.
        reason: Unproved,
    },
}

/// How far row i's predictor moves in a unit ball: a + c|u|.
struct Reach {
    a: Vec<f64>,
    c: Vec<f64>,
}

/// G2 at a place.
pub(super) fn prove(model: &Model, place: &Place) -> Result<Proof, Error> {
    let none = |reason| Ok(Proof::None { reason });
    let (objective, frame, p) = (&place.objective, &place.frame, model.design.fixed);
    let d = objective.gradient.len();
    let likelihood = &*model.likelihood;
    let known = likelihood.third_below_second() && likelihood.strip_is_proved();
    if !known {
        return none(Unproved::Likelihood);
    }
    if objective.gradient_error.iter().any(|e| !e.is_finite()) {
        return none(Unproved::Unbounded);
    }
    let outward = frame.outward(&objective.outward).map(|(least, _)| least);
    if let Some(outward) = outward.filter(|o| *o <= 1e-9) {
        return none(Unproved::Outward { outward });
    }
    let unit: Vec<f64> = (0..d).map(|j| 1.0 / objective.hessian[j * (d + 1)].abs().sqrt()).collect();
    let scaled: Vec<f64> = (0..d * d).map(|e| objective.hessian[e] * unit[e % d] * unit[e / d]).collect();
    let least = linalg::extreme_eigenvalues(&scaled, d).map_or(f64::NAN, |(least, _)| least);
    let mut factor = objective.hessian.clone();
    if least.is_nan() || least < LEAST || !linalg::cholesky(&mut factor, d) {
        return none(Unproved::Hessian { least });
    }
    let inverse = linalg::inverse_of_factor(&factor, d);
    let mut solved = objective.gradient.clone();
    small::forward(&factor, d, &mut solved);
    let errors: f64 =
        objective.gradient_error.iter().enumerate().map(|(j, e)| e * inverse[j * (d + 1)].sqrt()).sum();
    let gradient = small::inner(&solved, &solved).sqrt() + errors;
    let omega = omega(place, p, &inverse, d);
    let reach = reaches(model, place, &inverse, d);
    let mut radius = 1e-3;
    let mut ball = None;
    for _ in 0..TRIALS {
        let c = ALLOWANCE * third(model, place, &reach, omega, radius)? / (radius * radius);
        if c <= 1.0 {
            let inner = gradient / (1.0 - HESSIAN - 0.5 * c);
            if inner < radius {
                let log_variance = omega * inner;
                ball = Some(Ball { radius: inner, exclusion: radius, gradient, log_variance });
            }
            break;
        }
        // C grows about as the radius does
        radius *= if c.is_finite() { (0.8 / c).max(1e-3) } else { 1e-3 };
    }
    let Some(ball) = ball else { return none(Unproved::Gradient { gradient, radius }) };
    Ok(match outward {
        Some(outward) => Proof::Face { ball, outward },
        None => Proof::Ball(ball),
    })
}

/// ω² = λ_max of the block of S₁₁ of H⁻¹.
fn omega(place: &Place, p: usize, inverse: &[f64], d: usize) -> f64 {
    let frame = &place.frame;
    let inside: Vec<usize> = pairs(frame)
        .iter()
        .enumerate()
        .filter(|(_, pair)| pair.0 < frame.rank)
        .map(|(at, _)| p + at)
        .collect();
    let n = inside.len();
    let block: Vec<f64> = (0..n * n).map(|e| inverse[inside[e / n] * d + inside[e % n]]).collect();
    if n == 0 { 0.0 } else { linalg::extreme_eigenvalues(&block, n).map_or(f64::INFINITY, |e| e.1.sqrt()) }
}

/// The bound on |(d/dt)³ log L| along rays of length r in the metric of H, H⁻¹ given.
#[cfg(test)]
pub(super) fn third_along(model: &Model, place: &Place, inverse: &[f64], r: f64) -> Result<f64, Error> {
    let d = place.objective.gradient.len();
    let omega = omega(place, model.design.fixed, inverse, d);
    third(model, place, &reaches(model, place, inverse, d), omega, r)
}

/// a² = xᵀ(H⁻¹)_ββx, c² = the largest form of z̃⊗u, |u| = 1, in the block of S₂₁.
fn reaches(model: &Model, place: &Place, inverse: &[f64], d: usize) -> Reach {
    let (rows, frame, p) = (&*model.sorted, &place.frame, model.design.fixed);
    let outside: Vec<(usize, usize)> = pairs(frame)
        .iter()
        .enumerate()
        .filter(|(_, pair)| pair.0 >= frame.rank)
        .map(|(at, pair)| (p + at, pair.0))
        .collect();
    let mut out = Reach { a: Vec::new(), c: Vec::new() };
    for i in 0..rows.data.len() {
        let x = &rows.x[i * p..][..p];
        let form: f64 = (0..p).map(|j| x[j] * (0..p).map(|l| inverse[j * d + l] * x[l]).sum::<f64>()).sum();
        out.a.push(form.max(0.0).sqrt());
        // |Σ z̃_l S_lj u_j| ≤ |u| Σ |z̃_l||S_lj|, |S_lj| ≤ r√(H⁻¹)
        let each = |&(at, l): &(usize, usize)| {
            let z: f64 = (0..frame.k).map(|e| frame.w[l * frame.k + e] * rows.z[i][e]).sum();
            std::f64::consts::FRAC_1_SQRT_2 * z.abs() * inverse[at * (d + 1)].sqrt()
        };
        out.c.push(outside.iter().map(each).sum());
    }
    out
}

/// Σ_g of the bound on |(d/dt)³ log I_g| along rays of length r, t ∈ [0, 1].
fn third(model: &Model, place: &Place, reach: &Reach, omega: f64, r: f64) -> Result<f64, Error> {
    let pieces = model.sorted.pieces.len() - 1;
    let piece = |piece: usize| {
        let mut room = Room::default();
        let mut out = 0.0;
        for g in model.sorted.pieces[piece]..model.sorted.pieces[piece + 1] {
            let first = model.sorted.first[g];
            out += model.with_group(g, &place.beta, &place.frame, &mut room, |group, _, line, _| {
                group_third(group, line, &reach.a[first..], &reach.c[first..], r, r * omega)
            });
        }
        out
    };
    let all = certus::parallel::reduce(pieces, 1, &piece, &|a, b| a + b).unwrap_or(0.0);
    if model.stopped() { Err(Error::Stopped) } else { Ok(if all.is_nan() { f64::INFINITY } else { all }) }
}

/// One group's bound: with A, B, D of (docs/mixed.md, G2) at every node, Ē[h] = exp(E A + ½(e^s − 1)E|u|²)·E[h exp(A
/// +
/// ½(1 − e^{−s})|u|²)], it is Ē(D + ½s³e^s|u|²) + 3(Ē(B + ½s²e^s|u|²)²)^½(Ē(A + ½se^s|u|²)²)^½ + 8Ē(A + ½se^s|u|²)³.
fn group_third(group: &GroupRows<'_>, line: &mut Line, a: &[f64], c: &[f64], r: f64, s: f64) -> f64 {
    let lattice = group.lattice([0.0; MOST_EFFECTS], COARSE);
    let n = group.t.len();
    // |φ′| ≤ cap everywhere, or (|φ′| + growth)e^d within d
    let cap: Vec<f64> = (0..n)
        .map(|i| if lattice.uniform { group.likelihood.strip_size(group.data[i]) } else { f64::INFINITY })
        .collect();
    let growth: Vec<f64> = (0..n).map(|i| group.likelihood.first_derivative_growth(group.data[i])).collect();
    let still: Vec<f64> = (0..n).map(|i| (r * a[i]).exp()).collect();
    let es = s.exp();
    // Σω, Σωu², ΣωA; then with ω exp(A + ½(1 − e^{−s})|u|²): 1, the three means
    let mut sums = [0.0; 3];
    let mut tilted = [0.0; 4];
    let (mut first, mut second, mut third, mut square) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    group.walk(&lattice, line, |line| {
        let wide = line.weight.len();
        for v in [&mut first, &mut second, &mut third, &mut square] {
            v.clear();
            v.resize(wide, 0.0);
        }
        for (at, sq) in square.iter_mut().enumerate() {
            let u: Vector = [line.u[0][at], line.u[1][at], line.u[2][at]];
            *sq = u.iter().map(|x| x * x).sum();
        }
        for i in 0..n {
            let w = group.weight[i];
            for at in 0..wide {
                let (d, near) = if c[i] == 0.0 {
                    (r * a[i], still[i])
                } else {
                    let d = r * (a[i] + c[i] * square[at].sqrt());
                    (d, d.exp())
                };
                let slope = (line.slope[i * wide + at].abs() + w * growth[i]) * near;
                let bent = line.curvature[i * wide + at] * near;
                first[at] += slope.min(w * cap[i]) * d;
                second[at] += bent * d * d;
                third[at] += bent * d * d * d;
            }
        }
        let w = &line.weight;
        sums[0] += sum(wide, |at| w[at]);
        sums[1] += sum(wide, |at| w[at] * square[at]);
        sums[2] += sum(wide, |at| w[at] * first[at]);
        let tilt = |at: usize| w[at] * (first[at] - 0.5 * (-s).exp_m1() * square[at]).exp();
        let e1 = |at: usize| first[at] + 0.5 * s * es * square[at];
        let e2 = |at: usize| second[at] + 0.5 * s * s * es * square[at];
        let e3 = |at: usize| third[at] + 0.5 * s * s * s * es * square[at];
        tilted[0] += sum(wide, |at| tilt(at) * e3(at));
        tilted[1] += sum(wide, |at| tilt(at) * e2(at).powi(2));
        tilted[2] += sum(wide, |at| tilt(at) * e1(at).powi(2));
        tilted[3] += sum(wide, |at| tilt(at) * e1(at).powi(3));
    });
    let by = ((sums[2] + 0.5 * s.exp_m1() * sums[1]) / sums[0]).exp() / sums[0];
    third_cumulant(tilted.map(|x| x * by))
}

/// |E ψ‴ − 3 Cov(ψ″, ψ′) + κ₃(ψ′)| where E|ψ‴|, Eψ″², Eψ′² and E|ψ′|³ are at most these.
fn third_cumulant([d, b, a2, a3]: [f64; 4]) -> f64 {
    d + 3.0 * (b * a2).sqrt() + 8.0 * a3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::sample::Noise;

    /// (−log Σ p e^{−ψ_t})‴ at t = 0 of ψ_t = at + bt²/2 + dt³/6 under laws of two to four points, random ones and
    /// those at which a part of the bound is nearly attained: each of its three parts alone.
    #[test]
    fn cumulants_are_bounded() {
        let mut noise = Noise(3);
        let mut share = [0.0f64; 4];
        for case in 0..20_000 {
            let n = 2 + case % 3;
            let mut p: Vec<f64> = (0..n).map(|_| (noise.next() + 1.0).powi(8)).collect();
            let all: f64 = p.iter().sum();
            p.iter_mut().for_each(|p| *p /= all);
            let kind = case / 3 % 4;
            // ψ′ and ψ″ that go together, or rare large values of ψ′ alone, or ψ‴ alone, or everything
            let [slope, bent, third] = match kind {
                0 => [1.0, 1e3, 0.0],
                1 => [1.0, 0.0, 0.0],
                2 => [0.0, 0.0, 1.0],
                _ => [1.0; 3],
            };
            let a: Vec<f64> = (0..n).map(|_| slope * noise.next()).collect();
            let together = kind == 0;
            let b: Vec<f64> = a.iter().map(|a| bent * if together { *a } else { noise.next() }).collect();
            let d: Vec<f64> = (0..n).map(|_| third * noise.next()).collect();
            let mean = |f: &dyn Fn(usize) -> f64| -> f64 { (0..n).map(|i| p[i] * f(i)).sum() };
            let (ea, eb) = (mean(&|i| a[i]), mean(&|i| b[i]));
            let central = mean(&|i| (a[i] - ea).powi(3));
            let value = mean(&|i| d[i]) - 3.0 * mean(&|i| (a[i] - ea) * (b[i] - eb)) + central;
            let sizes = [
                mean(&|i| d[i].abs()),
                mean(&|i| b[i] * b[i]),
                mean(&|i| a[i] * a[i]),
                mean(&|i| a[i].abs().powi(3)),
            ];
            let bound = third_cumulant(sizes);
            assert!(value.abs() <= bound * (1.0 + 1e-12), "{value} {bound}");
            share[kind] = share[kind].max(value.abs() / bound);
        }
        println!("at most {share:?} of the bound");
        assert!(share[0] > 0.9 && share[1] > 0.12 && share[2] > 0.9, "{share:?}");
    }
}
