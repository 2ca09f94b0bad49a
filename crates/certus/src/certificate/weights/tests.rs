//! The statements against quadrature, on posteriors of one latent where every number is known.

use std::sync::LazyLock;

use super::*;
use crate::error::TargetError;
use crate::factor::{Factor, Lower};
use crate::target::PointTarget;

/// −log p(z) = Σ nᵢ log(1 + e^{aᵢz}) − kᵢaᵢz + z²/(2s²): coins whose
/// log odds are multiples of z, with a normal prior of sd s.
pub(super) struct Coins {
    pub(super) rows: Vec<(f64, f64, f64)>,
    pub(super) prior_sd: f64,
}

impl Coins {
    pub(super) fn value(&self, z: f64) -> (f64, f64) {
        let (mut value, mut slope) = (0.5 * (z / self.prior_sd).powi(2), z / self.prior_sd.powi(2));
        for &(a, n, k) in &self.rows {
            let t = a * z;
            value += n * (t.max(0.0) + (-t.abs()).exp().ln_1p()) - k * t;
            slope += a * (n / (1.0 + (-t).exp()) - k);
        }
        (value, slope)
    }
}

impl PointTarget for Coins {
    fn dim(&self) -> usize {
        1
    }

    fn log_density_at(&self, point: &[f64], gradient: &mut [f64]) -> Result<f64, TargetError> {
        let (value, slope) = self.value(point[0]);
        gradient[0] = -slope;
        Ok(-value)
    }
}

/// What is true: log evidence, mean, sd, −ELBO of q, KL(q ‖ p), KL(p ‖ q), total variation.
pub(super) struct Truth {
    pub(super) log_evidence: f64,
    pub(super) mean: f64,
    pub(super) sd: f64,
    pub(super) neg_elbo: f64,
    pub(super) kl: f64,
    reverse_kl: f64,
    total_variation: f64,
    /// z, and the posterior probability of less than z.
    below: Vec<(f64, f64)>,
}

impl Truth {
    /// The posterior probability of less than z.
    fn below(&self, z: f64) -> f64 {
        let at = self.below.partition_point(|(x, _)| *x < z);
        if at == 0 || at == self.below.len() {
            return if at == 0 { 0.0 } else { 1.0 };
        }
        let ((x, p), (y, r)) = (self.below[at - 1], self.below[at]);
        p + (r - p) * (z - x) / (y - x)
    }
}

pub(super) fn truth(target: &Coins, mean: f64, sd: f64) -> Truth {
    let h = 2e-3;
    let points: Vec<(f64, f64, f64)> = (-15_000..=15_000)
        .map(|i| {
            let x = f64::from(i) * h;
            let z = mean + sd * x;
            (z, -target.value(z).0, -0.5 * x * x - 0.5 * std::f64::consts::TAU.ln() - sd.ln())
        })
        .collect();
    let step = h * sd;
    let top = points.iter().map(|p| p.1).fold(f64::NEG_INFINITY, f64::max);
    let log_evidence = top + (step * points.iter().map(|p| (p.1 - top).exp()).sum::<f64>()).ln();
    let sum = |f: &dyn Fn(f64, f64, f64) -> f64| {
        step * points.iter().map(|&(z, p, q)| f(z, p - log_evidence, q)).sum::<f64>()
    };
    let mut sum_below = 0.0;
    let below = points
        .iter()
        .map(|&(z, p, _)| {
            let mass = step * (p - log_evidence).exp();
            sum_below += mass;
            (z, sum_below - 0.5 * mass)
        })
        .collect();
    let m = sum(&|z, p, _| p.exp() * z);
    let variance = sum(&|z, p, _| p.exp() * (z - m).powi(2));
    let kl = sum(&|_, p, q| q.exp() * (q - p));
    Truth {
        log_evidence,
        mean: m,
        sd: variance.sqrt(),
        neg_elbo: kl - log_evidence,
        kl,
        reverse_kl: sum(&|_, p, q| p.exp() * (p - q)),
        total_variation: 0.5 * sum(&|_, p, q| (p.exp() - q.exp()).abs()),
        below,
    }
}

pub(super) fn gaussian(mean: f64, sd: f64) -> Gaussian {
    Gaussian::new(vec![mean], Factor::Lower(Lower::new(1, vec![sd]).expect("a factor"))).expect("a Gaussian")
}

/// A problem whose only latent is reported.
pub(super) fn problem<'a>(target: &'a Coins, q: &'a Gaussian, neg_elbo: (f64, f64)) -> WeightProblem<'a> {
    static LATENT: LazyLock<[Vec<(usize, f64)>; 1]> = LazyLock::new(|| [vec![(0, 1.0)]]);
    WeightProblem { target, q, reported: &*LATENT, neg_elbo, kappa: 0.0, rounding: 1e-10, grain: 1 }
}

/// Gaussians at, near and off the mode with more or less data: everything stated holds, for δ = 1e-6 each, and the
/// bounds are of use where q is good.
#[test]
fn everything_stated_is_true() {
    let (mut certified, mut declined, mut tight, mut enclosed) = (0, 0, 0, 0);
    for (case, count) in [4.0, 20.0, 200.0, 2000.0].into_iter().enumerate() {
        for (lean, prior_sd) in [(0.5, 3.0), (0.7, 10.0), (0.9, 1.0)] {
            let rows = vec![(1.0, count, lean * count), (-0.5, 0.5 * count, 0.2 * count), (2.0, 2.0, 1.0)];
            let target = Coins { rows, prior_sd };
            // Newton's method for the mode
            let (mut mode, mut curvature) = (0.0, 1.0);
            for _ in 0..50 {
                let h = 1e-4;
                curvature = (target.value(mode + h).1 - target.value(mode - h).1) / (2.0 * h);
                mode -= target.value(mode).1 / curvature;
            }
            let sd = 1.0 / f64::sqrt(curvature);
            for (shift, wider) in [(0.0, 1.0), (0.0, 1.05), (0.15, 1.0), (-0.3, 0.9), (1.0, 1.3)] {
                let (at, spread) = (mode + shift * sd, wider * sd);
                let (q, truth) = (gaussian(at, spread), truth(&target, at, spread));
                let problem = WeightProblem {
                    target: &target,
                    q: &q,
                    reported: &[vec![(0, 1.0)], vec![(0, -2.0)]],
                    neg_elbo: (truth.neg_elbo, 1e-9),
                    kappa: (spread / prior_sd).powi(2),
                    rounding: 1e-10,
                    grain: 1,
                };
                let settings = WeightSettings { pairs: 20_000, delta: 1e-6, seed: case as u64, attempt: 1 };
                let place = format!("{count} {lean} {shift} {wider}");
                match problem.certify(&settings).expect("finite") {
                    Ok(c) => {
                        certified += 1;
                        holds(&c, &truth, (at, spread), &place);
                        tight += usize::from(truth.kl > 1e-3 && c.kl.1 < 2.0 * truth.kl);
                        let finite = |(low, high): &(f64, f64)| low.is_finite() && high.is_finite();
                        enclosed += c.quantiles[0].iter().filter(|ends| finite(ends)).count();
                    }
                    Err(reason) => {
                        declined += 1;
                        assert!(reason.kl_at_least <= truth.kl, "{place}: {reason:?} {}", truth.kl);
                    }
                }
            }
        }
    }
    assert!(certified >= 45 && tight >= 10 && enclosed >= 100, "{certified} {declined} {tight} {enclosed}");
}

fn holds(c: &WeightCertificate, truth: &Truth, (at, spread): (f64, f64), place: &str) {
    let inside = |what: &str, value: f64, (low, high): (f64, f64)| {
        assert!(
            low - 1e-8 <= value && value <= high + 1e-8,
            "{place}: {what} {value} not in [{low}, {high}]"
        );
    };
    inside("KL(q‖p)", truth.kl, c.kl);
    inside("KL(p‖q)", truth.reverse_kl, (0.0, c.reverse_kl));
    inside("total variation", truth.total_variation, (0.0, c.total_variation));
    inside("log evidence", truth.log_evidence, c.log_evidence);
    for (k, factor) in [1.0, -2.0].into_iter().enumerate() {
        inside("mean", factor * truth.mean, (c.means[k].low, c.means[k].high));
        inside("sd", f64::abs(factor) * truth.sd, (c.sds[k].low, c.sds[k].high));
        inside("estimate", c.means[k].estimate, (c.means[k].low, c.means[k].high));
        for ((low, high), alpha) in c.quantiles[k].into_iter().zip([0.05, 0.5, 0.95]) {
            let below = |t: f64| if factor > 0.0 { truth.below(t) } else { 1.0 - truth.below(t / factor) };
            assert!(
                below(low) <= alpha + 1e-5 && alpha <= below(high) + 1e-5,
                "{place}: {alpha} {low} {high}"
            );
        }
    }
    inside("q's mean", ((truth.mean - at) / spread).abs(), (0.0, c.mean_error));
    inside("q's sd", (truth.sd / spread - 1.0).abs(), (0.0, c.sd_error));
}

/// Separated data without a prior have no posterior: never certified, whatever the Gaussian.
#[test]
fn improper_posteriors_are_declined() {
    let target = Coins { rows: vec![(1.0, 20.0, 20.0), (2.0, 5.0, 5.0)], prior_sd: 1e9 };
    for (seed, (mean, sd)) in [(2.0, 1.0), (5.0, 2.0), (10.0, 0.5), (30.0, 10.0)].into_iter().enumerate() {
        let q = gaussian(mean, sd);
        let problem = problem(&target, &q, (sd.ln(), 10.0));
        let settings = WeightSettings { pairs: 20_000, delta: 1e-3, seed: seed as u64, attempt: 1 };
        assert!(problem.certify(&settings).expect("finite").is_err(), "{mean} {sd}");
    }
}

/// The thresholds and the z of the sets, by hand: a quarter of δ for eleven sets.
#[test]
fn delta_is_shared() {
    assert_eq!(SETS + EVIDENCE + VARIATION + REVERSE + QUANTILES + REPORTED, 1.0);
    let (target, q) = (Coins { rows: vec![(1.0, 10.0, 5.0)], prior_sd: 1.0 }, gaussian(0.0, 1.0));
    let problem = WeightProblem {
        target: &target,
        q: &q,
        reported: &[],
        neg_elbo: (0.0, 0.0),
        kappa: 0.0,
        rounding: 0.125,
        grain: 1,
    };
    let thresholds = vec![(0.5, 0.25); 11];
    let sets = problem.sets(&thresholds, &[30.0; 11], 1000.0, 0.044);
    let z = upper_quantile(probability_at_most(30.0, 1000.0, 0.001));
    for set in sets {
        assert_eq!((set.level, set.z), (0.625, z));
        assert!((set.slope / 0.25 - 1.0).abs() < 1e-6 && set.slope > 0.25);
    }
}

/// Each attempt has its own draws, and they are those of no other purpose.
#[test]
fn attempts_have_draws_of_their_own() {
    let draw = |purpose, stream| {
        let mut x = [0.0; 4];
        Random::new(7, purpose, 0).normals(stream, 0, 4, &mut x);
        x
    };
    let all = [
        draw(Purpose::Check, STREAM),
        draw(Purpose::Check, STREAM + 1),
        draw(Purpose::Check, STREAM + 2),
        draw(Purpose::Check, 0xD6 << 32),
        draw(Purpose::Simulate, STREAM + 1),
        draw(Purpose::Sample, STREAM + 1),
        draw(Purpose::Sample, 0),
    ];
    for (i, a) in all.iter().enumerate() {
        assert!(all[..i].iter().all(|b| a != b), "{i}");
    }
}

/// Two attempts with the same seed see other draws.
#[test]
fn attempts_differ() {
    let target = Coins { rows: vec![(1.0, 40.0, 25.0)], prior_sd: 3.0 };
    let q = gaussian(0.5, 0.33);
    let run = |attempt| {
        let problem = problem(&target, &q, (truth(&target, 0.5, 0.33).neg_elbo, 1e-9));
        let settings = WeightSettings { pairs: 2000, delta: 0.1, seed: 3, attempt };
        problem.certify(&settings).expect("finite").expect("a certificate").means[0].estimate
    };
    assert!(run(1) != run(2) && run(1) == run(1));
}

/// The same bits for any number of threads.
#[test]
fn threads_do_not_matter() {
    let target = Coins { rows: vec![(1.0, 40.0, 25.0)], prior_sd: 3.0 };
    let q = gaussian(0.5, 0.33);
    let run = |threads| {
        let problem = problem(&target, &q, (truth(&target, 0.5, 0.33).neg_elbo, 1e-9));
        let settings = WeightSettings { pairs: 5000, delta: 1e-3, seed: 3, attempt: 2 };
        crate::parallel::install(Some(threads), || problem.certify(&settings).expect("finite"))
            .expect("threads")
    };
    assert_eq!(run(1), run(4));
}

#[test]
fn intervals() {
    assert_eq!(ratio((1.0, 2.0), (0.5, 1.0)), (1.0, 4.0));
    assert_eq!(ratio((-1.0, 1.0), (0.5, 1.0)), (-2.0, 2.0));
    assert_eq!(ratio((-2.0, -1.0), (0.5, 1.0)), (-4.0, -1.0));
    assert_eq!(
        (squares((-1.0, 2.0)), squares((1.0, 2.0)), squares((-3.0, -1.0))),
        ((0.0, 4.0), (1.0, 4.0), (1.0, 9.0))
    );
}

/// Theorem 3, by hand: 1,000 equal pairs, so that every interval is its mean plus or minus the same kind of width.
#[test]
fn the_statements_by_hand() {
    let (target, q) = (Coins { rows: vec![(1.0, 10.0, 5.0)], prior_sd: 1.0 }, gaussian(2.0, 0.5));
    let (off, rounding) = (0.001, 1e-6);
    let problem = WeightProblem {
        target: &target,
        q: &q,
        reported: &[vec![(0, 1.0)]],
        neg_elbo: (7.0, off),
        kappa: 0.0,
        rounding,
        grain: 1,
    };
    let (n, delta, cut) = (1000.0, 0.01, Cut { tau: 1.0, xi: 4.0 });
    let (most, cap) = (cut.most(1), 1.0_f64.exp());
    assert_eq!((most.below, most.means[0], most.squares[0]), (1.0, 2.0 * cap, 15.0 * (cap - 1.0)));
    assert_eq!((most.weight, most.entropy), (cap - 1.0, cap));
    // v = (0.5, 0.3), uᵀx = 0.8
    let pair = pairs::Pair { v: [0.5, 0.3], slopes: [0.0; 2], along: &[0.8] };
    let mut values = Variables::all(0.0, 1);
    cut.of(&pair, &mut values);
    let (a, b) = (0.5_f64.exp(), 0.3_f64.exp());
    let weight = 0.5 * (a + b) - 1.0;
    assert_eq!((values.weight, values.below), (weight, 0.0));
    assert!((values.entropy - 0.5 * (0.5 * a + 0.3 * b)).abs() < 1e-15);
    assert!((values.size - weight).abs() < 1e-15);
    assert!((values.means[0] - 0.5 * (a - b) * 0.8).abs() < 1e-15);
    assert!((values.squares[0] - weight * (0.64 - 1.0)).abs() < 1e-15);
    // beyond τ, ξ and 0: cut
    let far = pairs::Pair { v: [3.0, -1.0], slopes: [0.0; 2], along: &[-9.0] };
    let mut cut_off = Variables::all(0.0, 1);
    cut.of(&far, &mut cut_off);
    let low = (-1.0_f64).exp();
    assert_eq!(cut_off.below, 0.5 * (1.0 - low));
    assert!((cut_off.means[0] - 0.5 * (cap - low) * -4.0).abs() < 1e-15);
    assert!((cut_off.entropy - 0.5 * (cap - low)).abs() < 1e-15);
    let clips = clips(&most, &most);
    let mut tally = Tally {
        sums: Variables::all(bounded::Sums::default(), 1),
        steps: quantiles::Steps::new(1),
        log_weights: Vec::new(),
        outside: vec![],
        here: Variables::all(0.0, 1),
    };
    for _ in 0..1000 {
        pairs::add(&mut tally.sums, &values, &clips);
        tally.steps.add([a - 1.0, b - 1.0], &[0.8], clips.size.clip);
    }
    let tail = Tail { moments: [0.01, 0.02, 0.05], entropy: 0.03 };
    let c = problem.conclude(&[(2.0, 0.5)], &tally, n, cut, &clips, tail, delta).expect("no contradiction");
    // nothing varies, and nothing is clipped: 7·2B·log(6/δ′)/(3·999), and what sums of squares round to
    let width =
        |most: f64, share: f64| 14.0 * most * (6.0 / (share * delta)).ln() / (3.0 * 999.0) + 1e-10 * most;
    let slack = 4.0 * rounding * 2.0 * cap * 16.0;
    let y = width(most.weight, 0.125);
    let z = (1.0 + weight - y - slack, 1.0 + weight + y + slack + 0.01);
    let near = |what: &str, found: f64, by_hand: f64| {
        assert!((found - by_hand).abs() < 1e-6 * (1.0 + by_hand.abs()), "{what}: {found} {by_hand}");
    };
    near("KL from below", c.kl.0, z.0.ln() - off);
    near("KL from above", c.kl.1, z.1.ln() + off);
    near("evidence from below", c.log_evidence.0, z.0.ln() - 7.0);
    near("evidence from above", c.log_evidence.1, z.1.ln() - 7.0);
    near("TV", c.total_variation, 1.0 - (1.0 - width(1.0, 0.03125) - slack) / z.1);
    let entropy = values.entropy + width(most.entropy, 0.03125) + slack + 0.03;
    near("KL(p‖q)", c.reverse_kl, entropy / z.0 - z.0.ln());
    let (m, e1) = (width(most.means[0], 0.25), clipped_mean(cap, 4.0));
    let shift = ratio((values.means[0] - m - 0.02 - e1 - slack, values.means[0] + m + 0.02 + e1 + slack), z);
    near("mean from below", c.means[0].low, 2.0 + 0.5 * shift.0);
    near("mean from above", c.means[0].high, 2.0 + 0.5 * shift.1);
    near("the mean", c.means[0].estimate, 2.0 + 0.5 * values.means[0] / (1.0 + weight));
    let (s, e2) = (width(most.squares[0], 0.25), clipped_square(4.0));
    let low = values.squares[0] - s - 0.01 - e2 - slack;
    let high = values.squares[0] + s + 0.05 + (cap - 1.0) * e2 + slack;
    let square = ratio((low, high), z);
    let (inner, outer) = squares(shift);
    near("sd from below", c.sds[0].low, 0.5 * (1.0 + square.0 - outer).max(0.0).sqrt());
    near("sd from above", c.sds[0].high, 0.5 * (1.0 + square.1 - inner).sqrt());
    let ends = tally.steps.enclosed(0, &tally.sums.size, clips.size, n, (0.01, slack), 0.0625 * delta / 3.0);
    assert_eq!(c.quantiles[0], ends.map(|(low, high)| (2.0 + 0.5 * low, 2.0 + 0.5 * high)));
    near("q's mean", c.mean_error, shift.0.abs().max(shift.1.abs()));
    near("the width", c.width, (0.5 * (shift.1 - shift.0)).max(c.sds[0].high - c.sds[0].low));
}

/// An ELBO that is wrong by more than was said makes Z < 1 at the same time as Z ≥ 1: nothing is stated. Numbers that
/// are none are refused.
#[test]
fn contradictions_and_bad_numbers() {
    let target = Coins { rows: vec![(1.0, 40.0, 25.0)], prior_sd: 3.0 };
    let q = gaussian(0.5, 0.33);
    let neg_elbo = truth(&target, 0.5, 0.33).neg_elbo;
    let good = problem(&target, &q, (neg_elbo, 1e-9));
    let settings = WeightSettings { pairs: 20_000, delta: 1e-3, seed: 3, attempt: 2 };
    assert!(good.certify(&settings).expect("finite").is_ok());
    // v is too low by 0.5, and so is log Z
    let wrong = WeightProblem { neg_elbo: (neg_elbo - 0.5, 1e-9), ..good };
    let declined = wrong.certify(&settings).expect("finite").expect_err("a contradiction");
    assert!(
        matches!(declined.obstacle, WeightObstacle::Contradiction { least, most } if least > most),
        "{declined:?}"
    );
    for bad in [
        WeightProblem { neg_elbo: (f64::NAN, 0.0), ..good },
        WeightProblem { neg_elbo: (0.0, -1.0), ..good },
        WeightProblem { kappa: f64::NAN, ..good },
        WeightProblem { rounding: f64::INFINITY, ..good },
    ] {
        assert!(bad.certify(&settings).is_err());
    }
    for delta in [0.0, 1.0, f64::NAN] {
        assert!(good.certify(&WeightSettings { delta, ..settings }).is_err());
    }
    assert!(good.certify(&WeightSettings { pairs: 1, ..settings }).is_err());
    let none = GoodSet { level: f64::NAN, slope: 0.1, z: 1.0 };
    assert_eq!(none.beyond(0.0, 1.0), 1.0);
}
