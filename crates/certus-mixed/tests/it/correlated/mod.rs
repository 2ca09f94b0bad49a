//! Correlated effects of one factor against published data, quadrature by tensor grids and the models with one effect.

pub(crate) mod data;
mod estimates;
mod integrals;
mod profiles;
