//! What can go wrong with data and models.

/// Every error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The data do not fit the model: which value, in which row, and what is required.
    #[error("{0}")]
    Data(String),
    /// A hyperparameter or prior outside its range.
    #[error("{0}")]
    Model(String),
    /// The posterior is not proper, or the data do not identify a coefficient with a flat prior.
    #[error("{reason}")]
    NotIdentified {
        /// Why.
        reason: String,
        /// The witness: a direction of the coefficients along which −log p does not grow, its largest entry ±1; empty if none was found.
        direction: Vec<f64>,
    },
    /// The exact route would need more memory than was given; the figure is in the message.
    #[error("{0}")]
    TooLarge(String),
    /// A number that came out infinite or not a number, and where.
    #[error("{0}")]
    NotFinite(String),
    /// A certificate that cannot be had for this model; the figure that decides is in the message.
    #[error("{0}")]
    Declined(String),
    /// Something that a theorem rules out was seen: the witness is in the message. A defect, of the library or of a user's likelihood.
    #[error("{0}")]
    Violated(String),
    /// Whoever watched asked for an end.
    #[error("stopped")]
    Stopped,
    /// From the core.
    #[error(transparent)]
    Core(#[from] certus::Error),
}
