//! The estimate of a model with several group effects: scales in the order of the model, effects of the groups, what is
//! known of the likelihood in words, and the check of what a file claims.

use std::ops::ControlFlow;

use certus::certificate::words::upward;
use certus::certificate::{counted, figure};
use certus_mixed::collapsed::Confirmed;
use certus_mixed::crossed::{
    Correction, CrossedFit, Error as CrossedError, Method, Sampling, deviation_len, deviations, fit,
    kept_mode, likelihood_at, modes, profiles,
};
use certus_mixed::{Journal, ScaleObserver, Stage};
use certus_models::Error;

use super::model::CrossedMixed;
use crate::variance::profiled::{CUT, PROFILED, Profiled};
use crate::variance::several::{SeveralEffects, watching};

/// The stream of the normal numbers of draws ([`certus::random::Purpose`] lists them all).
const STREAM: u64 = 1 << 46;

/// The smallest number of draws, for a correction that is not used.
const LEAST: usize = 32;
/// Draws of an estimate of the likelihood at one point, at most, and the variance of its logarithm to aim at.
const MOST: usize = 512;
const VARIANCE: f64 = 0.25;

/// Draws of each set of an estimate; none if they are not part of its likelihood.
fn draws_of(found: &CrossedFit) -> Option<usize> {
    found.correction.as_ref().filter(|c| c.trusted).map(|c| c.draws)
}

/// Draws of the effects that make the sd of an estimate of log L about a half, from its error at the maximum: fewer
/// cost more weight than they save time.
fn draws_per_value(found: &CrossedFit) -> Option<usize> {
    let found = found.correction.as_ref().filter(|c| c.sampled > 0)?;
    let variance = found.standard_error.powi(2) * (found.draws * found.sets) as f64;
    let wanted = (variance / VARIANCE).min(MOST as f64) as usize;
    Some(wanted.clamp(LEAST, MOST).next_multiple_of(4))
}

/// What is known of the likelihood: nothing is proved, but its value where factors are nested.
pub(crate) fn known(found: &CrossedFit) -> String {
    let Some(found) = &found.correction else {
        return "the likelihood is the Laplace approximation at the mode of all effects, as in lme4; its error is \
                not known"
                .into();
    };
    let Correction { value, standard_error, draws, sets, efficiency, sampled, .. } = found;
    if *sampled == 0 {
        return match found.proved {
            Some(error) => format!(
                "the log likelihood at the estimate is right to {} nats (proved, Theorem N1), its maximum is not \
                    proved",
                upward(error, 2)
            ),
            None => {
                "the likelihood is integrated by sums over the groups, without a bound of their error".into()
            }
        };
    }
    let tail = found.k_hat.map_or(String::new(), |k| format!(", Pareto k {k:.2}"));
    let by = format!(
        "{} of {draws} draws, at least {:.0} % of them effective{tail}",
        counted(*sets, "set"),
        100.0 * efficiency
    );
    match found.trusted {
        true => format!(
            "log likelihood by importance sampling: {} ± {} nats above the approximation with one factor \
                    integrated out ({by})",
            figure(*value),
            figure(*standard_error)
        ),
        false => format!(
            "the largest factor is integrated out and the rest by the Laplace approximation, whose error is not \
                    known: importance weights say nothing of it ({by})"
        ),
    }
}
impl CrossedMixed {
    /// The estimate with the effects of all groups.
    pub(super) fn estimated(
        &self,
        journal: &Journal,
        observer: &mut ScaleObserver<'_>,
    ) -> Result<(CrossedFit, SeveralEffects), Error> {
        let mut watch = watching(Stage::Estimate, 0, |at| self.scales_of(at), journal, observer);
        let found = self.named(fit(&self.model, self.method, &mut watch))?;
        let _ = self.draws.set(draws_of(&found));
        let _ = self.per_value.set(draws_per_value(&found));
        if self.per_value.get().is_some_and(Option::is_some) {
            let _ = self.mode.set(self.named(kept_mode(&self.model, &found.parameters))?);
        }
        let all = self.named(modes(&self.model, &found))?;
        let draw = |normals: &[f64]| deviations(&self.model, &found, normals);
        let drawn = self.terms.deviations(deviation_len(&self.model), STREAM, draw);
        let estimate = SeveralEffects {
            effects: self.terms.effects(&all),
            between: Vec::new(),
            deviations: self.named(drawn)?,
            evaluations: 0,
            thetas: self.terms.thetas(&found.terms),
            parameters: found.variance_parameters(),
            weight: self.weight,
            ball: None,
            unenclosed: None,
            estimated: true,
            highest: None,
            scales_known: false,
        };
        Ok((found, estimate))
    }

    /// Profile intervals of the sds of terms with one effect, if the model is small enough; none if the run is to end.
    pub(crate) fn profiles(
        &self,
        found: &CrossedFit,
        journal: &Journal,
        observer: &mut ScaleObserver<'_>,
    ) -> Vec<Profiled> {
        let mut out = vec![Profiled::NotTried; self.terms.unknown_scales.scales.len()];
        if self.model.rows() > PROFILED {
            return out;
        }
        let mut watch =
            watching(Stage::Profile, found.evaluations, |at| self.scales_of(at), journal, observer);
        let found = match profiles(&self.model, found, CUT, &mut watch) {
            Ok(found) => found,
            Err(CrossedError::Stopped) => return out,
            Err(error) => {
                out.fill(Profiled::NotFound(error.to_string()));
                return out;
            }
        };
        // several effects of a term have no profiles
        for (term, own) in self.terms.list.iter().zip(found).filter(|(term, _)| term.effects.len() == 1) {
            let scale = self.terms.unknown_scales.effects[term.effects[0]].scale;
            out[scale] = Profiled::of(own);
        }
        out
    }

    /// The scales of an estimate in the order of the model: of every group sds, then correlations.
    pub(crate) fn scales(&self, found: &CrossedFit) -> Vec<f64> {
        self.scales_of(&found.parameters)
    }

    /// The likelihood at stored coefficients and scales, as the estimate has it: with the correction of the run.
    pub(super) fn confirmed(&self, beta: &[f64], stored: &[f64]) -> Result<Confirmed, Error> {
        let draws = match self.draws.get() {
            Some(draws) => *draws,
            None => {
                let mut watch = |_: &[f64], _: f64| ControlFlow::Continue(());
                draws_of(&self.named(fit(&self.model, self.method, &mut watch))?)
            }
        };
        let method = match self.method {
            Method::Corrected(sampling) => {
                Method::Corrected(Sampling { draws: draws.or(Some(LEAST)), ..sampling })
            }
            Method::Laplace => Method::Laplace,
        };
        let at = self.named(likelihood_at(&self.model, &self.parameters(beta, stored), method))?;
        let log_likelihood = at.approximation + if draws.is_some() { at.correction } else { 0.0 };
        Ok(Confirmed { log_likelihood, value: -log_likelihood, error: f64::NAN, margins: [1.0; 2] })
    }
}
