//! The prior of scales in their coordinates: logarithms of sds, artanh of correlations.

use certus::linalg;
use certus_mixed::collapsed::SdPrior;
use certus_mixed::density::log_scale_density;
use certus_mixed::linear::TermFit;

use crate::variance::names::UnknownScales;

/// The prior of the correlations of a term, LKJ(2): |R|^(η−1).
pub(crate) const LKJ: f64 = 2.0;
/// The largest sd of a coordinate that the curvature may state.
const WIDEST: f64 = 1.5;
/// The log density of correlations that no correlation matrix has.
const IMPOSSIBLE: f64 = -1e9;
/// Where an sd of 0 begins, as a part of the noise or of the unit of the predictor, and the variances of coordinates
/// that the curvature does not tell: of correlations and of log sds.
const SMALL: f64 = 0.1;
const UNKNOWN: [f64; 2] = [0.5, 1.0];

/// The scales of a model and the priors of its sds, in their order.
#[derive(Clone, Copy)]
pub(crate) struct ScalePrior<'a> {
    pub(crate) unknown: &'a UnknownScales,
    pub(crate) sds: &'a [SdPrior],
}

impl ScalePrior<'_> {
    /// Scales.
    pub(crate) fn count(&self) -> usize {
        self.unknown.scales.len()
    }

    /// log p at coordinates: sds and σ with their priors, correlations with LKJ, and the derivatives of the
    /// coordinates; `None` where no correlation matrix has these correlations.
    pub(crate) fn log_density(&self, coordinates: &[f64]) -> Option<f64> {
        let mut priors = self.sds.iter();
        let mut sum = 0.0;
        for (own, x) in self.unknown.scales.iter().zip(coordinates) {
            sum += match own.correlation {
                // d tanh x = 1 − tanh² x
                true => (1.0 - x.tanh().powi(2)).ln(),
                false => priors.next().map_or(*x, |prior| log_scale_density(*prior, *x)[0]),
            };
        }
        for term in 0..self.unknown.effects.last().map_or(0, |e| e.term + 1) {
            let (effects, Some(at)) = self.unknown.term(term) else { continue };
            let k = effects.len();
            let mut r = vec![0.0; k * k];
            (0..k).for_each(|i| r[i * (k + 1)] = 1.0);
            for (place, (i, j)) in TermFit::pairs(k).enumerate() {
                let own = coordinates[at + place].tanh();
                (r[j * k + i], r[i * k + j]) = (own, own);
            }
            if !linalg::cholesky(&mut r, k) {
                return None;
            }
            sum += (LKJ - 1.0) * 2.0 * r.iter().step_by(k + 1).map(|x| x.ln()).sum::<f64>();
        }
        Some(sum)
    }

    /// The weight that stands for none, of a point without a density.
    pub(crate) const fn impossible() -> f64 {
        IMPOSSIBLE
    }

    /// Where the first proposal is: at the estimate with the curvature there; an sd of 0 begins at a tenth of `unit`, a
    /// correlation that is not known at 0.
    pub(crate) fn beginning(&self, scales: &[f64], covariance: &[f64], unit: f64) -> (Vec<f64>, Vec<f64>) {
        let k = self.count();
        let (mut center, mut own) = (self.unknown.coordinates(scales), covariance.to_vec());
        for j in 0..k {
            let known = center[j].is_finite() && own[j * (k + 1)] > 0.0;
            if known && own[j * (k + 1)].sqrt() <= WIDEST {
                continue;
            }
            let correlation = self.unknown.scales[j].correlation;
            if correlation && !known {
                center[j] = 0.0;
            }
            // sds beside a correlation of 1 or −1 are estimated, but have no standard error
            if !correlation {
                center[j] = center[j].max((SMALL * unit).ln());
            }
            for i in 0..k {
                (own[j * k + i], own[i * k + j]) = (0.0, 0.0);
            }
            own[j * (k + 1)] = UNKNOWN[usize::from(!correlation)];
        }
        (center, own)
    }
}
