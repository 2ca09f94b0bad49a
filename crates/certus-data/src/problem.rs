//! From a source and a request to a model with names: what the command line and Python share.

use std::collections::BTreeMap;
use std::sync::Arc;

use certus::Gaussian;
use certus::certificate::significant;
use certus::combination::Combinations;
use certus_models::auto::Model;
use certus_models::likelihood::{Binomial, Likelihood, Linear, Logistic, NegativeBinomial, Poisson, Probit};
use certus_models::{Glm, Hierarchical, Prior};

use crate::error::DataError;
use crate::leaves::Storage;
use crate::meaning::{Meaning, Quantity};
use crate::prepare::{Prepared, prepare_with};
use crate::scales::{Own, ScaleRequest, own};
use crate::spec::{Family, Spec, nearest};
use crate::table::Source;
use crate::varying::Varying;

/// Memory for the factor of a model with groups and what the solver keeps beside it.
const MEMORY: usize = 8 << 30;

/// A model that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The columns.
    pub spec: Spec,
    /// The sd of the errors of a linear model, if it is known.
    pub sigma: Option<f64>,
    /// The dispersion of a negative-binomial model, if it is known.
    pub dispersion: Option<f64>,
    /// Prior sd of the coefficients of the design; infinite for a flat prior.
    pub prior_sd: f64,
    /// Prior sd of the intercept.
    pub intercept_prior_sd: f64,
    /// Prior sds by coefficient or term, instead of the two above.
    pub priors: BTreeMap<String, f64>,
    /// What is asked of scales that are not given.
    pub scale: ScaleRequest,
}

impl Request {
    /// Coefficients N(0, 2.5²) per sd of the feature, the intercept N(0, 10²).
    pub fn new(spec: Spec) -> Self {
        let (sigma, dispersion, priors) = (None, None, BTreeMap::new());
        let scale = ScaleRequest::default();
        Self { spec, sigma, dispersion, prior_sd: 2.5, intercept_prior_sd: 10.0, priors, scale }
    }

    /// The scale of the likelihood that is not given, if it has one.
    pub(crate) fn own(&self) -> Option<Own> {
        own(self.spec.family, self.sigma, self.dispersion)
    }

    /// The likelihood; its own scale must be given.
    pub fn likelihood(&self) -> Result<Arc<dyn Likelihood>, DataError> {
        let unknown = |flag: &str| {
            DataError::Usage(format!("{flag} is not given, so there is no one likelihood: give {flag}"))
        };
        let refuse = |e: certus_models::Error| DataError::Usage(e.to_string());
        Ok(match self.spec.family {
            Family::Linear => {
                Arc::new(Linear::new(self.sigma.ok_or_else(|| unknown("sigma"))?).map_err(refuse)?)
            }
            Family::Logistic => Arc::new(Logistic),
            Family::Binomial => Arc::new(Binomial),
            Family::Probit => Arc::new(Probit),
            Family::Poisson => Arc::new(Poisson),
            Family::NegativeBinomial => {
                let dispersion = self.dispersion.ok_or_else(|| unknown("dispersion"))?;
                Arc::new(NegativeBinomial::new(dispersion).map_err(refuse)?)
            }
        })
    }

    /// What can be refused without data.
    pub(crate) fn refuse(&self) -> Result<(), DataError> {
        let given = [
            (self.sigma, Family::Linear, "sigma", "linear"),
            (self.dispersion, Family::NegativeBinomial, "dispersion", "negative-binomial"),
        ];
        for (value, family, flag, model) in given {
            if value.is_some() && self.spec.family != family {
                return Err(DataError::Usage(format!("{flag} belongs to the model {model}: leave it out")));
            }
        }
        if self.own().is_none() {
            self.likelihood()?;
        }
        if self.own().is_none() && self.spec.groups.iter().all(|g| g.sd.is_some()) {
            self.scale.refuse_without_unknown()?;
        }
        let named = self.priors.iter().map(|(name, sd)| (name.as_str(), *sd));
        let all = [("prior-sd", self.prior_sd), ("intercept-prior-sd", self.intercept_prior_sd)];
        match all.into_iter().chain(named).find(|(_, sd)| sd.is_nan() || *sd <= 0.0) {
            Some((name, sd)) => {
                Err(DataError::Usage(format!("{name} is {sd}, but a number above 0, or inf, is required")))
            }
            None => Ok(()),
        }
    }
}

/// A model with its data.
pub enum Fitted {
    /// Coefficients of all rows.
    Dense(Box<Glm>),
    /// And of groups.
    Grouped(Box<Hierarchical>),
    /// With scales that are not known, groups integrated out.
    Collapsed(Box<Varying>),
}

/// A request, ready to be fitted.
pub struct Problem {
    /// The model.
    pub fitted: Fitted,
    /// The data it was made of.
    pub prepared: Prepared,
    /// What its latents mean.
    pub meaning: Meaning,
    /// Names and combinations on the user's scale.
    pub quantities: Vec<Quantity>,
    /// The prior on the user's scale, a line per coefficient with the same.
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

impl Problem {
    /// Reads the source and builds the model.
    pub fn new(source: &dyn Source, request: &Request, storage: &Storage) -> Result<Self, DataError> {
        request.refuse()?;
        if let (Some(ranks), Some(own)) = (storage.ranks.as_ref().filter(|r| r.count() > 1), request.own()) {
            return Err(DataError::Usage(format!(
                "{} is not given: such a model can't be spread over {} processes yet; give it, or run one, without mpirun",
                own.flag(),
                ranks.count()
            )));
        }
        Self::of(prepare_with(source, &request.spec, storage)?, request)
    }

    /// Builds the model of rows that are ready.
    pub fn of(prepared: Prepared, request: &Request) -> Result<Self, DataError> {
        request.refuse()?;
        let yardstick = Yardstick::of(request, &prepared)?;
        let sds = prior_sds(request, &prepared, yardstick.sd)?;
        let mut mean = vec![0.0; sds.len()];
        if prepared.encoding.intercept && sds[0].is_finite() {
            mean[0] = yardstick.mean;
        }
        let mut priors = prior_lines(&prepared, &mean, &sds);
        let prior = Prior::independent(mean, &sds)?;
        let design = prepared.design()?;
        let varying = Varying::new(&prepared, &design, &prior, request, yardstick.sd)?;
        let (fitted, meaning) = if let Some(model) = varying {
            priors.extend(model.prior_lines());
            (Fitted::Collapsed(Box::new(model)), Meaning::dense(prepared.encoding.clone()))
        } else if prepared.encoding.groups.is_empty() {
            let model = Glm::new(design, request.likelihood()?, prior)?;
            (Fitted::Dense(Box::new(model)), Meaning::dense(prepared.encoding.clone()))
        } else {
            let terms = prepared.group_terms(None)?;
            let model = Hierarchical::new(design, &terms, request.likelihood()?, &prior, MEMORY)?;
            let meaning = Meaning::grouped(prepared.encoding.clone(), model.latents());
            (Fitted::Grouped(Box::new(model)), meaning)
        };
        let quantities = meaning.quantities();
        Ok(Self { fitted, prepared, meaning, quantities, priors })
    }

    /// The model as the solvers of Gaussians see it; `None` if groups are integrated out.
    pub fn model(&self) -> Option<&dyn Model> {
        match &self.fitted {
            Fitted::Dense(model) => Some(&**model),
            Fitted::Grouped(model) => Some(&**model),
            Fitted::Collapsed(_) => None,
        }
    }

    /// −φ of every row at every column of `latents` (d × n), times its weight: the log likelihoods, row after row for each column.
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
pub fn draws(quantities: &[Quantity], w: &Gaussian, n: usize, seed: u64) -> Vec<f64> {
    let mut out = Vec::with_capacity(n * quantities.len());
    for z in w.sample(n, seed).chunks_exact(w.dim()) {
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

/// What priors speak of: 0 and 1 of the response as it is, but its own mean and sd where nothing else says how large it is, because its noise is not known.
struct Yardstick {
    mean: f64,
    sd: f64,
}

impl Yardstick {
    fn of(request: &Request, prepared: &Prepared) -> Result<Self, DataError> {
        if request.own() != Some(Own::Noise) || !request.spec.standardise {
            return Ok(Self { mean: 0.0, sd: 1.0 });
        }
        let (rows, n) = (&*prepared.rows, prepared.rows_used as f64);
        let sum = |f: &dyn Fn(f64) -> f64| -> Result<f64, DataError> {
            let mut sum = 0.0;
            for index in 0..certus_models::rows::leaves(rows) {
                rows.leaf(index, &mut |leaf| {
                    sum += (0..leaf.y.len()).map(|i| f(leaf.y[i] - leaf.offset_of(i))).sum::<f64>();
                })?;
            }
            Ok(sum)
        };
        let mean = sum(&|y| y)? / n;
        let sd = (sum(&|y| (y - mean).powi(2))? / n).sqrt();
        if sd > 0.0 && sd.is_finite() {
            return Ok(Self { mean, sd });
        }
        Err(DataError::BadData(format!(
            "the response {} is the same in all {n} rows, so nothing is known of the noise: give sigma",
            prepared.encoding.response
        )))
    }
}

/// The prior sd of every column of the design, in units of the response.
fn prior_sds(request: &Request, prepared: &Prepared, unit: f64) -> Result<Vec<f64>, DataError> {
    let encoding = &prepared.encoding;
    let names = encoding.coefficients();
    let terms: Vec<&str> = encoding.features.iter().map(|f| f.term.as_str()).collect();
    let dropped = prepared.dropped.iter().map(|l| l.name.as_str());
    let known: Vec<&str> = names.iter().map(String::as_str).chain(terms.clone()).chain(dropped).collect();
    if let Some(name) = request.priors.keys().find(|name| !known.contains(&name.as_str())) {
        let hint = nearest(known.iter().copied(), name);
        return Err(DataError::Usage(format!(
            "a prior is given for '{name}', which is no coefficient{hint}"
        )));
    }
    let first = usize::from(encoding.intercept);
    let sd = |(j, name): (usize, &String)| {
        let general = if j < first { request.intercept_prior_sd } else { request.prior_sd };
        let term = j.checked_sub(first).and_then(|j| request.priors.get(terms[j]));
        unit * request.priors.get(name).or(term).copied().unwrap_or(general)
    };
    Ok(names.iter().enumerate().map(sd).collect())
}

/// The prior on the user's scale. The intercept's speaks of a row with average features if they are centred.
fn prior_lines(prepared: &Prepared, means: &[f64], sds: &[f64]) -> Vec<String> {
    let encoding = &prepared.encoding;
    let (center, scale) = encoding.center_and_scale();
    let first = usize::from(encoding.intercept);
    let line = |(j, name): (usize, String)| {
        let sd = j.checked_sub(first).map_or(sds[j], |k| sds[j] / scale[k]);
        let mean = if means[j] == 0.0 { "0".into() } else { significant(means[j], 5) };
        let law = if sd.is_infinite() { "flat".into() } else { format!("N({mean}, {}²)", short(sd)) };
        let at =
            if j < first && center.iter().any(|c| *c != 0.0) { " where features are average" } else { "" };
        format!("{name} ~ {law}{at}")
    };
    encoding.coefficients().into_iter().enumerate().map(line).collect()
}

/// Three digits.
pub(crate) fn short(x: f64) -> String {
    if (1e-3..1e4).contains(&x) {
        let text = significant(x, 3);
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
    } else {
        format!("{x:.2e}")
    }
}
