//! The rows of a model with several group effects, the names and the order of its effects.

use std::sync::{Arc, OnceLock};

use certus_data::Prepared;
use certus_likelihood::{Likelihood, Prior};
use certus_mixed::crossed::{CrossedModel, Error as CrossedError, Method, Observation};
use certus_models::Error;
use certus_models::error::InvalidModel;

use crate::variance::effect_rows::EffectRows;
use crate::variance::names::UnknownScales;
use crate::variance::several::{CURES, EffectTerms, no_maximum};

/// A model with several group effects whose sds are not given.
pub(crate) struct CrossedMixed {
    pub(super) model: CrossedModel,
    pub(super) method: Method,
    pub(super) terms: EffectTerms,
    /// n, the sum of the weights.
    pub(super) weight: f64,
    /// Draws of each set of the last estimate; none if its weights were not trusted.
    pub(super) draws: OnceLock<Option<usize>>,
    /// Draws that a value of the likelihood is estimated by, for posteriors; none if nothing is sampled.
    pub(super) per_value: OnceLock<Option<usize>>,
    /// The mode of the kept effects at the last estimate.
    pub(super) mode: OnceLock<Vec<f64>>,
}

impl CrossedMixed {
    pub(crate) fn new(
        prepared: &Prepared,
        unknown_scales: &UnknownScales,
        likelihood: Arc<dyn Likelihood>,
        method: Method,
        prior: Prior,
    ) -> Result<Self, Error> {
        let terms = EffectTerms::new(prepared, unknown_scales);
        let rows = EffectRows::new(prepared, &terms)?;
        let each = rows.iter().map(|row| Observation {
            levels: row.levels,
            effects: row.effects,
            fixed: row.fixed,
            datum: row.datum,
            offset: row.offset,
            weight: row.weight,
        });
        let model = CrossedModel::new(&terms.design(), likelihood, each)
            .map_err(|error| refused(&error, &terms))?
            .with_prior(prior)
            .with_stop(prepared.rows.stop().cloned());
        let (draws, per_value, mode) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Ok(Self { model, method, terms, weight: rows.weight(), draws, per_value, mode })
    }

    /// Coefficients.
    pub(crate) fn dim(&self) -> usize {
        self.terms.fixed
    }

    /// Levels of all groups.
    pub(crate) fn groups(&self) -> usize {
        self.terms.levels()
    }

    /// "ML", and how the likelihood is computed.
    pub(crate) fn kind(&self) -> &'static str {
        match self.method {
            Method::Laplace => "ML by Laplace",
            Method::Corrected(_) => "ML",
        }
    }

    /// What the engine says, by the names of the model.
    pub(super) fn named<T>(&self, result: Result<T, CrossedError>) -> Result<T, Error> {
        result.map_err(|error| refused(&error, &self.terms))
    }

    /// (β, θ) of the engine at stored coefficients and scales.
    pub(super) fn parameters(&self, beta: &[f64], scales: &[f64]) -> Vec<f64> {
        let mut out = beta.to_vec();
        for term in &self.terms.list {
            let (k, t) = (term.effects.len(), self.terms.factor(term, scales));
            out.extend((0..k).flat_map(|j| (j..k).map(move |i| (i, j))).map(|(i, j)| t[j * k + i]));
        }
        out
    }

    /// The scales of the model at (β, θ) of the engine.
    pub(super) fn scales_of(&self, parameters: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.terms.unknown_scales.scales.len()];
        let mut from = self.dim();
        for term in &self.terms.list {
            let k = term.effects.len();
            let mut t = vec![0.0; k * k];
            for (i, j) in (0..k).flat_map(|j| (j..k).map(move |i| (i, j))) {
                t[j * k + i] = parameters[from];
                from += 1;
            }
            self.terms.set(term, &t, &mut out);
        }
        out
    }
}

/// An error of the engine by the names of the model.
fn refused(error: &CrossedError, terms: &EffectTerms) -> Error {
    let (what, remedy) = match error {
        CrossedError::Stopped => return Error::Stopped,
        CrossedError::Collinear { column } => (
            format!(
                "the coefficient of {} is not identified: its column is a combination of those before it",
                terms.coefficients.get(*column).cloned().unwrap_or_default()
            ),
            "leave it out",
        ),
        CrossedError::NotConverged { iterations, decrement, sds } => {
            no_maximum(&terms.names.join(" + "), *iterations, *decrement, sds)
        }
        other => (other.to_string(), CURES),
    };
    InvalidModel::Unsupported { what, remedy }.into()
}
