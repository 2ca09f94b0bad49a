//! A problem to its outcome: which way, the run, the certificate of the posterior and what is said of the data. The command line and Python
//! both come through here, so that they give the same numbers.

use std::str::FromStr;

use certus::certificate::{Level, Posterior, figure};
use certus::diagnostics::importance;
use certus::fit::Status;
use certus::theorem::Constants;
use certus::{Goal, MethodName, Outcome};
use certus_models::PosteriorSettings;
use certus_models::auto::{
    Chosen, MOST_MEMORY, MOST_WORK, Method, ModelState, Observer, Route, Subsampling, planned, resume,
    subsampled,
};

use crate::error::DataError;
use crate::problem::{Fitted, Problem};
use crate::varying::Varying;

/// Multiplications that the draws of the certificate of the posterior may take: a second or two.
const POSTERIOR_WORK: f64 = 1e9;
/// Its draws, at most and at least.
const POSTERIOR_DRAWS: (f64, f64) = (1e5, 4e3);
/// Draws of an estimate, at most.
const ESTIMATE_DRAWS: f64 = 2e4;
/// A bound of the KL divergence, in nats, beyond which it says nothing that anybody could use: then an estimate is given instead.
const USEFUL: f64 = 1.0;

/// How to fit: without settings, or by one of the paper's methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Exact or stochastic.
    Auto(Method),
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
            Way::Planned(chosen) => {
                format!(
                    "{:?}: it was asked for, {} iterations of {} draws",
                    chosen.method, chosen.iterations, chosen.batch
                )
            }
        }
    }
}

/// How strong the statement must be for the goal to count as reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asked {
    /// A number without a guarantee.
    Estimated,
    /// With probability 1 − δ.
    Probable,
    /// A theorem.
    Proved,
}

impl FromStr for Asked {
    type Err = DataError;

    fn from_str(word: &str) -> Result<Self, DataError> {
        match word {
            "estimated" => Ok(Self::Estimated),
            "probable" => Ok(Self::Probable),
            "proved" => Ok(Self::Proved),
            _ => Err(DataError::Usage(format!(
                "there is no level '{word}': use one of proved, probable, estimated"
            ))),
        }
    }
}

impl Asked {
    /// An outcome whose statement is weaker than that has not reached its goal.
    pub fn judge(self, outcome: &mut Outcome) {
        let level = outcome.certificate.gap.statement.level();
        let enough = match self {
            Self::Proved => level == Level::Proved,
            Self::Probable => matches!(level, Level::Proved | Level::Probable { .. }),
            Self::Estimated => true,
        };
        if outcome.status == Status::Reached && !enough {
            outcome.status = Status::Limit;
            outcome.message = format!("{}; a stronger statement was asked for", outcome.message);
        }
    }
}

impl Problem {
    /// Fits; `saved` is a state to go on from.
    pub fn run(
        &self,
        goal: &Goal,
        way: &Way,
        saved: Option<&[u8]>,
        observer: &mut Observer<'_>,
    ) -> Result<Outcome, certus_models::Error> {
        let Some(model) = self.model() else {
            return Err(certus_models::Error::Model("groups integrated out have a run of their own".into()));
        };
        match way {
            Way::Planned(chosen) => planned(model, goal, chosen, saved, observer),
            Way::Subsampled(chosen) => subsampled(model, goal, chosen, saved, observer),
            Way::Auto(method) => {
                goal.validate()?;
                let state = certus::parallel::install(goal.threads, || match saved {
                    Some(bytes) => ModelState::decode(bytes, model, goal),
                    None => ModelState::new(model, goal, *method),
                })??;
                resume(model, goal, state, observer)
            }
        }
    }

    /// How far q is from the posterior, if that can be had in a few seconds: a bound where there is a useful one, else an estimate.
    pub fn posterior(&self, goal: &Goal, outcome: &Outcome) -> Posterior {
        let once = self.prepared.rows_used as f64 * self.prepared.encoding.coefficients().len() as f64;
        let draws = (POSTERIOR_WORK / once).min(POSTERIOR_DRAWS.0);
        if draws < POSTERIOR_DRAWS.1 {
            return Posterior::none(format!(
                "{} draws on this many rows would take longer than a second or two",
                POSTERIOR_DRAWS.1
            ));
        }
        let w = &outcome.gaussian;
        let found = certus::parallel::install(goal.threads, || {
            let bounded = match &self.fitted {
                Fitted::Dense(model) => {
                    let settings =
                        PosteriorSettings { draws: draws as usize, delta: goal.delta, seed: goal.seed };
                    model.posterior(w, &settings).unwrap_or_else(|error| Posterior::none(error.to_string()))
                }
                Fitted::Grouped(_) | Fitted::Collapsed(_) => {
                    Posterior::none("the certificates of the posterior know no group terms yet")
                }
            };
            if bounded.statement.bound().is_some_and(|bound| bound <= USEFUL) {
                return bounded;
            }
            let few = draws.min(ESTIMATE_DRAWS) as usize;
            let Some(model) = self.model() else { return bounded };
            let weights = importance::log_weights(model, w, few, goal.seed);
            let estimated = weights.map(|weights| importance::divergence(&weights));
            match (estimated, bounded.statement.bound()) {
                (Ok(estimated), _) if estimated.statement.bound().is_some() => estimated,
                (Ok(estimated), Some(bound)) => {
                    let why = estimated.statement.reason().unwrap_or_default();
                    Posterior::none(format!(
                        "{why}, and the bound that can be had, {} nats, says nothing",
                        figure(bound)
                    ))
                }
                (Ok(estimated), None) => estimated,
                (Err(error), _) => Posterior::none(error.to_string()),
            }
        });
        found.unwrap_or_else(|error| Posterior::none(error.to_string()))
    }

    /// The direction that makes a posterior improper, by name, largest first; nothing for other errors.
    pub fn witness(&self, error: &certus_models::Error) -> String {
        let certus_models::Error::NotIdentified { direction, .. } = error else { return String::new() };
        let names = self.prepared.encoding.coefficients();
        let mut parts: Vec<(f64, &String)> =
            direction.iter().copied().zip(&names).filter(|(x, _)| x.abs() > 1e-6).collect();
        if parts.is_empty() {
            return String::new();
        }
        parts.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
        let shown: Vec<String> = parts.iter().take(8).map(|(x, name)| format!("{x:+.3} {name}")).collect();
        let more =
            if parts.len() > 8 { format!(" and {} smaller ones", parts.len() - 8) } else { String::new() };
        let scale = if self.prepared.encoding.standardise { ", per sd of the features" } else { "" };
        format!("\nwitness{scale}: {}{more}", shown.join(" "))
    }

    /// Remarks for the record: what became of the columns, and the prior on the user's scale.
    pub fn notes(&self) -> Vec<String> {
        self.prepared.notes.iter().cloned().chain([format!("prior: {}", joined(&self.priors))]).collect()
    }

    /// What a fit would do, as lines of what and how much.
    pub fn plan(&self, goal: &Goal, way: &Way) -> Vec<(&'static str, String)> {
        let prepared = &self.prepared;
        let r = &prepared.response;
        let mut lines = vec![
            ("rows", prepared.rows_used.to_string()),
            (
                "response",
                format!(
                    "{}: mean {:.4}, sd {:.4}, from {} to {}",
                    prepared.encoding.response, r.mean, r.sd, r.min, r.max
                ),
            ),
            ("coefficients", joined(&prepared.encoding.coefficients())),
            ("latents", self.meaning.dim().to_string()),
        ];
        lines.extend(self.priors.iter().take(20).map(|prior| ("prior", prior.clone())));
        if let Some(model) = self.model() {
            lines.push(("goal", format!("a gap of at most {} nats", figure(goal.gap))));
            lines.push(("route", way.described(self)));
            let size = model.size();
            lines.push(("cost", format!("{:.1e} operations, {:.0} MB", size.work(), size.memory() / 1e6)));
        } else {
            lines.push(("route", way.described(self)));
        }
        lines.extend(prepared.notes.iter().map(|note| ("note", note.clone())));
        lines
    }
}

/// The first few of many.
fn joined(lines: &[String]) -> String {
    const MOST: usize = 8;
    let shown = lines[..lines.len().min(MOST)].join(", ");
    if lines.len() > MOST { format!("{shown} and {} more", lines.len() - MOST) } else { shown }
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
        assert!("sure".parse::<Asked>().is_err());
    }
}
