//! Models that know their own curvature: generalised linear models with Gaussian priors whose constants are computed, not
//! guessed, whose ELBO is exact by one-dimensional quadrature, and whose optimum is found without sampling.
#![forbid(unsafe_code)]

pub mod auto;
pub mod certificate;
pub mod collapsed;
pub mod design;
pub mod envelope;
pub mod error;
pub mod exact;
pub mod expectation;
mod forest;
pub mod glm;
pub mod hierarchical;
pub mod laplace;
pub mod likelihood;
pub mod meanfield;
mod newton;
pub mod posterior;
pub mod prior;
pub mod ranks;
pub mod rows;
pub mod scales;
pub mod special;
pub mod subsampled;
pub mod verify;

pub use design::Design;
pub use envelope::{Envelope, EnvelopeSettings};
pub use error::Error;
pub use glm::Glm;
pub use hierarchical::{GroupTerm, Hierarchical};
pub use laplace::laplace;
pub use meanfield::MeanField;
pub use newton::ExactState;
pub use posterior::PosteriorSettings;
pub use prior::Prior;
pub use ranks::Ranks;
pub use rows::{Memory, Rows};

/// The programs of README.md.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
