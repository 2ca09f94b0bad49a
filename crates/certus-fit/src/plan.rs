//! What a fit would do, and what the theorems say about it in advance.

use certus::Goal;
use certus::certificate::figure;
use certus_data::DataError;

use crate::method_choice::MethodChoice;
use crate::number::joined;
use crate::posterior::PosteriorChoice;
use crate::problem::Problem;
use crate::theorems::{FitPlan, Lines, Theorems};

/// Multiplications of the exact route up to which a plan computes the constants of the theorems without a request: they
/// take about a tenth of it.
const THEOREM_WORK: f64 = 1e11;

impl Problem {
    /// What a fit would do. Where rows are distributed over ranks, all of them must call this.
    pub fn plan(
        &self,
        goal: &Goal,
        choice: &MethodChoice,
        posterior: PosteriorChoice,
    ) -> Result<FitPlan, DataError> {
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
            lines.push(("route", self.route(choice)));
            let size = model.size();
            lines.push(("cost", format!("{:.1e} operations, {:.0} MB", size.work(), size.memory() / 1e6)));
        } else {
            lines.push(("route", self.route(choice)));
        }
        lines.push(("posterior", self.forecast(goal, posterior)));
        let theorems = self.theorems(goal, choice)?;
        let theorems = match theorems {
            Ok((theorems, more)) => {
                lines.extend(more);
                Some(theorems)
            }
            Err(reason) => {
                lines.push(("theorem", format!("none: {reason}")));
                None
            }
        };
        lines.extend(prepared.notes.iter().map(|note| ("note", note.clone())));
        Ok(FitPlan { lines, theorems })
    }

    /// What the theorems say about the paper's methods, or why that is not computed.
    #[allow(clippy::type_complexity)]
    fn theorems(
        &self,
        goal: &Goal,
        choice: &MethodChoice,
    ) -> Result<Result<(Theorems, Lines), String>, DataError> {
        let chosen = if let MethodChoice::Planned(chosen) = choice { Some(chosen) } else { None };
        let Some(model) = self.model() else {
            if self.collapsed().is_some_and(|own| own.unknown_scales.scales.is_empty()) {
                return Ok(Err("the posterior of the model is computed in closed form".into()));
            }
            return Ok(Err(
                "a scale of the model is not given, but the theorems are about a single Gaussian with given scales"
                    .into(),
            ));
        };
        if matches!(choice, MethodChoice::MeanField(_)) {
            return Ok(Err(
                "the paper's methods do not support Gaussians with independent coefficients".into()
            ));
        }
        let work = model.size().work();
        if work > THEOREM_WORK && chosen.is_none() {
            return Ok(Err(format!(
                "computing their constants needs passes over the rows ({work:.1e} operations, more than \
                    {THEOREM_WORK:.0e}): choose one of the methods, such as ball-stl, to compute them"
            )));
        }
        Theorems::new(model, goal, chosen).map(Ok)
    }
}
