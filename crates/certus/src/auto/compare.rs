//! After the descent: q compared with the target by importance weights and by searches for other modes, so that its
//! numbers get a verdict.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::log_concave::{Contradiction, certify};
use super::modes::{ModeSearch, Modes};
use super::verdict::{ACCURATE, Comparison, Verdict};
use super::violation::contradicted;
use super::{Ending, Run};
use crate::certificate::counted;
use crate::diagnostics::{Importance, WeightedDraws, importance};
use crate::error::{Error, Stopped};
use crate::fit::Status;
use crate::moving::{Convexity, Measured};
use crate::random::Purpose;
use crate::target::{Gated, Target};

/// Draws that are weighted: at first, and where that leaves the verdict open.
const DRAWS: [usize; 2] = [8000, 32_000];
/// Fewer draws are not worth a pass: those of the last look are taken.
const FEWEST: usize = 1000;
/// What a run with a given limit of gradients keeps for the comparison: this part of them, and at most so many.
const RESERVE: (u64, u64) = (4, 20_000);
/// A run that was told to stop, or whose time is over, may take this long.
const PATIENCE: Duration = Duration::from_millis(600);
/// Points that are kept with their weights.
const KEPT: usize = 20_000;
/// Numbers that points may take.
const NUMBERS: usize = 1 << 25;

/// The gradients of a descent, of all that may be spent.
pub(super) fn for_the_descent(most: u64) -> u64 {
    most - (most / RESERVE.0).min(RESERVE.1)
}

/// Why something is missing.
const NO_TIME: &str = "there was no time for it";

/// True for a refusal, our own or the caller's, which is no error of the target's.
fn is_stop(error: &Error) -> bool {
    matches!(error, Error::Target(inner) if inner.is::<Stopped>())
}

impl Run<'_, '_> {
    /// Finds the verdict; the ending may become that of an error of the target, or of a contradicted declaration.
    pub(super) fn compare(&mut self, ending: Result<Ending, Error>) -> Result<Ending, Error> {
        let stopped = || (Status::Limit, format!("stopped after {}", counted(self.iteration, "step")));
        let (refused, ending) = match ending {
            Err(error) if is_stop(&error) => (true, Ok(stopped())),
            other => (false, other),
        };
        let (status, message) = match &ending {
            Ok((status, message)) => (status.clone(), message.clone()),
            Err(error) => {
                self.comparison = Some(Comparison::failed(error.to_string()));
                return ending;
            }
        };
        let Some(measured) = self.measured.take() else {
            self.comparison = Some(match status {
                Status::Limit | Status::Interrupted => Comparison::missing(&message, self.convexity.clone()),
                _ => Comparison::failed(message),
            });
            return ending;
        };
        let hurry = refused
            || status == Status::Interrupted
            || self.goal.max_time.is_some_and(|t| self.clock.elapsed() >= t);
        let compared = self.compared(&measured, hurry);
        self.measured = Some(measured);
        match compared {
            Ok(comparison) => {
                let found = std::mem::replace(&mut self.convexity, comparison.convexity.clone());
                self.comparison = Some(comparison);
                match &self.convexity {
                    Convexity::Violated(violation) if self.declares_convexity() && !found.is_violated() => {
                        Ok((Status::AssumptionViolated, contradicted(violation)))
                    }
                    _ => ending,
                }
            }
            Err(error) if is_stop(&error) => {
                self.comparison = Some(Comparison::missing(NO_TIME, self.convexity.clone()));
                ending
            }
            Err(error @ Error::Target(_)) => {
                self.comparison = Some(Comparison::missing("the target failed", self.convexity.clone()));
                Err(error)
            }
            Err(error) => {
                self.comparison = Some(Comparison::missing(&error.to_string(), self.convexity.clone()));
                ending
            }
        }
    }

    fn compared(&self, measured: &Measured, hurry: bool) -> Result<Comparison, Error> {
        let (begun, clock, limit) = (Instant::now(), self.clock, self.goal.max_time);
        let proceed = move || match limit {
            _ if hurry => begun.elapsed() < PATIENCE,
            Some(limit) => clock.elapsed() < limit + PATIENCE,
            None => true,
        };
        let admit = move |_| if proceed() { Ok(()) } else { Err(Stopped.into()) };
        let target = Gated::new(&self.target, &admit);
        let (w, mut convexity) = (&self.gaussian, self.convexity.clone());
        if hurry {
            let found = self.of_look(measured)?;
            let points = self.points(measured, &found, false)?;
            let comparison = Comparison::new(w, found, Modes::default(), convexity);
            let not_certified = self.target.log_concave().then(|| NO_TIME.into());
            return Ok(Comparison { points: Some(points), not_certified, ..comparison });
        }
        let (mut found, mut fresh) = self.weighed(&target, measured, DRAWS[0])?;
        let modes = self.modes(&target, &found)?;
        if let Some(violation) = modes.violation.clone().filter(|_| !convexity.is_violated()) {
            convexity = Convexity::Violated(Box::new(violation));
        }
        let mut comparison = Comparison::new(w, found.clone(), modes.clone(), convexity.clone());
        let accuracy = self.goal.accuracy.unwrap_or(ACCURATE);
        if comparison.is_open(w, accuracy) && self.left() > 2 * DRAWS[1] as u64 {
            (found, fresh) = self.weighed(&target, measured, DRAWS[1])?;
            comparison = Comparison::new(w, found.clone(), modes, convexity.clone());
        }
        if comparison.verdict.is_usable() {
            comparison.points = Some(self.points(measured, &found, fresh)?);
        }
        if !convexity.is_violated() && self.target.log_concave() {
            let certified = certify(&target, w, self.goal, found.log_evidence.value, self.left(), self.here);
            match certified {
                Ok(Ok(certified)) => comparison.certified = Some(certified),
                Ok(Err(why)) => comparison.not_certified = Some(why),
                Err(Contradiction::Error(error)) if is_stop(&error) => {
                    comparison.not_certified = Some(NO_TIME.into());
                }
                Err(Contradiction::Error(error)) => return Err(error),
                Err(Contradiction::Violated(violation)) => {
                    comparison.convexity = Convexity::Violated(Box::new(violation));
                }
            }
        }
        Ok(comparison)
    }

    /// True if the user declares −log p convex, by constants or by name.
    pub(super) fn declares_convexity(&self) -> bool {
        self.target.log_concave() || self.target.curvature().is_some_and(|c| c.vouched().is_some())
    }

    /// Gradients that may still be spent.
    fn left(&self) -> u64 {
        self.goal.max_gradients.map_or(u64::MAX, |most| most.saturating_sub(self.target.evaluations()))
    }

    /// Importance weights of fresh draws (true), or of those of the last look where there is no room for others.
    fn weighed(
        &self,
        target: &dyn Target,
        measured: &Measured,
        draws: usize,
    ) -> Result<(Importance, bool), Error> {
        let room = usize::try_from(self.left()).unwrap_or(usize::MAX).min(draws);
        if room < FEWEST || room < measured.log_weights.len() / 2 {
            return Ok((self.of_look(measured)?, false));
        }
        let found = importance::importance(target, &self.gaussian, room, self.goal.seed)?;
        Ok((found.allowing_for_the_tail(), true))
    }

    /// The weights of the last look.
    fn of_look(&self, measured: &Measured) -> Result<Importance, Error> {
        let count = (NUMBERS / self.gaussian.dim()).min(measured.log_weights.len());
        let latents = measured.latents(&self.gaussian, &self.random(Purpose::Estimate), count);
        let found = importance::of_points(&self.gaussian, latents, &measured.log_weights[..count])?;
        Ok(found.allowing_for_the_tail())
    }

    /// Draws with the weights that were found, as many as are kept.
    fn points(&self, measured: &Measured, found: &Importance, fresh: bool) -> Result<WeightedDraws, Error> {
        let (w, dim) = (&self.gaussian, self.gaussian.dim());
        let count = found.log_weights.len().min(KEPT).min(NUMBERS / dim);
        let latents = match fresh {
            true => importance::latents(w, count, self.goal.seed)?,
            false => measured.latents(w, &self.random(Purpose::Estimate), count),
        };
        WeightedDraws::new(dim, latents, &found.log_weights[..count])
    }

    /// Searches for other modes, unless the gradients do not suffice.
    fn modes(&self, target: &dyn Target, found: &Importance) -> Result<Modes, Error> {
        let limit =
            self.target.evaluations() + (self.left() / 2).min(20_000 + 200 * self.gaussian.dim() as u64);
        let over = Cell::new(false);
        let proceed = || {
            over.set(over.get() || self.target.evaluations() >= limit);
            !over.get()
        };
        let starts: Vec<Vec<f64>> = self.goal.start.iter().chain(&self.goal.more_starts).cloned().collect();
        let search = ModeSearch {
            target,
            q: &self.gaussian,
            random: self.random(Purpose::Estimate),
            log_evidence: found.log_evidence.value,
            given: &starts,
            proceed: &proceed,
        };
        search.run()
    }

    /// How the run ends, all in all: by the verdict, except where something ended it before, and by the gap where one
    /// is stated.
    pub(super) fn judged(&self, status: Status, gap: Option<f64>) -> Status {
        let Some(comparison) = &self.comparison else { return status };
        match status {
            Status::Reached | Status::Limit | Status::NoProgress if comparison.verdict != Verdict::Failed => {
                let accuracy = self.goal.accuracy.unwrap_or(ACCURATE);
                let enough = comparison.verdict.is_usable()
                    && comparison.best_error(&self.gaussian) <= accuracy
                    && gap.is_none_or(|gap| gap <= self.goal.gap);
                if enough { Status::Reached } else { Status::Limit }
            }
            other => other,
        }
    }
}
