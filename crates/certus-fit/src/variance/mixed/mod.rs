//! Linear mixed models: the model, its estimate by REML or ML with what is proved of it, and its posterior.

mod density;
mod engine;
mod estimate;
mod model;
mod proof;

pub(crate) use model::LinearMixed;
