//! The covariance of two effects that maximises the collapsed likelihood, and the groups' effects given it.
//!
//! Newton's method on (β, θ) together. The block of β is positive definite; what is left of θ, the Schur complement,
//! gets its eigenvalues made positive. A maximum is not proved: F is, up to its error, but F has no convexity in θ, and
//! a region of three dimensions has more than two ends.

use certus::linalg;

use super::super::profile::{CLOSE, ROUGH, SMALLEST, factor, flat, solve};
use super::{CollapsedPair, EPSILON, Order, PairObjectiveValue, Plane};
use certus_models::Error;

/// Steps, at most.
const STEPS: usize = 200;

/// The maximum of the likelihood over β and the covariance.
#[derive(Clone, Debug)]
pub struct PairEstimate {
    /// Coefficients.
    pub beta: Vec<f64>,
    /// θ = (a, m, c).
    pub theta: [f64; 3],
    /// The sds of both effects; 0 where the likelihood falls with one from the beginning.
    pub sds: [f64; 2],
    /// Their correlation; ±1 where the second effect is a multiple of the first, 0 where one of them is 0.
    pub correlation: f64,
    /// True if the covariance is singular, at the boundary.
    pub singular: bool,
    /// F there, with derivatives.
    pub at: PairObjectiveValue,
    /// Evaluations of F.
    pub evaluations: usize,
}

/// The posterior of one group's effects given the estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairEffect {
    /// The code of the group, as it was given.
    pub group: usize,
    /// Its rows.
    pub rows: usize,
    /// Means of both effects.
    pub mean: [f64; 2],
    /// Their standard deviations.
    pub sd: [f64; 2],
    /// Their correlation.
    pub correlation: f64,
}

/// The block of β as a Cholesky factor, and H⁻¹ of the blocks of β and θ, column by column.
struct Schur {
    factor: Vec<f64>,
    turned: [Vec<f64>; 3],
    /// F_θθ − cᵀH⁻¹c.
    left: [f64; 9],
}

fn schur(at: &PairObjectiveValue, d: usize) -> Result<Schur, Error> {
    let n = d + 3;
    let factor = factor(&at.hessian, d)?;
    let cross = |j: usize| -> Vec<f64> { at.hessian[(d + j) * n..][..d].to_vec() };
    let turned = [0, 1, 2].map(|j| solve(&factor, d, cross(j)));
    let mut left = [0.0; 9];
    for (k, left) in left.iter_mut().enumerate() {
        let (i, j) = (k / 3, k % 3);
        *left = at.hessian[(d + i) * n + d + j] - linalg::dot(&cross(i), &turned[j]);
    }
    Ok(Schur { factor, turned, left })
}

/// −|left|⁻¹slope over the free parameters, in units in which each curves by 1.
fn step_of(left: &[f64; 9], slope: [f64; 3], free: &[usize]) -> [f64; 3] {
    let n = free.len();
    let mut out = [0.0; 3];
    let root: Vec<f64> = free.iter().map(|j| left[4 * j].abs().max(1e-12).sqrt()).collect();
    let part: Vec<f64> =
        (0..n * n).map(|k| left[3 * free[k / n] + free[k % n]] / (root[k / n] * root[k % n])).collect();
    let Some((values, vectors)) = linalg::eigen(&part, n) else { return out };
    for (i, value) in values.iter().enumerate() {
        let vector = &vectors[i * n..][..n];
        let along: f64 = (0..n).map(|j| vector[j] * slope[free[j]] / root[j]).sum();
        (0..n).for_each(|j| out[free[j]] -= vector[j] * along / value.abs().max(0.01) / root[j]);
    }
    out
}

impl CollapsedPair {
    /// The maximum over β and the covariance. `start` are coefficients to begin with.
    pub fn estimate(&self, start: &[f64]) -> Result<PairEstimate, Error> {
        let d = self.dim();
        let size = |z: &[f64]| {
            if z.is_empty() { 1.0 } else { (linalg::norm_squared(z) / z.len() as f64).sqrt().max(1e-300) }
        };
        let sizes = [size(&self.rows.effect), size(&self.second)];
        let floor = sizes.map(|s| (SMALLEST / s).ln());
        let mut theta = [(0.5 / sizes[0]).ln(), 0.0, (0.5 / sizes[1]).ln()];
        let mut beta = start.to_vec();
        let mut epsilon = ROUGH;
        let mut at = self.evaluate(&beta, theta, Order::Second, epsilon)?;
        let (mut evaluations, mut fixed) = (1, [false; 3]);
        for _ in 0..STEPS {
            let Schur { factor, turned, left } = schur(&at, d)?;
            let alone = solve(&factor, d, at.gradient[..d].to_vec());
            let n = d + 3;
            let slope =
                [0, 1, 2].map(|j| at.gradient[d + j] - linalg::dot(&at.hessian[(d + j) * n..][..d], &alone));
            let free: Vec<usize> = (0..3).filter(|j| !fixed[*j]).collect();
            let mut step = step_of(&left, slope, &free);
            // a and c move by at most 1, m by the slope's own spread
            let most = [1.0, (theta[2] - theta[0]).exp().hypot(theta[1]), 1.0];
            let longest = (0..3).map(|j| step[j].abs() / most[j]).fold(1.0, f64::max);
            step = step.map(|s| s / longest);
            let promised =
                linalg::dot(&alone, &at.gradient[..d]) - (0..3).map(|j| step[j] * slope[j]).sum::<f64>();
            let flat = flat(at.value);
            if epsilon == ROUGH && promised <= CLOSE * (1.0 + at.value.abs()) {
                // from here on in earnest
                epsilon = EPSILON;
                at = self.evaluate(&beta, theta, Order::Second, epsilon)?;
                evaluations += 1;
                continue;
            }
            if promised <= 1e-3 * flat {
                break;
            }
            let mut scale = 1.0;
            let next = loop {
                let trial: Vec<f64> = (0..d)
                    .map(|i| {
                        beta[i] - scale * (alone[i] + (0..3).map(|j| step[j] * turned[j][i]).sum::<f64>())
                    })
                    .collect();
                let moved = [0, 1, 2].map(|j| theta[j] + scale * step[j]);
                let there = self.evaluate(&trial, moved, Order::Second, epsilon)?;
                evaluations += 1;
                let enough = there.value <= at.value - 1e-4 * scale * promised;
                if enough || (promised < flat && there.value <= at.value + flat) {
                    break Some((trial, moved, there));
                }
                scale *= 0.5;
                if scale < 1e-10 {
                    break None;
                }
            };
            let Some((trial, moved, there)) = next else {
                if epsilon == ROUGH {
                    epsilon = EPSILON;
                    at = self.evaluate(&beta, theta, Order::Second, epsilon)?;
                    evaluations += 1;
                    continue;
                }
                break;
            };
            (beta, theta, at) = (trial, moved, there);
            // at the floor nothing changes with the sd any more, and of a slope on an effect that is 0 nothing is known
            if theta[2] <= floor[1] && at.gradient[d + 2] >= 0.0 {
                fixed[2] = true;
            }
            if theta[0] <= floor[0] && at.gradient[d] >= 0.0 {
                (fixed[0], fixed[1]) = (true, true);
            }
            if epsilon == EPSILON && promised <= 0.1 * flat {
                break;
            }
        }
        let [a, m, c] = theta;
        let first = if fixed[0] { 0.0 } else { a.exp() };
        let own = if fixed[2] { 0.0 } else { c.exp() };
        let second = own.hypot(m * first);
        let correlation = if first == 0.0 || second == 0.0 { 0.0 } else { m * first / second };
        let singular = fixed[0] || fixed[2];
        Ok(PairEstimate { beta, theta, sds: [first, second], correlation, singular, at, evaluations })
    }

    /// The effects of all groups given the estimate, in the order of their codes; the uncertainty of β is added, that
    /// of the covariance is not.
    pub fn effects(&self, estimate: &PairEstimate) -> Result<Vec<PairEffect>, Error> {
        let factor = schur(&estimate.at, self.dim())?.factor;
        let mut out = vec![None; self.groups()];
        certus::parallel::for_each_piece(&mut out, 16, 1, &|piece, part| {
            let mut plane = Plane::default();
            for (k, effect) in part.iter_mut().enumerate() {
                *effect = Some(self.effect(16 * piece + k, estimate, &factor, &mut plane));
            }
        });
        Ok(out.into_iter().flatten().collect())
    }

    fn effect(&self, g: usize, estimate: &PairEstimate, factor: &[f64], plane: &mut Plane) -> PairEffect {
        let (d, rows) = (self.dim(), &self.rows);
        let (mut t, mut s) = (<[Vec<f64>; 2]>::default(), Vec::new());
        let theta = estimate.theta;
        self.group_rows(g, &estimate.beta, theta, &mut t, &mut s).integrate(plane, EPSILON);
        let ([a, m, c], count) = (theta, plane.nodes.p.len());
        let v = |k: usize| {
            let first = a.exp() * plane.u[0][k];
            [first, m * first + c.exp() * plane.u[1][k]]
        };
        let p = &plane.nodes.p;
        let mean = [0, 1].map(|j| (0..count).map(|k| p[k] * v(k)[j]).sum::<f64>());
        let mut cov = [0.0; 3];
        let mut with = [vec![0.0; count], vec![0.0; count]];
        for k in 0..count {
            let apart = [0, 1].map(|j| v(k)[j] - mean[j]);
            cov[0] += p[k] * apart[0] * apart[0];
            cov[1] += p[k] * apart[0] * apart[1];
            cov[2] += p[k] * apart[1] * apart[1];
            (0..2).for_each(|j| with[j][k] = p[k] * apart[j]);
        }
        // dE v/dβ = −Cov(v, Σ w φ′x)
        let mut turned = [vec![0.0; d], vec![0.0; d]];
        for (i, x) in rows.a[rows.first[g] * d..rows.first[g + 1] * d].chunks_exact(d).enumerate() {
            for j in 0..2 {
                let c = linalg::dot(&plane.nodes.slope[i * count..][..count], &with[j]);
                turned[j].iter_mut().zip(x).for_each(|(t, x)| *t += c * x);
            }
        }
        turned.iter_mut().for_each(|t| linalg::solve_lower(factor, d, false, t));
        cov[0] += linalg::norm_squared(&turned[0]);
        cov[1] += linalg::dot(&turned[0], &turned[1]);
        cov[2] += linalg::norm_squared(&turned[1]);
        let sd = [cov[0].sqrt(), cov[2].sqrt()];
        let correlation = if sd[0] * sd[1] > 0.0 { cov[1] / (sd[0] * sd[1]) } else { 0.0 };
        let rows = rows.first[g + 1] - rows.first[g];
        PairEffect { group: self.rows.codes[g], rows, mean, sd, correlation }
    }
}
