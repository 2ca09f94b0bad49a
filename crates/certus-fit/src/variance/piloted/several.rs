//! The posterior of a model with several group effects and a response that is not linear: coefficients and scales
//! together, the groups integrated out on lattices or by importance sampling (docs/mixed.md, P1).

use std::ops::Range;

use certus::linalg;
use certus::{Factor, Gaussian, factor::Lower};
use certus_likelihood::Prior;
use certus_mixed::collapsed::Effect;
use certus_mixed::density::{CollapsedDensity, CollapsedSample, LogDensity};
use certus_models::Error;

use super::{FREEDOM, Piloted, ScalePrior, Student, drawn, effects_over};
use crate::variance::mixture::MixturePosterior;
use crate::variance::several::EffectTerms;

/// Nats below the weights of the bulk at which a weight is nothing.
const NOTHING: f64 = 40.0;
/// Points of a batch, at most: each has random numbers of its own.
const BATCH: u64 = 1 << 24;

/// A likelihood with the group effects integrated out.
pub(crate) trait EffectLikelihood: Sync {
    /// The terms of the model.
    fn terms(&self) -> &EffectTerms;

    /// log L at coefficients and scales with a bound on its error, or without one an estimate of L that is right on
    /// average, made of random numbers that belong to the point.
    fn log_likelihood(&self, beta: &[f64], scales: &[f64], point: u64) -> Result<LogDensity, Error>;

    /// Draws that such an estimate is made of; `None` if nothing is sampled.
    fn sampled(&self) -> Option<usize>;

    /// Terms of a sum over rows that a value takes.
    fn cost(&self) -> f64;

    /// Normal numbers that [`Self::effects_at`] takes.
    fn normals(&self) -> usize;

    /// Means and variances of the effects given coefficients and scales, and a draw less the means, in the order of the
    /// model.
    fn effects_at(&self, beta: &[f64], scales: &[f64], normals: &[f64]) -> Result<[Vec<f64>; 3], Error>;
}

/// The posterior density of coefficients and coordinates of scales.
pub(crate) struct SeveralDensity<'a> {
    pub(crate) model: &'a dyn EffectLikelihood,
    pub(crate) prior: &'a Prior,
    pub(crate) scales: ScalePrior<'a>,
}

impl SeveralDensity<'_> {
    /// log p(β) up to a constant.
    fn log_prior(&self, beta: &[f64]) -> f64 {
        let apart: Vec<f64> = beta.iter().zip(self.prior.mean()).map(|(b, m)| b - m).collect();
        let mut turned = vec![0.0; apart.len()];
        self.prior.add_precision_times(&apart, &mut turned);
        -0.5 * linalg::dot(&apart, &turned)
    }

    /// log p of coefficients and scales up to a constant; `None` where there is none.
    fn prior_at(&self, point: &[f64]) -> Option<f64> {
        let (beta, coordinates) = point.split_at(self.coefficients());
        Some(self.scales.log_density(coordinates)? + self.log_prior(beta))
    }

    /// log L at a point with the random numbers of a point.
    fn likelihood_at(&self, point: &[f64], number: u64) -> Result<LogDensity, Error> {
        let (beta, coordinates) = point.split_at(self.coefficients());
        self.model.log_likelihood(beta, &self.scales.unknown.of_coordinates(coordinates), number)
    }

    fn dim(&self) -> usize {
        self.coefficients() + self.scales.count()
    }
}

impl CollapsedDensity for SeveralDensity<'_> {
    fn coefficients(&self) -> usize {
        self.prior.dim()
    }

    fn scales(&self) -> usize {
        self.scales.count()
    }

    fn terms(&self) -> f64 {
        self.model.cost()
    }

    fn gradient_terms(&self) -> f64 {
        // central differences
        (2 * self.dim() + 1) as f64
    }

    fn log_density(&self, point: &[f64]) -> Result<LogDensity, Error> {
        let Some(prior) = self.prior_at(point) else {
            return Ok(LogDensity { value: ScalePrior::impossible(), error: 0.0 });
        };
        let own = self.likelihood_at(point, 0)?;
        Ok(LogDensity { value: own.value + prior, ..own })
    }

    fn groups(&self) -> usize {
        self.model.terms().levels_of_effects().count()
    }

    fn effects_over(&self, groups: Range<usize>, points: &[f64]) -> Result<Vec<Effect>, Error> {
        let mut all = self.effects(points)?.0;
        Ok(all.drain(groups).collect())
    }
}

impl Piloted for SeveralDensity<'_> {
    fn first(&self, found: &MixturePosterior) -> Option<Student> {
        let (node, curvature) = (found.nodes.first()?, found.log_covariance.as_ref()?);
        let (scales, own) = self.scales.beginning(found.scales.first()?, curvature, 1.0);
        let (p, k, dim) = (self.coefficients(), self.scales.count(), self.dim());
        let mut covariance = vec![0.0; dim * dim];
        for (i, j) in (0..p).flat_map(|i| (0..p).map(move |j| (i, j))) {
            let inner = |c: usize| node.factor[c * p + i] * node.factor[c * p + j];
            covariance[j * dim + i] = (0..=i.min(j)).map(inner).sum();
        }
        for (i, j) in (0..k).flat_map(|i| (0..k).map(move |j| (i, j))) {
            covariance[(p + j) * dim + p + i] = own[j * k + i];
        }
        Student::first(node.mean.iter().copied().chain(scales).collect(), &covariance)
    }

    /// The likelihood of counts and of binary responses is at most 1, which bounds a weight; if the bound is e⁻⁴⁰ of
    /// the weight in the middle, it takes its place.
    fn sample(
        &self,
        proposal: &Student,
        draws: usize,
        seed: u64,
        batch: u64,
    ) -> Result<CollapsedSample, Error> {
        let middle = self.log_density(&proposal.center)?.value - proposal.log_height();
        let one = |place: usize, normals: &[f64]| {
            let (point, log_q) = proposal.point(normals);
            let Some(prior) = self.prior_at(&point) else {
                return Ok((point, ScalePrior::impossible(), 0.0));
            };
            let most = prior - log_q;
            if most < middle - NOTHING {
                return Ok((point, most, 0.0));
            }
            let own = self.likelihood_at(&point, batch * BATCH + place as u64)?;
            Ok((point, own.value + most, own.error))
        };
        drawn(draws, self.dim() + FREEDOM, seed, batch, &one)
    }

    fn gaussian(&self, proposal: &Student) -> Result<Option<Gaussian>, Error> {
        let mut factor = proposal.covariance();
        if self.model.sampled().is_some() || !linalg::cholesky(&mut factor, self.dim()) {
            return Ok(None);
        }
        let lower = Lower::new(self.dim(), factor)?;
        Ok(Some(Gaussian::new(proposal.center.clone(), Factor::Lower(lower))?))
    }

    fn effects(&self, draws: &[f64]) -> Result<(Vec<Effect>, Vec<f64>), Error> {
        let (p, unknown) = (self.coefficients(), self.scales.unknown);
        let at = |point: &[f64], normals: &[f64]| {
            let (beta, coordinates) = point.split_at(p);
            self.model.effects_at(beta, &unknown.of_coordinates(coordinates), normals)
        };
        let levels: Vec<(usize, usize)> = self.model.terms().levels_of_effects().collect();
        effects_over(draws, [p, self.dim(), self.model.normals()], &levels, &at)
    }

    fn likelihood_words(&self) -> Option<String> {
        let draws = self.model.sampled()?;
        Some(format!(
            "the likelihood of every draw is estimated without bias by {draws} draws of the effects (P1)"
        ))
    }
}
