//! The commands and their arguments; those of a fit are its settings (certus-fit).

use std::path::PathBuf;

use certus_fit::Settings;
use clap::{Args, Parser, Subcommand};
use serde::{Deserialize, Serialize};

/// Fits regression models to CSV, Parquet and Arrow files and certifies the result.
#[derive(Debug, Parser)]
#[command(name = "certus", version, max_term_width = 110, propagate_version = true)]
pub struct Arguments {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
    /// Decode data files in this process, without limits of memory and time [default: another process decodes them]
    #[arg(long, global = true, help_heading = "Input")]
    pub trust_input: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Fit a model to data and certify the result
    Fit(Box<FitArguments>),
    /// Describe a fit without running it: rows, coefficients, route, cost, priors, and what the theorems guarantee for
    /// the paper's methods
    Plan(Box<FitArguments>),
    /// Fit one model per value of a column and certify each of them
    FitMany(Box<crate::many::ManyArguments>),
    /// Resume an interrupted fit, or interrupted fits of fit-many
    Resume {
        /// The directory of the fit
        dir: PathBuf,
        /// The data, if they have been moved
        #[arg(long)]
        data: Option<PathBuf>,
        /// Print the fit.json object on stdout
        #[arg(long)]
        json: bool,
        /// Print neither progress nor the table
        #[arg(long, short)]
        quiet: bool,
    },
    /// Check everything in the directory of a fit: the gap of models without groups by independent arithmetic, the rest
    /// by computing it again
    Verify {
        /// The directory of a fit or of fit-many
        dir: PathBuf,
        /// The data, if they have been moved
        #[arg(long)]
        data: Option<PathBuf>,
    },
    /// Write the gap of a fit as a certificate that certus-check proves without certus
    ExportProof {
        /// The directory of the fit
        dir: PathBuf,
        /// Certify means and sds of the posterior instead of the gap, with probability 0.999999 from draws of its own
        #[arg(long)]
        posterior: bool,
        /// Output file of the certificate; its rows are written beside it, to a file that ends in .rows
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
        /// The data, if they have been moved
        #[arg(long)]
        data: Option<PathBuf>,
        /// Replace FILE and the file of its rows if they exist
        #[arg(long)]
        overwrite: bool,
    },
    /// Draw samples from the fitted distribution
    Sample {
        /// The directory of the fit
        dir: PathBuf,
        /// Number of draws
        #[arg(long, default_value_t = 1000)]
        draws: usize,
        /// Output file: .parquet or .csv
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
        /// Replace FILE if it exists
        #[arg(long)]
        overwrite: bool,
        /// Random seed of the draws
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Predict the response for new rows
    Predict(Box<crate::results::PredictArguments>),
    /// Answer questions about the expected response: contrasts, ratios, slopes and adjusted predictions, averaged over
    /// the rows of the data
    Effects {
        /// The directory of the fit
        dir: PathBuf,
        /// Compare two values of a column: "arm: b - a", "arm: b / a", "arm: odds(b) / odds(a)", or "arm" for each of
        /// its levels against the reference; may be repeated
        #[arg(long, value_name = "CONTRAST")]
        contrast: Vec<String>,
        /// How much the expected response rises per unit of a column of numbers; may be repeated
        #[arg(long, value_name = "COL")]
        slope: Vec<String>,
        /// Hold a column at values, in all rows: "age=40,60"; of several such options all combinations
        #[arg(long, value_name = "COL=VALUES")]
        at: Vec<String>,
        /// Probability of the intervals [default: 0.9]
        #[arg(long, value_name = "P")]
        interval: Option<f64>,
        /// Ask about the linear predictor in the place of the expected response
        #[arg(long)]
        linear_predictor: bool,
        /// Which call on this fit it is: the N-th has draws of its own and 6/(π²N²) of δ for its certified errors, so
        /// that those of all calls hold together
        #[arg(long, value_name = "N", default_value_t = 1)]
        call: u32,
        /// Average over the rows of this file [default: the data of the fit]
        #[arg(long, value_name = "FILE")]
        data: Option<PathBuf>,
        /// How to print: table, csv, markdown or json
        #[arg(long, default_value = "table", value_parser = ["table", "csv", "markdown", "json"])]
        format: String,
    },
    /// Write an HTML report into the directory of a fit
    Report {
        /// The directory of the fit
        dir: PathBuf,
        /// The data of the fit, if they have moved
        #[arg(long, value_name = "FILE")]
        data: Option<PathBuf>,
    },
    /// Compare models of the same responses: criteria, evidence, tests of nested ones; of two, their parameters
    Compare {
        /// The directories of the fits
        #[arg(num_args = 2.., required = true)]
        fits: Vec<PathBuf>,
    },
    /// Estimate how well fits predict new rows: leave-one-out cross-validation (PSIS-LOO) and WAIC; of several fits of
    /// the same responses, the differences
    Loo {
        /// The directories of the fits
        #[arg(required = true)]
        fits: Vec<PathBuf>,
        /// The data of the fits, if they have moved
        #[arg(long, value_name = "FILE")]
        data: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Compare the data with data sets that the posterior predicts for the same rows, or, of estimates, with those of
    /// `simulate`: statistics and residuals
    Ppc {
        /// The directory of the fit
        dir: PathBuf,
        /// The data of the fit, if they have moved
        #[arg(long, value_name = "FILE")]
        data: Option<PathBuf>,
        /// Print JSON, residuals included
        #[arg(long)]
        json: bool,
    },
    /// Simulate responses for the rows of a fit: data sets that the posterior predicts, or, of estimates (--reml, --ml,
    /// --scales estimate), of the fitted model with new effects of all groups (parametric bootstrap)
    Simulate(crate::simulate::SimulateArguments),
    /// Report what this build supports
    Doctor,
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
    /// Decode data files for another process
    #[cfg(feature = "scan")]
    #[command(name = "__read", hide = true)]
    Read,
    /// Panic, to see what happens then
    #[cfg(feature = "bug")]
    #[command(hide = true)]
    Bug,
}

impl Command {
    /// The name of a command that one process runs alone; `None` for those that ranks share.
    pub fn single(&self) -> Option<&'static str> {
        Some(match self {
            Command::Fit(_) | Command::Plan(_) | Command::Resume { .. } => return None,
            Command::FitMany(_) => "fit-many",
            Command::Verify { .. } => "verify",
            Command::ExportProof { .. } => "export-proof",
            Command::Sample { .. } => "sample",
            Command::Predict(_) => "predict",
            Command::Effects { .. } => "effects",
            Command::Report { .. } => "report",
            Command::Compare { .. } => "compare",
            Command::Loo { .. } => "loo",
            Command::Ppc { .. } => "ppc",
            Command::Simulate(_) => "simulate",
            Command::Doctor => "doctor",
            Command::Completions { .. } => "completions",
            Command::Man => "man",
            #[cfg(feature = "scan")]
            Command::Read => crate::reader::COMMAND,
            #[cfg(feature = "bug")]
            Command::Bug => "bug",
        })
    }
}

/// Arguments of `fit` and `plan`: settings, each of which can also be given in a TOML file under the same name.
#[derive(Args, Clone, Debug, Default, Deserialize, Serialize)]
#[serde(transparent)]
pub struct FitArguments {
    /// The settings.
    #[command(flatten)]
    pub settings: Settings,
    /// Read settings from a TOML file; flags override them
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// Print the settings as TOML and exit
    #[arg(long, help_heading = "Output")]
    #[serde(skip)]
    pub print_config: bool,
}
