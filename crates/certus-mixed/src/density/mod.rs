//! The posterior density of coefficients and log scales with the groups integrated out, and draws from it
//! (docs/collapsed.md, part K13).
//!
//! log p(β, θ | y) = −F(β, e^θ) + Σ_j log p(s_j) + θ_j up to a constant, s_j = e^{θ_j}: F is that of the model, with
//! its proved error, so nothing is assumed of the shape of the posterior. [`CollapsedDensity`] is all that importance
//! sampling ([`sample`]) and the sampler ([`DensityTarget`]) know of a model.

mod counts;
mod effect;
mod proposal;
mod sample;

use std::ops::Range;

use certus::{PointTarget, TargetError};
use certus_models::Error;

use crate::collapsed::{Effect, Node, SdPrior};

pub use counts::CountDensity;
pub use effect::EffectDensity;
pub use proposal::Proposal;
pub use sample::{CollapsedSample, sample};

/// The error of the log likelihood that weights of draws may have, in nats, all groups together.
const NATS: f64 = 1e-4;

/// A log density at a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogDensity {
    /// log p(β, θ | y), up to a constant.
    pub value: f64,
    /// Bound on its error by quadrature and rounding; infinite where none is proved.
    pub error: f64,
}

/// The posterior density of a model whose scales are not known: of points (β, log scales).
pub trait CollapsedDensity: Sync {
    /// Coefficients.
    fn coefficients(&self) -> usize;

    /// Scales, whose logarithms follow the coefficients.
    fn scales(&self) -> usize;

    /// Terms of the likelihood that a value takes, more or less: rows times nodes.
    fn terms(&self) -> f64;

    /// What a gradient takes, in values.
    fn gradient_terms(&self) -> f64 {
        3.0
    }

    /// The log density.
    fn log_density(&self, point: &[f64]) -> Result<LogDensity, Error>;

    /// Groups that are integrated out.
    fn groups(&self) -> usize;

    /// The effects of some groups, by their places in the order of codes, over points (β, log scales) with equal
    /// weights: their conditional laws, mixed.
    fn effects_over(&self, groups: Range<usize>, points: &[f64]) -> Result<Vec<Effect>, Error>;

    /// The log density and its gradient. Without one of its own, by central differences: a sampler whose steps are
    /// reversible is exact for any field in place of the gradient.
    fn log_density_gradient(&self, point: &[f64], gradient: &mut [f64]) -> Result<f64, Error> {
        let mut near = point.to_vec();
        for j in 0..point.len() {
            gradient[j] = difference(&mut near, j, |z| Ok(self.log_density(z)?.value))?;
        }
        Ok(self.log_density(point)?.value)
    }
}

/// The derivative in coordinate j by a central difference; the point comes back as it was.
fn difference(
    point: &mut [f64],
    j: usize,
    value: impl Fn(&[f64]) -> Result<f64, Error>,
) -> Result<f64, Error> {
    const STEP: f64 = 1e-4;
    let at = point[j];
    point[j] = at + STEP;
    let right = value(point)?;
    point[j] = at - STEP;
    let left = value(point)?;
    point[j] = at;
    Ok((right - left) / (2.0 * STEP))
}

/// log p(s) + log s, the density of the logarithm, and its derivative in log s.
pub fn log_scale_density(prior: SdPrior, log_scale: f64) -> [f64; 2] {
    let scale = log_scale.exp();
    [prior.log_density(scale) + log_scale, prior.log_slope(scale) + 1.0]
}

/// The relative error of a group's integral, so that those of all groups are [`NATS`].
fn group_error(groups: usize) -> f64 {
    (NATS / groups.max(1) as f64).clamp(1e-10, 1e-6)
}

/// Points as nodes at which β does not vary, with equal weights.
fn nodes(points: &[f64], coefficients: usize, scales: usize) -> Vec<Node> {
    let each = points.chunks_exact(coefficients + scales);
    let weight = 1.0 / each.len() as f64;
    let node = |z: &[f64]| Node {
        sd: z[coefficients].exp(),
        weight,
        mean: z[..coefficients].to_vec(),
        factor: vec![0.0; coefficients * coefficients],
        error: 0.0,
    };
    each.map(node).collect()
}

/// A density as the target of a sampler: where it is no number, a trajectory ends.
pub struct DensityTarget<'a>(pub &'a dyn CollapsedDensity);

impl PointTarget for DensityTarget<'_> {
    fn dim(&self) -> usize {
        self.0.coefficients() + self.0.scales()
    }

    fn log_density_at(&self, point: &[f64], gradient: &mut [f64]) -> Result<f64, TargetError> {
        match self.0.log_density_gradient(point, gradient) {
            Err(Error::NotFinite(_)) => Ok(f64::NAN),
            other => Ok(other?),
        }
    }
}
