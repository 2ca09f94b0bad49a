//! `fit.json`: everything a fit says, in one object whose fields docs/fit-json.md explains.

use std::collections::BTreeMap;

use certus::{Outcome, Status};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::directory::{FitDirectory, RECORD};
use crate::error::Error;

mod comparison;
mod convert;
mod lines;
mod mixed;
mod scale;
mod status;
mod table;
mod words;

pub use comparison::{Comparison, LogConcave, Mode};
use convert::finite;
pub use lines::number;
pub use mixed::{CriterionValue, GroupTerm};
pub use scale::{GroupEffect, OtherScale, RESTRICTED, Scale, ScaleMaximum, objective};
pub use table::{OfGaussian, Source, Table};

/// The version of the schema that this crate writes. It also reads schema 1, which has no `certificate.scale`, and
/// schema 2, which has no manifest beside it.
pub const SCHEMA: u32 = 3;

/// `fit.json`. Numbers that are not finite are `None` and null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What was fitted.
    pub model: String,
    /// How it ended.
    #[serde(with = "status")]
    pub status: Status,
    /// One sentence about it.
    pub message: String,
    /// What was chosen and why.
    pub route: String,
    /// f, in nats.
    pub neg_elbo: Option<f64>,
    /// Its standard error, 0 where f is exact.
    pub neg_elbo_se: Option<f64>,
    /// What is known about the Gaussian.
    pub certificate: Certificate,
    /// The shape of the tail of the importance weights, where draws were made.
    pub k_hat: Option<f64>,
    /// What the printed numbers of a black box are worth.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "comparison::word")]
    pub verdict: Option<certus::auto::Verdict>,
    /// What that was decided by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
    /// One entry per coefficient, on the user's scale.
    pub parameters: Vec<Parameter>,
    /// Where these numbers come from, if not from the Gaussian.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<Table>,
    /// The Gaussian's own numbers, if others are printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gaussian: Option<OfGaussian>,
    /// The random effects of a linear mixed model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupTerm>,
    /// What was maximised, of a linear mixed model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub criterion: Option<CriterionValue>,
    /// What was spent.
    pub counts: Counts,
    /// How long it took.
    pub seconds: f64,
    /// The run, a line for every recorded point.
    pub trace: Vec<TracePoint>,
    /// Everything the user set or left at its default.
    pub settings: Value,
    /// The seed.
    pub seed: u64,
    /// Programs, libraries and the vector instructions used.
    pub versions: BTreeMap<String, String>,
    /// What was read.
    pub data: Data,
    /// Remarks and warnings, in sentences.
    pub notes: Vec<String>,
}

/// Both parts of the certificate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// Distance to the best Gaussian.
    pub gap: Gap,
    /// Distance from the posterior.
    pub posterior: Posterior,
    /// The sd between groups, where it was not given.
    pub scale: Option<Scale>,
}

/// The bound on f(w) − f*.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gap {
    /// In nats.
    pub bound: Option<f64>,
    /// How strong it is.
    pub level: RecordedLevel,
    /// δ, if it is probable.
    pub delta: Option<f64>,
    /// Its label in docs/maths.md.
    pub theorem: Option<String>,
    /// What the optimum is over.
    pub family: String,
    /// Why there is none, or why it is not stronger.
    pub reason: Option<String>,
    /// What it rests on.
    pub assumptions: Vec<Assumption>,
    /// The constants that entered.
    pub constants: BTreeMap<String, Option<f64>>,
    /// Means of the optimum, in sds of q.
    pub mean_error: Option<f64>,
    /// Sds of the optimum, as a fraction of q's.
    pub sd_error: Option<f64>,
}

/// The bound on KL(q ‖ p).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Posterior {
    /// In nats.
    pub bound: Option<f64>,
    /// How strong it is.
    pub level: RecordedLevel,
    /// δ, if it is probable.
    pub delta: Option<f64>,
    /// Its label in docs/maths.md.
    pub theorem: Option<String>,
    /// Why there is none, or why it is not stronger.
    pub reason: Option<String>,
    /// What it rests on.
    pub assumptions: Vec<Assumption>,
    /// The constants that entered.
    pub constants: BTreeMap<String, Option<f64>>,
    /// A bracket of the log evidence.
    pub log_evidence: Option<[f64; 2]>,
    /// Means of the posterior, in sds of q.
    pub mean_error: Option<f64>,
    /// Sds of the posterior, as a fraction of q's.
    pub sd_error: Option<f64>,
}

/// How strong a statement is; the words of docs/certificates.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordedLevel {
    /// A theorem.
    Proved,
    /// With probability 1 − δ.
    Probable,
    /// A number without a guarantee.
    Estimated,
    /// Nothing is stated.
    None,
}

/// Something a statement rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assumption {
    /// What is assumed.
    pub what: String,
    /// Who says so.
    pub by: Voucher,
    /// The user's reason.
    pub reason: Option<String>,
}

/// Who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Voucher {
    /// The model proves it.
    Model,
    /// The user declared it.
    User,
    /// It was only measured.
    Estimate,
}

/// One coefficient.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its mean.
    pub mean: Option<f64>,
    /// Its standard deviation.
    pub sd: Option<f64>,
    /// The 5 % quantile.
    pub q05: Option<f64>,
    /// The median.
    pub q50: Option<f64>,
    /// The 95 % quantile.
    pub q95: Option<f64>,
    /// How far the mean may be from the posterior's, in units of `sd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_error: Option<f64>,
    /// How far the sd may be from the posterior's, as a fraction of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sd_error: Option<f64>,
    /// How far a quantile may be from the posterior's, in units of `sd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantile_error: Option<f64>,
    /// How sure these errors are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<RecordedLevel>,
    /// Where the numbers come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
}

/// What was spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Single-point full-data gradients, for any purpose.
    pub gradients: u64,
    /// Hessians.
    pub hessians: u64,
    /// Passes that integrate exactly.
    pub exact_passes: u64,
}

/// One recorded point of the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TracePoint {
    /// Since the run began.
    pub seconds: f64,
    /// Steps taken.
    pub iteration: u64,
    /// Gradients spent.
    pub gradients: u64,
    /// f, if it was computed.
    pub neg_elbo: Option<f64>,
    /// The bound on the gap, or its estimate.
    pub bound: Option<f64>,
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// Rows used; null for a target without data.
    pub rows: Option<u64>,
    /// A hash of what was read.
    pub fingerprint: Option<String>,
    /// A hash of the response, trials and weights of the rows used.
    #[serde(default)]
    pub responses: Option<String>,
}

/// What a record needs beyond the outcome.
#[derive(Clone, Debug)]
pub struct Meta {
    /// What was fitted: `logistic`, `target`.
    pub model: String,
    /// The parameters on the user's scale.
    pub parameters: Vec<Parameter>,
    /// Settings.
    pub settings: Value,
    /// Seed.
    pub seed: u64,
    /// Rows and fingerprint.
    pub data: Data,
    /// Remarks and warnings.
    pub notes: Vec<String>,
    /// Versions.
    pub versions: BTreeMap<String, String>,
}

impl Record {
    /// What `outcome` says, with what only the caller knows.
    pub fn new(outcome: &Outcome, meta: Meta) -> Self {
        let certus::auto::Counts { gradients, hessians, exact_passes } = outcome.counts;
        Self {
            route: outcome.route.clone(),
            neg_elbo: finite(outcome.neg_elbo.value),
            neg_elbo_se: finite(outcome.neg_elbo.standard_error),
            certificate: Certificate::new(&outcome.certificate),
            k_hat: outcome.k_hat.and_then(finite),
            verdict: outcome.comparison.as_ref().map(|found| found.verdict),
            comparison: outcome.comparison.as_ref().map(Comparison::new),
            counts: Counts { gradients, hessians, exact_passes },
            seconds: outcome.elapsed.as_secs_f64(),
            trace: outcome.trace.iter().map(TracePoint::new).collect(),
            ..Self::failed(outcome.status.clone(), outcome.message.clone(), meta)
        }
    }

    /// The record of a fit that failed before it had a Gaussian: how and why, and nothing is certified.
    pub fn failed(status: Status, message: String, meta: Meta) -> Self {
        let nothing = certus::Certificate {
            gap: certus::certificate::Gap::none("all Gaussians", message.clone()),
            posterior: certus::certificate::Posterior::none(message.clone()),
        };
        Self {
            schema: SCHEMA,
            model: meta.model,
            status,
            message,
            route: String::new(),
            neg_elbo: None,
            neg_elbo_se: None,
            certificate: Certificate::new(&nothing),
            k_hat: None,
            verdict: None,
            comparison: None,
            parameters: meta.parameters,
            table: None,
            gaussian: None,
            groups: Vec::new(),
            criterion: None,
            counts: Counts { gradients: 0, hessians: 0, exact_passes: 0 },
            seconds: 0.0,
            trace: Vec::new(),
            settings: meta.settings,
            seed: meta.seed,
            versions: meta.versions,
            data: meta.data,
            notes: meta.notes,
        }
    }

    /// The record of a run that went on from where `earlier` was interrupted: its time and trace come first. The counts
    /// of a saved state include those before, so they stay as they are.
    #[must_use]
    pub fn after(mut self, earlier: &Record) -> Self {
        let began = earlier.seconds;
        self.trace.iter_mut().for_each(|point| point.seconds += began);
        let next = self.trace.first().map_or(u64::MAX, |point| point.iteration);
        let kept = earlier.trace.iter().filter(|point| point.iteration < next).copied();
        self.trace = kept.chain(self.trace.iter().copied()).collect();
        self.seconds += began;
        self
    }

    /// The text of `fit.json`.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a record has only text keys");
        text.push('\n');
        text
    }

    /// Reads what [`to_json`](Self::to_json) wrote. The answer to anything else is a sentence that says what is wrong
    /// with it.
    pub fn from_json(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            schema: u32,
        }
        let version: Version = serde_json::from_str(text).map_err(|e| e.to_string())?;
        if !(1..=SCHEMA).contains(&version.schema) {
            return Err(format!(
                "it has schema {}, but this program reads schemas 1 to {SCHEMA}",
                version.schema
            ));
        }
        let record: Self = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let (gap, posterior) = (&record.certificate.gap, &record.certificate.posterior);
        consistent("gap", gap.bound, gap.level, gap.delta)?;
        consistent("posterior", posterior.bound, posterior.level, posterior.delta)?;
        record.certificate.scale.iter().try_for_each(Scale::consistent)?;
        Ok(record)
    }

    /// Writes `fit.json`.
    pub fn write(&self, directory: &FitDirectory) -> Result<(), Error> {
        directory.write(RECORD, self.to_json().as_bytes())
    }

    /// Reads `fit.json`.
    pub fn read(directory: &FitDirectory) -> Result<Self, Error> {
        let bad = |reason: String| Error::damaged(&directory.file(RECORD), reason);
        let text = String::from_utf8(directory.read(RECORD)?).map_err(|e| bad(e.to_string()))?;
        Self::from_json(&text).map_err(bad)
    }
}

/// A level goes with a bound, a δ with the level that has one.
fn consistent(
    what: &str,
    bound: Option<f64>,
    level: RecordedLevel,
    delta: Option<f64>,
) -> Result<(), String> {
    if bound.is_some() != (level != RecordedLevel::None) || bound.is_some_and(|b| b < 0.0) {
        return Err(format!("the {what} has the level {level:?} and the bound {bound:?}"));
    }
    if delta.is_some() != (level == RecordedLevel::Probable) || delta.is_some_and(|d| !(d > 0.0 && d < 1.0)) {
        return Err(format!("the {what} has the level {level:?} and the delta {delta:?}"));
    }
    Ok(())
}
