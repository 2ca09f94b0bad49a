//! From a source and a request to a model with names: what the command line and Python share.

use std::collections::BTreeMap;
use std::sync::Arc;

use certus::Gaussian;
use certus::combination::Combinations;
use certus_models::auto::Model;
use certus_models::likelihood::{Binomial, Likelihood, Linear, Logistic, NegativeBinomial, Poisson, Probit};
use certus_models::{Glm, Hierarchical};

use crate::error::DataError;
use crate::leaves::Storage;
use crate::meaning::{Meaning, Quantity};
use crate::prepare::{Prepared, prepare_with};
use crate::prior::{CoefficientPrior, DesignPrior, Unit};
use crate::scales::{Own, ScaleRequest, own};
use crate::separation::constant_response;
use crate::spec::{Family, Spec};
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
    /// Prior sd of the coefficients, in the units of docs/priors.md (P1); infinite for a flat prior.
    pub prior_sd: f64,
    /// Prior sd of the intercept.
    pub intercept_prior_sd: f64,
    /// Priors by coefficient or term, in the same units, instead of the two above.
    pub priors: BTreeMap<String, CoefficientPrior>,
    /// What is asked of scales that are not given.
    pub scale: ScaleRequest,
}

impl Request {
    /// Coefficients N(0, 2.5²) and the intercept N(0, 10²), in the units of docs/priors.md.
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
        self.refuse_priors()
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
    /// Its likelihood.
    pub family: Family,
    /// The data it was made of.
    pub prepared: Prepared,
    /// What its latents mean.
    pub meaning: Meaning,
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
    pub fn of(mut prepared: Prepared, request: &Request) -> Result<Self, DataError> {
        request.refuse()?;
        let unit = Unit::of(request, &prepared)?;
        let constant = constant_response(&prepared, request.spec.family)?;
        prepared.notes.extend(constant.into_iter().chain(unit.note.clone()));
        let asked = DesignPrior::new(request, &prepared, &unit)?;
        let mut priors = asked.lines(&prepared.encoding);
        let prior = asked.model()?;
        let design = prepared.design()?;
        let varying = Varying::new(&prepared, &design, &prior, request, unit.sd)?;
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
        let family = request.spec.family;
        Ok(Self { fitted, family, prepared, meaning, quantities, prior: asked, priors })
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
