//! Whether what a fit directory says is true: the stored claims are read and checked, everything else is computed again
//! from the data and compared leaf by leaf; docs/verify.md says how, within which tolerances, and which fields are not
//! checked.

mod fresh;
mod leaves;
mod model;
mod report;
mod scales;
mod target;

use crate::directory::{GROUPS, MEANING, RECORD, SETTINGS};
use crate::posterior_draws::{DRAWS, PosteriorDraws};
use crate::record::{Parameter, SCHEMA};
use crate::{Arrays, Error, FitDirectory, Meta, Record};
use certus::{Goal, Outcome};
use certus_models::proof::DrawsCertificate;
use serde_json::Value;
use std::sync::OnceLock;

use crate::level::RequiredLevel;
use crate::method_choice::MethodChoice;
use crate::posterior::PosteriorChoice;
use crate::problem::Problem;
use leaves::{Difference, Rules, differences};
pub use report::{Line, Report, Word};
pub use target::{NEEDS_TARGET, unchecked_of_black_box};

/// Two numbers of a certificate are the same if they differ by this part of the larger one.
const CERTIFICATE: f64 = certus_verify::RELATIVE;
/// The same of all other numbers; of parameters, of the size of the parameter (|mean| + sd).
const ELSEWHERE: f64 = 1e-9;
/// What numbers may differ by, where the fit was made by another program or on another machine: rounding differs there.
const ROUNDING: f64 = 1e-8;

/// Settings on which no number of a fit depends: where it was read from and written to, how long it might take, what
/// was shown.
pub const IDLE: [&str; 8] =
    ["checkpoint-every", "data", "json", "max-time", "out", "overwrite", "quiet", "threads"];
/// Fields of fit.json on which no claim rests.
pub const UNCHECKED: [&str; 4] = ["counts", "seconds", "trace", "versions"];

/// True if `path` is `root` or below it.
fn below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// True for the fields of fit.json on which no claim rests.
pub fn unchecked(path: &str) -> bool {
    UNCHECKED.iter().any(|root| below(path, root))
        || path.strip_prefix("settings.").is_some_and(|name| IDLE.contains(&name))
}

/// A fit as its directory has it.
#[derive(Clone, Debug)]
pub struct Stored {
    /// fit.json.
    pub record: Record,
    /// The same, as it stands there.
    pub json: Value,
    /// settings.json.
    pub settings: Value,
    /// meaning.json; a black box has none.
    pub meaning: Option<Value>,
    /// arrays.safetensors.
    pub arrays: Arrays,
    /// groups.parquet, if there is one.
    pub groups: Option<Vec<u8>>,
}

impl Stored {
    /// The draws where the printed numbers come from, with as many scales as were not given.
    pub fn draws(&self, scales: usize) -> Option<PosteriorDraws> {
        let latents = self.record.table.as_ref().and(self.arrays.vectors.get(DRAWS))?;
        Some(PosteriorDraws::new(self.arrays.gaussian.dim() + scales, latents.clone()))
    }

    /// Reads all files of a fit.
    pub fn read(directory: &FitDirectory) -> Result<Self, Error> {
        let value = |name: &str| -> Result<Value, Error> {
            let bad =
                |e: serde_json::Error| Error::Damaged { path: directory.file(name), reason: e.to_string() };
            serde_json::from_slice(&directory.read(name)?).map_err(bad)
        };
        let record = Record::read(directory)?;
        if record.schema != SCHEMA {
            let reason = format!(
                "it has schema {}, but only schema {SCHEMA} can be verified: fit again",
                record.schema
            );
            return Err(Error::Damaged { path: directory.file(RECORD), reason });
        }
        let meaning = match value(MEANING) {
            Err(Error::Missing { .. }) if record.model == BLACK_BOX => None,
            Err(Error::Missing { .. }) => {
                let reason =
                    format!("there is no {MEANING}, but every fit of a model ({}) has one", record.model);
                return Err(Error::Damaged { path: directory.file(MEANING), reason });
            }
            other => Some(other?),
        };
        let groups = match directory.read(GROUPS) {
            Err(Error::Missing { .. }) => None,
            other => Some(other?),
        };
        Ok(Self {
            json: value(RECORD)?,
            settings: value(SETTINGS)?,
            meaning,
            arrays: Arrays::read(directory)?,
            groups,
            record,
        })
    }

    /// True for the fit of a log density, of which there are no data.
    pub fn is_black_box(&self) -> bool {
        self.record.model == BLACK_BOX
    }

    /// Strict where the fit was made by this program on such a machine.
    fn rules(&self, relative: f64, versions: Option<&std::collections::BTreeMap<String, String>>) -> Rules {
        let here = |key: &str| versions.is_none_or(|own| own.get(key) == self.record.versions.get(key));
        let absolute = if here("certus") && here("target") { 0.0 } else { ROUNDING };
        Rules { relative, absolute }
    }
}

/// The name of the model of a log density.
const BLACK_BOX: &str = "target";

/// What a fit is computed again from.
pub struct Recipe<'a> {
    /// The data and the model.
    pub problem: &'a Problem,
    /// The goal.
    pub goal: Goal,
    /// How it was fitted.
    pub choice: MethodChoice,
    /// Where the printed numbers come from.
    pub posterior: PosteriorChoice,
    /// The level that counts as reached.
    pub asked: Option<RequiredLevel>,
    /// What the record says beyond the outcome, from the outcome and its parameters.
    pub meta: &'a dyn Fn(&Outcome, Vec<Parameter>) -> Meta,
}

/// A fit computed again: what fit.json and the arrays should say.
pub struct Own {
    record: Value,
    /// Where it says so by the same computation as the fit, not by one of the stored Gaussian.
    arrays: Option<Arrays>,
    /// Draws of the posterior that the printed numbers come from.
    draws: Option<Vec<f64>>,
    fresh: Option<fresh::Fresh>,
    /// What was found beside the leaves.
    lines: Vec<Line>,
    refuted: Vec<String>,
    /// The certificate of the posterior at the same Gaussian, once it was made, or why there is none.
    moments: OnceLock<Result<DrawsCertificate, String>>,
    /// Leaves that only the run knows, with the reason.
    path_dependent: Vec<(&'static str, &'static str)>,
    versions: std::collections::BTreeMap<String, String>,
}

impl Own {
    /// Computes a fit again. An error if that cannot be done at the stored Gaussian.
    pub fn of(recipe: &Recipe<'_>, stored: &Stored) -> Result<Self, certus_models::Error> {
        if recipe.problem.collapsed().is_some() {
            return scales::own(recipe, stored);
        }
        model::own(recipe, stored)
    }

    /// The record; without notes on columns that the fit does not use if `stored` has none: it may have been made from
    /// a table without them.
    fn as_seen_by(&self, stored: &Value) -> Value {
        let on_other_columns = |note: &Value| note.as_str().is_some_and(|words| words.contains(" ignored: "));
        let mut own = self.record.clone();
        // a fit from a file, and not from a table in Python's memory, has seen all columns of the file
        let known = !stored["settings"]["data"].is_null()
            || stored["notes"].as_array().is_some_and(|notes| notes.iter().any(on_other_columns));
        if let Some(notes) = own["notes"].as_array_mut().filter(|_| !known) {
            notes.retain(|note| !on_other_columns(note));
        }
        own
    }

    /// What of `stored` agrees with it.
    pub fn compare(&self, recipe: &Recipe<'_>, stored: &Stored) -> Report {
        // what was found at the stored numbers comes first
        let mut report = Report { lines: self.lines.clone(), refuted: self.refuted.clone() };
        let versions = Some(&self.versions);
        let (fine, rough) = (stored.rules(ELSEWHERE, versions), stored.rules(CERTIFICATE, versions));
        files(recipe, stored, &fine, &mut report);
        let skip = |path: &str| {
            unchecked(path)
                || below(path, "parameters")
                || below(path, "settings")
                || self.path_dependent.iter().any(|(root, _)| below(path, root))
        };
        let in_certificate = |path: &str| path.is_empty() || below(path, "certificate");
        let own = self.as_seen_by(&stored.json);
        let mut found =
            differences("", &stored.json, &own, &rough, &|p| skip(p) || !in_certificate(p) && !p.is_empty());
        found.extend(differences("", &stored.json, &own, &fine, &|p| skip(p) || below(p, "certificate")));
        report.leaves(&found);
        parameters(&stored.json["parameters"], &self.record["parameters"], &fine, &mut report);
        model::gap(recipe, stored, &mut report);
        model::certificate(recipe, stored, &mut report);
        if let Some(fresh) = &self.fresh {
            fresh.contradicts(&stored.record.certificate.posterior, &mut report);
        }
        match &self.arrays {
            Some(own) => scales::arrays(own, &stored.arrays, &fine, &mut report),
            None => model::draws(self.draws.as_deref(), &stored.arrays, &fine, &mut report),
        }
        // what takes seconds comes last, and changes nothing where a fit is refuted already
        if report.refuted.is_empty() {
            model::moments(recipe, stored, &self.moments, &mut report);
        }
        report.summary(recipe, stored, &self.path_dependent);
        report
    }
}

/// Checks a fit with its data.
pub fn check(recipe: &Recipe<'_>, stored: &Stored) -> Report {
    match Own::of(recipe, stored) {
        Ok(own) => own.compare(recipe, stored),
        Err(error) => {
            let mut report = Report::default();
            report.refuted.push(format!("the stored fit cannot be recomputed: {error}"));
            report
        }
    }
}

/// Checks the fit of a log density: only what follows from the files.
pub fn check_black_box(stored: &Stored) -> Report {
    target::check(stored)
}

/// Sentences for the leaves of `stored`, a file or a part of one called `what`, that differ from what they should be by
/// more than rounding.
pub fn leaves_that_differ(
    what: &str,
    stored: &Value,
    own: &Value,
    skip: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    let mut report = Report::default();
    let rules = Rules { relative: ELSEWHERE, absolute: 0.0 };
    report.leaves(&differences(what, stored, own, &rules, skip));
    report.refuted
}

/// settings.json and meaning.json.
fn files(recipe: &Recipe<'_>, stored: &Stored, rules: &Rules, report: &mut Report) {
    settings(stored, report);
    let own = serde_json::to_value(&recipe.problem.meaning).expect("meanings are plain values");
    let there = stored.meaning.as_ref().unwrap_or(&Value::Null);
    report.leaves(&differences(MEANING, there, &own, rules, &|_| false));
}

/// settings.json says what fit.json says, but for what does not matter.
fn settings(stored: &Stored, report: &mut Report) {
    let strict = Rules { relative: 0.0, absolute: 0.0 };
    let idle = |path: &str| IDLE.contains(&path);
    for Difference { path, stored: there, own } in
        differences("", &stored.settings, &stored.json["settings"], &strict, &idle)
    {
        report.refuted.push(format!("{SETTINGS}: {path} is {there}, but in fit.json it is {own}"));
    }
}

/// Names, means, sds and quantiles are those of the arrays: to rounding, in units of the parameter's own size.
fn parameters(stored: &Value, own: &Value, rules: &Rules, report: &mut Report) {
    let none = Vec::new();
    let (there, own) = (stored.as_array().unwrap_or(&none), own.as_array().unwrap_or(&none));
    if there.len() != own.len() {
        report.refuted.push(format!(
            "fit.json has {} parameters, but the model has {}",
            there.len(),
            own.len()
        ));
    }
    for (there, own) in there.iter().zip(own) {
        let number = |value: &Value, key: &str| value[key].as_f64();
        let size = number(own, "mean").unwrap_or(0.0).abs() + number(own, "sd").unwrap_or(0.0);
        let mut wrong = there["name"] != own["name"]
            || there.as_object().map(|o| o.len()) != own.as_object().map(|o| o.len());
        let mut what = Vec::new();
        for key in ["level", "source"] {
            if there[key] != own[key] {
                wrong = true;
                what.push(format!("its {key} is {}, but it should be {}", there[key], own[key]));
            }
        }
        for key in ["mean", "sd", "q05", "q50", "q95", "mean_error", "sd_error", "quantile_error"] {
            let same = match (number(there, key), number(own, key)) {
                (Some(a), Some(b)) => (a - b).abs() <= ELSEWHERE * size || rules.near(a, b),
                (None, None) => there[key].is_null(),
                _ => false,
            };
            if !same {
                wrong = true;
                what.push(format!("its {key} is {}, but in the arrays it is {}", there[key], own[key]));
            }
        }
        if wrong {
            report.refuted.push(format!(
                "the parameter {} does not follow from the arrays, where it is {}: {}",
                there["name"],
                own["name"],
                what.join("; ")
            ));
        }
    }
}
