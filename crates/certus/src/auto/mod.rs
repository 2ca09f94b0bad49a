//! A fit that needs no settings: give a target and a gap (docs/maths.md, part J).
//!
//! The gradient is checked against the log density; the mode is found by L-BFGS, the frame by secants there; then q
//! descends in its own frame, and fresh draws estimate how far it still is. Nothing is proved of a target that declares
//! no constants, and the outcome says so: its gap is *estimated*, with a standard error, and holds for a log-concave
//! target. However the run ends, a pair of points that contradicts log-concavity is looked for before an estimate is
//! stated; where one was found, or there was no time, no gap is stated. Then importance weights and searches for other
//! modes decide what the numbers of q are worth: one of the four words of [`Verdict`].

mod again;
mod compare;
mod curvature;
mod descent;
mod ending;
mod frame;
mod log_concave;
mod mode;
mod modes;
mod outcome;
mod slope;
mod verdict;
mod violation;

pub use descent::AutoState;
pub use ending::{estimated_gap, reached};
pub use modes::{Mode, Modes};
pub use outcome::{Counts, Goal, Outcome, TracePoint};
pub use slope::Mismatch;
pub use verdict::{ACCURATE, CertifiedWeights, Comparison, LIGHT, Printed, USABLE, Verdict};

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::certificate::{Level, counted};
use crate::diagnostics::Estimate;
use crate::error::{Error, same_length};
use crate::factor::Family;
use crate::fit::Status;
use crate::gaussian::Gaussian;
use crate::moving::{Convexity, Measured, Moving, MovingMemory};
use crate::parallel;
use crate::random::{Purpose, Random};
use crate::target::{Counted, Target};
use mode::Place;

/// What an observer sees, at every step.
#[derive(Clone, Copy, Debug)]
pub struct AutoProgress<'a> {
    /// Steps taken.
    pub iteration: u64,
    /// Single-point gradients spent.
    pub gradients: u64,
    /// The estimate of the gap, at the last look.
    pub gap: Option<Estimate>,
    /// The Gaussian, at the mode, in the frame, at looks and now and then between them.
    pub gaussian: Option<&'a Gaussian>,
    /// What [`auto_resume`] goes on from, once the descent has begun.
    pub state: Option<&'a AutoState>,
    /// Since the run began.
    pub elapsed: Duration,
}

/// Called at every step; `Break` stops the run.
pub type AutoObserver<'a> = dyn FnMut(&AutoProgress<'_>) -> ControlFlow<()> + Send + 'a;

/// Fits a Gaussian to a target of which nothing is known but its log density and gradient.
pub fn auto(target: &dyn Target, goal: &Goal) -> Result<Outcome, Error> {
    auto_observed(target, goal, &mut |_| ControlFlow::Continue(()))
}

/// The same, calling `observer` at every step.
pub fn auto_observed(
    target: &dyn Target,
    goal: &Goal,
    observer: &mut AutoObserver<'_>,
) -> Result<Outcome, Error> {
    run(target, goal, observer, false, |run| run.route())
}

/// The same, with every call of the target and the observer on the calling thread: for targets that belong to it, such
/// as functions of an interpreter. [`Goal::threads`] has no effect then; large matrix products still use the current
/// pool.
pub fn auto_here(
    target: &dyn Target,
    goal: &Goal,
    observer: &mut AutoObserver<'_>,
) -> Result<Outcome, Error> {
    run(target, goal, observer, true, |run| run.route())
}

/// Goes on from a saved state; the bits are those of a run that was never stopped.
pub fn auto_resume(
    target: &dyn Target,
    goal: &Goal,
    state: &AutoState,
    observer: &mut AutoObserver<'_>,
) -> Result<Outcome, Error> {
    same_length("the saved state", target.dim(), state.dim())?;
    run(target, goal, observer, false, |run| {
        run.target = Counted::new(target, state.gradients);
        run.route = format!("black box of dimension {}, resumed from a saved state{DESCENT}", state.dim());
        run.gaussian = state.averaged()?;
        run.began_again = state.began_again;
        run.descend(state.clone())
    })
}

const DESCENT: &str = "; then descent in q's own frame, the gap estimated from fresh draws";

fn run<'a, 'o>(
    target: &'a dyn Target,
    goal: &'a Goal,
    observer: &'a mut AutoObserver<'o>,
    here: bool,
    route: impl FnOnce(&mut Run<'a, 'o>) -> Result<Ending, Error> + Send,
) -> Result<Outcome, Error> {
    goal.validate()?;
    if !(1..=MOST_DIM).contains(&target.dim()) {
        return Err(Error::invalid(
            "the dimension of the target",
            target.dim(),
            "it must lie between 1 and 20,000 with a dense factor; for more, use a pattern and `fit`",
        ));
    }
    if let Some(start) = &goal.start {
        same_length("the start", target.dim(), start.len())?;
    }
    let go = || {
        let mut run = Run::new(target, goal, observer, here)?;
        let ending = route(&mut run);
        let ending = run.check_convexity(ending);
        let ending = run.compare(ending);
        let ending = run.again(ending);
        Ok(run.outcome(ending))
    };
    if here { go() } else { parallel::install(goal.threads, go)? }
}

/// A dense factor of this size is 3 GB.
const MOST_DIM: usize = 20_000;

/// Where the user says, or 0.
fn start(goal: &Goal, dim: usize) -> Vec<f64> {
    goal.start.clone().unwrap_or_else(|| vec![0.0; dim])
}

/// How a run ended, in words.
type Ending = (Status, String);

/// A run under way.
struct Run<'a, 'o> {
    target: Counted<'a>,
    goal: &'a Goal,
    observer: &'a mut AutoObserver<'o>,
    clock: Instant,
    most: u64,
    route: String,
    /// The Gaussian that would be returned now, and what is known of it.
    gaussian: Gaussian,
    measured: Option<Measured>,
    convexity: Convexity,
    certified: Option<crate::certificate::Gap>,
    comparison: Option<Comparison>,
    /// True if the target belongs to the calling thread.
    here: bool,
    /// Whether the descent began at a mode that was searched for, and whether this is the second descent.
    climbed: bool,
    began_again: bool,
    trace: Vec<TracePoint>,
    iteration: u64,
}

impl<'a, 'o> Run<'a, 'o> {
    fn new(
        target: &'a dyn Target,
        goal: &'a Goal,
        observer: &'a mut AutoObserver<'o>,
        here: bool,
    ) -> Result<Self, Error> {
        let dim = target.dim();
        Ok(Self {
            target: Counted::new(target, 0),
            goal,
            observer,
            clock: Instant::now(),
            // three times what the noisiest benchmark (d = 500) needs for 0.01 nats
            most: goal.max_gradients.map_or(100_000 + 400 * dim as u64, compare::for_the_descent),
            route: "the gradient was checked, and nothing else was done".into(),
            gaussian: Gaussian::isotropic(start(goal, dim), 1.0, &Family::Lower)?,
            measured: None,
            convexity: Convexity::NotChecked,
            certified: None,
            comparison: None,
            here,
            climbed: false,
            began_again: false,
            trace: Vec::new(),
            iteration: 0,
        })
    }

    fn random(&self, purpose: Purpose) -> Random {
        Random::new(self.goal.seed, purpose, self.goal.model_key)
    }

    /// Everything, in order; an error is how the target ended it.
    fn route(&mut self) -> Result<Ending, Error> {
        self.route_from(true)
    }

    /// The same from q's mean, with or without a search for the mode.
    fn route_from(&mut self, climb: bool) -> Result<Ending, Error> {
        let here = Place::at(&self.target, self.gaussian.mean().to_vec())?;
        if !here.is_finite() {
            return Err(Error::NonFinite {
                what: "the log density or its gradient",
                value: -here.value,
                place: format!("the start {}; choose another start", slope::short(&here.point)),
            });
        }
        if let Some(mismatch) = slope::check(&self.target, &here, &self.random(Purpose::Estimate))? {
            let message = format!("the gradient does not match the log density: {mismatch}");
            return Ok((Status::AssumptionViolated, message));
        }
        let (here, axes, words) = match self.frame(here, climb)? {
            ControlFlow::Continue(found) => found,
            ControlFlow::Break(ending) => return Ok(ending),
        };
        self.gaussian = axes.gaussian(&here.point)?;
        self.route = format!("black box of dimension {}: {words}{DESCENT}", here.point.len());
        if let Some(ending) = self.look(None) {
            return Ok(ending);
        }
        let mut state = AutoState::new(Moving::at(here.point, axes), self.goal.batch);
        state.began_again = self.began_again;
        self.descend(state)
    }

    fn descend(&mut self, mut descent: AutoState) -> Result<Ending, Error> {
        let (steps, looks) = (self.random(Purpose::Step), self.random(Purpose::Estimate));
        let mut memory = MovingMemory::default();
        loop {
            if descent.is_due() {
                let (gaussian, measured) = descent.look(&self.target, &looks, self.goal.gap)?;
                let gap = measured.gap;
                let upper = gap.upper();
                self.gaussian = gaussian;
                self.measured = Some(measured);
                (self.convexity, self.certified) = (Convexity::NotChecked, None);
                if let Some(ending) = self.look(Some(upper)) {
                    return Ok(ending);
                }
                if upper <= self.goal.gap
                    && let Some(ending) = self.at_goal(&mut descent)?
                {
                    return Ok(ending);
                }
                if let Err(reason) = descent.judge(&self.gaussian, gap, self.goal.batch) {
                    return Ok((Status::NoProgress, reason));
                }
            }
            descent.step(&self.target, &steps, &mut memory)?;
            (self.iteration, descent.gradients) = (descent.iteration(), self.target.evaluations());
            // between looks somebody may watch; what is returned is what was measured
            let shown = if descent.is_worth_showing() { Some(descent.averaged()?) } else { None };
            if let Some(ending) = self.ask(shown.as_ref(), Some(&descent)) {
                if self.measured.is_none() {
                    self.gaussian = descent.averaged()?;
                }
                return Ok(ending);
            }
        }
    }

    /// Records the Gaussian, then asks.
    fn look(&mut self, bound: Option<f64>) -> Option<Ending> {
        self.trace.push(TracePoint {
            elapsed: self.clock.elapsed(),
            iteration: self.iteration,
            gradients: self.target.evaluations(),
            neg_elbo: self.measured.as_ref().map(|m| m.neg_elbo.value),
            bound,
            level: if bound.is_some() { Level::Estimated } else { Level::None },
        });
        let gaussian = self.gaussian.clone();
        self.ask(Some(&gaussian), None)
    }

    /// Asks the observer, the clock and the count whether to go on.
    fn ask(&mut self, gaussian: Option<&Gaussian>, state: Option<&AutoState>) -> Option<Ending> {
        let progress = AutoProgress {
            iteration: self.iteration,
            gradients: self.target.evaluations(),
            gap: self.measured.as_ref().map(|m| m.gap),
            gaussian,
            state,
            elapsed: self.clock.elapsed(),
        };
        if (self.observer)(&progress).is_break() {
            return Some((Status::Interrupted, format!("stopped after {}", counted(self.iteration, "step"))));
        }
        if self.goal.max_time.is_some_and(|limit| self.clock.elapsed() >= limit) {
            return Some((
                Status::Limit,
                format!("the time limit was reached after {}", counted(self.iteration, "step")),
            ));
        }
        if progress.gradients >= self.most {
            return Some((
                Status::Limit,
                format!("the limit was reached after {}", counted(progress.gradients, "gradient")),
            ));
        }
        None
    }
}
