//! Student's law as a proposal: of the coordinates of scales, or of coefficients and scales together.

use std::f64::consts::PI;

use certus::linalg;
use certus_likelihood::special::ln_gamma;
use certus_mixed::density::CollapsedSample;

/// ν.
pub(crate) const FREEDOM: usize = 5;
/// The factor of the sds of the first proposal, and of one that has the moments of draws.
const WIDER: [f64; 2] = [1.5, 1.2];

/// A center, and a lower factor of what would be the covariance of a normal law.
#[derive(Clone)]
pub(crate) struct Student {
    pub(crate) center: Vec<f64>,
    factor: Vec<f64>,
}

impl Student {
    /// To begin with: around a point with this covariance, its sds a little wider; `None` if it is singular.
    pub(crate) fn first(center: Vec<f64>, covariance: &[f64]) -> Option<Self> {
        Self::wider(center, covariance, WIDER[0])
    }

    fn wider(center: Vec<f64>, covariance: &[f64], by: f64) -> Option<Self> {
        let mut factor: Vec<f64> = covariance.iter().map(|c| by * by * c).collect();
        let dim = center.len();
        linalg::cholesky(&mut factor, dim).then_some(Self { center, factor })
    }

    /// With the moments of the last coordinates of draws that have `dim`; as it is if they have none.
    pub(crate) fn adapted(&self, found: &CollapsedSample, dim: usize) -> Self {
        let (k, (mean, covariance)) = (self.dim(), found.moments(dim));
        let part = |e: usize| covariance[(dim - k + e / k) * dim + dim - k + e % k];
        let own: Vec<f64> = (0..k * k).map(part).collect();
        Self::wider(mean[dim - k..].to_vec(), &own, WIDER[1]).unwrap_or_else(|| self.clone())
    }

    /// Coordinates.
    pub(crate) fn dim(&self) -> usize {
        self.center.len()
    }

    /// The covariance that it was adapted to, column by column.
    pub(crate) fn covariance(&self) -> Vec<f64> {
        let k = self.dim();
        let inner = |i: usize, j: usize| -> f64 {
            (0..=i.min(j)).map(|c| self.factor[c * k + i] * self.factor[c * k + j]).sum()
        };
        (0..k * k).map(|e| inner(e % k, e / k) / (WIDER[1] * WIDER[1])).collect()
    }

    /// log q at the center.
    pub(crate) fn log_height(&self) -> f64 {
        let (k, nu, d) = (self.dim(), FREEDOM as f64, self.dim() as f64);
        let log_det: f64 = self.factor.iter().step_by(k + 1).map(|x| x.ln()).sum();
        ln_gamma(0.5 * (nu + d)) - ln_gamma(0.5 * nu) - 0.5 * d * (nu * PI).ln() - log_det
    }

    /// A point and log q there, from normal numbers: its own and ν for the length.
    pub(crate) fn point(&self, normals: &[f64]) -> (Vec<f64>, f64) {
        let (k, nu) = (self.dim(), FREEDOM as f64);
        let (z, chi) = normals.split_at(k);
        let length = (nu / linalg::norm_squared(&chi[..FREEDOM])).sqrt();
        let t: Vec<f64> = z.iter().map(|z| z * length).collect();
        let mut out = self.center.clone();
        linalg::add_square_times(&self.factor, k, true, &t, &mut out);
        (out, self.log_height() - 0.5 * (nu + k as f64) * (linalg::norm_squared(&t) / nu).ln_1p())
    }
}
