//! The minimum of a smooth function of one or two coordinates from its values alone: Newton's method with central
//! differences.

use certus::linalg;

use super::evaluator::ScaleEvaluator;
use super::{Care, ConditionalFit, ScaleProblem};
use certus_models::Error;

/// Steps, at most.
const STEPS: usize = 60;
/// The longest step in a coordinate, and the widest difference.
const LONGEST: f64 = 1.5;
const WIDEST: f64 = 0.5;
/// Maxima all of whose coordinates differ by less than this part of a standard error are the same.
const SAME: f64 = 0.5;

/// The minimum.
pub(super) struct ScaleMinimum {
    pub(super) x: Vec<f64>,
    pub(super) conditional_fit: ConditionalFit,
    /// The second derivatives, those of coordinates at their floor zero.
    pub(super) curvature: Vec<f64>,
    /// dβ̂/dx_j.
    pub(super) beta_derivatives: Vec<Vec<f64>>,
    /// Whether a coordinate ended at its floor.
    pub(super) floored: Vec<bool>,
}

impl ScaleMinimum {
    /// Where β̂ is expected at another x.
    fn toward(&self, x: &[f64]) -> Vec<f64> {
        extrapolated(&self.conditional_fit.beta, &self.beta_derivatives, &self.x, x)
    }
}

/// Whether two searches ended at the same maximum: within half a standard error of each coordinate.
pub(super) fn same(a: &ScaleMinimum, b: &ScaleMinimum) -> bool {
    let k = a.x.len();
    (0..k).all(|j| {
        let curvature = a.curvature[j * (k + 1)].min(b.curvature[j * (k + 1)]);
        let error = if curvature > 0.0 { (1.0 / curvature.sqrt()).min(1.0) } else { 1.0 };
        (a.x[j] - b.x[j]).abs() <= SAME * error
    })
}

/// β + Σ (to − from)_j dβ/dx_j.
pub(super) fn extrapolated(
    beta: &[f64],
    beta_derivatives: &[Vec<f64>],
    from: &[f64],
    to: &[f64],
) -> Vec<f64> {
    let mut out = beta.to_vec();
    for (j, beta_derivatives) in beta_derivatives.iter().enumerate() {
        out.iter_mut().zip(beta_derivatives).for_each(|(b, t)| *b += (to[j] - from[j]) * t);
    }
    out
}

/// The minimum of `value`(x, what is given at x). Differences are taken over `wide` sds, at the end, and a step of
/// `enough` sds ends the search.
pub(super) fn minimum<M: ScaleProblem + ?Sized>(
    evaluator: &mut ScaleEvaluator<'_, M>,
    beta: &[f64],
    x: Vec<f64>,
    value: &dyn Fn(&[f64], &ConditionalFit) -> f64,
    floor: Option<&[f64]>,
    (wide, enough, care): (f64, f64, Care),
) -> Result<ScaleMinimum, Error> {
    let k = x.len();
    let conditional_fit = evaluator.conditional_fit(&x, beta, care)?;
    let beta_derivatives = vec![vec![0.0; beta.len()]; k];
    let mut here = ScaleMinimum {
        x,
        conditional_fit,
        curvature: vec![0.0; k * k],
        beta_derivatives,
        floored: vec![false; k],
    };
    let mut width = vec![WIDEST; k];
    for _ in 0..STEPS {
        let middle = value(&here.x, &here.conditional_fit);
        let mut slope = vec![0.0; k];
        let mut sides = vec![[middle; 2]; k];
        let mut moved = |here: &ScaleMinimum, by: &[(usize, f64)]| -> Result<(ConditionalFit, f64), Error> {
            let mut x = here.x.clone();
            by.iter().for_each(|(j, d)| x[*j] += d);
            let conditional_fit = evaluator.conditional_fit(&x, &here.toward(&x), care)?;
            let value = value(&x, &conditional_fit);
            Ok((conditional_fit, value))
        };
        here.curvature = vec![0.0; k * k];
        let free: Vec<usize> = (0..k).filter(|j| !here.floored[*j]).collect();
        for &j in &free {
            let w = width[j];
            let (up, high) = moved(&here, &[(j, w)])?;
            let (down, low) = moved(&here, &[(j, -w)])?;
            sides[j] = [low, high];
            slope[j] = (high - low) / (2.0 * w);
            here.curvature[j * (k + 1)] = (high + low - 2.0 * middle) / (w * w);
            let turned = up.beta.iter().zip(&down.beta).map(|(u, d)| (u - d) / (2.0 * w));
            here.beta_derivatives[j] = turned.collect();
        }
        if let [0, 1] = free[..] {
            let mut both = 2.0 * middle - sides.iter().flatten().sum::<f64>();
            for sign in [-1.0, 1.0] {
                let (_, value) = moved(&here, &[(0, sign * width[0]), (1, sign * width[1])])?;
                both += value;
            }
            let cross = both / (2.0 * width[0] * width[1]);
            (here.curvature[1], here.curvature[2]) = (cross, cross);
        }
        let step = descent(&here.curvature, &slope, &free);
        let sd = |j: usize| {
            let curvature = here.curvature[j * (k + 1)];
            if curvature > 0.0 { (1.0 / curvature.sqrt()).clamp(1e-5, 1.0) } else { 1.0 }
        };
        let close = free.iter().all(|&j| step[j].abs() < enough * sd(j));
        // of differences over steps that are too wide nothing follows
        let fine = free.iter().all(|&j| width[j] <= 1.5 * wide * sd(j));
        let narrower: Vec<f64> = (0..k).map(|j| (wide * sd(j)).min(WIDEST)).collect();
        let mut scale = 1.0;
        let mut next = None;
        while scale > 1e-3 {
            let by: Vec<(usize, f64)> = free.iter().map(|&j| (j, scale * step[j])).collect();
            let (there, low) = moved(&here, &by)?;
            if low <= middle + 1e-12 * (1.0 + middle.abs()) {
                next = Some((by, there));
                break;
            }
            scale *= 0.5;
        }
        if let Some((by, there)) = next {
            by.iter().for_each(|(j, d)| here.x[*j] += d);
            here.conditional_fit = there;
        }
        if close && fine {
            return Ok(here);
        }
        width = narrower;
        for j in 0..k {
            let least = floor.map_or(f64::NEG_INFINITY, |f| f[j]);
            if here.x[j] <= least && slope[j] >= 0.0 && !here.floored[j] {
                (here.x[j], here.floored[j]) = (least, true);
                here.conditional_fit =
                    evaluator.conditional_fit(&here.x, &here.conditional_fit.beta, care)?;
                here.beta_derivatives[j].fill(0.0);
            }
        }
    }
    Ok(here)
}

/// −(curvature)⁻¹ slope over the free coordinates, in units in which every coordinate curves by 1; there,
/// eigenvalues below a hundredth are replaced. Each coordinate moves by at most [`LONGEST`].
fn descent(curvature: &[f64], slope: &[f64], free: &[usize]) -> Vec<f64> {
    let (k, n) = (slope.len(), free.len());
    let mut out = vec![0.0; k];
    let root: Vec<f64> = free.iter().map(|j| curvature[j * (k + 1)].abs().max(1e-12).sqrt()).collect();
    let scaled = |i: usize, j: usize| curvature[free[i] * k + free[j]] / (root[i] * root[j]);
    let part: Vec<f64> = (0..n * n).map(|e| scaled(e / n, e % n)).collect();
    let Some((values, vectors)) = linalg::eigen(&part, n) else { return out };
    for (i, value) in values.iter().enumerate() {
        let vector = &vectors[i * n..][..n];
        let along: f64 = (0..n).map(|j| vector[j] * slope[free[j]] / root[j]).sum();
        (0..n).for_each(|j| out[free[j]] -= vector[j] * along / value.abs().max(0.01) / root[j]);
    }
    out.iter_mut().for_each(|s| *s = s.clamp(-LONGEST, LONGEST));
    out
}
