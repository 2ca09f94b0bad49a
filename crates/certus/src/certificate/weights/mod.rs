//! How far q is from a log-concave posterior, and the posterior's own means and sds, from importance weights whose tail
//! is proved (math: D8).
//!
//! z = m + Cx with x standard normal under q; W(x) = −log p(z) + log q(z) − f with f = −ELBO, so that E_q W = 0; w =
//! e^{−W}, Z = E_q w. Then p/q = w/Z, KL(q ‖ p) = log Z and log p(x) = log Z − f. The weights are cut at e^τ, which
//! makes them bounded, and `tail.rs` bounds what is cut off. Thresholds, cuts and clips come from pilot pairs, every
//! statement from others.

mod bounded;
mod declined;
mod few;
mod functions;
mod levels;
mod normal;
mod pairs;
mod plan;
mod quantiles;
mod tail;

pub use bounded::{empirical_bernstein, ratio, squares};
pub use declined::{WeightObstacle, WeightsDeclined};
pub use few::FEW_PAIRS;
pub use functions::{EnclosedFunction, FunctionSize, LatentFunctions};

use super::Posterior;
use crate::combination::Combinations;
use crate::error::{Error, same_length};
use crate::gaussian::Gaussian;
use crate::random::{Purpose, Random};
use crate::target::Target;
use bounded::{Clip, probability_at_most};
use normal::upper_quantile;
use pairs::{Cut, Pairs, Tally, Variables};
use plan::{LARGEST_TAU, clips, closest};
use tail::{GoodSet, Tail, Tails, clipped_mean, clipped_square};

/// The stream of the pilot of attempt 0; the main pairs have the next, and every attempt two of its own
/// ([`Purpose`] lists all streams).
const STREAM: u64 = 0xD8 << 32;
/// uᵀx is clipped at ± this.
const XI: f64 = 4.0;
/// Pairs of a certificate that only says how far q is at least.
const FEW: usize = 8000;
/// How δ is shared: all sets, Z, the total variation, KL(p ‖ q), all quantiles; what is left by every mean and sd.
const SETS: f64 = 0.25;
const EVIDENCE: f64 = 0.125;
const VARIATION: f64 = 0.03125;
const REVERSE: f64 = 0.03125;
const QUANTILES: f64 = 0.0625;
const REPORTED: f64 = 0.5;
/// Relative rounding of a gradient that is allowed for.
const SLOPE_ROUNDING: f64 = 1e-8;

/// A Gaussian, and a posterior whose −log p is convex.
#[derive(Clone, Copy)]
pub struct WeightProblem<'a> {
    /// log p with −log p convex.
    pub target: &'a dyn Target,
    /// q.
    pub q: &'a Gaussian,
    /// Combinations of the latents, as (latent, weight): every statement on means and sds is about these.
    pub reported: &'a [Vec<(usize, f64)>],
    /// −ELBO of q, and how far that may be off. If that is infinite, any number will do that makes the mean weight
    /// about one: nothing but KL(q ‖ p) needs the ELBO.
    pub neg_elbo: (f64, f64),
    /// κ ≥ 0: Cᵀ∇²(−log p)C ⪰ κ everywhere.
    pub kappa: f64,
    /// How far a computed log p(z) − log q(z) may be off.
    pub rounding: f64,
    /// Runs of pairs that one thread takes at a time.
    pub grain: usize,
}

/// How many draws, and how sure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightSettings {
    /// Pairs x, −x, fixed beforehand.
    pub pairs: usize,
    /// Everything stated holds, all of it, with probability at least 1 − δ.
    pub delta: f64,
    /// Of the draws; q must not have been chosen with draws for checks.
    pub seed: u64,
    /// Each attempt has draws of its own.
    pub attempt: u64,
}

/// An estimate with an interval that holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Enclosed {
    /// By importance sampling with the weights that were cut.
    pub estimate: f64,
    /// The truth is not below.
    pub low: f64,
    /// Nor above.
    pub high: f64,
}

impl Enclosed {
    /// How far the truth may be from the estimate.
    pub fn error(&self) -> f64 {
        (self.high - self.estimate).max(self.estimate - self.low)
    }
}

/// What the weights say. Everything holds together with probability 1 − δ, if −log p is convex.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightCertificate {
    /// KL(q ‖ p); the upper end is infinite where the ELBO is not known.
    pub kl: (f64, f64),
    /// KL(p ‖ q) is at most this.
    pub reverse_kl: f64,
    /// No event's probability under q is further than this from its posterior probability.
    pub total_variation: f64,
    /// log p(x).
    pub log_evidence: (f64, f64),
    /// Posterior means of what is reported.
    pub means: Vec<Enclosed>,
    /// Posterior sds of the same.
    pub sds: Vec<Enclosed>,
    /// The 5, 50 and 95 % quantiles of the same lie in these intervals, which may be infinite.
    pub quantiles: Vec<[(f64, f64); 3]>,
    /// q's own means are off by at most this many of its sds.
    pub mean_error: f64,
    /// And its sds by at most this fraction of them.
    pub sd_error: f64,
    /// Half the width of the widest interval of a mean or an sd, in sds of q.
    pub width: f64,
    /// The weights were cut at e^τ.
    pub tau: f64,
    /// E_q (w − e^τ)₊ is at most this.
    pub tail: f64,
    /// Logarithms of the weights that were cut, at x and at −x of every pair; the latents are
    /// [`WeightProblem::latents`].
    pub log_weights: Vec<f64>,
}

impl WeightCertificate {
    /// How far estimates of means and sds may be off, in estimated sds: what is printed of them.
    pub fn corrected_error(&self) -> f64 {
        let each = self.means.iter().zip(&self.sds);
        let off = each.map(|(mean, sd)| mean.error().max(sd.error()) / sd.estimate);
        // an sd of 0 is known to no accuracy
        off.fold(0.0, |worst, off| if off.is_nan() { f64::INFINITY } else { worst.max(off) })
    }
}

impl WeightProblem<'_> {
    /// The certificate, or why there is none.
    pub fn certify(
        &self,
        settings: &WeightSettings,
    ) -> Result<Result<WeightCertificate, WeightsDeclined>, Error> {
        self.check(settings)?;
        let mut combinations = Combinations::new(self.q);
        let moments: Vec<(f64, f64)> =
            self.reported.iter().map(|terms| combinations.moments(terms)).collect();
        if let Some((_, sd)) = moments.iter().find(|(_, sd)| !(*sd > 0.0 && sd.is_finite())) {
            return Err(Error::invalid("the sd of a combination under q", sd, "a positive number is needed"));
        }
        let plan = self.plan(&self.pairs(settings, &moments, 0), settings)?;
        let main = self.pairs(settings, &moments, 1);
        let (n, reported) = (settings.pairs, moments.len());
        let Some(cut) = plan.cut else {
            // Theorem 4: no tail is needed
            let n = n.min(FEW);
            let cap = 0.01 * n as f64 / (24.0 / settings.delta).ln();
            let cut = Cut { tau: cap.ln().clamp(0.1, LARGEST_TAU), xi: XI };
            let clips = clips(&plan.largest, &cut.most(reported));
            let tally = main.tally(n, cut, &clips, &[])?;
            return Ok(Err(self.declined(&plan.closest, &tally, n, cut, &clips, settings.delta)));
        };
        let clips = clips(&plan.largest, &cut.most(reported));
        let tally = main.tally(n, cut, &clips, &plan.thresholds)?;
        let sets = self.sets(&plan.thresholds, &tally.outside, n as f64, settings.delta);
        let tail = Tails::new(&sets, self.kappa()).at(cut.tau);
        if !tail.is_finite() {
            let delta = EVIDENCE * settings.delta;
            return Ok(Err(self.declined(&closest(&sets), &tally, n, cut, &clips, delta)));
        }
        let found = self.conclude(&moments, &tally, n as f64, cut, &clips, tail, settings.delta);
        Ok(found.map(|found| WeightCertificate { log_weights: tally.log_weights, ..found }))
    }

    /// The latents of the first `pairs` pairs of [`WeightCertificate::log_weights`], one point after the other.
    pub fn latents(&self, settings: &WeightSettings, pairs: usize) -> Vec<f64> {
        self.pairs(settings, &[], 1).latents(pairs)
    }

    /// The pilot (0) or the main pairs (1) of an attempt.
    fn pairs<'a>(&'a self, settings: &WeightSettings, moments: &'a [(f64, f64)], which: u64) -> Pairs<'a> {
        let random = Random::new(settings.seed, Purpose::Check, 0);
        Pairs { problem: self, moments, random, stream: STREAM + 2 * settings.attempt + which }
    }

    fn check(&self, settings: &WeightSettings) -> Result<(), Error> {
        same_length("the target", self.q.dim(), self.target.dim())?;
        let WeightSettings { pairs, delta, .. } = *settings;
        if !(delta > 0.0 && delta < 1.0) {
            return Err(Error::invalid("delta", delta, "a probability between 0 and 1 is required"));
        }
        if pairs < 2 || u32::try_from(pairs).is_err() {
            return Err(Error::invalid("the number of pairs", pairs, "from 2 to 2^32 − 1 are required"));
        }
        let numbers = [
            ("the negative ELBO", self.neg_elbo.0, f64::MIN),
            ("kappa", self.kappa, 0.0),
            ("the rounding of the log density", self.rounding, 0.0),
        ];
        let off = self.neg_elbo.1;
        if off.is_nan() || off < 0.0 {
            return Err(Error::invalid("the error of the ELBO", off, "it must not be negative"));
        }
        match numbers.into_iter().find(|(_, x, least)| !(x.is_finite() && x >= least)) {
            Some((name, x, _)) => {
                Err(Error::invalid(name, x, "it must be finite and, but for the ELBO, not negative"))
            }
            None => Ok(()),
        }
    }

    /// κ, at most 1: wider than the prior, q would make P fall.
    fn kappa(&self) -> f64 {
        self.kappa.clamp(0.0, 1.0)
    }

    /// The sets with the z that counting on `n` pairs gives them, all of them together but for a quarter of δ.
    fn sets(&self, thresholds: &[(f64, f64)], outside: &[f64], n: f64, delta: f64) -> Vec<GoodSet> {
        let delta = SETS * delta / thresholds.len() as f64;
        let each = thresholds.iter().zip(outside).map(|(&(level, slope), outside)| GoodSet {
            level: level + self.rounding,
            slope: slope * (1.0 + SLOPE_ROUNDING) + SLOPE_ROUNDING,
            z: upper_quantile(probability_at_most(*outside, n, delta)),
        });
        each.collect()
    }

    /// What rounding of v may do to any of the variables: they change by at most (1 + τ)e^τ max(1, ξ²) times as much.
    fn slack(&self, cut: Cut) -> f64 {
        4.0 * self.rounding * (1.0 + cut.tau) * cut.tau.exp() * (cut.xi * cut.xi).max(1.0)
    }

    fn declined(
        &self,
        closest: &GoodSet,
        tally: &Tally,
        n: usize,
        cut: Cut,
        clips: &Variables<Clip>,
        delta: f64,
    ) -> WeightsDeclined {
        let (low, _) = tally.sums.weight.interval(n as f64, clips.weight, delta);
        let kl_at_least = ((1.0 + low - self.slack(cut)).max(0.0).ln() - self.neg_elbo.1).max(0.0);
        let obstacle = WeightObstacle::Tail { slope: closest.slope, z: closest.z };
        WeightsDeclined { obstacle, kl_at_least }
    }

    /// Theorem 3.
    #[allow(clippy::too_many_arguments)]
    fn conclude(
        &self,
        moments: &[(f64, f64)],
        tally: &Tally,
        n: f64,
        cut: Cut,
        clips: &Variables<Clip>,
        tail: Tail,
        delta: f64,
    ) -> Result<WeightCertificate, WeightsDeclined> {
        let (sums, slack, cap, off) = (&tally.sums, self.slack(cut), cut.tau.exp(), self.neg_elbo.1);
        let [t0, t1, t2] = tail.moments;
        let y = sums.weight.interval(n, clips.weight, EVIDENCE * delta);
        // Jensen: Z ≥ e^{−E W}
        let z = ((1.0 + y.0 - slack).max((-off).exp()), 1.0 + y.1 + slack + t0);
        if z.0 <= 0.0 {
            let obstacle = WeightObstacle::Unresolved { most: z.1 };
            return Err(WeightsDeclined { obstacle, kl_at_least: 0.0 });
        }
        if z.0 > z.1 {
            let obstacle = WeightObstacle::Contradiction { least: z.0, most: z.1 };
            return Err(WeightsDeclined { obstacle, kl_at_least: 0.0 });
        }
        let centre = 1.0 + sums.weight.mean(n);
        let below = sums.below.interval(n, clips.below, VARIATION * delta).1 + slack;
        let entropy = sums.entropy.interval(n, clips.entropy, REVERSE * delta).1 + slack + tail.entropy;
        let each = REPORTED * delta / (2.0 * moments.len().max(1) as f64);
        let (e1, e2) = (clipped_mean(cap, cut.xi), clipped_square(cut.xi));
        let (mut means, mut sds, mut quantiles) = (Vec::new(), Vec::new(), Vec::new());
        // each of three quantiles may be missed on either side
        let quantile = QUANTILES * delta / (3.0 * moments.len().max(1) as f64);
        let (mut mean_error, mut sd_error, mut width) = (0.0_f64, 0.0_f64, 0.0_f64);
        for (k, &(mean, sd)) in moments.iter().enumerate() {
            let m = sums.means[k].interval(n, clips.means[k], each);
            let shift = ratio((m.0 - t1 - e1 - slack, m.1 + t1 + e1 + slack), z);
            let s = sums.squares[k].interval(n, clips.squares[k], each);
            let square = ratio((s.0 - t0 - e2 - slack, s.1 + t2 + (cap - 1.0).max(0.0) * e2 + slack), z);
            // Var_p uᵀx = 1 + S/Z − (N/Z)²
            let (inner, outer) = squares(shift);
            let variance = ((1.0 + square.0 - outer).max(0.0), (1.0 + square.1 - inner).max(0.0));
            let spread = (variance.0.sqrt(), variance.1.sqrt());
            let about = sums.means[k].mean(n) / centre;
            let wide = (1.0 + sums.squares[k].mean(n) / centre - about * about).max(0.0).sqrt();
            means.push(Enclosed {
                estimate: mean + sd * about.clamp(shift.0, shift.1),
                low: mean + sd * shift.0,
                high: mean + sd * shift.1,
            });
            sds.push(Enclosed {
                estimate: sd * wide.clamp(spread.0, spread.1),
                low: sd * spread.0,
                high: sd * spread.1,
            });
            let enclosed = tally.steps.enclosed(k, &sums.size, clips.size, n, (t0, slack), quantile);
            quantiles.push(enclosed.map(|(low, high)| (mean + sd * low, mean + sd * high)));
            mean_error = mean_error.max(shift.0.abs()).max(shift.1.abs());
            sd_error = sd_error.max(1.0 - spread.0).max(spread.1 - 1.0);
            width = width.max(0.5 * (shift.1 - shift.0)).max(0.5 * (spread.1 - spread.0));
        }
        Ok(WeightCertificate {
            kl: ((z.0.ln() - off).max(0.0), (z.1.ln() + off).max(0.0)),
            // falls with Z
            reverse_kl: (entropy.max(0.0) / z.0 - z.0.ln()).max(0.0),
            total_variation: (1.0 - (1.0 - below).max(0.0) / z.1.max(1.0)).clamp(0.0, 1.0),
            log_evidence: (
                z.0.ln() - self.neg_elbo.0 - self.rounding,
                z.1.ln() - self.neg_elbo.0 + self.rounding,
            ),
            means,
            sds,
            quantiles,
            mean_error,
            sd_error,
            width,
            tau: cut.tau,
            tail: t0,
            log_weights: Vec::new(),
        })
    }
}

#[cfg(test)]
mod function_tests;
#[cfg(test)]
mod tests;
