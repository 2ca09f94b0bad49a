//! What is said at the end: levels, witnesses, the estimated gap and divergence.

use std::sync::Arc;

use super::descent::AutoState;
use super::slope::short;
use super::{Counts, Ending, Outcome, Run};
use crate::certificate::{Certificate, Checks, Gap, Posterior, Spending, Statement, family_name};
use crate::diagnostics::{Estimate, importance, psis};
use crate::error::Error;
use crate::fit::Status;
use crate::moving::bends_down;
use crate::random::Purpose;
use crate::target::{Curvature, Guarded, Target};

/// What the estimate rests on.
const RESTS_ON: &str = "−log p is convex and bends around q about as a Gaussian's does";

/// The message of a run whose estimate reached the goal, of a target that declares no constants.
pub fn reached(gap: Estimate) -> String {
    format!(
        "the estimated gap is {:.2e} ± {:.1e} nats; nothing is proved, because the target declares no constants",
        gap.value.max(0.0),
        gap.standard_error
    )
}

/// What fresh draws say of the gap, as a statement.
pub fn estimated_gap(family: String, gap: Estimate, draws: f64) -> Gap {
    let statement = Statement::estimated("part J", gap.upper(), RESTS_ON)
        .with("estimate", gap.value)
        .with("standard error", gap.standard_error)
        .with("draws", draws);
    Gap { statement, ..Gap::none(family, "") }
}

impl Run<'_, '_> {
    /// The estimate has reached the goal: is there anything against saying so? `None`: go on.
    pub(super) fn verdict(&mut self, descent: &mut AutoState) -> Result<Option<Ending>, Error> {
        let Some(measured) = &self.measured else { return Ok(None) };
        let estimate = measured.gap;
        let witness = match measured.witness.clone() {
            Some(witness) => Some(witness),
            None => {
                let looks = self.random(Purpose::Estimate);
                bends_down(&self.target, &self.gaussian, &looks, descent.next_look())?
            }
        };
        if let Some(w) = witness {
            return Ok(Some((
                Status::AssumptionViolated,
                format!(
                    "the estimated gap to the best Gaussian nearby is {:.2e} ± {:.1e}, but −log p is not convex: by its gradients the \
                     curvature between {} and {} is {:.3e}, so a better Gaussian may be elsewhere",
                    estimate.value,
                    estimate.standard_error,
                    short(&w.points[0]),
                    short(&w.points[1]),
                    w.along
                ),
            )));
        }
        let curvature = self.target.curvature().filter(|c| c.strong_convexity() > 0.0);
        if let Some(declared) = curvature.filter(|c| c.vouched().is_some()) {
            return self.certify(descent, declared);
        }
        Ok(Some((Status::Reached, reached(estimate))))
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
            Some(bound) if bound <= self.goal.gap => Some((
                Status::Reached,
                format!("the gap is at most {bound:.2e} nats with probability {}", 1.0 - self.goal.delta),
            )),
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
            Err(e) => (Status::from(&e), format!("after {} steps: {e}", self.iteration), Some(Arc::new(e))),
        };
        let family = family_name(self.gaussian.factor());
        let unknown = Estimate { value: f64::NAN, standard_error: f64::INFINITY };
        let (mut gap, mut posterior) =
            (Gap::none(family.clone(), "nothing was measured"), Posterior::none("nothing was measured"));
        let (mut neg_elbo, mut k_hat) = (unknown, None);
        if let Some(m) = &self.measured {
            neg_elbo = m.neg_elbo;
            k_hat = psis::k_hat(&m.log_weights);
            gap = estimated_gap(family.clone(), m.gap, m.log_weights.len() as f64);
            posterior = importance::divergence(&m.log_weights);
        }
        if status == Status::AssumptionViolated {
            gap = Gap::none(family, "an assumption is violated: see the message");
        } else if let Some(certified) = self.certified.filter(|c| c.statement.bound().is_some()) {
            gap = certified;
        }
        Outcome {
            status,
            message,
            route: self.route,
            gaussian: self.gaussian,
            neg_elbo,
            certificate: Certificate { gap, posterior },
            k_hat,
            counts: Counts { gradients: self.target.evaluations(), ..Counts::default() },
            trace: self.trace,
            error,
            elapsed: self.clock.elapsed(),
        }
    }
}
