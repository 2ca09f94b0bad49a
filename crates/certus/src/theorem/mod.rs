//! What is proved: constants → step sizes, the bound after T steps by folding the one-step inequality along the actual
//! schedule, and the iterations needed for a given accuracy.

pub mod chi_square;
mod constants;
mod convex;
mod local;
mod one_step;

pub use constants::{Problem, QuadraticBound, entropy_second_moment_on};
pub use convex::Convex;
pub use local::{Local, LocalParts};
pub use one_step::{Anytime, OneStep};

use crate::error::Error;
use crate::estimator::Estimator;
use crate::method::Method;
use crate::schedule::Schedule;
use crate::target::{Provenance, Vouched};
use crate::update::Update;

/// Which constants steps and bounds are computed from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Constants {
    /// The sharpened ones (B2 to B6).
    #[default]
    Sharp,
    /// The paper's own, errata corrected.
    Paper,
}

/// Iterations that a fold may walk before a closed form takes over.
pub const LONGEST_FOLD: u64 = 10_000_000;

/// A constant of a theorem: its name, the formula it comes from, its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NamedConstant {
    /// As in docs/maths.md.
    pub name: &'static str,
    /// Where it comes from; B is the number of draws per step.
    pub formula: &'static str,
    /// Its value.
    pub value: f64,
}

fn named<const N: usize>(constants: [(&'static str, &'static str, f64); N]) -> Vec<NamedConstant> {
    constants.into_iter().map(|(name, formula, value)| NamedConstant { name, formula, value }).collect()
}

/// A convergence theorem for a strongly convex problem: E|w_t − w*|² along any schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Theorem {
    label: &'static str,
    constants: Vec<NamedConstant>,
    inequalities: Vec<OneStep>,
    anytime: Anytime,
    rounding: f64,
}

impl Theorem {
    /// The theorem for `method` on `problem`.
    ///
    /// `center_error` bounds the distance of a control variate's centre from the mode; `initial` ≥ |w_0 − w*|² is used
    /// to choose the free parameters s and η of the decaying schedule.
    pub fn strongly_convex(
        method: &Method,
        problem: &Problem,
        constants: Constants,
        center_error: f64,
        initial: f64,
    ) -> Result<Self, Error> {
        let mu = problem.strong_convexity;
        if mu <= 0.0 {
            return Err(Error::Missing {
                needed: "strong convexity",
                remedy: "this theorem needs a lower bound above 0 on the curvature of −log p",
            });
        }
        let (smoothness, b) = (problem.smoothness, problem.batch as f64);
        if let Update::ProjectSpectrum { floor } = method.update()
            && (floor * smoothness.sqrt() - 1.0).abs() > 1e-12
        {
            return Err(Error::invalid("the floor of the projection", *floor, "it must be 1/√smoothness"));
        }
        let solution = problem.solution_norm_squared();
        let lambda = problem.expected_smoothness() / b;
        let variance =
            |j: f64, t: f64, l: f64, q: f64, nu: f64| OneStep::Variance { mu, smoothness, j, t, l, q, nu };
        let energy_noise = problem.energy_noise_at_optimum() / b;
        let dense = problem.pattern_constant() >= problem.dim as f64 + 3.0;
        let global = [
            ("Λ", "M Q_d(M/μ), B2", problem.expected_smoothness()),
            ("V*", "noise at the optimum, B3", problem.energy_noise_at_optimum()),
        ];
        use Constants::{Paper, Sharp};
        let (label, constants, inequalities) = match (method.estimator(), method.update(), constants) {
            (Estimator::Energy, _, Paper) => {
                let QuadraticBound { a, b } = problem.energy_second_moment(solution);
                let nu = 2.0 * (b + smoothness * smoothness * solution);
                let formula = problem.energy_formula();
                (
                    "prox, strongly convex (paper)",
                    named([("a", formula, a), ("b", "a d/μ", b)]),
                    vec![OneStep::SecondMoment { mu, beta: 2.0 * a, nu }],
                )
            }
            (Estimator::Energy, _, Sharp) => {
                let mut all = vec![variance(1.0, 1.0 / b, lambda, 0.0, energy_noise)];
                if !dense {
                    // Var g ≤ E|g|² ≤ c_P M²|w − w̄|² (Theorem H): dimension-free where Λ is not.
                    let q = problem.pattern_constant() * smoothness * smoothness / b;
                    all.push(variance(1.0, 0.0, 0.0, q, q * solution));
                }
                ("prox, strongly convex (B5)", named(global), all)
            }
            (Estimator::ControlVariate(quadratic), _, _) => {
                let k = problem.control_variate_smoothness(quadratic.precision);
                let q = (problem.dim as f64 + 3.0) * k * k / b;
                let nu = problem.control_variate_noise_at_optimum(quadratic.precision, center_error) / b;
                (
                    "prox with control variate, strongly convex (B6)",
                    named([("q", "(d+3)K₀²/B, B6", q), ("ν", "noise at the optimum over B, B6", nu)]),
                    vec![variance(1.0, 0.0, 0.0, q, nu)],
                )
            }
            (_, Update::ProjectBall { .. }, _) => {
                return Err(Error::Missing {
                    needed: "a certified centre",
                    remedy: "the ball method runs on local constants: build the theorem with Theorem::ball",
                });
            }
            (Estimator::Entropy, _, Paper) => {
                let QuadraticBound { a, b } = problem.entropy_second_moment_paper(solution);
                (
                    "projected, entropy, strongly convex (paper)",
                    named([("a", "4M²(1 − 1/B) + 4(d+3)M²/B", a), ("b", "(4(d+3)M² d/μ + 2dM)/B, A8", b)]),
                    vec![OneStep::SecondMoment { mu, beta: a, nu: b }],
                )
            }
            (Estimator::Entropy, _, Sharp) => (
                "projected, entropy, strongly convex (B6)",
                named(global),
                vec![variance(2.0, 1.0 / b, lambda, 0.0, energy_noise)],
            ),
            (Estimator::StickingTheLanding, _, Paper) => {
                let QuadraticBound { a, b } = problem.stl_second_moment_paper(solution);
                (
                    "projected, STL, strongly convex (paper)",
                    named([("a", "4M²(1 − 1/B) + 24(d+3)M²/B", a), ("b", "16(d+3)M² (d/μ)/B, A25", b)]),
                    vec![OneStep::SecondMoment { mu, beta: a, nu: b }],
                )
            }
            (Estimator::StickingTheLanding, _, Sharp) => {
                let noise = problem.stl_noise_at_optimum();
                let j = 2.0 * (1.0 - 1.0 / b);
                (
                    "projected, STL, strongly convex (B6)",
                    named([global[0], ("b*", "noise at the optimum, B4", noise)]),
                    vec![variance(j, 0.0, 2.0 * lambda, 0.0, noise / b)],
                )
            }
        };
        let prox = *method.update() == Update::Prox;
        let anytime = match inequalities[0] {
            // Paper: γ ≤ μ/(2a), and a projection gives only (1 − γμ/2) there (K = 2a/μ²; A17).
            OneStep::SecondMoment { beta, nu, .. } if prox => {
                Anytime { mu, l: 0.5 * beta / mu, sigma_squared: 0.5 * nu }
            }
            OneStep::SecondMoment { beta, nu, .. } => {
                Anytime { mu: 0.5 * mu, l: beta / mu, sigma_squared: 0.5 * nu }
            }
            _ => inequalities
                .iter()
                .flat_map(|inequality| free_parameters().filter_map(|(s, eta)| inequality.anytime(s, eta)))
                .min_by_key(|anytime| anytime.iterations(initial, 0.01 * initial))
                .expect("the grid is not empty"),
        };
        Ok(Self { label, constants, inequalities, anytime, rounding: 0.0 })
    }

    /// Theorem G: sticking the landing in a ball around a certified centre.
    pub fn ball(local: &Local, batch: usize) -> Self {
        let inequality = local.one_step(batch);
        let OneStep::Ball { mu, smoothness, spread, tilt, .. } = inequality else {
            unreachable!("local constants make a ball")
        };
        // Decaying steps are legal up to 2/(μ + L); the noise at |w − w*| = 2r, the far end of the ball, bounds σ².
        let nu = inequality.noise((2.0 * local.radius()).powi(2));
        let anytime = Anytime { mu, l: 0.25 * (mu + smoothness), sigma_squared: 0.5 * nu };
        let label = "ball-projected STL (Theorem G)";
        let constants = named([
            ("μ", "least curvature of f in the ball", mu),
            ("L", "greatest curvature of f in the ball", smoothness),
            ("A", "spread of the Hessian in the ball", spread),
            ("τ", "its third derivatives in the ball", tilt),
        ]);
        Self { label, constants, inequalities: vec![inequality], anytime, rounding: 0.0 }
    }

    /// The same theorem for a machine that gets every step wrong by at most `rounding` in |w|: with it
    /// √E⁺ ≤ √(exact E⁺) + rounding (Minkowski). The theorems themselves speak of exact arithmetic.
    #[must_use]
    pub fn with_rounding(mut self, rounding: f64) -> Self {
        self.rounding = rounding;
        self
    }

    /// The theorem's name.
    pub fn label(&self) -> &'static str {
        self.label
    }

    /// What it is made of, besides μ and M.
    pub fn constants(&self) -> &[NamedConstant] {
        &self.constants
    }

    /// γ_t = min{cap, (2t+1)/(μ(t+1)²)}.
    pub fn decaying(&self) -> Schedule {
        Schedule::Decaying { cap: 0.5 / self.anytime.l, strong_convexity: self.anytime.mu }
    }

    /// The closed-form bound that goes with [`Self::decaying`].
    pub fn anytime(&self) -> &Anytime {
        &self.anytime
    }

    /// The largest step for which the closed forms hold.
    pub fn largest_step(&self) -> f64 {
        0.5 / self.anytime.l
    }

    /// E|w_{t+1} − w*|² from a bound on E|w_t − w*|²: the smallest of the inequalities that hold.
    pub fn next(&self, bound: f64, step_size: f64) -> f64 {
        let exact = self.inequalities.iter().map(|i| i.next(bound, step_size)).fold(f64::INFINITY, f64::min);
        if self.rounding > 0.0 { (exact.sqrt() + self.rounding).powi(2) } else { exact }
    }

    /// The step that makes [`Self::next`] smallest.
    pub fn best_step(&self, bound: f64) -> f64 {
        let by_next = |a: &f64, b: &f64| self.next(bound, *a).total_cmp(&self.next(bound, *b));
        self.inequalities.iter().map(|i| i.best_step(bound)).min_by(by_next).unwrap_or(0.0)
    }

    /// The folded bound after `iterations` steps of `schedule`.
    pub fn fold(&self, initial: f64, schedule: &Schedule, iterations: u64) -> f64 {
        (0..iterations).fold(initial, |e, t| self.next(e, schedule.step_size(t, || self.best_step(e))))
    }

    /// A bound on E|w_T − w*|² after `iterations` steps of `schedule`: folded up to 10⁷ steps; beyond, the closed form
    /// that goes with the schedule (that of decaying steps holds for greedy ones). Infinite where the theorem allows no
    /// such step.
    pub fn bound_after(&self, initial: f64, schedule: &Schedule, iterations: u64) -> f64 {
        if iterations <= LONGEST_FOLD {
            return self.fold(initial, schedule, iterations);
        }
        let Anytime { mu, sigma_squared, .. } = self.anytime;
        let exact = match *schedule {
            Schedule::Constant { step } if step > self.largest_step() || step * mu > 1.0 => f64::INFINITY,
            Schedule::Constant { step } => {
                (iterations as f64 * (-step * mu).ln_1p()).exp() * initial + 2.0 * sigma_squared * step / mu
            }
            Schedule::Decaying { .. } | Schedule::Greedy => self.anytime.bound(initial, iterations),
        };
        (exact.sqrt() + iterations as f64 * self.rounding).powi(2) * (1.0 + 1e-9)
    }

    /// A T after which `schedule` is proved to reach `epsilon`; `None` if it never is (a constant step, or rounding).
    ///
    /// Folds up to 10⁷ steps, and is then the smallest such T. Beyond, the closed form of the decaying schedule
    /// answers; it is valid for greedy steps too, because each greedy step is at least as good and the one-step bound
    /// grows with its argument.
    pub fn iterations(&self, initial: f64, schedule: &Schedule, epsilon: f64) -> Option<u64> {
        let mut e = initial;
        for t in 0..LONGEST_FOLD {
            if e <= epsilon {
                return Some(t);
            }
            let after = self.next(e, schedule.step_size(t, || self.best_step(e)));
            // Constant and greedy steps that no longer help never will: the noise or the rounding floor is reached.
            if after >= e && !matches!(schedule, Schedule::Decaying { .. }) {
                return None;
            }
            e = after;
        }
        // √E_T ≤ √(closed form) + T·rounding, half of √ε for each where there is rounding
        let share = if self.rounding > 0.0 { 0.25 } else { 1.0 };
        let t = self.anytime.iterations(initial, share * epsilon);
        let possible = !matches!(schedule, Schedule::Constant { .. })
            && t as f64 * self.rounding <= 0.5 * epsilon.sqrt();
        possible.then_some(t)
    }

    /// The constant step with the smallest closed-form bound after `horizon` steps:
    /// (1 − γμ)^T E_0 + 2σ²γ/μ, minimised over a fine geometric grid below the largest legal step.
    pub fn horizon_step(&self, initial: f64, horizon: u64) -> f64 {
        let Anytime { mu, sigma_squared, .. } = self.anytime;
        let bound = |step: f64| {
            (horizon as f64 * (-step * mu).ln_1p()).exp() * initial + 2.0 * sigma_squared * step / mu
        };
        let largest = self.largest_step().min(1.0 / mu * (1.0 - 1e-12));
        (0..400)
            .map(|i| largest * (-0.05 * i as f64).exp())
            .min_by(|a, b| bound(*a).total_cmp(&bound(*b)))
            .unwrap_or(largest)
    }
}

/// The grid for the analysis parameters s ∈ (0, 1] and η > 0 of B5.
fn free_parameters() -> impl Iterator<Item = (f64, f64)> {
    let etas = (-4..=6).map(|i| 2.0_f64.powi(i));
    etas.flat_map(|eta| [0.25, 0.5, 0.75, 1.0].into_iter().map(move |s| (s, eta)))
}

impl OneStep {
    /// The closed form of B5 and B6: for γ ≤ s/Λ, E⁺ ≤ (1 − (2−s)μγ)E + (1+1/η)ν γ², Λ = λ(η) + q(1+η)/μ.
    fn anytime(&self, s: f64, eta: f64) -> Option<Anytime> {
        let OneStep::Variance { mu, nu, .. } = *self else { return None };
        let lambda = self.total_smoothness(eta);
        let sigma_squared = if nu == 0.0 { 0.0 } else { 0.5 * (1.0 + 1.0 / eta) * nu };
        Some(Anytime { mu: (2.0 - s) * mu, l: 0.5 * lambda / s, sigma_squared })
    }
}

/// Which quantity a guarantee bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// E|w − w*|², which is also at least E W₂(q_w, q_w*)².
    DistanceSquared,
    /// E f(w) − f*, in nats.
    Gap,
}

/// A proved statement about the returned point, in expectation over the run's own randomness.
#[derive(Clone, Debug, PartialEq)]
pub struct Guarantee {
    quantity: Quantity,
    bound: f64,
    theorem: &'static str,
    vouched: Vouched,
}

impl Guarantee {
    /// Only vouched constants make a guarantee; `vouched` cannot come from estimated ones.
    pub(crate) fn new(quantity: Quantity, bound: f64, theorem: &'static str, vouched: Vouched) -> Self {
        Self { quantity, bound, theorem, vouched }
    }

    /// What is bounded.
    pub fn quantity(&self) -> Quantity {
        self.quantity
    }

    /// The bound on its expectation.
    pub fn bound(&self) -> f64 {
        self.bound
    }

    /// With probability at least 1 − δ the quantity itself is below this (Markov).
    pub fn with_probability(&self, delta: f64) -> f64 {
        self.bound / delta
    }

    /// The theorem's name.
    pub fn theorem(&self) -> &'static str {
        self.theorem
    }

    /// Who vouches for the constants.
    pub fn provenance(&self) -> &Provenance {
        self.vouched.provenance()
    }
}
