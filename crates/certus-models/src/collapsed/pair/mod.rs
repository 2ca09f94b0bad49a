//! Models with two effects per group, correlated, whose covariance is not known: every group is integrated out over the plane (docs/collapsed.md, part K7).
//!
//! The effects are v₁ = e^a u₁ and v₂ = m v₁ + e^c u₂ with u ~ N(0, I): any covariance, its Cholesky factor (e^a, 0; m e^a, e^c). The parameters θ = (a, m, c)
//! enter through the density of v alone, −log N = |u|²/2 + a + c, whose derivatives at fixed v are, with f = e^{a−c},
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

use super::derivatives::{self, Derivatives};
use super::{Collapsed, Order};
use crate::design::Design;
use crate::error::Error;
use crate::likelihood::Likelihood;
use crate::prior::Prior;
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
pub struct PairAt {
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

/// Sums over groups: ℓ and its error, the flat derivatives of β, then the gradient in θ, its Hessian and that of β and θ.
#[derive(Default)]
struct Sums {
    log: f64,
    error: f64,
    beta: Vec<f64>,
    theta: Vec<f64>,
}

impl Sums {
    fn add(mut self, other: Self) -> Self {
        self.log += other.log;
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
    t: Vec<f64>,
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
            return Err(Error::Model("the two effects of a group need two different columns".into()));
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
    pub fn at(&self, beta: &[f64], theta: [f64; 3], order: Order) -> Result<PairAt, Error> {
        let d = self.dim();
        if theta.iter().any(|x| !x.is_finite()) || beta.len() != d || beta.iter().any(|b| !b.is_finite()) {
            return Err(Error::NotFinite(format!(
                "the parameters {theta:?} of the covariance and the {d} coefficients must be finite"
            )));
        }
        let piece = |piece: usize| self.piece(piece, beta, theta, order);
        let sums = certus::parallel::reduce(self.rows.pieces.len() - 1, 1, &piece, &Sums::add);
        let Sums { log, error, beta: flat, theta: own } = sums.unwrap_or_default();
        if !log.is_finite() {
            return Err(Error::NotFinite("the likelihood of some group is not finite".into()));
        }
        let prior = &self.rows.prior;
        let centred: Vec<f64> = beta.iter().zip(prior.mean()).map(|(b, m)| b - m).collect();
        let mut pull = vec![0.0; d];
        prior.add_precision_times(&centred, &mut pull);
        let energy = 0.5 * linalg::dot(&centred, &pull) + prior.constant();
        let error = error + super::ROUNDING * energy.abs();
        let mut out = PairAt {
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
        t: &'a mut Vec<f64>,
        s: &'a mut Vec<[f64; 2]>,
    ) -> PairRows<'a> {
        let rows = &self.rows;
        let (d, range) = (rows.dim, rows.first[g]..rows.first[g + 1]);
        let (first, last) = (a.exp(), c.exp());
        t.clear();
        t.extend(range.clone().map(|i| linalg::dot(&rows.a[i * d..][..d], beta) + rows.offset[i]));
        s.clear();
        s.extend(range.clone().map(|i| {
            let (z1, z2) = (rows.effect.get(i).copied().unwrap_or(1.0), self.second[i]);
            [first * (z1 + m * z2), last * z2]
        }));
        let (data, weight) = (&rows.data[range.clone()], &rows.weight[range]);
        PairRows { likelihood: &*rows.likelihood, t, s, data, weight }
    }

    fn piece(&self, piece: usize, beta: &[f64], theta: [f64; 3], order: Order) -> Sums {
        let (d, rows) = (self.dim(), &self.rows);
        let mut work = Work::default();
        let mut out = Sums::default();
        let mut derivatives = (order == Order::Second).then(|| Derivatives::new(d));
        out.theta = vec![0.0; if derivatives.is_some() { 12 + 3 * d } else { 0 }];
        for g in rows.pieces[piece]..rows.pieces[piece + 1] {
            let group = self.group_rows(g, beta, theta, &mut work.t, &mut work.s);
            let integral = group.integrate(&mut work.plane, EPSILON);
            out.log += integral.log;
            let error = integral.error;
            out.error += if error < 0.5 { error / (1.0 - error) } else { f64::INFINITY };
            out.error += integral.rounding;
            if let Some(derivatives) = &mut derivatives {
                let x = &rows.a[rows.first[g] * d..rows.first[g + 1] * d];
                derivatives.add(x, &work.plane.nodes);
                add_theta(&mut out.theta, x, d, &work.plane, theta, &derivatives.mean);
            }
        }
        out.beta = derivatives.map_or(Vec::new(), |all| all.flat());
        debug_assert!(out.beta.is_empty() || out.beta.len() == derivatives::length(d));
        out
    }
}

/// Adds a group to the derivatives with θ: 3 of the gradient, 9 of the Hessian, 3 d of that with β.
fn add_theta(out: &mut [f64], x: &[f64], d: usize, plane: &Plane, theta: [f64; 3], slopes: &[f64]) {
    let f = (theta[0] - theta[2]).exp();
    let (p, count) = (&plane.nodes.p, plane.nodes.p.len());
    let mut q: [Vec<f64>; 3] = Default::default();
    let (mut e11, mut e12, mut e22) = (0.0, 0.0, 0.0);
    for k in 0..count {
        let (u1, u2) = (plane.u[0][k], plane.u[1][k]);
        e11 += p[k] * u1 * u1;
        e12 += p[k] * u1 * u2;
        e22 += p[k] * u2 * u2;
        [1.0 - u1 * u1, -f * u1 * u2, 1.0 - u2 * u2].into_iter().zip(&mut q).for_each(|(v, q)| q.push(v));
    }
    let mean = [1.0 - e11, -f * e12, 1.0 - e22];
    for j in 0..3 {
        out[j] += mean[j];
    }
    let second = [2.0 * e11, 0.0, 0.0, 0.0, f * f * e11, 2.0 * f * e12, 0.0, 2.0 * f * e12, 2.0 * e22];
    for (k, second) in second.into_iter().enumerate() {
        let (i, j) = (k / 3, k % 3);
        let cov: f64 = (0..count).map(|l| p[l] * (q[i][l] - mean[i]) * (q[j][l] - mean[j])).sum();
        out[3 + k] += second - cov;
    }
    // p(q − mean) once, then a product per row
    for j in 0..3 {
        q[j].iter_mut().zip(p).for_each(|(q, p)| *q = p * (*q - mean[j]));
    }
    for i in 0..slopes.len() {
        let slope = &plane.nodes.slope[i * count..][..count];
        for j in 0..3 {
            let cov = linalg::dot(slope, &q[j]);
            let to = &mut out[12 + j * d..][..d];
            to.iter_mut().zip(&x[i * d..][..d]).for_each(|(o, x)| *o -= cov * x);
        }
    }
}
