//! How far q is from the posterior, from fresh draws, when μ and M are declared (math: D3).

use super::Posterior;
use super::checks::{Check, Checks};
use super::deviation::{Design, FISHER_PART, fisher_bound, median};
use crate::error::Error;
use crate::gaussian::Gaussian;
use crate::linalg;
use crate::target::Target;

/// The averages that the bounds are made of.
struct Sample {
    /// mean |S|².
    fisher: f64,
    /// mean |CᵀS|², the same in the frame where q is standard.
    whitened: f64,
    /// The mean of log p − log q in every block.
    elbos: Vec<f64>,
}

impl Checks {
    /// Bounds KL(q ‖ p), the log evidence, and every posterior mean and standard deviation; all of it holds, together
    /// with all other statements of these checks, with probability 1 − δ.
    ///
    /// It takes nothing but the target's declared or proved curvature. The price is that the bound is often far above
    /// the divergence, by a factor like κ = M/μ: for all it knows the curvature is μ everywhere.
    pub fn certify_posterior(&mut self, target: &dyn Target, w: &Gaussian) -> Result<Posterior, Error> {
        let check = match self.next(target, w)? {
            Ok(check) => check,
            Err(reason) => return Ok(Posterior::none(reason)),
        };
        let design = Design::of_means(check.fresh.draws, (1.0 - 2.0 * FISHER_PART) * check.share);
        let sample = Sample::new(&check, &design)?;
        if let Some(reason) = check.contradiction() {
            return Ok(Posterior::none(reason));
        }
        Ok(state(&check, &design, sample))
    }
}

impl Sample {
    fn new(check: &Check<'_>, design: &Design) -> Result<Self, Error> {
        let (mut fisher, mut whitened, mut turned) = (0.0, 0.0, Vec::new());
        let (mut elbos, mut first) = (Vec::with_capacity(design.blocks), None);
        for block in (0..design.blocks).map(|j| design.block(j)) {
            let mut sum = 0.0;
            check.residuals(block.clone(), &mut |_, s, log_weights| {
                turned.clear();
                turned.resize(s.len(), 0.0);
                check.w.factor().add_apply_transpose(s, &mut turned);
                fisher += linalg::norm_squared(s);
                whitened += linalg::norm_squared(&turned);
                // shifted, so that a large constant in log p costs no digits
                let shift = *first.get_or_insert(log_weights[0]);
                sum += log_weights.iter().map(|r| r - shift).sum::<f64>();
            })?;
            elbos.push(first.unwrap_or(0.0) + sum / block.len() as f64);
        }
        let n = check.fresh.draws as f64;
        Ok(Self { fisher: fisher / n, whitened: whitened / n, elbos })
    }
}

/// D3. KL ≤ F/(2μ) (log-Sobolev inequality), W₂² ≤ (2/μ) KL (Otto and Villani), −f ≤ log p(x) = −f + KL, Var log(p/q) ≤
/// F_u (Poincaré).
///
/// A direction a has the standard deviation |Cᵀa| ≥ σ_min|a| under q, so W₂/σ_min bounds errors in units of it.
fn state(check: &Check<'_>, design: &Design, sample: Sample) -> Posterior {
    let (mu, reach, draws) = (check.curvature.strong_convexity(), &check.reach, check.fresh.draws);
    let (rounding, part) = (check.rounding(), FISHER_PART * check.share);
    let fisher = fisher_bound(sample.fisher, reach.residual, rounding, draws, part);
    let kl = fisher / (2.0 * mu);
    let statement = check.state("D3", kl);
    if statement.bound().is_none() {
        return Posterior { statement, log_evidence: None, mean_error: None, sd_error: None };
    }
    let statement = statement
        .with("blocks", design.blocks as f64)
        .with("smallest singular value of C", reach.smallest)
        .with("largest singular value of C", reach.largest)
        .with("fisher", fisher);
    let variance = fisher_bound(sample.whitened, reach.whitened, reach.largest * rounding, draws, part);
    let (elbo, dim) = (median(sample.elbos), check.w.dim() as f64);
    // each log density is the sum of some d terms
    let radius = design.deviation(variance) + 16.0 * dim * f64::EPSILON * (elbo.abs() + dim);
    let error = (2.0 * kl / mu).sqrt() / reach.smallest;
    Posterior {
        statement,
        log_evidence: Some((elbo - radius, elbo + radius + kl)),
        mean_error: Some(error),
        sd_error: Some(error),
    }
}
