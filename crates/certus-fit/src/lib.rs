//! The application behind every interface: a request and columns become a problem, a run, a result, its words and its
//! files.
//!
//! What a fit leaves on disk:
//!
//! | file | what | module |
//! |---|---|---|
//! | `fit.json` | everything the fit says; docs/fit-json.md explains every field | [`record`] |
//! | `arrays.safetensors` | the Gaussian, to the bit | [`arrays`] |
//! | `settings.json`, `meaning.json` | what the user set, and what the latents mean: written and read by the caller | [`directory`] |
//! | `.run/checkpoint.0`, `.run/checkpoint.1` | two generations of a state to resume from | [`checkpoint`] |
//! | `groups.parquet` | effects of groups, where they are not listed | [`GroupTable`] |
//! | `manifest.json` | length and SHA-256 of the files above but the checkpoints; without it there is no result | [`manifest`] |
//! | `report.html` | all of it as a page to read | [`mod@report`] |
//! | `many.json`, `chunks/`, `fits.parquet` | many fits at once | [`many`] |
//! | draws and predictions, wherever the user wants them | Parquet or CSV | [`column_file`] |
//!
//! Every file is written whole or not at all, and a result is replaced as a whole ([`directory`]), but for those that
//! only say who is alive ([`heartbeat`]). Nothing but `fit.json` and the report holds a time.

#![forbid(unsafe_code)]

pub mod arrays;
mod at_draws;
mod atomic;
pub mod checkpoint;
pub mod checks;
mod checksum;
pub mod choices;
mod coefficient_map;
mod coefficient_prior;
pub mod column_file;
mod compare;
mod conflict;
mod constant;
mod criticism;
pub mod directory;
mod effects;
mod embed;
pub mod error;
mod file_system;
mod fit;
pub mod grid;
mod groups;
pub mod heartbeat;
mod infinite;
mod joint_effects;
mod level;
mod linear_rows;
mod loo;
pub mod manifest;
pub mod many;
mod marginal;
mod meta;
mod method_choice;
mod number;
mod plan;
mod posterior;
mod posterior_draws;
mod ppc;
mod predict;
mod prior;
mod problem;
mod progress;
pub mod proof;
mod quantile;
pub mod record;
mod refusal;
pub mod report;
mod request;
mod route;
mod run;
mod separation;
mod settings;
mod settings_request;
mod sides;
mod simulate;
mod theorems;
mod variance;
pub mod verify;

pub use arrays::Arrays;
pub use certus_mixed::Stage;
pub use checkpoint::{Checkpoints, Fingerprint, Kind, Timer};
pub use checks::{Checks, Ppc, Statistic};
pub use coefficient_map::{CoefficientMap, LISTED, Place, Quantity, RowTerms};
pub use coefficient_prior::CoefficientPrior;
pub use column_file::ColumnFile;
pub use compare::{DevianceTest, ModelComparison, ModelRow};
pub use criticism::READ;
pub use directory::FitDirectory;
pub use error::{Error, ErrorKind, Inconsistency, Mismatch};
pub use fit::{Fit, extras, write_failed};
pub use groups::{EffectSource, GroupTable, Labels, own_coefficients};
pub use heartbeat::Heartbeat;
pub use level::RequiredLevel;
pub use linear_rows::LinearRows;
pub use loo::{Criterion, Loo, LooRow};
pub use marginal::{Certifying, Comparison, Contrast, Held, MarginalEffect, MarginalEffects, Question};
pub use meta::meta;
pub use method_choice::{MethodChoice, Numbers};
pub use posterior::{Compared, Marginal, PosteriorChoice, PosteriorTable};
pub use posterior_draws::PosteriorDraws;
pub use predict::{
    Groups, Levels, Prediction, Predictions, Responses, predict, predict_draws, predict_mixture,
    predict_posterior,
};
pub use prior::DesignPrior;
pub use problem::{ModelKind, Normal, Problem, draws, on_user_scale};
pub use progress::{RunObserver, RunProgress};
pub use record::{Meta, Record};
pub use refusal::{NeededBy, RequestError};
pub use report::report;
pub use request::Request;
pub use run::RunOutcome;
pub use settings::{Interface, Settings, duration};
pub use theorems::{BallFields, ConstantFields, CurvatureFields, FitPlan, MethodPlan, Theorems};
pub use variance::{
    Effects, MixturePosterior, RandomEffect, ScaleModel, ScaleName, ScaleRequest, Scales, ScalesOutcome,
    UnknownScales,
};

/// The names of all responses.
pub fn responses() -> Vec<&'static str> {
    certus_likelihood::Response::ALL.iter().map(|response| response.name()).collect()
}

/// Writes the manifest of the files of one fit or of many as they are now, for tests and tools that change a result on
/// purpose: it does not make a false result true, it only says that the change was intended. `certus verify` still
/// checks what the files state.
pub fn rewrite_manifest(directory: &std::path::Path) -> Result<(), Error> {
    if directory.join(manifest::MANY).exists() {
        return many::files::rewrite(directory);
    }
    directory::rewrite_manifest(directory)
}

/// The program of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
