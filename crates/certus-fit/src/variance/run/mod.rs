//! A model whose scales are not all known (the sd of a group, the noise, the dispersion): the run, and what is found in
//! the words of fit.json.

mod closed;
mod terms;
mod words;

pub(crate) use words::KnownOfScales;

use std::ops::ControlFlow;
use std::time::Instant;

use crate::record::{CriterionValue, GroupEffect, GroupTerm, Parameter, RecordedLevel, Scale, Source};
use certus::auto::TracePoint;
use certus::certificate::{Posterior, significant};
use certus::fit::Status;
use certus::{Goal, Outcome};
use certus_mixed::collapsed::{Effect, recalled_effects};
use certus_mixed::{Evaluation, Journal, Stage};
use certus_models::Error;
use certus_models::auto::Method;
use certus_models::error::{InvalidModel, Unidentified};

use crate::level::RequiredLevel;
use crate::method_choice::MethodChoice;
use crate::problem::Problem;
use crate::progress::{RunObserver, RunProgress};
use crate::variance::enclosed::Enclosure;
use crate::variance::engine::JointMaximum;
use crate::variance::mixture::{Effects, MixturePosterior};
use crate::variance::model::ScaleModel;
use crate::variance::names::Shape;
use crate::variance::profiled::Profiled;
use crate::variance::request::Scales;
use crate::variance::several::SeveralEffects;
use certus_data::Prepared;
use certus_data::encoding::Group;

/// Groups whose effects are computed between two checks of the clock and the observer.
const CHUNK: usize = 1024;
/// Sd of a coefficient of the design, per sd of its feature unless they are as they are, beyond which nothing is known
/// of it.
const RUNAWAY: f64 = 1e6;
/// What the ends of a grid leave out of a moment, at least: the density there is 1e-7 of its maximum, some 6 sds away,
/// so that the second moment beyond it is less than this.
const ENDS: f64 = 1e-5;

/// What was found of scales that were not given.
#[derive(Clone)]
pub struct ScalesOutcome {
    /// The mixture.
    pub mixture_posterior: MixturePosterior,
    /// `certificate.scale`; none if nothing is unknown.
    pub scale: Option<Scale>,
    /// The effects of the groups on the user's scale, in the order of their levels; none if the run was stopped before.
    pub groups: Vec<GroupEffect>,
    /// The table of parameters.
    pub parameters: Vec<Parameter>,
    /// The effects of groups over draws of the posterior, where these are printed.
    pub(crate) effects: Option<Vec<Effect>>,
    /// [`Effects::deviations`] of the same.
    pub(crate) deviations: Vec<f64>,
    /// What is known of the likelihood, in words.
    pub(crate) known: KnownOfScales,
    /// `groups` and `criterion`, of a model with several group effects.
    pub(crate) mixed: Option<(Vec<GroupTerm>, CriterionValue)>,
    /// How far the Gaussian is from the posterior, if nothing is unknown.
    pub(crate) closed: Option<Posterior>,
    /// Its profile intervals, scale by scale.
    profiles: Vec<Profiled>,
}

impl ScalesOutcome {
    /// States what refining the grid changed, or its ends leave out, as the error of every mean and sd of the mixture.
    pub(crate) fn refined(&mut self, refinement: Option<f64>) {
        let Some(moved) = refinement.map(|moved| moved.max(ENDS)) else { return };
        for own in &mut self.parameters {
            (own.level, own.source) = (Some(RecordedLevel::Estimated), Some(Source::Mixture));
            (own.mean_error, own.sd_error) = (own.mean.map(|_| moved), own.sd.map(|_| moved));
        }
    }
}

impl Problem {
    /// What was found with the effects of groups that belong to the draws that are printed, where there are any.
    pub(crate) fn with_effects(&self, mut scales: ScalesOutcome) -> ScalesOutcome {
        if let (Some(effects), Some(scale_model)) = (scales.effects.take(), self.collapsed()) {
            scales.groups = words::on_user_scale(scale_model, &self.prepared.encoding.groups, &effects);
            if let ([_], Some(scale)) = (&scale_model.unknown_scales.effects[..], &mut scales.scale) {
                (scale.smallest, scale.largest) = words::extremes(&scales.groups);
            }
            let deviations = std::mem::take(&mut scales.deviations);
            let kept = Effects::new(&effects).filter(|e| !e.mean.is_empty());
            scales.mixture_posterior.effects = kept.map(|e| Effects { deviations, ..e });
        }
        scales
    }

    /// Finds the scales. [`Error::Stopped`] if the observer or the clock ended it before there was an estimate; after
    /// that, what there is comes back as `Interrupted` or `Limit`. `saved` is the journal of a run that was stopped.
    pub(crate) fn run_scales(
        &self,
        goal: &Goal,
        choice: &MethodChoice,
        asked: Option<RequiredLevel>,
        saved: Option<&[u8]>,
        observer: &mut RunObserver<'_>,
    ) -> Result<(Outcome, ScalesOutcome), Error> {
        let Some(scale_model) = self.collapsed() else {
            let (what, required) = ("a search for scales", "a scale that is not given");
            return Err(InvalidModel::Requires { what, required }.into());
        };
        if *choice != MethodChoice::Auto(Method::Auto) {
            let (what, remedy) = match scale_model.unknown_scales.scales.is_empty() {
                true => (
                    "the posterior of crossed groups is computed in closed form, so there is no choice of \
                        method"
                        .into(),
                    "leave method out",
                ),
                false => (
                    scale_model.unknown_scales.are() + " not given, so there is no choice of method",
                    "leave method out, or give it (group-sd, sigma, dispersion)",
                ),
            };
            return Err(InvalidModel::Unsupported { what, remedy }.into());
        }
        goal.validate()?;
        let groups = &self.prepared.encoding.groups;
        let mut journal = saved.map_or(Ok(Journal::default()), Journal::decode)?;
        let prepared = &self.prepared;
        let enclosure =
            if goal.rigorous { Some(Enclosure::of(scale_model, prepared, self.response)?) } else { None };
        let mut run = Run {
            scale_model,
            prepared,
            enclosure,
            groups,
            goal,
            observer,
            began: Instant::now(),
            passes: 0,
            late: false,
        };
        let (mut outcome, mut scales) = certus::parallel::install(goal.threads, || run.go(&mut journal))??;
        let unknown_scales = &scale_model.unknown_scales;
        scales.parameters = scales.mixture_posterior.parameters(&self.quantities, unknown_scales);
        for (own, ends) in unknown_scales.scales.iter().zip(&scales.profiles) {
            let row = scales.parameters.iter_mut().find(|row| row.name == own.name);
            if let (Some(row), Some([low, high])) = (row, ends.interval()) {
                (row.q05, row.q95) = (Some(low * own.unit), Some(high * own.unit));
            }
        }
        // the share of a single sd in the variance has the ends of the sd's interval
        if let [Profiled::Interval(ends)] = &scales.profiles[..] {
            for share in &unknown_scales.rows {
                let row = scales.parameters.iter_mut().find(|row| row.name == share.name);
                if let (Some(row), Shape::Share(rest)) = (row, &share.shape) {
                    let of = |sd: f64| {
                        let variance = (sd * unknown_scales.scales[0].unit).powi(2);
                        variance / (variance + rest)
                    };
                    (row.q05, row.q95) = (Some(of(ends[0])), Some(of(ends[1])));
                }
            }
        }
        match &scales.scale {
            Some(scale) => judge(&mut outcome, scale, asked, scale_model),
            None => asked.iter().for_each(|level| level.judge(&mut outcome)),
        }
        Ok((outcome, scales))
    }
}

/// A goal counts as reached at the level asked. Without one: an estimate needs its proof wherever the likelihood has
/// one, a posterior does not.
fn judge(outcome: &mut Outcome, scale: &Scale, asked: Option<RequiredLevel>, scale_model: &ScaleModel) {
    let one = scale_model.unknown_scales.scales.len() == 1;
    let known = scale.log_likelihood_error.is_some() || scale_model.model.bounds_errors();
    let (proved, provable) = (scale.level == RecordedLevel::Proved, one && known);
    let enough = match asked {
        Some(RequiredLevel::Proved) => proved,
        // nothing here is random, so what is probable is proved
        Some(RequiredLevel::Probable) => proved,
        Some(RequiredLevel::Estimated) => true,
        None => proved || scale_model.scales == Scales::Posterior || !provable,
    };
    if outcome.status == Status::Reached && !enough {
        outcome.status = Status::Limit;
        let why = match asked {
            Some(_) => "a proof was asked for",
            None => "an estimate counts as reached only if its position is proved",
        };
        outcome.message = format!("{}; {why}", outcome.message);
    }
}

struct Run<'a> {
    scale_model: &'a ScaleModel,
    prepared: &'a Prepared,
    /// What certus-check's library proves, where every rounding error is to be included.
    enclosure: Option<Enclosure<'a>>,
    groups: &'a [Group],
    goal: &'a Goal,
    observer: &'a mut RunObserver<'a>,
    began: Instant,
    passes: usize,
    /// True once the clock has stopped the run.
    late: bool,
}

impl Run<'_> {
    /// Shows where the run is, and stops it when its time is over.
    fn look(&mut self, stage: Stage, place: String, journal: &Journal) -> ControlFlow<()> {
        let (elapsed, passes) = (self.began.elapsed(), self.passes as u64);
        if self.goal.max_time.is_some_and(|limit| elapsed >= limit) {
            self.late = true;
            return ControlFlow::Break(());
        }
        let point = TracePoint {
            elapsed,
            iteration: passes,
            gradients: passes,
            neg_elbo: None,
            bound: None,
            level: certus::certificate::Level::None,
        };
        (self.observer)(&RunProgress { point, scales: Some((stage, place)) }, &|| journal.encode())
    }

    fn pass(&mut self, evaluation: &Evaluation, journal: &Journal) -> ControlFlow<()> {
        self.passes += 1;
        let unknown_scales = &self.scale_model.unknown_scales;
        let named = unknown_scales.scales.iter().zip(unknown_scales.user(&evaluation.scales));
        let at: Vec<String> = named.map(|(own, s)| format!("{} {}", own.name, significant(s, 4))).collect();
        let place = format!("{}, log likelihood {:.3}", at.join(", "), evaluation.log_likelihood);
        self.look(evaluation.stage, place, journal)
    }

    fn go(&mut self, journal: &mut Journal) -> Result<(Outcome, ScalesOutcome), Error> {
        let scale_model = self.scale_model;
        let model = &scale_model.model;
        let given = model.closed_form();
        if let Some(model) = given.filter(|_| scale_model.unknown_scales.scales.is_empty()) {
            return self.in_closed_form(model, journal);
        }
        let profiled = scale_model.scales == Scales::Estimate;
        let mut found = model.estimate(journal, &mut |now, journal| self.pass(now, journal), profiled)?;
        if let Some(enclosure) = &self.enclosure {
            enclosure.enclose(scale_model, &mut found);
        }
        if let Some(several) = &found.several {
            return self.several(&found, several, journal);
        }
        identified(&found)?;
        let mut stopped = false;
        let grid_posterior = match scale_model.scales {
            Scales::Estimate => None,
            Scales::Posterior => {
                let observer = &mut |now: &Evaluation, journal: &Journal| self.pass(now, journal);
                match model.posterior(&found, &scale_model.priors, journal, observer) {
                    Ok(grid_posterior) => Some(grid_posterior),
                    Err(Error::Stopped) => {
                        stopped = true;
                        None
                    }
                    Err(other) => return Err(other),
                }
            }
        };
        let mut mixture_posterior = match &grid_posterior {
            Some(grid_posterior) => grid_posterior.mixture_posterior(),
            None => found.mixture_posterior(),
        };
        let (mut effects, mut deviations) = (Vec::<Effect>::new(), Vec::new());
        if let Some(model) = given.filter(|_| !stopped) {
            let (few, scales) = mixture_posterior.thinned();
            let mut look = |k: usize| {
                self.look(Stage::Effects, format!("grid point {} of {}", k + 1, few.len()), journal)
            };
            match model.effects(&few, &scales, &mut look)? {
                Some(found) => (effects, deviations) = (found.effects, found.deviations),
                None => stopped = true,
            }
        } else if !stopped {
            let (few, scales) = mixture_posterior.thinned();
            let groups = model.groups();
            for from in (0..groups).step_by(CHUNK) {
                let place = || format!("{from} of {groups}");
                if from > 0 && self.look(Stage::Effects, place(), journal).is_break() {
                    stopped = true;
                    effects.clear();
                    break;
                }
                let part = from..groups.min(from + CHUNK);
                effects.extend(recalled_effects(journal, part.clone(), || {
                    model.effects_of(part, &few, &scales)
                })?);
            }
        }
        let kept = Effects::new(&effects).filter(|e| !e.mean.is_empty());
        mixture_posterior.effects = kept.map(|kept| Effects { deviations, ..kept });
        let groups = words::on_user_scale(scale_model, self.groups, &effects);
        let known = KnownOfScales::new(scale_model, &found, grid_posterior.as_ref());
        let scale = self.scale(&found, grid_posterior.as_ref(), grid_posterior.is_some(), &groups);
        let outcome = self.outcome(&found, grid_posterior.as_ref(), &mixture_posterior, &known, stopped)?;
        let one = model.is_one_sd();
        let mixed = scale_model.moments.as_ref().filter(|_| one).map(|moments| {
            let theta = scale_model.unknown_scales.user(&found.scales);
            terms::terms_and_criterion(scale_model, self.groups, &found, &[theta], 1, moments.weight())
        });
        let (parameters, effects) = (Vec::new(), None);
        let (profiles, deviations) = (found.profiles, Vec::new());
        let scales = ScalesOutcome {
            mixture_posterior,
            scale: Some(scale),
            groups,
            parameters,
            effects,
            deviations,
            known,
            mixed,
            closed: None,
            profiles,
        };
        Ok((outcome, scales))
    }

    /// What was found of several group effects, which come with the estimate.
    fn several(
        &mut self,
        found: &JointMaximum,
        several: &SeveralEffects,
        journal: &Journal,
    ) -> Result<(Outcome, ScalesOutcome), Error> {
        let scale_model = self.scale_model;
        if !scale_model.linear {
            identified(found)?;
        }
        self.passes += several.evaluations;
        let stopped = scale_model.scales == Scales::Posterior
            && self.look(Stage::Posterior, "draws of the scales".into(), journal).is_break();
        let mut mixture_posterior = found.mixture_posterior();
        mixture_posterior.effects = several.kept().filter(|e| !e.mean.is_empty());
        let groups = words::on_user_scale(scale_model, self.groups, &several.effects);
        let known = KnownOfScales::new(scale_model, found, None);
        let posterior = scale_model.scales == Scales::Posterior && !stopped;
        let scale = self.scale(found, None, posterior, &groups);
        let outcome = self.outcome(found, None, &mixture_posterior, &known, stopped)?;
        let scales = ScalesOutcome {
            mixture_posterior,
            scale: Some(scale),
            groups,
            parameters: Vec::new(),
            effects: None,
            deviations: Vec::new(),
            known,
            mixed: (scale_model.scales == Scales::Estimate).then(|| {
                let (thetas, count, weight) = (&several.thetas, several.parameters, several.weight);
                terms::terms_and_criterion(scale_model, self.groups, found, thetas, count, weight)
            }),
            closed: None,
            profiles: found.profiles.clone(),
        };
        Ok((outcome, scales))
    }
}

/// Refuses coefficients that run away: with flat priors, data that they separate have no maximum, and the curvature
/// where the search ends is nothing.
fn identified(found: &JointMaximum) -> Result<(), Error> {
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
        reason: Unidentified::NoMaximum,
        direction: direction.iter().map(|x| x / largest).collect(),
    })
}
