//! Linear mixed models on the command line: the reference fits of lme4, what is proved of them, and everything that a
//! fit is used for.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{certus, expect, scratch};

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../certus-mixed/tests/data");
    path.join(format!("{name}.csv")).to_str().unwrap().into()
}

fn fitted(file: &str, formula: &str, more: &[&str]) -> Value {
    let output = certus(&[&["fit", "linear", file, formula, "--json", "--quiet"], more].concat());
    expect(&output, 0, "");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn close(found: f64, expected: f64, relative: f64) {
    assert!((found - expected).abs() <= relative * expected.abs(), "{found} {expected}");
}

/// (file, formula, θ, σ, REML criterion, θ by ML, −2 log L): lme4 1.1-31, bobyqa, rhoend 1e-10.
type Reference = (&'static str, &'static str, &'static [f64], f64, f64, &'static [f64], f64);

const REFERENCES: [Reference; 14] = [
    (
        "sleepstudy",
        "Reaction ~ Days + (Days | Subject)",
        &[0.96673291381, 0.01516905702, 0.23090959445],
        25.5918157,
        1743.628271958,
        &[0.92922530342, 0.01816572322, 0.22264542481],
        1751.939344463,
    ),
    (
        "sleepstudy",
        "Reaction ~ Days + (Days || Subject)",
        &[0.9798961447, 0.2342305866],
        25.56528557,
        1743.669293581,
        &[0.9458106946, 0.2269282307],
        1752.00325514,
    ),
    (
        "penicillin",
        "diameter ~ 1 + (1 | plate) + (1 | sample)",
        &[1.539677603, 3.512415364],
        0.5499231367,
        330.8605889911,
        &[1.537593489, 3.219753461],
        332.1883486685,
    ),
    (
        "pastes",
        "strength ~ 1 + (1 | batch/cask)",
        &[1.563460092, 3.526901743],
        0.823407566,
        246.9907458535,
        &[1.329912218, 3.526901738],
        247.9944658624,
    ),
    (
        "dyestuff",
        "Yield ~ 1 + (1 | Batch)",
        &[0.8483237832],
        49.51009997,
        319.6542768423,
        &[0.7525806953],
        327.3270598811,
    ),
    ("dyestuff2", "Yield ~ 1 + (1 | Batch)", &[0.0], 3.715684274, 161.8282778123, &[0.0], 162.8730366538),
    (
        "machines",
        "score ~ Machine + (Machine | Worker)",
        &[4.242281978, 2.958336793, -1.400626327, 5.348920819, 2.075424165, 2.907868741],
        0.9615766881,
        208.3112183164,
        &[3.865477535, 2.719970888, -1.266592702, 4.860684469, 1.890200019, 2.642436856],
        216.4178273096,
    ),
    // what varies need not be a fixed effect
    (
        "sleepstudy",
        "Reaction ~ 1 + (Days | Subject)",
        &[0.997458348, -0.084928213, 0.458232054],
        25.59181559,
        1769.8449038587,
        &[0.961850175, -0.0880723645, 0.4576381579],
        1775.47588196108,
    ),
    (
        "sleepstudy",
        "Reaction ~ 0 + Days + (1 | Subject)",
        &[8.16476814],
        30.99711272,
        1861.68824153269,
        &[8.1893911],
        1863.0839877757,
    ),
    (
        "sleepstudy",
        "Reaction ~ 0 + Days + (Days | Subject)",
        &[9.867501427, -0.302998509, 0.23526718],
        25.59181588,
        1828.33997538606,
        &[9.867497874, -0.302998789, 0.227533088],
        1831.00096754954,
    ),
    (
        "sleepstudy",
        "Reaction ~ 1 + (0 + Days | Subject)",
        &[0.421143121],
        29.06423076,
        1789.22898040502,
        &[0.421921285],
        1793.80320286918,
    ),
    // correlated effects beside independent ones of the same factor, the last example of ?lmer
    (
        "orthodont",
        "distance ~ age + (age|Subject) + (0+nsex|Subject) + (0 + nsexage|Subject)",
        &[1.776310208, -0.1053175294, 0.1370476931, 0.0, 0.0],
        1.310039533,
        442.63668588413,
        &[1.674840666, -0.09539900419, 0.1334715267, 0.0, 0.0],
        439.21160126784,
    ),
    // beside a response about 20 the effects are large and almost collinear
    (
        "far_from_zero",
        "y ~ 0 + x + (x | g)",
        &[17.0558276785, 10.9878419467, 0.1587780036],
        1.187119722,
        513.19585181057,
        &[17.03410727106, 11.06821008679, 0.07272953208],
        511.09374807794,
    ),
    // an effect for every level
    (
        "machines",
        "score ~ Machine + (0 + Machine | Worker)",
        &[4.24228272, 7.20062199, 2.84165645, 5.34891957, 2.07542334, 2.90786912],
        0.9615766805,
        208.31121831642,
        &[3.86547681, 6.58544634, 2.59888359, 4.8606856, 1.89020093, 2.64243686],
        216.417827309611,
    ),
];

fn thetas(fit: &Value) -> Vec<f64> {
    let groups = fit["groups"].as_array().unwrap();
    groups.iter().flat_map(|g| g["theta"].as_array().unwrap().iter().map(number)).collect()
}

#[test]
fn estimates_are_those_of_lme4() {
    for (file, formula, theta, sigma, reml, theta_ml, ml) in REFERENCES {
        for (flag, theta, value) in [("--reml", theta, reml), ("--ml", theta_ml, ml)] {
            let fit = fitted(&data(file), formula, &[flag]);
            let own = thetas(&fit);
            assert_eq!(own.len(), theta.len(), "{formula}");
            for (a, b) in own.iter().zip(theta) {
                assert!((a - b).abs() <= (2e-5 * b.abs()).max(1e-6), "{formula} {flag}: {own:?} {theta:?}");
            }
            let criterion = &fit["criterion"];
            assert!((number(&criterion["value"]) - value).abs() < 1e-6, "{formula} {flag}: {criterion}");
            assert_eq!(criterion["kind"], if flag == "--reml" { "REML" } else { "ML" });
            let scale = &fit["certificate"]["scale"];
            // the bounds of rounding are too large where the correlation is 0.9999
            if file != "far_from_zero" {
                assert_eq!(scale["level"], "proved", "{formula} {flag}: {scale}");
                assert!(number(&scale["radius"]) < 1e-7, "{formula}: {scale}");
            }
            if flag == "--reml" {
                let parameters = fit["parameters"].as_array().unwrap();
                let own = parameters.iter().find(|p| p["name"] == "sigma").unwrap();
                close(number(&own["mean"]), sigma, 1e-6);
            }
        }
    }
    // estimates without priors are REML; Dyestuff2's sd is proved to be 0
    let fit = fitted(&data("dyestuff2"), "Yield ~ 1 + (1 | Batch)", &["--scales", "estimate"]);
    assert_eq!(fit["criterion"]["kind"], "REML");
    assert_eq!(fit["certificate"]["scale"]["zero"], serde_json::json!(["sd(Batch)"]));
    assert_eq!(fit["certificate"]["scale"]["theorem"], "Theorem L2");
}

/// What varies around 0 in a model that is not linear: glmer with 100 quadrature points (lme4 1.1-31); the posterior is
/// fitted, verified, predicted and compared.
#[test]
fn effects_around_zero_of_binary_responses() {
    let dir = scratch("around-zero");
    for (k, (formula, value, sd)) in [
        ("yy ~ drug + (0 + week | id)", 197.8800329, 0.3062603),
        ("yy ~ 0 + week + (1 | id)", 249.4342142, 2.618896),
    ]
    .into_iter()
    .enumerate()
    {
        let file = data("bacteria");
        let out = dir.join(k.to_string());
        let place = out.to_str().unwrap();
        let fit = ["fit", "logistic", &file, formula, "--quiet", "--out"];
        expect(&certus(&[&fit[..], &[place, "--ml"]].concat()), 0, "");
        let text = std::fs::read_to_string(out.join("fit.json")).unwrap();
        let found: Value = serde_json::from_str(&text).unwrap();
        assert!((number(&found["criterion"]["value"]) - value).abs() < 1e-6, "{}", found["criterion"]);
        close(thetas(&found)[0], sd, 1e-5);
        assert_eq!(found["certificate"]["scale"]["level"], "proved", "{formula}");
        expect(&certus(&["verify", place]), 0, "");
        let posterior = dir.join(format!("{k}-posterior"));
        let place = posterior.to_str().unwrap();
        expect(&certus(&[&fit[..], &[place]].concat()), 0, "");
        expect(&certus(&["verify", place]), 0, "");
        expect(&certus(&["loo", place]), 0, "elpd");
        for groups in ["known", "new", "population"] {
            let rows = predictions(&dir, place, &file, groups);
            assert!(rows.iter().all(|r| r.iter().all(|x| x.is_finite())), "{groups}");
        }
    }
    let refused =
        certus(&["fit", "negative-binomial", &data("epil"), "y ~ 1 + (0 + visit | subject)", "--seed", "1"]);
    expect(&refused, 64, "'visit' varies without being a fixed effect");
    let _ = std::fs::remove_dir_all(&dir);
}

/// L3: asked for or not, said in words and in fit.json; refused where it does not apply; verify recomputes it.
#[test]
fn the_highest_of_all_maxima() {
    let out = scratch("highest").join("fit").display().to_string();
    let (pastes, sleep) = (data("pastes"), data("sleepstudy"));
    let nested = ["fit", "linear", &pastes, "strength ~ 1 + (1 | batch/cask)", "--reml"];
    let run = certus(&[&nested[..], &["--prove", "global", "--out", &out]].concat());
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert_eq!(run.status.code(), Some(0), "{text}");
    let words = "no other variances have a higher restricted likelihood (proved up to rounding, Theorem L3)";
    assert!(text.contains(words) && text.contains("the highest of all"), "{text}");
    let verified = certus(&["verify", &out]);
    assert_eq!(verified.status.code(), Some(0), "{}", String::from_utf8_lossy(&verified.stdout));
    // quick proofs need not be asked for, and can be left out
    let fit = fitted(&data("dyestuff2"), "Yield ~ 1 + (1 | Batch)", &["--ml"]);
    assert_eq!(fit["certificate"]["scale"]["global"], true);
    let fit = fitted(&data("dyestuff2"), "Yield ~ 1 + (1 | Batch)", &["--ml", "--prove", "local"]);
    assert!(fit["certificate"]["scale"].get("global").is_none());
    // lmer ends at 46.2868404 and from θ = (20, 10) at 40.0163596 (lme4 1.1-31): L3 finds the likelihood to be higher
    // there, and the search goes on
    let columns = (0..9).map(|j| format!("x{j} + ")).collect::<String>();
    let file = data("two_maxima");
    let fit = fitted(&file, &format!("y ~ {columns}(1 | g) + (1 | h)"), &["--ml"]);
    assert!((number(&fit["criterion"]["value"]) - 40.0163596264).abs() < 1e-6, "{}", fit["criterion"]);
    assert_eq!(fit["certificate"]["scale"]["global"], true);
    let formula = "Reaction ~ Days + (Days | Subject)";
    assert!(fitted(&sleep, formula, &["--reml"])["certificate"]["scale"].get("global").is_none());
    for (asked, word) in [
        (&["--reml", "--prove", "global"][..], "one or two terms of one effect each"),
        (&["--prove", "local"], "that are estimated"),
    ] {
        let refused = certus(&[&["fit", "linear", &sleep, formula][..], asked].concat());
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(64) && text.contains(word), "{text}");
    }
}

/// lme4's summary of `lmer(Reaction ~ Days + (Days | Subject))`, as its documentation prints it.
#[test]
fn the_table_is_that_of_lme4() {
    let fit = fitted(&data("sleepstudy"), "Reaction ~ Days + (Days | Subject)", &["--reml"]);
    // R² at lme4's estimates, by the sums of Nakagawa and Schielzeth, and Johnson
    close(number(&fit["criterion"]["r2_marginal"]), 0.27865204, 1e-7);
    close(number(&fit["criterion"]["r2_conditional"]), 0.79921891, 1e-7);
    let rows: Vec<(&str, f64)> = fit["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| (p["name"].as_str().unwrap(), number(&p["mean"])))
        .collect();
    let expected = [
        ("(Intercept)", 251.405, 5e-6),
        ("Days", 10.467, 5e-5),
        ("sd(Subject)", 24.741, 5e-5),
        ("sd(Subject: Days)", 5.922, 1e-4),
        ("cor(Subject: (Intercept), Days)", 0.066, 1e-2),
        ("sigma", 25.592, 5e-5),
    ];
    assert_eq!(rows.len(), expected.len(), "{rows:?}");
    for ((name, value), (own, printed, digits)) in rows.iter().zip(expected) {
        assert_eq!(*name, own);
        close(*value, printed, digits);
    }
    let sds: Vec<f64> = fit["parameters"].as_array().unwrap()[..2].iter().map(|p| number(&p["sd"])).collect();
    close(sds[0], 6.8245564, 1e-6);
    close(sds[1], 1.5457889, 1e-6);
    // −2·(−871.8141359789…) and 6 parameters of 180 rows
    close(number(&fit["criterion"]["aic"]), 1755.628, 1e-6);
    close(number(&fit["criterion"]["bic"]), 1774.786, 1e-6);
}

fn predictions(dir: &Path, fit: &str, file: &str, groups: &str) -> Vec<Vec<f64>> {
    let to: PathBuf = dir.join(format!("{groups}.csv"));
    let output =
        certus(&["predict", fit, file, "--groups", groups, "--overwrite", "--to", to.to_str().unwrap()]);
    expect(&output, 0, "predictions");
    let text = std::fs::read_to_string(to).unwrap();
    let lines = text.lines().filter(|l| !l.starts_with('#')).skip(1);
    lines.map(|l| l.split(',').map(|c| c.parse().unwrap()).collect()).collect()
}

/// Fitted, verified, predicted, sampled and reported from its directory.
#[test]
fn a_directory_is_used_like_any_other() {
    let dir = scratch("mixed-directory");
    for (name, file, formula) in [
        ("slopes", data("sleepstudy"), "Reaction ~ Days + (Days | Subject)"),
        ("crossed", data("penicillin"), "diameter ~ 1 + (1 | plate) + (1 | sample)"),
        ("nested", data("pastes"), "strength ~ 1 + (1 | batch/cask)"),
        ("around zero", data("sleepstudy"), "Reaction ~ 1 + (Days | Subject)"),
        // the ends of its interval are not the same numbers after a change of units and back
        ("units", data("units"), "y ~ arm + (0 + x | g)"),
    ] {
        let out = dir.join(name);
        let out = out.to_str().unwrap();
        let printed = certus(&["fit", "linear", &file, formula, "--reml", "--out", out]);
        expect(&printed, 0, "REML criterion");
        expect(&certus(&["verify", out]), 0, "");
        expect(&certus(&["report", out]), 0, "");
        let sample = dir.join(format!("{name}.csv"));
        expect(&certus(&["sample", out, "--draws", "10", "--to", sample.to_str().unwrap()]), 0, "");
        assert!(Path::new(out).join("groups.parquet").exists());
        let known = predictions(&dir, out, &file, "known");
        let new = predictions(&dir, out, &file, "new");
        let population = predictions(&dir, out, &file, "population");
        // columns: mean, sd, …; a known group is known better, and all are about the same line
        for ((known, new), population) in known.iter().zip(&new).zip(&population) {
            assert!(known[1] < new[1] && population[1] < new[1], "{name}: {known:?} {new:?}");
            close(new[0], population[0], 1e-9);
        }
        if name == "around zero" {
            // predict() of lme4 1.1-31
            for (row, mean) in [(0, 249.457231418), (9, 434.866430717), (179, 367.484090861)] {
                close(known[row][0], mean, 1e-7);
            }
        }
        let edited = std::fs::read_to_string(Path::new(out).join("fit.json")).unwrap();
        assert!(edited.contains("\"theta\""));
    }
}

#[test]
fn what_cannot_be_done_is_refused_with_what_to_type() {
    let file = data("sleepstudy");
    let slopes = "Reaction ~ Days + (Days | Subject)";
    for (arguments, words) in [
        (&[slopes, "--reml", "--ml"][..], "--ml"),
        (&[slopes, "--reml", "--prior-sd", "1"], "--prior-sd applies only to fits without --reml"),
        (&[slopes, "--scales", "estimate", "--prior-sd", "1"], "leave out --prior-sd"),
        (&[slopes, "--reml", "--scales", "posterior"], "--scales posterior applies only"),
        (&[slopes, "--reml", "--gap", "0.1"], "--gap"),
        (&["Reaction ~ Days", "--reml"], "--reml applies only to linear models with groups"),
        (&["Reaction ~ Days + (1 | Subject)", "--reml", "--sigma", "25"], "--reml applies only"),
    ] {
        let output = certus(&[&["fit", "linear", &file], arguments].concat());
        expect(&output, 64, words);
    }
}

/// (name, mean, sd) of 80,000 NUTS draws by NumPyro with the same priors; their own errors are below 0.006 sd and
/// 0.5 %.
const LONG_RUN: [(&str, f64, f64); 6] = [
    ("(Intercept)", 251.3989, 7.5298),
    ("Days", 10.45206, 1.72112),
    ("sd(Subject)", 27.3029, 6.9856),
    ("sd(Subject: Days)", 6.57295, 1.51476),
    ("cor(Subject: (Intercept), Days)", 0.0647, 0.27491),
    ("sigma", 25.90084, 1.54922),
];

/// Without --reml the posterior is printed. The stated errors are 2.6 standard errors; 12 numbers are compared.
#[test]
fn the_posterior_is_that_of_a_long_run() {
    let fit = fitted(&data("sleepstudy"), "Reaction ~ Days + (Days | Subject)", &["--seed", "1"]);
    assert_eq!(fit["table"]["source"], "importance");
    for (own, (name, mean, sd)) in fit["parameters"].as_array().unwrap().iter().zip(LONG_RUN) {
        assert_eq!(own["name"], name);
        let off = (number(&own["mean"]) - mean).abs() / sd;
        assert!(off < 1.2 * number(&own["mean_error"]) + 0.006, "{name}: {own}");
        let off = (number(&own["sd"]) / sd - 1.0).abs();
        assert!(off < 1.2 * number(&own["sd_error"]) + 0.005, "{name}: {own}");
    }
    // an sd whose estimate is 0, and draws that are kept
    let dir = scratch("mixed-posterior");
    let out = dir.join("fit");
    let out = out.to_str().unwrap();
    let pastes = data("pastes");
    expect(&certus(&["fit", "linear", &pastes, "strength ~ 1 + (1 | batch/cask)", "--out", out]), 0, "draws");
    expect(&certus(&["verify", out]), 0, "");
    for groups in ["known", "new", "population"] {
        let rows = predictions(&dir, out, &pastes, groups);
        assert!(rows.iter().all(|r| r.iter().all(|x| x.is_finite())), "{groups}");
    }
    let singular = fitted(&data("dyestuff2"), "Yield ~ 1 + (1 | Batch)", &[]);
    assert_eq!(singular["status"], "reached");
}

/// Nested models: the deviance test of one sd takes the boundary into account, that of a slope with its correlation
/// too; other rows are refused with the reason.
#[test]
fn nested_models_are_compared() {
    let dir = scratch("nested");
    let mut text = String::from("y,x,g\n");
    for i in 0..240 {
        let (g, t) = (i % 12, f64::from(i));
        let x = (t * 0.77).sin();
        let y = 1.0 + 0.5 * x + (f64::from(g) * 1.9).sin() * (1.0 + 0.4 * x) + 0.8 * (t * 2.13).cos();
        text.push_str(&format!("{y},{x},g{g}\n"));
    }
    let (data, text_of_data) = (dir.join("data.csv"), text.clone());
    std::fs::write(&data, &text).unwrap();
    let fewer = dir.join("fewer.csv");
    std::fs::write(&fewer, text.lines().take(200).collect::<Vec<_>>().join("\n")).unwrap();
    let fit = |data: &Path, name: &str, formula: &str| {
        let out = dir.join(name).to_str().unwrap().to_string();
        expect(&certus(&["fit", "linear", data.to_str().unwrap(), formula, "--ml", "--out", &out]), 0, "");
        let record: Value =
            serde_json::from_str(&std::fs::read_to_string(Path::new(&out).join("fit.json")).unwrap())
                .unwrap();
        (out, record["criterion"]["value"].as_f64().unwrap())
    };
    let small = fit(&data, "small", "y ~ x + (1 | g)");
    let none = fit(&data, "none", "y ~ 1 + (1 | g)");
    let large = fit(&data, "large", "y ~ x + (x | g)");
    let other = fit(&fewer, "other", "y ~ x + (1 | g)");
    let output = certus(&["compare", &large.0, &none.0, &small.0]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let coefficient = format!("none in {}: deviance {:.4}, p ", small.0, none.1 - small.1);
    let slope = format!("small in {}: deviance {:.4}, p ", large.0, small.1 - large.1);
    assert!(text.contains(&coefficient) && text.contains("(chi-squared with 1 df)"), "{text}");
    assert!(text.contains(&slope), "{text}");
    assert!(text.contains("(an equal mixture of chi-squared with 1 and 2 df)"), "{text}");
    expect(&certus(&["compare", &small.0, &other.0]), 0, "has 240 rows and");
    let moved = dir.join("moved.csv");
    std::fs::write(&moved, text_of_data.replacen("\n1", "\n2", 1)).unwrap();
    let moved = fit(&moved, "moved", "y ~ x + (1 | g)");
    expect(&certus(&["compare", &small.0, &moved.0]), 0, "the responses, trials or weights of");
}
