//! A model with an effect per group whose sd is not known: the groups are integrated out, and what is found is said in the words of fit.json.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use certus::auto::Counts;
use certus::certificate::{Certificate, Gap, Posterior, figure, significant};
use certus::fit::Status;
use certus::{Goal, Outcome};
use certus_models::auto::Method;
use certus_models::collapsed::{Collapsed, Effect, Estimate, Mixture, Node, Pass, SdPrior, Stage};
use certus_models::likelihood::Likelihood;
use certus_models::{Design, Error, Prior};
use certus_store::record::{GroupEffect, Level, Parameter, Scale};

use crate::encoding::Group;
use crate::error::DataError;
use crate::mixed::{Effects, Mixed, Varies};
use crate::prepare::Prepared;
use crate::problem::{Fitted, Problem, Request};
use crate::run::Asked;
use crate::scales::{Scales, prior_words};
use crate::way::Way;

/// Groups whose effects are computed before anybody is asked whether to go on.
const CHUNK: usize = 4096;
/// What halving the grid's step may change at the end: see K5.
const AGREE: f64 = 1e-3;
/// Sd of a coefficient of the design, per sd of its feature unless they are as they are, beyond which nothing is known of it.
const RUNAWAY: f64 = 1e6;
/// Groups shown on either side.
const EXTREME: usize = 3;

/// A model whose groups are integrated out.
pub struct Varying {
    /// The likelihood and the prior of the coefficients.
    pub model: Collapsed,
    /// What varies.
    pub varies: Varies,
    /// How the sd is found.
    pub scales: Scales,
    /// Its prior.
    pub prior: SdPrior,
    /// True if a likelihood is linear, so that coefficients are normal given the sd.
    linear: bool,
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
    pub(crate) fn new(
        prepared: &Prepared,
        design: &Design,
        feature: usize,
        likelihood: Arc<dyn Likelihood>,
        prior: Prior,
        request: &Request,
    ) -> Result<Self, DataError> {
        let varies = Varies::of(&prepared.encoding, request.spec.family, request.sigma)?;
        let varies = varies.ok_or_else(|| DataError::Usage("no sd of a group is unknown".into()))?;
        let codes: Vec<usize> = prepared.codes[0].iter().map(|c| *c as usize).collect();
        let column = (feature > 0 || !prepared.encoding.intercept).then_some(feature);
        let linear = request.spec.family == crate::spec::Family::Linear;
        let model = Collapsed::new(design, &codes, column, likelihood, prior)?.shifted(varies.shift);
        Ok(Self { model, varies, scales: request.scale.scales(), prior: request.scale.prior(), linear })
    }

    /// What will be done, and why.
    pub fn route(&self) -> String {
        let how = match self.scales {
            Scales::Posterior => "its posterior on a grid",
            Scales::Estimate => "the maximum of its likelihood",
        };
        let (groups, name) = (self.model.groups(), &self.varies.name);
        format!("{groups} groups integrated out, one by one: {name} is not given; {how}")
    }

    /// The prior of the sd, if it has one.
    pub(crate) fn prior_line(&self) -> Option<String> {
        let words = || format!("{} ~ {}", self.varies.name, prior_words(self.prior, self.varies.unit));
        (self.scales == Scales::Posterior).then(words)
    }

    fn stage(stage: Stage) -> &'static str {
        match stage {
            Stage::Estimate => "maximising the likelihood",
            Stage::Interval => "proving an interval",
            Stage::Posterior => "posterior on a grid",
        }
    }
}

impl Problem {
    /// The model, if groups are integrated out.
    pub fn collapsed(&self) -> Option<&Varying> {
        match &self.fitted {
            Fitted::Collapsed(model) => Some(model),
            _ => None,
        }
    }

    /// Finds the sd. [`Error::Stopped`] if the observer or the clock ended it before there was an estimate; after that, what there is comes back as `Interrupted` or
    /// `Limit`. `asked` is the level that counts as reached.
    pub fn run_collapsed(
        &self,
        goal: &Goal,
        way: &Way,
        asked: Option<Asked>,
        observer: &mut (dyn FnMut(&Progress) -> ControlFlow<()> + Send),
    ) -> Result<Ended, Error> {
        let Some(varying) = self.collapsed() else {
            return Err(Error::Model("every sd of a group is given".into()));
        };
        if *way != Way::Auto(Method::Auto) {
            let words = "the sd of a group is not given, so groups are integrated out and there is no choice of method: leave method out, or give the sd (group-sd)";
            return Err(Error::Model(words.into()));
        }
        goal.validate()?;
        let group = &self.prepared.encoding.groups[0];
        let mut run = Run { varying, group, goal, observer, began: Instant::now(), passes: 0, late: false };
        let mut ended = certus::parallel::install(goal.threads, || run.go())??;
        ended.parameters = ended.mixed.parameters(&self.quantities, &varying.varies);
        judge(&mut ended, asked, varying.scales);
        Ok(ended)
    }
}

/// A goal counts as reached at the level asked. Without one: an estimate needs its proof wherever the likelihood has one, a posterior does not.
fn judge(ended: &mut Ended, asked: Option<Asked>, scales: Scales) {
    let (proved, provable) = (ended.scale.level == Level::Proved, ended.scale.log_likelihood_error.is_some());
    let enough = match asked {
        Some(Asked::Proved) => proved,
        // nothing here is random, so what is probable is proved
        Some(Asked::Probable) => proved,
        Some(Asked::Estimated) => true,
        None => proved || scales == Scales::Posterior || !provable,
    };
    let outcome = &mut ended.outcome;
    if outcome.status == Status::Reached && !enough {
        outcome.status = Status::Limit;
        outcome.message = format!("{}; an interval with a proof was asked for", outcome.message);
    }
}

struct Run<'a> {
    varying: &'a Varying,
    group: &'a Group,
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

    fn pass(&mut self, pass: &Pass) -> ControlFlow<()> {
        self.passes += 1;
        let unit = self.varying.varies.unit;
        self.look(format!(
            "{}: sd {}, log likelihood {:.3}",
            Varying::stage(pass.stage),
            significant(pass.sd * unit, 4),
            pass.log_likelihood
        ))
    }

    fn go(&mut self) -> Result<Ended, Error> {
        let varying = self.varying;
        let model = &varying.model;
        let start = vec![0.0; model.dim()];
        let found = model.estimate_observed(&start, &mut |pass| self.pass(pass))?;
        identified(&found)?;
        let mut stopped = false;
        let mixture = match varying.scales {
            Scales::Estimate => None,
            Scales::Posterior => {
                let observer = &mut |pass: &Pass| self.pass(pass);
                match model.posterior_observed(&found.beta, found.sd, varying.prior, observer) {
                    Ok(mixture) => Some(mixture),
                    Err(Error::Stopped) => {
                        stopped = true;
                        None
                    }
                    Err(other) => return Err(other),
                }
            }
        };
        let mut mixed = match &mixture {
            Some(mixture) => Mixed::new(mixture.clone(), None),
            None => at_estimate(&found),
        };
        let mut effects: Vec<Effect> = Vec::new();
        if !stopped {
            let few = mixed.mixture().thinned();
            let groups = model.groups();
            for from in (0..groups).step_by(CHUNK) {
                if from > 0 && self.look(format!("effects of {from} of {groups} groups")).is_break() {
                    stopped = true;
                    effects.clear();
                    break;
                }
                effects.extend(model.effects_of(from..groups.min(from + CHUNK), &few));
            }
        }
        mixed.effects = Effects::new(&effects).filter(|e| !e.mean.is_empty());
        let groups = self.on_user_scale(&effects);
        let scale = self.scale(&found, mixture.as_ref(), &groups);
        let outcome = self.outcome(&found, mixture.as_ref(), &mixed, stopped)?;
        Ok(Ended { outcome, mixed, scale, groups, parameters: Vec::new() })
    }

    fn on_user_scale(&self, effects: &[Effect]) -> Vec<GroupEffect> {
        let unit = self.varying.varies.unit;
        let one = |e: &Effect| {
            let [q05, q50, q95] = e.quantiles.map(|q| q * unit);
            GroupEffect {
                group: self.group.level_name(e.group),
                rows: e.rows as u64,
                mean: e.mean * unit,
                sd: e.sd * unit,
                q05,
                q50,
                q95,
            }
        };
        effects.iter().map(one).collect()
    }

    fn scale(&self, found: &Estimate, mixture: Option<&Mixture>, groups: &[GroupEffect]) -> Scale {
        let (varies, finite) = (&self.varying.varies, |x: f64| x.is_finite().then_some(x));
        let mut order: Vec<usize> = (0..groups.len()).collect();
        order.sort_by(|a, b| groups[*a].mean.total_cmp(&groups[*b].mean));
        let shown = EXTREME.min(groups.len() / 2);
        let named = |order: &[usize]| order.iter().map(|g| groups[*g].clone()).collect();
        let proved = found.interval.proved.is_ok();
        Scale {
            name: varies.name.clone(),
            group: varies.group.clone(),
            groups: self.varying.model.groups() as u64,
            scales: if mixture.is_some() { "posterior" } else { "estimate" }.into(),
            prior: mixture.map(|_| prior_words(self.varying.prior, varies.unit)),
            estimate: Some(found.sd * varies.unit),
            log_standard_error: finite(found.log_sd_error),
            interval: proved.then(|| found.interval.sds.map(|s| s * varies.unit)),
            level: if proved { Level::Proved } else { Level::None },
            theorem: proved.then(|| "Theorem K3".into()),
            reason: found.interval.proved.clone().err(),
            log_likelihood: finite(found.at.log_likelihood),
            log_likelihood_error: finite(found.at.error),
            log_evidence: mixture.and_then(|m| finite(m.log_evidence)),
            nodes: mixture.map_or(1, |m| m.nodes.len() as u64),
            refinement: mixture.and_then(|m| finite(m.refinement)),
            smallest: named(&order[..shown]),
            largest: named(&order[order.len() - shown..]),
        }
    }

    /// How it ended and what holds of the mixture.
    fn outcome(
        &self,
        found: &Estimate,
        mixture: Option<&Mixture>,
        mixed: &Mixed,
        stopped: bool,
    ) -> Result<Outcome, Error> {
        let varies = &self.varying.varies;
        let what = match mixture {
            Some(mixture) => format!("{} is found, on a grid of {}", varies.name, mixture.nodes.len()),
            None => format!("{} is found", varies.name),
        };
        let mut message = match &found.interval.proved {
            Ok(()) => format!("{what}; where its likelihood has a maximum is proved"),
            Err(why) => format!("{what}; where its likelihood has a maximum is not proved: {why}"),
        };
        let mut status = Status::Reached;
        if let Some(mixture) = mixture.filter(|m| m.refinement > AGREE) {
            status = Status::NoProgress;
            message = format!(
                "the posterior of {} does not settle on a grid of {} sds: the last refinement moved it by {} sd",
                varies.name,
                mixture.nodes.len(),
                figure(mixture.refinement)
            );
        }
        if stopped {
            status = if self.late { Status::Limit } else { Status::Interrupted };
            let what = match (self.varying.scales, mixture) {
                (Scales::Posterior, None) => {
                    "before its posterior was known: the numbers are those at the estimate"
                }
                _ => "before the effects of the groups were known",
            };
            message = format!("{message}; stopped {what}");
        }
        let nodes = mixed.nodes.len();
        let count = self.passes as u64;
        Ok(Outcome {
            status,
            message,
            route: self.varying.route(),
            gaussian: mixed.gaussian()?,
            neg_elbo: certus::diagnostics::Estimate { value: f64::NAN, standard_error: f64::NAN },
            certificate: Certificate {
                gap: Gap::none(
                    "mixtures over the sd",
                    format!("the result is no single Gaussian but {nodes} of them, one per sd of a grid"),
                ),
                posterior: Posterior::none(self.honest(found, mixture)),
            },
            k_hat: None,
            counts: Counts { gradients: count, hessians: count, exact_passes: count },
            trace: Vec::new(),
            error: None,
            elapsed: self.began.elapsed(),
        })
    }

    /// What is proved of the posterior, and what is only estimated.
    fn honest(&self, found: &Estimate, mixture: Option<&Mixture>) -> String {
        let error = match mixture {
            Some(mixture) => mixture.nodes.iter().map(|n| n.error).fold(0.0, f64::max),
            None => found.at.error,
        };
        let likelihood = if error.is_finite() {
            let each = if mixture.is_some() { " at each sd" } else { "" };
            format!("the likelihood{each} is proved to {} nats", figure(error))
        } else {
            "the error of the likelihood is not proved".into()
        };
        let given = if self.varying.linear {
            "coefficients given the sd are normal"
        } else {
            "that coefficients are normal given the sd is estimated"
        };
        let grid = match mixture {
            Some(_) => ", and so are the sums over the grid",
            None => "; what is not known of the sd enters by its curvature only",
        };
        format!("{likelihood}; {given}{grid}")
    }
}

/// Refuses coefficients that run away: with flat priors, data that they separate have no maximum, and the curvature where the search ends is nothing.
fn identified(found: &Estimate) -> Result<(), Error> {
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

/// One node, at the maximum.
fn at_estimate(found: &Estimate) -> Mixed {
    let node = Node {
        sd: found.sd,
        weight: 1.0,
        mean: found.beta.clone(),
        factor: found.factor.clone(),
        error: found.at.error,
    };
    let log_sd_error = Some(found.log_sd_error).filter(|e| e.is_finite());
    Mixed { nodes: vec![node], log_sd_error, effects: None }
}
