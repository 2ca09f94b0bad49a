//! The fit of a model that needs no settings: give a gap, get a Gaussian with a proof.
//!
//! [`fit`] takes a model and a [`Goal`] and chooses between two routes; [`Outcome::route`] says which and why.
//!
//! * **exact**: Newton-CG on the exact ELBO, without draws. It goes on until the gap is proved *and* every mean and
//!   standard deviation is proved to lie within 0.01 of the optimum's (in standard deviations), or rounding ends it,
//!   however large the gap asked for is. The seed does not matter.
//! * **stochastic**: from the Laplace approximation by steps with antithetic pairs in the iterate's own frame, looking
//!   at a running average with at most 10 exact passes. A pass certifies and never moves the iterate. The run ends with
//!   the first one that proves the gap.
//!
//! Statements have the strongest level that the model allows: proved, or, for probit regression, estimated, because the
//! error of its quadrature is known from tests only. [`Outcome::message`] says so.
//!
//! [`planned`] runs one of the paper's methods instead, with its own steps, and certifies where it ends; [`subsampled`]
//! does so with batches of rows.
//!
//! A run is a [`ModelState`] and its [`step`](ModelState::step): it can be saved after any step, and [`resume`] goes on
//! with the same bits, for any number of threads.
//!
//! | status | meaning |
//! |---|---|
//! | `Reached` | the gap is certified |
//! | `Limit` | the passes, the time or the gradients ran out; the certificate says how far it got |
//! | `NoProgress` | rounding ended the exact route before the gap was certified |
//! | `NonFinite`, `UserError` | a value was not finite, or the rows could not be read |
//! | `Interrupted` | the observer asked for it |
//!
//! However it ended, the Gaussian is the best one that was looked at, with its certificate; a run that is stopped makes
//! one more pass for that if its last steps were not looked at. Where rows refuse to be read ([`Error::Stopped`]) the
//! run ends in the middle of a step: then the Gaussian is the best one that was certified, or, if none was, the last
//! iterate, of whose gap nothing is known.

mod exact_pass;
mod forecast;
mod model;
mod planned;
mod restate;
mod route;
mod state;
mod stochastic;
mod subsampled;

use exact_pass::ExactPass;
pub use forecast::{Basis, Forecasts, Prediction};
pub use model::Model;
pub use planned::{PlannedMethod, planned, steps_in_words};
pub use restate::Restated;
pub use route::{MOST_MEMORY, MOST_WORK, Route, Size};
pub use state::ModelState;
pub use subsampled::{Subsampling, subsampled};

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use certus::auto::{Counts, TracePoint};
use certus::certificate::{Certificate, Level, Posterior, counted};
use certus::diagnostics::Estimate;
use certus::fit::Status;
use certus::moving::MovingMemory;
use certus::{Goal, Outcome, parallel};

use crate::error::Error;

/// Which route to take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Exact where [`Route::choose`] allows it, else stochastic.
    #[default]
    Auto,
    /// Newton-CG.
    Exact,
    /// Draws, and passes that certify.
    Stochastic,
}

impl Method {
    /// The word used in files and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Auto => "auto",
            Method::Exact => "exact",
            Method::Stochastic => "stochastic",
        }
    }
}

/// Called after every step with where the run is and how to save it; `Break` stops the run.
pub type ModelObserver<'a> = dyn FnMut(&TracePoint, &dyn Fn() -> Vec<u8>) -> ControlFlow<()> + Send + 'a;

/// Fits a Gaussian to a model.
pub fn fit(model: &dyn Model, goal: &Goal, method: Method) -> Result<Outcome, Error> {
    fit_observed(model, goal, method, &mut |_, _| ControlFlow::Continue(()))
}

/// Fits a Gaussian to a model, calling `observer` after every step.
pub fn fit_observed(
    model: &dyn Model,
    goal: &Goal,
    method: Method,
    observer: &mut ModelObserver<'_>,
) -> Result<Outcome, Error> {
    goal.validate()?;
    parallel::install(goal.threads, || {
        let clock = Instant::now();
        let state = ModelState::new(model, goal, method)?;
        run(model, goal, state, observer, clock)
    })?
}

/// Goes on from a state; the result has the bits of a run that was never stopped.
pub fn resume(
    model: &dyn Model,
    goal: &Goal,
    state: ModelState,
    observer: &mut ModelObserver<'_>,
) -> Result<Outcome, Error> {
    resume_since(model, goal, state, observer, Instant::now())
}

/// The same; the time began at `clock`.
pub fn resume_since(
    model: &dyn Model,
    goal: &Goal,
    state: ModelState,
    observer: &mut ModelObserver<'_>,
    clock: Instant,
) -> Result<Outcome, Error> {
    goal.validate()?;
    parallel::install(goal.threads, || run(model, goal, state, observer, clock))?
}

/// How a run ends that [`Error::Stopped`] ended within a step: by the clock if its time is over, else by whoever
/// stopped it.
fn stopped(goal: &Goal, clock: Instant, iterations: u64) -> (Status, String) {
    let iterations = counted(iterations, "iteration");
    if goal.max_time.is_some_and(|limit| clock.elapsed() >= limit) {
        return (Status::Limit, format!("the time limit was reached during a step, after {iterations}"));
    }
    (Status::Interrupted, format!("stopped during a step, after {iterations}"))
}

fn run(
    model: &dyn Model,
    goal: &Goal,
    mut state: ModelState,
    observer: &mut ModelObserver<'_>,
    clock: Instant,
) -> Result<Outcome, Error> {
    let (mut memory, mut trace, mut error) = (MovingMemory::default(), Vec::new(), None);
    let (status, message) = loop {
        if let Some(end) = state.ended() {
            break end.clone();
        }
        if goal.max_time.is_some_and(|limit| model.agreed(clock.elapsed() >= limit)) {
            break (Status::Limit, "the time limit was reached".into());
        }
        let gradients = state.counts().gradients + state.next_gradients();
        if let Some(most) = goal.max_gradients.filter(|most| gradients > *most) {
            break (Status::Limit, format!("the next step would take more than {most} gradients"));
        }
        let passes = state.counts().exact_passes;
        match state.step(model, goal, &mut memory) {
            Ok(()) => {}
            Err(e) if e.is_stopped() => break stopped(goal, clock, state.iteration()),
            Err(Error::NotFinite(reason)) => break (Status::NonFinite, reason.to_string()),
            Err(Error::Core(e @ (certus::Error::NonFinite { .. } | certus::Error::Target(_)))) => {
                let ending = (Status::from(&e), e.to_string());
                error = Some(Arc::new(e));
                break ending;
            }
            Err(other) => return Err(other),
        }
        let looked = state.counts().exact_passes > passes;
        let point = TracePoint {
            elapsed: clock.elapsed(),
            iteration: state.iteration(),
            gradients: state.counts().gradients,
            neg_elbo: state.pass().filter(|_| looked).map(|pass| pass.neg_elbo),
            bound: state.pass().and_then(|pass| pass.gap.statement.bound()),
            level: state.pass().map_or(Level::None, |pass| pass.gap.statement.level()),
        };
        if looked {
            trace.push(point);
        }
        if observer(&point, &|| state.encode()).is_break() {
            break (
                Status::Interrupted,
                format!("stopped after {}", counted(state.iteration(), "iteration")),
            );
        }
    };
    let (status, message) = state.conclude(model, goal, status, message)?;
    let route = state.described();
    let (pass, counts) = state.into_result()?;
    Ok(outcome(pass, (status, message), route, counts, trace, error, clock.elapsed()))
}

/// The outcome of a run whose last look this is.
fn outcome(
    pass: ExactPass,
    (status, message): (Status, String),
    route: String,
    counts: Counts,
    trace: Vec<TracePoint>,
    error: Option<Arc<certus::Error>>,
    elapsed: Duration,
) -> Outcome {
    Outcome {
        status,
        message,
        route,
        gaussian: pass.gaussian,
        neg_elbo: Estimate { value: pass.neg_elbo, standard_error: 0.0 },
        certificate: Certificate { gap: pass.gap, posterior: Posterior::none("not requested") },
        k_hat: None,
        comparison: None,
        counts,
        trace,
        error,
        elapsed,
    }
}
