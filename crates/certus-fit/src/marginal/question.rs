//! What is asked of expected responses: contrasts, slopes, and where the other columns are held.

use std::str::FromStr;

use crate::refusal::RequestError;

/// How two expected responses are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// a − b.
    Difference,
    /// a / b.
    Ratio,
    /// (a / (1 − a)) / (b / (1 − b)).
    OddsRatio,
}

impl Comparison {
    /// The value.
    pub fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Difference => a - b,
            Self::Ratio => a / b,
            Self::OddsRatio => (a / (1.0 - a)) / (b / (1.0 - b)),
        }
    }

    /// What it is where a = b.
    pub fn of_equals(self) -> f64 {
        if self == Self::Difference { 0.0 } else { 1.0 }
    }
}

/// The responses with one value of a column beside those with another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contrast {
    /// The column.
    pub column: String,
    /// Its two values; `None` for each of its levels against the reference.
    pub values: Option<[String; 2]>,
    /// How they are compared.
    pub comparison: Comparison,
}

impl Contrast {
    /// As it is written.
    pub fn written(&self) -> String {
        let Some([a, b]) = &self.values else { return self.column.clone() };
        match self.comparison {
            Comparison::Difference => format!("{}: {a} - {b}", self.column),
            Comparison::Ratio => format!("{}: {a} / {b}", self.column),
            Comparison::OddsRatio => format!("{}: odds({a}) / odds({b})", self.column),
        }
    }
}

/// `arm`, `arm: b - a`, `arm: b / a` or `arm: odds(b) / odds(a)`; spaces around the signs are required, because levels
/// may contain them.
impl FromStr for Contrast {
    type Err = RequestError;

    fn from_str(text: &str) -> Result<Self, RequestError> {
        let unclear = || RequestError::Contrast { text: text.into() };
        let Some((column, rest)) = text.rsplit_once(": ") else {
            let column = text.trim().to_string();
            let named = !column.is_empty() && !column.contains(" - ") && !column.contains(" / ");
            let whole = Self { column, values: None, comparison: Comparison::Difference };
            return if named { Ok(whole) } else { Err(unclear()) };
        };
        let odds = |word: &str| Some(word.trim().strip_prefix("odds(")?.strip_suffix(')')?.to_string());
        let (a, b, comparison) = match (rest.split_once(" - "), rest.split_once(" / ")) {
            (Some((a, b)), None) => (a.to_string(), b.to_string(), Comparison::Difference),
            (None, Some((a, b))) => match (odds(a), odds(b)) {
                (Some(a), Some(b)) => (a, b, Comparison::OddsRatio),
                (None, None) => (a.to_string(), b.to_string(), Comparison::Ratio),
                _ => return Err(unclear()),
            },
            _ => return Err(unclear()),
        };
        let [column, a, b] = [column, &a, &b].map(|word| word.trim().to_string());
        if column.is_empty() || a.is_empty() || b.is_empty() {
            return Err(unclear());
        }
        Ok(Self { column, values: Some([a, b]), comparison })
    }
}

/// Values at which a column is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The column.
    pub column: String,
    /// One or more.
    pub values: Vec<String>,
}

/// `age=40,60`.
impl FromStr for Held {
    type Err = RequestError;

    fn from_str(text: &str) -> Result<Self, RequestError> {
        let unclear = || RequestError::Held { text: text.into() };
        let (column, values) = text.split_once('=').ok_or_else(unclear)?;
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_string()).collect();
        if column.trim().is_empty() || values.iter().any(String::is_empty) {
            return Err(unclear());
        }
        Ok(Self { column: column.trim().into(), values })
    }
}

/// What is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Question {
    /// Comparisons.
    pub contrasts: Vec<Contrast>,
    /// Columns of numbers, for d E(y)/dx.
    pub slopes: Vec<String>,
    /// Held at every combination of these.
    pub held: Vec<Held>,
    /// True for questions about the linear predictor in the place of the expected response.
    pub linear_predictor: bool,
    /// The probability of the intervals; 0.9 if it is not given.
    pub interval: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contrasts_are_written_as_they_are_read() {
        for text in ["arm", "arm: b - a", "dose of A: 2.5 / -1", "x: odds(high) / odds(low-ish)"] {
            let contrast: Contrast = text.parse().unwrap();
            assert_eq!(contrast.written(), text);
        }
        assert_eq!("x: 1 - -1".parse::<Contrast>().unwrap().values, Some(["1".into(), "-1".into()]));
        for text in ["", "arm: b", "b - a", "arm: odds(b) / a", "arm: b - ", ": b - a"] {
            let words = text.parse::<Contrast>().unwrap_err().to_string();
            assert!(words.contains(&format!("'{text}'")) && words.contains("arm: b - a"), "{words}");
        }
        assert!((Comparison::OddsRatio.of(0.5, 0.2) - 4.0).abs() < 1e-15);
    }

    #[test]
    fn held_columns_have_values() {
        let held: Held = "age = 40, 60".parse().unwrap();
        assert_eq!((held.column.as_str(), held.values), ("age", vec!["40".into(), "60".into()]));
        for text in ["age", "=4", "age=", "age=4,"] {
            assert!(text.parse::<Held>().unwrap_err().to_string().contains("age=40,60"));
        }
    }
}
