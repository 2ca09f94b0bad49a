//! The gap from fresh draws when μ and M are declared (math: D1, D2, D3).

use super::Gap;
use super::checks::{Check, Checks};
use super::deviation::{Design, FISHER_PART, directional_variance, fisher_bound, median};
use crate::error::Error;
use crate::factor::{Factor, Family};
use crate::fresh::RUN;
use crate::gaussian::Gaussian;
use crate::linalg;
use crate::target::Target;

/// What the draws of one check say.
struct Sample {
    /// |ḡ_j| of every block.
    norms: Vec<f64>,
    /// The mean of |S|².
    fisher: f64,
}

impl Checks {
    /// A bound on f(w) − f* that holds, together with all others of these checks, with probability 1 − δ.
    ///
    /// The optimum is over all Gaussians, or over the ancestor pattern of w. A draw that is not finite is an error, and
    /// it uses up the check.
    pub fn certify(&mut self, target: &dyn Target, w: &Gaussian) -> Result<Gap, Error> {
        let family = family_name(w.factor());
        let check = match self.next(target, w)? {
            Ok(check) => check,
            Err(reason) => return Ok(Gap::none(family, reason)),
        };
        let (mu, draws, dim) = (check.curvature.strong_convexity(), check.fresh.draws, w.dim());
        let design = Design::of_norms(draws, (1.0 - FISHER_PART) * check.share);
        let sample = Sample::new(&check, &design)?;
        if let Some(reason) = check.contradiction() {
            return Ok(Gap::none(family, reason));
        }
        let (lipschitz, rounding) = (check.reach.residual, check.rounding());
        let fisher = fisher_bound(sample.fisher, lipschitz, rounding, draws, FISHER_PART * check.share);
        let variance = directional_variance(fisher, lipschitz);
        let (estimate, deviation) = (median(sample.norms), design.deviation(variance));
        // Bessel: mean and factor part are the Hermite coefficients of S of degree 0 and 1, so |∇f|² ≤ E|S|²
        let gradient = (estimate + deviation).min(fisher.sqrt()) + summed(rounding, fisher, dim, draws);

        // D1: f is μ-strongly convex on ℝᵈ × V
        let (bound, distance) = (gradient * gradient / (2.0 * mu), gradient / mu);
        let statement = check
            .state("D2", bound)
            .with("blocks", design.blocks as f64)
            .with("gradient estimate", estimate)
            .with("gradient deviation", deviation)
            .with("gradient bound", gradient)
            .with("fisher", fisher)
            .with("variance", variance);
        // for every direction a, |aᵀ(m − m*)| and ||Cᵀa| − |C*ᵀa|| are at most |a||w − w*|, and the sd of aᵀz under q
        // is |Cᵀa| ≥ σ_min|a|
        let error = statement.bound().map(|_| distance / check.reach.smallest);
        Ok(Gap { statement, family, mean_error: error, sd_error: error })
    }
}

impl Sample {
    /// ḡ_j = (mean S, proj_V mean S uᵀ) of every block.
    fn new(check: &Check<'_>, design: &Design) -> Result<Self, Error> {
        let (dim, family) = (check.w.dim(), check.w.factor().family());
        let (mut norms, mut fisher) = (Vec::with_capacity(design.blocks), 0.0);
        for block in (0..design.blocks).map(|j| design.block(j)) {
            let (mut mean, mut factor) = (vec![0.0; dim], family.scaled_identity(dim, 0.0));
            check.residuals(block.clone(), &mut |u, s, _| {
                fisher += linalg::norm_squared(s);
                linalg::add_columns(&mut mean, 1.0, s);
                factor.add_outer(1.0, s, u);
            })?;
            norms.push((linalg::norm_squared(&mean) + factor.norm_squared()).sqrt() / block.len() as f64);
        }
        Ok(Self { norms, fisher: fisher / check.fresh.draws as f64 })
    }
}

/// What rounding can add to the gradient: that of S times √(1 + |u|²), whose weight is at most d + 3 (fact 2), and 16
/// ulp of √F √(d+1) for every run that is added. An allowance, not a proof.
fn summed(rounding: f64, fisher: f64, dim: usize, draws: usize) -> f64 {
    let added = 8.0 * draws.div_ceil(RUN) as f64 * f64::EPSILON;
    (dim as f64 + 3.0).sqrt() * (rounding + added * fisher.sqrt())
}

/// The Gaussians that a gap of a Gaussian with this factor is about.
pub fn family_name(factor: &Factor) -> String {
    match factor.family() {
        Family::Pattern(tree) if tree.nodes().len() > 1 => match (tree.levels(), tree.widest()) {
            (1, 1) => "all Gaussians with independent coordinates".into(),
            (1, _) => format!("all Gaussians with {} independent blocks", tree.nodes().len()),
            _ => format!("all Gaussians on the pattern of {} blocks", tree.nodes().len()),
        },
        _ => "all Gaussians".into(),
    }
}
