//! Simulated data sets: the moments of the fitted model, the same numbers again, and what is refused.
#![allow(clippy::unwrap_used)]

use std::fmt::Write;
use std::path::Path;

use serde_json::Value;

use crate::common::{certus, expect, scratch};

const DRAWS: usize = 4000;

/// 24 groups of four rows x = 0, 1, 2, 3.
fn rows(dir: &Path) -> String {
    let file = dir.join("rows.csv");
    let mut text = String::from("y,count,x,g\n");
    for i in 0..96_usize {
        let (g, x) = (i / 4, (i % 4) as f64);
        let noise = ((i * 7919) % 1009) as f64 / 1009.0 - 0.5;
        let y = 5.0 + x + 3.0 * (g as f64 * 2.3).sin() + x * (g as f64 * 1.7).cos() + 3.0 * noise;
        let count = (3.0 + 2.0 * (g as f64 * 2.3).sin() + 2.0 * noise).max(0.0).round();
        writeln!(text, "{y},{count},{x},g{g}").unwrap();
    }
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().into()
}

/// The data sets of a fit: per row, its values.
fn simulated(fit: &str, more: &[&str]) -> Vec<Vec<f64>> {
    let draws = DRAWS.to_string();
    let output = certus(&[&["simulate", fit, "--draws", &draws], more].concat());
    expect(&output, 0, "");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("sim_1,sim_2,"), "{}", &text[..40]);
    text.lines().skip(1).map(|l| l.split(',').map(|c| c.parse().unwrap()).collect()).collect()
}

/// (mean, covariance of two rows about their expected values, its standard error).
fn moments(a: &[f64], b: &[f64], expected: [f64; 2]) -> (f64, f64, f64) {
    let n = a.len() as f64;
    let products: Vec<f64> = a.iter().zip(b).map(|(a, b)| (a - expected[0]) * (b - expected[1])).collect();
    let mean = products.iter().sum::<f64>() / n;
    let spread = products.iter().map(|p| (p - mean).powi(2)).sum::<f64>().sqrt() / n;
    (a.iter().sum::<f64>() / n, mean, spread)
}

/// By REML, intercept and slope vary: y has the mean xβ̂, the covariance zᵀΣz′ within a group and 0 between groups, and
/// σ² more on the diagonal. Some 300 z-tests, each at 4.8 standard errors: a false alarm has a probability of 5e-4.
#[test]
fn estimates_simulate_new_groups() {
    let dir = scratch("reml");
    let file = rows(&dir);
    let out = dir.join("fit").to_str().unwrap().to_string();
    let fit = ["fit", "linear", &file, "y ~ x + (x | g)", "--reml", "--json", "--quiet", "--out", &out];
    let output = certus(&fit);
    expect(&output, 0, "");
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |name: &str| {
        let all = record["parameters"].as_array().unwrap();
        all.iter().find(|p| p["name"] == name).unwrap()["mean"].as_f64().unwrap()
    };
    let beta = ["(Intercept)", "x"].map(of);
    let [a, b] = ["sd(g)", "sd(g: x)"].map(of);
    let (c, sigma) = (of("cor(g: (Intercept), x)") * a * b, of("sigma"));
    assert!(a > 0.5 && b > 0.3 && sigma > 0.3, "{a} {b} {sigma}");
    let sets = simulated(&out, &[]);
    assert_eq!((sets.len(), sets[0].len()), (96, DRAWS));
    let x = |i: usize| (i % 4) as f64;
    let expected = |i: usize| beta[0] + beta[1] * x(i);
    for i in 0..96 {
        for j in [i, i ^ 1, (i + 41) % 96] {
            let within = if i / 4 == j / 4 { a * a + c * (x(i) + x(j)) + b * b * x(i) * x(j) } else { 0.0 };
            let covariance = within + if i == j { sigma * sigma } else { 0.0 };
            let (mean, found, error) = moments(&sets[i], &sets[j], [expected(i), expected(j)]);
            assert!((found - covariance).abs() < 4.8 * error, "{i} {j}: {found} {covariance} ± {error}");
            if i == j {
                let z = (mean - expected(i)) / (covariance / DRAWS as f64).sqrt();
                assert!(z.abs() < 4.8, "{i}: {z}");
            }
        }
    }
    // the same again, others with another seed, and the same in a file
    assert_eq!(simulated(&out, &[]), sets);
    assert_ne!(simulated(&out, &["--seed", "1"])[0][..5], sets[0][..5]);
    let to = dir.join("sets.csv").to_str().unwrap().to_string();
    expect(&certus(&["simulate", &out, "--draws", "3", "--to", &to]), 0, "with new effects of all groups");
    let text = std::fs::read_to_string(&to).unwrap();
    let lines: Vec<&str> = text.lines().filter(|l| !l.starts_with('#')).collect();
    assert_eq!((lines[0], lines.len()), ("sim_1,sim_2,sim_3", 97));
    assert!(text.starts_with("# 3 data sets at the estimates"), "{}", &text[..60]);
    expect(&certus(&["simulate", &out, "--to", &to]), 73, "");
    expect(&certus(&["simulate", &out, "--draws", "0"]), 64, "");
}

/// Counts with a group by `--scales estimate`: the mean e^{xβ + s²/2}; a posterior predicts for the groups of the fit.
#[test]
fn counts_and_posteriors() {
    let dir = scratch("counts");
    let file = rows(&dir);
    let fitted = |name: &str, more: &[&str]| {
        let out = dir.join(name).to_str().unwrap().to_string();
        let fit = ["fit", "poisson", &file, "count ~ 1 + (1 | g)", "--json", "--quiet", "--out", &out];
        let output = certus(&[&fit[..], more].concat());
        expect(&output, 0, "");
        (out, serde_json::from_slice::<Value>(&output.stdout).unwrap())
    };
    let (out, record) = fitted("estimate", &["--scales", "estimate"]);
    let of = |k: usize| record["parameters"][k]["mean"].as_f64().unwrap();
    let (intercept, sd) = (of(0), of(1));
    let sets = simulated(&out, &[]);
    let expected = (intercept + 0.5 * sd * sd).exp();
    // the average of a group's four rows, whose effects are independent between groups and data sets
    let n = (24 * DRAWS) as f64;
    let groups: Vec<f64> = (0..24)
        .flat_map(|g| (0..DRAWS).map(move |k| (g, k)))
        .map(|(g, k)| (0..4).map(|i| sets[4 * g + i][k]).sum::<f64>() / 4.0)
        .collect();
    let mean = groups.iter().sum::<f64>() / n;
    let error = (groups.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / n / n).sqrt();
    assert!((mean - expected).abs() < 4.0 * error, "{mean} {expected} ± {error}");
    // a data set of the posterior keeps the groups apart that the data keep apart
    let (out, _) = fitted("posterior", &[]);
    let sets = simulated(&out, &[]);
    let of_group =
        |g: usize| (0..4).map(|i| sets[4 * g + i].iter().sum::<f64>()).sum::<f64>() / (4 * DRAWS) as f64;
    let all: Vec<f64> = (0..24).map(of_group).collect();
    let [low, high] = [f64::min, f64::max].map(|of| all.iter().copied().reduce(of).unwrap());
    assert!(high > 2.0 * low, "{low} {high}");
}
