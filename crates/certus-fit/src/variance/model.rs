//! A model whose variance parameters are not all given: what is integrated out or searched, and its priors.

use std::sync::Arc;

use certus_data::Prepared;
use certus_likelihood::{Auxiliary, Likelihood, Link, Poisson, Prior};
use certus_mixed::collapsed::{Collapsed, SdPrior};
use certus_mixed::crossed::{Method, Sampling};
use certus_mixed::density::CollapsedDensity;
use certus_mixed::linear::Criterion;
use certus_mixed::scales::{Dispersion, Grouping, LinearNoise};
use certus_models::{Design, Glm};

use crate::error::Error;
use crate::record::{RESTRICTED, objective};
use crate::refusal::RequestError;
use crate::request::Request;
use crate::variance::crossed::{CorrelatedMixed, CrossedMixed, MOST_CORRELATED};
use crate::variance::engine::ScaleEngine;
use crate::variance::explained::ColumnMoments;
use crate::variance::mixed::{GivenMixed, LinearMixed, integrated};
use crate::variance::names::{ScaleName, UnknownScales};
use crate::variance::piloted::{LKJ, Piloted, ScalePrior};
use crate::variance::request::{PROVABLE, Scales, criterion_name, in_units, own, prior_words};

/// The seed of importance samples: the same fit for the same data.
const SEED: u64 = 0;
/// Which models have a Laplace approximation to ask for.
const LAPLACE_MODELS: &str = "models with several group effects and a response that is not linear";

/// A model with scales that are not known.
pub struct ScaleModel {
    /// The likelihood and the prior of the coefficients.
    pub(crate) model: Box<dyn ScaleEngine>,
    /// Which scales, and what varies by group.
    pub unknown_scales: UnknownScales,
    /// How they are found.
    pub scales: Scales,
    /// Their priors, on the scale of the design; correlations have LKJ(2).
    pub priors: Vec<SdPrior>,
    /// The prior of the coefficients.
    pub(crate) prior: Prior,
    /// True if a likelihood is linear, so that coefficients are normal given the scales.
    pub(super) linear: bool,
    /// True if a coefficient has a prior, so that what is maximised is a penalised likelihood.
    pub penalised: bool,
    /// Of estimates without priors, what R² needs of the rows.
    pub(super) moments: Option<ColumnMoments>,
    /// The link of the response.
    pub(super) link: Link,
}

impl ScaleModel {
    /// `None` if everything is given. `unit` is the unit of priors in the response.
    pub(crate) fn new(
        prepared: &Prepared,
        design: &Design,
        prior: &Prior,
        request: &Request,
        unit: f64,
    ) -> Result<Option<Self>, Error> {
        let (encoding, response) = (&prepared.encoding, request.spec.model);
        let Some(unknown_scales) = UnknownScales::of(
            encoding,
            response,
            request.sigma,
            request.dispersion,
            integrated(prepared, request),
        )?
        else {
            return Ok(None);
        };
        let scales = request.scale.scales();
        let own = own(response, request.sigma, request.dispersion);
        let (effects, noise) = (unknown_scales.effects.len(), own == Some(Auxiliary::Sigma));
        let (several, asked) = (effects > 1, request.scale.criterion());
        let given = !unknown_scales.given.is_empty();
        if request.scale.laplace() && (noise || given || !several) {
            return Err(RequestError::no_effect("`scales` laplace", LAPLACE_MODELS).into());
        }
        if request.scale.prove().is_some() && !noise {
            return Err(RequestError::no_effect("`prove`", PROVABLE).into());
        }
        // linear ones may have one effect, if a criterion is asked for; what varies around 0 is a term in any case
        let terms = !given && (several || (noise && asked.is_some()) || !encoding.effects.is_empty());
        if let Some(criterion) = asked.filter(|_| given) {
            let name = criterion_name(criterion).to_lowercase();
            return Err(
                RequestError::no_effect(format!("`{name}`"), "models none of whose sds is given").into()
            );
        }
        let mut penalised = !prior.is_flat();
        if terms && scales == Scales::Estimate && penalised {
            return Err(RequestError::PenalisedSds { effects }.into());
        }
        let model: Box<dyn ScaleEngine> = match own {
            _ if given => {
                let model = GivenMixed::new(prepared, &unknown_scales, prior.clone(), request.sigma)?;
                Box::new(model)
            }
            Some(Auxiliary::Sigma) if terms => {
                penalised = false;
                // where a posterior begins is not decisive
                let criterion = asked.unwrap_or(Criterion::Reml);
                let mut model = LinearMixed::new(prepared, &unknown_scales, criterion)?;
                model.prove(scales, request.scale.prove())?;
                Box::new(model)
            }
            _ if terms => several_terms(prepared, &unknown_scales, prior, request)?,
            _ => {
                let Some(model) = one_effect(prepared, design, prior, request, &unknown_scales)? else {
                    return Ok(None);
                };
                model
            }
        };
        let priors = match scales {
            // an estimate of several terms has none
            Scales::Estimate if terms && !noise => Vec::new(),
            _ => {
                let count = unknown_scales.scales.iter().filter(|own| !own.correlation).count();
                vec![in_units(request.scale.prior(), unit); count]
            }
        };
        let link = response.link();
        let linear = link == Link::Identity;
        let told = terms || model.is_one_sd();
        let moments =
            match told && scales == Scales::Estimate && !penalised && prepared.rows.ranks().is_none() {
                true => Some(ColumnMoments::new(prepared, &unknown_scales)?),
                false => None,
            };
        let prior = prior.clone();
        Ok(Some(Self { model, unknown_scales, scales, priors, prior, linear, penalised, moments, link }))
    }

    /// The posterior density of coefficients and log scales of at most one effect of one group; `None` for linear
    /// models, whose coefficients are normal given the scales.
    pub(crate) fn density(&self) -> Option<Box<dyn CollapsedDensity + '_>> {
        self.model.density(&self.priors).filter(|_| !self.linear)
    }

    /// The posterior density of several group effects, if that is asked for.
    pub(crate) fn piloted(&self) -> Option<Box<dyn Piloted + '_>> {
        let scales = ScalePrior { unknown: &self.unknown_scales, sds: &self.priors };
        let asked = self.scales == Scales::Posterior;
        asked.then(|| self.model.piloted(&self.prior, scales)).flatten()
    }

    /// The prior of a scale in words; `None` if scales are estimated.
    pub(crate) fn prior_of(&self, scale: usize) -> Option<String> {
        let own = &self.unknown_scales.scales[scale];
        let before = self.unknown_scales.scales[..scale].iter().filter(|own| !own.correlation).count();
        match self.scales {
            Scales::Estimate => None,
            Scales::Posterior if own.correlation => Some(format!("LKJ({LKJ})")),
            Scales::Posterior => self.priors.get(before).map(|prior| prior_words(*prior, own.unit)),
        }
    }

    /// "REML" or "ML", and how the likelihood is approximated; `None` of models with one effect.
    pub(crate) fn criterion(&self) -> Option<&'static str> {
        self.model.criterion()
    }

    /// "estimated by a maximum of the restricted likelihood (REML)".
    pub(crate) fn estimated_by(&self) -> String {
        let how = self.criterion().map_or(String::new(), |name| format!(" ({name})"));
        format!("estimated by a maximum of the {}{how}", self.objective())
    }

    /// R², marginal and conditional, of an estimate without priors.
    pub(crate) fn r_squared(&self, beta: &[f64], scales: &[f64]) -> Option<[f64; 2]> {
        self.moments.as_ref()?.r_squared(self.link, beta, scales)
    }

    /// The name of what is maximised.
    pub(crate) fn objective(&self) -> &'static str {
        if self.model.is_restricted() { RESTRICTED } else { objective(self.penalised) }
    }

    /// What will be done, and why.
    pub fn route(&self) -> String {
        let how = match self.scales {
            Scales::Estimate => self.estimated_by(),
            Scales::Posterior => "posterior of the scales by importance sampling".into(),
        };
        let what = self.model.integrated();
        if self.criterion().is_some() {
            return format!("{what}, {how}");
        }
        if self.unknown_scales.scales.is_empty() {
            return format!(
                "{what}; nothing is unknown but coefficients and effects, so their posterior is Gaussian"
            );
        }
        let several = self.unknown_scales.scales.len() > 1;
        let how = match (self.scales, several) {
            (Scales::Posterior, false) => "its posterior on a grid".into(),
            (Scales::Posterior, true) => "their posterior on a grid".into(),
            (Scales::Estimate, _) => format!("the maximum of the {}", self.objective()),
        };
        let (name, are) = (self.unknown_scales.names(), if several { "are" } else { "is" });
        format!("{what}: {name} {are} not given; {how}")
    }

    /// The priors of the scales, if they have any.
    pub(crate) fn prior_lines(&self) -> Vec<String> {
        let line = |(j, own): (usize, &ScaleName)| Some(format!("{} ~ {}", own.name, self.prior_of(j)?));
        self.unknown_scales.scales.iter().enumerate().filter_map(line).collect()
    }
}

/// Several effects of a model that is not linear: lattices for up to three correlated ones of one group, else the
/// Laplace approximation and its correction.
fn several_terms(
    prepared: &Prepared,
    unknown_scales: &UnknownScales,
    prior: &Prior,
    request: &Request,
) -> Result<Box<dyn ScaleEngine>, Error> {
    let (likelihood, laplace) = (request.likelihood()?, request.scale.laplace());
    let together = match &prepared.encoding.groups[..] {
        [group] => {
            let effects = unknown_scales.effects.len();
            effects == 1 || (group.correlated && effects <= MOST_CORRELATED)
        }
        _ => false,
    };
    if together && !laplace {
        let model = CorrelatedMixed::new(prepared, unknown_scales, likelihood, prior.clone())?;
        return Ok(Box::new(model));
    }
    let sampling = Sampling { draws: None, seed: SEED };
    let method = if laplace { Method::Laplace } else { Method::Corrected(sampling) };
    Ok(Box::new(CrossedMixed::new(prepared, unknown_scales, likelihood, method, prior.clone())?))
}

/// At most one effect of one group, and the parameter of the likelihood.
fn one_effect(
    prepared: &Prepared,
    design: &Design,
    prior: &Prior,
    request: &Request,
    unknown_scales: &UnknownScales,
) -> Result<Option<Box<dyn ScaleEngine>>, Error> {
    let prior = prior.clone();
    let codes: Vec<usize> = prepared.codes.first().into_iter().flatten().map(|c| *c as usize).collect();
    let grouping = unknown_scales.effects.first().map(|effect| Grouping {
        codes: &codes,
        column: (effect.feature > 0 || !prepared.encoding.intercept).then_some(effect.feature),
        shift: effect.shift,
    });
    let collapsed = |grouping: Grouping<'_>, likelihood: Arc<dyn Likelihood>, prior| {
        let model = Collapsed::new(design, grouping.codes, grouping.column, likelihood, prior)?;
        Ok::<_, Error>(model.shifted(grouping.shift))
    };
    Ok(Some(match (own(request.spec.model, request.sigma, request.dispersion), grouping) {
        (Some(Auxiliary::Sigma), grouping) => Box::new(LinearNoise::new(design, grouping, prior)?),
        // which likelihood they begin with does not matter
        (Some(Auxiliary::Dispersion), None) => {
            let model = Glm::new(design.clone(), Arc::new(Poisson), prior)?;
            Box::new(Dispersion::Plain(model))
        }
        (Some(Auxiliary::Dispersion), Some(grouping)) => {
            let model = collapsed(grouping, Arc::new(Poisson), prior)?;
            Box::new(Dispersion::Grouped(model))
        }
        (None, Some(grouping)) => Box::new(collapsed(grouping, request.likelihood()?, prior)?),
        (None, None) => return Ok(None),
    }))
}
