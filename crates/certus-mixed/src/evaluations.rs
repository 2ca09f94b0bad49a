//! The evaluations of a run over unknown scales: counted, recorded in the journal, shown to the observer, and ended
//! when it says so.

use std::ops::ControlFlow;

use certus_models::Error;

use crate::journal::Journal;

/// What a run is doing, in the order of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The maximum over the coefficients and the scales.
    Estimate,
    /// The interval that is proved to hold it.
    Interval,
    /// Profile intervals.
    Profile,
    /// The grid of scales.
    Posterior,
    /// The effects of the groups, which need no further evaluation.
    Effects,
}

/// One evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// What it was for.
    pub stage: Stage,
    /// How many passes over the rows there have been, with this one.
    pub count: usize,
    /// The scales.
    pub scales: Vec<f64>,
    /// The log likelihood there.
    pub log_likelihood: f64,
}

/// Sees every evaluation, with the journal to save, and may end the run.
pub type ScaleObserver<'a> = dyn FnMut(&Evaluation, &Journal) -> ControlFlow<()> + Send + 'a;

/// A result that the journal can keep.
pub(crate) trait Packed: Sized {
    fn pack(&self) -> Vec<f64>;
    fn unpack(values: &[f64]) -> Option<Self>;
}

/// A result from the journal if it is there, else computed and recorded.
pub(crate) fn recall<T: Packed>(
    journal: &mut Journal,
    key: u64,
    compute: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    if let Some(there) = journal.next(key).and_then(T::unpack) {
        return Ok(there);
    }
    let computed = compute()?;
    journal.push(key, computed.pack());
    Ok(computed)
}

/// The evaluations of one run, or of a part of one that is neither saved nor shown.
pub(crate) struct Evaluations<'a> {
    pub(crate) stage: Stage,
    count: usize,
    shown: Option<(&'a mut Journal, &'a mut ScaleObserver<'a>)>,
}

impl<'a> Evaluations<'a> {
    pub(crate) fn new(stage: Stage, journal: &'a mut Journal, observer: &'a mut ScaleObserver<'a>) -> Self {
        Self { stage, count: 0, shown: Some((journal, observer)) }
    }

    pub(crate) fn hidden(stage: Stage) -> Self {
        Self { stage, count: 0, shown: None }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The result from the journal if it is there, else computed.
    pub(crate) fn recall<T: Packed>(
        &mut self,
        key: impl FnOnce() -> u64,
        compute: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        match &mut self.shown {
            Some((journal, _)) => recall(journal, key(), compute),
            None => compute(),
        }
    }

    /// Counts `passes` more and shows where the run is; [`Error::Stopped`] if the observer ends it.
    pub(crate) fn show(
        &mut self,
        passes: usize,
        scales: impl FnOnce() -> Vec<f64>,
        log_likelihood: f64,
    ) -> Result<(), Error> {
        self.count += passes;
        let Some((journal, observer)) = &mut self.shown else { return Ok(()) };
        let now = Evaluation { stage: self.stage, count: self.count, scales: scales(), log_likelihood };
        match observer(&now, journal) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Stopped),
        }
    }
}
