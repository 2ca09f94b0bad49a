//! What can be wrong with the rows or the design of a linear mixed model.

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
    #[error("a mixed model needs a term with group effects; use a linear model without groups instead")]
    NoTerm,
    /// The dense parts of the model are too large.
    #[error(
        "{columns} columns of group effects remain after the largest factor is eliminated, up to {largest} of \
         them connected by common groups: that takes {numbers} numbers, and at most {limit} are possible; leave out a \
         factor, or use fewer levels"
    )]
    TooLarge {
        /// Columns of the factors that are not eliminated.
        columns: usize,
        /// Columns of the largest connected component.
        largest: usize,
        /// The squares of the components' sizes, summed up.
        numbers: usize,
        /// The largest sum possible.
        limit: usize,
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
    /// Sums of different designs, or around different coefficients.
    #[error("sums of different designs or different base coefficients cannot be merged")]
    Merge,
    /// A column of the fixed effects that is a combination of the columns before it.
    #[error(
        "fixed effect {column} (counted from 0) is a linear combination of the columns before it; leave it out"
    )]
    Collinear {
        /// The column.
        column: usize,
    },
    /// Not more rows than fixed effects.
    #[error("{rows} rows for {fixed} fixed effects; at least {} are required", fixed + 1)]
    TooFewRows {
        /// Rows.
        rows: usize,
        /// Fixed effects.
        fixed: usize,
    },
    /// An effect that fixed effects explain completely, so that REML says nothing about its standard deviation.
    #[error(
        "term {term}, effect {effect}: the fixed effects explain its columns completely, \
         so its standard deviation is not identified; leave the term out"
    )]
    Confounded {
        /// The term.
        term: usize,
        /// The effect within it.
        effect: usize,
    },
    /// Effects that can hardly be told apart.
    #[error(
        "term {term}: its effects can hardly be told apart (condition number {condition:.0e}): a slope's column is far \
         from 0 compared with its spread; subtract a constant from it"
    )]
    IllConditioned {
        /// The term.
        term: usize,
        /// The condition number of the effects of its factor.
        condition: f64,
    },
    /// As many effects as rows: they cannot be told from the noise.
    #[error(
        "term {term} has {columns} effects for {rows} rows and cannot be told from the noise; leave it out"
    )]
    AsManyAsRows {
        /// The term.
        term: usize,
        /// Levels times effects.
        columns: usize,
        /// Rows.
        rows: usize,
    },
    /// The criterion could not be computed.
    #[error(
        "the criterion is not finite at relative standard deviations {sds:?}; rescale the effects or the response"
    )]
    NotFinite {
        /// Where.
        sds: Vec<f64>,
    },
    /// The response is fitted without error.
    #[error("the fixed effects fit the response without error, so no standard deviation can be estimated")]
    PerfectFit,
    /// Newton's method did not converge.
    #[error(
        "not converged after {iterations} steps (decrement {decrement:e}); rescale the effects, or simplify the terms"
    )]
    NotConverged {
        /// Steps made.
        iterations: usize,
        /// Newton's decrement at the end.
        decrement: f64,
    },
}
