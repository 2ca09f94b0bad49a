//! Linear mixed models: y = Xβ + Σ_f Z_f b_f + noise with any number of factors, nested or crossed, and any number of
//! effects per level, by REML or ML (docs/mixed.md, L0 to L3).
//!
//! Rows enter once, as [`Sums`] of cross-products that can be merged; [`Statistics`] are all that [`fit`] looks at.
//!
//! ```
//! use certus_mixed::linear::{Criterion, Design, Row, Statistics, Term, fit};
//! let y = [1.0, 1.4, 3.1, 2.9, 5.2, 5.0];
//! let level = [[0], [0], [1], [1], [2], [2]];
//! let design = Design { levels: vec![3], terms: vec![Term { factor: 0, effects: 1 }], fixed: 1 };
//! let rows = y.iter().zip(&level).map(|(&response, levels)| Row {
//!     levels,
//!     effects: &[1.0],
//!     fixed: &[1.0],
//!     response,
//!     weight: 1.0,
//! });
//! let fit = fit(&Statistics::from_rows(&design, rows)?, Criterion::Reml)?;
//! // a balanced layout: σ² is the mean square within groups
//! assert!((fit.sigma * fit.sigma - (0.08 + 0.02 + 0.02) / 3.0).abs() < 1e-9);
//! # Ok::<(), certus_mixed::linear::Error>(())
//! ```

mod ball;
mod blocks;
mod boundary;
pub(crate) mod chart;
mod components;
mod conditional;
mod derivatives;
mod deviations;
mod diagonal;
mod enclosure;
mod error;
mod fit;
mod global;
mod layout;
mod limit;
mod modes;
mod moments;
mod point;
mod profile;
mod proof;
mod relations;
mod residuals;
#[cfg(test)]
mod roots;
mod rounding;
#[cfg(test)]
pub(crate) mod sample;
mod search;
mod singular;
mod slopes;
pub(crate) mod small;
mod statistics;
mod sums;
mod uncertain;

pub use ball::{Ball, Unproved};
pub use conditional::{Coefficients, Conditional, EffectLaws};
pub use deviations::{deviation_len, deviations};
pub use error::Error;
pub use fit::{LinearMixedFit, TermFit, fit, fit_from};
pub use global::{Global, NotGlobal, global};
pub use layout::{Design, Term};
pub use modes::{Modes, level_covariances, modes};
pub use point::{Criterion, criterion_at};
pub use profile::{Scale, profile};
pub use proof::Proof;
pub use statistics::{LeastSquares, Statistics};
pub use sums::{Row, Sums};
