//! From settings to what is requested of the data: by a formula, or by names.

use certus_data::{Features, Formula, GroupSpec, Missing, Spec};

use crate::error::Error;
use crate::refusal::RequestError;
use crate::request::Request;
use crate::settings::{Settings, unset};
use crate::variance::request::ScaleRequest;

impl Settings {
    /// What is requested from the data.
    pub fn request(&self) -> Result<Request, Error> {
        self.check_words()?;
        let mut spec = match &self.formula {
            Some(text) => self.of_formula(&text.parse()?)?,
            None => self.of_names()?,
        };
        spec.weights.clone_from(&self.weights);
        spec.trials.clone_from(&self.trials);
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
        Ok(request)
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
        spec.offset.clone_from(&self.offset);
        spec.intercept = !self.no_intercept;
        Ok(spec)
    }

    /// The same by a formula.
    fn of_formula(&self, formula: &Formula) -> Result<Spec, Error> {
        let both = [
            ("response", self.response.is_some(), "leave it out"),
            ("features", self.features.is_some(), "write them as terms, y ~ a + b"),
            ("group", self.group.is_some(), "write them as terms, (1 | g)"),
            ("no-intercept", self.no_intercept, "write y ~ 0 + a"),
            ("offset", self.offset.is_some() && formula.offset.is_some(), "give one of them"),
        ];
        if let Some((setting, _, instead)) = both.into_iter().find(|(_, set, _)| *set) {
            return Err(RequestError::FormulaAnd { setting, instead }.into());
        }
        let mut spec = Spec::new(&formula.response, self.response()?);
        spec.features = formula.features();
        spec.groups = formula.group_specs(self.group_sd.as_deref().unwrap_or_default())?;
        spec.offset = formula.offset.clone().or_else(|| self.offset.clone());
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
