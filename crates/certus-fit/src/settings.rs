//! The settings of a fit: one struct for the flags of the command line, its TOML files, Python's arguments and
//! `settings.json`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use certus::Goal;
use certus_likelihood::Response;
use serde::{Deserialize, Serialize};

use crate::choices;
#[cfg(feature = "clap")]
use crate::choices::parser;
use crate::coefficient_prior::CoefficientPrior;
use crate::error::Error;
use crate::infinite;
use crate::level::RequiredLevel;
use crate::method_choice::{MethodChoice, Numbers};
use crate::posterior::PosteriorChoice;
use crate::refusal::RequestError;

/// Help heading of the settings for research.
#[cfg(feature = "clap")]
const RESEARCH: &str = "For researchers";

/// All settings of a fit; those left out take their defaults. Flags and keys in files have the same names, written with
/// dashes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct Settings {
    /// The model
    #[cfg_attr(feature = "clap", arg(value_parser = parser(choices::models())))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The data: a CSV, TSV, Parquet or Arrow file, or a directory of them
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
    /// The model as a formula of R, such as "y ~ a*b + (1 | g)"; it replaces --response, --features, --group, --offset
    /// and --no-intercept
    #[serde(skip_serializing_if = "Option::is_none")]
    pub formula: Option<String>,
    /// The response column
    #[cfg_attr(feature = "clap", arg(long, value_name = "COL", help_heading = "Terms"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    /// Names of the features; a:b is an interaction [default: all other numeric columns]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "A,B,A:B", value_delimiter = ',', help_heading = "Terms")
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<String>>,
    /// Random effects by group: "g" (intercept), "g: a,b" (intercept and slopes, correlated), "g:: a,b" (independent),
    /// "g: 0,a" (slope only), "g: *" (intercept and all slopes), "g/h" (h nested in g); repeatable
    #[cfg_attr(feature = "clap", arg(long, value_name = "TERM", help_heading = "Terms"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Vec<String>>,
    /// Sd of the random effects, independent if there are several per group: X for every group, or g=X for one;
    /// repeatable [default: inferred from the data]
    #[cfg_attr(feature = "clap", arg(long, value_name = "X|g=X", help_heading = "Terms"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_sd: Option<Vec<String>>,
    /// The level of a binary response that counts as 1 [default: 1, true or yes, else the last level in sort order]
    #[cfg_attr(feature = "clap", arg(long, value_name = "LEVEL", help_heading = "Terms"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Columns whose values are levels, whatever they look like: "x", or "x:ref=level" to choose the reference level
    /// [default: the first level]; repeatable
    #[cfg_attr(feature = "clap", arg(long, value_name = "COL[:ref=LEVEL]", help_heading = "Terms"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub categorical: Option<Vec<String>>,
    /// Column with frequency weights: a row with weight 3 counts as three equal rows
    #[cfg_attr(feature = "clap", arg(long, value_name = "COL", help_heading = "Terms"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<String>,
    /// Column that is added to the linear predictor
    #[cfg_attr(feature = "clap", arg(long, value_name = "COL", help_heading = "Terms"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<String>,
    /// Column with the exposures of counts, such as person-years: its logarithm is added to the linear predictor
    #[cfg_attr(feature = "clap", arg(long, value_name = "COL", help_heading = "Terms"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exposure: Option<String>,
    /// Column with the numbers of trials (binomial)
    #[cfg_attr(feature = "clap", arg(long, value_name = "COL", help_heading = "Terms"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trials: Option<String>,
    /// Dispersion (negative-binomial) [default: inferred from the data]
    #[cfg_attr(feature = "clap", arg(long, value_name = "X", help_heading = "Terms"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispersion: Option<f64>,
    /// Sd of the noise (linear) [default: inferred from the data]
    #[cfg_attr(feature = "clap", arg(long, value_name = "X", help_heading = "Terms"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sigma: Option<f64>,
    /// Prior sd of the coefficients: per sd of a numeric column, per step of a two-valued column or a level; for linear
    /// models in sds of the response; with --no-standardise in the units of the data; 'inf' = flat [default: 2.5]
    #[cfg_attr(feature = "clap", arg(long, value_name = "X", help_heading = "Prior"))]
    #[serde(with = "infinite", skip_serializing_if = "Option::is_none")]
    pub prior_sd: Option<f64>,
    /// Prior sd of the intercept at the mean of the features, in the same units; 'inf' = flat [default: 10]
    #[cfg_attr(feature = "clap", arg(long, value_name = "X", help_heading = "Prior"))]
    #[serde(with = "infinite", skip_serializing_if = "Option::is_none")]
    pub intercept_prior_sd: Option<f64>,
    /// Prior of the scales that are not given: group sd, sigma, 1/sqrt(dispersion) [default: half-normal]
    #[cfg_attr(feature = "clap", arg(long, value_parser = parser(choices::sd_priors()), help_heading = "Prior"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sd_prior: Option<String>,
    /// Scale of --sd-prior, in the units of --prior-sd [default: 2.5]
    #[cfg_attr(feature = "clap", arg(long, value_name = "X", help_heading = "Prior"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sd_prior_scale: Option<f64>,
    /// For scales that are not given: compute their posterior, or the maximum of the penalised likelihood [default:
    /// posterior]
    #[cfg_attr(feature = "clap", arg(long, value_parser = parser(choices::scales()), help_heading = "Method"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scales: Option<String>,
    /// Estimate a linear mixed model by restricted maximum likelihood, with flat priors of the coefficients; --scales
    /// estimate does so unless priors are given
    #[cfg_attr(feature = "clap", arg(long, conflicts_with = "ml", help_heading = "Method"))]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reml: bool,
    /// Estimate a mixed model by maximum likelihood, with flat priors of the coefficients
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Method"))]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ml: bool,
    /// What to prove of the estimate of a linear mixed model (--reml, --ml) [default: global where that takes a second
    /// at most]
    #[cfg_attr(feature = "clap", arg(long, value_parser = parser(choices::proofs()), help_heading = "Method"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prove: Option<String>,
    /// Fit without an intercept
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Data"))]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_intercept: bool,
    /// Do not centre and scale the features
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Data"))]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_standardise: bool,
    /// What to do with missing values [default: error]
    #[cfg_attr(feature = "clap", arg(long, value_parser = parser(choices::missing()), help_heading = "Data"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// A text or number that stands for a missing value, beside NA, '.', nan and empty cells; repeatable
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "TEXT", allow_hyphen_values = true, help_heading = "Data")
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub na: Option<Vec<String>>,
    /// Use only the rows that satisfy this SQL condition
    #[cfg_attr(feature = "clap", arg(long, value_name = "SQL", help_heading = "Data"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#where: Option<String>,
    /// SQL query on the table `data`; its result is used as the data
    #[cfg_attr(feature = "clap", arg(long, value_name = "SQL", help_heading = "Data"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sql: Option<String>,
    /// Method of the fit; subsampled and those listed after it are for researchers [default: auto]
    #[cfg_attr(feature = "clap", arg(long, value_parser = parser(choices::methods()), help_heading = "Method"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Structure of the covariance factor [default: auto]
    #[cfg_attr(feature = "clap", arg(long, value_parser = parser(choices::factors()), help_heading = RESEARCH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<String>,
    /// Constants of the paper's methods [default: local]
    #[cfg_attr(feature = "clap", arg(long, value_parser = parser(choices::constants()), help_heading = RESEARCH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constants: Option<String>,
    /// Step sizes of the paper's methods [default: greedy]
    #[cfg_attr(feature = "clap", arg(long, value_parser = parser(choices::steps()), help_heading = RESEARCH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<String>,
    /// Draws per iteration of the paper's methods [default: 10], or pairs of draws of subsampled [default: 8]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = RESEARCH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<usize>,
    /// Iterations of the paper's methods [default: 10000] or of subsampled [default: as its plan requires]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = RESEARCH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u64>,
    /// Rows per iteration of subsampled [default: 1024]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = RESEARCH))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row_batch: Option<usize>,
    /// Gap at which the fit stops, in nats [default: 0.01]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NATS", help_heading = "Goal"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<f64>,
    /// Probability with which a probable statement may be false [default: 0.01]
    #[cfg_attr(feature = "clap", arg(long, value_name = "P", help_heading = "Goal"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta: Option<f64>,
    /// How close the printed means (in sds) and sds (as a fraction) must be to the posterior's, even if that takes
    /// minutes [default: 0.1, if that takes seconds]
    #[cfg_attr(feature = "clap", arg(long, value_name = "A", help_heading = "Goal"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Where the printed means, sds and quantiles come from [default: auto]
    #[cfg_attr(feature = "clap", arg(long, value_parser = parser(choices::posteriors()), help_heading = "Goal"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub posterior: Option<String>,
    /// Level of certainty that is required of the accuracy and the gap [default: any]
    #[cfg_attr(feature = "clap", arg(long, value_parser = parser(choices::levels()), help_heading = "Goal"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// Prove the gap in ball arithmetic, with every rounding error included instead of allowed for (linear, logistic,
    /// binomial and poisson models without groups), or the intervals of sds that are not given (logistic and binomial
    /// models with one effect of one group; linear mixed models by REML or maximum likelihood)
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Goal"))]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub rigorous: bool,
    /// Time limit, counted from the start of the command and kept to within 2 s: 90s, 5m, 2h
    #[cfg_attr(feature = "clap", arg(long, value_name = "T", help_heading = "Goal"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_time: Option<String>,
    /// Gradients that the fit of a log density may take, for any purpose
    #[cfg_attr(feature = "clap", arg(skip))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_gradients: Option<u64>,
    /// Directory for the result [default: nothing is written]
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIR", help_heading = "Output"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out: Option<PathBuf>,
    /// Replace the contents of DIR
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Output"))]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub overwrite: bool,
    /// Time between checkpoints [default: 30s]
    #[cfg_attr(feature = "clap", arg(long, value_name = "T", help_heading = "Output"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_every: Option<String>,
    /// Print the fit.json object on stdout
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Output"))]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub json: bool,
    /// Print neither progress nor the table
    #[cfg_attr(feature = "clap", arg(long, short, help_heading = "Output"))]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub quiet: bool,
    /// Random seed [default: 0]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = "Output"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Number of threads; it does not change the result [default: all cores]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = "Output"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Priors of single coefficients or terms, in a TOML file: below the line `[priors]`, rain = 1.0 (the sd) or rain =
    /// { mean = 0.5, sd = 1.0 }
    #[cfg_attr(feature = "clap", arg(skip))]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub priors: BTreeMap<String, CoefficientPrior>,
}

impl Settings {
    /// In the form of settings.json and fit.json: only what was set.
    pub fn value(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("settings are plain values")
    }

    /// These settings; those that are not set are taken from `others`.
    pub fn or(&self, others: &Self) -> Self {
        let serde_json::Value::Object(mut all) = others.value() else { return self.clone() };
        if let serde_json::Value::Object(own) = self.value() {
            all.extend(own);
        }
        serde_json::from_value(all.into()).expect("settings are read as they are written")
    }

    /// The settings that determine the bits of a fit.
    pub fn decisive(&self) -> serde_json::Value {
        let mut own = self.clone();
        (own.data, own.out, own.threads, own.max_time, own.checkpoint_every) = (None, None, None, None, None);
        (own.overwrite, own.json, own.quiet) = (false, false, false);
        own.value()
    }

    /// Refuses unknown values.
    pub fn check_words(&self) -> Result<(), RequestError> {
        for (setting, word, choices) in [
            ("missing", &self.missing, choices::missing()),
            ("method", &self.method, choices::methods()),
            ("factor", &self.factor, choices::factors()),
            ("constants", &self.constants, choices::constants()),
            ("steps", &self.steps, choices::steps()),
            ("level", &self.level, choices::levels()),
            ("sd-prior", &self.sd_prior, choices::sd_priors()),
            ("scales", &self.scales, choices::scales()),
            ("posterior", &self.posterior, choices::posteriors()),
        ] {
            choices::check(setting, word.as_deref(), &choices)?;
        }
        if self.model.is_some() && self.max_gradients.is_some() {
            return Err(RequestError::no_effect("`max-gradients`", "log densities"));
        }
        self.asked().map(|_| ())
    }

    /// The model.
    pub fn response(&self) -> Result<Response, Error> {
        let name = self
            .model
            .as_deref()
            .ok_or_else(|| unset(format!("the model is not given: use one of {}", Response::names())))?;
        Ok(name.parse::<Response>()?)
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or(0)
    }

    /// The goal.
    pub fn goal(&self) -> Result<Goal, Error> {
        let max_time = self.max_time.as_deref().map(|text| duration("max-time", text)).transpose()?;
        let goal = Goal {
            gap: self.gap.unwrap_or(0.01),
            delta: self.delta.unwrap_or(0.01),
            accuracy: self.accuracy,
            rigorous: self.rigorous,
            max_time,
            max_gradients: self.max_gradients,
            seed: self.seed(),
            threads: self.threads,
            ..Goal::default()
        };
        goal.validate().map_err(certus_models::Error::Core)?;
        Ok(goal)
    }

    /// Refuses what has no effect on many models at once, which are not compared with their posteriors.
    pub fn check_many(&self) -> Result<(), RequestError> {
        let set = [
            ("accuracy", self.accuracy.is_some()),
            ("posterior", self.posterior.is_some()),
            ("rigorous", self.rigorous),
        ];
        match set.into_iter().find(|(_, set)| *set) {
            Some((setting, _)) => Err(RequestError::no_effect(setting, "one fit at a time (certus fit)")),
            None => Ok(()),
        }
    }

    /// Time between checkpoints.
    pub fn checkpoint_every(&self) -> Result<Duration, RequestError> {
        let every = self.checkpoint_every.as_deref();
        every.map_or(Ok(Duration::from_secs(30)), |text| duration("checkpoint-every", text))
    }

    /// Where the printed numbers come from.
    pub fn posterior(&self) -> Result<PosteriorChoice, RequestError> {
        self.posterior.as_deref().unwrap_or("auto").parse()
    }

    /// How to fit.
    pub fn choice(&self) -> Result<MethodChoice, RequestError> {
        let numbers = Numbers { batch: self.batch, iterations: self.iterations, row_batch: self.row_batch };
        let method = self.method.as_deref().unwrap_or("auto");
        let choice = MethodChoice::new(method, self.constants.as_deref(), self.steps.as_deref(), numbers)?;
        Ok(if self.factor.as_deref() == Some("diagonal") { choice.with_independence()? } else { choice })
    }

    /// The requested level.
    pub fn asked(&self) -> Result<Option<RequiredLevel>, RequestError> {
        self.level.as_deref().map(str::parse).transpose()
    }
}

pub(crate) fn unset(question: String) -> RequestError {
    RequestError::Unset { question }
}

/// The duration that a setting holds: 90s, 5m, 2h, 250ms, 1d, or a number of seconds.
pub fn duration(setting: &str, text: &str) -> Result<Duration, RequestError> {
    let bad = || RequestError::Duration { setting: setting.into(), value: text.into() };
    let units =
        [("ms", 1e-3), ("min", 60.0), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0), ("", 1.0)];
    let read = |(unit, factor): (&str, f64)| {
        let number: f64 = text.trim().strip_suffix(unit)?.trim().parse().ok()?;
        Some(number * factor)
    };
    let seconds = units.into_iter().find_map(read).ok_or_else(bad)?;
    Duration::try_from_secs_f64(seconds).map_err(|_| bad())
}

/// The interface that shows a message, which determines how settings are spelt in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// `--max-time`.
    CommandLine,
    /// `max_time`.
    Python,
}

impl Interface {
    /// A message in which settings stand between backticks, spelt for this interface.
    pub fn spell(self, message: &str) -> String {
        let mut out = String::with_capacity(message.len());
        let mut rest = message;
        while let Some((before, after)) = rest.split_once('`') {
            let Some((word, after)) = after.split_once('`') else { break };
            out.push_str(before);
            let setting = !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
            match self {
                Self::CommandLine if setting => out.push_str(&format!("--{word}")),
                Self::Python if setting => out.push_str(&word.replace('-', "_")),
                _ => out.push_str(&format!("`{word}`")),
            }
            rest = after;
        }
        out.push_str(rest);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn times_are_read() {
        for (text, seconds) in
            [("90s", 90.0), ("5 m", 300.0), ("1.5h", 5400.0), ("2", 2.0), ("250ms", 0.25), ("1e-3s", 1e-3)]
        {
            assert_eq!(duration("max-time", text).expect("a time").as_secs_f64(), seconds);
        }
        for text in ["", "soon", "5x", "-1s", "nan", "inf", "5 parsecs", "1e400h"] {
            let error = duration("max-time", text).expect_err("not a duration");
            assert!(error.kind() == ErrorKind::Request && error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn settings_are_spelt_for_their_readers() {
        let words = "`max-time` is 'x' in `SELECT 1`, and one ` alone";
        assert_eq!(Interface::CommandLine.spell(words), "--max-time is 'x' in `SELECT 1`, and one ` alone");
        assert_eq!(Interface::Python.spell(words), "max_time is 'x' in `SELECT 1`, and one ` alone");
    }

    #[test]
    fn what_is_set_wins() {
        let flags = Settings { gap: Some(1.0), quiet: true, ..Settings::default() };
        let file = Settings { gap: Some(2.0), prior_sd: Some(f64::INFINITY), ..Settings::default() };
        let both = flags.or(&file);
        assert_eq!((both.gap, both.prior_sd, both.quiet), (Some(1.0), Some(f64::INFINITY), true));
        assert_eq!(serde_json::from_value::<Settings>(both.value()).expect("legal"), both);
    }

    #[test]
    fn wrong_words_are_refused_by_name() {
        for (settings, word) in [
            (Settings { method: Some("newton".into()), ..Settings::default() }, "newton"),
            (Settings { missing: Some("keep".into()), ..Settings::default() }, "error, drop"),
            (Settings { level: Some("sure".into()), ..Settings::default() }, "proved"),
        ] {
            let error = settings.check_words().expect_err("refused");
            assert!(error.kind() == ErrorKind::Request && error.to_string().contains(word), "{error}");
        }
    }
}
