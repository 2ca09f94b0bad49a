//! Draws of q with importance weights: quantiles of the posterior, and draws that need no weights.

use super::Estimate;
use crate::error::{Error, same_length};
use crate::random::{Purpose, Random};

/// The stream of the numbers that resampling needs ([`Purpose`] lists them all).
const STREAM: u64 = 2;

/// Points with weights.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightedDraws {
    dim: usize,
    latents: Vec<f64>,
    /// They sum to one.
    weights: Vec<f64>,
}

impl WeightedDraws {
    /// Of latents, one point after the other, and the logarithms of their weights, up to a constant.
    pub fn new(dim: usize, latents: Vec<f64>, log_weights: &[f64]) -> Result<Self, Error> {
        same_length("the latents", dim * log_weights.len(), latents.len())?;
        let largest = log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let raw: Vec<f64> = log_weights.iter().map(|r| (r - largest).exp()).collect();
        let sum: f64 = raw.iter().sum();
        if !sum.is_finite() {
            return Err(Error::invalid("the sum of the weights", sum, "finite weights are required"));
        }
        Ok(Self { dim, latents, weights: raw.iter().map(|x| x / sum).collect() })
    }

    /// `n` points that need no weights, in random order: by systematic resampling point i is taken ⌊n w_i⌋ or ⌈n w_i⌉
    /// times, n w_i times on average. Latents, one point after the other.
    pub fn resampled(&self, n: usize, seed: u64) -> Vec<f64> {
        let mut dice = vec![0.0; n + 1];
        Random::new(seed, Purpose::Estimate, 0).uniforms(STREAM, 0, n + 1, &mut dice);
        let (mut picks, mut below) = (Vec::with_capacity(n), 0.0);
        for (i, weight) in self.weights.iter().enumerate() {
            below += weight * n as f64;
            while picks.len() < n && picks.len() as f64 + dice[n] < below {
                picks.push(i);
            }
        }
        // the sum of the weights is one but for rounding
        picks.resize(n, self.weights.len() - 1);
        for k in (1..n).rev() {
            picks.swap(k, ((k + 1) as f64 * dice[k]) as usize);
        }
        picks.iter().flat_map(|&i| &self.latents[i * self.dim..][..self.dim]).copied().collect()
    }

    /// A function of the latents, point by point.
    pub fn series(&self, of: impl FnMut(&[f64]) -> f64) -> Vec<f64> {
        self.latents.chunks_exact(self.dim).map(of).collect()
    }

    /// Mean and standard deviation of a series under p, with standard errors as those of
    /// [`importance()`](super::importance()): from the spread of w (x − m), and of w ((x − m)² − s²) divided by 2s.
    pub fn moments(&self, series: &[f64]) -> (Estimate, Estimate) {
        let each = || series.iter().zip(&self.weights);
        let first = series.first().copied().unwrap_or(f64::NAN);
        let value = first + each().map(|(x, w)| w * (x - first)).sum::<f64>();
        let variance: f64 = each().map(|(x, w)| w * (x - value).powi(2)).sum();
        let (mut of_mean, mut of_variance) = (0.0, 0.0);
        for (x, w) in each() {
            let square = (x - value).powi(2);
            of_mean += w * w * square;
            of_variance += (w * (square - variance)).powi(2);
        }
        let sd = variance.sqrt();
        (
            Estimate { value, standard_error: of_mean.sqrt() },
            Estimate { value: sd, standard_error: of_variance.sqrt() / (2.0 * sd) },
        )
    }

    /// Quantiles of a series under p.
    pub fn quantiles_of(&self, series: &[f64], at: &[f64]) -> Vec<f64> {
        let mut sorted: Vec<(f64, f64)> = series.iter().copied().zip(self.weights.iter().copied()).collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        at.iter().map(|&p| quantile(&sorted, p, |weight| weight)).collect()
    }

    /// Quantiles of a combination of the latents under p, at probabilities `at`: q's own, which is known, and the
    /// difference between the quantiles of the points with and without their weights. What both have in common, the
    /// luck of the draws, cancels.
    pub fn quantiles(&self, terms: &[(usize, f64)], normal: (f64, f64), at: &[(f64, f64)]) -> Vec<f64> {
        let points = self.latents.chunks_exact(self.dim);
        let mut sorted: Vec<(f64, f64)> = points
            .map(|z| terms.iter().map(|&(i, a)| a * z[i]).sum::<f64>())
            .zip(self.weights.iter().copied())
            .collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let equal = 1.0 / sorted.len() as f64;
        let (mean, sd) = normal;
        at.iter()
            .map(|&(p, z)| {
                let with = quantile(&sorted, p, |weight| weight);
                let without = quantile(&sorted, p, |_| equal);
                mean + z * sd + with - without
            })
            .collect()
    }
}

/// The value where the weights up to it pass p, half of its own weight counted, interpolated between neighbours.
fn quantile(sorted: &[(f64, f64)], p: f64, weight: impl Fn(f64) -> f64) -> f64 {
    let (mut below, mut last) = (0.0, None::<(f64, f64)>);
    for &(x, w) in sorted {
        let middle = below + 0.5 * weight(w);
        below += weight(w);
        if middle >= p {
            return match last {
                Some((before, at)) if middle > before => at + (x - at) * (p - before) / (middle - before),
                _ => x,
            };
        }
        last = Some((middle, x));
    }
    last.map_or(f64::NAN, |(_, x)| x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::factor::{Factor, Lower};
    use crate::gaussian::Gaussian;

    /// Four points with weights 0.1, 0.2, 0.3, 0.4: 10 points are 1, 2, 3 and 4 of them, in another order.
    #[test]
    fn resampling_takes_each_as_often_as_its_weight() {
        let log: Vec<f64> = [0.1_f64, 0.2, 0.3, 0.4].iter().map(|x| x.ln()).collect();
        let draws = WeightedDraws::new(1, vec![1.0, 2.0, 3.0, 4.0], &log).expect("four points");
        let found = draws.resampled(10, 3);
        let count = |x: f64| found.iter().filter(|y| **y == x).count();
        assert_eq!([1.0, 2.0, 3.0, 4.0].map(count), [1, 2, 3, 4]);
        assert!(found.windows(2).any(|pair| pair[0] > pair[1]), "{found:?}");
        assert_eq!(draws.resampled(10, 3), found);
        assert_ne!(draws.resampled(10, 4), found);
        for seed in 0..20 {
            let found = draws.resampled(30, seed);
            let count = |x: f64| found.iter().filter(|y| **y == x).count();
            assert_eq!([1.0, 2.0, 3.0, 4.0].map(count), [3, 6, 9, 12], "{seed}");
        }
    }

    /// Points 0 and 1 with weights ¼ and ¾: m = ¾, s² = 3/16; Σ w²(x − m)² = 2·9/256, Σ w²((x − m)² − s²)² is
    /// (1/16)(9/16 − 3/16)² + (9/16)(1/16 − 3/16)² = 9/512.
    #[test]
    fn moments_by_hand() {
        let log = [0.25_f64.ln(), 0.75_f64.ln()];
        let draws = WeightedDraws::new(1, vec![0.0, 1.0], &log).expect("two points");
        let (mean, sd) = draws.moments(&draws.series(|z| z[0]));
        let s = (3.0_f64 / 16.0).sqrt();
        assert!((mean.value - 0.75).abs() < 1e-15 && (sd.value - s).abs() < 1e-15, "{mean:?} {sd:?}");
        assert!((mean.standard_error - (18.0_f64 / 256.0).sqrt()).abs() < 1e-15, "{mean:?}");
        assert!((sd.standard_error - (9.0_f64 / 512.0).sqrt() / (2.0 * s)).abs() < 1e-15, "{sd:?}");
        // the middles of the weights are at ⅛ and ⅝
        assert_eq!(draws.quantiles_of(&[0.0, 1.0], &[0.1, 0.375, 0.9]), [0.0, 0.5, 1.0]);
    }

    /// q = N(0, 1), p = N(0.3, 0.8²): the quantiles of p, from weights of 20,000 draws.
    #[test]
    fn quantiles_of_a_normal() {
        let q = Gaussian::new(vec![0.0], Factor::Lower(Lower::new(1, vec![1.0]).expect("positive")))
            .expect("proper");
        let latents = q.sample(20_000, 8);
        let log: Vec<f64> = latents.iter().map(|x| 0.5 * x * x - 0.5 * ((x - 0.3) / 0.8).powi(2)).collect();
        let at = [(0.05, -1.644_853_6), (0.5, 0.0), (0.95, 1.644_853_6)];
        let draws = WeightedDraws::new(1, latents.clone(), &log).expect("finite");
        for (found, (_, z)) in draws.quantiles(&[(0, 2.0)], (0.0, 2.0), &at).iter().zip(at) {
            // the standard error of a quantile of 20,000 draws of p is at most 0.8·2·0.0153 = 0.024
            assert!((found - 2.0 * (0.3 + 0.8 * z)).abs() < 0.05, "{found} {z}");
        }
        // without weights nothing is changed, whatever the draws
        let equal = WeightedDraws::new(1, latents, &[0.0; 20_000]).expect("finite");
        let found = equal.quantiles(&[(0, 2.0)], (0.0, 2.0), &at);
        assert_eq!(found, at.map(|(_, z)| 2.0 * z));
    }
}
