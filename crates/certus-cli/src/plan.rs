//! What a fit would do.

use certus_fit::Settings;

use crate::exit::{Code, Failure, print};
use crate::fit::Run;
use crate::ranks::Communicator;

/// `certus plan`.
pub fn plan(arguments: &Settings, communicator: &Communicator) -> Result<Code, Failure> {
    let run = Run::new(arguments, communicator)?;
    let problem = run.read()?;
    run.signals.doing("planning");
    run.display.done();
    // on every rank: constants and the ball take passes over the rows
    let plan = problem.plan(&run.goal, &run.choice, run.posterior)?;
    let out = if arguments.json {
        format!("{}\n", serde_json::to_string_pretty(&plan).expect("a plan is plain values"))
    } else {
        plan.to_string()
    };
    communicator.first(|| print(&out))?;
    Ok(Code::Reached)
}
