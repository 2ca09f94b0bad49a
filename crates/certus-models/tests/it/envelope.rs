//! The envelope certificate against quadrature in one and two dimensions, and against independent samplers in ten.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::common::*;
use certus::Gaussian;
use certus::certificate::Level;
use certus::factor::{Factor, Lower};
use certus_likelihood::{Bounds, Datum, Logistic, Loss, Strip};
use certus_models::{Design, Envelope, EnvelopeSettings, Error, Glm, Memory, Prior, laplace};
use std::f64::consts::PI;
use std::sync::Arc;

fn settings(proposals: usize, seed: u64, keep: usize) -> EnvelopeSettings {
    EnvelopeSettings { proposals, delta: 1e-6, seed, keep }
}

fn inside((low, high): (f64, f64), x: f64, what: &str) {
    assert!(low <= x && x <= high, "{what}: {x} is not in [{low}, {high}]");
}

/// Everything the envelope says about q and p, against quadrature. δ = 1e-6 for each call.
fn check_against_quadrature(name: &str, model: &Glm, q: &Gaussian, seed: u64, truth: &Truth) -> Envelope {
    let (evidence, means, sds) = truth;
    let e = model.envelope(q, &settings(30_000, seed, 4000)).unwrap();
    let bracket = e.posterior.log_evidence.unwrap();
    inside(bracket, *evidence, name);
    let kl = evidence + model.neg_elbo(q).unwrap();
    let bound = e.posterior.statement.bound().unwrap();
    assert!(kl >= -1e-9 && bound >= kl && bound <= kl + bracket.1 - bracket.0 + 1e-8, "{name}: {kl} {bound}");
    let sd_q = q.sd();
    let (mut mean_error, mut sd_error) = (0.0_f64, 0.0_f64);
    for i in 0..q.dim() {
        inside(e.means[i], means[i], name);
        inside(e.sds[i], sds[i], name);
        mean_error = mean_error.max((means[i] - q.mean()[i]).abs() / sd_q[i]);
        sd_error = sd_error.max((sds[i] / sd_q[i] - 1.0).abs());
    }
    assert!(
        mean_error <= e.posterior.mean_error.unwrap() && sd_error <= e.posterior.sd_error.unwrap(),
        "{name}"
    );
    assert_eq!(e.level, Level::Probable { delta: 1e-6 });
    let level = if name.starts_with("probit") { Level::Estimated } else { e.level };
    assert_eq!(e.posterior.statement.level(), level, "{name}");
    // accepted points: n·acceptance of them within 6 standard errors, with the right means (6 standard errors)
    let n = 30_000.0;
    assert!((e.accepted as f64 - n * e.acceptance).abs() < 6.0 * (n * 0.25_f64).sqrt(), "{name}");
    let count = e.draws.len() / q.dim();
    assert_eq!(count, e.accepted.min(4000));
    for i in 0..q.dim() {
        let mean = e.draws.iter().skip(i).step_by(q.dim()).sum::<f64>() / count as f64;
        assert!((mean - means[i]).abs() < 6.0 * sds[i] / (count as f64).sqrt(), "{name}: draws of {i}");
    }
    println!(
        "{name}: acceptance {:.3}, width {:.4}, KL {kl:.5} ≤ {bound:.5}",
        e.acceptance,
        bracket.1 - bracket.0
    );
    e
}

/// A q moved by 0.4 sd and widened by 1.3.
fn worse(q: &Gaussian) -> Gaussian {
    let d = q.dim();
    let mut mean = q.mean().to_vec();
    q.factor().add_apply(&vec![0.4; d], &mut mean);
    let factor = q.factor().to_dense().iter().map(|x| 1.3 * x).collect();
    Gaussian::new(mean, Factor::Lower(Lower::new(d, factor).unwrap())).unwrap()
}

#[test]
fn one_and_two_dimensions() {
    let mut dice = Dice::new(60);
    for name in LIKELIHOODS {
        for (n, p, intercept) in [(8, 1, false), (25, 1, true), (40, 2, false)] {
            let rows = Arc::new(simulated_rows(name, n, p, 0.8, &mut dice));
            let d = p + usize::from(intercept);
            let prior = Prior::independent(vec![0.2; d], &vec![1.7; d]).unwrap();
            let model = Glm::new(Design::new(rows, intercept), likelihood(name), prior).unwrap();
            let best = model.solve_exactly().unwrap().gaussian;
            let label = format!("{name} d = {d}");
            let truth = quadrature(&model);
            let e = check_against_quadrature(&label, &model, &best, 1, &truth);
            check_against_quadrature(&label, &model, &worse(&best), 2, &truth);
            if name == "linear" {
                // p is Gaussian: only the thickness of the shells is lost
                assert!(e.acceptance > 0.98 && e.posterior.statement.bound().unwrap() < 2e-2, "{label}");
            }
            // a symmetric factor of the same covariance says the same
            if d == 1 {
                let symmetric = certus::factor::Symmetric::new(1, best.factor().to_dense()).unwrap();
                let q = Gaussian::new(best.mean().to_vec(), Factor::Symmetric(symmetric)).unwrap();
                let again = model.envelope(&q, &settings(30_000, 1, 4000)).unwrap();
                assert_eq!(again.draws, e.draws);
            }
        }
    }
}

/// δ is kept: of 400 runs with δ = 0.2 at most 0.2 · 400 + 4 sd fail.
#[test]
fn coverage() {
    let mut dice = Dice::new(61);
    let model = simulated("logistic", 12, 0, 0.5, 2.0, &mut dice);
    let q = model.solve_exactly().unwrap().gaussian;
    let (evidence, means, sds) = quadrature(&model);
    let mut failed = 0;
    for seed in 0..400 {
        let s = EnvelopeSettings { proposals: 400, delta: 0.2, seed, keep: 0 };
        let e = model.envelope(&q, &s).unwrap();
        let has = |(a, b): (f64, f64), x: f64| a <= x && x <= b;
        failed += usize::from(
            !(has(e.posterior.log_evidence.unwrap(), evidence)
                && has(e.means[0], means[0])
                && has(e.sds[0], sds[0])),
        );
    }
    println!("{failed} of 400 fail at δ = 0.2");
    assert!(failed <= 112);
}

/// log p(x) and its standard error by importance sampling from a t with 8 degrees of freedom around w, and the points
/// with weights.
fn importance(model: &Glm, w: &Gaussian, n: usize, dice: &mut Dice) -> (f64, f64, Vec<f64>, Vec<f64>) {
    let d = w.dim();
    let mut u = dice.normals(d * n);
    let chi: Vec<f64> = dice.normals(8 * n).chunks_exact(8).map(|x| x.iter().map(|v| v * v).sum()).collect();
    let gamma = certus_likelihood::special::ln_gamma;
    let nu = 8.0 + d as f64;
    let constant = gamma(0.5 * nu) - gamma(4.0) - 0.5 * d as f64 * (8.0 * PI).ln() - w.factor().log_det();
    let mut log_t = vec![0.0; n];
    for ((u, chi), t) in u.chunks_exact_mut(d).zip(&chi).zip(&mut log_t) {
        u.iter_mut().for_each(|x| *x *= (8.0 / chi).sqrt());
        *t = constant - 0.5 * nu * (u.iter().map(|x| x * x).sum::<f64>() / 8.0).ln_1p();
    }
    let mut z = vec![0.0; d * n];
    w.transform(&u, &mut z);
    let log_weights: Vec<f64> = densities(model, &z).iter().zip(&log_t).map(|(p, t)| p - t).collect();
    let top = log_weights.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
    let weights: Vec<f64> = log_weights.iter().map(|l| (l - top).exp()).collect();
    let mean = weights.iter().sum::<f64>() / n as f64;
    let variance = weights.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    (top + mean.ln(), (variance / n as f64).sqrt() / mean, z, weights)
}

/// Posterior points by independence Metropolis with those proposals, every tenth state: correlations of (rejection
/// rate)¹⁰ < 1e-3.
fn metropolis(z: &[f64], weights: &[f64], d: usize, dice: &mut Dice) -> Vec<f64> {
    let dice: Vec<f64> = dice.normals(2 * weights.len());
    let uniform = |k: usize| 0.5 + dice[2 * k].atan2(dice[2 * k + 1]) / std::f64::consts::TAU;
    let (mut at, mut out, mut moves) = (0, Vec::new(), 0);
    for k in 1..weights.len() {
        if uniform(k) < weights[k] / weights[at] {
            at = k;
            moves += 1;
        }
        if k % 10 == 0 {
            out.extend_from_slice(&z[at * d..][..d]);
        }
    }
    assert!(moves as f64 > 0.5 * weights.len() as f64, "the independent sampler must move: {moves}");
    out
}

/// The two-sample Kolmogorov-Smirnov statistic over its critical value at level `alpha`.
fn kolmogorov_smirnov(mut a: Vec<f64>, mut b: Vec<f64>, alpha: f64) -> f64 {
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    let (mut i, mut j, mut most) = (0, 0, 0.0_f64);
    while i < a.len() && j < b.len() {
        if a[i] <= b[j] {
            i += 1
        } else {
            j += 1
        }
        most = most.max((i as f64 / a.len() as f64 - j as f64 / b.len() as f64).abs());
    }
    let (n, m) = (a.len() as f64, b.len() as f64);
    most / ((-0.5 * (0.5 * alpha).ln()).sqrt() * ((n + m) / (n * m)).sqrt())
}

/// logit_d10 at joint confidence 1 − 1e-6; draws against an independent sampler at level 1e-3 over the ten coordinates
/// together.
fn logit_d10(proposals: usize, references: usize, kl_excess: f64, mean_error: f64, sd_error: f64) {
    let p = problem(&data_dir(), "logit_d10");
    let (d, mut dice) = (10, Dice::new(62));
    let start = std::time::Instant::now();
    let e = p.model.envelope(&p.optimum, &settings(proposals, 7, usize::MAX >> 8)).unwrap();
    let took = start.elapsed();
    let (evidence, error, z, weights) = importance(&p.model, &p.optimum, references, &mut dice);
    let kl = evidence + p.model.neg_elbo(&p.optimum).unwrap();
    let (bound, bracket) = (e.posterior.statement.bound().unwrap(), e.posterior.log_evidence.unwrap());
    let (means, sds) = (e.posterior.mean_error.unwrap(), e.posterior.sd_error.unwrap());
    println!(
        "{proposals} proposals in {took:.1?}: acceptance {:.3}, R {:.1}, KL {kl:.5} (s.e. {error:.5}) ≤ {bound:.5}, \
            evidence {bracket:?}, \
         means within {means:.4} sd, sds within {sds:.4}, total variation {:.1e}",
        e.acceptance, e.radius, e.total_variation
    );
    inside(
        (bracket.0 - 5.0 * error, bracket.1 + 5.0 * error),
        evidence,
        "the evidence by importance sampling",
    );
    assert!(bound <= kl + kl_excess, "KL {kl} (s.e. {error}) but the bound is {bound}");
    assert!(means <= mean_error && sds <= sd_error, "{means} {sds}");
    assert!(e.total_variation < 1e-8 && e.acceptance > 0.3);
    let reference = metropolis(&z, &weights, d, &mut dice);
    let pick = |x: &[f64], i: usize| x.iter().skip(i).step_by(d).copied().collect::<Vec<f64>>();
    let worst =
        (0..d).map(|i| kolmogorov_smirnov(pick(&e.draws, i), pick(&reference, i), 1e-4)).fold(0.0, f64::max);
    println!("Kolmogorov-Smirnov over its critical value: {worst:.2}");
    assert!(worst < 1.0);
    // the test can fail: a shift by 0.08 sd is seen
    let moved = pick(&e.draws, 0).iter().map(|x| x + 0.08 * p.optimum.sd()[0]).collect();
    assert!(kolmogorov_smirnov(moved, pick(&reference, 0), 1e-4) > 1.0);
}

#[test]
fn logit_d10_small() {
    logit_d10(100_000, 100_000, 0.022, 0.06, 0.13);
}

/// `cargo test --release -p certus-models --test it envelope:: -- --ignored --nocapture`
#[test]
#[ignore = "a million proposals"]
fn logit_d10_full() {
    logit_d10(1_000_000, 1_000_000, 0.008, 0.02, 0.04);
}

/// The bits do not depend on the number of threads.
#[test]
fn threads() {
    let mut dice = Dice::new(63);
    let model = simulated("poisson", 3000, 2, 0.3, 1.0, &mut dice);
    let q = laplace(&model).unwrap().gaussian;
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let e = pool.install(|| model.envelope(&q, &settings(3001, 5, 700)).unwrap());
        (e.posterior, e.means, e.sds, e.accepted, e.draws)
    };
    let one = run(1);
    assert_eq!(one.4.len(), 3 * 700);
    for threads in [2, 3, 5] {
        assert_eq!(run(threads), one, "{threads} threads");
    }
    let other = model.envelope(&q, &settings(3001, 6, 700)).unwrap();
    assert_ne!(other.draws, one.4);
}

/// Where it cannot be had it says so, with the figure.
#[test]
fn declined() {
    let declined = |model: &Glm, q: &Gaussian, s: &EnvelopeSettings, words: &str| {
        match model.envelope(q, s) {
            Err(Error::Declined(reason)) => assert!(reason.to_string().contains(words), "{reason}"),
            other => panic!("{words}: {:?}", other.map(|e| e.acceptance)),
        };
    };
    let large = problem(&data_dir(), "hier_logit");
    declined(&large.model, &large.optimum, &settings(1000, 0, 0), "105 coefficients");
    let hard = problem(&data_dir(), "logit_bc");
    declined(&hard.model, &hard.optimum, &settings(1000, 0, 0), "would be accepted");
    let p = problem(&data_dir(), "logit_d10");
    declined(&p.model, &p.optimum, &settings(30, 0, 0), "give more");
    // a flat prior and one count of 0 and of 1: the curvature falls like e^{−s}, but D stays positive, so it works …
    let flat = |y: Vec<f64>| {
        let rows = Memory { x: vec![1.0; y.len()], y, columns: 1, ..Memory::default() };
        let prior = Prior::independent(vec![0.0], &[f64::INFINITY]).unwrap();
        Glm::new(Design::new(Arc::new(rows), false), likelihood("poisson"), prior).unwrap()
    };
    let counts = flat(vec![3.0, 5.0]);
    // ∫ e^{−2e^z + 8z} dz/(3! 5!) = Γ(8)/(2⁸ 3! 5!)
    let truth = (5040.0 / (256.0 * 720.0_f64)).ln();
    let q = laplace(&counts).unwrap().gaussian;
    inside(
        counts.envelope(&q, &settings(20_000, 1, 0)).unwrap().posterior.log_evidence.unwrap(),
        truth,
        "flat prior",
    );
    for bad in [
        EnvelopeSettings { delta: 0.0, ..settings(1000, 0, 0) },
        EnvelopeSettings { delta: 1.0, ..settings(1000, 0, 0) },
        settings(1, 0, 0),
    ] {
        assert!(matches!(counts.envelope(&q, &bad), Err(Error::Model(_))));
    }
    assert!(matches!(counts.envelope(&p.optimum, &settings(1000, 0, 0)), Err(Error::Model(_))));
}

/// A logistic loss that claims more curvature than it has.
#[derive(Debug)]
struct Liar;

impl Loss for Liar {
    fn name(&self) -> &'static str {
        "liar"
    }
    fn reject(&self, _: Datum) -> Option<String> {
        None
    }
    fn value(&self, t: f64, datum: Datum) -> f64 {
        Logistic.value(t, datum)
    }
    fn first_derivative(&self, t: f64, datum: Datum) -> f64 {
        Logistic.first_derivative(t, datum)
    }
    fn second_derivative(&self, t: f64, datum: Datum) -> f64 {
        Logistic.second_derivative(t, datum)
    }
}

impl Bounds for Liar {
    fn second_derivative_max(&self, _: Datum) -> Option<f64> {
        Some(0.25)
    }
    fn second_derivative_near(&self, t: f64, _: f64, datum: Datum) -> f64 {
        Logistic.second_derivative(t, datum)
    }
}

impl Strip for Liar {
    fn strip(&self) -> f64 {
        1.0
    }
    fn scale(&self, _: f64, _: f64, _: Datum) -> f64 {
        1.0
    }
}

/// An acceptance probability above 1 is an error with its witness, never a wrong certificate.
#[test]
fn violations_are_seen() {
    let rows = Memory { x: vec![1.0, 2.0, -1.0], y: vec![1.0, 0.0, 1.0], columns: 1, ..Memory::default() };
    let prior = Prior::independent(vec![0.0], &[1.0]).unwrap();
    let model = Glm::new(Design::new(Arc::new(rows), false), Arc::new(Liar), prior).unwrap();
    let q = laplace(&model).unwrap().gaussian;
    match model.envelope(&q, &settings(10_000, 0, 0)) {
        Err(Error::Violated(seen)) => assert!(seen.to_string().contains("z = ["), "{seen}"),
        other => panic!("{:?}", other.map(|e| e.acceptance)),
    }
}

/// The refutation T2 in Rust: two rows whose predictor t = z₀ + z₁/√2 has the prior N(0, 59), so that its posterior is
/// an integral over one dimension. What is said of z does not hold for t in units of its own sd; what is said of t
/// does, whatever else is asked beside it.
#[test]
fn combinations_have_brackets_of_their_own() {
    let half = std::f64::consts::FRAC_1_SQRT_2;
    let rows = Memory { x: vec![1.0, half, 1.0, half], y: vec![1.0, 0.0], columns: 2, ..Memory::default() };
    let prior = Prior::independent(vec![0.0; 2], &[3.0, 10.0]).unwrap();
    let model = Glm::new(Design::new(Arc::new(rows), false), likelihood("poisson"), prior).unwrap();
    let q = model.solve_exactly().unwrap().gaussian;
    let (h, mut sums) = (1e-3, [0.0; 3]);
    for k in -60_000..=20_000 {
        let t = f64::from(k) * h;
        let p = (t - 2.0 * t.exp() - t * t / 118.0).exp();
        sums = [sums[0] + p, sums[1] + p * t, sums[2] + p * t * t];
    }
    let mean = sums[1] / sums[0];
    let sd = (sums[2] / sums[0] - mean * mean).sqrt();
    assert!((mean + 1.218_81).abs() < 1e-5 && (sd - 1.229_31).abs() < 1e-5, "{mean} {sd}");
    let t = vec![(0, 1.0), (1, half)];
    let (own_mean, own_sd) = certus::combination::Combinations::new(&q).moments(&t);
    let (off, wide) = ((mean - own_mean).abs() / own_sd, (sd / own_sd - 1.0).abs());
    for seed in 0..5 {
        let s = EnvelopeSettings { proposals: 100_000, delta: 0.005, seed, keep: 0 };
        let latents = model.envelope(&q, &s).unwrap();
        assert!(latents.posterior.mean_error.unwrap() < off && latents.posterior.sd_error.unwrap() < wide);
        let e = model.envelope_of(&q, &[t.clone(), vec![(0, -1.0)], t.clone()], &s).unwrap();
        for k in [0, 2] {
            inside(e.means[k], mean, "t");
            inside(e.sds[k], sd, "t");
        }
        // −z₀ is z₀ turned round, up to the smaller share of δ
        assert!(
            (e.means[1].0 + latents.means[0].1).abs() < 0.01
                && (e.means[1].1 + latents.means[0].0).abs() < 0.01
        );
        assert!(e.posterior.mean_error.unwrap() >= off && e.posterior.sd_error.unwrap() >= wide);
        assert!(e.posterior.sd_error.unwrap() < 1.5 * wide + 0.05);
    }
    for bad in [vec![(2, 1.0)], vec![(0, 1.0), (0, -1.0)], vec![], vec![(0, f64::NAN)]] {
        let declined = model.envelope_of(&q, &[bad], &settings(1000, 0, 0));
        assert!(matches!(declined, Err(Error::Model(_))));
    }
}
