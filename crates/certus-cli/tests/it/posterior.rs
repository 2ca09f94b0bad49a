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
    // nothing is proved: what holds with a probability is printed, not what is estimated
    let output = fit(path, &["--level", "proved"]);
    expect(&output, 10, "sds within 10 %, proved");
    assert_eq!(record(&output)["table"]["source"], "corrected");
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

/// T9: what is known of the printed numbers comes first, on the terminal and as the report's headline; a run that fell
/// short says that first.
#[test]
fn the_headline_is_about_the_posterior() {
    let dir = scratch("headline");
    let (data, out) = (rows(&dir), dir.join("fit"));
    let to = out.to_str().unwrap();
    let base = ["fit", "logistic", &data, "--response", "y", "--no-intercept", "--no-standardise"];
    let output = certus(&[&base[..], &["--prior-sd", "3", "--out", to]].concat());
    expect(&output, 0, "");
    expect(&certus(&["report", to]), 0, "");
    let level = &record(&fit(&data, &[]))["table"]["level"];
    let how = if level == "estimated" { "about" } else { "within" };
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    let headline = page.split("class=\"headline\">").nth(1).unwrap().split("</p>").next().unwrap();
    assert!(headline.starts_with(&format!("Means {how} ")), "{headline}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with(&format!("posterior  means {how} ")), "{text}");
    assert!(text.find("\nreached ").unwrap() > text.find("\ngap ").unwrap(), "{text}");
    let short = certus(&[&base[..], &["--prior-sd", "3", "--accuracy", "1e-6"]].concat());
    expect(&short, 10, "");
    assert!(String::from_utf8(short.stdout).unwrap().starts_with("limit"));
}

/// T11: a linear model with a given scale has a Gaussian posterior, and is as far from it as from the best Gaussian.
#[test]
fn a_linear_model_is_as_far_as_its_gap() {
    let dir = scratch("gap-is-distance");
    let mut text = String::from("y,a,b\n");
    for i in 0..400 {
        let (a, b) = ((f64::from(i) * 0.7).sin(), (f64::from(i) * 1.3).cos());
        text.push_str(&format!("{},{a},{b}\n", 1.0 + 2.0 * a - b + (f64::from(i) * 2.1).sin()));
    }
    let data = dir.join("linear.csv");
    std::fs::write(&data, text).unwrap();
    let output = certus(&["fit", "linear", data.to_str().unwrap(), "y ~ a + b", "--sigma", "1", "--json"]);
    expect(&output, 0, "");
    let record = record(&output);
    let certificate = &record["certificate"];
    let [gap] = numbers(&certificate["gap"], ["bound"]);
    let [kl, mean, sd] = numbers(&certificate["posterior"], ["bound", "mean_error", "sd_error"]);
    assert!(certificate["posterior"]["level"] == "proved" && kl == gap, "{certificate}");
    assert!(mean <= 1e-3 && sd <= 1e-2, "{certificate}");
}

/// T11: the usual accuracy is certified with few and with many rows, and a large dispersion is Poisson's limit. (At
/// 1e12 the allowance for rounding, 1e-13 of y + k, is still larger than the curvature.)
#[test]
fn more_rows_and_limits_are_not_worse() {
    let dir = scratch("more-rows");
    let file = |n: u32| {
        let mut text = String::from("y");
        (0..20).for_each(|j| text.push_str(&format!(",x{j}")));
        for i in 0..n {
            let x: Vec<f64> = (0..20).map(|j| (f64::from(i) * (0.37 + 0.71 * f64::from(j))).sin()).collect();
            let p = 1.0 / (1.0 + (-0.8 * x[0] + 0.5 * x[1]).exp());
            let y = u8::from((f64::from(i) * 0.618_033_988_75).fract() < p);
            text.push_str(&format!("\n{y}"));
            x.iter().for_each(|x| text.push_str(&format!(",{x:.6}")));
        }
        let path = dir.join(format!("{n}.csv"));
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    for n in [2000, 20_000] {
        let output = certus(&["fit", "logistic", &file(n), "--response", "y", "--json"]);
        expect(&output, 0, "");
        let record = record(&output);
        let [mean, sd] = numbers(&record["table"], ["mean_error", "sd_error"]);
        assert!(record["table"]["level"] == "probable" && mean <= 0.1 && sd <= 0.1, "{n}: {mean} {sd}");
    }
    let path = dir.join("counts.csv");
    let lines = (0..60).map(|i| format!("{},{}\n", i * 7 % 5, (f64::from(i) * 0.9).sin()));
    std::fs::write(&path, format!("y,x\n{}", lines.collect::<String>())).unwrap();
    let gap = |model: &str, more: &[&str]| {
        let base = ["fit", model, path.to_str().unwrap(), "y ~ x", "--posterior", "gaussian", "--json"];
        let output = certus(&[&base[..], more].concat());
        expect(&output, 0, "");
        record(&output)["certificate"]["gap"]["bound"].as_f64().unwrap()
    };
    let (poisson, limit) = (gap("poisson", &[]), gap("negative-binomial", &["--dispersion", "1e9"]));
    assert!(limit <= 10.0 * poisson + 1e-4, "{poisson} {limit}");
}
