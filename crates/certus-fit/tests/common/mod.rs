//! Folders and fits that several tests need.
#![allow(dead_code, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use certus::{Goal, Outcome};
use certus_fit::record::{Data, Parameter};
use certus_fit::{Meta, Record};
use certus_likelihood::Logistic;
use certus_models::auto::Method;
use certus_models::{Design, Glm, Memory, Prior};

/// A path under the system's folder for temporary files at which nothing is, named after the test's file.
#[track_caller]
pub(crate) fn fresh(name: &str) -> PathBuf {
    let file = Path::new(std::panic::Location::caller().file()).file_stem().unwrap().to_string_lossy();
    let path = std::env::temp_dir().join(format!("certus-fit-{file}-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

/// A logistic regression on data of the repository: 1,000 rows, 10 coefficients.
pub(crate) fn model() -> Glm {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/logit_d10.csv");
    let text = std::fs::read_to_string(path).unwrap();
    let mut rows = Memory { columns: 10, ..Memory::default() };
    let names: Vec<&str> = text.lines().next().unwrap().split(',').collect();
    for line in text.lines().skip(1) {
        for (name, value) in names.iter().zip(line.split(',')) {
            let value = value.parse().unwrap();
            if *name == "y" { rows.y.push(value) } else { rows.x.push(value) }
        }
    }
    let prior = Prior::independent(vec![0.0; 10], &[1.0; 10]).unwrap();
    Glm::new(Design::new(Arc::new(rows), false), Arc::new(Logistic), prior).unwrap()
}

/// Its fit and the record of that.
pub(crate) fn fitted() -> (Outcome, Record) {
    let outcome = certus_models::auto::fit(&model(), &Goal::default(), Method::Auto).unwrap();
    let record = record(&outcome, (1..=10).map(|k| format!("x{k}")).collect());
    (outcome, record)
}

pub(crate) fn record(outcome: &Outcome, names: Vec<String>) -> Record {
    let gaussian = &outcome.gaussian;
    let normals = names.into_iter().zip(gaussian.mean().iter().zip(gaussian.sd()));
    let meta = Meta {
        model: "logistic".into(),
        parameters: normals.map(|(name, (mean, sd))| Parameter::normal(name, *mean, sd)).collect(),
        settings: serde_json::json!({"gap": 0.01, "prior_sd": 0.1 + 0.2, "method": "auto"}),
        seed: u64::MAX,
        data: Data { rows: Some(1000), fingerprint: Some("sha256:00ff".into()), responses: None },
        notes: vec!["the column z is constant and was dropped".into()],
        versions: [("certus".to_string(), "0.1.0".to_string())].into(),
    };
    Record::new(outcome, meta)
}
