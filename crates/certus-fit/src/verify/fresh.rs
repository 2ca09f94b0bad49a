//! Fresh draws against a probable statement about the posterior: is it contradicted at significance 10⁻⁶?

use crate::record::Posterior;
use certus::Gaussian;
use certus::diagnostics::psis;
use certus::factor::Workspace;
use certus_models::auto::Model;

use super::{Recipe, Report};
use crate::coefficient_map::Quantity;

/// The probability that a true statement is refuted.
const ALPHA: f64 = 1e-6;
/// Draws, at most and at least, and the multiplications they may take.
const DRAWS: (f64, f64) = (2e4, 2e3);
const WORK: f64 = 2e8;
/// Blocks of draws for the lower bound of the evidence.
const BLOCKS: usize = 200;
/// Parameters that are checked.
const MOST: usize = 1000;
/// Tells the draws of a check from those of the fit.
const OTHER: u64 = 0x7665_7269_6679_0000;
/// Tails of the weights up to which moments are normal.
const TAIL: f64 = 0.5;

/// What draws from q, weighted by p/q, show about the posterior p.
pub(super) struct Fresh {
    /// log p(data) is at least this, with probability 1 − 10⁻⁶.
    least_evidence: f64,
    /// f(w): KL(q ‖ p) = log p(data) + f(w).
    neg_elbo: f64,
    /// Where the tails of the weights allow it: the estimate of log p(data) with its standard error, and by how much
    /// means (in sds of q) and sds (in parts of q's) of the posterior differ at least.
    moments: Option<Moments>,
}

struct Moments {
    evidence: (f64, f64),
    mean: f64,
    sd: f64,
}

impl Fresh {
    /// `None` where draws would take long, or the target cannot be evaluated.
    pub(super) fn draw(recipe: &Recipe<'_>, w: &Gaussian, neg_elbo: f64) -> Option<Self> {
        let problem = recipe.problem;
        let model = problem.model()?;
        let once = problem.prepared.rows_used as f64 * problem.prepared.encoding.coefficients().len() as f64;
        let draws = (WORK / (once + 10.0 * w.dim() as f64)).min(DRAWS.0);
        if draws < DRAWS.1 {
            return None;
        }
        let (seed, quantities) = (recipe.goal.seed, &problem.quantities);
        certus::parallel::install(recipe.goal.threads, || {
            let points = w.sample(draws as usize / BLOCKS * BLOCKS, seed ^ OTHER);
            let weights = log_weights(model, w, &points)?;
            let moments = psis::k_hat(&weights)
                .is_none_or(|k| k < TAIL)
                .then(|| moments(quantities, w, &points, &weights));
            Some(Self { least_evidence: least(&weights), neg_elbo, moments })
        })
        .ok()
        .flatten()
    }

    /// Adds what the draws contradict.
    pub(super) fn contradicts(&self, stated: &Posterior, report: &mut Report) {
        let Some(bound) = stated.bound else { return };
        let kl = self.least_evidence + self.neg_elbo;
        if kl > bound {
            report.refuted.push(format!(
                "certificate.posterior.bound is {bound:e}, but according to fresh draws KL(q ‖ p) is at least {kl:e}, \
                    at significance 10⁻⁶"
            ));
        }
        if let Some([low, high]) = stated.log_evidence {
            if self.least_evidence > high {
                report.refuted.push(format!(
                    "certificate.posterior.log_evidence ends at {high}, but according to fresh draws it is at least \
                        {}, at significance 10⁻⁶",
                    self.least_evidence
                ));
            }
            let most = self.moments.as_ref().map(|m| m.evidence.0 + normal(2.0) * m.evidence.1);
            if let Some(most) = most.filter(|most| *most < low) {
                report.refuted.push(format!(
                    "certificate.posterior.log_evidence begins at {low}, but according to fresh draws it is at most \
                        {most}, at significance 10⁻⁶"
                ));
            }
        }
        let Some(moments) = &self.moments else { return };
        for (what, stated, least) in
            [("mean_error", stated.mean_error, moments.mean), ("sd_error", stated.sd_error, moments.sd)]
        {
            if let Some(stated) = stated.filter(|stated| least > *stated) {
                report.refuted.push(format!(
                    "certificate.posterior.{what} is {stated}, but according to fresh draws one is at least {least}, \
                        at significance 10⁻⁶"
                ));
            }
        }
    }
}

/// A normal number is beyond this many sds with probability at most α/tests: P(|Z| > z) ≤ e^{−z²/2}.
fn normal(tests: f64) -> f64 {
    (2.0 * (tests / ALPHA).ln()).sqrt()
}

/// log p − log q at points of q.
fn log_weights(model: &dyn Model, w: &Gaussian, points: &[f64]) -> Option<Vec<f64>> {
    const RUN: usize = 64;
    let d = w.dim();
    let mut out = Vec::with_capacity(points.len() / d);
    let (mut values, mut own, mut gradients) = (vec![0.0; RUN], vec![0.0; RUN], vec![0.0; RUN * d]);
    let mut workspace = Workspace::default();
    for points in points.chunks(RUN * d) {
        let n = points.len() / d;
        let (values, own) = (&mut values[..n], &mut own[..n]);
        model.log_density(points, values, &mut gradients[..n * d]).ok()?;
        if !w.log_density(points, own, &mut workspace) {
            return None;
        }
        out.extend(values.iter().zip(&*own).map(|(p, q)| p - q));
    }
    out.iter().all(|x| x.is_finite()).then_some(out)
}

/// log p(data) is at least this with probability 1 − α. The mean weight Z̄ of a block has the expectation Z = p(data),
/// so that by Markov's inequality P(Z̄ ≥ cZ) ≤ 1/c, and P(every one of K blocks has Z̄ ≥ cZ) ≤ c^{−K} = α for log c =
/// log(1/α)/K: else log Z > min log Z̄ − log(1/α)/K.
fn least(log_weights: &[f64]) -> f64 {
    let size = log_weights.len() / BLOCKS;
    let mean = |block: &[f64]| {
        let largest = block.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        largest + (block.iter().map(|r| (r - largest).exp()).sum::<f64>() / block.len() as f64).ln()
    };
    let smallest = log_weights.chunks_exact(size.max(1)).map(mean).fold(f64::INFINITY, f64::min);
    smallest - (1.0 / ALPHA).ln() / BLOCKS as f64
}

/// Self-normalised weights; standard errors by the delta method, as in [`certus::diagnostics::importance()`].
fn moments(quantities: &[Quantity], w: &Gaussian, points: &[f64], log_weights: &[f64]) -> Moments {
    let (d, n) = (w.dim(), log_weights.len() as f64);
    let largest = log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let raw: Vec<f64> = log_weights.iter().map(|r| (r - largest).exp()).collect();
    let sum: f64 = raw.iter().sum();
    let weights: Vec<f64> = raw.iter().map(|x| x / sum).collect();
    let spread: f64 = weights.iter().map(|v| (v * n - 1.0).powi(2)).sum();
    let evidence = (largest + (sum / n).ln(), (spread / (n - 1.0) / n).sqrt());
    let quantities = &quantities[..quantities.len().min(MOST)];
    let z = normal(2.0 * quantities.len() as f64);
    let mut out = Moments { evidence, mean: 0.0, sd: 0.0 };
    for (quantity, of_q) in quantities.iter().zip(crate::problem::on_user_scale(quantities, w)) {
        let values: Vec<f64> = points
            .chunks_exact(d)
            .map(|point| quantity.terms.iter().map(|(i, a)| a * point[*i]).sum::<f64>() - of_q.mean)
            .collect();
        let each = || values.iter().zip(&weights);
        let mean: f64 = each().map(|(x, v)| v * x).sum();
        let variance: f64 = each().map(|(x, v)| v * (x - mean).powi(2)).sum();
        let mean_error = each().map(|(x, v)| (v * (x - mean)).powi(2)).sum::<f64>().sqrt();
        let square = |x: &f64, v: &f64| (v * ((x - mean).powi(2) - variance)).powi(2);
        let sd_error = each().map(|(x, v)| square(x, v)).sum::<f64>().sqrt() / (2.0 * variance.sqrt());
        out.mean = out.mean.max((mean.abs() - z * mean_error) / of_q.sd);
        out.sd = out.sd.max(((variance.sqrt() - of_q.sd).abs() - z * sd_error) / of_q.sd);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Weights of N(0, 1) against N(0, 1) times 3: the evidence is 3, and the bound is below it, but not by much.
    #[test]
    fn the_evidence_is_at_least() {
        let flat = vec![3f64.ln(); 20_000];
        let bound = least(&flat);
        assert!(bound < 3f64.ln() && bound > 3f64.ln() - 0.07, "{bound}");
        // a fifth of the weights is e^0.2, the others 1: log(1 + 0.2 (e^0.2 − 1)) = 0.0433
        let mixed: Vec<f64> = (0..20_000).map(|i| if i % 5 == 0 { 0.2 } else { 0.0 }).collect();
        let bound = least(&mixed);
        assert!((bound - (0.0433 - 0.0691)).abs() < 1e-3, "{bound}");
        // P(|Z| > z) of a standard normal, from tables: 4.8916 for 1e-6
        assert!(normal(1.0) > 4.8916 && normal(1.0) < 5.3);
    }
}
