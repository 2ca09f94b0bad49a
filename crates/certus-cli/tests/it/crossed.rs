//! Several group terms with a response that is not linear, on the command line: reference fits, and everything that a
//! fit is used for.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use serde_json::Value;

use crate::common::{certus, expect, scratch};

const SALAMANDERS: &str = "Mate ~ Cross + (1 | Female) + (1 | Male)";

fn salamanders() -> String {
    data("salamander")
}

fn sds(fit: &Value) -> Vec<f64> {
    fit["groups"].as_array().unwrap().iter().map(|g| g["sd"][0].as_f64().unwrap()).collect()
}

/// glmer has variances 1.1743 and 1.0410 and log L −209.277; the exact maximum is at sds 1.1763 and 1.1127, −207.597.
#[test]
fn salamanders_by_laplace_and_corrected() {
    let file = salamanders();
    for (more, wanted, log_likelihood, kind) in [
        (["--scales", "laplace"].as_slice(), [1.0837, 1.0203], -209.277, "ML by Laplace"),
        (["--ml"].as_slice(), [1.1763, 1.1127], -207.597, "ML"),
        (["--scales", "estimate"].as_slice(), [1.1763, 1.1127], -207.597, "ML"),
    ] {
        let output = certus(&[&["fit", "logistic", &file, SALAMANDERS, "--json", "--quiet"], more].concat());
        expect(&output, 0, "");
        let fit: Value = serde_json::from_slice(&output.stdout).unwrap();
        for (found, wanted) in sds(&fit).iter().zip(wanted) {
            assert!((found - wanted).abs() < 0.01, "{more:?}: {found} {wanted}");
        }
        let criterion = &fit["criterion"];
        let found = criterion["log_likelihood"].as_f64().unwrap();
        assert!((found - log_likelihood).abs() < 0.05, "{more:?}: {found}");
        assert_eq!(criterion["kind"], kind);
        assert_eq!(criterion["df"], 6);
        let scale = &fit["certificate"]["scale"];
        assert_eq!(scale["level"], "estimated", "{scale}");
        let words = if kind == "ML" { "importance sampling" } else { "Laplace approximation" };
        assert!(scale["reason"].as_str().unwrap().contains(words), "{scale}");
    }
}

/// Fitted, verified, predicted, sampled and reported from its directory.
#[test]
fn a_directory_is_used_like_any_other() {
    let (dir, file) = (scratch("crossed-directory"), salamanders());
    let out = dir.join("fit");
    let out = out.to_str().unwrap();
    expect(
        &certus(&["fit", "logistic", &file, SALAMANDERS, "--scales", "laplace", "--out", out]),
        0,
        "sd(Female)",
    );
    expect(&certus(&["verify", out]), 0, "");
    expect(&certus(&["report", out]), 0, "");
    let sample = dir.join("draws.csv");
    expect(&certus(&["sample", out, "--draws", "10", "--to", sample.to_str().unwrap()]), 0, "");
    // an estimate has no posterior, and its scales are not known
    let text = std::fs::read_to_string(&sample).unwrap();
    assert!(text.starts_with("# draws of the normal approximation of the likelihood"), "{text}");
    let rows: Vec<&str> = text.lines().filter(|l| !l.starts_with('#')).collect();
    let place = rows[0].split(',').position(|name| name == "sd(Female)").unwrap();
    let cell = |row: &str| row.split(',').nth(place).unwrap().to_string();
    assert!(cell(rows[1]) != cell(rows[2]), "{text}");
    assert!(Path::new(out).join("groups.parquet").exists());
    for groups in ["known", "new", "population"] {
        let to = dir.join(format!("{groups}.csv"));
        let output = certus(&["predict", out, &file, "--groups", groups, "--to", to.to_str().unwrap()]);
        expect(&output, 0, "predictions");
    }
}

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../certus-mixed/tests/data");
    path.join(format!("{name}.csv")).to_str().unwrap().into()
}

fn near(found: &Value, wanted: f64, relative: f64) {
    let found = found.as_f64().unwrap();
    assert!((found - wanted).abs() <= relative * wanted.abs(), "{found} {wanted}");
}

const EPIL: &str = "y ~ lbase4*trtp + lage + visit + (1 + visit | subject)";

/// Correlated effects of one group: the reference values of docs/mixed.md, G1, on the user's scale, and what is proved
/// of them.
#[test]
fn correlated_effects_of_one_group() {
    let fitted = |response: &str, name: &str, formula: &str, more: &[&str]| -> Value {
        let output = certus(&[&["fit", response, &data(name), formula, "--json", "--quiet"], more].concat());
        expect(&output, 0, "");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let fit = fitted("poisson", "epil", EPIL, &["--ml"]);
    let group = &fit["groups"][0];
    near(&group["sd"][0], 0.501034, 1e-5);
    near(&group["sd"][1], 0.736538, 1e-5);
    assert!((group["correlation"][0][1].as_f64().unwrap() - 0.00912).abs() < 1e-4);
    assert_eq!((&fit["criterion"]["kind"], &fit["criterion"]["df"]), (&"ML".into(), &9.into()));
    near(&fit["criterion"]["log_likelihood"], -655.350220, 1e-8);
    let scale = &fit["certificate"]["scale"];
    assert_eq!((&scale["level"], &scale["theorem"]), (&"proved".into(), &"Theorem G2".into()));
    assert!(scale["radius"].as_f64().unwrap() < 1e-6);
    assert!(scale["log_likelihood_error"].as_f64().unwrap() < 1e-7);
    let rows = fit["parameters"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == "lage").unwrap();
    near(&row["mean"], 0.472718, 1e-4);
    near(&row["sd"], 0.353601, 1e-4);
    assert_eq!(fitted("poisson", "epil", EPIL, &["--scales", "estimate"])["criterion"], fit["criterion"]);
    // a singular matrix is fitted and said
    let fit = fitted("logistic", "bacteria", "yy ~ drug + drugp + week + (week | id)", &["--ml"]);
    near(&fit["groups"][0]["sd"][0], 0.597294, 1e-4);
    assert!((fit["groups"][0]["correlation"][0][1].as_f64().unwrap() - 1.0).abs() < 1e-6);
    let reason = fit["certificate"]["scale"]["reason"].as_str().unwrap();
    assert!(reason.contains("singular"), "{reason}");
}

/// Whether a slope varies is tested by the likelihoods of both models, that of one effect included.
#[test]
fn an_intercept_is_compared_with_a_slope() {
    let dir = scratch("contraception");
    let fit = |name: &str, term: &str| {
        let (out, formula) = (dir.join(name), format!("y ~ age + age2 + u + l1 + l2 + l3 + {term}"));
        let out = out.to_str().unwrap().to_string();
        expect(&certus(&["fit", "logistic", &data("contraception"), &formula, "--ml", "--out", &out]), 0, "");
        expect(&certus(&["verify", &out]), 0, "");
        let record: Value =
            serde_json::from_slice(&std::fs::read(Path::new(&out).join("fit.json")).unwrap()).unwrap();
        (out, record)
    };
    let (one, two) = (fit("one", "(1 | id)"), fit("two", "(1 + u | id)"));
    assert_eq!((&one.1["criterion"]["df"], &two.1["criterion"]["df"]), (&8.into(), &10.into()));
    near(&two.1["criterion"]["log_likelihood"], -1180.007741, 1e-8);
    let scale = &one.1["certificate"]["scale"];
    assert_eq!(one.1["criterion"]["log_likelihood"], scale["log_likelihood"]);
    assert_eq!(one.1["groups"][0]["sd"][0], scale["estimate"]);
    let output = certus(&["compare", &one.0, &two.0]);
    expect(&output, 0, "(an equal mixture of chi-squared with 1 and 2 df)");
}

/// Its directory is verified and predicts known groups, new ones and the population.
#[test]
fn correlated_effects_are_used_like_any_other() {
    let (dir, file) = (scratch("correlated-directory"), data("epil"));
    let out = dir.join("fit");
    let out = out.to_str().unwrap();
    let fit = certus(&["fit", "poisson", &file, EPIL, "--ml", "--out", out]);
    expect(&fit, 0, "(proved up to rounding and the quadrature of second and third derivatives, Theorem G2)");
    expect(&certus(&["verify", out]), 0, "");
    expect(&certus(&["report", out]), 0, "");
    for groups in ["known", "new", "population"] {
        let to = dir.join(format!("{groups}.csv"));
        let output = certus(&["predict", out, &file, "--groups", groups, "--to", to.to_str().unwrap()]);
        expect(&output, 0, "predictions");
    }
    // more than three effects and independent ones go the other way, by importance sampling
    let independent = "y ~ lbase4*trtp + lage + visit + (1 + visit || subject)";
    expect(&certus(&["fit", "poisson", &file, independent, "--ml"]), 0, "estimated by a maximum");
}

#[test]
fn what_cannot_be_done_is_refused_with_what_to_type() {
    let file = salamanders();
    let of = |more: &[&str]| certus(&[&["fit", "logistic", &file, SALAMANDERS], more].concat());
    expect(&of(&["--reml"]), 64, "linear models");
    expect(&of(&["--scales", "estimate", "--prior-sd", "2.5"]), 64, "flat priors");
    let one = ["fit", "logistic", &file, "Mate ~ Cross + (1 | Female)", "--scales", "laplace"];
    expect(&certus(&one), 64, "several group effects");
}
