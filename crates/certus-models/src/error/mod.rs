//! What can go wrong with data and models. The variants of [`Error`] are the kinds that callers tell apart, by an exit
//! code or the end of a run; the enum inside each has the values, the place and the remedy.

mod input;
mod outcome;

pub use input::{InvalidData, InvalidModel};
pub use outcome::{Declined, NotFinite, TooLarge, Unidentified, Violated};

/// Every error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The data do not fit the model.
    #[error(transparent)]
    Data(#[from] InvalidData),
    /// A model, a setting, a prior or a Gaussian that cannot be used.
    #[error(transparent)]
    Model(#[from] InvalidModel),
    /// The posterior is not proper, or the data do not identify a coefficient with a flat prior.
    #[error("{reason}")]
    NotIdentified {
        /// Why.
        reason: Unidentified,
        /// The witness: a direction of the coefficients along which −log p does not grow, its largest entry ±1; empty
        /// if none was found.
        direction: Vec<f64>,
    },
    /// The exact route would need more memory than was given.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// A number that came out infinite or not a number.
    #[error(transparent)]
    NotFinite(#[from] NotFinite),
    /// A certificate that cannot be had for this model.
    #[error(transparent)]
    Declined(#[from] Declined),
    /// Something that a theorem rules out was seen.
    #[error(transparent)]
    Violated(#[from] Violated),
    /// An observer asked for an end, or the rows refuse to be read because the run must end now.
    #[error("stopped")]
    Stopped,
    /// A parameter of a likelihood, or a prior, outside its range.
    #[error(transparent)]
    Likelihood(#[from] certus_likelihood::Error),
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
        assert!(!target(InvalidData::LeafMissing { leaf: 3 }.into()).is_stopped());
        assert!(!Error::Core(certus::Error::Target("stopped".into())).is_stopped());
    }

    /// Messages that compute something of their fields.
    #[test]
    fn messages_say_what_their_fields_hold() {
        let iterations =
            |promised| Declined::Iterations { promised, rows: 5, gap: 1e-3, most: 100 }.to_string();
        for (message, words) in [
            (
                iterations(Some(700)),
                "700 iterations of 5 rows are proved to reach the gap of 0.001 nats, but at most 100",
            ),
            (iterations(None), "no number of iterations of 5 rows"),
            (
                TooLarge::Precision { stored: 9, widest: 3, needed: 5 << 20, allowed: 2 << 20 }.to_string(),
                "(the widest path has 3), which needs about 5 MB, but 2 MB were given; crossed",
            ),
            (
                Error::from(Declined::from(NotFinite::Curvature { coefficient: 2, value: f64::INFINITY }))
                    .to_string(),
                "the curvature along coefficient 2 (counted from 0) is inf: the numbers of its column",
            ),
        ] {
            assert!(message.contains(words), "{message}");
        }
    }
}
