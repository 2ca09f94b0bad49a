//! `--factor diagonal` and groups that are too many for a list, through the real binary.
#![allow(clippy::unwrap_used)]
#![cfg(feature = "scan")]

use std::path::Path;

use crate::common::{certus, expect, scratch};

fn record(place: &Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(place.join("fit.json")).unwrap()).unwrap()
}

const ROWS: usize = 40;

fn features(i: usize) -> [f64; 2] {
    let x = (i as f64 * 1.7).sin();
    [x, 0.8 * x + 0.6 * (i as f64 * 0.9).cos()]
}

/// A linear model as given (no standardising): precision Λ = XᵀX/σ² + diag(1/sd²), sd_i = Λ_ii^(−1/2), and the family
/// costs ½(Σ log Λ_ii − log det Λ). The fit is verified, refused where it is not supported, and the checkpointed
/// settings say what was asked.
#[test]
fn independent_coefficients_by_hand() {
    let dir = scratch("diagonal");
    let mut text = String::from("y,a,b,g\n");
    let mut precision = [[1.0 / 100.0, 0.0, 0.0], [0.0, 1.0 / 6.25, 0.0], [0.0, 0.0, 1.0 / 6.25]];
    let sigma = 0.5;
    for i in 0..ROWS {
        let [a, b] = features(i);
        let y = 0.3 + a - 0.5 * b + 0.4 * (i as f64 * 3.1).sin();
        text.push_str(&format!("{y},{a},{b},g{}\n", i % 5));
        let row = [1.0, a, b];
        for j in 0..3 {
            (0..3).for_each(|k| precision[j][k] += row[j] * row[k] / (sigma * sigma));
        }
    }
    let data = dir.join("rows.csv");
    std::fs::write(&data, text).unwrap();
    let (data, out) = (data.to_str().unwrap(), dir.join("fit"));
    let place = out.to_str().unwrap();
    let base =
        ["fit", "linear", data, "--response", "y", "--features", "a,b", "--sigma", "0.5", "--no-standardise"];
    let with = |more: &[&'static str]| [&base[..], more].concat();
    let fit = [&with(&["--factor", "diagonal", "--out"])[..], &[place]].concat();
    expect(&certus(&fit), 0, "independence costs");
    let record = record(&out);
    let gap = &record["certificate"]["gap"];
    assert_eq!(gap["family"], "all Gaussians with independent coefficients");
    assert_eq!(gap["level"], "proved");
    assert!(gap["bound"].as_f64().unwrap() <= 0.01);
    for (j, parameter) in record["parameters"].as_array().unwrap().iter().enumerate() {
        let sd = parameter["sd"].as_f64().unwrap();
        assert!((sd * precision[j][j].sqrt() - 1.0).abs() < 1e-9, "{parameter}");
    }
    let [a, b, c] = precision;
    let det = a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0])
        + a[2] * (b[0] * c[1] - b[1] * c[0]);
    let cost = 0.5 * ((0..3).map(|j| precision[j][j].ln()).sum::<f64>() - det.ln());
    let stated = |name: &str| gap["constants"][name].as_f64().unwrap();
    assert!((stated("cost of the family") - cost).abs() < 1e-9 && cost > 0.1, "{cost}");
    assert!(stated("cost of the family, at least") <= cost && cost <= stated("cost of the family, at most"));
    expect(&certus(&["verify", place]), 0, "confirmed");
    expect(
        &certus(&with(&["--factor", "diagonal", "--group", "g", "--group-sd", "1"])),
        64,
        "not supported for models with a --group",
    );
    expect(
        &certus(&with(&["--factor", "diagonal", "--method", "prox-energy"])),
        64,
        "auto, exact and stochastic",
    );
    let _ = std::fs::remove_dir_all(&dir);
}

/// 22,000 groups of three effects: the list has the coefficients of all rows, groups.parquet the others, and it reads
/// back as data.
#[test]
fn many_groups_have_a_table() {
    let dir = scratch("table");
    let mut text = String::from("y,a,b,g\n");
    for i in 0..44_000 {
        let [a, b] = features(i);
        text.push_str(&format!("{},{a},{b},{}\n", u8::from((i * 7) % 5 < 2), i / 2));
    }
    let data = dir.join("rows.csv");
    std::fs::write(&data, text).unwrap();
    let out = dir.join("fit");
    let (data, place) = (data.to_str().unwrap(), out.to_str().unwrap());
    let fit = [
        "fit",
        "linear",
        data,
        "--response",
        "y",
        "--group",
        "g:: *",
        "--group-sd",
        "1",
        "--sigma",
        "1",
        "--posterior",
        "gaussian",
        "--out",
        place,
    ];
    expect(&certus(&fit), 0, "nothing is lost");
    let record = record(&out);
    assert_eq!(record["parameters"].as_array().unwrap().len(), 3);
    assert_eq!(record["certificate"]["gap"]["level"], "proved");
    assert_eq!(record["certificate"]["gap"]["family"], "all Gaussians");
    assert!(record["certificate"]["gap"]["sd_error"].as_f64().unwrap() <= 0.01);
    assert!(record["notes"].to_string().contains("66000 coefficients of groups are in groups.parquet"));
    let table = out.join("groups.parquet");
    let table = table.to_str().unwrap();
    let read = [
        "fit",
        "linear",
        table,
        "--response",
        "deviation",
        "--features",
        "mean,coefficient",
        "--sigma",
        "1",
        "--json",
    ];
    let again = certus(&read);
    expect(&again, 0, "66000");
    // own coefficient − deviation is the coefficient of all rows: regressed on both, `mean` has the slope 1 and the
    // levels give −θ
    let shown: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    let slope = shown["parameters"].as_array().unwrap().iter().find(|p| p["name"] == "mean").unwrap();
    assert!((slope["mean"].as_f64().unwrap() - 1.0).abs() < 1e-3, "{slope}");
    let _ = std::fs::remove_dir_all(&dir);
}
