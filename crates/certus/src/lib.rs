#![doc = include_str!("../../../README.md")]
#![forbid(unsafe_code)]
//!
//! # The problem
//!
//! Given a log density log p(z, x) (the joint of a Bayesian model, seen as a function of the latents z ∈ ℝᵈ), find the
//! Gaussian q_w = N(m, C Cᵀ), w = (m, C), that minimises the negative ELBO
//!
//! ```text
//! f(w) = l(w) + h(w),    l(w) = −E_{z ~ q_w} log p(z, x),    h(w) = E_{z ~ q_w} log q_w(z) = −log det C + const.
//! ```
//!
//! f(w) − f* = KL(q_w ‖ p) − KL(q_w* ‖ p) is the *gap*, in nats. One iteration draws u, estimates the gradient at w and
//! sets w ← R_γ(w − γ g); everything else is choosing R, g and γ legally and saying what follows.
//!
//! | noun | module |
//! |---|---|
//! | log density, curvature and who vouches for it | [`target`] |
//! | w = (m, C), spaces of factors | [`gaussian`], [`factor`] |
//! | g: energy, entropy, sticking the landing, control variate | [`estimator`] |
//! | R: prox, projections | [`update`] |
//! | γ, averages of iterates | [`schedule`], [`averaging`] |
//! | legal combinations: Algorithms 1, 2 and 3 | [`method`] |
//! | constants, bounds, iteration counts | [`theorem`] |
//! | affine change of variables | [`frame`] |
//! | settings → plan → `step` on a state → fit | [`mod@fit`] |
//! | the fit that needs no settings: a goal → an outcome | [`mod@auto`], [`moving`] |
//! | what is proved, probable, estimated of a fit | [`certificate`] |
//! | Monte-Carlo estimates with standard errors | [`diagnostics`] |
//! | saved states of whatever steps | [`bytes`] |
//! | randomness and threads that never change the result | [`random`], [`parallel`] |
//! | dense operations on column-major slices, for crates built on this one | [`linalg`] |
//!
//! Labels such as A15, B5 or Theorem G refer to `docs/maths.md` in the repository, which states and proves them.

pub mod auto;
pub mod averaging;
pub mod bytes;
pub mod certificate;
pub mod diagnostics;
pub mod error;
pub mod estimator;
pub mod factor;
pub mod fit;
pub mod frame;
mod fresh;
pub mod gaussian;
pub mod linalg;
pub mod method;
pub mod moving;
pub mod parallel;
pub mod random;
pub mod schedule;
pub mod target;
pub mod theorem;
pub mod update;

pub use auto::{Goal, Outcome, auto, auto_observed, auto_resume};
pub use certificate::Certificate;
pub use error::{Error, TargetError};
pub use factor::{Factor, Family, Tree};
pub use fit::{Fit, MethodName, Plan, Settings, State, Status, StepRule, fit, fit_observed};
pub use gaussian::Gaussian;
pub use target::{Curvature, PointTarget, Provenance, Target};
