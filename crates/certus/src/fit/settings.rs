//! What a run is asked to do; validated once, into a [`Plan`](super::Plan).

use std::time::Duration;

use super::method_name::MethodName;
use crate::estimator::Sampling;
use crate::factor::Family;
use crate::gaussian::Gaussian;
use crate::target::Curvature;
use crate::theorem::{Constants, Local};

/// Where step sizes come from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum StepRule {
    /// Greedy when −log p is strongly convex, Horizon when it is only convex.
    #[default]
    Auto,
    /// The step that makes the proved one-step bound smallest.
    Greedy,
    /// min{cap, (2t+1)/(μ(t+1)²)}, the paper's anytime schedule.
    Decaying,
    /// The constant step that is best for `iterations` steps.
    Horizon,
    /// The schedule of the paper's theorem for the method: min{μ/(2a), (2t+1)/(μ(t+1)²)} after a prox and min{μ/(2a),
    /// (2/μ)(2t+1)/(t+1)²} after a projection when −log p is strongly convex, else 1/√(aT) and √(2/(aT)) for T =
    /// `iterations`. Needs `Constants::Paper` and one of the paper's three methods.
    Paper,
    /// This constant step.
    Constant(f64),
}

/// Which point is returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Returned {
    /// What the theorem speaks of: the last iterate, or the θ-weighted mean when −log p is only convex.
    #[default]
    Auto,
    /// The last iterate.
    Last,
    /// The mean of the last half of the iterates. No theorem here speaks of it, so there is no guarantee.
    Tail,
}

/// Settings of a run.
///
/// | field | default | purpose | range |
/// |---|---|---|---|
/// | `method` | `ProxEnergy` | estimator and update | |
/// | `family` | the method's own | factors to optimise over | legal for the method |
/// | `batch` | 10 | independent draws B per step | ≥ 1 |
/// | `antithetic` | false | use every draw with its negative | |
/// | `constants` | `Sharp` | constants for steps and bounds | |
/// | `step_rule` | `Auto` | step sizes | |
/// | `returned` | `Auto` | which point is returned | |
/// | `iterations` | 10,000 | the most steps taken | ≥ 1 |
/// | `tolerance` | none | stop once E\|w − w*\|² is proved to be below | > 0 |
/// | `curvature` | the target's | μ, M and who says so | |
/// | `solution_radius` | none | a bound on \|w* − (m̄, 0)\| when μ = 0 | > 0 |
/// | `start` | N(mode, I/M) | w₀ | in the family |
/// | `local` | none | the certified ball of `BallStl` | |
/// | `seed`, `model_key` | 0 | the randomness | |
/// | `threads` | the current pool | threads to use; never changes the result | ≥ 1 |
/// | `max_time` | none | stop after this long, between two steps | |
#[derive(Clone, Debug)]
pub struct Settings {
    /// Estimator and update.
    pub method: MethodName,
    /// Factors to optimise over; `None`: the method's own (lower-triangular for prox, symmetric for projection).
    pub family: Option<Family>,
    /// B.
    pub batch: usize,
    /// Pairs (u, −u).
    pub antithetic: bool,
    /// Constants for steps and bounds.
    pub constants: Constants,
    /// Step sizes.
    pub step_rule: StepRule,
    /// Which point is returned.
    pub returned: Returned,
    /// The most steps taken.
    pub iterations: u64,
    /// Stop once the proved bound on E|w − w*|² is below this.
    pub tolerance: Option<f64>,
    /// Overrides the target's curvature.
    pub curvature: Option<Curvature>,
    /// A bound on |w* − (m̄, 0)|, needed when −log p is only convex.
    pub solution_radius: Option<f64>,
    /// w₀.
    pub start: Option<Gaussian>,
    /// The ball of [`MethodName::BallStl`]; the run starts at its centre.
    pub local: Option<Local>,
    /// Seed.
    pub seed: u64,
    /// Tells apart many models that share a seed.
    pub model_key: u64,
    /// Threads; `None`: the current rayon pool.
    pub threads: Option<usize>,
    /// Stop after this long.
    pub max_time: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            method: MethodName::default(),
            family: None,
            batch: 10,
            antithetic: false,
            constants: Constants::default(),
            step_rule: StepRule::default(),
            returned: Returned::default(),
            iterations: 10_000,
            tolerance: None,
            curvature: None,
            solution_radius: None,
            start: None,
            local: None,
            seed: 0,
            model_key: 0,
            threads: None,
            max_time: None,
        }
    }
}

impl Settings {
    pub(crate) fn sampling(&self) -> Sampling {
        Sampling { batch: self.batch, antithetic: self.antithetic }
    }
}
