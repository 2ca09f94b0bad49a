//! The models whose scales are not all given, behind one interface: the estimate, the posterior on a grid, the effects
//! of groups, and the check of both.

use std::ops::Range;

use certus::linalg;
use certus_mixed::collapsed::{
    self, Collapsed, Confirmed, Effect, Excluded, Interval, Maximum, Mixture, Node, SdPrior,
};
use certus_mixed::scales::ScalesEstimate;
use certus_mixed::scales::{self, Dispersion, LinearNoise, ScaleProblem, ScalesMaximum};
use certus_mixed::{Journal, ScaleObserver};
use certus_models::Error;
use certus_models::error::{InvalidModel, Unidentified};

use crate::variance::crossed::{CorrelatedMixed, CrossedMixed, known};
use crate::variance::mixed::{GivenMixed, LinearMixed};
use crate::variance::mixture::MixturePosterior;
use crate::variance::profiled::{CUT, PROFILED, Profiled};
use crate::variance::several::SeveralEffects;

/// A model with unknown scales.
pub enum ScaleSolver {
    /// An effect per group.
    Effect(Collapsed),
    /// The noise of a linear model, and perhaps an effect per group.
    Noise(LinearNoise),
    /// The dispersion of counts, and perhaps an effect per group.
    Counts(Dispersion),
    /// A linear model with any number of group terms.
    Mixed(Box<LinearMixed>),
    /// The same with sds that are given.
    Given(Box<GivenMixed>),
    /// Another model with several group effects.
    Crossed(Box<CrossedMixed>),
    /// One group with correlated effects, any likelihood.
    Correlated(Box<CorrelatedMixed>),
}

/// The maximum over the scales and the coefficients.
pub(crate) struct JointMaximum {
    pub(crate) beta: Vec<f64>,
    pub(crate) scales: Vec<f64>,
    pub(crate) log_covariance: Vec<f64>,
    pub(crate) intervals: Vec<Interval>,
    pub(crate) factor: Vec<f64>,
    pub(crate) log_likelihood: f64,
    pub(crate) error: f64,
    /// Every maximum that was found, the highest first.
    pub(crate) maxima: Vec<ScalesMaximum>,
    /// Coefficients at each of them, where they are known.
    pub(crate) betas: Vec<Vec<f64>>,
    /// Where the highest can be, of one scale.
    pub(crate) excluded: Option<Excluded>,
    /// Profile intervals of the scales, 90 %, where they were looked for.
    pub(crate) profiles: Vec<Profiled>,
    /// Of a model with several group effects.
    pub(crate) several: Option<SeveralEffects>,
}

/// The posterior.
pub(crate) struct GridPosterior {
    pub(crate) mixture: Mixture,
    pub(crate) scales: Vec<Vec<f64>>,
    pub(crate) keys: Vec<[i64; 2]>,
}

impl JointMaximum {
    fn of(found: ScalesEstimate) -> Self {
        Self {
            beta: found.beta,
            scales: found.scales,
            log_covariance: found.log_covariance,
            intervals: found.intervals,
            factor: found.factor,
            log_likelihood: found.log_likelihood,
            error: found.error,
            maxima: found.maxima,
            betas: Vec::new(),
            excluded: found.excluded,
            profiles: Vec::new(),
            several: None,
        }
    }

    /// Of a linear mixed model.
    fn of_mixed(model: &LinearMixed, profiled: bool) -> Result<Self, Error> {
        let (fit, several) = model.estimate()?;
        let profiles = if profiled { model.profiles(&fit) } else { Vec::new() };
        Ok(Self {
            scales: model.scales(&fit),
            log_covariance: fit.covariance.clone(),
            intervals: model.intervals(&fit),
            factor: factor_of(&fit.fixed_covariance, model.dim())?,
            log_likelihood: model.log_likelihood(fit.value),
            error: f64::NAN,
            beta: fit.fixed,
            maxima: Vec::new(),
            betas: Vec::new(),
            excluded: None,
            profiles,
            several: Some(several),
        })
    }

    /// Of another model with several group effects.
    fn of_crossed(
        model: &CrossedMixed,
        journal: &Journal,
        observer: &mut ScaleObserver<'_>,
        profiled: bool,
    ) -> Result<Self, Error> {
        let (fit, several) = model.estimate(journal, observer)?;
        let profiles = if profiled { model.profiles(&fit, journal, observer) } else { Vec::new() };
        let scales = model.scales(&fit);
        let nothing = Interval { sds: [f64::NAN; 2], proved: Err(known(&fit)) };
        Ok(Self {
            intervals: vec![nothing; scales.len()],
            scales,
            log_covariance: fit.covariance.clone(),
            factor: factor_of(&fit.fixed_covariance, model.dim())?,
            log_likelihood: fit.log_likelihood,
            error: f64::NAN,
            beta: fit.fixed,
            maxima: Vec::new(),
            betas: Vec::new(),
            excluded: None,
            profiles,
            several: Some(several),
        })
    }

    /// Of one group with correlated effects.
    fn of_correlated(
        model: &CorrelatedMixed,
        journal: &Journal,
        observer: &mut ScaleObserver<'_>,
        profiled: bool,
    ) -> Result<Self, Error> {
        let (fit, several) = model.estimate(journal, observer)?;
        let profiles = if profiled { model.profiles(&fit, journal, observer) } else { Vec::new() };
        Ok(Self {
            scales: model.scales(&fit),
            log_covariance: fit.covariance.clone(),
            intervals: model.intervals(&fit),
            factor: factor_of(&fit.fixed_covariance, model.dim())?,
            log_likelihood: fit.log_likelihood,
            error: CorrelatedMixed::error(&fit),
            beta: fit.fixed,
            maxima: Vec::new(),
            betas: Vec::new(),
            excluded: None,
            profiles,
            several: Some(several),
        })
    }

    /// One node, at the maximum.
    pub(crate) fn mixture_posterior(&self) -> MixturePosterior {
        let node = Node {
            sd: self.scales[0],
            weight: 1.0,
            mean: self.beta.clone(),
            factor: self.factor.clone(),
            error: self.error,
        };
        MixturePosterior {
            nodes: vec![node],
            scales: vec![self.scales.clone()],
            keys: vec![[0, 0]],
            log_covariance: Some(self.log_covariance.clone()),
            effects: None,
        }
    }
}

impl GridPosterior {
    pub(crate) fn mixture_posterior(&self) -> MixturePosterior {
        MixturePosterior {
            nodes: self.mixture.nodes.clone(),
            scales: self.scales.clone(),
            keys: self.keys.clone(),
            log_covariance: None,
            effects: None,
        }
    }
}

/// The Cholesky factor of the coefficients' covariance matrix.
fn factor_of(covariance: &[f64], d: usize) -> Result<Vec<f64>, Error> {
    let mut factor = covariance.to_vec();
    if !linalg::cholesky(&mut factor, d) {
        let (reason, direction) = (Unidentified::NoMaximum, vec![0.0; d]);
        return Err(Error::NotIdentified { reason, direction });
    }
    Ok(factor)
}

fn maximum(found: &Maximum) -> ScalesMaximum {
    let Maximum { sd, value, log_likelihood, .. } = *found;
    ScalesMaximum { scales: vec![sd], value, log_likelihood }
}

enum SolverKind<'a> {
    Effect(&'a Collapsed),
    ScaleProblem(&'a dyn ScaleProblem),
    Mixed(&'a LinearMixed),
    Crossed(&'a CrossedMixed),
    Correlated(&'a CorrelatedMixed),
}

impl ScaleSolver {
    /// As an effect alone, or as any other.
    fn kind(&self) -> SolverKind<'_> {
        match self {
            Self::Effect(model) => SolverKind::Effect(model),
            Self::Noise(model) => SolverKind::ScaleProblem(model),
            Self::Counts(model) => SolverKind::ScaleProblem(model),
            Self::Mixed(model) => SolverKind::Mixed(model),
            Self::Given(model) => SolverKind::ScaleProblem(&**model),
            Self::Crossed(model) => SolverKind::Crossed(model),
            Self::Correlated(model) => SolverKind::Correlated(model),
        }
    }

    /// Coefficients.
    pub fn dim(&self) -> usize {
        match self {
            Self::Effect(model) => model.dim(),
            Self::Noise(model) => model.dim(),
            Self::Counts(model) => model.dim(),
            Self::Mixed(model) => model.dim(),
            Self::Given(model) => model.model.dim(),
            Self::Crossed(model) => model.dim(),
            Self::Correlated(model) => model.dim(),
        }
    }

    /// Groups that are integrated out.
    pub fn groups(&self) -> usize {
        match self {
            Self::Effect(model) => model.groups(),
            Self::Noise(model) => model.groups(),
            Self::Counts(model) => model.groups(),
            Self::Mixed(model) => model.groups(),
            Self::Given(model) => model.model.groups(),
            Self::Crossed(model) => model.groups(),
            Self::Correlated(model) => model.groups(),
        }
    }

    /// The maximum; with profile intervals if they are wanted and the model is small enough.
    pub(crate) fn estimate(
        &self,
        journal: &mut Journal,
        observer: &mut ScaleObserver<'_>,
        profiled: bool,
    ) -> Result<JointMaximum, Error> {
        let start = vec![0.0; self.dim()];
        match self.kind() {
            SolverKind::Effect(model) => {
                let found = model.estimate_observed(&start, journal, observer)?;
                let error = found.log_sd_error;
                let interval = if profiled && model.rows() <= PROFILED {
                    match model.profile_interval(&found, CUT, journal, observer) {
                        Err(Error::Stopped) => return Err(Error::Stopped),
                        Err(error) => Profiled::NotFound(error.to_string()),
                        Ok(found) => Profiled::of(found),
                    }
                } else {
                    Profiled::NotTried
                };
                Ok(JointMaximum {
                    log_covariance: vec![if error.is_finite() { error * error } else { 0.0 }],
                    beta: found.beta,
                    scales: vec![found.sd],
                    intervals: vec![found.interval],
                    factor: found.factor,
                    log_likelihood: found.at.log_likelihood,
                    error: found.at.error,
                    betas: found.maxima.iter().map(|m| m.beta.clone()).collect(),
                    maxima: found.maxima.iter().map(maximum).collect(),
                    excluded: Some(found.excluded),
                    profiles: vec![interval],
                    several: None,
                })
            }
            SolverKind::ScaleProblem(model) => {
                scales::estimate_observed(model, &start, journal, observer).map(JointMaximum::of)
            }
            SolverKind::Mixed(model) => JointMaximum::of_mixed(model, profiled),
            SolverKind::Crossed(model) => JointMaximum::of_crossed(model, journal, observer, profiled),
            SolverKind::Correlated(model) => JointMaximum::of_correlated(model, journal, observer, profiled),
        }
    }

    /// With a prior of every scale.
    pub(crate) fn posterior(
        &self,
        found: &JointMaximum,
        priors: &[SdPrior],
        journal: &mut Journal,
        observer: &mut ScaleObserver<'_>,
    ) -> Result<GridPosterior, Error> {
        match self.kind() {
            SolverKind::Effect(model) => {
                let places = found.betas.iter().zip(&found.maxima);
                let starts: Vec<_> = places.map(|(beta, m)| (beta.clone(), m.scales[0])).collect();
                let mixture = model.posterior_over(&starts, priors[0], journal, observer)?;
                let scales = mixture.nodes.iter().map(|n| vec![n.sd]).collect();
                let keys = (0..mixture.nodes.len() as i64).map(|k| [k, 0]).collect();
                Ok(GridPosterior { mixture, scales, keys })
            }
            SolverKind::ScaleProblem(model) => {
                let maxima: Vec<Vec<f64>> = found.maxima.iter().map(|m| m.scales.clone()).collect();
                let grid_posterior =
                    scales::posterior_observed(model, &found.beta, &maxima, priors, journal, observer)?;
                Ok(GridPosterior {
                    mixture: grid_posterior.mixture,
                    scales: grid_posterior.scales,
                    keys: grid_posterior.keys,
                })
            }
            SolverKind::Mixed(_) | SolverKind::Crossed(_) | SolverKind::Correlated(_) => {
                let (what, required) = ("a grid over scales", "one or two of them");
                Err(InvalidModel::Requires { what, required }.into())
            }
        }
    }

    pub(crate) fn effects_of(
        &self,
        groups: Range<usize>,
        nodes: &[Node],
        scales: &[Vec<f64>],
    ) -> Result<Vec<Effect>, Error> {
        Ok(match self {
            Self::Effect(model) => {
                let nodes = nodes.to_vec();
                let few = Mixture { nodes, log_evidence: f64::NAN, refinement: f64::NAN, evaluations: 0 };
                model.effects_of(groups, &few)
            }
            Self::Noise(model) => model.effects_of(groups, nodes, scales),
            Self::Counts(model) => model.effects_of(groups, nodes, scales)?,
            // they come all together
            Self::Mixed(_) | Self::Given(_) | Self::Crossed(_) | Self::Correlated(_) => Vec::new(),
        })
    }

    /// The likelihood at the estimate, and what an interval of the only scale has on either side. `start` are
    /// coefficients to begin with.
    pub fn confirm(
        &self,
        start: &[f64],
        found: &[f64],
        interval: Option<[f64; 2]>,
    ) -> Result<Confirmed, Error> {
        match self.kind() {
            SolverKind::Effect(model) => model.confirm(start, found[0], interval.unwrap_or([found[0]; 2])),
            SolverKind::ScaleProblem(model) => scales::confirm(model, start, found, interval),
            SolverKind::Mixed(model) => model.confirm(found, interval),
            SolverKind::Crossed(model) => model.confirm(start, found),
            SolverKind::Correlated(model) => model.confirm(start, found, interval),
        }
    }

    /// Whether other values of the only scale are excluded as claimed. `start` are coefficients to begin with.
    pub fn confirm_excluded(&self, start: &[f64], found: &[f64], claim: &Excluded) -> Result<bool, Error> {
        match self.kind() {
            SolverKind::Effect(model) => model.confirm_excluded(start, found[0], claim),
            SolverKind::ScaleProblem(model) => scales::confirm_excluded(model, start, found, claim),
            SolverKind::Mixed(_) | SolverKind::Crossed(_) | SolverKind::Correlated(_) => Ok(false),
        }
    }

    /// The largest difference between the weights of a grid and those that follow from the data.
    pub fn weights_differ(
        &self,
        mixture_posterior: &MixturePosterior,
        priors: &[SdPrior],
    ) -> Result<f64, Error> {
        match self.kind() {
            SolverKind::Effect(model) => model.weights_differ(&mixture_posterior.mixture(), priors[0]),
            SolverKind::ScaleProblem(model) => {
                scales::weights_differ(model, &mixture_posterior.nodes, &mixture_posterior.scales, priors)
            }
            SolverKind::Mixed(_) | SolverKind::Crossed(_) | SolverKind::Correlated(_) => Ok(0.0),
        }
    }

    /// What halving the step of the grid may change: see K5 and K9.
    pub(crate) fn agree(&self) -> f64 {
        match self.kind() {
            SolverKind::Effect(_) => collapsed::AGREE,
            SolverKind::ScaleProblem(model) => scales::AGREE[model.names().len() - 1],
            SolverKind::Mixed(_) | SolverKind::Crossed(_) | SolverKind::Correlated(_) => f64::INFINITY,
        }
    }
}
