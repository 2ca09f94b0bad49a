//! What a fit without settings is asked for, and what it answers.

use std::fmt;
use std::time::Duration;

use super::descent::MOST_GIVEN;
use super::verdict::Comparison;
use crate::certificate::{Certificate, Level, words};
use crate::diagnostics::Estimate;
use crate::error::Error;
use crate::fit::Status;
use crate::gaussian::Gaussian;
use crate::parallel::{MOST_THREADS, too_many};

/// The goal of a fit.
///
/// | field | default | purpose |
/// |---|---|---|
/// | `gap` | 0.01 | stop once f(w) − f* is known to be below, in nats, at the strongest level the target allows |
/// | `delta` | 0.01 | the probability that a probable statement may fail |
/// | `max_gradients` | from d, for black boxes | single-point gradients, whoever asks for them |
/// | `max_time` | none | a clock may stop a run, never steer it |
/// | `batch` | grows, for black boxes | draws of a step |
/// | `start` | the origin | where the search for the mode begins |
/// | `more_starts` | none | where the search for other modes of a black box begins, beside q's far tail |
/// | `seed`, `model_key` | 0 | the randomness |
/// | `threads` | the current pool | never changes the result |
#[derive(Clone, Debug)]
pub struct Goal {
    /// In nats.
    pub gap: f64,
    /// δ.
    pub delta: f64,
    /// How closely means (in sds) and sds (as a fraction) are to be compared with the posterior's, whatever that costs;
    /// `None`: to 0.1, if that takes seconds. It does not change the Gaussian.
    pub accuracy: Option<f64>,
    /// True if the gap is to be proved without allowances for rounding, where the model can do that.
    pub rigorous: bool,
    /// The most single-point gradients.
    pub max_gradients: Option<u64>,
    /// Stop after this long.
    pub max_time: Option<Duration>,
    /// Draws of every step of a black box, an even number; `None`: as many as the noise requires.
    pub batch: Option<usize>,
    /// Where the search for the mode begins.
    pub start: Option<Vec<f64>>,
    /// Where searches for other modes begin, beside the start and q's far tail.
    pub more_starts: Vec<Vec<f64>>,
    /// Seed.
    pub seed: u64,
    /// Tells apart many models that share a seed.
    pub model_key: u64,
    /// Threads; `None`: the current rayon pool.
    pub threads: Option<usize>,
}

impl Default for Goal {
    fn default() -> Self {
        Self {
            gap: 0.01,
            delta: 0.01,
            accuracy: None,
            rigorous: false,
            max_gradients: None,
            max_time: None,
            batch: None,
            start: None,
            more_starts: Vec::new(),
            seed: 0,
            model_key: 0,
            threads: None,
        }
    }
}

impl Goal {
    /// Refuses what cannot be meant.
    pub fn validate(&self) -> Result<(), Error> {
        if !(self.gap > 0.0 && self.gap.is_finite()) {
            return Err(Error::invalid("gap", self.gap, "a finite number of nats above 0 is required"));
        }
        if !(self.delta > 0.0 && self.delta < 1.0) {
            return Err(Error::invalid("delta", self.delta, "a probability between 0 and 1 is required"));
        }
        if let Some(accuracy) = self.accuracy.filter(|a| !(*a > 0.0 && a.is_finite())) {
            return Err(Error::invalid("accuracy", accuracy, "a finite number above 0 is required"));
        }
        if let Some(batch) = self.batch.filter(|batch| !(2..=MOST_GIVEN).contains(batch)) {
            return Err(Error::invalid("batch", batch, "from 2 to 2^20 draws are required"));
        }
        if self.threads == Some(0) {
            return Err(Error::invalid("threads", 0, "at least one thread is required"));
        }
        if let Some(threads) = self.threads.filter(|threads| *threads > MOST_THREADS) {
            return Err(too_many(threads));
        }
        Ok(())
    }
}

/// What was spent. A gradient is one single-point full-data gradient, whoever asked: mode, frame, steps, checks,
/// estimates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Single-point gradients.
    pub gradients: u64,
    /// Hessians at a point.
    pub hessians: u64,
    /// Passes that integrate over q exactly: gradients or values of f, certificates.
    pub exact_passes: u64,
}

/// One line of the record of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TracePoint {
    /// Since the run began.
    pub elapsed: Duration,
    /// Steps taken.
    pub iteration: u64,
    /// Single-point gradients spent.
    pub gradients: u64,
    /// f, if it was looked at.
    pub neg_elbo: Option<f64>,
    /// The bound on the gap, or its estimate, if there is one.
    pub bound: Option<f64>,
    /// Which of the two it is.
    pub level: Level,
}

impl TracePoint {
    /// What is known of the gap: "gap at most 0.021 nats", "gap about 0.02 nats (estimate, not checked)", "gap not
    /// bounded yet".
    pub fn words(&self) -> String {
        words::progress(self.bound, self.level)
    }
}

/// The result.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// One sentence about it.
    pub message: String,
    /// One line: what was chosen and why.
    pub route: String,
    /// The Gaussian.
    pub gaussian: Gaussian,
    /// f at it; the standard error is 0 where f is exact.
    pub neg_elbo: Estimate,
    /// What is known of it, and how well.
    pub certificate: Certificate,
    /// The shape of the tail of the importance weights, where draws were made.
    pub k_hat: Option<f64>,
    /// What the numbers of a black box are worth, and what that was decided by.
    pub comparison: Option<Comparison>,
    /// What was spent.
    pub counts: Counts,
    /// The record.
    pub trace: Vec<TracePoint>,
    /// The user's own error behind [`Status::UserError`].
    pub error: Option<std::sync::Arc<Error>>,
    /// How long it took.
    pub elapsed: Duration,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(comparison) = &self.comparison {
            writeln!(f, "verdict    {}", comparison.sentence())?;
        }
        writeln!(f, "status     {} ({})", self.status.as_str(), self.message)?;
        writeln!(f, "route      {}", self.route)?;
        write!(f, "{}", self.certificate)?;
        if let Some(k) = self.k_hat.filter(|_| self.comparison.is_none()) {
            let word = match k {
                k if k < 0.5 => "the importance weights are light-tailed",
                k if k < 0.7 => "the importance weights are usable",
                _ => "q misses parts of p: do not trust its tails and its spread",
            };
            writeln!(f, "k-hat      {k:.2} ({word})")?;
        }
        let Counts { gradients, hessians, exact_passes } = self.counts;
        let spent = [(gradients, "gradient"), (hessians, "Hessian"), (exact_passes, "exact pass")];
        writeln!(f, "spent      {}", spent.map(|(count, noun)| words::counted(count, noun)).join(", "))?;
        self.gaussian.write_table(f)
    }
}
