//! At which levels quantiles are predicted, and the names of the columns of a prediction.

use crate::refusal::RequestError;

/// Levels of quantiles, each between 0 and 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Levels {
    /// Of the expected response.
    pub expected: Vec<f64>,
    /// Of a new observation; none if observations are not asked for.
    pub observed: Vec<f64>,
}

impl Levels {
    /// 5, 50 and 95 % of the expected response, 5 and 95 % of an observation; or those that are asked for, of both.
    pub fn new(asked: Option<&[f64]>, observations: bool) -> Result<Self, RequestError> {
        let of = |default: &[f64]| asked.unwrap_or(default).to_vec();
        let expected = of(&[0.05, 0.5, 0.95]);
        for (k, level) in expected.iter().enumerate() {
            if !(*level > 0.0 && *level < 1.0) {
                return Err(RequestError::Level {
                    value: level.to_string(),
                    reason: "every level must be between 0 and 1",
                });
            }
            if expected[..k].contains(level) {
                return Err(RequestError::Level {
                    value: level.to_string(),
                    reason: "this level is given twice",
                });
            }
        }
        Ok(Self { expected, observed: if observations { of(&[0.05, 0.95]) } else { Vec::new() } })
    }

    /// The columns of predictions in order; `q05` is the 5 % quantile of the expected response, `y05` that of an
    /// observation.
    pub fn names(&self) -> Vec<String> {
        let named = |letter: &str, levels: &[f64]| -> Vec<String> {
            levels.iter().map(|level| format!("{letter}{}", percent(*level))).collect()
        };
        let own = |names: [&str; 2]| names.map(String::from).to_vec();
        [
            own(["mean", "sd"]),
            named("q", &self.expected),
            own(["linear_mean", "linear_sd"]),
            named("y", &self.observed),
        ]
        .concat()
    }
}

/// A level in per cent with at least two digits: 05, 50, 02.5.
fn percent(level: f64) -> String {
    // without the rounding of the product by 100
    let text = format!("{:.10}", 100.0 * level);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let whole = text.split('.').next().unwrap_or_default().len();
    format!("{}{text}", "0".repeat(2_usize.saturating_sub(whole)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_names() {
        let names =
            |asked: Option<&[f64]>, observations| Levels::new(asked, observations).unwrap().names().join(" ");
        assert_eq!(names(None, true), "mean sd q05 q50 q95 linear_mean linear_sd y05 y95");
        assert_eq!(
            names(Some(&[0.1, 0.025, 0.975]), true),
            "mean sd q10 q02.5 q97.5 linear_mean linear_sd y10 y02.5 y97.5"
        );
        assert_eq!(names(Some(&[0.07, 0.29, 0.001]), false), "mean sd q07 q29 q00.1 linear_mean linear_sd");
    }

    #[test]
    fn other_levels_are_refused() {
        for (levels, word) in
            [(vec![0.0], "between 0 and 1"), (vec![0.5, 50.0], "'50'"), (vec![0.1, 0.1], "twice")]
        {
            let error = Levels::new(Some(&levels), false).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        }
        assert!(Levels::new(Some(&[f64::NAN]), false).is_err());
    }
}
