//! A mixture of Gaussians over a grid of sds, and the laws that follow from it.

use super::effects::quantile;
use certus_likelihood::special::normal_cdf;

/// One node of the grid.
#[derive(Clone, Debug)]
pub struct Node {
    /// The sd.
    pub sd: f64,
    /// Its weight; all weights sum to 1.
    pub weight: f64,
    /// β̂.
    pub mean: Vec<f64>,
    /// Lower factor of H⁻¹.
    pub factor: Vec<f64>,
    /// Bound on the error of F there.
    pub error: f64,
}

/// The posterior of β and σ: a mixture of Gaussians.
#[derive(Clone, Debug)]
pub struct Mixture {
    /// From the smallest sd to the largest.
    pub nodes: Vec<Node>,
    /// log ∫∫ e^{−F} p(σ) dβ dσ, estimated: by Gaussian integrals over β.
    pub log_evidence: f64,
    /// What halving the step changed last: of the means, in sds, and of the sds, in parts.
    pub refinement: f64,
    /// Evaluations of F.
    pub evaluations: usize,
}

/// Weights that sum to 1, as e^{log}, and the logarithm of what was the sum.
pub(crate) fn weights(logs: &[f64]) -> (Vec<f64>, f64) {
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logs.iter().map(|l| (l - most).exp()).sum();
    (logs.iter().map(|l| (l - most).exp() / sum).collect(), most + sum.ln())
}

impl Mixture {
    /// Mean and sd of coefficient j.
    pub fn coefficient(&self, j: usize) -> (f64, f64) {
        let (mut mean, mut square) = (0.0, 0.0);
        for node in &self.nodes {
            mean += node.weight * node.mean[j];
        }
        for node in &self.nodes {
            square += node.weight * (node.sd_of(j).powi(2) + (node.mean[j] - mean).powi(2));
        }
        (mean, square.sqrt())
    }

    /// The quantile of coefficient j: the root of the mixture's distribution function, by halves.
    pub fn quantile(&self, j: usize, p: f64) -> f64 {
        let ends = self.nodes.iter().map(|n| (n.mean[j], 12.0 * n.sd_of(j)));
        let (mut low, mut high) =
            ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), (m, s)| (l.min(m - s), h.max(m + s)));
        let below = |x: f64| -> f64 {
            self.nodes.iter().map(|n| n.weight * normal_cdf((x - n.mean[j]) / n.sd_of(j))).sum()
        };
        for _ in 0..100 {
            let middle = 0.5 * (low + high);
            if below(middle) < p { low = middle } else { high = middle }
        }
        0.5 * (low + high)
    }

    /// Mean and sd of the group sd.
    pub fn sd(&self) -> (f64, f64) {
        let mean: f64 = self.nodes.iter().map(|n| n.weight * n.sd).sum();
        let square: f64 = self.nodes.iter().map(|n| n.weight * (n.sd - mean).powi(2)).sum();
        (mean, square.sqrt())
    }

    /// The quantile of the group sd.
    pub fn sd_quantile(&self, p: f64) -> f64 {
        let [first, last] = [0, self.nodes.len() - 1].map(|k| self.nodes[k].sd.ln());
        let weights: Vec<f64> = self.nodes.iter().map(|n| n.weight).collect();
        let mut law = Vec::new();
        add_line(&mut law, first, (last - first) / (weights.len() - 1).max(1) as f64, &weights);
        quantile(&law, p).exp()
    }

    /// Fewer nodes for work that is done at each: every second or third of a fine grid, so that a dozen or more remain,
    /// and none that weighs less than 1e-6. Steps of an sd of log σ move means and sds by about 1e-4 sd.
    #[must_use]
    pub fn thinned(&self) -> Mixture {
        let stride = (self.nodes.len() / 12).clamp(1, 3);
        let most =
            (0..self.nodes.len()).max_by(|a, b| self.nodes[*a].weight.total_cmp(&self.nodes[*b].weight));
        let from = most.unwrap_or(0) % stride;
        let mut nodes: Vec<Node> =
            self.nodes.iter().skip(from).step_by(stride).filter(|n| n.weight > 1e-6).cloned().collect();
        let sum: f64 = nodes.iter().map(|n| n.weight).sum();
        nodes.iter_mut().for_each(|n| n.weight /= sum);
        Mixture { nodes, ..self.clone() }
    }

    /// The largest difference between two mixtures: of means in sds, of sds in parts.
    pub(crate) fn differs(&self, other: &Mixture) -> f64 {
        let pair = |a: (f64, f64), b: (f64, f64)| ((a.0 - b.0).abs() / a.1).max((a.1 / b.1 - 1.0).abs());
        let dim = self.nodes[0].mean.len();
        let coefficients = (0..dim).map(|j| pair(self.coefficient(j), other.coefficient(j)));
        coefficients.chain([pair(self.sd(), other.sd())]).fold(0.0, f64::max)
    }
}

/// Adds to a law the masses of 16 pieces between every two nodes at even distances, whose sum is that of the nodes. The
/// logarithm of the density is a cubic through four nodes, none of them so low that it makes the cubic swing (e⁻⁴⁰ of
/// the highest), else a straight line.
pub(crate) fn add_line(law: &mut Vec<(f64, f64)>, start: f64, step: f64, weights: &[f64]) {
    const PIECES: usize = 16;
    let (n, total) = (weights.len(), weights.iter().sum::<f64>());
    if n == 1 {
        law.push((start, total));
        return;
    }
    let log: Vec<f64> = weights.iter().map(|w| w.max(f64::MIN_POSITIVE).ln()).collect();
    let most = log.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut pieces = Vec::with_capacity((n - 1) * PIECES);
    for k in 0..n - 1 {
        let sound = |base: usize| base + 4 <= n && log[base..base + 4].iter().all(|l| *l > most - 40.0);
        let bases = [k.checked_sub(1), Some(k), k.checked_sub(2)];
        let points = match bases.into_iter().flatten().find(|b| sound(*b)) {
            Some(base) => base..base + 4,
            None => k..k + 2,
        };
        let density = |part: usize| -> f64 {
            let x = k as f64 + part as f64 / PIECES as f64;
            let weigh = |j: usize| -> f64 {
                points.clone().filter(|l| *l != j).map(|l| (x - l as f64) / (j as f64 - l as f64)).product()
            };
            points.clone().map(|j| weigh(j) * log[j]).sum::<f64>().exp()
        };
        let values: Vec<f64> = (0..=PIECES).map(density).collect();
        pieces.extend(values.windows(2).map(|v| 0.5 * (v[0] + v[1])));
    }
    let sum: f64 = pieces.iter().sum();
    let place = |k: usize| start + step * (k as f64 + 0.5) / PIECES as f64;
    law.extend(pieces.iter().enumerate().map(|(k, piece)| (place(k), total * piece / sum)));
}

impl Node {
    /// The sd of coefficient j.
    pub fn sd_of(&self, j: usize) -> f64 {
        let d = self.mean.len();
        (0..=j).map(|k| self.factor[k * d + j].powi(2)).sum::<f64>().sqrt()
    }
}
