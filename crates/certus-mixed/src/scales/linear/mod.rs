//! Linear models whose noise is not known, without groups or with one effect per group: everything given the scales is
//! Gaussian and in closed form, from sums that are taken once (docs/collapsed.md, part K8).
//!
//! y_i ~ N(x_iβ + offset_i + σ_v z_i u_g, σ²), λ = σ_v²/σ². With the sums of a group Z_g = Σwz², x_g = Σwzx, y_g = Σwzy
//! and c_g = λ/(1 + λZ_g),
//!
//! ```text
//! −2ℓ = W log 2πσ² + Σ_g log(1 + λZ_g) + (q − 2bᵀβ + βᵀAβ)/σ²,
//! A = Σwxxᵀ − Σ_g c_g x_g x_gᵀ,   b = Σwxy − Σ_g c_g x_g y_g,   q = Σwy² − Σ_g c_g y_g².
//! ```
//!
//! The coordinates are (log √λ, log σ): A, b and q depend on the first alone, so a line of the lattice costs one pass
//! over groups.
//!
//! Sums are of residuals y − xβ₀ and not of responses, β₀ a solution of the normal equations: with responses of mean
//! 10⁶ and sd 1, q would lose twelve of its sixteen digits. β is kept as β₀ + δ. What rounding does to the residuals is
//! `blur`, and enters the bounds.

mod effects;
mod sums;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use certus::linalg;

use super::estimate::left_to_gain;
use super::{Care, ConditionalFit, ScaleMixture, ScaleProblem, ScalesEstimate};
use crate::collapsed::SdPrior;
use certus_likelihood::prior::Prior;
use certus_models::Error;
use certus_models::error::{NotFinite, Unidentified};

/// An sd below this part of the noise is none.
const SMALLEST: f64 = 1e-4;
/// Groups of a piece of work.
const PIECE: usize = 256;

/// A linear model with unknown noise.
pub struct LinearNoise {
    prior: Prior,
    dim: usize,
    /// β₀.
    base: Vec<f64>,
    /// μ − β₀, where the prior has its mean.
    toward: Vec<f64>,
    /// W, Σwr², then Σwxr, then Σwxxᵀ, r = y − offset − xβ₀.
    sums: Vec<f64>,
    /// At most |√w (r as it should be − r)|.
    blur: f64,
    /// Per group: Z, Σwzr, Σwzx; nothing without groups.
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

/// The groups of the rows, and what varies by them.
#[derive(Clone, Copy, Debug)]
pub struct Grouping<'a> {
    /// The group of every row.
    pub codes: &'a [usize],
    /// The column of the design that varies (`None`: 1).
    pub column: Option<usize>,
    /// What is added to that column, see [`crate::collapsed::Collapsed::shifted`].
    pub shift: f64,
}

impl LinearNoise {
    /// The sums at λ = e^{2x}, kept.
    fn reduced(&self, x: f64) -> Arc<Reduced> {
        let mut known = self.reduced.lock().expect("no thread panics while it holds the lock");
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

    /// β − β₀.
    fn delta(&self, beta: &[f64]) -> Vec<f64> {
        beta.iter().zip(&self.base).map(|(b, c)| b - c).collect()
    }

    /// ½(β − μ)ᵀJ(β − μ) + c₀ and J(β − μ), from δ.
    fn prior_at(&self, delta: &[f64]) -> (f64, Vec<f64>) {
        let centred: Vec<f64> = delta.iter().zip(&self.toward).map(|(d, m)| d - m).collect();
        let mut pull = vec![0.0; self.dim];
        self.prior.add_precision_times(&centred, &mut pull);
        (0.5 * linalg::dot(&centred, &pull) + self.prior.constant(), pull)
    }

    /// The log likelihood.
    fn log_likelihood(&self, reduced: &Reduced, log_sigma: f64, delta: &[f64]) -> f64 {
        let mut ad = vec![0.0; self.dim];
        linalg::add_square_times(&reduced.a, self.dim, false, delta, &mut ad);
        let square = reduced.q - 2.0 * linalg::dot(&reduced.b, delta) + linalg::dot(delta, &ad);
        let constant = self.sums[0] * (std::f64::consts::TAU.ln() + 2.0 * log_sigma) + reduced.log_det;
        -0.5 * (constant + square * (-2.0 * log_sigma).exp())
    }

    /// The maximum over β and the scales, with its certificate.
    pub fn estimate(&self) -> Result<ScalesEstimate, Error> {
        super::estimate::estimate(self, &vec![0.0; self.dim])
    }

    /// The posterior: exact given the scales. Priors as [`ScaleProblem::names`] has them: of the group sd, where there
    /// are
    /// groups, and of the noise.
    pub fn posterior(&self, priors: &[SdPrior]) -> Result<ScaleMixture, Error> {
        super::lattice::posterior(self, &vec![0.0; self.dim], priors)
    }
}

impl ScaleProblem for LinearNoise {
    fn dim(&self) -> usize {
        self.dim
    }

    fn names(&self) -> &'static [&'static str] {
        if self.grouped { &["group sd", "sigma"] } else { &["sigma"] }
    }

    fn start(&self) -> Vec<f64> {
        // the spread of the residuals, half of it noise
        let spread = (0.5 * self.sums[1] / self.sums[0]).max(f64::MIN_POSITIVE).sqrt().ln();
        if self.grouped { vec![-0.7, spread] } else { vec![spread] }
    }

    fn log_scales(&self, x: &[f64]) -> Vec<f64> {
        if self.grouped { vec![x[0] + x[1], x[1]] } else { x.to_vec() }
    }

    fn at_logs(&self, logs: &[f64]) -> Vec<f64> {
        if self.grouped { vec![logs[0] - logs[1], logs[1]] } else { logs.to_vec() }
    }

    fn floor(&self) -> Vec<f64> {
        let size = (self.groups.iter().step_by(2 + self.dim).sum::<f64>() / self.sums[0]).sqrt();
        if self.grouped { vec![(SMALLEST / size).ln(), f64::NEG_INFINITY] } else { vec![f64::NEG_INFINITY] }
    }

    /// The noise from far below the residuals of least squares to far above those of the prior mean, which it is near
    /// where a prior forbids what fits.
    fn range(&self) -> Vec<[f64; 2]> {
        let (floor, start) = (self.floor(), self.start());
        let (noise, d) = (start[start.len() - 1], self.dim);
        let mut ad = vec![0.0; d];
        linalg::add_square_times(&self.sums[2 + d..], d, false, &self.toward, &mut ad);
        let square = self.sums[1] - 2.0 * linalg::dot(&self.sums[2..2 + d], &self.toward)
            + linalg::dot(&self.toward, &ad);
        let apart = 0.5 * (square / self.sums[0]).max(f64::MIN_POSITIVE).ln();
        let own = [noise - 7.0, noise.max(apart) + 2.0];
        if self.grouped { vec![[floor[0], 2e5_f64.ln() + floor[0]], own] } else { vec![own] }
    }

    /// ∂F/∂log σ = W − |r|²/σ² ≤ W for every β.
    fn fall(&self, b: f64, a: f64) -> Option<f64> {
        (!self.grouped).then(|| self.sums[0] * (1.0 + self.rounding) * (b - a))
    }

    fn conditional_fit(&self, x: &[f64], _start: &[f64], _care: Care) -> Result<ConditionalFit, Error> {
        let (d, (ratio, log_sigma)) = (self.dim, self.coordinates(x));
        let reduced = self.reduced(ratio);
        let precision = (-2.0 * log_sigma).exp();
        let mut l: Vec<f64> = reduced.a.iter().map(|a| a * precision).collect();
        self.prior.add_to(&mut l);
        // below what rounding leaves of residuals nothing is known
        let rounded = log_sigma.exp() * self.sums[0].sqrt() <= self.blur;
        if rounded || !precision.is_finite() || precision == 0.0 || l.iter().any(|x| !x.is_finite()) {
            return Err(NotFinite::NoiseSd { sd: log_sigma.exp() }.into());
        }
        if !linalg::cholesky(&mut l, d) {
            // proper priors are lost to rounding only where the noise is next to nothing
            let mut own = vec![0.0; d * d];
            self.prior.add_to(&mut own);
            if (0..d).all(|j| own[j * (d + 1)] > 0.0) {
                return Err(NotFinite::NoiseSd { sd: log_sigma.exp() }.into());
            }
            let reason = Unidentified::Singular { what: "the Hessian of the linear model" };
            return Err(Error::NotIdentified { reason, direction: Vec::new() });
        }
        let mut delta: Vec<f64> = reduced.b.iter().map(|b| b * precision).collect();
        self.prior.add_precision_times(&self.toward, &mut delta);
        linalg::solve_lower(&l, d, false, &mut delta);
        linalg::solve_lower(&l, d, true, &mut delta);
        let log_likelihood = self.log_likelihood(&reduced, log_sigma, &delta);
        let value = self.prior_at(&delta).0 - log_likelihood;
        let log_det = 2.0 * (0..d).map(|j| l[j * (d + 1)].ln()).sum::<f64>();
        let lower = linalg::lower_of_inverse(&l, d);
        let beta = self.base.iter().zip(&delta).map(|(b, d)| b + d).collect();
        Ok(ConditionalFit { beta, value, log_likelihood, lower, log_det, error: 0.0, evaluations: 1 })
    }

    /// F is quadratic in β: F − min F = ½|∇F|² in the inverse of its Hessian. All sums are right to `rounding` of their
    /// sizes, and residuals to `blur`.
    fn bracket(&self, x: &[f64], beta: &[f64]) -> Result<[f64; 2], String> {
        let (d, (ratio, log_sigma), delta) = (self.dim, self.coordinates(x), self.delta(beta));
        let reduced = self.reduced(ratio);
        let precision = (-2.0 * log_sigma).exp();
        let (energy, pull) = self.prior_at(&delta);
        let log_likelihood = self.log_likelihood(&reduced, log_sigma, &delta);
        let value = energy - log_likelihood;
        // what is taken away by groups is at most what there was, so sizes are at most twice those of the sums
        let gram = &self.sums[2 + d..];
        let root: Vec<f64> = (0..d).map(|j| gram[j * (d + 1)].sqrt() * delta[j].abs()).collect();
        let reach: f64 = root.iter().sum::<f64>() + self.sums[1].sqrt();
        let size = precision * reach * reach
            + self.sums[0] * (2.0 + 2.0 * log_sigma.abs())
            + reduced.log_det
            + energy.abs();
        let error = 4.0 * self.rounding * size + precision * self.blur * (reach + self.blur);
        let mut gradient = pull.clone();
        let mut ad = vec![0.0; d];
        linalg::add_square_times(&reduced.a, d, false, &delta, &mut ad);
        let mut wrong = vec![0.0; d];
        for j in 0..d {
            gradient[j] += precision * (ad[j] - reduced.b[j]);
            let rounded = 4.0 * self.rounding * reach + self.blur;
            wrong[j] = precision * gram[j * (d + 1)].sqrt() * rounded + 4.0 * self.rounding * pull[j].abs();
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
