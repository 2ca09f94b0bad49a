//! Scales that are not known (the noise of linear models, the dispersion of counts, beside the sd of groups): the same
//! outer problem for all, over one or two of them (docs/collapsed.md, parts K8 and K9).
//!
//! A model says what is left when its scales are given: F_p(x) = min_β F(β, x), where the minimum is and how F
//! curves there. Here the scales are estimated, or integrated over on a lattice.

mod confirm;
mod crossed;
mod dispersion;
mod estimate;
mod evaluator;
mod grid;
mod lattice;
mod linear;
mod search;
mod starting_points;

pub use confirm::{confirm, confirm_excluded, weights_differ};
pub use crossed::Crossed;
pub use dispersion::Dispersion;
pub(crate) use dispersion::dispersed;
pub use estimate::{ScalesEstimate, ScalesMaximum, estimate, estimate_observed};
pub use grid::{Grid, Sampler, ScaleLaw};
pub use lattice::{AGREE, ScaleMixture, posterior, posterior_observed};
pub use linear::{Grouping, LinearNoise};

use certus_models::Error;

/// How well β̂ must be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// To rounding, as differences of F_p are taken.
    Full,
    /// As far as a density needs it.
    Density,
}

/// What is known of β when the scales are given.
#[derive(Clone, Debug)]
pub struct ConditionalFit {
    /// β̂, the minimum of F.
    pub beta: Vec<f64>,
    /// F there: minus the log likelihood, minus the log prior of β.
    pub value: f64,
    /// The log likelihood there.
    pub log_likelihood: f64,
    /// Lower factor of the inverse of the Hessian H.
    pub lower: Vec<f64>,
    /// log det H.
    pub log_det: f64,
    /// Bound on the error of F by quadrature, 0 where there is none; infinite where none is proved.
    pub error: f64,
    /// Evaluations of F.
    pub evaluations: usize,
}

/// A model with one or two unknown scales.
pub trait ScaleProblem: Sync {
    /// Coefficients.
    fn dim(&self) -> usize;

    /// The scales' names, in the order of [`Self::log_scales`].
    fn names(&self) -> &'static [&'static str];

    /// Where to begin: coordinates x, as many as scales.
    fn start(&self) -> Vec<f64>;

    /// The logarithms of the scales at x: a linear map with determinant ±1, the identity unless said otherwise.
    fn log_scales(&self, x: &[f64]) -> Vec<f64> {
        x.to_vec()
    }

    /// The other way round.
    fn at_logs(&self, logs: &[f64]) -> Vec<f64> {
        logs.to_vec()
    }

    /// Coordinates below which nothing changes any more: scale 0.
    fn floor(&self) -> Vec<f64>;

    /// The range of every coordinate that is searched for maxima; nothing if the search has one start alone.
    fn range(&self) -> Vec<[f64; 2]> {
        Vec::new()
    }

    /// For one scale: a bound on F_p(b) − F_p(x) for all x from a to b (Theorem K12), if there is one.
    fn fall(&self, _b: f64, _a: f64) -> Option<f64> {
        None
    }

    /// β̂ at x, from a start.
    fn conditional_fit(&self, x: &[f64], start: &[f64], care: Care) -> Result<ConditionalFit, Error>;

    /// Proved bounds of F_p(x) from below and above, from a β near the minimum; or why there are none.
    fn bracket(&self, x: &[f64], beta: &[f64]) -> Result<[f64; 2], String>;
}
