//! Linear models whose noise is not known, without groups or with one effect per group: everything given the scales is Gaussian and in closed form, from sums that
//! are taken once (docs/collapsed.md, part K8).
//!
//! y_i ~ N(x_iβ + offset_i + σ_v z_i u_g, σ²), λ = σ_v²/σ². With the sums of a group Z_g = Σwz², x_g = Σwzx, y_g = Σwzy and c_g = λ/(1 + λZ_g),
//!
//! ```text
//! −2ℓ = W log 2πσ² + Σ_g log(1 + λZ_g) + (q − 2bᵀβ + βᵀAβ)/σ²,
//! A = Σwxxᵀ − Σ_g c_g x_g x_gᵀ,   b = Σwxy − Σ_g c_g x_g y_g,   q = Σwy² − Σ_g c_g y_g².
//! ```
//!
//! The coordinates are (log √λ, log σ): A, b and q depend on the first alone, so a line of the lattice costs one pass over groups.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use certus::linalg;

use super::estimate::left_to_gain;
use super::{Care, Given, ScaleMixture, Scaled, ScalesEstimate};
use crate::collapsed::{Effect, SdPrior};
use crate::design::Design;
use crate::error::Error;
use crate::likelihood::Linear;
use crate::prior::Prior;
use crate::rows::{Pool, leaves};
use crate::special::normal_cdf;

/// An sd below this part of the noise is none.
const SMALLEST: f64 = 1e-4;
/// Groups of a piece of work.
const PIECE: usize = 256;

/// A linear model with unknown noise.
pub struct LinearNoise {
    prior: Prior,
    dim: usize,
    /// W, Σwy², then Σwxy, then Σwxxᵀ.
    sums: Vec<f64>,
    /// Per group: Z, Σwzy, Σwzx; nothing without groups.
    groups: Vec<f64>,
    /// The codes of groups that have rows, and their rows.
    codes: Vec<(usize, usize)>,
    grouped: bool,
    /// What rounding may take of a sum, as a part of the sum of sizes.
    rounding: f64,
    reduced: Mutex<BTreeMap<u64, Arc<Reduced>>>,
}

/// What the rows say at one λ: Σ log(1 + λZ), q, b, A.
struct Reduced {
    log_det: f64,
    q: f64,
    b: Vec<f64>,
    a: Vec<f64>,
}

impl LinearNoise {
    /// The rows of a design; with groups, the group of every row and the column of the design that varies by group (`None`: 1).
    pub fn new(
        design: &Design,
        groups: Option<(&[usize], Option<usize>)>,
        prior: Prior,
    ) -> Result<Self, Error> {
        let (n, d) = (design.rows().len(), design.dim());
        if prior.dim() != d {
            return Err(Error::Model(format!("{d} coefficients, but a prior of {}", prior.dim())));
        }
        if n == 0 {
            return Err(Error::Data("there are no rows, so nothing is known of the noise".into()));
        }
        design.check_numbers()?;
        design.check_responses(&Linear::new(1.0)?)?;
        let pool = Pool::default();
        let mut sums = pool.sum(design.rows(), 2 + d + d * d, &|leaf, scratch, out| {
            design.prepare(leaf, scratch, |leaf| {
                for i in 0..leaf.data.len() {
                    let (w, y) = (leaf.weight[i], leaf.data[i].y - leaf.offset[i]);
                    out[0] += w;
                    out[1] += w * y * y;
                    for j in 0..d {
                        let x = w * leaf.a[(i, j)];
                        out[2 + j] += x * y;
                        (0..=j).for_each(|l| out[2 + d + l * d + j] += x * leaf.a[(i, l)]);
                    }
                }
            });
        })?;
        linalg::mirror(&mut sums[2 + d..], d);
        let mut out = Self {
            prior,
            dim: d,
            sums,
            groups: Vec::new(),
            codes: Vec::new(),
            grouped: groups.is_some(),
            // 1024 rows one after the other, leaves in a tree, and what a term itself loses
            rounding: (1024.0 + 64.0) * f64::EPSILON,
            reduced: Mutex::default(),
        };
        if let Some((group, effect)) = groups {
            out.read_groups(design, group, effect)?;
        }
        Ok(out)
    }

    fn read_groups(&mut self, design: &Design, group: &[usize], effect: Option<usize>) -> Result<(), Error> {
        let (n, d) = (design.rows().len(), self.dim);
        if group.len() != n {
            return Err(Error::Data(format!("{n} rows, but {} group codes", group.len())));
        }
        if let Some(column) = effect.filter(|c| *c >= d) {
            return Err(Error::Model(format!(
                "there is no column {column} among {d} that could vary by group"
            )));
        }
        let count = group.iter().max().map_or(0, |g| g + 1);
        let mut rows = vec![0usize; count];
        group.iter().for_each(|g| rows[*g] += 1);
        self.codes = (0..count).filter(|g| rows[*g] > 0).map(|g| (g, rows[g])).collect();
        let mut place = vec![0; count];
        self.codes.iter().enumerate().for_each(|(at, (g, _))| place[*g] = at);
        let width = 2 + d;
        self.groups = vec![0.0; self.codes.len() * width];
        let mut scratch = Vec::new();
        for index in 0..leaves(design.rows()) {
            design.rows().leaf(index, &mut |leaf| {
                design.prepare(leaf, &mut scratch, |leaf| {
                    for i in 0..leaf.data.len() {
                        let sums = &mut self.groups[place[group[leaf.first + i]] * width..][..width];
                        let z = effect.map_or(1.0, |c| leaf.a[(i, c)]);
                        let (w, y) = (leaf.weight[i] * z, leaf.data[i].y - leaf.offset[i]);
                        sums[0] += w * z;
                        sums[1] += w * y;
                        (0..d).for_each(|j| sums[2 + j] += w * leaf.a[(i, j)]);
                    }
                });
            })?;
        }
        let most = rows.iter().max().copied().unwrap_or(0);
        self.rounding += (most + PIECE) as f64 * f64::EPSILON;
        Ok(())
    }

    /// The sums at λ = e^{2x}, kept.
    fn reduced(&self, x: f64) -> Arc<Reduced> {
        let mut known = self.reduced.lock().expect("nobody panics while holding it");
        if let Some(found) = known.get(&x.to_bits()) {
            return Arc::clone(found);
        }
        let (d, lambda) = (self.dim, (2.0 * x).exp());
        let width = 2 + d;
        // log det, q, b, A as they are taken away
        let piece = |piece: usize| {
            let mut out = vec![0.0; 2 + d + d * d];
            let from = piece * PIECE * width;
            let to = (from + PIECE * width).min(self.groups.len());
            for group in self.groups[from..to].chunks_exact(width) {
                let c = lambda / (1.0 + lambda * group[0]);
                out[0] += (lambda * group[0]).ln_1p();
                out[1] += c * group[1] * group[1];
                for j in 0..d {
                    let x = c * group[2 + j];
                    out[2 + j] += x * group[1];
                    let row = &mut out[2 + d + j * d..][..d];
                    row.iter_mut().zip(&group[2..]).for_each(|(a, g)| *a += x * g);
                }
            }
            out
        };
        let add = |mut a: Vec<f64>, b: Vec<f64>| {
            a.iter_mut().zip(&b).for_each(|(a, b)| *a += b);
            a
        };
        let away = certus::parallel::reduce(self.codes.len().div_ceil(PIECE), 1, &piece, &add)
            .unwrap_or_else(|| vec![0.0; 2 + d + d * d]);
        let less =
            |from: usize, to: usize| -> Vec<f64> { (from..to).map(|k| self.sums[k] - away[k]).collect() };
        let found = Arc::new(Reduced {
            log_det: away[0],
            q: self.sums[1] - away[1],
            b: less(2, 2 + d),
            a: less(2 + d, 2 + d + d * d),
        });
        if known.len() > 4096 {
            known.clear();
        }
        known.insert(x.to_bits(), Arc::clone(&found));
        found
    }

    /// (log √λ, log σ), λ = 0 without groups.
    fn coordinates(&self, x: &[f64]) -> (f64, f64) {
        if self.grouped { (x[0], x[1]) } else { (f64::NEG_INFINITY, x[0]) }
    }

    /// ½(β − μ)ᵀJ(β − μ) + c₀ and J(β − μ).
    fn prior_at(&self, beta: &[f64]) -> (f64, Vec<f64>) {
        let centred: Vec<f64> = beta.iter().zip(self.prior.mean()).map(|(b, m)| b - m).collect();
        let mut pull = vec![0.0; self.dim];
        self.prior.add_precision_times(&centred, &mut pull);
        (0.5 * linalg::dot(&centred, &pull) + self.prior.constant(), pull)
    }

    /// The log likelihood.
    fn log_likelihood(&self, reduced: &Reduced, log_sigma: f64, beta: &[f64]) -> f64 {
        let mut ab = vec![0.0; self.dim];
        linalg::add_square_times(&reduced.a, self.dim, false, beta, &mut ab);
        let square = reduced.q - 2.0 * linalg::dot(&reduced.b, beta) + linalg::dot(beta, &ab);
        let constant = self.sums[0] * (std::f64::consts::TAU.ln() + 2.0 * log_sigma) + reduced.log_det;
        -0.5 * (constant + square * (-2.0 * log_sigma).exp())
    }

    /// The maximum over β and the scales, with its certificate.
    pub fn estimate(&self) -> Result<ScalesEstimate, Error> {
        super::estimate::estimate(self, &vec![0.0; self.dim])
    }

    /// The posterior: exact given the scales. Priors as [`Scaled::names`] has them: of the group sd, where there are groups, and of the noise.
    pub fn posterior(&self, priors: &[SdPrior]) -> Result<ScaleMixture, Error> {
        super::lattice::posterior(self, &vec![0.0; self.dim], priors)
    }

    /// The effects of all groups, in the order of their codes: mixtures of Gaussians.
    pub fn effects(&self, posterior: &ScaleMixture) -> Vec<Effect> {
        let mut out = vec![None; self.codes.len()];
        certus::parallel::for_each_piece(&mut out, 64, 1, &|piece, part| {
            for (k, effect) in part.iter_mut().enumerate() {
                *effect = Some(self.effect(64 * piece + k, posterior));
            }
        });
        out.into_iter().flatten().collect()
    }

    fn effect(&self, g: usize, posterior: &ScaleMixture) -> Effect {
        let (d, group) = (self.dim, &self.groups[g * (2 + self.dim)..][..2 + self.dim]);
        let mut parts = Vec::with_capacity(posterior.scales.len());
        // Cov(v, β) = Σ weight (−gain H⁻¹x_g + E v β̂) − E v E β
        let (mut covariance, mut center) = (vec![0.0; d], vec![0.0; d]);
        for (node, scales) in posterior.mixture.nodes.iter().zip(&posterior.scales) {
            let noise = 1.0 / (scales[1] * scales[1]);
            let variance = 1.0 / (1.0 / (scales[0] * scales[0]) + noise * group[0]);
            let gain = variance * noise;
            let mean = gain * (group[1] - linalg::dot(&group[2..], &node.mean));
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

impl Scaled for LinearNoise {
    fn dim(&self) -> usize {
        self.dim
    }

    fn names(&self) -> &'static [&'static str] {
        if self.grouped { &["group sd", "sigma"] } else { &["sigma"] }
    }

    fn start(&self) -> Vec<f64> {
        // the spread of the responses, half of it noise
        let spread = (0.5 * self.sums[1] / self.sums[0]).max(f64::MIN_POSITIVE).sqrt().ln();
        if self.grouped { vec![-0.7, spread] } else { vec![spread] }
    }

    fn log_scales(&self, x: &[f64]) -> Vec<f64> {
        if self.grouped { vec![x[0] + x[1], x[1]] } else { x.to_vec() }
    }

    fn floor(&self) -> Vec<f64> {
        let size = (self.groups.iter().step_by(2 + self.dim).sum::<f64>() / self.sums[0]).sqrt();
        if self.grouped { vec![(SMALLEST / size).ln(), f64::NEG_INFINITY] } else { vec![f64::NEG_INFINITY] }
    }

    fn given(&self, x: &[f64], _start: &[f64], _care: Care) -> Result<Given, Error> {
        let (d, (ratio, log_sigma)) = (self.dim, self.coordinates(x));
        let reduced = self.reduced(ratio);
        let precision = (-2.0 * log_sigma).exp();
        let mut l: Vec<f64> = reduced.a.iter().map(|a| a * precision).collect();
        self.prior.add_to(&mut l);
        if !precision.is_finite() || precision == 0.0 || l.iter().any(|x| !x.is_finite()) {
            return Err(Error::NotFinite(format!(
                "the noise sd is {}: the responses are fitted without error, or there are too few rows for the columns",
                log_sigma.exp()
            )));
        }
        if !linalg::cholesky(&mut l, d) {
            let reason = "the columns of the design repeat each other: leave some out, or give every coefficient a proper prior";
            return Err(Error::NotIdentified { reason: reason.into(), direction: Vec::new() });
        }
        let mut beta: Vec<f64> = reduced.b.iter().map(|b| b * precision).collect();
        self.prior.add_precision_times(self.prior.mean(), &mut beta);
        linalg::solve_lower(&l, d, false, &mut beta);
        linalg::solve_lower(&l, d, true, &mut beta);
        let log_likelihood = self.log_likelihood(&reduced, log_sigma, &beta);
        let value = self.prior_at(&beta).0 - log_likelihood;
        let log_det = 2.0 * (0..d).map(|j| l[j * (d + 1)].ln()).sum::<f64>();
        let lower = linalg::lower_of_inverse(&l, d);
        Ok(Given { beta, value, log_likelihood, lower, log_det, error: 0.0, evaluations: 1 })
    }

    /// F is quadratic in β: F − min F = ½|∇F|² in the inverse of its Hessian. All sums are right to `rounding` of their sizes.
    fn bracket(&self, x: &[f64], beta: &[f64]) -> Result<[f64; 2], String> {
        let (d, (ratio, log_sigma)) = (self.dim, self.coordinates(x));
        let reduced = self.reduced(ratio);
        let precision = (-2.0 * log_sigma).exp();
        let (energy, pull) = self.prior_at(beta);
        let log_likelihood = self.log_likelihood(&reduced, log_sigma, beta);
        let value = energy - log_likelihood;
        // what is taken away by groups is at most what there was, so sizes are at most twice those of the sums
        let gram = &self.sums[2 + d..];
        let root: Vec<f64> = (0..d).map(|j| gram[j * (d + 1)].sqrt() * beta[j].abs()).collect();
        let reach: f64 = root.iter().sum::<f64>() + self.sums[1].sqrt();
        let size = precision * reach * reach
            + self.sums[0] * (2.0 + 2.0 * log_sigma.abs())
            + reduced.log_det
            + energy.abs();
        let error = 4.0 * self.rounding * size;
        let mut gradient = pull.clone();
        let mut ab = vec![0.0; d];
        linalg::add_square_times(&reduced.a, d, false, beta, &mut ab);
        let mut wrong = vec![0.0; d];
        for j in 0..d {
            gradient[j] += precision * (ab[j] - reduced.b[j]);
            wrong[j] = 4.0 * self.rounding * (precision * gram[j * (d + 1)].sqrt() * reach + pull[j].abs());
        }
        let mut h: Vec<f64> = reduced.a.iter().map(|a| a * precision).collect();
        self.prior.add_to(&mut h);
        // entries of A are right to 4·rounding·√(G_jj G_ll): in units of √(H_jj H_ll) this may be more
        let worst = (0..d).map(|j| precision * gram[j * (d + 1)] / h[j * (d + 1)]).fold(1.0, f64::max);
        let slack = 8.0 * self.rounding * d as f64 * worst;
        let left = left_to_gain(&h, &gradient, &wrong, slack)
            .ok_or("the columns of the design repeat each other to rounding")?;
        Ok([value - error - left, value + error])
    }
}
