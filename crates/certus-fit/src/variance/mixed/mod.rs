//! Linear mixed models: the model, its estimate by REML or ML with what is proved of it, its posterior, and what is in
//! closed form where sds are given.

mod density;
mod engine;
mod estimate;
mod given;
mod model;
mod proof;

pub(crate) use given::{GivenMixed, integrated};
pub(crate) use model::LinearMixed;
