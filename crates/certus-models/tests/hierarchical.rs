//! Hierarchical models on the arrow: the same optimum as the dense solver, at a cost linear in the number of groups.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;

use certus::Target;
use certus_models::likelihood::{Likelihood, Logistic};
use certus_models::{Design, Glm, GroupedRows, Hierarchical, Memory, Prior};
use common::*;
use std::sync::Arc;
use std::time::Instant;

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum::<f64>().sqrt()
}

fn norm(a: &[f64]) -> f64 {
    a.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// The shipped problem: 20 groups × 5, against its reference optimum over all Gaussians. The arrow loses nothing.
#[test]
fn hier_logit_reaches_its_reference() {
    let p = problem(&data_dir(), "hier_logit");
    let (names, rows) = read(&data_dir().join("hier_logit.csv"));
    let at = |name: &str| names.iter().position(|n| n == name).unwrap();
    let xs: Vec<usize> = (0..5).map(|j| at(&format!("x{j}"))).collect();
    let grouped = GroupedRows {
        x: rows.iter().flat_map(|r| xs.iter().map(|&j| r[j]).collect::<Vec<_>>()).collect(),
        columns: 5,
        y: rows.iter().map(|r| r[at("y")]).collect(),
        group: rows.iter().map(|r| r[at("group")] as usize).collect(),
        ..GroupedRows::default()
    };
    let prior = Prior::independent(vec![0.0; 5], &[1.0; 5]).unwrap();
    let model = Hierarchical::new(&grouped, &[0, 1, 2, 3, 4], &[1.0; 5], Arc::new(Logistic), &prior).unwrap();
    let state = model.solve_exactly().unwrap();
    println!("hier_logit: {} iterations, {} products", state.iterations, state.products);
    assert!(
        (state.neg_elbo - p.neg_elbo).abs() <= 1e-8 * p.neg_elbo,
        "{} against {}",
        state.neg_elbo,
        p.neg_elbo
    );
    assert!(state.iterations <= 6);
    assert!(model.whitened_gradient_norm(&state.gaussian).unwrap() < 1e-9);
    let sd = p.optimum.sd();
    for i in 0..105 {
        assert!((state.gaussian.mean()[i] - p.optimum.mean()[i]).abs() <= 1e-6 * sd[i]);
    }
    let (a, b) = (state.gaussian.covariance(), p.optimum.covariance());
    assert!(distance(&a, &b) <= 1e-6 * norm(&b));
}

fn simulate_grouped(
    name: &str,
    groups: usize,
    each: usize,
    k: usize,
    slopes: &[usize],
    dice: &mut Dice,
) -> GroupedRows {
    let theta = dice.normals(k);
    let mut rows = GroupedRows { columns: k, ..GroupedRows::default() };
    for g in 0..groups {
        let deviation = dice.normals(slopes.len());
        for _ in 0..each {
            let mut x = dice.normals(k);
            x[0] = 1.0;
            let mut t: f64 = x.iter().zip(&theta).map(|(a, b)| 0.5 * a * b).sum();
            t += slopes.iter().zip(&deviation).map(|(&j, b)| 0.7 * x[j] * b).sum::<f64>();
            let (y, trials) = simulate(name, t, dice);
            rows.x.extend(x);
            rows.y.push(y);
            rows.trials.push(trials);
            rows.offset.push(0.1 * dice.normal());
            rows.weight.push(0.5 + dice.uniform());
            rows.group.push(g);
        }
    }
    rows
}

/// 20 groups, every likelihood, some slopes global and some by group: equal to the dense solver to 1e-10.
#[test]
fn equals_the_dense_solver() {
    let mut dice = Dice::new(60);
    for name in LIKELIHOODS {
        let (groups, k, slopes, sds) = (20, 3, vec![0, 2], [0.8, 0.5]);
        let rows = simulate_grouped(name, groups, 12, k, &slopes, &mut dice);
        let (mean, sd) = (dice.normals(k), [1.0, 2.0, 1.5]);
        let prior = Prior::independent(mean.clone(), &sd).unwrap();
        let model = Hierarchical::new(&rows, &slopes, &sds, likelihood(name), &prior).unwrap();
        let state = model.solve_exactly().unwrap();
        // the same model, dense
        let (p, n) = (slopes.len(), rows.y.len());
        let d = k + groups * p;
        let mut x = vec![0.0; n * d];
        for i in 0..n {
            x[i * d..][..k].copy_from_slice(&rows.x[i * k..][..k]);
            for (a, &j) in slopes.iter().enumerate() {
                x[i * d + j] = 0.0;
                x[i * d + k + rows.group[i] * p + a] = rows.x[i * k + j];
            }
        }
        let mut precision = vec![0.0; d * d];
        (0..k).for_each(|j| precision[j * (d + 1)] += sd[j].powi(-2));
        for g in 0..groups {
            for (a, &j) in slopes.iter().enumerate() {
                let (z, q) = (k + g * p + a, sds[a].powi(-2));
                precision[z * (d + 1)] += q;
                precision[j * (d + 1)] += q;
                precision[z * d + j] -= q;
                precision[j * d + z] -= q;
            }
        }
        let mut dense_mean = mean.clone();
        for _ in 0..groups {
            dense_mean.extend(slopes.iter().map(|&j| mean[j]));
        }
        let dense = Glm::new(
            Design::new(
                Arc::new(Memory {
                    x,
                    columns: d,
                    y: rows.y.clone(),
                    trials: rows.trials.clone(),
                    offset: rows.offset.clone(),
                    weight: rows.weight.clone(),
                    ..Memory::default()
                }),
                false,
            ),
            likelihood(name),
            Prior::with_precision(dense_mean, precision).unwrap(),
        )
        .unwrap();
        let want = dense.solve_exactly().unwrap();
        let scale = 1.0 + want.neg_elbo.abs();
        assert!(
            (state.neg_elbo - want.neg_elbo).abs() < 1e-10 * scale,
            "{name}: {} against {}",
            state.neg_elbo,
            want.neg_elbo
        );
        let (a, b) = (state.gaussian.covariance(), want.gaussian.covariance());
        assert!(
            distance(state.gaussian.mean(), want.gaussian.mean()) < 1e-8 * (1.0 + norm(want.gaussian.mean())),
            "{name}: means"
        );
        assert!(distance(&a, &b) < 1e-8 * norm(&b), "{name}: covariance");
        assert!(
            (dense.neg_elbo(&state.gaussian).unwrap() - want.neg_elbo).abs() < 1e-10 * scale,
            "{name}: same f"
        );
        // as targets: the same log density, gradient and curvature
        let points: Vec<f64> = dice.normals(3 * d).iter().map(|x| 0.5 * x).collect();
        let evaluate = |target: &dyn Target| {
            let (mut values, mut gradients) = (vec![0.0; 3], vec![0.0; 3 * d]);
            target.log_density(&points, &mut values, &mut gradients).unwrap();
            [values, gradients].concat()
        };
        let (ours, theirs) = (evaluate(&model), evaluate(&dense));
        assert!(distance(&ours, &theirs) < 1e-11 * norm(&theirs), "{name}: {}", distance(&ours, &theirs));
        match (Target::curvature(&model), Target::curvature(&dense)) {
            (Some(a), Some(b)) => {
                assert!((a.smoothness() / b.smoothness() - 1.0).abs() < 1e-10, "{name}: {a:?} {b:?}");
                let close = 1e-11 * b.smoothness();
                assert!((a.strong_convexity() - b.strong_convexity()).abs() < close, "{name}: {a:?} {b:?}");
            }
            (None, None) => assert_eq!(name, "poisson"),
            other => panic!("{name}: {other:?}"),
        }
        assert!(state.iterations <= 8, "{name}: {}", state.iterations);
    }
}

/// The same bits for any number of threads.
#[test]
fn deterministic_over_threads() {
    let mut dice = Dice::new(61);
    let rows = simulate_grouped("logistic", 300, 6, 3, &[0, 1], &mut dice);
    let prior = Prior::independent(vec![0.0; 3], &[1.0; 3]).unwrap();
    let solve = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let model = Hierarchical::new(&rows, &[0, 1], &[1.0, 0.5], Arc::new(Logistic), &prior).unwrap();
            let state = model.solve_exactly().unwrap();
            state
                .gaussian
                .factor()
                .values()
                .iter()
                .chain(state.gaussian.mean())
                .map(|x| x.to_bits())
                .collect::<Vec<_>>()
        })
    };
    let one = solve(1);
    assert!([2, 3, 8].iter().all(|&n| solve(n) == one));
}

/// 20,000 groups × 5 + 5 globals, 200,000 rows (d = 100,005): decrement 1e-8 in at most 15 iterations of at most 2 s each.
#[test]
fn a_hundred_thousand_latents() {
    let mut dice = Dice::new(62);
    let slopes = [0, 1, 2, 3, 4];
    let rows = simulate_grouped("logistic", 20_000, 10, 5, &slopes, &mut dice);
    let prior = Prior::independent(vec![0.0; 5], &[1.0; 5]).unwrap();
    let model = Hierarchical::new(&rows, &slopes, &[1.0; 5], Arc::new(Logistic), &prior).unwrap();
    let clock = Instant::now();
    let start = model.laplace().unwrap();
    println!("Laplace in {:.2} s", clock.elapsed().as_secs_f64());
    let mut state = model.exact_start(&start).unwrap();
    let mut slowest = 0.0_f64;
    while state.iterations < 15 && !state.done {
        let clock = Instant::now();
        model.exact_step(&mut state).unwrap();
        let seconds = clock.elapsed().as_secs_f64();
        slowest = slowest.max(seconds);
        println!(
            "iteration {}: decrement {:.2e}, {seconds:.2} s, {} products",
            state.iterations, state.decrement, state.products
        );
        if state.decrement < 1e-8 {
            break;
        }
    }
    assert!(state.decrement < 1e-8 && state.iterations <= 15);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap_or("").trim().to_string();
    println!("slowest iteration {slowest:.2} s, peak memory {peak}");
}

/// The stochastic methods run on the same model and the same pattern, and come close to the exact optimum.
#[test]
fn prox_energy_on_the_arrow() {
    let mut dice = Dice::new(63);
    let rows = simulate_grouped("logistic", 15, 8, 2, &[0], &mut dice);
    let prior = Prior::independent(vec![0.0; 2], &[1.0; 2]).unwrap();
    let model = Hierarchical::new(&rows, &[0], &[1.0], Arc::new(Logistic), &prior).unwrap();
    let optimum = model.solve_exactly().unwrap();
    let settings =
        certus::Settings { family: Some(model.family()), iterations: 30_000, ..certus::Settings::default() };
    let fit = certus::fit(&model, &settings).unwrap();
    let gap = model.neg_elbo(&fit.gaussian).unwrap() - optimum.neg_elbo;
    println!(
        "gap {gap:.4} after {} gradients; proved |w - w*|^2 <= {:?}",
        fit.state.gradients(),
        fit.guarantee.as_ref().map(|g| g.bound())
    );
    assert!(gap > 0.0 && gap < 0.2, "{gap}");
    let guarantee = fit.guarantee.unwrap();
    assert!(fit.gaussian.distance_squared(&optimum.gaussian) <= guarantee.with_probability(0.5));
}

#[test]
fn bad_input_is_named() {
    let rows = GroupedRows {
        x: vec![1.0, 2.0],
        columns: 1,
        y: vec![0.0, 1.0],
        group: vec![0, 1],
        ..GroupedRows::default()
    };
    let prior = Prior::independent(vec![0.0], &[1.0]).unwrap();
    let refuse = |rows: &GroupedRows, slopes: &[usize], sd: &[f64], words: &str| {
        let likelihood: Arc<dyn Likelihood> = Arc::new(Logistic);
        let error = Hierarchical::new(rows, slopes, sd, likelihood, &prior).err().unwrap().to_string();
        assert!(error.contains(words), "{error}");
    };
    refuse(&rows, &[], &[], "at least one");
    refuse(&rows, &[3], &[1.0], "[3]");
    refuse(&rows, &[0], &[0.0], "above 0");
    refuse(&GroupedRows { y: vec![0.0, 3.0], ..rows.clone() }, &[0], &[1.0], "row 1");
    refuse(&GroupedRows { group: vec![0], ..rows.clone() }, &[0], &[1.0], "1 group labels");
    refuse(&GroupedRows { x: vec![1.0, f64::NAN], ..rows }, &[0], &[1.0], "row 1");
}
