//! The likelihood at given parameters: against integrals by brute force, and its gradient against differences.
#![allow(clippy::unwrap_used)]

use certus_likelihood::{Loss, Response};
use certus_mixed::crossed::{
    Method, Sampling, kept_mode, likelihood_at, likelihood_drawn, proved_likelihood,
};

use super::data::{Noise, Rows, likelihood, random};

const EXACT: Method = Method::Corrected(Sampling { draws: Some(1024), seed: 3 });

/// Levels of factors, and (factor, effects) of terms.
type Shape = (&'static [usize], &'static [(usize, usize)]);

/// log ∫ over all effects (standardised, one term of one effect per factor) by nested trapezoid sums: the first
/// factor's levels one by one, the second factor's jointly.
fn brute(rows: &Rows, loss: &dyn Loss, beta: &[f64], sds: [f64; 2]) -> f64 {
    let (step, reach) = (0.25, 28i32);
    let grid: Vec<f64> = (-reach..=reach).map(|k| step * f64::from(k)).collect();
    let weight = |u: f64| step * (-0.5 * u * u).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let [a, b] = [rows.design.levels[0], rows.design.levels[1]];
    let fixed = |i: usize| rows.offset[i] + beta[0] * rows.fixed[i][0] + beta[1] * rows.fixed[i][1];
    let mut total = 0.0;
    let mut index = vec![0usize; b];
    loop {
        let v: Vec<f64> = index.iter().map(|&k| grid[k]).collect();
        let mut product: f64 = v.iter().map(|&v| weight(v)).product();
        for g in 0..a {
            let own: Vec<usize> = (0..rows.data.len()).filter(|&i| rows.levels[i][0] as usize == g).collect();
            let mut sum = 0.0;
            for &u in &grid {
                let loss: f64 = own
                    .iter()
                    .map(|&i| {
                        let t = fixed(i) + sds[0] * u + sds[1] * v[rows.levels[i][1] as usize];
                        rows.weight[i] * loss.value(t, rows.data[i])
                    })
                    .sum();
                sum += weight(u) * (-loss).exp();
            }
            product *= sum;
        }
        total += product;
        let Some(place) = index.iter().position(|&k| k + 1 < grid.len()) else { break };
        index[place] += 1;
        index[..place].fill(0);
    }
    total.ln()
}

/// log L of nested factors by sums over wide and fine grids: of the first factor's levels given that of the second.
fn nested_brute(rows: &Rows, loss: &dyn Loss, beta: &[f64], sds: [f64; 2]) -> f64 {
    let (step, reach) = (0.05, 240i32);
    let grid: Vec<f64> = (-reach..=reach).map(|k| step * f64::from(k)).collect();
    let weight = |u: f64| step * (-0.5 * u * u).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let fixed = |i: usize| rows.offset[i] + beta[0] * rows.fixed[i][0] + beta[1] * rows.fixed[i][1];
    let mut log = 0.0;
    for b in 0..rows.design.levels[1] as u32 {
        let groups: Vec<Vec<usize>> = (0..rows.design.levels[0] as u32)
            .map(|g| (0..rows.data.len()).filter(|&i| rows.levels[i] == [g, b]).collect())
            .collect();
        let at = |v: f64| -> f64 {
            let of = |own: &Vec<usize>| -> f64 {
                let inner = |u: f64| -> f64 {
                    let row = |&i: &usize| {
                        let t = fixed(i) + sds[0] * u * rows.effects[i][0] + sds[1] * v * rows.effects[i][1];
                        rows.weight[i] * loss.value(t, rows.data[i])
                    };
                    weight(u) * (-own.iter().map(row).sum::<f64>()).exp()
                };
                grid.iter().map(|u| inner(*u)).sum()
            };
            groups.iter().filter(|own| !own.is_empty()).map(of).product::<f64>() * weight(v)
        };
        log += grid.iter().map(|v| at(*v)).sum::<f64>().ln();
    }
    log
}

/// N1: log L of nested factors is right to the bound on its error, from small sds to large ones; nothing is claimed of
/// Poisson and probit models, nor of crossed factors.
#[test]
fn nested_likelihoods_are_within_their_bounds() {
    let mut noise = Noise(41);
    let mut worst = 0.0f64;
    for response in [Response::Logistic, Response::Binomial, Response::NegativeBinomial] {
        let loss = likelihood(response);
        for (case, sds) in [[0.05, 0.3], [0.9, 1.3], [3.0, 2.0], [0.4, 6.0]].into_iter().enumerate() {
            let rows = random(response, &[6, 2], &[(0, 1), (1, 1)], 10 + 4 * case, true, &mut noise);
            let parameters = [0.2, 0.5, sds[0], sds[1]];
            let want = nested_brute(&rows, &*loss, &parameters[..2], sds);
            let found = proved_likelihood(&rows.model(loss.clone()), &parameters).unwrap().unwrap();
            let off = (found.log_likelihood - want).abs();
            assert!(off <= found.error, "{response:?} {sds:?}: {off} {found:?}");
            assert!(found.error < 1e-8, "{response:?} {sds:?}: {found:?}");
            worst = worst.max(off / found.error);
        }
    }
    println!("{worst} of a bound at most");
    for (response, nested) in
        [(Response::Poisson, true), (Response::Probit, true), (Response::Logistic, false)]
    {
        let rows = random(response, &[5, 2], &[(0, 1), (1, 1)], 18, nested, &mut noise);
        let found = proved_likelihood(&rows.model(likelihood(response)), &[0.2, 0.5, 0.9, 1.3]);
        assert_eq!(found.unwrap(), None, "{response:?} {nested}");
    }
}

/// Crossed and nested factors, all likelihoods: Λ + c within four standard errors of the integral; exact for nested
/// ones, whose components have one kept effect.
#[test]
fn integrals_are_those_of_brute_force() {
    let mut noise = Noise(17);
    let mut largest = 0.0_f64;
    let responses = [Response::Logistic, Response::Binomial, Response::Poisson, Response::NegativeBinomial];
    for response in responses.into_iter().chain([Response::Probit]) {
        let loss = likelihood(response);
        for nested in [false, true] {
            let rows = random(response, &[5, 2], &[(0, 1), (1, 1)], 18, nested, &mut noise);
            let sds = [0.9, 1.3];
            let want = brute(&rows, &*loss, &[0.2, 0.5], sds);
            let found = likelihood_at(&rows.model(loss.clone()), &[0.2, 0.5, sds[0], sds[1]], EXACT).unwrap();
            let error = found.approximation + found.correction - want;
            let allowed = 4.0 * found.standard_error + 1e-7;
            assert!(error.abs() < allowed, "{response:?} {nested}: {error} {allowed}");
            assert!(allowed < 0.01, "{allowed}");
            assert_eq!(nested, found.standard_error == 0.0);
            largest = largest.max(found.correction.abs() / allowed);
        }
    }
    // the correction is needed: without it errors are far larger than what is allowed for
    assert!(largest > 10.0, "{largest}");
}

/// The estimates for points that are drawn have the likelihood as their expectation: the mean over points is that of
/// brute force, with numbers of their own, and within four standard errors; the mode from which a search begins changes
/// nothing.
#[test]
fn drawn_likelihoods_have_the_right_expectation() {
    let mut noise = Noise(17);
    let loss = likelihood(Response::Logistic);
    let rows = random(Response::Logistic, &[5, 2], &[(0, 1), (1, 1)], 18, false, &mut noise);
    let (model, x) = (rows.model(loss.clone()), [0.2, 0.5, 0.9, 1.3]);
    let want = brute(&rows, &*loss, &x[..2], [x[2], x[3]]);
    let sampling = Sampling { draws: Some(64), seed: 3 };
    let start = kept_mode(&model, &x).unwrap();
    let points = 400;
    let ratios: Vec<f64> = (0..points)
        .map(|point| {
            let from = (point % 2 == 0).then_some(&start[..]);
            (likelihood_drawn(&model, &x, from, sampling, point).unwrap() - want).exp()
        })
        .collect();
    let n = points as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    let error = (ratios.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (n * (n - 1.0))).sqrt();
    assert!((mean - 1.0).abs() < 4.0 * error, "{mean} ± {error}");
    // small enough to see that a correction is missing, and not 0: every point has its own numbers
    let approximation = likelihood_at(&model, &x, EXACT).unwrap().approximation;
    assert!(
        error > 0.0 && ((approximation - want).exp() - 1.0).abs() > 10.0 * error,
        "{approximation} {want} {error}"
    );
}

/// Gradients of both approximations, one to three effects per level, kept and integrated out, two terms of one factor.
#[test]
fn gradients_are_those_of_the_criterion() {
    let mut noise = Noise(5);
    let designs: [Shape; 5] = [
        (&[9, 4], &[(0, 1), (1, 1)]),
        (&[9, 4], &[(0, 2), (1, 1)]),
        (&[4, 9], &[(0, 2), (1, 1)]),
        (&[8, 3, 3], &[(0, 1), (1, 1), (2, 2), (1, 1)]),
        (&[5], &[(0, 3)]),
    ];
    for (at, response) in [
        Response::Logistic,
        Response::Poisson,
        Response::Binomial,
        Response::NegativeBinomial,
        Response::Probit,
    ]
    .into_iter()
    .enumerate()
    {
        let (levels, terms) = designs[at];
        for method in [Method::Laplace, Method::Corrected(Sampling { draws: Some(32), seed: 1 })] {
            let rows = random(response, levels, terms, if at == 4 { 25 } else { 70 }, false, &mut noise);
            let model = rows.model(likelihood(response));
            let x: Vec<f64> =
                (0..model.parameters()).map(|j| 0.6 + 0.4 * noise.next() - 0.1 * j as f64).collect();
            let found = likelihood_at(&model, &x, method).unwrap();
            for j in 0..x.len() {
                let step = 1e-4;
                let side = |by: f64| {
                    let mut x = x.clone();
                    x[j] += by;
                    likelihood_at(&model, &x, method).unwrap().approximation
                };
                let slope =
                    (8.0 * (side(step) - side(-step)) - side(2.0 * step) + side(-2.0 * step)) / (12.0 * step);
                let error = slope - found.gradient[j];
                assert!(
                    error.abs() < 2e-5 * (1.0 + slope.abs()),
                    "{response:?} {method:?} {j}: {slope} {}",
                    found.gradient[j]
                );
            }
        }
    }
}
