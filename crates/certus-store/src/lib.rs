//! What a fit leaves on disk: the record, the Gaussian, draws, checkpoints, and the report.
//!
//! | file | what | module |
//! |---|---|---|
//! | `fit.json` | everything the fit says; docs/fit-json.md explains every field | [`record`] |
//! | `arrays.safetensors` | the Gaussian, to the bit | [`arrays`] |
//! | `settings.json`, `meaning.json` | what the user set, and what the latents mean: written and read by the caller | [`directory`] |
//! | `.run/checkpoint.0`, `.run/checkpoint.1` | two generations of a state to go on from | [`checkpoint`] |
//! | `groups.parquet` | effects of groups whose sd was not given | [`write_groups`] |
//! | `manifest.json` | length and SHA-256 of the files above but the checkpoints; without it there is no result | [`manifest`] |
//! | `report.html` | all of it for people | [`mod@report`] |
//! | `many.json`, `chunks/`, `fits.parquet` | many fits at once | [`many`] |
//! | draws and predictions, wherever the user wants them | Parquet or CSV | [`sheet`] |
//!
//! Every file is written whole or not at all, and a result is replaced as a whole ([`directory`]), but for those that only say who is alive ([`heartbeat`]). Nothing but `fit.json` and the report holds a time.

#![forbid(unsafe_code)]

pub mod arrays;
mod atomic;
pub mod checkpoint;
pub mod directory;
pub mod error;
#[cfg(feature = "parquet")]
pub mod grid;
#[cfg(feature = "parquet")]
mod groups;
pub mod heartbeat;
pub mod manifest;
#[cfg(feature = "parquet")]
pub mod many;
pub mod record;
pub mod report;
#[cfg(feature = "parquet")]
mod seal;
pub mod sheet;

pub use arrays::Arrays;
pub use checkpoint::{Checkpoints, Fingerprint, Kind, Timer};
pub use directory::FitDirectory;
pub use error::Error;
#[cfg(feature = "parquet")]
pub use groups::{groups_bytes, write_groups};
pub use heartbeat::Heartbeat;
pub use record::{Meta, Record};
pub use report::report;
pub use sheet::Sheet;
