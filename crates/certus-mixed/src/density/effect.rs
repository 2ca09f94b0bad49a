//! The density of a model with an effect per group: K1 and K2 at (β, log σ).

use std::ops::Range;

use super::{CollapsedDensity, LogDensity, group_error, log_scale_density, nodes};
use crate::collapsed::{Collapsed, Effect, EvaluationOptions, Order, SdPrior};
use certus_models::Error;

/// Nodes of a group's integral, more or less.
pub(super) const NODES: f64 = 24.0;

/// −F(β, θ) + log p(σ) + θ.
pub struct EffectDensity<'a> {
    model: &'a Collapsed,
    prior: SdPrior,
}

impl<'a> EffectDensity<'a> {
    /// Of a model and the prior of its group sd.
    pub fn new(model: &'a Collapsed, prior: SdPrior) -> Self {
        Self { model, prior }
    }
}

/// How F is computed for a density.
pub(super) fn options(model: &Collapsed, order: Order) -> EvaluationOptions<'static> {
    EvaluationOptions { order, epsilon: group_error(model.groups()), ..EvaluationOptions::default() }
}

impl CollapsedDensity for EffectDensity<'_> {
    fn coefficients(&self) -> usize {
        self.model.dim()
    }

    fn scales(&self) -> usize {
        1
    }

    fn terms(&self) -> f64 {
        NODES * self.model.rows() as f64
    }

    fn log_density(&self, point: &[f64]) -> Result<LogDensity, Error> {
        let (beta, theta) = point.split_at(self.model.dim());
        let at = self.model.evaluate(beta, theta[0], options(self.model, Order::Value))?;
        let [own, _] = log_scale_density(self.prior, theta[0]);
        Ok(LogDensity { value: own - at.value, error: at.error })
    }

    fn groups(&self) -> usize {
        self.model.groups()
    }

    fn effects_over(&self, groups: Range<usize>, points: &[f64]) -> Result<Vec<Effect>, Error> {
        let nodes = nodes(points, self.model.dim(), 1);
        let own: Vec<_> = nodes.iter().map(|node| (node, self.model.likelihood())).collect();
        Ok(self.model.effects_of_draws(groups, &own))
    }

    fn log_density_gradient(&self, point: &[f64], gradient: &mut [f64]) -> Result<f64, Error> {
        let (beta, theta) = point.split_at(self.model.dim());
        let at = self.model.evaluate(beta, theta[0], options(self.model, Order::Second))?;
        let [own, slope] = log_scale_density(self.prior, theta[0]);
        gradient.iter_mut().zip(&at.gradient).for_each(|(g, x)| *g = -x);
        gradient[self.model.dim()] += slope;
        Ok(own - at.value)
    }
}
