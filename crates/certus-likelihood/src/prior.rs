//! Gaussian priors: −log p(z) = ½(z − μ₀)ᵀJ(z − μ₀) + c₀, with J diagonal or dense; a zero on the diagonal is a flat
//! prior.

use std::f64::consts::PI;

use certus::linalg;

use crate::error::Error;

/// J.
#[derive(Clone, Debug, PartialEq)]
pub enum Precision {
    /// Independent coefficients.
    Diagonal(Vec<f64>),
    /// Any symmetric positive semidefinite matrix, column-major.
    Dense(Vec<f64>),
}

/// A Gaussian prior.
#[derive(Clone, Debug, PartialEq)]
pub struct Prior {
    mean: Vec<f64>,
    precision: Precision,
    constant: f64,
}

impl Prior {
    /// Independent N(mean_i, sd_i²); `sd = ∞` is flat.
    pub fn independent(mean: Vec<f64>, sd: &[f64]) -> Result<Self, Error> {
        if mean.len() != sd.len() {
            return Err(Error::PriorLengths { means: mean.len(), sds: sd.len() });
        }
        if let Some(bad) = sd.iter().find(|s| s.is_nan() || **s <= 0.0) {
            return Err(Error::PriorSd(*bad));
        }
        if let Some(bad) = mean.iter().find(|m| !m.is_finite()) {
            return Err(Error::PriorMean(*bad));
        }
        let constant = sd.iter().filter(|s| s.is_finite()).map(|s| 0.5 * (2.0 * PI).ln() + s.ln()).sum();
        Ok(Self {
            mean,
            precision: Precision::Diagonal(sd.iter().map(|s| 1.0 / (s * s)).collect()),
            constant,
        })
    }

    /// N(mean, J⁻¹) with a full positive-definite precision matrix J (column-major).
    pub fn with_precision(mean: Vec<f64>, precision: Vec<f64>) -> Result<Self, Error> {
        let d = mean.len();
        if precision.len() != d * d {
            return Err(Error::PrecisionSize { coefficients: d, entries: precision.len() });
        }
        if (0..d * d).any(|k| precision[k] != precision[(k % d) * d + k / d]) {
            return Err(Error::NotSymmetric);
        }
        let log_det = linalg::log_det_positive(&precision, d).ok_or(Error::NotPositiveDefinite)?;
        let constant = 0.5 * (d as f64 * (2.0 * PI).ln() - log_det);
        Ok(Self { mean, precision: Precision::Dense(precision), constant })
    }

    /// d.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// μ₀.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// J.
    pub fn precision(&self) -> &Precision {
        &self.precision
    }

    /// c₀ = (d/2) log 2π − ½ log det J over the coefficients that are not flat.
    pub fn constant(&self) -> f64 {
        self.constant
    }

    /// True if no coefficient has a prior.
    pub fn is_flat(&self) -> bool {
        matches!(&self.precision, Precision::Diagonal(j) if j.iter().all(|j| *j == 0.0))
    }

    /// out += J x for a `d × n` batch.
    pub fn add_precision_times(&self, x: &[f64], out: &mut [f64]) {
        let d = self.dim();
        match &self.precision {
            Precision::Diagonal(j) => {
                for (out, x) in out.chunks_exact_mut(d).zip(x.chunks_exact(d)) {
                    out.iter_mut().zip(x).zip(j).for_each(|((o, x), j)| *o += j * x);
                }
            }
            Precision::Dense(j) => linalg::add_square_times(j, d, false, x, out),
        }
    }

    /// CᵀJC, symmetric to the bit; C is lower triangular if `lower`.
    pub fn congruent(&self, c: &[f64], lower: bool) -> Vec<f64> {
        let mut jc = vec![0.0; c.len()];
        self.add_precision_times(c, &mut jc);
        linalg::congruent(c, lower, &jc, self.dim())
    }

    /// matrix += J.
    pub fn add_to(&self, matrix: &mut [f64]) {
        match &self.precision {
            Precision::Diagonal(j) => {
                matrix.iter_mut().step_by(self.dim() + 1).zip(j).for_each(|(m, j)| *m += j);
            }
            Precision::Dense(j) => matrix.iter_mut().zip(j).for_each(|(m, j)| *m += j),
        }
    }
}
