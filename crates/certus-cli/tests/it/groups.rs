//! Groups whose sd is not given, through the real binary: against the closed forms of a balanced linear model, and what
//! is refused.
#![allow(clippy::unwrap_used)]
#![cfg(feature = "scan")]

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::common::{certus, expect, scratch};

/// Groups, rows of each, sd of the errors.
const GROUPS: usize = 12;
const ROWS: usize = 6;
const SIGMA: f64 = 0.8;

/// The same x in every group, y with an effect per group that no formula guesses.
fn table(dir: &Path) -> (PathBuf, Vec<[f64; 3]>) {
    let mut rows = Vec::new();
    let mut text = String::from("y,x,g,h\n");
    for g in 0..GROUPS {
        for i in 0..ROWS {
            let x = [-2.0, -1.0, 0.0, 0.5, 1.0, 2.5][i];
            let wave = |k: f64| (k * (7 * g + i + 1) as f64).sin();
            let y = 1.5 + 0.7 * x + 1.3 * (2.4 * g as f64).sin() + SIGMA * (wave(12.9) + 0.4 * wave(5.1));
            rows.push([y, x, g as f64]);
            text.push_str(&format!("{y},{x},g{g},h{}\n", (g + i) % 4));
        }
    }
    let path = dir.join("balanced.csv");
    std::fs::write(&path, text).unwrap();
    (path, rows)
}

fn numbers(path: &Path) -> Vec<Vec<f64>> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().skip(1).map(|l| l.split(',').map(|x| x.parse().unwrap()).collect()).collect()
}

/// With x the same in every group, x̄ its mean and S = Σ(x − x̄)² per group: b̂ = Σ(x − x̄)y/(J S) whatever the sd, Var
/// b = σ²/(J S); the level m = a + b x̄ has the variance (σ² + n s²)/(J n); s² + σ²/n = Σ(ȳ_g − ȳ)²/J at the maximum of
/// the likelihood; and m + v_g, given s, has the mean ȳ + λ(ȳ_g − ȳ) and the variance (1 − λ)² Var m + s²(1 − λ), λ = n
/// s²/(n s² + σ²).
#[test]
fn a_balanced_linear_model_by_hand() {
    let dir = scratch("balanced");
    let (file, rows) = table(&dir);
    let (n, groups) = (ROWS as f64, GROUPS as f64);
    let center = rows.iter().map(|r| r[1]).sum::<f64>() / (n * groups);
    let spread: f64 = rows.iter().map(|r| (r[1] - center).powi(2)).sum();
    let slope = rows.iter().map(|r| (r[1] - center) * r[0]).sum::<f64>() / spread;
    let own: Vec<f64> =
        (0..GROUPS).map(|g| rows[g * ROWS..][..ROWS].iter().map(|r| r[0]).sum::<f64>() / n).collect();
    let level = own.iter().sum::<f64>() / groups;
    let between = own.iter().map(|m| (m - level).powi(2)).sum::<f64>() / groups;
    let s2 = between - SIGMA * SIGMA / n;
    assert!(s2 > 0.1, "{s2}");
    let (of_level, of_slope) = ((SIGMA * SIGMA + n * s2) / (groups * n), SIGMA * SIGMA / spread);
    // the log likelihood: per group n − 1 directions within with σ², one between with σ² + n s²
    let within: f64 =
        rows.iter().map(|r| (r[0] - own[r[2] as usize] - slope * (r[1] - center)).powi(2)).sum();
    let wide = SIGMA * SIGMA + n * s2;
    let log = -0.5
        * (groups * n * std::f64::consts::TAU.ln() + groups * ((n - 1.0) * (SIGMA * SIGMA).ln() + wide.ln()))
        - 0.5 * within / (SIGMA * SIGMA)
        - 0.5 * groups * n * between / wide;

    let out = dir.join("fit");
    let (file, out) = (file.to_str().unwrap(), out.to_str().unwrap());
    let sigma = SIGMA.to_string();
    let fit =
        ["fit", "linear", file, "--response", "y", "--features", "x", "--group", "g", "--sigma", &sigma];
    let flat =
        ["--prior-sd", "inf", "--intercept-prior-sd", "inf", "--scales", "estimate", "--out", out, "--json"];
    let output = certus(&[&fit[..], &flat].concat());
    expect(&output, 0, "");
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let scale = &record["certificate"]["scale"];
    let near = |found: f64, exact: f64, tolerance: f64, what: &str| {
        assert!((found - exact).abs() <= tolerance, "{what}: {found}, by hand {exact}");
    };
    near(scale["estimate"].as_f64().unwrap(), s2.sqrt(), 1e-6, "the sd");
    near(scale["log_likelihood"].as_f64().unwrap(), log, 1e-8, "the log likelihood");
    let [low, high] = [0, 1].map(|k| scale["interval"][k].as_f64().unwrap());
    assert!(low < s2.sqrt() && s2.sqrt() < high && high - low < 1e-3, "{low} {high}");
    assert_eq!((scale["level"].as_str(), scale["groups"].as_u64()), (Some("proved"), Some(12)));
    assert!(record["neg_elbo"].is_null() && record["certificate"]["gap"]["level"] == "none");
    let row =
        |name: &str| record["parameters"].as_array().unwrap().iter().find(|p| p["name"] == name).unwrap();
    near(row("x")["mean"].as_f64().unwrap(), slope, 1e-9, "the slope");
    near(row("x")["sd"].as_f64().unwrap(), of_slope.sqrt(), 1e-9, "its sd");
    near(row("icc(g)")["mean"].as_f64().unwrap(), s2 / (s2 + SIGMA * SIGMA), 1e-6, "the ICC");
    expect(&certus(&["verify", out]), 0, "from the data at the stored ends, by the code of the fit");

    let predicted = |groups: &str, new: &str| {
        let to = dir.join(format!("of-{groups}.csv"));
        expect(&certus(&["predict", out, new, "--groups", groups, "--to", to.to_str().unwrap()]), 0, "");
        numbers(&to)
    };
    let shrink = n * s2 / wide;
    for (row, [_, x, g]) in predicted("known", file).iter().zip(&rows) {
        let mean = level + shrink * (own[*g as usize] - level) + slope * (x - center);
        let variance =
            (1.0 - shrink).powi(2) * of_level + s2 * (1.0 - shrink) + of_slope * (x - center).powi(2);
        // quantiles of effects are not in it, so only the estimate of the sd (1e-6) and rounding are
        near(row[0], mean, 1e-6, "known: mean");
        near(row[6], variance.sqrt(), 1e-6, "known: sd");
    }
    // neither needs the column of groups
    let new = dir.join("new.csv");
    std::fs::write(&new, "x\n-1\n0.25\n3\n").unwrap();
    let new = new.to_str().unwrap();
    let (of_new, of_all) = (predicted("new", new), predicted("population", new));
    for (k, x) in [-1.0, 0.25, 3.0].into_iter().enumerate() {
        let mean = level + slope * (x - center);
        let variance = of_level + of_slope * (x - center) * (x - center);
        near(of_new[k][0], mean, 1e-9, "new: mean");
        near(of_new[k][6], (variance + s2).sqrt(), 1e-6, "new: sd");
        near(of_all[k][0], mean, 1e-9, "population: mean");
        near(of_all[k][6], variance.sqrt(), 1e-6, "population: sd");
        // 5 % and 95 % of a normal law; those of the population are read off a table of steps h of a quarter sd, on
        // chords: h²/8 + h²/12 of Φ″ = 0.17 over Φ′ = 0.10, 0.022 sd
        let quantile = 1.644_853_626_951_472_2;
        near(of_new[k][2], mean - quantile * (variance + s2).sqrt(), 1e-6, "new: 5 %");
        near(of_all[k][4], mean + quantile * variance.sqrt(), 0.04 * variance.sqrt(), "population: 95 %");
    }
    std::fs::write(dir.join("other.csv"), "x,g\n1,g99\n").unwrap();
    let other = dir.join("other.csv");
    let to = dir.join("o.csv");
    let asked = ["predict", out, other.to_str().unwrap(), "--to", to.to_str().unwrap()];
    expect(&certus(&asked), 65, "groups new or population");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// The posterior: draws have the moments of the table, the directory is complete, and what was changed in it is
/// refused.
#[test]
fn the_posterior_is_kept_and_verified() {
    let dir = scratch("posterior");
    let (file, rows) = table(&dir);
    let out = dir.join("fit");
    let (file, place) = (file.to_str().unwrap(), out.to_str().unwrap());
    let sigma = SIGMA.to_string();
    let fit =
        ["fit", "linear", file, "--response", "y", "--features", "x", "--group", "g", "--sigma", &sigma];
    expect(&certus(&[&fit[..], &["--out", place]].concat()), 0, "sd(g)");
    let text = std::fs::read_to_string(out.join("fit.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&text).unwrap();
    let scale = &record["certificate"]["scale"];
    // 2.5 sds of the response, to three digits
    let n = rows.len() as f64;
    let mean = rows.iter().map(|r| r[0]).sum::<f64>() / n;
    let sd = (rows.iter().map(|r| (r[0] - mean).powi(2)).sum::<f64>() / n).sqrt();
    let prior = scale["prior"].as_str().unwrap().trim_start_matches("half-normal(").trim_end_matches(')');
    let prior: f64 = prior.parse().unwrap();
    assert!((prior - 2.5 * sd).abs() < 0.005, "{prior}, by hand {}", 2.5 * sd);
    assert!(scale["log_evidence"].is_f64() && scale["nodes"].as_u64() > Some(10), "{scale}");
    assert_eq!(scale["largest"].as_array().map(Vec::len), Some(3));
    expect(&certus(&["verify", place]), 0, "weights of the");
    let draws = dir.join("draws.csv");
    expect(
        &certus(&["sample", place, "--draws", "20000", "--to", draws.to_str().unwrap()]),
        0,
        "4 parameters",
    );
    let drawn: Vec<Vec<f64>> = std::fs::read_to_string(&draws)
        .unwrap()
        .lines()
        .filter(|l| !l.starts_with('#'))
        .skip(1)
        .map(|l| l.split(',').map(|x| x.parse().unwrap()).collect())
        .collect();
    for (k, p) in record["parameters"].as_array().unwrap().iter().enumerate() {
        let [mean, sd] = ["mean", "sd"].map(|key| p[key].as_f64().unwrap());
        let own = drawn.iter().map(|d| d[k]).sum::<f64>() / 20_000.0;
        let square = drawn.iter().map(|d| (d[k] - own).powi(2)).sum::<f64>() / 20_000.0;
        // four standard errors of a mean, and 3 % for the sd, the sd between groups being read off a grid
        assert!((own - mean).abs() < 4.0 * sd / 20_000f64.sqrt() + 0.003 * sd, "{p}: {own}");
        assert!((square.sqrt() / sd - 1.0).abs() < 0.03, "{p}: {}", square.sqrt());
    }
    expect(&certus(&["report", place]), 0, "report.html");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(
        page.contains("Posterior density of sd(g)") && page.contains("is estimated, with a proved interval"),
        "{page}"
    );
    let groups = out.join("groups.parquet");
    assert!(std::fs::read(&groups).unwrap().starts_with(b"PAR1"));
    let read = [
        "fit",
        "linear",
        groups.to_str().unwrap(),
        "--response",
        "deviation",
        "--features",
        "rows,deviation_q50",
        "--sigma",
        "1",
    ];
    expect(&certus(&read), 0, "12 rows");

    // a narrower interval, another likelihood, another mean, another prior: none holds
    let [low, high] = [0, 1].map(|k| scale["interval"][k].as_f64().unwrap());
    let middle = scale["estimate"].as_f64().unwrap();
    let narrow = [low, high].map(|end| middle + 0.01 * (end - middle));
    let mut changed: Vec<(serde_json::Value, &str)> = Vec::new();
    let mut change = |words: &'static str, with: &dyn Fn(&mut serde_json::Value)| {
        let mut other = record.clone();
        with(&mut other);
        changed.push((other, words));
    };
    change("a maximum of the penalised likelihood is claimed", &|r| {
        r["certificate"]["scale"]["interval"] = serde_json::json!(narrow);
    });
    change("a maximum of the penalised likelihood is claimed", &|r| {
        r["certificate"]["scale"]["interval"] = serde_json::json!([high, 2.0 * high]);
    });
    change("fit.json excludes other maxima where the recomputation does not", &|r| {
        r["certificate"]["scale"]["not_excluded"] = serde_json::json!([[low, high]]);
    });
    change("with these settings it is the penalised likelihood", &|r| {
        r["certificate"]["scale"]["objective"] = serde_json::json!("likelihood");
    });
    change("at the maximum", &|r| {
        let value = r["certificate"]["scale"]["maxima"][0]["log_objective"].as_f64().unwrap();
        r["certificate"]["scale"]["maxima"][0]["log_objective"] = serde_json::json!(value + 0.1);
    });
    change("the log likelihood at the estimate", &|r| {
        let l = r["certificate"]["scale"]["log_likelihood"].as_f64().unwrap();
        r["certificate"]["scale"]["log_likelihood"] = serde_json::json!(l + 1e-4);
    });
    change("does not follow from the arrays", &|r| {
        r["parameters"][2]["q95"] = serde_json::json!(99.0);
    });
    change("the weights of the grid", &|r| r["settings"]["sd-prior-scale"] = serde_json::json!(0.5));
    for (other, words) in changed {
        std::fs::write(out.join("fit.json"), other.to_string()).unwrap();
        certus_fit::rewrite_manifest(&out).unwrap();
        expect(&certus(&["verify", place]), 14, words);
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Ten groups that differ much and twenty huge ones that hardly differ: two maxima 31.4 nats apart. All of it is said,
/// the estimate is the higher one, and what is maximised has its name: with priors of the coefficients a penalised
/// likelihood, without a likelihood.
#[test]
fn all_maxima_are_named_and_the_highest_is_the_estimate() {
    let dir = scratch("maxima");
    let mut text = String::from("y,n,x,g\n");
    for g in 0..10 {
        let first = usize::from(g % 4 < 2);
        for (x, part) in [(-1, first), (1, 1 - first)] {
            text.push_str(&format!("{},10,{x},a{g}\n", if g % 2 == 0 { 10 - part } else { part }));
        }
    }
    for g in 0..20 {
        let y = if g % 2 == 0 { 1_002_000 } else { 998_000 };
        text.push_str(&format!("{y},2000000,-1,b{g}\n{y},2000000,1,b{g}\n"));
    }
    let file = dir.join("kinds.csv");
    std::fs::write(&file, text).unwrap();
    let out = dir.join("fit");
    let (file, place) = (file.to_str().unwrap(), out.to_str().unwrap());
    let fit =
        ["fit", "binomial", file, "--response", "y", "--trials", "n", "--features", "x", "--group", "g"];
    let flat = ["--prior-sd", "inf", "--intercept-prior-sd", "inf"];
    for (more, name, other) in [
        (
            &[][..],
            "a maximum of the penalised likelihood lies",
            "2 maxima of the penalised likelihood were found",
        ),
        (&flat[..], "a maximum of the likelihood lies", "2 maxima of the likelihood were found"),
    ] {
        let output = certus(&[&fit[..], more, &["--out", place, "--overwrite"]].concat());
        expect(&output, 0, name);
        expect(&output, 0, other);
        // with flat priors the huge groups leave too little of the bound on what is left to gain
        let proved = more.is_empty();
        if proved {
            expect(&output, 0, "outside 0.00");
        }
        let record: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(out.join("fit.json")).unwrap()).unwrap();
        let scale = &record["certificate"]["scale"];
        let estimate = scale["estimate"].as_f64().unwrap();
        assert!((estimate / 0.004 - 1.0).abs() < 0.1, "{scale}");
        let [first, second] = [0, 1].map(|k| &scale["maxima"][k]);
        let apart = first["log_objective"].as_f64().unwrap() - second["log_objective"].as_f64().unwrap();
        assert!(
            (apart - 31.4).abs() < 0.1 && (second["estimate"].as_f64().unwrap() - 1.34).abs() < 0.01,
            "{scale}"
        );
        assert!((scale["log_likelihood"].as_f64().unwrap() + 452.5).abs() < 0.2, "{scale}");
        let sd = record["parameters"].as_array().unwrap().iter().find(|p| p["name"] == "sd(g)").unwrap();
        assert!(sd["mean"].as_f64().unwrap() < 0.006, "{sd}");
        let words = if proved {
            "where other maxima are excluded, by the code of the fit"
        } else {
            "likelihood at 2 maxima, by the code of the fit"
        };
        expect(&certus(&["verify", place]), 0, words);
        expect(&certus(&["report", place]), 0, "report.html");
        let page = std::fs::read_to_string(out.join("report.html")).unwrap();
        assert!(page.contains(other), "{page}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// A slope alone that varies, (0 + x | g), does not depend on where x is centred; what cannot be had is refused with
/// what to do.
#[test]
fn slopes_alone_and_what_is_refused() {
    let dir = scratch("refused");
    let (file, _) = table(&dir);
    let file = file.to_str().unwrap();
    let base =
        ["fit", "linear", file, "--response", "y", "--features", "x", "--sigma", "0.8", "--json", "--quiet"];
    let with = |more: &[&str]| certus(&[&base[..], more].concat());
    let flat =
        ["--group", "g: 0,x", "--scales", "estimate", "--prior-sd", "inf", "--intercept-prior-sd", "inf"];
    let sd = |output: &Output| {
        expect(output, 0, "");
        let record: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let scale = &record["certificate"]["scale"];
        assert_eq!(scale["name"], "sd(g: x)");
        [scale["estimate"].as_f64().unwrap(), scale["log_likelihood"].as_f64().unwrap()]
    };
    let standardised = sd(&with(&flat));
    let raw = sd(&with(&[&flat[..], &["--no-standardise"]].concat()));
    for (a, b) in standardised.into_iter().zip(raw) {
        assert!((a - b).abs() < 1e-6 * (1.0 + a.abs()), "{standardised:?} {raw:?}");
    }
    expect(&with(&["--group", "g", "--group", "h"]), 64, "--group-sd");
    expect(&with(&["--group", "g: x"]), 64, "2 coefficients vary by it");
    expect(&with(&["--group", "h/g"]), 64, "2 group terms");
    expect(&with(&["--group", "g", "--group-sd", "1", "--scales", "estimate"]), 64, "leave it out");
    expect(&with(&["--sd-prior", "flat"]), 64, "no group sd, noise or dispersion is unknown");
    expect(&with(&["--group", "g", "--sd-prior", "flat", "--scales", "estimate"]), 64, "leave sd-prior out");
    expect(&with(&["--group", "g", "--sd-prior", "cauchy"]), 64, "half-t");
    expect(&with(&["--group", "g", "--method", "exact"]), 64, "no choice of method");
    expect(&with(&["--group", "g: 0,x", "--group-sd", "1"]), 64, "or leave out group-sd");
    expect(&with(&["--group", "g", "--max-time", "0s"]), 10, "before there was an estimate");
    let out = dir.join("fit");
    let out = out.to_str().unwrap();
    expect(&with(&["--group", "g", "--max-time", "0s", "--out", out]), 10, "\"limit\"");
    expect(&certus(&["resume", out]), 10, "starts again from the beginning");
    let apart = dir.join("apart.csv");
    std::fs::write(&apart, "y,x,g\n0,-2,a\n0,-1,a\n1,1,b\n1,2,b\n0,-3,c\n1,3,c\n").unwrap();
    let flat = ["--group", "g", "--prior-sd", "inf", "--intercept-prior-sd", "inf"];
    let apart = ["fit", "logistic", apart.to_str().unwrap(), "--response", "y", "--features", "x"];
    expect(&certus(&[&apart[..], &flat].concat()), 13, "+1.000 x");
    for prior in ["half-t", "exponential", "flat"] {
        expect(&with(&["--group", "g", "--sd-prior", prior]), 0, prior);
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// A run over an unknown sd that is stopped again and again goes on each time, and ends with the same numbers; a gap is
/// refused there, not ignored.
#[test]
fn a_stopped_search_goes_on() {
    let dir = scratch("stopped-search");
    let data = dir.join("rows.csv");
    let mut text = String::from("y,x,g\n");
    for i in 0..24_000usize {
        let (x, g) = ((i * 37 % 101) as f64 / 50.0 - 1.0, i * 7919 % 4_000);
        let up = 0.5 * x + ((g * 31 % 17) as f64 / 8.0 - 1.0) + ((i * 53 % 97) as f64 / 48.0 - 1.0) > 0.0;
        text.push_str(&format!("{},{x},{g}\n", u8::from(up)));
    }
    std::fs::write(&data, text).unwrap();
    let data = data.to_str().unwrap();
    let base =
        ["fit", "logistic", data, "--response", "y", "--features", "x", "--group", "g", "--threads", "1"];
    expect(&certus(&[&base[..], &["--gap", "0.1"]].concat()), 64, "leave --gap out");
    expect(&certus(&[&base[..], &["--delta", "0.1"]].concat()), 64, "leave --delta out");
    let (whole, parts) = (dir.join("whole"), dir.join("parts"));
    expect(&certus(&[&base[..], &["--out", whole.to_str().unwrap()]].concat()), 0, "sd(g)");
    let record = |dir: &Path| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(dir.join("fit.json")).unwrap()).unwrap()
    };
    let seconds = record(&whole)["seconds"].as_f64().unwrap();
    let limit = format!("{:.3}s", (seconds / 3.0).max(0.4));
    let place = parts.to_str().unwrap();
    let more = ["--max-time", &limit, "--checkpoint-every", "0.1s", "--out", place];
    let mut ended = certus(&[&base[..], &more].concat());
    let mut stops = 0;
    while ended.status.code() == Some(10) {
        stops += 1;
        assert!(stops < 40, "it never ends: {}", String::from_utf8_lossy(&ended.stderr));
        ended = certus(&["resume", place]);
    }
    expect(&ended, 0, "sd(g)");
    assert!(stops > 0, "{seconds} s, stopped after {limit}: never");
    let (mut a, mut b) = (record(&whole), record(&parts));
    // the last of the parts may end while the posterior is compared, and then says so
    let reason = b["certificate"]["posterior"]["reason"].as_str().unwrap_or_default();
    let compared = !reason.starts_with("stopped by --max-time");
    for record in [&mut a, &mut b] {
        for key in ["seconds", "settings"] {
            record[key] = serde_json::Value::Null;
        }
        if !compared {
            record["certificate"]["posterior"] = serde_json::Value::Null;
        }
    }
    assert_eq!(a, b);
    for file in ["arrays.safetensors", "groups.parquet", "meaning.json"] {
        assert_eq!(
            std::fs::read(whole.join(file)).unwrap(),
            std::fs::read(parts.join(file)).unwrap(),
            "{file}"
        );
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Groups of which each has one response only: the likelihood rises with the sd without end. What the search ends with
/// is not called reached, and has no profile interval.
#[test]
fn separated_groups_are_not_reached() {
    let dir = scratch("separated-groups");
    let file = dir.join("separated.csv");
    let row = |i: usize| format!("{},{},g{}\n", u8::from(i % 6 < 3), (1.7 * i as f64).sin(), i % 6);
    std::fs::write(&file, std::iter::once("y,x,g\n".into()).chain((0..36).map(row)).collect::<String>())
        .unwrap();
    let out = certus(&["fit", "logistic", file.to_str().unwrap(), "y ~ x + (1 | g)", "--ml"]);
    expect(&out, 10, "where groups are separated it may rise with the sd without end");
    expect(&out, 10, "the bound on the error of the likelihood is inf at the sd ");
    // one group of both kinds is enough
    let row = |i: usize| {
        let y = i % 6 < 5 || (i / 6) % 2 == 1;
        format!("{},{},g{}\n", u8::from(y), (1.7 * i as f64).sin(), i % 6)
    };
    std::fs::write(&file, std::iter::once("y,x,g\n".into()).chain((0..48).map(row)).collect::<String>())
        .unwrap();
    let out = certus(&["fit", "logistic", file.to_str().unwrap(), "y ~ x + (1 | g)", "--ml"]);
    expect(&out, 0, "proved, Theorem K3");
}
