//! Pareto-smoothed importance sampling (Vehtari, Simpson, Gelman, Yao and Gabry 2024): how heavy the tail of importance
//! weights is, and weights whose tail is replaced by that of the fitted distribution.
//!
//! Every function takes **log weights** log p − log q, as `arviz.psislw` and R's `loo` do; `arviz_stats` takes their
//! negative. The length of the tail is that of the paper, ⌈min(S/5, 3√S)⌉; `arviz_stats` 0.8 rounds it down, so its k̂
//! differs in the second digit or so unless 3√S (or S/5 up to S = 225) is a whole number.

use crate::error::Error;

/// The result of smoothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Smoothed {
    /// The fitted shape of the tail; none if fewer than five weights lie above the cutoff (fewer than 21 draws, or
    /// ties: equal weights have no tail).
    ///
    /// Weights have a finite variance below ½; estimates from them can be trusted below about 0.7, and at no affordable
    /// number of draws above 1.
    pub k_hat: Option<f64>,
    /// Log weights in the order given, smoothed if there is a k̂, that sum to one.
    pub log_weights: Vec<f64>,
}

/// k̂ alone.
pub fn k_hat(log_weights: &[f64]) -> Option<f64> {
    smooth(log_weights).ok().and_then(|s| s.k_hat)
}

/// The mean excess of the tail over its cutoff, as a part of the cutoff, below which the shape of the tail is not that
/// of a distribution with heavy tails.
const SMALL_EXCESS: f64 = 1.0 / 3.0;

/// k̂, unless the weights vary so little that the shape of their tail does not matter: then the index of the Pareto
/// distribution with the same mean excess.
///
/// Of nearly equal weights k̂ can be any number, because it does not depend on their scale: where q is nearly p, the
/// weights next to a local maximum of p/q and a few others make up the tail, and k̂ is 2 or 5. A Pareto tail of index k
/// has a mean excess of k/(1 − k) of its cutoff, at every cutoff, so one below a third of it excludes k ≥ ¼.
pub fn tail_index(log_weights: &[f64]) -> Option<f64> {
    let k_hat = k_hat(log_weights)?;
    let mut sorted = log_weights.to_vec();
    sorted.sort_by(f64::total_cmp);
    let length = tail_length(sorted.len());
    let cutoff = sorted[sorted.len() - length - 1];
    let tail = &sorted[sorted.len() - length..];
    let excess = tail.iter().map(|x| (x - cutoff).exp_m1()).sum::<f64>() / length as f64;
    Some(if excess < SMALL_EXCESS { k_hat.min(excess / (1.0 + excess)) } else { k_hat })
}

/// M = ⌈min(S/5, 3√S)⌉.
fn tail_length(count: usize) -> usize {
    let s = count as f64;
    (0.2 * s).min(3.0 * s.sqrt()).ceil() as usize
}

/// Fits the tail of M = ⌈min(S/5, 3√S)⌉ weights above the (S−M)-th smallest and replaces it by the quantiles
/// (i − ½)/M of the fit, none above the largest weight given.
pub fn smooth(log_weights: &[f64]) -> Result<Smoothed, Error> {
    let Some(largest) = log_weights.iter().copied().reduce(f64::max) else {
        return Err(Error::invalid("the number of weights", 0, "at least one is required"));
    };
    if let Some(i) = log_weights.iter().position(|x| !x.is_finite()) {
        let place = format!("draw {i} of {}", log_weights.len());
        return Err(Error::NonFinite { what: "the log weight", value: log_weights[i], place });
    }
    let mut x: Vec<f64> = log_weights.iter().map(|v| v - largest).collect();
    let k_hat = smooth_tail(&mut x);
    let total = x.iter().map(|v| v.exp()).sum::<f64>().ln();
    x.iter_mut().for_each(|v| *v -= total);
    Ok(Smoothed { k_hat, log_weights: x })
}

/// The same on log weights whose largest is 0.
fn smooth_tail(x: &mut [f64]) -> Option<f64> {
    let mut order: Vec<usize> = (0..x.len()).collect();
    order.sort_by(|&i, &j| x[i].total_cmp(&x[j]));
    let length = tail_length(x.len());
    let below = x.len().checked_sub(length + 1)?;
    // weights that underflow carry no information on the tail
    let cutoff = x[order[below]].max(f64::MIN_POSITIVE.ln());
    let tail: Vec<usize> = order.into_iter().filter(|&i| x[i] > cutoff).collect();
    if tail.len() < 5 {
        return None;
    }
    // e^x − e^cutoff without cancellation
    let excess: Vec<f64> = tail.iter().map(|&i| cutoff.exp() * (x[i] - cutoff).exp_m1()).collect();
    let fit = Pareto::fit(&excess)?;
    let n = tail.len() as f64;
    for (rank, i) in tail.into_iter().enumerate() {
        x[i] = (fit.quantile((rank as f64 + 0.5) / n) + cutoff.exp()).ln().min(0.0);
    }
    Some(fit.shape)
}

/// A generalised Pareto distribution on (0, ∞): P(X > x) = (1 + k x/σ)^{−1/k}.
#[derive(Debug)]
struct Pareto {
    shape: f64,
    scale: f64,
}

impl Pareto {
    /// Zhang and Stephens (2009) for increasing positive `x`, then k pulled towards ½ with the weight of ten draws.
    ///
    /// With b = −k/σ the likelihood at its best k, k(b) = mean log(1 − b x), is n(log(−b/k(b)) − k(b) − 1). b is the
    /// mean of a grid with weights proportional to it; the grid ends at 1/max x and is spread by the first quartile.
    fn fit(x: &[f64]) -> Option<Self> {
        let n = x.len() as f64;
        let (quartile, largest) = (x[(0.25 * n + 0.5) as usize - 1], x[x.len() - 1]);
        let points = 30.0 + n.sqrt().floor();
        let shape_at = |b: f64| x.iter().map(|x| (-b * x).ln_1p()).sum::<f64>() / n;
        let grid: Vec<(f64, f64)> = (0..points as usize)
            .map(|j| {
                let b = 1.0 / largest + (1.0 - (points / (j as f64 + 0.5)).sqrt()) / (3.0 * quartile);
                let k = shape_at(b);
                (b, n * ((-b / k).ln() - k - 1.0))
            })
            .collect();
        let best = grid.iter().map(|g| g.1).fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = grid.iter().map(|g| (g.1 - best).exp()).sum();
        let (mut weight, mut mean) = (0.0, 0.0);
        for (b, likelihood) in grid {
            let share = (likelihood - best).exp() / total;
            // ArviZ leaves out what is below rounding
            if share >= 10.0 * f64::EPSILON {
                weight += share;
                mean += share * b;
            }
        }
        let b = mean / weight;
        let k = shape_at(b);
        let fit = Self { shape: (n * k + 5.0) / (n + 10.0), scale: -k / b };
        (fit.shape.is_finite() && fit.scale > 0.0 && fit.scale.is_finite()).then_some(fit)
    }

    /// σ((1 − p)^{−k} − 1)/k.
    fn quantile(&self, p: f64) -> f64 {
        let t = -(-p).ln_1p();
        let growth = if self.shape.abs() < f64::EPSILON { t } else { (self.shape * t).exp_m1() / self.shape };
        self.scale * growth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F(quantile(p)) = p for the distribution function written from its definition, also at k = 0.
    #[test]
    fn quantiles_invert_the_distribution_function() {
        for shape in [-0.7f64, 0.0, 1e-9, 0.4, 1.5] {
            let pareto = Pareto { shape, scale: 2.5 };
            for p in [1e-6, 0.1, 0.5, 0.99] {
                let x = pareto.quantile(p) / 2.5;
                let log_survival = if shape == 0.0 { -x } else { -(shape * x).ln_1p() / shape };
                assert!((log_survival.exp() - (1.0 - p)).abs() < 1e-14, "{shape} {p}");
            }
        }
    }

    /// The fit finds the shape of exact quantiles: unpulled, k is within the error of its posterior mean.
    #[test]
    fn the_fit_finds_the_shape() {
        for shape in [-0.3, 0.2, 0.9] {
            let truth = Pareto { shape, scale: 0.7 };
            let n = 2000;
            let x: Vec<f64> = (0..n).map(|i| truth.quantile((i as f64 + 0.5) / n as f64)).collect();
            let fit = Pareto::fit(&x).unwrap();
            let unpulled = (fit.shape * (n + 10) as f64 - 5.0) / n as f64;
            assert!((unpulled - shape).abs() < 0.01 && (fit.scale / 0.7 - 1.0).abs() < 0.01, "{fit:?}");
        }
    }

    #[test]
    fn nothing_is_fitted_to_too_few_or_equal_weights() {
        for weights in [vec![3.0; 100], vec![1.0], (0..20).map(f64::from).collect()] {
            let s = smooth(&weights).unwrap();
            assert_eq!(s.k_hat, None);
            let sum: f64 = s.log_weights.iter().map(|x| x.exp()).sum();
            assert!((sum - 1.0).abs() < 1e-14);
        }
        assert!(k_hat(&(0..21).map(f64::from).collect::<Vec<_>>()).is_some());
        assert!(smooth(&[]).is_err());
        assert!(smooth(&[0.0, f64::NEG_INFINITY]).unwrap_err().to_string().contains("draw 1 of 2"));
    }
}
