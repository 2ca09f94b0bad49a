//! A density that covers the posterior, to draw from: the mixture over the scales made continuous in them, with the
//! tails of Student's t in the coefficients.
//!
//! A component has θ = c + S u, u ~ N(0, I), and β = b + Δu + L t with t a vector of Student's distribution with ν
//! degrees of freedom. Those of the grid have a node for c, its steps for the columns of S and what a step changes of
//! β̂ for those of Δ; their weights are flattened. The adapted one has the moments of a pilot.

use std::f64::consts::PI;

use certus::linalg;
use certus::random::{Purpose, Random};
use certus_likelihood::special::ln_gamma;

use crate::collapsed::Node;
use crate::scales::Grid;

/// ν: the tails of β fall like |β|^{−ν−d}.
pub(super) const FREEDOM: usize = 5;
/// The power of the weights of the grid that components have, which widens the law of the scales by 1/√power.
const FLATTENED: f64 = 0.75;
/// Weights of the grid that no component is made of.
const LIGHT: f64 = 1e-9;
/// The factor of the sds of the adapted component.
const WIDER: f64 = 1.2;
/// Components this many sds of u away add nothing: e⁻³² of their height.
const FAR: f64 = 8.0;
/// The first stream of the draws; each batch has two ([`Purpose`] lists them all).
const STREAM: u64 = 1 << 41;

/// One component.
#[derive(Clone, Debug)]
struct Component {
    weight: f64,
    /// c, and S, lower triangular, with its determinant's logarithm.
    scales: Vec<f64>,
    steps: Vec<f64>,
    /// b, Δ column by column, and L.
    beta: Vec<f64>,
    slopes: Vec<f64>,
    factor: Vec<f64>,
    /// log of weight/(|det S| |det L|).
    log_height: f64,
}

/// A mixture of such components.
#[derive(Clone, Debug)]
pub struct Proposal {
    coefficients: usize,
    scales: usize,
    components: Vec<Component>,
}

fn log_diagonal(lower: &[f64], n: usize) -> f64 {
    lower.iter().step_by(n + 1).map(|x| x.abs().ln()).sum()
}

/// x ← L⁻¹x for a small lower triangular L, column-major.
fn forward(lower: &[f64], x: &mut [f64]) {
    let n = x.len();
    for j in 0..n {
        x[j] /= lower[j * (n + 1)];
        for i in j + 1..n {
            x[i] -= lower[j * n + i] * x[j];
        }
    }
}

impl Component {
    fn new(weight: f64, center: [Vec<f64>; 2], steps: Vec<f64>, slopes: Vec<f64>, factor: Vec<f64>) -> Self {
        let [beta, scales] = center;
        let log_height = weight.ln() - log_diagonal(&steps, scales.len()) - log_diagonal(&factor, beta.len());
        Self { weight, scales, steps, beta, slopes, factor, log_height }
    }

    /// The logarithm of what it adds to the density, without the constants that all have; `None` if it is nothing.
    /// `room` is for d numbers.
    fn log_density(&self, point: &[f64], room: &mut [f64]) -> Option<f64> {
        let (d, k) = (self.beta.len(), self.scales.len());
        let mut u = [0.0; 2];
        (0..k).for_each(|j| u[j] = point[d + j] - self.scales[j]);
        forward(&self.steps, &mut u[..k]);
        let apart = linalg::norm_squared(&u[..k]);
        if apart > FAR * FAR {
            return None;
        }
        room.iter_mut().zip(&point[..d]).zip(&self.beta).for_each(|((t, x), b)| *t = x - b);
        for (j, u) in u[..k].iter().enumerate() {
            room.iter_mut().zip(&self.slopes[j * d..][..d]).for_each(|(t, s)| *t -= u * s);
        }
        forward(&self.factor, room);
        let nu = FREEDOM as f64;
        let student = -0.5 * (nu + d as f64) * (linalg::norm_squared(room) / nu).ln_1p();
        Some(self.log_height - 0.5 * apart + student)
    }

    /// The point of normal numbers: those of u, of β, and ν for the length of t.
    fn point(&self, normals: &[f64], out: &mut [f64]) {
        let (d, k) = (self.beta.len(), self.scales.len());
        let (u, rest) = normals.split_at(k);
        let (z, chi) = rest.split_at(d);
        let length = (FREEDOM as f64 / linalg::norm_squared(chi)).sqrt();
        let (beta, scales) = out.split_at_mut(d);
        scales.copy_from_slice(&self.scales);
        linalg::add_square_times(&self.steps, k, true, u, scales);
        beta.copy_from_slice(&self.beta);
        for (j, u) in u.iter().enumerate() {
            beta.iter_mut().zip(&self.slopes[j * d..][..d]).for_each(|(b, s)| *b += u * s);
        }
        let t: Vec<f64> = z.iter().map(|z| z * length).collect();
        linalg::add_square_times(&self.factor, d, true, &t, beta);
    }
}

impl Proposal {
    /// Of the nodes of a grid, with their scales and places, or of every second, third … of them where the grid is so
    /// fine that its steps are shorter than an sd. `None` if the grid has no extent.
    pub fn of_grid(nodes: &[Node], scales: &[Vec<f64>], keys: &[[i64; 2]]) -> Option<Self> {
        let (d, k) = (nodes.first()?.mean.len(), scales.first()?.len());
        let weights: Vec<f64> = nodes.iter().map(|n| n.weight).collect();
        let most = (0..nodes.len()).max_by(|a, b| weights[*a].total_cmp(&weights[*b]))?;
        // the sds of the keys are those of the scales in steps
        let stride = |axis: usize| {
            let each = || weights.iter().zip(keys).map(|(w, key)| (w, key[axis] as f64));
            let mean: f64 = each().map(|(w, x)| w * x).sum();
            (each().map(|(w, x)| w * (x - mean).powi(2)).sum::<f64>().sqrt() as i64).max(1)
        };
        let strides = [stride(0), stride(1)];
        // log scales are linear in the keys, with lower triangular steps but for linear models
        let mut steps = Grid::new(keys, scales, &weights).steps_of(k)?;
        for (axis, stride) in strides[..k].iter().enumerate() {
            steps[axis * k..][..k].iter_mut().for_each(|s| *s *= *stride as f64);
        }
        let place = |key: [i64; 2]| keys.binary_search(&key).ok();
        let taken = |at: &usize| {
            let on = |axis: usize| (keys[*at][axis] - keys[most][axis]) % strides[axis] == 0;
            weights[*at] > LIGHT && on(0) && on(1)
        };
        // what a step changes of β̂: half of the difference of the neighbours, where there are two
        let slope = |at: usize, axis: usize| -> Vec<f64> {
            let near = |sign: i64| {
                let mut key = keys[at];
                key[axis] += sign * strides[axis];
                place(key)
            };
            let (left, right) = (near(-1), near(1));
            let count = f64::from(u8::from(left.is_some()) + u8::from(right.is_some())).max(1.0);
            let [a, b] = [left, right].map(|near| &nodes[near.unwrap_or(at)].mean);
            b.iter().zip(a).map(|(b, a)| (b - a) / count).collect()
        };
        let flat: Vec<f64> = weights.iter().map(|w| w.powf(FLATTENED)).collect();
        let total: f64 = (0..nodes.len()).filter(taken).map(|at| flat[at]).sum();
        let one = |at: usize| {
            let logs = scales[at].iter().map(|s| s.ln()).collect();
            let slopes = (0..k).flat_map(|axis| slope(at, axis)).collect();
            let center = [nodes[at].mean.clone(), logs];
            Component::new(flat[at] / total, center, steps.clone(), slopes, nodes[at].factor.clone())
        };
        let components = (0..nodes.len()).filter(taken).map(one).collect();
        Some(Self { coefficients: d, scales: k, components })
    }

    /// Half of it, and half a component with this mean and covariance of (β, log scales), a little wider; unchanged if
    /// the covariance is singular.
    #[must_use]
    pub fn adapted(&self, mean: &[f64], covariance: &[f64]) -> Self {
        let (d, k) = (self.coefficients, self.scales);
        let n = d + k;
        // with the scales first: S, Δ and L are the blocks of one factor
        let order: Vec<usize> = (d..n).chain(0..d).collect();
        let mut joint: Vec<f64> = vec![0.0; n * n];
        for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
            joint[j * n + i] = WIDER * WIDER * covariance[order[j] * n + order[i]];
        }
        if !linalg::cholesky(&mut joint, n) {
            return self.clone();
        }
        let block = |rows: std::ops::Range<usize>, columns: std::ops::Range<usize>| -> Vec<f64> {
            columns.flat_map(|j| joint[j * n..][rows.clone()].to_vec()).collect()
        };
        let center = [mean[..d].to_vec(), mean[d..].to_vec()];
        let own = Component::new(0.5, center, block(0..k, 0..k), block(k..n, 0..k), block(k..n, k..n));
        let halved = self.components.iter().map(|c| Component {
            weight: 0.5 * c.weight,
            log_height: c.log_height - 2f64.ln(),
            ..c.clone()
        });
        Self { components: halved.chain([own]).collect(), ..*self }
    }

    /// Coefficients and scales.
    pub fn dim(&self) -> usize {
        self.coefficients + self.scales
    }

    /// log q at a point.
    pub fn log_density(&self, point: &[f64]) -> f64 {
        let (nu, d) = (FREEDOM as f64, self.coefficients as f64);
        let student = ln_gamma(0.5 * (nu + d)) - ln_gamma(0.5 * nu) - 0.5 * d * (nu * PI).ln();
        let constant = student - 0.5 * self.scales as f64 * (2.0 * PI).ln();
        let mut room = vec![0.0; self.coefficients];
        let each: Vec<f64> = self.components.iter().filter_map(|c| c.log_density(point, &mut room)).collect();
        let most = each.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        most + each.iter().map(|x| (x - most).exp()).sum::<f64>().ln() + constant
    }

    /// Draws, one after the other; draw k of a batch depends on the seed and k only.
    pub fn draws(&self, n: usize, seed: u64, batch: u64) -> Vec<f64> {
        let (dim, each) = (self.dim(), self.dim() + FREEDOM);
        let random = Random::new(seed, Purpose::Estimate, 0);
        let (mut normals, mut luck, mut out) = (vec![0.0; each * n], vec![0.0; n], vec![0.0; dim * n]);
        random.normals(STREAM + 2 * batch, 0, each, &mut normals);
        random.uniforms(STREAM + 2 * batch + 1, 0, 1, &mut luck);
        let last = self.components.len() - 1;
        for ((z, luck), out) in normals.chunks_exact(each).zip(luck).zip(out.chunks_exact_mut(dim)) {
            let mut below = 0.0;
            let chosen = self.components.iter().position(|c| {
                below += c.weight;
                luck < below
            });
            self.components[chosen.unwrap_or(last)].point(z, out);
        }
        out
    }
}
