//! The effects of groups over draws of coefficients and scales (docs/collapsed.md, part K13).

use certus::linalg;
use certus_mixed::collapsed::Effect;
use certus_mixed::density::CollapsedDensity;
use certus_models::Error;

/// Draws that the effects of groups average over.
const DRAWS: usize = 200;

/// The effects of all groups: their conditional laws averaged over some of the draws. These are taken at even distances
/// in the order of the first scale, and what the mean of their coefficients differs from that of all draws moves a mean
/// by the regression of the effect on them, Cov(v, β)Cov(β)⁻¹(β̄ − β̄′).
pub(crate) fn corrected_effects(density: &dyn CollapsedDensity, draws: &[f64]) -> Result<Vec<Effect>, Error> {
    let (d, dim) = (density.coefficients(), density.coefficients() + density.scales());
    let mut order: Vec<&[f64]> = draws.chunks_exact(dim).collect();
    let all = Moments::of(&order, d);
    order.sort_by(|a, b| a[d].total_cmp(&b[d]));
    let count = DRAWS.min(order.len());
    let few: Vec<&[f64]> = (0..count).map(|k| order[(2 * k + 1) * order.len() / (2 * count)]).collect();
    let own = Moments::of(&few, d);
    let apart: Vec<f64> = all.mean.iter().zip(&own.mean).map(|(a, b)| a - b).collect();
    let turned = own.solved(apart);
    let mut effects = density.effects_over(0..density.groups(), &few.concat())?;
    for effect in &mut effects {
        let moved = linalg::dot(&effect.covariance, &turned);
        effect.mean += moved;
        effect.quantiles.iter_mut().for_each(|q| *q += moved);
    }
    Ok(effects)
}

/// The mean and the factor of the covariance of the first d coordinates of points.
pub(crate) struct Moments {
    pub(crate) mean: Vec<f64>,
    factor: Option<Vec<f64>>,
}

impl Moments {
    pub(crate) fn of(points: &[&[f64]], d: usize) -> Self {
        let n = points.len() as f64;
        let mut mean = vec![0.0; d];
        points.iter().for_each(|z| mean.iter_mut().zip(*z).for_each(|(m, z)| *m += z / n));
        let mut covariance = vec![0.0; d * d];
        for z in points {
            for (i, j) in (0..d).flat_map(|i| (0..d).map(move |j| (i, j))) {
                covariance[j * d + i] += (z[i] - mean[i]) * (z[j] - mean[j]) / n;
            }
        }
        let factor = linalg::cholesky(&mut covariance, d).then_some(covariance);
        Self { mean, factor }
    }

    /// The inverse of the covariance times x; 0 if it is singular.
    pub(crate) fn solved(&self, mut x: Vec<f64>) -> Vec<f64> {
        match &self.factor {
            Some(factor) => {
                linalg::solve_lower(factor, self.mean.len(), false, &mut x);
                linalg::solve_lower(factor, self.mean.len(), true, &mut x);
            }
            None => x.fill(0.0),
        }
        x
    }
}
