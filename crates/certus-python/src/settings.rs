//! The settings of a fit in the words of the command line, as fit.json keeps them, so that either door reads the other's.

use std::collections::BTreeMap;
use std::time::Duration;

use certus::{Goal, Outcome};
use certus_data::{
    Asked, CoefficientPrior, Family, Features, GroupSpec, Missing, Numbers, Request, ScaleRequest, Spec, Way,
};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::{core, data, usage};

/// A number that may be infinite, which JSON cannot say: "inf" there.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
enum Number {
    Number(f64),
    Text(String),
}

impl Number {
    fn value(&self) -> f64 {
        match self {
            Number::Number(x) => *x,
            Number::Text(text) => text.parse().unwrap_or(f64::NAN),
        }
    }
}

/// The names are those of the command line's arguments.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", default)]
pub(crate) struct Settings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    features: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group_sd: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weights: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trials: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dispersion: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sigma: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prior_sd: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    intercept_prior_sd: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sd_prior: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sd_prior_scale: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scales: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    no_intercept: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    no_standardise: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    constants: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iterations: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    row_batch: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gap: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<String>,
    /// Seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<usize>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    priors: BTreeMap<String, CoefficientPrior>,
}

impl Settings {
    /// From JSON that `python/certus` wrote, or the command line.
    pub(crate) fn read(py: Python<'_>, json: &str) -> PyResult<Self> {
        serde_json::from_str(json).map_err(|e| usage(py, &format!("the settings: {e}")))
    }

    /// As fit.json keeps them.
    pub(crate) fn value(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("settings are plain values")
    }

    /// These, and those of a run on top.
    pub(crate) fn with(&self, run: &Self) -> Self {
        let run = run.clone();
        Self {
            method: run.method,
            constants: run.constants,
            steps: run.steps,
            batch: run.batch,
            iterations: run.iterations,
            row_batch: run.row_batch,
            factor: run.factor,
            gap: run.gap,
            delta: run.delta,
            level: run.level,
            max_time: run.max_time,
            seed: run.seed,
            threads: run.threads,
            ..self.clone()
        }
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or(0)
    }

    pub(crate) fn goal(&self, py: Python<'_>) -> PyResult<Goal> {
        let limit = |text: &String| {
            let seconds = text.trim_end_matches('s').parse::<f64>().ok();
            let limit = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
            limit.ok_or_else(|| {
                usage(py, &format!("max_time is {text}, but a number of seconds of at least 0 is required"))
            })
        };
        let goal = Goal {
            gap: self.gap.unwrap_or(0.01),
            delta: self.delta.unwrap_or(0.01),
            max_time: self.max_time.as_ref().map(limit).transpose()?,
            seed: self.seed(),
            threads: self.threads,
            ..Goal::default()
        };
        goal.validate().map_err(|e| core(py, e))?;
        Ok(goal)
    }

    pub(crate) fn way(&self, py: Python<'_>) -> PyResult<Way> {
        let method = self.method.as_deref().unwrap_or("auto");
        let numbers = Numbers { batch: self.batch, iterations: self.iterations, row_batch: self.row_batch };
        let way = Way::new(method, self.constants.as_deref(), self.steps.as_deref(), numbers)
            .map_err(|e| data(py, &e))?;
        let groups = self.group.as_ref().is_some_and(|groups| !groups.is_empty());
        match (self.factor.as_deref(), groups) {
            (None | Some("auto"), _) | (Some("dense"), false) | (Some("arrow"), true) => Ok(way),
            (Some("diagonal"), false) => way.with_independence().map_err(|e| data(py, &e)),
            (Some("diagonal"), true) => Err(usage(
                py,
                "factor='diagonal' is not built for models with groups: the arrow loses nothing",
            )),
            (Some(other), _) => Err(usage(
                py,
                &format!(
                    "factor is '{other}', but 'auto', 'dense' or 'diagonal' without groups, 'auto' or 'arrow' with groups, is required"
                ),
            )),
        }
    }

    /// The level asked for.
    pub(crate) fn asked(&self, py: Python<'_>) -> PyResult<Option<Asked>> {
        self.level.as_ref().map(|level| level.parse().map_err(|e| data(py, &e))).transpose()
    }

    /// Sigma and dispersion, as far as they were given.
    pub(crate) fn scales(&self) -> (Option<f64>, Option<f64>) {
        (self.sigma, self.dispersion)
    }

    /// The level asked for, applied.
    pub(crate) fn judge(&self, py: Python<'_>, outcome: &mut Outcome) -> PyResult<()> {
        if let Some(level) = &self.level {
            level.parse::<Asked>().map_err(|e| data(py, &e))?.judge(outcome);
        }
        Ok(())
    }

    /// Refuses a level that does not exist before anything is done.
    pub(crate) fn check_level(&self, py: Python<'_>) -> PyResult<()> {
        match &self.level {
            Some(level) => level.parse::<Asked>().map(|_| ()).map_err(|e| data(py, &e)),
            None => Ok(()),
        }
    }

    pub(crate) fn family(&self, py: Python<'_>) -> PyResult<Family> {
        self.model.as_deref().unwrap_or_default().parse().map_err(|e| data(py, &e))
    }

    pub(crate) fn request(&self, py: Python<'_>) -> PyResult<Request> {
        let mut spec = Spec::new(self.response.as_deref().unwrap_or_default(), self.family(py)?);
        if let Some(terms) = &self.features {
            spec.features = Features::Terms(terms.clone());
        }
        let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
        spec.groups = GroupSpec::all(&list(&self.group), &list(&self.group_sd)).map_err(|e| data(py, &e))?;
        spec.weights.clone_from(&self.weights);
        spec.offset.clone_from(&self.offset);
        spec.trials.clone_from(&self.trials);
        spec.intercept = !self.no_intercept;
        spec.standardise = !self.no_standardise;
        spec.missing = match self.missing.as_deref() {
            None | Some("error") => Missing::Error,
            Some("drop") => Missing::Drop,
            Some(other) => {
                let words = format!("missing is '{other}', but 'error' or 'drop' is required");
                return Err(usage(py, &words));
            }
        };
        let mut request = Request::new(spec);
        (request.sigma, request.dispersion) = (self.sigma, self.dispersion);
        if let Some(sd) = &self.prior_sd {
            request.prior_sd = sd.value();
        }
        if let Some(sd) = &self.intercept_prior_sd {
            request.intercept_prior_sd = sd.value();
        }
        let (prior, scales) = (self.sd_prior.as_deref(), self.scales.as_deref());
        request.scale = ScaleRequest::new(prior, self.sd_prior_scale, scales).map_err(|e| data(py, &e))?;
        request.priors.clone_from(&self.priors);
        Ok(request)
    }
}
