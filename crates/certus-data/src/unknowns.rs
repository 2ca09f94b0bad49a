//! The models whose scales are not all given, behind one face: the estimate, the posterior on a grid, the effects of groups, and the check of both.

use std::ops::{ControlFlow, Range};

use certus_models::collapsed::{
    self, Collapsed, Confirmed, Effect, Excluded, Interval, Maximum, Mixture, Node, Pass, SdPrior, Stage,
};
use certus_models::scales::{self, Dispersion, LinearNoise, Look, Scaled, ScalesMaximum};
use certus_models::{Error, scales::ScalesEstimate};

use crate::mixed::Mixed;

/// A model with unknown scales.
pub enum Unknowns {
    /// An effect per group.
    Effect(Collapsed),
    /// The noise of a linear model, and perhaps an effect per group.
    Noise(LinearNoise),
    /// The dispersion of counts, and perhaps an effect per group.
    Counts(Dispersion),
}

/// The maximum over the scales and the coefficients.
pub(crate) struct Found {
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
}

/// The posterior.
pub(crate) struct Laid {
    pub(crate) mixture: Mixture,
    pub(crate) scales: Vec<Vec<f64>>,
    pub(crate) keys: Vec<[i64; 2]>,
}

/// What is shown of an evaluation: the stage, the scales, the log likelihood.
pub(crate) type Shown<'a> = dyn FnMut(Stage, &[f64], f64) -> ControlFlow<()> + Send + 'a;

impl Found {
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
        }
    }

    /// One node, at the maximum.
    pub(crate) fn mixed(&self) -> Mixed {
        let node = Node {
            sd: self.scales[0],
            weight: 1.0,
            mean: self.beta.clone(),
            factor: self.factor.clone(),
            error: self.error,
        };
        Mixed {
            nodes: vec![node],
            scales: vec![self.scales.clone()],
            keys: vec![[0, 0]],
            log_covariance: Some(self.log_covariance.clone()),
            effects: None,
        }
    }
}

impl Laid {
    pub(crate) fn mixed(&self) -> Mixed {
        Mixed {
            nodes: self.mixture.nodes.clone(),
            scales: self.scales.clone(),
            keys: self.keys.clone(),
            log_covariance: None,
            effects: None,
        }
    }
}

fn maximum(found: &Maximum) -> ScalesMaximum {
    let Maximum { sd, value, log_likelihood, .. } = *found;
    ScalesMaximum { scales: vec![sd], value, log_likelihood }
}

enum Face<'a> {
    Effect(&'a Collapsed),
    Scaled(&'a dyn Scaled),
}

impl Unknowns {
    /// As an effect alone, or as any other.
    fn face(&self) -> Face<'_> {
        match self {
            Self::Effect(model) => Face::Effect(model),
            Self::Noise(model) => Face::Scaled(model),
            Self::Counts(model) => Face::Scaled(model),
        }
    }

    /// Coefficients.
    pub fn dim(&self) -> usize {
        match self {
            Self::Effect(model) => model.dim(),
            Self::Noise(model) => model.dim(),
            Self::Counts(model) => model.dim(),
        }
    }

    /// Groups that are integrated out.
    pub fn groups(&self) -> usize {
        match self {
            Self::Effect(model) => model.groups(),
            Self::Noise(model) => model.groups(),
            Self::Counts(model) => model.groups(),
        }
    }

    pub(crate) fn estimate(&self, show: &mut Shown<'_>) -> Result<Found, Error> {
        let start = vec![0.0; self.dim()];
        match self.face() {
            Face::Effect(model) => {
                let observer = &mut |pass: &Pass| show(pass.stage, &[pass.sd], pass.log_likelihood);
                let found = model.estimate_observed(&start, observer)?;
                let error = found.log_sd_error;
                Ok(Found {
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
                })
            }
            Face::Scaled(model) => {
                let observer = &mut |look: &Look| show(look.stage, &look.scales, look.log_likelihood);
                scales::estimate_observed(model, &start, observer).map(Found::of)
            }
        }
    }

    /// With a prior of every scale.
    pub(crate) fn posterior(
        &self,
        found: &Found,
        priors: &[SdPrior],
        show: &mut Shown<'_>,
    ) -> Result<Laid, Error> {
        match self.face() {
            Face::Effect(model) => {
                let observer = &mut |pass: &Pass| show(pass.stage, &[pass.sd], pass.log_likelihood);
                let places = found.betas.iter().zip(&found.maxima);
                let starts: Vec<_> = places.map(|(beta, m)| (beta.clone(), m.scales[0])).collect();
                let mixture = model.posterior_over(&starts, priors[0], observer)?;
                let scales = mixture.nodes.iter().map(|n| vec![n.sd]).collect();
                let keys = (0..mixture.nodes.len() as i64).map(|k| [k, 0]).collect();
                Ok(Laid { mixture, scales, keys })
            }
            Face::Scaled(model) => {
                let observer = &mut |look: &Look| show(look.stage, &look.scales, look.log_likelihood);
                let maxima: Vec<Vec<f64>> = found.maxima.iter().map(|m| m.scales.clone()).collect();
                let laid = scales::posterior_observed(model, &found.beta, &maxima, priors, observer)?;
                Ok(Laid { mixture: laid.mixture, scales: laid.scales, keys: laid.keys })
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
        })
    }

    /// The likelihood at the estimate, and what an interval of the only scale has on either side. `start` are coefficients to begin with.
    pub fn confirm(
        &self,
        start: &[f64],
        found: &[f64],
        interval: Option<[f64; 2]>,
    ) -> Result<Confirmed, Error> {
        match self.face() {
            Face::Effect(model) => model.confirm(start, found[0], interval.unwrap_or([found[0]; 2])),
            Face::Scaled(model) => scales::confirm(model, start, found, interval),
        }
    }

    /// Whether other values of the only scale are excluded as claimed. `start` are coefficients to begin with.
    pub fn confirm_excluded(&self, start: &[f64], found: &[f64], claim: &Excluded) -> Result<bool, Error> {
        match self.face() {
            Face::Effect(model) => model.confirm_excluded(start, found[0], claim),
            Face::Scaled(model) => scales::confirm_excluded(model, start, found, claim),
        }
    }

    /// The largest difference between the weights of a grid and those that follow from the data.
    pub fn weights_differ(&self, mixed: &Mixed, priors: &[SdPrior]) -> Result<f64, Error> {
        match self.face() {
            Face::Effect(model) => model.weights_differ(&mixed.mixture(), priors[0]),
            Face::Scaled(model) => scales::weights_differ(model, &mixed.nodes, &mixed.scales, priors),
        }
    }

    /// What halving the step of the grid may change: see K5 and K9.
    pub(crate) fn agree(&self) -> f64 {
        match self.face() {
            Face::Effect(_) => collapsed::AGREE,
            Face::Scaled(model) => scales::AGREE[model.names().len() - 1],
        }
    }
}
