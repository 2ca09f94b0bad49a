//! The models against closed forms, quadrature and references.
//! One binary, because each is linked with everything that the crate depends on.

mod auto;
mod benchmarks;
mod certificates;
mod chain;
#[path = "../common/mod.rs"]
mod common;
mod envelope;
mod forecasts;
mod hierarchical;
mod meanfield;
mod models;
mod nuts;
mod outside;
mod posterior;
mod rust_page;
mod solver;
mod subsampled;
mod verify;
mod weights;
