//! A problem to its outcome: the route, the run, the certificate of the posterior and the notes on the data. The
//! command line and Python both use this code, so that they give the same numbers.

use std::borrow::Cow;
use std::time::Instant;

use certus::certificate::{Level, Posterior, family_name, figure};
use certus::diagnostics::importance;
use certus::factor::{Factor, Lower};
use certus::fit::Status;
use certus::{Gaussian, Goal, Outcome};
use certus_models::auto::{
    MOST_MEMORY, MOST_WORK, Method, Model, ModelObserver, ModelState, Restated, Route, planned, resume_since,
    subsampled,
};
use certus_models::error::InvalidModel;
use certus_models::posterior::{WeightGoal, by_gap, weights};
use certus_models::{MeanField, PosteriorSettings};

use crate::level::RequiredLevel;
use crate::method_choice::INDEPENDENT;
use crate::method_choice::MethodChoice;
use crate::number::joined;
use crate::problem::{ModelKind, Problem};
use crate::progress::{RunObserver, RunProgress};
use crate::variance::run::ScalesOutcome;

/// Multiplications that the draws of the certificate of the posterior may take: a second or two.
const POSTERIOR_WORK: f64 = 1e9;
/// Those of all attempts to reach the usual accuracy, and one that was asked for.
const ACCURACY_WORK: (f64, f64) = (2e10, 1e12);
/// Up to so many coefficients the envelope (D6) may say more than the weights (D8), and is tried beside them.
const ENVELOPE: usize = 12;
/// The usual accuracy.
const ACCURACY: f64 = 0.1;
/// What a row costs beside its products, a latent beside those of the rows, and a draw beside both: an exponential, a
/// normal number, buffers.
const ROW_WORK: f64 = 8.0;
const LATENT_WORK: f64 = 20.0;
const DRAW_WORK: f64 = 2000.0;
/// Its draws, at most and at least.
const POSTERIOR_DRAWS: (f64, f64) = (1e5, 4e3);
/// Draws of an estimate, at most.
const ESTIMATE_DRAWS: f64 = 2e4;
/// A bound on the KL divergence, in nats, above which it is not useful: then an estimate is given instead.
const USEFUL: f64 = 1.0;
/// What a posterior that is one Gaussian takes.
const GIVEN: &str = "a model whose scales are all given";

/// What a run ends with.
pub struct RunOutcome {
    /// The Gaussian and what is known about it; for a mixture, the Gaussian with its mean and covariance.
    pub outcome: Outcome,
    /// What was found for scales that were not given.
    pub scales: Option<ScalesOutcome>,
}

impl Problem {
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
            return Ok(RunOutcome { outcome, scales: Some(scales) });
        }
        let mut outcome = self.run_gaussian(goal, choice, saved, &mut |point, save| {
            observer(&RunProgress { point: *point, scales: None }, save)
        })?;
        asked.iter().for_each(|level| level.judge(&mut outcome));
        Ok(RunOutcome { outcome, scales: None })
    }

    /// Fits a Gaussian to a model whose scales are given.
    pub(crate) fn run_gaussian(
        &self,
        goal: &Goal,
        choice: &MethodChoice,
        saved: Option<&[u8]>,
        observer: &mut ModelObserver<'_>,
    ) -> Result<Outcome, certus_models::Error> {
        let Some(model) = self.model() else {
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
        let model = match &field {
            Some(field) => Some(field as &dyn Model),
            None => self.model(),
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
            (MethodChoice::Planned(chosen), _) => {
                let name = MethodChoice::PLANNED
                    .iter()
                    .find(|(_, m)| *m == chosen.method)
                    .map_or("", |(name, _)| name);
                (format!("{name}: requested, "), false)
            }
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

    /// How far q is from a posterior that is Gaussian (D7): what the gap to the best of all Gaussians says, with the
    /// same figures, or, for a smaller family, the closed form; `None` for other posteriors.
    fn gaussian_posterior(&self, goal: &Goal, outcome: &Outcome) -> Option<Posterior> {
        let (w, gap) = (&outcome.gaussian, &outcome.certificate.gap);
        let found = certus::parallel::install(goal.threads, || match &self.model_kind {
            ModelKind::Dense(model) if model.likelihood().is_quadratic() => {
                if matches!(w.factor(), Factor::Pattern(_)) {
                    let settings =
                        PosteriorSettings { delta: goal.delta, seed: goal.seed, ..Default::default() };
                    return lower_triangular(w).and_then(|w| model.posterior(&w, &settings)).map(Some);
                }
                by_gap(&**model, w, gap).map(Some)
            }
            ModelKind::Grouped(model) if model.likelihood().is_quadratic() => {
                by_gap(&**model, w, gap).map(Some)
            }
            _ => Ok(None),
        });
        match found {
            Ok(Ok(found)) => found.filter(|found| found.statement.bound().is_some()),
            Ok(Err(error)) => Some(Posterior::none(error.to_string())),
            Err(error) => Some(Posterior::none(error.to_string())),
        }
    }

    /// How far q is from the posterior, if that can be computed in a few seconds: a bound where there is a useful one,
    /// else an estimate. Means and sds are those of [`Problem::quantities`], which is what is printed.
    pub fn posterior(&self, goal: &Goal, outcome: &Outcome) -> Posterior {
        if let Some(found) = self.gaussian_posterior(goal, outcome) {
            return found;
        }
        let w = &outcome.gaussian;
        let weighed = certus::parallel::install(goal.threads, || self.weighed(goal, w));
        let weighed = weighed.unwrap_or_else(|error| Posterior::none(error.to_string()));
        let accurate = |x: Option<f64>| x.is_some_and(|x| x <= goal.accuracy.unwrap_or(ACCURACY));
        let few = self.meaning.dim() <= ENVELOPE && matches!(self.model_kind, ModelKind::Dense(_));
        let bounded = matches!(weighed.statement.level(), Level::Proved | Level::Probable { .. });
        if !few && bounded && accurate(weighed.mean_error) && accurate(weighed.sd_error) {
            return weighed;
        }
        let products = self.prepared.rows_used as f64 * self.prepared.encoding.coefficients().len() as f64;
        // a normal number per latent costs about ten multiplications
        let once = products + 10.0 * self.meaning.dim() as f64;
        let draws = (POSTERIOR_WORK / once).min(POSTERIOR_DRAWS.0);
        if draws < POSTERIOR_DRAWS.1 {
            if weighed.statement.bound().is_some() {
                return weighed;
            }
            let declined = weighed.statement.reason().map(|why| format!("; {why}")).unwrap_or_default();
            return Posterior::none(format!(
                "{} draws on this many rows would take longer than a second or two{declined}",
                POSTERIOR_DRAWS.1
            ));
        }
        let found = certus::parallel::install(goal.threads, || {
            let bounded = match &self.model_kind {
                ModelKind::Dense(model) => {
                    let settings =
                        PosteriorSettings { draws: draws as usize, delta: 0.5 * goal.delta, seed: goal.seed };
                    let found = lower_triangular(w)
                        .and_then(|w| model.posterior_of(&w, &self.reported(), &settings))
                        .unwrap_or_else(|error| Posterior::none(error.to_string()));
                    better(weighed, found.at_probability(goal.delta))
                }
                ModelKind::Grouped(_) | ModelKind::Collapsed(_) => weighed,
            };
            if bounded.statement.bound().is_some_and(|bound| bound <= USEFUL) {
                return bounded;
            }
            let few = draws.min(ESTIMATE_DRAWS) as usize;
            let Some(model) = self.model() else { return bounded };
            let estimated = importance::compared(model, w, &self.reported(), few, goal.seed);
            match (estimated, bounded.statement.bound()) {
                (Ok(mut estimated), _) if estimated.statement.bound().is_some() => {
                    if let Some(why) = bounded.statement.reason() {
                        estimated.statement = estimated.statement.because(why);
                    }
                    estimated
                }
                (Ok(estimated), Some(bound)) => {
                    let why = estimated.statement.reason().unwrap_or_default();
                    Posterior::none(format!(
                        "{why}, and the best available bound, {} nats, is too large to be useful",
                        figure(bound)
                    ))
                }
                (Ok(estimated), None) => estimated,
                (Err(error), _) => Posterior::none(error.to_string()),
            }
        });
        found.unwrap_or_else(|error| Posterior::none(error.to_string()))
    }

    /// What is printed, as combinations of the latents.
    fn reported(&self) -> Vec<Vec<(usize, f64)>> {
        self.quantities.iter().map(|q| q.terms.clone()).collect()
    }

    /// What the tail of the importance weights says (D8), with half of δ.
    fn weighed(&self, goal: &Goal, w: &Gaussian) -> Posterior {
        let Some(model) = self.model() else { return Posterior::none("the scales are not given") };
        let (rows, per_row) =
            (self.prepared.rows_used as f64, self.prepared.encoding.coefficients().len() as f64);
        let products = rows * (per_row + ROW_WORK) + LATENT_WORK * self.meaning.dim() as f64 + DRAW_WORK;
        let wanted = WeightGoal {
            accuracy: goal.accuracy.unwrap_or(ACCURACY),
            delta: 0.5 * goal.delta,
            seed: goal.seed,
            first: POSTERIOR_WORK,
            most: if goal.accuracy.is_some() { ACCURACY_WORK.1 } else { ACCURACY_WORK.0 },
        };
        let lower = matches!(self.model_kind, ModelKind::Dense(_));
        let q = if lower { lower_triangular(w) } else { Ok(Cow::Borrowed(w)) };
        let found = q.and_then(|q| weights(model, &q, &self.reported(), products, &wanted));
        match found {
            Ok((posterior, _)) => posterior.at_probability(goal.delta),
            Err(error) => Posterior::none(error.to_string()),
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
            let prior = if known { self.disagreement(outcome) } else { None };
            let separated = if ended { self.separation(outcome) } else { None };
            [prior, separated].into_iter().flatten()
        });
        self.notes().into_iter().chain(found.into_iter().flatten()).collect()
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

/// The same Gaussian with a dense factor: a diagonal one is lower triangular.
fn lower_triangular(w: &Gaussian) -> Result<Cow<'_, Gaussian>, certus_models::Error> {
    if !matches!(w.factor(), Factor::Pattern(_)) {
        return Ok(Cow::Borrowed(w));
    }
    let factor = Factor::Lower(Lower::new(w.dim(), w.factor().to_dense())?);
    Ok(Cow::Owned(Gaussian::new(w.mean().to_vec(), factor)?))
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

/// The statement that says more of what is printed: at the stronger level, with the smaller error of means and sds.
fn better(a: Posterior, b: Posterior) -> Posterior {
    let key = |p: &Posterior| {
        let error = p.mean_error.zip(p.sd_error).map_or(f64::INFINITY, |(mean, sd)| mean.max(sd));
        (p.statement.level().rank(), error)
    };
    let (mut chosen, other) = if key(&b) < key(&a) { (b, a) } else { (a, b) };
    if let (Some(why), None) = (other.statement.reason(), chosen.statement.reason()) {
        chosen.statement = chosen.statement.because(why.to_string());
    }
    chosen
}
