//! How far a Gaussian is from the posterior of a generalised linear model: in closed form where that is Gaussian (D7),
//! else by the envelope (D6) where it can be had, else by the better of the log-Sobolev bounds on a ball (D5) and on
//! all of space (D3).

mod global;
mod local;
mod quadratic;
mod weights;

use certus::Gaussian;
use certus::certificate::{Level, Posterior};

use crate::envelope::{self, EnvelopeSettings};
use crate::error::Error;
use crate::exact::lower;
use crate::glm::Glm;

pub use global::global;
pub use local::local;
pub use quadratic::by_gap;
pub use weights::{
    FunctionGoal, Printed, Weighed, WeightGoal, enclosed_functions, first_draws, sixteen_pairs,
    smallest_attempts, weights,
};

/// How many draws, and how sure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PosteriorSettings {
    /// Draws of each certificate, fixed beforehand.
    pub draws: usize,
    /// What is stated holds, all of it, with probability at least 1 − δ.
    pub delta: f64,
    /// Fresh draws: q must not have been chosen with draws for checks of this seed.
    pub seed: u64,
}

impl Default for PosteriorSettings {
    fn default() -> Self {
        Self { draws: 100_000, delta: 1e-6, seed: 0 }
    }
}

impl PosteriorSettings {
    fn check(&self, q: &Gaussian, dim: usize) -> Result<(), Error> {
        envelope::check(q, dim, self.delta, "the number of draws", self.draws)
    }
}

impl Glm {
    /// KL(q ‖ p), the evidence, and the errors of means and sds, from the best certificate that can be had;
    /// `Posterior::none` with every reason where none can. The errors are those of the coefficients of this model, one
    /// by one.
    ///
    /// Where the posterior is Gaussian nothing is drawn (D7). Else D6 gets half of δ because it may decline after it
    /// has seen its draws; D5 and D3 a quarter each, because the better one is chosen after they were made.
    pub fn posterior(&self, q: &Gaussian, settings: &PosteriorSettings) -> Result<Posterior, Error> {
        self.compared(q, None, settings)
    }

    /// The same of linear combinations of the coefficients, each as (coefficient, weight): what is said of every mean
    /// and sd is said of these. D3, D5 and D7 speak of every combination anyway; D6 brackets the ones that it is given.
    pub fn posterior_of(
        &self,
        q: &Gaussian,
        combinations: &[Vec<(usize, f64)>],
        settings: &PosteriorSettings,
    ) -> Result<Posterior, Error> {
        self.compared(q, Some(combinations), settings)
    }

    fn compared(
        &self,
        q: &Gaussian,
        combinations: Option<&[Vec<(usize, f64)>]>,
        settings: &PosteriorSettings,
    ) -> Result<Posterior, Error> {
        settings.check(q, self.dim())?;
        let q = lower(q)?;
        if self.likelihood.is_quadratic() {
            let found = quadratic::in_closed_form(self, &q)?;
            if found.statement.bound().is_some() {
                return Ok(found);
            }
        }
        let PosteriorSettings { draws: proposals, delta, seed } = *settings;
        let half = EnvelopeSettings { proposals, delta: 0.5 * delta, seed, keep: 0 };
        let declined = match self.enveloped(&q, combinations, &half) {
            Ok(envelope) => return Ok(envelope.posterior.at_probability(delta)),
            Err(Error::Declined(declined)) => declined.to_string(),
            Err(error) => return Err(error),
        };
        let quarter = PosteriorSettings { delta: 0.25 * delta, ..*settings };
        let (near, far) = (local(self, &q, &quarter)?, global(self, &q, &quarter)?);
        let reasons = [
            ("D6", Some(declined.as_str())),
            ("D5", near.statement.reason()),
            ("D3", far.statement.reason()),
        ]
        .into_iter()
        .filter_map(|(name, reason)| reason.map(|r| format!("{name}: {r}")))
        .collect::<Vec<_>>()
        .join("; ");
        let best = near.statement.clone().or(far.statement.clone());
        if best.level() == Level::None {
            return Ok(Posterior::none(reasons));
        }
        let chosen = if best == near.statement { near } else { far };
        let mut posterior = chosen.at_probability(delta);
        posterior.statement = posterior.statement.because(reasons);
        Ok(posterior)
    }
}
