//! The gap from fresh draws when μ and M are declared (math: D1, D2, D3).

use std::borrow::Cow;

use super::deviation::{Design, Spending, directional_variance};
use super::{Gap, Statement, lipschitz};
use crate::error::{Error, same_length};
use crate::estimator::{negate_finite, not_positive_definite};
use crate::factor::{Factor, Family, Lower, Workspace};
use crate::gaussian::Gaussian;
use crate::linalg;
use crate::random::{Purpose, Random};
use crate::target::Target;

/// Draws that are evaluated together.
const RUN: usize = 64;

/// Repeated checks of the gap f(w) − f*, each from its own draws.
///
/// With probability at least 1 − δ none of them is wrong, whatever the Gaussians they are asked about: a later one may
/// depend on everything that earlier checks said, and on a run with any seed. Two `Checks` with the same seed and model
/// key repeat each other's draws, so a Gaussian that was chosen because of one must not be given to the other.
///
/// ```
/// use certus::certificate::{Checks, Level, Spending};
/// # use certus::{Curvature, Family, Gaussian, PointTarget, Provenance, TargetError};
/// # struct Hill;
/// # impl PointTarget for Hill {
/// #     fn dim(&self) -> usize { 1 }
/// #     fn log_density_at(&self, z: &[f64], g: &mut [f64]) -> Result<f64, TargetError> {
/// #         g[0] = -z[0] - z[0].tanh();
/// #         Ok(-0.5 * z[0] * z[0] - z[0].cosh().ln())
/// #     }
/// #     fn curvature(&self) -> Option<Curvature> { Curvature::new(1.0, 2.0, Provenance::ByModel).ok() }
/// # }
/// # let target = Hill; // φ = z²/2 + log cosh z, so 1 ≤ φ″ ≤ 2
/// let w = Gaussian::isotropic(vec![0.3], 0.8, &Family::Lower)?;
/// let mut checks = Checks::new(Spending::anytime(0.05), 10_000, 1)?;
/// let gap = checks.certify(&target, &w)?;
/// assert_eq!(gap.statement.level(), Level::Probable { delta: 0.05 });
/// assert!(gap.statement.bound().is_some_and(|b| b < 0.3));
/// # Ok::<(), certus::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Checks {
    spending: Spending,
    draws: usize,
    seed: u64,
    model_key: u64,
    done: u64,
}

/// What the draws of one check say.
struct Sample {
    /// |ḡ_j| of every block.
    norms: Vec<f64>,
    /// The mean of |S|².
    fisher: f64,
    /// Root mean square of the terms whose rounding enters the gradient.
    size: f64,
}

impl Checks {
    /// Checks of `draws` points each.
    pub fn new(spending: Spending, draws: usize, seed: u64) -> Result<Self, Error> {
        let delta = spending.delta();
        if !(delta > 0.0 && delta < 1.0) {
            return Err(Error::invalid("delta", delta, "a probability between 0 and 1 is required"));
        }
        if draws == 0 || u32::try_from(draws).is_err() {
            return Err(Error::invalid(
                "the number of draws",
                draws,
                "it must lie between 1 and 4 billion; a few thousand are usual",
            ));
        }
        Ok(Self { spending, draws, seed, model_key: 0, done: 0 })
    }

    /// The same for one of many models that share a seed.
    #[must_use]
    pub fn for_model(mut self, model_key: u64) -> Self {
        self.model_key = model_key;
        self
    }

    /// Checks made so far, those that failed included.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// A bound on f(w) − f* that holds, together with all others of these checks, with probability 1 − δ.
    ///
    /// The optimum is over all Gaussians, or over the ancestor pattern of w. A draw that is not finite is an error, and it
    /// uses up the check.
    pub fn certify(&mut self, target: &dyn Target, w: &Gaussian) -> Result<Gap, Error> {
        same_length("the target", w.dim(), target.dim())?;
        if !w.is_proper() {
            return Err(not_positive_definite());
        }
        let family = family_name(w.factor());
        let Some(curvature) = target.curvature() else {
            return Ok(Gap::none(family, "the target declares no curvature"));
        };
        let (mu, smoothness) = (curvature.strong_convexity(), curvature.smoothness());
        if mu <= 0.0 {
            return Ok(Gap::none(family, "the target is not known to be strongly log-concave (mu is 0)"));
        }
        let share = self.spending.share(self.done + 1);
        if share <= 0.0 {
            return Ok(Gap::none(family, "the planned checks are used up"));
        }
        self.done += 1;
        let w = triangular(w)?;
        let design = Design::new(self.draws, share);
        let sample = self.sample(target, &w, &design)?;
        let lipschitz = lipschitz::of_residual(w.factor(), mu, smoothness);
        let fisher = design.fisher(sample.fisher, lipschitz);
        let variance = directional_variance(fisher, lipschitz);
        let (estimate, deviation) = (median(sample.norms), design.deviation(variance));
        // Bessel: mean and factor part are the Hermite coefficients of S of degree 0 and 1, so |∇f|² ≤ E|S|².
        let gradient = (estimate + deviation).min(fisher.sqrt()) + self.rounding(w.dim(), sample.size);

        // D1: f is μ-strongly convex on ℝᵈ × V.
        let (bound, distance) = (gradient * gradient / (2.0 * mu), gradient / mu);
        let rests_on = "mu and M bound the curvature everywhere";
        let statement = match curvature.vouched() {
            Some(word) => Statement::probable("D2", bound, self.spending.delta(), &word, rests_on),
            None => Statement::estimated("D2", bound, rests_on),
        };
        let statement = statement
            .with("mu", mu)
            .with("M", smoothness)
            .with("draws", self.draws as f64)
            .with("blocks", design.blocks as f64)
            .with("check", self.done as f64)
            .with("delta of this check", share)
            .with("gradient estimate", estimate)
            .with("gradient deviation", deviation)
            .with("gradient bound", gradient)
            .with("lipschitz", lipschitz)
            .with("fisher", fisher)
            .with("variance", variance);
        // |m_i − m_i*| and |sd_i − sd_i*| are at most |w − w*|
        let smallest_sd = w.sd().into_iter().fold(f64::INFINITY, f64::min);
        let error = statement.bound().map(|_| distance / smallest_sd);
        Ok(Gap { statement, family, mean_error: error, sd_error: error })
    }

    /// S(u) = ∇φ(m + Cu) − C⁻ᵀu at the check's own draws, and ḡ_j = (mean S, proj_V mean S uᵀ) of every block: sticking the
    /// landing, whose noise vanishes for Gaussian targets at the optimum.
    fn sample(&self, target: &dyn Target, w: &Gaussian, design: &Design) -> Result<Sample, Error> {
        let dim = w.dim();
        // iteration 0 belongs to `diagnostics`; checks count from 1
        let random = Random::new(self.seed, Purpose::Check, self.model_key);
        let batch = || vec![0.0; dim * RUN.min(self.draws)];
        let (mut u, mut z, mut s, mut solved) = (batch(), batch(), batch(), batch());
        let (mut values, mut workspace) = (vec![0.0; RUN], Workspace::default());
        let (mut norms, mut fisher, mut size) = (Vec::with_capacity(design.blocks), 0.0, 0.0);
        for block in (0..design.blocks).map(|j| design.block(j)) {
            let (mut mean, mut factor) = (vec![0.0; dim], w.factor().family().scaled_identity(dim, 0.0));
            for start in block.clone().step_by(RUN) {
                let n = RUN.min(block.end - start);
                let (u, z, s) = (&mut u[..n * dim], &mut z[..n * dim], &mut s[..n * dim]);
                let (solved, values) = (&mut solved[..n * dim], &mut values[..n]);
                random.normals(self.done, start as u64, dim, u);
                w.transform(u, z);
                target.log_density(z, values, s).map_err(Error::Target)?;
                negate_finite(s, values, dim).map_err(|e| self.locate(e, start))?;
                solved.copy_from_slice(u);
                if !w.factor().solve_transpose(solved, &mut workspace) {
                    return Err(not_positive_definite());
                }
                for k in 0..n {
                    let square = |x: &[f64]| x[k * dim..][..dim].iter().map(|x| x * x).sum::<f64>();
                    size += (square(s) + square(solved)) * (1.0 + square(u));
                }
                linalg::add_scaled(s, -1.0, solved);
                fisher += linalg::norm_squared(s);
                linalg::add_columns(&mut mean, 1.0, s);
                factor.add_outer(1.0, s, u);
            }
            norms.push((linalg::norm_squared(&mean) + factor.norm_squared()).sqrt() / block.len() as f64);
        }
        let n = self.draws as f64;
        Ok(Sample { norms, fisher: fisher / n, size: (size / n).sqrt() })
    }

    /// What rounding can add to the gradient: an allowance of 16 (d + N/64) u times the size of the terms, not a proof.
    fn rounding(&self, dim: usize, size: f64) -> f64 {
        16.0 * (dim + self.draws.div_ceil(RUN)) as f64 * 0.5 * f64::EPSILON * size
    }

    fn locate(&self, error: Error, start: usize) -> Error {
        match error {
            Error::NonFinite { what, value, place } => {
                let place = format!("{place} after draw {start} of check {}", self.done);
                Error::NonFinite { what, value, place }
            }
            other => other,
        }
    }
}

/// The same law with a triangular factor: the gap, the means and the sds of the optimum are properties of the law.
fn triangular(w: &Gaussian) -> Result<Cow<'_, Gaussian>, Error> {
    let Factor::Symmetric(c) = w.factor() else { return Ok(Cow::Borrowed(w)) };
    let lower = Lower::new(w.dim(), linalg::lower_of_same_covariance(c.values(), w.dim()))?;
    Ok(Cow::Owned(Gaussian::new(w.mean().to_vec(), Factor::Lower(lower))?))
}

fn family_name(factor: &Factor) -> String {
    match factor.family() {
        Family::Pattern(tree) if tree.nodes().len() > 1 => match (tree.levels(), tree.widest()) {
            (1, 1) => "all Gaussians with independent coordinates".into(),
            (1, _) => format!("all Gaussians with {} independent blocks", tree.nodes().len()),
            _ => format!("all Gaussians on the pattern of {} blocks", tree.nodes().len()),
        },
        _ => "all Gaussians".into(),
    }
}

/// The median of an odd number of values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
