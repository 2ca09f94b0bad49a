//! Intervals of new observations beside closed forms and sums over the fit's own draws.
#![allow(clippy::unwrap_used)]

use std::fmt::Write;
use std::path::Path;

use crate::common::{certus, expect, scratch};

/// Simulated observations of a row.
const DRAWS: f64 = 4000.0;

/// A fit of 80 rows, and its predictions for three rows as they are printed.
fn predicted(dir: &Path, fit: &[&str], more: &[&str]) -> Vec<Vec<f64>> {
    let mut text = String::from("y,k,n,x,g\n");
    for i in 0..80_usize {
        let (x, luck) = ((i * 37 % 40) as f64 / 10.0 - 2.0, (i * 61 % 97) as f64 / 97.0);
        let level = 1.0 + 0.5 * x + 2.0 * luck + (i % 8) as f64 / 4.0;
        writeln!(text, "{level},{},{},{x},{}", (luck * level * 3.0).floor().min(12.0), 12, i % 8).unwrap();
    }
    let (data, new, out) = (dir.join("data.csv"), dir.join("new.csv"), dir.join("fit"));
    std::fs::write(&data, text).unwrap();
    std::fs::write(&new, "x,n,g\n-1.5,12,1\n0,12,3\n2,12,7\n").unwrap();
    let [data, new, out] = [&data, &new, &out].map(|path| path.to_str().unwrap());
    expect(&certus(&[&["fit", fit[0], data], &fit[1..], &["--out", out, "--quiet"]].concat()), 0, "");
    let output = certus(&[&["predict", out, new, "--observations"], more].concat());
    expect(&output, 0, "mean,sd,q05,q50,q95,linear_mean,linear_sd,y05,y95\n");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().skip(1).map(|l| l.split(',').map(|cell| cell.parse().unwrap()).collect()).collect()
}

/// y ~ N(t, σ²), t normal: ends 1.645 √(sd² + σ²) from the mean. The standard error of such a quantile is
/// √(p(1 − p)/n)/φ, 2.11 sds/√n.
#[test]
fn of_a_linear_model() {
    let rows = predicted(&scratch("linear"), &["linear", "y ~ x", "--sigma", "0.5"], &[]);
    for row in rows {
        let (mean, sd) = (row[5], row[6].hypot(0.5));
        for (end, z) in [(row[7], -1.645), (row[8], 1.645)] {
            assert!(((end - mean) / sd - z).abs() < 4.5 * 2.11 / DRAWS.sqrt(), "{end} {mean} {sd}");
        }
    }
}

/// With the noise and the sd of groups not given, y of a new group has the variance of the table's parameters.
#[test]
fn of_a_new_group() {
    for groups in ["new", "population"] {
        let dir = scratch(groups);
        let rows = predicted(&dir, &["linear", "y ~ x + (1 | g)", "--reml"], &["--groups", groups]);
        let record = std::fs::read_to_string(dir.join("fit/fit.json")).unwrap();
        let record: serde_json::Value = serde_json::from_str(&record).unwrap();
        let all = record["parameters"].as_array().unwrap();
        let of = |name: &str| all.iter().find(|p| p["name"] == name).unwrap()["mean"].as_f64().unwrap();
        for row in rows {
            // the scales are not known: 8 groups tell an sd to some 30 %, 72 rows sigma to 8 %
            let spread = of("sd(g)").hypot(of("sigma"));
            let half = 0.5 * (row[8] - row[7]) / 1.645;
            assert!(half > 0.9 * spread && half < 1.6 * spread, "{groups}: {half} {spread}");
        }
    }
}

/// P(k ≤ end) and P(k < end) over the fit's own draws are on either side of 5 % and 95 %, but for 4.5 standard errors.
#[test]
fn of_counts() {
    for (model, trials) in [("poisson", None), ("binomial", Some(12.0))] {
        let dir = scratch(model);
        let columns: &[&str] = if trials.is_some() { &["--trials", "n"] } else { &[] };
        let rows = predicted(&dir, &[&[model, "k ~ x"], columns].concat(), &[]);
        let (fit, draws) = (dir.join("fit"), dir.join("draws.csv"));
        let sample = ["sample", fit.to_str().unwrap(), "--draws", "4000", "--to", draws.to_str().unwrap()];
        expect(&certus(&sample), 0, "");
        let text = std::fs::read_to_string(&draws).unwrap();
        let lines = text.lines().filter(|l| !l.starts_with('#')).skip(1);
        let draws: Vec<Vec<f64>> =
            lines.map(|l| l.split(',').map(|c| c.parse().unwrap()).collect()).collect();
        for (row, x) in rows.iter().zip([-1.5, 0.0, 2.0]) {
            // P(k ≤ end)
            let below = |end: f64| {
                let one = |z: &Vec<f64>| {
                    let t = z[0] + z[1] * x;
                    let (mut mass, mut sum) = match trials {
                        None => ((-t.exp()).exp(), 0.0),
                        Some(n) => ((1.0 + t.exp()).powf(-n), 0.0),
                    };
                    for k in 0..=end as i64 {
                        sum += mass;
                        let k = k as f64;
                        mass *= t.exp() * trials.map_or(1.0, |n| n - k) / (k + 1.0);
                    }
                    if end < 0.0 { 0.0 } else { sum }
                };
                draws.iter().map(one).sum::<f64>() / draws.len() as f64
            };
            let room = 4.5 * (0.05 * 0.95 / DRAWS).sqrt();
            for (end, p) in [(row[7], 0.05), (row[8], 0.95)] {
                let (at, before) = (below(end), below(end - 1.0));
                assert!(at > p - room && before < p + room, "{model} {end}: {before} {at}");
            }
        }
    }
}
