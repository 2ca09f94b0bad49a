//! How far q is from the posterior, from fresh draws, when μI ≤ ∇²(−log p) ≤ MI is known (math: D3).

use super::{Posterior, Statement};
use crate::diagnostics::Check;
use crate::error::Error;
use crate::estimator::not_positive_definite;
use crate::factor::{Factor, Workspace};
use crate::gaussian::Gaussian;
use crate::linalg;
use crate::target::{Curvature, Guarded, Target};

/// Beyond this dimension the eigenvalues of a dense matrix take minutes.
const LARGEST_DENSE: usize = 2000;
/// Multiplications we spend on inverting a pattern factor (some minutes).
const LARGEST_WORK: f64 = 1e12;

/// Bounds KL(q ‖ p), the log evidence, and every posterior mean and standard deviation, all together with probability
/// 1 − `delta` over the draws of `check`, which q must not have been chosen with.
///
/// It takes nothing but the target's declared or proved curvature, and needs μ > 0. The price is that the bound is often
/// far above the divergence, by a factor like κ = M/μ: for all it knows the curvature is μ everywhere.
pub fn certify(target: &dyn Target, w: &Gaussian, check: Check, delta: f64) -> Result<Posterior, Error> {
    if !(delta > 0.0 && delta < 1.0) {
        return Err(Error::invalid("delta", delta, "a probability between 0 and 1 is required"));
    }
    let Some(curvature) = target.curvature() else {
        return Ok(Posterior::none("no bounds on the curvature of the log density are known"));
    };
    if curvature.strong_convexity() <= 0.0 {
        return Ok(Posterior::none("the log density is not known to be strongly concave (mu is 0)"));
    }
    let constants = match Constants::new(w, &curvature) {
        Ok(constants) => constants,
        Err(reason) => return Ok(Posterior::none(reason)),
    };
    let guarded = Guarded::new(target, curvature.clone());
    let sums = Sums::new(&guarded, w, check)?;
    if guarded.witness().is_some() {
        return Ok(Posterior::none("two of the draws contradict the curvature of the log density"));
    }
    Ok(constants.state(&sums, check.draws as f64, delta, &curvature))
}

/// The averages that the bounds are made of, with s = π − C⁻ᵀu = ∇ log(q/p) at z = m + Cu.
struct Sums {
    /// mean |s|².
    fisher: f64,
    /// mean |Cᵀs|², the same in the frame where q is standard.
    fisher_whitened: f64,
    /// log p − log q at every draw.
    log_weights: Vec<f64>,
}

impl Sums {
    fn new(target: &dyn Target, w: &Gaussian, check: Check) -> Result<Self, Error> {
        let dim = w.dim();
        let (mut fisher, mut fisher_whitened) = (0.0, 0.0);
        let mut log_weights = Vec::with_capacity(check.draws);
        let mut workspace = Workspace::default();
        let (mut solved, mut whitened) = (Vec::new(), Vec::new());
        check.run(target, w, &mut |run| {
            solved.clear();
            solved.extend_from_slice(run.u);
            if !w.factor().solve_transpose(&mut solved, &mut workspace) {
                return Err(not_positive_definite());
            }
            // −s, which has the same norm
            linalg::add_scaled(&mut solved, 1.0, run.gradients);
            whitened.clear();
            whitened.resize(solved.len(), 0.0);
            w.factor().add_apply_transpose(&solved, &mut whitened);
            let columns = solved.chunks_exact(dim).zip(whitened.chunks_exact(dim));
            for (k, (s, t)) in columns.enumerate() {
                let square = |x: &[f64]| x.iter().map(|v| v * v).sum::<f64>();
                let both = [square(s), square(t)];
                if let Some(value) = both.into_iter().find(|x| !x.is_finite()) {
                    let what = "the square of the gradient of log(q/p)";
                    return Err(check.not_finite(what, value, run.start + k));
                }
                fisher += both[0];
                fisher_whitened += both[1];
            }
            log_weights.extend_from_slice(run.log_weights);
            Ok(())
        })?;
        let n = check.draws as f64;
        Ok(Self { fisher: fisher / n, fisher_whitened: fisher_whitened / n, log_weights })
    }
}

/// What D3 needs to know of q and the curvature.
struct Constants {
    dim: f64,
    strong_convexity: f64,
    /// Bounds of the singular values of C.
    smallest: f64,
    largest: f64,
    /// Lipschitz constant of u ↦ s.
    lipschitz: f64,
    /// Lipschitz constant of u ↦ Cᵀs.
    lipschitz_whitened: f64,
    /// Allowance for the rounding of s, which is a difference of larger vectors.
    rounding: f64,
}

impl Constants {
    /// D3. The derivative of s is HC − C⁻ᵀ. With c = (M+μ)/2 it is (cC − C⁻ᵀ) + (H − cI)C, where the first part has the
    /// singular values |cσ − 1/σ|, largest at an end since cσ − 1/σ increases, and the second the norm (M−μ)/2 · σ_max
    /// at most. It also is C⁻ᵀ(CᵀHC − I), and CᵀHC − I lies between μσ_min² − 1 and Mσ_max² − 1.
    fn new(w: &Gaussian, curvature: &Curvature) -> Result<Self, String> {
        let (smallest, largest) = singular_values(w)?;
        let (mu, m) = (curvature.strong_convexity(), curvature.smoothness());
        let (center, radius) = (0.5 * (m + mu), 0.5 * (m - mu));
        let lipschitz_whitened = (1.0 - mu * smallest.powi(2)).max(m * largest.powi(2) - 1.0);
        let end = |sigma: f64| (center * sigma - 1.0 / sigma).abs();
        let lipschitz = end(smallest).max(end(largest)) + radius * largest;
        let dim = w.dim() as f64;
        let size = (linalg::norm_squared(w.mean()) + w.factor().norm_squared()).sqrt();
        Ok(Self {
            dim,
            strong_convexity: mu,
            smallest,
            largest,
            lipschitz: lipschitz.min(lipschitz_whitened / smallest),
            lipschitz_whitened,
            rounding: 16.0 * dim * f64::EPSILON * (m * size + dim.sqrt() / smallest),
        })
    }

    /// D3. KL ≤ FI/(2μ) (log-Sobolev inequality), W₂² ≤ (2/μ) KL (Otto and Villani), −f ≤ log p(x) = −f + KL.
    ///
    /// A direction a has the standard deviation |Cᵀa| ≥ σ_min|a| under q, so W₂/σ_min bounds errors in units of it.
    /// δ is shared by three statements: the two Fisher informations and the mean of log p/q.
    fn state(&self, sums: &Sums, draws: f64, delta: f64, curvature: &Curvature) -> Posterior {
        let share = delta / 3.0;
        let fisher = fisher_bound(sums.fisher, self.lipschitz, self.rounding, draws, share);
        let kl = fisher / (2.0 * self.strong_convexity);
        const THEOREM: &str = "D3";
        const ASSUMPTION: &str = "mu and M bound the curvature of the log density everywhere";
        let statement = match curvature.vouched() {
            Some(word) => Statement::probable(THEOREM, kl, delta, &word, ASSUMPTION),
            None => Statement::estimated(THEOREM, kl, ASSUMPTION),
        };
        if statement.bound().is_none() {
            return Posterior { statement, log_evidence: None, mean_error: None, sd_error: None };
        }
        let statement = statement
            .with("mu", self.strong_convexity)
            .with("M", curvature.smoothness())
            .with("smallest singular value of C", self.smallest)
            .with("largest singular value of C", self.largest)
            .with("Lipschitz constant of grad log(q/p)", self.lipschitz)
            .with("Fisher information", fisher)
            .with("draws", draws);
        let rounding = self.largest * self.rounding;
        let variance = fisher_bound(sums.fisher_whitened, self.lipschitz_whitened, rounding, draws, share);
        let (elbo, radius) = mean_bound(&sums.log_weights, variance, share);
        // each log density is the sum of some d terms
        let radius = radius + 16.0 * self.dim * f64::EPSILON * (elbo.abs() + self.dim);
        let error = (2.0 * kl / self.strong_convexity).sqrt() / self.smallest;
        Posterior {
            statement,
            log_evidence: Some((elbo - radius, elbo + radius + kl)),
            mean_error: Some(error),
            sd_error: Some(error),
        }
    }
}

/// D3. With probability 1 − δ, FI = E|s|² ≤ (√F̂I + ρ√(2 log(1/δ)/N))² + ρ²/N, F̂I the mean of |s|² over N draws and ρ a
/// Lipschitz constant of s.
fn fisher_bound(mean: f64, lipschitz: f64, rounding: f64, draws: f64, delta: f64) -> f64 {
    let deviation = lipschitz * (2.0 * (1.0 / delta).ln() / draws).sqrt();
    (mean.sqrt() + rounding + deviation).powi(2) + lipschitz.powi(2) / draws
}

/// D3. A number that is within the second one of the expectation with probability 1 − δ, for values whose variance is
/// at most `variance`: the mean (Chebyshev) or the median of the means of k blocks, whichever promises more.
///
/// A block of b values is further off than 2√(variance/b) with probability ¼ at most, and half of the blocks are with
/// probability e^{−.1438 k} at most, since ½ log(½/¼) + ½ log(½/¾) = .1438….
fn mean_bound(values: &[f64], variance: f64, delta: f64) -> (f64, f64) {
    let n = values.len();
    let blocks = ((1.0 / delta).ln() / 0.1438).ceil() as usize | 1;
    let size = n / blocks;
    let (chebyshev, by_blocks) = (1.0 / (delta * n as f64), 4.0 / size as f64);
    let (size, spread) = if by_blocks < chebyshev { (size, by_blocks) } else { (n, chebyshev) };
    // shifted, so that a large constant in log p costs no digits
    let mean = |block: &[f64]| values[0] + block.iter().map(|x| x - values[0]).sum::<f64>() / size as f64;
    let mut means: Vec<f64> = values.chunks_exact(size).take(blocks).map(mean).collect();
    means.sort_by(f64::total_cmp);
    (means[means.len() / 2], (variance * spread).sqrt())
}

/// A lower and an upper bound of the singular values of C, or why there is none. Dense factors and small patterns:
/// eigenvalues, widened by 16 d u of the largest. Large patterns: ‖C‖² ≤ ‖C‖₁‖C‖_∞ and |C|_F², for C and C⁻¹.
fn singular_values(w: &Gaussian) -> Result<(f64, f64), String> {
    let (dim, factor) = (w.dim(), w.factor());
    if dim > LARGEST_DENSE {
        return match factor {
            Factor::Pattern(_) => norms(factor),
            _ => {
                Err(format!("singular values of dense factors are computed up to dimension {LARGEST_DENSE}"))
            }
        };
    }
    let (matrix, power) = match factor {
        Factor::Symmetric(_) => (factor.to_dense(), 1.0),
        _ => (w.covariance(), 0.5),
    };
    let (low, high) = linalg::extreme_eigenvalues(&matrix, dim).ok_or("the eigenvalues did not converge")?;
    let slack = 16.0 * dim as f64 * f64::EPSILON * high;
    positive((low - slack).powf(power), (high + slack).powf(power))
}

/// The same from induced norms; exact for diagonal factors.
fn norms(factor: &Factor) -> Result<(f64, f64), String> {
    let dim = factor.dim();
    if dim as f64 * factor.values().len() as f64 > LARGEST_WORK {
        return Err("inverting the pattern factor to bound its singular values would take too long".into());
    }
    const RUN: usize = 64;
    let (mut of_factor, mut of_inverse) = (Norms::new(dim), Norms::new(dim));
    factor.for_each_entry(|i, j, x| of_factor.add(i, j, x));
    let mut columns = vec![0.0; dim * RUN];
    for first in (0..dim).step_by(RUN) {
        let columns = &mut columns[..dim * RUN.min(dim - first)];
        columns.fill(0.0);
        for (j, column) in columns.chunks_exact_mut(dim).enumerate() {
            column[first + j] = 1.0;
        }
        if !factor.solve(columns, &mut Workspace::default()) {
            return Err("C is not positive definite".into());
        }
        for (j, column) in columns.chunks_exact(dim).enumerate() {
            column.iter().enumerate().for_each(|(i, &x)| of_inverse.add(i, first + j, x));
        }
    }
    // sums of non-negative numbers, and triangular solves of a well-conditioned factor, keep ten digits
    positive((1.0 - 1e-10) / of_inverse.spectral(), (1.0 + 1e-10) * of_factor.spectral())
}

fn positive(low: f64, high: f64) -> Result<(f64, f64), String> {
    if low > 0.0 && high.is_finite() { Ok((low, high)) } else { Err("C is singular up to rounding".into()) }
}

/// Sums over rows and columns of |entries|, and the sum of squares.
struct Norms {
    rows: Vec<f64>,
    columns: Vec<f64>,
    squares: f64,
}

impl Norms {
    fn new(dim: usize) -> Self {
        Self { rows: vec![0.0; dim], columns: vec![0.0; dim], squares: 0.0 }
    }

    fn add(&mut self, i: usize, j: usize, x: f64) {
        self.rows[i] += x.abs();
        self.columns[j] += x.abs();
        self.squares += x * x;
    }

    /// At least the largest singular value.
    fn spectral(&self) -> f64 {
        let largest = |x: &[f64]| x.iter().copied().fold(0.0, f64::max);
        (largest(&self.rows) * largest(&self.columns)).min(self.squares).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::factor::{Family, Tree};
    use crate::random::{Purpose, Random};
    use std::sync::Arc;

    /// Chebyshev while 1/δ < 4k, medians of an odd number of blocks k ≥ log(1/δ)/.1438 beyond, Chebyshev again when
    /// the blocks would be empty.
    #[test]
    fn the_radius_is_the_smaller_of_two() {
        let values = vec![7.0; 1000];
        for (n, delta, want) in [
            (1000, 0.05, (1.0f64 / (1000.0 * 0.05)).sqrt()),
            (1000, 1e-6, 2.0 / (1000.0f64 / 97.0).floor().sqrt()),
            (90, 1e-6, (1.0f64 / (90.0 * 1e-6)).sqrt()),
            // 13.7/.1438 = 95.3: not 96 blocks of 10 but 97 of 9
            (960, (-13.7f64).exp(), 2.0 / 3.0),
        ] {
            let (center, radius) = mean_bound(&values[..n], 9.0, delta);
            assert_eq!(center, 7.0);
            assert!((radius / (3.0 * want) - 1.0).abs() < 1e-12, "{n} {delta} {radius}");
        }
        // the blocks are all used, and it is their median: 97 blocks of 10, of which 48 are far off
        let spoiled: Vec<f64> = (0..1000).map(|i| if i < 480 { 1e9 } else { (i / 10) as f64 }).collect();
        assert_eq!(mean_bound(&spoiled, 1.0, 1e-6).0, 96.0);
    }

    /// Skewed values, (u² − 1)/√2 of variance 1: the radius covers 0 in all but δ of 400 samples, up to 3.3 standard
    /// deviations of that count (level 5e-4), and is not idle: a third of it does not.
    #[test]
    fn the_radius_covers() {
        let random = Random::new(4, Purpose::Simulate, 0);
        let mut missed = [0; 2];
        for sample in 0..400 {
            let mut u = vec![0.0; 200];
            random.normals(sample, 0, 200, &mut u);
            let values: Vec<f64> = u.iter().map(|x| (x * x - 1.0) / 2f64.sqrt()).collect();
            let (center, radius) = mean_bound(&values, 1.0, 0.05);
            missed[0] += usize::from(center.abs() > radius);
            missed[1] += usize::from(center.abs() > radius / 3.0);
        }
        assert!(missed[0] <= 34 && missed[1] > 34, "{missed:?}");
    }

    /// Norms bound the singular values, exactly for diagonal factors; the eigenvalues are those of the diagonal.
    #[test]
    fn singular_values_are_bounded() {
        let mean = vec![0.0; 6];
        let mut diagonal = Family::Pattern(Arc::new(Tree::diagonal(6).unwrap())).scaled_identity(6, 1.0);
        diagonal.values_mut().copy_from_slice(&[0.5, 3.0, 1.0, 0.25, 2.0, 1.5]);
        let close = |a: (f64, f64), b: (f64, f64)| (a.0 / b.0 - 1.0).abs() + (a.1 / b.1 - 1.0).abs() < 1e-9;
        assert!(close(norms(&diagonal).unwrap(), (0.25, 3.0)));
        let w = Gaussian::new(mean.clone(), diagonal).unwrap();
        assert!(close(singular_values(&w).unwrap(), (0.25, 3.0)));
        let mut arrow =
            Family::Pattern(Arc::new(Tree::arrow(2, &[1, 2, 1]).unwrap())).scaled_identity(6, 1.0);
        let mut entries = vec![0.0; arrow.values().len()];
        Random::new(1, Purpose::Simulate, 0).normals(0, 0, entries.len(), &mut entries);
        // zeros above the diagonal stay
        let mut inside = Vec::new();
        arrow.for_each_entry(|i, j, _| inside.push((i, j)));
        let dense = {
            let mut dense = vec![0.0; 36];
            for (k, &(i, j)) in inside.iter().enumerate() {
                dense[j * 6 + i] = if i == j { entries[k].abs() + 0.2 } else { entries[k] };
            }
            dense
        };
        arrow.map_diagonal(&|_| 0.0);
        let unit: Vec<f64> = (0..36).map(|k| f64::from(u8::from(k % 7 == 0))).collect();
        arrow.add_outer(1.0, &dense, &unit);
        assert_eq!(arrow.to_dense(), dense);
        let (low, high) = norms(&arrow).unwrap();
        let exact = singular_values(&Gaussian::new(mean, arrow).unwrap()).unwrap();
        assert!(low <= exact.0 && exact.1 <= high, "{low} {high} {exact:?}");
        assert!(low > 0.3 * exact.0 && high < 2.0 * exact.1, "{low} {high} {exact:?}");
    }
}
