//! Sticking the landing with batches of rows in a certified ball around the Laplace approximation: steps and their
//! number from Theorem G with the noise of the batches (docs/maths.md, part F), one exact pass at the end.

use std::time::{Duration, Instant};

use certus::auto::{Counts, TracePoint};
use certus::certificate::{Level, counted};
use certus::fit::Status;
use certus::frame::Frame;
use certus::schedule::Schedule;
use certus::theorem::{Local, Theorem};
use certus::{Goal, MethodName, Outcome, Plan, Settings, State};

use super::exact_pass::ExactPass;
use super::planned::{concluded, promised};
use super::{Model, ModelObserver, outcome, stopped};
use crate::error::{self, Declined, Error};
use crate::glm::Glm;
use crate::subsampled::{Batches, RowBatches};

/// Numbers of rows gathered at a time (64 MB).
const ROOM: usize = 1 << 23;
/// Iterations that are not begun unless they are asked for.
const MOST: u64 = 1_000_000;

/// How a subsampled run draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subsampling {
    /// Rows per iteration.
    pub rows: usize,
    /// Antithetic pairs of draws per iteration.
    pub pairs: usize,
    /// Iterations; those that the plan promises the gap for if `None`.
    pub iterations: Option<u64>,
}

impl Default for Subsampling {
    fn default() -> Self {
        Self { rows: 1024, pairs: 8, iterations: None }
    }
}

/// Runs to the last iteration and certifies where it ends; `saved` is a state to go on from, as the observer could save
/// it.
///
/// Beside the steps, which do not depend on the number of rows, it takes the passes of the Laplace approximation, of
/// the ball and of the certificate, and one to gather the rows (more if they do not fit 64 MB). The status is `Reached`
/// if the gap is certified, else `Limit`.
pub fn subsampled(
    model: &dyn Model,
    goal: &Goal,
    chosen: &Subsampling,
    saved: Option<&[u8]>,
    observer: &mut ModelObserver<'_>,
) -> Result<Outcome, Error> {
    goal.validate()?;
    let reason = "batches of rows do not support group terms";
    let glm = model.dense().ok_or(Declined::RowBatches { reason, remedy: "use auto" })?;
    certus::parallel::install(goal.threads, || run(model, glm, goal, chosen, saved, observer))?
}

/// The constants of a run, and how many iterations it takes.
fn promise(
    goal: &Goal,
    chosen: &Subsampling,
    local: Local,
    batches: &RowBatches<'_>,
) -> Result<(Local, u64), Error> {
    let noise = batches.noise();
    if !noise.is_finite() {
        let reason =
            "neither φ″ nor φ‴ of the loss is bounded, so nothing bounds the noise of a batch of rows";
        return Err(Declined::RowBatches { reason, remedy: "use auto" }.into());
    }
    let local = local.with_row_noise(noise)?;
    let (theorem, epsilon) = (Theorem::ball(&local, chosen.pairs), 2.0 * goal.gap / local.smoothness());
    let promised = theorem.iterations(local.initial_distance_squared(), &Schedule::Greedy, epsilon);
    let iterations = match (chosen.iterations, promised) {
        (Some(asked), _) => asked,
        (None, Some(promised)) if promised <= MOST => promised.max(1),
        (None, promised) => {
            let (rows, gap) = (chosen.rows, goal.gap);
            return Err(Declined::Iterations { promised, rows, gap, most: MOST }.into());
        }
    };
    Ok((local, iterations))
}

fn run(
    model: &dyn Model,
    glm: &Glm,
    goal: &Goal,
    chosen: &Subsampling,
    saved: Option<&[u8]>,
    observer: &mut ModelObserver<'_>,
) -> Result<Outcome, Error> {
    let clock = Instant::now();
    let start = model.laplace_start(goal.start.as_deref())?;
    let local = model.certified_ball(&start.gaussian)??;
    let batches = glm.row_batches(&start.gaussian, local.radius(), chosen.rows, goal.seed, goal.model_key)?;
    let (local, iterations) = promise(goal, chosen, local, &batches)?;
    let settings = Settings {
        method: MethodName::BallStl,
        batch: chosen.pairs,
        antithetic: true,
        iterations,
        local: Some(local),
        seed: goal.seed,
        model_key: goal.model_key,
        ..Settings::default()
    };
    let plan = Plan::new(&batches.expansion(), &settings)?;
    let mut state = match saved {
        Some(bytes) => State::decode(bytes, &plan.start())?,
        None => plan.start(),
    };
    // one full gradient is a gradient at every row: the start, its expansion, and the parts of it that batches are
    let spent = start.gradients as u64 + 1;
    let part = chosen.rows as f64 / glm.design().rows().len() as f64;
    let gradients = |state: &State| spent + (state.gradients() as f64 * part).ceil() as u64;
    let point = |elapsed: Duration, state: &State| TracePoint {
        elapsed,
        iteration: state.iteration(),
        gradients: gradients(state),
        neg_elbo: None,
        bound: None,
        level: Level::None,
    };
    let mut trace = Vec::new();
    let (mut memory, mut held, mut error) = (plan.memory(), None::<Batches>, None);
    let steps = (ROOM / batches.numbers_per_step()).max(1) as u64;
    let (status, message) = loop {
        let step = state.iteration();
        if step >= iterations {
            break (Status::Limit, format!("{} completed", counted(step, "iteration")));
        }
        if goal.max_time.is_some_and(|limit| clock.elapsed() >= limit) {
            break (
                Status::Limit,
                format!("the time limit was reached after {}", counted(step, "iteration")),
            );
        }
        let rows = match held.take().filter(|held| held.hold(step)) {
            Some(held) => held,
            None => match batches.gather(step, steps.min(iterations - step) as usize) {
                Err(e) if e.is_stopped() => break stopped(goal, clock, step),
                gathered => gathered?,
            },
        };
        let taken = plan.step(&batches.at(&rows, step), &mut state, &mut memory);
        held = Some(rows);
        if let Err(e) = taken {
            if error::stopped(&e) {
                break stopped(goal, clock, step);
            }
            let ending = (Status::from(&e), format!("iteration {step}: {e}"));
            error = Some(std::sync::Arc::new(e));
            break ending;
        }
        let point = point(clock.elapsed(), &state);
        if point.iteration.is_power_of_two() {
            trace.push(point);
        }
        if observer(&point, &|| state.encode()).is_break() {
            break (
                Status::Interrupted,
                format!("stopped after {}", counted(state.iteration(), "iteration")),
            );
        }
    };
    let gaussian = Frame::of(&start.gaussian)?.to_original(plan.returned(&state))?;
    let pass = ExactPass::if_possible(model, gaussian)?;
    let counts =
        Counts { gradients: gradients(&state), hessians: start.hessians as u64 + 1, exact_passes: 2 };
    let ending = concluded(&pass, goal, (status, message), point(clock.elapsed(), &state), &mut trace);
    let route = format!(
        "subsampled: requested, {} of {} rows and {} pairs of draws in a ball around the Laplace approximation; {}",
        counted(state.iteration(), "iteration"),
        chosen.rows,
        chosen.pairs,
        promised(&plan.guarantee(&state))
    );
    Ok(outcome(pass, ending, route, counts, trace, error, clock.elapsed()))
}
