//! R_γ, the map that follows a gradient step: the prox of γh, the projection on W_M, or the projection on a ball.

use crate::error::Error;
use crate::estimator::{Gradient, not_positive_definite};
use crate::factor::{Factor, Workspace};
use crate::gaussian::Gaussian;

/// What turns w − γ g into the next iterate.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// prox of γh for triangular factors and patterns: only the diagonal moves.
    Prox,
    /// Projection on W_M = {C symmetric, λ_min(C) ≥ floor}, floor = 1/√M.
    ProjectSpectrum {
        /// 1/√M.
        floor: f64,
    },
    /// Projection on {|w − center| ≤ radius}; no eigenvalues needed (math: section 2).
    ProjectBall {
        /// ŵ.
        center: Box<Gaussian>,
        /// r.
        radius: f64,
    },
}

impl Update {
    /// A short name for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Update::Prox => "prox",
            Update::ProjectSpectrum { .. } => "projection on W_M",
            Update::ProjectBall { .. } => "projection on a ball",
        }
    }

    /// w ← R_γ(w − γ g).
    pub fn apply(
        &self,
        w: &mut Gaussian,
        g: &Gradient,
        step_size: f64,
        workspace: &mut Workspace,
    ) -> Result<(), Error> {
        if let Update::Prox = self {
            // fused with the gradient step, so that a large pattern is read once
            let done = g.descend_then(w, step_size, workspace, &|c| prox(c, step_size));
            return if done { Ok(()) } else { Err(not_positive_definite()) };
        }
        if !g.descend(w, step_size, workspace) {
            return Err(not_positive_definite());
        }
        self.map(w, step_size, workspace)
    }

    /// w ← R_γ(w).
    pub fn map(&self, w: &mut Gaussian, step_size: f64, workspace: &mut Workspace) -> Result<(), Error> {
        match self {
            Update::Prox => w.parts_mut().1.map_diagonal(&|c| prox(c, step_size)),
            Update::ProjectSpectrum { floor } => {
                let Factor::Symmetric(c) = w.parts_mut().1 else {
                    unreachable!("Method::new admits this update for symmetric factors only");
                };
                let scratch = workspace.scratch(c.dim());
                if !c.clamp_eigenvalues(*floor, scratch) {
                    return Err(not_positive_definite());
                }
            }
            Update::ProjectBall { center, radius } => {
                let distance = w.distance_squared(center).sqrt();
                if distance > *radius {
                    w.move_towards(center, 1.0 - radius / distance);
                }
            }
        }
        Ok(())
    }
}

/// prox of −γ log at c: the x > 0 with x − c = γ/x, that is (c + √(c² + 4γ))/2.
///
/// For c < 0 that form cancels (A27): with s = (|c| + √(c² + 4γ))/2 the answer is s for c ≥ 0 and γ/s for c < 0. Where
/// the square would over- or underflow, the slower `hypot` takes the root.
pub fn prox(c: f64, step_size: f64) -> f64 {
    let square = c * c + 4.0 * step_size;
    let safe = square > 1e-290 && square < 1e300;
    let root = if safe { square.sqrt() } else { c.hypot(2.0 * step_size.sqrt()) };
    let s = 0.5 * c.abs() + 0.5 * root;
    if c >= 0.0 { s } else { step_size / s }
}
