//! Large models, with their times: `cargo test --profile dist -p certus-mixed --test it linear::large -- --ignored
//! --nocapture`.
#![allow(clippy::unwrap_used)]

use std::time::Instant;

use certus_mixed::linear::{
    Criterion, Design, Proof, Row, Scale, Statistics, Term, deviation_len, deviations, fit, global, modes,
    profile,
};

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

/// CPU seconds of this process and the most memory that it has held, in MiB; what Linux says of them.
fn used() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks = stat.rsplit(')').next().unwrap_or("").split_whitespace();
    let cpu: f64 = ticks.skip(11).take(2).filter_map(|t| t.parse::<f64>().ok()).sum();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    (cpu / 100.0, peak.unwrap_or(f64::NAN) / 1024.0)
}

/// `(1 | school/class)`: 10⁶ rows, 10⁵ classes, in 10⁴ schools; CERTUS_SCHOOLS may be other numbers, with ten classes
/// of ten rows per school, and 10⁵ classes at most.
#[test]
#[ignore = "a measurement"]
fn schools() {
    let sizes = std::env::var("CERTUS_SCHOOLS").unwrap_or_else(|_| "10000".into());
    let further = std::env::var("CERTUS_FURTHER").is_ok();
    for schools in sizes.split(',').map(|s| s.parse::<usize>().unwrap()) {
        let (classes, rows) =
            if schools < 100_000 { (10 * schools, 100 * schools) } else { (300_000, 1_000_000) };
        let mut state = 5u64;
        let mut uniform = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let mut normal = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        let of_school: Vec<f64> = (0..schools).map(|_| 0.5 * normal()).collect();
        let of_class: Vec<f64> = (0..classes).map(|_| 0.3 * normal()).collect();
        let data: Vec<([u32; 2], [f64; 2], f64)> = (0..rows)
            .map(|i| {
                let class = (i * 7919) % classes;
                let (school, x) = (class % schools, normal());
                let y = 1.0 - 0.2 * x + of_school[school] + of_class[class] + normal();
                ([school as u32, class as u32], [1.0, x], y)
            })
            .collect();
        let term = |factor| Term { factor, effects: 1 };
        let design = Design { levels: vec![schools, classes], terms: vec![term(0), term(1)], fixed: 2 };
        let (mut before, start) = (used().0, Instant::now());
        let mut step = |what: &str| {
            let (cpu, peak) = used();
            println!("{schools} schools: {what} {:.2} CPU s, peak {peak:.0} MiB", cpu - before);
            before = cpu;
        };
        let given = |(levels, fixed, y): &'static ([u32; 2], [f64; 2], f64)| Row {
            levels,
            effects: &[1.0, 1.0],
            fixed,
            response: *y,
            weight: 1.0,
        };
        let data: &'static [_] = data.leak();
        let statistics = Statistics::from_rows(&design, data.iter().map(given)).unwrap();
        step("statistics");
        let found = fit(&statistics, Criterion::Reml).unwrap();
        step(&format!("fit of {} steps, {} evaluations,", found.iterations, found.evaluations));
        for (term, truth) in found.terms.iter().zip([0.5f64, 0.3]) {
            let (sd, error) = (term.sds[0], term.log_sd_errors[0]);
            assert!((sd / truth).ln().abs() < 5.0 * error, "{sd} {truth} {error}");
        }
        assert!(matches!(found.proof, Proof::Ball(_)), "{:?}", found.proof);
        modes(&statistics, &found).unwrap();
        step("modes");
        let normals = vec![0.5; deviation_len(&statistics)];
        deviations(&statistics, &found, &normals).unwrap();
        step("one draw of the effects");
        let global = global(&statistics, &found, 1e9);
        step(&format!("global {global:?},"));
        if further {
            profile(&statistics, &found, Scale::Effect { term: 0, effect: 0 }, 3.841).unwrap();
            step("profile of one sd");
        }
        println!("{schools} schools: {:.1} s in all, {:?}", start.elapsed().as_secs_f64(), found.terms);
    }
}
