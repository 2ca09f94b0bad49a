//! A fit that needs no settings: give a target and a gap.

mod outcome;

pub use outcome::{Counts, Goal, Outcome, TracePoint};
