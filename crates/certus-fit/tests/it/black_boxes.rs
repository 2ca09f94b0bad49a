//! NUTS on black boxes: what it says against closed forms, when it runs, and what stops it.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU64, Ordering};

use certus::auto::Verdict;
use certus::error::TargetError;
use certus::fit::Status;
use certus::target::PointTarget;
use certus::{Goal, Outcome, auto};
use certus_fit::record::{Parameter, Source};
use certus_fit::verify::{Stored, check_black_box};
use certus_fit::{Fit, FitDirectory, PosteriorChoice, PosteriorTable, Settings};

/// The logarithms of gamma variables of shapes 1 and 2.
struct LogGamma {
    calls: AtomicU64,
    /// Errors from this call on.
    fails: u64,
}

impl LogGamma {
    fn new() -> Self {
        Self { calls: AtomicU64::new(0), fails: u64::MAX }
    }
}

impl PointTarget for LogGamma {
    fn dim(&self) -> usize {
        2
    }

    fn log_density_at(&self, z: &[f64], g: &mut [f64]) -> Result<f64, TargetError> {
        if self.calls.fetch_add(1, Ordering::Relaxed) >= self.fails {
            return Err("out of order".into());
        }
        (g[0], g[1]) = (1.0 - z[0].exp(), 2.0 - z[1].exp());
        Ok(z[0] + 2.0 * z[1] - z[0].exp() - z[1].exp())
    }
}

/// ψ(a) and the root of ψ′(a), of shapes 1 and 2.
fn truth() -> [(f64, f64); 2] {
    let (euler, basel) = (0.577_215_664_901_532_9, std::f64::consts::PI.powi(2) / 6.0);
    [(-euler, basel.sqrt()), (1.0 - euler, (basel - 1.0).sqrt())]
}

const NUTS: PosteriorChoice = PosteriorChoice::Only(Source::Nuts);

fn sampled(choice: PosteriorChoice, goal: &Goal, here: bool) -> (Outcome, Option<PosteriorTable>) {
    let target = LogGamma::new();
    let mut outcome = auto(&target, goal).unwrap();
    let table = PosteriorTable::sampled(&mut outcome, &target, choice, goal, here);
    assert_eq!(outcome.counts.gradients, target.calls.into_inner());
    (outcome, table)
}

#[test]
fn unreliable_numbers_are_sampled() {
    let goal = Goal { threads: Some(1), ..Goal::default() };
    let (outcome, table) = sampled(PosteriorChoice::Auto, &goal, true);
    let table = table.expect("chains");
    let comparison = outcome.comparison.as_ref().unwrap();
    assert_eq!(
        (comparison.verdict, outcome.status.clone()),
        (Verdict::Accurate, Status::Reached),
        "{outcome}"
    );
    for words in [
        "accurate: 4000 NUTS draws of 4 chains, R-hat at most ",
        "no divergences",
        "q itself is unreliable: ",
    ] {
        assert!(outcome.message.contains(words), "{}", outcome.message);
    }
    for (row, (mean, sd)) in table.marginals.iter().zip(truth()) {
        // the errors are 2.6 standard errors
        assert!((row.mean - mean).abs() < 2.0 * row.mean_error * row.sd, "{row:?} {mean}");
        assert!((row.sd - sd).abs() < 2.0 * row.sd_error * row.sd, "{row:?} {sd}");
        assert!(row.mean_error < 0.15 && row.sd_error < 0.15, "{row:?}");
    }
    // the same bits on any number of threads
    let (_, again) = sampled(PosteriorChoice::Auto, &Goal { threads: Some(2), ..Goal::default() }, false);
    assert_eq!(again.as_ref(), Some(&table));
    // what was asked for
    let (_, asked) = sampled(NUTS, &goal, true);
    assert_eq!(asked.as_ref(), Some(&table));
    let (outcome, none) = sampled(PosteriorChoice::Only(Source::Gaussian), &goal, true);
    assert_eq!((none, outcome.comparison.unwrap().verdict), (None, Verdict::Unreliable));
    let (outcome, table) = sampled(NUTS, &Goal { accuracy: Some(1e-3), ..goal }, true);
    assert!(table.is_some() && outcome.status == Status::Limit, "{outcome}");
}

#[test]
fn limits_hold_for_chains() {
    let goal = Goal { threads: Some(1), max_gradients: Some(30_000), ..Goal::default() };
    let (outcome, table) = sampled(PosteriorChoice::Auto, &goal, true);
    assert!(table.is_none() && outcome.status == Status::Limit, "{outcome}");
    assert!(
        outcome.message.contains("NUTS was not run: it takes about 60000 gradients"),
        "{}",
        outcome.message
    );
    // the last call is refused, and does not reach the target
    let target = LogGamma::new();
    let mut outcome = auto(&target, &goal).unwrap();
    assert!(PosteriorTable::sampled(&mut outcome, &target, NUTS, &goal, true).is_none());
    assert_eq!((outcome.counts.gradients, target.calls.into_inner()), (30_000, 30_000));
    assert!(
        outcome.message.contains("did not end: the limit of gradients was reached"),
        "{}",
        outcome.message
    );
    assert_eq!(outcome.comparison.unwrap().verdict, Verdict::Unreliable);
    assert!(outcome.error.is_none());
}

#[test]
fn errors_of_the_target_come_back() {
    let goal = Goal { threads: Some(1), ..Goal::default() };
    let mut target = LogGamma::new();
    let mut outcome = auto(&target, &goal).unwrap();
    target.fails = target.calls.load(Ordering::Relaxed) + 1000;
    assert!(PosteriorTable::sampled(&mut outcome, &target, NUTS, &goal, true).is_none());
    assert!(
        matches!(outcome.error.as_deref(), Some(certus::Error::Target(e)) if e.to_string() == "out of order")
    );
}

/// Two modes: chains are not asked for their shares.
struct Hills;

impl PointTarget for Hills {
    fn dim(&self) -> usize {
        1
    }

    fn log_density_at(&self, z: &[f64], g: &mut [f64]) -> Result<f64, TargetError> {
        let [a, b] = [-4.0, 4.0].map(|m| -0.5 * (z[0] - m) * (z[0] - m));
        let total = a.max(b) + (-(a - b).abs()).exp().ln_1p();
        g[0] = (a - total).exp() * (-4.0 - z[0]) + (b - total).exp() * (4.0 - z[0]);
        Ok(total)
    }
}

#[test]
fn chains_do_not_excuse_a_missed_mode() {
    let goal = Goal { threads: Some(1), start: Some(vec![3.5]), ..Goal::default() };
    for choice in [PosteriorChoice::Auto, NUTS] {
        let mut outcome = auto(&Hills, &goal).unwrap();
        let table = PosteriorTable::sampled(&mut outcome, &Hills, choice, &goal, true);
        assert!(choice == NUTS || table.is_none());
        let comparison = outcome.comparison.as_ref().unwrap();
        assert_eq!((comparison.verdict, comparison.modes.missed), (Verdict::Unreliable, 1), "{outcome}");
        assert_eq!(outcome.status, Status::Limit);
        assert!(outcome.message.contains("one of several modes"), "{}", outcome.message);
    }
}

#[test]
fn a_stored_fit_with_chains_is_checked() {
    let goal = Goal { threads: Some(1), ..Goal::default() };
    let (outcome, table) = sampled(PosteriorChoice::Auto, &goal, true);
    let (mean, sds) = (outcome.gaussian.mean().to_vec(), outcome.gaussian.sd());
    let names = ["x", "y"];
    let parameters = (0..2).map(|i| Parameter::normal(names[i], mean[i], sds[i])).collect();
    let settings = Settings::default();
    let fit =
        Fit::of_target(outcome, names.map(String::from).to_vec(), parameters, &settings, table).unwrap();
    assert_eq!(fit.record.table.as_ref().unwrap().source, Source::Nuts);
    let out = std::env::temp_dir().join(format!("certus-black-boxes-{}", std::process::id()));
    fit.write(&FitDirectory::create(&out, true).unwrap(), true).unwrap();
    let stored = Stored::read(&FitDirectory::open(&out).unwrap()).unwrap();
    let report = check_black_box(&stored);
    assert!(report.refuted.is_empty(), "{:?}", report.refuted);
    // the verdict follows from the chains
    let path = out.join("fit.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["table"]["constants"]["divergences"] = 3.0.into();
    std::fs::write(&path, json.to_string()).unwrap();
    certus_fit::rewrite_manifest(&out).unwrap();
    let stored = Stored::read(&FitDirectory::open(&out).unwrap()).unwrap();
    assert!(!check_black_box(&stored).refuted.is_empty());
    std::fs::remove_dir_all(&out).unwrap();
}
