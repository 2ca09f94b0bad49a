//! Columns to rows: what a user names in a table or a file becomes the leaves of numbers that models read, with every
//! column that was encoded, dropped or ignored accounted for by name.
//!
//! [`prepare`](prepare()) reads a [`Source`] (a [`Table`] in memory or, with the feature `scan`, files through
//! DataFusion) as a [`Spec`] asks and gives a [`Prepared`]; its [`Encoding`] turns new data into rows of the same kind.
#![forbid(unsafe_code)]

mod basis;
pub mod by_key;
mod complete;
pub mod encoding;
mod error;
mod event;
pub mod formula;
mod identifiers;
mod identity;
mod inputs;
mod kind;
mod layout;
pub mod leaves;
mod left;
mod levels;
mod matrix;
mod names;
mod nearest;
mod nested;
mod notes;
pub mod prepare;
pub mod profile;
mod reader;
#[cfg(feature = "scan")]
mod scan;
pub mod spec;
pub mod summary;
pub mod table;
pub mod terms;
pub mod units;

pub use basis::FittedBasis;
pub use complete::{is_chosen, labels};
pub use encoding::{Coding, ColumnEncoding, Encoded, Encoding, Feature, Gaps, Group, Part};
pub use error::{
    ColumnError, DataError, Difference, ErrorKind, FileError, MissingIn, NoFeature, SpecError, Subject,
    Unavailable,
};
pub use event::Event;
pub use formula::{Fault, Formula, FormulaError, Offset};
pub use identity::Identity;
pub use leaves::Storage;
pub use left::UnusedColumn;
pub use names::quoted;
pub use nearest::nearest;
pub use prepare::{Prepared, prepare, prepare_with};
#[cfg(feature = "scan")]
pub use scan::{Described, FileOptions, FileSource, ReadLimits, files_of, wire};
pub use spec::{Categorical, Features, GroupSpec, Missing, Slopes, Spec};
pub use summary::ResponseSummary;
pub use table::{Batch, Column, ColumnInfo, Kind, Source, Table};

/// The program of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
