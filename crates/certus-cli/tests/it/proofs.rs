//! Certificates of the variance parameters of linear mixed models in `export-proof`, `verify` and `report`.
#![allow(clippy::unwrap_used)]
#![cfg(feature = "scan")]

use std::path::{Path, PathBuf};

use certus_check::{MixedCertificate, check};

use crate::common::{certus, expect, scratch};

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../certus-mixed/tests/data");
    path.join(format!("{name}.csv")).to_str().unwrap().into()
}

fn fitted(dir: &Path, name: &str, file: &str, formula: &str, more: &[&str]) -> PathBuf {
    let out = dir.join(name);
    let fit = ["fit", "linear", file, formula, "--quiet", "--out", out.to_str().unwrap()];
    expect(&certus(&[&fit[..], more].concat()), 0, "");
    out
}

fn scale(out: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(out.join("fit.json")).unwrap();
    serde_json::from_str::<serde_json::Value>(&text).unwrap()["certificate"]["scale"].clone()
}

/// Every variance of the estimates of a fit, σ² first, and covariances where there are correlations, in the order of a
/// certificate; for the models below.
fn estimates(out: &Path) -> Vec<f64> {
    let scale = scale(out);
    let mut named = vec![(scale["name"].as_str().unwrap().to_string(), scale["estimate"].as_f64().unwrap())];
    for other in scale["others"].as_array().unwrap() {
        named.push((other["name"].as_str().unwrap().into(), other["estimate"].as_f64().unwrap()));
    }
    let sigma = named.pop().unwrap().1;
    let mut estimates = vec![sigma * sigma];
    match &named[..] {
        [(_, a), (_, b), (name, r)] if name.starts_with("cor(") => {
            estimates.extend([a * a, a * b * r, b * b]);
        }
        all => estimates.extend(all.iter().map(|(_, sd)| sd * sd)),
    }
    estimates
}

#[test]
fn variance_parameters_have_a_certificate() {
    let dir = scratch("variances");
    for (name, formula, criterion) in [
        ("dyestuff", "Yield ~ 1 + (1 | Batch)", "--reml"),
        ("dyestuff", "Yield ~ 1 + (1 | Batch)", "--ml"),
        // the columns of the effects are not near each other: the frame of the estimate is needed
        ("sleepstudy", "Reaction ~ Days + (1 + Days | Subject)", "--reml"),
        ("sleepstudy", "Reaction ~ Days + (1 + Days || Subject)", "--ml"),
        ("sleepstudy", "Reaction ~ 1 + (0 + Days | Subject)", "--reml"),
        ("penicillin", "diameter ~ 1 + (1 | plate) + (1 | sample)", "--reml"),
    ] {
        let (out, proof) =
            (fitted(&dir, "fit", &data(name), formula, &[criterion, "--overwrite"]), dir.join("v.proof"));
        let place = out.to_str().unwrap();
        let export = ["export-proof", place, "--to", proof.to_str().unwrap(), "--overwrite"];
        let what = if criterion == "--reml" { "the restricted likelihood" } else { "the likelihood" };
        expect(&certus(&export), 0, &format!("claim: {what} has a strict local maximum with sigma between"));
        let text = std::fs::read_to_string(&proof).unwrap();
        let rows = std::fs::read(dir.join("v.rows")).unwrap();
        let certificate = MixedCertificate::read(&text).unwrap();
        let [sentence, _] = check(&certificate, Some(&mut &rows[..])).unwrap();
        assert!(sentence.contains("has a strict local maximum; the variance of the noise"), "{sentence}");
        assert!(check(&certificate, Some(&mut &rows[8..])).is_err());
        let estimates = estimates(&out);
        assert_eq!(estimates.len(), certificate.between.len(), "{formula}");
        for (estimate, [low, high]) in estimates.iter().zip(&certificate.between) {
            let (middle, width) = (0.5 * (low + high), high - low);
            assert!((estimate - middle).abs() <= 1e-6 * estimate.abs(), "{formula} {estimate} {low} {high}");
            assert!(width <= 1e-6 * estimate.abs(), "{formula} {low} {high}");
        }
        let words = format!(
            "confirmed    variance parameters with every rounding error included: {what} has a strict"
        );
        expect(&certus(&["verify", place]), 0, &words);
        expect(&certus(&["report", place]), 0, "report.html");
        let page = std::fs::read_to_string(out.join("report.html")).unwrap();
        assert!(page.contains(text.trim_end()), "the certificate is on the page");
        assert!(page.contains("certus-check variances.proof variances.rows") && !page.contains("--block"));
    }
}

#[test]
fn what_has_no_certificate_is_told_why() {
    let dir = scratch("variances-none");
    let refused = |out: &Path, words: &str| {
        let to = dir.join("none.proof");
        let export = ["export-proof", out.to_str().unwrap(), "--to", to.to_str().unwrap()];
        expect(&certus(&export), 64, words);
        assert!(!to.exists() && !to.with_extension("rows").exists());
        expect(&certus(&["verify", out.to_str().unwrap()]), 0, words);
    };
    let boundary = fitted(&dir, "zero", &data("dyestuff2"), "Yield ~ 1 + (1 | Batch)", &["--reml"]);
    refused(&boundary, "sd(Batch) is 0, which is on the boundary of its range");
    // a row of weight 2 is two rows; half a row is none
    let mut text = String::from("y,x,g,w,half\n");
    for i in 0..60 {
        let x = f64::from(i);
        let y = 1.0 + 0.3 * (1.7 * x).sin() + 0.8 * (2.9 * f64::from(i % 9)).sin() + 0.5 * (5.3 * x).cos();
        text.push_str(&format!("{y},{},g{},{},{}\n", (1.7 * x).sin(), i % 9, i % 3, 0.5 + f64::from(i % 2)));
    }
    let file = dir.join("weights.csv");
    std::fs::write(&file, text).unwrap();
    let (file, formula) = (file.to_str().unwrap(), "y ~ x + (1 | g)");
    let half = fitted(&dir, "half", file, formula, &["--reml", "--weights", "half"]);
    refused(&half, "its rows have offsets, or weights that are not whole numbers");
    let offset = fitted(&dir, "offset", file, formula, &["--reml", "--offset", "w"]);
    refused(&offset, "its rows have offsets, or weights that are not whole numbers");
    let weighted = fitted(&dir, "weighted", file, formula, &["--reml", "--weights", "w"]);
    expect(&certus(&["verify", weighted.to_str().unwrap()]), 0, "confirmed    variance parameters");
    // many rows
    let many = dir.join("many.csv");
    let mut text = String::from("y,g\n");
    for i in 0..601 {
        let x = f64::from(i);
        text.push_str(&format!("{},g{}\n", (2.9 * f64::from(i % 9)).sin() + 0.5 * (5.3 * x).cos(), i % 9));
    }
    std::fs::write(&many, text).unwrap();
    let many = fitted(&dir, "many", many.to_str().unwrap(), "y ~ 1 + (1 | g)", &["--reml"]);
    let export = ["export-proof", many.to_str().unwrap(), "--to", dir.join("none.proof").to_str().unwrap()]
        .map(String::from);
    expect(&certus(&export.each_ref().map(String::as_str)), 64, "at most 600 rows; the fit has 601");
    expect(&certus(&["verify", many.to_str().unwrap()]), 0, "a certificate would take long");
}
