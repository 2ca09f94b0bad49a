//! From a source and a request to a model with names: what the command line and Python share.

use certus::combination::Combinations;
use certus::{Gaussian, Goal};
use certus_likelihood::{Likelihood, Response};
use certus_models::auto::Model;
use certus_models::proof::{Rigorous, covers};
use certus_models::{Glm, Hierarchical};

use crate::coefficient_map::{CoefficientMap, Quantity};
use crate::constant::constant_response;
use crate::error::Error;
use crate::prior::{DesignPrior, Unit};
use crate::refusal::{NeededBy, RequestError};
use crate::request::Request;
use crate::settings::Settings;
use crate::variance::enclosed::Enclosure;
use crate::variance::model::ScaleModel;
use crate::variance::request::Scales;
use certus_data::DataError;
use certus_data::leaves::Storage;
use certus_data::prepare::{Prepared, prepare_with};
use certus_data::table::Source;

/// Memory for the factor of a model with groups and what the solver keeps beside it.
const MEMORY: usize = 8 << 30;

/// A model with its data.
pub enum ModelKind {
    /// Coefficients of all rows.
    Dense(Box<Glm>),
    /// And of groups.
    Grouped(Box<Hierarchical>),
    /// With scales that are not known, groups integrated out.
    Collapsed(Box<ScaleModel>),
}

/// A request, ready to be fitted.
pub struct Problem {
    /// The model.
    pub model_kind: ModelKind,
    /// Its response.
    pub response: Response,
    /// The data it was made of.
    pub prepared: Prepared,
    /// What its latents mean.
    pub meaning: CoefficientMap,
    /// Names and combinations on the user's scale.
    pub quantities: Vec<Quantity>,
    /// The prior of the coefficients of the design.
    pub prior: DesignPrior,
    /// All priors on the user's scale, a line per coefficient or scale.
    pub priors: Vec<String>,
}

/// A named number with its Gaussian.
#[derive(Clone, Debug, PartialEq)]
pub struct Normal {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub sd: f64,
}

/// What a posterior that is one Gaussian takes.
pub(crate) const GIVEN: &str = "a model whose scales are all given";

impl Problem {
    /// The model, if variance parameters of it are not given.
    pub fn collapsed(&self) -> Option<&ScaleModel> {
        match &self.model_kind {
            ModelKind::Collapsed(model) => Some(model),
            _ => None,
        }
    }

    /// Refuses settings that would be ignored: a gap and the probability that it is missed belong to one Gaussian, and
    /// a model with unknown scales has a mixture of them; an accuracy and a source of the posterior belong to a
    /// posterior, which estimated scales do not have.
    pub fn check_settings(&self, settings: &Settings) -> Result<(), RequestError> {
        let plain = matches!(&self.model_kind, ModelKind::Dense(model) if covers(model));
        let plain = plain && settings.factor.as_deref() != Some("diagonal");
        let scales =
            self.collapsed().is_some_and(|model| Enclosure::covers(model, &self.prepared, self.response));
        if settings.rigorous && !plain && !scales {
            let owner = "linear (with a given sigma), logistic, binomial and poisson models without groups and with a \
                         dense factor, in one process, logistic and binomial models with one effect of one group \
                         whose sd is not given, and linear mixed models by REML or maximum likelihood";
            return Err(RequestError::no_effect("`rigorous`", owner));
        }
        let Some(scale_model) = self.collapsed() else { return Ok(()) };
        if scale_model.unknown_scales.scales.is_empty() {
            let set = [("gap", settings.gap.is_some()), ("delta", settings.delta.is_some())];
            return match set.iter().find(|(_, set)| *set) {
                Some((setting, _)) => {
                    let owner = "models that are not solved in closed form";
                    Err(RequestError::no_effect(format!("`{setting}`"), owner))
                }
                None => Ok(()),
            };
        }
        let estimated = scale_model.scales == Scales::Estimate;
        let set = [
            ("gap", settings.gap.is_some()),
            ("delta", settings.delta.is_some()),
            ("accuracy", settings.accuracy.is_some() && estimated),
            ("posterior", settings.posterior.is_some() && estimated),
        ];
        if let Some((setting, _)) = set.iter().find(|(_, set)| *set) {
            return Err(RequestError::NoGap { setting, unknown: scale_model.unknown_scales.are() });
        }
        match settings.posterior.as_deref() {
            Some(word @ ("corrected" | "exact")) => {
                let known = ["auto", "gaussian", "nuts", "importance"];
                Err(RequestError::word("posterior", word, known))
            }
            _ => Ok(()),
        }
    }

    /// Reads the source and builds the model.
    pub fn new(source: &dyn Source, request: &Request, storage: &Storage) -> Result<Self, Error> {
        request.refuse()?;
        if let (Some(ranks), Some(own)) = (storage.ranks.as_ref().filter(|r| r.count() > 1), request.own()) {
            let (parameter, by) = (own.name(), NeededBy::Processes(ranks.count()));
            return Err(RequestError::NotGiven { parameter, by }.into());
        }
        Self::of(prepare_with(source, &request.spec, storage)?, request)
    }

    /// Builds the model of rows that are ready.
    pub fn of(mut prepared: Prepared, request: &Request) -> Result<Self, Error> {
        request.refuse()?;
        let unit = Unit::of(request, &prepared)?;
        let constant = constant_response(&prepared, request.spec.model)?;
        prepared.notes.extend(constant.into_iter().chain(unit.note.clone()));
        let asked = DesignPrior::new(request, &prepared, &unit)?;
        let mut priors = asked.lines(&prepared.encoding);
        let prior = asked.model()?;
        let design = prepared.design()?;
        let scale_model = ScaleModel::new(&prepared, &design, &prior, request, unit.sd)?;
        let (model_kind, meaning) = if let Some(model) = scale_model {
            priors.extend(model.prior_lines());
            (ModelKind::Collapsed(Box::new(model)), CoefficientMap::dense(prepared.encoding.clone()))
        } else if prepared.encoding.groups.is_empty() {
            let model = Glm::new(design, request.likelihood()?, prior)?;
            (ModelKind::Dense(Box::new(model)), CoefficientMap::dense(prepared.encoding.clone()))
        } else {
            let terms = prepared.group_terms(None)?;
            let model = Hierarchical::new(design, &terms, request.likelihood()?, &prior, MEMORY)?;
            let meaning = CoefficientMap::grouped(prepared.encoding.clone(), model.latents());
            (ModelKind::Grouped(Box::new(model)), meaning)
        };
        let quantities = meaning.quantities();
        let response = request.spec.model;
        Ok(Self { model_kind, response, prepared, meaning, quantities, prior: asked, priors })
    }

    /// The model as the solvers of Gaussians see it; `None` if groups are integrated out.
    pub fn model(&self) -> Option<&dyn Model> {
        match &self.model_kind {
            ModelKind::Dense(model) => Some(&**model),
            ModelKind::Grouped(model) => Some(&**model),
            ModelKind::Collapsed(_) => None,
        }
    }

    /// The same; its gaps are proved without allowances for rounding if that is asked for and there is such a proof.
    pub(crate) fn model_proved<'a>(
        &'a self,
        goal: &Goal,
        rigorous: &'a mut Option<Rigorous<'a>>,
    ) -> Option<&'a dyn Model> {
        match &self.model_kind {
            ModelKind::Dense(model) if goal.rigorous => Some(rigorous.insert(Rigorous(model))),
            _ => self.model(),
        }
    }

    /// −φ of every row at every column of `latents` (d × n), times its weight: the log likelihoods, row after row for
    /// each column.
    pub fn log_likelihood(
        &self,
        likelihood: &dyn Likelihood,
        latents: &[f64],
    ) -> Result<Vec<f64>, DataError> {
        let (rows, prepared) = (self.meaning.rows(), &self.prepared);
        let (n, d, p) = (prepared.rows_used, self.meaning.dim(), prepared.encoding.features.len());
        let draws = latents.len() / d;
        let (mut x, mut levels, mut terms) = (vec![0.0; p], vec![0; prepared.codes.len()], Vec::new());
        let mut out = vec![0.0; n * draws];
        for index in 0..certus_models::rows::leaves(&*prepared.rows) {
            prepared.rows.leaf(index, &mut |leaf| {
                for i in 0..leaf.y.len() {
                    (0..p).for_each(|j| x[j] = leaf.x.get(i, j));
                    for (level, codes) in levels.iter_mut().zip(&prepared.codes) {
                        *level = codes[leaf.first + i] as usize;
                    }
                    rows.terms(&x, &levels, &mut terms);
                    for (k, z) in latents.chunks_exact(d).enumerate() {
                        let t = leaf.offset_of(i) + terms.iter().map(|(j, a)| a * z[*j]).sum::<f64>();
                        out[k * n + leaf.first + i] = -leaf.weight_of(i) * likelihood.value(t, leaf.datum(i));
                    }
                }
            })?;
        }
        Ok(out)
    }

    /// Means and sds of [`Problem::quantities`].
    pub fn on_user_scale(&self, w: &Gaussian) -> Vec<Normal> {
        on_user_scale(&self.quantities, w)
    }
}

/// `n` draws of combinations of the latents, one after the other; draw k depends on the seed and k only.
pub fn draws(quantities: &[Quantity], dim: usize, latents: &[f64]) -> Vec<f64> {
    let mut out = Vec::with_capacity(latents.len() / dim * quantities.len());
    for z in latents.chunks_exact(dim) {
        out.extend(quantities.iter().map(|q| q.terms.iter().map(|(i, a)| a * z[*i]).sum::<f64>()));
    }
    out
}

/// Means and sds of combinations of the latents.
pub fn on_user_scale(quantities: &[Quantity], w: &Gaussian) -> Vec<Normal> {
    let mut combinations = Combinations::new(w);
    let each = |q: &Quantity| {
        let (mean, sd) = combinations.moments(&q.terms);
        Normal { mean, sd }
    };
    quantities.iter().map(each).collect()
}
