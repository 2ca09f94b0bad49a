//! `certus simulate`: responses that a fit simulates for its rows.

use std::path::{Path, PathBuf};

use certus::certificate::counted;
use certus_fit::{ColumnFile, Fit, Record};
use clap::Args;

use crate::exit::{Code, Failure, note, print};
use crate::output::Output;
use crate::results::{data, opened};
use crate::verify::reread;

/// What is asked of `certus simulate`.
#[derive(Debug, Args)]
pub struct SimulateArguments {
    /// The directory of the fit
    dir: PathBuf,
    /// The data of the fit, if they have moved
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Data sets
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    draws: u32,
    /// Seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Output file: .csv or .parquet [default: CSV on stdout]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long)]
    overwrite: bool,
}

/// `certus simulate DIR`: a line per row of the fit, a column `sim_1`, `sim_2`, … per data set.
pub fn simulate(arguments: &SimulateArguments) -> Result<Code, Failure> {
    let SimulateArguments { dir, data: moved, draws, seed, to, overwrite } = arguments;
    let record = Record::read(&opened(dir)?)?;
    let inputs: Vec<&Path> = moved.as_deref().into_iter().chain(data(&record)).collect();
    let output = to.as_ref().map(|to| Output::new(to, *overwrite, dir, &inputs)).transpose()?;
    let fit = Fit::read(&opened(dir)?)?;
    let (_, problem) = reread(dir, moved.as_deref(), "certus simulate DIR")?;
    let count = *draws as usize;
    let values = fit.simulate(&problem, count, *seed)?;
    let names: Vec<String> = (1..=count).map(|k| format!("sim_{k}")).collect();
    let words = fit.simulated_words(&problem, count);
    let comments = [format!("{words}; model = {}, seed = {seed}", fit.record.model)];
    let columns = ColumnFile { names: &names, values: &values, labels: &[], comments: &comments };
    match (output, to) {
        (Some(output), Some(to)) => {
            output.write(&columns)?;
            let rows = counted((values.len() / count) as u64, "row");
            print(&format!("{words}, {rows}, in {}\n", to.display()))?;
        }
        _ => {
            note(&words);
            print(&ColumnFile { comments: &[], ..columns }.to_csv()?)?;
        }
    }
    Ok(Code::Reached)
}
