//! Two effects per group integrated out, against sums on fine grids of the plane, closed forms and central differences.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use certus_likelihood::{Binomial, Datum, Likelihood, Linear, Logistic, NegativeBinomial, Poisson, Probit};
use certus_mixed::collapsed::{CollapsedPair, Order};
use certus_models::{Design, Memory, Prior};

use crate::common::Dice;

fn likelihood(kind: usize) -> Arc<dyn Likelihood> {
    match kind {
        0 => Arc::new(Logistic),
        1 => Arc::new(Binomial),
        2 => Arc::new(NegativeBinomial::new(1.7).unwrap()),
        3 => Arc::new(Poisson),
        4 => Arc::new(Linear::new(0.8).unwrap()),
        5 => Arc::new(NegativeBinomial::new(300.0).unwrap()),
        _ => Arc::new(Probit),
    }
}

struct Case {
    memory: Memory,
    group: Vec<usize>,
    likelihood: Arc<dyn Likelihood>,
}

/// Rows with an intercept and one column that both vary by group, v = (e^a u₁, m e^a u₁ + e^c u₂).
fn case(dice: &mut Dice, kind: usize, groups: usize, most: usize, [a, m, c]: [f64; 3]) -> Case {
    let (mut x, mut y, mut trials, mut weight, mut group) = (vec![], vec![], vec![], vec![], vec![]);
    for g in 0..groups {
        let first = a.exp() * dice.normal();
        let second = m * first + c.exp() * dice.normal();
        for _ in 0..1 + (dice.uniform() * (most as f64 - 0.01)) as usize {
            let z = dice.normal();
            let t = 0.3 + 0.5 * z + first + second * z;
            let tries = 1.0 + (dice.uniform() * 8.0).floor();
            let chance = 1.0 / (1.0 + (-t).exp());
            y.push(match kind {
                1 => (0..tries as usize).filter(|_| dice.uniform() < chance).count() as f64,
                2 | 3 | 5 => dice.count(t.min(3.0).exp(), 200.0),
                4 => t + 0.8 * dice.normal(),
                _ => f64::from(u8::from(dice.uniform() < chance)),
            });
            trials.push(tries);
            weight.push(0.8 + 0.4 * dice.uniform());
            x.push(z);
            group.push(g);
        }
    }
    let memory = Memory { x, y, trials, weight, columns: 1, ..Memory::default() };
    Case { memory, group, likelihood: likelihood(kind) }
}

impl Case {
    fn model(&self, prior_sd: f64) -> CollapsedPair {
        let design = Design::new(Arc::new(self.memory.clone()), true);
        let prior = Prior::independent(vec![0.0; 2], &[prior_sd; 2]).unwrap();
        CollapsedPair::new(&design, &self.group, [None, Some(1)], Arc::clone(&self.likelihood), prior)
            .unwrap()
    }

    /// log of the integral of a single group: a coarse grid finds where ψ is within 45 of its minimum, a fine one of a
    /// quarter of the narrowest sd sums.
    fn by_hand(&self, beta: &[f64], [a, m, c]: [f64; 3]) -> f64 {
        let at = |u: [f64; 2], order: usize| {
            let mut psi = if order == 0 { 0.5 * (u[0] * u[0] + u[1] * u[1]) } else { 1.0 };
            for i in 0..self.group.len() {
                let z = self.memory.x[i];
                let s = [a.exp() * (1.0 + m * z), c.exp() * z];
                let t = beta[0] + beta[1] * z + s[0] * u[0] + s[1] * u[1];
                let datum = Datum { y: self.memory.y[i], trials: self.memory.trials[i] };
                let w = self.memory.weight[i];
                psi += if order == 0 {
                    w * self.likelihood.value(t, datum)
                } else {
                    w * self.likelihood.second_derivative(t, datum) * (s[0] * s[0] + s[1] * s[1])
                };
            }
            psi
        };
        let coarse = 0.1;
        let mut least = (f64::INFINITY, [0.0; 2]);
        let grid: Vec<[f64; 2]> = (-100..=100)
            .flat_map(|i| (-100..=100).map(move |j| [f64::from(i) * 0.1, f64::from(j) * 0.1]))
            .collect();
        let values: Vec<f64> = grid.iter().map(|u| at(*u, 0)).collect();
        for (u, v) in grid.iter().zip(&values) {
            if *v < least.0 {
                least = (*v, *u);
            }
        }
        let mut ends = [[f64::INFINITY, f64::NEG_INFINITY]; 2];
        for (u, v) in grid.iter().zip(&values).filter(|(_, v)| **v < least.0 + 45.0) {
            assert!(v.is_finite());
            for j in 0..2 {
                ends[j] = [ends[j][0].min(u[j] - coarse), ends[j][1].max(u[j] + coarse)];
            }
        }
        let step = 0.25 / at(least.1, 2).sqrt();
        let counts = ends.map(|e| ((e[1] - e[0]) / step).ceil() as usize);
        let mut sum = 0.0;
        for i in 0..=counts[0] {
            for j in 0..=counts[1] {
                sum += (least.0 - at([ends[0][0] + i as f64 * step, ends[1][0] + j as f64 * step], 0)).exp();
            }
        }
        (sum * step * step).ln() - least.0 - std::f64::consts::TAU.ln()
    }
}

/// 105 single groups of all kinds: the error is never above its bound, and the bound is as small as it should be.
#[test]
fn the_error_is_within_its_bound() {
    let mut dice = Dice::new(21);
    for k in 0..105 {
        let kind = k % 7;
        let theta =
            [[-0.7, 0.3, -1.2], [0.0, -0.8, 0.0], [0.6, 0.0, -2.5], [-3.0, 2.0, 0.4], [0.3, 0.5, 0.2]][k % 5];
        let most = [1, 3, 8, 20][(k / 7) % 4];
        let case = case(&mut dice, kind, 1, most, theta);
        let beta = [0.3 * dice.normal(), 0.5 * dice.normal()];
        let at = case.model(f64::INFINITY).at(&beta, theta, Order::Value).unwrap();
        let by_hand = case.by_hand(&beta, theta);
        let off = (at.log_likelihood - by_hand).abs();
        if kind == 6 {
            assert!(at.error.is_infinite() && off < 1e-9, "probit, {k}: {off:e}");
        } else {
            let rounding = 1e-12 * (1.0 + by_hand.abs());
            assert!(off <= at.error + rounding, "{k}, kind {kind}: {off:e} above {:e}", at.error);
            assert!(at.error < 1e-9, "{k}, kind {kind}, rows up to {most}: {:e}", at.error);
        }
    }
}

/// Central differences err by h²/6 of the third derivative and rounding over h.
#[test]
fn derivatives_are_those_of_the_value() {
    let mut dice = Dice::new(22);
    for kind in 0..7 {
        let case = case(&mut dice, kind, 8, 6, [-0.3, 0.4, -0.6]);
        let model = case.model(2.0);
        let w = [0.2, 0.4, -0.4, 0.3, -0.5];
        let at = |w: &[f64]| model.at(&w[..2], [w[2], w[3], w[4]], Order::Second).unwrap();
        let here = at(&w);
        let h = 1e-4;
        for j in 0..5 {
            let moved = |sign: f64| {
                let mut w = w;
                w[j] += sign * h;
                at(&w)
            };
            let (up, down) = (moved(1.0), moved(-1.0));
            let slope = (up.value - down.value) / (2.0 * h);
            let scale = 1.0 + here.hessian[j * 5 + j].abs();
            assert!(
                (slope - here.gradient[j]).abs() < 1e-6 * scale,
                "{kind} {j}: {slope} {:?}",
                here.gradient
            );
            for i in 0..5 {
                let second = (up.gradient[i] - down.gradient[i]) / (2.0 * h);
                let scale = 1.0 + (here.hessian[j * 6] * here.hessian[i * 6]).abs().sqrt();
                let own = here.hessian[j * 5 + i];
                assert!((second - own).abs() < 1e-6 * scale, "{kind} {i} {j}: {second} {own}");
            }
        }
    }
}

/// The inverse, by Gauss and Jordan, and the logarithm of the determinant.
fn inverse(mut a: Vec<Vec<f64>>) -> (Vec<Vec<f64>>, f64) {
    let n = a.len();
    let mut out: Vec<Vec<f64>> =
        (0..n).map(|i| (0..n).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    let mut log_det = 0.0;
    for k in 0..n {
        let pivot = a[k][k];
        log_det += pivot.ln();
        (0..n).for_each(|j| (a[k][j], out[k][j]) = (a[k][j] / pivot, out[k][j] / pivot));
        for i in (0..n).filter(|&i| i != k) {
            let f = a[i][k];
            (0..n).for_each(|j| {
                a[i][j] -= f * a[k][j];
                out[i][j] -= f * out[k][j];
            });
        }
    }
    (out, log_det)
}

/// A linear model: y given β is Gaussian, and β and all effects given the covariance are, too.
#[test]
fn a_linear_model_has_a_closed_form() {
    let mut dice = Dice::new(23);
    let groups = 12;
    let case = case(&mut dice, 4, groups, 9, [-0.2, 0.5, -0.8]);
    let model = case.model(1.5);
    let found = model.estimate(&[0.0; 2]).unwrap();
    assert!(!found.singular, "{found:?}");
    let [a, m, c] = found.theta;
    let (s1, s12) = ((2.0 * a).exp(), m * (2.0 * a).exp());
    let s2 = m * m * s1 + (2.0 * c).exp();
    assert!((found.sds[0] - s1.sqrt()).abs() < 1e-12 && (found.sds[1] - s2.sqrt()).abs() < 1e-12);
    assert!((found.correlation - s12 / (s1 * s2).sqrt()).abs() < 1e-12);
    let det = s1 * s2 - s12 * s12;
    let size = 2 + 2 * groups;
    let mut precision = vec![vec![0.0; size]; size];
    let mut right = vec![0.0; size];
    (0..2).for_each(|j| precision[j][j] = 1.0 / 2.25);
    let mut log_prior = -(1.5_f64.ln()) * 2.0 - std::f64::consts::TAU.ln();
    for g in 0..groups {
        let k = 2 + 2 * g;
        (precision[k][k], precision[k + 1][k + 1]) = (s2 / det, s1 / det);
        (precision[k][k + 1], precision[k + 1][k]) = (-s12 / det, -s12 / det);
        log_prior -= std::f64::consts::TAU.ln() + 0.5 * det.ln();
    }
    let mut constant = 0.0;
    for i in 0..case.group.len() {
        let mut row = vec![0.0; size];
        let (z, w) = (case.memory.x[i], case.memory.weight[i]);
        (row[0], row[1]) = (1.0, z);
        (row[2 + 2 * case.group[i]], row[3 + 2 * case.group[i]]) = (1.0, z);
        for j in 0..size {
            right[j] += w / 0.64 * row[j] * case.memory.y[i];
            (0..size).for_each(|l| precision[j][l] += w / 0.64 * row[j] * row[l]);
        }
        constant -= 0.5 * w * ((std::f64::consts::TAU * 0.64).ln() + case.memory.y[i].powi(2) / 0.64);
    }
    let (covariance, log_det) = inverse(precision);
    let mean: Vec<f64> = (0..size).map(|j| (0..size).map(|l| covariance[j][l] * right[l]).sum()).collect();
    // log ∫ over β and v; ours is that over v at β̂, and over β it is a Gaussian integral with the Hessian's block
    let evidence = log_prior + constant + 0.5 * mean.iter().zip(&right).map(|(m, r)| m * r).sum::<f64>()
        - 0.5 * log_det
        + 0.5 * size as f64 * std::f64::consts::TAU.ln();
    let h = &found.at.hessian;
    let block = h[0] * h[6] - h[1] * h[5];
    let ours = -found.at.value - 0.5 * block.ln() + std::f64::consts::TAU.ln();
    assert!((ours - evidence).abs() < 1e-7, "{ours} {evidence}");
    for j in 0..2 {
        assert!((found.beta[j] - mean[j]).abs() < 1e-6, "{:?} {mean:?}", found.beta);
    }
    for (g, effect) in model.effects(&found).unwrap().iter().enumerate() {
        assert_eq!(effect.group, g);
        for j in 0..2 {
            let k = 2 + 2 * g + j;
            assert!((effect.mean[j] - mean[k]).abs() < 1e-6, "{effect:?} {}", mean[k]);
            assert!((effect.sd[j] - covariance[k][k].sqrt()).abs() < 1e-6, "{effect:?}");
        }
        let k = 2 + 2 * g;
        let correlation = covariance[k][k + 1] / (covariance[k][k] * covariance[k + 1][k + 1]).sqrt();
        assert!((effect.correlation - correlation).abs() < 1e-6);
    }
}

/// The estimate: derivatives vanish there, the truth is within four standard errors, and threads change nothing.
#[test]
fn the_estimate_is_a_maximum() {
    let mut dice = Dice::new(24);
    for kind in [0, 3, 4] {
        let truth = [-0.1, 0.5, -0.4];
        let mut case = case(&mut dice, kind, 150, 14, truth);
        case.memory.weight.clear();
        let model = case.model(2.5);
        let run = |threads| {
            certus::parallel::install(Some(threads), || model.estimate(&[0.0; 2]).unwrap()).unwrap()
        };
        let found = run(2);
        assert_eq!(run(1).theta, found.theta);
        assert!(found.at.gradient.iter().all(|g| g.abs() < 1e-4), "{kind}: {:?}", found.at.gradient);
        let rows: Vec<Vec<f64>> = (0..5).map(|i| found.at.hessian[i * 5..][..5].to_vec()).collect();
        let (covariance, _) = inverse(rows);
        for j in 0..3 {
            let sd = covariance[2 + j][2 + j].sqrt();
            assert!((found.theta[j] - truth[j]).abs() < 4.0 * sd, "{kind} {j}: {found:?} ± {sd}");
        }
        assert!(found.at.error < 1e-6);
    }
}

/// No slope by group: a singular covariance is found, and said.
#[test]
fn a_slope_that_does_not_vary_is_said_to_be_singular() {
    let mut dice = Dice::new(25);
    let mut singular = 0;
    for _ in 0..6 {
        let mut case = case(&mut dice, 0, 60, 8, [-0.3, 0.0, -12.0]);
        case.memory.weight.clear();
        let found = case.model(2.5).estimate(&[0.0; 2]).unwrap();
        singular += usize::from(found.singular);
        assert!(found.sds[1] < 1.2 && found.correlation.abs() <= 1.0, "{found:?}");
    }
    // the second sd, given the first, is 0 at least half the time
    assert!(singular >= 1, "{singular}");
}
