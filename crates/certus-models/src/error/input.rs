//! What is wrong with the data or the model that were given.

/// Data that do not fit the model. Rows, columns and levels are counted from 0.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidData {
    /// Too few or too many entries of something that has one per row.
    #[error("{what} has {found} entries for {rows} rows")]
    Length {
        /// What is counted.
        what: String,
        /// Its entries.
        found: usize,
        /// The rows.
        rows: usize,
    },
    /// No rows, or no features.
    #[error("{rows} rows and {columns} features: at least one of each is required")]
    Empty {
        /// Number of rows.
        rows: usize,
        /// Number of features.
        columns: usize,
    },
    /// Neither a feature nor an intercept.
    #[error("there is no feature and no intercept, so nothing to estimate")]
    NoCoefficients,
    /// A feature that is not finite.
    #[error("row {row}, column {column} is {value}, but a finite number is required")]
    Feature {
        /// Its row.
        row: usize,
        /// Its column.
        column: usize,
        /// Its value.
        value: f64,
    },
    /// An offset or a weight out of range.
    #[error("row {row}: the {name} is {value}, but {required} is required")]
    OffsetOrWeight {
        /// Its row.
        row: usize,
        /// Which of the two.
        name: &'static str,
        /// Its value.
        value: f64,
        /// The range.
        required: &'static str,
    },
    /// A response that the likelihood rejects.
    #[error("row {row}: {reason}")]
    Response {
        /// Its row.
        row: usize,
        /// The response and what is required of it, from the likelihood.
        reason: String,
    },
    /// Something wrong in the rows of another rank, as its message: only text comes from there.
    #[error("{0}")]
    OtherRank(String),
    /// A level of a nested group term that belongs to two levels of the outer one.
    #[error("row {row}: level {level} of group term {term} lies in two levels of term {outer}")]
    Nesting {
        /// The row with the second outer level.
        row: usize,
        /// The level.
        level: usize,
        /// Its term.
        term: usize,
        /// The outer term.
        outer: usize,
    },
    /// Too few or too many numbers that centre and scale columns.
    #[error("{centers} centers and {scales} scales for {columns} columns: one of each is required")]
    Standardisation {
        /// Number of centres.
        centers: usize,
        /// Number of scales.
        scales: usize,
        /// Number of columns.
        columns: usize,
    },
    /// A centre or scale of a column out of range.
    #[error(
        "column {column} has the center {center} and the scale {scale}, but finite numbers and a scale above 0 are \
         required"
    )]
    Scale {
        /// The column.
        column: usize,
        /// Its centre.
        center: f64,
        /// Its scale.
        scale: f64,
    },
    /// A matrix with too few numbers for its shape.
    #[error("a {rows} × {columns} matrix with stride {stride} needs {needed} numbers, but there are {found}")]
    Matrix {
        /// Its rows.
        rows: usize,
        /// Its columns.
        columns: usize,
        /// From one row or column to the next.
        stride: usize,
        /// The numbers that this takes.
        needed: usize,
        /// The numbers that there are.
        found: usize,
    },
    /// A leaf that a source of rows did not pass on.
    #[error("the source of rows did not give leaf {leaf}")]
    LeafMissing {
        /// Its index.
        leaf: usize,
    },
    /// A leaf asked for on a rank that does not hold it.
    #[error("leaf {leaf} is kept by another rank")]
    LeafElsewhere {
        /// Its index.
        leaf: usize,
    },
    /// A leaf that could not be read back.
    #[error("leaf {leaf} of the scratch file can't be read: {error}")]
    LeafUnreadable {
        /// Its index.
        leaf: usize,
        /// Why.
        error: std::io::Error,
    },
    /// Numbers so large that the curvature overflows.
    #[error("the curvature of the model is not finite")]
    Curvature,
    /// A symmetric factor with an eigenvalue that is not above 0.
    #[error("the factor is not positive definite")]
    Indefinite,
}

/// A model, a setting or a Gaussian that cannot be used. Terms and coefficients are counted from 0.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidModel {
    /// A prior or a Gaussian over another number of coefficients than the model has.
    #[error("the model has {expected} coefficients, but {what} has {found}")]
    Coefficients {
        /// What is over them.
        what: &'static str,
        /// Those of the model.
        expected: usize,
        /// Those found.
        found: usize,
    },
    /// A coefficient that the model does not have.
    #[error("{what} names coefficient {index}, but there are {coefficients}, counted from 0")]
    Index {
        /// What names it.
        what: &'static str,
        /// The coefficient.
        index: usize,
        /// How many there are.
        coefficients: usize,
    },
    /// Another number of priors than there are scales.
    #[error("there are {scales} unknown scales, but {priors} priors for them")]
    ScalePriors {
        /// Number of scales.
        scales: usize,
        /// Number of priors.
        priors: usize,
    },
    /// A setting out of range.
    #[error("{name} is {value}, but {required} is required")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: f64,
        /// Its range.
        required: &'static str,
    },
    /// A start that is not one finite number per coefficient.
    #[error("the start must be {coefficients} finite numbers, one per coefficient")]
    Start {
        /// How many are required.
        coefficients: usize,
    },
    /// A Gaussian of another dimension, or one that is not proper.
    #[error("a proper Gaussian over {coefficients} coefficients is required")]
    Gaussian {
        /// The dimension that is required.
        coefficients: usize,
    },
    /// A Gaussian whose factor has another shape than the model's.
    #[error("the Gaussian must have {required}")]
    Factor {
        /// The shape that is required.
        required: &'static str,
    },
    /// Something that the model does not have, or has too much of.
    #[error("{what} requires {required}")]
    Requires {
        /// What was asked for.
        what: &'static str,
        /// What it takes.
        required: &'static str,
    },
    /// A choice that this model does not allow.
    #[error("{what}: {remedy}")]
    Unsupported {
        /// The choice, and why.
        what: String,
        /// What to do instead.
        remedy: &'static str,
    },
    /// Standard deviations of a group term out of range, or not one per slope.
    #[error("group term {term}: the sds {sds:?} must be finite numbers above 0, one per slope")]
    GroupSds {
        /// The term.
        term: usize,
        /// Its standard deviations.
        sds: Vec<f64>,
    },
    /// A group term without slopes, or with one that is not a feature.
    #[error("group term {term} must name at least one of the {columns} features, not {slopes:?}")]
    GroupSlopes {
        /// The term.
        term: usize,
        /// Number of features.
        columns: usize,
        /// The features it names.
        slopes: Vec<usize>,
    },
    /// A group term nested in a later term, or in one that another term is nested in.
    #[error("group term {term} must be the only one nested in an earlier term, not in {outer}")]
    GroupNesting {
        /// The term.
        term: usize,
        /// The outer term it names.
        outer: usize,
    },
    /// A combination of coefficients without a mean or a standard deviation under q.
    #[error(
        "combination {combination} (counted from 0) has the mean {mean} and the sd {sd} under q, but a finite mean \
         and an sd above 0 are required"
    )]
    Combination {
        /// The combination.
        combination: usize,
        /// Its mean.
        mean: f64,
        /// Its standard deviation.
        sd: f64,
    },
}
