//! What must hold of any fit: one factor is exact, threads change nothing, sds of 0, weights, modes, refusals.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;

use certus::random::{Purpose, Random};
use certus_likelihood::{Datum, Response};
use certus_mixed::collapsed::{Collapsed, Order};
use certus_mixed::crossed::{
    CrossedModel, Error, Method, Observation, Sampling, deviation_len, deviations, fit, likelihood_at, modes,
};
use certus_mixed::linear::{Design, Term};
use certus_models::{Memory, Prior};
use std::sync::Arc;

use super::data::{Noise, Rows, likelihood, random};

const CONTINUE: ControlFlow<()> = ControlFlow::Continue(());
const CORRECTED: Method = Method::Corrected(Sampling { draws: Some(64), seed: 2 });

/// One factor with one effect: the likelihood and its gradient are those of the exact model.
#[test]
fn one_factor_is_exact() {
    let mut noise = Noise(3);
    for response in [Response::Logistic, Response::Poisson, Response::NegativeBinomial] {
        let rows = random(response, &[12], &[(0, 1)], 60, false, &mut noise);
        let memory = Memory {
            x: rows.fixed.iter().map(|x| x[1]).collect(),
            y: rows.data.iter().map(|d| d.y).collect(),
            weight: rows.weight.clone(),
            offset: rows.offset.clone(),
            columns: 1,
            ..Memory::default()
        };
        let design = certus_models::Design::new(Arc::new(memory), true);
        let group: Vec<usize> = rows.levels.iter().map(|l| l[0] as usize).collect();
        let prior = Prior::independent(vec![0.0; 2], &[f64::INFINITY; 2]).unwrap();
        let exact = Collapsed::new(&design, &group, None, likelihood(response), prior).unwrap();
        let model = rows.model(likelihood(response));
        let sd: f64 = 0.8;
        let want = exact.at(&[0.3, -0.4], sd.ln(), Order::Second).unwrap();
        let found = likelihood_at(&model, &[0.3, -0.4, sd], CORRECTED).unwrap();
        assert_eq!((found.correction, found.standard_error), (0.0, 0.0));
        assert!((found.approximation - want.log_likelihood).abs() < 1e-7, "{response:?}");
        for j in 0..3 {
            let slope = if j == 2 { -want.gradient[j] / sd } else { -want.gradient[j] };
            assert!((found.gradient[j] - slope).abs() < 1e-6, "{response:?} {j}");
        }
    }
}

/// The bits of a fit do not depend on the number of threads.
#[test]
fn threads_change_nothing() {
    let rows = random(Response::Logistic, &[30, 6], &[(0, 1), (1, 1)], 240, false, &mut Noise(8));
    let model = rows.model(likelihood(Response::Logistic));
    let run = |threads| {
        certus::parallel::install(Some(threads), || fit(&model, CORRECTED, &mut |_, _| CONTINUE).unwrap())
            .unwrap()
    };
    let (one, three) = (run(1), run(3));
    assert_eq!(one, three);
    assert!(one.correction.is_some_and(|c| c.sampled == 1 && c.trusted));
    // at the maximum the gradient of Λ is that of −c, small beside one standard error
    let at = likelihood_at(&model, &one.parameters, CORRECTED).unwrap();
    let error = one.fixed_covariance[0].sqrt();
    assert!(at.gradient[0].abs() * error < 0.2, "{}", at.gradient[0]);
}

/// A factor without any effect on the response: its sd is 0, or its likelihood hardly above that of 0.
#[test]
fn an_sd_of_zero_is_found() {
    let mut noise = Noise(21);
    let mut zeros = 0;
    for _ in 0..6 {
        let mut rows = random(Response::Logistic, &[20, 5], &[(0, 1), (1, 1)], 200, false, &mut noise);
        for y in &mut rows.data {
            y.y = f64::from(u8::from(noise.next() > 0.0));
        }
        let model = rows.model(likelihood(Response::Logistic));
        let found = fit(&model, Method::Laplace, &mut |_, _| CONTINUE).unwrap();
        for term in &found.terms {
            assert_eq!(term.rank == 0, term.sds[0] == 0.0);
            assert_eq!(term.rank == 0, term.log_sd_errors.is_empty());
            zeros += usize::from(term.rank == 0);
        }
        // nothing nearby is better
        for j in 0..found.parameters.len() {
            for by in [-0.05, 0.05] {
                let mut x = found.parameters.clone();
                x[j] += by;
                let other = likelihood_at(&model, &x, Method::Laplace).unwrap().approximation;
                assert!(other <= found.log_likelihood + 1e-9, "{j} {by}");
            }
        }
    }
    assert!(zeros >= 3, "{zeros}");
}

/// A row of weight 2 is two rows, and the order of rows does not matter.
#[test]
fn weights_are_frequencies() {
    let rows = random(Response::Poisson, &[12, 4], &[(0, 1), (1, 2)], 90, false, &mut Noise(30));
    let mut twice = rows.clone();
    for i in (0..rows.data.len()).rev().filter(|&i| rows.weight[i] == 2.0) {
        twice.weight[i] = 1.0;
        twice.levels.push(rows.levels[i].clone());
        twice.effects.push(rows.effects[i].clone());
        twice.fixed.push(rows.fixed[i].clone());
        twice.data.push(rows.data[i]);
        twice.offset.push(rows.offset[i]);
        twice.weight.push(1.0);
    }
    let x = [0.2, 0.3, 0.7, 0.6, -0.2, 0.4];
    for method in [Method::Laplace, CORRECTED] {
        let of = |rows: &Rows| likelihood_at(&rows.model(likelihood(Response::Poisson)), &x, method).unwrap();
        let (a, b) = (of(&rows), of(&twice));
        assert!((a.approximation - b.approximation).abs() < 1e-9);
        assert!((a.correction - b.correction).abs() < 1e-9);
    }
}

/// Conditional modes are stationary: moved effects lower the joint density; a level without rows has the prior.
#[test]
fn modes_are_those_of_the_joint_density() {
    let mut rows = random(Response::Logistic, &[10, 4], &[(0, 1), (1, 1)], 80, false, &mut Noise(40));
    rows.design.levels[1] = 5;
    let loss = likelihood(Response::Logistic);
    let model = rows.model(loss.clone());
    let found = fit(&model, Method::Laplace, &mut |_, _| CONTINUE).unwrap();
    let effects = modes(&model, &found).unwrap();
    let joint = |b: &[Vec<f64>]| {
        let mut sum = 0.0;
        for (b, term) in b.iter().zip(&found.terms).filter(|(_, term)| term.rank == 1) {
            sum += b.iter().map(|b| 0.5 * (b / term.sds[0]).powi(2)).sum::<f64>();
        }
        for i in 0..rows.data.len() {
            let fixed: f64 = rows.fixed[i].iter().zip(&found.fixed).map(|(x, b)| x * b).sum();
            let t =
                rows.offset[i] + fixed + b[0][rows.levels[i][0] as usize] + b[1][rows.levels[i][1] as usize];
            sum += rows.weight[i] * loss.value(t, rows.data[i]);
        }
        sum
    };
    let at: Vec<Vec<f64>> = effects.iter().map(|e| e.means.clone()).collect();
    let least = joint(&at);
    for term in (0..2).filter(|&t| found.terms[t].rank == 1) {
        for level in 0..at[term].len() {
            for by in [-0.01, 0.01] {
                let mut moved = at.clone();
                moved[term][level] += by;
                assert!(joint(&moved) > least, "{term} {level}");
            }
        }
        let sd = found.terms[term].sds[0];
        assert!(effects[term].given_fixed.iter().all(|v| *v > 0.0 && *v <= sd * sd * (1.0 + 1e-9)));
    }
    assert!((effects[1].variances[4] - found.terms[1].sds[0].powi(2)).abs() < 1e-12);
    assert_eq!(effects[1].means[4], 0.0);
}

/// Draws of coefficients and effects have the covariances that are stated of them, by both methods: 40,000 draws, five
/// standard errors. Effects move with β as the modes do when β is moved.
#[test]
fn draws_have_the_covariances_of_the_modes() {
    let rows = random(Response::Poisson, &[8, 3], &[(0, 1), (1, 2)], 90, false, &mut Noise(51));
    let model = rows.model(likelihood(Response::Poisson));
    for method in [Method::Laplace, CORRECTED] {
        let found = fit(&model, method, &mut |_, _| CONTINUE).unwrap();
        let effects = modes(&model, &found).unwrap();
        let (n, length) = (40_000, deviation_len(&model));
        let mut normals = vec![0.0; n * length];
        Random::new(1, Purpose::Simulate, 0).normals(0, 0, length, &mut normals);
        let drawn = deviations(&model, &found, &normals).unwrap();
        let width = drawn.len() / n;
        let covariance =
            |a: usize, b: usize| drawn.chunks_exact(width).map(|d| d[a] * d[b]).sum::<f64>() / n as f64;
        let check = |a: usize, b: usize, want: f64| {
            let (found, size) = (covariance(a, b), (covariance(a, a) * covariance(b, b)).sqrt());
            assert!((found - want).abs() < 5.0 * size * (2.0 / n as f64).sqrt(), "{a} {b}: {found} {want}");
        };
        let mut at = 2;
        for term in &effects {
            let k = term.effects;
            for level in 0..term.means.len() / k {
                for j in 0..k {
                    for i in 0..k {
                        check(at + i, at + j, term.variances[(level * k + j) * k + i]);
                    }
                    (0..2).for_each(|c| check(at + j, c, term.with_fixed[(level * k + j) * 2 + c]));
                }
                at += k;
            }
        }
        assert_eq!(at, width);
    }
}

/// What cannot be fitted is refused with its place.
#[test]
fn refusals_name_the_place() {
    let design = Design { levels: vec![2], terms: vec![Term { factor: 0, effects: 1 }], fixed: 1 };
    let row = |level: u32, y: f64, weight: f64| (vec![level], y, weight);
    let made = |rows: &[(Vec<u32>, f64, f64)]| {
        let each = rows.iter().map(|(levels, y, weight)| Observation {
            levels,
            effects: &[1.0],
            fixed: &[1.0],
            datum: Datum { y: *y, trials: 1.0 },
            offset: 0.0,
            weight: *weight,
        });
        CrossedModel::new(&design, likelihood(Response::Logistic), each).map(|_| ())
    };
    assert!(matches!(
        made(&[row(0, 1.0, 1.0), row(2, 1.0, 1.0)]),
        Err(Error::Level { row: 1, level: 2, .. })
    ));
    assert!(matches!(made(&[row(0, 0.5, 1.0)]), Err(Error::Response { row: 0, .. })));
    assert!(matches!(made(&[row(0, 1.0, -1.0)]), Err(Error::Value { row: 0, .. })));
    assert!(matches!(made(&[]), Err(Error::NoRow { .. })));
    let rows = random(Response::Logistic, &[6, 3], &[(0, 1), (1, 1)], 40, false, &mut Noise(2));
    let mut twice = rows.clone();
    twice.design.fixed = 3;
    twice.fixed.iter_mut().for_each(|x| x.push(2.0 * x[1]));
    let model = twice.model(likelihood(Response::Logistic));
    assert_eq!(fit(&model, Method::Laplace, &mut |_, _| CONTINUE), Err(Error::Collinear { column: 2 }));
    let odd = Method::Corrected(Sampling { draws: Some(30), seed: 0 });
    let model = rows.model(likelihood(Response::Logistic));
    assert!(matches!(fit(&model, odd, &mut |_, _| CONTINUE), Err(Error::Draws { draws: 30 })));
}
