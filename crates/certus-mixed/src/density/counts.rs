//! The density of counts whose dispersion is not known, with or without groups: K8 at (β, log scales).

use std::ops::Range;

use certus::Target;

use super::effect::{NODES, options};
use super::{CollapsedDensity, LogDensity, difference, log_scale_density, nodes};
use crate::collapsed::{Effect, Order, SdPrior};
use crate::scales::{Dispersion, ScaleProblem, dispersed};
use certus_models::Error;

/// −F(β, θ) + Σ log p(s_j) + θ_j.
pub struct CountDensity<'a> {
    model: &'a Dispersion,
    priors: &'a [SdPrior],
}

impl<'a> CountDensity<'a> {
    /// Of a model and the priors of its scales, as [`ScaleProblem::names`] has them.
    pub fn new(model: &'a Dispersion, priors: &'a [SdPrior]) -> Self {
        Self { model, priors }
    }

    /// −F and its error; of the derivatives in β and in the sd of groups where they are wanted.
    fn log_posterior(&self, point: &[f64], gradient: Option<&mut [f64]>) -> Result<LogDensity, Error> {
        let (beta, theta) = point.split_at(self.coefficients());
        let likelihood = dispersed(theta[theta.len() - 1].exp())?;
        match self.model {
            Dispersion::Plain(model) => {
                let model = model.rebuilt(likelihood, model.prior().clone())?;
                let (mut value, mut own) = ([0.0], vec![0.0; beta.len()]);
                model.log_density(beta, &mut value, &mut own).map_err(certus::Error::Target)?;
                gradient.into_iter().for_each(|g| g[..beta.len()].copy_from_slice(&own));
                Ok(LogDensity { value: value[0], error: 0.0 })
            }
            Dispersion::Grouped(model) => {
                let model = model.with_likelihood(likelihood);
                let order = if gradient.is_some() { Order::Second } else { Order::Value };
                let at = model.evaluate(beta, theta[0], options(&model, order))?;
                gradient.into_iter().for_each(|g| g.iter_mut().zip(&at.gradient).for_each(|(g, x)| *g = -x));
                Ok(LogDensity { value: -at.value, error: at.error })
            }
        }
    }
}

impl CollapsedDensity for CountDensity<'_> {
    fn coefficients(&self) -> usize {
        self.model.dim()
    }

    fn scales(&self) -> usize {
        self.priors.len()
    }

    fn terms(&self) -> f64 {
        match self.model {
            Dispersion::Plain(model) => model.design().rows().len() as f64,
            Dispersion::Grouped(model) => NODES * model.rows() as f64,
        }
    }

    fn log_density(&self, point: &[f64]) -> Result<LogDensity, Error> {
        let at = self.log_posterior(point, None)?;
        let logs = self.priors.iter().zip(&point[self.coefficients()..]);
        let own: f64 = logs.map(|(prior, x)| log_scale_density(*prior, *x)[0]).sum();
        Ok(LogDensity { value: own + at.value, ..at })
    }

    fn groups(&self) -> usize {
        self.model.groups()
    }

    fn effects_over(&self, groups: Range<usize>, points: &[f64]) -> Result<Vec<Effect>, Error> {
        let Dispersion::Grouped(model) = self.model else { return Ok(Vec::new()) };
        let nodes = nodes(points, self.coefficients(), self.scales());
        let last = points.chunks_exact(self.coefficients() + self.scales()).map(|z| z[z.len() - 1].exp());
        let likelihoods = last.map(dispersed).collect::<Result<Vec<_>, _>>()?;
        let own: Vec<_> = nodes.iter().zip(&likelihoods).map(|(node, l)| (node, &**l)).collect();
        Ok(model.effects_of_draws(groups, &own))
    }

    /// In the dispersion by a central difference, else as it is.
    fn log_density_gradient(&self, point: &[f64], gradient: &mut [f64]) -> Result<f64, Error> {
        let (d, last) = (self.coefficients(), point.len() - 1);
        let mut value = self.log_posterior(point, Some(&mut *gradient))?.value;
        let mut near = point.to_vec();
        gradient[last] = difference(&mut near, last, |z| Ok(self.log_posterior(z, None)?.value))?;
        for (j, prior) in self.priors.iter().enumerate() {
            let [own, slope] = log_scale_density(*prior, point[d + j]);
            value += own;
            gradient[d + j] += slope;
        }
        Ok(value)
    }
}
