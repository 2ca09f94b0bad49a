//! Settings to results: problems, records, directories, reports.
//! One binary, because each is linked with everything that the crate depends on.

mod black_boxes;
mod calibration;
mod certified;
mod column_file;
#[path = "../common/mod.rs"]
mod common;
mod effects;
mod fit_directory;
mod many;
mod many_files;
mod priors;
mod problem;
mod record;
mod report;
mod scale_posterior;
mod several_posterior;
mod words;
