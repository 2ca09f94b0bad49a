//! Repeated checks with fresh draws when μ and M are declared: shares of δ, the draws of each check, the residual at
//! them.

use std::borrow::Cow;
use std::ops::Range;

use super::Statement;
use super::lipschitz::Reach;
use crate::error::{Error, same_length};
use crate::estimator::{negate_finite, not_positive_definite};
use crate::factor::{Factor, Lower, Workspace};
use crate::fresh::Fresh;
use crate::gaussian::Gaussian;
use crate::linalg;
use crate::target::{Curvature, Guarded, Target};

/// How the total error probability δ is shared out among repeated checks.
///
/// The union over all checks stays below δ, so one may look after every check, change the Gaussian because of what one
/// saw, and stop whenever one likes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spending {
    delta: f64,
    planned: Option<u64>,
}

impl Spending {
    /// Equal shares for at most `checks` checks.
    pub fn planned(delta: f64, checks: u64) -> Self {
        Self { delta, planned: Some(checks) }
    }

    /// Any number of checks: the k-th gets 6δ/(π²k²), because Σ 1/k² = π²/6.
    pub fn anytime(delta: f64) -> Self {
        Self { delta, planned: None }
    }

    /// δ, the probability that any of the checks is wrong.
    pub fn delta(&self) -> f64 {
        self.delta
    }

    /// What the `check`-th check may spend, counted from 1; nothing is left beyond those planned.
    pub fn share(&self, check: u64) -> f64 {
        let k = check as f64;
        match self.planned {
            _ if check == 0 => 0.0,
            Some(checks) if check > checks => 0.0,
            Some(checks) => self.delta / checks as f64,
            None => self.delta * 6.0 / (std::f64::consts::PI * k).powi(2),
        }
    }
}

/// Repeated checks of Gaussians, each from its own draws: of the gap f(w) − f* and of the distance from the posterior.
///
/// With probability at least 1 − δ none of them is wrong, whatever the Gaussians they are asked about: a later one may
/// depend on everything that earlier checks said, on estimates, and on a run with any seed. Two `Checks` with the same
/// seed and model key repeat each other's draws, so a Gaussian that was chosen because of one must not be given to the
/// other.
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
/// #     fn curvature(&self) -> Option<Curvature> {
/// #         Curvature::new(1.0, 2.0, Provenance::DeclaredByUser("1 ≤ φ″ ≤ 2".into())).ok()
/// #     }
/// # }
/// # let target = Hill; // φ = z²/2 + log cosh z, so 1 ≤ φ″ ≤ 2
/// let w = Gaussian::isotropic(vec![0.3], 0.8, &Family::Lower)?;
/// let mut checks = Checks::new(Spending::anytime(0.05), 10_000, 1)?;
/// let gap = checks.certify(&target, &w)?;
/// assert_eq!(gap.statement.level(), Level::Probable { delta: 0.05 });
/// assert!(gap.statement.bound().is_some_and(|b| b < 0.3));
/// let posterior = checks.certify_posterior(&target, &w)?;
/// assert!(posterior.statement.bound().is_some_and(|b| b < 0.5) && checks.done() == 2);
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

    /// The same after `done` checks were made already, whose draws are not used again.
    #[must_use]
    pub fn after(mut self, done: u64) -> Self {
        self.done = done;
        self
    }

    /// Checks made so far, those that failed included.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Uses up a check of w, or says why there is none to make.
    pub(super) fn next<'a>(
        &mut self,
        target: &'a dyn Target,
        w: &'a Gaussian,
    ) -> Result<Result<Check<'a>, String>, Error> {
        same_length("the target", w.dim(), target.dim())?;
        if !w.is_proper() {
            return Err(not_positive_definite());
        }
        let Some(curvature) = target.curvature() else {
            return Ok(Err("the target declares no curvature".into()));
        };
        let (mu, smoothness) = (curvature.strong_convexity(), curvature.smoothness());
        if mu <= 0.0 {
            return Ok(Err("the target is not known to be strongly log-concave (mu is 0)".into()));
        }
        let share = self.spending.share(self.done + 1);
        if share <= 0.0 {
            return Ok(Err("all planned checks have been made".into()));
        }
        self.done += 1;
        let w = triangular(w)?;
        let reach = match Reach::new(w.factor(), mu, smoothness) {
            Ok(reach) => reach,
            Err(reason) => return Ok(Err(reason)),
        };
        let fresh = Fresh::check(self.draws, self.seed, self.model_key, self.done);
        let target = Guarded::new(target, curvature.clone());
        Ok(Ok(Check {
            number: self.done,
            share,
            delta: self.spending.delta(),
            fresh,
            target,
            w,
            curvature,
            reach,
        }))
    }
}

/// One check: a Gaussian with a triangular factor, draws of its own, and what it may spend.
pub(super) struct Check<'a> {
    number: u64,
    pub(super) share: f64,
    delta: f64,
    pub(super) fresh: Fresh,
    target: Guarded<'a>,
    pub(super) w: Cow<'a, Gaussian>,
    pub(super) curvature: Curvature,
    pub(super) reach: Reach,
}

impl Check<'_> {
    /// Calls `visit(u, S, log p − log q)` for runs of the draws of `range`, S(u) = ∇φ(m + Cu) − C⁻ᵀu = ∇ log(q/p): the
    /// residual of sticking the landing, which is 0 if q is the posterior.
    pub(super) fn residuals(
        &self,
        range: Range<usize>,
        visit: &mut impl FnMut(&[f64], &[f64], &[f64]),
    ) -> Result<(), Error> {
        let (dim, mut solved, mut workspace) = (self.w.dim(), Vec::new(), Workspace::default());
        self.fresh.run(&self.target, &self.w, range, &mut |run| {
            negate_finite(run.gradients, run.log_weights, dim).map_err(|e| self.locate(e, run.start))?;
            solved.clear();
            solved.extend_from_slice(run.u);
            if !self.w.factor().solve_transpose(&mut solved, &mut workspace) {
                return Err(not_positive_definite());
            }
            linalg::add_scaled(run.gradients, -1.0, &solved);
            visit(run.u, run.gradients, run.log_weights);
            Ok(())
        })
    }

    /// Why the draws forbid a statement, if they do.
    pub(super) fn contradiction(&self) -> Option<String> {
        let witness = self.target.witness();
        witness.map(|_| "two of the draws contradict the curvature of the log density".into())
    }

    /// A statement at the level the curvature allows. The probability is that of all checks together.
    pub(super) fn state(&self, theorem: &'static str, bound: f64) -> Statement {
        let rests_on = "mu and M bound the curvature everywhere";
        let statement = match self.curvature.vouched() {
            Some(word) => Statement::probable(theorem, bound, self.delta, &word, rests_on),
            None => Statement::estimated(theorem, bound, rests_on),
        };
        statement
            .with("mu", self.curvature.strong_convexity())
            .with("M", self.curvature.smoothness())
            .with("draws", self.fresh.draws as f64)
            .with("check", self.number as f64)
            .with("delta of this check", self.share)
            .with("lipschitz", self.reach.residual)
    }

    /// Allowance for the rounding of S, the root of its mean square over q: it is a difference of vectors of the size
    /// M|z| and |C⁻ᵀu|, each right to about 8 d ulp, and E|z|² = |w|², E|C⁻ᵀu|² ≤ d/σ_min².
    pub(super) fn rounding(&self) -> f64 {
        let dim = self.w.dim() as f64;
        let size = (linalg::norm_squared(self.w.mean()) + self.w.factor().norm_squared()).sqrt();
        let terms = self.curvature.smoothness() * size + dim.sqrt() / self.reach.smallest;
        16.0 * dim * f64::EPSILON * terms
    }

    fn locate(&self, error: Error, start: usize) -> Error {
        match error {
            Error::NonFinite { what, value, place } => {
                let place =
                    format!("{place} after draw {start} of {} of check {}", self.fresh.draws, self.number);
                Error::NonFinite { what, value, place }
            }
            other => other,
        }
    }
}

/// The same law with a triangular factor: all that is certified are properties of the law.
fn triangular(w: &Gaussian) -> Result<Cow<'_, Gaussian>, Error> {
    let Factor::Symmetric(c) = w.factor() else { return Ok(Cow::Borrowed(w)) };
    let lower = Lower::new(w.dim(), linalg::lower_of_same_covariance(c.values(), w.dim()))?;
    Ok(Cow::Owned(Gaussian::new(w.mean().to_vec(), Factor::Lower(lower))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shares of all checks together are at most δ, and nearly δ.
    #[test]
    fn shares_add_up_to_delta() {
        let anytime = Spending::anytime(0.05);
        let sum: f64 = (1..=1_000_000).map(|k| anytime.share(k)).sum();
        // the rest of Σ 1/k² beyond n lies between 1/(n+1) and 1/n
        assert!((0.05 - sum) > 0.0 && 0.05 - sum < 0.05 * 0.608e-6 + 1e-12, "{sum}");
        let planned = Spending::planned(0.05, 7);
        assert!(((1..100).map(|k| planned.share(k)).sum::<f64>() - 0.05).abs() < 1e-16);
        assert_eq!((planned.share(8), planned.share(0), anytime.share(0)), (0.0, 0.0, 0.0));
    }
}
