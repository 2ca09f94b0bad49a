//! Mixed models whose variance parameters are not known: group effects are integrated out with proved errors
//! ([`collapsed`]), noise, dispersion and crossed factors searched over the same models ([`scales`]), and the posterior
//! of coefficients and scales drawn from ([`density`]). A run saves itself as the [`Journal`] of its evaluations.
#![forbid(unsafe_code)]

pub mod collapsed;
pub mod correlated;
pub mod crossed;
pub mod density;
mod ends;
mod evaluations;
mod journal;
pub mod linear;
pub mod scales;

pub use ends::Interval as ProfileInterval;
pub use evaluations::{Evaluation, ScaleObserver, Stage};
pub use journal::Journal;
