//! A problem to its outcome: which way, the run, the certificate of the posterior and what is said of the data. The command line and Python
//! both come through here, so that they give the same numbers.

use std::borrow::Cow;
use std::str::FromStr;
use std::time::Instant;

use certus::certificate::{Level, Posterior, family_name, figure};
use certus::diagnostics::importance;
use certus::factor::{Factor, Lower};
use certus::fit::Status;
use certus::{Gaussian, Goal, Outcome};
use certus_models::auto::{
    MOST_MEMORY, MOST_WORK, Method, Model, ModelState, Observer, Restated, Route, planned, resume_since,
    subsampled,
};
use certus_models::posterior::by_gap;
use certus_models::{MeanField, PosteriorSettings};

use crate::error::DataError;
use crate::problem::{Fitted, Problem};
use crate::theorems::{FitPlan, Lines, Theorems};
use crate::way::INDEPENDENT;
use crate::way::Way;

/// Multiplications that the draws of the certificate of the posterior may take: a second or two.
const POSTERIOR_WORK: f64 = 1e9;
/// Its draws, at most and at least.
const POSTERIOR_DRAWS: (f64, f64) = (1e5, 4e3);
/// Multiplications of the exact route up to which a plan computes the constants of the theorems unasked: they take about a tenth of it.
const THEOREM_WORK: f64 = 1e11;
/// Draws of an estimate, at most.
const ESTIMATE_DRAWS: f64 = 2e4;
/// A bound of the KL divergence, in nats, beyond which it says nothing that anybody could use: then an estimate is given instead.
const USEFUL: f64 = 1.0;

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
            Way::Auto(method) => unsettled(model, goal, *method, saved, observer),
            Way::MeanField(method) => {
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

    /// What a run that ended at `w` states of it, computed again without the run, and the bound in words; `reached` if it ended because it reached its goal.
    /// Route, counts, trace and time are empty, and nothing is said of the posterior.
    pub(crate) fn restated(
        &self,
        goal: &Goal,
        way: &Way,
        w: &Gaussian,
        reached: bool,
    ) -> Result<(Outcome, String), certus_models::Error> {
        let field = matches!(way, Way::MeanField(_)).then(|| self.mean_field()).transpose()?;
        let model = match &field {
            Some(field) => Some(field as &dyn Model),
            None => self.model(),
        };
        let model = model.ok_or_else(|| certus_models::Error::Model("there is no single Gaussian".into()))?;
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
            outcome.message = format!("rounding ended the run: {said}");
        }
        Ok((outcome, said))
    }

    /// The route of a run, or how its line begins where the rest is known to the run only (false).
    pub(crate) fn route_taken(&self, way: &Way) -> (String, bool) {
        let taken = |method: Method, size| {
            let route = Route::taken(method, size);
            (route.why, route.method == Method::Exact)
        };
        match (way, self.model()) {
            (Way::Auto(method), Some(model)) => taken(*method, model.size()),
            (Way::MeanField(method), _) => match self.mean_field() {
                Ok(field) => {
                    let (why, whole) = taken(*method, field.size());
                    (format!("{INDEPENDENT}: {why}"), whole)
                }
                Err(error) => (error.to_string(), true),
            },
            (Way::Planned(chosen), _) => {
                let name =
                    Way::PLANNED.iter().find(|(_, m)| *m == chosen.method).map_or("", |(name, _)| name);
                (format!("{name}: it was asked for, "), false)
            }
            (Way::Subsampled(_), _) => ("subsampled: it was asked for, ".into(), false),
            (Way::Auto(_), None) => (String::new(), true),
        }
    }

    /// The model over Gaussians with independent coordinates.
    pub fn mean_field(&self) -> Result<MeanField<'_>, certus_models::Error> {
        match &self.fitted {
            Fitted::Dense(model) => MeanField::new(model),
            _ => Err(certus_models::Error::Model(
                "factor diagonal is not built for models with groups: the arrow loses nothing, leave it out"
                    .into(),
            )),
        }
    }

    /// The Gaussians that a gap of w is about, in words of the coefficients. Those of a diagonal factor are independent where the fit is
    /// made: after centring, if there is any. Scaling a coefficient leaves it independent of the others; an intercept z₀ − Σ z_j c_j/s_j is not.
    pub fn family(&self, w: &Gaussian) -> String {
        let diagonal =
            matches!(w.factor(), Factor::Pattern(p) if p.tree().levels() == 1 && p.tree().widest() == 1);
        match &self.fitted {
            Fitted::Dense(_) if diagonal && w.dim() > 1 => {
                let (center, _) = self.prepared.encoding.center_and_scale();
                let centred = center.iter().any(|c| *c != 0.0);
                let which = if centred { " of the centred features" } else { "" };
                format!("all Gaussians with independent coefficients{which}")
            }
            Fitted::Dense(_) => family_name(w.factor()),
            Fitted::Grouped(_) | Fitted::Collapsed(_) => "all Gaussians".into(),
        }
    }

    /// How far q is from a posterior that is Gaussian (D7): what the gap to the best of all Gaussians says, with the same figures, or, for a
    /// smaller family, the closed form; `None` for other posteriors.
    fn gaussian_posterior(&self, goal: &Goal, outcome: &Outcome) -> Option<Posterior> {
        let (w, gap) = (&outcome.gaussian, &outcome.certificate.gap);
        let found = certus::parallel::install(goal.threads, || match &self.fitted {
            Fitted::Dense(model) if model.likelihood().is_quadratic() => {
                if matches!(w.factor(), Factor::Pattern(_)) {
                    let settings =
                        PosteriorSettings { delta: goal.delta, seed: goal.seed, ..Default::default() };
                    return lower_triangular(w).and_then(|w| model.posterior(&w, &settings)).map(Some);
                }
                by_gap(&**model, w, gap).map(Some)
            }
            Fitted::Grouped(model) if model.likelihood().is_quadratic() => by_gap(&**model, w, gap).map(Some),
            _ => Ok(None),
        });
        match found {
            Ok(Ok(found)) => found.filter(|found| found.statement.bound().is_some()),
            Ok(Err(error)) => Some(Posterior::none(error.to_string())),
            Err(error) => Some(Posterior::none(error.to_string())),
        }
    }

    /// How far q is from the posterior, if that can be had in a few seconds: a bound where there is a useful one, else an estimate. Means and sds
    /// are those of [`Problem::quantities`], which is what is printed.
    pub fn posterior(&self, goal: &Goal, outcome: &Outcome) -> Posterior {
        if let Some(found) = self.gaussian_posterior(goal, outcome) {
            return found;
        }
        let products = self.prepared.rows_used as f64 * self.prepared.encoding.coefficients().len() as f64;
        // a normal number per latent costs about ten multiplications
        let once = products + 10.0 * self.meaning.dim() as f64;
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
                    let reported: Vec<_> = self.quantities.iter().map(|q| q.terms.clone()).collect();
                    let found =
                        lower_triangular(w).and_then(|w| model.posterior_of(&w, &reported, &settings));
                    found.unwrap_or_else(|error| Posterior::none(error.to_string()))
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
        let scale = if self.prepared.encoding.standardise { ", in the units of the priors" } else { "" };
        format!("\nwitness{scale}: {}{more}", shown.join(" "))
    }

    /// Remarks for the record: what became of the columns, and the prior on the user's scale.
    pub fn notes(&self) -> Vec<String> {
        let prior = format!("prior: {}", joined(&self.priors));
        self.prepared.notes.iter().cloned().chain([prior]).chain(self.structure_notes()).collect()
    }

    /// [`Problem::notes`], and what the fit shows of its priors: where they and the data disagree, and a response that is separated. Nothing is looked for in a run that
    /// did not come to its end, but for means whose error is certified.
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

    /// What a fit would do. Where rows are spread over ranks, all of them must ask.
    pub fn plan(&self, goal: &Goal, way: &Way) -> Result<FitPlan, DataError> {
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
        let theorems = self.theorems(goal, way)?;
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

    /// What the theorems say of the paper's methods, or why that is not computed.
    #[allow(clippy::type_complexity)]
    fn theorems(&self, goal: &Goal, way: &Way) -> Result<Result<(Theorems, Lines), String>, DataError> {
        let chosen = if let Way::Planned(chosen) = way { Some(chosen) } else { None };
        let Some(model) = self.model() else {
            return Ok(Err(
                "a scale of the model is not given, and the theorems are about one Gaussian for given scales"
                    .into(),
            ));
        };
        if matches!(way, Way::MeanField(_)) {
            return Ok(Err(
                "the paper's methods do not run over Gaussians with independent coefficients".into()
            ));
        }
        let work = model.size().work();
        if work > THEOREM_WORK && chosen.is_none() {
            return Ok(Err(format!(
                "their constants take passes over the rows ({work:.1e} operations, more than {THEOREM_WORK:.0e}): ask for one of the methods, \
                 such as ball-stl, to have them computed"
            )));
        }
        Theorems::new(model, goal, chosen).map(Ok)
    }
}

/// A run without settings.
fn unsettled(
    model: &dyn Model,
    goal: &Goal,
    method: Method,
    saved: Option<&[u8]>,
    observer: &mut Observer<'_>,
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

/// Adds what independence costs against all Gaussians, where the dense optimum can be had.
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

/// The first few of many.
fn joined(lines: &[String]) -> String {
    const MOST: usize = 8;
    let shown = lines[..lines.len().min(MOST)].join(", ");
    if lines.len() > MOST { format!("{shown} and {} more", lines.len() - MOST) } else { shown }
}
