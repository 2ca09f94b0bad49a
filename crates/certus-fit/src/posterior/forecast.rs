//! What a plan says of the ladder: the rungs that will be tried, with what each takes.

use certus::Goal;
use certus::certificate::words::figure;
use certus_models::posterior::smallest_attempts;

use super::choice::PosteriorChoice;
use super::gaussian::{ENVELOPE, accuracy};
use super::ladder::{NUTS_DRAWS, goal_words};
use super::table::kept;
use crate::problem::{ModelKind, Problem};
use crate::record::Source;

impl Problem {
    /// Which sources of the posterior's numbers are tried, in this order, until one is accurate enough.
    pub(crate) fn forecast(&self, goal: &Goal, choice: PosteriorChoice) -> String {
        let alone = match &self.model_kind {
            ModelKind::Dense(model) if model.likelihood().is_quadratic() => true,
            ModelKind::Grouped(model) if model.likelihood().is_quadratic() => true,
            _ => false,
        };
        if alone {
            return "Gaussian: its distance from the fit is the gap".into();
        }
        if let ModelKind::Collapsed(model) = &self.model_kind {
            if model.unknown_scales.scales.is_empty() {
                return "Gaussian, in closed form".into();
            }
            return match (choice, model.density()) {
                (PosteriorChoice::Auto, Some(_)) => {
                    let rungs = [Source::Importance, Source::Nuts].map(Source::words);
                    format!(
                        "of coefficients and scales: {}{}",
                        rungs.join(", then "),
                        goal_words(accuracy(goal))
                    )
                }
                (PosteriorChoice::Only(source), Some(_)) => source.words().into(),
                (_, None) => Source::Mixture.words().into(),
            };
        }
        let rungs = match choice {
            _ if kept(self.meaning.dim()).is_none() => vec![Source::Gaussian],
            choice => choice.rungs(),
        };
        let tried: Vec<String> =
            rungs.into_iter().filter_map(|rung| self.takes(rung, goal, choice)).collect();
        match &tried[..] {
            [] => format!(
                "the Gaussian, compared by 16 pairs of draws in one pass (the source corrected would take about {} \
                 multiplications)",
                figure(smallest_attempts(self.products()).1)
            ),
            tried => format!("{}{}", tried.join(", else "), goal_words(accuracy(goal))),
        }
    }

    /// A rung with what it takes; `None` if it is left out.
    fn takes(&self, rung: Source, goal: &Goal, choice: PosteriorChoice) -> Option<String> {
        let (draws, work) = match rung {
            Source::Corrected => self.weight_draws(goal, choice)?,
            Source::Exact
                if matches!(self.model_kind, ModelKind::Dense(_)) && self.meaning.dim() <= ENVELOPE =>
            {
                let draws = self.draws_in_seconds()? as f64;
                (draws, draws * self.products())
            }
            Source::Exact => return None,
            Source::Nuts => (NUTS_DRAWS, self.nuts_work(goal, choice).ok()?),
            Source::Importance => {
                let draws = self.importance_draws(choice)? as f64;
                (draws, draws * self.products())
            }
            Source::Gaussian | Source::Mixture => return Some(rung.words().into()),
        };
        let most = if rung == Source::Corrected { " or more" } else { "" };
        Some(format!("{} ({draws:.0} draws{most}, about {} multiplications)", rung.words(), figure(work)))
    }
}
