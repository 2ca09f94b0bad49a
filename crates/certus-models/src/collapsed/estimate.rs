//! The sd that maximises the collapsed likelihood, profiled over β, and an interval that is proved to hold a maximum (Theorem K3).
//!
//! With F_p(θ) = min_β F(β, θ), continuous in θ: if F_p is larger at both ends of an interval than somewhere inside, it has a minimum in it. At the
//! ends a lower bound of F_p is needed: F is convex in β, so what is left to gain from β̂ is bounded by its gradient there.

use std::ops::ControlFlow;

use certus::linalg;

use super::exclude::Excluded;
use super::group::EPSILON;
use super::passes::{Observer, Passes, Stage};
use super::search::Maximum;
use super::{Ask, At, Collapsed};
use crate::error::Error;
use crate::prior::Precision;

/// Steps of a Newton iteration, at most.
pub(super) const STEPS: usize = 60;
/// An sd this small, per unit of the effect's column and in units of the likelihood, is 0.
pub(super) const SMALLEST: f64 = 1e-4;
/// The error of a group's integral that will do far from the maximum.
pub(super) const ROUGH: f64 = 1e-4;
/// What is left to gain, as a part of F, when it will do no more.
pub(super) const CLOSE: f64 = 1e-5;

/// The maximum of the likelihood over β and the group sd.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// Coefficients.
    pub beta: Vec<f64>,
    /// The sd; 0 if the likelihood falls with it from the beginning.
    pub sd: f64,
    /// F there, with derivatives; those of θ are zero if the sd is 0.
    pub at: At,
    /// Where a maximum lies.
    pub interval: Interval,
    /// Every maximum that was found, the highest, which is this one, first.
    pub maxima: Vec<Maximum>,
    /// Where the highest maximum can be.
    pub excluded: Excluded,
    /// Lower factor of the covariance of β that the curvature of F in (β, θ) says: what is not known of the sd is in it.
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

/// β̂ at one sd.
pub(super) struct Profile {
    pub(super) beta: Vec<f64>,
    pub(super) at: At,
}

/// How β̂ follows θ, and the profile bends: dβ̂/dθ = −H⁻¹c, F_p″ = F_θθ − cᵀH⁻¹c, with H = LLᵀ the block of β and c that of β and θ.
pub(super) struct Ridge {
    pub(super) factor: Vec<f64>,
    pub(super) cross: Vec<f64>,
    pub(super) turned: Vec<f64>,
    pub(super) bend: f64,
}

impl Profile {
    pub(super) fn ridge(&self, d: usize) -> Result<Ridge, Error> {
        let factor = factor(&self.at.hessian, d)?;
        let cross: Vec<f64> = (0..d).map(|j| self.at.hessian[j * (d + 1) + d]).collect();
        let turned = solve(&factor, d, cross.clone());
        let bend = self.at.hessian[d * (d + 1) + d] - linalg::dot(&cross, &turned);
        Ok(Ridge { factor, cross, turned, bend })
    }
}

impl Ridge {
    /// Lower factor of the block of β of the inverse of the whole Hessian: H⁻¹ + H⁻¹c cᵀH⁻¹/F_p″, H⁻¹ alone if the profile does not bend up.
    fn joint(&self, d: usize) -> Result<Vec<f64>, Error> {
        let lower = linalg::lower_of_inverse(&self.factor, d);
        if self.bend.is_nan() || self.bend <= 0.0 {
            return Ok(lower);
        }
        let mut sum = vec![0.0; d * d];
        for (j, k) in (0..d).flat_map(|j| (0..d).map(move |k| (j, k))) {
            let own: f64 = (0..=j.min(k)).map(|m| lower[m * d + j] * lower[m * d + k]).sum();
            sum[k * d + j] = own + self.turned[j] * self.turned[k] / self.bend;
        }
        if linalg::cholesky(&mut sum, d) {
            return Ok(sum);
        }
        Err(Error::NotFinite("the covariance of the coefficients is not positive definite".into()))
    }
}

/// H = LLᵀ of the block of β, the first d rows and columns.
pub(super) fn factor(hessian: &[f64], d: usize) -> Result<Vec<f64>, Error> {
    let n = hessian.len().isqrt();
    let mut l: Vec<f64> = (0..d * d).map(|k| hessian[(k / d) * n + k % d]).collect();
    if linalg::cholesky(&mut l, d) {
        return Ok(l);
    }
    let reason = "the Hessian of the collapsed likelihood is singular: give every coefficient a proper prior, or leave out columns that repeat others";
    Err(Error::NotIdentified { reason: reason.into(), direction: Vec::new() })
}

/// Differences of F that are rounding.
pub(super) fn flat(value: f64) -> f64 {
    1e-12 * (1.0 + value.abs())
}

/// H⁻¹x.
pub(super) fn solve(l: &[f64], d: usize, mut x: Vec<f64>) -> Vec<f64> {
    linalg::solve_lower(l, d, false, &mut x);
    linalg::solve_lower(l, d, true, &mut x);
    x
}

impl Collapsed {
    /// min_β F(β, θ) from a start, by Newton's method with halved steps. With what is left to gain below `nats` the last step is taken without looking.
    pub(super) fn profile(
        &self,
        start: &[f64],
        log_sd: f64,
        nats: f64,
        passes: &mut Passes<'_>,
    ) -> Result<Profile, Error> {
        self.profile_by(start, log_sd, nats, Ask::default(), passes)
    }

    /// The same with another error of the integrals to aim at.
    pub(super) fn profile_by(
        &self,
        start: &[f64],
        log_sd: f64,
        nats: f64,
        ask: Ask<'_>,
        passes: &mut Passes<'_>,
    ) -> Result<Profile, Error> {
        let d = self.dim;
        let mut beta = start.to_vec();
        let mut at = passes.at(self, &beta, log_sd, ask)?;
        for _ in 0..STEPS {
            let l = factor(&at.hessian, d)?;
            let step = solve(&l, d, at.gradient[..d].to_vec());
            let promised = linalg::dot(&step, &at.gradient[..d]);
            if promised <= nats {
                beta.iter_mut().zip(&step).for_each(|(b, s)| *b -= s);
                at.value -= 0.5 * promised;
                break;
            }
            if promised <= 1e-18 * (1.0 + at.value.abs()) {
                break;
            }
            let next = self.shortened(&beta, log_sd, &at, &step, 0.0, promised, ask, passes)?;
            let Some((trial, _, there)) = next else { break };
            let small = promised <= 1e-13 * (1.0 + at.value.abs());
            (beta, at) = (trial, there);
            if small {
                break;
            }
        }
        Ok(Profile { beta, at })
    }

    /// (β − c·down, θ + c·step) for the first c = 1, ½, ¼, … at which F falls by a ten-thousandth of what is promised; near the minimum F is flat to rounding, and
    /// need not fall.
    pub(super) fn shortened(
        &self,
        beta: &[f64],
        theta: f64,
        at: &At,
        down: &[f64],
        step: f64,
        promised: f64,
        ask: Ask<'_>,
        passes: &mut Passes<'_>,
    ) -> Result<Option<(Vec<f64>, f64, At)>, Error> {
        let (flat, mut scale) = (flat(at.value), 1.0);
        while scale >= 1e-10 {
            let trial: Vec<f64> = beta.iter().zip(down).map(|(b, s)| b - scale * s).collect();
            let log_sd = theta + scale * step;
            let there = passes.at(self, &trial, log_sd, ask)?;
            let enough = there.value <= at.value - 1e-4 * scale * promised;
            if enough || (promised < flat && there.value <= at.value + flat) {
                return Ok(Some((trial, log_sd, there)));
            }
            scale *= 0.5;
        }
        Ok(None)
    }

    /// The maximum over β and the sd, with its certificate. `start` are coefficients to begin with.
    pub fn estimate(&self, start: &[f64]) -> Result<Estimate, Error> {
        self.estimate_observed(start, &mut |_| ControlFlow::Continue(()))
    }

    /// The same, watched: [`Error::Stopped`] if the observer ends it.
    pub fn estimate_observed(&self, start: &[f64], observer: &mut Observer<'_>) -> Result<Estimate, Error> {
        let passes = &mut Passes::new(Stage::Estimate, observer);
        let d = self.dim;
        let mut found = self.maxima(start, EPSILON, passes)?;
        let maxima: Vec<Maximum> = found.iter().map(Maximum::of).collect();
        passes.stage(Stage::Interval);
        let (theta, here) = found.swap_remove(0);
        if theta == f64::NEG_INFINITY {
            return self.at_zero(here, maxima, passes);
        }
        let ridge = here.ridge(d)?;
        let interval = self.interval(&here, theta, &ridge, passes)?;
        let excluded = self.excluded(&here.beta, theta, here.at.value + here.at.error, passes)?;
        Ok(Estimate {
            factor: ridge.joint(d)?,
            beta: here.beta,
            sd: theta.exp(),
            at: here.at,
            interval,
            maxima,
            excluded,
            log_sd_error: if ridge.bend > 0.0 { 1.0 / ridge.bend.sqrt() } else { f64::INFINITY },
            evaluations: passes.count(),
        })
    }

    /// The logarithm of an sd that is 0.
    pub(super) fn smallest(&self) -> f64 {
        (SMALLEST * self.unit()).ln()
    }

    /// √mean z².
    pub(super) fn effect_size(&self) -> f64 {
        if self.effect.is_empty() {
            return 1.0;
        }
        (linalg::norm_squared(&self.effect) / self.effect.len() as f64).sqrt()
    }

    /// Both ends of the interval, wider and wider until the proof holds.
    fn interval(
        &self,
        here: &Profile,
        theta: f64,
        ridge: &Ridge,
        passes: &mut Passes<'_>,
    ) -> Result<Interval, Error> {
        let none = |sds: [f64; 2], why: String| Ok(Interval { sds, proved: Err(why) });
        if !here.at.error.is_finite() {
            let why = if self.likelihood.strip_is_proved() {
                "the error of the quadrature could not be bounded at this sd"
            } else {
                "the error of the quadrature is not proved for this likelihood"
            };
            return none([theta.exp(); 2], why.into());
        }
        let top = here.at.value + here.at.error;
        let mut ends = [theta; 2];
        for (end, sign) in ends.iter_mut().zip([-1.0, 1.0]) {
            let mut width = (8.0 * here.at.error / ridge.bend.max(1e-3)).sqrt().max(1e-6);
            loop {
                let start: Vec<f64> =
                    here.beta.iter().zip(&ridge.turned).map(|(b, t)| b - sign * width * t).collect();
                *end = theta + sign * width;
                let low = self.at_least(&start, *end, &ridge.factor, top, passes)?;
                if low > top {
                    break;
                }
                if low == f64::NEG_INFINITY {
                    return none(
                        ends.map(f64::exp),
                        "the errors of the gradient are too large to bound what is left to gain; a prior on every coefficient would".into(),
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
        passes: &mut Passes<'_>,
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
            if self.at_least(&zero.beta, at, &metric, top, passes)? > top {
                interval.proved = Ok(());
                break;
            }
            at += 0.25;
        }
        let excluded = self.excluded(&zero.beta, f64::NEG_INFINITY, top, passes)?;
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
            evaluations: passes.count(),
        })
    }

    /// A bound on F(β, θ) − min_β F(β, θ); infinite if there is none.
    ///
    /// With a proper prior, F is J-strongly convex in β: ½|g|²_{J⁻¹}. If F was computed with a metric, Lemma K4 bounds the Hessian from below, by λ times LLᵀ, in
    /// the ball of radius r in that metric: if |L⁻¹g| < λr/2 the minimum lies in the ball and is lower by at most |L⁻¹g|²/(2λ). The smaller bound is taken.
    pub(super) fn left_to_gain(&self, at: &At, metric: &[f64], radius: f64) -> Result<f64, Error> {
        let by_prior = self.proper().map_or(f64::INFINITY, |precision| {
            let part = |j: usize| (at.gradient[j].abs() + at.gradient_error[j]).powi(2) / precision[j];
            0.5 * (0..self.dim).map(part).sum::<f64>()
        });
        if at.least_hessian.is_empty() {
            return Ok(by_prior);
        }
        let norm = self.slope_norm(at, metric);
        let lower = self.least_curvature(at, metric)?;
        let by_rows = if norm < 0.5 * lower * radius { norm * norm / (2.0 * lower) } else { f64::INFINITY };
        Ok(by_prior.min(by_rows))
    }

    /// |L⁻¹g|, with the errors of g.
    pub(super) fn slope_norm(&self, at: &At, metric: &[f64]) -> f64 {
        let d = self.dim;
        let turned = |mut x: Vec<f64>| {
            linalg::solve_lower(metric, d, false, &mut x);
            linalg::norm_squared(&x).sqrt()
        };
        let mut norm = turned(at.gradient[..d].to_vec());
        for j in 0..d {
            let mut wrong = vec![0.0; d];
            wrong[j] = at.gradient_error[j];
            norm += turned(wrong);
        }
        norm
    }

    /// The precisions of the prior, if all of them are above 0.
    pub(super) fn proper(&self) -> Option<&[f64]> {
        match self.prior.precision() {
            Precision::Diagonal(j) if j.iter().all(|j| *j > 0.0) => Some(j),
            _ => None,
        }
    }

    /// A lower bound of F_p(θ): at β, and if that is not close enough to the minimum, at the minimum.
    pub(super) fn at_least(
        &self,
        beta: &[f64],
        log_sd: f64,
        metric: &[f64],
        enough: f64,
        passes: &mut Passes<'_>,
    ) -> Result<f64, Error> {
        let metric_asked = self.proper().is_none().then_some((metric, self.radius()));
        let ask = Ask { slope_errors: true, metric: metric_asked, ..Ask::default() };
        let low = |at: &At, radius: f64| {
            Ok::<_, Error>(at.value - at.error - self.left_to_gain(at, metric, radius)?)
        };
        let first = low(&passes.at(self, beta, log_sd, ask)?, self.radius())?;
        if first > enough {
            return Ok(first);
        }
        let there = self.profile(beta, log_sd, 0.0, passes)?;
        let at = passes.at(self, &there.beta, log_sd, ask)?;
        let mut second = low(&at, self.radius())?;
        // the precision of the prior is little beside that of large groups, whose gradients have large errors
        if second <= enough && at.value - at.error > enough && ask.metric.is_none() {
            let radius = self.radius().min(8.0 * self.slope_norm(&at, metric)).max(f64::MIN_POSITIVE);
            let ask = Ask { metric: Some((metric, radius)), ..ask };
            second = low(&passes.at(self, &there.beta, log_sd, ask)?, radius)?;
        }
        Ok(first.max(second))
    }
}
