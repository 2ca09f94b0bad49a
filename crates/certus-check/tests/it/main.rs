//! The checker against 60 digits, and against certificates that are true or not.
#![allow(clippy::unwrap_used)]

mod digits;
mod draws_judged;
mod hashes;
mod judge;
mod judged;
mod lines;
mod mixed_judged;
mod sd_digits;
mod sd_judged;
