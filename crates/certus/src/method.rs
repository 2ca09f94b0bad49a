//! The legal combinations of estimator, update and family of factors. Algorithms 1, 2 and 3 of the paper are
//! [`Method::prox_energy`], [`Method::proj_entropy`] and [`Method::proj_stl`]; one `step` runs them all.

use crate::error::Error;
use crate::estimator::{Estimator, Quadratic};
use crate::factor::Family;
use crate::gaussian::Gaussian;
use crate::update::Update;

/// An estimator and an update that a theorem allows together on a family of factors.
#[derive(Clone, Debug, PartialEq)]
pub struct Method {
    estimator: Estimator,
    update: Update,
}

impl Method {
    /// **Algorithm 1**, Prox-SGD with the energy estimator, triangular factors (or patterns, Theorem H):
    ///
    /// π = −∇ log p(m + C u),  m ← m − γπ,  Ĉ = C − γ tril(π uᵀ),  C_ii ← (Ĉ_ii + √(Ĉ_ii² + 4γ))/2.
    pub fn prox_energy() -> Self {
        Self { estimator: Estimator::Energy, update: Update::Prox }
    }

    /// **Algorithm 2**, Proj-SGD with the entropy estimator, symmetric factors:
    ///
    /// m ← m − γπ,  Ĉ = C − γ(π uᵀ − C⁻¹),  (Ĉ + Ĉᵀ)/2 = U D Uᵀ,  C ← U max(D, M^{−1/2}) Uᵀ.
    ///
    /// DIFFERENCE: D are eigenvalues, not the singular values the paper writes (A15).
    pub fn proj_entropy(smoothness: f64) -> Self {
        Self {
            estimator: Estimator::Entropy,
            update: Update::ProjectSpectrum { floor: 1.0 / smoothness.sqrt() },
        }
    }

    /// **Algorithm 3**, Proj-SGD with the sticking-the-landing estimator, symmetric factors:
    ///
    /// v = π − C⁻¹u,  m ← m − γv,  Ĉ = C − γ v uᵀ, then as in Algorithm 2.
    pub fn proj_stl(smoothness: f64) -> Self {
        Self {
            estimator: Estimator::StickingTheLanding,
            update: Update::ProjectSpectrum { floor: 1.0 / smoothness.sqrt() },
        }
    }

    /// Prox-SGD with the quadratic control variate of B6: unbiased and valid for triangular factors.
    pub fn prox_control_variate(quadratic: Quadratic) -> Self {
        Self { estimator: Estimator::ControlVariate(quadratic), update: Update::Prox }
    }

    /// Sticking the landing projected on a ball around a certified centre (Theorem G), any family.
    pub fn ball_stl(center: Gaussian, radius: f64) -> Self {
        Self {
            estimator: Estimator::StickingTheLanding,
            update: Update::ProjectBall { center: Box::new(center), radius },
        }
    }

    /// Any combination, refused with the reason if no theorem covers it.
    pub fn new(estimator: Estimator, update: Update, family: &Family) -> Result<Self, Error> {
        let method = Self { estimator, update };
        method.check(family)?;
        Ok(method)
    }

    /// Refuses a family for which this combination has no theorem.
    pub fn check(&self, family: &Family) -> Result<(), Error> {
        use Estimator::{ControlVariate, Energy, Entropy, StickingTheLanding};
        let triangular = !matches!(family, Family::Symmetric);
        let reason = match (&self.estimator, &self.update) {
            (Energy | ControlVariate(_), Update::Prox) if triangular => None,
            (Energy | ControlVariate(_), Update::Prox) => Some(
                "the closed-form prox moves the diagonal of a triangular factor; use lower-triangular factors",
            ),
            (Energy | ControlVariate(_), _) => Some(
                "this estimator estimates the gradient of l alone, so the entropy must enter by the prox",
            ),
            (Entropy | StickingTheLanding, Update::Prox) => Some(
                "the prox would count the entropy a second time; use a projection, or the energy estimator",
            ),
            (Entropy | StickingTheLanding, Update::ProjectSpectrum { .. }) if triangular => Some(
                "W_M is not convex for triangular factors (A14), so the projection theory does not hold; use symmetric \
                 factors, or a ball around a certified centre",
            ),
            (Entropy | StickingTheLanding, Update::ProjectSpectrum { .. }) => None,
            (Entropy, Update::ProjectBall { .. }) => {
                Some("the theorem for a ball is about sticking the landing; use that estimator")
            }
            (StickingTheLanding, Update::ProjectBall { center, radius }) => {
                if center.factor().family() != *family {
                    Some("the ball's centre lies in another family of factors")
                } else if *center.factor() != family.scaled_identity(center.dim(), 1.0) {
                    Some("the ball must be centred at the identity factor: work in the frame of its centre")
                } else if !(*radius > 0.0 && *radius < 1.0) {
                    Some("the radius must lie between 0 and 1, so that C stays positive definite")
                } else {
                    None
                }
            }
        };
        match reason {
            None => Ok(()),
            Some(reason) => Err(Error::IllegalMethod {
                combination: format!(
                    "{} estimator with {} and {} factors",
                    self.estimator.name(),
                    self.update.name(),
                    family.name()
                ),
                reason,
            }),
        }
    }

    /// The estimator.
    pub fn estimator(&self) -> &Estimator {
        &self.estimator
    }

    /// The update.
    pub fn update(&self) -> &Update {
        &self.update
    }
}
