//! What fresh pairs say of an iterate: the squared gradient without the bias of noise, hence an estimate of the gap; the noise; the
//! negative ELBO; the weights; and whether −log p is convex where q lives.

use super::{Axes, Pairs};
use crate::diagnostics::Estimate;
use crate::error::Error;
use crate::gaussian::Gaussian;
use crate::linalg;
use crate::random::Random;
use crate::target::{Target, Witness};

/// Pairs that are evaluated together.
const RUN: usize = 32;
/// A measured curvature below minus this, in the frame of q, is a witness against convexity: far above rounding, far below the 1 of a
/// Gaussian.
const CONCAVE: f64 = 0.02;

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
}

/// One half of the pairs: the mean gradient and the mean of its square.
struct Half {
    mean: Vec<f64>,
    factor: Axes,
    square: f64,
}

impl Measured {
    /// Measures at `w` with 2 × `half` pairs of the given iteration of `random`.
    ///
    /// With ḡ₁ and ḡ₂ of two independent halves ⟨ḡ₁, ḡ₂⟩ has the mean |g|², however noisy the halves are. Its standard error is √2 that
    /// of ⟨g_k, ḡ₁⟩ over the second half, because both halves err alike.
    pub fn new(
        target: &dyn Target,
        w: &Gaussian,
        random: &Random,
        iteration: u64,
        half: usize,
    ) -> Result<Self, Error> {
        let half = half.max(2);
        let (dim, axes) = (w.dim(), Axes::of(w.factor()));
        let log_det = w.factor().log_det();
        let constant = log_det + 0.5 * dim as f64 * (2.0 * std::f64::consts::PI).ln();
        let mut out = Self {
            gap: Estimate { value: 0.0, standard_error: 0.0 },
            noise: 0.0,
            neg_elbo: Estimate { value: 0.0, standard_error: 0.0 },
            log_weights: Vec::with_capacity(4 * half),
            witness: None,
            gradients: 4 * half as u64,
        };
        let (mut pairs, mut means) = (Pairs::default(), Vec::with_capacity(2 * half));
        let mut visit = |first: usize, end: usize, see: &mut dyn FnMut(&Pairs)| -> Result<(), Error> {
            for start in (first..end).step_by(RUN) {
                let n = RUN.min(end - start);
                pairs.evaluate(target, w.mean(), &axes, random, iteration, start as u64, n)?;
                out.witness = out.witness.take().or_else(|| concave(&pairs, dim));
                for (k, u) in pairs.u.chunks_exact(dim).enumerate() {
                    let rest = constant + 0.5 * linalg::norm_squared(u);
                    let (plus, minus) = (pairs.values[k] + rest, pairs.values[n + k] + rest);
                    out.log_weights.extend([plus, minus]);
                    means.push(-0.5 * (plus + minus));
                }
                pairs.whiten(&axes);
                see(&pairs);
            }
            Ok(())
        };
        let mut first = Half::new(&axes, dim);
        visit(0, half, &mut |p| first.add(p, half))?;
        let mut direction = first.factor.clone();
        direction.precondition();
        let (mut second, mut products) = (Half::new(&axes, dim), Vec::with_capacity(half));
        let mut turned = Vec::new();
        visit(half, 2 * half, &mut |p| {
            second.add(p, half);
            turned.clear();
            turned.resize(p.u.len(), 0.0);
            direction.add_apply(&p.u, &mut turned);
            for k in (0..p.u.len()).step_by(dim) {
                let range = k..k + dim;
                products.push(
                    linalg::dot(&p.even[range.clone()], &first.mean)
                        + linalg::dot(&p.odd[range.clone()], &turned[range]),
                );
            }
        })?;
        let signal = Estimate::of(&products);
        let gradient =
            linalg::dot(&first.mean, &second.mean) + linalg::dot(direction.values(), second.factor.values());
        debug_assert!(
            (gradient - signal.value).abs() <= 1e-6 * (1.0 + gradient.abs() + signal.standard_error)
        );
        out.gap =
            Estimate { value: 0.5 * signal.value, standard_error: 0.5 * 2f64.sqrt() * signal.standard_error };
        out.noise = (0.5 * (first.square + second.square) - signal.value).max(0.0);
        out.neg_elbo = Estimate::of(&means);
        Ok(out)
    }
}

impl Half {
    fn new(axes: &Axes, dim: usize) -> Self {
        Self { mean: vec![0.0; dim], factor: axes.zeros_like(), square: 0.0 }
    }

    fn add(&mut self, p: &Pairs, half: usize) {
        let share = 1.0 / half as f64;
        linalg::add_columns(&mut self.mean, share, &p.even);
        self.factor.add_moment(share, &p.odd, &p.u);
        let dim = self.mean.len();
        for k in (0..p.u.len()).step_by(dim) {
            let (even, odd, u) = (&p.even[k..k + dim], &p.odd[k..k + dim], &p.u[k..k + dim]);
            // |sym(v uᵀ)|² /2 = (|v|²|u|² + (v·u)²)/4; a pattern has less
            let moment = linalg::norm_squared(odd) * linalg::norm_squared(u) + linalg::dot(odd, u).powi(2);
            self.square += share * (linalg::norm_squared(even) + 0.25 * moment);
        }
    }
}

/// Two points of these pairs with ⟨π − π′, z − z′⟩ < −0.02 |u − u′|², π = −∇ log p: −log p is not convex between them.
fn concave(pairs: &Pairs, dim: usize) -> Option<Witness> {
    let (points, gradients) = pairs.ends();
    let n = pairs.u.len() / dim;
    let at = |x: &[f64], k: usize| x[k * dim..(k + 1) * dim].to_vec();
    // both ends of a pair, and the same end of neighbours
    let ends = (0..n).map(|k| (k, n + k));
    let neighbours = (1..n).flat_map(|k| [(k - 1, k), (n + k - 1, n + k), (k - 1, n + k)]);
    for (i, j) in ends.chain(neighbours) {
        let sign = |k: usize| if k < n { 1.0 } else { -1.0 };
        let (mut product, mut length, mut apart) = (0.0, 0.0, 0.0);
        for c in 0..dim {
            let dz = points[i * dim + c] - points[j * dim + c];
            product += dz * (gradients[i * dim + c] - gradients[j * dim + c]);
            length += dz * dz;
            let u = sign(i) * pairs.u[i % n * dim + c] - sign(j) * pairs.u[j % n * dim + c];
            apart += u * u;
        }
        if product < -CONCAVE * apart && apart > 0.25 {
            let across = {
                let gap: f64 =
                    (0..dim).map(|c| (gradients[i * dim + c] - gradients[j * dim + c]).powi(2)).sum();
                (gap / length).sqrt()
            };
            return Some(Witness { points: [at(points, i), at(points, j)], along: product / length, across });
        }
    }
    None
}
