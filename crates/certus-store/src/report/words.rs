//! The verdict in sentences: what is proved, what is only estimated, what failed.

use certus::Status;
use certus::certificate::figure;

use super::html::escape;
use crate::record::{Assumption, Gap, Level, Posterior, Record, Voucher};

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
    if let (Status::Reached, Some(scale)) = (&record.status, &record.certificate.scale) {
        return match scale.level {
            Level::Proved => (format!("{} is found, with a proof", scale.name), Tone::Good),
            _ if scale.others.is_empty() => {
                (format!("{} is found, without a proof", scale.name), Tone::Caution)
            }
            _ => (format!("{} are found, without a proof", scale.names()), Tone::Caution),
        };
    }
    match (&record.status, gap.level) {
        (Status::Reached, Level::Proved) => ("The goal is reached, with a proof".into(), Tone::Good),
        (Status::Reached, Level::Probable) => {
            (format!("The goal is reached, with probability {}", confidence(gap.delta)), Tone::Good)
        }
        (Status::Reached, Level::Estimated) => {
            ("The goal is reached, by estimate only".into(), Tone::Caution)
        }
        (Status::Reached, Level::None) => {
            ("The run ended as asked, without a certificate".into(), Tone::Caution)
        }
        (Status::Limit, _) => ("A limit came before the goal".into(), Tone::Caution),
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
            "The result is the best Gaussian that was looked at; what holds of it is said below. More time, or a larger gap, would let it finish."
        }
        Status::NoProgress => {
            "Rounding or a flat direction kept it from going further; what holds of the result is said below."
        }
        Status::NonFinite => {
            "The numbers below describe the last Gaussian that was finite. Do not use them before the cause is found."
        }
        Status::AssumptionViolated => {
            "Two points contradict what the method needs. Read the message, and do not rely on the numbers below."
        }
        Status::UserError => {
            "The numbers below describe the last Gaussian before the error. Do not use them before the cause is found."
        }
        Status::Interrupted => {
            "It can be resumed, and then gives the same result as a fit that was never interrupted."
        }
    }
}

fn confidence(delta: Option<f64>) -> String {
    // 1 − δ, never rounded up
    delta.map_or("unknown".into(), |delta| format!("{}", ((1.0 - delta) * 1e9).floor() / 1e9))
}

/// "It is proved that", "With probability 0.99,", "It is estimated, not proved, that".
fn opening(level: Level, delta: Option<f64>) -> String {
    match level {
        Level::Proved => "It is proved that".into(),
        Level::Probable => {
            format!("With probability at least {} over the fit's own random draws,", confidence(delta))
        }
        Level::Estimated | Level::None => "It is estimated, and not proved, that".into(),
    }
}

/// "at most x", or "about x ± e" for an estimate with an error.
fn size(level: Level, bound: f64, constants: &std::collections::BTreeMap<String, Option<f64>>) -> String {
    let constant = |name: &str| constants.get(name).copied().flatten();
    match (level, constant("estimate"), constant("standard error")) {
        (Level::Estimated, Some(value), Some(error)) => {
            format!("about {} ± {}", figure(value.max(0.0)), figure(error))
        }
        _ => format!("at most {}", figure(bound)),
    }
}

/// Sentences about the gap, as HTML.
pub(super) fn gap(gap: &Gap) -> Vec<String> {
    let Some(bound) = gap.bound else {
        return vec![format!(
            "Nothing is known of the distance to the best Gaussian, because {}.",
            sentence(gap.reason.as_deref())
        )];
    };
    let family = match gap.family.as_str() {
        "all Gaussians" => "the best of all Gaussians".to_string(),
        other => format!("the best Gaussian of the family “{}”", escape(other)),
    };
    let mut out = vec![format!(
        "{} this Gaussian is <strong>{} nats</strong> worse than {family}{}.",
        opening(gap.level, gap.delta),
        size(gap.level, bound, &gap.constants),
        label(gap.theorem.as_deref())
    )];
    out.extend(errors("the best Gaussian", gap.mean_error, gap.sd_error));
    out.extend(gap.reason.as_deref().map(|r| format!("It is not stronger because {}.", sentence(Some(r)))));
    out
}

/// Sentences about the posterior, as HTML.
pub(super) fn posterior(posterior: &Posterior) -> Vec<String> {
    let Some(bound) = posterior.bound else {
        return vec![format!(
            "Nothing is stated about the distance from the posterior itself, because {}. A small gap does not say that the posterior looks like a Gaussian.",
            sentence(posterior.reason.as_deref())
        )];
    };
    let mut out = vec![format!(
        "{} the distance KL(q ‖ p) of this Gaussian from the posterior is <strong>{} nats</strong>{}.",
        opening(posterior.level, posterior.delta),
        size(posterior.level, bound, &posterior.constants),
        label(posterior.theorem.as_deref())
    )];
    out.extend(errors("the posterior", posterior.mean_error, posterior.sd_error));
    out.extend(
        posterior
            .log_evidence
            .map(|[low, high]| format!("The log evidence of the data lies between {low:.4} and {high:.4}.")),
    );
    out.extend(
        posterior.reason.as_deref().map(|r| format!("It is not stronger because {}.", sentence(Some(r)))),
    );
    out
}

/// What k̂ says.
pub(super) fn k_hat(k: f64) -> (&'static str, Tone) {
    match k {
        k if k < 0.5 => {
            ("The weights of q against the posterior are light-tailed: q covers it well.", Tone::Good)
        }
        k if k < 0.7 => {
            ("The weights of q against the posterior are usable: q covers most of it.", Tone::Caution)
        }
        _ => ("q misses parts of the posterior: its tails and spread are not to be trusted.", Tone::Bad),
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

fn errors(of: &str, mean: Option<f64>, sd: Option<f64>) -> Option<String> {
    let mean = mean.map(|e| {
        format!("every mean of {of} lies within {} standard deviations of the one given here", figure(e))
    });
    let sd = sd.map(|e| format!("every standard deviation within {} %", figure(100.0 * e)));
    let both: Vec<_> = mean.into_iter().chain(sd).collect();
    (!both.is_empty()).then(|| format!("At the same level, {}.", both.join(", and ")))
}

fn label(theorem: Option<&str>) -> String {
    theorem.map_or(String::new(), |t| format!(" ({})", escape(t)))
}

/// A reason without the full stop that the sentence around it has.
fn sentence(reason: Option<&str>) -> String {
    escape(reason.unwrap_or("nobody asked").trim_end_matches('.'))
}
