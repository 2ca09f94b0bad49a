//! A problem to its outcome: the route, the run and the notes on the data. The command line and Python both use this
//! code, so that they give the same numbers.

use std::time::Instant;

use certus::certificate::{family_name, figure};
use certus::factor::Factor;
use certus::fit::Status;
use certus::{Gaussian, Goal, Outcome};
use certus_models::MeanField;
use certus_models::auto::{
    MOST_MEMORY, MOST_WORK, Method, Model, ModelObserver, ModelState, Restated, Route, planned, resume_since,
    subsampled,
};
use certus_models::error::InvalidModel;

use crate::level::RequiredLevel;
use crate::method_choice::INDEPENDENT;
use crate::method_choice::MethodChoice;
use crate::number::joined;
use crate::posterior::{Compared, PosteriorChoice, PosteriorTable};
use crate::problem::{GIVEN, ModelKind, Problem};
use crate::progress::{RunObserver, RunProgress};
use crate::record::Source;
use crate::variance::run::ScalesOutcome;

/// What a run ends with.
#[derive(Clone)]
pub struct RunOutcome {
    /// The Gaussian and what is known about it; for a mixture, the Gaussian with its mean and covariance.
    pub outcome: Outcome,
    /// What was found for scales that were not given.
    pub scales: Option<ScalesOutcome>,
    /// What is printed of the posterior, if not the Gaussian's own numbers.
    pub table: Option<PosteriorTable>,
}

impl RunOutcome {
    /// Adds what is known of the posterior.
    pub fn with(&mut self, found: Compared) {
        found.judge(&mut self.outcome);
        if let Some(scales) = &mut self.scales {
            scales.effects.clone_from(&found.effects);
            scales.deviations.clone_from(&found.deviations);
            scales.refined(found.refinement);
        }
        self.outcome.certificate.posterior = found.posterior;
        self.outcome.elapsed += found.elapsed;
        self.table = found.table;
    }
}

impl Problem {
    /// Compares what a run ended with with the posterior, and takes from the ladder what is printed; `asked` is the
    /// level at which the accuracy must be known; `tried` is told each rung before it is tried.
    pub fn compare(
        &self,
        goal: &Goal,
        choice: PosteriorChoice,
        asked: Option<RequiredLevel>,
        ended: &RunOutcome,
        tried: &(dyn Fn(Source) + Sync),
    ) -> Compared {
        let began = Instant::now();
        let found = match &ended.scales {
            // the run has judged the level
            Some(scales) => self.compare_scales(goal, choice, scales, tried),
            None => self.compare_gaussian(goal, choice, asked, &ended.outcome, tried),
        };
        Compared { elapsed: began.elapsed(), ..found }
    }

    /// Fits, whatever kind of model it is; `asked` is the level that counts as reached, `saved` a state to resume from.
    pub fn run(
        &self,
        goal: &Goal,
        choice: &MethodChoice,
        asked: Option<RequiredLevel>,
        saved: Option<&[u8]>,
        observer: &mut RunObserver<'_>,
    ) -> Result<RunOutcome, certus_models::Error> {
        if self.collapsed().is_some() {
            let (outcome, scales) = self.run_scales(goal, choice, asked, saved, observer)?;
            return Ok(RunOutcome { outcome, scales: Some(scales), table: None });
        }
        let mut outcome = self.run_gaussian(goal, choice, saved, &mut |point, save| {
            observer(&RunProgress { point: *point, scales: None }, save)
        })?;
        asked.iter().for_each(|level| level.judge(&mut outcome));
        Ok(RunOutcome { outcome, scales: None, table: None })
    }

    /// Fits a Gaussian to a model whose scales are given.
    pub(crate) fn run_gaussian(
        &self,
        goal: &Goal,
        choice: &MethodChoice,
        saved: Option<&[u8]>,
        observer: &mut ModelObserver<'_>,
    ) -> Result<Outcome, certus_models::Error> {
        let mut rigorous = None;
        let Some(model) = self.model_proved(goal, &mut rigorous) else {
            return Err(InvalidModel::Requires { what: "a run with one Gaussian", required: GIVEN }.into());
        };
        match choice {
            MethodChoice::Planned(chosen) => planned(model, goal, chosen, saved, observer),
            MethodChoice::Subsampled(chosen) => subsampled(model, goal, chosen, saved, observer),
            MethodChoice::Auto(method) => unsettled(model, goal, *method, saved, observer),
            MethodChoice::MeanField(method) => {
                let field = self.mean_field()?;
                let mut outcome = unsettled(&field, goal, *method, saved, observer)?;
                outcome.route = format!("{INDEPENDENT}: {}", outcome.route);
                outcome.certificate.gap.family = self.family(&outcome.gaussian);
                if outcome.status == Status::Reached {
                    match state_cost(&field, goal, &mut outcome) {
                        // the fit is there, and was asked for first
                        Err(e) if e.is_stopped() => {}
                        stated => stated?,
                    }
                }
                Ok(outcome)
            }
        }
    }

    /// What a run that ended at `w` states of it, computed again without the run, and the bound in words; `reached` if
    /// it ended because it reached its goal. Route, counts, trace and time are empty, and nothing is stated about the
    /// posterior.
    pub(crate) fn restated(
        &self,
        goal: &Goal,
        choice: &MethodChoice,
        w: &Gaussian,
        reached: bool,
    ) -> Result<(Outcome, String), certus_models::Error> {
        let field = matches!(choice, MethodChoice::MeanField(_)).then(|| self.mean_field()).transpose()?;
        let mut rigorous = None;
        let model = match &field {
            Some(field) => Some(field as &dyn Model),
            None => self.model_proved(goal, &mut rigorous),
        };
        let model = model.ok_or(InvalidModel::Requires { what: "a gap", required: GIVEN })?;
        let restated = certus::parallel::install(goal.threads, || Restated::at(model, w))??;
        let (said, reached) = (restated.said(), reached && restated.reaches(goal));
        let mut outcome = restated.outcome(if reached { Status::Reached } else { Status::NoProgress });
        if field.is_some() {
            outcome.certificate.gap.family = self.family(w);
        }
        match &field {
            Some(field) if reached => state_cost(field, goal, &mut outcome)?,
            _ => {}
        }
        if !reached {
            outcome.message = format!("stopped by rounding error: {said}");
        }
        Ok((outcome, said))
    }

    /// The route of a run, or how its line begins where the rest is known to the run only (false).
    pub(crate) fn route_taken(&self, choice: &MethodChoice) -> (String, bool) {
        let taken = |method: Method, size| {
            let route = Route::taken(method, size);
            (route.why, route.method == Method::Exact)
        };
        match (choice, self.model()) {
            (MethodChoice::Auto(method), Some(model)) => taken(*method, model.size()),
            (MethodChoice::MeanField(method), _) => match self.mean_field() {
                Ok(field) => {
                    let (why, whole) = taken(*method, field.size());
                    (format!("{INDEPENDENT}: {why}"), whole)
                }
                Err(error) => (error.to_string(), true),
            },
            (MethodChoice::Planned(chosen), _) => (format!("{}: requested, ", chosen.method.name()), false),
            (MethodChoice::Subsampled(_), _) => ("subsampled: requested, ".into(), false),
            (MethodChoice::Auto(_), None) => (String::new(), true),
        }
    }

    /// The model over Gaussians with independent coordinates.
    pub fn mean_field(&self) -> Result<MeanField<'_>, certus_models::Error> {
        match &self.model_kind {
            ModelKind::Dense(model) => MeanField::new(model),
            _ => Err(InvalidModel::Unsupported {
                what: "factor diagonal is not supported for models with groups".into(),
                remedy: "the arrow loses nothing; leave it out",
            }
            .into()),
        }
    }

    /// The Gaussians that a gap of w is about, in words of the coefficients. Those of a diagonal factor are independent
    /// where the fit is made: after centring, if there is any. Scaling a coefficient leaves it independent of the
    /// others; an intercept z₀ − Σ z_j c_j/s_j is not.
    pub fn family(&self, w: &Gaussian) -> String {
        let diagonal =
            matches!(w.factor(), Factor::Pattern(p) if p.tree().levels() == 1 && p.tree().widest() == 1);
        match &self.model_kind {
            ModelKind::Dense(_) if diagonal && w.dim() > 1 => {
                let (center, _) = self.prepared.encoding.center_and_scale();
                let centred = center.iter().any(|c| *c != 0.0);
                let which = if centred { " of the centred features" } else { "" };
                format!("all Gaussians with independent coefficients{which}")
            }
            ModelKind::Dense(_) => family_name(w.factor()),
            ModelKind::Grouped(_) | ModelKind::Collapsed(_) => "all Gaussians".into(),
        }
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
        let scale = if self.prepared.encoding.standardise { ", in the units of the priors" } else { "" };
        format!("\nwitness{scale}: {}{more}", shown.join(" "))
    }

    /// Notes for the record: what became of the columns, and the prior on the user's scale.
    pub fn notes(&self) -> Vec<String> {
        let prior = format!("prior: {}", joined(&self.priors));
        self.prepared.notes.iter().cloned().chain([prior]).chain(self.structure_notes()).collect()
    }

    /// [`Problem::notes`], and what the fit shows of its priors: where they and the data disagree, and a response that
    /// is separated. Nothing is searched for in a run that was not completed, except for means whose error is
    /// certified.
    pub fn notes_of(&self, goal: &Goal, outcome: &Outcome) -> Vec<String> {
        let ended = outcome.status == Status::Reached;
        let found = certus::parallel::install(goal.threads, || {
            let known = ended || outcome.certificate.gap.mean_error.is_some();
            let separated = if ended { self.separation(outcome) } else { None };
            // without their priors, coefficients that separate are infinite
            let known = known && separated.is_none();
            let prior = if known { self.disagreement(outcome) } else { None };
            [prior, separated].into_iter().flatten()
        });
        let found = found.into_iter().flatten();
        self.notes().into_iter().chain(self.few_draws(outcome)).chain(found).collect()
    }
}

/// A run without settings.
fn unsettled(
    model: &dyn Model,
    goal: &Goal,
    method: Method,
    saved: Option<&[u8]>,
    observer: &mut ModelObserver<'_>,
) -> Result<Outcome, certus_models::Error> {
    goal.validate()?;
    // the search for the mode takes of the time, too
    let clock = Instant::now();
    let state = certus::parallel::install(goal.threads, || match saved {
        Some(bytes) => ModelState::decode(bytes, model, goal),
        None => ModelState::new(model, goal, method),
    })??;
    resume_since(model, goal, state, observer, clock)
}

/// Adds the cost of independence compared with all Gaussians, where the dense optimum can be computed.
fn state_cost(field: &MeanField<'_>, goal: &Goal, outcome: &mut Outcome) -> Result<(), certus_models::Error> {
    if Route::choose(field.dense().size(), MOST_WORK, MOST_MEMORY).method != Method::Exact {
        return Ok(());
    }
    let cost = certus::parallel::install(goal.threads, || field.family_cost(&outcome.gaussian))??;
    if let Some(cost) = cost {
        let gap = &mut outcome.certificate.gap;
        gap.statement = gap
            .statement
            .clone()
            .with("cost of the family", cost.value)
            .with("cost of the family, at least", cost.least)
            .with("cost of the family, at most", cost.most);
        outcome.message = format!(
            "{}; independence costs at most {} nats against all Gaussians",
            outcome.message,
            figure(cost.most)
        );
    }
    Ok(())
}
