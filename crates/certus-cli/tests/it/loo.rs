//! Leave-one-out cross-validation: closed forms, differences of models, and what is refused.
#![allow(clippy::unwrap_used)]

use std::fmt::Write;
use std::path::Path;

use serde_json::Value;

use crate::common::{certus, expect, scratch};

const SIGMA: f64 = 0.8;

/// y, x, weight, group, 0 or 1.
fn rows() -> Vec<[f64; 5]> {
    let row = |i: usize| {
        let (x, noise) = (
            (i * 37 % 41) as f64 / 20.0 - 1.0,
            ((i * 53 % 97) as f64 / 48.0 - 1.0) * 1.4 + (i % 6) as f64 / 5.0,
        );
        let y = 1.2 * x + noise;
        [y, x, 1.0 + (i % 3) as f64, (i % 6) as f64, f64::from(u8::from(y > 0.3))]
    };
    (0..60).map(row).collect()
}

fn fitted(dir: &Path, name: &str, fit: &[&str], code: i32) -> String {
    let (mut text, data, out) = (String::from("y,x,w,g,b\n"), dir.join("rows.csv"), dir.join(name));
    for [y, x, w, g, b] in rows() {
        writeln!(text, "{y},{x},{w},g{g},{b}").unwrap();
    }
    std::fs::write(&data, text).unwrap();
    let (data, out) = (data.to_str().unwrap(), out.to_str().unwrap());
    expect(&certus(&[&["fit", fit[0], data], &fit[1..], &["--out", out, "--quiet"]].concat()), code, "");
    out.into()
}

fn found(fit: &str) -> Value {
    let output = certus(&["loo", fit, "--json"]);
    expect(&output, 0, "");
    serde_json::from_slice::<Value>(&output.stdout).unwrap()["fits"][fit].take()
}

const LINEAR: [&str; 9] =
    ["linear", "y ~ 0 + x", "--no-standardise", "--prior-sd", "1", "--sigma", "0.8", "--weights", "w"];

/// One coefficient β ~ N(0, 1), so that everything is normal. A row of weight w is w rows, of which one is left out.
#[test]
fn a_linear_model() {
    let dir = scratch("loo-linear");
    let found = found(&fitted(&dir, "fit", &LINEAR, 0));
    let (s2, rows) = (SIGMA * SIGMA, rows());
    let precision = 1.0 + rows.iter().map(|[_, x, w, ..]| w * x * x / s2).sum::<f64>();
    let sum: f64 = rows.iter().map(|[y, x, w, ..]| w * x * y / s2).sum();
    let log_normal = |r: f64, v: f64| -0.5 * (r * r / v + (std::f64::consts::TAU * v).ln());
    let (mut elpd, mut lppd, mut p_waic, mut count) = (0.0, 0.0, 0.0, 0.0);
    for [y, x, w, ..] in &rows {
        let (without, mean) = (precision - x * x / s2, sum - x * y / s2);
        elpd += w * log_normal(y - x * mean / without, s2 + x * x / without);
        let (r, v) = (y - x * sum / precision, x * x / precision);
        lppd += w * log_normal(r, s2 + v);
        // the variance of (r − s u)²/2σ²
        p_waic += w * (r * r * v + 0.5 * v * v) / (s2 * s2);
        count += w;
    }
    let number = |path: &str| found.pointer(path).unwrap().as_f64().unwrap();
    assert_eq!(number("/rows"), count);
    assert_eq!(number("/draws"), 4000.0);
    // 4,000 draws: the sd of Σ w ℓ over the posterior is about 1, so that of its mean 0.016; p is more exact
    for (path, truth, within) in [
        ("/loo/elpd", elpd, 0.06),
        ("/loo/p", lppd - elpd, 0.04),
        ("/waic/elpd", lppd - p_waic, 0.06),
        ("/waic/p", p_waic, 0.04),
    ] {
        assert!((number(path) - truth).abs() < within, "{path}: {} {truth}", number(path));
    }
    assert!(number("/k_hat") < 0.5 && number("/unreliable") == 0.0);
}

/// The better model comes first; its own difference is 0. Fits of other responses are refused.
#[test]
fn several_models() {
    let dir = scratch("loo-several");
    let own: Vec<&str> = LINEAR[1..].to_vec();
    let fit = |name: &str, formula: &'static str| {
        fitted(&dir, name, &[&["linear", formula], &own[1..]].concat(), 0)
    };
    let (large, small, other) = (fit("large", "y ~ 0 + x"), fit("small", "y ~ 1"), fit("other", "b ~ 0 + x"));
    let output = certus(&["loo", &small, &large, "--json"]);
    expect(&output, 0, "");
    let compared: Value = serde_json::from_slice(&output.stdout).unwrap();
    let number = |path: &str| compared.pointer(path).unwrap().as_f64().unwrap();
    assert_eq!(compared["comparison"][0]["name"], large.as_str());
    assert_eq!(number("/comparison/0/difference"), 0.0);
    let apart = number("/comparison/1/loo/elpd") - number("/comparison/0/loo/elpd");
    assert!((number("/comparison/1/difference") - apart).abs() < 1e-9 && apart < -1.0, "{apart}");
    // rows are compared in pairs: the sum of the variances would be larger
    let apart_se = number("/comparison/1/loo/se").hypot(number("/comparison/0/loo/se"));
    assert!(number("/comparison/1/difference_se") < apart_se);
    let output = certus(&["loo", &small, &large]);
    expect(&output, 0, "elpd_loo");
    expect(&certus(&["loo", &small, &other]), 64, "the fits cannot be compared: ");
}

/// σ unknown, and groups: p_loo exceeds the number of coefficients; estimates by REML have no posterior.
#[test]
fn unknown_scales() {
    let dir = scratch("loo-scales");
    let noise = found(&fitted(&dir, "noise", &["linear", "y ~ x"], 0));
    let p = |found: &Value| found["loo"]["p"].as_f64().unwrap();
    // two coefficients and σ
    assert!((1.8..4.0).contains(&p(&noise)), "{noise}");
    let groups = found(&fitted(&dir, "groups", &["logistic", "b ~ x + (1 | g)"], 0));
    assert!((2.2..8.5).contains(&p(&groups)), "{groups}");
    assert!(groups["note"].as_str().unwrap().contains("taken to be normal"));
    let reml = fitted(&dir, "reml", &["linear", "y ~ x + (1 | g)", "--reml"], 0);
    expect(&certus(&["loo", &reml]), 64, "need draws of the posterior");
}
