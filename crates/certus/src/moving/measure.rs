//! What fresh pairs say of an iterate: the squared gradient without the bias of noise, hence an estimate of the gap;
//! the noise; the negative ELBO; the weights; and whether −log p is convex where q lives.

use super::concavity::CONCAVE;
use super::{Axes, Pairs};
use crate::diagnostics::Estimate;
use crate::error::Error;
use crate::gaussian::Gaussian;
use crate::linalg;
use crate::random::Random;
use crate::target::{Change, Target, Witness};

/// Pairs that are evaluated together.
const RUN: usize = 32;

/// Measured at one Gaussian from fresh draws.
#[derive(Clone, Debug)]
pub struct Measured {
    /// ½ gᵀH⁻¹g, H the Hessian of a Gaussian target: about the gap.
    pub gap: Estimate,
    /// The variance of the gradient of one pair, in the same metric.
    pub noise: f64,
    /// f(w).
    pub neg_elbo: Estimate,
    /// log p − log q at every draw.
    pub log_weights: Vec<f64>,
    /// Two draws between which −log p bends the wrong way, if there are any.
    pub witness: Option<Witness>,
    /// Single-point gradients spent.
    pub gradients: u64,
    iteration: u64,
}

/// The mean gradient of one block of pairs.
struct Block {
    mean: Vec<f64>,
    factor: Axes,
}

/// Blocks of pairs: as many as keep their gradients in 256 MB, at most 16.
fn blocks(axes: &Axes) -> usize {
    ((1 << 25) / axes.values().len()).clamp(2, 16)
}

impl Measured {
    /// Measures at `w` with `pairs` pairs (rounded up to whole blocks) of the given iteration of `random`.
    ///
    /// With ḡ_a of B independent blocks the mean of ⟨ḡ_a, ḡ_b⟩ over a ≠ b is |g|² on average, however noisy the blocks
    /// are; its standard error is the jackknife's over blocks.
    pub fn new(
        target: &dyn Target,
        w: &Gaussian,
        random: &Random,
        iteration: u64,
        pairs: usize,
    ) -> Result<Self, Error> {
        let (dim, axes) = (w.dim(), Axes::of(w.factor()));
        let count = blocks(&axes);
        let size = pairs.div_ceil(count).max(2);
        let constant = w.log_normaliser();
        let (mut log_weights, mut terms) = (Vec::with_capacity(2 * size * count), Vec::new());
        let (mut p, mut witness, mut gradients) = (Pairs::default(), None, Vec::with_capacity(count));
        for block in 0..count {
            let mut sum = Block { mean: vec![0.0; dim], factor: axes.zeros_like() };
            for start in (block * size..(block + 1) * size).step_by(RUN) {
                let n = RUN.min((block + 1) * size - start);
                p.evaluate(target, w.mean(), &axes, random, iteration, start as u64, n)?;
                witness = witness.or_else(|| concave(&p, dim));
                for (k, u) in p.u.chunks_exact(dim).enumerate() {
                    let rest = constant + 0.5 * linalg::norm_squared(u);
                    let (plus, minus) = (p.values[k] + rest, p.values[n + k] + rest);
                    log_weights.extend([plus, minus]);
                    terms.push(-0.5 * (plus + minus));
                }
                p.add_gradients(&axes, 1.0 / size as f64, &mut sum.mean, &mut sum.factor);
            }
            let mut mean = vec![0.0; dim];
            axes.add_apply_transpose(&sum.mean, &mut mean);
            gradients.push(Block { mean, ..sum });
        }
        let (signal, square) = signal(&gradients);
        Ok(Self {
            gap: Estimate { value: 0.5 * signal.value, standard_error: 0.5 * signal.standard_error },
            noise: size as f64 * (square - signal.value).max(0.0),
            neg_elbo: Estimate::of(&terms),
            gradients: log_weights.len() as u64,
            log_weights,
            witness,
            iteration,
        })
    }

    /// The first `count` of the draws whose weights are `log_weights`, one after the other; `w` and `random` as before.
    pub(crate) fn latents(&self, w: &Gaussian, random: &Random, count: usize) -> Vec<f64> {
        let dim = w.dim();
        let mut u = vec![0.0; dim * count.div_ceil(2)];
        random.normals(self.iteration, 0, dim, &mut u);
        let mut both = Vec::with_capacity(2 * u.len());
        for u in u.chunks_exact(dim) {
            both.extend_from_slice(u);
            both.extend(u.iter().map(|x| -x));
        }
        both.truncate(dim * count);
        let mut z = vec![0.0; both.len()];
        w.transform(&both, &mut z);
        z
    }
}

/// The mean of gᵀH⁻¹g′ over pairs of different blocks with its jackknife error, and the mean over equal ones.
fn signal(blocks: &[Block]) -> (Estimate, f64) {
    let n = blocks.len();
    let mut products = vec![0.0; n * n];
    for (a, left) in blocks.iter().enumerate() {
        let mut direction = left.factor.clone();
        direction.precondition();
        for (b, right) in blocks.iter().enumerate().skip(a) {
            let product =
                linalg::dot(&left.mean, &right.mean) + linalg::dot(direction.values(), right.factor.values());
            (products[a * n + b], products[b * n + a]) = (product, product);
        }
    }
    let diagonal: f64 = products.iter().step_by(n + 1).sum();
    // what block a shares with the others, and what is left without it
    let shared: Vec<f64> =
        (0..n).map(|a| products[a * n..][..n].iter().sum::<f64>() - products[a * n + a]).collect();
    let total: f64 = shared.iter().sum();
    let m = n as f64;
    let value = total / (m * (m - 1.0));
    let variance = if n < 3 {
        value * value
    } else {
        let without: Vec<f64> = shared.iter().map(|s| (total - 2.0 * s) / ((m - 1.0) * (m - 2.0))).collect();
        let mean = without.iter().sum::<f64>() / m;
        without.iter().map(|x| (x - mean).powi(2)).sum::<f64>() * (m - 1.0) / m
    };
    (Estimate { value, standard_error: variance.sqrt() }, diagonal / m)
}

/// Two points of these pairs with ⟨π − π′, z − z′⟩ < −0.02 |u − u′|², π = −∇ log p: −log p is not convex between them.
fn concave(pairs: &Pairs, dim: usize) -> Option<Witness> {
    let (points, gradients) = pairs.ends();
    let n = pairs.u.len() / dim;
    // both ends of a pair, and the same end of neighbours
    let ends = (0..n).map(|k| (k, n + k));
    let neighbours = (1..n).flat_map(|k| [(k - 1, k), (n + k - 1, n + k), (k - 1, n + k)]);
    for (i, j) in ends.chain(neighbours) {
        let sign = |k: usize| if k < n { 1.0 } else { -1.0 };
        let place = |k: usize| k * dim..(k + 1) * dim;
        let between = |x: &[f64], c: usize| x[i * dim + c] - x[j * dim + c];
        let change = Change::new((0..dim).map(|c| (between(points, c), between(gradients, c))));
        let u = |c: usize| sign(i) * pairs.u[i % n * dim + c] - sign(j) * pairs.u[j % n * dim + c];
        let apart: f64 = (0..dim).map(|c| u(c) * u(c)).sum();
        if change.product < -CONCAVE * apart && apart > 0.25 {
            return Some(change.witness([points[place(i)].to_vec(), points[place(j)].to_vec()]));
        }
    }
    None
}
