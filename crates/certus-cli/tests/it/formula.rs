//! Formulas on the command line: the same fits as with flags, and what is refused with which words.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use serde_json::Value;

use crate::common::{certus, expect, scratch};

/// Workers on machines, with a count, an exposure, and names that need backquotes.
fn table(dir: &Path) -> String {
    let mut text = String::from("y,x,z,arm,worker,site,rate,x:z\n");
    for i in 0..90_u32 {
        // a fixed sequence without a pattern that the model could fit
        let noise = f64::from((i * 7919 + 13) % 101) / 101.0;
        let (x, z) = (f64::from(i % 9), f64::from((i * 5) % 7));
        let y = 1.0 + 0.3 * x - 0.2 * z + f64::from(i % 6) * 0.4 + noise;
        let (arm, worker, site) = (["a", "b", "c"][i as usize % 3], i / 15, ["n", "s"][i as usize / 45]);
        text.push_str(&format!("{y},{x},{z},{arm},w{worker},{site},{},{}\n", noise / 3.0, x * z));
    }
    let path = dir.join("table.csv");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().into()
}

/// The fit without times, settings and notes on the settings.
fn fitted(arguments: &[&str]) -> Value {
    let output = certus(&[&["fit", "linear"], arguments, &["--json", "--quiet"]].concat());
    expect(&output, 0, "");
    let mut record: Value = serde_json::from_slice(&output.stdout).unwrap();
    for key in ["seconds", "settings", "trace", "versions"] {
        record.as_object_mut().unwrap().remove(key);
    }
    record
}

#[test]
fn a_formula_is_the_fit_of_the_flags() {
    let dir = scratch("formula-flags");
    let file = table(&dir);
    let known: &[&str] = &["--sigma", "0.5", "--group-sd", "0.4"];
    for (formula, more, flags) in [
        ("y ~ x + z", &[][..], &["--features", "x,z"][..]),
        ("y ~ x*arm", &[], &["--features", "x,arm,x:arm"]),
        ("y ~ 0 + x", &[], &["--features", "x", "--no-intercept"]),
        ("y ~ x + offset(rate)", &[], &["--features", "x", "--offset", "rate"]),
        ("y ~ x + (1 | worker)", &[], &["--features", "x", "--group", "worker"]),
        ("y ~ x + (0 + x | worker)", &[], &["--features", "x", "--group", "worker: 0,x"]),
        ("y ~ x + (x || worker)", known, &["--features", "x", "--group", "worker:: x"]),
        ("y ~ x + (1 | worker) + (0 + x | worker)", known, &["--features", "x", "--group", "worker:: x"]),
        ("y ~ x + (1 | site/worker)", known, &["--features", "x", "--group", "site/worker"]),
        ("y ~ x + (1 | worker:site) + (1 | site)", known, &["--features", "x", "--group", "site/worker"]),
        (
            "y ~ x + (1 | worker) + (1 | arm)",
            known,
            &["--features", "x", "--group", "worker", "--group", "arm"],
        ),
    ] {
        let own = fitted(&[&[file.as_str(), formula], more].concat());
        let theirs = fitted(&[&[file.as_str(), "--response", "y"], flags, more].concat());
        assert_eq!(own, theirs, "{formula}");
    }
}

#[test]
fn names_intercepts_and_pairs() {
    let dir = scratch("formula-names");
    let file = table(&dir);
    let names = |formula: &str, more: &[&str]| -> Vec<String> {
        let record = fitted(&[&[file.as_str(), formula, "--sigma", "0.5"], more].concat());
        let name = |p: &Value| p["name"].as_str().unwrap().to_string();
        record["parameters"].as_array().unwrap().iter().map(name).collect()
    };
    assert_eq!(names("y ~ 1", &[]), ["(Intercept)"]);
    assert_eq!(names("y ~ `x:z`", &[]), ["(Intercept)", "x:z"]);
    // as in R: a level without a feature of its own only where the rest of the term is in the model
    assert_eq!(names("y ~ x:arm", &[]), ["(Intercept)", "x:arm[a]", "x:arm[b]", "x:arm[c]"]);
    assert_eq!(
        names("y ~ 0 + arm + arm:x", &[]),
        ["arm[a]", "arm[b]", "arm[c]", "arm[a]:x", "arm[b]:x", "arm[c]:x"]
    );
    assert_eq!(names("y ~ arm + arm:x", &[])[3..], ["arm[a]:x", "arm[b]:x", "arm[c]:x"]);
    let pairs = names("y ~ arm + (1 | worker) + (1 | worker:arm)", &["--group-sd", "0.4"]);
    assert!(pairs.contains(&"(Intercept)[worker/arm=w0/a]".to_string()), "{pairs:?}");
    let pairs = names("y ~ arm + (1 | worker:arm)", &["--group-sd", "worker:arm=0.4"]);
    assert!(pairs.contains(&"(Intercept)[worker:arm=w0/a]".to_string()), "{pairs:?}");
    let alone = certus(&["fit", "linear", &file, "y ~ 1 + (1 | worker)", "--quiet", "--json"]);
    expect(&alone, 0, "sd(worker)");
}

#[test]
fn the_formula_is_kept_and_resumed_commands_read_it() {
    let dir = scratch("formula-kept");
    let file = table(&dir);
    let (out, config) = (dir.join("fit"), dir.join("fit.toml"));
    let (out, written) = (out.to_str().unwrap(), config.to_str().unwrap());
    std::fs::write(&config, format!("model = \"linear\"\ndata = {file:?}\nformula = \"y ~ x*arm\"\n"))
        .unwrap();
    expect(&certus(&["fit", "--config", written, "--sigma", "0.5", "--out", out]), 0, "arm[b]");
    let record: Value = serde_json::from_slice(&std::fs::read(dir.join("fit/fit.json")).unwrap()).unwrap();
    assert_eq!(record["settings"]["formula"], "y ~ x*arm");
    assert!(record["settings"].get("response").is_none());
    expect(&certus(&["verify", out]), 0, "");
    let to = dir.join("new.csv");
    expect(&certus(&["predict", out, &file, "--to", to.to_str().unwrap()]), 0, "");
    expect(&certus(&["plan", "linear", &file, "y ~ x*arm"]), 0, "x:arm[b]");
    expect(&certus(&["fit-many", "linear", &file, "y ~ x", "--by", "site", "--sigma", "1"]), 64, "--out");
    let many = dir.join("many");
    let by_site = [
        "fit-many",
        "linear",
        &file,
        "y ~ x",
        "--by",
        "site",
        "--sigma",
        "1",
        "--out",
        many.to_str().unwrap(),
    ];
    expect(&certus(&by_site), 0, "2 models by site");
}

/// A column may be a feature and in a computed offset, which takes 1 off its coefficient: the prior is all but flat.
#[test]
fn an_offset_of_a_feature() {
    let dir = scratch("formula-offset");
    let file = table(&dir);
    let slope = |formula: &str| {
        let record = fitted(&[&file, formula, "--sigma", "1", "--prior-sd", "1000", "--no-standardise"]);
        let own = record["parameters"].as_array().unwrap().iter().find(|p| p["name"] == "sqrt(z)").unwrap();
        own["mean"].as_f64().unwrap()
    };
    let (alone, beside) = (slope("y ~ sqrt(z)"), slope("y ~ sqrt(z) + offset(sqrt(z))"));
    assert!((alone - 1.0 - beside).abs() < 1e-5, "{alone} {beside}");
}

/// A response that is computed: the same numbers as those of a column of it; new data need no response.
#[test]
fn a_computed_response() {
    let dir = scratch("formula-computed");
    let (plain, made) = (dir.join("plain.csv"), dir.join("made.csv"));
    let rows = (0..40).map(|i| (f64::from(i % 7) - 0.3 * f64::from(i % 3), 1.0 + f64::from((i * i) % 11)));
    let lines = |f: &dyn Fn(f64) -> f64| {
        rows.clone().enumerate().map(|(i, (x, y))| format!("{},{x},g{}\n", f(y), i % 5)).collect::<String>()
    };
    std::fs::write(&plain, format!("y,x,g\n{}", lines(&|y| y))).unwrap();
    std::fs::write(&made, format!("ly,x,g\n{}", lines(&|y| (y + 1.0).ln()))).unwrap();
    let (plain, made) = (plain.to_str().unwrap(), made.to_str().unwrap());
    let numbers = |record: Value| record["parameters"].clone();
    let own = fitted(&[plain, "log(y + 1) ~ x + (1 | g)", "--reml"]);
    assert!(
        own["notes"].to_string().contains("the response is log(y + 1): coefficients"),
        "{}",
        own["notes"]
    );
    assert_eq!(numbers(own), numbers(fitted(&[made, "ly ~ x + (1 | g)", "--reml"])));
    let out = dir.join("fit");
    let out = out.to_str().unwrap();
    expect(&certus(&["fit", "linear", plain, "log(y + 1) ~ x", "--sigma", "1", "--out", out]), 0, "");
    expect(&certus(&["verify", out]), 0, "");
    let (new, to) = (dir.join("new.csv"), dir.join("predicted.csv"));
    std::fs::write(&new, "x\n1\n2\n").unwrap();
    expect(&certus(&["predict", out, new.to_str().unwrap(), "--to", to.to_str().unwrap()]), 0, "");
    let refused = |model: &str, formula: &str, code, words| {
        expect(&certus(&["fit", model, plain, formula]), code, words);
    };
    refused("poisson", "log(y) ~ x", 64, "linear models take only");
    refused("linear", "log(y) ~ x + y", 64, "'y' is the response");
    refused("linear", "log(y - 1) ~ x", 65, "the response log(y - 1) is -inf");
    refused("linear", "mean(y) ~ x", 64, "mean(y)");
}

#[test]
fn refusals_say_what_to_type() {
    let dir = scratch("formula-refused");
    let file = table(&dir);
    let with = |formula: &str, more: &[&str]| certus(&[&["fit", "linear", &file, formula], more].concat());
    for (formula, more, code, words) in [
        ("y ~ cos(x)", &[][..], 64, "\n  y ~ cos(x)\n      ^\n"),
        ("y ~ cos(x)", &[], 64, "make any other column first, on the command line with --sql \"SELECT *,"),
        ("y ~ log(x)", &[], 65, "the feature 'log(x)' is -inf, but a finite number is required"),
        // a name between backquotes is not a setting
        ("y ~ `x` + `z", &[], 64, "  y ~ `x` + `z\n"),
        ("y ~ xx", &[], 65, "did you mean 'x'?"),
        ("y ~ x + offset(x)", &[], 64, "'x' is the offset and can't be a feature as well"),
        ("cbind(y, x) ~ z", &[], 64, "write p(successes, trials)"),
        (
            "y ~ x",
            &["--response", "y"],
            64,
            "--response are given: leave out response, which the formula names",
        ),
        ("y ~ x", &["--features", "x"], 64, "both a formula and --features are given"),
        ("y ~ x", &["--group", "worker"], 64, "both a formula and --group are given"),
        ("y ~ x", &["--no-intercept"], 64, "write y ~ 0 + a"),
        ("y ~ x + offset(rate)", &["--offset", "z"], 64, "both a formula and --offset are given"),
        ("y ~ x + (x | worker)", &["--group-sd", "1", "--sigma", "1"], 64, "(1 + x || worker)"),
        ("y ~ x + (x | worker)", &["--group-sd", "1", "--sigma", "1"], 64, "--group \"worker:: x\""),
        ("y ~ x + (1 | worker)", &["--group-sd", "site=1"], 64, "unknown group 'site'"),
        // everything that means something and cannot be fitted yet
        ("y ~ x + (x | worker)", &["--sigma", "1"], 64, "(1 + x | worker) is not available yet"),
        ("y ~ x + (x || worker)", &["--sigma", "1"], 64, "is not available yet"),
        ("y ~ x + (1 | worker) + (1 | arm)", &["--sigma", "1"], 64, "(1 | worker) is not available yet"),
        ("y ~ x + (1 | site/worker)", &["--sigma", "1"], 64, "is not available yet"),
        ("y ~ x + (x | worker) + (0 + x | worker)", &[], 64, "one of its effects is in another term"),
        ("y ~ x + (x | worker) + (0 + z | worker)", &["--group-sd", "1"], 64, "the intercept does not vary"),
        ("y ~ z + (x | worker)", &["--sigma", "1"], 64, "'x' varies without being a fixed effect"),
        ("y ~ 0 + x + (1 | worker)", &["--sigma", "1"], 64, "the intercept varies without being a fixed"),
        (
            "y ~ arm + (0 + arm | worker)",
            &["--sigma", "1"],
            64,
            "add it to the fixed effects, or leave out sigma",
        ),
        ("y ~ z + (x || worker)", &["--group-sd", "1", "--sigma", "1"], 64, "or leave out group-sd"),
        ("y ~ 0 + x + (1 | worker)", &["--group-sd", "1", "--sigma", "1"], 64, "nothing varies by the group"),
        ("y ~ z + (y | worker)", &[], 64, "'y' is the response"),
        ("y ~ x + (0 + x | worker)", &["--group-sd", "1", "--sigma", "1"], 64, "the intercept does not vary"),
    ] {
        expect(&with(formula, more), code, words);
    }
}
