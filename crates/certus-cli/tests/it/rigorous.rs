//! `--rigorous`, and certificates in `verify`, `report` and `export-proof`, through the real binary.
#![allow(clippy::unwrap_used)]
#![cfg(feature = "scan")]

use std::path::Path;

use crate::common::{certus, expect, scratch};
use certus_check::{SdCertificate, check, read};

fn certificate(place: &Path, part: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(place.join("fit.json")).unwrap();
    serde_json::from_str::<serde_json::Value>(&text).unwrap()["certificate"][part].clone()
}

fn gap(place: &Path) -> serde_json::Value {
    certificate(place, "gap")
}

fn ends(scale: &serde_json::Value) -> [f64; 2] {
    [0, 1].map(|k| scale["interval"][k].as_f64().unwrap())
}

/// 60 rows of counts.
fn data(dir: &Path) -> String {
    let mut text = String::from("y,a,b,g\n");
    for i in 0..60 {
        let x = f64::from(i);
        let (a, b) = ((1.7 * x).sin(), (0.9 * x).cos());
        let y = (0.8 + 0.5 * a - 0.3 * b + (3.1 * x).sin()).exp().floor();
        text.push_str(&format!("{y},{a},{b},g{}\n", i % 5));
    }
    let file = dir.join("counts.csv");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().into()
}

#[test]
fn a_gap_with_every_rounding_error() {
    let dir = scratch("rigorous");
    let file = data(&dir);
    let [plain, proved] = ["plain", "proved"].map(|name| dir.join(name));
    let base = ["fit", "poisson", &file, "--response", "y", "--features", "a,b", "--posterior", "gaussian"];
    let with = |more: &[&str]| certus(&[&base[..], more].concat());
    expect(&with(&["--out", plain.to_str().unwrap()]), 0, "at most");
    expect(&with(&["--rigorous", "--out", proved.to_str().unwrap()]), 0, "at most");
    let [ordinary, rigorous] = [gap(&plain), gap(&proved)];
    let how = |gap: &serde_json::Value| gap["assumptions"][0]["what"].as_str().unwrap().to_string();
    assert!(how(&ordinary).contains("allowed for") && how(&rigorous).contains("ball arithmetic"));
    let [a, b] = [&ordinary, &rigorous].map(|gap| gap["bound"].as_f64().unwrap());
    assert_eq!(rigorous["theorem"], "Theorem D, rounding included");
    // the same theorem in other arithmetic, in a smaller ball; sums are stated with four times the radius that they
    // need
    assert!(rigorous["level"] == "proved" && b < 1.1 * a && b > 0.5 * a, "{a:e} {b:e}");
    for place in [&plain, &proved] {
        let verdict = certus(&["verify", place.to_str().unwrap()]);
        expect(&verdict, 0, "confirmed    gap with every rounding error included: at most");
    }
    // a bound that is a little smaller than what is proved
    let file = proved.join("fit.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let forged = text.replace(&format!("\"bound\": {b:?}"), &format!("\"bound\": {:?}", 0.999 * b));
    assert_ne!(text, forged, "the bound is in the file");
    std::fs::write(&file, forged).unwrap();
    certus_fit::rewrite_manifest(&proved).unwrap();
    expect(&certus(&["verify", proved.to_str().unwrap()]), 14, "gap");
    // where the gap is nothing but rounding
    let line =
        ["fit", "linear", base[2], "--response", "y", "--features", "a,b", "--sigma", "2", "--rigorous"];
    let out = dir.join("line");
    expect(&certus(&[&line[..], &["--out", out.to_str().unwrap()]].concat()), 0, "at most");
    expect(
        &certus(&["verify", out.to_str().unwrap()]),
        0,
        "confirmed    gap with every rounding error included",
    );
    // what has no such proof is refused, and not fitted without it
    for more in [&["--group", "g", "--group-sd", "1"][..], &["--factor", "diagonal"], &["--group", "g"]] {
        expect(&with(&[more, &["--rigorous"]].concat()), 64, "--rigorous applies only to linear");
    }
    let probit = ["fit", "negative-binomial", base[2], "--response", "y", "--dispersion", "2", "--rigorous"];
    expect(&certus(&probit), 64, "--rigorous applies only to linear");
}

#[test]
fn the_report_has_the_certificate_that_is_exported() {
    let dir = scratch("report-proof");
    let (file, out) = (data(&dir), dir.join("fit"));
    let place = out.to_str().unwrap();
    let fit = ["fit", "poisson", &file, "--response", "y", "--features", "a,b", "--out", place];
    expect(&certus(&fit), 0, "at most");
    expect(&certus(&["report", place]), 0, "report.html");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    let proof = dir.join("gap.proof");
    expect(&certus(&["export-proof", place, "--to", proof.to_str().unwrap()]), 0, "certus-check");
    let text = std::fs::read_to_string(&proof).unwrap();
    assert!(
        page.contains("check_certificate.py gap.proof gap.rows") && page.contains("certus-check gap.proof")
    );
    assert!(page.contains(text.trim_end()), "the certificate is on the page");
    let rows = std::fs::read(dir.join("gap.rows")).unwrap();
    let certificate = read(&text).unwrap();
    check(&*certificate, Some(&mut &rows[..])).unwrap();
    assert!(check(&*certificate, Some(&mut &rows[8..])).is_err());
}

/// Means and sds of the posterior, on the user's scale.
#[test]
fn the_posterior_has_a_certificate() {
    let dir = scratch("posterior-proof");
    let (file, out, proof) = (data(&dir), dir.join("fit"), dir.join("moments.proof"));
    let place = out.to_str().unwrap();
    let fit = ["fit", "poisson", &file, "--response", "y", "--features", "a,b", "--out", place];
    expect(&certus(&fit), 0, "at most");
    let export = ["export-proof", place, "--posterior", "--to", proof.to_str().unwrap()];
    expect(&certus(&export), 0, "with probability 0.999999");
    let rows = std::fs::read(dir.join("moments.rows")).unwrap();
    let text = std::fs::read_to_string(&proof).unwrap();
    let [sentence, _] = check(&*read(&text).unwrap(), Some(&mut &rows[..])).unwrap();
    assert!(
        sentence.contains("the mean of (Intercept) is between") && sentence.contains("the mean of b"),
        "{sentence}"
    );
    // what is printed is in the intervals
    let json = std::fs::read_to_string(out.join("fit.json")).unwrap();
    let record = serde_json::from_str::<serde_json::Value>(&json).unwrap();
    let certificate = certus_check::DrawsCertificate::read(&text).unwrap();
    let printed = record["parameters"].as_array().unwrap();
    assert_eq!(printed.len(), certificate.directions.len());
    for (printed, direction) in printed.iter().zip(&certificate.directions) {
        assert_eq!(printed["name"], direction.name);
        for (key, [low, high]) in [("mean", direction.mean), ("sd", direction.sd)] {
            let x = printed[key].as_f64().unwrap();
            assert!(low <= x && x <= high, "{key} {x} {low} {high}");
        }
        assert!(direction.sd[0] > 0.5 * direction.sd[1], "{direction:?}");
    }
}

/// 120 rows of 0 and 1 in 12 groups.
fn grouped(dir: &Path) -> String {
    let mut text = String::from("y,a,g\n");
    for i in 0..120 {
        let (x, g) = (f64::from(i), f64::from(i % 12));
        let t = 0.4 * (1.7 * x).sin() + 1.8 * (2.3 * g).cos();
        let chance = 1.0 / (1.0 + (-t).exp());
        let y = u8::from((7.1 * x + 0.3).sin().mul_add(0.5, 0.5) < chance);
        text.push_str(&format!("{y},{},g{}\n", (1.7 * x).sin(), i % 12));
    }
    let file = dir.join("grouped.csv");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().into()
}

#[test]
fn the_interval_of_an_sd_has_a_certificate() {
    let dir = scratch("sd-proof");
    let file = grouped(&dir);
    for (name, effect) in [("intercept", "(1 | g)"), ("slope", "(0 + a | g)")] {
        let (out, proof) = (dir.join(name), dir.join(format!("{name}.proof")));
        let place = out.to_str().unwrap();
        let formula = format!("y ~ a + {effect}");
        expect(&certus(&["fit", "logistic", &file, &formula, "--ml", "--out", place]), 0, "sd(g");
        let verdict = certus(&["verify", place]);
        let scale = certificate(&out, "scale");
        assert_eq!(scale["level"], "proved", "{name}");
        expect(&verdict, 0, "with every rounding error included: a maximum of the likelihood is between");
        expect(&certus(&["export-proof", place, "--to", proof.to_str().unwrap()]), 0, "has a local maximum");
        let text = std::fs::read_to_string(&proof).unwrap();
        let rows = std::fs::read(dir.join(format!("{name}.rows"))).unwrap();
        let certificate = SdCertificate::read(&text).unwrap();
        assert_eq!(check(&certificate, Some(&mut &rows[..])).err(), None);
        assert!(check(&certificate, Some(&mut &rows[8..])).is_err());
        let [low, high] = certificate.between;
        let estimate = scale["estimate"].as_f64().unwrap();
        assert!(low <= estimate && estimate < high, "{low} {estimate} {high}");
        assert_eq!(low == 0.0, name == "slope", "the slopes do not vary");
        expect(&certus(&["report", place]), 0, "report.html");
        let page = std::fs::read_to_string(out.join("report.html")).unwrap();
        assert!(page.contains(text.trim_end()), "the certificate is on the page");
    }
}

#[test]
fn the_interval_of_an_sd_with_every_rounding_error() {
    let dir = scratch("sd-rigorous");
    let file = grouped(&dir);
    let scale = |out: &Path| certificate(out, "scale");
    for (name, effect) in [("intercept", "(1 | g)"), ("slope", "(0 + a | g)")] {
        let formula = format!("y ~ a + {effect}");
        let [plain, proved] = ["plain", "proved"].map(|kind| dir.join(format!("{name}-{kind}")));
        let fit = ["fit", "logistic", &file, &formula, "--ml", "--out"];
        expect(&certus(&[&fit[..], &[plain.to_str().unwrap()]].concat()), 0, "(proved, Theorem K3)");
        let place = proved.to_str().unwrap();
        let words = "(proved, Theorem K3, rounding included)";
        expect(&certus(&[&fit[..], &[place, "--rigorous"]].concat()), 0, words);
        let (ordinary, rigorous) = (scale(&plain), scale(&proved));
        assert_eq!(
            (&rigorous["theorem"], &rigorous["level"]),
            (&"Theorem K3, rounding included".into(), &"proved".into())
        );
        assert_eq!(ordinary["estimate"], rigorous["estimate"]);
        // the ends that certus-check proves are farther apart where its bounds are wider
        let ([a, b], [low, high]) = (ends(&ordinary), ends(&rigorous));
        assert!(
            low <= a * (1.0 + 1e-12) && b * (1.0 - 1e-12) <= high && high < 1.5 * b,
            "{a} {b} {low} {high}"
        );
        expect(
            &certus(&["verify", place]),
            0,
            "with every rounding error included: a maximum of the likelihood",
        );
        // what is printed is what the exported certificate claims
        let proof = dir.join(format!("{name}.proof"));
        expect(&certus(&["export-proof", place, "--to", proof.to_str().unwrap()]), 0, "has a local maximum");
        let certificate = SdCertificate::read(&std::fs::read_to_string(&proof).unwrap()).unwrap();
        let [c, d] = certificate.between;
        let near = |x: f64, y: f64| (x - y).abs() <= 1e-12 * y.abs();
        assert!(near(low, c) && near(high, d), "{low} {high} {c} {d}");
        // an interval that is a little shorter
        let (path, text) =
            (proved.join("fit.json"), std::fs::read_to_string(proved.join("fit.json")).unwrap());
        let forged = text.replacen(&format!("{high:?}"), &format!("{:?}", high - 0.2 * (high - low)), 1);
        assert_ne!(text, forged, "the end is in the file");
        std::fs::write(path, forged).unwrap();
        certus_fit::rewrite_manifest(&proved).unwrap();
        expect(&certus(&["verify", place]), 14, "interval");
    }
    let posterior = dir.join("posterior");
    let fit =
        ["fit", "logistic", &file, "y ~ a + (1 | g)", "--rigorous", "--out", posterior.to_str().unwrap()];
    expect(&certus(&fit), 0, "(proved, Theorem K3, rounding included)");
}

/// Linear mixed models: every sd, sigma and the correlation.
#[test]
fn variance_parameters_with_every_rounding_error() {
    let dir = scratch("variances-rigorous");
    let published = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../certus-mixed/tests/data");
        path.join(format!("{name}.csv")).to_str().unwrap().to_string()
    };
    // lme4's estimates as it prints them: sds, the correlation where there is one, sigma
    for (name, formula, printed) in [
        ("dyestuff", "Yield ~ 1 + (1 | Batch)", &[42.001, 49.510][..]),
        ("sleepstudy", "Reaction ~ Days + (1 + Days | Subject)", &[24.741, 5.922, 0.066, 25.592]),
    ] {
        let (out, plain) = (dir.join(name), dir.join(format!("{name}-plain")));
        let (place, file) = (out.to_str().unwrap(), published(name));
        let fit = ["fit", "linear", &file, formula, "--reml", "--out"];
        let words = "(proved, Theorem V1, rounding included)";
        expect(&certus(&[&fit[..], &[place, "--rigorous"]].concat()), 0, words);
        expect(&certus(&[&fit[..], &[plain.to_str().unwrap()]].concat()), 0, "(proved, Theorem L1)");
        let (own, ordinary) = (certificate(&out, "scale"), certificate(&plain, "scale"));
        assert_eq!(
            (&own["level"], &own["theorem"]),
            (&"proved".into(), &"Theorem V1, rounding included".into())
        );
        assert!(ordinary["others"][0].get("interval").is_none() && own.get("radius").is_none());
        let all = |scale: &serde_json::Value| -> Vec<serde_json::Value> {
            std::iter::once(scale.clone()).chain(scale["others"].as_array().unwrap().clone()).collect()
        };
        assert_eq!(all(&own).len(), printed.len());
        for ((own, ordinary), printed) in all(&own).iter().zip(all(&ordinary)).zip(printed) {
            assert_eq!(own["estimate"], ordinary["estimate"], "the estimate is the same");
            let ([low, high], estimate) = (ends(own), own["estimate"].as_f64().unwrap());
            assert!(low < high && high - low < 1e-6 * printed, "{} {low} {high}", own["name"]);
            assert!(
                (estimate - low).abs() < 1e-6 * printed && (low - printed).abs() < 6e-4,
                "{low} {printed}"
            );
        }
        let confirmed = "confirmed    variance parameters with every rounding error included";
        expect(&certus(&["verify", place]), 0, confirmed);
        // an interval that is a little shorter, of the first and of another scale
        let (path, text) = (out.join("fit.json"), std::fs::read_to_string(out.join("fit.json")).unwrap());
        for scale in [&own, &own["others"][0]] {
            let [low, high] = ends(scale);
            let forged = text.replacen(&format!("{high:?}"), &format!("{:?}", low + 0.3 * (high - low)), 1);
            assert_ne!(text, forged, "the end is in the file");
            std::fs::write(&path, forged).unwrap();
            certus_fit::rewrite_manifest(&out).unwrap();
            expect(&certus(&["verify", place]), 14, "interval");
        }
    }
    // what V1 does not cover is said, and the ordinary proof stays
    let out = dir.join("zero");
    let fit = ["fit", "linear", &published("dyestuff2"), "Yield ~ 1 + (1 | Batch)", "--reml", "--rigorous"];
    let output = certus(&[&fit[..], &["--out", out.to_str().unwrap()]].concat());
    expect(&output, 0, "not every rounding error is included: sd(Batch) is 0, which is on the boundary");
    let scale = certificate(&out, "scale");
    assert_eq!((&scale["theorem"], &scale["level"]), (&"Theorem L2".into(), &"proved".into()));
    assert!(scale["reason"].as_str().unwrap().starts_with("not every rounding error is included"));
    expect(&certus(&["verify", out.to_str().unwrap()]), 0, "which is on the boundary");
}
