//! How far to trust the answer: the certificate in plain words and in its own, never more than it states.

use std::fmt::Write;

use certus::Status;
use certus::certificate::words::{figure, probability};

use super::html::{escape, sentence};
use super::{paragraphs, scale, section, words};
use crate::record::{Record, RecordedLevel, Table, Voucher};

/// The section.
pub(super) fn part(out: &mut String, record: &Record) {
    let (headline, tone) = words::headline(record);
    let (gap, posterior) = (&record.certificate.gap, &record.certificate.posterior);
    section(out, "trust", "How far to trust it");
    let _ = write!(
        out,
        "<div class=\"verdict {}\"><p class=\"headline\">{}</p>",
        tone.class(),
        escape(&headline)
    );
    let _ = write!(out, "<p>{}</p>", escape(&plain(record)));
    if record.status != Status::Reached {
        let _ = write!(out, "<p>{}</p>", words::meaning(&record.status));
        message(out, record);
    }
    match (&record.certificate.scale, &record.table) {
        (Some(scale), table) => paragraphs(out, &scale::sentences(scale, table.as_ref())),
        (None, Some(table)) => {
            // the headline of a fit that ended well is the first of them
            let told = usize::from(record.status == Status::Reached);
            let rest = table.sentences().into_iter().skip(told);
            paragraphs(out, &rest.map(|words| escape(&sentence(&words))).collect::<Vec<_>>());
        }
        (None, None) => {
            paragraphs(out, &words::stated(&gap.facts()));
            paragraphs(out, &words::stated(&posterior.facts())[..1]);
        }
    }
    out.push_str(
        "</div>\n<p>All of this is about the computation: how close the numbers are to what the model and the data \
         imply. Whether the model suits the data is another question, which the checks below are about. That a \
         predictor goes with the response does not mean that it causes it.</p>\n",
    );
    if !record.notes.is_empty() {
        out.push_str("<h3>Notes and warnings</h3><ul>");
        record.notes.iter().for_each(|note| {
            let _ = write!(out, "<li>{}</li>", escape(note));
        });
        out.push_str("</ul>");
    }
    out.push_str("</section>\n");
}

/// The fit's own sentence about its end.
pub(super) fn message(out: &mut String, record: &Record) {
    if !record.message.is_empty() {
        let _ = write!(out, "<p>{}</p>", escape(&sentence(&record.message)));
    }
}

/// What the certificate means for the numbers above it.
fn plain(record: &Record) -> String {
    match record.status {
        Status::Reached => {}
        Status::Limit | Status::NoProgress | Status::Interrupted => {
            return "The computation ended before its goal, so the numbers above are less exact than was asked for."
                .into();
        }
        Status::NonFinite | Status::AssumptionViolated | Status::UserError => {
            return "The computation failed: the numbers above are no answer.".into();
        }
    }
    let (gap, posterior) = (&record.certificate.gap, &record.certificate.posterior);
    let declared = gap.assumptions.iter().chain(&posterior.assumptions).any(|a| a.by == Voucher::User);
    let rests = if declared { " This rests on what the user declared." } else { "" };
    let words = match (&record.table, &record.certificate.scale) {
        (Some(table), _) => of_table(table),
        (None, Some(scale)) if record.criterion.is_some() || scale.prior.is_none() => format!(
            "The numbers above are those at which the {} is highest among all that were tried. That there is a maximum \
             near them is {}.",
            scale.objective,
            if scale.level == RecordedLevel::Proved { "proved" } else { "not proved" }
        ),
        (None, Some(_)) => "The numbers above are sums over a grid of the standard deviations that were not given. \
                            Their error is estimated, not proved."
            .into(),
        (None, None) => match posterior.mean_error.zip(posterior.sd_error) {
            Some((mean, _)) => moved(mean, posterior.level, posterior.delta),
            None => "The numbers above are those of a normal distribution that approximates the exact answer. How \
                     far it is from that is not stated for each number."
                .into(),
        },
    };
    words + rests
}

fn of_table(table: &Table) -> String {
    match table.mean_error {
        Some(error) => moved(error, table.level, table.delta),
        None => "How exact the numbers above are is not known.".into(),
    }
}

/// How much exact computation would move the estimates.
fn moved(error: f64, level: RecordedLevel, delta: Option<f64>) -> String {
    let sd = "standard deviation (the width of its uncertainty)";
    match level {
        RecordedLevel::Proved => {
            format!(
                "An exact computation would move no estimate above by more than {} of its {sd}.",
                figure(error)
            )
        }
        RecordedLevel::Probable => format!(
            "With probability {}, an exact computation would move no estimate above by more than {} of its {sd}.",
            delta.map_or("unknown".into(), probability),
            figure(error)
        ),
        RecordedLevel::Estimated | RecordedLevel::None => format!(
            "An exact computation would move an estimate above by about {} of its {sd}. This is estimated, not proved.",
            figure(error)
        ),
    }
}
