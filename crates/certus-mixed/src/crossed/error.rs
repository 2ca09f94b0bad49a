//! What can be wrong with the rows or the design of a generalised linear mixed model.

/// Every error of this module.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A term names a factor that is not there, or has no effects.
    #[error(
        "term {term}: factor {factor} with {effects} effects; name one of the {factors} factors, with effects ≥ 1"
    )]
    Term {
        /// The term, counted from 0.
        term: usize,
        /// The factor it names.
        factor: usize,
        /// Its effects per level.
        effects: usize,
        /// The number of factors.
        factors: usize,
    },
    /// There is no term.
    #[error("a mixed model needs a term with group effects; use a model without groups instead")]
    NoTerm,
    /// No row.
    #[error("there are no rows; at least {required} are required")]
    NoRow {
        /// What is required.
        required: usize,
    },
    /// A row has the wrong number of levels, effects or coefficients.
    #[error("row {row}: {found} {what}, expected {expected}")]
    Length {
        /// The row, counted from 0.
        row: usize,
        /// Levels, effects or fixed effects.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// A level that the factor does not have.
    #[error(
        "row {row}: level {level} of factor {factor}, which has {levels} levels (0 to {})",
        levels.saturating_sub(1)
    )]
    Level {
        /// The row, counted from 0.
        row: usize,
        /// The factor.
        factor: usize,
        /// The level found.
        level: u32,
        /// The number of levels.
        levels: usize,
    },
    /// A number of a row that cannot be used.
    #[error("row {row}: {what} is {value}; {required}")]
    Value {
        /// The row, counted from 0.
        row: usize,
        /// Which number.
        what: &'static str,
        /// Its value.
        value: f64,
        /// What is possible.
        required: &'static str,
    },
    /// A response that the likelihood cannot have.
    #[error("row {row}: {reason}")]
    Response {
        /// The row, counted from 0.
        row: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The dense part of the model is too large.
    #[error(
        "{columns} effects of one connected part remain after the largest factor is integrated out, \
         at most {limit} are possible; leave out a factor, or use fewer levels"
    )]
    TooLarge {
        /// Effects that are not integrated out level by level.
        columns: usize,
        /// The largest number possible.
        limit: usize,
    },
    /// No factor can be integrated out.
    #[error(
        "every grouping factor has more than {most} effects per level, so that none can be integrated out; \
         use fewer effects for one of them, or the Laplace approximation (--scales laplace)"
    )]
    NothingToCollapse {
        /// Effects per level that can be integrated out.
        most: usize,
    },
    /// Columns of the fixed effects that are not linearly independent.
    #[error(
        "fixed effect {column} (counted from 0) is a linear combination of the columns before it; leave it out"
    )]
    Collinear {
        /// The column.
        column: usize,
    },
    /// The mode of the effects was not found.
    #[error(
        "the conditional mode of the effects was not found in {iterations} steps at standard deviations {sds:?}; \
         rescale the effects"
    )]
    NoMode {
        /// Steps made.
        iterations: usize,
        /// Standard deviations of the effects.
        sds: Vec<f64>,
    },
    /// The criterion could not be computed.
    #[error("the criterion is not finite at standard deviations {sds:?}; rescale the effects")]
    NotFinite {
        /// Standard deviations of the effects.
        sds: Vec<f64>,
    },
    /// The search for the maximum did not converge.
    #[error(
        "not converged after {iterations} steps (decrement {decrement:e}, standard deviations {sds:?}); \
         if a coefficient or a standard deviation grows without end, the response is separated: \
         leave out what separates it"
    )]
    NotConverged {
        /// Steps made.
        iterations: usize,
        /// Newton's decrement at the end.
        decrement: f64,
        /// Standard deviations of the effects.
        sds: Vec<f64>,
    },
    /// Draws that cannot be used.
    #[error("{draws} draws; a multiple of 4 between 32 and 65536 is required")]
    Draws {
        /// The number asked for.
        draws: usize,
    },
    /// The run was asked to stop.
    #[error("stopped")]
    Stopped,
}
