//! Models with two effects per group, correlated, whose covariance is not known: every group is integrated out over the
//! plane (docs/collapsed.md, part K7).
//!
//! The effects are v₁ = e^a u₁ and v₂ = m v₁ + e^c u₂ with u ~ N(0, I): any covariance, its Cholesky factor (e^a, 0; m
//! e^a, e^c). The parameters θ = (a, m, c) enter through the density of v alone, −log N = |u|²/2 + a + c, whose
//! derivatives at fixed v are, with f = e^{a−c},
//!
//! ```text
//! ∂a: 1 − u₁²,  ∂m: −f u₁u₂,  ∂c: 1 − u₂²;   ∂aa: 2u₁²,  ∂mm: f²u₁²,  ∂mc: 2f u₁u₂,  ∂cc: 2u₂²,  the others 0.
//! ```
//!
//! With q for the first, F_θ = Σ_g E q, F_θθ = Σ_g E ∂q − Cov(q), F_βθ = −Σ_g Cov(Σ w_i x_i φ_i′, q).

mod estimate;
mod integral;

use std::sync::Arc;

use certus::linalg;

pub use estimate::{PairEffect, PairEstimate};

use super::compensated::Compensated;
use super::derivatives::{self, Derivatives};
use super::group::LANES;
use super::{Collapsed, Order};
use certus_likelihood::Likelihood;
use certus_likelihood::prior::Prior;
use certus_models::Design;
use certus_models::Error;
use certus_models::error::{InvalidModel, NotFinite};
use integral::{PairRows, Plane};

/// The relative error of a group's integral to aim at.
const EPSILON: f64 = 1e-10;

/// A model with two effects per group, integrated out.
pub struct CollapsedPair {
    rows: Collapsed,
    /// The second effect's column.
    second: Vec<f64>,
}

/// F at (β, θ).
#[derive(Clone, Debug)]
pub struct PairObjectiveValue {
    /// F: minus the log likelihood, minus the log prior of β.
    pub value: f64,
    /// The log likelihood.
    pub log_likelihood: f64,
    /// Bound on the error of F by quadrature and rounding; infinite where none is proved.
    pub error: f64,
    /// The gradient in (β, a, m, c).
    pub gradient: Vec<f64>,
    /// The Hessian, column-major.
    pub hessian: Vec<f64>,
}

/// Sums over groups: ℓ and its error, the flat derivatives of β, then the gradient in θ, its Hessian and that of β and
/// θ.
#[derive(Default)]
struct Sums {
    log: Compensated,
    error: f64,
    beta: Vec<f64>,
    theta: Vec<f64>,
}

impl Sums {
    fn add(mut self, other: Self) -> Self {
        self.log.join(other.log);
        self.error += other.error;
        self.beta.iter_mut().zip(&other.beta).for_each(|(a, b)| *a += b);
        self.theta.iter_mut().zip(&other.theta).for_each(|(a, b)| *a += b);
        self
    }
}

/// Memory of a piece of work.
#[derive(Default)]
struct Work {
    plane: Plane,
    t: [Vec<f64>; 2],
    s: Vec<[f64; 2]>,
}

impl CollapsedPair {
    /// The rows of a design, the group of every row, and the two columns that vary by group (`None`: 1).
    pub fn new(
        design: &Design,
        group: &[usize],
        effects: [Option<usize>; 2],
        likelihood: Arc<dyn Likelihood>,
        prior: Prior,
    ) -> Result<Self, Error> {
        if effects[0] == effects[1] {
            let (what, required) = ("a group with two effects", "two different columns");
            return Err(InvalidModel::Requires { what, required }.into());
        }
        // the column of the second is read as that of a model with one
        let second =
            Collapsed::new(design, group, effects[1], Arc::clone(&likelihood), prior.clone())?.effect;
        let rows = Collapsed::new(design, group, effects[0], likelihood, prior)?;
        let second = if second.is_empty() { vec![1.0; rows.rows()] } else { second.to_vec() };
        Ok(Self { rows, second })
    }

    /// Coefficients.
    pub fn dim(&self) -> usize {
        self.rows.dim
    }

    /// Groups that have rows.
    pub fn groups(&self) -> usize {
        self.rows.groups()
    }

    /// F at β and θ = (a, m, c).
    pub fn at(&self, beta: &[f64], theta: [f64; 3], order: Order) -> Result<PairObjectiveValue, Error> {
        self.evaluate(beta, theta, order, EPSILON)
    }

    /// The same with another relative error of a group's integral to aim at.
    fn evaluate(
        &self,
        beta: &[f64],
        theta: [f64; 3],
        order: Order,
        epsilon: f64,
    ) -> Result<PairObjectiveValue, Error> {
        let d = self.dim();
        if theta.iter().any(|x| !x.is_finite()) || beta.len() != d || beta.iter().any(|b| !b.is_finite()) {
            return Err(NotFinite::Covariance { parameters: theta, coefficients: d }.into());
        }
        let piece = |piece: usize| self.piece(piece, beta, theta, order, epsilon);
        let sums = certus::parallel::reduce(self.rows.pieces.len() - 1, 1, &piece, &Sums::add);
        let Sums { log, error, beta: flat, theta: own } = sums.unwrap_or_default();
        let log = log.value();
        if !log.is_finite() {
            return Err(NotFinite::Quantity { what: "the likelihood of some group" }.into());
        }
        let prior = &self.rows.prior;
        let centred: Vec<f64> = beta.iter().zip(prior.mean()).map(|(b, m)| b - m).collect();
        let mut pull = vec![0.0; d];
        prior.add_precision_times(&centred, &mut pull);
        let energy = 0.5 * linalg::dot(&centred, &pull) + prior.constant();
        let error = (error + super::ROUNDING * (energy.abs() + log.abs())) * (1.0 + 1e-9);
        let mut out = PairObjectiveValue {
            value: energy - log,
            log_likelihood: log,
            error,
            gradient: Vec::new(),
            hessian: Vec::new(),
        };
        if order == Order::Second && !flat.is_empty() {
            out.gradient = flat[..d].iter().zip(&pull).map(|(g, p)| g + p).collect();
            out.gradient.extend(&own[..3]);
            let mut block: Vec<f64> =
                (0..d * d).map(|k| flat[2 * d + 1 + (k / d) * (d + 1) + k % d]).collect();
            prior.add_to(&mut block);
            let n = d + 3;
            out.hessian = vec![0.0; n * n];
            for i in 0..d {
                (0..d).for_each(|j| out.hessian[i * n + j] = block[i * d + j]);
                for j in 0..3 {
                    let cross = own[12 + j * d + i];
                    out.hessian[i * n + d + j] = cross;
                    out.hessian[(d + j) * n + i] = cross;
                }
            }
            (0..9).for_each(|k| out.hessian[(d + k / 3) * n + d + k % 3] = own[3 + k]);
        }
        Ok(out)
    }

    /// s_i = (e^a(z₁ + m z₂), e^c z₂).
    fn group_rows<'a>(
        &'a self,
        g: usize,
        beta: &[f64],
        [a, m, c]: [f64; 3],
        [t, reach]: &'a mut [Vec<f64>; 2],
        s: &'a mut Vec<[f64; 2]>,
    ) -> PairRows<'a> {
        let rows = &self.rows;
        let range = rows.first[g]..rows.first[g + 1];
        let (first, last) = (a.exp(), c.exp());
        rows.predict(range.clone(), beta, t, reach);
        s.clear();
        s.extend(range.clone().map(|i| {
            let (z1, z2) = (rows.effect.get(i).copied().unwrap_or(1.0), self.second[i]);
            [first * (z1 + m * z2), last * z2]
        }));
        let (data, weight) = (&rows.data[range.clone()], &rows.weight[range]);
        PairRows { likelihood: &*rows.likelihood, t, reach, columns: rows.dim, s, data, weight }
    }

    fn piece(&self, piece: usize, beta: &[f64], theta: [f64; 3], order: Order, epsilon: f64) -> Sums {
        let (d, rows) = (self.dim(), &self.rows);
        let mut work = Work::default();
        let mut out = Sums::default();
        let mut derivatives = (order == Order::Second).then(|| Derivatives::new(d));
        out.theta = vec![0.0; if derivatives.is_some() { 12 + 3 * d } else { 0 }];
        for g in rows.pieces[piece]..rows.pieces[piece + 1] {
            let group = self.group_rows(g, beta, theta, &mut work.t, &mut work.s);
            let integral = group.integrate(&mut work.plane, epsilon);
            out.log.add(integral.log);
            let error = integral.error;
            out.error += if error < 0.5 { error / (1.0 - error) } else { f64::INFINITY };
            out.error += integral.rounding;
            if let Some(derivatives) = &mut derivatives {
                let x = &rows.a[rows.first[g] * d..rows.first[g + 1] * d];
                derivatives.add(x, &work.plane.nodes);
                add_theta(&mut out.theta, x, d, &mut work.plane, theta);
            }
        }
        out.beta = derivatives.map_or(Vec::new(), |all| all.flat());
        debug_assert!(out.beta.is_empty() || out.beta.len() == derivatives::length(d));
        out
    }
}

/// Adds a group to the derivatives with θ: 3 of the gradient, 9 of the Hessian, 3 d of that with β.
fn add_theta(out: &mut [f64], x: &[f64], d: usize, plane: &mut Plane, theta: [f64; 3]) {
    let f = (theta[0] - theta[2]).exp();
    let Plane { nodes, u: [u1, u2], q, .. } = plane;
    let (p, count) = (&nodes.p[..], nodes.p.len());
    let square = |a: &[f64], b: &[f64]| -> f64 { sum(count, |k| p[k] * a[k] * b[k]) };
    let (e11, e12, e22) = (square(u1, u1), square(u1, u2), square(u2, u2));
    let mean = [1.0 - e11, -f * e12, 1.0 - e22];
    // √p(q − mean): products of two are covariances
    q.iter_mut().for_each(|q| q.resize(count, 0.0));
    for k in 0..count {
        let root = p[k].sqrt();
        q[0][k] = root * (e11 - u1[k] * u1[k]);
        q[1][k] = root * f * (e12 - u1[k] * u2[k]);
        q[2][k] = root * (e22 - u2[k] * u2[k]);
    }
    for j in 0..3 {
        out[j] += mean[j];
    }
    let second = [2.0 * e11, 0.0, 0.0, 0.0, f * f * e11, 2.0 * f * e12, 0.0, 2.0 * f * e12, 2.0 * e22];
    for (k, second) in second.into_iter().enumerate() {
        let (a, b) = (&q[k / 3][..], &q[k % 3][..]);
        out[3 + k] += second - sum(count, |l| a[l] * b[l]);
    }
    for q in q.iter_mut() {
        (0..count).for_each(|k| q[k] *= p[k].sqrt());
    }
    for (slope, x) in nodes.slope.chunks_exact(count).zip(x.chunks_exact(d)) {
        for (j, q) in q.iter().enumerate() {
            let cov = sum(count, |k| slope[k] * q[k]);
            let to = &mut out[12 + j * d..][..d];
            to.iter_mut().zip(x).for_each(|(o, x)| *o -= cov * x);
        }
    }
}

/// Σ f(k) over a number of nodes that is a multiple of [`LANES`], in as many sums.
#[inline(always)]
fn sum(count: usize, f: impl Fn(usize) -> f64) -> f64 {
    let mut lanes = [0.0; LANES];
    for from in (0..count).step_by(LANES) {
        for (k, lane) in lanes.iter_mut().enumerate() {
            *lane += f(from + k);
        }
    }
    lanes.iter().sum()
}
