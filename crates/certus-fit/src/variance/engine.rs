//! What every engine for variance parameters can do, whatever is integrated out and how: the interface, and what it
//! finds.

use std::ops::{ControlFlow, Range};

use certus::linalg;
use certus_data::Prepared;
use certus_likelihood::Prior;
use certus_mixed::collapsed::{Confirmed, Effect, Excluded, Interval, Mixture, Node, SdPrior};
use certus_mixed::density::CollapsedDensity;
use certus_mixed::scales::{ConditionalFit, ScalesMaximum};
use certus_mixed::{Journal, ScaleObserver};
use certus_models::Error;
use certus_models::error::{InvalidModel, Unidentified};

use crate::variance::mixed::LinearMixed;
use crate::variance::mixture::MixturePosterior;
use crate::variance::piloted::{Piloted, ScalePrior};
use crate::variance::profiled::Profiled;
use crate::variance::several::SeveralEffects;

/// A model whose scales are not all given. What an engine does not have stays at its default.
pub(crate) trait ScaleEngine: Send + Sync {
    /// Groups that are integrated out.
    fn groups(&self) -> usize;

    /// What is done with them: "12 groups integrated out in closed form".
    fn integrated(&self) -> String;

    /// The maximum; with profile intervals if they are wanted and the model is small enough.
    fn estimate(
        &self,
        journal: &mut Journal,
        observer: &mut ScaleObserver<'_>,
        profiled: bool,
    ) -> Result<JointMaximum, Error>;

    /// The likelihood at the estimate, and what an interval of the only scale has on either side. `start` are
    /// coefficients to begin with.
    fn confirm(&self, start: &[f64], found: &[f64], interval: Option<[f64; 2]>) -> Result<Confirmed, Error>;

    /// "REML" or "ML", and how the likelihood is approximated, of models of group terms; `None` if at most one sd is
    /// searched or put on a grid.
    fn criterion(&self) -> Option<&'static str> {
        None
    }

    /// True if the restricted likelihood is maximised.
    fn is_restricted(&self) -> bool {
        false
    }

    /// True if the only scale is the sd of one effect of one group.
    fn is_one_sd(&self) -> bool {
        false
    }

    /// True if the error of the likelihood is bounded wherever it is known at all.
    fn bounds_errors(&self) -> bool {
        false
    }

    /// Where the stated error of the likelihood holds beside a posterior on a grid.
    fn error_holds(&self) -> &'static str {
        " at the estimate"
    }

    /// With a prior of every scale, on a grid of one or two.
    fn posterior(
        &self,
        _found: &JointMaximum,
        _priors: &[SdPrior],
        _journal: &mut Journal,
        _observer: &mut ScaleObserver<'_>,
    ) -> Result<GridPosterior, Error> {
        let (what, required) = ("a grid over scales", "one or two of them");
        Err(InvalidModel::Requires { what, required }.into())
    }

    /// The effects of some groups over the nodes of a grid; none if they come with the estimate.
    fn effects_of(
        &self,
        _groups: Range<usize>,
        _nodes: &[Node],
        _scales: &[Vec<f64>],
    ) -> Result<Vec<Effect>, Error> {
        Ok(Vec::new())
    }

    /// Whether other values of the only scale are excluded as claimed. `start` are coefficients to begin with.
    fn confirm_excluded(&self, _start: &[f64], _found: &[f64], _claim: &Excluded) -> Result<bool, Error> {
        Ok(false)
    }

    /// The largest difference between the weights of a grid and those that follow from the data.
    fn weights_differ(&self, _posterior: &MixturePosterior, _priors: &[SdPrior]) -> Result<f64, Error> {
        Ok(0.0)
    }

    /// What halving the step of the grid may change: see K5 and K9.
    fn agree(&self) -> f64 {
        f64::INFINITY
    }

    /// The posterior density of coefficients and log scales of at most one effect of one group; `None` for linear
    /// models, whose coefficients are normal given the scales.
    fn density<'a>(&'a self, _priors: &'a [SdPrior]) -> Option<Box<dyn CollapsedDensity + 'a>> {
        None
    }

    /// The posterior density of several group effects.
    fn piloted<'a>(&'a self, _prior: &'a Prior, _scales: ScalePrior<'a>) -> Option<Box<dyn Piloted + 'a>> {
        None
    }

    /// Of linear models: what draws the effects of groups together with coefficients and scales.
    fn joint_law(&self) -> Option<&dyn JointLaw> {
        None
    }

    /// The model itself, if it is a linear mixed model none of whose sds is given.
    fn linear_mixed(&self) -> Option<&LinearMixed> {
        None
    }

    /// Of linear models with sds that are given: coefficients and effects in closed form.
    fn closed_form(&self) -> Option<&dyn ClosedForm> {
        None
    }
}

/// Coefficients and effects that are Gaussian given the scales that are not given.
pub(crate) trait ClosedForm {
    /// What is known of the coefficients at some scales.
    fn fit_at(&self, scales: &[f64]) -> Result<ConditionalFit, Error>;

    /// The effects over the nodes of a mixture and draws of them, `look` between nodes; `None` if it ends this.
    fn effects(
        &self,
        nodes: &[Node],
        scales: &[Vec<f64>],
        look: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Option<GivenEffects>, Error>;

    /// What the normal equations leave at coefficients and effects, all scales given, in sds.
    fn residual(&self, prepared: &Prepared, node: &Node, effects: &[Effect]) -> Result<f64, Error>;
}

/// The effects of groups over the nodes of a mixture, in the order of the model.
pub(crate) struct GivenEffects {
    pub(crate) effects: Vec<Effect>,
    /// [`crate::variance::Effects::deviations`].
    pub(crate) deviations: Vec<f64>,
}

/// The law of the effects of groups given coefficients and scales.
pub(crate) trait JointLaw: Sync {
    /// Effects: one for every level of every term.
    fn effects_count(&self) -> usize;

    /// A draw of them, made of as many normal numbers; σ is the last scale.
    fn drawn_effects(&self, beta: &[f64], scales: &[f64], normals: &[f64]) -> Result<Vec<f64>, Error>;

    /// The same for several coefficients at the same scales.
    fn drawn_effects_of_all(
        &self,
        betas: &[&[f64]],
        scales: &[f64],
        normals: &[f64],
    ) -> Result<Vec<Vec<f64>>, Error>;

    /// What a draw takes, in terms of a sum over rows.
    fn cost(&self) -> f64;
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
pub(crate) fn factor_of(covariance: &[f64], d: usize) -> Result<Vec<f64>, Error> {
    let mut factor = covariance.to_vec();
    if !linalg::cholesky(&mut factor, d) {
        let (reason, direction) = (Unidentified::NoMaximum, vec![0.0; d]);
        return Err(Error::NotIdentified { reason, direction });
    }
    Ok(factor)
}
