//! Priors through the real binary: their units with and without scales (T10), means and sds of single coefficients from
//! a TOML file, and the notes.
#![allow(clippy::unwrap_used)]
#![cfg(feature = "scan")]

use std::path::Path;

use serde_json::Value;

use crate::common::{certus, expect, scratch};

#[track_caller]
fn fitted(arguments: &[&str]) -> Value {
    let output = certus(&[arguments, &["--json", "--quiet"]].concat());
    expect(&output, 0, "");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[track_caller]
fn mean(record: &Value, name: &str) -> f64 {
    let all = record["parameters"].as_array().unwrap();
    all.iter().find(|p| p["name"] == name).and_then(|p| p["mean"].as_f64()).unwrap()
}

fn noted(record: &Value, words: &str) -> bool {
    record["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains(words))
}

/// Reaction times like those of sleepstudy: 18 subjects on days 0 to 9, so that coefficients of all rows are least
/// squares whatever the variances.
fn reactions(path: &Path) -> (f64, f64) {
    let wave = |k: f64, i: usize| (k * (i + 1) as f64).sin();
    let mut text = String::from("Reaction,Days,Subject\n");
    let mut rows = Vec::new();
    for s in 0..18 {
        for day in 0..10 {
            let own = 251.4 + 30.0 * wave(2.3, s) + (10.5 + 8.0 * wave(7.7, s)) * f64::from(day);
            let y = own + 25.0 * wave(12.9, 10 * s + day as usize);
            text.push_str(&format!("{y},{day},s{s}\n"));
            rows.push((f64::from(day), y));
        }
    }
    std::fs::write(path, text).unwrap();
    let n = rows.len() as f64;
    let (mx, my) = (4.5, rows.iter().map(|r| r.1).sum::<f64>() / n);
    let slope = rows.iter().map(|(x, y)| (x - mx) * y).sum::<f64>()
        / rows.iter().map(|(x, _)| (x - mx).powi(2)).sum::<f64>();
    (my - slope * mx, slope)
}

/// T10: giving sigma, or sds of groups, does not change the units of the priors, so the data win.
#[test]
fn sigma_does_not_change_the_units_of_priors() {
    let dir = scratch("units");
    let file = dir.join("reactions.csv");
    let (intercept, slope) = reactions(&file);
    let base = ["fit", "linear", file.to_str().unwrap(), "--response", "Reaction", "--features", "Days"];
    let given = ["--group", "Subject:: Days", "--sigma", "25.6", "--group-sd", "24"];
    for more in [&[][..], &["--sigma", "48"], &given] {
        let record = fitted(&[&base[..], more].concat());
        // a prior takes (se/prior sd)² of a slope: its sd is about 50, the standard error at most 2.1 (with 18 slopes
        // of sd 24 per sd of Days)
        assert!((mean(&record, "Days") / slope - 1.0).abs() < 3e-3, "{more:?}: {}", mean(&record, "Days"));
        assert!((mean(&record, "(Intercept)") - intercept).abs() < 0.015 * slope, "{more:?}: {record}");
        assert!(!noted(&record, "disagree"), "{record}");
    }
    // in the units of the data the priors win, and a note says so
    let raw = fitted(&[&base[..], &["--sigma", "48", "--no-standardise", "--prior-sd", "1"]].concat());
    assert!((mean(&raw, "(Intercept)") - intercept).abs() > 20.0, "{raw}");
    assert!(noted(&raw, "prior and data disagree: Days is"), "{raw}");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Mean and sd of single coefficients in a TOML file: in the fit, its checks, its predictions, many fits, and what
/// --print-config gives back.
#[test]
fn single_priors_from_a_file() {
    let dir = scratch("single");
    let wave = |k: f64, i: usize| (k * (i + 1) as f64).sin();
    let rows: Vec<String> = (0..80)
        .map(|i| {
            let (x, wet) = (3.0 * wave(2.1, i), u8::from(i % 3 == 0));
            let luck = ((i * 7919) % 100) as f64 / 100.0;
            let y = u8::from(luck < 1.0 / (1.0 + (-0.4 * x).exp()));
            format!("{y},{x},{wet},{}", ["north", "south"][i / 40])
        })
        .collect();
    std::fs::write(dir.join("d.csv"), format!("y,x,wet,shop\n{}\n", rows.join("\n"))).unwrap();
    let config = |priors: &str| {
        let text = format!(
            "model = \"logistic\"\nresponse = \"y\"\nfeatures = [\"x\", \"wet\"]\n\n[priors]\n{priors}"
        );
        std::fs::write(dir.join("m.toml"), text).unwrap();
    };
    let (data, toml, out) = (dir.join("d.csv"), dir.join("m.toml"), dir.join("fit"));
    let [data, toml, out] = [&data, &toml, &out].map(|p| p.to_str().unwrap().to_string());
    let fit = ["fit", "logistic", &data, "--config", &toml];

    config("wet = { mean = 1.5, sd = 0.001 }\nx = 2\n");
    let record = fitted(&[&fit[..], &["--out", &out]].concat());
    // a two-valued column is not scaled, so the prior is about the coefficient itself
    assert!((mean(&record, "wet") - 1.5).abs() < 1e-3, "{record}");
    assert!(noted(&record, "wet ~ N(1.5, 0.001²)"), "{}", record["notes"]);
    assert!(noted(&record, "prior and data disagree: wet is"), "{}", record["notes"]);
    expect(&certus(&["verify", &out]), 0, "confirmed");
    expect(&certus(&["report", &out]), 0, "");
    let page = std::fs::read_to_string(Path::new(&out).join("report.html")).unwrap();
    assert!(page.contains("prior and data disagree: wet is"), "{page}");
    // the table has the note
    expect(&certus(&fit), 0, "note: prior and data disagree: wet is");
    let printed = certus(&[&fit[..], &["--print-config"]].concat());
    expect(&printed, 0, "mean = 1.5");
    std::fs::write(&toml, &printed.stdout).unwrap();
    assert_eq!(fitted(&fit)["parameters"], record["parameters"]);

    // many fits take the same priors
    let many = dir.join("many");
    let by =
        ["fit-many", "logistic", &data, "--config", &toml, "--by", "shop", "--out", many.to_str().unwrap()];
    expect(&certus(&by), 0, "");
    let chunk = std::fs::read_to_string(many.join("chunks/000000.json")).unwrap();
    let chunk: Value = serde_json::from_str(&chunk).unwrap();
    let place = chunk["names"].as_array().unwrap().iter().position(|n| n == "wet").unwrap();
    for one in chunk["fits"].as_array().unwrap() {
        assert!((one["parameters"][place][0].as_f64().unwrap() - 1.5).abs() < 1e-2, "{one}");
    }

    // the old form is an sd; infinite ones survive fit.json
    config("x = inf\nwet = 0.25\n");
    let record = fitted(&[&fit[..], &["--out", &out, "--overwrite"]].concat());
    assert!(noted(&record, "x ~ flat, wet ~ N(0, 0.25²)"), "{}", record["notes"]);
    expect(&certus(&["verify", &out]), 0, "confirmed");
    for (priors, code, words) in [
        ("wet = { mu = 1.0 }", 78, "'mu'"),
        ("wet = { mean = 1.0, sd = inf }", 64, "no effect"),
        ("rain = 1.0", 64, "'rain', which is not a coefficient"),
        ("wet = \"wide\"", 78, "not a number"),
    ] {
        config(priors);
        expect(&certus(&fit), code, words);
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Separated and constant responses have notes.
#[test]
fn separation_and_constants_are_noted() {
    let dir = scratch("separated");
    let file = |name: &str, y: &dyn Fn(usize) -> usize| {
        let rows: Vec<String> = (0..30).map(|i| format!("{},{}\n", y(i), (7 * i) % 30)).collect();
        let path = dir.join(name);
        std::fs::write(&path, format!("y,x\n{}", rows.concat())).unwrap();
        path.to_str().unwrap().to_string()
    };
    let fit = |path: &str| certus(&["fit", "logistic", path, "--response", "y"]);
    let separated = file("separated.csv", &|i| usize::from((7 * i) % 30 >= 12));
    expect(
        &fit(&separated),
        0,
        "note: the data separate the response: y is 1 wherever x > 11 and 0 wherever x < 12;",
    );
    let constant = file("constant.csv", &|_| 1);
    expect(&fit(&constant), 0, "note: the response 'y' is 1 in all 30 rows; the likelihood has no maximum");
    let mixed = file("mixed.csv", &|i| usize::from((7 * i) % 30 >= 12) ^ usize::from(i % 6 == 0));
    let output = fit(&mixed);
    expect(&output, 0, "");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!text.contains("separate") && !text.contains("in all 30 rows"), "{text}");
    std::fs::remove_dir_all(&dir).unwrap();
}
