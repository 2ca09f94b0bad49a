//! What is printed of the posterior, and how far that may be off: a ladder of sources, of which the first that is
//! accurate enough is taken. Of a model whose scales are not given, draws with the groups integrated out.

mod black_box;
mod chains;
mod choice;
mod forecast;
mod gaussian;
mod ladder;
mod scale_table;
mod scales;
mod table;

pub(crate) use chains::accurate;
pub use choice::PosteriorChoice;
pub use ladder::Compared;
pub(crate) use ladder::{SHORT, UNFINISHED};
pub use table::{Marginal, PosteriorTable};
