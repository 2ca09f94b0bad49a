//! Running a plan: stopping, clocks, observers, threads, and the result.

mod forecast;
mod method_name;
mod plan;
mod prepare;
mod promise;
mod settings;
mod state;

pub use forecast::Forecast;
pub use method_name::MethodName;
pub use plan::Plan;
pub use settings::{Returned, Settings, StepRule};
pub use state::{Info, Memory, State};

use std::fmt;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::certificate::words::{counted, upward};
use crate::error::Error;
use crate::gaussian::Gaussian;
use crate::parallel;
use crate::target::{Guarded, Target};
use crate::theorem::{Guarantee, Quantity};

/// How a run ended. A run that ended badly still has its last finite iterate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// The tolerance is proved.
    Reached,
    /// The iterations or the time ran out first, or the numbers of a black box are unreliable. Give more of either, a
    /// larger tolerance, or another parametrisation.
    Limit,
    /// Nothing moves any more (rounding floor, dead line search). The point is as good as this arithmetic allows.
    NoProgress,
    /// A log density or gradient was not finite, or above 1e150. Look at the place named in the message: a domain error
    /// of the target, or a step too large for it.
    NonFinite,
    /// Two points contradict a declaration (curvature, log-concavity) or the gradient; the message holds them.
    AssumptionViolated,
    /// The user's log density returned an error, which the message repeats.
    UserError,
    /// The observer asked to stop. [`resume`] goes on from the state.
    Interrupted,
}

/// How a run ends when an evaluation of the target fails.
impl From<&Error> for Status {
    fn from(error: &Error) -> Self {
        if matches!(error, Error::Target(_)) { Status::UserError } else { Status::NonFinite }
    }
}

impl Status {
    /// The word used in files and on the command line.
    pub fn as_str(&self) -> &'static str {
        match self {
            Status::Reached => "reached",
            Status::Limit => "limit",
            Status::NoProgress => "no_progress",
            Status::NonFinite => "non_finite",
            Status::AssumptionViolated => "assumption_violated",
            Status::UserError => "user_error",
            Status::Interrupted => "interrupted",
        }
    }
}

/// What an observer sees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Steps taken.
    pub iteration: u64,
    /// The most steps that will be taken.
    pub iterations: u64,
    /// Single-point gradients spent.
    pub gradients: u64,
    /// The last step's γ and energy.
    pub info: Info,
    /// The bound on E|w − w*|² so far, infinite if there is none.
    pub bound: f64,
    /// Since the run began.
    pub elapsed: Duration,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Fit {
    /// How it ended.
    pub status: Status,
    /// One sentence about it.
    pub message: String,
    /// The Gaussian.
    pub gaussian: Gaussian,
    /// What is proved of it, or why nothing is.
    pub guarantee: Result<Guarantee, &'static str>,
    /// The state, for [`resume`].
    pub state: State,
    /// The user's own error behind [`Status::UserError`].
    pub error: Option<std::sync::Arc<Error>>,
    /// How long it took.
    pub elapsed: Duration,
}

const STOPPED: &str = "the run was stopped in a way that may depend on its draws, but the theorem requires a number \
    of steps fixed in advance";

/// Called after steps with the state to save; `Break` stops the run.
pub type FitObserver<'a> = dyn FnMut(&Progress, &State) -> ControlFlow<()> + Send + 'a;

/// Fits a Gaussian to `target`.
pub fn fit(target: &dyn Target, settings: &Settings) -> Result<Fit, Error> {
    fit_observed(target, settings, &mut |_, _| ControlFlow::Continue(()))
}

/// Fits a Gaussian to `target`, calling `observer` after every step.
pub fn fit_observed(
    target: &dyn Target,
    settings: &Settings,
    observer: &mut FitObserver<'_>,
) -> Result<Fit, Error> {
    let plan = Plan::new(target, settings)?;
    let state = plan.start();
    resume(target, settings, &plan, state, observer)
}

/// Goes on from `state`; the bits are those of a run that was never stopped.
pub fn resume(
    target: &dyn Target,
    settings: &Settings,
    plan: &Plan,
    state: State,
    observer: &mut FitObserver<'_>,
) -> Result<Fit, Error> {
    parallel::install(settings.threads, || run(target, settings, plan, state, observer))
}

fn run(
    target: &dyn Target,
    settings: &Settings,
    plan: &Plan,
    mut state: State,
    observer: &mut FitObserver<'_>,
) -> Fit {
    let clock = Instant::now();
    let guarded = plan.curvature().map(|c| Guarded::new(target, c.clone()));
    let target = guarded.as_ref().map_or(target, |g| g as &dyn Target);
    let mut memory = plan.memory();
    let mut error = None;
    let (status, message) = loop {
        if plan.reached(&state) {
            break (Status::Reached, "the tolerance is reached (proved)".to_string());
        }
        if state.iteration() >= plan.iterations() {
            break (Status::Limit, format!("{} completed", counted(state.iteration(), "iteration")));
        }
        if settings.max_time.is_some_and(|limit| clock.elapsed() >= limit) {
            break (
                Status::Limit,
                format!("the time limit was reached after {}", counted(state.iteration(), "iteration")),
            );
        }
        let info = match plan.step(target, &mut state, &mut memory) {
            Ok(info) => info,
            Err(e) => {
                let status = Status::from(&e);
                let message = format!("iteration {}: {e}", state.iteration());
                error = Some(std::sync::Arc::new(e));
                break (status, message);
            }
        };
        if let Some(witness) = guarded.as_ref().and_then(|g| g.witness()) {
            break (
                Status::AssumptionViolated,
                format!(
                    "between {:?} and {:?} the curvature is {} along and {} across",
                    witness.points[0], witness.points[1], witness.along, witness.across
                ),
            );
        }
        let progress = Progress {
            iteration: state.iteration(),
            iterations: plan.iterations(),
            gradients: state.gradients(),
            info,
            bound: state.bound(),
            elapsed: clock.elapsed(),
        };
        if observer(&progress, &state).is_break() {
            break (
                Status::Interrupted,
                format!("stopped after {}", counted(state.iteration(), "iteration")),
            );
        }
    };
    let guarantee = match status {
        Status::AssumptionViolated => Err("the declared curvature is contradicted by the target itself"),
        Status::Interrupted | Status::UserError | Status::NonFinite => Err(STOPPED),
        _ => plan.guarantee(&state),
    };
    let gaussian = plan.returned(&state).clone();
    Fit { status, message, gaussian, guarantee, state, error, elapsed: clock.elapsed() }
}

impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "status     {} ({})", self.status.as_str(), self.message)?;
        match &self.guarantee {
            Ok(g) => {
                let quantity = match g.quantity() {
                    Quantity::DistanceSquared => "E|w - w*|^2",
                    Quantity::Gap => "E[gap] in nats",
                };
                writeln!(f, "proved     {quantity} <= {}  by {}", upward(g.bound(), 4), g.theorem())?;
                writeln!(f, "rests on   curvature {}", g.provenance())?;
            }
            Err(reason) => writeln!(f, "proved     nothing: {reason}")?,
        }
        writeln!(
            f,
            "gradients  {} in {}",
            self.state.gradients(),
            counted(self.state.iteration(), "iteration")
        )?;
        self.gaussian.write_table(f)
    }
}
