//! Constants that hold in a ball around a certified centre (docs/maths.md, section on ball-projected SGD).

use super::one_step::OneStep;
use crate::error::Error;
use crate::factor::Family;
use crate::gaussian::Gaussian;
use crate::target::{Curvature, Provenance, Vouched};

/// Curvature of f on B_r = {|w − ŵ| ≤ r}, ŵ = (m̂, I), in the frame in which the centre's factor is the identity.
#[derive(Clone, Debug, PartialEq)]
pub struct Local {
    parts: LocalParts,
    /// R: what batches of rows add to the noise.
    rows: f64,
}

/// What [`Local::new`] is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalParts {
    /// ŵ, in the family the run will use; its factor must be the identity.
    pub center: Gaussian,
    /// r.
    pub radius: f64,
    /// μ_r ≤ ∇²f on the ball, in the family.
    pub strong_convexity: f64,
    /// L: a Lipschitz constant on the ball of the gradient of f over *all* d × d matrices (for triangular factors the
    /// Hessian within the family alone is not enough, because the noise is not projected).
    pub smoothness: f64,
    /// β = |E H C* − C*⁻ᵀ| at the optimum of the family: 0 if the family contains the dense optimum.
    pub bias: f64,
    /// A: E|(H − EH)C|_F² ≤ A on the ball (s²τ₀² for models with bounded third derivatives).
    pub spread: f64,
    /// τ: the noise is at most (d+3)X + 2τ√X with X = (L|w − w*| + β)² + A (sτ₂ for such models).
    pub tilt: f64,
    /// An upper bound of |∇f(ŵ)| in the family.
    pub gradient_norm: f64,
    /// Who says all of this.
    pub provenance: Provenance,
}

impl Local {
    /// Local constants; refused unless |∇f(ŵ)| ≤ μ_r r, which puts w* inside the ball (Theorem A).
    pub fn new(parts: LocalParts) -> Result<Self, Error> {
        let p = &parts;
        if *p.center.factor() != p.center.factor().family().scaled_identity(p.center.dim(), 1.0) {
            return Err(Error::invalid(
                "the factor of the ball's centre",
                "not the identity",
                "work in the frame of the centre",
            ));
        }
        if !(p.radius > 0.0 && p.radius < 1.0) {
            return Err(Error::invalid("the radius of the ball", p.radius, "it must lie between 0 and 1"));
        }
        if !(p.strong_convexity > 0.0 && p.smoothness >= p.strong_convexity && p.smoothness.is_finite()) {
            return Err(Error::invalid(
                "the local strong convexity",
                p.strong_convexity,
                "0 < μ ≤ L < ∞ is required",
            ));
        }
        for (name, value) in [
            ("the bias of the ball", p.bias),
            ("the spread of the ball", p.spread),
            ("the tilt of the ball", p.tilt),
            ("the gradient norm at the centre", p.gradient_norm),
        ] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(Error::invalid(name, value, "a finite number of at least 0 is required"));
            }
        }
        if p.gradient_norm > p.strong_convexity * p.radius {
            return Err(Error::invalid(
                "the gradient norm at the centre",
                p.gradient_norm,
                "it must be at most (local strong convexity × radius), or the optimum may lie outside the ball",
            ));
        }
        Ok(Self { parts, rows: 0.0 })
    }

    /// From global μ, M in the frame of the centre: μ_r = μ, L = M + 1/(1−r)², and with K = (M − μ)/2 and
    /// |C|_F ≤ √d + r the Lipschitz form of Lemma F, A = K²|C|², τ = 2K|C|.
    ///
    /// Patterns are refused: μ and M do not tell whether a pattern contains the dense optimum. A model that knows gives
    /// β to
    /// [`Self::new`].
    pub fn from_curvature(
        curvature: &Curvature,
        center: Gaussian,
        radius: f64,
        gradient_norm: f64,
    ) -> Result<Self, Error> {
        let family = center.factor().family();
        if matches!(family, Family::Pattern(_)) {
            return Err(Error::invalid(
                "the family of the ball",
                family.name(),
                "a dense family is required here",
            ));
        }
        let (mu, m) = (curvature.strong_convexity(), curvature.smoothness());
        let spread = 0.5 * (m - mu) * ((center.dim() as f64).sqrt() + radius);
        Self::new(LocalParts {
            center,
            radius,
            strong_convexity: mu,
            smoothness: m + (1.0 - radius).powi(-2),
            bias: 0.0,
            spread: spread * spread,
            tilt: 2.0 * spread,
            gradient_norm,
            provenance: curvature.provenance().clone(),
        })
    }

    /// The same for a gradient that is estimated from a batch of rows as well: R bounds E(1 + |u|²)|ξ(u)|² on the ball,
    /// ξ the error of the gradient at m + Cu, whose mean over batches is 0 (docs/maths.md, part F).
    pub fn with_row_noise(mut self, noise: f64) -> Result<Self, Error> {
        if !(noise >= 0.0 && noise.is_finite()) {
            return Err(Error::invalid(
                "the noise of row batches",
                noise,
                "a finite number of at least 0 is required",
            ));
        }
        self.rows = noise;
        Ok(self)
    }

    /// ŵ.
    pub fn center(&self) -> &Gaussian {
        &self.parts.center
    }

    /// r.
    pub fn radius(&self) -> f64 {
        self.parts.radius
    }

    /// μ_r.
    pub fn strong_convexity(&self) -> f64 {
        self.parts.strong_convexity
    }

    /// L: f(w) − f* ≤ L|w − w*|²/2 on the ball.
    pub fn smoothness(&self) -> f64 {
        self.parts.smoothness
    }

    /// |ŵ − w*|² ≤ (|∇f(ŵ)|/μ_r)².
    pub fn initial_distance_squared(&self) -> f64 {
        (self.parts.gradient_norm / self.parts.strong_convexity).powi(2)
    }

    /// A voucher for these constants, if they are not just estimated.
    pub fn vouched(&self) -> Option<Vouched> {
        self.parts.provenance.vouched()
    }

    pub(crate) fn one_step(&self, batch: usize) -> OneStep {
        OneStep::Ball {
            mu: self.parts.strong_convexity,
            smoothness: self.parts.smoothness,
            dim: self.parts.center.dim() as f64,
            bias: self.parts.bias,
            spread: self.parts.spread,
            tilt: self.parts.tilt,
            batch: batch as f64,
            rows: self.rows,
        }
    }
}
