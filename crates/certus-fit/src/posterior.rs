//! How far the fitted Gaussian is from the posterior.

use std::borrow::Cow;

use certus::certificate::{Level, Posterior, figure};
use certus::diagnostics::importance;
use certus::factor::{Factor, Lower};
use certus::{Gaussian, Goal, Outcome};
use certus_models::PosteriorSettings;
use certus_models::posterior::{WeightGoal, by_gap, weights};

use crate::problem::{ModelKind, Problem};

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
impl Problem {
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
            let advice = if goal.accuracy.is_none() { "; to compare anyway, give an accuracy" } else { "" };
            return Posterior::none(format!(
                "{} draws on this many rows would take longer than a second or two{declined}{advice}",
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
                // with how far q is at least
                (Ok(mut estimated), None) => {
                    let reasons =
                        [&estimated, &bounded].map(|p| p.statement.reason().unwrap_or_default()).join("; ");
                    estimated.statement = estimated.statement.because(reasons);
                    estimated
                }
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
}

/// The same Gaussian with a dense factor: a diagonal one is lower triangular.
fn lower_triangular(w: &Gaussian) -> Result<Cow<'_, Gaussian>, certus_models::Error> {
    if !matches!(w.factor(), Factor::Pattern(_)) {
        return Ok(Cow::Borrowed(w));
    }
    let factor = Factor::Lower(Lower::new(w.dim(), w.factor().to_dense())?);
    Ok(Cow::Owned(Gaussian::new(w.mean().to_vec(), factor)?))
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
