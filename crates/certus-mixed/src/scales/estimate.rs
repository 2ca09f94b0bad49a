//! The scales that maximise the likelihood, profiled over β, and for one scale an interval that is proved to hold a
//! maximum (Theorem K3).

use std::ops::ControlFlow;

use certus::linalg;

use super::evaluator::ScaleEvaluator;
use super::search::{ScaleMinimum, extrapolated, minimum, same};
use super::starting_points::{starts, steps};
use super::{Care, ConditionalFit, ScaleProblem};
use crate::collapsed::{Excluded, Interval, sweep};
use crate::evaluations::{Evaluations, ScaleObserver, Stage};
use crate::journal::Journal;
use certus_models::Error;
use certus_models::error::NotFinite;

/// What is proved of two scales together, and why not more.
const TWO: &str = "with two unknown scales a maximum is not proved: the profile would have to be bounded along a curve \
    around it, not at two ends";

/// How well a maximum is found in the end: differences over 0.01 sds, whose error is 2e-5 of a third derivative, and a
/// last step of 1e-3.
const FINE: (f64, f64, Care) = (0.01, 1e-3, Care::Full);

/// The maximum of the likelihood over β and the scales.
#[derive(Clone, Debug)]
pub struct ScalesEstimate {
    /// The scales' names.
    pub names: &'static [&'static str],
    /// The scales; 0 where the likelihood falls with one from the beginning.
    pub scales: Vec<f64>,
    /// Standard errors of their logarithms, from the curvature of the profile; infinite for those at 0.
    pub log_errors: Vec<f64>,
    /// The covariance of their logarithms, row after row; rows and columns of those at 0 are 0.
    pub log_covariance: Vec<f64>,
    /// Where a maximum lies, scale by scale; with two of them four standard errors on either side, which proves
    /// nothing.
    pub intervals: Vec<Interval>,
    /// Every maximum that was found, the highest, which is this one, first.
    pub maxima: Vec<ScalesMaximum>,
    /// Where the highest maximum can be, of one scale whose range was searched.
    pub excluded: Option<Excluded>,
    /// Coefficients.
    pub beta: Vec<f64>,
    /// F there.
    pub value: f64,
    /// The log likelihood there.
    pub log_likelihood: f64,
    /// Bound on its error by quadrature and rounding; infinite where none is proved.
    pub error: f64,
    /// Lower factor of the covariance of β that the curvature of F in β and the scales says: what is not known of the
    /// scales is in it.
    pub factor: Vec<f64>,
    /// Evaluations of F.
    pub evaluations: usize,
}

/// A maximum of the profile.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalesMaximum {
    /// The scales.
    pub scales: Vec<f64>,
    /// F there.
    pub value: f64,
    /// The log likelihood there.
    pub log_likelihood: f64,
}

impl ScalesMaximum {
    fn of<M: ScaleProblem + ?Sized>(model: &M, found: &ScaleMinimum) -> Self {
        let at_zero = zeros(found, &columns(model, found.x.len()));
        let logs = model.log_scales(&found.x);
        let scale = |(log, zero): (&f64, bool)| if zero { 0.0 } else { log.exp() };
        Self {
            scales: logs.iter().zip(at_zero).map(scale).collect(),
            value: found.conditional_fit.value,
            log_likelihood: found.conditional_fit.log_likelihood,
        }
    }
}

/// The linear map from coordinates to logarithms of scales, column by column.
fn columns<M: ScaleProblem + ?Sized>(model: &M, k: usize) -> Vec<Vec<f64>> {
    let zero = vec![0.0; k];
    let origin = model.log_scales(&zero);
    let column = |j: usize| {
        let mut unit = zero.clone();
        unit[j] = 1.0;
        model.log_scales(&unit).iter().zip(&origin).map(|(a, b)| a - b).collect()
    };
    (0..k).map(column).collect()
}

/// Which scales are 0: those that a coordinate at its floor moves.
fn zeros(found: &ScaleMinimum, map: &[Vec<f64>]) -> Vec<bool> {
    let k = map.len();
    (0..k).map(|i| (0..k).any(|j| found.floored[j] && map[j][i] != 0.0)).collect()
}

/// The maximum over β and the scales. `start` are coefficients to begin with.
pub fn estimate<M: ScaleProblem + ?Sized>(model: &M, start: &[f64]) -> Result<ScalesEstimate, Error> {
    estimate_observed(model, start, &mut Journal::default(), &mut |_, _| ControlFlow::Continue(()))
}

/// The same, from the journal of a run that was stopped or an empty one; [`Error::Stopped`] if the observer ends it.
pub fn estimate_observed<M: ScaleProblem + ?Sized>(
    model: &M,
    start: &[f64],
    journal: &mut Journal,
    observer: &mut ScaleObserver<'_>,
) -> Result<ScalesEstimate, Error> {
    let evaluations = Evaluations::new(Stage::Estimate, journal, observer);
    let evaluator = &mut ScaleEvaluator { model, evaluations };
    let floor = model.floor();
    let value = |_: &[f64], conditional_fit: &ConditionalFit| conditional_fit.value;
    let mut all = maxima(evaluator, start, &floor)?;
    let rough = all.remove(0);
    let found = minimum(evaluator, &rough.conditional_fit.beta, rough.x, &value, Some(&floor), FINE)?;
    evaluator.evaluations.stage = Stage::Interval;
    let k = floor.len();
    let here = ScalesMaximum::of(model, &found);
    let maxima = std::iter::once(here).chain(all.iter().map(|f| ScalesMaximum::of(model, f))).collect();
    let logs = model.log_scales(&found.x);
    let map = columns(model, k);
    let at_zero = zeros(&found, &map);
    let covariance = inverse(&found);
    let mapped = |i: usize, j: usize| -> f64 {
        if at_zero[i] || at_zero[j] {
            return 0.0;
        }
        (0..k * k).map(|e| map[e / k][i] * covariance[e] * map[e % k][j]).sum()
    };
    let log_covariance: Vec<f64> = (0..k * k).map(|e| mapped(e / k, e % k)).collect();
    let known = |i: usize| log_covariance[i * (k + 1)] > 0.0;
    let log_errors: Vec<f64> =
        (0..k).map(|i| if known(i) { log_covariance[i * (k + 1)].sqrt() } else { f64::INFINITY }).collect();
    let intervals = if k == 1 {
        vec![interval(evaluator, &found)?]
    } else {
        let wide = |i: usize| {
            let away = 4.0 * log_errors[i].min(1.0);
            let low = if at_zero[i] { 0.0 } else { (logs[i] - away).exp() };
            Interval { sds: [low, (logs[i] + away).exp()], proved: Err(TWO.into()) }
        };
        (0..k).map(wide).collect()
    };
    let scales = (0..k).map(|i| if at_zero[i] { 0.0 } else { logs[i].exp() }).collect();
    let excluded = if k == 1 { excluded(evaluator, found.x[0], &found.conditional_fit)? } else { None };
    // quadrature and rounding together where the model bounds both, else what it says of F
    let error = match model.bracket(&found.x, &found.conditional_fit.beta) {
        Ok([_, top]) => top - found.conditional_fit.value,
        Err(_) if found.conditional_fit.error > 0.0 => found.conditional_fit.error,
        Err(_) => f64::INFINITY,
    };
    Ok(ScalesEstimate {
        names: model.names(),
        scales,
        log_errors,
        log_covariance,
        intervals,
        maxima,
        excluded,
        error,
        factor: joint(&found, &covariance)?,
        beta: found.conditional_fit.beta,
        value: found.conditional_fit.value,
        log_likelihood: found.conditional_fit.log_likelihood,
        evaluations: evaluator.evaluations.count(),
    })
}

/// Every maximum that is reached from the usual start and from the grid, roughly, the highest first.
fn maxima<M: ScaleProblem + ?Sized>(
    evaluator: &mut ScaleEvaluator<'_, M>,
    start: &[f64],
    floor: &[f64],
) -> Result<Vec<ScaleMinimum>, Error> {
    let model = evaluator.model;
    let value = |_: &[f64], conditional_fit: &ConditionalFit| conditional_fit.value;
    let how = (0.3, 0.1, Care::Full);
    let mut out = vec![minimum(evaluator, start, model.start(), &value, Some(floor), how)?];
    let steps = steps(&model.range());
    for other in starts(evaluator, &out[0].conditional_fit.beta)? {
        let near =
            |found: &ScaleMinimum, x: &[f64]| (0..x.len()).all(|j| (found.x[j] - x[j]).abs() <= steps[j]);
        if out.iter().any(|found| near(found, &other.x)) {
            continue;
        }
        let (mut beta, mut x) = (other.beta, other.x);
        for how in [how, FINE] {
            let found = match minimum(evaluator, &beta, x, &value, Some(floor), how) {
                Err(Error::Stopped) => return Err(Error::Stopped),
                Err(_) => break,
                Ok(found) => found,
            };
            if out.iter().any(|known| same(known, &found)) {
                break;
            }
            (beta, x) = (found.conditional_fit.beta.clone(), found.x.clone());
            if how == FINE {
                out.push(found);
            }
        }
    }
    out.sort_by(|a, b| a.conditional_fit.value.total_cmp(&b.conditional_fit.value));
    Ok(out)
}

/// Where the highest maximum of one scale can be, if its range was searched.
pub(super) fn excluded<M: ScaleProblem + ?Sized>(
    evaluator: &mut ScaleEvaluator<'_, M>,
    x: f64,
    here: &ConditionalFit,
) -> Result<Option<Excluded>, Error> {
    let model = evaluator.model;
    let [range] = model.range()[..] else { return Ok(None) };
    let range = [range[0].min(x - 1.0), range[1].max(x + 1.0)];
    let scale = |x: f64| model.log_scales(&[x])[0].exp();
    let searched = range.map(scale);
    if model.fall(x, x).is_none() {
        return Ok(Some(Excluded::nothing(searched, "how fast it changes with this scale is not bounded")));
    }
    let top = match model.bracket(&[x], &here.beta) {
        Ok([_, top]) if top.is_finite() => top,
        Ok(_) => return Ok(Some(Excluded::nothing(searched, "a bound on F is not finite"))),
        Err(why) => return Ok(Some(Excluded::nothing(searched, &why))),
    };
    let mut near = here.beta.clone();
    let mut above = |b: f64| above(evaluator, &mut near, b, top);
    let fall = |b: f64, a: f64| model.fall(b, a).unwrap_or(f64::INFINITY);
    let open = sweep(range, x, &mut above, &fall)?;
    // what is below the range was not searched
    let open =
        open.into_iter().filter(|part| part[1] > range[0]).map(|[a, b]| [a.max(range[0]), b].map(scale));
    Ok(Some(Excluded { searched, open: open.collect(), proved: Ok(()) }))
}

/// What F_p(b) is above `top` at least; −∞ if nothing is known of it. `near` are coefficients to begin with, and those
/// found.
pub(super) fn above<M: ScaleProblem + ?Sized>(
    evaluator: &mut ScaleEvaluator<'_, M>,
    near: &mut Vec<f64>,
    b: f64,
    top: f64,
) -> Result<f64, Error> {
    match evaluator.conditional_fit(&[b], near, Care::Full) {
        Err(Error::Stopped) => Err(Error::Stopped),
        Err(_) => Ok(f64::NEG_INFINITY),
        Ok(there) => {
            let low =
                evaluator.model.bracket(&[b], &there.beta).map_or(f64::NEG_INFINITY, |bounds| bounds[0]);
            *near = there.beta;
            Ok(low - top)
        }
    }
}

/// Lower factor of H⁻¹ + TVTᵀ, T the columns dβ̂/dx and V the covariance of x.
fn joint(found: &ScaleMinimum, covariance: &[f64]) -> Result<Vec<f64>, Error> {
    let (d, k, lower) = (found.conditional_fit.beta.len(), found.x.len(), &found.conditional_fit.lower);
    let mut sum = vec![0.0; d * d];
    for (i, j) in (0..d).flat_map(|i| (0..d).map(move |j| (i, j))) {
        let own: f64 = (0..=i.min(j)).map(|m| lower[m * d + i] * lower[m * d + j]).sum();
        let beta_derivatives =
            |e: usize| found.beta_derivatives[e / k][i] * covariance[e] * found.beta_derivatives[e % k][j];
        sum[j * d + i] = own + (0..k * k).map(beta_derivatives).sum::<f64>();
    }
    if linalg::cholesky(&mut sum, d) {
        return Ok(sum);
    }
    Err(NotFinite::Indefinite { what: "the covariance of the coefficients" }.into())
}

/// The inverse of the second derivatives over the coordinates that are free; 0 where they are not positive definite, as
/// next to a scale of which F hardly knows anything.
fn inverse(found: &ScaleMinimum) -> Vec<f64> {
    let k = found.x.len();
    let mut curvature = found.curvature.clone();
    (0..k).filter(|j| found.floored[*j]).for_each(|j| curvature[j * (k + 1)] = f64::INFINITY);
    let mut out = vec![0.0; k * k];
    let free: Vec<usize> = (0..k).filter(|j| !found.floored[*j]).collect();
    match free[..] {
        [0, 1] => {
            let det = curvature[0] * curvature[3] - curvature[1] * curvature[2];
            if det > 0.0 && curvature[0] > 0.0 {
                let adjugate = [curvature[3], -curvature[1], -curvature[2], curvature[0]];
                out = adjugate.iter().map(|x| x / det).collect();
            }
        }
        [j] if curvature[j * (k + 1)] > 0.0 => out[j * (k + 1)] = 1.0 / curvature[j * (k + 1)],
        _ => {}
    }
    out
}

/// Both ends of the interval of one scale, wider and wider until the proof holds; from 0 on if the scale is 0.
fn interval<M: ScaleProblem + ?Sized>(
    evaluator: &mut ScaleEvaluator<'_, M>,
    found: &ScaleMinimum,
) -> Result<Interval, Error> {
    let (x, model) = (found.x[0], evaluator.model);
    let scale = |x: f64| model.log_scales(&[x])[0].exp();
    let top = match model.bracket(&[x], &found.conditional_fit.beta) {
        Ok([_, top]) if top.is_finite() => top,
        Ok(_) => {
            return Ok(Interval { sds: [scale(x); 2], proved: Err("a bound on F is not finite".into()) });
        }
        Err(why) => return Ok(Interval { sds: [scale(x); 2], proved: Err(why) }),
    };
    let curvature = found.curvature[0].max(1e-3);
    let first = (8.0 * (top - found.conditional_fit.value).abs() / curvature).sqrt().max(1e-6);
    let mut ends = [x; 2];
    for (end, sign) in ends.iter_mut().zip([-1.0, 1.0]) {
        if sign < 0.0 && found.floored[0] {
            continue;
        }
        let mut width = first;
        loop {
            *end = x + sign * width;
            let start = extrapolated(&found.conditional_fit.beta, &found.beta_derivatives, &found.x, &[*end]);
            let there = evaluator.conditional_fit(&[*end], &start, Care::Full)?;
            if model.bracket(&[*end], &there.beta).is_ok_and(|b| b[0] > top) {
                break;
            }
            width *= 2.0;
            if width > 12.0 {
                let why = "the likelihood is too flat in the scale for a proof".into();
                return Ok(Interval { sds: ends.map(scale), proved: Err(why) });
            }
        }
    }
    let low = if found.floored[0] { 0.0 } else { scale(ends[0]) };
    Ok(Interval { sds: [low, scale(ends[1])], proved: Ok(()) })
}

/// ½ Σ (|g_j| + e_j)²/(λD_jj), λ the least eigenvalue of D^{−1/2}(A)D^{−1/2} less `slack`, D the diagonal of A: what is
/// left to gain of a quadratic function with the Hessian A, its gradient known up to e.
pub(super) fn left_to_gain(a: &[f64], gradient: &[f64], error: &[f64], slack: f64) -> Option<f64> {
    let d = gradient.len();
    let root: Vec<f64> = (0..d).map(|j| a[j * (d + 1)].sqrt()).collect();
    let balanced: Vec<f64> = (0..d * d).map(|k| a[k] / (root[k / d] * root[k % d])).collect();
    let (values, _) = linalg::eigen(&balanced, d)?;
    let least = values.iter().copied().fold(f64::INFINITY, f64::min) - slack;
    (least > 0.0).then(|| {
        let sum: f64 = (0..d).map(|j| ((gradient[j].abs() + error[j]) / root[j]).powi(2)).sum();
        0.5 * sum / least
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A found minimum of two log scales with these second derivatives.
    fn found(curvature: [f64; 4], floored: [bool; 2]) -> ScaleMinimum {
        let conditional_fit = ConditionalFit {
            beta: vec![0.0],
            value: 0.0,
            log_likelihood: 0.0,
            lower: vec![0.5],
            log_det: 0.0,
            error: 0.0,
            evaluations: 1,
        };
        ScaleMinimum {
            x: vec![0.0; 2],
            conditional_fit,
            beta_derivatives: vec![vec![3.0], vec![-2.0]],
            curvature: curvature.to_vec(),
            floored: floored.to_vec(),
        }
    }

    /// Where second derivatives are not positive definite, nothing is known of the scales, and the covariance of the
    /// coefficients is that at the estimate; before, the fit failed.
    #[test]
    fn flat_scales_have_no_covariance() {
        let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-15);
        assert!(close(
            &inverse(&found([2.0, 1.0, 1.0, 2.0], [false; 2])),
            &[2.0 / 3.0, -1.0 / 3.0, -1.0 / 3.0, 2.0 / 3.0]
        ));
        assert!(close(&inverse(&found([2.0, 0.0, 0.0, 4.0], [true, false])), &[0.0, 0.0, 0.0, 0.25]));
        for (curvature, floored) in [
            ([1e-4, 0.0, 0.0, -1e-9], [false, false]),
            ([-1.0, 0.0, 0.0, -1.0], [false, false]),
            ([1.0, 2.0, 2.0, 1.0], [false, false]),
            ([1.0, 0.0, 0.0, -1.0], [true, false]),
        ] {
            let flat = found(curvature, floored);
            let covariance = inverse(&flat);
            assert!(close(&covariance, &[0.0; 4]), "{curvature:?}: {covariance:?}");
            assert!(close(&joint(&flat, &covariance).unwrap_or_default(), &[0.5]));
        }
    }
}
