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
    /// An observer asked for an end, or the rows refuse to be read because the run must end now.
    #[error("stopped")]
    Stopped,
    /// From the core.
    #[error(transparent)]
    Core(#[from] certus::Error),
}

impl Error {
    /// True for [`Error::Stopped`], also where it comes back from the core as the error of a target.
    pub fn is_stopped(&self) -> bool {
        match self {
            Self::Stopped => true,
            Self::Core(error) => stopped(error),
            _ => false,
        }
    }
}

/// True if the target of a run failed with [`Error::Stopped`].
pub(crate) fn stopped(error: &certus::Error) -> bool {
    let certus::Error::Target(inner) = error else { return false };
    inner.downcast_ref::<Error>().is_some_and(Error::is_stopped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_are_recognised_on_every_way_back() {
        let target = |error: Error| Error::Core(certus::Error::Target(Box::new(error)));
        assert!(Error::Stopped.is_stopped());
        assert!(target(Error::Stopped).is_stopped());
        assert!(target(target(Error::Stopped)).is_stopped());
        assert!(!target(Error::Data("row 3".into())).is_stopped());
        assert!(!Error::Core(certus::Error::Target("stopped".into())).is_stopped());
    }
}
