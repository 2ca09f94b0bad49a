//! The effects of groups in a linear model with unknown noise: mixtures of Gaussians, one per node.

use std::ops::Range;

use certus::linalg;

use super::LinearNoise;
use crate::collapsed::{Effect, Node};
use certus_likelihood::special::normal_cdf;

impl LinearNoise {
    /// Groups that have rows.
    pub fn groups(&self) -> usize {
        self.codes.len()
    }

    /// The effects of some groups, by their places in the order of codes; `scales` are those of every node.
    pub fn effects_of(&self, groups: Range<usize>, nodes: &[Node], scales: &[Vec<f64>]) -> Vec<Effect> {
        let first = groups.start;
        let mut out = vec![None; groups.len()];
        certus::parallel::for_each_piece(&mut out, 64, 1, &|piece, part| {
            for (k, effect) in part.iter_mut().enumerate() {
                *effect = Some(self.effect(first + 64 * piece + k, nodes, scales));
            }
        });
        out.into_iter().flatten().collect()
    }

    fn effect(&self, g: usize, nodes: &[Node], all: &[Vec<f64>]) -> Effect {
        let (d, group) = (self.dim, &self.groups[g * (2 + self.dim)..][..2 + self.dim]);
        let mut parts = Vec::with_capacity(nodes.len());
        // Cov(v, β) = Σ weight (−gain H⁻¹x_g + E v β̂) − E v E β
        let (mut covariance, mut center) = (vec![0.0; d], vec![0.0; d]);
        for (node, scales) in nodes.iter().zip(all) {
            let noise = 1.0 / (scales[1] * scales[1]);
            let variance = 1.0 / (1.0 / (scales[0] * scales[0]) + noise * group[0]);
            let gain = variance * noise;
            let mean = gain * (group[1] - linalg::dot(&group[2..], &self.delta(&node.mean)));
            // dE v/dβ = −gain·x_g
            let mut turned = vec![0.0; d];
            linalg::add_transpose_times(&node.factor, d, true, &group[2..], &mut turned);
            let spread = variance + gain * gain * linalg::norm_squared(&turned);
            parts.push((node.weight, mean, spread.sqrt()));
            let mut along = vec![0.0; d];
            linalg::add_square_times(&node.factor, d, true, &turned, &mut along);
            for j in 0..d {
                covariance[j] += node.weight * (mean * node.mean[j] - gain * along[j]);
                center[j] += node.weight * node.mean[j];
            }
        }
        let mean: f64 = parts.iter().map(|(w, m, _)| w * m).sum();
        let sd = parts.iter().map(|(w, m, s)| w * (s * s + (m - mean).powi(2))).sum::<f64>().sqrt();
        let (code, rows) = self.codes[g];
        let quantiles = [0.05, 0.5, 0.95].map(|p| quantile(&parts, p, mean, sd));
        covariance.iter_mut().zip(&center).for_each(|(c, b)| *c -= mean * b);
        Effect { group: code, rows, mean, sd, quantiles, covariance }
    }
}

/// The p-quantile of a mixture of Gaussians (weight, mean, sd), by Newton's method between ends that close in.
fn quantile(parts: &[(f64, f64, f64)], p: f64, mean: f64, sd: f64) -> f64 {
    if sd == 0.0 {
        return mean;
    }
    let (mut low, mut high) = (mean - 20.0 * sd, mean + 20.0 * sd);
    let mut x = mean;
    for _ in 0..60 {
        let (mut below, mut density) = (-p, 0.0);
        for (w, m, s) in parts {
            let z = (x - m) / s;
            below += w * normal_cdf(z);
            density += w * (-0.5 * z * z).exp() / (s * std::f64::consts::TAU.sqrt());
        }
        if below > 0.0 {
            high = x
        } else {
            low = x
        }
        let newton = x - below / density;
        let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
        if (next - x).abs() < 1e-6 * sd {
            return next;
        }
        x = next;
    }
    x
}
