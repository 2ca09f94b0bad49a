//! Several maxima of the collapsed likelihood: all are found, the highest is the estimate, the posterior covers every
//! mode that matters, and what is excluded is lower (docs/collapsed.md, part K12).
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::sync::Arc;

use certus_likelihood::{Binomial, Likelihood, Linear, Logistic, NegativeBinomial, Poisson};
use certus_mixed::Journal;
use certus_mixed::collapsed::{Collapsed, Order, SdPrior};
use certus_mixed::scales::{Grouping, LinearNoise};
use certus_models::{Design, Memory, Prior};

use crate::common::Dice;

/// Ten groups of two rows of ten trials with 19 or 1 successes of 20, and `huge` of two rows of `trials` each whose
/// shares are `off` above or below a half. The responses of the two rows of a group do not depend on x, which is −1 and
/// 1.
fn two_kinds(huge: usize, trials: f64, off: f64, prior_sd: f64) -> Collapsed {
    let mut memory = Memory { columns: 1, ..Memory::default() };
    let mut group = Vec::new();
    let mut add = |g: usize, x: f64, y: f64, trials: f64| {
        memory.x.push(x);
        memory.y.push(y);
        memory.trials.push(trials);
        group.push(g);
    };
    for g in 0..10 {
        let many = g % 2 == 0;
        // the one that is missing or too many is in the first row of half of the groups
        let first = if g % 4 < 2 { 1.0 } else { 0.0 };
        for (x, part) in [(-1.0, first), (1.0, 1.0 - first)] {
            add(g, x, if many { 10.0 - part } else { part }, 10.0);
        }
    }
    for g in 0..huge {
        let share = 0.5 + if g % 2 == 0 { off } else { -off };
        for x in [-1.0, 1.0] {
            add(10 + g, x, (share * trials).round(), trials);
        }
    }
    let design = Design::new(Arc::new(memory), true);
    let prior = Prior::independent(vec![0.0; 2], &[prior_sd; 2]).unwrap();
    Collapsed::new(&design, &group, None, Arc::new(Binomial), prior).unwrap()
}

/// min_β F(β, θ) by Newton's method.
fn profile(model: &Collapsed, start: &[f64], theta: f64) -> (f64, Vec<f64>) {
    let d = model.dim();
    let mut beta = start.to_vec();
    let mut at = model.at(&beta, theta, Order::Second).unwrap();
    for _ in 0..100 {
        let mut h: Vec<f64> = (0..d * d).map(|k| at.hessian[(k / d) * (d + 1) + k % d]).collect();
        assert!(certus::linalg::cholesky(&mut h, d));
        let mut step = at.gradient[..d].to_vec();
        certus::linalg::solve_lower(&h, d, false, &mut step);
        certus::linalg::solve_lower(&h, d, true, &mut step);
        let promised: f64 = step.iter().zip(&at.gradient).map(|(s, g)| s * g).sum();
        if promised < 1e-12 {
            break;
        }
        let mut scale = 1.0;
        loop {
            let trial: Vec<f64> = beta.iter().zip(&step).map(|(b, s)| b - scale * s).collect();
            let there = model.at(&trial, theta, Order::Second).unwrap();
            if there.value <= at.value || scale < 1e-9 {
                (beta, at) = (trial, there);
                break;
            }
            scale *= 0.5;
        }
    }
    (at.value, beta)
}

/// The case that was found by hand: the search from 0.5 ends at 1.34, 31 nats below the maximum at 0.004.
#[test]
fn the_highest_maximum_is_the_estimate() {
    for prior_sd in [2.5, f64::INFINITY] {
        let model = two_kinds(20, 2e6, 1e-3, prior_sd);
        let found = model.estimate(&[0.0; 2]).unwrap();
        assert!((found.sd / 0.004 - 1.0).abs() < 0.1, "{found:?}");
        assert_eq!(found.maxima.len(), 2, "{:?}", found.maxima);
        assert!((found.maxima[1].sd - 1.34).abs() < 0.01, "{:?}", found.maxima);
        let lower = found.maxima[1].value - found.maxima[0].value;
        assert!((lower - 31.4).abs() < 0.1, "{lower}");
        assert_eq!(found.interval.proved, Ok(()));
        let [low, high] = found.interval.sds;
        assert!(low < found.sd && found.sd < high && high / low < 1.02, "{low} {high}");
        // the maximum of a fine grid lies in it
        let values = (0..=400).map(|k| {
            let sd = 0.0037 * (0.0041f64 / 0.0037).powf(f64::from(k) / 400.0);
            (profile(&model, &[0.0; 2], sd.ln()).0, sd)
        });
        let (_, highest) = values.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        assert!(low < highest && highest < high, "{highest} is not between {low} and {high}");
        // the other is far too low to be the highest, and with proper priors this is proved
        assert!(found.excluded.searched[0] == 0.0 && found.excluded.searched[1] > 10.0);
        if prior_sd.is_finite() {
            assert_eq!(found.excluded.proved, Ok(()));
            let [open] = found.excluded.open[..] else { panic!("{:?}", found.excluded) };
            assert!(open[0] < low && high < open[1] && open[1] < 0.01, "{open:?}");
        }
        // and so is the posterior: of the mass at 1.34 nothing is left
        let starts: Vec<_> = found.maxima.iter().map(|m| (m.beta.clone(), m.sd)).collect();
        let prior = SdPrior::HalfNormal(2.5);
        let mixture = model
            .posterior_over(&starts, prior, &mut Journal::default(), &mut |_, _| ControlFlow::Continue(()))
            .unwrap();
        let (mean, sd) = mixture.sd();
        assert!((mean / 0.0043 - 1.0).abs() < 0.1 && sd < 0.002 && mixture.refinement < 1e-3, "{mean} {sd}");
    }
}

/// Two modes of about the same mass: the grid has both, as a sum over a fine grid by hand says. By symmetry β̂ = 0 at
/// every sd.
#[test]
fn the_posterior_has_every_mode() {
    // smaller groups that differ more, so that the modes have masses of the same order
    let model = two_kinds(20, 1.5e5, 0.0035, 1.0);
    let prior = SdPrior::HalfNormal(2.5);
    let (mut total, mut mean, mut below) = (0.0, 0.0, 0.0);
    let step = 0.005;
    let density = |theta: f64| {
        let at = model.at(&[0.0; 2], theta, Order::Second).unwrap();
        assert!(at.gradient[..2].iter().all(|g| g.abs() < 1e-6 * (1.0 + at.hessian[0])), "{at:?}");
        let det = at.hessian[0] * at.hessian[4] - at.hessian[1] * at.hessian[3];
        // the integral over two coefficients is 2π/√det
        std::f64::consts::TAU.ln() - at.value - 0.5 * det.ln() + prior.log_density(theta.exp()) + theta
    };
    let thetas: Vec<f64> = (-2400..=600).map(|k| f64::from(k) * step).collect();
    let logs: Vec<f64> = thetas.iter().map(|t| density(*t)).collect();
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    for (theta, log) in thetas.iter().zip(&logs) {
        let mass = (log - most).exp();
        total += mass;
        mean += mass * theta.exp();
        below += if theta.exp() < 0.4 { mass } else { 0.0 };
    }
    let (mean, below) = (mean / total, below / total);
    assert!((0.02..0.98).contains(&below), "the case has one mode: {below}");
    let found = model.estimate(&[0.0; 2]).unwrap();
    assert_eq!(found.maxima.len(), 2, "{:?}", found.maxima);
    let starts: Vec<_> = found.maxima.iter().map(|m| (m.beta.clone(), m.sd)).collect();
    let mixture = model
        .posterior_over(&starts, prior, &mut Journal::default(), &mut |_, _| ControlFlow::Continue(()))
        .unwrap();
    assert!(mixture.refinement < 1e-3, "{}", mixture.refinement);
    let own: f64 = mixture.nodes.iter().filter(|n| n.sd < 0.4).map(|n| n.weight).sum();
    assert!((own - below).abs() < 1e-3, "{own} below 0.4, by hand {below}");
    assert!((mixture.sd().0 - mean).abs() < 2e-3 * mean, "{} by hand {mean}", mixture.sd().0);
    let by_hand = total.ln() + most + step.ln();
    assert!((mixture.log_evidence - by_hand).abs() < 1e-5, "{} by hand {by_hand}", mixture.log_evidence);
}

/// Random data of five likelihoods: wherever the highest maximum is excluded, the profile is lower than at the
/// estimate; and it is excluded nearly everywhere, but for Poisson counts at large sds, where gradients have no useful
/// bounds on their errors.
#[test]
fn what_is_excluded_is_lower() {
    let mut dice = Dice::new(41);
    let mut unproved = 0;
    for k in 0..30 {
        let kind = k % 5;
        let groups = [4, 12, 30][k % 3];
        let sigma = [0.0, 0.3, 1.0, 2.0][(k / 2) % 4];
        let prior_sd = if k % 4 == 3 { f64::INFINITY } else { 2.5 };
        let mut memory = Memory { columns: 1, ..Memory::default() };
        let mut group = Vec::new();
        for g in 0..groups {
            let u = sigma * dice.normal();
            for _ in 0..2 + k % 5 {
                let x = dice.normal();
                let t = 0.2 + 0.5 * x + u;
                let chance = 1.0 / (1.0 + (-t).exp());
                let trials = (1.0 + 9.0 * dice.uniform()).floor();
                let y = match kind {
                    0 => f64::from(u8::from(dice.uniform() < chance)),
                    1 => (0..trials as usize).filter(|_| dice.uniform() < chance).count() as f64,
                    2 | 3 => dice.count(t.min(4.0).exp(), 300.0),
                    _ => t + 0.7 * dice.normal(),
                };
                memory.x.push(x);
                memory.y.push(y);
                memory.trials.push(if kind == 1 { trials } else { 1.0 });
                group.push(g);
            }
        }
        let likelihood: Arc<dyn Likelihood> = match kind {
            0 => Arc::new(Logistic),
            1 => Arc::new(Binomial),
            2 => Arc::new(Poisson),
            3 => Arc::new(NegativeBinomial::new(3.0).unwrap()),
            _ => Arc::new(Linear::new(0.7).unwrap()),
        };
        let design = Design::new(Arc::new(memory), true);
        let prior = Prior::independent(vec![0.0; 2], &[prior_sd; 2]).unwrap();
        let model = Collapsed::new(&design, &group, None, likelihood, prior).unwrap();
        let found = model.estimate(&[0.0; 2]).unwrap();
        let excluded = &found.excluded;
        // all responses of every group are alike: the likelihood grows with the sd without end, and far out the
        // integrals have no bounds
        if !found.at.error.is_finite() {
            assert!(found.sd > 20.0 && excluded.proved.is_err(), "{k}: {found:?}");
            assert_eq!(excluded.open, [excluded.searched], "{k}");
            unproved += 1;
            continue;
        }
        assert_eq!(excluded.proved, Ok(()), "{k}");
        assert!(excluded.open.iter().any(|o| o[0] <= found.sd && found.sd <= o[1]), "{k}: {excluded:?}");
        let length = |o: &[f64; 2]| (o[1] / o[0].max(1e-4)).ln();
        let large = |o: &[f64; 2]| kind == 2 && o[1] == excluded.searched[1];
        let covered: f64 = excluded.open.iter().filter(|o| !large(o)).map(length).sum();
        assert!(found.sd == 0.0 || covered < 3.0, "{k}: {} {excluded:?}", found.sd);
        assert!(excluded.open.iter().all(|o| !large(o) || o[0] > 1.0), "{k}: {excluded:?}");
        let mut beta = found.beta.clone();
        let high = excluded.searched[1].ln();
        for step in 0..120 {
            let theta = high - 0.1 * f64::from(step);
            let value;
            (value, beta) = profile(&model, &beta, theta);
            let open = excluded.open.iter().any(|o| o[0] <= theta.exp() && theta.exp() <= o[1]);
            assert!(open || value > found.at.value, "{k}: {} is excluded, {value}", theta.exp());
        }
        assert!(model.confirm_excluded(&[0.0; 2], found.sd, excluded).unwrap(), "{k}");
        if found.sd > 0.0 {
            let mut other = excluded.clone();
            other.open = vec![found.interval.sds];
            assert!(
                !model.confirm_excluded(&[0.0; 2], found.sd, &other).unwrap(),
                "{k}: too much is excluded"
            );
        }
    }
    assert!(unproved <= 1, "{unproved}");
}

/// Too many rows for the proof: nothing is said to be excluded, and why.
#[test]
fn nothing_is_excluded_without_a_proof() {
    let mut dice = Dice::new(43);
    let mut memory = Memory { columns: 1, ..Memory::default() };
    let mut group = Vec::new();
    for g in 0..5_000 {
        let u = dice.normal();
        for x in [-1.0, -0.5, 0.0, 0.5, 1.0] {
            memory.x.push(x);
            memory.y.push(f64::from(u8::from(dice.uniform() < 1.0 / (1.0 + (-u - x).exp()))));
            group.push(g);
        }
    }
    let design = Design::new(Arc::new(memory), true);
    let prior = Prior::independent(vec![0.0; 2], &[2.5; 2]).unwrap();
    let model = Collapsed::new(&design, &group, None, Arc::new(Logistic), prior).unwrap();
    let found = model.estimate(&[0.0; 2]).unwrap();
    assert!(found.excluded.proved.unwrap_err().contains("25000 rows"));
    assert_eq!(found.maxima.len(), 1);
}

/// A prior that forbids what fits: with a little noise the coefficient follows the data, with much the prior, and both
/// are maxima. The noise alone has a proof, too.
#[test]
fn the_noise_may_have_two_maxima() {
    let mut dice = Dice::new(44);
    let mut memory = Memory { columns: 1, ..Memory::default() };
    for k in 0..60 {
        let x = if k % 2 == 0 { 1.0 } else { -1.0 };
        memory.x.push(x);
        memory.y.push(10.0 * x + 0.01 * dice.normal());
    }
    let model = |prior_sd: f64| {
        let design = Design::new(Arc::new(memory.clone()), true);
        let prior = Prior::independent(vec![0.0; 2], &[prior_sd; 2]).unwrap();
        LinearNoise::new(&design, None::<Grouping<'_>>, prior).unwrap()
    };
    let found = model(0.55).estimate().unwrap();
    assert_eq!(found.maxima.len(), 2, "{:?}", found.maxima);
    assert!(found.maxima[0].value <= found.maxima[1].value);
    assert_eq!(found.scales, found.maxima[0].scales);
    let [small, large] = [0, 1].map(|k| {
        let mut scales: Vec<f64> = found.maxima.iter().map(|m| m.scales[0]).collect();
        scales.sort_by(f64::total_cmp);
        scales[k]
    });
    assert!((0.005..0.05).contains(&small) && (5.0..15.0).contains(&large), "{small} {large}");
    let flat = model(f64::INFINITY).estimate().unwrap();
    assert_eq!(flat.maxima.len(), 1);
    let excluded = flat.excluded.unwrap();
    assert_eq!(excluded.proved, Ok(()));
    let [open] = excluded.open[..] else { panic!("{excluded:?}") };
    assert!(open[0] < flat.scales[0] && flat.scales[0] < open[1] && open[1] / open[0] < 1.5, "{open:?}");
}

/// 20 counts of 5 with p̂ = 0.58: d log L/dσ² at 0 is ½ (Σ (k − 2.9)² − 20 · 5 · 0.58 · 0.42) = 1.72 > 0, so that 0 is
/// no maximum.
#[test]
fn zero_is_no_maximum_where_the_likelihood_rises() {
    let counts = [4, 2, 4, 2, 3, 4, 3, 3, 2, 5, 1, 4, 0, 2, 3, 4, 3, 2, 3, 4];
    let memory = Memory { y: counts.map(f64::from).to_vec(), trials: vec![5.0; 20], ..Memory::default() };
    let design = Design::new(Arc::new(memory), true);
    let group: Vec<usize> = (0..20).collect();
    for prior in [1e4, 10.0].map(|sd| Prior::independent(vec![0.0], &[sd]).unwrap()) {
        let model = Collapsed::new(&design, &group, None, Arc::new(Binomial), prior).unwrap();
        let found = model.estimate(&[0.0]).unwrap();
        assert_eq!(found.maxima.len(), 1, "{:?}", found.maxima);
        assert!((found.sd - 0.392).abs() < 1e-3, "{}", found.sd);
    }
}
