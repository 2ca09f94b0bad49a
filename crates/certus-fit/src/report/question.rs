//! The beginning of the report: what was asked of which data, in words.

use std::fmt::Write;

use certus_data::{ColumnEncoding, Encoding};
use certus_likelihood::{Link, Response, Values};

use super::html::{capital, count, escape, sentence};
use super::{Extras, section};
use crate::record::Record;

/// Names that a sentence lists.
const NAMED: usize = 12;

/// What is expected of the response.
pub(super) struct Outcome {
    /// "the probability that died is 1", as HTML.
    pub(super) expected: String,
    /// "the odds that died is 1", "the expected count of fits", "the mean of y": what a coefficient changes.
    pub(super) changed: String,
    /// For an axis: "probability that died is 1".
    pub(super) axis: String,
}

/// Of a model with rows; `None` of a log density.
pub(super) fn outcome(record: &Record, encoding: &Encoding) -> Option<Outcome> {
    let response: Response = record.model.parse().ok()?;
    let (name, bold) = (&encoding.response, strong(&encoding.response));
    let event = encoding.event.as_ref().map_or("1".to_string(), |event| event.level.clone());
    let binary = format!("{bold} is {}", strong(&event));
    let (expected, changed, axis) = match (response.values(), &encoding.trials) {
        (Values::Successes, Some(trials)) => (
            format!("the probability of a success ({bold} counts them, {} all trials)", strong(trials)),
            "the odds of a success".into(),
            "probability of a success".into(),
        ),
        (Values::Numbers, _) => {
            (format!("the mean of {bold}"), format!("the mean of {bold}"), format!("mean of {name}"))
        }
        (Values::Counts, _) => {
            let expected = format!("the expected count {bold}");
            (expected.clone(), expected, format!("expected {name}"))
        }
        (Values::Binary | Values::Successes, _) => (
            format!("the probability that {binary}"),
            match response.link() {
                Link::Logit => format!("the odds that {binary}"),
                _ => format!("the probability that {binary}"),
            },
            format!("probability that {name} is {event}"),
        ),
    };
    Some(Outcome { expected, changed, axis })
}

pub(super) fn strong(text: &str) -> String {
    format!("<strong>{}</strong>", escape(text))
}

/// "a, b and c", the first of them if there are many.
pub(super) fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        _ if names.len() > NAMED => {
            format!("{} and {} more", names[..NAMED].join(", "), count((names.len() - NAMED) as u64))
        }
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// The question and the data.
pub(super) fn part(out: &mut String, record: &Record, extras: &Extras) {
    section(out, "question", "The question");
    match extras.encoding.as_ref().and_then(|e| Some((e, outcome(record, e)?))) {
        Some((encoding, outcome)) => asked(out, record, encoding, &outcome),
        None => out.push_str("<p class=\"question\">What do the parameters of this density look like?</p>"),
    }
    out.push_str("</section>\n");
    section(out, "rows", "The data");
    data(out, record, extras);
    out.push_str("</section>\n");
}

fn asked(out: &mut String, record: &Record, encoding: &Encoding, outcome: &Outcome) {
    let mut terms: Vec<String> = Vec::new();
    for feature in &encoding.features {
        let term = strong(&feature.term);
        if !terms.contains(&term) {
            terms.push(term);
        }
    }
    let expected = &outcome.expected;
    let question = match terms.is_empty() {
        true => format!("What is {expected}?"),
        false => format!("How does {expected} depend on {}?", listed(&terms)),
    };
    let _ = write!(out, "<p class=\"question\">{question}</p>");
    let kind = match record.model.as_str() {
        "poisson" => "Poisson".into(),
        other => escape(&other.replace('-', " ")),
    };
    let mut words = format!("It is answered by a {kind} regression.");
    for group in &encoding.groups {
        let varying: Vec<String> = group
            .slopes
            .iter()
            .map(|j| match encoding.is_intercept(*j) {
                true => "the intercept".into(),
                false => format!("the coefficient of {}", strong(&encoding.coefficient(*j))),
            })
            .collect();
        let vary = if varying.len() == 1 { "varies" } else { "vary" };
        let levels = count(group.levels.len() as u64);
        let name = strong(&group.name);
        let _ = write!(
            words,
            " The rows belong to {levels} groups ({name}), and {} {vary} between these.",
            listed(&varying)
        );
    }
    if let Some(formula) = record.settings["formula"].as_str() {
        let _ = write!(words, " As a formula: <code>{}</code>.", escape(formula));
    }
    let _ = write!(out, "<p>{words}</p>");
}

/// The file, its rows, and which were left out.
fn data(out: &mut String, record: &Record, extras: &Extras) {
    let file = record.settings["data"].as_str().map(|path| {
        let name = path.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or(path);
        strong(name)
    });
    let mut words = match (file, record.data.rows) {
        (Some(file), Some(rows)) => format!("{file}, {} rows in use.", count(rows)),
        (Some(file), None) => format!("{file}."),
        (None, Some(rows)) => format!("Columns in memory, {} rows in use.", count(rows)),
        (None, None) => "A log density: it has no rows that are known here.".into(),
    };
    if let Some(condition) = record.settings["where"].as_str() {
        let _ = write!(words, " Only rows with <code>{}</code> were read.", escape(condition));
    }
    let left_out = record.notes.iter().filter(|note| note.contains(" left out because of missing values"));
    left_out.for_each(|note| {
        let _ = write!(words, " {}", escape(&sentence(note)));
    });
    let _ = write!(out, "<p>{words}</p>");
    let Some(encoding) = &extras.encoding else { return };
    let leveled = encoding.columns.iter().filter_map(|coding| match &coding.how {
        ColumnEncoding::Levels { levels, reference } if !levels.is_empty() => {
            let names: Vec<String> = levels.iter().map(|level| escape(level)).collect();
            let with = reference.as_ref().map_or(String::new(), |r| format!("; compared with {}", escape(r)));
            Some(format!("<li>{} has the values {}{with}.</li>", strong(&coding.name), listed(&names)))
        }
        _ => None,
    });
    let lines: Vec<String> = leveled.take(NAMED).collect();
    if !lines.is_empty() {
        let _ = write!(out, "<ul>{}</ul>", lines.join(""));
    }
}

/// The heading of the page.
pub(super) fn title(record: &Record, extras: &Extras) -> String {
    capital(&escape(extras.title.as_deref().unwrap_or(&record.model)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed() {
        let names: Vec<String> = (0..14).map(|k| k.to_string()).collect();
        assert_eq!((listed(&names[..1]).as_str(), listed(&names[..3]).as_str()), ("0", "0, 1 and 2"));
        assert!(listed(&names).ends_with("10, 11 and 2 more"));
    }
}
