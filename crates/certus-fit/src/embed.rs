//! A whole fit in one call, for programs that embed certus: what the command line does without its files, clocks and
//! signals.

use std::ops::ControlFlow;

use certus::Status;
use certus_data::{DataError, Source, Storage};

use crate::error::Error;
use crate::fit::Fit;
use crate::problem::Problem;
use crate::settings::Settings;

impl Fit {
    /// Fits the model of the settings to the columns of a source and compares the result with the posterior. Programs
    /// that show progress, stop runs or save them call the parts: [`Settings::request`], [`Problem::new`],
    /// [`Problem::run`], [`Problem::compare`], [`Fit::of_run`].
    pub fn new(source: &dyn Source, settings: &Settings) -> Result<Self, Error> {
        let (goal, choice, asked) = (settings.goal()?, settings.choice()?, settings.asked()?);
        let problem = Problem::new(source, &settings.request()?, &Storage::default())?;
        problem.check_settings(settings)?;
        let mut ended = problem
            .run(&goal, &choice, asked, None, &mut |_, _| ControlFlow::Continue(()))
            .map_err(DataError::from)?;
        if ended.outcome.status == Status::Reached {
            let found = problem.compare(&goal, settings.posterior()?, asked, &ended, &|_| {});
            ended.with(found);
        }
        Ok(Self::of_run(ended, &problem, settings, &goal))
    }
}
