//! Generalised linear mixed models with any number of terms, nested or crossed, by maximum likelihood: the Laplace
//! approximation of lme4, and its correction by importance sampling after the largest factor is integrated out
//! (docs/mixed.md, X0 to X2).

mod at;
mod conditional;
mod corrected;
mod correction;
mod effects;
mod error;
mod fit;
mod fixed;
mod gradient;
mod group;
mod inner;
mod integral;
mod layout;
mod mode;
mod model;
mod nested;
mod points;
mod profile;
mod search;
mod start;

pub use at::{LikelihoodValue, kept_mode, likelihood_at, likelihood_drawn};
pub use corrected::Sampling;
pub use effects::{EffectsAt, deviation_len, deviations, effects_at, modes};
pub use error::Error;
pub use fit::{Correction, CrossedFit, Method, fit};
pub use model::{CrossedModel, Observation};
pub use nested::{ProvedLikelihood, proved_likelihood};
pub use profile::profiles;
pub use search::Watch;
