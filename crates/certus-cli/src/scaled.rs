//! The run of a fit whose scales are not all given: nothing to checkpoint, the result as a mixture.

use std::ops::ControlFlow;

use certus_data::{Ended, Problem};
use certus_store::{Arrays, FitDirectory, Record};

use crate::exit::{Code, Failure};
use crate::fit::{Run, show};

impl Run<'_> {
    /// Such a run takes seconds and begins anew when it is resumed, so there are no checkpoints.
    pub(crate) fn go_collapsed(
        mut self,
        problem: &Problem,
        directory: Option<FitDirectory>,
        earlier: Option<&Record>,
    ) -> Result<Code, Failure> {
        self.watch.say("fitting");
        let asked = self.arguments.level.map(|level| level.asked());
        let (watch, signals) = (&mut self.watch, &self.signals);
        let ended = problem.run_collapsed(&self.goal, &self.way, asked, &mut |progress| {
            watch.pass(progress);
            if signals.seen().is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        self.watch.done();
        match ended {
            Ok(ended) => {
                self.finish_collapsed(problem, &ended, directory.as_ref(), earlier)?;
                let code = Code::from(&ended.outcome.status);
                Ok(if code == Code::Interrupted { self.signals.seen().unwrap_or(code) } else { code })
            }
            Err(certus_models::Error::Stopped) => {
                let code = self.signals.seen().unwrap_or(Code::Limit);
                let words =
                    "stopped before there was an estimate of what was not given; certus resume begins anew";
                self.failed(problem, Failure::new(code, words), directory.as_ref())
            }
            Err(error) => {
                let witness = problem.witness(&error);
                let mut failure = Failure::from(error);
                failure.message.push_str(&witness);
                self.failed(problem, failure, directory.as_ref())
            }
        }
    }

    fn finish_collapsed(
        &self,
        problem: &Problem,
        ended: &Ended,
        directory: Option<&FitDirectory>,
        earlier: Option<&Record>,
    ) -> Result<(), Failure> {
        let mut record = Record::new(&ended.outcome, self.meta(problem, ended.parameters.clone()));
        record.certificate.scale = Some(ended.scale.clone());
        if let Some(earlier) = earlier {
            record.seconds += earlier.seconds;
        }
        if let Some(directory) = directory {
            let vectors = ended.mixed.vectors();
            Arrays { gaussian: ended.outcome.gaussian.clone(), vectors }.write(directory)?;
            if !ended.groups.is_empty() {
                certus_store::write_groups(directory, &ended.groups)?;
            }
            self.publish(problem, &record, directory)?;
        }
        show(self.arguments, &record, directory)
    }
}
