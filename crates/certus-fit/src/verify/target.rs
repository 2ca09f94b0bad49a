//! The fit of a log density, which is not in the files: what follows from the files alone.

use std::time::Duration;

use crate::posterior::accurate;
use crate::posterior_draws::DRAWS;
use crate::record::{Data, LogConcave, OfGaussian, Parameter, RecordedLevel, Source, Voucher};
use crate::{Meta, Record};
use certus::Outcome;
use certus::auto::{ACCURATE, Counts, LIGHT, USABLE, Verdict, estimated_gap, reached};
use certus::certificate::{Certificate, Gap, Posterior, family_name};
use certus::diagnostics::importance::STATED;
use certus::diagnostics::{Estimate, importance};
use certus::fit::Status;

use super::leaves::differences;
use super::{ELSEWHERE, Report, Stored, Word, below, parameters, settings, unchecked};

/// Fields of a black box that only its log density determines, and from which nothing else in the files follows.
pub const NEEDS_TARGET: [&str; 8] = [
    "certificate.gap.constants.draws",
    "certificate.gap.constants.estimate",
    "comparison",
    "k_hat",
    "neg_elbo_se",
    "notes",
    "parameters[].name",
    "route",
];
/// Checks what can be.
pub(super) fn check(stored: &Stored) -> Report {
    let mut report = Report::default();
    let record = &stored.record;
    settings(stored, &mut report);
    if let Some(file) =
        [("meaning.json", stored.meaning.is_some()), ("groups.parquet", stored.groups.is_some())]
            .into_iter()
            .find_map(|(name, there)| there.then_some(name))
    {
        report.refuted.push(format!("there is a {name}, but a log density has none", name = file));
    }
    for name in stored.arrays.vectors.keys().filter(|name| *name != DRAWS || record.table.is_none()) {
        report.refuted.push(format!("the arrays have a vector {name}, which does not belong to such a fit"));
    }
    levels(stored, &mut report);
    let rules = stored.rules(ELSEWHERE, None);
    let own = own(stored);
    let own = serde_json::to_value(&own).expect("a record has only text keys");
    let elsewhere = |path: &str| {
        unchecked(path)
            || below(path, "settings")
            || below(path, "parameters")
            || below(path, "gaussian.parameters")
            || NEEDS_TARGET.iter().any(|root| below(path, root))
    };
    report.leaves(&differences("", &stored.json, &own, &rules, &elsewhere));
    evidence(stored, &mut report);
    match record.table {
        Some(_) => {
            let of = |json: &serde_json::Value| json["gaussian"]["parameters"].clone();
            parameters(&of(&stored.json), &of(&own), &rules, &mut report);
            report.line(
                Word::NotChecked,
                "the printed means, sds and quantiles, and their draws: they need the log density",
            );
        }
        None => parameters(&stored.json["parameters"], &own["parameters"], &rules, &mut report),
    }
    if report.refuted.is_empty() {
        report.line(
            Word::Recomputed,
            format!("parameters: all {} follow from the arrays", record.parameters.len()),
        );
        report.line(
            Word::Recomputed,
            "verdict, bounds, message and status follow from the stored estimates and the settings; nothing is \
                claimed to be proved by the model",
        );
    }
    report.line(
        Word::NotChecked,
        "the estimates themselves (of the gap, of the divergence from the posterior, of the evidence, the negative \
            ELBO) and the correlations: they need the log density, which is not in the files",
    );
    report.line(Word::NotChecked, format!("nothing else follows from them: {}", NEEDS_TARGET.join(", ")));
    report.idle();
    report
}

/// No theorem of ours applies to the target: nothing is proved, nothing is vouched for by a model, and for the
/// posterior there are only estimates.
fn levels(stored: &Stored, report: &mut Report) {
    let certificate = &stored.record.certificate;
    let (gap, posterior) = (&certificate.gap, &certificate.posterior);
    if gap.level == RecordedLevel::Proved
        || matches!(posterior.level, RecordedLevel::Proved | RecordedLevel::Probable)
    {
        let words = "the level of a certificate is stronger than a black box allows, because nothing is proved about \
            it";
        report.refuted.push(words.into());
    }
    let goal = stored.record.settings["gap"].as_f64().unwrap_or(certus::Goal::default().gap);
    if stored.record.status == Status::Reached && gap.bound.is_some_and(|bound| bound > goal) {
        report.refuted.push(format!("status is reached, but the requested gap of {goal} nats is not"));
    }
    if stored.record.status == Status::Reached && !stored.record.verdict.is_some_and(Verdict::is_usable) {
        report
            .refuted
            .push("status is reached, but the verdict is not accurate or usable after correction".into());
    }
    let declared = is_declared(&stored.record);
    let table = stored.record.table.as_ref();
    if table.is_some_and(|t| {
        t.level == RecordedLevel::Proved || (t.level == RecordedLevel::Probable && !declared)
    }) {
        report.refuted.push("the printed numbers are surer than what is known of the target allows".into());
    }
    let mut all = gap.assumptions.iter().chain(&posterior.assumptions);
    if all.any(|a| a.by == Voucher::Model) {
        report
            .refuted
            .push("an assumption is said to be proved by the model, but a black box proves nothing".into());
    }
    let user = |level: RecordedLevel| level == RecordedLevel::Probable;
    if user(gap.level) && gap.assumptions.iter().all(|a| a.by != Voucher::User) {
        report
            .refuted
            .push("a probable gap rests on constants that the user declared, but none is named".into());
    }
    if posterior.bound.is_some() && stored.record.k_hat.is_some_and(|k| k >= USABLE) {
        report.refuted.push(format!(
            "k_hat is {:?}, which rules out an estimate of the posterior",
            stored.record.k_hat
        ));
    }
}

/// True of a target that its owner declared log-concave.
fn is_declared(record: &Record) -> bool {
    record.comparison.as_ref().is_some_and(|c| c.log_concave == LogConcave::Declared)
}

/// The record whose numbers follow from the stored estimates.
fn own(stored: &Stored) -> Record {
    let record = &stored.record;
    let (w, certificate) = (&stored.arrays.gaussian, &record.certificate);
    let constant = |of: &std::collections::BTreeMap<String, Option<f64>>, name: &str| {
        of.get(name).copied().flatten().unwrap_or(f64::NAN)
    };
    let estimate =
        |of| Estimate { value: constant(of, "estimate"), standard_error: constant(of, "standard error") };
    let reason = |reason: &Option<String>| reason.clone().unwrap_or_default();
    let family = family_name(w.factor());
    let estimated = estimate(&certificate.gap.constants);
    let gap = match certificate.gap.level {
        RecordedLevel::Estimated => {
            let draws = constant(&certificate.gap.constants, "draws");
            estimated_gap(family, estimated, draws, is_declared(record))
        }
        _ => Gap::none(family, reason(&certificate.gap.reason)),
    };
    let posterior = match (certificate.posterior.level, certificate.posterior.log_evidence) {
        (RecordedLevel::Estimated, Some([low, high])) => {
            let evidence = Estimate { value: 0.5 * (low + high), standard_error: 0.25 * (high - low) };
            importance::stated(evidence, estimate(&certificate.posterior.constants))
        }
        _ => Posterior::none(reason(&certificate.posterior.reason)),
    };
    let stated = match (&record.comparison, certificate.posterior.level) {
        (Some(c), RecordedLevel::Estimated) => {
            (with(c.mean_shift, c.mean_shift_se), with(c.sd_shift, c.sd_shift_se))
        }
        _ => (None, None),
    };
    let goal = record.settings["gap"].as_f64().unwrap_or(certus::Goal::default().gap);
    let number = |x: Option<f64>| x.unwrap_or(f64::NAN);
    let posterior = Posterior { mean_error: stated.0, sd_error: stated.1, ..posterior };
    let mut outcome = Outcome {
        status: Status::Reached,
        message: match record.verdict_sentence() {
            Some(verdict) => format!("{verdict}; {}", reached(&gap)),
            None => reached(&gap),
        },
        route: record.route.clone(),
        gaussian: w.clone(),
        neg_elbo: Estimate { value: number(record.neg_elbo), standard_error: number(record.neg_elbo_se) },
        certificate: Certificate { gap, posterior },
        k_hat: record.k_hat,
        comparison: None,
        counts: Counts::default(),
        trace: Vec::new(),
        error: None,
        elapsed: Duration::ZERO,
    };
    if let Some(asked) =
        record.settings["level"].as_str().and_then(|word| word.parse::<crate::RequiredLevel>().ok())
    {
        asked.judge(&mut outcome);
    }
    let bound = outcome.certificate.gap.statement.bound();
    let enough = bound.is_some_and(|bound| bound <= goal);
    let same = outcome.status == record.status && outcome.message == record.message;
    // how another run ended is not known, but that it did not reach its goal is
    if !(enough && same)
        && (record.status != Status::Reached || bound.is_none())
        && record.message != outcome.message
    {
        (outcome.status, outcome.message) = (record.status.clone(), record.message.clone());
    } else if !enough {
        outcome.status = Status::Limit;
    }
    let name = |i: usize| record.parameters.get(i).map_or("", |p| p.name.as_str());
    let moments = w.mean().iter().zip(w.sd()).enumerate();
    let meta = Meta {
        model: super::BLACK_BOX.into(),
        parameters: moments.map(|(i, (mean, sd))| Parameter::normal(name(i), *mean, sd)).collect(),
        settings: record.settings.clone(),
        seed: record.settings["seed"].as_u64().unwrap_or(0),
        data: Data::default(),
        notes: Vec::new(),
        versions: record.versions.clone(),
    };
    let mut own = Record::new(&outcome, meta).printing_own();
    (own.verdict, own.comparison) = (verdict(record), record.comparison.clone());
    if let Some(table) = &record.table {
        own.gaussian = Some(OfGaussian { parameters: own.parameters });
        (own.table, own.parameters) = (Some(table.clone()), record.parameters.clone());
        let bounds = certificate.posterior.constants.iter().filter(|(name, _)| name.ends_with("at most"));
        own.certificate.posterior.constants.extend(bounds.map(|(name, x)| (name.clone(), *x)));
    }
    match certificate.gap.level {
        // a bound from constants that the user declared: what it rests on is theirs
        RecordedLevel::Probable => own.certificate.gap = certificate.gap.clone(),
        // where nothing is stated, the numbers beside it are not claims
        RecordedLevel::None => own.certificate.gap.constants.clone_from(&certificate.gap.constants),
        _ => {}
    }
    own
}

/// An estimate and 2.6 of its standard errors.
fn with(value: Option<f64>, standard_error: Option<f64>) -> Option<f64> {
    Some(value? + STATED * standard_error?)
}

/// The verdict that follows from the tail of the weights, the modes and the changes, or from the chains that are
/// printed, where there was a comparison.
fn verdict(record: &Record) -> Option<Verdict> {
    let found = record.comparison.as_ref()?;
    let k_hat = record.k_hat.unwrap_or(0.0);
    let shifts = with(found.mean_shift, found.mean_shift_se).zip(with(found.sd_shift, found.sd_shift_se));
    if let Some(table) = record.table.as_ref().filter(|table| table.source == Source::Nuts) {
        let constant = |name: &str| table.constants.get(name).copied().flatten().unwrap_or(f64::NAN);
        let [r_hat, effective, divergences] = ["R-hat", "effective sample size", "divergences"].map(constant);
        // draws of good chains may still not give the sd of a variable with a heavy tail
        let doubted = record.verdict == Some(Verdict::Unreliable);
        let errors = record.parameters.iter().flat_map(|p| [p.mean_error, p.sd_error]).flatten();
        let error = errors.fold(0.0, f64::max);
        let good = accurate(r_hat, effective, divergences, error) && found.missed == 0 && !doubted;
        return Some(if good { Verdict::Accurate } else { Verdict::Unreliable });
    }
    let Some((mean, sd)) = shifts else { return record.verdict.filter(|v| !v.is_usable()) };
    if k_hat >= USABLE || found.missed > 0 {
        return Some(Verdict::Unreliable);
    }
    match record.verdict? {
        // few draws are behind some weights
        Verdict::Unreliable => Some(Verdict::Unreliable),
        _ if k_hat < LIGHT && mean.max(sd) <= ACCURATE => Some(Verdict::Accurate),
        _ => Some(Verdict::UsableAfterCorrection),
    }
}

/// The evidence, the negative ELBO and the divergence come from the same draws: log p(data) + f = KL.
fn evidence(stored: &Stored, report: &mut Report) {
    let posterior = &stored.record.certificate.posterior;
    let (Some([low, high]), Some(f)) = (posterior.log_evidence, stored.record.neg_elbo) else {
        if posterior.level == RecordedLevel::Estimated {
            report.refuted.push("neg_elbo or certificate.posterior.log_evidence is missing".into());
        }
        return;
    };
    let kl = posterior.constants.get("estimate").copied().flatten().unwrap_or(f64::NAN);
    let (evidence, size) = (0.5 * (low + high), 1.0 + low.abs().max(high.abs()).max(f.abs()));
    let same = (evidence + f - kl).abs() <= ELSEWHERE * size;
    if !same || low > high {
        report.refuted.push(format!(
            "certificate.posterior.log_evidence, neg_elbo and the estimate of the divergence contradict each other: \
                {evidence} + {f} is not {kl}"
        ));
    }
}

/// True for the fields of a black box that are not checked.
pub fn unchecked_of_black_box(path: &str) -> bool {
    let plain: String = path.chars().filter(|c| !c.is_ascii_digit()).collect();
    unchecked(path) || NEEDS_TARGET.iter().any(|root| below(&plain, root))
}
