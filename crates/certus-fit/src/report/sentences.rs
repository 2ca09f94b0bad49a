//! A sentence for every predictor whose part in the model is one number (or one for each level): its direction and
//! its size. Of predictors in interactions or curves no single number is true, so they are sent to the pictures.

use std::fmt::Write;

use certus::certificate::significant;
use certus_data::{Coding, ColumnEncoding, Encoding, Feature};
use certus_likelihood::{Link, Response};

use super::html::number;
use super::question::{Outcome, listed, outcome, strong};
use crate::record::{Parameter, Record};

/// Sentences.
const SAID: usize = 12;
/// Sds of a column between which one unit of it is a reasonable step.
const STEPS: [f64; 2] = [0.05, 50.0];
/// Beyond this a factor is told by its logarithm.
const HUGE: f64 = 1e4;

/// The sentences, as a list.
pub(super) fn sentences(out: &mut String, record: &Record, encoding: &Encoding) {
    let (Some(outcome), Ok(response)) = (outcome(record, encoding), record.model.parse::<Response>()) else {
        return;
    };
    let (mut said, mut pictured): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for (c, coding) in encoding.columns.iter().enumerate() {
        let own: Vec<&Feature> = of_coding(encoding, c).collect();
        if own.is_empty() {
            continue;
        }
        match alone(encoding, c).then(|| said_of(record, encoding, coding, &own, &outcome, response.link())) {
            Some(Some(words)) => said.extend(words),
            _ => pictured.push(strong(&coding.name)),
        }
    }
    if !said.is_empty() {
        let groups = if encoding.groups.is_empty() { "" } else { " and belong to the same groups" };
        let _ = write!(
            out,
            "<p>Compared are rows that are alike in all other predictors{groups}.</p><ul class=\"said\">"
        );
        said.iter().take(SAID).for_each(|words| {
            let _ = write!(out, "<li>{words}</li>");
        });
        out.push_str("</ul>");
    }
    if said.len() > SAID {
        out.push_str("<p class=\"small\">The other predictors are in the table.</p>");
    }
    if !pictured.is_empty() {
        let (it, has) = if pictured.len() == 1 { ("it", "has") } else { ("they", "have") };
        let _ = write!(
            out,
            "<p>What {} {} to do with the response is no single number, because {it} {has} a curve, a part in an \
             interaction, or no level to compare with: see the pictures below.</p>",
            listed(&pictured),
            has
        );
    }
}

fn of_coding(encoding: &Encoding, c: usize) -> impl Iterator<Item = &Feature> {
    encoding.features.iter().filter(move |f| f.parts.iter().any(|p| p.column == c))
}

/// True if the columns of a coding enter the model through it alone, without interactions, and as one number or as
/// levels.
fn alone(encoding: &Encoding, c: usize) -> bool {
    let single = of_coding(encoding, c).all(|f| f.parts.len() == 1 && f.parts[0].function.is_none());
    let own = encoding.columns[c].columns();
    let shares = |(k, other): (usize, &Coding)| {
        k != c
            && other.columns().iter().any(|name| own.contains(name))
            && of_coding(encoding, k).next().is_some()
    };
    let in_offset =
        encoding.offset.as_ref().is_some_and(|offset| offset.columns().iter().any(|name| own.contains(name)));
    single && !in_offset && !encoding.columns.iter().enumerate().any(shares)
}

/// The sentences of a predictor; `None` if nothing can be said, because its levels have no reference.
fn said_of(
    record: &Record,
    encoding: &Encoding,
    coding: &Coding,
    own: &[&Feature],
    outcome: &Outcome,
    link: Link,
) -> Option<Vec<String>> {
    let mut out = Vec::new();
    for feature in own {
        let parameter = record.parameters.iter().find(|p| p.name == feature.name)?;
        let (head, step) = compared(coding, feature)?;
        let effect = Effect::of(parameter, step)?;
        let varying = varying(encoding, feature);
        out.push(format!("For {head}, {}{varying}.", effect.said(outcome, link)));
    }
    Some(out)
}

/// "one more unit of age" and how many units that is, or "arm b rather than a".
fn compared(coding: &Coding, feature: &Feature) -> Option<(String, f64)> {
    let name = strong(&coding.name);
    Some(match &coding.how {
        ColumnEncoding::Levels { levels, reference } => {
            let level = levels.get(feature.parts[0].level? as usize)?;
            (format!("{name} {} rather than {}", strong(level), strong(reference.as_ref()?)), 1.0)
        }
        ColumnEncoding::Boolean => (format!("{name} true rather than false"), 1.0),
        ColumnEncoding::Days { .. } => (format!("{name} one day later"), 1.0),
        _ if is_indicator(feature) => (format!("{name} 1 rather than 0"), 1.0),
        _ => match step(feature.sd) {
            1.0 => (format!("one more unit of {name}"), 1.0),
            step => (format!("{step} more units of {name}"), step),
        },
    })
}

/// Of a column of zeros and ones the mean determines the sd.
fn is_indicator(feature: &Feature) -> bool {
    let (m, s) = (feature.mean, feature.sd);
    feature.unit == Some(1.0) && m > 0.0 && m < 1.0 && (s * s - m * (1.0 - m)).abs() < 1e-9
}

/// One unit, or the power of ten that is nearest to the sd of a column with a very different one.
fn step(sd: f64) -> f64 {
    let usual = (STEPS[0]..=STEPS[1]).contains(&sd) || sd <= 0.0 || !sd.is_finite();
    if usual { 1.0 } else { 10f64.powi(sd.log10().round() as i32) }
}

/// Where the coefficient varies by group, what the number is.
fn varying(encoding: &Encoding, feature: &Feature) -> String {
    let place = encoding.features.iter().position(|f| f.name == feature.name);
    let column = place.map(|j| j + usize::from(encoding.intercept));
    let of: Vec<String> = encoding
        .groups
        .iter()
        .filter(|group| column.is_some_and(|j| group.slopes.contains(&j)))
        .map(|group| strong(&group.name))
        .collect();
    if of.is_empty() { String::new() } else { format!("; this is the average group of {}", listed(&of)) }
}

/// A coefficient times a step: middle and ends of the interval.
struct Effect([f64; 3]);

impl Effect {
    fn of(p: &Parameter, step: f64) -> Option<Self> {
        let middle = p.q50.or(p.mean)?;
        Some(Self([middle, p.q05?, p.q95?].map(|x| step * x))).filter(|e| e.0.iter().all(|x| x.is_finite()))
    }

    /// "the odds that y is 1 are multiplied by about 1.03 (90\u{a0}% interval 1.01 to 1.05), so they are higher".
    fn said(&self, outcome: &Outcome, link: Link) -> String {
        let [middle, low, high] = self.0;
        let plural = outcome.changed.starts_with("the odds");
        let (changed, is) = (&outcome.changed, if plural { "are" } else { "is" });
        let factors = self.0.map(f64::exp);
        let huge = factors.iter().any(|x| !(HUGE.recip()..HUGE).contains(x));
        let multiplies = matches!(link, Link::Logit | Link::Log) && !huge;
        let [shown, from, to] = told(if multiplies { factors } else { self.0 });
        let interval = format!("90\u{a0}% interval {from} to {to}");
        let none = if multiplies { "1" } else { "0" };
        let direction = match (low > 0.0, high < 0.0) {
            (true, _) => "higher",
            (_, true) => "lower",
            _ => "",
        };
        let open = format!("the interval includes {none}, so the direction is open");
        let what = match link {
            _ if multiplies => format!("{changed} {is} multiplied by about {shown} ({interval})"),
            Link::Identity => {
                let word = if middle < 0.0 { "lower" } else { "higher" };
                let [size, a, b] = match middle < 0.0 {
                    true => told([-middle, -high, -low]),
                    false => told(self.0),
                };
                let what = format!("{changed} {is} about {size} {word} (90\u{a0}% interval {a} to {b})");
                return if direction.is_empty() { format!("{what}: {open}") } else { what };
            }
            Link::Probit => format!("{changed} moves by about {shown} on the probit scale ({interval})"),
            Link::Logit | Link::Log => {
                format!("the logarithm of {} changes by about {shown} ({interval})", changed)
            }
        };
        match direction {
            "" => format!("{what}: {open}"),
            direction => format!("{what}: {} {is} {direction}", if plural { "they" } else { "it" }),
        }
    }
}

/// With three digits, or five where these do not tell the numbers apart.
fn told(numbers: [f64; 3]) -> [String; 3] {
    let short = numbers.map(number);
    let apart = short[0] != short[1] && short[0] != short[2] && short[1] != short[2];
    if apart { short } else { numbers.map(|x| significant(x, 5)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(changed: &str) -> Outcome {
        Outcome { expected: String::new(), changed: changed.into(), axis: String::new() }
    }

    /// log 2 on the scale of odds; an interval about 0 leaves the direction open; lower means are told by their size.
    #[test]
    fn directions_and_sizes() {
        let log = |x: f64| x.ln();
        let odds = Effect([log(2.0), log(1.5), log(3.0)]).said(&outcome("the odds of it"), Link::Logit);
        assert_eq!(
            odds,
            "the odds of it are multiplied by about 2.00 (90\u{a0}% interval 1.50 to 3.00): they are higher"
        );
        let open = Effect([log(2.0), log(0.5), log(8.0)]).said(&outcome("the count"), Link::Log);
        assert!(
            open.ends_with("0.500 to 8.00): the interval includes 1, so the direction is open"),
            "{open}"
        );
        let mean = Effect([-3.0, -4.0, -2.0]).said(&outcome("the mean"), Link::Identity);
        assert_eq!(mean, "the mean is about 3.00 lower (90\u{a0}% interval 2.00 to 4.00)");
        let open = Effect([-3.0, -7.0, 1.0]).said(&outcome("the mean"), Link::Identity);
        assert!(
            open.contains("3.00 lower (90\u{a0}% interval -1.00 to 7.00): the interval includes 0"),
            "{open}"
        );
        let huge = Effect([20.0, 18.0, 22.0]).said(&outcome("the odds of it"), Link::Logit);
        assert!(
            huge.starts_with("the logarithm of the odds of it changes by about 20.0 (90\u{a0}%"),
            "{huge}"
        );
    }

    #[test]
    fn numbers_are_told_apart() {
        assert_eq!(told([1.0127, 1.0122, 1.0131]), ["1.0127", "1.0122", "1.0131"]);
        assert_eq!(told([2.0, 1.5, 3.0]), ["2.00", "1.50", "3.00"]);
    }

    #[test]
    fn steps_are_powers_of_ten() {
        assert_eq!([1.0, 49.0, 0.06, 0.0, f64::NAN].map(step), [1.0; 5]);
        assert_eq!(
            [[120.0, 4000.0], [0.01, 2e-4]].map(|pair| pair.map(step)),
            [[100.0, 10_000.0], [0.01, 1e-4]]
        );
    }
}
