//! Many processes: the leaves of one model's rows spread over ranks, so that any number of them gives the bits of one.
//!
//! [`manifest`] says who holds which leaves, [`exchange`] which partial sums travel so that they are combined in the
//! one fixed tree,
//! [`spread`] does both over a [`Transport`], and the module `mpi` (feature `mpi`) is the transport over MPI. Every
//! rank runs the same program; algorithms see [`certus_models::Ranks`] at most, and mostly not even that
//! (docs/scaling.md).

pub mod exchange;
pub mod manifest;
#[cfg(feature = "mpi")]
pub mod mpi;
pub mod spread;
pub mod transport;

pub use exchange::Exchange;
pub use spread::Spread;
pub use transport::Transport;
