//! The paper's methods on a model: steps and their number from the problem's own constants, one exact pass at the end.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use certus::auto::{Counts, TracePoint};
use certus::certificate::{Level, counted, figure};
use certus::fit::Status;
use certus::frame::{Frame, Framed};
use certus::theorem::{Constants, Guarantee, Quantity};
use certus::{Goal, MethodName, Outcome, Plan, Settings, State, StepRule, Target};

use super::exact_pass::ExactPass;
use super::{Model, ModelObserver, outcome, stopped};
use crate::error::{self, Declined, Error};

/// A method with its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannedMethod {
    /// The method.
    pub method: MethodName,
    /// Constants of the global methods.
    pub constants: Constants,
    /// Step sizes.
    pub steps: StepRule,
    /// Draws per step.
    pub batch: usize,
    /// Steps.
    pub iterations: u64,
}

impl Default for PlannedMethod {
    fn default() -> Self {
        let Settings { method, constants, step_rule, batch, iterations, .. } = Settings::default();
        Self { method, constants, steps: step_rule, batch, iterations }
    }
}

/// Runs a method to its last iteration and certifies where it ends; `saved` is a state to go on from, as the observer
/// could save it.
///
/// [`MethodName::BallStl`] runs in the frame of the Laplace approximation, in a ball around it that must be certified;
/// the others run on the model as it is, from N(mode, I/M). The status is `Reached` if the gap is certified, else
/// `Limit`.
pub fn planned(
    model: &dyn Model,
    goal: &Goal,
    chosen: &PlannedMethod,
    saved: Option<&[u8]>,
    observer: &mut ModelObserver<'_>,
) -> Result<Outcome, Error> {
    goal.validate()?;
    let clock = Instant::now();
    let mut counts = Counts::default();
    let mut settings = Settings {
        method: chosen.method,
        constants: chosen.constants,
        step_rule: chosen.steps,
        batch: chosen.batch,
        iterations: chosen.iterations,
        seed: goal.seed,
        model_key: goal.model_key,
        threads: goal.threads,
        ..Settings::default()
    };
    let start = model.laplace_start(goal.start.as_deref())?;
    (counts.gradients, counts.hessians) = (start.gradients as u64, start.hessians as u64);
    let frame = if chosen.method == MethodName::BallStl {
        counts.exact_passes += 1;
        let local = model.certified_ball(&start.gaussian)??;
        settings.local = Some(local);
        Some(Frame::of(&start.gaussian)?)
    } else {
        settings.curvature = model.curvature().map(|c| c.with_mode(start.gaussian.mean().to_vec()));
        let flat = settings.curvature.as_ref().is_some_and(|c| c.strong_convexity() <= 0.0);
        let alone = chosen.constants == Constants::Paper
            && matches!(chosen.steps, StepRule::Paper | StepRule::Horizon);
        if flat && !alone {
            return Err(Declined::NotStronglyConvex { method: chosen.method.name() }.into());
        }
        if chosen.method.is_prox() {
            settings.family = Some(model.family());
        }
        None
    };
    let framed = frame.as_ref().map(|frame| Framed::new(model, frame.clone(), None)).transpose()?;
    let target: &dyn Target = match &framed {
        Some(framed) => framed,
        None => model,
    };
    let plan = Plan::new(target, &settings)?;
    let state = match saved {
        Some(bytes) => State::decode(bytes, &plan.start())?,
        None => plan.start(),
    };
    // what was spent so far counts
    let left = goal.max_time.map(|limit| limit.saturating_sub(clock.elapsed()));
    // where rows are spread the clock is looked at below, so that all ranks stop together
    settings.max_time = left.filter(|_| model.ranks().is_none());
    let mut trace = Vec::new();
    let spent = counts.gradients;
    let point = |elapsed: Duration, state: &State| TracePoint {
        elapsed,
        iteration: state.iteration(),
        gradients: spent + state.gradients(),
        neg_elbo: None,
        bound: None,
        level: Level::None,
    };
    let limit = left.filter(|_| model.ranks().is_some());
    let mut late = false;
    let fit = certus::fit::resume(target, &settings, &plan, state, &mut |progress, state| {
        let point = point(progress.elapsed, state);
        if state.iteration().is_power_of_two() {
            trace.push(point);
        }
        let stopped = observer(&point, &|| state.encode()).is_break();
        late = !stopped && limit.is_some_and(|limit| model.agreed(progress.elapsed >= limit));
        if stopped || late { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    let (status, message) = if late {
        (
            Status::Limit,
            format!("the time limit was reached after {}", counted(fit.state.iteration(), "iteration")),
        )
    } else if fit.error.as_deref().is_some_and(error::stopped) {
        stopped(goal, clock, fit.state.iteration())
    } else {
        (fit.status, fit.message)
    };
    counts.gradients = spent + fit.state.gradients();
    counts.exact_passes += 1;
    let gaussian = match &frame {
        Some(frame) => frame.to_original(&fit.gaussian)?,
        None => fit.gaussian,
    };
    let pass = certus::parallel::install(goal.threads, || ExactPass::if_possible(model, gaussian))??;
    let ending = concluded(&pass, goal, (status, message), point(clock.elapsed(), &fit.state), &mut trace);
    let route = format!(
        "{}: requested, {} of {} draws{}; {}",
        chosen.method.name(),
        counted(fit.state.iteration(), "iteration"),
        chosen.batch,
        steps_in_words(chosen.steps),
        promised(&fit.guarantee)
    );
    Ok(outcome(pass, ending, route, counts, trace, fit.error, clock.elapsed()))
}

/// How a run with a plan of its own ended, by the look at its end, which becomes the last point of the trace.
pub(super) fn concluded(
    pass: &ExactPass,
    goal: &Goal,
    (status, message): (Status, String),
    last: TracePoint,
    trace: &mut Vec<TracePoint>,
) -> (Status, String) {
    let last = TracePoint {
        neg_elbo: Some(pass.neg_elbo),
        bound: pass.gap.statement.bound(),
        level: pass.gap.statement.level(),
        ..last
    };
    trace.retain(|p| p.iteration < last.iteration);
    trace.push(last);
    if status == Status::Limit && pass.bound() <= goal.gap {
        return (Status::Reached, pass.said());
    }
    (status, format!("{message}: {}", pass.said()))
}

/// What the plan promised, in words.
pub(super) fn promised(guarantee: &Result<Guarantee, &'static str>) -> String {
    match guarantee {
        Ok(guarantee) => {
            let quantity = match guarantee.quantity() {
                Quantity::DistanceSquared => "E|w - w*|²",
                Quantity::Gap => "the expected gap",
            };
            format!(
                "promised in advance by {}: {quantity} ≤ {}",
                guarantee.theorem(),
                figure(guarantee.bound())
            )
        }
        Err(reason) => format!("nothing was promised in advance: {reason}"),
    }
}

/// The step rule, where it was chosen.
pub fn steps_in_words(rule: StepRule) -> &'static str {
    match rule {
        StepRule::Auto => "",
        StepRule::Greedy => ", greedy steps",
        StepRule::Decaying => ", decaying steps",
        StepRule::Horizon => ", one step size for all iterations",
        StepRule::Paper => ", the paper's steps",
        StepRule::Constant(_) => ", a given step size",
    }
}
