//! How far the fitted Gaussian is from the posterior: the statements about q, of which its own numbers need one and
//! every rung of the ladder has one.

use std::borrow::Cow;

use certus::certificate::weights::FEW_PAIRS;
use certus::certificate::{Level, Posterior, figure};
use certus::diagnostics::{Importance, importance};
use certus::factor::{Factor, Lower};
use certus::{Gaussian, Goal, Outcome};
use certus_models::PosteriorSettings;
use certus_models::error::InvalidModel;
use certus_models::posterior::{
    Printed, Weighed, WeightGoal, by_gap, first_draws, sixteen_pairs, smallest_attempts, weights,
};

use super::choice::PosteriorChoice;
use crate::problem::{GIVEN, ModelKind, Problem};

/// Multiplications that the draws of the certificate of the posterior may take: a second or two.
const POSTERIOR_WORK: f64 = 1e9;
/// Those of all attempts to reach the usual accuracy, and one that was asked for.
const ACCURACY_WORK: (f64, f64) = (1e11, 1e12);
/// Up to so many coefficients the envelope (D6) may say more than the weights (D8), and is tried beside them.
pub(super) const ENVELOPE: usize = 12;
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
const ESTIMATE_DRAWS: usize = 20_000;
/// A bound on the KL divergence, in nats, above which it is not useful: then an estimate is given instead.
const USEFUL: f64 = 1.0;

impl Problem {
    /// How far q is from a posterior that is Gaussian (D7): what the gap to the best of all Gaussians says, with the
    /// same figures, or, for a smaller family, the closed form; `None` for other posteriors.
    pub(super) fn gaussian_posterior(&self, goal: &Goal, outcome: &Outcome) -> Option<Posterior> {
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
    pub(super) fn of_gaussian(&self, goal: &Goal, w: &Gaussian) -> Posterior {
        let weighed = self.weighed(goal, w, Printed::Gaussian, 0, PosteriorChoice::Auto).posterior;
        let accurate = |x: Option<f64>| x.is_some_and(|x| x <= accuracy(goal));
        let few = self.meaning.dim() <= ENVELOPE && matches!(self.model_kind, ModelKind::Dense(_));
        if !few && is_bound(&weighed) && accurate(weighed.mean_error) && accurate(weighed.sd_error) {
            return weighed;
        }
        let Some(draws) = self.draws_in_seconds() else { return self.without_draws(goal, w, weighed) };
        let bounded = match &self.model_kind {
            ModelKind::Dense(model) => {
                let settings = PosteriorSettings { draws, delta: 0.5 * goal.delta, seed: goal.seed };
                let found = lower_triangular(w)
                    .and_then(|w| model.posterior_of(&w, &self.reported(), &settings))
                    .unwrap_or_else(|error| Posterior::none(error.to_string()));
                better(weighed, found.at_probability(goal.delta))
            }
            ModelKind::Grouped(_) | ModelKind::Collapsed(_) => weighed,
        };
        if is_useful(&bounded) {
            return bounded;
        }
        let estimated = self.estimated(goal, w, draws).map(|(posterior, _)| posterior);
        estimated
            .map_or_else(|error| Posterior::none(error.to_string()), |estimated| stated(bounded, estimated))
    }

    /// Draws of a comparison that takes a second or two; `None` if they would be too few.
    pub(super) fn draws_in_seconds(&self) -> Option<usize> {
        self.draws_within(POSTERIOR_WORK)
    }

    /// Draws that so many multiplications allow; `None` if they would be too few.
    pub(super) fn draws_within(&self, work: f64) -> Option<usize> {
        let products = self.prepared.rows_used as f64 * self.prepared.encoding.coefficients().len() as f64;
        // a normal number per latent costs about ten multiplications
        let once = products + 10.0 * self.meaning.dim() as f64;
        let draws = (work / once).min(POSTERIOR_DRAWS.0);
        (draws >= POSTERIOR_DRAWS.1).then_some(draws as usize)
    }

    /// What is said where many draws would take too long: a bound, or what a few of them estimate, which is enough
    /// where rows are so many that q is all but exact.
    pub(super) fn without_draws(&self, goal: &Goal, w: &Gaussian, weighed: Posterior) -> Posterior {
        if weighed.statement.bound().is_some() {
            return weighed;
        }
        let Some(model) = self.model() else { return weighed };
        let estimated = self
            .with_its_factor(w)
            .and_then(|q| sixteen_pairs(model, &q, goal.seed))
            .unwrap_or_else(|error| Posterior::none(error.to_string()));
        stated(weighed, estimated)
    }

    /// A note on what was compared with few draws.
    pub(crate) fn few_draws(&self, outcome: &Outcome) -> Option<String> {
        let said = &outcome.certificate.posterior.statement;
        (said.theorem() == FEW_PAIRS).then(|| {
            let (draws, work) = (2.0 * said.constant("pairs of draws").unwrap_or(f64::NAN), self.products());
            format!(
                "the posterior was compared with {draws} draws, because more would take long; posterior corrected \
                 makes 4000 or more, with about {} multiplications",
                figure(smallest_attempts(work).1)
            )
        })
    }

    /// Importance sampling with at most this many draws.
    pub(super) fn estimated(
        &self,
        goal: &Goal,
        w: &Gaussian,
        draws: usize,
    ) -> Result<(Posterior, Importance), certus_models::Error> {
        let model = self.model().ok_or(InvalidModel::Requires { what: "a comparison", required: GIVEN })?;
        let few = draws.min(ESTIMATE_DRAWS);
        Ok(importance::compared(model, w, &self.reported(), few, goal.seed)?)
    }

    /// What is printed, as combinations of the latents.
    pub(super) fn reported(&self) -> Vec<Vec<(usize, f64)>> {
        self.quantities.iter().map(|q| q.terms.clone()).collect()
    }

    /// Products that a value of log p takes, more or less.
    pub(super) fn products(&self) -> f64 {
        let (rows, per_row) =
            (self.prepared.rows_used as f64, self.prepared.encoding.coefficients().len() as f64);
        rows * (per_row + ROW_WORK) + LATENT_WORK * self.meaning.dim() as f64 + DRAW_WORK
    }

    /// q, with a dense factor if the model has no groups.
    pub(super) fn with_its_factor<'a>(
        &self,
        w: &'a Gaussian,
    ) -> Result<Cow<'a, Gaussian>, certus_models::Error> {
        match self.model_kind {
            ModelKind::Dense(_) => lower_triangular(w),
            ModelKind::Grouped(_) | ModelKind::Collapsed(_) => Ok(Cow::Borrowed(w)),
        }
    }

    /// Multiplications that the weights may take: by default, for an accuracy, and for who names them, who has an
    /// attempt that may reach 0.1.
    fn weight_work(&self, goal: &Goal, choice: PosteriorChoice) -> f64 {
        match (choice, goal.accuracy) {
            (PosteriorChoice::Auto, None) => ACCURACY_WORK.0,
            (PosteriorChoice::Auto, Some(_)) => ACCURACY_WORK.1,
            (PosteriorChoice::Only(_), _) => ACCURACY_WORK.1.max(smallest_attempts(self.products()).1),
        }
    }

    /// Draws of the first attempt of the weights, and the multiplications that it takes, if it is made.
    pub(super) fn weight_draws(&self, goal: &Goal, choice: PosteriorChoice) -> Option<(f64, f64)> {
        first_draws(self.products(), POSTERIOR_WORK, self.weight_work(goal, choice))
    }

    /// What the tail of the importance weights says (D8), with half of δ; `keep` points are kept.
    pub(super) fn weighed(
        &self,
        goal: &Goal,
        w: &Gaussian,
        printed: Printed,
        keep: usize,
        choice: PosteriorChoice,
    ) -> Weighed {
        let none = |why: String| Weighed { posterior: Posterior::none(why), found: None, too_long: false };
        let Some(model) = self.model() else { return none("the scales are not given".into()) };
        let wanted = WeightGoal {
            accuracy: accuracy(goal),
            printed,
            keep,
            delta: 0.5 * goal.delta,
            seed: goal.seed,
            first: POSTERIOR_WORK,
            most: self.weight_work(goal, choice),
        };
        match self
            .with_its_factor(w)
            .and_then(|q| weights(model, &q, &self.reported(), self.products(), &wanted))
        {
            Ok(weighed) => Weighed { posterior: weighed.posterior.at_probability(goal.delta), ..weighed },
            Err(error) => none(error.to_string()),
        }
    }
}

/// The accuracy that was asked for, or the usual one.
pub(super) fn accuracy(goal: &Goal) -> f64 {
    goal.accuracy.unwrap_or(ACCURACY)
}

/// True for what is more than an estimate.
fn is_bound(posterior: &Posterior) -> bool {
    matches!(posterior.statement.level(), Level::Proved | Level::Probable { .. })
}

/// True for a bound that says something.
pub(super) fn is_useful(posterior: &Posterior) -> bool {
    posterior.statement.bound().is_some_and(|bound| bound <= USEFUL)
}

/// What is said where there is an estimate, and a bound that is not useful or none.
pub(super) fn stated(bounded: Posterior, mut estimated: Posterior) -> Posterior {
    if estimated.statement.bound().is_some() {
        if let Some(why) = bounded.statement.reason() {
            estimated.statement = estimated.statement.because(why);
        }
        return estimated;
    }
    let why = estimated.statement.reason().unwrap_or_default();
    match bounded.statement.bound() {
        Some(bound) => Posterior::none(format!(
            "{why}, and the best available bound, {} nats, is too large to be useful",
            figure(bound)
        )),
        // with how far q is at least
        None => Posterior::none([why, bounded.statement.reason().unwrap_or_default()].join("; ")),
    }
}

/// The same Gaussian with a dense factor: a diagonal one is lower triangular.
pub(super) fn lower_triangular(w: &Gaussian) -> Result<Cow<'_, Gaussian>, certus_models::Error> {
    if !matches!(w.factor(), Factor::Pattern(_)) {
        return Ok(Cow::Borrowed(w));
    }
    let factor = Factor::Lower(Lower::new(w.dim(), w.factor().to_dense())?);
    Ok(Cow::Owned(Gaussian::new(w.mean().to_vec(), factor)?))
}

/// The statement that says more of what is printed: at the stronger level, with the smaller error of means and sds.
pub(super) fn better(a: Posterior, b: Posterior) -> Posterior {
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
