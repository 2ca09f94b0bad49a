//! The posterior of a model whose scales are given: what is printed of it, and how far that may be off. A ladder of
//! sources, of which the first that is accurate enough is taken.

mod gaussian;
mod ladder;
mod table;

pub use ladder::{Compared, PosteriorChoice};
pub(crate) use ladder::{SHORT, UNFINISHED};
pub use table::{Marginal, PosteriorTable};
