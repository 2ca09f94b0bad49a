//! What the theorems say of a run before it starts: the right theorem, its constants and the distance it starts from.

use super::method_name::MethodName;
use super::prepare::gradient_norm_at;
use super::settings::{Settings, StepRule};
use crate::error::Error;
use crate::factor::Factor;
use crate::gaussian::Gaussian;
use crate::linalg;
use crate::method::Method;
use crate::target::{Curvature, Provenance, Target, Vouched};
use crate::theorem::{Constants, Convex, Problem, QuadraticBound, Theorem};

/// What can be said about the returned point, and on whose word.
#[derive(Clone, Debug)]
pub(super) enum Promise {
    /// E|w_t − w*|², folded along the run.
    Distance { theorem: Theorem, initial: f64, vouched: Option<Vouched> },
    /// E f(w̄_T) − f* after exactly `iterations` steps.
    Gap { convex: Convex, initial: f64, step: f64, vouched: Option<Vouched> },
    /// Nothing, and why.
    Nothing(&'static str),
}

/// Why a convex theorem proves nothing where |w* − w₀| is not bounded.
pub(super) const FAR: &str =
    "μ = 0, so the distance from the start to the optimum, which the bound needs, is not bounded";

/// Why an unknown curvature proves nothing.
pub(super) const UNKNOWN: &str = "the curvature of the target is not known; declare it to get a guarantee";

impl Promise {
    /// The promise for a run of `method` from `start`, where |∇ log p| = `slope`.
    pub(super) fn new(
        settings: &Settings,
        method: &Method,
        curvature: Option<&Curvature>,
        target: &dyn Target,
        start: &Gaussian,
        slope: f64,
    ) -> Result<Self, Error> {
        if let Some(local) = &settings.local {
            let initial = local.initial_distance_squared();
            let size = start.factor().norm_squared().sqrt() + local.radius();
            let theorem = Theorem::ball(local, settings.batch).with_rounding(rounding(settings, start, size));
            return Ok(Promise::Distance { theorem, initial, vouched: local.vouched() });
        }
        let Some(curvature) = curvature else { return Ok(Promise::Nothing(UNKNOWN)) };
        let problem = Problem::new(start.dim(), curvature, &start.factor().family(), settings.batch);
        let vouched = curvature.vouched();
        if curvature.strong_convexity() > 0.0 {
            // |m₀ − m̄| ≤ |∇ log p(m₀)|/μ, with the rounding of a gradient that may be all cancellation
            let size = linalg::norm_squared(start.mean()).sqrt();
            let cancelled = 8.0 * start.dim() as f64 * f64::EPSILON * curvature.smoothness() * size;
            let mode_error = (slope + cancelled) / curvature.strong_convexity();
            let initial = initial_distance_squared(&problem, start.factor(), mode_error);
            let size = problem.solution_norm_squared().sqrt() + initial.sqrt() + mode_error;
            let theorem =
                Theorem::strongly_convex(method, &problem, settings.constants, mode_error, initial)?
                    .with_rounding(rounding(settings, start, size));
            return Ok(Promise::Distance { theorem, initial, vouched });
        }
        let steps_alone = matches!(settings.step_rule, StepRule::Paper | StepRule::Horizon)
            && settings.constants == Constants::Paper;
        if settings.solution_radius.is_none() && steps_alone {
            // the paper's step needs a and T only; nothing is promised, because the distance to the optimum is not
            // bounded
            let convex = convex_constants(settings.method, settings.constants, &problem, f64::INFINITY)?;
            let step = convex.paper_step(settings.iterations);
            return Ok(Promise::Gap { convex, initial: f64::INFINITY, step, vouched });
        }
        let (Some(radius), Some(mode)) = (settings.solution_radius, curvature.mode()) else {
            return Err(Error::Missing {
                needed: "a bound on |w* − (mode, 0)| (solution_radius), or the mode",
                remedy: "−log p is only convex, so the optimum is not bounded; give both, or a curvature with μ > 0",
            });
        };
        // The second-moment bounds use ∇φ(m̄) = 0, so the declared mode must be one.
        let at_mode = gradient_norm_at(target, mode)?;
        if at_mode > 1e-8 * curvature.smoothness() * radius {
            return Err(Error::invalid(
                "the gradient norm at the declared mode",
                at_mode,
                "it must be 0 up to rounding",
            ));
        }
        let declared = Provenance::DeclaredByUser("solution_radius".into());
        let vouched = curvature.provenance().clone().and(declared).vouched();
        let shift = start.mean().iter().zip(mode).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
        let initial = ((shift + start.factor().norm_squared()).sqrt() + radius).powi(2);
        let convex = convex_constants(settings.method, settings.constants, &problem, radius)?;
        let step = match settings.constants {
            Constants::Sharp => convex.balanced_step(initial, settings.iterations),
            Constants::Paper => convex.paper_step(settings.iterations),
        };
        Ok(Promise::Gap { convex, initial, step, vouched })
    }
}

/// The allowance for rounding of one step, 16 (d + B) u |w|: entries of w are rounded a few times, sums over the B
/// draws B times, and the target's gradient is taken to be right to 8 d u of M|z| (γM ≤ 1). `size` bounds |w − (m₀,
/// 0)|. An allowance, not a proof: it leaves out the condition of a symmetric C.
fn rounding(settings: &Settings, start: &Gaussian, size: f64) -> f64 {
    let mean = linalg::norm_squared(start.mean()).sqrt();
    let operations = (start.dim() + settings.sampling().points()) as f64;
    16.0 * operations * (0.5 * f64::EPSILON) * (mean + size)
}

/// |w₀ − w*|² with |m₀ − m̄| ≤ `mode_error` (fact 7): C*_ii, or the eigenvalues of a symmetric C*, are at least 1/√M,
/// so
/// |(m̄, C₀) − w*|² ≤ d/μ − 2 tr(C₀)/√M + |C₀|² for a diagonal or symmetric C₀; else the triangle inequality.
fn initial_distance_squared(problem: &Problem, factor: &Factor, mode_error: f64) -> f64 {
    let (solution, norm) = (problem.solution_norm_squared(), factor.norm_squared());
    let (mut trace, mut diagonal) = (0.0, true);
    factor.for_each_entry(|i, j, x| {
        if i == j {
            trace += x;
        } else {
            diagonal &= x == 0.0;
        }
    });
    let aligned = matches!(factor, Factor::Symmetric(_)) || diagonal;
    let distance = if aligned {
        // the difference may cancel, so its rounding is added
        let rounding = 8.0 * factor.dim() as f64 * f64::EPSILON * (solution + norm);
        ((solution - 2.0 * trace / problem.smoothness.sqrt() + norm).max(0.0) + rounding).sqrt()
    } else {
        solution.sqrt() + norm.sqrt()
    };
    (distance + mode_error).powi(2) * (1.0 + 1e-9)
}

/// a and b of the convex theorems (B7), given |w* − w̄| ≤ `radius`, which only b depends on.
pub(super) fn convex_constants(
    method: MethodName,
    constants: Constants,
    problem: &Problem,
    radius: f64,
) -> Result<Convex, Error> {
    let (solution, batch) = (radius * radius, problem.batch as f64);
    let prox = |QuadraticBound { a, b }| Convex { a, b, prox: true, largest_step: 1.0 / problem.smoothness };
    let projected = |QuadraticBound { a, b }| Convex { a, b, prox: false, largest_step: f64::INFINITY };
    let dense = problem.pattern_constant() >= problem.dim as f64 + 3.0;
    Ok(match (method, constants) {
        (MethodName::ProxEnergy, Constants::Paper) => prox(problem.energy_second_moment(solution)),
        (MethodName::ProxEnergy, Constants::Sharp) => {
            // B7 with Var g ≤ 2(d+3)M²E + 2V*, or on a pattern Var g ≤ E|g|² ≤ 2c_P M²(E + |w* − w̄|²)
            let a = 2.0 * problem.pattern_constant() * problem.smoothness.powi(2) / batch;
            let at_optimum = 2.0 * problem.energy_noise_at_optimum_convex(radius) / batch;
            prox(QuadraticBound { a, b: if dense { at_optimum } else { a * solution } })
        }
        (MethodName::ProjEntropy, Constants::Paper) => {
            projected(problem.entropy_second_moment_paper(solution))
        }
        (MethodName::ProjEntropy, Constants::Sharp) => projected(problem.entropy_second_moment(solution)),
        (MethodName::ProjStl, Constants::Paper) => projected(problem.stl_second_moment_paper(solution)),
        (MethodName::ProjStl, Constants::Sharp) => {
            let b = 2.0 * problem.stl_noise_at_optimum_convex(radius) / batch;
            projected(QuadraticBound { b, ..problem.stl_second_moment() })
        }
        (MethodName::ProxCv | MethodName::BallStl, _) => {
            return Err(Error::Missing {
                needed: "strong convexity",
                remedy: "this method has a theorem for strongly convex −log p only; use ProxEnergy",
            });
        }
    })
}
