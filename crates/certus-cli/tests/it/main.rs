//! The real binary on real files.
//! One binary, because each is linked with everything that the crate depends on.

mod cli;
#[path = "../common/mod.rs"]
mod common;
mod crossed;
mod docs;
mod effects;
mod factor;
mod files;
mod formula;
mod given;
mod groups;
mod loo;
mod many;
mod mixed;
mod observations;
mod plan;
mod posterior;
mod ppc;
mod predict;
mod priors;
mod proofs;
mod rigorous;
mod scales;
mod simulate;
mod verify_edits;
mod words;
