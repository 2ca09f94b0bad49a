//! What is said at the end: levels, witnesses, the estimated gap and divergence.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::descent::AutoState;
use super::verdict::Comparison;
use super::violation::{contradicted, in_words};
use super::{Counts, Ending, Outcome, Run};
use crate::certificate::words::{counted, estimate};
use crate::certificate::{Certificate, Checks, Gap, Level, Posterior, Spending, Statement, family_name};
use crate::diagnostics::{Estimate, importance, psis};
use crate::error::Error;
use crate::fit::Status;
use crate::moving::{Convexity, Measured, concave_direction, convexity};
use crate::random::Purpose;
use crate::target::{Curvature, Guarded, Target};

/// A run that was told to stop may look for violations of convexity this long.
const PATIENCE: Duration = Duration::from_millis(1500);
/// The draws of the search at the end of a run that did not reach its goal.
const LAST_SEARCH: u64 = 1 << 41;

/// What is said beside an estimated gap of a target that declares no constants.
const UNDECLARED: &str = "nothing is proved, because the target declares no constants";

/// The message of a run that reached its goal with this gap.
pub fn reached(gap: &Gap) -> String {
    let known = gap.facts().message();
    if gap.statement.level() == Level::Estimated { format!("{known}; {UNDECLARED}") } else { known }
}

/// What fresh draws say of the gap where no violation of log-concavity was found, as a statement.
pub fn estimated_gap(family: String, gap: Estimate, draws: f64, declared: bool) -> Gap {
    let known = if declared { "declared" } else { "no violation was found" };
    let rests_on = format!("the posterior is log-concave ({known}) and nearly Gaussian around q");
    let statement = Statement::estimated("part J", gap.upper(), &rests_on);
    measured(Gap { statement, ..Gap::none(family, "") }, gap, draws)
}

/// With the numbers of the estimate, whether it is stated or not.
fn measured(mut gap: Gap, estimate: Estimate, draws: f64) -> Gap {
    gap.statement = gap
        .statement
        .with("estimate", estimate.value)
        .with("standard error", estimate.standard_error)
        .with("draws", draws);
    gap
}

impl Run<'_, '_> {
    /// The estimate has reached the goal: is there anything against saying so? `None`: go on.
    pub(super) fn at_goal(&mut self, descent: &mut AutoState) -> Result<Option<Ending>, Error> {
        let Some(measured) = &self.measured else { return Ok(None) };
        let witness = match measured.witness.clone() {
            Some(witness) => Some(witness),
            None => {
                let looks = self.random(Purpose::Estimate);
                concave_direction(&self.target, &self.gaussian, &looks, descent.next_look())?
            }
        };
        if let Some(witness) = witness {
            // the descent has arrived; that no gap is stated is said later
            self.convexity = Convexity::by_gradients(witness);
            return Ok(Some((Status::Reached, String::new())));
        }
        self.convexity = Convexity::NoViolation;
        let curvature = self.target.curvature().filter(|c| c.strong_convexity() > 0.0);
        if let Some(declared) = curvature.filter(|c| c.vouched().is_some()) {
            return self.certify(descent, declared);
        }
        Ok(Some((Status::Reached, String::new())))
    }

    /// However the run ended: is −log p convex around the Gaussian that is returned, as the estimate of its gap
    /// assumes? Where it is not, although the user has declared it, that is how the run ends.
    pub(super) fn check_convexity(&mut self, ending: Result<Ending, Error>) -> Result<Ending, Error> {
        self.look_for_violations(&ending);
        match &self.convexity {
            Convexity::Violated(violation) if ending.is_ok() && self.declares_convexity() => {
                Ok((Status::AssumptionViolated, contradicted(violation)))
            }
            _ => ending,
        }
    }

    /// A run that was told to stop has little time for the answer; one whose target failed is not asked again.
    fn look_for_violations(&mut self, ending: &Result<Ending, Error>) {
        let Some(measured) = self.measured.as_ref().filter(|_| self.convexity == Convexity::NotChecked)
        else {
            return;
        };
        if let Some(witness) = measured.witness.clone() {
            self.convexity = Convexity::by_gradients(witness);
            return;
        }
        let hurry = match ending {
            Err(Error::Target(_)) => return,
            Ok((status, _)) => *status == Status::Interrupted || self.goal.max_time.is_some(),
            Err(_) => false,
        };
        let begun = Instant::now();
        let proceed = || !hurry || begun.elapsed() < PATIENCE;
        let random = self.random(Purpose::Estimate);
        let found = convexity(&self.target, &self.gaussian, &random, LAST_SEARCH, &proceed);
        self.convexity = found.unwrap_or_default();
    }

    /// The gap by estimate, if the search for violations of its assumption was made and found none. Where it found one
    /// the distance to the best Gaussian nearby is named if the goal was reached by that, and not called the gap.
    fn gap_by_estimate(&self, seen: &Measured, status: &Status) -> Gap {
        let (family, draws) = (family_name(self.gaussian.factor()), seen.log_weights.len() as f64);
        let reason = match &self.convexity {
            Convexity::NoViolation => {
                let declared = self.comparison.as_ref().is_some_and(Comparison::is_declared);
                return estimated_gap(family, seen.gap, draws, declared);
            }
            Convexity::Violated(_) if *status == Status::Reached => {
                format!("{NOT_CONCAVE}; {}", nearby(seen.gap))
            }
            Convexity::Violated(_) => NOT_CONCAVE.into(),
            Convexity::NotChecked => {
                "whether the posterior is log-concave around q was not checked before the run ended".into()
            }
        };
        measured(Gap::none(family, reason), seen.gap, draws)
    }

    /// With declared μ and M a bound that holds with probability 1 − δ is what counts; each try gets more draws.
    fn certify(&mut self, descent: &mut AutoState, declared: Curvature) -> Result<Option<Ending>, Error> {
        let draws = (self.target.evaluations() as usize).clamp(4096, 1 << 22);
        let mut checks = Checks::new(Spending::anytime(self.goal.delta), draws, self.goal.seed)?
            .for_model(self.goal.model_key)
            .after(descent.checks);
        let guarded = Guarded::new(&self.target, declared);
        let gap = checks.certify(&guarded, &self.gaussian)?;
        descent.checks = checks.done();
        let ending = match gap.statement.bound() {
            Some(bound) if bound <= self.goal.gap => Some((Status::Reached, String::new())),
            None if guarded.witness().is_some() => {
                Some((Status::AssumptionViolated, gap.statement.reason().unwrap_or("").to_string()))
            }
            _ => None,
        };
        self.certified = Some(gap);
        Ok(ending)
    }

    /// The result, whatever the ending was.
    pub(super) fn outcome(self, ending: Result<Ending, Error>) -> Outcome {
        let (status, message, error) = match ending {
            Ok((status, message)) => (status, message, None),
            Err(e) => (
                Status::from(&e),
                format!("after {}: {e}", counted(self.iteration, "step")),
                Some(Arc::new(e)),
            ),
        };
        let unknown = Estimate { value: f64::NAN, standard_error: f64::INFINITY };
        let family = family_name(self.gaussian.factor());
        let (mut gap, mut posterior) =
            (Gap::none(family.clone(), "not measured"), Posterior::none("not measured"));
        let (mut neg_elbo, mut k_hat) = (unknown, None);
        if let Some(m) = &self.measured {
            neg_elbo = m.neg_elbo;
            k_hat = psis::k_hat(&m.log_weights);
            gap = self.gap_by_estimate(m, &status);
            posterior = importance::divergence(&m.log_weights);
        }
        if let Some(found) = self.comparison.as_ref().and_then(|c| c.importance.as_ref()) {
            (neg_elbo, k_hat) = (found.neg_elbo, found.tail_index);
        }
        if let Some(compared) = self.comparison.as_ref().and_then(Comparison::posterior) {
            posterior = compared;
        }
        let contradicted = status == Status::AssumptionViolated;
        if contradicted && !self.convexity.is_violated() {
            gap = Gap::none(family, "an assumption is violated: see the message");
        } else if let Some(certified) = self.certified.as_ref().filter(|c| c.statement.bound().is_some()) {
            gap = certified.clone();
        }
        let known = match &self.convexity {
            Convexity::Violated(violation) => format!("{NOT_CONCAVE} ({})", in_words(violation)),
            _ if status == Status::Reached => reached(&gap),
            _ => gap.facts().message(),
        };
        let judged = self.judged(status.clone(), gap.statement.bound());
        let verdict = self.comparison.as_ref().map(Comparison::sentence);
        let message = match status {
            // it says why already, or the error is all there is to say
            Status::AssumptionViolated | Status::UserError | Status::NonFinite => message,
            _ if self.measured.is_none() && status != Status::Limit => message,
            Status::Reached => joined([verdict, Some(known)]),
            _ => joined([verdict, Some(message), Some(known)]),
        };
        let status = judged;
        Outcome {
            status,
            message,
            route: self.route,
            gaussian: self.gaussian,
            neg_elbo,
            certificate: Certificate { gap, posterior },
            k_hat,
            comparison: self.comparison,
            counts: Counts { gradients: self.target.evaluations(), ..Counts::default() },
            trace: self.trace,
            error,
            elapsed: self.clock.elapsed(),
        }
    }
}

fn joined<const N: usize>(parts: [Option<String>; N]) -> String {
    parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

/// Why no gap is stated where a violation was found.
const NOT_CONCAVE: &str = "not log-concave: no gap is claimed";

/// What is left of the estimate where the posterior is not log-concave.
fn nearby(gap: Estimate) -> String {
    format!(
        "the best Gaussian nearby is about {} nats better (estimated), and a better one may lie elsewhere",
        estimate(gap.value, gap.standard_error)
    )
}
