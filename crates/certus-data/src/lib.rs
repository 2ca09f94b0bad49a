//! Columns to rows: what a user names in a table or a file becomes the leaves of numbers that models read, with every column that
//! was encoded, dropped or ignored accounted for by name.
//!
//! [`prepare`] reads a [`Source`] (a [`Table`] in memory or, with the feature `scan`, files through DataFusion) as a [`Spec`] asks and
//! gives a [`Prepared`]; its [`Encoding`] turns new data into rows of the same kind.
#![forbid(unsafe_code)]

mod account;
mod conflict;
mod effects;
mod encoding;
mod error;
mod identity;
mod kept;
mod leaves;
pub mod many;
mod matrix;
mod meaning;
mod mixed;
mod predict;
mod predict_mixed;
mod prepare;
mod prior;
mod problem;
mod profile;
mod resolve;
mod run;
mod scales;
#[cfg(feature = "scan")]
mod scan;
mod separation;
mod spec;
mod summary;
mod table;
mod theorems;
mod units;
mod unknowns;
mod varies;
mod varying;
pub mod verify;
mod way;

pub use effects::{GroupTable, Labels};
pub use encoding::{Coding, Encoded, Encoding, Feature, Group, How, Part};
pub use error::DataError;
pub use identity::Identity;
pub use leaves::Storage;
pub use meaning::{LISTED, Meaning, Place, Quantity, RowTerms};
pub use mixed::{Effects, Mixed};
pub use predict::{Prediction, predict, predict_draws};
pub use predict_mixed::{Groups, predict_mixed};
pub use prepare::{Left, Prepared, ResponseSummary, prepare, prepare_with};
pub use prior::{CoefficientPrior, DesignPrior};
pub use problem::{Fitted, Normal, Problem, Request, draws, on_user_scale};
pub use run::Asked;
pub use scales::{ScaleRequest, Scales};
#[cfg(feature = "scan")]
pub use scan::{FileSource, files_of};
pub use spec::{Family, Features, GroupSpec, Missing, Slopes, Spec, nearest};
pub use table::{Batch, Column, ColumnInfo, Kind, Source, Table};
pub use theorems::{BallFields, ConstantFields, CurvatureFields, FitPlan, MethodPlan, Theorems};
pub use unknowns::Unknowns;
pub use varies::{ScaleName, Varies, VaryingEffect};
pub use varying::{Ended, Progress, Varying};
pub use way::{Numbers, Way};
