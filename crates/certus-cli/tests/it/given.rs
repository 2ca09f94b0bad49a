//! Linear models of crossed groups whose sds are given: in closed form, and everything that such a fit is used for.
#![allow(clippy::unwrap_used)]

use std::fmt::Write;
use std::path::Path;

use serde_json::Value;

use crate::common::{certus, expect, scratch};

/// Rows of a (701 levels) crossed with b (560): the tree of their coefficients takes 4,000 · 562² > 10⁹ products.
fn rows(dir: &Path) -> String {
    let file = dir.join("rows.csv");
    let mut text = String::from("y,x,a,b\n");
    for i in 0..4000_usize {
        let (a, b) = (i * 7 % 701, i * 11 % 560);
        let noise = ((i * 7919) % 1009) as f64 / 1009.0 - 0.5;
        let x = ((i * 104_729) % 997) as f64 / 997.0;
        let y = 1.0 + 0.5 * x + (a as f64 * 2.3).sin() + 0.5 * (b as f64 * 1.7).cos() + 2.0 * noise;
        writeln!(text, "{y},{x},a{a},b{b}").unwrap();
    }
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().into()
}

const GIVEN: [&str; 4] = ["--group-sd", "a=0.7", "--group-sd", "b=0.35"];

#[test]
fn crossed_groups_with_given_sds() {
    let dir = scratch("crossed");
    let file = rows(&dir);
    let formula = "y ~ x + (1 | a) + (1 | b)";
    let out = dir.join("fit").to_str().unwrap().to_string();
    let fit = ["fit", "linear", &file, formula, "--quiet"];
    let sigma = ["--sigma", "0.6"];
    let output = certus(&[&fit[..4], &GIVEN, &sigma, &["--out", &out]].concat());
    expect(&output, 0, "in closed form");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("1261 groups") && text.contains("(estimated"), "{text}");
    assert!(!text.contains("at most") && !text.contains("proved"), "nothing is proved:\n{text}");
    let record: Value =
        serde_json::from_slice(&std::fs::read(Path::new(&out).join("fit.json")).unwrap()).unwrap();
    assert_eq!(record["certificate"]["scale"], Value::Null);
    assert_eq!(record["certificate"]["gap"]["level"], "estimated");
    assert!(record["certificate"]["gap"]["mean_error"].as_f64().unwrap() < 1e-8);
    let names: Vec<&str> =
        record["parameters"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["(Intercept)", "x"]);
    assert!(Path::new(&out).join("groups.parquet").exists());
    expect(&certus(&["verify", &out]), 0, "in closed form, by the code of the fit");
    expect(&certus(&["report", &out]), 0, "");
    let page = std::fs::read_to_string(Path::new(&out).join("report.html")).unwrap();
    assert!(page.contains("in closed form"));
    // a number of the file that is changed does not pass
    let path = Path::new(&out).join("fit.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mean = record["parameters"][1]["mean"].to_string();
    std::fs::write(&path, text.replace(&mean, "0.5123")).unwrap();
    assert_ne!(certus(&["verify", &out]).status.code(), Some(0));
    std::fs::write(&path, text).unwrap();
    // predictions: the mean of a known group has its effect, of a new one the sd of both groups
    let predicted = |groups: &str| -> Vec<Vec<f64>> {
        let output = certus(&["predict", &out, &file, "--groups", groups]);
        expect(&output, 0, "");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().skip(1).map(|l| l.split(',').map(|c| c.parse().unwrap()).collect()).collect()
    };
    let [known, new, population] = ["known", "new", "population"].map(predicted);
    assert_eq!([known.len(), new.len(), population.len()], [4000; 3]);
    let total = |rows: &[Vec<f64>], column: usize| rows.iter().map(|r| r[column]).sum::<f64>() / 4000.0;
    assert!((total(&known, 0) - total(&new, 0)).abs() < 0.1);
    let both = (0.7_f64 * 0.7 + 0.35 * 0.35).sqrt();
    assert!((new[0][1] / both - 1.0).abs() < 0.02, "{:?}", new[0]);
    assert!(known[0][1] < 0.6 * new[0][1] && population[0][1] < 0.2 * new[0][1]);
    // draws have the printed moments, within 5 standard errors
    let draws = dir.join("draws.csv").to_str().unwrap().to_string();
    expect(&certus(&["sample", &out, "--draws", "2000", "--to", &draws]), 0, "");
    let text = std::fs::read_to_string(&draws).unwrap();
    assert!(text.starts_with("# draws of the posterior by certus"), "{}", &text[..80]);
    let slopes: Vec<f64> = text
        .lines()
        .filter(|l| !l.starts_with('#'))
        .skip(1)
        .map(|l| l.split(',').nth(1).unwrap().parse().unwrap())
        .collect();
    let (mean, sd) = (&record["parameters"][1]["mean"], &record["parameters"][1]["sd"]);
    let z = (slopes.iter().sum::<f64>() / 2000.0 - mean.as_f64().unwrap()) / sd.as_f64().unwrap();
    assert!(z.abs() < 5.0 / 2000.0_f64.sqrt(), "{z}");
    for command in ["ppc", "loo", "simulate"] {
        expect(&certus(&[command, &out]), 0, "");
    }
    // a plan says so, and what would have no effect is refused
    expect(&certus(&[&["plan", "linear", &file, formula], &GIVEN[..], &sigma].concat()), 0, "in closed form");
    for (more, words) in [
        (["--gap", "0.1"], "solved in closed form"),
        (["--method", "exact"], "no choice of method"),
        (["--scales", "estimate"], "no group sd, noise or dispersion is unknown"),
        (["--level", "proved"], "a stronger statement was requested"),
    ] {
        let output = certus(&[&fit[..], &GIVEN, &sigma, &more].concat());
        assert_ne!(output.status.code(), Some(0), "{more:?}");
        let text = [output.stdout, output.stderr].map(|t| String::from_utf8(t).unwrap()).concat();
        assert!(text.contains(words), "{more:?}: {text}");
    }
}

/// Without sigma its posterior is on a grid, and a run that was stopped goes on to the same result.
#[test]
fn sigma_is_inferred_beside_given_sds() {
    let dir = scratch("sigma");
    let file = dir.join("rows.csv");
    let mut text = String::from("y,x,a,b\n");
    for i in 0..240_usize {
        let (a, b) = (i * 5 % 16, (i * 3 + i / 16) % 9);
        let noise = ((i * 7919) % 1009) as f64 / 1009.0 - 0.5;
        let x = ((i * 104_729) % 997) as f64 / 997.0;
        let y = 1.0 + 0.5 * x + (a as f64 * 2.3).sin() + 0.5 * (b as f64 * 1.7).cos() + 2.0 * noise;
        writeln!(text, "{y},{x},a{a},b{b}").unwrap();
    }
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let out = dir.join("fit").to_str().unwrap().to_string();
    let fit = ["fit", "linear", file, "y ~ x + (1 | a) + (1 | b)", "--quiet", "--json"];
    let output = certus(&[&fit[..], &GIVEN, &["--out", &out]].concat());
    expect(&output, 0, "");
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    let scale = &record["certificate"]["scale"];
    assert_eq!((scale["name"].as_str(), scale["level"].as_str()), (Some("sigma"), Some("none")));
    assert!(scale["reason"].as_str().unwrap().contains("rounding"));
    let sigma = record["parameters"].as_array().unwrap().iter().find(|p| p["name"] == "sigma").unwrap();
    // uniform noise of width 2 has the sd 1/√3
    assert!((sigma["mean"].as_f64().unwrap() - 0.577).abs() < 0.06, "{sigma}");
    expect(&certus(&["verify", &out]), 0, "the weights of the");
    for groups in ["known", "new", "population"] {
        expect(&certus(&["predict", &out, file, "--groups", groups, "--observations"]), 0, "y05");
    }
    expect(&certus(&["ppc", &out]), 0, "simulated data sets");
    expect(&certus(&["loo", &out]), 0, "elpd_loo");
    // one sd unknown beside another that is given
    let one = certus(&[&fit[..], &["--group-sd", "a=0.7"]].concat());
    expect(&one, 0, "");
    let one: Value = serde_json::from_slice(&one.stdout).unwrap();
    assert_eq!(one["certificate"]["scale"]["name"], "sd(b)");
    assert_eq!(one["certificate"]["scale"]["others"][0]["name"], "sigma");
}
