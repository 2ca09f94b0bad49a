//! Likelihoods of regression models, one file per response: the loss φ(t) = −log p(y | t) of a linear predictor t,
//! proved bounds on its derivatives, and how it behaves in the complex plane, from which quadrature takes its error;
//! and Gaussian priors.
//!
//! A likelihood of your own implements [`Loss`], [`Bounds`] and [`Strip`] and can then be fitted like ours. What
//! follows from its constants is "declared by the user", because only the user has checked them.
#![forbid(unsafe_code)]

mod bounds;
#[cfg(test)]
mod checks;
mod draw;
mod error;
mod loss;
pub mod prior;
mod response;
mod sigmoid;
mod slices;
pub mod special;
mod strip;
mod vector;

pub use bounds::Bounds;
pub use error::Error;
pub use loss::{Datum, Loss, Moments};
pub use prior::Prior;
pub use response::{Auxiliary, Link, Values};
pub use slices::Slices;
pub use strip::Strip;

/// Everything a model requires of its likelihood; any type with these parts is one.
pub trait Likelihood: Loss + Bounds + Strip + Slices {}

impl<L: Loss + Bounds + Strip + Slices> Likelihood for L {}

/// What the models of this workspace share with the likelihoods, for internal use only.
#[doc(hidden)]
pub mod internals {
    use certus::Provenance;

    pub use crate::slices::{RUN, add_exactly};
    use crate::{Likelihood, loss::sealed};

    /// Who vouches for what a likelihood claims about its derivatives: the model, for those of this crate, else the
    /// user who wrote it.
    pub fn vouched_by(likelihood: &dyn Likelihood) -> Provenance {
        if likelihood.is_ours(sealed::Seal) {
            return certus::internals::by_model();
        }
        Provenance::DeclaredByUser(format!("the likelihood '{}'", likelihood.name()))
    }
}

// The responses: one file each, named here.
mod binomial;
mod linear;
mod logistic;
mod negative_binomial;
mod poisson;
mod probit;

response::responses! {
    linear::Linear,
    logistic::Logistic,
    binomial::Binomial,
    probit::Probit,
    poisson::Poisson,
    negative_binomial::NegativeBinomial,
}

/// The program of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
