//! The posterior of a linear mixed model: of coefficients, log sds, artanh of correlations and log σ, with the group
//! effects integrated out in closed form (docs/mixed.md, P1).

use std::ops::Range;

use certus::factor::Lower;
use certus::{Factor, Gaussian, linalg};
use certus_likelihood::Prior;
use certus_mixed::collapsed::Effect;
use certus_mixed::density::{CollapsedDensity, CollapsedSample, LogDensity};
use certus_mixed::linear::Conditional;
use certus_models::Error;

use super::model::LinearMixed;
use crate::variance::engine::JointLaw;
use crate::variance::mixture::MixturePosterior;
use crate::variance::piloted::{FREEDOM, Piloted, ScalePrior, Student, drawn, effects_over};

/// The posterior density.
pub(crate) struct MixedDensity<'a> {
    pub(crate) model: &'a LinearMixed,
    pub(crate) prior: &'a Prior,
    pub(crate) scales: ScalePrior<'a>,
}

impl<'a> MixedDensity<'a> {
    fn count(&self) -> usize {
        self.scales.count()
    }

    /// The model at coordinates of the scales.
    fn at(&self, coordinates: &[f64]) -> Result<Conditional<'a>, Error> {
        self.model.conditional(&self.scales.unknown.of_coordinates(coordinates))
    }

    fn precision(&self) -> Vec<f64> {
        let p = self.prior.dim();
        let mut out = vec![0.0; p * p];
        self.prior.add_to(&mut out);
        out
    }
}

impl Piloted for MixedDensity<'_> {
    fn first(&self, found: &MixturePosterior) -> Option<Student> {
        let scales = found.scales.first()?;
        let sigma = scales.last().copied().unwrap_or(1.0);
        let (center, covariance) = self.scales.beginning(scales, found.log_covariance.as_ref()?, sigma);
        Student::first(center, &covariance)
    }

    /// Scales from the proposal, coefficients from their exact law given them, so that the weight of a draw is
    /// p(scales | y)/q(scales), the coefficients integrated out.
    fn sample(
        &self,
        proposal: &Student,
        draws: usize,
        seed: u64,
        batch: u64,
    ) -> Result<CollapsedSample, Error> {
        let (p, k) = (self.coefficients(), self.count());
        let (mean, precision) = (self.prior.mean(), self.precision());
        let one = |_: usize, z: &[f64]| {
            let (own, rest) = z.split_at(k + FREEDOM);
            let (coordinates, log_q) = proposal.point(own);
            let Some(log_prior) = self.scales.log_density(&coordinates) else {
                let point = mean.iter().chain(&coordinates).copied().collect();
                return Ok((point, ScalePrior::impossible(), 0.0));
            };
            let given = self.model.named(self.at(&coordinates)?.coefficients(mean, &precision))?;
            let mut beta = rest.to_vec();
            linalg::solve_lower(&given.precision, p, true, &mut beta);
            let point = beta.iter().zip(&given.mean).map(|(b, m)| b + m).chain(coordinates.iter().copied());
            Ok((point.collect(), given.log_marginal + log_prior - log_q, 0.0))
        };
        drawn(draws, k + FREEDOM + p, seed, batch, &one)
    }

    /// The scales of the proposal, the coefficients at its center.
    fn gaussian(&self, proposal: &Student) -> Result<Option<Gaussian>, Error> {
        let (p, k) = (self.coefficients(), self.count());
        let dim = p + k;
        let given = self
            .model
            .named(self.at(&proposal.center)?.coefficients(self.prior.mean(), &self.precision()))?;
        let mut covariance = vec![0.0; dim * dim];
        for j in 0..p {
            // a column of the covariance from the factor of the precision
            let mut column = vec![0.0; p];
            column[j] = 1.0;
            linalg::solve_lower(&given.precision, p, false, &mut column);
            linalg::solve_lower(&given.precision, p, true, &mut column);
            covariance[j * dim..][..p].copy_from_slice(&column);
        }
        for (column, own) in proposal.covariance().chunks_exact(k).enumerate() {
            covariance[(p + column) * dim + p..][..k].copy_from_slice(own);
        }
        let mean = given.mean.iter().chain(&proposal.center).copied().collect();
        if !linalg::cholesky(&mut covariance, dim) {
            return Ok(None);
        }
        let lower = Lower::new(dim, covariance)?;
        Ok(Some(Gaussian::new(mean, Factor::Lower(lower))?))
    }

    fn effects(&self, draws: &[f64]) -> Result<(Vec<Effect>, Vec<f64>), Error> {
        let (p, dim) = (self.coefficients(), self.coefficients() + self.count());
        let at = |point: &[f64], normals: &[f64]| {
            self.model.effects_given(&point[..p], &self.scales.unknown.of_coordinates(&point[p..]), normals)
        };
        let levels: Vec<(usize, usize)> = self.model.terms.levels_of_effects().collect();
        effects_over(draws, [p, dim, levels.len()], &levels, &at)
    }

    fn likelihood_words(&self) -> Option<String> {
        Some("the likelihood of every draw is computed in closed form (P1)".into())
    }
}

impl CollapsedDensity for MixedDensity<'_> {
    fn coefficients(&self) -> usize {
        self.model.dim()
    }

    fn scales(&self) -> usize {
        self.count()
    }

    fn terms(&self) -> f64 {
        self.model.cost()
    }

    fn log_density(&self, point: &[f64]) -> Result<LogDensity, Error> {
        let (beta, coordinates) = point.split_at(self.coefficients());
        let Some(log_prior) = self.scales.log_density(coordinates) else {
            return Ok(LogDensity { value: ScalePrior::impossible(), error: 0.0 });
        };
        let apart: Vec<f64> = beta.iter().zip(self.prior.mean()).map(|(b, m)| b - m).collect();
        let mut turned = vec![0.0; apart.len()];
        self.prior.add_precision_times(&apart, &mut turned);
        let own = -0.5 * linalg::dot(&apart, &turned);
        Ok(LogDensity { value: self.at(coordinates)?.log_likelihood(beta) + own + log_prior, error: 0.0 })
    }

    fn groups(&self) -> usize {
        self.model.terms.levels_of_effects().count()
    }

    fn effects_over(&self, groups: Range<usize>, points: &[f64]) -> Result<Vec<Effect>, Error> {
        let mut all = self.effects(points)?.0;
        Ok(all.drain(groups).collect())
    }
}
