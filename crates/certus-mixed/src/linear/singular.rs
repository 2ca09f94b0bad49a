//! Singular covariance matrices of several effects: a local minimum of the same rank next to the estimate, and none
//! else in a region (docs/mixed.md, L4).

use certus::linalg;

use super::ball::{Ball, Constants, Unproved, dual, part, radii};
use super::chart::Frame;
use super::small;

/// Directions that the region of L4 is made of: those of a chart of matrices of the same rank, and those out of it.
struct Split {
    along: Vec<usize>,
    out: Vec<usize>,
}

/// What is out of the range of a term: its directions, and at least the smallest and at most the largest eigenvalue of
/// Γ₂₂.
struct Outward {
    least: f64,
    most: f64,
}

/// i, j of a basis matrix.
fn place(basis: &[f64]) -> (usize, usize) {
    let k = basis.len().isqrt();
    let at = basis.iter().position(|x| *x != 0.0).unwrap_or(0);
    (at % k, at / k)
}

/// Γ₂₂ of a term from the gradient along its directions out of the range, and a bound of its error.
fn outward(c: &Constants<'_>, frames: &[Frame], term: usize, out: &[usize]) -> Option<(Vec<f64>, f64)> {
    let (r, count) = (frames[term].rank, frames[term].k - frames[term].rank);
    let (mut gamma, mut off) = (vec![0.0; count * count], 0.0);
    for &d in out.iter().filter(|&&d| c.directions[d].term == term) {
        let (i, j) = place(&c.directions[d].basis);
        let (i, j) = (i - r, j - r);
        let share = if i == j { 1.0 } else { std::f64::consts::FRAC_1_SQRT_2 };
        (gamma[j * count + i], gamma[i * count + j]) = (share * c.at.gradient[d], share * c.at.gradient[d]);
        off += c.at.gradient_error[d].powi(2);
    }
    (count > 0).then(|| (gamma, 1.01 * off.sqrt()))
}

/// H with the bend of the chart S₂₂ = S₂₁(I + S₁₁)⁻¹S₁₂: ⟨Γ₂₂, S₂₁S₁₂⟩ twice.
fn bent(c: &Constants<'_>, frames: &[Frame], split: &Split) -> (Vec<f64>, Vec<f64>) {
    let d = c.directions.len();
    let (mut hessian, mut error) = (c.at.hessian.clone(), c.at.hessian_error.clone());
    for (term, frame) in frames.iter().enumerate() {
        let Some((gamma, off)) = outward(c, frames, term, &split.out) else { continue };
        let (k, r, count) = (frame.k, frame.rank, frame.k - frame.rank);
        for (&a, &b) in split.along.iter().flat_map(|a| split.along.iter().map(move |b| (a, b))) {
            if c.directions[a].term != term || c.directions[b].term != term {
                continue;
            }
            let (x, y) = (&c.directions[a].basis, &c.directions[b].basis);
            let (mut sum, mut size) = (0.0, 0.0);
            for (i, j) in (r..k).flat_map(|i| (r..k).map(move |j| (i, j))) {
                // (S₂₁S₁₂)_ij of both, symmetric in a and b
                let each = (0..r).map(|l| x[l * k + i] * y[l * k + j] + y[l * k + i] * x[l * k + j]);
                let product: f64 = each.sum();
                sum += gamma[(j - r) * count + i - r] * product;
                size += product.abs();
            }
            hessian[b * d + a] += sum;
            error[b * d + a] += size * off + 8.0 * f64::EPSILON * (sum.abs() + hessian[b * d + a].abs());
        }
    }
    (hessian, error)
}

/// Theorem L4.
pub(super) fn singular(c: &Constants<'_>, frames: &[Frame]) -> Result<Ball, Unproved> {
    let is_out = |d: usize| {
        let (i, j) = place(&c.directions[d].basis);
        i.min(j) >= frames[c.directions[d].term].rank
    };
    let (out, along): (Vec<usize>, Vec<usize>) = (0..c.directions.len()).partition(|&d| is_out(d));
    let split = Split { along, out };
    let (hessian, hessian_error) = bent(c, frames, &split);
    let at = super::rounding::Verified { hessian, hessian_error, ..c.at.clone() };
    let bent = Constants { directions: c.directions, at: &at, units: c.units };
    let mut terms: Vec<usize> = split.along.iter().map(|&d| c.directions[d].term).collect();
    terms.dedup();
    let own = |t: usize| -> Vec<usize> {
        (0..split.along.len()).filter(|&i| c.directions[split.along[i]].term == t).collect()
    };
    let mut groups: Vec<Vec<usize>> = terms.iter().map(|&t| own(t)).collect();
    groups.push((0..split.along.len()).collect());
    let mut ends = Outward { least: f64::INFINITY, most: 0.0 };
    for t in 0..frames.len() {
        let Some((gamma, off)) = outward(c, frames, t, &split.out) else { continue };
        let (least, most) =
            linalg::extreme_eigenvalues(&gamma, gamma.len().isqrt()).ok_or(Unproved::Singular { term: t })?;
        let off = off + 1e-12 * most.abs().max(least.abs());
        if least.is_nan() || least - off <= 0.0 {
            return Err(Unproved::Level { term: t, slope: least });
        }
        ends = Outward { least: ends.least.min(least - off), most: ends.most.max(most + off) };
    }
    if terms.is_empty() {
        // S = 0 is the only point of rank 0, and F increases along every other as long as they are small
        return described(c, frames, &terms, &[], (0.0, 0.0, 0.0, 0.0));
    }
    let (l, radii, mut extents) = radii(&bent, &split.along, &groups).ok_or(Unproved::Flat)?;
    // ω̄ of all coordinates together is the largest
    let all = extents.pop().ok_or(Unproved::Flat)?;
    let omega = extents.iter().copied().fold(0.0, f64::max);
    // ‖H_aO‖ in H_b⁻¹, ‖H_OO‖, tr E_OO and m tr q₂ of what is out of the range
    let (d, m) = (c.directions.len(), c.at.m);
    let across: f64 = split
        .out
        .iter()
        .map(|&o| {
            let errors = part(&c.at.hessian_error, d, &split.along, &[o]);
            let own = dual(&l, &part(&c.at.hessian, d, &split.along, &[o]));
            (radii.grown * own + small::inner(&errors, &radii.roots)).powi(2)
        })
        .sum::<f64>()
        .sqrt();
    let sized = |a: &[f64], errors: &[f64]| -> f64 {
        let entry = |e: usize| a[e].abs() + errors[e];
        let each = split.out.iter().flat_map(|i| split.out.iter().map(move |j| j * d + i));
        each.map(|e| entry(e).powi(2)).sum::<f64>().sqrt()
    };
    let beside = sized(&c.at.hessian, &c.at.hessian_error);
    let (e_out, q_out) = (sized(&c.at.e, &c.at.e_error), sized(&c.at.q2, &c.at.q2_error));
    // sup D³F[S, S, X]/|X| where S is (a, N), ‖a‖ ≤ r in H_b, ‖N‖_F ≤ n, and |S| ≤ s
    let third = |r: f64, n: f64, s: f64| -> f64 {
        let (kappa, f) = (s / (1.0 - s), (1.0 + s) / (1.0 - s).powi(3));
        let e = (r * radii.trace.sqrt() + n * e_out.sqrt()).powi(2);
        let q = f * (r * (radii.quadratic / m).sqrt() + n * q_out.sqrt()).powi(2);
        2.0 * e / (1.0 - s).powi(3) + 2.0 * m * (q + 4.0 * kappa * (0.5 * q).sqrt()) / (1.0 - s)
    };
    let gradient: Vec<f64> = split.along.iter().map(|&i| c.at.gradient[i]).collect();
    let errors = split.along.iter().zip(&radii.roots).map(|(&i, root)| c.at.gradient_error[i] * root);
    let rounding: f64 = errors.sum();
    let epsilon = radii.grown * dual(&l, &gradient) + rounding;
    let mut reached = 0.0f64;
    for step in 0..120 {
        let r = 0.5 / omega * 0.85f64.powi(step);
        let (s, square) = (omega * r, 0.5 * (all * r).powi(2));
        // ‖B‖_F and ‖B′‖_F of B = S₂₁(I + S₁₁)⁻¹S₁₂ along the ray, and how far B′ is from its first order
        let (b, moved) = (square / (1.0 - s), square * (2.0 + s) / (1.0 - s).powi(2));
        let bend = s * (3.0 + 2.0 * s) / (1.0 - s).powi(2) * ends.most * square;
        // Γ₂₂ stays positive definite
        let side = s;
        let whole = s + b + side;
        if whole >= 1.0 {
            continue;
        }
        let slope = ends.least - across * r - beside * (b + side) - 0.5 * third(r, b + side, whole);
        let lost = bend / (r * r)
            + across * (b + moved) / r
            + beside * b * moved / (r * r)
            + 0.5 * (s + moved) * third(r, b, s + b) / (r * r);
        let left = 1.0 - radii.eta - lost;
        // NaN is no proof
        if !(slope > 0.0 && left > 0.5) {
            continue;
        }
        reached = reached.max(r * left);
        let inner = epsilon / left;
        if inner < r {
            return described(c, frames, &terms, &extents, (epsilon, rounding, inner, r));
        }
    }
    Err(Unproved::TooFar { epsilon, radius: reached })
}

/// The ball in terms of variances of effects, each relative to itself.
fn described(
    c: &Constants<'_>,
    frames: &[Frame],
    terms: &[usize],
    extents: &[f64],
    (epsilon, rounding, inner, outer): (f64, f64, f64, f64),
) -> Result<Ball, Unproved> {
    let mut relative_error = Vec::new();
    for (&term, extent) in terms.iter().zip(extents) {
        let frame = &frames[term];
        let size = extent * inner;
        let size = size + size * size / (1.0 - size);
        // W as in the proof: what is outside of the range in units of the frame
        let w = &c.units[term];
        let row = |i: usize, columns: std::ops::Range<usize>| -> f64 {
            columns.map(|j| w[j * frame.k + i].powi(2)).sum()
        };
        let part = (0..frame.k).map(|i| row(i, 0..frame.k) / row(i, 0..frame.rank)).fold(1.0, f64::max);
        relative_error.push(1.01 * size * part);
    }
    if relative_error.iter().any(|x| x.is_nan() || *x > 0.5) {
        return Err(Unproved::Singular { term: terms[0] });
    }
    Ok(Ball {
        epsilon,
        rounding,
        noise_error: c.at.q_error,
        inner,
        outer,
        unique: false,
        excluded: vec![0.0; terms.len()],
        relative_error,
        terms: terms.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::derivatives::Direction;
    use super::super::layout::{Design, Term};
    use super::super::point::{Criterion, Point};
    use super::super::proof::{self, Proof, prove};
    use super::super::rounding::Verified;
    use super::super::sample::{Noise, random};
    use super::super::search::{Place, search};
    use super::super::statistics::Statistics;
    use super::super::sums::Row;
    use super::*;

    /// A saddle with ΓU = 0 and U⊥ᵀΓU⊥ ≻ 0, whose curvature along S₁₂ is negative: F falls as S₂₂ = S₁₂² grows.
    #[test]
    fn a_saddle_is_not_proved() {
        let y = [
            0.260047, -3.786292, 1.523723, 1.198951, 4.288107, -3.08982, 3.199977, -1.065932, 0.987075,
            -1.619798,
        ];
        let z = [
            -0.214575, -2.000195, 1.124085, 0.400293, 2.403984, -1.379823, 1.312051, -0.394366, 0.506665,
            -0.333509,
        ];
        let groups: [[u32; 1]; 10] = [[1], [0], [0], [0], [1], [0], [1], [1], [1], [0]];
        let design = Design { levels: vec![2], terms: vec![Term { factor: 0, effects: 2 }], fixed: 1 };
        let effects: Vec<[f64; 2]> = z.iter().map(|z| [1.0, *z]).collect();
        let row = |i: usize| Row {
            levels: &groups[i],
            effects: &effects[i],
            fixed: &[1.0],
            response: y[i],
            weight: 1.0,
        };
        let s = Statistics::from_rows(&design, (0..10).map(row)).unwrap();
        let (a, b) = (0.0324644, 3.30099921);
        let size = f64::hypot(a, b);
        let frame = |w: Vec<f64>| Frame { k: 2, rank: 1, w };
        let place = Place::at(&s, Criterion::Ml, vec![frame(vec![a, b, -b / size, a / size])]).unwrap();
        let proof = prove(&s, &place);
        assert!(matches!(proof, Proof::None { reason: Unproved::Flat }), "{proof:?}");
        // it is one: Γ₂₂ > 0, and F is lower at S₁₂ = x, S₂₂ = x²
        assert!(place.gammas[0][3] > 0.0);
        let moved = |x: f64| {
            let t = vec![a - x * b / size, b + x * a / size, 0.0, 0.0];
            Point::new(&s, Criterion::Ml, &[t]).unwrap().value - place.point.value
        };
        assert!(moved(0.4) < -1e-4 && moved(-0.4) < 1e-4, "{} {}", moved(0.4), moved(-0.4));
    }

    /// F a polynomial in (S₁₁, S₁₂, S₂₂) = (x, y/√2, N), F = (x² + (1 − Γ)y²)/2 + N(Γ + hx): on matrices of rank 1,
    /// N = y²/(2(1 + x)), it has a minimum at 0 and stationary points at x = −1/(1 + h − Γ), y² = −2x(1 + x)²/(h − Γ),
    /// which no region may reach.
    #[test]
    fn regions_end_before_the_next_stationary_point() {
        let basis = |i: usize, j: usize| {
            let mut b = vec![0.0; 4];
            let size = if i == j { 1.0 } else { std::f64::consts::FRAC_1_SQRT_2 };
            (b[2 * i + j], b[2 * j + i]) = (size, size);
            b
        };
        let directions = [(0, 0), (1, 0), (1, 1)].map(|(i, j)| Direction {
            term: 0,
            factor: 0,
            basis: basis(i, j),
            e: Vec::new(),
        });
        let mut nearest = f64::INFINITY;
        for (gamma, h) in [(2.0, 10.0), (2.0, 20.0), (0.5, 4.0), (8.0, 40.0), (1.0, 100.0)] {
            let zero = vec![0.0; 9];
            let at = Verified {
                m: 10.0,
                gradient: vec![0.0, 0.0, gamma],
                gradient_error: vec![0.0; 3],
                hessian: vec![1.0, 0.0, h, 0.0, 1.0 - gamma, 0.0, h, 0.0, 0.0],
                hessian_error: zero.clone(),
                e: zero.clone(),
                e_error: zero.clone(),
                q1: vec![0.0; 3],
                q1_error: vec![0.0; 3],
                q2: zero.clone(),
                q2_error: zero,
                q: 10.0,
                q_error: 0.0,
            };
            let units = [vec![1.0, 1.0, -1.0, 1.0]];
            let constants = Constants { directions: &directions, at: &at, units: &units };
            let frames = [Frame { k: 2, rank: 1, w: units[0].clone() }];
            let ball = singular(&constants, &frames).unwrap();
            let x: f64 = -1.0 / (1.0 + h - gamma);
            let y = (-2.0 * x / (h - gamma)).sqrt() * (1.0 + x);
            // both derivatives are 0 there
            let n = 0.5 * y * y / (1.0 + x);
            let slopes =
                [x + n * (h - (gamma + h * x) / (1.0 + x)), y * (1.0 - gamma + (gamma + h * x) / (1.0 + x))];
            assert!(slopes.iter().all(|s| s.abs() < 1e-12), "{slopes:?}");
            let distance = x.hypot(y);
            assert!(ball.outer < distance, "{gamma} {h}: {} {distance}", ball.outer);
            nearest = nearest.min(distance / ball.outer);
        }
        println!("the nearest stationary point is at {nearest} radii");
        assert!(nearest < 6.0, "{nearest}");
    }

    /// Singular estimates of random models: most are proved, and no matrix in the region of the theorem, of any rank,
    /// has a smaller criterion than rounding explains.
    #[test]
    fn nothing_in_the_region_is_lower() {
        type Case = (&'static [usize], &'static [(usize, usize)]);
        let cases: [Case; 4] = [
            (&[6], &[(0, 2)]),
            (&[9], &[(0, 3)]),
            (&[8, 4], &[(0, 2), (1, 1)]),
            (&[7, 5], &[(0, 2), (1, 2)]),
        ];
        let mut noise = Noise(29);
        let (mut found_singular, mut proved, mut lowest, mut highest) = (0, 0, f64::INFINITY, 0.0f64);
        for case in 0..60 {
            let (levels, terms) = cases[case % 4];
            let s = random(levels, terms, 40 + case, &mut noise);
            let criterion = if case % 3 == 0 { Criterion::Ml } else { Criterion::Reml };
            let Ok(found) = search(&s, criterion) else { continue };
            let place = found.place;
            if place.frames.iter().all(|f| f.k == 1 || f.rank == f.k) {
                continue;
            }
            found_singular += 1;
            let Proof::Singular { ball, .. } = prove(&s, &place) else { continue };
            if ball.terms.is_empty() {
                continue;
            }
            proved += 1;
            let zero: Vec<usize> =
                (0..place.frames.len()).filter(|&t| place.frames[t].rank < place.frames[t].k).collect();
            let (directions, at) = proof::derivatives(&s, criterion, &place.frames, &zero).unwrap();
            let units = proof::units(&s, &place.frames, &zero);
            // ‖H_b‖ is at most this
            let size = small::inner(&at.hessian, &at.hessian).sqrt()
                + 4.0 * at.gradient.iter().map(|g| g.abs()).sum::<f64>();
            for trial in 0..200 {
                let part = 10f64.powf(-3.0 * f64::from(trial) / 200.0);
                let mut x: Vec<f64> = directions.iter().map(|_| noise.next()).collect();
                let scale = part * ball.outer / (size * small::inner(&x, &x)).sqrt();
                x.iter_mut().for_each(|x| *x *= scale);
                let terms: Vec<Vec<f64>> = (0..place.frames.len())
                    .map(|t| {
                        let (k, r) = (place.frames[t].k, place.frames[t].rank);
                        let mut m = vec![0.0; k * k];
                        for (v, x) in directions.iter().zip(&x).filter(|(v, _)| v.term == t) {
                            let (i, j) = super::place(&v.basis);
                            if i.min(j) < r {
                                m.iter_mut().zip(&v.basis).for_each(|(m, b)| *m += x * b);
                            }
                        }
                        (0..r).for_each(|i| m[i * (k + 1)] += 1.0);
                        // the Cholesky factor with S₂₂ of the face, then more of it or not
                        let mut l = m.clone();
                        for j in 0..r {
                            let sum: f64 = (0..j).map(|c| l[c * k + j].powi(2)).sum();
                            l[j * k + j] = (m[j * k + j] - sum).sqrt();
                            for i in j + 1..k {
                                let sum: f64 = (0..j).map(|c| l[c * k + j] * l[c * k + i]).sum();
                                l[j * k + i] = (m[j * k + i] - sum) / l[j * k + j];
                            }
                            (0..j).for_each(|i| l[j * k + i] = 0.0);
                        }
                        for j in r..k {
                            l[j * k..][..k].fill(0.0);
                            let more =
                                f64::from(u8::from(trial % 3 == 0)) * noise.next().abs() * scale / k as f64;
                            l[j * (k + 1)] = more.sqrt();
                        }
                        small::product(&units[t], &l, k)
                    })
                    .collect();
                let value = Point::new(&s, criterion, &terms).unwrap().value - place.point.value;
                lowest = lowest.min(value);
                highest = highest.max(value);
            }
        }
        println!("{proved} of {found_singular} proved, F in the regions from {lowest:e} to {highest:e}");
        assert!(found_singular >= 15 && proved * 2 > found_singular, "{proved} {found_singular}");
        assert!(lowest > -1e-9 && highest > 1e-4, "{lowest} {highest}");
    }
}
