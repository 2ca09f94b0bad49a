//! What a theorem says of a run before it starts, from dimension and constants alone: its constants, step sizes, the
//! bound after T steps, and the steps for a gap. In exact arithmetic, from the start that a plan takes.

use super::method_name::MethodName;
use super::prepare::check_paper;
use super::promise::{FAR, convex_constants};
use super::settings::StepRule;
use crate::error::Error;
use crate::estimator::Quadratic;
use crate::method::Method;
use crate::schedule::Schedule;
use crate::theorem::{Constants, LONGEST_FOLD, Local, NamedConstant, Problem, Theorem};

/// A theorem applied to a method and its constants.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    label: &'static str,
    constants: Vec<NamedConstant>,
    schedule: Schedule,
    promise: Result<Distance, &'static str>,
}

/// E|w_t − w*|² from `initial`, and what it says of the gap.
#[derive(Clone, Debug, PartialEq)]
struct Distance {
    theorem: Theorem,
    initial: f64,
    /// c with f(w) − f* ≤ c|w − w*|² wherever the method goes.
    per_distance: Result<f64, &'static str>,
    local: bool,
}

/// Steps that are folded to count those of global constants, which are many and not cheap to fold.
const SHORT_FOLD: u64 = 100_000;

const NO_GAP: &str = "the theorem bounds E|w − w*|² and not the gap: −log det C grows without bound towards singular \
    factors, which a prox step does not exclude";
const TOO_MANY: &str = "more than 1.8e19 iterations";
const NEVER: &str = "the bound stays above it, however many iterations are taken";

/// The schedule of a step rule for a strongly convex problem.
pub(super) fn schedule(rule: StepRule, theorem: &Theorem, initial: f64, iterations: u64) -> Schedule {
    match rule {
        StepRule::Constant(step) => Schedule::Constant { step },
        StepRule::Auto | StepRule::Greedy => Schedule::Greedy,
        StepRule::Decaying | StepRule::Paper => theorem.decaying(),
        StepRule::Horizon => Schedule::Constant { step: theorem.horizon_step(initial, iterations) },
    }
}

impl Forecast {
    /// Of a method with global constants, `iterations` steps of `batch` draws from N(mode, I/M), where |w₀ − w*|² ≤
    /// d(1/μ − 1/M) (fact 7).
    pub fn global(
        method: MethodName,
        constants: Constants,
        problem: &Problem,
        rule: StepRule,
        iterations: u64,
    ) -> Result<Self, Error> {
        if rule == StepRule::Paper {
            check_paper(method, constants)?;
        }
        let (mu, smoothness) = (problem.strong_convexity, problem.smoothness);
        if mu <= 0.0 {
            return Self::convex(method, constants, problem, rule, iterations);
        }
        let applied = match method {
            MethodName::ProxEnergy => Method::prox_energy(),
            MethodName::ProjEntropy => Method::proj_entropy(smoothness),
            MethodName::ProjStl => Method::proj_stl(smoothness),
            MethodName::ProxCv => {
                let (center, precision) = (vec![0.0; problem.dim], 0.5 * (mu + smoothness));
                Method::prox_control_variate(Quadratic { center, precision })
            }
            MethodName::BallStl => {
                return Err(Error::Missing {
                    needed: "a certified ball",
                    remedy: "its constants are local: use Forecast::local",
                });
            }
        };
        let initial = problem.dim as f64 * (1.0 / mu - 1.0 / smoothness);
        let theorem = Theorem::strongly_convex(&applied, problem, constants, 0.0, initial)?;
        // l is M-smooth, and so is h where σ_min(C) ≥ 1/√M, and ∇f(w*) = 0: f − f* ≤ (2M/2)|w − w*|²
        let per_distance = if method.is_prox() { Err(NO_GAP) } else { Ok(smoothness) };
        let schedule = schedule(rule, &theorem, initial, iterations);
        Ok(Self {
            label: theorem.label(),
            constants: theorem.constants().to_vec(),
            schedule,
            promise: Ok(Distance { theorem, initial, per_distance, local: false }),
        })
    }

    /// Of sticking the landing in a certified ball (Theorem G), from its centre; there f − f* ≤ (L/2)|w − w*|².
    pub fn local(local: &Local, batch: usize, rule: StepRule, iterations: u64) -> Result<Self, Error> {
        if rule == StepRule::Paper {
            check_paper(MethodName::BallStl, Constants::Sharp)?;
        }
        let (theorem, initial) = (Theorem::ball(local, batch), local.initial_distance_squared());
        let schedule = schedule(rule, &theorem, initial, iterations);
        Ok(Self {
            label: theorem.label(),
            constants: theorem.constants().to_vec(),
            schedule,
            promise: Ok(Distance {
                theorem,
                initial,
                per_distance: Ok(0.5 * local.smoothness()),
                local: true,
            }),
        })
    }

    /// Without strong convexity: the paper's step needs a and T; the bound would need the distance to the optimum.
    fn convex(
        method: MethodName,
        constants: Constants,
        problem: &Problem,
        rule: StepRule,
        iterations: u64,
    ) -> Result<Self, Error> {
        if constants != Constants::Paper || !matches!(rule, StepRule::Paper | StepRule::Horizon) {
            return Err(Error::Missing { needed: "strong convexity", remedy: FAR });
        }
        let convex = convex_constants(method, constants, problem, f64::INFINITY)?;
        let formula = match method {
            MethodName::ProxEnergy => problem.energy_formula(),
            MethodName::ProjEntropy => "4M²(1 − 1/B) + 4(d+3)M²/B",
            _ => "4M²(1 − 1/B) + 24(d+3)M²/B",
        };
        Ok(Self {
            label: if convex.prox { "prox, convex (paper)" } else { "projected, convex (paper)" },
            constants: vec![NamedConstant { name: "a", formula, value: convex.a }],
            schedule: Schedule::Constant { step: convex.paper_step(iterations) },
            promise: Err(FAR),
        })
    }

    /// The theorem's name.
    pub fn theorem(&self) -> &'static str {
        self.label
    }

    /// What it is made of, besides μ and M.
    pub fn constants(&self) -> &[NamedConstant] {
        &self.constants
    }

    /// The step sizes.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// |w₀ − w*|² is at most this, or why nothing bounds it.
    pub fn initial(&self) -> Result<f64, &'static str> {
        self.promise.as_ref().map(|d| d.initial).map_err(|reason| *reason)
    }

    /// γ_t; `None` for greedy steps beyond 10⁷, which would have to be folded.
    pub fn step_size(&self, iteration: u64) -> Option<f64> {
        match (&self.promise, &self.schedule) {
            (Ok(_), Schedule::Greedy) if iteration > LONGEST_FOLD => None,
            (Ok(Distance { theorem, initial, .. }), schedule @ Schedule::Greedy) => {
                Some(theorem.best_step(theorem.fold(*initial, schedule, iteration)))
            }
            (_, schedule) => Some(schedule.step_size(iteration, || f64::NAN)),
        }
    }

    /// The bound on E|w_T − w*|² after `iterations` steps, or why there is none.
    pub fn distance_after(&self, iterations: u64) -> Result<f64, &'static str> {
        let Distance { theorem, initial, .. } = self.promise.as_ref().map_err(|reason| *reason)?;
        Ok(theorem.bound_after(*initial, &self.schedule, iterations))
    }

    /// The bound on the expected gap, in nats, after `iterations` steps, or why there is none.
    pub fn gap_after(&self, iterations: u64) -> Result<f64, &'static str> {
        Ok(self.per_distance()? * self.distance_after(iterations)?)
    }

    /// c with f(w) − f* ≤ c|w − w*|² wherever the method goes, or why there is none.
    pub fn per_distance(&self) -> Result<f64, &'static str> {
        self.promise.as_ref().map_err(|reason| *reason)?.per_distance
    }

    /// The last of `iterations` step sizes and the bound after it, from one fold.
    pub fn after(&self, iterations: u64) -> (Option<f64>, Result<f64, &'static str>) {
        let before = iterations.saturating_sub(1);
        match &self.promise {
            Ok(Distance { theorem, initial, .. })
                if self.schedule == Schedule::Greedy && (1..=LONGEST_FOLD).contains(&iterations) =>
            {
                let reached = theorem.fold(*initial, &self.schedule, before);
                let step = theorem.best_step(reached);
                (Some(step), Ok(theorem.next(reached, step)))
            }
            _ => (self.step_size(before), self.distance_after(iterations)),
        }
    }

    /// Steps after which E|w − w*|² ≤ `epsilon` is proved. In a ball, as [`Theorem::iterations`]; with global constants
    /// the least number that the folded bound needs where the closed form asks for 10⁵ steps at most, else that of the
    /// closed form, which greedy steps do not need more of.
    pub fn iterations_for_distance(&self, epsilon: f64) -> Result<u64, &'static str> {
        let Distance { theorem, initial, local, .. } = self.promise.as_ref().map_err(|reason| *reason)?;
        let folded = || theorem.iterations(*initial, &self.schedule, epsilon);
        if matches!(self.schedule, Schedule::Constant { .. }) {
            return folded().ok_or(NEVER);
        }
        match theorem.anytime().iterations(*initial, epsilon) {
            u64::MAX => Err(TOO_MANY),
            closed if closed > SHORT_FOLD && !local => Ok(closed),
            closed => Ok(folded().map_or(closed, |t| t.min(closed))),
        }
    }

    /// Steps after which the expected gap is proved to be at most `gap` nats.
    pub fn iterations_for_gap(&self, gap: f64) -> Result<u64, &'static str> {
        self.iterations_for_distance(gap / self.per_distance()?)
    }
}
