//! What a few pairs of draws estimate, in one batch: for so many rows that q is all but exact and every draw is costly.

use super::{Posterior, WeightProblem, WeightSettings};
use crate::certificate::Statement;
use crate::diagnostics::Estimate;
use crate::error::Error;

/// What the statement rests on, in the place of a theorem.
pub const FEW_PAIRS: &str = "few pairs";
/// Log weights further than this from their mean make a few of them worthless.
const WIDEST: f64 = 1.0;
/// Standard errors that are added to a mean: the terms are skewed, and few.
const STATED: f64 = 6.0;

impl WeightProblem<'_> {
    /// How far q is, from the mean square of ∇W at a few draws: an estimate of bounds. In the frame of q, which is
    /// standard normal there, with R_p = E_p|∇W|² and R_q = E_q|∇W|²,
    ///
    /// - KL(p ‖ q) ≤ R_p/2 (logarithmic Sobolev inequality), and W₂(p, q)² ≤ 2 KL(p ‖ q) (Talagrand's), so means and
    ///   sds of every uᵀx, |u| = 1, are off by at most √R_p: in sds of q and in parts of them;
    /// - KL(q ‖ p) = log E_q e^{−W} with E_q W = 0 is Var_q(W)/2 to leading order, at most R_q/2 (Poincaré's
    ///   inequality).
    ///
    /// R_p is a mean weighted by e^{−W}, and every mean has six standard errors added, because squares of gradients are
    /// skewed (for one latent, (a + x² − 1)², the worst case: then √R_p misses a mean in 1 of 100 runs, R_q/2 misses KL
    /// in 4). None if the weights differ by so much that a few of them say nothing.
    pub fn estimate(&self, settings: &WeightSettings) -> Result<Posterior, Error> {
        self.check(settings)?;
        let pairs = self.pairs(settings, &[], 1);
        let drawn = pairs.each_in_order(settings.pairs, |pair| (pair.v, pair.slopes))?;
        let n = drawn.len() as f64;
        let centre = drawn.iter().map(|(v, _)| 0.5 * (v[0] + v[1])).sum::<f64>() / n;
        if drawn.iter().flat_map(|(v, _)| v).any(|v| (v - centre).abs() > WIDEST) {
            return Ok(Posterior::none(format!(
                "the importance weights of {} draws differ by more than a factor of e from their mean",
                2 * drawn.len()
            )));
        }
        let mean = |of: &dyn Fn(f64, f64) -> f64| {
            let each: Vec<f64> = drawn.iter().map(|(v, s)| 0.5 * (of(v[0], s[0]) + of(v[1], s[1]))).collect();
            Estimate::of(&each)
        };
        let weight = |v: f64| (v - centre).exp();
        let mean_weight = mean(&|v, _| weight(v)).value;
        let above = |e: Estimate| e.value + STATED * e.standard_error;
        let under_q = above(mean(&|_, slope| slope * slope));
        let under_p = above(mean(&|v, slope| weight(v) / mean_weight * slope * slope));
        let (kl, error) = (0.5 * under_q, under_p.sqrt());
        let (f, off) = self.neg_elbo;
        let mut out = Posterior::none("");
        out.statement = Statement::estimated(FEW_PAIRS, kl, "a few draws of ∇W tell its mean square")
            .with("KL(p‖q), about at most", 0.5 * under_p)
            .with("pairs of draws", n);
        out.log_evidence = Some((-f - off, -f + off + kl));
        (out.mean_error, out.sd_error) = (Some(error), Some(error));
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Coins, gaussian, problem, truth};
    use super::*;

    /// 400 seeds on posteriors of one latent, the hardest case, with Gaussians at the mode and off it: what is stated
    /// of means and sds is exceeded in at most 1 of 100 runs (more than 12 of 400 have probability 1e-4 then), of KL
    /// and the evidence in at most 4 (more than 32: 1e-4).
    #[test]
    fn sixteen_pairs() {
        let rows = [(1.0, 4000.0, 2500.0), (-0.5, 2000.0, 800.0)];
        for (rare, shift, wider) in [
            (0.0, 0.0, 1.0),
            (0.0, 0.05, 1.0),
            (0.0, -0.03, 1.04),
            (0.0, 0.1, 1.03),
            (30.0, 0.0, 1.0),
            (30.0, 0.02, 1.01),
        ] {
            let rows = if rare > 0.0 { vec![(1.0, 4000.0, rare)] } else { rows.to_vec() };
            let target = Coins { rows, prior_sd: 3.0 };
            let (mut mode, mut curvature) = (if rare > 0.0 { -4.9 } else { 0.0 }, 1.0);
            for _ in 0..50 {
                curvature = (target.value(mode + 1e-4).1 - target.value(mode - 1e-4).1) / 2e-4;
                mode -= target.value(mode).1 / curvature;
            }
            let sd = 1.0 / f64::sqrt(curvature);
            let (at, spread) = (mode + shift * sd, wider * sd);
            let (q, truth) = (gaussian(at, spread), truth(&target, at, spread));
            let problem = problem(&target, &q, (truth.neg_elbo, 1e-9));
            let (mut exceeded, mut declined) = ([0; 4], 0);
            for seed in 0..400 {
                let settings = WeightSettings { pairs: 16, delta: 0.01, seed, attempt: 1 };
                let found = problem.estimate(&settings).expect("finite");
                // one of 32 draws may be too far out
                let Some(bound) = found.statement.bound() else {
                    declined += 1;
                    continue;
                };
                let (low, high) = found.log_evidence.expect("an interval");
                let (mean, sds) = (found.mean_error.expect("said"), found.sd_error.expect("said"));
                exceeded[0] += usize::from(truth.kl > bound);
                exceeded[1] += usize::from(truth.log_evidence < low || truth.log_evidence > high);
                exceeded[2] += usize::from((truth.mean - at).abs() / spread > mean);
                exceeded[3] += usize::from((truth.sd / spread - 1.0).abs() > sds);
            }
            let [kl, evidence, mean, sds] = exceeded;
            assert!(kl.max(evidence) <= 32 && mean.max(sds) <= 12, "{rare} {shift} {wider}: {exceeded:?}");
            assert!(declined <= 40, "{rare} {shift} {wider}: {declined}");
        }
    }

    /// R_p = R_q = s² where W is linear with slope s: q standard normal, p shifted by s.
    #[test]
    fn by_hand() {
        let s = 0.25;
        let shifted = Shifted(s);
        let q = gaussian(0.0, 1.0);
        let problem = WeightProblem {
            target: &shifted,
            q: &q,
            reported: &[],
            // E_q[−log p + log q]
            neg_elbo: (0.5 * s * s, 0.0),
            kappa: 0.0,
            rounding: 0.0,
            grain: 1,
        };
        let settings = WeightSettings { pairs: 16, delta: 0.01, seed: 1, attempt: 1 };
        let found = problem.estimate(&settings).expect("finite");
        assert!((found.statement.bound().expect("said") - 0.5 * s * s).abs() < 1e-12);
        // the weights have no spread in |∇W|², so that nothing is added but rounding
        assert!((found.mean_error.expect("said") - s).abs() < 0.05 * s, "{:?}", found.mean_error);
        let (low, high) = found.log_evidence.expect("said");
        assert!((low + 0.5 * s * s).abs() < 1e-12 && high.abs() < 1e-12, "{low} {high}");
    }

    /// log p(z) = −(z − s)²/2 − log √2π.
    struct Shifted(f64);

    impl crate::target::PointTarget for Shifted {
        fn dim(&self) -> usize {
            1
        }

        fn log_density_at(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, crate::error::TargetError> {
            gradient[0] = self.0 - z[0];
            Ok(-0.5 * (z[0] - self.0).powi(2) - 0.5 * std::f64::consts::TAU.ln())
        }
    }

    /// Weights that differ much say nothing.
    #[test]
    fn far_away() {
        let target = Coins { rows: vec![(1.0, 40.0, 25.0)], prior_sd: 3.0 };
        let q = gaussian(2.0, 0.33);
        let problem = problem(&target, &q, (0.0, f64::INFINITY));
        let settings = WeightSettings { pairs: 16, delta: 0.01, seed: 1, attempt: 1 };
        let said = problem.estimate(&settings).expect("finite").statement;
        assert!(said.reason().is_some_and(|why| why.contains("differ")), "{said:?}");
    }
}
