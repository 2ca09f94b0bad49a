//! Variance parameters that are not given: which there are and their priors (request, names), the models behind them
//! (model) and their engines behind one interface (engine: gridded, mixed/, crossed/; several is what the last two
//! share), the run, the variance they explain (explained), the mixture over them with its marginals and draws, profile
//! intervals (profiled), intervals with every rounding error (enclosed), posteriors of several of them (piloted/), and
//! effects over draws (corrected).

pub(crate) mod corrected;
pub(crate) mod crossed;
pub(crate) mod effect_rows;
pub(crate) mod enclosed;
pub(crate) mod engine;
pub(crate) mod explained;
pub(crate) mod gridded;
pub(crate) mod maximum;
pub(crate) mod mixed;
pub(crate) mod mixture;
pub(crate) mod model;
pub(crate) mod names;
pub(crate) mod piloted;
pub(crate) mod profiled;
pub(crate) mod request;
pub(crate) mod run;
pub(crate) mod several;
pub(crate) mod vectors;

pub use mixture::{Effects, MixturePosterior};
pub use model::ScaleModel;
pub use names::{RandomEffect, ScaleName, UnknownScales};
pub use request::{ScaleRequest, Scales};
pub use run::ScalesOutcome;
