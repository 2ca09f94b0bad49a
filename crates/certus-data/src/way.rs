//! Which way a problem is fitted, from the words that choose it.

use certus::theorem::Constants;
use certus::{MethodName, StepRule};
use certus_models::auto::{
    Chosen, MOST_MEMORY, MOST_WORK, Method, Model, Route, Subsampling, steps_in_words,
};

use crate::error::DataError;
use crate::problem::Problem;
use crate::varying::Varying;

/// What a diagonal factor is called where people read it; the coordinates are those in which the fit is made (standardised, unless told).
pub(crate) const INDEPENDENT: &str = "independent coefficients";

/// How to fit: without settings, or by one of the paper's methods.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// Exact or stochastic.
    Auto(Method),
    /// The same over Gaussians with independent coordinates.
    MeanField(Method),
    /// A method with its settings.
    Planned(Chosen),
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

impl Way {
    /// The paper's methods and ours built like them.
    pub const PLANNED: [(&str, MethodName); 5] = [
        ("prox-energy", MethodName::ProxEnergy),
        ("proj-entropy", MethodName::ProjEntropy),
        ("proj-stl", MethodName::ProjStl),
        ("prox-cv", MethodName::ProxCv),
        ("ball-stl", MethodName::BallStl),
    ];

    /// The word of a method.
    pub fn name(method: MethodName) -> &'static str {
        Self::PLANNED.into_iter().find(|(_, m)| *m == method).map_or("", |(name, _)| name)
    }

    /// From the words of the command line; `constants`, `steps` and `numbers` belong to the paper's methods and to batches of rows only.
    pub fn new(
        method: &str,
        constants: Option<&str>,
        steps: Option<&str>,
        numbers: Numbers,
    ) -> Result<Self, DataError> {
        let usage = |words: String| Err(DataError::Usage(words));
        let names = Self::PLANNED.map(|(name, _)| name).join(", ");
        let Numbers { batch, iterations, row_batch } = numbers;
        if method == "subsampled" {
            if constants.is_some() {
                return usage("constants: those of subsampled are local, leave the choice out".into());
            }
            if steps.is_some() {
                return usage("steps: those of subsampled are greedy, leave the choice out".into());
            }
            let zero = [("batch", batch == Some(0)), ("row-batch", row_batch == Some(0))];
            if let Some((name, _)) = zero.into_iter().find(|(_, zero)| *zero) {
                return usage(format!("{name} is 0, but at least 1 is required"));
            }
            let usual = Subsampling::default();
            return Ok(Way::Subsampled(Subsampling {
                rows: row_batch.unwrap_or(usual.rows),
                pairs: batch.unwrap_or(usual.pairs),
                iterations,
            }));
        }
        if row_batch.is_some() {
            return usage("row-batch belongs to the method subsampled: leave it out".into());
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
                    usage(format!("{name} belongs to the paper's methods (method {names}): leave it out"))
                }
                None => Ok(Way::Auto(own)),
            };
        }
        let Some((_, name)) = Self::PLANNED.into_iter().find(|(name, _)| *name == method) else {
            return usage(format!(
                "there is no method '{method}': use one of auto, exact, stochastic, subsampled, {names}"
            ));
        };
        let rule = match steps {
            None => StepRule::Auto,
            Some("greedy") => StepRule::Greedy,
            Some("horizon") => StepRule::Horizon,
            Some("decaying") => StepRule::Decaying,
            Some("paper") => StepRule::Paper,
            Some(other) => {
                return usage(format!(
                    "there are no steps '{other}': use one of greedy, paper, horizon, decaying"
                ));
            }
        };
        let own = matches!(name, MethodName::BallStl | MethodName::ProxCv);
        let constants = match (rule, constants) {
            (StepRule::Paper, _) if own => {
                return usage(format!(
                    "steps paper: the method {method} is not in the paper, so it has no steps of it; use greedy, horizon or decaying"
                ));
            }
            (StepRule::Paper, Some(other)) if other != "paper" => {
                return usage(format!(
                    "steps paper are computed from the paper's constants, but constants are '{other}': leave constants out, or use steps decaying"
                ));
            }
            (StepRule::Paper, _) => "paper",
            (_, constants) => constants.unwrap_or("local"),
        };
        let constants = match (constants, name) {
            ("paper", MethodName::BallStl | MethodName::ProxCv) => {
                return usage(
                    "constants paper: this method is not in the paper, so it has no constants of it".into(),
                );
            }
            ("paper", _) => Constants::Paper,
            ("local" | "sharp", _) => Constants::Sharp,
            (other, _) => {
                return usage(format!("there are no constants '{other}': use one of local, sharp, paper"));
            }
        };
        let usual = Chosen::default();
        Ok(Way::Planned(Chosen {
            method: name,
            constants,
            steps: rule,
            batch: batch.unwrap_or(usual.batch),
            iterations: iterations.unwrap_or(usual.iterations),
        }))
    }

    /// The same over Gaussians with independent coordinates (`factor diagonal`).
    pub fn with_independence(self) -> Result<Self, DataError> {
        match self {
            Way::Auto(method) | Way::MeanField(method) => Ok(Way::MeanField(method)),
            Way::Planned(_) | Way::Subsampled(_) => Err(DataError::Usage(
                "factor diagonal goes with the methods auto, exact and stochastic".into(),
            )),
        }
    }

    /// What will be done, and why.
    pub fn described(&self, problem: &Problem) -> String {
        match self {
            Way::Auto(Method::Auto) => match problem.model() {
                Some(model) => Route::choose(model.size(), MOST_WORK, MOST_MEMORY).why,
                None => problem.collapsed().map_or(String::new(), Varying::route),
            },
            Way::Auto(method) => format!("{}: it was asked for", method.as_str()),
            Way::Subsampled(Subsampling { rows, pairs, iterations }) => {
                let count = iterations
                    .map_or("as many iterations as its plan promises".into(), |n| format!("{n} iterations"));
                format!("subsampled: it was asked for, {count} of {rows} rows and {pairs} pairs of draws")
            }
            Way::MeanField(Method::Auto) => match problem.mean_field() {
                Ok(field) => {
                    format!("{INDEPENDENT}: {}", Route::choose(field.size(), MOST_WORK, MOST_MEMORY).why)
                }
                Err(error) => error.to_string(),
            },
            Way::MeanField(method) => format!("{INDEPENDENT}: {}: it was asked for", method.as_str()),
            Way::Planned(chosen) => {
                format!(
                    "{}: it was asked for, {} iterations of {} draws{}",
                    Self::name(chosen.method),
                    chosen.iterations,
                    chosen.batch,
                    steps_in_words(chosen.steps)
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_the_ways() {
        let none = Numbers::default();
        let three = Numbers { batch: Some(3), ..none };
        assert_eq!(Way::new("exact", None, None, none).ok(), Some(Way::Auto(Method::Exact)));
        let chosen = Chosen { method: MethodName::ProjStl, batch: 3, ..Chosen::default() };
        assert_eq!(Way::new("proj-stl", None, None, three).ok(), Some(Way::Planned(chosen)));
        let rows = Numbers { row_batch: Some(50), ..three };
        let chosen = Subsampling { rows: 50, pairs: 3, iterations: None };
        assert_eq!(Way::new("subsampled", None, None, rows).ok(), Some(Way::Subsampled(chosen)));
        for (given, word) in [
            (Way::new("newton", None, None, none), "there is no method 'newton'"),
            (Way::new("auto", None, None, three), "batch belongs to the paper's methods"),
            (Way::new("ball-stl", Some("paper"), None, none), "not in the paper"),
            (Way::new("proj-stl", Some("best"), None, none), "there are no constants 'best'"),
            (Way::new("auto", None, Some("greedy"), none), "steps belongs to the paper's methods"),
            (Way::new("exact", None, Some("paper"), none), "steps belongs to the paper's methods"),
            (Way::new("stochastic", None, Some("decaying"), none), "steps belongs to the paper's methods"),
            (Way::new("subsampled", None, Some("horizon"), none), "those of subsampled are greedy"),
            (Way::new("ball-stl", None, Some("paper"), none), "not in the paper"),
            (Way::new("prox-cv", None, Some("paper"), none), "not in the paper"),
            (Way::new("proj-stl", Some("sharp"), Some("paper"), none), "constants are 'sharp'"),
            (Way::new("proj-stl", Some("local"), Some("paper"), none), "constants are 'local'"),
            (Way::new("proj-stl", None, Some("best"), none), "there are no steps 'best'"),
            (Way::new("auto", None, None, Numbers { row_batch: Some(5), ..none }), "row-batch belongs"),
            (Way::new("subsampled", Some("sharp"), None, none), "local"),
            (Way::new("subsampled", None, None, Numbers { row_batch: Some(0), ..none }), "row-batch is 0"),
        ] {
            let error = given.unwrap_err();
            assert!(error.exit_code() == 64 && error.to_string().contains(word), "{error}");
        }
        let steps = |method, constants, steps| match Way::new(method, constants, Some(steps), none) {
            Ok(Way::Planned(chosen)) => (chosen.steps, chosen.constants),
            other => panic!("{other:?}"),
        };
        assert_eq!(steps("prox-energy", None, "paper"), (StepRule::Paper, Constants::Paper));
        assert_eq!(steps("prox-energy", Some("paper"), "paper"), (StepRule::Paper, Constants::Paper));
        assert_eq!(steps("proj-stl", None, "decaying"), (StepRule::Decaying, Constants::Sharp));
        assert_eq!(steps("proj-stl", Some("paper"), "horizon"), (StepRule::Horizon, Constants::Paper));
        assert_eq!(steps("ball-stl", None, "horizon"), (StepRule::Horizon, Constants::Sharp));
        assert!("sure".parse::<crate::Asked>().is_err());
    }
}
