//! Models with one factor whose levels have k ≤ 3 correlated effects, and any likelihood: every group is integrated
//! out by
//! a sum over a lattice with a proved error, and the likelihood is maximised by Newton's method with exact
//! derivatives
//! (docs/mixed.md, G1 and G2).
//!
//! ```
//! use std::sync::Arc;
//! use certus_likelihood::{Datum, Logistic, Prior};
//! use certus_mixed::correlated::{Design, Model, Row};
//! let y = [0., 1., 1., 0., 0., 1., 1., 1., 0., 0., 0., 1.];
//! let x = [-1.0, 0.0, 1.0];
//! let design = Design { levels: 4, effects: 2, fixed: 2 };
//! let z: Vec<[f64; 2]> = (0..12).map(|i| [1.0, x[i % 3]]).collect();
//! let rows = (0..12).map(|i| Row {
//!     level: (i / 3) as u32,
//!     effects: &z[i],
//!     fixed: &z[i],
//!     datum: Datum { y: y[i], trials: 1.0 },
//!     offset: 0.0,
//!     weight: 1.0,
//! });
//! let flat = Prior::independent(vec![0.0; 2], &[f64::INFINITY; 2])?;
//! let model = Model::new(design, rows, Arc::new(Logistic), flat)?;
//! // without effects, and with sds of 1 and a half
//! let (none, error) = model.log_likelihood(&[0.0, 0.0], &[0.0; 4])?;
//! assert!((none - 12.0 * 0.5f64.ln()).abs() < 1e-12 && error < 1e-9);
//! let (value, error) = model.log_likelihood(&[0.0, 0.0], &[1.0, 0.0, 0.0, 0.5])?;
//! assert!(error < 1e-8 && value < 0.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ball;
#[cfg(test)]
mod checks;
mod coordinate;
mod error;
mod errors;
mod evaluate;
mod fit;
mod lattice;
mod nodes;
mod profile;
mod rows;
mod search;
mod space;

pub use ball::{Ball, Proof, Unproved};
pub use error::Error;
pub use fit::{CorrelatedFit, LevelEffects, Quadrature};
pub use rows::{Design, Model, Row};
pub use search::Watch;
