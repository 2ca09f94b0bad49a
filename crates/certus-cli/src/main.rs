//! The binary `certus`: arguments, progress, tables, exit codes.
#![forbid(unsafe_code)]
// nothing is reachable from outside a binary
#![allow(clippy::print_stderr, unreachable_pub)]

mod arguments;
mod config;
mod crew;
mod exit;
mod fit;
mod groups;
mod many;
mod number;
mod output;
mod port;
mod request;
mod results;
mod saving;
mod scaled;
mod signals;
mod table;
mod verify;
mod verify_many;
mod watch;

use std::process::ExitCode;

use arguments::{Arguments, Command, FitArguments};
use clap::{CommandFactory, Parser};
use crew::{Crew, speaks};
use exit::{Code, Failure, print};
use port::Port;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let code = if error.use_stderr() { Code::Usage } else { Code::Reached };
            return before(code, || drop(error.print()));
        }
    };
    let crew = match Crew::join(arguments.command.single()) {
        Ok(crew) => crew,
        Err(failure) => return before(failure.code, || eprintln!("{failure}")),
    };
    // a panic is printed by its own hook
    let run = std::panic::AssertUnwindSafe(|| run(arguments, &crew));
    let ended = std::panic::catch_unwind(run).unwrap_or_else(|_| {
        Err(Failure::new(Code::Bug, "this is a bug in certus: please report it with the lines above"))
    });
    if let Err(failure) = ended.as_ref()
        && crew.leads()
    {
        eprintln!("{failure}");
    }
    ExitCode::from(crew.leave(&ended) as u8)
}

/// The end before ranks have met: one of them speaks, and the others do not end with a code, at which a launcher would cut it off.
fn before(code: Code, speak: impl FnOnce()) -> ExitCode {
    if speaks() {
        speak();
        return ExitCode::from(code as u8);
    }
    ExitCode::SUCCESS
}

/// Flags over the config file, if there is one; `None` if the arguments were only to be printed.
fn settled(flags: FitArguments, crew: &Crew) -> Result<Option<FitArguments>, Failure> {
    let arguments = match &flags.config {
        Some(path) => {
            let file = config::read(path)?;
            config::merge(flags, file)
        }
        None => flags,
    };
    if arguments.print_config {
        let text = config::print(&arguments)?;
        crew.first(|| print(&text))?;
        return Ok(None);
    }
    Ok(Some(arguments))
}

fn run(arguments: Arguments, crew: &Crew) -> Result<Code, Failure> {
    match arguments.command {
        Command::Fit(flags) => settled(*flags, crew)?.map_or(Ok(Code::Reached), |a| fit::fit(&a, crew)),
        Command::Plan(flags) => settled(*flags, crew)?.map_or(Ok(Code::Reached), |a| fit::plan(&a, crew)),
        Command::FitMany(flags) => {
            let many::ManyArguments { fit, .. } = &*flags;
            settled(fit.clone(), crew)?
                .map_or(Ok(Code::Reached), |fit| many::fit_many(&many::ManyArguments { fit, ..*flags }))
        }
        Command::Resume { dir, data, json, quiet } if certus_store::many::ManyDirectory::is_one(&dir) => {
            if crew.ranks().is_some() {
                return Err(Failure::new(
                    Code::Usage,
                    "many fits are resumed by one process, or by several with `certus fit-many --part K/P`: leave mpirun out",
                ));
            }
            many::go_on(&dir, data.as_deref(), json, quiet)
        }
        Command::Resume { dir, data, json, quiet } => fit::go_on(&dir, data.as_deref(), json, quiet, crew),
        Command::Verify { dir, data } => verify::check(&dir, data.as_deref()),
        Command::Sample { dir, draws, seed, to, overwrite } => {
            results::sample(&dir, draws, seed, &to, overwrite)
        }
        Command::Predict { dir, new, groups, to, overwrite } => {
            results::predict(&dir, &new, groups.as_deref(), &to, overwrite)
        }
        Command::Report { dir } => results::report(&dir),
        Command::Compare { left, right } => results::compare(&left, &right),
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
        #[cfg(feature = "bug")]
        Command::Bug => panic!("a bug was asked for"),
    }
}

/// What this build can do.
fn doctor() -> String {
    let yes = |on: bool| if on { "yes" } else { "no" };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let scans = if cfg!(feature = "scan") {
        "CSV, TSV, Parquet, Arrow; --where and --sql"
    } else {
        "none: built without `scan`"
    };
    let lines = [
        ("certus", env!("CARGO_PKG_VERSION").to_string()),
        ("machine", format!("{} {}, {cores} cores", std::env::consts::OS, std::env::consts::ARCH)),
        ("optimised", yes(!cfg!(debug_assertions)).into()),
        ("files", scans.into()),
        ("models", "linear, logistic, binomial, probit, poisson, negative-binomial".into()),
        ("fit-many", "threads; --part for many processes".into()),
        ("mpi", yes(Port::BUILT).into()),
    ];
    lines.iter().map(|(what, value)| format!("{what:<14} {value}\n")).collect()
}
