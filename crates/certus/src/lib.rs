//! The mathematics of certus: fits a Gaussian to a Bayesian posterior and says how good the answer is, on whose word.
//!
//! [`auto()`] needs a target and a gap and nothing else. [`fit()`] runs the proximal and projected stochastic-gradient
//! methods of Domke, Garrigos and Gower ("Provable convergence guarantees for black-box variational inference") with
//! steps and bounds from the problem's own constants:
//!
//! ```rust
//! use certus::{Curvature, PointTarget, Provenance, Settings, TargetError, fit};
//!
//! struct Posterior; // N((1, 2), diag(1, 1/4))
//! impl PointTarget for Posterior {
//!     fn dim(&self) -> usize { 2 }
//!     fn log_density_at(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, TargetError> {
//!         gradient.copy_from_slice(&[1.0 - z[0], 4.0 * (2.0 - z[1])]);
//!         Ok(-0.5 * (z[0] - 1.0).powi(2) - 2.0 * (z[1] - 2.0).powi(2))
//!     }
//!     fn curvature(&self) -> Option<Curvature> {
//!         Curvature::new(1.0, 4.0, Provenance::DeclaredByUser("second derivatives".into())).ok()
//!     }
//! }
//!
//! let fit = fit(&Posterior, &Settings { tolerance: Some(0.1), iterations: 100_000, ..Settings::default() })?;
//! assert!(fit.guarantee.as_ref().is_ok_and(|g| g.bound() <= 0.1));
//! assert!((fit.gaussian.mean()[1] - 2.0).abs() < 0.3);
//! assert!(fit.to_string().contains("proved     E|w - w*|^2 <= 0.09923"));
//! # Ok::<(), certus::Error>(())
//! ```
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

#![forbid(unsafe_code)]

pub mod auto;
pub mod averaging;
pub mod bytes;
pub mod certificate;
pub mod combination;
pub mod diagnostics;
pub mod error;
pub mod estimator;
pub mod factor;
pub mod fit;
pub mod frame;
mod fresh;
pub mod gaussian;
#[doc(hidden)]
pub mod internals;
pub mod linalg;
pub mod method;
pub mod moving;
pub mod parallel;
pub mod random;
pub mod schedule;
pub mod target;
pub mod theorem;
pub mod update;

pub use auto::{Goal, Outcome, auto, auto_here, auto_observed, auto_resume};
pub use certificate::Certificate;
pub use error::{Error, Stopped, TargetError};
pub use factor::{Factor, Family, Tree};
pub use fit::{Fit, Forecast, MethodName, Plan, Settings, State, Status, StepRule, fit, fit_observed};
pub use gaussian::Gaussian;
pub use target::{Curvature, PointTarget, Provenance, Target};

/// The program of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
