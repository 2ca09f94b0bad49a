//! The likelihood and the effects of both engines at any coefficients and scales, as posteriors need them.

use certus::linalg;
use certus_mixed::correlated::Error as CorrelatedError;
use certus_mixed::crossed::{
    EffectsAt, Error as CrossedError, Sampling, deviation_len, effects_at, likelihood_at, likelihood_drawn,
};
use certus_mixed::density::LogDensity;
use certus_models::Error;
use certus_models::error::NotFinite;

use super::{CorrelatedMixed, CrossedMixed};
use crate::variance::piloted::EffectLikelihood;
use crate::variance::several::EffectTerms;

/// Passes over the rows to the mode of the effects, more or less.
const PASSES: usize = 6;
/// Nodes of the integral over one effect, more or less.
const NODES: f64 = 20.0;
/// The error of the log likelihood that weights of draws may have, in nats, all groups together: it moves no mean by
/// more than this part of an sd.
const NATS: f64 = 0.01;

/// The relative error of a group's integral that effects averaged over draws may have.
const COARSE: f64 = 1e-4;

/// A likelihood that is no number at a point, which is far from all others.
const NO_NUMBER: NotFinite = NotFinite::Quantity { what: "the likelihood of the groups" };

impl CrossedMixed {
    fn number<T>(&self, found: Result<T, CrossedError>) -> Result<T, Error> {
        match found {
            Err(CrossedError::NotFinite { .. } | CrossedError::NoMode { .. }) => Err(NO_NUMBER.into()),
            other => self.named(other),
        }
    }
}

impl EffectLikelihood for CrossedMixed {
    fn terms(&self) -> &EffectTerms {
        &self.terms
    }

    fn log_likelihood(&self, beta: &[f64], scales: &[f64], point: u64) -> Result<LogDensity, Error> {
        let parameters = self.parameters(beta, scales);
        let value = match self.sampled() {
            Some(draws) => {
                let sampling = Sampling { draws: Some(draws), seed: 0 };
                let start = self.mode.get().map(Vec::as_slice);
                self.number(likelihood_drawn(&self.model, &parameters, start, sampling, point))?
            }
            None => {
                let at = self.number(likelihood_at(&self.model, &parameters, self.method))?;
                at.approximation + at.correction
            }
        };
        Ok(LogDensity { value, error: f64::INFINITY })
    }

    fn sampled(&self) -> Option<usize> {
        self.per_value.get().copied().flatten()
    }

    fn cost(&self) -> f64 {
        let passes = PASSES + self.sampled().unwrap_or(0);
        passes as f64 * NODES * self.terms.levels_of_effects().map(|(_, rows)| rows as f64).sum::<f64>()
            / self.terms.list.len() as f64
    }

    fn normals(&self) -> usize {
        deviation_len(&self.model)
    }

    fn effects_at(&self, beta: &[f64], scales: &[f64], normals: &[f64]) -> Result<[Vec<f64>; 3], Error> {
        let EffectsAt { means, variances, deviation } =
            self.named(effects_at(&self.model, &self.parameters(beta, scales), normals))?;
        Ok([means, variances, deviation].map(|x| self.terms.ordered(&x)))
    }
}

impl EffectLikelihood for CorrelatedMixed {
    fn terms(&self) -> &EffectTerms {
        &self.terms
    }

    fn log_likelihood(&self, beta: &[f64], scales: &[f64], _: u64) -> Result<LogDensity, Error> {
        let t = self.terms.factor(&self.terms.list[0], scales);
        let epsilon = (NATS / self.groups().max(1) as f64).clamp(1e-10, 1e-4);
        match self.model.log_likelihood_to(beta, &t, epsilon) {
            Ok((value, error)) => Ok(LogDensity { value, error }),
            Err(CorrelatedError::NotFinite { .. } | CorrelatedError::TooManyNodes { .. }) => {
                Err(NO_NUMBER.into())
            }
            Err(other) => self.named(Err(other)),
        }
    }

    fn sampled(&self) -> Option<usize> {
        None
    }

    fn cost(&self) -> f64 {
        let k = self.terms.list[0].effects.len();
        NODES.powi(k as i32) * self.terms.rows[0].iter().sum::<usize>() as f64
    }

    fn normals(&self) -> usize {
        self.terms.levels_of_effects().count()
    }

    fn effects_at(&self, beta: &[f64], scales: &[f64], normals: &[f64]) -> Result<[Vec<f64>; 3], Error> {
        let t = self.terms.factor(&self.terms.list[0], scales);
        let levels = self.named(self.model.effects_to(beta, &t, COARSE))?;
        let k = self.terms.list[0].effects.len();
        let mut out: [Vec<f64>; 3] = Default::default();
        for (own, z) in self.all_levels(&levels, &t).iter().zip(normals.chunks_exact(k)) {
            let mut factor = own.covariance.clone();
            let regular = linalg::cholesky(&mut factor, k);
            let apart = |i: usize| (0..=i).map(|j| factor[j * k + i] * z[j]).sum::<f64>();
            out[0].extend(&own.mean);
            out[1].extend(own.covariance.iter().step_by(k + 1));
            // a covariance that is singular to the last digit is that of a constant
            out[2].extend((0..k).map(|i| if regular { apart(i) } else { 0.0 }));
        }
        Ok(out.map(|x| self.terms.ordered(&x)))
    }
}
