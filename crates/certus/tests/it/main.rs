//! The core against the lemmas and theorems, closed forms and hard targets.
//! One binary, because each is linked with everything that the crate depends on.

mod auto;
mod certificates;
mod claims;
#[path = "../common/mod.rs"]
mod common;
mod estimators;
mod fits;
mod forecasts;
mod hard_targets;
mod here;
mod importance;
mod lemmas;
mod moving;
mod posterior;
mod structure;
mod theorems;
mod verdicts;
