//! Questions about expected responses: answers beside closed forms, sums over the fit's own draws, and quadrature.
#![allow(clippy::unwrap_used)]

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{certus, expect, scratch};

/// Draws that answers are made of.
const DRAWS: f64 = 4000.0;

/// Rows of y, x, arm, n: y is 0 or 1, and n a weight; one row has a gap.
fn rows() -> Vec<(f64, f64, &'static str, f64)> {
    let row = |i: usize| {
        let (x, b) = ((i * 37 % 50) as f64 / 10.0 - 2.0, i.is_multiple_of(3));
        let p = 0.15 + 0.06 * x + if b { 0.15 } else { 0.0 } + if i % 12 > 6 { 0.4 } else { 0.0 };
        let y = f64::from(u8::from((i * 61 % 97) as f64 / 97.0 < p));
        (y, x, if b { "b" } else { "a" }, 1.0 + (i % 4) as f64)
    };
    (0..120).map(row).collect()
}

fn written(dir: &Path) -> PathBuf {
    let mut text = String::from("y,x,arm,n,g\n");
    for (i, (y, x, arm, n)) in rows().iter().enumerate() {
        writeln!(text, "{y},{x},{arm},{n},{}", i % 12).unwrap();
    }
    text.push_str("1,NA,b,1,3\n");
    let path = dir.join("rows.csv");
    std::fs::write(&path, text).unwrap();
    path
}

/// A fit, and the answers as JSON.
fn answers(dir: &Path, fit: &[&str], question: &[&str]) -> (Value, Value) {
    let (data, out) = (written(dir), dir.join("fit"));
    let (data, out) = (data.to_str().unwrap(), out.to_str().unwrap());
    let output = certus(
        &[&["fit", fit[0], data], &fit[1..], &["--missing", "drop", "--out", out, "--json", "--quiet"]]
            .concat(),
    );
    expect(&output, 0, "");
    let record = serde_json::from_slice(&output.stdout).unwrap();
    let output = certus(&[&["effects", out, "--format", "json"], question].concat());
    expect(&output, 0, "");
    (record, serde_json::from_slice(&output.stdout).unwrap())
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap()
}

/// The mean of a parameter.
fn parameter(record: &Value, name: &str) -> f64 {
    let all = record["parameters"].as_array().unwrap();
    number(all.iter().find(|p| p["name"] == name).unwrap(), "mean")
}

/// With y ~ x arm the average contrast is β_arm + γ mean(x), the average slope β_x + γ share(b): normal, of known mean.
#[test]
fn those_of_a_linear_model_are_combinations_of_coefficients() {
    let dir = scratch("linear");
    let (record, found) = answers(&dir, &["linear", "y ~ x*arm", "--sigma", "0.5"], &[]);
    let rows = rows();
    let n = rows.len() as f64;
    let (mean_x, share) =
        (rows.iter().map(|r| r.1).sum::<f64>() / n, rows.iter().filter(|r| r.2 == "b").count() as f64 / n);
    let of = |name: &str| parameter(&record, name);
    assert_eq!(found["averaged"], 120);
    for (row, term, wanted) in [
        (0, "x (slope)", of("x") + share * of("x:arm[b]")),
        (1, "arm: b - a", of("arm[b]") + mean_x * of("x:arm[b]")),
    ] {
        let row = &found["rows"][row];
        assert_eq!(row["term"], term);
        let (estimate, sd) = (number(row, "estimate"), number(row, "std_error"));
        // 4.5 standard errors
        assert!((estimate - wanted).abs() < 4.5 * sd / DRAWS.sqrt(), "{term}: {estimate} {wanted}");
        // 1.645 sds to either side, within 4.5 standard errors of a quantile, √(p (1 − p)/n)/φ
        let half = 0.5 * (number(row, "conf_high") - number(row, "conf_low"));
        assert!((half / sd - 1.645).abs() < 4.5 * 2.1 / DRAWS.sqrt() + 4.5 * 1.645 / (2.0 * DRAWS).sqrt());
        // the posterior is normal and known (D7): nothing is estimated of these
        let [error, ends] = ["error", "interval_error"].map(|key| number(row, key));
        assert!((estimate - wanted).abs() <= error + 1e-12 && error < 1e-6 * sd, "{row} {wanted}");
        assert!((half - 1.644_853_626_951_472_7 * sd).abs() <= ends && ends < 1e-6 * sd, "{row}");
    }
    assert_eq!((found["theorem"].as_str(), found["delta"].is_null()), (Some("D7"), true));
    assert!((number(&found, "monte_carlo_error") - DRAWS.powf(-0.5)).abs() < 1e-12);
    let out = dir.join("fit");
    let said = certus(&["effects", out.to_str().unwrap()]);
    expect(&said, 0, "wherever one is stated (proved, D7)");
}

/// Every number is the one that the fit's own draws give, with weights as repeated rows; the row with a gap is not one.
#[test]
fn those_of_a_logistic_model_are_averages_over_its_draws() {
    let dir = scratch("logistic");
    let question = ["--contrast", "arm: b - a", "--contrast", "arm: odds(b) / odds(a)", "--at", "x=-1,2"];
    let interval = [question.as_slice(), &["--contrast", "arm: b / a", "--interval", "0.8"]].concat();
    // of importance sampling nothing is certified, and estimates are those of the draws
    let rows_again = dir.join("rows.csv");
    let interval = [&interval[..], &["--data", rows_again.to_str().unwrap()]].concat();
    let fitted = ["logistic", "y ~ x*arm", "--weights", "n", "--posterior", "importance"];
    let (_, found) = answers(&dir, &fitted, &interval);
    assert!(found["theorem"].is_null() && found["delta"].is_null());
    let (fit, draws) = (dir.join("fit"), dir.join("draws.csv"));
    let sample = ["sample", fit.to_str().unwrap(), "--draws", "4000", "--to", draws.to_str().unwrap()];
    expect(&certus(&sample), 0, "");
    let text = std::fs::read_to_string(&draws).unwrap();
    let mut lines = text.lines().filter(|l| !l.starts_with('#'));
    assert_eq!(lines.next(), Some("(Intercept),x,arm[b],x:arm[b]"));
    let draws: Vec<Vec<f64>> =
        lines.map(|l| l.split(',').map(|cell| cell.parse().unwrap()).collect()).collect();
    assert_eq!((draws.len() as f64, number(&found, "draws")), (DRAWS, DRAWS));
    let rows = rows();
    let total: f64 = rows.iter().map(|r| r.3).sum();
    // where rows differ, their weights matter
    let there = ["--data", rows_again.to_str().unwrap()];
    let asked = ["effects", fit.to_str().unwrap(), "--contrast", "arm", "--format", "json"];
    let output = certus(&[&asked[..], &there].concat());
    let average: Value = serde_json::from_slice(&output.stdout).unwrap();
    let response = |t: f64| (1.0 + (-t).exp()).recip();
    let contrast = |z: &[f64], x: f64| response(z[0] + z[2] + (z[1] + z[3]) * x) - response(z[0] + z[1] * x);
    let all = draws.iter().flat_map(|z| rows.iter().map(move |r| r.3 / total * contrast(z, r.1)));
    let (wanted, found_there) = (all.sum::<f64>() / DRAWS, number(&average["rows"][0], "estimate"));
    assert!((found_there - wanted).abs() < 1e-9 * wanted.abs(), "{found_there} {wanted}");
    let mut place = 0;
    for x in [-1.0, 2.0] {
        let expected = |z: &[f64], b: f64| {
            let t = z[0] + z[1] * x + b * (z[2] + z[3] * x);
            rows.iter().map(|r| r.3 / total / (1.0 + (-t).exp())).sum::<f64>()
        };
        let odds = |p: f64| p / (1.0 - p);
        type How<'a> = &'a dyn Fn(f64, f64) -> f64;
        let comparisons: [(&str, How<'_>, f64); 3] = [
            ("arm: b - a", &|a, b| a - b, 0.0),
            ("arm: odds(b) / odds(a)", &|a, b| odds(a) / odds(b), 1.0),
            ("arm: b / a", &|a, b| a / b, 1.0),
        ];
        for (term, how, equal) in comparisons {
            let row = &found["rows"][place];
            place += 1;
            assert_eq!((row["term"].as_str(), row["at"].as_str()), (Some(term), Some(&*format!("x = {x}"))));
            let mut values: Vec<f64> =
                draws.iter().map(|z| how(expected(z, 1.0), expected(z, 0.0))).collect();
            let mean = values.iter().sum::<f64>() / DRAWS;
            let above = values.iter().filter(|v| **v > equal).count() as f64 / DRAWS;
            values.sort_by(f64::total_cmp);
            let quantile = |p: f64| {
                let at = p * (DRAWS - 1.0);
                let low = values[at as usize];
                low + at.fract() * (values[at as usize + 1] - low)
            };
            for (key, wanted) in [
                ("estimate", mean),
                ("conf_low", quantile(0.1)),
                ("conf_high", quantile(0.9)),
                ("above", above),
            ] {
                let value = number(row, key);
                assert!((value - wanted).abs() < 1e-9 * wanted.abs(), "{term} {key}: {value} {wanted}");
            }
        }
    }
}

/// At the estimates ∫ (1 + e^{−m − su})⁻¹ N(u) du, by a rule of our own.
#[test]
fn groups_are_averaged_over() {
    let dir = scratch("groups");
    let (record, found) =
        answers(&dir, &["logistic", "y ~ x + (1 | g)", "--ml"], &["--at", "x=1", "--contrast", "x: 2 - 0"]);
    assert_eq!(found["population"], true);
    let [m, b, s] = ["(Intercept)", "x", "sd(g)"].map(|name| parameter(&record, name));
    assert!(s > 0.3, "{s}");
    let expected = |t: f64| {
        let (mut sum, mut all) = (0.0, 0.0);
        for k in -4000..=4000 {
            let u = f64::from(k) / 500.0;
            let weight = (-0.5 * u * u).exp();
            sum += weight / (1.0 + (-(t + s * u)).exp());
            all += weight;
        }
        sum / all
    };
    let row = &found["rows"][0];
    let wanted = expected(m + 2.0 * b) - expected(m);
    assert!((number(row, "estimate") - wanted).abs() < 1e-9, "{row} {wanted}");
    assert!(found["source"].as_str().unwrap().contains("likelihood") && found["monte_carlo_error"].is_null());
}

#[test]
fn what_is_not_understood_is_refused_and_formats_agree() {
    let dir = scratch("words");
    let (_, found) = answers(&dir, &["logistic", "y ~ x + arm"], &["--contrast", "arm"]);
    let out = dir.join("fit");
    let out = out.to_str().unwrap();
    for (question, words) in [
        (["--contrast", "b - a"], "write \"arm\""),
        (["--contrast", "arn"], "did you mean 'arm'?"),
        (["--contrast", "x"], "--slope"),
        (["--contrast", "arm: c - a"], "its levels are a, b"),
        (["--contrast", "x: high - low"], "'high' is not a value"),
        (["--slope", "arm"], "ask for a contrast"),
        (["--at", "x"], "age=40,60"),
        (["--interval", "1.5"], "between 0 and 1"),
    ] {
        let output = certus(&[&["effects", out], question.as_slice()].concat());
        assert!(matches!(output.status.code(), Some(64 | 65)), "{question:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(words), "{question:?}: {said}");
    }
    let estimate = number(&found["rows"][0], "estimate");
    let csv = certus(&["effects", out, "--contrast", "arm", "--format", "csv"]);
    let csv = String::from_utf8(csv.stdout).unwrap();
    assert!(csv.lines().nth(1).unwrap().starts_with(&format!("\"arm: b - a\",\"\",{estimate},")), "{csv}");
    expect(&certus(&["effects", out, "--contrast", "arm"]), 0, "averaged over 120 rows");
    expect(&certus(&["effects", out, "--format", "markdown"]), 0, "| arm: b - a | ");
}

/// Certified errors against sums over a grid of the two coefficients, with the priors that the fit states.
#[test]
fn certified_errors_hold() {
    for (seed, delta) in [("1", "0.01"), ("2", "0.001"), ("3", "0.1")] {
        let dir = scratch(&format!("certified-{seed}"));
        let fit = ["logistic", "y ~ x", "--seed", seed, "--delta", delta, "--posterior", "corrected"];
        let question = ["--contrast", "x: 2 - 0", "--at", "x=1,1.5", "--contrast", "x: 2 / 0"];
        let (record, found) = answers(&dir, &fit, &question);
        let rows = rows();
        let n = rows.len() as f64;
        let mean = rows.iter().map(|r| r.1).sum::<f64>() / n;
        let sd = (rows.iter().map(|r| (r.1 - mean).powi(2)).sum::<f64>() / n).sqrt();
        // (Intercept) ~ N(0, 10²) at the mean of x, x ~ N(0, (2.5/sd)²)
        let (center, slope) = (parameter(&record, "(Intercept)"), parameter(&record, "x"));
        let (mut total, mut sums) = (0.0, [0.0; 3]);
        let response = |t: f64| (1.0 + (-t).exp()).recip();
        for i in -80..=80 {
            for j in -80..=80 {
                let a = center + slope * mean + 0.03 * f64::from(i);
                let b = slope + 0.02 * f64::from(j);
                let log: f64 = rows
                    .iter()
                    .map(|r| {
                        let t = a + b * (r.1 - mean);
                        r.0 * t - t.max(0.0) - (-t.abs()).exp().ln_1p()
                    })
                    .sum();
                let log = log - 0.5 * (a / 10.0).powi(2) - 0.5 * (b * sd / 2.5).powi(2);
                let weight = (log + 70.0).exp();
                total += weight;
                let at = |x: f64| response(a + b * (x - mean));
                for (sum, value) in sums.iter_mut().zip([at(2.0) - at(0.0), at(1.0), at(1.5)]) {
                    *sum += weight * value;
                }
            }
        }
        let delta = delta.parse::<f64>().unwrap();
        assert!((number(&found, "delta") / delta - 6.0 / std::f64::consts::PI.powi(2)).abs() < 1e-12);
        for row in found["rows"].as_array().unwrap() {
            let wanted = match (row["term"].as_str().unwrap(), row["at"].as_str().unwrap()) {
                ("x: 2 - 0", _) => sums[0] / total,
                // a ratio has no certified mean, but quantiles
                _ => {
                    assert!(row["error"].is_null() && number(row, "interval_error") < 0.2, "{row}");
                    continue;
                }
            };
            let (estimate, error) = (number(row, "estimate"), number(row, "error"));
            assert!((estimate - wanted).abs() <= error + 1e-6, "{row} {wanted}");
            assert!(error < 0.01, "{row}");
        }
        let out = dir.join("fit");
        let output = certus(&["effects", out.to_str().unwrap(), "--at", "x=1,1.5", "--format", "json"]);
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        for (row, wanted) in found["rows"].as_array().unwrap().iter().zip([sums[1] / total, sums[2] / total])
        {
            let (estimate, error) = (number(row, "estimate"), number(row, "error"));
            assert!((estimate - wanted).abs() <= error + 1e-6 && error < 0.01, "{row} {wanted}");
        }
        // the second call has draws of its own and a smaller part of δ, moved data are found, and words agree
        let moved = dir.join("moved.csv");
        std::fs::rename(dir.join("rows.csv"), &moved).unwrap();
        let out = out.to_str().unwrap();
        let second = ["effects", out, "--at", "x=1,1.5", "--call", "2", "--data", moved.to_str().unwrap()];
        let again: Value =
            serde_json::from_slice(&certus(&[&second[..], &["--format", "json"]].concat()).stdout).unwrap();
        assert!((number(&again, "delta") / number(&found, "delta") - 0.25).abs() < 1e-12);
        assert_ne!(again["rows"][0]["estimate"], found["rows"][0]["estimate"]);
        expect(&certus(&second), 0, "wherever one is stated (all of them with probability ");
        let text = String::from_utf8(certus(&second).stdout).unwrap();
        assert!(text.contains("error of ends") && text.contains("everything else is estimated"), "{text}");
        let linear = certus(&[&second[..], &["--linear-predictor", "--format", "csv"]].concat());
        let linear = String::from_utf8(linear.stdout).unwrap();
        assert!(linear.lines().next().unwrap().ends_with("p_above,error,interval_error"), "{linear}");
        assert!(linear.lines().nth(1).unwrap().starts_with("\"linear predictor\",\"x = 1\","), "{linear}");
        let refused =
            certus(&[&second[..2], &second[6..], &["--contrast", "x: 1 / 2", "--linear-predictor"]].concat());
        assert!(String::from_utf8_lossy(&refused.stderr).contains("ask for a difference"));
    }
}
