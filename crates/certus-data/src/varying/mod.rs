//! A model whose scales are not all known (the sd of a group, the noise, the dispersion): the run, and what is found in the words of fit.json.

mod words;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use certus::certificate::significant;
use certus::fit::Status;
use certus::{Goal, Outcome};
use certus_models::auto::Method;
use certus_models::collapsed::{Collapsed, Effect, SdPrior, Stage};
use certus_models::likelihood::{Likelihood, Poisson};
use certus_models::scales::{Dispersion, Grouping, LinearNoise};
use certus_models::{Design, Error, Glm, Prior};
use certus_store::record::{GroupEffect, Level, Parameter, Scale, objective};

use crate::encoding::Group;
use crate::error::DataError;
use crate::mixed::{Effects, Mixed};
use crate::prepare::Prepared;
use crate::problem::{Fitted, Problem, Request};
use crate::run::Asked;
use crate::scales::{Own, Scales, in_units, own, prior_words};
use crate::spec::Family;
use crate::unknowns::{Found, Unknowns};
use crate::varies::Varies;
use crate::way::Way;

/// Groups whose effects are computed before anybody is asked whether to go on.
const CHUNK: usize = 4096;
/// Sd of a coefficient of the design, per sd of its feature unless they are as they are, beyond which nothing is known of it.
const RUNAWAY: f64 = 1e6;

/// A model with scales that are not known.
pub struct Varying {
    /// The likelihood and the prior of the coefficients.
    pub model: Unknowns,
    /// Which scales, and what varies by group.
    pub varies: Varies,
    /// How they are found.
    pub scales: Scales,
    /// Their priors, on the scale of the design.
    pub priors: Vec<SdPrior>,
    /// True if a likelihood is linear, so that coefficients are normal given the scales.
    linear: bool,
    /// True if a coefficient has a prior, so that what is maximised is a penalised likelihood.
    pub penalised: bool,
}

/// Where a run is.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Since it began.
    pub elapsed: Duration,
    /// Passes over the rows.
    pub passes: usize,
    /// What is being done, in words.
    pub words: String,
}

/// What a run ends with.
pub struct Ended {
    /// Status, message, and the Gaussian with the mixture's mean and covariance.
    pub outcome: Outcome,
    /// The mixture.
    pub mixed: Mixed,
    /// `certificate.scale`.
    pub scale: Scale,
    /// The effects of the groups on the user's scale, in the order of their levels; none if the run was stopped before.
    pub groups: Vec<GroupEffect>,
    /// The table of parameters.
    pub parameters: Vec<Parameter>,
}

impl Varying {
    /// `None` if everything is given. `unit` is the unit of priors in the response.
    pub(crate) fn new(
        prepared: &Prepared,
        design: &Design,
        prior: &Prior,
        request: &Request,
        unit: f64,
    ) -> Result<Option<Self>, DataError> {
        let (encoding, family) = (&prepared.encoding, request.spec.family);
        let Some(varies) = Varies::of(encoding, family, request.sigma, request.dispersion)? else {
            return Ok(None);
        };
        let codes: Vec<usize> = prepared.codes.first().into_iter().flatten().map(|c| *c as usize).collect();
        let grouping = varies.effect.as_ref().map(|effect| Grouping {
            codes: &codes,
            column: (effect.feature > 0 || !encoding.intercept).then_some(effect.feature),
            shift: effect.shift,
        });
        let penalised = !prior.is_flat();
        let prior = prior.clone();
        let collapsed = |grouping: Grouping<'_>, likelihood: Arc<dyn Likelihood>, prior| {
            let model = Collapsed::new(design, grouping.codes, grouping.column, likelihood, prior)?;
            Ok::<_, DataError>(model.shifted(grouping.shift))
        };
        let model = match (own(family, request.sigma, request.dispersion), grouping) {
            (Some(Own::Noise), grouping) => Unknowns::Noise(LinearNoise::new(design, grouping, prior)?),
            // which likelihood they begin with does not matter
            (Some(Own::Dispersion), None) => {
                Unknowns::Counts(Dispersion::Plain(Glm::new(design.clone(), Arc::new(Poisson), prior)?))
            }
            (Some(Own::Dispersion), Some(grouping)) => {
                Unknowns::Counts(Dispersion::Grouped(collapsed(grouping, Arc::new(Poisson), prior)?))
            }
            (None, Some(grouping)) => Unknowns::Effect(collapsed(grouping, request.likelihood()?, prior)?),
            (None, None) => return Err(DataError::Usage("every scale is given".into())),
        };
        let priors = vec![in_units(request.scale.prior(), unit); varies.scales.len()];
        let linear = family == Family::Linear;
        Ok(Some(Self { model, varies, scales: request.scale.scales(), priors, linear, penalised }))
    }

    /// What will be done, and why.
    pub fn route(&self) -> String {
        let several = self.varies.scales.len() > 1;
        let how = match (self.scales, several) {
            (Scales::Posterior, false) => "its posterior on a grid".into(),
            (Scales::Posterior, true) => "their posterior on a grid".into(),
            (Scales::Estimate, _) => format!("the maximum of the {}", objective(self.penalised)),
        };
        let (groups, name) = (self.model.groups(), self.varies.names());
        let are = if several { "are" } else { "is" };
        let what = match (&self.model, groups) {
            (Unknowns::Noise(_), 0) => "coefficients in closed form at every sigma".into(),
            (Unknowns::Noise(_), _) => format!("{groups} groups integrated out in closed form"),
            (Unknowns::Counts(_), 0) => "coefficients by Newton's method at every dispersion".into(),
            _ => format!("{groups} groups integrated out, one by one"),
        };
        format!("{what}: {name} {are} not given; {how}")
    }

    /// The priors of the scales, if they have any.
    pub(crate) fn prior_lines(&self) -> Vec<String> {
        let each = self.varies.scales.iter().zip(&self.priors);
        let line = |own: &crate::varies::ScaleName, prior: &SdPrior| {
            format!("{} ~ {}", own.name, prior_words(*prior, own.unit))
        };
        match self.scales {
            Scales::Posterior => each.map(|(own, prior)| line(own, prior)).collect(),
            Scales::Estimate => Vec::new(),
        }
    }

    fn stage(stage: Stage) -> &'static str {
        match stage {
            Stage::Estimate => "searching for maxima",
            Stage::Interval => "proving an interval",
            Stage::Posterior => Self::POSTERIOR,
        }
    }

    /// How the words of [`Progress`] begin while the posterior is found, and the effects of groups.
    pub(crate) const POSTERIOR: &str = "posterior on a grid";
    pub(crate) const EFFECTS: &str = "effects of";
}

impl Problem {
    /// The model, if scales of it are not given.
    pub fn collapsed(&self) -> Option<&Varying> {
        match &self.fitted {
            Fitted::Collapsed(model) => Some(model),
            _ => None,
        }
    }

    /// Finds the scales. [`Error::Stopped`] if the observer or the clock ended it before there was an estimate; after that, what there is comes back as `Interrupted` or
    /// `Limit`. `asked` is the level that counts as reached.
    pub fn run_collapsed(
        &self,
        goal: &Goal,
        way: &Way,
        asked: Option<Asked>,
        observer: &mut (dyn FnMut(&Progress) -> ControlFlow<()> + Send),
    ) -> Result<Ended, Error> {
        let Some(varying) = self.collapsed() else {
            return Err(Error::Model("every scale is given".into()));
        };
        if *way != Way::Auto(Method::Auto) {
            let words = format!(
                "{} not given, so there is no choice of method: leave method out, or give it (group-sd, sigma, dispersion)",
                varying.varies.names() + if varying.varies.scales.len() > 1 { " are" } else { " is" }
            );
            return Err(Error::Model(words));
        }
        goal.validate()?;
        let group = self.prepared.encoding.groups.first();
        let mut run = Run { varying, group, goal, observer, began: Instant::now(), passes: 0, late: false };
        let mut ended = certus::parallel::install(goal.threads, || run.go())??;
        ended.parameters = ended.mixed.parameters(&self.quantities, &varying.varies);
        judge(&mut ended, asked, varying);
        Ok(ended)
    }
}

/// A goal counts as reached at the level asked. Without one: an estimate needs its proof wherever the likelihood has one, a posterior does not.
fn judge(ended: &mut Ended, asked: Option<Asked>, varying: &Varying) {
    let one = varying.varies.scales.len() == 1;
    let (proved, provable) =
        (ended.scale.level == Level::Proved, one && ended.scale.log_likelihood_error.is_some());
    let enough = match asked {
        Some(Asked::Proved) => proved,
        // nothing here is random, so what is probable is proved
        Some(Asked::Probable) => proved,
        Some(Asked::Estimated) => true,
        None => proved || varying.scales == Scales::Posterior || !provable,
    };
    let outcome = &mut ended.outcome;
    if outcome.status == Status::Reached && !enough {
        outcome.status = Status::Limit;
        outcome.message = format!("{}; an interval with a proof was asked for", outcome.message);
    }
}

struct Run<'a> {
    varying: &'a Varying,
    group: Option<&'a Group>,
    goal: &'a Goal,
    observer: &'a mut (dyn FnMut(&Progress) -> ControlFlow<()> + Send),
    began: Instant,
    passes: usize,
    /// True once the clock has stopped the run.
    late: bool,
}

impl Run<'_> {
    fn look(&mut self, words: String) -> ControlFlow<()> {
        let elapsed = self.began.elapsed();
        if self.goal.max_time.is_some_and(|limit| elapsed >= limit) {
            self.late = true;
            return ControlFlow::Break(());
        }
        (self.observer)(&Progress { elapsed, passes: self.passes, words })
    }

    fn pass(&mut self, stage: Stage, scales: &[f64], log_likelihood: f64) -> ControlFlow<()> {
        self.passes += 1;
        let varies = &self.varying.varies;
        let named = varies.scales.iter().zip(varies.user(scales));
        let at: Vec<String> = named.map(|(own, s)| format!("{} {}", own.name, significant(s, 4))).collect();
        let stage = Varying::stage(stage);
        self.look(format!("{stage}: {}, log likelihood {log_likelihood:.3}", at.join(", ")))
    }

    fn go(&mut self) -> Result<Ended, Error> {
        let varying = self.varying;
        let model = &varying.model;
        let found = model.estimate(&mut |stage, scales, l| self.pass(stage, scales, l))?;
        identified(&found)?;
        let mut stopped = false;
        let laid = match varying.scales {
            Scales::Estimate => None,
            Scales::Posterior => {
                let show = &mut |stage, scales: &[f64], l| self.pass(stage, scales, l);
                match model.posterior(&found, &varying.priors, show) {
                    Ok(laid) => Some(laid),
                    Err(Error::Stopped) => {
                        stopped = true;
                        None
                    }
                    Err(other) => return Err(other),
                }
            }
        };
        let mut mixed = match &laid {
            Some(laid) => laid.mixed(),
            None => found.mixed(),
        };
        let mut effects: Vec<Effect> = Vec::new();
        if !stopped {
            let (few, scales) = mixed.thinned();
            let groups = model.groups();
            for from in (0..groups).step_by(CHUNK) {
                if from > 0 && self.look(format!("{} {from} of {groups} groups", Varying::EFFECTS)).is_break()
                {
                    stopped = true;
                    effects.clear();
                    break;
                }
                effects.extend(model.effects_of(from..groups.min(from + CHUNK), &few, &scales)?);
            }
        }
        mixed.effects = Effects::new(&effects).filter(|e| !e.mean.is_empty());
        let groups = self.on_user_scale(&effects);
        let scale = self.scale(&found, laid.as_ref(), &groups);
        let outcome = self.outcome(&found, laid.as_ref(), &mixed, stopped)?;
        Ok(Ended { outcome, mixed, scale, groups, parameters: Vec::new() })
    }
}

/// Refuses coefficients that run away: with flat priors, data that they separate have no maximum, and the curvature where the search ends is nothing.
fn identified(found: &Found) -> Result<(), Error> {
    let d = found.beta.len();
    let covariance = |i: usize, j: usize| -> f64 {
        (0..=i.min(j)).map(|m| found.factor[m * d + i] * found.factor[m * d + j]).sum()
    };
    let widest = (0..d).max_by(|a, b| covariance(*a, *a).total_cmp(&covariance(*b, *b))).unwrap_or(0);
    let variance = covariance(widest, widest);
    if variance.sqrt() <= RUNAWAY {
        return Ok(());
    }
    let direction: Vec<f64> = (0..d).map(|j| covariance(j, widest) / variance).collect();
    let largest = direction.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    Err(Error::NotIdentified {
        reason: "the likelihood has no maximum, or is flat there: the coefficients separate the responses, or repeat each other; give them a proper prior (prior-sd, intercept-prior-sd)".into(),
        direction: direction.iter().map(|x| x / largest).collect(),
    })
}
