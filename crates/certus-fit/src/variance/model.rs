//! A model whose variance parameters are not all given: what is integrated out or searched, and its priors.

use std::sync::Arc;

use certus::certificate::counted;
use certus_data::Prepared;
use certus_likelihood::{Auxiliary, Likelihood, Link, Poisson, Prior};
use certus_mixed::collapsed::{Collapsed, SdPrior};
use certus_mixed::density::{CollapsedDensity, CountDensity, EffectDensity};
use certus_mixed::scales::{Dispersion, Grouping, LinearNoise};
use certus_models::{Design, Glm};

use crate::error::Error;
use crate::record::objective;
use crate::request::Request;
use crate::variance::names::UnknownScales;
use crate::variance::request::{Scales, in_units, own, prior_words};
use crate::variance::solver::ScaleSolver;

/// A model with scales that are not known.
pub struct ScaleModel {
    /// The likelihood and the prior of the coefficients.
    pub model: ScaleSolver,
    /// Which scales, and what varies by group.
    pub unknown_scales: UnknownScales,
    /// How they are found.
    pub scales: Scales,
    /// Their priors, on the scale of the design.
    pub priors: Vec<SdPrior>,
    /// True if a likelihood is linear, so that coefficients are normal given the scales.
    pub(super) linear: bool,
    /// True if a coefficient has a prior, so that what is maximised is a penalised likelihood.
    pub penalised: bool,
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
        let Some(unknown_scales) = UnknownScales::of(encoding, response, request.sigma, request.dispersion)?
        else {
            return Ok(None);
        };
        let codes: Vec<usize> = prepared.codes.first().into_iter().flatten().map(|c| *c as usize).collect();
        let grouping = unknown_scales.effect.as_ref().map(|effect| Grouping {
            codes: &codes,
            column: (effect.feature > 0 || !encoding.intercept).then_some(effect.feature),
            shift: effect.shift,
        });
        let penalised = !prior.is_flat();
        let prior = prior.clone();
        let collapsed = |grouping: Grouping<'_>, likelihood: Arc<dyn Likelihood>, prior| {
            let model = Collapsed::new(design, grouping.codes, grouping.column, likelihood, prior)?;
            Ok::<_, Error>(model.shifted(grouping.shift))
        };
        let model = match (own(response, request.sigma, request.dispersion), grouping) {
            (Some(Auxiliary::Sigma), grouping) => {
                ScaleSolver::Noise(LinearNoise::new(design, grouping, prior)?)
            }
            // which likelihood they begin with does not matter
            (Some(Auxiliary::Dispersion), None) => {
                ScaleSolver::Counts(Dispersion::Plain(Glm::new(design.clone(), Arc::new(Poisson), prior)?))
            }
            (Some(Auxiliary::Dispersion), Some(grouping)) => {
                ScaleSolver::Counts(Dispersion::Grouped(collapsed(grouping, Arc::new(Poisson), prior)?))
            }
            (None, Some(grouping)) => ScaleSolver::Effect(collapsed(grouping, request.likelihood()?, prior)?),
            (None, None) => return Ok(None),
        };
        let priors = vec![in_units(request.scale.prior(), unit); unknown_scales.scales.len()];
        let linear = response.link() == Link::Identity;
        Ok(Some(Self { model, unknown_scales, scales: request.scale.scales(), priors, linear, penalised }))
    }

    /// The posterior density of coefficients and log scales; `None` for linear models, whose coefficients are normal
    /// given the scales.
    pub(crate) fn density(&self) -> Option<Box<dyn CollapsedDensity + '_>> {
        match &self.model {
            _ if self.linear => None,
            ScaleSolver::Effect(model) => Some(Box::new(EffectDensity::new(model, self.priors[0]))),
            ScaleSolver::Counts(model) => Some(Box::new(CountDensity::new(model, &self.priors))),
            ScaleSolver::Noise(_) => None,
        }
    }

    /// What will be done, and why.
    pub fn route(&self) -> String {
        let several = self.unknown_scales.scales.len() > 1;
        let how = match (self.scales, several) {
            (Scales::Posterior, false) => "its posterior on a grid".into(),
            (Scales::Posterior, true) => "their posterior on a grid".into(),
            (Scales::Estimate, _) => format!("the maximum of the {}", objective(self.penalised)),
        };
        let (groups, name) = (self.model.groups(), self.unknown_scales.names());
        let are = if several { "are" } else { "is" };
        let what = match (&self.model, groups) {
            (ScaleSolver::Noise(_), 0) => "coefficients in closed form at every sigma".into(),
            (ScaleSolver::Noise(_), _) => {
                format!("{} integrated out in closed form", counted(groups, "group"))
            }
            (ScaleSolver::Counts(_), 0) => "coefficients by Newton's method at every dispersion".into(),
            _ => format!("{} integrated out, one by one", counted(groups, "group")),
        };
        format!("{what}: {name} {are} not given; {how}")
    }

    /// The priors of the scales, if they have any.
    pub(crate) fn prior_lines(&self) -> Vec<String> {
        let each = self.unknown_scales.scales.iter().zip(&self.priors);
        let line = |own: &crate::variance::names::ScaleName, prior: &SdPrior| {
            format!("{} ~ {}", own.name, prior_words(*prior, own.unit))
        };
        match self.scales {
            Scales::Posterior => each.map(|(own, prior)| line(own, prior)).collect(),
            Scales::Estimate => Vec::new(),
        }
    }
}
