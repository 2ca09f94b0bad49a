//! F_p(θ) = min_β F(β, θ): the coefficients at one sd by Newton's method, and bounds on what is left to gain from them.

use certus::linalg;
use certus_likelihood::prior::Precision;
use certus_models::Error;
use certus_models::error::{NotFinite, Unidentified};

use super::{Collapsed, EvaluationOptions, ObjectiveValue};
use crate::evaluations::Evaluations;

/// Steps of a Newton iteration, at most.
pub(super) const STEPS: usize = 60;
/// An sd this small, per unit of the effect's column and in units of the likelihood, is 0.
pub(super) const SMALLEST: f64 = 1e-4;
/// The error of a group's integral that will do far from the maximum.
pub(super) const ROUGH: f64 = 1e-4;
/// What is left to gain, as a part of F, when it will do no more.
pub(super) const CLOSE: f64 = 1e-5;

/// β̂ at one sd.
pub(super) struct Profile {
    pub(super) beta: Vec<f64>,
    pub(super) at: ObjectiveValue,
}

/// How β̂ follows θ, and the profile curves: dβ̂/dθ = −H⁻¹c, F_p″ = F_θθ − cᵀH⁻¹c, with H = LLᵀ the block of β and
/// c that of β and θ.
pub(super) struct Ridge {
    pub(super) factor: Vec<f64>,
    pub(super) cross: Vec<f64>,
    pub(super) turned: Vec<f64>,
    pub(super) curvature: f64,
}

impl Profile {
    pub(super) fn ridge(&self, d: usize) -> Result<Ridge, Error> {
        let factor = factor(&self.at.hessian, d)?;
        let cross: Vec<f64> = (0..d).map(|j| self.at.hessian[j * (d + 1) + d]).collect();
        let turned = solve(&factor, d, cross.clone());
        let curvature = self.at.hessian[d * (d + 1) + d] - linalg::dot(&cross, &turned);
        Ok(Ridge { factor, cross, turned, curvature })
    }
}

impl Ridge {
    /// Lower factor of the block of β of the inverse of the whole Hessian: H⁻¹ + H⁻¹c cᵀH⁻¹/F_p″, H⁻¹ alone if the
    /// profile does not curvature up.
    pub(super) fn joint(&self, d: usize) -> Result<Vec<f64>, Error> {
        let lower = linalg::lower_of_inverse(&self.factor, d);
        if self.curvature.is_nan() || self.curvature <= 0.0 {
            return Ok(lower);
        }
        let mut sum = vec![0.0; d * d];
        for (j, k) in (0..d).flat_map(|j| (0..d).map(move |k| (j, k))) {
            let own: f64 = (0..=j.min(k)).map(|m| lower[m * d + j] * lower[m * d + k]).sum();
            sum[k * d + j] = own + self.turned[j] * self.turned[k] / self.curvature;
        }
        if linalg::cholesky(&mut sum, d) {
            return Ok(sum);
        }
        Err(NotFinite::Indefinite { what: "the covariance of the coefficients" }.into())
    }
}

/// H = LLᵀ of the block of β, the first d rows and columns.
pub(super) fn factor(hessian: &[f64], d: usize) -> Result<Vec<f64>, Error> {
    let n = hessian.len().isqrt();
    let mut l: Vec<f64> = (0..d * d).map(|k| hessian[(k / d) * n + k % d]).collect();
    if linalg::cholesky(&mut l, d) {
        return Ok(l);
    }
    let reason = Unidentified::Singular { what: "the Hessian of the collapsed likelihood" };
    Err(Error::NotIdentified { reason, direction: Vec::new() })
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
    /// min_β F(β, θ) from a start, by Newton's method with halved steps. With what is left to gain below `nats` the
    /// last step is taken without looking.
    pub(super) fn profile(
        &self,
        start: &[f64],
        log_sd: f64,
        nats: f64,
        evaluations: &mut Evaluations<'_>,
    ) -> Result<Profile, Error> {
        self.profile_by(start, log_sd, nats, EvaluationOptions::default(), evaluations)
    }

    /// The same with another error of the integrals to aim at.
    pub(super) fn profile_by(
        &self,
        start: &[f64],
        log_sd: f64,
        nats: f64,
        options: EvaluationOptions<'_>,
        evaluations: &mut Evaluations<'_>,
    ) -> Result<Profile, Error> {
        let d = self.dim;
        let mut beta = start.to_vec();
        let mut at = self.at_in(evaluations, &beta, log_sd, options)?;
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
            let next = self.shortened(&beta, log_sd, &at, &step, 0.0, promised, options, evaluations)?;
            let Some((trial, _, there)) = next else { break };
            let small = promised <= 1e-13 * (1.0 + at.value.abs());
            (beta, at) = (trial, there);
            if small {
                break;
            }
        }
        Ok(Profile { beta, at })
    }

    /// (β − c·down, θ + c·step) for the first c = 1, ½, ¼, … at which F falls by a ten-thousandth of what is promised;
    /// near the minimum F is flat to rounding, and need not fall.
    pub(super) fn shortened(
        &self,
        beta: &[f64],
        theta: f64,
        at: &ObjectiveValue,
        down: &[f64],
        step: f64,
        promised: f64,
        options: EvaluationOptions<'_>,
        evaluations: &mut Evaluations<'_>,
    ) -> Result<Option<(Vec<f64>, f64, ObjectiveValue)>, Error> {
        let (flat, mut scale) = (flat(at.value), 1.0);
        while scale >= 1e-10 {
            let trial: Vec<f64> = beta.iter().zip(down).map(|(b, s)| b - scale * s).collect();
            let log_sd = theta + scale * step;
            let there = self.at_in(evaluations, &trial, log_sd, options)?;
            let enough = there.value <= at.value - 1e-4 * scale * promised;
            if enough || (promised < flat && there.value <= at.value + flat) {
                return Ok(Some((trial, log_sd, there)));
            }
            scale *= 0.5;
        }
        Ok(None)
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

    /// A bound on F(β, θ) − min_β F(β, θ); infinite if there is none.
    ///
    /// With a proper prior, F is J-strongly convex in β: ½|g|²_{J⁻¹}. If F was computed with a metric, Lemma K4 bounds
    /// the Hessian from below, by λ times LLᵀ, in the ball of radius r in that metric: if |L⁻¹g| < λr/2 the minimum
    /// lies in the ball and is lower by at most |L⁻¹g|²/(2λ). The smaller bound is taken.
    pub(super) fn left_to_gain(
        &self,
        at: &ObjectiveValue,
        metric: &[f64],
        radius: f64,
    ) -> Result<f64, Error> {
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
    pub(super) fn slope_norm(&self, at: &ObjectiveValue, metric: &[f64]) -> f64 {
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
        evaluations: &mut Evaluations<'_>,
    ) -> Result<f64, Error> {
        let metric_asked = self.proper().is_none().then_some((metric, self.radius()));
        let options =
            EvaluationOptions { slope_errors: true, metric: metric_asked, ..EvaluationOptions::default() };
        let low = |at: &ObjectiveValue, radius: f64| {
            Ok::<_, Error>(at.value - at.error - self.left_to_gain(at, metric, radius)?)
        };
        let first = low(&self.at_in(evaluations, beta, log_sd, options)?, self.radius())?;
        if first > enough {
            return Ok(first);
        }
        let there = self.profile(beta, log_sd, 0.0, evaluations)?;
        let at = self.at_in(evaluations, &there.beta, log_sd, options)?;
        let mut second = low(&at, self.radius())?;
        // the precision of the prior is little beside that of large groups, whose gradients have large errors
        if second <= enough && at.value - at.error > enough && options.metric.is_none() {
            let radius = self.radius().min(8.0 * self.slope_norm(&at, metric)).max(f64::MIN_POSITIVE);
            let options = EvaluationOptions { metric: Some((metric, radius)), ..options };
            second = low(&self.at_in(evaluations, &there.beta, log_sd, options)?, radius)?;
        }
        Ok(first.max(second))
    }
}
