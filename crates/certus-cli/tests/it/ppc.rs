//! Posterior predictive checks: what is printed, beside closed forms, and what is refused.
#![allow(clippy::unwrap_used)]

use std::fmt::Write;

use serde_json::Value;

use crate::common::{certus, expect, scratch};

/// Counts with a mean of 3 and a variance of 9, which a Poisson model does not have; y ~ N(0, 1) quantiles, which a
/// linear model has.
#[test]
fn a_check_sees_what_a_model_does_not_have() {
    let dir = scratch("ppc");
    let data = dir.join("rows.csv");
    let mut text = String::from("count,y,x,w\n");
    for i in 0..120_usize {
        let count = [0, 0, 1, 2, 2, 3, 4, 5, 5, 8][i * 7 % 10] * (1 + i % 2);
        let y = ((i * 53 % 120) as f64 + 0.5) / 120.0;
        writeln!(text, "{count},{},{},2", (y / (1.0 - y)).ln(), (i * 37 % 41) as f64 / 20.0).unwrap();
    }
    std::fs::write(&data, text).unwrap();
    let data = data.to_str().unwrap();
    let fitted = |name: &str, fit: &[&str]| {
        let out = dir.join(name).to_str().unwrap().to_string();
        expect(&certus(&[&["fit", fit[0], data], &fit[1..], &["--out", &out, "--quiet"]].concat()), 0, "");
        out
    };
    let found = |fit: &str| {
        let output = certus(&["ppc", fit, "--json"]);
        expect(&output, 0, "");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let of = |found: &Value, name: &str, field: &str| {
        let all = found["statistics"].as_array().unwrap();
        all.iter().find(|s| s["name"] == name).unwrap()[field].as_f64().unwrap()
    };
    let counts = fitted("counts", &["poisson", "count ~ x"]);
    let check = found(&counts);
    assert!(of(&check, "sd", "above") < 0.001 && of(&check, "share of zeros", "above") < 0.01, "{check}");
    assert!(check["residual_sd"].as_f64().unwrap() > 1.3);
    assert_eq!(check["residuals"].as_array().unwrap().len(), 120);
    let output = certus(&["ppc", &counts]);
    expect(&output, 0, "");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("statistic"), "{text}");
    assert!(text.contains("estimated from 4000 simulated data sets; residuals: mean"), "{text}");
    // logistic quantiles: a mean of 0 and a variance of π²/3
    let line = fitted("line", &["linear", "y ~ x"]);
    let check = found(&line);
    assert!(
        (of(&check, "sd", "observed") - 1.79).abs() < 0.02 && of(&check, "mean", "observed").abs() < 1e-9
    );
    let above = of(&check, "sd", "above");
    assert!((0.2..0.8).contains(&above), "{above}");
    assert!((check["residual_sd"].as_f64().unwrap() - 1.0).abs() < 0.1);
    // the same bits again
    assert_eq!(found(&line), check);
    let weighted = fitted("weighted", &["linear", "y ~ x", "--weights", "w"]);
    expect(&certus(&["ppc", &weighted]), 64, "rows that count once");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// A report is made without its data, and with other data, and says what is missing; `--data` finds them again.
#[test]
fn a_report_without_its_data_says_so() {
    let dir = scratch("report-data");
    let (data, moved, out) = (dir.join("rows.csv"), dir.join("moved.csv"), dir.join("fit"));
    let rows = |first: usize| {
        let row = |i: usize| format!("{},{}\n", (i * 7 % 10 + first) % 2, (i * 37 % 41) as f64 / 20.0);
        std::iter::once("y,x\n".to_string()).chain((0..120).map(row)).collect::<String>()
    };
    std::fs::write(&data, rows(0)).unwrap();
    let [data, moved, out] = [&data, &moved, &out].map(|path| path.to_str().unwrap());
    expect(&certus(&["fit", "logistic", data, "y ~ x", "--out", out, "--quiet"]), 0, "");
    let page = |more: &[&str]| {
        expect(&certus(&[&["report", out], more].concat()), 0, "report.html");
        std::fs::read_to_string(dir.join("fit/report.html")).unwrap()
    };
    assert!(!page(&[]).contains("Not shown"));
    std::fs::rename(data, moved).unwrap();
    // once for what each predictor does, and once for the checks of the model
    assert_eq!(page(&[]).matches("<p>Not shown: there is no file").count(), 2);
    assert!(!page(&["--data", moved]).contains("Not shown"));
    std::fs::write(data, rows(1)).unwrap();
    assert_eq!(page(&[]).matches("<p>Not shown: the data are not those of the fit").count(), 2);
}
