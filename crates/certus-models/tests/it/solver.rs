//! Exact expectations and the exact solver, on easy and on hard problems.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::common::*;
use certus_likelihood::{Datum, Likelihood, Logistic, Loss, NegativeBinomial, Poisson, Probit, Slices};
use certus_models::expectation::Quadrature;
use certus_models::rows::Rows;
use certus_models::{Design, Glm, Memory, Prior};
use std::sync::Arc;

/// The trapezoid rule against 40-digit values (tests/data/expectations.csv), row sds from 1e-3 to 30, probit to |t| =
/// 1e4.
#[test]
fn expectations_are_exact() {
    let text = include_str!("../data/expectations.csv");
    let mut worst = 0.0_f64;
    let mut count = 0;
    for line in text.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let v: Vec<f64> = cells[1..].iter().map(|x| x.parse().unwrap()).collect();
        let likelihood: Box<dyn Likelihood> = match cells[0] {
            "logistic" => Box::new(Logistic),
            "probit" => Box::new(Probit),
            _ => Box::new(NegativeBinomial::new(2.5).unwrap()),
        };
        let (mean, sd, datum) = (v[0], v[1], Datum { y: v[2], trials: 1.0 });
        let m = Quadrature::new(likelihood.strip(), sd).moments(&*likelihood, mean, sd, datum);
        // the scale of each integrand: |φ| ≤ φ(mean) + |φ′|sd + sd²/2 and so on
        let curved = likelihood.second_derivative_max(datum).unwrap();
        let slope = likelihood.first_derivative(mean, datum).abs() + curved * sd;
        let value = 1.0 + likelihood.value(mean, datum).abs() + slope * sd;
        for (k, (got, scale)) in
            [(m.e0, value), (m.e1, 1.0 + slope), (m.q0, curved), (m.q1, curved), (m.q2, curved)]
                .into_iter()
                .enumerate()
        {
            let error = (got - v[3 + k]).abs() / scale;
            worst = worst.max(error);
            assert!(error < 1e-13, "{line}: moment {k} is {got}, error {error:e}");
        }
        count += 1;
    }
    println!("worst scaled error {worst:e} in {count} rows");
    assert!(count >= 100);
}

/// Poisson's closed forms against the trapezoid rule's own sums.
#[test]
fn poisson_closed_forms() {
    for (mean, sd, y) in [(0.0, 0.5, 3.0), (-2.0, 1.5, 0.0), (1.0, 0.01, 7.0)] {
        let datum = Datum { y, trials: 1.0 };
        let exact = Poisson.exact_moments(mean, sd, datum).unwrap();
        let nodes: Vec<f64> = (-3000..=3000).map(|k| f64::from(k) * 0.005).collect();
        let weights: Vec<f64> = nodes
            .iter()
            .map(|x| 0.005 * (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt())
            .collect();
        let sums = Poisson.trapezoid(mean, sd, datum, &nodes, &weights);
        for (a, b) in [
            (exact.e0, sums.e0),
            (exact.e1, sums.e1),
            (exact.q0, sums.q0),
            (exact.q1, sums.q1),
            (exact.q2, sums.q2),
        ] {
            assert!((a - b).abs() < 1e-12 * (1.0 + a.abs()), "{a} {b}");
        }
    }
}

/// The whitened gradient against central differences of the exact f, along mean and factor directions.
#[test]
fn whitened_gradient_is_the_gradient() {
    use certus::factor::{Factor, Lower};
    let mut dice = Dice::new(20);
    for name in LIKELIHOODS {
        let model = simulated(name, 60, 2, 0.5, 1.0, &mut dice);
        let w = certus_models::laplace(&model).unwrap().gaussian;
        let g = model.whitened_gradient(&w).unwrap();
        let d = 3;
        let c = w.factor().to_dense();
        let move_by = |dm: &[f64], dc: &[f64]| {
            let mut mean = w.mean().to_vec();
            w.factor().add_apply(dm, &mut mean);
            let mut inner = dc.to_vec();
            (0..d).for_each(|i| inner[i * (d + 1)] += 1.0);
            let mut product = vec![0.0; d * d];
            certus::linalg::add_square_times(&c, d, false, &inner, &mut product);
            let lower = certus::linalg::lower_of_same_covariance(&product, d);
            certus::Gaussian::new(mean, Factor::Lower(Lower::new(d, lower).unwrap())).unwrap()
        };
        let h = 1e-4;
        for i in 0..d {
            let unit = |s: f64| {
                let mut v = vec![0.0; d];
                v[i] = s;
                v
            };
            let f = |s: f64| model.neg_elbo(&move_by(&unit(s), &vec![0.0; d * d])).unwrap();
            assert!(((f(h) - f(-h)) / (2.0 * h) - g.mean[i]).abs() < 1e-6, "{name}: mean {i}");
            for j in i..d {
                let direction = |s: f64| {
                    let mut m = vec![0.0; d * d];
                    m[i * d + j] = s;
                    m[j * d + i] = s;
                    m
                };
                let f = |s: f64| model.neg_elbo(&move_by(&vec![0.0; d], &direction(s))).unwrap();
                let want = if i == j { g.factor[i * d + i] } else { 2.0 * g.factor[i * d + j] };
                assert!(((f(h) - f(-h)) / (2.0 * h) - want).abs() < 1e-6, "{name}: factor {i}, {j}");
            }
        }
    }
}

fn solve(name: &str, model: &Glm, most: usize) {
    let state = model.solve_exactly().unwrap();
    let norm = model.whitened_gradient(&state.gaussian).unwrap().norm();
    println!(
        "{name}: {} iterations, {} products, |g| = {norm:e}, f = {}",
        state.iterations, state.products, state.neg_elbo
    );
    assert!(norm <= 1e-9, "{name}: whitened gradient {norm:e} after {} iterations", state.iterations);
    assert!(state.iterations <= most, "{name}: {} iterations", state.iterations);
}

/// Generated problems of every likelihood: whitened gradient ≤ 1e-9 in at most 6 iterations.
#[test]
fn generated_problems() {
    let mut dice = Dice::new(21);
    for name in LIKELIHOODS {
        for (n, p) in [(500, 9), (2000, 24)] {
            solve(name, &simulated(name, n, p, 0.3, 1.0, &mut dice), 6);
        }
    }
}

fn model(likelihood: Arc<dyn Likelihood>, x: Vec<f64>, y: Vec<f64>, columns: usize, sd: f64) -> Glm {
    let rows: Arc<dyn Rows> = Arc::new(Memory { x, y, columns, ..Memory::default() });
    let prior = Prior::independent(vec![0.0; columns], &vec![sd; columns]).unwrap();
    Glm::new(Design::new(rows, false), likelihood, prior).unwrap()
}

/// Separable data, zero counts, more coefficients than rows, duplicate columns, zero rows, row sds to 30.
#[test]
fn hard_problems() {
    let mut dice = Dice::new(22);
    let (n, p) = (60, 3);
    let x = dice.normals(n * p);
    let separated: Vec<f64> = x.chunks_exact(p).map(|r| f64::from(u8::from(r[0] > 0.0))).collect();
    for sd in [10.0, 100.0] {
        solve(
            &format!("separable, prior sd {sd}"),
            &model(Arc::new(Logistic), x.clone(), separated.clone(), p, sd),
            100,
        );
    }
    solve("zero counts", &model(Arc::new(Poisson), x.clone(), vec![0.0; n], p, 10.0), 100);
    let with_ones: Vec<f64> = x.chunks_exact(p).flat_map(|r| [1.0, r[1], r[2]]).collect();
    solve("zero counts, intercept", &model(Arc::new(Poisson), with_ones, vec![0.0; n], p, 10.0), 100);
    let wide = dice.normals(20 * 50);
    let y: Vec<f64> = (0..20).map(|i| f64::from(i % 2)).collect();
    solve("20 rows, 50 coefficients", &model(Arc::new(Logistic), wide, y, 50, 1.0), 100);
    let twice: Vec<f64> = x.chunks_exact(p).flat_map(|r| [r[0], r[0], r[1]]).collect();
    let y: Vec<f64> = (0..n).map(|_| f64::from(u8::from(dice.uniform() < 0.4))).collect();
    solve("duplicate columns", &model(Arc::new(Logistic), twice, y.clone(), p, 2.0), 100);
    let holes: Vec<f64> =
        x.iter().enumerate().map(|(k, v)| if (k / p) % 3 == 0 { 0.0 } else { *v }).collect();
    solve("zero rows", &model(Arc::new(Logistic), holes, y.clone(), p, 2.0), 100);
    let large: Vec<f64> = x.iter().map(|v| 12.0 * v).collect();
    let steep = model(Arc::new(Logistic), large.clone(), vec![1.0; n], p, 3.0);
    solve("large rows", &steep, 100);
    // rows far out: the sd of their predictor passes 30
    let far: Vec<f64> = large.iter().map(|v| 10.0 * v).collect();
    let steep = model(
        Arc::new(Logistic),
        far.clone(),
        (0..n).map(|i| f64::from(u8::from(far[i * p] > 0.0))).collect(),
        p,
        3.0,
    );
    solve("row sds above 30", &steep, 100);
    let w = steep.solve_exactly().unwrap().gaussian;
    let sds = far.chunks_exact(p).map(|a| {
        let mut at = vec![0.0; p];
        w.factor().add_apply_transpose(a, &mut at);
        at.iter().map(|v| v * v).sum::<f64>().sqrt()
    });
    assert!(sds.fold(0.0, f64::max) > 30.0, "the problem must be as hard as it says");
    solve("no information", &model(Arc::new(Probit), vec![0.0; n * p], y, p, 3.0), 100);
}

/// Where the Laplace approximation is so wide that E e^t overflows, and where the first Hessian is singular to
/// rounding, the solver still finds the optimum.
#[test]
fn overflowing_starts() {
    // few counts and a wide prior: the Laplace sd of the rows is 30 and more, e^{sd²/2} about e^{450}
    for sd in [30.0, 60.0] {
        let counts = model(Arc::new(Poisson), vec![1.0, 0.5, 1.0, -0.7], vec![0.0, 0.0], 2, sd);
        let start = certus_models::laplace(&counts).unwrap().gaussian;
        println!("f at the Laplace approximation: {:?}", counts.neg_elbo(&start));
        solve("Poisson, two zero counts", &counts, 300);
    }
    // the prior mean puts rates at e^{40}, where the Hessian has no Cholesky factor
    let rows = Memory { x: vec![1.0, 1.0, 1.0, 2.0], y: vec![1.0, 0.0], columns: 2, ..Memory::default() };
    let prior = Prior::independent(vec![30.0, 10.0], &[30.0, 30.0]).unwrap();
    let rates = Glm::new(Design::new(Arc::new(rows), false), Arc::new(Poisson), prior).unwrap();
    solve("Poisson, prior mean far off", &rates, 300);
}
