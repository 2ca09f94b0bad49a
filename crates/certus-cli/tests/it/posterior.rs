//! What is printed of the posterior, by every source, against an integral over one coefficient.
#![allow(clippy::unwrap_used)]
#![cfg(feature = "scan")]

use std::path::Path;

use serde_json::Value;

use crate::common::{certus, expect, scratch};

/// Few rows, so that the posterior is skewed: q's mean and sd are visibly wrong.
const ROWS: [(f64, f64); 8] =
    [(1.0, 0.4), (1.0, 1.1), (1.0, 0.9), (0.0, -0.3), (1.0, 2.0), (0.0, 0.2), (1.0, 0.7), (0.0, -1.4)];

/// Mean, sd, quantiles with the density there, and the expected response at x = 1, with log p = Σ yxb − log(1 + e^{xb})
/// − b²/18.
fn truth() -> ([f64; 2], [(f64, f64); 3], f64) {
    let log_p =
        |b: f64| ROWS.iter().map(|(y, x)| y * x * b - (x * b).exp().ln_1p()).sum::<f64>() - b * b / 18.0;
    let (step, low) = (1e-4, -15.0);
    let grid: Vec<f64> = (0..300_000).map(|k| low + step * f64::from(k)).collect();
    let p: Vec<f64> = grid.iter().map(|b| log_p(*b).exp()).collect();
    let z: f64 = p.iter().sum();
    let average = |f: &dyn Fn(f64) -> f64| grid.iter().zip(&p).map(|(b, p)| f(*b) * p).sum::<f64>() / z;
    let mean = average(&|b| b);
    let sd = average(&|b| (b - mean).powi(2)).sqrt();
    let quantile = |share: f64| {
        let mut below = 0.0;
        let at = p.iter().position(|p| {
            below += p / z;
            below >= share
        });
        (grid[at.unwrap()], p[at.unwrap()] / z / step)
    };
    let response = average(&|b: f64| 1.0 / (1.0 + (-b).exp()));
    ([mean, sd], [0.05, 0.5, 0.95].map(quantile), response)
}

fn rows(dir: &Path) -> String {
    let path = dir.join("rows.csv");
    let lines = ROWS.iter().map(|(y, x)| format!("{y},{x}\n"));
    std::fs::write(&path, format!("y,x\n{}", lines.collect::<String>())).unwrap();
    path.to_str().unwrap().into()
}

fn fit(data: &str, more: &[&str]) -> std::process::Output {
    let base = ["fit", "logistic", data, "--response", "y", "--no-intercept", "--no-standardise"];
    certus(&[&base[..], &["--prior-sd", "3", "--json"], more].concat())
}

fn record(output: &std::process::Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

fn numbers<const N: usize>(of: &Value, keys: [&str; N]) -> [f64; N] {
    keys.map(|key| of[key].as_f64().unwrap_or_else(|| panic!("no {key} in {of}")))
}

/// Column `column` of a CSV file.
fn column(path: &Path, column: &str) -> Vec<f64> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let at = lines.next().unwrap().split(',').position(|name| name == column).unwrap();
    lines.map(|line| line.split(',').nth(at).unwrap().parse().unwrap()).collect()
}

#[test]
fn every_source_is_as_close_as_it_says() {
    let dir = scratch("sources");
    let data = rows(&dir);
    let new = dir.join("new.csv");
    std::fs::write(&new, "x\n1\n").unwrap();
    let ([mean, sd], quantiles, response) = truth();
    for source in ["corrected", "exact", "importance", "nuts"] {
        let out = dir.join(source);
        let more = ["--posterior", source, "--accuracy", "0.4", "--out", out.to_str().unwrap()];
        let output = fit(&data, &more);
        expect(&output, 0, "");
        let record = record(&output);
        let (row, table) = (&record["parameters"][0], &record["table"]);
        assert_eq!((&row["source"], &table["source"]), (&source.into(), &source.into()));
        let level = if source == "corrected" { "probable" } else { "estimated" };
        assert_eq!((&row["level"], &table["level"]), (&level.into(), &level.into()));
        let [m, s, mean_error, sd_error] = numbers(row, ["mean", "sd", "mean_error", "sd_error"]);
        assert_eq!([mean_error, sd_error], numbers(table, ["mean_error", "sd_error"]));
        assert!(mean_error <= 0.4 && sd_error <= 0.4, "{row}");
        assert!((m - mean).abs() <= mean_error * s, "{source}: {m} {mean} {row}");
        assert!((s - sd).abs() <= sd_error * s, "{source}: {s} {sd} {row}");
        // 4 standard errors of 2,000 independent draws: √(p(1 − p)/n) over the density
        let found = numbers(row, ["q05", "q50", "q95"]);
        for ((found, (truth, density)), p) in found.iter().zip(quantiles).zip([0.05, 0.5, 0.95_f64]) {
            let error = (p * (1.0 - p) / 2000.0).sqrt() / density;
            assert!((found - truth).abs() < 4.0 * error, "{source}: {found} {truth} ± {error}");
            if let Some(stated) = row["quantile_error"].as_f64() {
                assert!((found - truth).abs() <= stated * s, "{source}: {found} {truth} {row}");
            }
        }
        // the weights of so few rows do not reach far enough, and those of importance sampling say nothing of it
        assert_eq!(row["quantile_error"].is_null(), matches!(source, "corrected" | "importance"), "{row}");
        // q's own are further away than the tolerance of the others
        let [own_mean, own_sd] = numbers(&record["gaussian"]["parameters"][0], ["mean", "sd"]);
        assert!((own_mean - mean).abs() > 0.01 * sd || (own_sd / sd - 1.0).abs() > 0.02);

        let path = out.to_str().unwrap();
        let drawn = dir.join("draws.csv");
        let all = ["sample", path, "--draws", "4000", "--overwrite", "--to", drawn.to_str().unwrap()];
        expect(&certus(&all), 0, "");
        let draws = column(&drawn, "x");
        let average = draws.iter().sum::<f64>() / 4000.0;
        assert_eq!(draws.len(), 4000);
        // 5 standard errors of independent draws
        assert!((average - mean).abs() < 5.0 * sd / 4000_f64.sqrt(), "{source}: {average} {mean}");

        let to = dir.join("predicted.csv");
        let all = ["predict", path, new.to_str().unwrap(), "--overwrite", "--to", to.to_str().unwrap()];
        expect(&certus(&all), 0, "");
        let predicted = column(&to, "mean")[0];
        assert!((predicted - response).abs() < 0.01, "{source}: {predicted} {response}");
        expect(&certus(&["verify", path]), 0, "draws of the posterior: repeated");
    }
}

/// The Gaussian's own numbers have no table, and its gap decides.
#[test]
fn the_gaussian_alone() {
    let dir = scratch("gaussian");
    let output = fit(&rows(&dir), &["--posterior", "gaussian", "--accuracy", "1e-6"]);
    expect(&output, 0, "");
    let record = record(&output);
    assert!(record["table"].is_null() && record["gaussian"].is_null());
    let (row, stated) = (&record["parameters"][0], &record["certificate"]["posterior"]);
    assert_eq!((&row["source"], &row["mean_error"]), (&"gaussian".into(), &stated["mean_error"]));
    assert_eq!((&row["sd_error"], &row["level"]), (&stated["sd_error"], &stated["level"]));
}

/// An accuracy that no source has: the best is printed, and the exit code says so.
#[test]
fn an_accuracy_that_is_not_reached() {
    let dir = scratch("accuracy");
    let data = rows(&dir);
    let output = fit(&data, &["--posterior", "exact", "--accuracy", "0.001"]);
    expect(&output, 10, "the accuracy is not reached: means about 0.04");
    let found = record(&output);
    assert_eq!((&found["status"], &found["table"]["source"]), (&"limit".into(), &"exact".into()));
    // and a source that is not for the model
    let wide: Vec<String> = (0..14).map(|k| format!("x{k}")).collect();
    let line = |i: usize| -> String {
        let row = (0..14).map(|k| format!(",{}", ((i * (k + 3) * 7 + k) % 11) as f64 / 5.0 - 1.0));
        format!("{}{}\n", (i * 5 % 7) % 2, row.collect::<String>())
    };
    let path = dir.join("wide.csv");
    let body: String = (0..100).map(line).collect();
    std::fs::write(&path, format!("y,{}\n{body}", wide.join(","))).unwrap();
    let output = fit(path.to_str().unwrap(), &["--posterior", "exact"]);
    expect(&output, 10, "exact draws are for at most 12 coefficients");
    assert!(record(&output)["table"].is_null());
}

/// Quantiles of many rows are enclosed: the interval holds, and is of use. The level that was asked for counts.
#[test]
fn quantiles_and_levels() {
    let dir = scratch("quantiles");
    let path = dir.join("many.csv");
    // the same rows 150 times: q is close to the posterior
    let lines = std::iter::repeat_n(ROWS, 150).flatten().map(|(y, x)| format!("{y},{x}\n"));
    std::fs::write(&path, format!("y,x\n{}", lines.collect::<String>())).unwrap();
    let path = path.to_str().unwrap();
    let output = fit(path, &["--level", "probable"]);
    expect(&output, 0, "");
    let row = &record(&output)["parameters"][0];
    let [s, error] = numbers(row, ["sd", "quantile_error"]);
    assert!(row["source"] == "corrected" && error < 0.2, "{row}");
    let log_p = |b: f64| {
        150.0 * ROWS.iter().map(|(y, x)| y * x * b - (x * b).exp().ln_1p()).sum::<f64>() - b * b / 18.0
    };
    let grid: Vec<(f64, f64)> =
        (0..60_000).map(|k| 1e-4 * f64::from(k)).map(|b| (b, (log_p(b) - log_p(1.5)).exp())).collect();
    let all: f64 = grid.iter().map(|(_, p)| p).sum();
    for (q, share) in numbers(row, ["q05", "q50", "q95"]).into_iter().zip([0.05, 0.5, 0.95]) {
        let below = |t: f64| grid.iter().filter(|(b, _)| *b <= t).map(|(_, p)| p).sum::<f64>() / all;
        assert!(below(q - error * s) < share && share < below(q + error * s), "{share}: {q} {row}");
    }
    // the skewed posterior is known to 0.1 by draws alone
    let few = rows(&dir);
    expect(&fit(&few, &[]), 0, "");
    expect(&fit(&few, &["--level", "probable"]), 10, "sds within 10 %, probable");
}

/// Words are checked, and other kinds of fits refuse the setting.
#[test]
fn where_it_has_no_effect() {
    let dir = scratch("refused");
    let data = rows(&dir);
    expect(&fit(&data, &["--posterior", "mcmc"]), 64, "mcmc");
    let linear = ["fit", "linear", &data, "--response", "y", "--posterior"];
    expect(&certus(&[&linear[..], &["nuts", "--scales", "estimate"]].concat()), 64, "--posterior");
    expect(&certus(&[&linear[..], &["exact"]].concat()), 64, "nuts, importance");
    // given sigma the coefficients are normal, so that there is nothing to draw
    let output = certus(&[&linear[..], &["nuts", "--json", "--quiet"]].concat());
    expect(&output, 0, "");
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = &record["parameters"][0];
    assert!(row["source"] == "mixture" && row["mean_error"].as_f64().unwrap() < 1e-3, "{row}");
}
