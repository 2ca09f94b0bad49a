//! Rows by the value of a key column: which keys there are, and the rows of each, for one model per key.

mod gather;
mod keys;

pub use gather::{Gathered, OneGroup};
pub use keys::{Key, Keys};
