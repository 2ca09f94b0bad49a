//! Large models, with their times: `cargo test --profile dist -p certus-mixed --test it linear::large -- --ignored
//! --nocapture`.
#![allow(clippy::unwrap_used)]

use std::time::Instant;

use certus_mixed::linear::{Criterion, Design, Proof, Row, Statistics, Term, fit};

use super::data::{codes, columns, numbers};

/// InstEval of lme4, as CSV with columns s, d, dept, service, y; its path in CERTUS_INSTEVAL.
#[test]
#[ignore = "reads InstEval, which is not shipped"]
fn insteval() {
    let path = std::env::var("CERTUS_INSTEVAL").expect("the path of InstEval as CSV");
    let c = columns(&std::fs::read_to_string(path).unwrap().replace('"', ""));
    let factors: Vec<(Vec<u32>, usize)> = ["s", "d", "dept"].iter().map(|f| codes(&c[*f])).collect();
    let y = numbers(&c["y"]);
    let service = numbers(&c["service"]);
    let levels: Vec<[u32; 3]> =
        (0..y.len()).map(|i| [factors[0].0[i], factors[1].0[i], factors[2].0[i]]).collect();
    let fixed: Vec<[f64; 2]> = service.iter().map(|s| [1.0, *s]).collect();
    let term = |factor| Term { factor, effects: 1 };
    let design =
        Design { levels: factors.iter().map(|f| f.1).collect(), terms: (0..3).map(term).collect(), fixed: 2 };
    let clock = Instant::now();
    let rows = (0..y.len()).map(|i| Row {
        levels: &levels[i],
        effects: &[1.0; 3],
        fixed: &fixed[i],
        response: y[i],
        weight: 1.0,
    });
    let statistics = Statistics::from_rows(&design, rows).unwrap();
    println!("statistics {:.3} s", clock.elapsed().as_secs_f64());
    // θ from a fit to a decrement of 1e-16, the criterion from lme4
    for (criterion, theta, value) in [
        (Criterion::Reml, [0.2764959417, 0.4373651187, 0.0706057353], 237733.8341275),
        (Criterion::Ml, [0.27646406751, 0.43735305976, 0.06669683617], 237721.7687745),
    ] {
        let clock = Instant::now();
        let found = fit(&statistics, criterion).unwrap();
        println!(
            "{criterion:?} {:.3} s, {} steps, {} evaluations, decrement {:e}, criterion {}, {:?}",
            clock.elapsed().as_secs_f64(),
            found.iterations,
            found.evaluations,
            found.decrement,
            found.value,
            found.proof
        );
        for (term, theta) in found.terms.iter().zip(&theta) {
            assert!((term.theta[0] / theta - 1.0).abs() < 2e-5, "{:?} {theta}", term.theta);
        }
        assert!((found.value / value - 1.0).abs() < 1e-9);
        assert!(matches!(found.proof, Proof::Ball(_)), "{:?}", found.proof);
    }
}

/// 10⁶ rows, 10⁵ groups with two correlated effects.
#[test]
#[ignore = "a measurement"]
fn many_groups() {
    let (n, groups) = (1_000_000, 100_000);
    let mut state = 5u64;
    let mut uniform = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut normal = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
    let effects: Vec<[f64; 2]> = (0..groups)
        .map(|_| {
            let (a, b) = (normal(), normal());
            [0.6 * a, 0.2 * a + 0.3 * b]
        })
        .collect();
    let mut rows = Vec::with_capacity(n);
    for i in 0..n {
        let (g, z, x) = ((i * 7919) % groups, normal(), normal());
        let y = 1.0 + 0.5 * z - 0.2 * x + effects[g][0] + effects[g][1] * z + normal();
        rows.push(([g as u32], [1.0, z], [1.0, z, x], y));
    }
    let design = Design { levels: vec![groups], terms: vec![Term { factor: 0, effects: 2 }], fixed: 3 };
    let clock = Instant::now();
    let statistics = Statistics::from_rows(
        &design,
        rows.iter().map(|(levels, effects, fixed, y)| Row {
            levels,
            effects,
            fixed,
            response: *y,
            weight: 1.0,
        }),
    )
    .unwrap();
    println!("statistics {:.3} s", clock.elapsed().as_secs_f64());
    let clock = Instant::now();
    let found = fit(&statistics, Criterion::Reml).unwrap();
    let term = &found.terms[0];
    println!(
        "fit {:.3} s, {} steps, {term:?}, {:?}",
        clock.elapsed().as_secs_f64(),
        found.iterations,
        found.proof
    );
    // five standard errors about the truth
    for (sd, (error, truth)) in
        term.sds.iter().zip(term.log_sd_errors.iter().zip([0.6, (0.04f64 + 0.09).sqrt()]))
    {
        assert!((sd / truth).ln().abs() < 5.0 * error, "{sd} {truth} {error}");
    }
}
