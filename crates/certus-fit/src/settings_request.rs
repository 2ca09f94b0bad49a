//! From settings to what is requested of the data: by a formula, or by names.

use certus_data::{Categorical, Features, Formula, GroupSpec, Missing, Offset, Slopes, Spec};

use crate::error::Error;
use crate::refusal::RequestError;
use crate::request::Request;
use crate::settings::{Settings, unset};
use crate::variance::request::{ScaleRequest, Scales, own};
use certus_likelihood::{Auxiliary, Link, Values};
use certus_mixed::linear::Criterion;

impl Settings {
    /// What is requested from the data.
    pub fn request(&self) -> Result<Request, Error> {
        self.check_words()?;
        let mut spec = match &self.formula {
            Some(text) => self.of_formula(&text.parse()?)?,
            None => self.of_names()?,
        };
        spec.weights.clone_from(&self.weights);
        spec.trials = spec.trials.take().or_else(|| self.trials.clone());
        spec.event = spec.event.take().or_else(|| self.event.clone());
        spec.categorical = self.categorical.iter().flatten().map(|text| Categorical::of_text(text)).collect();
        if let Some(column) = &self.exposure {
            if spec.model.values() != Values::Counts {
                let owner = "models of counts (poisson, negative-binomial)";
                return Err(RequestError::no_effect("`exposure`", owner).into());
            }
            spec.offset = Some(Offset::exposure(column, spec.offset.take()));
        }
        spec.standardise = !self.no_standardise;
        spec.missing = if self.missing.as_deref() == Some("drop") { Missing::Drop } else { Missing::Error };
        self.check_factor(&spec)?;
        let mut request = Request::new(spec);
        (request.sigma, request.dispersion) = (self.sigma, self.dispersion);
        request.prior_sd = self.prior_sd.unwrap_or(request.prior_sd);
        request.intercept_prior_sd = self.intercept_prior_sd.unwrap_or(request.intercept_prior_sd);
        request.scale =
            ScaleRequest::new(self.sd_prior.as_deref(), self.sd_prior_scale, self.scales.as_deref())?;
        request.priors.clone_from(&self.priors);
        if let Some(criterion) = self.criterion(&request)? {
            request.scale = request.scale.with_criterion(criterion)?;
            (request.prior_sd, request.intercept_prior_sd) = (f64::INFINITY, f64::INFINITY);
        }
        if let Some(word) = &self.prove {
            request.scale = request.scale.with_proof(word)?;
        }
        Ok(request)
    }

    /// The criterion of a linear mixed model: asked for, or REML for estimates without priors.
    fn criterion(&self, request: &Request) -> Result<Option<Criterion>, RequestError> {
        let priors = [
            ("prior-sd", self.prior_sd.is_some_and(f64::is_finite)),
            ("intercept-prior-sd", self.intercept_prior_sd.is_some_and(f64::is_finite)),
            ("priors", !self.priors.is_empty()),
        ];
        let given = priors.into_iter().find(|(_, given)| *given);
        let groups = &request.spec.groups;
        let unknown = !groups.is_empty() && groups.iter().all(|g| g.sd.is_none());
        let own = own(request.spec.model, self.sigma, self.dispersion);
        let mixed = own == Some(Auxiliary::Sigma) && unknown;
        // of models that are not linear one effect of one group has priors unless `ml` is asked for
        let other = own.is_none() && request.spec.model.link() != Link::Identity && unknown;
        let several = groups.len() > 1 || groups.iter().any(|g| g.slopes != Slopes::Terms(Vec::new()));
        let asked = match (self.reml, self.ml) {
            (false, false) => {
                let estimate = request.scale.scales() == Scales::Estimate && given.is_none() && mixed;
                let without =
                    request.scale.scales() == Scales::Estimate && given.is_none() && other && several;
                return Ok(match (estimate, without) {
                    (true, _) => Some(Criterion::Reml),
                    (false, true) => Some(Criterion::Ml),
                    (false, false) => None,
                });
            }
            (true, true) => return Err(RequestError::no_effect("`ml`", "fits without `reml`")),
            (true, false) => ("`reml`", Criterion::Reml),
            (false, true) => ("`ml`", Criterion::Ml),
        };
        if asked.1 == Criterion::Reml && !mixed {
            let owner = "linear models with groups whose sds are not given, nor sigma";
            return Err(RequestError::no_effect(asked.0, owner));
        }
        if !mixed && !other {
            let owner = match own {
                Some(Auxiliary::Dispersion) if unknown => "models whose dispersion is given (`dispersion`)",
                _ => "models with groups whose sds are not given; of a linear one sigma is not given either",
            };
            return Err(RequestError::no_effect(asked.0, owner));
        }
        match given {
            Some((setting, _)) => Err(RequestError::no_effect(
                format!("`{setting}`"),
                format!("fits without {}, which has flat priors", asked.0),
            )),
            None => Ok(Some(asked.1)),
        }
    }

    /// Response, features, groups, offset and intercept by their own settings.
    fn of_names(&self) -> Result<Spec, Error> {
        let response = self.response.as_deref();
        let response =
            response.ok_or_else(|| unset("the `response` is not given: name its column".into()))?;
        let mut spec = Spec::new(response, self.response()?);
        if let Some(terms) = &self.features {
            spec.features = Features::Terms(terms.clone());
        }
        let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
        spec.groups = GroupSpec::all(&list(&self.group), &list(&self.group_sd))?;
        spec.offset = self.offset.clone().map(Offset::Column);
        spec.intercept = !self.no_intercept;
        Ok(spec)
    }

    /// The same by a formula.
    fn of_formula(&self, formula: &Formula) -> Result<Spec, Error> {
        let both = [
            ("response", self.response.is_some(), "leave out response, which the formula names"),
            ("features", self.features.is_some(), "write them as terms, y ~ a + b"),
            ("group", self.group.is_some(), "write them as terms, (1 | g)"),
            ("no-intercept", self.no_intercept, "write y ~ 0 + a"),
            ("offset", self.offset.is_some() && formula.offset.is_some(), "give one of them"),
            ("trials", self.trials.is_some() && formula.trials.is_some(), "give one of them"),
            ("event", self.event.is_some() && formula.event.is_some(), "give one of them"),
        ];
        if let Some((setting, _, instead)) = both.into_iter().find(|(_, set, _)| *set) {
            return Err(RequestError::FormulaAnd { setting, instead }.into());
        }
        let mut spec = Spec::new(&formula.response, self.response()?);
        spec.features = formula.features();
        spec.computed.clone_from(&formula.computed);
        (spec.trials, spec.event) = (formula.trials.clone(), formula.event.clone());
        spec.groups = formula.group_specs(self.group_sd.as_deref().unwrap_or_default())?;
        spec.offset = formula.offset.clone().or_else(|| self.offset.clone().map(Offset::Column));
        spec.intercept = formula.intercept;
        Ok(spec)
    }

    /// Refuses a structure of the factor that does not suit the groups.
    fn check_factor(&self, spec: &Spec) -> Result<(), RequestError> {
        let (factor, reason) = match (self.factor.as_deref(), spec.groups.is_empty()) {
            (Some("diagonal"), false) => (
                "diagonal",
                "is not supported for models with a `group`: the arrow loses nothing; leave it out",
            ),
            (Some("arrow"), true) => ("arrow", "needs a `group`: without groups the factor is dense"),
            (Some("dense"), false) => {
                ("dense", "cannot be combined with a `group`: the arrow loses nothing and is smaller")
            }
            (Some("arrow"), false) if spec.groups.iter().any(|g| g.sd.is_none()) => {
                ("arrow", "needs `group-sd`: groups whose sd is not given are integrated out")
            }
            _ => return Ok(()),
        };
        Err(RequestError::Factor { factor, reason })
    }
}
