//! The binary `certus`: arguments, progress, tables, exit codes.
#![forbid(unsafe_code)]
// nothing is reachable from outside a binary
#![allow(unreachable_pub)]

mod arguments;
mod config;
mod effects;
mod exit;
mod fit;
mod loo;
mod many;
mod mpi;
mod output;
mod plan;
mod ppc;
mod progress;
mod ranks;
#[cfg(feature = "scan")]
mod reader;
mod report;
mod request;
mod results;
mod saving;
mod signals;
mod simulate;
mod table;
mod terminal;
mod verify;
mod verify_many;

use std::process::ExitCode;

use arguments::{Arguments, Command, FitArguments};
use certus_fit::Settings;
use clap::{CommandFactory, Parser};
use exit::{Code, Failure, print};
use mpi::MpiRank;
use ranks::{Communicator, speaks};
use terminal::{plain, say};

fn main() -> ExitCode {
    signals::survive_limits();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let code = if error.use_stderr() { Code::Usage } else { Code::Reached };
            return before(code, || usage(&error));
        }
    };
    let communicator = match Communicator::join(arguments.command.single()) {
        Ok(communicator) => communicator,
        Err(failure) => return before(failure.code, || say(&failure.to_string())),
    };
    // a panic is printed by its own hook
    let run = std::panic::AssertUnwindSafe(|| run(arguments, &communicator));
    let ended = std::panic::catch_unwind(run).unwrap_or_else(|_| {
        Err(Failure::new(Code::Bug, "this is a bug in certus: please report it with the lines above"))
    });
    if let Err(failure) = ended.as_ref()
        && communicator.leads()
    {
        say(&failure.to_string());
    }
    ExitCode::from(communicator.leave(&ended) as u8)
}

/// What clap says, without what a terminal obeys if the arguments have any of it.
fn usage(error: &clap::Error) {
    let text = error.render().to_string();
    match plain(&text) {
        std::borrow::Cow::Borrowed(_) => drop(error.print()),
        std::borrow::Cow::Owned(text) => say(text.trim_end()),
    }
}

/// The end before ranks have met: one of them speaks, and the others do not end with a code, at which a launcher would
/// cut it off.
fn before(code: Code, speak: impl FnOnce()) -> ExitCode {
    if speaks() {
        speak();
        return ExitCode::from(code as u8);
    }
    ExitCode::SUCCESS
}

/// Flags over the config file, if there is one; `None` if the arguments were only to be printed.
fn settled(flags: &FitArguments, communicator: &Communicator) -> Result<Option<Settings>, Failure> {
    let settings = match &flags.config {
        Some(path) => flags.settings.or(&config::read(path)?),
        None => flags.settings.clone(),
    };
    if flags.print_config {
        let text = config::print(&settings)?;
        communicator.first(|| print(&text))?;
        return Ok(None);
    }
    Ok(Some(settings))
}

fn run(arguments: Arguments, communicator: &Communicator) -> Result<Code, Failure> {
    #[cfg(feature = "scan")]
    if arguments.trust_input {
        reader::trust();
    }
    match arguments.command {
        Command::Fit(flags) => {
            settled(&flags, communicator)?.map_or(Ok(Code::Reached), |a| fit::fit(&a, communicator))
        }
        Command::Plan(flags) => {
            settled(&flags, communicator)?.map_or(Ok(Code::Reached), |a| plan::plan(&a, communicator))
        }
        Command::FitMany(flags) => {
            let mut arguments = *flags;
            let Some(settings) = settled(&arguments.fit, communicator)? else { return Ok(Code::Reached) };
            arguments.fit.settings = settings;
            many::fit_many(&arguments)
        }
        Command::Resume { dir, data, json, quiet }
            if certus_fit::many::files::ManyDirectory::is_one(&dir) =>
        {
            if communicator.ranks().is_some() {
                return Err(Failure::new(
                    Code::Usage,
                    "many fits are resumed by one process, or by several with `certus fit-many --part K/P`: leave \
                        mpirun out",
                ));
            }
            many::resume(&dir, data.as_deref(), json, quiet)
        }
        Command::Resume { dir, data, json, quiet } => {
            fit::resume(&dir, data.as_deref(), json, quiet, communicator)
        }
        Command::Verify { dir, data } => verify::check(&dir, data.as_deref()),
        Command::ExportProof { dir, posterior, to, data, overwrite } => {
            results::export_proof(&dir, &to, data.as_deref(), overwrite, posterior)
        }
        Command::Sample { dir, draws, seed, to, overwrite } => {
            results::sample(&dir, draws, seed, &to, overwrite)
        }
        Command::Predict(arguments) => results::predict(&arguments),
        Command::Effects { dir, contrast, slope, at, interval, linear_predictor, call, data, format } => {
            let asked = effects::question(&contrast, slope, &at, interval, linear_predictor)?;
            effects::effects(&dir, &asked, data.as_deref(), call, &format)
        }
        Command::Report { dir, data } => report::report(&dir, data.as_deref()),
        Command::Compare { fits } => results::compare(&fits),
        Command::Loo { fits, data, json } => loo::loo(&fits, data.as_deref(), json),
        Command::Ppc { dir, data, json } => ppc::ppc(&dir, data.as_deref(), json),
        Command::Simulate(arguments) => simulate::simulate(&arguments),
        Command::Doctor => print(&doctor()).map(|()| Code::Reached),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "certus", &mut script);
            print(&String::from_utf8_lossy(&script)).map(|()| Code::Reached)
        }
        Command::Man => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Arguments::command())
                .render(&mut page)
                .map_err(|e| Failure::new(Code::WriteFailed, e.to_string()))?;
            print(&String::from_utf8_lossy(&page)).map(|()| Code::Reached)
        }
        #[cfg(feature = "scan")]
        Command::Read => reader::read(),
        #[cfg(feature = "bug")]
        Command::Bug => panic!("a bug was requested"),
    }
}

/// What this build can do.
fn doctor() -> String {
    let yes = |on: bool| if on { "yes" } else { "no" };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let scans = if cfg!(feature = "scan") {
        "CSV, TSV, Parquet, Arrow; --where and --sql"
    } else {
        "none (built without `scan`)"
    };
    let lines = [
        ("certus", env!("CARGO_PKG_VERSION").to_string()),
        (
            "machine",
            format!(
                "{} {}, {}",
                std::env::consts::OS,
                std::env::consts::ARCH,
                certus::certificate::counted(cores, "core")
            ),
        ),
        ("optimised", yes(!cfg!(debug_assertions)).into()),
        ("files", scans.into()),
        ("models", certus_likelihood::Response::names()),
        ("fit-many", "threads; --part for many processes".into()),
        ("mpi", yes(MpiRank::BUILT).into()),
    ];
    lines.iter().map(|(what, value)| format!("{what:<14} {value}\n")).collect()
}
