//! `certus plan` and `--steps`: printed numbers against the Rust API and the paper's formulas, runs against `planned`,
//! and refused combinations.
#![allow(clippy::unwrap_used)]
#![cfg(feature = "scan")]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{certus, expect, scratch};
use certus::theorem::Constants;
use certus::{Goal, MethodName, StepRule, Target};
use certus_data::{FileSource, Spec, Storage};
use certus_fit::{Problem, Request};
use certus_likelihood::Logistic;
use certus_likelihood::Response;
use certus_models::auto::{PlannedMethod, planned};
use certus_models::{Design, Glm, Memory, Prior};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data").join(name)
}

/// logit_d10 as its authors give it, built from the file without certus-data.
fn logit_d10() -> Glm {
    let text = std::fs::read_to_string(data("logit_d10.csv")).unwrap();
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let mut rows = Memory { columns: 10, ..Memory::default() };
    for line in lines {
        for (name, value) in names.iter().zip(line.split(',')) {
            if *name == "y" { &mut rows.y } else { &mut rows.x }.push(value.parse().unwrap());
        }
    }
    let prior = Prior::independent(vec![0.0; 10], &[1.0; 10]).unwrap();
    Glm::new(Design::new(Arc::new(rows), false), Arc::new(Logistic), prior).unwrap()
}

const AS_GIVEN: [&str; 6] = ["--response", "y", "--no-intercept", "--no-standardise", "--prior-sd", "1"];

fn run(command: &str, more: &[&str]) -> std::process::Output {
    let path = data("logit_d10.csv");
    let mut arguments = vec![command, "logistic", path.to_str().unwrap()];
    arguments.extend(AS_GIVEN);
    arguments.extend(more);
    certus(&arguments)
}

fn text(output: &std::process::Output) -> String {
    expect(output, 0, "");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(output: &std::process::Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The row of a method in the table of iterations.
fn row<'a>(text: &'a str, method: &str) -> Vec<&'a str> {
    let table = text.split("\niterations ").nth(1).unwrap();
    let line = table.lines().find(|l| l.trim_start().starts_with(&format!("{method} "))).unwrap();
    line.split_whitespace().skip(1).collect()
}

/// The three counts of logit_d10 stand side by side and are those of the Rust API; so is the paper's own.
#[test]
fn counts_are_those_of_the_api() {
    let model = logit_d10();
    let start = certus_models::laplace(&model).unwrap().gaussian;
    let api = model.iterations_to(&start, 0.01, 10).unwrap();
    let shown = text(&run("plan", &[]));
    let stl = row(&shown, "proj-stl");
    assert_eq!(stl[0], api.paper.unwrap().to_string(), "{shown}");
    assert_eq!(stl[1], api.sharp.unwrap().to_string(), "{shown}");
    assert_eq!(*row(&shown, "ball-stl").last().unwrap(), api.local.clone().unwrap().to_string(), "{shown}");
    let with_b4 = shown.lines().find(|l| l.contains("(B4)")).unwrap().rsplit(' ').next().unwrap();
    assert_eq!(with_b4, api.with_b4.unwrap().to_string(), "{shown}");
    let near = |count: &str, wanted: f64| (count.parse::<f64>().unwrap() / wanted - 1.0).abs() < 0.05;
    assert!(near(with_b4, 1.1e10) && near(stl[1], 5.2e8) && api.local == Ok(595), "{shown}");
    // a larger gap takes fewer, by the same function
    let more = text(&run("plan", &["--gap", "0.1"]));
    let api = model.iterations_to(&start, 0.1, 10).unwrap();
    assert_eq!(row(&more, "proj-stl")[1], api.sharp.unwrap().to_string());
    assert_eq!(*row(&more, "ball-stl").last().unwrap(), api.local.unwrap().to_string());
    // what a prox does not bound is said
    assert!(row(&shown, "prox-energy")[0] == "none" && shown.contains("and not the gap"), "{shown}");
    // the lines that were there before
    for what in ["rows ", "response ", "coefficients ", "latents ", "prior ", "goal ", "route ", "cost "] {
        assert!(shown.lines().any(|l| l.starts_with(what)), "{what}: {shown}");
    }
}

/// The printed step sizes are the paper's formulas, computed here from M, d and B alone; text and JSON agree.
#[test]
fn printed_steps_are_the_papers() {
    let m = logit_d10().curvature().unwrap().smoothness();
    let (d, mu) = (10.0, 1.0);
    for batch in [1.0, 10.0] {
        for (method, a, factor) in [
            ("prox-energy", 2.0 * m * m * (1.0 + (d + 2.0) / batch), 1.0),
            ("proj-entropy", 4.0 * m * m * (1.0 - 1.0 / batch) + 4.0 * (d + 3.0) * m * m / batch, 2.0),
            ("proj-stl", 4.0 * m * m * (1.0 - 1.0 / batch) + 24.0 * (d + 3.0) * m * m / batch, 2.0),
        ] {
            let b = format!("{batch}");
            let more = [
                "--method",
                method,
                "--steps",
                "paper",
                "--batch",
                &b,
                "--iterations",
                "1000000000",
                "--json",
            ];
            let plan = json(&run("plan", &more));
            let run = &plan["theorems"]["run"];
            assert_eq!((run["method"].as_str(), run["constants"].as_str()), (Some(method), Some("paper")));
            let close = |value: &serde_json::Value, wanted: f64| {
                let value = value.as_f64().unwrap();
                assert!(
                    (value / wanted - 1.0).abs() < 1e-9,
                    "{method} B = {batch}: {value} against {wanted}"
                );
            };
            close(&run["numbers"][0]["value"], a);
            close(&run["first_step"], (mu / (2.0 * a)).min(factor / mu));
            let t = 1e9 - 1.0;
            close(
                &run["last_step"],
                (mu / (2.0 * a)).min(factor / mu * (2.0 * t + 1.0) / ((t + 1.0) * (t + 1.0))),
            );
            let shown = text(&self::run("plan", &more[..8]));
            let line = shown.lines().find(|l| l.starts_with("run ")).unwrap();
            let first: f64 =
                line.split("first ").nth(1).unwrap().split([',', ';']).next().unwrap().parse().unwrap();
            assert!((first / (mu / (2.0 * a)).min(factor / mu) - 1.0).abs() < 1e-5, "{line}");
        }
    }
}

/// Every step rule of every method through flags and through TOML: the bits of `planned`, and the promise of the plan.
#[test]
fn runs_are_those_of_the_api() {
    let goal = Goal { seed: 2, ..Goal::default() };
    let mut spec = Spec::new("y", Response::Logistic);
    (spec.intercept, spec.standardise) = (false, false);
    let request = Request { prior_sd: 1.0, ..Request::new(spec) };
    let source = FileSource::open(&[data("logit_d10.csv")], certus_data::FileOptions::default()).unwrap();
    let problem = Problem::new(&source, &request, &Storage::default()).unwrap();
    let model = problem.model().unwrap();
    let dir = scratch("steps");
    for (name, method) in [
        ("prox-energy", MethodName::ProxEnergy),
        ("proj-entropy", MethodName::ProjEntropy),
        ("proj-stl", MethodName::ProjStl),
        ("prox-cv", MethodName::ProxCv),
        ("ball-stl", MethodName::BallStl),
    ] {
        let own = matches!(method, MethodName::ProxCv | MethodName::BallStl);
        for (steps, rule, constants) in [
            (None, StepRule::Auto, None),
            (Some("greedy"), StepRule::Greedy, None),
            (Some("horizon"), StepRule::Horizon, Some("sharp")),
            (Some("decaying"), StepRule::Decaying, None),
            (Some("decaying"), StepRule::Decaying, Some("paper")),
            (Some("paper"), StepRule::Paper, None),
        ] {
            let paper = constants == Some("paper") || steps == Some("paper");
            if own && paper {
                continue;
            }
            let constant = if paper { Constants::Paper } else { Constants::Sharp };
            let chosen = PlannedMethod { method, constants: constant, steps: rule, batch: 3, iterations: 25 };
            let wanted = planned(model, &goal, &chosen, None, &mut |_, _| ControlFlow::Continue(())).unwrap();
            let mut more = vec!["--method", name, "--batch", "3", "--iterations", "25", "--seed", "2"];
            more.extend(["--json", "--quiet"]);
            let mut toml = String::new();
            for (key, word) in [("steps", steps), ("constants", constants)] {
                let Some(word) = word else { continue };
                toml.push_str(&format!("{key} = \"{word}\"\n"));
            }
            let config = dir.join("steps.toml");
            std::fs::write(&config, &toml).unwrap();
            let by_file: Vec<&str> =
                more.iter().copied().chain(["--config", config.to_str().unwrap()]).collect();
            let mut by_flags = more.clone();
            if let Some(steps) = steps {
                by_flags.extend(["--steps", steps]);
            }
            if let Some(constants) = constants {
                by_flags.extend(["--constants", constants]);
            }
            for arguments in [by_file, by_flags] {
                let fit = json(&run("fit", &arguments));
                let means: Vec<f64> = fit["parameters"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|p| p["mean"].as_f64().unwrap())
                    .collect();
                assert_eq!(means, wanted.gaussian.mean(), "{chosen:?}");
                assert_eq!(fit["neg_elbo"].as_f64(), Some(wanted.neg_elbo.value));
                assert_eq!(fit["route"].as_str(), Some(wanted.route.as_str()));
                assert_eq!(fit["settings"]["steps"].as_str(), steps);
            }
        }
    }
}

/// What contradicts itself is refused with the reason, before data are read.
#[test]
fn refused_steps() {
    for (more, words) in [
        (vec!["--steps", "paper"], "steps applies only to the paper's methods"),
        (vec!["--steps", "greedy", "--method", "exact"], "steps applies only to the paper's methods"),
        (vec!["--steps", "decaying", "--method", "stochastic"], "steps applies only to the paper's methods"),
        (vec!["--steps", "horizon", "--method", "subsampled"], "subsampled"),
        (vec!["--steps", "paper", "--method", "proj-stl", "--constants", "sharp"], "constants are 'sharp'"),
        (
            vec!["--steps", "paper", "--method", "prox-energy", "--constants", "local"],
            "constants are 'local'",
        ),
        (vec!["--steps", "paper", "--method", "ball-stl"], "not in the paper"),
        (vec!["--steps", "paper", "--method", "prox-cv"], "not in the paper"),
        (vec!["--steps", "fast", "--method", "prox-cv"], "invalid value 'fast'"),
    ] {
        for command in ["fit", "plan"] {
            let mut arguments = vec![command, "logistic", "no-such-file.csv", "--response", "y"];
            arguments.extend(&more);
            expect(&certus(&arguments), 64, words);
        }
    }
    let flat = ["--prior-sd", "inf", "--method", "prox-energy", "--steps", "decaying"];
    let path = data("logit_d10.csv");
    let mut arguments = vec!["fit", "logistic", path.to_str().unwrap(), "--response", "y", "--no-intercept"];
    arguments.extend(flat);
    expect(&certus(&arguments), 64, "not strongly convex everywhere (μ = 0");
    // the paper's steps need no distance to the optimum; nothing is promised, with the reason, and the end is certified
    // all the same
    *arguments.last_mut().unwrap() = "paper";
    arguments.extend(["--iterations", "20", "--json", "--quiet"]);
    let fit = json(&certus(&arguments));
    assert!(fit["route"].as_str().unwrap().contains("nothing was promised in advance: μ = 0"), "{fit}");
    assert_eq!(fit["parameters"].as_array().unwrap().len(), 10);
}

/// Other models: closed lines, groups, counts without M, flat priors, scales that are not given, and mean field.
#[test]
fn plans_of_other_models() {
    let of = |name: &str, model: &str, more: &[&str]| {
        let path = data(&format!("{name}.csv"));
        let mut arguments = vec!["plan", model, path.to_str().unwrap(), "--response", "y"];
        arguments.extend(more);
        text(&certus(&arguments))
    };
    let as_given = ["--no-intercept", "--no-standardise", "--prior-sd", "1"];
    // a Gaussian posterior: κ is what it is, and every method has its theorem
    let linear = of("lin_d10", "linear", &[&as_given[..], &["--sigma", "1"]].concat());
    assert!(row(&linear, "proj-stl")[1].parse::<u64>().unwrap() > 0, "{linear}");
    assert!(row(&linear, "ball-stl").last().unwrap().parse::<u64>().is_ok(), "{linear}");
    // groups: the prox runs on the pattern, and there is no ball
    let grouped = of(
        "hier_logit",
        "logistic",
        &[&as_given[..], &["--group", "group:: *", "--group-sd", "1", "--features", "x0,x1,x2,x3,x4"]]
            .concat(),
    );
    assert!(grouped.contains("c_P−1") && grouped.contains("known for dense factors only"), "{grouped}");
    assert!(row(&grouped, "proj-stl")[0].parse::<u64>().is_ok(), "{grouped}");
    // Poisson: no M, but a ball
    let dir = scratch("counts");
    let counts = dir.join("counts.csv");
    let rows: String = (0..60).map(|i| format!("{},{}\n", i % 4, f64::from(i % 7) / 3.0)).collect();
    std::fs::write(&counts, format!("y,x\n{rows}")).unwrap();
    let counts = counts.to_str().unwrap();
    let poisson = text(&certus(&["plan", "poisson", counts, "--response", "y"]));
    assert!(poisson.contains("curvature     none: there is no M"), "{poisson}");
    assert_eq!(row(&poisson, "proj-entropy")[0], "none", "{poisson}");
    assert!(row(&poisson, "ball-stl").last().unwrap().parse::<u64>().is_ok(), "{poisson}");
    // a flat prior: μ = 0; the paper's steps are 1/√(aT), and nothing is promised
    let flat = of("logit_d10", "logistic", &["--prior-sd", "inf", "--intercept-prior-sd", "inf"]);
    assert!(flat.contains("μ = 0") && flat.contains("prox, convex (paper)"), "{flat}");
    assert!(row(&flat, "proj-stl")[0] == "none" && row(&flat, "proj-stl")[2] == "none", "{flat}");
    // scales that are not given, and independent coefficients, have no theorem here
    let unknown = of("lin_d10", "linear", &[]);
    assert!(unknown.contains("theorem       none: a scale of the model is not given"), "{unknown}");
    let diagonal = of("logit_d10", "logistic", &["--factor", "diagonal"]);
    assert!(diagonal.contains("theorem       none: the paper's methods do not support"), "{diagonal}");
}
