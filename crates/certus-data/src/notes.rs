//! What became of the columns, in sentences for the user.

use crate::encoding::{ColumnEncoding, Encoding, date_note};
use crate::left::UnusedColumn;
use crate::profile::Profile;
use crate::spec::{Missing, Spec};
use crate::summary::Dependent;

/// Names of columns that a sentence lists, at most.
const MOST_NAMES: usize = 20;

/// What was left out and how columns were read, a sentence each.
pub(crate) fn notes(
    spec: &Spec,
    encoding: &Encoding,
    profile: &Profile,
    ignored: &[UnusedColumn],
    dropped: &[UnusedColumn],
) -> Vec<String> {
    let mut notes = Vec::new();
    if spec.missing == Missing::Drop && profile.incomplete > 0 {
        let each: Vec<String> = profile.missing.iter().map(ToString::to_string).collect();
        let total = profile.used + profile.incomplete;
        notes.push(format!(
            "{} of {total} rows {} left out because of missing values: {}",
            profile.incomplete,
            if profile.incomplete == 1 { "is" } else { "are" },
            each.join(", ")
        ));
    }
    notes.extend(together(ignored, "ignored"));
    notes.extend(together(dropped, "left out"));
    notes.extend(encoding.computed.as_ref().map(|of| {
        format!("the response is {of}: coefficients, sds, predictions and intervals are on that scale")
    }));
    notes.extend(encoding.event.as_ref().map(|event| event.note(&encoding.response)));
    let is_feature = |c: usize| encoding.features.iter().any(|f| f.parts.iter().any(|p| p.column == c));
    for (c, column) in encoding.columns.iter().enumerate() {
        match &column.how {
            ColumnEncoding::Days { first } => notes.push(date_note(&column.name, *first)),
            // nothing is a reference to what only varies by group
            ColumnEncoding::Levels { levels, reference } if is_feature(c) => {
                let shown = levels[..levels.len().min(10)].join(", ");
                let more = if levels.len() > 10 {
                    format!(" and {} more", levels.len() - 10)
                } else {
                    String::new()
                };
                notes.push(match reference {
                    Some(r) => {
                        format!("'{}' has the levels {shown}{more}; the reference is {r}", column.name)
                    }
                    None => format!(
                        "'{}' has the levels {shown}{more}, each with its own coefficient",
                        column.name
                    ),
                });
            }
            _ => (),
        }
    }
    notes
}

/// The columns of which the same is said, in one sentence.
fn together(left: &[UnusedColumn], how: &str) -> Vec<String> {
    let mut reasons: Vec<&str> = Vec::new();
    for l in left {
        if !reasons.contains(&l.reason.as_str()) {
            reasons.push(&l.reason);
        }
    }
    let sentence = |reason: &&str| {
        let names: Vec<String> =
            left.iter().filter(|l| l.reason == *reason).map(|l| format!("'{}'", l.name)).collect();
        match &names[..] {
            [name] => format!("{name} is {how}: it {reason}"),
            _ => {
                let names = shortened(&names);
                let plural = match reason.split_once(' ') {
                    Some(("is", rest)) => format!("are {rest}"),
                    Some(("holds", rest)) => format!("hold {rest}"),
                    Some(("counts", rest)) => format!("count {rest}"),
                    Some(("has", rest)) => format!("have {rest}"),
                    _ => reason.to_string(),
                };
                format!("{names} are {how}: they {plural}")
            }
        }
    };
    reasons.iter().map(sentence).collect()
}

/// Names in a sentence, the first of them if there are many.
fn shortened(names: &[String]) -> String {
    match names.len() {
        0..=MOST_NAMES => names.join(", "),
        many => format!("{} and {} more columns", names[..MOST_NAMES].join(", "), many - MOST_NAMES),
    }
}

/// A dependence in words. A copy is a multiple by 1: with x = mean + sd·a that needs a coefficient of 1, equal sds and
/// equal means.
pub(crate) fn dependence(encoding: &Encoding, found: &Dependent) -> String {
    let feature = &encoding.features[found.feature];
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
    let kept = "; both stay in the model, and only the prior distinguishes their coefficients";
    if let [(Some(k), c)] = found.on[..] {
        let other = &encoding.features[k];
        let same = near(c * feature.sd, other.sd) && (!encoding.intercept || near(feature.mean, other.mean));
        let how = if same { "is a copy of" } else { "is collinear with" };
        return format!("'{}' {how} '{}'{kept}", feature.name, other.name);
    }
    if found.on.is_empty() {
        return format!(
            "'{}' is constant up to rounding; it stays in the model, and only the prior determines its coefficient",
            feature.name
        );
    }
    let names: Vec<String> = found
        .on
        .iter()
        .map(|(k, _)| k.map_or("the intercept".into(), |k| format!("'{}'", encoding.features[k].name)))
        .collect();
    format!(
        "'{}' is a linear combination of {}; it stays in the model, and only the prior distinguishes their \
            coefficients",
        feature.name,
        names.join(", ")
    )
}
