//! Passes over the rows: counted, shown to whoever watches, and ended where they ask for it.

use std::ops::ControlFlow;

use super::{Ask, At, Collapsed};
use crate::error::Error;

/// What the passes are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The maximum over β and the sd.
    Estimate,
    /// The interval that is proved to hold it.
    Interval,
    /// The grid of sds.
    Posterior,
}

/// One evaluation of F.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pass {
    /// What it was for.
    pub stage: Stage,
    /// How many there were, with this one.
    pub count: usize,
    /// The sd it was at.
    pub sd: f64,
    /// The log likelihood there.
    pub log_likelihood: f64,
}

/// Sees every pass, and may end the work.
pub type Observer<'a> = dyn FnMut(&Pass) -> ControlFlow<()> + Send + 'a;

type Watcher<'a> = &'a mut dyn FnMut(&Pass) -> ControlFlow<()>;

/// The passes of one piece of work.
pub(super) struct Passes<'a> {
    stage: Stage,
    count: usize,
    /// Nobody may be watching.
    observer: Option<Watcher<'a>>,
}

impl<'a> Passes<'a> {
    pub(super) fn new(stage: Stage, observer: Watcher<'a>) -> Self {
        Self { stage, count: 0, observer: Some(observer) }
    }

    pub(super) fn unwatched(stage: Stage) -> Self {
        Self { stage, count: 0, observer: None }
    }

    pub(super) fn stage(&mut self, stage: Stage) {
        self.stage = stage;
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// F and its derivatives. Looks at a part of the rows are not counted.
    pub(super) fn at(
        &mut self,
        model: &Collapsed,
        beta: &[f64],
        log_sd: f64,
        ask: Ask<'_>,
    ) -> Result<At, Error> {
        let at = model.evaluate(beta, log_sd, ask)?;
        if model.every > 1 {
            return Ok(at);
        }
        self.count += 1;
        let pass = Pass {
            stage: self.stage,
            count: self.count,
            sd: log_sd.exp(),
            log_likelihood: at.log_likelihood,
        };
        match self.observer.as_mut().map(|observer| observer(&pass)) {
            Some(ControlFlow::Break(())) => Err(Error::Stopped),
            Some(ControlFlow::Continue(())) | None => Ok(at),
        }
    }
}
