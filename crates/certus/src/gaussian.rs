//! q_w = N(m, C Cᵀ), the point w = (m, C) the methods move.

use std::f64::consts::PI;
use std::fmt;

use crate::error::{Error, same_length};
use crate::factor::{Factor, Family, Workspace};
use crate::linalg;
use crate::random::{Purpose, Random};

/// Φ⁻¹(0.95): a normal law has 90 % within this many sds of its mean.
pub const NORMAL_95: f64 = 1.644_853_626_951_472_2;

/// A Gaussian with mean m and covariance factor C.
#[derive(Clone, Debug, PartialEq)]
pub struct Gaussian {
    mean: Vec<f64>,
    factor: Factor,
}

impl Gaussian {
    /// N(`mean`, C Cᵀ).
    pub fn new(mean: Vec<f64>, factor: Factor) -> Result<Self, Error> {
        same_length("the mean", factor.dim(), mean.len())?;
        if let Some(i) = mean.iter().position(|x| !x.is_finite()) {
            return Err(Error::NonFinite {
                what: "the mean",
                value: mean[i],
                place: format!("coordinate {i}"),
            });
        }
        Ok(Self { mean, factor })
    }

    /// N(`mean`, s² I) in a family of factors.
    pub fn isotropic(mean: Vec<f64>, s: f64, family: &Family) -> Result<Self, Error> {
        if !(s > 0.0 && s.is_finite()) {
            return Err(Error::invalid("the standard deviation", s, "a finite number above 0 is required"));
        }
        let factor = family.scaled_identity(mean.len(), s);
        Self::new(mean, factor)
    }

    /// d.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// m.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// C.
    pub fn factor(&self) -> &Factor {
        &self.factor
    }

    pub(crate) fn parts_mut(&mut self) -> (&mut [f64], &mut Factor) {
        (&mut self.mean, &mut self.factor)
    }

    /// Marginal standard deviations.
    pub fn sd(&self) -> Vec<f64> {
        self.factor.variances().into_iter().map(f64::sqrt).collect()
    }

    /// The full `d × d` covariance C Cᵀ; for small d.
    pub fn covariance(&self) -> Vec<f64> {
        let dim = self.dim();
        let (c, mut out, mut transpose) =
            (self.factor.to_dense(), vec![0.0; dim * dim], vec![0.0; dim * dim]);
        for j in 0..dim {
            for i in 0..dim {
                transpose[i * dim + j] = c[j * dim + i];
            }
        }
        linalg::add_square_times(&c, dim, false, &transpose, &mut out);
        out
    }

    /// Z = m + C U for a `d × n` batch: T_w applied to every column.
    pub fn transform(&self, u: &[f64], z: &mut [f64]) {
        linalg::broadcast(&self.mean, z);
        self.factor.add_apply(u, z);
    }

    /// `n` draws as a `d × n` batch; draw k depends on the seed and k only.
    pub fn sample(&self, n: usize, seed: u64) -> Vec<f64> {
        let mut u = vec![0.0; self.dim() * n];
        Random::new(seed, Purpose::Sample, 0).normals(0, 0, self.dim(), &mut u);
        let mut z = vec![0.0; u.len()];
        self.transform(&u, &mut z);
        z
    }

    /// h(w) = E log q_w = −log det C − (d/2)(1 + log 2π) (A12: with its constant).
    pub fn neg_entropy(&self) -> f64 {
        -self.factor.log_det() - 0.5 * self.dim() as f64 * (1.0 + (2.0 * PI).ln())
    }

    /// log det C + (d/2) log 2π: log q_w(m + C u) is minus this minus |u|²/2.
    pub(crate) fn log_normaliser(&self) -> f64 {
        self.factor.log_det() + 0.5 * self.dim() as f64 * (2.0 * PI).ln()
    }

    /// log q_w at the columns of a `d × n` batch; false if C is not positive definite.
    pub fn log_density(&self, points: &[f64], values: &mut [f64], workspace: &mut Workspace) -> bool {
        let dim = self.dim();
        let mut x = points.to_vec();
        for column in x.chunks_exact_mut(dim) {
            column.iter_mut().zip(&self.mean).for_each(|(x, m)| *x -= m);
        }
        if !self.factor.solve(&mut x, workspace) {
            return false;
        }
        let constant = -self.log_normaliser();
        for (value, column) in values.iter_mut().zip(x.chunks_exact(dim)) {
            *value = constant - 0.5 * column.iter().map(|x| x * x).sum::<f64>();
        }
        true
    }

    /// |w − w′|², which bounds W₂(q_w, q_w′)² (same u in both).
    pub fn distance_squared(&self, other: &Self) -> f64 {
        let part = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum::<f64>();
        part(&self.mean, &other.mean) + part(self.factor.values(), other.factor.values())
    }

    /// w ← w + t (other − w), within one family.
    pub(crate) fn move_towards(&mut self, other: &Self, t: f64) {
        let go = |a: &mut [f64], b: &[f64]| a.iter_mut().zip(b).for_each(|(x, y)| *x += t * (y - *x));
        go(&mut self.mean, &other.mean);
        go(self.factor.values_mut(), other.factor.values());
    }

    /// Mean and sd of the first ten coordinates, a line each.
    pub(crate) fn write_table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>10} {:>12} {:>12}", "", "mean", "sd")?;
        let shown = 10;
        for (i, (mean, sd)) in self.mean.iter().zip(self.sd()).enumerate().take(shown) {
            writeln!(f, "{:>10} {mean:>12.5} {sd:>12.5}", format!("z[{i}]"))?;
        }
        if self.dim() > shown {
            writeln!(f, "{:>10} and {} more", "", self.dim() - shown)?;
        }
        Ok(())
    }

    /// True if every entry is finite and the diagonal of C is positive.
    pub fn is_proper(&self) -> bool {
        let finite = |x: &[f64]| x.iter().all(|v| v.is_finite());
        finite(&self.mean)
            && finite(self.factor.values())
            && (0..self.dim()).all(|i| self.factor.diagonal(i) > 0.0)
    }
}
