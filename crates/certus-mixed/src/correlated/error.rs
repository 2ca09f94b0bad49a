//! What can be wrong with the rows of a model with correlated effects, or with its fit.

/// Every error of this module.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A number of effects per level that the lattice cannot do.
    #[error(
        "{effects} effects per level; 1 to {most} are possible, leave out slopes or make them independent (||)"
    )]
    Effects {
        /// Effects per level.
        effects: usize,
        /// The largest number possible.
        most: usize,
    },
    /// A row has the wrong number of effects or coefficients.
    #[error("row {row}: {found} {what}, expected {expected}")]
    Length {
        /// The row, counted from 0.
        row: usize,
        /// Effects or fixed effects.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// A level that the factor does not have.
    #[error("row {row}: level {level} of a factor with {levels} levels (0 to {})", levels.saturating_sub(1))]
    Level {
        /// The row, counted from 0.
        row: usize,
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
    /// A response that the likelihood does not allow.
    #[error("row {row}: {problem}")]
    Response {
        /// The row, counted from 0.
        row: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// There are no rows.
    #[error("there are no rows of positive weight; at least one is required")]
    NoRows,
    /// A prior of another number of coefficients.
    #[error("a prior of {found} coefficients for {expected} fixed effects; give one of each")]
    Prior {
        /// Coefficients of the prior.
        found: usize,
        /// Fixed effects.
        expected: usize,
    },
    /// A column of the fixed effects that is a combination of the columns before it.
    #[error(
        "fixed effect {column} (counted from 0) is a linear combination of the columns before it; leave it out"
    )]
    Collinear {
        /// The column.
        column: usize,
    },
    /// Effects that can hardly be told apart, or one whose column is 0.
    #[error(
        "the effects can hardly be told apart (condition number {condition:.0e}): a slope's column is far from 0 \
         compared with its spread, or 0; subtract a constant from it, or leave it out"
    )]
    IllConditioned {
        /// The condition number of the effects' cross-products.
        condition: f64,
    },
    /// A lattice of more nodes than can be visited.
    #[error(
        "level {level} needs {nodes:.1e} nodes (at most {most:.1e} are visited) at standard deviations {sds:?}; \
         rescale the effects, or use fewer of them"
    )]
    TooManyNodes {
        /// The level.
        level: usize,
        /// Nodes of its lattice.
        nodes: f64,
        /// The largest number visited.
        most: f64,
        /// Where.
        sds: Vec<f64>,
    },
    /// The likelihood could not be computed.
    #[error(
        "the likelihood is not finite at standard deviations {sds:?}; rescale the effects or the features"
    )]
    NotFinite {
        /// Where.
        sds: Vec<f64>,
    },
    /// Newton's method did not converge.
    #[error(
        "not converged after {iterations} steps (decrement {decrement:e}, standard deviations {sds:?}); a coefficient \
         without bound (separated responses) needs a prior; otherwise rescale the effects, or simplify the model"
    )]
    NotConverged {
        /// Steps made.
        iterations: usize,
        /// Newton's decrement at the end.
        decrement: f64,
        /// Standard deviations there.
        sds: Vec<f64>,
    },
    /// The user has stopped the run.
    #[error("stopped")]
    Stopped,
}
