//! Constants that hold in a ball around a certified centre (docs/maths.md, section on ball-projected SGD).

use super::one_step::OneStep;
use crate::error::Error;
use crate::factor::Family;
use crate::target::{Curvature, Provenance, Vouched};

/// Curvature of f on B_r = {|w − ŵ| ≤ r}, ŵ = (m̂, I), in the frame in which the centre's factor is the identity.
#[derive(Clone, Debug, PartialEq)]
pub struct Local {
    dim: usize,
    radius: f64,
    strong_convexity: f64,
    smoothness: f64,
    spread: f64,
    tilt: f64,
    gradient_norm: f64,
    provenance: Provenance,
}

/// What [`Local::new`] is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalParts {
    /// d.
    pub dim: usize,
    /// r.
    pub radius: f64,
    /// μ_r ≤ ∇²f on the ball.
    pub strong_convexity: f64,
    /// L ≥ ∇²f on the ball.
    pub smoothness: f64,
    /// A: E|(H − EH)C|_F² ≤ A on the ball (s²τ₀² for models with bounded third derivatives).
    pub spread: f64,
    /// τ: the noise is at most (d+3)X + 2τ√X with X = L²|w − w*|² + A (sτ₂ for such models).
    pub tilt: f64,
    /// |∇f(ŵ)| or an upper bound.
    pub gradient_norm: f64,
    /// Who says so.
    pub provenance: Provenance,
}

impl Local {
    /// Local constants; refused unless |∇f(ŵ)| ≤ μ_r r, which puts w* inside the ball (Theorem A).
    pub fn new(parts: LocalParts) -> Result<Self, Error> {
        let LocalParts { dim, radius, strong_convexity, smoothness, spread, tilt, gradient_norm, provenance } =
            parts;
        if !(radius > 0.0 && radius < 1.0) {
            return Err(Error::invalid("the radius of the ball", radius, "it must lie between 0 and 1"));
        }
        if !(strong_convexity > 0.0 && smoothness >= strong_convexity && smoothness.is_finite()) {
            return Err(Error::invalid(
                "the local strong convexity",
                strong_convexity,
                "0 < μ ≤ L < ∞ is required",
            ));
        }
        if !(spread >= 0.0 && tilt >= 0.0 && gradient_norm >= 0.0) {
            return Err(Error::invalid(
                "a noise constant of the ball",
                spread.min(tilt),
                "none may be negative",
            ));
        }
        if gradient_norm > strong_convexity * radius {
            return Err(Error::invalid(
                "the gradient norm at the centre",
                gradient_norm,
                "it must be at most (local strong convexity × radius), or the optimum may lie outside the ball",
            ));
        }
        Ok(Self { dim, radius, strong_convexity, smoothness, spread, tilt, gradient_norm, provenance })
    }

    /// From global μ, M in the frame of the centre: μ_r = μ, L = M + 1/(1−r)², and with K = (M − μ)/2 and
    /// |C|_F ≤ √d + r the Lipschitz form of Lemma F, A = K²|C|², τ = 2K|C|.
    ///
    /// Patterns are refused: the noise bound needs ∇f(w*) = 0 over all matrices, which only a pattern that contains the
    /// dense optimum has, and μ and M do not tell. A model that knows adds |G(w*)|² to A and calls [`Self::new`].
    pub fn from_curvature(
        curvature: &Curvature,
        dim: usize,
        family: &Family,
        radius: f64,
        gradient_norm: f64,
    ) -> Result<Self, Error> {
        if matches!(family, Family::Pattern(_)) {
            return Err(Error::invalid(
                "the family of the ball",
                family.name(),
                "a dense family is required here",
            ));
        }
        let (mu, m) = (curvature.strong_convexity(), curvature.smoothness());
        let spread = 0.5 * (m - mu) * ((dim as f64).sqrt() + radius);
        Self::new(LocalParts {
            dim,
            radius,
            strong_convexity: mu,
            smoothness: m + (1.0 - radius).powi(-2),
            spread: spread * spread,
            tilt: 2.0 * spread,
            gradient_norm,
            provenance: curvature.provenance().clone(),
        })
    }

    /// r.
    pub fn radius(&self) -> f64 {
        self.radius
    }

    /// |ŵ − w*|² ≤ (|∇f(ŵ)|/μ_r)².
    pub fn initial_distance_squared(&self) -> f64 {
        (self.gradient_norm / self.strong_convexity).powi(2)
    }

    /// A voucher for these constants, if they are not just estimated.
    pub fn vouched(&self) -> Option<Vouched> {
        self.provenance.vouched()
    }

    pub(crate) fn one_step(&self, batch: usize) -> OneStep {
        OneStep::Ball {
            mu: self.strong_convexity,
            smoothness: self.smoothness,
            dim: self.dim as f64,
            spread: self.spread,
            tilt: self.tilt,
            batch: batch as f64,
        }
    }

    /// The noise bound at the far end of the ball, |w − w*| ≤ 2r.
    pub(crate) fn largest_variance(&self) -> f64 {
        let x = (2.0 * self.smoothness * self.radius).powi(2) + self.spread;
        (self.dim as f64 + 3.0) * x + 2.0 * self.tilt * x.sqrt()
    }
}
