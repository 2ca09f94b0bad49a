//! Pareto smoothing against ArviZ, and importance sampling against closed forms and quadrature.
#![allow(clippy::unwrap_used)]

use crate::common::*;
use certus::certificate::Level;
use certus::diagnostics::{Estimate, importance, neg_elbo, psis};
use certus::{Family, Gaussian, PointTarget, TargetError};
use std::collections::BTreeMap;

fn rows(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines().skip(1).map(|line| line.split(',').collect())
}

/// k̂ and smoothed weights of nine stored cases, from `arviz.psislw` and, where the tails have the same length, from
/// `arviz_stats` (tests/data/psis.py).
#[test]
fn smoothing_agrees_with_arviz() {
    let mut cases: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for row in rows(include_str!("../data/psis_weights.csv")) {
        cases.entry(row[0]).or_default().push(row[1].parse().unwrap());
    }
    let (mut compared, mut both) = (0, 0);
    for row in rows(include_str!("../data/psis_reference.csv")) {
        let weights = &cases[row[0]];
        let smoothed = psis::smooth(weights).unwrap();
        let value = if row[1] == "k_hat" {
            assert_eq!(psis::k_hat(weights), smoothed.k_hat);
            smoothed.k_hat.unwrap_or(f64::INFINITY)
        } else {
            let mut sorted = smoothed.log_weights.clone();
            sorted.sort_by(f64::total_cmp);
            sorted[row[2].parse::<usize>().unwrap()]
        };
        for reference in row[3..].iter().filter(|x| !x.is_empty()) {
            let reference: f64 = reference.parse().unwrap();
            // the weights are far from rounding except for log weights of −3000
            let close = value == reference || (value - reference).abs() < 1e-9 * reference.abs().max(1.0);
            assert!(close, "{row:?}: {value}");
            compared += 1;
        }
        both += usize::from(!row[4].is_empty());
    }
    assert!(cases.len() == 9 && compared == 72 + 40 && both == 40, "{compared} {both}");
    // weights keep their order and sum to one
    for weights in cases.values() {
        let smoothed = psis::smooth(weights).unwrap().log_weights;
        assert!((smoothed.iter().map(|x| x.exp()).sum::<f64>() - 1.0).abs() < 1e-12);
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by(|&i, &j| weights[i].total_cmp(&weights[j]));
        assert!(order.windows(2).all(|p| smoothed[p[0]] <= smoothed[p[1]]));
        // a constant changes nothing but rounding
        let shifted: Vec<f64> = weights.iter().map(|x| x + 300.0).collect();
        let (a, b) = (psis::k_hat(weights).unwrap_or(9.0), psis::k_hat(&shifted).unwrap_or(9.0));
        assert!((a - b).abs() < 1e-9, "{a} {b}");
    }
}

/// Within five standard errors (level 6e-7), which are positive.
fn near(estimate: Estimate, truth: f64) -> bool {
    estimate.standard_error > 0.0 && (estimate.value - truth).abs() < 5.0 * estimate.standard_error
}

/// p(z, x) = e^c N(z | mean, H⁻¹).
struct Scaled(GaussianTarget, f64);

impl PointTarget for Scaled {
    fn dim(&self) -> usize {
        self.0.mean.len()
    }
    fn log_density_at(&self, point: &[f64], gradient: &mut [f64]) -> Result<f64, TargetError> {
        Ok(self.0.log_density_at(point, gradient)? + self.1)
    }
}

/// q = p: every weight is e^c, so evidence and divergence are known to rounding and the moments have the errors of
/// plain draws: sd/√n and sd/√(2n).
#[test]
fn equal_weights() {
    let mut dice = Dice::new(20);
    let target = Scaled(GaussianTarget::with_kappa(6, 30.0, &mut dice), -1234.5);
    let n = 20_000;
    for family in [Family::Lower, Family::Symmetric] {
        let q = target.0.optimum(&family);
        let i = importance(&target, &q, n, 1).unwrap();
        assert!(
            (i.log_evidence.value + 1234.5).abs() < 1e-9 && i.log_evidence.standard_error < 1e-11,
            "{i:?}"
        );
        assert!(i.kl.value.abs() < 1e-11 && i.kl.standard_error < 1e-11, "{i:?}");
        assert!((i.effective_sample_size / n as f64 - 1.0).abs() < 1e-6);
        for (k, sd) in q.sd().into_iter().enumerate() {
            assert!(near(i.mean[k], target.0.mean[k]) && near(i.sd[k], sd), "{i:?}");
            // the estimated errors have relative errors of 1/√(2n) and √(2/n) or so: 5 of those
            assert!((i.mean[k].standard_error * (n as f64).sqrt() / sd - 1.0).abs() < 0.025);
            assert!((i.sd[k].standard_error * (2.0 * n as f64).sqrt() / sd - 1.0).abs() < 0.05);
        }
    }
}

/// A q that is wider than p and off its mean: everything within five standard errors, for every family.
#[test]
fn gaussian_targets() {
    let mut dice = Dice::new(21);
    for family in families() {
        let target = Scaled(GaussianTarget::with_kappa(6, 4.0, &mut dice), 77.0);
        let mut dense = target.0.optimum(&Family::Symmetric).factor().to_dense();
        if !matches!(family, Family::Symmetric) {
            dense = (0..36).map(|k| if k % 7 == 0 { 1.2 } else { 0.0 }).collect();
        } else {
            dense.iter_mut().for_each(|x| *x *= 1.2);
        }
        let mean = target.0.mean.iter().map(|m| m + 0.1).collect();
        let q = Gaussian::new(mean, from_dense(&family, &dense)).unwrap();
        let i = importance(&target, &q, 20_000, 2).unwrap();
        assert!(near(i.log_evidence, 77.0), "{i:?}");
        let elbo = neg_elbo(&target, &q, 20_000, 9).unwrap();
        let error = i.kl.standard_error.hypot(elbo.standard_error);
        assert!((i.kl.value - (77.0 + elbo.value)).abs() < 5.0 * error, "{i:?} {elbo:?}");
        assert!(i.k_hat.is_some_and(|k| k < 0.5), "bounded weights: {i:?}");
        for k in 0..6 {
            let e: Vec<f64> = (0..6).map(|j| f64::from(u8::from(j == k))).collect();
            let sd = solve(&target.0.hessian, &e)[k].sqrt();
            assert!(near(i.mean[k], target.0.mean[k]) && near(i.sd[k], sd), "{k} {i:?}");
        }
    }
}

/// −log p = z²/4 + 3 log(1 + e^z) − 2z + 5, in one dimension.
struct Curved;

impl PointTarget for Curved {
    fn dim(&self) -> usize {
        1
    }
    fn log_density_at(&self, point: &[f64], gradient: &mut [f64]) -> Result<f64, TargetError> {
        let z = point[0];
        gradient[0] = -0.5 * z - 3.0 / (1.0 + (-z).exp()) + 2.0;
        Ok(-0.25 * z * z - 3.0 * z.exp().ln_1p() + 2.0 * z - 5.0)
    }
}

/// Trapezoid sums on [−40, 40] with step 1/200: exact to rounding for these analytic integrands.
fn integral(f: impl Fn(f64) -> f64) -> f64 {
    (-8000..=8000).map(|i| f(f64::from(i) / 200.0)).sum::<f64>() / 200.0
}

/// A posterior that is not Gaussian: values within five standard errors of quadrature, and the standard errors within 5
/// % of theirs, √(Var/n) of what one draw adds, by quadrature too.
#[test]
fn a_curved_posterior_and_its_standard_errors() {
    let log_p = |z: f64| Curved.log_density_at(&[z], &mut [0.0]).unwrap();
    let evidence = integral(|z| log_p(z).exp());
    let mean = integral(|z| z * log_p(z).exp()) / evidence;
    let variance = integral(|z| (z - mean).powi(2) * log_p(z).exp()) / evidence;
    let (m, c) = (mean + 0.2, 1.15 * variance.sqrt());
    let log_q = |z: f64| -0.5 * ((z - m) / c).powi(2) - c.ln() - 0.5 * std::f64::consts::TAU.ln();
    let kl = integral(|z| log_q(z).exp() * (log_q(z) - log_p(z))) + evidence.ln();
    let q = Gaussian::isotropic(vec![m], c, &Family::Lower).unwrap();
    let n = 200_000;
    let i = importance(&Curved, &q, n, 0).unwrap();
    // of one draw, as functions of z; the weight v has mean 1 under q
    let v = |z: f64| (log_p(z) - log_q(z)).exp() / evidence;
    let r = |z: f64| log_p(z) - log_q(z) - evidence.ln() + kl;
    let compare = |estimate: Estimate, truth: f64, influence: &dyn Fn(f64) -> f64| {
        assert!(near(estimate, truth), "{estimate:?} {truth}");
        let spread = integral(|z| log_q(z).exp() * influence(z).powi(2));
        let want = (spread / n as f64).sqrt();
        assert!((estimate.standard_error / want - 1.0).abs() < 0.05, "{estimate:?} {want}");
    };
    compare(i.log_evidence, evidence.ln(), &|z| v(z) - 1.0);
    compare(i.kl, kl, &|z| v(z) - 1.0 - r(z));
    compare(i.mean[0], mean, &|z| v(z) * (z - mean));
    let sd = variance.sqrt();
    compare(i.sd[0], sd, &|z| v(z) * ((z - mean).powi(2) - variance) / (2.0 * sd));
    let ess = 1.0 / integral(|z| log_q(z).exp() * v(z).powi(2));
    assert!((i.effective_sample_size / (n as f64 * ess) - 1.0).abs() < 0.01);
}

/// p = N(0, 1) and q = N(0, s²): weights have a tail of shape 1 − s² if q is too narrow, and none if it is too wide.
#[test]
fn k_hat_tells_a_narrow_q() {
    let target = GaussianTarget::new(vec![0.0], vec![1.0], vec![1.0]);
    // log w = (1 − s²)u²/2 + log s: P(w > t) falls like t^{−1/(1 − s²)}, up to a logarithm
    for (s, low, high) in [(0.3, 0.7, 1.1), (0.6, 0.4, 0.8), (1.5, -2.0, 0.2)] {
        let q = Gaussian::isotropic(vec![0.0], s, &Family::Lower).unwrap();
        let k = importance(&target, &q, 20_000, 4).unwrap().k_hat.unwrap();
        assert!(low < k && k < high, "{s} {k}");
    }
}

/// No draw is skipped, other seeds are fresh, and threads change nothing.
#[test]
fn draws_are_addressed() {
    struct Hole;
    impl PointTarget for Hole {
        fn dim(&self) -> usize {
            1
        }
        fn log_density_at(&self, point: &[f64], gradient: &mut [f64]) -> Result<f64, TargetError> {
            gradient[0] = -point[0];
            Ok(if point[0] > 2.5 { f64::NEG_INFINITY } else { -point[0] })
        }
    }
    let q = Gaussian::isotropic(vec![0.0], 1.0, &Family::Lower).unwrap();
    let error = importance(&Hole, &q, 1000, 0).unwrap_err().to_string();
    assert!(error.contains("log density is -inf at draw") && error.contains("of 1000"), "{error}");
    for draws in [0, 1] {
        assert!(importance(&Curved, &q, draws, 0).is_err());
    }
    assert!(
        importance(&Curved, &Gaussian::isotropic(vec![0.0; 2], 1.0, &Family::Lower).unwrap(), 9, 0).is_err()
    );
    let at = |seed| importance(&Curved, &q, 100, seed).unwrap();
    assert!(at(1) == at(1) && at(1) != at(2));
    let target = GaussianTarget::with_kappa(90, 3.0, &mut Dice::new(6));
    let q = target.optimum(&Family::Lower);
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| importance(&target, &q, 150, 0).unwrap())
    };
    assert_eq!(with(1), with(3));
}

/// What is said of combinations: a q that is 1.2 times as wide as p and 0.1 of its own sds off along every axis of its
/// frame. The errors are known, and stated with 2.6 standard errors on top; of a q that is too narrow nothing is.
#[test]
fn combinations_of_coordinates() {
    let mut dice = Dice::new(23);
    let target = GaussianTarget::with_kappa(4, 4.0, &mut dice);
    let best = target.optimum(&Family::Lower);
    let wider = |scale: f64| {
        let mut mean = best.mean().to_vec();
        best.factor().add_apply(&[0.1 * scale; 4], &mut mean);
        let dense: Vec<f64> = best.factor().to_dense().iter().map(|x| scale * x).collect();
        Gaussian::new(mean, from_dense(&Family::Lower, &dense)).unwrap()
    };
    let q = wider(1.2);
    let combinations = vec![vec![(0, 1.0)], vec![(1, -2.0), (3, 0.5)], vec![(0, 1.0), (1, 1.0), (2, 1.0)]];
    let said = importance::compared(&target, &q, &combinations, 20_000, 5).unwrap().0;
    assert_eq!(said.statement.level(), Level::Estimated);
    let mut own = certus::combination::Combinations::new(&q);
    let truth = combinations
        .iter()
        .map(|terms| {
            let there: f64 = terms.iter().map(|&(i, a)| a * best.mean()[i]).sum();
            let (here, sd) = own.moments(terms);
            (here - there).abs() / sd
        })
        .fold(0.0, f64::max);
    let (mean, sd) = (said.mean_error.unwrap(), said.sd_error.unwrap());
    // a standard error of a mean is about 1.3/√n of an sd here, and less of an sd
    let most = 2.0 * 2.6 * 1.3 / 20_000f64.sqrt();
    assert!(truth > 0.05 && mean > truth && mean < truth + most, "{mean} {truth}");
    let truth = 1.0 - 1.0 / 1.2;
    assert!(sd > truth && sd < truth + most, "{sd} {truth}");
    let narrow = importance::compared(&target, &wider(0.3), &combinations, 20_000, 5).unwrap().0;
    assert!(narrow.statement.bound().is_none() && narrow.mean_error.is_none(), "{narrow:?}");
}
