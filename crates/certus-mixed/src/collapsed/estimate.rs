//! The sd that maximises the collapsed likelihood, profiled over β, and an interval that is proved to hold a maximum
//! (Theorem K3).
//!
//! With F_p(θ) = min_β F(β, θ), continuous in θ: if F_p is larger at both ends of an interval than somewhere inside, it
//! has a minimum in it. At the ends a lower bound of F_p is needed: F is convex in β, so what is left to gain from β̂
//! is bounded by its gradient there.

use std::ops::ControlFlow;

use certus::linalg;

use super::exclude::Excluded;
use super::group::EPSILON;
use super::profile::{Profile, Ridge, factor};
use super::search::Maximum;
use super::{Collapsed, ObjectiveValue};
use crate::ends::{self, End, Height, end};
use crate::evaluations::{Evaluations, ScaleObserver, Stage};
use crate::journal::Journal;
use certus_models::Error;
use certus_models::error::NotFinite;

/// What is left to gain from the coefficients at one sd of a profile interval.
const PROFILED: f64 = 1e-6;
/// How close −2 log L must be to the cut at its ends, as a part of 1 + the cut.
const PROFILE_CLOSE: f64 = 1e-5;
/// Where the search for the upper end begins if the estimate is 0, as SMALLEST.
const PROFILE_START: f64 = 0.1;

/// The maximum of the likelihood over β and the group sd.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// Coefficients.
    pub beta: Vec<f64>,
    /// The sd; 0 if the likelihood falls with it from the beginning.
    pub sd: f64,
    /// F there, with derivatives; those of θ are zero if the sd is 0.
    pub at: ObjectiveValue,
    /// Where a maximum lies.
    pub interval: Interval,
    /// Every maximum that was found, the highest, which is this one, first.
    pub maxima: Vec<Maximum>,
    /// Where the highest maximum can be.
    pub excluded: Excluded,
    /// Lower factor of the covariance of β that the curvature of F in (β, θ) says: what is not known of the sd is in
    /// it.
    pub factor: Vec<f64>,
    /// Standard error of log sd from the curvature of the profile.
    pub log_sd_error: f64,
    /// Evaluations of F.
    pub evaluations: usize,
}

/// An interval of sds.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// Its ends.
    pub sds: [f64; 2],
    /// True if a maximum in it is proved; else why not.
    pub proved: Result<(), String>,
}

/// Why nothing is said of an sd at which the search ended because sums over groups would need too many nodes.
pub const UNKNOWN: &str = "the likelihood is not known at this sd, for which its sums over groups would need too many \
    nodes; where groups are separated it may rise with the sd without end";

impl Collapsed {
    /// The maximum over β and the sd, with its certificate. `start` are coefficients to begin with.
    pub fn estimate(&self, start: &[f64]) -> Result<Estimate, Error> {
        self.estimate_observed(start, &mut Journal::default(), &mut |_, _| ControlFlow::Continue(()))
    }

    /// The same, from the journal of a run that was stopped or an empty one; [`Error::Stopped`] if the observer ends
    /// it.
    pub fn estimate_observed(
        &self,
        start: &[f64],
        journal: &mut Journal,
        observer: &mut ScaleObserver<'_>,
    ) -> Result<Estimate, Error> {
        let evaluations = &mut Evaluations::new(Stage::Estimate, journal, observer);
        let d = self.dim;
        let mut found = self.maxima(start, EPSILON, evaluations)?;
        let maxima: Vec<Maximum> = found.iter().map(Maximum::of).collect();
        evaluations.stage = Stage::Interval;
        let (theta, here) = found.swap_remove(0);
        if theta == f64::NEG_INFINITY {
            return self.at_zero(here, maxima, evaluations);
        }
        let ridge = here.ridge(d)?;
        let interval = self.interval(&here, theta, &ridge, evaluations)?;
        let excluded = self.excluded(&here.beta, theta, here.at.value + here.at.error, evaluations)?;
        Ok(Estimate {
            factor: ridge.joint(d)?,
            beta: here.beta,
            sd: theta.exp(),
            at: here.at,
            interval,
            maxima,
            excluded,
            log_sd_error: if ridge.curvature > 0.0 { 1.0 / ridge.curvature.sqrt() } else { f64::INFINITY },
            evaluations: evaluations.count(),
        })
    }

    /// True if the error of the likelihood is bounded, except at sds for which its sums would need too many nodes.
    pub fn bounds_errors(&self) -> bool {
        self.likelihood.strip_is_proved()
    }

    /// An error where sums over groups would need too many nodes, so that nothing is known of the likelihood.
    fn known(&self, error: f64, sd: f64) -> Result<(), Error> {
        if error.is_finite() || !self.bounds_errors() {
            return Ok(());
        }
        let what = "the bound on the error of the likelihood";
        Err(NotFinite::Value { what, value: error, place: format!("the sd {sd:.4}") }.into())
    }

    /// Where the profile, −2 log L − 2 log prior at the best coefficients, is at most `cut` above the minimum (the χ²₁
    /// quantile of the level: 3.841 for 95 %); nothing if an end was not found, an error if the likelihood is not known
    /// where it would have to be. From the journal and for the observer like the estimate.
    pub fn profile_interval(
        &self,
        found: &Estimate,
        cut: f64,
        journal: &mut Journal,
        observer: &mut ScaleObserver<'_>,
    ) -> Result<Option<ends::Interval>, Error> {
        let evaluations = &mut Evaluations::new(Stage::Profile, journal, observer);
        self.known(found.at.error, found.sd)?;
        let zero = found.sd == 0.0;
        let start = if zero { (PROFILE_START * self.unit()).ln() } else { found.sd.ln() };
        let step =
            if zero || !found.log_sd_error.is_finite() { 0.5 } else { found.log_sd_error * cut.sqrt() };
        let mut beta = found.beta.clone();
        let mut height = |theta: f64| {
            let there = self.profile(&beta, theta, PROFILED, evaluations)?;
            self.known(there.at.error, theta.exp())?;
            beta = there.beta;
            let above = 2.0 * (there.at.value - found.at.value);
            Ok::<_, Error>(Height { above, slope: 2.0 * there.at.gradient[self.dim] })
        };
        let limit = self.smallest();
        let up = End { start, step: step.min(1.0), limit: f64::INFINITY, cut, close: PROFILE_CLOSE };
        let low = if zero || height(limit)?.above <= cut {
            Some(f64::NEG_INFINITY)
        } else {
            end(End { step: -up.step, limit, ..up }, &mut height)?
        };
        let high = end(up, &mut height)?;
        Ok(low.zip(high).map(|(low, high)| ends::Interval { low: low.exp(), high: high.exp() }))
    }

    /// Both ends of the interval, wider and wider until the proof holds.
    fn interval(
        &self,
        here: &Profile,
        theta: f64,
        ridge: &Ridge,
        evaluations: &mut Evaluations<'_>,
    ) -> Result<Interval, Error> {
        let none = |sds: [f64; 2], why: String| Ok(Interval { sds, proved: Err(why) });
        if !here.at.error.is_finite() {
            let why = if self.bounds_errors() {
                UNKNOWN
            } else {
                "the error of the quadrature is not proved for this likelihood"
            };
            return none([theta.exp(); 2], why.into());
        }
        let top = here.at.value + here.at.error;
        let mut ends = [theta; 2];
        for (end, sign) in ends.iter_mut().zip([-1.0, 1.0]) {
            let mut width = (8.0 * here.at.error / ridge.curvature.max(1e-3)).sqrt().max(1e-6);
            loop {
                let start: Vec<f64> =
                    here.beta.iter().zip(&ridge.turned).map(|(b, t)| b - sign * width * t).collect();
                *end = theta + sign * width;
                let low = self.at_least(&start, *end, &ridge.factor, top, evaluations)?;
                if low > top {
                    break;
                }
                if low == f64::NEG_INFINITY {
                    return none(
                        ends.map(f64::exp),
                        "the errors of the gradient are too large to bound what is left to gain; a prior on every \
                            coefficient would".into(),
                    );
                }
                width *= 2.0;
                if width > 4.0 {
                    return none(
                        ends.map(f64::exp),
                        "the likelihood is too flat in the sd for a proof".into(),
                    );
                }
            }
        }
        Ok(Interval { sds: ends.map(f64::exp), proved: Ok(()) })
    }

    /// The likelihood falls with the sd from the beginning: a maximum at 0.
    fn at_zero(
        &self,
        zero: Profile,
        maxima: Vec<Maximum>,
        evaluations: &mut Evaluations<'_>,
    ) -> Result<Estimate, Error> {
        let (d, theta) = (self.dim, self.smallest());
        let metric = factor(&zero.at.hessian, d)?;
        let top = zero.at.value + zero.at.error;
        let mut interval = Interval {
            sds: [0.0, theta.exp()],
            proved: Err("the likelihood is too flat in the sd for a proof".into()),
        };
        let mut at = theta;
        while at < theta + 12.0 {
            interval.sds[1] = at.exp();
            if self.at_least(&zero.beta, at, &metric, top, evaluations)? > top {
                interval.proved = Ok(());
                break;
            }
            at += 0.25;
        }
        let excluded = self.excluded(&zero.beta, f64::NEG_INFINITY, top, evaluations)?;
        let mut found = zero.at;
        found.gradient[d] = 0.0;
        Ok(Estimate {
            factor: linalg::lower_of_inverse(&metric, d),
            beta: zero.beta,
            sd: 0.0,
            at: found,
            interval,
            maxima,
            excluded,
            log_sd_error: f64::INFINITY,
            evaluations: evaluations.count(),
        })
    }
}
