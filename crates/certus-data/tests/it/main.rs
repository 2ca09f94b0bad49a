//! Columns to rows.
//! One binary, because each is linked with everything that the crate depends on.

#[path = "../common/mod.rs"]
mod common;
mod formula;
mod functions;
mod identifiers;
mod notation;
mod prepare;
mod scan;
