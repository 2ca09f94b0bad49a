//! Looks at F_p: counted, shown to whoever watches, and ended where they ask for it.

use std::ops::ControlFlow;

use super::{Care, Given, Scaled};
use crate::collapsed::Stage;
use crate::error::Error;

/// One look at F_p.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// What it was for.
    pub stage: Stage,
    /// Evaluations of F so far.
    pub evaluations: usize,
    /// The scales it was at.
    pub scales: Vec<f64>,
    /// The log likelihood there.
    pub log_likelihood: f64,
}

/// Sees every look, and may end the work.
pub type LooksObserver<'a> = dyn FnMut(&Look) -> ControlFlow<()> + Send + 'a;

/// The looks of one piece of work.
pub(super) struct Looks<'a, M: ?Sized> {
    pub(super) model: &'a M,
    pub(super) stage: Stage,
    pub(super) evaluations: usize,
    observer: &'a mut dyn FnMut(&Look) -> ControlFlow<()>,
}

impl<'a, M: Scaled + ?Sized> Looks<'a, M> {
    pub(super) fn new(
        model: &'a M,
        stage: Stage,
        observer: &'a mut dyn FnMut(&Look) -> ControlFlow<()>,
    ) -> Self {
        Self { model, stage, evaluations: 0, observer }
    }

    /// β̂ at x; [`Error::Stopped`] if the observer ends the work.
    pub(super) fn given(&mut self, x: &[f64], start: &[f64], care: Care) -> Result<Given, Error> {
        let given = self.model.given(x, start, care)?;
        self.evaluations += given.evaluations;
        let look = Look {
            stage: self.stage,
            evaluations: self.evaluations,
            scales: self.model.log_scales(x).iter().map(|l| l.exp()).collect(),
            log_likelihood: given.log_likelihood,
        };
        match (self.observer)(&look) {
            ControlFlow::Continue(()) => Ok(given),
            ControlFlow::Break(()) => Err(Error::Stopped),
        }
    }
}
