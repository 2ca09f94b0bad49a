//! The run of a fit whose scales are not all given: nothing to checkpoint, the result as a mixture.

use std::ops::ControlFlow;
use std::sync::Arc;

use certus_data::{Ended, Problem};
use certus_store::{Arrays, FitDirectory, Record};

use crate::exit::{Code, Failure};
use crate::fit::{Run, publish, show};

impl Run<'_> {
    /// Such a run begins anew when it is resumed, so there are no checkpoints.
    pub(crate) fn go_collapsed(
        mut self,
        problem: &Arc<Problem>,
        directory: Option<FitDirectory>,
        earlier: Option<&Record>,
    ) -> Result<Code, Failure> {
        self.say("looking for the scales that are not given");
        let again = ", before there was an estimate of what was not given; certus resume begins anew";
        let directory = directory.map(Arc::new);
        self.on_end(problem, directory.clone(), move || Ok(again.into()));
        let asked = self.arguments.level.map(|level| level.asked());
        let goal = self.goal_left();
        let (watch, signals) = (&mut self.watch, &self.signals);
        let ended = problem.run_collapsed(&goal, &self.way, asked, &mut |progress| {
            watch.pass(progress);
            if signals.seen().is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        self.watch.done();
        match ended {
            Ok(ended) => {
                self.signals
                    .finish(|| self.finish_collapsed(problem, &ended, directory.as_deref(), earlier))?;
                let code = Code::from(&ended.outcome.status);
                Ok(if code == Code::Interrupted { self.signals.seen().unwrap_or(code) } else { code })
            }
            Err(error) if self.was_stopped(&error) => Err(self.signals.end()),
            Err(error) => {
                let witness = problem.witness(&error);
                let mut failure = Failure::from(error);
                failure.message.push_str(&witness);
                self.failed(problem, failure, directory.as_deref())
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
        let notes = problem.notes_of(&self.goal, &ended.outcome);
        let mut record = Record::new(&ended.outcome, self.meta(problem, ended.parameters.clone(), notes));
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
            publish(problem, &record, directory)?;
        }
        show(self.arguments, &record, directory)
    }
}
