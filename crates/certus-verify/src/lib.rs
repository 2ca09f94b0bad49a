//! An independent checker of gap certificates (docs/verify.md): it recomputes a claim from the parameters, the data and
//! the model alone, with its own loop over rows, quadrature and linear algebra in double-double arithmetic. Only the
//! likelihoods are shared with the rest.

#![forbid(unsafe_code)]

mod claim;
pub mod double_double;
mod error;
mod frame;
mod matrix;
mod quadrature;
mod text;
mod theorem;

use std::sync::Arc;

use certus_likelihood::prior::Precision;
use certus_likelihood::{Datum, Likelihood, Response};
pub use claim::{Claim, ClaimFamily, Theorem};
use double_double::Double;
pub use error::Error;
use frame::ClaimFrame;

/// The largest number of coefficients; everything is dense.
pub const MOST_COEFFICIENTS: usize = 400;

/// A recomputed number may exceed the claimed one by this part of it, and by [`ABSOLUTE`]: allowances for quadrature
/// and rounding differ, and eigenvalues are found to 1e-9.
pub const RELATIVE: f64 = 1e-6;
/// See [`RELATIVE`].
pub const ABSOLUTE: f64 = 1e-30;

/// What became of a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// True if the claim is confirmed.
    pub holds: bool,
    /// The recomputed bound, infinite if the theorem's hypotheses fail.
    pub bound: f64,
    /// The recomputed error of means, in sds of q.
    pub mean_error: f64,
    /// The recomputed relative error of sds.
    pub sd_error: f64,
    /// What failed, or what was confirmed.
    pub reason: String,
}

impl Verdict {
    fn refused(reason: String) -> Self {
        Self {
            holds: false,
            bound: f64::INFINITY,
            mean_error: f64::INFINITY,
            sd_error: f64::INFINITY,
            reason,
        }
    }
}

/// Recomputes a claim. An error means that it could not be looked at (its parts do not fit, or it is out of the
/// checker's scope); a claim that was looked at and not confirmed gives a verdict that says why.
pub fn verify(claim: &Claim) -> Result<Verdict, Error> {
    let likelihood = checked(claim)?;
    if claim.proved && !likelihood.strip_is_proved() {
        let reason = format!("the level is proved, but for {} it can only be estimated", claim.likelihood);
        return Ok(Verdict::refused(reason));
    }
    let needed = |name: &str, value: Option<f64>, most: f64| match value {
        None => Err(format!("{name} is missing")),
        Some(x) if x > 0.0 && x < most => Ok(x),
        Some(x) => Err(format!("{name} is {x}, out of range")),
    };
    let omega = needed("omega", claim.omega, f64::INFINITY);
    let theta = needed("theta", claim.theta.or(Some(theorem::THETA)), f64::INFINITY);
    let answer = match claim.theorem {
        Theorem::D => {
            let radius = omega.clone().and_then(|o| needed("radius", claim.radius, o.sqrt()));
            match (omega, theta, radius) {
                (Ok(omega), Ok(theta), Ok(radius)) => {
                    ClaimFrame::new(claim, &*likelihood)?.theorem_d(radius, omega, theta)?
                }
                (Err(reason), ..) | (_, Err(reason), _) | (.., Err(reason)) => Err(reason),
            }
        }
        Theorem::APrime => match (omega, theta) {
            (Ok(omega), Ok(theta)) => ClaimFrame::new(claim, &*likelihood)?.theorem_a_prime(omega, theta)?,
            (Err(reason), _) | (_, Err(reason)) => Err(reason),
        },
        Theorem::D1 => ClaimFrame::new(claim, &*likelihood)?.everywhere()?,
        Theorem::Bracket => {
            return Err(Error::Declined(
                "the two-sided bracket compares two Gaussians and is outside the scope of this checker"
                    .into(),
            ));
        }
    };
    let found = match answer {
        Ok(found) => found,
        Err(reason) => return Ok(Verdict::refused(reason)),
    };
    let mut reason = "confirmed".to_string();
    let mut holds = true;
    for (what, recomputed, claimed) in [
        ("bound", found.bound, Some(claim.bound)),
        ("mean error", found.mean, claim.mean_error),
        ("sd error", found.factor, claim.sd_error),
    ] {
        let Some(claimed) = claimed else { continue };
        let confirmed = recomputed <= claimed * (1.0 + RELATIVE) + ABSOLUTE;
        if holds && !confirmed {
            holds = false;
            reason = format!("the {what} is claimed to be {claimed:e}, but recomputed it is {recomputed:e}");
        }
    }
    Ok(Verdict { holds, bound: found.bound, mean_error: found.mean, sd_error: found.factor, reason })
}

/// The gradient of f at the claim's Gaussian in its own frame, as the checker computes it: g_m, and S (row-major, on
/// the pattern).
pub fn gradient(claim: &Claim) -> Result<(Vec<f64>, Vec<f64>), Error> {
    let likelihood = checked(claim)?;
    let frame = ClaimFrame::new(claim, &*likelihood)?;
    let plain = |x: &[Double]| x.iter().map(|x| x.to_f64()).collect();
    Ok((plain(&frame.mean), plain(&frame.factor)))
}

/// Everything the theorems take for granted: legal data, a prior that is a Gaussian, a factor that is one of the
/// family.
fn checked(claim: &Claim) -> Result<Arc<dyn Likelihood>, Error> {
    claim.check_shape()?;
    let d = claim.dim();
    if d > MOST_COEFFICIENTS {
        return Err(Error::Declined(format!(
            "the claim has {d} coefficients, and claims are verified up to {MOST_COEFFICIENTS}"
        )));
    }
    let likelihood = claim.likelihood.parse::<Response>()?.likelihood(claim.parameter)?;
    let precision = match &claim.prior_precision {
        Precision::Diagonal(j) | Precision::Dense(j) => j,
    };
    let parts = [&claim.prior_mean, precision, &claim.design, &claim.offset, &claim.mean, &claim.factor];
    if parts.iter().any(|part| part.iter().any(|x| !x.is_finite())) {
        return Err(Error::Malformed("a number of the claim is not finite".into()));
    }
    for n in 0..claim.y.len() {
        let datum = Datum { y: claim.y[n], trials: claim.trials[n] };
        if let Some(reason) = likelihood.reject(datum) {
            return Err(Error::Row { row: n, reason });
        }
        if !(claim.weight[n] >= 0.0 && claim.weight[n].is_finite()) {
            return Err(Error::Row { row: n, reason: format!("the weight is {}", claim.weight[n]) });
        }
    }
    match &claim.prior_precision {
        Precision::Diagonal(j) if j.iter().any(|x| *x < 0.0) => {
            return Err(Error::Malformed("a prior precision is negative".into()));
        }
        Precision::Dense(j) => {
            let symmetric = (0..d * d).all(|k| j[k] == j[(k % d) * d + k / d]);
            let exact: Vec<Double> = j.iter().map(|x| Double::from(*x)).collect();
            if !symmetric || matrix::cholesky(&exact, d, Double::ZERO).is_none() {
                return Err(Error::Malformed(
                    "the prior precision is not symmetric and positive definite".into(),
                ));
            }
        }
        Precision::Diagonal(_) => {}
    }
    frame::check_factor(claim)?;
    Ok(likelihood)
}
