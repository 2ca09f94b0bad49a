//! Settings → plan: the method checked, the constants turned into steps and bounds, the start chosen.

use super::forecast::schedule;
use super::prepare::{gradient_norm_at, method, start, validate};
use super::promise::{FAR, Promise, UNKNOWN};
use super::settings::{Returned, Settings, StepRule};
use super::state::{Info, Memory, State};
use crate::averaging::Averaging;
use crate::error::{Error, same_length};
use crate::estimator::Sampling;
use crate::factor::Family;
use crate::gaussian::Gaussian;
use crate::method::Method;
use crate::random::{Purpose, Random};
use crate::schedule::Schedule;
use crate::target::{Curvature, Target};
use crate::theorem::{Guarantee, Quantity};

/// Everything a run needs besides its state.
#[derive(Clone, Debug)]
pub struct Plan {
    method: Method,
    schedule: Schedule,
    averaging: Averaging,
    sampling: Sampling,
    random: Random,
    start: Gaussian,
    curvature: Option<Curvature>,
    promise: Promise,
    /// Why nothing is claimed of the returned point although the steps rest on a theorem.
    silent: Option<&'static str>,
    iterations: u64,
    tolerance: Option<f64>,
    start_evaluations: u64,
}

const ESTIMATED: &str = "the curvature is only estimated; declare it, or use a model whose curvature is known, to get \
    a guarantee";
const LAST: &str = "the convex theorem is about the θ-weighted mean, not about the last iterate";
const TAIL: &str =
    "no theorem here is about the mean of the tail; return the last iterate to get a guarantee";

impl Plan {
    /// Checks `settings` against `target` and computes steps and bounds. Evaluates the target once, at the start.
    pub fn new(target: &dyn Target, settings: &Settings) -> Result<Self, Error> {
        validate(settings)?;
        let dim = target.dim();
        if dim == 0 {
            return Err(Error::invalid("the dimension of the target", dim, "at least 1 is required"));
        }
        let curvature = settings.curvature.clone().or_else(|| target.curvature());
        let of_ball = settings.local.as_ref().map(|l| l.center().factor().family());
        let family = settings.family.clone().or(of_ball).unwrap_or_else(|| settings.method.family());
        if let Family::Pattern(tree) = &family {
            same_length("the pattern", dim, tree.dim())?;
        }
        let start = start(settings, curvature.as_ref(), dim, &family)?;
        let method = method(settings, curvature.as_ref(), &start)?;
        method.check(&family)?;
        let slope = gradient_norm_at(target, start.mean())?;
        let mut plan = Self {
            schedule: Schedule::Constant { step: 0.0 },
            averaging: Averaging::Last,
            sampling: settings.sampling(),
            random: Random::new(settings.seed, Purpose::Step, settings.model_key),
            promise: Promise::Nothing(UNKNOWN),
            silent: None,
            iterations: settings.iterations,
            tolerance: settings.tolerance,
            start_evaluations: 1,
            method,
            start,
            curvature,
        };
        plan.promise =
            Promise::new(settings, &plan.method, plan.curvature.as_ref(), target, &plan.start, slope)?;
        plan.choose_steps(settings)?;
        Ok(plan)
    }

    fn choose_steps(&mut self, settings: &Settings) -> Result<(), Error> {
        let needs_strong_convexity = Error::Missing {
            needed: "strong convexity",
            remedy: "greedy and decaying steps need μ > 0; use StepRule::Horizon, or StepRule::Constant without \
                constants",
        };
        self.schedule = match (settings.step_rule, &self.promise) {
            (StepRule::Constant(step), _) => Schedule::Constant { step },
            (rule, Promise::Distance { theorem, initial, .. }) => {
                schedule(rule, theorem, *initial, settings.iterations)
            }
            (StepRule::Auto | StepRule::Horizon | StepRule::Paper, Promise::Gap { step, .. }) => {
                Schedule::Constant { step: *step }
            }
            (StepRule::Greedy | StepRule::Decaying, Promise::Gap { .. }) => {
                return Err(needs_strong_convexity);
            }
            (_, Promise::Nothing(_)) => {
                return Err(Error::Missing {
                    needed: "the curvature of the target",
                    remedy: "implement Target::curvature, set Settings::curvature, or choose StepRule::Constant",
                });
            }
        };
        if let (Schedule::Constant { step: chosen }, Promise::Gap { step, .. }) =
            (self.schedule, &mut self.promise)
        {
            *step = chosen;
        }
        self.averaging = match (settings.returned, &self.promise) {
            (Returned::Tail, _) => Averaging::Tail { start: settings.iterations / 2 },
            (Returned::Auto, Promise::Gap { convex, step, .. }) => {
                let first = u64::from(convex.prox);
                Averaging::Theta { log_theta: convex.log_theta(*step), first }
            }
            _ => Averaging::Last,
        };
        self.silent = match (settings.returned, &self.promise) {
            (Returned::Tail, _) => Some(TAIL),
            (Returned::Last, Promise::Gap { .. }) => Some(LAST),
            (_, Promise::Gap { initial, .. }) if initial.is_infinite() => Some(FAR),
            _ => None,
        };
        if self.tolerance.is_some()
            && (self.silent.is_some() || !matches!(self.promise, Promise::Distance { .. }))
        {
            return Err(Error::Missing {
                needed: "a theorem that bounds E|w − w*|²",
                remedy: "a tolerance needs a curvature with μ > 0 and the last iterate as result",
            });
        }
        Ok(())
    }

    /// The state before the first step.
    pub fn start(&self) -> State {
        let bound = match &self.promise {
            Promise::Distance { initial, .. } => *initial,
            _ => f64::INFINITY,
        };
        State::new(self.start.clone(), bound, self.start_evaluations)
    }

    /// Memory for steps of this plan.
    pub fn memory(&self) -> Memory {
        Memory::new(self.start.dim(), self.sampling)
    }

    /// One iteration: draw u, estimate the gradient g at w, set w ← R_γ(w − γ g).
    ///
    /// If the target fails or a value of it is not finite, the iterate is as before the step.
    pub fn step(&self, target: &dyn Target, state: &mut State, memory: &mut Memory) -> Result<Info, Error> {
        let Memory { gradient, workspace } = memory;
        let step_size = self.step_size(state);
        gradient.draw(&self.random, state.iteration());
        self.method.estimator().estimate(target, state.iterate(), gradient, workspace)?;
        state.gradients += self.sampling.points() as u64;
        if self.averaging.counts_before_step() {
            self.averaging.take(&mut state.average, state.iteration, &state.iterate);
        }
        self.method.update().apply(&mut state.iterate, gradient, step_size, workspace)?;
        state.iteration += 1;
        if let Promise::Distance { theorem, .. } = &self.promise {
            state.bound = theorem.next(state.bound, step_size);
        }
        if !self.averaging.counts_before_step() {
            self.averaging.take(&mut state.average, state.iteration, &state.iterate);
        }
        Ok(Info { step_size, energy: gradient.energy() })
    }

    /// γ_t for the next step.
    pub fn step_size(&self, state: &State) -> f64 {
        self.schedule.step_size(state.iteration(), || match &self.promise {
            Promise::Distance { theorem, .. } => theorem.best_step(state.bound),
            _ => f64::NAN,
        })
    }

    /// What is proved of the point this state returns, or why nothing is.
    ///
    /// The theorems speak of a number of steps that does not depend on the draws. If you stop by looking at what the
    /// draws did, this is not for you; [`fit`](super::fit) knows when it does not apply.
    pub fn guarantee(&self, state: &State) -> Result<Guarantee, &'static str> {
        if let Some(reason) = self.silent {
            return Err(reason);
        }
        match &self.promise {
            Promise::Nothing(reason) => Err(reason),
            Promise::Distance { vouched: None, .. } | Promise::Gap { vouched: None, .. } => Err(ESTIMATED),
            Promise::Distance { theorem, vouched: Some(vouched), .. } if state.bound.is_finite() => {
                Ok(Guarantee::new(Quantity::DistanceSquared, state.bound, theorem.label(), vouched.clone()))
            }
            Promise::Distance { .. } => Err("a step was larger than the theorem allows"),
            Promise::Gap { convex, initial, step, vouched: Some(vouched) } => {
                // The theorem's mean holds for any number of steps with this constant step.
                let bound = convex.bound(*initial, *step, state.iteration());
                if state.iteration() == 0 || !bound.is_finite() {
                    return Err("a step was larger than the theorem allows, or none was taken");
                }
                let label = if convex.prox { "prox, convex" } else { "projected, convex" };
                Ok(Guarantee::new(Quantity::Gap, bound, label, vouched.clone()))
            }
        }
    }

    /// Steps after which E|w − w*|² ≤ `epsilon` is proved, before running; `None` if this plan never proves it.
    pub fn iterations_for(&self, epsilon: f64) -> Option<u64> {
        match &self.promise {
            _ if self.silent.is_some() => None,
            Promise::Distance { theorem, initial, vouched: Some(_) } => {
                theorem.iterations(*initial, &self.schedule, epsilon)
            }
            _ => None,
        }
    }

    /// The point this state returns.
    pub fn returned<'a>(&self, state: &'a State) -> &'a Gaussian {
        state.average.as_ref().map_or(&state.iterate, |a| &a.mean)
    }

    /// True once the tolerance asked for is proved.
    pub(crate) fn reached(&self, state: &State) -> bool {
        matches!(self.promise, Promise::Distance { vouched: Some(_), .. })
            && self.tolerance.is_some_and(|tolerance| state.bound <= tolerance)
    }

    /// The method.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The step-size rule.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The curvature the plan was made from.
    pub fn curvature(&self) -> Option<&Curvature> {
        self.curvature.as_ref()
    }

    /// The most steps a run takes.
    pub fn iterations(&self) -> u64 {
        self.iterations
    }
}
