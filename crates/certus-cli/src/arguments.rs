//! The arguments, as clap and TOML see them: one struct, so that a config file equals flags.

use std::collections::BTreeMap;
use std::path::PathBuf;

use certus_data::CoefficientPrior;
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::number;

/// Certified Gaussian posteriors from CSV, Parquet and Arrow files.
#[derive(Debug, Parser)]
#[command(name = "certus", version, max_term_width = 110, propagate_version = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Fit a model to a file and certify the result
    Fit(Box<FitArguments>),
    /// Say what a fit would do, without doing it: rows, coefficients, route, cost, priors, and what the theorems promise of the paper's methods
    Plan(Box<FitArguments>),
    /// Fit one model per value of a column, and certify each
    FitMany(Box<crate::many::ManyArguments>),
    /// Go on with a fit, or many fits, that were stopped
    Resume {
        /// The fit's directory
        dir: PathBuf,
        /// The data, if they moved
        #[arg(long)]
        data: Option<PathBuf>,
        /// Print the fit.json object on stdout
        #[arg(long)]
        json: bool,
        /// No progress, no table
        #[arg(long, short)]
        quiet: bool,
    },
    /// Check all that a fit's directory says: the gap of models without groups by independent arithmetic, the rest by computing it again
    Verify {
        /// The directory of a fit, or of many
        dir: PathBuf,
        /// The data, if they moved
        #[arg(long)]
        data: Option<PathBuf>,
    },
    /// Draw from the fitted Gaussian
    Sample {
        /// The fit's directory
        dir: PathBuf,
        /// How many draws
        #[arg(long, default_value_t = 1000)]
        draws: usize,
        /// Where to: .parquet or .csv
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
        /// Replace FILE if it exists
        #[arg(long)]
        overwrite: bool,
        /// Seed of the draws
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Predict for new rows
    Predict {
        /// The fit's directory
        dir: PathBuf,
        /// The new data, with the columns of the fit; the response is not needed
        new: PathBuf,
        /// Where to: .csv or .parquet
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
        /// Replace FILE if it exists
        #[arg(long)]
        overwrite: bool,
        /// Where the sd between groups was not given: for the rows' own groups, for a new group, or averaged over all groups there could be [default: known]
        #[arg(long, value_parser = ["known", "new", "population"])]
        groups: Option<String>,
    },
    /// Write an HTML report into a fit's directory
    Report {
        /// The fit's directory
        dir: PathBuf,
    },
    /// Hold two fits against each other
    Compare {
        /// One fit's directory
        left: PathBuf,
        /// The other's
        right: PathBuf,
    },
    /// Say what this build can do
    Doctor,
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
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
            Command::Sample { .. } => "sample",
            Command::Predict { .. } => "predict",
            Command::Report { .. } => "report",
            Command::Compare { .. } => "compare",
            Command::Doctor => "doctor",
            Command::Completions { .. } => "completions",
            Command::Man => "man",
            #[cfg(feature = "bug")]
            Command::Bug => "bug",
        })
    }
}

/// The models.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ModelName {
    /// Normal errors
    Linear,
    /// 0/1 responses
    Logistic,
    /// Successes out of --trials
    Binomial,
    /// 0/1 responses, normal link
    Probit,
    /// Counts
    Poisson,
    /// Counts with extra spread
    NegativeBinomial,
}

/// The methods.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum MethodChoice {
    /// Exact where it is affordable, else stochastic
    #[default]
    Auto,
    /// Newton-CG on the exact ELBO
    Exact,
    /// Draws, certified by exact passes
    Stochastic,
    /// Batches of rows and draws in a certified ball, with an exact pass at the end
    Subsampled,
    /// Algorithm 1 of the paper: prox, energy estimator
    ProxEnergy,
    /// Algorithm 2: projection, entropy estimator
    ProjEntropy,
    /// Algorithm 3: projection, sticking the landing
    ProjStl,
    /// Prox with a quadratic control variate
    ProxCv,
    /// Sticking the landing in a certified ball
    BallStl,
}

/// The shape of the factor of the covariance.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum FactorChoice {
    /// Dense, or the arrow if there are groups, which loses nothing
    #[default]
    Auto,
    /// Every entry
    Dense,
    /// Independent coefficients
    Diagonal,
    /// Groups independent given the coefficients of all rows
    Arrow,
}

/// The constants of the paper's methods.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ConstantsChoice {
    /// Those of a certified ball where the method has one (ball-stl), else sharp
    #[default]
    Local,
    /// Ours, proved in docs/maths.md
    Sharp,
    /// The paper's, misprints corrected
    Paper,
}

/// The step sizes of the paper's methods.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum StepsChoice {
    /// Those that make the proved bound smallest after every step
    #[default]
    Greedy,
    /// Those of the paper's theorem for the method, from the paper's constants
    Paper,
    /// One step size, the best for --iterations
    Horizon,
    /// min{cap, (2t+1)/(mu (t+1)^2)}
    Decaying,
}

/// How strong the statement must be for the goal to count as reached.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LevelChoice {
    /// A number without a guarantee
    Estimated,
    /// With probability 1 - delta
    Probable,
    /// A theorem
    Proved,
}

impl LevelChoice {
    /// As certus-data says it.
    pub fn asked(self) -> certus_data::Asked {
        match self {
            LevelChoice::Estimated => certus_data::Asked::Estimated,
            LevelChoice::Probable => certus_data::Asked::Probable,
            LevelChoice::Proved => certus_data::Asked::Proved,
        }
    }
}

/// What to do with missing values.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// Refuse, saying how many and where
    #[default]
    Error,
    /// Drop the rows, saying how many
    Drop,
}

/// Arguments of `fit` and `plan`; every one may stand in a TOML file under the same name.
#[derive(Args, Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct FitArguments {
    /// The model
    #[arg(value_enum)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelName>,
    /// The data: a CSV, TSV, Parquet or Arrow file, or a directory of them
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
    /// The response column
    #[arg(long, value_name = "COL", help_heading = "Terms")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    /// Features, by name, interactions as a:b [default: all other numeric columns]
    #[arg(long, value_name = "A,B,A:B", value_delimiter = ',', help_heading = "Terms")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<String>>,
    /// A group term: "g" (intercept by group), "g: a,b" (and slopes), "g: 0,a" (a slope only), "g: *" (all features), "g/h" (h within g); repeatable
    #[arg(long, value_name = "TERM", help_heading = "Terms")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Vec<String>>,
    /// The sd of group effects: X for every group, or g=X for one; repeatable [default: found from the data]
    #[arg(long, value_name = "X|g=X", help_heading = "Terms")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_sd: Option<Vec<String>>,
    /// Column of row weights
    #[arg(long, value_name = "COL", help_heading = "Terms")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<String>,
    /// Column added to the linear predictor
    #[arg(long, value_name = "COL", help_heading = "Terms")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<String>,
    /// Column of trials (binomial)
    #[arg(long, value_name = "COL", help_heading = "Terms")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trials: Option<String>,
    /// Dispersion (negative-binomial) [default: found from the data]
    #[arg(long, value_name = "X", help_heading = "Terms")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispersion: Option<f64>,
    /// Sd of the errors (linear) [default: found from the data]
    #[arg(long, value_name = "X", help_heading = "Terms")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sigma: Option<f64>,
    /// Prior sd of coefficients: per sd of a number, per step of a two-valued column or level, and for linear models in sds of the response; in the data's own units with --no-standardise; 'inf' = flat [default: 2.5]
    #[arg(long, value_name = "X", help_heading = "Prior")]
    #[serde(with = "number", skip_serializing_if = "Option::is_none")]
    pub prior_sd: Option<f64>,
    /// Prior sd of the intercept, in the same units, where features are average; 'inf' = flat [default: 10]
    #[arg(long, value_name = "X", help_heading = "Prior")]
    #[serde(with = "number", skip_serializing_if = "Option::is_none")]
    pub intercept_prior_sd: Option<f64>,
    /// Prior of scales that are not given: group sd, sigma, 1/sqrt(dispersion) [default: half-normal]
    #[arg(long, value_parser = ["half-normal", "half-t", "exponential", "flat"], help_heading = "Prior")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sd_prior: Option<String>,
    /// Its scale, in the units of --prior-sd [default: 2.5]
    #[arg(long, value_name = "X", help_heading = "Prior")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sd_prior_scale: Option<f64>,
    /// Scales that are not given: their posterior, or the maximum of the penalised likelihood [default: posterior]
    #[arg(long, value_parser = ["posterior", "estimate"], help_heading = "Method")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scales: Option<String>,
    /// No intercept
    #[arg(long, help_heading = "Data")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_intercept: bool,
    /// Features as they are
    #[arg(long, help_heading = "Data")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_standardise: bool,
    /// Missing values
    #[arg(long, value_enum, help_heading = "Data")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Missing>,
    /// Only rows for which this SQL condition holds
    #[arg(long, value_name = "SQL", help_heading = "Data")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#where: Option<String>,
    /// A query over the table `data` whose result is the data
    #[arg(long, value_name = "SQL", help_heading = "Data")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sql: Option<String>,
    /// How to fit [default: auto]
    #[arg(long, value_enum, help_heading = "Method")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<MethodChoice>,
    /// The shape of the covariance's factor [default: auto]
    #[arg(long, value_enum, help_heading = "Method")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<FactorChoice>,
    /// Constants of the paper's methods [default: local]
    #[arg(long, value_enum, help_heading = "Method")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constants: Option<ConstantsChoice>,
    /// Step sizes of the paper's methods [default: greedy]
    #[arg(long, value_enum, help_heading = "Method")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<StepsChoice>,
    /// Draws per iteration of the paper's methods [default: 10], pairs of draws of subsampled [default: 8]
    #[arg(long, value_name = "N", help_heading = "Method")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<usize>,
    /// Iterations of the paper's methods [default: 10000] or of subsampled [default: those of its plan]
    #[arg(long, value_name = "N", help_heading = "Method")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u64>,
    /// Rows per iteration of subsampled [default: 1024]
    #[arg(long, value_name = "N", help_heading = "Method")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row_batch: Option<usize>,
    /// The gap to reach, in nats [default: 0.01]
    #[arg(long, value_name = "NATS", help_heading = "Goal")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<f64>,
    /// Probability that a probable statement may fail [default: 0.01]
    #[arg(long, value_name = "P", help_heading = "Goal")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta: Option<f64>,
    /// How strong the statement must be [default: the strongest the model allows]
    #[arg(long, value_enum, help_heading = "Goal")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<LevelChoice>,
    /// Stop this long after the start of the command, within 2 s: 90s, 5m, 2h
    #[arg(long, value_name = "T", help_heading = "Goal")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_time: Option<String>,
    /// Directory for the result [default: nothing is written]
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out: Option<PathBuf>,
    /// Replace what is in DIR
    #[arg(long, help_heading = "Output")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub overwrite: bool,
    /// Time between checkpoints [default: 30s]
    #[arg(long, value_name = "T", help_heading = "Output")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_every: Option<String>,
    /// Print the fit.json object on stdout
    #[arg(long, help_heading = "Output")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub json: bool,
    /// No progress, no table
    #[arg(long, short, help_heading = "Output")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub quiet: bool,
    /// Seed [default: 0]
    #[arg(long, value_name = "N", help_heading = "Output")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Threads; they never change the result [default: all cores]
    #[arg(long, value_name = "N", help_heading = "Output")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Read arguments from a TOML file; flags win
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// Print the arguments as TOML and stop
    #[arg(long, help_heading = "Output")]
    #[serde(skip)]
    pub print_config: bool,
    /// Priors by coefficient or term, in a TOML file: below the line `[priors]`, rain = 1.0 (the sd) or rain = { mean = 0.5, sd = 1.0 }
    #[arg(skip)]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub priors: BTreeMap<String, CoefficientPrior>,
}
