//! Which way a problem is fitted, from the words that choose it.

use certus::MethodName;
use certus::theorem::Constants;
use certus_models::auto::{Chosen, MOST_MEMORY, MOST_WORK, Method, Model, Route, Subsampling};

use crate::error::DataError;
use crate::problem::Problem;
use crate::varying::Varying;

/// What a diagonal factor is called where people read it; the coordinates are those in which the fit is made (standardised, unless told).
pub(crate) const INDEPENDENT: &str = "independent coefficients";

/// How to fit: without settings, or by one of the paper's methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    /// From the words of the command line; `constants` and `numbers` belong to the paper's methods and to batches of rows only.
    pub fn new(method: &str, constants: Option<&str>, numbers: Numbers) -> Result<Self, DataError> {
        let usage = |words: String| Err(DataError::Usage(words));
        let names = Self::PLANNED.map(|(name, _)| name).join(", ");
        let Numbers { batch, iterations, row_batch } = numbers;
        if method == "subsampled" {
            if constants.is_some() {
                return usage("constants: those of subsampled are local, leave the choice out".into());
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
        let constants = match (constants.unwrap_or("local"), name) {
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
                    "{:?}: it was asked for, {} iterations of {} draws",
                    chosen.method, chosen.iterations, chosen.batch
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
        assert_eq!(Way::new("exact", None, none).ok(), Some(Way::Auto(Method::Exact)));
        let chosen = Chosen { method: MethodName::ProjStl, batch: 3, ..Chosen::default() };
        assert_eq!(Way::new("proj-stl", None, three).ok(), Some(Way::Planned(chosen)));
        let rows = Numbers { row_batch: Some(50), ..three };
        let chosen = Subsampling { rows: 50, pairs: 3, iterations: None };
        assert_eq!(Way::new("subsampled", None, rows).ok(), Some(Way::Subsampled(chosen)));
        for (given, word) in [
            (Way::new("newton", None, none), "there is no method 'newton'"),
            (Way::new("auto", None, three), "batch belongs to the paper's methods"),
            (Way::new("ball-stl", Some("paper"), none), "not in the paper"),
            (Way::new("proj-stl", Some("best"), none), "there are no constants 'best'"),
            (Way::new("auto", None, Numbers { row_batch: Some(5), ..none }), "row-batch belongs"),
            (Way::new("subsampled", Some("sharp"), none), "local"),
            (Way::new("subsampled", None, Numbers { row_batch: Some(0), ..none }), "row-batch is 0"),
        ] {
            let error = given.unwrap_err();
            assert!(error.exit_code() == 64 && error.to_string().contains(word), "{error}");
        }
        assert!("sure".parse::<crate::Asked>().is_err());
    }
}
