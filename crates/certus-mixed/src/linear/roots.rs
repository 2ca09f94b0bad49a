//! L1 and R1 against stationary points with 80 digits, from rows, by other formulas (n × n matrices).
#![allow(clippy::unwrap_used)]

use dashu_float::{FBig, round::mode::HalfEven};

use super::ball::Ball;
use super::chart::Frame;
use super::derivatives::{Derivatives, directions, traces};
use super::fit::fit;
use super::layout::{Design, Term};
use super::moments::Moments;
use super::point::Criterion;
use super::proof::{self, Proof, perturbation};
use super::sample::Noise;
use super::search::search;
use super::small;
use super::statistics::Statistics;
use super::sums::Row;

type Big = FBig<HalfEven, 2>;
const BITS: usize = 320;

fn big(x: f64) -> Big {
    Big::try_from(x).unwrap().with_precision(BITS).value()
}

fn double(x: &Big) -> f64 {
    x.to_f64().value()
}

/// A square matrix by rows.
type Square = Vec<Vec<Big>>;

/// A⁻¹ of a positive definite matrix.
fn inverse(a: &Square) -> Square {
    let n = a.len();
    let unit = |i: usize| (0..n).map(move |j| big(f64::from(u8::from(i == j))));
    let mut rows: Square = (0..n).map(|i| a[i].iter().cloned().chain(unit(i)).collect()).collect();
    for c in 0..n {
        let scale = big(1.0) / &rows[c][c];
        rows[c][c..].iter_mut().for_each(|x| *x = &*x * &scale);
        let pivot = rows[c].clone();
        for (_, row) in rows.iter_mut().enumerate().filter(|(i, _)| *i != c) {
            let by = row[c].clone();
            row[c..].iter_mut().zip(&pivot[c..]).for_each(|(x, p)| *x = &*x - &by * p);
        }
    }
    rows.into_iter().map(|mut row| row.split_off(n)).collect()
}

/// The rows of a model.
pub(super) struct Rows {
    pub(super) design: Design,
    pub(super) levels: Vec<Vec<u32>>,
    pub(super) z: Vec<Vec<f64>>,
    pub(super) x: Vec<Vec<f64>>,
    pub(super) y: Vec<f64>,
    pub(super) weights: Vec<f64>,
}

impl Rows {
    pub(super) fn statistics(&self) -> Option<Statistics> {
        let row = |i: usize| Row {
            levels: &self.levels[i],
            effects: &self.z[i],
            fixed: &self.x[i],
            response: self.y[i],
            weight: self.weights[i],
        };
        Statistics::from_rows(&self.design, (0..self.y.len()).map(row)).ok()
    }

    /// z_iᵀ M z_j of a term for rows of one level.
    fn spread(&self, term: usize, first: usize, m: &Square, out: &mut Square, by: &Big) {
        let (k, factor) = (self.design.terms[term].effects, self.design.terms[term].factor);
        let z = |i: usize| self.z[i][first..first + k].iter().map(|z| big(*z)).collect::<Vec<_>>();
        for i in 0..self.y.len() {
            let left: Vec<Big> =
                m.iter().map(|row| row.iter().zip(z(i)).fold(big(0.0), |sum, (m, z)| sum + m * z)).collect();
            for j in 0..self.y.len() {
                if self.levels[i][factor] == self.levels[j][factor] {
                    let sum = left.iter().zip(z(j)).fold(big(0.0), |sum, (l, z)| sum + l * z);
                    out[i][j] = &out[i][j] + sum * by;
                }
            }
        }
    }

    fn zeros(&self) -> Square {
        vec![vec![big(0.0); self.y.len()]; self.y.len()]
    }

    /// Derivatives along matrices of terms at covariance matrices; those of second order only if asked for.
    fn derivatives(
        &self,
        criterion: Criterion,
        sigmas: &[Square],
        along: &[(usize, Square)],
        second: bool,
    ) -> Exact {
        let (n, p) = (self.y.len(), self.design.fixed);
        let firsts: Vec<usize> =
            (0..sigmas.len()).map(|t| self.design.terms[..t].iter().map(|term| term.effects).sum()).collect();
        let mut v = self.zeros();
        (0..n).for_each(|i| v[i][i] = big(1.0) / big(self.weights[i]));
        sigmas.iter().enumerate().for_each(|(t, m)| self.spread(t, firsts[t], m, &mut v, &big(1.0)));
        let inverse_v = inverse(&v);
        let times = |a: &Square, x: &[Big]| -> Vec<Big> {
            a.iter().map(|row| row.iter().zip(x).fold(big(0.0), |sum, (a, x)| sum + a * x)).collect()
        };
        let inner = |a: &[Big], b: &[Big]| a.iter().zip(b).fold(big(0.0), |sum, (a, b)| sum + a * b);
        let x: Vec<Vec<Big>> = (0..p).map(|c| self.x.iter().map(|row| big(row[c])).collect()).collect();
        let vx: Vec<Vec<Big>> = x.iter().map(|x| times(&inverse_v, x)).collect();
        let xi = inverse(&x.iter().map(|a| vx.iter().map(|b| inner(a, b)).collect()).collect());
        let mut projected = inverse_v.clone();
        for i in 0..n {
            for j in 0..n {
                for (a, b) in (0..p).flat_map(|a| (0..p).map(move |b| (a, b))) {
                    projected[i][j] = &projected[i][j] - &vx[a][i] * &xi[a][b] * &vx[b][j];
                }
            }
        }
        let y: Vec<Big> = self.y.iter().map(|y| big(*y)).collect();
        let py = times(&projected, &y);
        let q = inner(&y, &py);
        let weight = self.weights.iter().fold(big(0.0), |sum, w| sum + big(*w));
        let (m, of) = match criterion {
            Criterion::Reml => (weight - big(p as f64), &projected),
            Criterion::Ml => (weight, &inverse_v),
        };
        let mut out = Exact { gradient: vec![], q1: vec![], e: vec![], q2: vec![], q };
        let (mut moves, mut products) = (Vec::new(), Vec::new());
        for (t, e) in along {
            let mut change = self.zeros();
            self.spread(*t, firsts[*t], e, &mut change, &big(1.0));
            let trace = of.iter().zip(&change).fold(big(0.0), |sum, (a, b)| sum + inner(a, b));
            let moved = times(&change, &py);
            let quadratic = inner(&py, &moved);
            out.gradient.push(trace - &m * &quadratic / &out.q);
            out.q1.push(-quadratic / &out.q);
            if second {
                // change is symmetric
                products.push(of.iter().map(|row| times(&change, row)).collect::<Square>());
                moves.push(moved);
            }
        }
        for (b, a) in (0..moves.len()).flat_map(|b| (0..moves.len()).map(move |a| (b, a))) {
            let each = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
            let sum = |(i, j): (usize, usize)| &products[a][i][j] * &products[b][j][i];
            out.e.push(each.fold(big(0.0), |all, at| all + sum(at)));
            out.q2.push(big(2.0) * inner(&moves[a], &times(&projected, &moves[b])) / &out.q);
        }
        out
    }
}

/// Derivatives with 80 digits.
struct Exact {
    gradient: Vec<Big>,
    q1: Vec<Big>,
    e: Vec<Big>,
    q2: Vec<Big>,
    q: Big,
}

/// A k × k matrix by columns.
fn square(a: &[f64]) -> Square {
    let k = a.len().isqrt();
    (0..k).map(|i| (0..k).map(|j| big(a[j * k + i])).collect()).collect()
}

/// TSTᵀ of k × k matrices, T by columns.
fn congruent(t: &[f64], s: &Square) -> Square {
    let k = s.len();
    let at = |i: usize, j: usize| big(t[j * k + i]);
    let mut left = vec![vec![big(0.0); k]; k];
    let mut out = left.clone();
    for (i, j, l) in (0..k * k * k).map(|e| (e % k, e / k % k, e / k / k)) {
        left[i][j] = &left[i][j] + at(i, l) * &s[l][j];
    }
    for (i, j, l) in (0..k * k * k).map(|e| (e % k, e / k % k, e / k / k)) {
        out[i][j] = &out[i][j] + &left[i][l] * at(j, l);
    }
    out
}

/// What a ball is compared with: ‖S_f‖ of the root per term, in units of what the ball says, of what it would say
/// with the expected rounding of earlier versions, and without any; the ratio of the root's sd to that of the fit, in
/// the interval of the ball (0 to 1).
pub(super) struct Compared {
    pub(super) ball: Ball,
    pub(super) off: f64,
    pub(super) off_expected: f64,
    pub(super) off_without: f64,
    pub(super) sds_inside: bool,
}

/// A fit that is proved by L1, beside the root with 80 digits; nothing where nothing is proved.
pub(super) fn compared(rows: &Rows, criterion: Criterion) -> Option<Compared> {
    let s = rows.statistics()?;
    let found = fit(&s, criterion).ok()?;
    let Proof::Ball(ball) = found.proof.clone() else { return None };
    let place = search(&s, criterion).ok()?.place;
    let directions = directions(&s, &place.frames);
    let derivatives = Derivatives::new(&place.point, &place.slopes, &directions);
    let e = traces(&Moments::new(&place.point, &place.slopes), &directions);
    let (mut l, d) = (derivatives.hessian(&e), directions.len());
    assert!(small::cholesky(&mut l, d));
    // Newton's method with the Hessian at the estimate: the distance falls to a small part of itself in every step
    let mut at: Vec<Square> =
        found.factors.iter().map(|t| vec![vec![big(0.0); t.len().isqrt()]; t.len().isqrt()]).collect();
    let along: Vec<(usize, Square)> =
        directions.iter().map(|v| (v.term, congruent(&found.factors[v.term], &square(&v.basis)))).collect();
    let mut sum_of_squares = big(0.0);
    let mut last = f64::INFINITY;
    for _ in 0..60 {
        let sigmas: Vec<Square> = at
            .iter()
            .zip(&found.factors)
            .map(|(s, t)| {
                let mut one = s.clone();
                (0..one.len()).for_each(|i| one[i][i] = &one[i][i] + big(1.0));
                congruent(t, &one)
            })
            .collect();
        let exact = rows.derivatives(criterion, &sigmas, &along, false);
        sum_of_squares = exact.q;
        let mut step: Vec<f64> = exact.gradient.iter().map(double).collect();
        small::forward(&l, d, &mut step);
        last = small::inner(&step, &step).sqrt();
        if last < 1e-80 {
            break;
        }
        small::backward(&l, d, &mut step);
        for (v, step) in directions.iter().zip(&step) {
            let k = v.basis.len().isqrt();
            for (i, j) in (0..k).flat_map(|i| (0..k).map(move |j| (i, j))) {
                at[v.term][i][j] = &at[v.term][i][j] - big(*step) * big(v.basis[j * k + i]);
            }
        }
    }
    assert!(last < 1e-70, "no root: {last}");
    let size = |s: &Square| s.iter().flatten().map(|x| double(x).powi(2)).sum::<f64>().sqrt();
    let off = at.iter().zip(&ball.relative_error).map(|(s, r)| size(s) / r).fold(0.0, f64::max);
    let m = place.point.freedom();
    let expected: f64 = {
        let inverse = certus::linalg::inverse_of_factor(&l, d);
        let sizes = derivatives.gradient.iter().zip(&derivatives.q1);
        let each = sizes.map(|(g, q)| 4.0 * perturbation(&place.point) * ((g - m * q).abs() + m * q.abs()));
        each.enumerate().map(|(i, e)| e * inverse[i * (d + 1)].sqrt()).sum()
    };
    let without = ball.epsilon - ball.rounding;
    // sds of the root against those of the fit
    let mut sds_inside = true;
    let variance = sum_of_squares / big(m);
    for (t, (s, factor)) in at.iter().zip(&found.factors).enumerate() {
        let mut one = s.clone();
        (0..one.len()).for_each(|i| one[i][i] = &one[i][i] + big(1.0));
        let sigma = congruent(factor, &one);
        let (low, high) = ball.sd_factors(t);
        for (i, sd) in found.terms[t].sds.iter().enumerate() {
            let ratio = double(&(&sigma[i][i] * &variance / (big(*sd) * big(*sd))));
            sds_inside &= ratio >= low * low && ratio <= high * high;
        }
    }
    Some(Compared {
        off,
        off_expected: off * ball.epsilon / (without + expected),
        off_without: off * ball.epsilon / without,
        sds_inside,
        ball,
    })
}

/// A small model that loses digits somewhere: columns far from 0 or badly scaled, responses far from 0, effects far
/// larger than the noise, weights; nested and crossed factors.
pub(super) fn adverse(kind: usize, noise: &mut Noise) -> Rows {
    let (n, many) = (20 + kind % 7, 4 + kind % 3);
    let whole = |noise: &mut Noise, most: usize| ((noise.next() + 1.0) * 0.5 * most as f64) as u32;
    let two = kind % 3 == 1;
    let slopes = kind % 3 == 2 || kind % 5 == 3;
    let (large, small_noise) =
        (if kind % 4 == 2 { 300.0 } else { 1.0 }, if kind % 8 == 5 { 1e-3 } else { 1.0 });
    let offset = [0.0, 0.0, 30.0, 0.0, -8.0, 100.0][kind % 6];
    let scale = [1.0, 1e5, 1.0, 1e-6][kind / 2 % 4];
    let away = [0.0, 1e3, 1e9, 0.0, 1e6][kind % 5];
    let centre = [0.0, 2000.0, 0.0, 40.0][kind / 3 % 4];
    let terms = match (two, slopes) {
        (true, true) => vec![Term { factor: 0, effects: 2 }, Term { factor: 1, effects: 1 }],
        (true, false) => vec![Term { factor: 0, effects: 1 }, Term { factor: 1, effects: 1 }],
        (false, true) => vec![Term { factor: 0, effects: 2 }],
        (false, false) => vec![Term { factor: 0, effects: 1 }],
    };
    let levels = if two { vec![many + 2, 3] } else { vec![many] };
    let effects: Vec<[f64; 3]> =
        (0..16).map(|_| [noise.next(), noise.next(), noise.next()].map(|x| 2.0 * large * x)).collect();
    let design = Design { levels, terms, fixed: 2 };
    let mut out = Rows { design, levels: vec![], z: vec![], x: vec![], y: vec![], weights: vec![] };
    for i in 0..n {
        let first = if i < many { i as u32 } else { whole(noise, out.design.levels[0]) };
        let second = if kind.is_multiple_of(2) { first % 3 } else { whole(noise, 3) };
        let (slope, x) = (noise.next(), noise.next());
        let mut z = vec![1.0];
        let mut y = away + 3.0 * x + effects[first as usize][0] + small_noise * noise.next();
        if slopes {
            z.push(scale * (offset + slope));
            y += effects[first as usize][1] * slope;
        }
        if two {
            z.push(1.0);
            y += effects[10 + second as usize][2];
        }
        out.levels.push(if two { vec![first, second] } else { vec![first] });
        out.z.push(z);
        out.x.push(vec![1.0, centre + x]);
        out.y.push(y);
        out.weights.push(if kind % 4 == 3 { 0.3 + 0.9 * (noise.next() + 1.0) } else { 1.0 });
    }
    out
}

/// What `count` models of all kinds show: (proved, largest part of the ball that is needed, how many are beyond
/// the rounding that earlier versions expected, and how many beyond none at all).
fn attack(first: usize, count: usize) -> (usize, f64, usize, usize) {
    let (mut proved, mut worst, mut expected, mut without) = (0, 0.0f64, 0, 0);
    for kind in first..first + count {
        let mut noise = Noise(1000 + kind as u64);
        (0..20).for_each(|_| _ = noise.next());
        let rows = adverse(kind, &mut noise);
        let criterion = if kind % 2 == 0 { Criterion::Reml } else { Criterion::Ml };
        let Some(found) = compared(&rows, criterion) else { continue };
        println!(
            "{kind}: {:.1e} of r0 {:.1e} ({:.1e} rounding of {:.1e}), {:.1e} of what was expected",
            found.off, found.ball.inner, found.ball.rounding, found.ball.epsilon, found.off_expected
        );
        assert!(found.off <= 1.0 && found.sds_inside, "{kind}: {} {:?}", found.off, found.ball);
        proved += 1;
        worst = worst.max(found.off);
        expected += usize::from(found.off_expected > 1.0);
        without += usize::from(found.off_without > 1.0);
    }
    (proved, worst, expected, without)
}

/// Derivatives at any place, also where terms have no variance, are within their bounds; the largest part of a bound
/// that is needed, of gradients, E, q₁, q₂ and Q.
#[test]
fn derivatives_are_within_their_bounds() {
    let (mut worst, mut verified) = ([0.0f64; 5], 0);
    for kind in 0..96 {
        let mut noise = Noise(70 + kind as u64);
        let rows = adverse(kind, &mut noise);
        let Some(s) = rows.statistics() else { continue };
        let criterion = if kind % 2 == 0 { Criterion::Reml } else { Criterion::Ml };
        let (rms, mut frames) = (s.rms(), Vec::new());
        for (term, rms) in rows.design.terms.iter().zip(&rms) {
            let k = term.effects;
            let zero = k == 1 && (kind / 2) % 3 == 0;
            let mut w: Vec<f64> = (0..k * k).map(|e| 0.3 * noise.next() / rms[e % k]).collect();
            let size = (3.0 * noise.next()).exp();
            (0..k).for_each(|i| w[i * (k + 1)] = size / rms[i]);
            frames.push(Frame { k, rank: if zero { 0 } else { k }, w });
        }
        let zero: Vec<usize> = (0..frames.len()).filter(|&t| frames[t].rank == 0).collect();
        let Some((directions, at)) = proof::derivatives(&s, criterion, &frames, &zero) else { continue };
        let units = proof::units(&s, &frames, &zero);
        let along: Vec<(usize, Square)> =
            directions.iter().map(|v| (v.term, congruent(&units[v.term], &square(&v.basis)))).collect();
        let sigmas: Vec<Square> = frames
            .iter()
            .map(|f| match f.rank {
                0 => vec![vec![big(0.0)]],
                _ => congruent(&f.w, &square(&small::identity(f.k))),
            })
            .collect();
        let exact = rows.derivatives(criterion, &sigmas, &along, true);
        let q_error = [at.q * at.q_error];
        let parts = [
            (&exact.gradient[..], &at.gradient[..], &at.gradient_error[..]),
            (&exact.e, &at.e, &at.e_error),
            (&exact.q1, &at.q1, &at.q1_error),
            (&exact.q2, &at.q2, &at.q2_error),
            (std::slice::from_ref(&exact.q), &[at.q], &q_error),
        ];
        for (worst, (exact, found, errors)) in worst.iter_mut().zip(parts) {
            for ((exact, found), error) in exact.iter().zip(found).zip(errors) {
                let off = double(&(exact - big(*found))).abs() / error;
                assert!(off <= 1.0, "{kind}: {off} of {error} of {found}");
                *worst = worst.max(off);
            }
        }
        verified += 1;
    }
    println!("{verified} verified, parts of the bounds that are needed: {worst:?}");
    assert!(verified >= 60, "{verified}");
    // bounds are not sharp, but they are not anything
    assert!(worst[0] > 1e-3 && worst[4] > 1e-3, "{worst:?}");
}

/// The root is in the ball of every model that is proved; without R1 it would be outside of some.
#[test]
fn balls_contain_the_roots() {
    let (proved, worst, expected, without) = attack(0, 60);
    println!(
        "{proved} proved, {worst} of a ball at most, {expected} beyond what was expected, {without} beyond none"
    );
    assert!(proved >= 40 && without > 0, "{proved} {without}");
}

/// The same of many.
#[test]
#[ignore = "long: `cargo test -p certus-mixed --release --lib linear::roots::full -- --ignored`"]
fn full() {
    let (proved, worst, expected, without) = attack(60, 800);
    println!(
        "{proved} proved, {worst} of a ball at most, {expected} beyond what was expected, {without} beyond none"
    );
    assert!(proved > 500);
}
