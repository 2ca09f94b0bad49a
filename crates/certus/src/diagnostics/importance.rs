//! The evidence, the divergence and the posterior's moments by importance sampling from q: estimates, whose worth k̂
//! tells.

use super::{Estimate, WeightedDraws, psis};
use crate::certificate::{Posterior, Statement};
use crate::combination::Combinations;
use crate::error::Error;
use crate::fresh::Fresh;
use crate::gaussian::Gaussian;
use crate::target::Target;

/// What importance sampling says of a posterior. All of it can be badly wrong when `k_hat` is above about 0.7.
#[derive(Clone, Debug, PartialEq)]
pub struct Importance {
    /// log p(x).
    pub log_evidence: Estimate,
    /// KL(q ‖ p) = log p(x) − ELBO, both from the same draws.
    pub kl: Estimate,
    /// −ELBO, from the same.
    pub neg_elbo: Estimate,
    /// The shape of the tail of the weights; see [`psis::Smoothed::k_hat`].
    pub k_hat: Option<f64>,
    /// The same where that shape matters; see [`psis::tail_index`].
    pub tail_index: Option<f64>,
    /// The posterior mean of every coordinate or combination, with smoothed weights.
    pub mean: Vec<Estimate>,
    /// The posterior standard deviation of the same, with smoothed weights.
    pub sd: Vec<Estimate>,
    /// 1/Σ w² of the smoothed weights: as many draws from p itself would do as well, roughly.
    pub effective_sample_size: f64,
    /// Logarithms of the smoothed weights, of every draw; the latents are [`latents()`].
    pub log_weights: Vec<f64>,
}

/// The latents of the first `draws` draws, one after the other.
pub fn latents(w: &Gaussian, draws: usize, seed: u64) -> Result<Vec<f64>, Error> {
    let mut z = vec![0.0; w.dim() * draws];
    Fresh::estimate(draws, seed, 1)?.normals(w.dim(), 0..draws, &mut |start, u| {
        w.transform(u, &mut z[start * w.dim()..][..u.len()]);
        Ok(())
    })?;
    Ok(z)
}

/// log p(x) and KL(q ‖ p) from the log weights of draws of q: the first two rows of the table of [`importance`].
pub(crate) fn evidence_and_kl(log_weights: &[f64]) -> (Estimate, Estimate) {
    let n = log_weights.len() as f64;
    let largest = log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mean_weight = log_weights.iter().map(|r| (r - largest).exp()).sum::<f64>() / n;
    // the sum of r − max r, so that constants in log p do not cancel
    let mean_log = log_weights.iter().map(|r| r - largest).sum::<f64>() / n;
    let (mut evidence, mut divergence) = (0.0, 0.0);
    for r in log_weights {
        let v = (r - largest).exp() / mean_weight - 1.0;
        evidence += v * v;
        divergence += (v - (r - largest - mean_log)).powi(2);
    }
    let error = |squares: f64| (squares / (n - 1.0) / n).sqrt();
    (
        Estimate { value: largest + mean_weight.ln(), standard_error: error(evidence) },
        Estimate { value: mean_weight.ln() - mean_log, standard_error: error(divergence) },
    )
}

/// The least effective sample size of an estimate.
const FEWEST: f64 = 50.0;
/// Standard errors that an estimate of an error states: of 100 normal estimates one is further away.
pub const STATED: f64 = 2.6;

/// What importance sampling says of the combinations that are printed, as an estimate: KL(q ‖ p), the evidence, and
/// how far q's means and sds are from the posterior's, 2.6 standard errors included; none if the tail of the weights
/// forbids it.
pub fn compared(
    target: &dyn Target,
    w: &Gaussian,
    combinations: &[Vec<(usize, f64)>],
    draws: usize,
    seed: u64,
) -> Result<(Posterior, Importance), Error> {
    let found = importance_of(target, w, combinations, draws, seed)?;
    let posterior = found.compared(w, combinations);
    Ok((posterior, found))
}

impl Importance {
    fn compared(&self, w: &Gaussian, combinations: &[Vec<(usize, f64)>]) -> Posterior {
        if let Some(k) = self.k_hat.filter(|k| *k >= 0.7) {
            return Posterior::none(heavy(k));
        }
        let (mut mean_error, mut sd_error) = (0.0_f64, 0.0_f64);
        let mut own = Combinations::new(w);
        for ((terms, mean), sd) in combinations.iter().zip(&self.mean).zip(&self.sd) {
            let (m, s) = own.moments(terms);
            mean_error = mean_error.max(((mean.value - m).abs() + STATED * mean.standard_error) / s);
            sd_error = sd_error.max(((sd.value - s).abs() + STATED * sd.standard_error) / s);
        }
        // largest numbers swallow those that are none
        let whole = self.mean.iter().chain(&self.sd).all(|e| (e.value + e.standard_error).is_finite());
        if !whole || self.effective_sample_size < FEWEST {
            return Posterior::none("almost all of the importance weight is that of a few draws");
        }
        let mut posterior = stated(self.log_evidence, self.kl);
        (posterior.mean_error, posterior.sd_error) = (Some(mean_error), Some(sd_error));
        posterior
    }
}

fn heavy(k: f64) -> String {
    format!("the importance weights are too heavy-tailed (k-hat {k:.2})")
}

/// KL(q ‖ p) and the evidence from the log weights of draws of q, as a statement that is only estimated, or none if
/// their tail forbids it.
pub fn divergence(log_weights: &[f64]) -> Posterior {
    if let Some(k) = psis::k_hat(log_weights).filter(|k| *k >= 0.7) {
        return Posterior::none(heavy(k));
    }
    let (evidence, kl) = evidence_and_kl(log_weights);
    stated(evidence, kl)
}

/// Both as a statement, with twice their standard errors.
pub fn stated(evidence: Estimate, kl: Estimate) -> Posterior {
    let mut out = Posterior::none("");
    out.statement = Statement::estimated("importance sampling", kl.upper(), "q has found every mode")
        .with("estimate", kl.value)
        .with("standard error", kl.standard_error);
    let spread = 2.0 * evidence.standard_error;
    out.log_evidence = Some((evidence.value - spread, evidence.value + spread));
    out
}

/// r_i = log p(z_i) − log q(z_i) of draws z_i ~ q.
pub fn log_weights(target: &dyn Target, w: &Gaussian, draws: usize, seed: u64) -> Result<Vec<f64>, Error> {
    let mut out = Vec::with_capacity(draws);
    Fresh::estimate(draws, seed, 1)?.run(target, w, 0..draws, &mut |run| {
        out.extend_from_slice(run.log_weights);
        Ok(())
    })?;
    Ok(out)
}

/// Importance sampling with r_i = log p(z_i) − log q(z_i), z_i ~ q. With v_i = e^{r_i}/mean(e^r) the standard errors
/// are by the delta method, from the spread of what one draw adds:
///
/// | estimate | of one draw |
/// |---|---|
/// | log mean e^r | v − 1 |
/// | log mean e^r − mean r | v − 1 − (r − mean r) |
/// | m = Σ w z | w (z − m) |
/// | s² = Σ w (z − m)² | w ((z − m)² − s²), divided by 2s for s |
///
/// where w are the Pareto-smoothed weights, which sum to one. The draws are made three times and never kept.
pub fn importance(target: &dyn Target, w: &Gaussian, draws: usize, seed: u64) -> Result<Importance, Error> {
    let coordinates: Vec<_> = (0..w.dim()).map(|i| vec![(i, 1.0)]).collect();
    importance_of(target, w, &coordinates, draws, seed)
}

/// The same with the means and sds of linear combinations of the coordinates, each as (coordinate, weight).
pub fn importance_of(
    target: &dyn Target,
    w: &Gaussian,
    combinations: &[Vec<(usize, f64)>],
    draws: usize,
    seed: u64,
) -> Result<Importance, Error> {
    let fresh = Fresh::estimate(draws, seed, 1)?;
    let log_weights = log_weights(target, w, draws, seed)?;
    let (log_evidence, kl) = evidence_and_kl(&log_weights);
    let smoothed = psis::smooth(&log_weights)?;
    let weights: Vec<f64> = smoothed.log_weights.iter().map(|x| x.exp()).collect();
    let (mean, sd) = moments(w, combinations, fresh, &weights)?;
    Ok(Importance {
        log_evidence,
        kl,
        neg_elbo: neg_elbo(&log_weights),
        k_hat: smoothed.k_hat,
        tail_index: psis::tail_index(&log_weights),
        mean,
        sd,
        effective_sample_size: 1.0 / weights.iter().map(|x| x * x).sum::<f64>(),
        log_weights: smoothed.log_weights,
    })
}

impl Importance {
    /// With standard errors n^(k̂ − ½) times as large where k̂ > ½: means of n weights with such a tail, whose variance
    /// is infinite, converge like n^(k̂ − 1).
    #[must_use]
    pub(crate) fn allowing_for_the_tail(mut self) -> Self {
        let excess = (self.tail_index.unwrap_or(0.0) - 0.5).clamp(0.0, 0.5);
        let factor = (self.log_weights.len() as f64).powf(excess);
        let moments = self.mean.iter_mut().chain(&mut self.sd);
        for estimate in moments.chain([&mut self.log_evidence, &mut self.kl]) {
            estimate.standard_error *= factor;
        }
        self
    }
}

fn neg_elbo(log_weights: &[f64]) -> Estimate {
    Estimate::of(&log_weights.iter().map(|r| -r).collect::<Vec<f64>>())
}

/// The same from draws of q that are there already, one after the other, with r_i at each.
pub(crate) fn of_points(w: &Gaussian, latents: Vec<f64>, log_weights: &[f64]) -> Result<Importance, Error> {
    let (log_evidence, kl) = evidence_and_kl(log_weights);
    let smoothed = psis::smooth(log_weights)?;
    let points = WeightedDraws::new(w.dim(), latents, &smoothed.log_weights)?;
    let (mean, sd) = (0..w.dim()).map(|i| points.moments(&points.series(|z| z[i]))).unzip();
    let squares: f64 = smoothed.log_weights.iter().map(|x| (2.0 * x).exp()).sum();
    Ok(Importance {
        log_evidence,
        kl,
        neg_elbo: neg_elbo(log_weights),
        k_hat: smoothed.k_hat,
        tail_index: psis::tail_index(log_weights),
        mean,
        sd,
        effective_sample_size: 1.0 / squares,
        log_weights: smoothed.log_weights,
    })
}

/// Weighted means and standard deviations of combinations of z = m + C u, as deviations from theirs of m.
fn moments(
    w: &Gaussian,
    combinations: &[Vec<(usize, f64)>],
    fresh: Fresh,
    weights: &[f64],
) -> Result<(Vec<Estimate>, Vec<Estimate>), Error> {
    let (dim, count) = (w.dim(), combinations.len());
    let along = |terms: &[(usize, f64)], z: &[f64]| terms.iter().map(|&(i, a)| a * z[i]).sum::<f64>();
    let mut x = Vec::new();
    let mut each = |visit: &mut dyn FnMut(usize, f64, f64)| {
        fresh.normals(dim, 0..fresh.draws, &mut |start, u| {
            x.clear();
            x.resize(u.len(), 0.0);
            w.factor().add_apply(u, &mut x);
            for (x, weight) in x.chunks_exact(dim).zip(&weights[start..]) {
                combinations.iter().enumerate().for_each(|(k, terms)| visit(k, along(terms, x), *weight));
            }
            Ok(())
        })
    };
    let mut shift = vec![0.0; count];
    each(&mut |i, x, weight| shift[i] += weight * x)?;
    // Σ w y², Σ w² y², Σ w² y⁴ with y = x − shift
    let mut sums = vec![[0.0; 3]; count];
    each(&mut |i, x, weight| {
        let square = (x - shift[i]).powi(2);
        let squared = weight * weight * square;
        sums[i][0] += weight * square;
        sums[i][1] += squared;
        sums[i][2] += squared * square;
    })?;
    let weights_squared: f64 = weights.iter().map(|x| x * x).sum();
    let mean = combinations.iter().zip(&shift).zip(&sums);
    let mean = mean.map(|((terms, shift), s)| Estimate {
        value: along(terms, w.mean()) + shift,
        standard_error: s[1].sqrt(),
    });
    let sd = sums.iter().map(|s| {
        let (variance, spread) = (s[0], s[2] - 2.0 * s[0] * s[1] + s[0] * s[0] * weights_squared);
        let value = variance.sqrt();
        Estimate { value, standard_error: spread.max(0.0).sqrt() / (2.0 * value) }
    });
    Ok((mean.collect(), sd.collect()))
}
