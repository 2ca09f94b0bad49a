//! What a run states of the Gaussian it ended at, computed again without a run: for `certus verify`.

use std::time::Duration;

use certus::auto::Counts;
use certus::fit::Status;
use certus::{Gaussian, Goal, Outcome};

use super::exact_pass::ExactPass;
use super::{Method, Model, Route, Size, outcome};
use crate::error::Error;

/// What the last exact pass of a run found; a function of the model and the Gaussian alone.
#[derive(Clone, Debug)]
pub struct Restated {
    pass: ExactPass,
}

impl Restated {
    /// One exact pass at w.
    pub fn at(model: &dyn Model, w: &Gaussian) -> Result<Self, Error> {
        Ok(Self { pass: ExactPass::new(model, w.clone())? })
    }

    /// True if the bound on the gap is at most the goal's.
    pub fn reaches(&self, goal: &Goal) -> bool {
        self.pass.bound() <= goal.gap
    }

    /// The bound in words, with which the message of a run ends, whatever ended it.
    pub fn said(&self) -> String {
        self.pass.said()
    }

    /// The outcome of a run that ended here, without what only the run knows: route, counts, trace and time.
    pub fn outcome(self, status: Status) -> Outcome {
        let said = self.said();
        outcome(self.pass, (status, said), String::new(), Counts::default(), Vec::new(), None, Duration::ZERO)
    }
}

impl Route {
    /// The route of a run without settings, as [`fit`](super::fit) takes it.
    pub fn taken(method: Method, size: Size) -> Self {
        Self::of(method, size)
    }
}
