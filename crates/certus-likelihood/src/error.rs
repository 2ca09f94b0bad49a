//! What can be wrong with a likelihood's parameter or a prior.

/// Every error of this crate: the value, and what is required of it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter of a likelihood outside its range.
    #[error("{name} is {value}, but a finite number above 0 is required")]
    Parameter {
        /// What it is called.
        name: &'static str,
        /// What it is.
        value: f64,
    },
    /// A name that is not one of a response.
    #[error("there is no model '{name}': use one of {known}")]
    NoSuchResponse {
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// A response that needs a parameter, or one that has none.
    #[error("there is no likelihood \"{response}\" with the parameter {parameter:?}")]
    Unknown {
        /// The request.
        response: String,
        /// Its parameter.
        parameter: Option<f64>,
    },
    /// Prior means and sds that do not belong together.
    #[error("{means} prior means but {sds} prior sds")]
    PriorLengths {
        /// Number of means.
        means: usize,
        /// Number of sds.
        sds: usize,
    },
    /// A prior sd outside its range.
    #[error("a prior sd is {0}, but a number above 0 (or infinity) is required")]
    PriorSd(f64),
    /// A prior mean outside its range.
    #[error("a prior mean is {0}, but a finite number is required")]
    PriorMean(f64),
    /// A precision matrix of the wrong size.
    #[error("a precision matrix for {coefficients} coefficients has {entries} entries")]
    PrecisionSize {
        /// Number of coefficients.
        coefficients: usize,
        /// Number of entries.
        entries: usize,
    },
    /// A precision matrix that is not symmetric.
    #[error("the prior precision matrix is not symmetric")]
    NotSymmetric,
    /// A precision matrix that is not positive definite.
    #[error("the prior precision matrix is not positive definite")]
    NotPositiveDefinite,
}
