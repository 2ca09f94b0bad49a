//! Binary responses whose two values are not 0 and 1: which of them is the event.

use serde::{Deserialize, Serialize};

use crate::error::{ColumnError, DataError};
use crate::table::Kind;

/// The level of a binary response that counts as 1, and the one that counts as 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Counts as 1.
    pub level: String,
    /// Counts as 0; `None` if no row has another level.
    pub other: Option<String>,
}

/// Levels that are the event unless another is asked for, in any case.
const EVENTS: [&str; 3] = ["1", "true", "yes"];
/// Levels that are not the event if no row has another.
const OTHERS: [&str; 3] = ["0", "false", "no"];

fn among(words: [&str; 3], level: &str) -> bool {
    words.iter().any(|word| word.eq_ignore_ascii_case(level))
}

impl Event {
    /// Of the levels of a response in their order; `None` if it is numbers and no event is asked for: they are taken
    /// as they stand, and the likelihood refuses all but 0 and 1 (which of 1 and 2 is the event, no one can guess).
    pub(crate) fn of(
        column: &str,
        kind: &Kind,
        levels: &[String],
        asked: Option<&str>,
    ) -> Result<Option<Self>, DataError> {
        if matches!(kind, Kind::Number | Kind::Boolean) && asked.is_none() {
            return Ok(None);
        }
        let asked = asked.map(|level| as_label(kind, level));
        if levels.len() > 2 {
            return Err(ColumnError::ResponseLevels { column: column.into(), levels: levels.to_vec() }.into());
        }
        let last = levels.last().cloned().unwrap_or_default();
        let level = match (asked, levels.len()) {
            (Some(level), 1) => level,
            (Some(level), _) if levels.contains(&level) => level,
            (Some(level), _) => {
                let (column, known) = (column.into(), levels.to_vec());
                return Err(ColumnError::UnknownEvent { column, level, known }.into());
            }
            (None, 1) if among(EVENTS, &last) => last,
            (None, 1) if among(OTHERS, &last) => {
                EVENTS[OTHERS.iter().position(|o| o.eq_ignore_ascii_case(&last)).unwrap_or(0)].into()
            }
            (None, 1) => {
                return Err(
                    ColumnError::ResponseLevels { column: column.into(), levels: levels.to_vec() }.into()
                );
            }
            (None, _) => levels.iter().find(|level| among(EVENTS, level)).cloned().unwrap_or(last),
        };
        let other = levels.iter().find(|own| **own != level).cloned();
        Ok(Some(Self { level, other }))
    }

    /// 1 for the event, 0 for the other level, `None` for any other.
    pub(crate) fn number(&self, label: &str) -> Option<f64> {
        match (label == self.level, self.other.as_deref()) {
            (true, _) => Some(1.0),
            (false, Some(other)) if label == other => Some(0.0),
            _ => None,
        }
    }

    /// The note of it.
    pub(crate) fn note(&self, column: &str) -> String {
        match &self.other {
            Some(other) => format!(
                "the event of '{column}' is '{}', and '{other}' is the other level (the setting event chooses)",
                self.level
            ),
            None => format!("the event of '{column}' is '{}', its only level", self.level),
        }
    }
}

/// An event as the labels of its column are written.
fn as_label(kind: &Kind, level: &str) -> String {
    match (kind, level.trim().parse::<f64>()) {
        (Kind::Number, Ok(x)) => format!("{}", x + 0.0),
        (Kind::Boolean, Ok(x)) if x == 0.0 || x == 1.0 => (x == 1.0).to_string(),
        (Kind::Boolean, _) => level.trim().to_ascii_lowercase(),
        _ => level.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_event_of_two_levels() {
        let of = |kind: &Kind, levels: &[&str], asked: Option<&str>| {
            let levels: Vec<String> = levels.iter().map(ToString::to_string).collect();
            Event::of("y", kind, &levels, asked).map(|event| event.map(|event| event.level))
        };
        let is = |kind: &Kind, levels: &[&str], asked: Option<&str>, event: Option<&str>| {
            assert_eq!(of(kind, levels, asked).expect("legal").as_deref(), event, "{levels:?} {asked:?}");
        };
        let (text, number, boolean) = (&Kind::Text, &Kind::Number, &Kind::Boolean);
        is(number, &["0", "1"], None, None);
        is(number, &["1"], None, None);
        is(number, &["0", "0.5", "1"], None, None);
        is(boolean, &["false", "true"], None, None);
        is(text, &["no", "yes"], None, Some("yes"));
        is(text, &["No", "Yes"], None, Some("Yes"));
        is(text, &["unknown", "yes"], None, Some("yes"));
        is(text, &["yes", "zzz"], None, Some("yes"));
        is(text, &["alive", "dead"], None, Some("dead"));
        is(text, &["alive", "dead"], Some("alive"), Some("alive"));
        is(text, &["no"], None, Some("yes"));
        is(text, &["alive"], Some("dead"), Some("dead"));
        is(number, &["1", "2"], None, None);
        is(number, &["1", "2"], Some("2"), Some("2"));
        is(number, &["0", "1"], Some("0"), Some("0"));
        is(number, &["0", "1"], Some("1.0"), Some("1"));
        is(boolean, &["false", "true"], Some("FALSE"), Some("false"));
        for (levels, asked, word) in [
            (&["a", "b", "c"][..], None, "a, b, c"),
            (&["a"], None, "two levels"),
            (&["no", "yes"], Some("Yes"), "did you mean 'yes'"),
        ] {
            let error = of(text, levels, asked).expect_err("refused").to_string();
            assert!(error.contains(word), "{error}");
        }
        let event = Event { level: "dead".into(), other: Some("alive".into()) };
        assert_eq!(["dead", "alive", "lost"].map(|l| event.number(l)), [Some(1.0), Some(0.0), None]);
    }
}
