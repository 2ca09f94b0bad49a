//! Groups integrated out, against sums on fine grids, closed forms and central differences.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::sync::Arc;

use certus_likelihood::{Binomial, Datum, Likelihood, Linear, Logistic, NegativeBinomial, Poisson, Probit};
use certus_mixed::Journal;
use certus_mixed::collapsed::{Collapsed, ObjectiveValue, Order, SdPrior};
use certus_models::{Design, Memory, Prior};

use crate::common::Dice;

/// Uniform on 0..n.
fn below(dice: &mut Dice, n: usize) -> usize {
    ((dice.uniform() * n as f64) as usize).min(n - 1)
}

/// Rows with p columns besides the intercept, drawn at β and σ.
struct Case {
    memory: Memory,
    group: Vec<usize>,
    likelihood: Arc<dyn Likelihood>,
    effect: Option<usize>,
}

fn likelihood(kind: usize) -> Arc<dyn Likelihood> {
    match kind {
        0 => Arc::new(Logistic),
        1 => Arc::new(Binomial),
        2 => Arc::new(NegativeBinomial::new(1.7).unwrap()),
        3 => Arc::new(Poisson),
        4 => Arc::new(Linear::new(0.8).unwrap()),
        _ => Arc::new(Probit),
    }
}

fn case(
    dice: &mut Dice,
    kind: usize,
    groups: usize,
    most_rows: usize,
    sigma: f64,
    effect: Option<usize>,
) -> Case {
    let p = 2;
    let (mut x, mut y, mut trials, mut weight, mut group) = (vec![], vec![], vec![], vec![], vec![]);
    for g in 0..groups {
        let u = dice.normal();
        for _ in 0..1 + below(dice, most_rows) {
            let row: Vec<f64> = (0..p).map(|_| dice.normal()).collect();
            let z = effect.map_or(1.0, |c| if c == 0 { 1.0 } else { row[c - 1] });
            let t = 0.3 + 0.7 * row[0] - 0.4 * row[1] + sigma * z * u;
            let m = 1 + below(dice, 12);
            let chance = 1.0 / (1.0 + (-t).exp());
            trials.push(m as f64);
            y.push(match kind {
                1 => (0..m).filter(|_| dice.uniform() < chance).count() as f64,
                2 | 3 => dice.count(t.min(4.0).exp(), 400.0),
                4 => t + 0.8 * dice.normal(),
                _ => f64::from(u8::from(dice.uniform() < chance)),
            });
            weight.push(1.0 + 0.5 * dice.uniform());
            x.extend(row);
            group.push(g);
        }
    }
    let memory = Memory { x, y, trials, weight, columns: p, ..Memory::default() };
    Case { memory, group, likelihood: likelihood(kind), effect }
}

impl Case {
    fn model(&self, prior_sd: f64) -> Collapsed {
        let design = Design::new(Arc::new(self.memory.clone()), true);
        let prior = Prior::independent(vec![0.0; 3], &[prior_sd; 3]).unwrap();
        Collapsed::new(&design, &self.group, self.effect, Arc::clone(&self.likelihood), prior).unwrap()
    }

    /// Σ_g log of the integral on a grid of steps of 1/500 of the narrower of both scales, ± 14.
    fn by_hand(&self, beta: &[f64], sigma: f64) -> f64 {
        let groups = self.group.iter().max().unwrap() + 1;
        let mut total = 0.0;
        for g in 0..groups {
            let rows: Vec<usize> = (0..self.group.len()).filter(|&i| self.group[i] == g).collect();
            let potential = |u: f64| {
                let mut psi = 0.5 * u * u;
                for &i in &rows {
                    let x = &self.memory.x[2 * i..2 * i + 2];
                    let z = self.effect.map_or(1.0, |c| if c == 0 { 1.0 } else { x[c - 1] });
                    let t = beta[0] + beta[1] * x[0] + beta[2] * x[1] + sigma * z * u;
                    let datum = Datum { y: self.memory.y[i], trials: self.memory.trials[i] };
                    psi += self.memory.weight[i] * self.likelihood.value(t, datum);
                }
                psi
            };
            let step = 1.0 / 400.0;
            let values: Vec<f64> = (-5600..=5600).map(|k| potential(f64::from(k) * step)).collect();
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let sum: f64 = values.iter().map(|v| (least - v).exp()).sum();
            total += (sum * step).ln() - least - 0.5 * std::f64::consts::TAU.ln();
        }
        total
    }
}

/// 200 groups of all kinds and sizes: the error is never above its bound, and the bound is as small as it should be.
#[test]
fn the_error_is_within_its_bound() {
    let mut dice = Dice::new(1);
    for k in 0..200 {
        let kind = k % 6;
        let sigma = [0.05, 0.5, 1.0, 2.0, 4.0][k % 5];
        let effect = [None, Some(0), Some(1), Some(2)][(k / 6) % 4];
        let most = [1, 3, 8, 40][(k / 24) % 4];
        let case = case(&mut dice, kind, 1, most, sigma, effect);
        let beta = [0.2 * dice.normal(), dice.normal(), dice.normal()];
        let at = case.model(f64::INFINITY).at(&beta, sigma.ln(), Order::Value).unwrap();
        let by_hand = case.by_hand(&beta, sigma);
        let off = (at.log_likelihood - by_hand).abs();
        let rounding = 1e-12 * (1.0 + by_hand.abs());
        if kind == 5 {
            assert!(at.error.is_infinite() && off < 1e-9, "probit, {k}: {off:e}");
        } else {
            assert!(off <= at.error + rounding, "{k}, kind {kind}: {off:e} above {:e}", at.error);
            assert!(at.error < 1e-9, "{k}, kind {kind}, σ {sigma}, rows up to {most}: bound {:e}", at.error);
        }
    }
}

/// y ~ N(Xβ, 0.64/w + σ²zzᵀ) group by group, by the matrix determinant lemma.
#[test]
fn a_linear_model_has_a_closed_form() {
    let mut dice = Dice::new(2);
    for effect in [None, Some(2)] {
        let case = case(&mut dice, 4, 9, 7, 1.3, effect);
        let (beta, sigma) = ([0.1, 0.5, -0.2], 1.1);
        let mut expected = 0.0;
        for g in 0..9 {
            let (mut log_det, mut quadratic, mut zz, mut zr) = (0.0, 0.0, 0.0, 0.0);
            for i in (0..case.group.len()).filter(|&i| case.group[i] == g) {
                let x = &case.memory.x[2 * i..2 * i + 2];
                let z = effect.map_or(1.0, |_| x[1]);
                let (w, r) =
                    (case.memory.weight[i], case.memory.y[i] - beta[0] - beta[1] * x[0] - beta[2] * x[1]);
                // a weight w multiplies the log density, constants included
                log_det += w * (std::f64::consts::TAU * 0.64).ln();
                quadratic += w * r * r / 0.64;
                zz += w * z * z / 0.64;
                zr += w * z * r / 0.64;
            }
            let inner = 1.0 / (sigma * sigma) + zz;
            expected -= 0.5 * (log_det + quadratic - zr * zr / inner + (sigma * sigma * inner).ln());
        }
        let at = case.model(f64::INFINITY).at(&beta, f64::ln(sigma), Order::Value).unwrap();
        assert!(
            (at.log_likelihood - expected).abs() <= at.error + 1e-12 * expected.abs(),
            "{expected} {at:?}"
        );
        assert!(at.error < 1e-8);
    }
}

/// Central differences err by h²/6 of the third derivative and rounding over h.
#[test]
fn derivatives_are_those_of_the_value() {
    let mut dice = Dice::new(3);
    for kind in 0..6 {
        for effect in [None, Some(1)] {
            let case = case(&mut dice, kind, 12, 6, 0.9, effect);
            let model = case.model(2.0);
            let w = [0.3, 0.4, -0.5, -0.2];
            let at = |w: &[f64], order| model.at(&w[..3], w[3], order).unwrap();
            let here = at(&w, Order::Second);
            let h = 1e-4;
            for j in 0..4 {
                let moved = |sign: f64| {
                    let mut w = w;
                    w[j] += sign * h;
                    at(&w, Order::Second)
                };
                let (up, down) = (moved(1.0), moved(-1.0));
                let slope = (up.value - down.value) / (2.0 * h);
                let scale = 1.0 + here.hessian[j * 4 + j].abs();
                assert!(
                    (slope - here.gradient[j]).abs() < 1e-6 * scale,
                    "kind {kind}, {j}: {slope} {:?}",
                    here.gradient
                );
                for i in 0..4 {
                    let second = (up.gradient[i] - down.gradient[i]) / (2.0 * h);
                    let scale = 1.0 + (here.hessian[j * 4 + j] * here.hessian[i * 4 + i]).abs().sqrt();
                    let own = here.hessian[j * 4 + i];
                    assert!((second - own).abs() < 1e-6 * scale, "kind {kind}, {i} {j}: {second} {own}");
                }
            }
        }
    }
}

/// The order of rows and the number of threads change nothing but the order in which a group's rows are added.
#[test]
fn threads_change_nothing() {
    let mut dice = Dice::new(4);
    let case = case(&mut dice, 0, 900, 6, 1.0, None);
    let model = case.model(2.5);
    let at = |threads| -> ObjectiveValue {
        certus::parallel::install(Some(threads), || model.at(&[0.1, 0.2, 0.3], 0.1, Order::Second))
            .unwrap()
            .unwrap()
    };
    let (one, three) = (at(1), at(3));
    assert_eq!((one.value, one.gradient, one.hessian), (three.value, three.gradient, three.hessian));
}

/// The interval holds a maximum: F profiled by hand is larger at both ends; for flat and proper priors.
#[test]
fn the_interval_holds_the_maximum() {
    let mut dice = Dice::new(5);
    for (kind, prior_sd) in
        [(0, f64::INFINITY), (0, 2.5), (3, f64::INFINITY), (1, f64::INFINITY), (4, f64::INFINITY)]
    {
        let case = case(&mut dice, kind, 150, 8, 1.0, None);
        let model = case.model(prior_sd);
        let found = model.estimate(&[0.0; 3]).unwrap();
        let [low, high] = found.interval.sds;
        assert_eq!(found.interval.proved, Ok(()), "kind {kind}");
        assert!(
            low < found.sd && found.sd < high && high / low < 1.01,
            "kind {kind}: {low} {} {high}",
            found.sd
        );
        // within four standard errors of the truth, which a right program misses once in 16,000 times
        assert!(
            (found.sd.ln() / found.log_sd_error).abs() < 4.0,
            "kind {kind}: {} ± {}",
            found.sd,
            found.log_sd_error
        );
        let slope = found.at.gradient.iter().map(|g| g.abs()).fold(0.0, f64::max);
        assert!(slope < 1e-3, "kind {kind}: {slope}");
    }
}

/// With 70,000 rows the search begins on a part of them: six passes will do, and the interval is proved with flat
/// priors.
#[test]
fn many_groups_take_few_passes() {
    let mut case = case(&mut Dice::new(11), 0, 24_000, 5, 1.0, None);
    case.memory.weight.clear();
    let found = case.model(f64::INFINITY).estimate(&[0.0; 3]).unwrap();
    assert_eq!(found.interval.proved, Ok(()));
    assert!(found.evaluations <= 6, "{}", found.evaluations);
    let [low, high] = found.interval.sds;
    assert!(high / low < 1.0005, "{low} {high}");
    assert!((found.sd.ln() / found.log_sd_error).abs() < 4.0, "{} ± {}", found.sd, found.log_sd_error);
}

/// Without an effect the likelihood falls from σ = 0 on about half the time; then 0 is the answer, and the interval
/// begins there.
#[test]
fn no_effect_is_said_to_be_zero() {
    let mut dice = Dice::new(6);
    let mut zeros = 0;
    for _ in 0..12 {
        let mut case = case(&mut dice, 0, 60, 6, 1e-9, None);
        // a weight above 1 would count a row more than once, which looks like an effect
        case.memory.weight.clear();
        let found = case.model(2.5).estimate(&[0.0; 3]).unwrap();
        assert_eq!(found.interval.proved, Ok(()), "{found:?}");
        assert!(found.interval.sds[1] < 1.5);
        if found.sd == 0.0 {
            zeros += 1;
            assert_eq!(found.interval.sds[0], 0.0);
        }
    }
    // 12 halves: fewer than 2 or more than 10 would be seen once in 160 times
    assert!((2..=10).contains(&zeros), "{zeros}");
}

/// A linear model with flat priors on β: given σ everything is Gaussian, so the only error is that of the grid, which
/// is held against a sum over a fine grid by hand.
#[test]
fn the_posterior_of_a_linear_model_is_that_by_hand() {
    let mut dice = Dice::new(7);
    let case = case(&mut dice, 4, 25, 6, 0.7, None);
    let model = case.model(2.5);
    let prior = SdPrior::HalfNormal(2.5);
    let start = model.estimate(&[0.0; 3]).unwrap();
    let mixture = model.posterior(&start.beta, start.sd, prior).unwrap();
    assert!(mixture.refinement < 1e-3);
    // F is quadratic in β: −log Z(θ) = F(β̂) + ½ log det H − (3/2) log 2π, with one Newton step to β̂
    let (mut weights, mut sum) = (Vec::new(), 0.0);
    let step = 0.01;
    let grid: Vec<f64> = (-900..=300).map(|k| f64::from(k) * step).collect();
    for theta in &grid {
        let at = model.at(&[0.0; 3], *theta, Order::Second).unwrap();
        let h = |i: usize, j: usize| at.hessian[i * 4 + j];
        // 3 × 3 by Cramer's rule
        let minor = |a: usize, b: usize, c: usize, e: usize| h(a, c) * h(b, e) - h(a, e) * h(b, c);
        let det = h(0, 0) * minor(1, 2, 1, 2) - h(0, 1) * minor(1, 2, 0, 2) + h(0, 2) * minor(1, 2, 0, 1);
        let adjugate = |i: usize, j: usize| {
            let (r, c) = ([[1, 2], [0, 2], [0, 1]][j], [[1, 2], [0, 2], [0, 1]][i]);
            let sign = if (i + j).is_multiple_of(2) { 1.0 } else { -1.0 };
            sign * minor(r[0], r[1], c[0], c[1])
        };
        let beta: Vec<f64> =
            (0..3).map(|i| -(0..3).map(|j| adjugate(i, j) * at.gradient[j]).sum::<f64>() / det).collect();
        let value = at.value + 0.5 * (0..3).map(|j| beta[j] * at.gradient[j]).sum::<f64>();
        let log = -value - 0.5 * det.ln()
            + 1.5 * std::f64::consts::TAU.ln()
            + prior.log_density(theta.exp())
            + theta;
        weights.push((log, beta, adjugate(1, 1) / det));
        sum += log.exp();
    }
    let expect =
        |f: &dyn Fn(usize) -> f64| -> f64 { (0..grid.len()).map(|k| weights[k].0.exp() / sum * f(k)).sum() };
    let sd = expect(&|k| grid[k].exp());
    assert!((mixture.sd().0 - sd).abs() < 1e-4, "{:?} {sd}", mixture.sd());
    let slope = expect(&|k| weights[k].1[1]);
    let variance = expect(&|k| weights[k].2 + (weights[k].1[1] - slope).powi(2));
    let (mean, spread) = mixture.coefficient(1);
    assert!(
        (mean - slope).abs() < 1e-5 && (spread - variance.sqrt()).abs() < 1e-5,
        "{mean} {slope} {spread} {variance}"
    );
    assert!(
        (mixture.log_evidence - (sum * step).ln()).abs() < 1e-4,
        "{} {}",
        mixture.log_evidence,
        (sum * step).ln()
    );
    let median = mixture.quantile(1, 0.5);
    assert!((median - mean).abs() < 0.2 * spread && mixture.quantile(1, 0.95) > mean + spread);
    for p in [0.05, 0.5, 0.9] {
        // the distribution function between two points of the grid is a straight line
        let mut below = 0.0;
        let mut by_hand = f64::NAN;
        for (theta, weight) in grid.iter().zip(&weights) {
            let part = weight.0.exp() / sum;
            if below < p && below + part >= p {
                by_hand = (theta + step * ((p - below) / part - 0.5)).exp();
            }
            below += part;
        }
        let found = mixture.sd_quantile(p);
        assert!((found / by_hand - 1.0).abs() < 1e-3, "{p}: {found} {by_hand}");
    }
}

/// With a linear likelihood an effect given σ is Gaussian in closed form; with β in the model, too, it is the posterior
/// of a Gaussian model, by one big solve.
#[test]
fn effects_of_a_linear_model_are_those_by_hand() {
    let mut dice = Dice::new(8);
    let case = case(&mut dice, 4, 6, 5, 0.9, None);
    let model = case.model(1.5);
    let sd: f64 = 0.8;
    // a mixture of one node
    let at = model.at(&[0.0; 3], sd.ln(), Order::Second).unwrap();
    let mixture = model.posterior(&[0.0; 3], sd, SdPrior::HalfNormal(2.5)).unwrap();
    let mut one = mixture.clone();
    let nearest = (0..one.nodes.len())
        .min_by(|a, b| {
            let far = |k: usize| (mixture.nodes[k].sd - sd).abs();
            far(*a).total_cmp(&far(*b))
        })
        .unwrap();
    one.nodes = vec![one.nodes.swap_remove(nearest)];
    one.nodes[0].weight = 1.0;
    let sd = one.nodes[0].sd;
    drop(at);
    // latents (β, v): precision and right side
    let (n, size) = (case.group.len(), 9);
    let mut a = vec![vec![0.0; size]; size];
    let mut right = vec![0.0; size];
    (0..3).for_each(|j| a[j][j] = 1.0 / (1.5 * 1.5));
    (3..size).for_each(|j| a[j][j] = 1.0 / (sd * sd));
    for i in 0..n {
        let mut row = vec![0.0; size];
        (row[0], row[1], row[2]) = (1.0, case.memory.x[2 * i], case.memory.x[2 * i + 1]);
        row[3 + case.group[i]] = 1.0;
        let w = case.memory.weight[i] / 0.64;
        for j in 0..size {
            right[j] += w * row[j] * case.memory.y[i];
            (0..size).for_each(|k| a[j][k] += w * row[j] * row[k]);
        }
    }
    // Gauss-Jordan
    let mut inverse: Vec<Vec<f64>> =
        (0..size).map(|i| (0..size).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    for k in 0..size {
        let pivot = a[k][k];
        (0..size).for_each(|j| (a[k][j], inverse[k][j]) = (a[k][j] / pivot, inverse[k][j] / pivot));
        for i in (0..size).filter(|&i| i != k) {
            let f = a[i][k];
            for j in 0..size {
                a[i][j] -= f * a[k][j];
                inverse[i][j] -= f * inverse[k][j];
            }
        }
    }
    for (g, effect) in model.effects(&one).iter().enumerate() {
        let mean: f64 = (0..size).map(|j| inverse[3 + g][j] * right[j]).sum();
        let spread = inverse[3 + g][3 + g].sqrt();
        assert_eq!(effect.group, g);
        assert!(
            (effect.mean - mean).abs() < 1e-6 && (effect.sd - spread).abs() < 1e-6,
            "{effect:?} {mean} {spread}"
        );
        for (j, c) in effect.covariance.iter().enumerate() {
            assert!((c - inverse[3 + g][j]).abs() < 1e-6, "{effect:?} {}", inverse[3 + g][j]);
        }
        let expected = [mean - 1.644_853_6 * spread, mean, mean + 1.644_853_6 * spread];
        // trapezia of a twelfth of an sd err by 2e-4 in probability, where the density is 0.1
        effect
            .quantiles
            .iter()
            .zip(expected)
            .for_each(|(q, e)| assert!((q - e).abs() < 0.01 * spread, "{effect:?} {expected:?}"));
    }
}

/// Coefficients and sd drawn from their priors, data from the model: 90 % intervals cover 90 % of 200 problems on
/// average, and between 85 and 95 % with a probability of 98 % (a binomial law); the seed is fixed.
#[test]
fn intervals_cover_what_they_say() {
    let mut dice = Dice::new(11);
    let mut covered = [0; 4];
    for k in 0..200 {
        let (groups, most) = ([12, 40, 80][k % 3], [3, 8][k % 2]);
        let truth: Vec<f64> = (0..3).map(|_| dice.normal()).collect();
        let sd = dice.normal().abs();
        let (mut x, mut y, mut group) = (vec![], vec![], vec![]);
        for g in 0..groups {
            let effect = sd * dice.normal();
            for _ in 0..1 + below(&mut dice, most) {
                let row = [dice.normal(), dice.normal()];
                let t = truth[0] + truth[1] * row[0] + truth[2] * row[1] + effect;
                y.push(f64::from(u8::from(dice.uniform() < 1.0 / (1.0 + (-t).exp()))));
                x.extend(row);
                group.push(g);
            }
        }
        let design = Design::new(Arc::new(Memory { x, y, columns: 2, ..Memory::default() }), true);
        let prior = Prior::independent(vec![0.0; 3], &[1.0; 3]).unwrap();
        let model = Collapsed::new(&design, &group, None, Arc::new(Logistic), prior).unwrap();
        let start = model.estimate(&[0.0; 3]).unwrap();
        let mixture = model.posterior(&start.beta, start.sd, SdPrior::HalfNormal(1.0)).unwrap();
        let within = |x: f64, low: f64, high: f64| usize::from(low <= x && x <= high);
        for j in 0..3 {
            covered[j] += within(truth[j], mixture.quantile(j, 0.05), mixture.quantile(j, 0.95));
        }
        covered[3] += within(sd, mixture.sd_quantile(0.05), mixture.sd_quantile(0.95));
    }
    assert!(covered.iter().all(|c| (170..=190).contains(c)), "{covered:?} of 200");
}

/// 90 % profile intervals of the sd, by lme4 1.1-31: `glmer(…, nAGQ = 25)`, `confint(profile(m), level = 0.9)`; and one
/// that begins at 0.
#[test]
fn profile_intervals_are_those_of_lme4() {
    let cut = 2.705_543_454_095_404;
    let mut observer = |_: &certus_mixed::Evaluation, _: &Journal| ControlFlow::Continue(());
    for (name, low, high) in [("bacteria", 0.581180, 1.963186), ("epil", 0.416436, 0.611816)] {
        let (data, likelihood) = crate::correlated::data::load(name);
        let memory = Memory {
            x: data.fixed.iter().flat_map(|x| x[1..].to_vec()).collect(),
            y: data.data.iter().map(|d| d.y).collect(),
            columns: data.fixed[0].len() - 1,
            ..Memory::default()
        };
        let group: Vec<usize> = data.levels.iter().map(|l| *l as usize).collect();
        let dim = data.fixed[0].len();
        let flat = || Prior::independent(vec![0.0; dim], &vec![f64::INFINITY; dim]).unwrap();
        let design = Design::new(Arc::new(memory.clone()), true);
        let model = Collapsed::new(&design, &group, None, likelihood.clone(), flat()).unwrap();
        let found = model.estimate(&vec![0.0; dim]).unwrap();
        let own =
            model.profile_interval(&found, cut, &mut Journal::default(), &mut observer).unwrap().unwrap();
        assert!((own.low - low).abs() < 3e-4 && (own.high - high).abs() < 3e-4, "{name}: {own:?}");
        // groups that have nothing to do with the responses
        let shuffled: Vec<usize> = (0..group.len()).map(|i| i % 20).collect();
        let model = Collapsed::new(&design, &shuffled, None, likelihood, flat()).unwrap();
        let found = model.estimate(&vec![0.0; dim]).unwrap();
        let own =
            model.profile_interval(&found, cut, &mut Journal::default(), &mut observer).unwrap().unwrap();
        assert!(own.low <= found.sd && found.sd < own.high && own.high < 2.0, "{name}: {own:?}");
        println!("{name}: {own:?} {}", found.sd);
    }
}
