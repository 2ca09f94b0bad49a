//! The request for a model: columns, parameters that are given, priors.

use std::collections::BTreeMap;
use std::sync::Arc;

use certus_data::Spec;
use certus_likelihood::{Auxiliary, Likelihood, Response};

use crate::coefficient_prior::CoefficientPrior;
use crate::error::Error;
use crate::refusal::{NeededBy, RequestError};
use crate::variance::request::{ScaleRequest, own};

/// A requested model.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The columns.
    pub spec: Spec,
    /// The sd of the errors of a linear model, if it is known.
    pub sigma: Option<f64>,
    /// The dispersion of a negative-binomial model, if it is known.
    pub dispersion: Option<f64>,
    /// Prior sd of the coefficients, in the units of docs/priors.md (P1); infinite for a flat prior.
    pub prior_sd: f64,
    /// Prior sd of the intercept.
    pub intercept_prior_sd: f64,
    /// Priors by coefficient or term, in the same units, instead of the two above.
    pub priors: BTreeMap<String, CoefficientPrior>,
    /// What is requested for scales that are not given.
    pub scale: ScaleRequest,
}

impl Request {
    /// Coefficients N(0, 2.5²) and the intercept N(0, 10²), in the units of docs/priors.md.
    pub fn new(spec: Spec) -> Self {
        let (sigma, dispersion, priors) = (None, None, BTreeMap::new());
        let scale = ScaleRequest::default();
        Self { spec, sigma, dispersion, prior_sd: 2.5, intercept_prior_sd: 10.0, priors, scale }
    }

    /// The parameter of the likelihood that is not given, if it has one.
    pub(crate) fn own(&self) -> Option<Auxiliary> {
        own(self.spec.model, self.sigma, self.dispersion)
    }

    /// The parameter of the likelihood, if it has one that is given.
    fn parameter(&self) -> Option<f64> {
        match self.spec.model.parameter()? {
            Auxiliary::Sigma => self.sigma,
            Auxiliary::Dispersion => self.dispersion,
        }
    }

    /// The likelihood; its parameter must be given.
    pub fn likelihood(&self) -> Result<Arc<dyn Likelihood>, Error> {
        if let Some(unknown) = self.own() {
            let (parameter, by) = (unknown.name(), NeededBy::Likelihood);
            return Err(RequestError::NotGiven { parameter, by }.into());
        }
        Ok(self.spec.model.likelihood(self.parameter())?)
    }

    /// What can be refused without data.
    pub(crate) fn refuse(&self) -> Result<(), Error> {
        for (value, parameter) in [(self.sigma, Auxiliary::Sigma), (self.dispersion, Auxiliary::Dispersion)] {
            if value.is_some() && self.spec.model.parameter() != Some(parameter) {
                let has = |r: &&Response| r.parameter() == Some(parameter);
                let models: Vec<&str> = Response::ALL.iter().filter(has).map(|r| r.name()).collect();
                let owner = format!("the model {}", models.join(" and "));
                return Err(RequestError::no_effect(parameter.name(), owner).into());
            }
        }
        if self.own().is_none() {
            self.likelihood()?;
        }
        if self.own().is_none() && self.spec.groups.iter().all(|g| g.sd.is_some()) {
            self.scale.refuse_without_unknown()?;
        }
        Ok(self.refuse_priors()?)
    }
}
