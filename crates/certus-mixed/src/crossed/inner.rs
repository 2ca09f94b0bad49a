//! How the first factor is integrated out: by Gaussians at the joint mode, or by quadrature.

use super::group::{Along, Curvature, GroupView, Slopes};
use super::integral;
use super::mode;

/// How the first factor is integrated out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inner {
    /// By a Gaussian at the joint mode: the Laplace approximation of lme4.
    Mode,
    /// By quadrature.
    Integral,
}

impl Inner {
    pub(super) fn curvature(self, view: &GroupView<'_>) -> Curvature {
        match self {
            Self::Mode => mode::curvature(view),
            Self::Integral => integral::curvature(view),
        }
    }

    pub(super) fn slopes(self, view: &GroupView<'_>, p: &[f64]) -> Slopes {
        match self {
            Self::Mode => mode::slopes(view, p),
            Self::Integral => integral::slopes(view, p),
        }
    }

    pub(super) fn along(self, view: &GroupView<'_>, delta: &[f64]) -> Along {
        match self {
            Self::Mode => mode::along(view, delta),
            Self::Integral => integral::along(view, delta),
        }
    }
}
