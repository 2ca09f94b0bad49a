//! A certificate for few coefficients: a radial envelope over the posterior brackets the evidence, the posterior means
//! and sds with stated confidence, and its accepted proposals are independent exact draws (math: D6).

pub(crate) mod frame;
mod reported;
mod sampler;
pub(crate) mod shells;

use certus::certificate::weights::{empirical_bernstein, ratio, squares};
use certus::certificate::{Level, Posterior, Statement};
use certus::factor::Factor;
use certus::random::{Purpose, Random};
use certus::{Gaussian, Provenance};

use crate::error::{Declined, Error, InvalidModel};
use crate::exact::lower;
use crate::glm::Glm;
use certus_likelihood::Likelihood;
use certus_likelihood::internals::vouched_by;
use frame::EnvelopeFrame;
use reported::Reported;
use sampler::{Sampler, Tally};
use shells::{Growing, STEP, Shells};

/// Most coefficients: beyond, no pilot ever succeeds.
const LARGEST: usize = 100;
/// The share of the envelope's mass beyond R.
const TAIL: f64 = 1e-12;
/// Radii whose curvature is found in one pass over the rows.
const RADII: usize = 64;
/// Passes before the search for R is given up: R = 64 in units of the least curvature.
const PASSES: usize = 32;
/// Proposals of the pilot, and the least acceptance it must show.
const PILOT: usize = 2000;
const LEAST: f64 = 1e-4;
/// Stream numbers, apart from those of other checks ([`Purpose`] lists them all).
const PILOT_STREAM: u64 = 0xD6 << 32;
const STREAM: u64 = PILOT_STREAM + 2;
/// Relative rounding of ψ that is allowed for: about 10⁴ ulp, where the sums over rows lose some tens.
pub(crate) const ROUNDING: f64 = 1e-12;

/// How many draws, and how sure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EnvelopeSettings {
    /// Proposals n, fixed beforehand. Widths fall like 1/√n.
    pub proposals: usize,
    /// All statements hold together with probability at least 1 − δ.
    pub delta: f64,
    /// Fresh draws: not the seed of the run that made q with draws for checks.
    pub seed: u64,
    /// Accepted points to keep.
    pub keep: usize,
}

impl Default for EnvelopeSettings {
    fn default() -> Self {
        Self { proposals: 100_000, delta: 1e-6, seed: 0, keep: 1000 }
    }
}

/// What the envelope says of the posterior and of q. Everything holds together with probability 1 − δ.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// KL(q ‖ p), the evidence, and the largest errors of q's means and sds.
    pub posterior: Posterior,
    /// The level of everything but KL(q ‖ p), which also rests on the quadrature of the ELBO.
    pub level: Level,
    /// Brackets of the posterior means of what is reported: the coefficients, or the combinations of them that were
    /// given.
    pub means: Vec<(f64, f64)>,
    /// Brackets of the posterior sds of the same.
    pub sds: Vec<(f64, f64)>,
    /// The mean acceptance probability.
    pub acceptance: f64,
    /// The number of accepted proposals.
    pub accepted: usize,
    /// The first `keep` of them, d × n: independent draws.
    pub draws: Vec<f64>,
    /// The law of each draw is within this of the posterior in total variation: the mass beyond R, and rounding.
    pub total_variation: f64,
    /// R, in units of the frame.
    pub radius: f64,
}

impl Glm {
    /// The envelope certificate of q. Declined, with the figure, where the envelope cannot be made or almost nothing is
    /// accepted.
    pub fn envelope(&self, q: &Gaussian, settings: &EnvelopeSettings) -> Result<Envelope, Error> {
        self.enveloped(q, None, settings)
    }

    /// The same of linear combinations of the coefficients, each as (coefficient, weight): means, sds and their errors
    /// are those of the combinations, and of nothing else. Every combination costs 4 more statements that share δ.
    pub fn envelope_of(
        &self,
        q: &Gaussian,
        combinations: &[Vec<(usize, f64)>],
        settings: &EnvelopeSettings,
    ) -> Result<Envelope, Error> {
        self.enveloped(q, Some(combinations), settings)
    }

    pub(crate) fn enveloped(
        &self,
        q: &Gaussian,
        combinations: Option<&[Vec<(usize, f64)>]>,
        settings: &EnvelopeSettings,
    ) -> Result<Envelope, Error> {
        let d = self.dim();
        check(q, d, settings.delta, "the number of proposals", settings.proposals)?;
        if d > LARGEST {
            return Err(Declined::Coefficients { coefficients: d, most: LARGEST }.into());
        }
        let q = lower(q)?;
        let reported = match combinations {
            Some(combinations) => Reported::of(&q, combinations.to_vec())?,
            None => Reported::latents(&q)?,
        };
        let mode = crate::laplace::laplace(self)?.gaussian;
        let (frame, shells) = self.best(&mode, &q)?;
        self.certified(&q, &reported, &frame, &shells, settings)
    }

    /// A pilot, the proposals, and what follows.
    fn certified(
        &self,
        q: &Gaussian,
        reported: &Reported<'_>,
        frame: &EnvelopeFrame<'_>,
        shells: &Shells,
        settings: &EnvelopeSettings,
    ) -> Result<Envelope, Error> {
        let d = self.dim();
        // |ψ| ≤ |ψ(0)| + ID wherever A could exceed 1; both ψ(0) and ψ(u) are rounded
        let allowance = 2.0 * (ROUNDING * (2.0 + frame.value.abs() + shells.height) + frame.rounding);
        let random = Random::new(settings.seed, Purpose::Check, 0);
        let sampler = |stream| Sampler { target: self, frame, shells, reported, random, stream, allowance };
        let pilot = sampler(PILOT_STREAM).run(PILOT, 0)?.sums[0] / PILOT as f64;
        if pilot < LEAST {
            return Err(Declined::Acceptance {
                proposals: PILOT,
                share: pilot,
                least: LEAST,
                coefficients: d,
            }
            .into());
        }
        let tally = sampler(STREAM).run(settings.proposals, settings.keep)?;
        self.conclude(q, reported, settings, (frame, shells), allowance, tally)
    }

    /// The frame with the smaller envelope, which accepts more: q's factor or that of the Laplace approximation, at the
    /// mode.
    fn best(&self, mode: &Gaussian, q: &Gaussian) -> Result<(EnvelopeFrame<'_>, Shells), Error> {
        let volume = |(frame, shells): &(EnvelopeFrame<'_>, Shells)| {
            shells.log_mass + frame.gaussian.factor().log_det()
        };
        match (self.around(mode.mean(), q.factor(), TAIL), self.around(mode.mean(), mode.factor(), TAIL)) {
            (Ok(a), Ok(b)) => Ok(if volume(&a) <= volume(&b) { a } else { b }),
            (Ok(a), Err(_)) => Ok(a),
            (Err(_), b) => b,
        }
    }

    /// A frame and its shells, out to where the envelope's tail is negligible.
    fn around(
        &self,
        mean: &[f64],
        factor: &Factor,
        share: f64,
    ) -> Result<(EnvelopeFrame<'_>, Shells), Error> {
        let frame = EnvelopeFrame::new(self, mean, factor)?.ok_or(Declined::FlatMode)?;
        let mut growing = Growing::new(self.dim(), frame.slope);
        let mut last = 0.0;
        for pass in 0..PASSES {
            let radii: Vec<f64> = (1..=RADII).map(|i| (pass * RADII + i) as f64 * STEP).collect();
            for k in frame.curvature(&radii)? {
                last = k.max(0.0);
                growing.extend(last);
                if growing.done(share) {
                    return Ok((frame, growing.finish()));
                }
            }
            if growing.hopeless() {
                break;
            }
        }
        Err(Declined::Envelope {
            radius: growing.radius(),
            curvature: last,
            slope: growing.slope(),
            gradient: frame.slope,
        }
        .into())
    }

    /// From the sums to the statements.
    fn conclude(
        &self,
        q: &Gaussian,
        reported: &Reported<'_>,
        settings: &EnvelopeSettings,
        (frame, shells): (&EnvelopeFrame<'_>, &Shells),
        allowance: f64,
        tally: Tally,
    ) -> Result<Envelope, Error> {
        let (r, delta, n) = (reported.len(), settings.delta, settings.proposals);
        let bounds = Bounds::new(n, r, delta, allowance);
        let accept = bounds.of(&tally, 0, (0.0, 1.0));
        let acceptance = tally.sums[0] / n as f64;
        if accept.0 <= 0.0 {
            return Err(Declined::Proposals { acceptance, proposals: n, delta }.into());
        }
        // p(x) = mass · E A e^{−ψ(0)} det C, plus what lies beyond R
        let [beyond, first, second] = shells.tails;
        let scale = shells.log_mass - frame.value + frame.gaussian.factor().log_det();
        let slack = 2.0 * (ROUNDING * (1.0 + scale.abs() + frame.value.abs()) + frame.rounding);
        let evidence = (scale + accept.0.ln() - slack, scale + (accept.1 + beyond).ln() + slack);
        let (mut means, mut sds) = (Vec::with_capacity(r), Vec::with_capacity(r));
        let (mut mean_error, mut sd_error) = (0.0_f64, 0.0_f64);
        let around = reported.in_frame(&frame.gaussian);
        for (k, (&(mean, sd), (shift, reach))) in reported.moments().iter().zip(around).enumerate() {
            // y = aᵀ(z − E_q z)/sd_q lies within `reach`·|u| of `shift`
            let (least, most) = (shift - reach * shells.radius(), shift + reach * shells.radius());
            let far = least.abs().max(most.abs());
            let y = bounds.of(&tally, 1 + k, (least.min(0.0), most.max(0.0)));
            let evidence = (accept.0, accept.1 + beyond);
            // E_p g = (E A g + what is outside)/(E A + its mass)
            let outside = shift.abs() * beyond + reach * first;
            let y = ratio((y.0 - outside, y.1 + outside), evidence);
            let square = bounds.of(&tally, 1 + r + k, (-1.0, (far * far - 1.0).max(0.0)));
            let outside =
                (1.0 + shift * shift) * beyond + 2.0 * shift.abs() * reach * first + reach * reach * second;
            let square = ratio((square.0 - outside, square.1 + outside), evidence);
            // Var_p y = 1 + E(y² − 1) − (E y)²
            let (inner, outer) = squares(y);
            let variance = ((1.0 + square.0 - outer).max(0.0), (1.0 + square.1 - inner).max(0.0));
            let spread = (variance.0.sqrt(), variance.1.sqrt());
            means.push((mean + sd * y.0, mean + sd * y.1));
            sds.push((sd * spread.0, sd * spread.1));
            mean_error = mean_error.max(y.0.abs()).max(y.1.abs());
            sd_error = sd_error.max(1.0 - spread.0).max(spread.1 - 1.0);
        }
        let neg_elbo = self.neg_elbo(q)?;
        let rounding = ROUNDING * (1.0 + neg_elbo.abs()) + frame.rounding;
        let bound = (evidence.1 + neg_elbo + rounding).max(0.0);
        let word = vouched_by(&*self.likelihood).vouched().expect("a model or a user vouches");
        let statement = Statement::probable("D6", bound, delta, &word, "curvature along rays")
            .with("acceptance", acceptance)
            .with("R", shells.radius())
            .with("proposals", n as f64);
        let posterior = Posterior {
            statement: with_quadrature(&*self.likelihood, statement),
            log_evidence: Some(evidence),
            mean_error: Some(mean_error),
            sd_error: Some(sd_error),
        };
        Ok(Envelope {
            posterior,
            level: Level::Probable { delta },
            means,
            sds,
            acceptance,
            accepted: tally.accepted,
            draws: tally.draws,
            total_variation: ((beyond + allowance) / accept.0).min(1.0),
            radius: shells.radius(),
        })
    }
}

/// Empirical Bernstein bounds (Maurer and Pontil 2009, Theorem 4), for every statement the same.
struct Bounds {
    n: f64,
    /// log(2/δ′).
    log: f64,
    allowance: f64,
}

impl Bounds {
    /// 2 + 4r one-sided statements share δ, r the number of what is reported: two on A, two on each of A y_k and A(y_k²
    /// − 1).
    fn new(n: usize, reported: usize, delta: f64, allowance: f64) -> Self {
        Self { n: n as f64, log: (2.0 * (2 + 4 * reported) as f64 / delta).ln(), allowance }
    }

    /// |E X − mean| ≤ √(2V log(2/δ′)/n) + 7(b − a) log(2/δ′)/(3(n − 1)) for X in [a, b], V the sample variance; X is A
    /// times a number of at most b − a, so rounding of A adds at most the allowance times that.
    fn of(&self, tally: &Tally, i: usize, (a, b): (f64, f64)) -> (f64, f64) {
        let mean = tally.sums[i] / self.n;
        let variance = ((tally.squares[i] - self.n * mean * mean) / (self.n - 1.0)).max(0.0);
        let width = empirical_bernstein(variance, b - a, self.log, self.n) + 1.01 * self.allowance * (b - a);
        ((mean - width).max(a), (mean + width).min(b))
    }
}

/// Refuses a Gaussian, a δ or a number of draws (called `name`) that no certificate from fresh draws can use.
pub(crate) fn check(
    q: &Gaussian,
    d: usize,
    delta: f64,
    name: &'static str,
    draws: usize,
) -> Result<(), Error> {
    if q.dim() != d || !q.is_proper() {
        return Err(InvalidModel::Gaussian { coefficients: d }.into());
    }
    if !(delta > 0.0 && delta < 1.0) {
        let required = "a number between 0 and 1";
        return Err(InvalidModel::Setting { name: "delta", value: delta, required }.into());
    }
    if draws < 2 || u32::try_from(draws).is_err() {
        let required = "a number from 2 to 4 294 967 295";
        return Err(InvalidModel::Setting { name, value: draws as f64, required }.into());
    }
    Ok(())
}

/// With the quadrature of the ELBO as an assumption where its error is not proved.
pub(crate) fn with_quadrature(likelihood: &dyn Likelihood, statement: Statement) -> Statement {
    if likelihood.strip_is_proved() {
        return statement;
    }
    let name = likelihood.name();
    let what =
        format!("the quadrature of the ELBO for the {name} likelihood is as accurate as it was in tests");
    statement.assuming(what, Provenance::Estimated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Design, Memory, Prior, laplace};
    use certus_likelihood::{Linear, Logistic, NegativeBinomial, Poisson, Probit};
    use std::sync::Arc;

    fn model(likelihood: Arc<dyn Likelihood>, prior_sd: f64) -> Glm {
        let x = vec![1.0, -0.5, 2.0, 0.3, -1.2, 0.8, 1.5];
        let y = vec![1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0];
        let prior = Prior::independent(vec![0.3], &[prior_sd]).expect("a prior");
        let rows = Arc::new(Memory { x, y, columns: 1, ..Memory::default() });
        Glm::new(Design::new(rows, false), likelihood, prior).expect("a model")
    }

    /// log ∫p, mean and sd by the trapezoid rule.
    fn truth(model: &Glm, at: f64, sd: f64) -> (f64, f64, f64) {
        let (n, h) = (24_001, 1e-3 * sd);
        let z: Vec<f64> = (0..n).map(|i| at + (i as f64 - 12_000.0) * h).collect();
        let mut values = vec![0.0; n];
        certus::Target::log_density(model, &z, &mut values, &mut vec![0.0; n]).expect("finite");
        let top = values.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
        let sums = z.iter().zip(&values).fold([0.0; 3], |s, (z, v)| {
            let w = (v - top).exp();
            [s[0] + w, s[1] + w * (z - at), s[2] + w * (z - at) * (z - at)]
        });
        let mean = sums[1] / sums[0];
        (top + (sums[0] * h).ln(), at + mean, (sums[2] / sums[0] - mean * mean).sqrt())
    }

    /// A frame off the mode, where ε₀ counts, and an R so small that a good part lies beyond it: the brackets still
    /// hold, for δ = 1e-6 on each of 60 runs, and they would not without ε₀ or without the tail.
    #[test]
    fn off_centre_and_cut_off() {
        let likelihoods: [Arc<dyn Likelihood>; 5] = [
            Arc::new(Linear::new(0.8).expect("valid")),
            Arc::new(Logistic),
            Arc::new(Poisson),
            Arc::new(Probit),
            Arc::new(NegativeBinomial::new(1.5).expect("valid")),
        ];
        for likelihood in likelihoods {
            let model = model(likelihood, 1.5);
            let q = laplace(&model).expect("a mode").gaussian;
            let (at, sd) = (q.mean()[0], q.sd()[0]);
            let (evidence, mean, spread) = truth(&model, at, sd);
            for (seed, shift) in [-1.0, -0.3, 0.0, 0.6].into_iter().enumerate() {
                for share in [1e-12, 1e-3, 0.3] {
                    let (frame, shells) =
                        model.around(&[at + shift * sd], q.factor(), share).expect("an envelope");
                    assert!(shift == 0.0 || frame.slope > 0.1 * f64::abs(shift), "ε₀ = {}", frame.slope);
                    let settings =
                        EnvelopeSettings { proposals: 40_000, delta: 1e-6, seed: seed as u64, keep: 0 };
                    let latents = Reported::latents(&q).expect("proper");
                    let e = model.certified(&q, &latents, &frame, &shells, &settings).expect("a certificate");
                    let place = format!("{} {shift} {share}", model.likelihood().name());
                    let (low, high) = e.posterior.log_evidence.expect("a bracket");
                    assert!(low <= evidence && evidence <= high, "{place}: {evidence} not in {low} {high}");
                    assert!(e.means[0].0 <= mean && mean <= e.means[0].1, "{place}: {mean} {:?}", e.means);
                    assert!(e.sds[0].0 <= spread && spread <= e.sds[0].1, "{place}: {spread} {:?}", e.sds);
                    if share > 0.1 {
                        assert!(e.total_variation > 0.01, "{place}: {}", e.total_variation);
                    } else if share < 1e-6 {
                        assert!(e.total_variation < 1e-9 && high - low < 0.2, "{place}: {low} {high}");
                    }
                }
            }
        }
    }

    /// 30 ones and 70 zeros, scaled to [−1, 3]: mean 0.2, sample variance 16 · 21/99.
    #[test]
    fn empirical_bernstein() {
        let tally = Tally { sums: vec![20.0], squares: vec![30.0 * 9.0 + 70.0], ..Tally::default() };
        let bounds = Bounds { n: 100.0, log: 5.0, allowance: 0.0 };
        let width = (2.0 * (16.0 * 21.0 / 99.0) * 5.0 / 100.0_f64).sqrt() + 7.0 * 4.0 * 5.0 / (3.0 * 99.0);
        let (low, high) = bounds.of(&tally, 0, (-1.0, 3.0));
        assert!((low - (0.2 - width).max(-1.0)).abs() < 1e-12 && (high - (0.2 + width)).abs() < 1e-12);
        // each statement fails with probability δ′ = 2e^{−log}; for 3 of them reported there are 14 of them
        let together = 14.0 * 2.0 * (-Bounds::new(100, 3, 0.02, 0.0).log).exp();
        assert!((together / 0.02 - 1.0).abs() < 1e-12, "{together}");
    }
}
