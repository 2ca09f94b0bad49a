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
use crate::scales::{ScaleRequest, unknown};
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
    /// The sd of the errors of a linear model.
    pub sigma: Option<f64>,
    /// The dispersion of a negative-binomial model.
    pub dispersion: Option<f64>,
    /// Prior sd of the coefficients of the design; infinite for a flat prior.
    pub prior_sd: f64,
    /// Prior sd of the intercept.
    pub intercept_prior_sd: f64,
    /// Prior sds by coefficient or term, instead of the two above.
    pub priors: BTreeMap<String, f64>,
    /// What is asked of sds of groups that are not given.
    pub scale: ScaleRequest,
}

impl Request {
    /// Coefficients N(0, 2.5²) per sd of the feature, the intercept N(0, 10²).
    pub fn new(spec: Spec) -> Self {
        let (sigma, dispersion, priors) = (None, None, BTreeMap::new());
        let scale = ScaleRequest::default();
        Self { spec, sigma, dispersion, prior_sd: 2.5, intercept_prior_sd: 10.0, priors, scale }
    }

    /// The likelihood.
    pub fn likelihood(&self) -> Result<Arc<dyn Likelihood>, DataError> {
        let needed = |value: Option<f64>, flag: &str, what: &str| {
            value.ok_or_else(|| {
                let words = format!(
                    "{what} needs {flag} (--{flag} X, in Python {flag}=X): estimating it is not built yet"
                );
                DataError::Usage(words)
            })
        };
        let refuse = |e: certus_models::Error| DataError::Usage(e.to_string());
        let given = [
            (self.sigma, Family::Linear, "sigma", "linear"),
            (self.dispersion, Family::NegativeBinomial, "dispersion", "negative-binomial"),
        ];
        for (value, family, flag, model) in given {
            if value.is_some() && self.spec.family != family {
                return Err(DataError::Usage(format!("{flag} belongs to the model {model}: leave it out")));
            }
        }
        Ok(match self.spec.family {
            Family::Linear => {
                Arc::new(Linear::new(needed(self.sigma, "sigma", "a linear model")?).map_err(refuse)?)
            }
            Family::Logistic => Arc::new(Logistic),
            Family::Binomial => Arc::new(Binomial),
            Family::Probit => Arc::new(Probit),
            Family::Poisson => Arc::new(Poisson),
            Family::NegativeBinomial => {
                let dispersion = needed(self.dispersion, "dispersion", "a negative-binomial model")?;
                Arc::new(NegativeBinomial::new(dispersion).map_err(refuse)?)
            }
        })
    }

    /// What can be refused without data.
    pub(crate) fn refuse(&self) -> Result<(), DataError> {
        self.likelihood()?;
        if self.spec.groups.iter().all(|g| g.sd.is_some()) {
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
    /// And of groups whose sd is not known, integrated out.
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
        Self::of(prepare_with(source, &request.spec, storage)?, request)
    }

    /// Builds the model of rows that are ready.
    pub fn of(prepared: Prepared, request: &Request) -> Result<Self, DataError> {
        request.refuse()?;
        let likelihood = request.likelihood()?;
        let sds = prior_sds(request, &prepared)?;
        let mut priors = prior_lines(&prepared, &sds);
        let prior = Prior::independent(vec![0.0; sds.len()], &sds)?;
        let design = prepared.design()?;
        let (fitted, meaning) = if let Some((_, feature)) = unknown(&prepared.encoding)? {
            let model = Varying::new(&prepared, &design, feature, likelihood, prior, request)?;
            priors.extend(model.prior_line());
            (Fitted::Collapsed(Box::new(model)), Meaning::dense(prepared.encoding.clone()))
        } else if prepared.encoding.groups.is_empty() {
            let model = Glm::new(design, likelihood, prior)?;
            (Fitted::Dense(Box::new(model)), Meaning::dense(prepared.encoding.clone()))
        } else {
            let terms = prepared.group_terms(None)?;
            let model = Hierarchical::new(design, &terms, likelihood, &prior, MEMORY)?;
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

/// The prior sd of every column of the design.
fn prior_sds(request: &Request, prepared: &Prepared) -> Result<Vec<f64>, DataError> {
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
        request.priors.get(name).or(term).copied().unwrap_or(general)
    };
    Ok(names.iter().enumerate().map(sd).collect())
}

/// The prior on the user's scale. The intercept's speaks of a row with average features if they are centred.
fn prior_lines(prepared: &Prepared, sds: &[f64]) -> Vec<String> {
    let encoding = &prepared.encoding;
    let (center, scale) = encoding.center_and_scale();
    let first = usize::from(encoding.intercept);
    let line = |(j, name): (usize, String)| {
        let sd = j.checked_sub(first).map_or(sds[j], |k| sds[j] / scale[k]);
        let law = if sd.is_infinite() { "flat".into() } else { format!("N(0, {}²)", short(sd)) };
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
