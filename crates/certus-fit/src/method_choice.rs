//! The route by which a problem is fitted, from the words that choose it.

use certus::theorem::Constants;
use certus::{MethodName, StepRule};
use certus_models::auto::{Method, PlannedMethod, Subsampling};

use crate::refusal::RequestError;

/// What a diagonal factor is called where people read it; the coordinates are those in which the fit is made
/// (standardised, unless told).
pub(crate) const INDEPENDENT: &str = "independent coefficients";

/// Draws per iteration, at most.
const MOST_DRAWS: usize = 1 << 20;
/// Rows per iteration, at most.
const MOST_ROWS: usize = 1 << 31;

/// How to fit: without settings, or by one of the paper's methods.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MethodChoice {
    /// Exact or stochastic.
    Auto(Method),
    /// The same over Gaussians with independent coordinates.
    MeanField(Method),
    /// A method with its settings.
    Planned(PlannedMethod),
    /// Batches of rows.
    Subsampled(Subsampling),
}

/// The numbers that a method may be given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Draws per iteration; pairs of draws of the method with batches of rows.
    pub batch: Option<usize>,
    /// Iterations.
    pub iterations: Option<u64>,
    /// Rows per iteration.
    pub row_batch: Option<usize>,
}

impl MethodChoice {
    /// From the words of the command line; `constants`, `steps` and `numbers` belong to the paper's methods and to
    /// batches of rows only.
    pub fn new(
        method: &str,
        constants: Option<&str>,
        steps: Option<&str>,
        numbers: Numbers,
    ) -> Result<Self, RequestError> {
        let names = MethodName::ALL.map(MethodName::name).join(", ");
        let Numbers { batch, iterations, row_batch } = numbers;
        // what cannot be held in memory is refused before anything is computed
        let given = [("batch", batch, MOST_DRAWS), ("row-batch", row_batch, MOST_ROWS)];
        if let Some((name, Some(value), _)) =
            given.into_iter().find(|(_, n, most)| n.is_some_and(|n| n > *most))
        {
            let (setting, value) = (name.into(), value as f64);
            let required = if name == "batch" { "at most 1048576" } else { "at most 2147483648" };
            return Err(RequestError::Number { setting, value, required });
        }
        let zero = [
            ("batch", batch == Some(0)),
            ("row-batch", row_batch == Some(0)),
            ("iterations", iterations == Some(0)),
        ];
        if let Some((name, _)) = zero.into_iter().find(|(_, zero)| *zero) {
            let (setting, value) = (name.into(), 0.0);
            return Err(RequestError::Number { setting, value, required: "at least 1" });
        }
        if method == "subsampled" {
            let fixed = |setting, value| RequestError::Fixed { setting, method: "subsampled", value };
            if constants.is_some() {
                return Err(fixed("constants", "local"));
            }
            if steps.is_some() {
                return Err(fixed("steps", "greedy"));
            }
            let usual = Subsampling::default();
            return Ok(MethodChoice::Subsampled(Subsampling {
                rows: row_batch.unwrap_or(usual.rows),
                pairs: batch.unwrap_or(usual.pairs),
                iterations,
            }));
        }
        if row_batch.is_some() {
            return Err(RequestError::no_effect("row-batch", "the method subsampled"));
        }
        let own = [Method::Auto, Method::Exact, Method::Stochastic];
        if let Some(own) = own.into_iter().find(|m| m.as_str() == method) {
            let given = [
                ("batch", batch.is_some()),
                ("iterations", iterations.is_some()),
                ("constants", constants.is_some()),
                ("steps", steps.is_some()),
            ];
            return match given.into_iter().find(|(_, given)| *given) {
                Some((name, _)) => {
                    Err(RequestError::no_effect(name, format!("the paper's methods (method {names})")))
                }
                None => Ok(MethodChoice::Auto(own)),
            };
        }
        let Some(name) = MethodName::ALL.into_iter().find(|own| own.name() == method) else {
            let own = ["auto", "exact", "stochastic", "subsampled"];
            return Err(RequestError::word("method", method, own.into_iter().chain(names.split(", "))));
        };
        let rule = match steps {
            None => StepRule::Auto,
            Some("greedy") => StepRule::Greedy,
            Some("horizon") => StepRule::Horizon,
            Some("decaying") => StepRule::Decaying,
            Some("paper") => StepRule::Paper,
            Some(other) => {
                let known = ["greedy", "paper", "horizon", "decaying"];
                return Err(RequestError::word("steps", other, known));
            }
        };
        let constants = match (rule, constants) {
            (StepRule::Paper, _) if !name.is_of_paper() => {
                let (method, instead) = (method.into(), "greedy, horizon or decaying");
                return Err(RequestError::NotInPaper { setting: "steps", method, instead });
            }
            (StepRule::Paper, Some(other)) if other != "paper" => {
                return Err(RequestError::PaperSteps { constants: other.into() });
            }
            (StepRule::Paper, _) => "paper",
            (_, constants) => constants.unwrap_or("local"),
        };
        let constants = match constants {
            "paper" if !name.is_of_paper() => {
                let (method, instead) = (method.into(), "local or sharp");
                return Err(RequestError::NotInPaper { setting: "constants", method, instead });
            }
            "paper" => Constants::Paper,
            "local" | "sharp" => Constants::Sharp,
            other => {
                return Err(RequestError::word("constants", other, ["local", "sharp", "paper"]));
            }
        };
        let usual = PlannedMethod::default();
        Ok(MethodChoice::Planned(PlannedMethod {
            method: name,
            constants,
            steps: rule,
            batch: batch.unwrap_or(usual.batch),
            iterations: iterations.unwrap_or(usual.iterations),
        }))
    }

    /// The same over Gaussians with independent coordinates (`factor diagonal`).
    pub fn with_independence(self) -> Result<Self, RequestError> {
        match self {
            MethodChoice::Auto(method) | MethodChoice::MeanField(method) => {
                Ok(MethodChoice::MeanField(method))
            }
            MethodChoice::Planned(_) | MethodChoice::Subsampled(_) => Err(RequestError::Factor {
                factor: "diagonal",
                reason: "is supported only by the methods auto, exact and stochastic",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn words_name_the_ways() {
        let none = Numbers::default();
        let three = Numbers { batch: Some(3), ..none };
        assert_eq!(
            MethodChoice::new("exact", None, None, none).ok(),
            Some(MethodChoice::Auto(Method::Exact))
        );
        let chosen = PlannedMethod { method: MethodName::ProjStl, batch: 3, ..PlannedMethod::default() };
        assert_eq!(
            MethodChoice::new("proj-stl", None, None, three).ok(),
            Some(MethodChoice::Planned(chosen))
        );
        let rows = Numbers { row_batch: Some(50), ..three };
        let chosen = Subsampling { rows: 50, pairs: 3, iterations: None };
        assert_eq!(
            MethodChoice::new("subsampled", None, None, rows).ok(),
            Some(MethodChoice::Subsampled(chosen))
        );
        for (given, word) in [
            (MethodChoice::new("newton", None, None, none), "`method` is 'newton'"),
            (MethodChoice::new("auto", None, None, three), "batch applies only to the paper's methods"),
            (MethodChoice::new("ball-stl", Some("paper"), None, none), "not in the paper"),
            (MethodChoice::new("proj-stl", Some("best"), None, none), "`constants` is 'best'"),
            (
                MethodChoice::new("auto", None, Some("greedy"), none),
                "steps applies only to the paper's methods",
            ),
            (
                MethodChoice::new("exact", None, Some("paper"), none),
                "steps applies only to the paper's methods",
            ),
            (
                MethodChoice::new("stochastic", None, Some("decaying"), none),
                "steps applies only to the paper's methods",
            ),
            (MethodChoice::new("subsampled", None, Some("horizon"), none), "subsampled always uses greedy"),
            (MethodChoice::new("ball-stl", None, Some("paper"), none), "not in the paper"),
            (MethodChoice::new("prox-cv", None, Some("paper"), none), "not in the paper"),
            (MethodChoice::new("proj-stl", Some("sharp"), Some("paper"), none), "constants are 'sharp'"),
            (MethodChoice::new("proj-stl", Some("local"), Some("paper"), none), "constants are 'local'"),
            (MethodChoice::new("proj-stl", None, Some("best"), none), "`steps` is 'best'"),
            (
                MethodChoice::new("auto", None, None, Numbers { row_batch: Some(5), ..none }),
                "row-batch applies",
            ),
            (MethodChoice::new("subsampled", Some("sharp"), None, none), "local"),
            (
                MethodChoice::new("subsampled", None, None, Numbers { row_batch: Some(0), ..none }),
                "row-batch is 0",
            ),
            (MethodChoice::new("prox-cv", None, None, Numbers { batch: Some(0), ..none }), "batch is 0"),
            (
                MethodChoice::new("prox-cv", None, None, Numbers { iterations: Some(0), ..none }),
                "iterations is 0",
            ),
        ] {
            let error = given.unwrap_err();
            assert!(error.kind() == ErrorKind::Request && error.to_string().contains(word), "{error}");
        }
        let steps = |method, constants, steps| match MethodChoice::new(method, constants, Some(steps), none) {
            Ok(MethodChoice::Planned(chosen)) => (chosen.steps, chosen.constants),
            other => panic!("{other:?}"),
        };
        assert_eq!(steps("prox-energy", None, "paper"), (StepRule::Paper, Constants::Paper));
        assert_eq!(steps("prox-energy", Some("paper"), "paper"), (StepRule::Paper, Constants::Paper));
        assert_eq!(steps("proj-stl", None, "decaying"), (StepRule::Decaying, Constants::Sharp));
        assert_eq!(steps("proj-stl", Some("paper"), "horizon"), (StepRule::Horizon, Constants::Paper));
        assert_eq!(steps("ball-stl", None, "horizon"), (StepRule::Horizon, Constants::Sharp));
        assert!("sure".parse::<crate::RequiredLevel>().is_err());
    }
}
