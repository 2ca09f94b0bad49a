//! fit.json: the keys of the contract, exact round trips, refusals, and a page of documentation that knows every key.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::common::{fitted, fresh, model, record};
use certus::auto::TracePoint;
use certus::certificate::{Gap, Posterior, Statement};
use certus::diagnostics::Estimate;
use certus::{Goal, Outcome, Provenance, Status};
use certus_fit::record::{GroupEffect, Parameter, RecordedLevel, Scale, ScaleMaximum, Voucher, objective};
use certus_fit::{Checkpoints, ErrorKind, Fingerprint, FitDirectory, Kind, Record};
use certus_models::auto::{Method, ModelState, fit_observed, resume};
use serde_json::Value;

fn keys(value: &Value, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter().filter(|(k, _)| *k != "settings" && *k != "constants") {
                out.insert(key.clone());
                if key != "versions" {
                    keys(value, out);
                }
            }
            out.extend(map.keys().cloned());
        }
        Value::Array(list) => list.iter().for_each(|value| keys(value, out)),
        _ => {}
    }
}

#[test]
fn the_contract_holds() {
    let (outcome, record) = fitted();
    let value: Value = serde_json::from_str(&record.to_json()).unwrap();
    for path in [
        "status",
        "message",
        "neg_elbo",
        "neg_elbo_se",
        "route",
        "schema",
        "k_hat",
        "seconds",
        "settings",
        "seed",
        "versions",
        "data/rows",
        "data/fingerprint",
        "counts/gradients",
        "counts/hessians",
        "counts/exact_passes",
        "certificate/gap/bound",
        "certificate/gap/level",
        "certificate/gap/delta",
        "certificate/gap/theorem",
        "certificate/gap/family",
        "certificate/gap/reason",
        "certificate/gap/assumptions",
        "certificate/gap/constants",
        "certificate/gap/mean_error",
        "certificate/gap/sd_error",
        "certificate/posterior/bound",
        "certificate/posterior/level",
        "certificate/posterior/reason",
        "certificate/posterior/log_evidence",
        "certificate/scale",
        "parameters/0/name",
        "parameters/0/mean",
        "parameters/0/sd",
        "parameters/0/q05",
        "parameters/0/q50",
        "parameters/0/q95",
        "trace/0/seconds",
        "trace/0/iteration",
        "trace/0/gradients",
        "trace/0/neg_elbo",
        "trace/0/bound",
    ] {
        assert!(value.pointer(&format!("/{path}")).is_some(), "{path} is missing in {value}");
    }
    assert_eq!((value["status"].as_str(), value["schema"].as_u64()), (Some("reached"), Some(3)));
    assert_eq!(value["certificate"]["gap"]["level"], "proved");
    assert_eq!(value["certificate"]["posterior"]["level"], "none");
    assert_eq!(value["seed"], u64::MAX);
    assert_eq!(record.parameters.len(), 10);
    // Φ(1.6448536269514722) = 0.95: the quantiles of N(2, 3²)
    let normal = Parameter::normal("a", 2.0, 3.0);
    let expected = [2.0 - 3.0 * 1.644_853_626_951_472, 2.0, 2.0 + 3.0 * 1.644_853_626_951_472];
    for (found, expected) in [normal.q05, normal.q50, normal.q95].into_iter().zip(expected) {
        assert!((found.unwrap() - expected).abs() < 1e-14);
    }
    assert_eq!(record.parameters[3].mean, Some(outcome.gaussian.mean()[3]));
    assert_eq!(record.parameters[3].sd, Some(outcome.gaussian.sd()[3]));
}

fn maximum(estimate: f64, log_objective: f64) -> ScaleMaximum {
    ScaleMaximum { estimate, others: Vec::new(), log_likelihood: -12.5, log_objective }
}

/// Of an sd that was not given.
fn scale() -> Scale {
    let [smallest, largest] = ["a", "b"].map(|group| {
        let group = group.to_string();
        vec![GroupEffect { group, rows: 3, mean: 0.5, sd: 0.1, q05: 0.3, q50: 0.5, q95: 0.7 }]
    });
    Scale {
        name: "sd(g)".into(),
        group: Some("g".into()),
        others: Vec::new(),
        groups: 12,
        scales: "posterior".into(),
        prior: Some("half-normal(2.5)".into()),
        objective: objective(true).into(),
        estimate: Some(0.5),
        log_standard_error: Some(0.2),
        interval: Some([0.49, 0.51]),
        level: RecordedLevel::Proved,
        theorem: Some("Theorem K3".into()),
        reason: None,
        radius: None,
        exclusion: None,
        global: None,
        global_reason: None,
        zero: Vec::new(),
        maxima: vec![maximum(0.5, -15.0), maximum(0.001, -16.5)],
        searched: Some([0.0, 20.0]),
        not_excluded: Some(vec![[0.41, 0.6]]),
        not_excluded_reason: None,
        log_likelihood: Some(-12.5),
        log_likelihood_error: Some(1e-9),
        log_evidence: Some(-14.0),
        nodes: 33,
        refinement: Some(1e-5),
        smallest,
        largest,
    }
}

/// An interval goes with a proof; records of schema 1 have no scale and are read.
#[test]
fn scales_are_consistent() {
    let mut record = fitted().1;
    let text = record.to_json();
    let older = text.replace("\"schema\": 3", "\"schema\": 1").replace(",\n    \"scale\": null", "");
    assert!(older.len() < text.len() - 10, "{text}");
    assert_eq!(Record::from_json(&older).unwrap().certificate.scale, None);
    record.certificate.scale = Some(scale());
    assert_eq!(Record::from_json(&record.to_json()).unwrap(), record);
    for change in [
        (|s| s.level = RecordedLevel::None) as fn(&mut Scale),
        |s| s.level = RecordedLevel::Estimated,
        |s| s.interval = None,
        |s| s.interval = Some([0.6, 0.5]),
        |s| s.interval = Some([-0.1, 0.5]),
    ] {
        let mut other = record.clone();
        change(other.certificate.scale.as_mut().unwrap());
        assert!(Record::from_json(&other.to_json()).unwrap_err().contains("the interval"));
    }
    for change in [(|s| s.estimate = Some(0.001)) as fn(&mut Scale), |s| s.maxima.reverse()] {
        let mut other = record.clone();
        change(other.certificate.scale.as_mut().unwrap());
        assert!(Record::from_json(&other.to_json()).unwrap_err().contains("not the highest"));
    }
}

/// Scales of files from before other maxima were looked for are read, and nothing is said of what they did not know.
#[test]
fn older_scales_are_read() {
    let mut record = fitted().1;
    record.certificate.scale = Some(scale());
    let mut value: Value = serde_json::from_str(&record.to_json()).unwrap();
    let own = value["certificate"]["scale"].as_object_mut().unwrap();
    for key in ["objective", "maxima", "searched", "not_excluded", "not_excluded_reason"] {
        assert!(own.remove(key).is_some(), "{key}");
    }
    let older = Record::from_json(&value.to_string()).unwrap().certificate.scale.unwrap();
    assert_eq!((older.objective.as_str(), older.other_maxima().len()), ("penalised likelihood", 0));
}

/// One function decides what the objective is called, others are named with how much lower they are, and proved ranges
/// are rounded away from each other.
#[test]
fn other_maxima_are_in_words() {
    assert_eq!([true, false].map(objective), ["penalised likelihood", "likelihood"]);
    let mut scale = scale();
    assert_eq!(
        scale.other_maxima(),
        [
            "2 maxima of the penalised likelihood were found; the estimate is the highest, the others are at 0.0010000 \
                (1.5000 nats lower)",
            "in the range 0 to 20.00 every sd(g) outside 0.4100 to 0.6000 has a lower penalised likelihood (proved, \
                Theorem K12)"
        ]
    );
    (scale.not_excluded, scale.objective) = (None, objective(false).into());
    scale.maxima.truncate(1);
    scale.not_excluded_reason = Some("there are many rows".into());
    let words =
        "searched from 0 to 20.00; other maxima of the likelihood are not excluded: there are many rows";
    assert_eq!(scale.other_maxima(), [words]);
    for ends in
        [[0.478_542_4, 0.478_578_6], [1.1e-5, 1.2e-5], [0.1, 0.3], [1.0 / 3.0, 2.0 / 3.0], [123.456, 1e5]]
    {
        scale.interval = Some(ends);
        let (low, high) = scale.ends().unwrap();
        let [low, high] = [low, high].map(|text| text.parse::<f64>().unwrap());
        assert!(low <= ends[0] && ends[1] <= high, "{ends:?} {low} {high}");
        assert!(ends[0] - low <= 1.1e-6 && high - ends[1] <= 1.1e-6, "{ends:?} {low} {high}");
    }
}

#[test]
fn every_key_is_documented() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fit-json.md")).unwrap();
    let (outcome, _) = fitted();
    let mut own = record(&strange(outcome), names());
    own.certificate.scale = Some(scale());
    let value: Value = serde_json::from_str(&own.to_json()).unwrap();
    let mut found = BTreeSet::new();
    keys(&value, &mut found);
    assert!(found.len() >= 45, "{found:?}");
    for key in found {
        assert!(page.contains(&format!("`{key}`")), "docs/fit-json.md says nothing about `{key}`");
    }
}

#[test]
fn it_comes_back_to_the_bit() {
    let (outcome, record) = fitted();
    let directory = FitDirectory::create(&fresh("record"), false).unwrap();
    record.write(&directory).unwrap();
    directory.commit(false).unwrap();
    let back = Record::read(&FitDirectory::open(directory.path()).unwrap()).unwrap();
    assert_eq!(back, record);
    assert_eq!(back.to_json(), record.to_json());
    for (i, parameter) in back.parameters.iter().enumerate() {
        assert_eq!(parameter.mean.unwrap().to_bits(), outcome.gaussian.mean()[i].to_bits());
    }
    // numbers whose shortest decimals are hard to read back
    let mut record = record;
    for x in [
        2.225_073_858_507_201e-308,
        5e-324,
        1.797_693_134_862_315_7e308,
        -0.0,
        9_007_199_254_740_993.0,
        0.1 + 0.2,
    ] {
        record.neg_elbo = Some(x);
        let back = Record::from_json(&record.to_json()).unwrap();
        assert_eq!(back.neg_elbo.unwrap().to_bits(), f64::to_bits(x));
    }
    assert_eq!(back.settings["prior_sd"].as_f64().unwrap().to_bits(), (0.1f64 + 0.2).to_bits());
}

fn names() -> Vec<String> {
    (0..10).map(|k| format!("x{k}")).collect()
}

/// An outcome with everything that a fit of a model does not have.
fn strange(mut outcome: Outcome) -> Outcome {
    let word = Provenance::DeclaredByUser("I know".into());
    let word = word.vouched().unwrap();
    outcome.status = Status::AssumptionViolated;
    outcome.neg_elbo = Estimate { value: f64::NAN, standard_error: f64::INFINITY };
    outcome.certificate.gap = Gap {
        statement: Statement::probable("G1", 0.5, 0.01, &word, "μ and M")
            .with("mu", 0.25)
            .with("mu", 7.0)
            .with("bad", f64::INFINITY)
            .because("of something"),
        family: "all Gaussians".into(),
        mean_error: Some(f64::NAN),
        sd_error: Some(0.5),
    };
    outcome.certificate.posterior = Posterior {
        statement: Statement::estimated("k-hat", 0.1, "draws"),
        log_evidence: Some((-3.5, -3.25)),
        mean_error: None,
        sd_error: Some(f64::INFINITY),
    };
    outcome.k_hat = Some(f64::INFINITY);
    let elapsed = std::time::Duration::from_millis(1500);
    let point = TracePoint {
        elapsed,
        iteration: 4,
        gradients: 9,
        neg_elbo: Some(f64::NAN),
        bound: Some(f64::INFINITY),
        level: certus::certificate::Level::None,
    };
    outcome.trace = vec![point];
    outcome
}

#[test]
fn what_is_not_finite_is_null_and_levels_keep_their_delta() {
    let record = record(&strange(fitted().0), names());
    assert_eq!((record.neg_elbo, record.neg_elbo_se, record.k_hat), (None, None, None));
    let (gap, posterior) = (&record.certificate.gap, &record.certificate.posterior);
    assert_eq!((gap.level, gap.delta, gap.bound), (RecordedLevel::Probable, Some(0.01), Some(0.5)));
    assert_eq!(gap.constants["mu"], Some(0.25), "the first of a name counts");
    assert_eq!((gap.constants["bad"], gap.mean_error, gap.sd_error), (None, None, Some(0.5)));
    assert_eq!(
        (gap.assumptions[0].by, gap.assumptions[0].reason.as_deref()),
        (Voucher::User, Some("I know"))
    );
    assert_eq!((posterior.level, posterior.delta), (RecordedLevel::Estimated, None));
    assert_eq!((posterior.log_evidence, posterior.sd_error), (Some([-3.5, -3.25]), None));
    assert_eq!((record.trace[0].seconds, record.trace[0].neg_elbo, record.trace[0].bound), (1.5, None, None));
    assert_eq!(Record::from_json(&record.to_json()).unwrap(), record);
}

#[test]
fn other_files_are_refused_with_a_reason() {
    let text = fitted().1.to_json();
    for (from, to, reason) in [
        ("\"schema\": 3", "\"schema\": 4", "schema 4"),
        ("\"model\"", "\"modle\"", "modle"),
        ("\"status\": \"reached\"", "\"status\": \"fine\"", "unknown status \"fine\""),
        ("\"level\": \"proved\"", "\"level\": \"certain\"", "certain"),
        ("\"level\": \"proved\"", "\"level\": \"none\"", "the bound"),
        ("\"level\": \"proved\"", "\"level\": \"probable\"", "the delta"),
        ("\"delta\": null", "\"delta\": 0.5", "the delta"),
        ("\"gradients\"", "\"gradiants\"", "gradiants"),
        ("\"seconds\"", "\"secs\"", "secs"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = Record::from_json(&text.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(reason), "{from} → {to}: {error}");
    }
    for length in (0..text.len() - 2).step_by(7) {
        assert!(Record::from_json(&text[..length]).is_err());
    }
    let directory = FitDirectory::create(&fresh("refused"), false).unwrap();
    assert_eq!(Record::read(&directory).unwrap_err().kind(), ErrorKind::NotFound);
    directory.write("fit.json", &[0xff, 0xfe]).unwrap();
    directory.commit(false).unwrap();
    let directory = FitDirectory::open(directory.path()).unwrap();
    assert_eq!(Record::read(&directory).unwrap_err().kind(), ErrorKind::Data);
}

/// A run is interrupted after each of its first steps, saved, and goes on in another process: the same bits, and one
/// record.
#[test]
fn a_fit_goes_on_from_its_checkpoint() {
    let (model, goal) = (model(), Goal { gap: 1e-4, ..Goal::default() });
    let whole = certus_models::auto::fit(&model, &goal, Method::Stochastic).unwrap();
    let directory = FitDirectory::create(&fresh("resume"), false).unwrap();
    let fingerprint = Fingerprint::of([b"settings".as_slice()]);
    let mut state = ModelState::new(&model, &goal, Method::Stochastic).unwrap();
    let mut memory = Default::default();
    (0..3).for_each(|_| state.step(&model, &goal, &mut memory).unwrap());
    Checkpoints::new(&directory, Kind::Model, fingerprint).write(&state.encode()).unwrap();
    let latest = Checkpoints::new(&directory, Kind::Model, fingerprint).latest().unwrap();
    let state = ModelState::decode(&latest.checkpoint.state, &model, &goal).unwrap();
    let resumed = resume(&model, &goal, state, &mut |_, _| ControlFlow::Continue(())).unwrap();
    assert_eq!(resumed.gaussian, whole.gaussian);
    // the record of the second run continues that of the first
    let mut steps = 0;
    let first = fit_observed(&model, &goal, Method::Stochastic, &mut |_, _| {
        steps += 1;
        if steps == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let (first, second) = (record(&first.unwrap(), names()), record(&resumed, names()));
    let joined = second.clone().after(&first);
    assert_eq!(joined.seconds, first.seconds + second.seconds);
    assert!(joined.trace.is_sorted_by(|a, b| a.iteration < b.iteration && a.seconds <= b.seconds));
    assert_eq!(joined.trace.last().unwrap().bound, whole.trace.last().unwrap().bound);
    assert_eq!(joined.counts, second.counts);
}
