//! Group terms of models that are not linear, with several sds that are not given: their maximum likelihood estimate,
//! by the Laplace approximation or corrected (docs/mixed.md, X0 to X2), and for correlated effects of one group by sums
//! over lattices (G1 and G2); and what their posteriors need (P1).

mod correlated;
mod engine;
mod estimate;
mod likelihood;
mod model;

pub(crate) use correlated::{CorrelatedMixed, MOST_CORRELATED};
pub(crate) use model::CrossedMixed;
