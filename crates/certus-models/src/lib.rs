//! Models that know their own curvature: generalised linear models with Gaussian priors whose constants are computed,
//! not guessed, whose ELBO is exact by one-dimensional quadrature, and whose optimum is found without sampling.
#![forbid(unsafe_code)]

pub mod auto;
pub mod certificate;
pub mod claim;
pub mod design;
pub mod envelope;
pub mod error;
pub mod exact;
pub mod expectation;
mod forest;
pub mod glm;
pub mod hierarchical;
pub mod laplace;
mod matrix;
pub mod meanfield;
mod newton;
pub mod nuts;
pub mod posterior;
pub mod proof;
pub mod ranks;
pub mod rows;
pub mod subsampled;

/// The likelihoods, for programs that name no other crate.
pub use certus_likelihood as likelihood;
pub use certus_likelihood::Prior;
pub use design::Design;
pub use envelope::{Envelope, EnvelopeSettings};
pub use error::Error;
pub use glm::Glm;
pub use hierarchical::{GroupTerm, Hierarchical};
pub use laplace::laplace;
pub use meanfield::MeanField;
pub use newton::ExactState;
pub use posterior::PosteriorSettings;
pub use ranks::Ranks;
pub use rows::{Memory, Rows};

/// What other crates of this workspace share with the models, and nobody else needs.
#[doc(hidden)]
pub mod internals {
    pub use crate::design::DesignLeaf;
    pub use crate::glm::predictors;
    pub use crate::laplace::laplace_from;
    pub use crate::rows::Pool;
}

/// The programs of docs/rust.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rust.md")]
struct RustPage;

/// The program of docs/likelihoods.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/likelihoods.md")]
struct Likelihoods;

/// The program of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Own;
