//! The verdict in sentences: what is proved, what is only estimated, what failed.

use certus::Status;
use certus::certificate::words::{About, Facts, Sentence, probability};

use super::html::{capital, escape, sentence};
use crate::record::{Assumption, Record, RecordedLevel, Voucher};

/// How the page is coloured; the words say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Good,
    Caution,
    Bad,
}

impl Tone {
    pub(super) fn class(self) -> &'static str {
        match self {
            Tone::Good => "good",
            Tone::Caution => "caution",
            Tone::Bad => "bad",
        }
    }
}

/// The headline and its tone.
pub(super) fn headline(record: &Record) -> (String, Tone) {
    let gap = &record.certificate.gap;
    if let (Status::Reached, Some(table)) = (&record.status, &record.table) {
        let tone = if table.level == RecordedLevel::Estimated { Tone::Caution } else { Tone::Good };
        return (capital(&table.errors()), tone);
    }
    if let (Status::Reached, Some(scale)) = (&record.status, &record.certificate.scale) {
        if let Some(criterion) = &record.criterion {
            let (how, tone) = match scale.level {
                RecordedLevel::Proved => (format!("near a maximum that is {}", scale.proved()), Tone::Good),
                _ => ("without a proof".into(), Tone::Caution),
            };
            return (format!("Estimated by {}, {how}", criterion.kind), tone);
        }
        return match scale.level {
            RecordedLevel::Proved => {
                (format!("{} is estimated, with a proved interval", scale.name), Tone::Good)
            }
            _ if scale.others.is_empty() => {
                (format!("{} is estimated, without a proof", scale.name), Tone::Caution)
            }
            _ => (format!("{} are estimated, without a proof", scale.names()), Tone::Caution),
        };
    }
    match (&record.status, gap.level) {
        (Status::Reached, RecordedLevel::Proved) => ("The goal is reached, with a proof".into(), Tone::Good),
        (Status::Reached, RecordedLevel::Probable) => {
            let probability = gap.delta.map_or("unknown".into(), probability);
            (format!("The goal is reached, with probability {probability}"), Tone::Good)
        }
        (Status::Reached, RecordedLevel::Estimated) => {
            ("The goal is reached, but only by an estimate".into(), Tone::Caution)
        }
        (Status::Reached, RecordedLevel::None) => {
            ("The run ended as requested, without a certificate".into(), Tone::Caution)
        }
        (Status::Limit, _) => ("A limit was reached before the goal".into(), Tone::Caution),
        (Status::NoProgress, _) => ("The fit stopped making progress".into(), Tone::Caution),
        (Status::Interrupted, _) => ("The fit was interrupted".into(), Tone::Caution),
        (Status::NonFinite, _) => ("The fit failed: a value was not finite".into(), Tone::Bad),
        (Status::AssumptionViolated, _) => ("The fit failed: an assumption is violated".into(), Tone::Bad),
        (Status::UserError, _) => ("The fit failed: the log density returned an error".into(), Tone::Bad),
    }
}

/// What that status means for the reader.
pub(super) fn meaning(status: &Status) -> &'static str {
    match status {
        Status::Reached => "The fit ended because its goal was met.",
        Status::Limit => {
            "The result is the best Gaussian that was evaluated; what is known about it is stated below. More time, \
                or a larger gap, would allow the fit to finish."
        }
        Status::NoProgress => {
            "Rounding error or a flat direction prevented further progress; what is known about the result is stated \
                below."
        }
        Status::NonFinite => {
            "The numbers below describe the last Gaussian that was finite. Do not use them before the cause is found."
        }
        Status::AssumptionViolated => {
            "Two points contradict an assumption of the method. Read the message, and do not rely on the numbers below."
        }
        Status::UserError => {
            "The numbers below describe the last Gaussian before the error. Do not use them before the cause is found."
        }
        Status::Interrupted => {
            "It can be resumed, and then gives the same result as a fit that was never interrupted."
        }
    }
}

/// A sentence as HTML, its number set apart.
fn html(sentence: &Sentence) -> String {
    let Sentence { before, size, after } = sentence;
    format!("{}<strong>{}</strong>{}.", escape(&capital(before)), escape(size), escape(after))
}

/// What is stated, its errors, the evidence, and why it is not stronger, as HTML.
pub(super) fn stated(facts: &Facts<'_>) -> Vec<String> {
    let mut out = vec![html(&facts.standing_alone())];
    if facts.bound.is_none() && facts.about == About::Posterior {
        out[0].push_str(" A small gap does not imply that the posterior is close to a Gaussian.");
    }
    let more = [facts.errors(), facts.evidence(), facts.weakness()];
    out.extend(more.into_iter().flatten().map(|line| escape(&sentence(&line))));
    out
}

/// The size of a statement and its level, for a box.
pub(super) fn fact(facts: &Facts<'_>) -> String {
    match facts.size() {
        Some(size) => format!("{} <small>{}</small>", escape(&size), escape(&facts.level_words())),
        None => "none".into(),
    }
}

/// What k̂ says.
pub(super) fn k_hat(k: f64) -> (&'static str, Tone) {
    match k {
        k if k < 0.5 => ("The importance weights are light-tailed: q covers the posterior well.", Tone::Good),
        k if k < 0.7 => ("The importance weights are usable: q covers most of the posterior.", Tone::Caution),
        _ => ("q misses parts of the posterior: do not trust its tails and its spread.", Tone::Bad),
    }
}

/// What a statement rests on.
pub(super) fn assumption(a: &Assumption) -> String {
    let who = match (a.by, &a.reason) {
        (Voucher::Model, _) => "proved by the model".to_string(),
        (Voucher::User, Some(reason)) => format!("declared by the user: “{}”", escape(reason)),
        (Voucher::User, None) => "declared by the user".into(),
        (Voucher::Estimate, _) => "only estimated".into(),
    };
    format!("{} ({who})", escape(&a.what))
}
