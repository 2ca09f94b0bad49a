//! The report is one balanced HTML file without addresses or scripts, in which nothing from outside is more than text.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;

use crate::common::{fitted, fresh};
use crate::scale_posterior::Dice;
use certus_data::{Column, Storage, Table};
use certus_fit::checks::{CheckedRow, Curve, Curves, Frequency, Places, Ppc};
use certus_fit::record::{Parameter, Record, RecordedLevel, TracePoint};
use certus_fit::report::{Comparison, Extras, report, write};
use certus_fit::{
    Checks, Fit, FitDirectory, Held, Problem, Question, Settings, Statistic, directory::REPORT,
};

/// Reads the page tag by tag: every element is closed in order, except those that have no end.
fn assert_balanced(page: &str) {
    let (mut open, mut rest) = (Vec::new(), page);
    while let Some(at) = rest.find('<') {
        rest = &rest[at..];
        if rest.starts_with("<style>") {
            rest = &rest[rest.find("</style>").unwrap() + "</style>".len()..];
            continue;
        }
        let end = rest.find('>').unwrap();
        let tag = &rest[1..end];
        assert!(!tag.contains('<'), "a tag within a tag: {tag}");
        assert!(tag.matches('"').count() % 2 == 0, "open quotes: {tag}");
        let name: String =
            tag.trim_start_matches('/').chars().take_while(|c| c.is_alphanumeric() || *c == '!').collect();
        if tag.starts_with('/') {
            assert_eq!(open.pop().as_deref(), Some(name.as_str()), "…{}", &rest[..end + 1]);
        } else if !tag.ends_with('/') && !["meta", "!doctype"].contains(&name.as_str()) {
            open.push(name);
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "not closed: {open:?}");
}

fn assert_self_contained(page: &str) {
    for word in [
        "http:",
        "https:",
        "//",
        "url(",
        "@import",
        "<script",
        "<link",
        "<img",
        "src=",
        "href=",
        "javascript:",
        " onload",
    ] {
        assert!(!page.contains(word), "{word} is in the page");
    }
    // the ids that headings promise are there, once
    for (at, _) in page.match_indices("aria-labelledby=\"") {
        let id = page[at..].split('"').nth(1).unwrap();
        assert_eq!(page.matches(&format!(" id=\"{id}\"")).count(), 1);
    }
}

pub(crate) fn rich() -> (Record, Extras) {
    let mut record = fitted().1;
    let extras = Extras {
        title: Some("Credit default".into()),
        data: vec![("response".into(), "default (0/1), 214 ones".into()), ("features".into(), "10".into())],
        directory: Some("runs/credit".into()),
        ..Extras::default()
    };
    record.k_hat = Some(0.31);
    (record, extras)
}

#[test]
fn a_fit_is_told_in_sentences() {
    let (record, extras) = rich();
    let page = report(&record, &extras);
    assert_balanced(&page);
    assert_self_contained(&page);
    for words in [
        "Credit default",
        "The goal is reached, with a proof",
        "<p>Gap <strong>at most ",
        "</strong> from the best of all Gaussians (proved, ",
        "<p>KL(q‖p) <strong>not known</strong>: not requested.",
        "k-hat 0.31",
        "the column z is constant and was dropped",
        "certus verify runs/credit",
        "sha256:00ff",
        "default (0/1), 214 ones",
        "proved by the model",
        "prefers-color-scheme: dark",
        "@media print",
        "18446744073709551615",
    ] {
        assert!(page.contains(words), "{words}");
    }
    // every coefficient is drawn and listed
    assert_eq!(page.matches("class=\"interval\"").count(), 10);
    assert_eq!(page.matches("<tr><td>x").count(), 10);
    let directory = FitDirectory::create(&fresh("report"), false).unwrap();
    write(&directory, &record, &extras).unwrap();
    assert_eq!(std::fs::read(directory.file(REPORT)).unwrap(), page.as_bytes());
}

#[test]
fn text_from_outside_stays_text() {
    let attack = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>&amp;\u{0}";
    let (mut record, _) = rich();
    let evil = || attack.to_string();
    record.model = evil();
    record.message = evil();
    record.route = evil();
    record.notes = vec![evil()];
    record.settings = serde_json::json!({ attack: attack });
    record.versions = [(evil(), evil())].into();
    record.data.fingerprint = Some(evil());
    record.certificate.gap.family = evil();
    record.certificate.gap.reason = Some(evil());
    record.certificate.gap.theorem = Some(evil());
    record.certificate.gap.constants = [(evil(), None)].into();
    record.certificate.gap.assumptions[0].what = evil();
    record.certificate.posterior.reason = Some(evil());
    record.parameters.iter_mut().for_each(|p| p.name = evil());
    let draws = Some(Comparison { source: evil(), parameters: record.parameters.clone() });
    let extras = Extras {
        title: Some(evil()),
        data: vec![(evil(), evil())],
        draws,
        density: vec![(0.5, 1.0), (1.0, 2.0), (2.0, 0.5)],
        directory: Some(evil()),
        encoding: None,
        checks: Checks::absent(attack),
        certificates: vec![Err(evil())],
    };
    let page = report(&record, &extras);
    assert_balanced(&page);
    assert!(!page.contains("<script") && !page.contains("<img") && !page.contains('\u{0}'));
    assert!(page.matches("&lt;script&gt;").count() > 30);
}

/// Every status at every level gives a whole page that does not claim more than the record does.
#[test]
fn no_page_claims_more_than_the_record() {
    let (record, extras) = rich();
    for status in
        ["reached", "limit", "no_progress", "non_finite", "assumption_violated", "user_error", "interrupted"]
    {
        for (level, delta) in [
            (RecordedLevel::Proved, None),
            (RecordedLevel::Probable, Some(0.01)),
            (RecordedLevel::Estimated, None),
            (RecordedLevel::None, None),
        ] {
            let text =
                record.to_json().replacen("\"status\": \"reached\"", &format!("\"status\": \"{status}\""), 1);
            let mut record = Record::from_json(&text).unwrap();
            // the fit's own sentence is about its own level
            (record.message, record.route) = ("it ended".into(), "some route".into());
            let gap = &mut record.certificate.gap;
            (gap.level, gap.delta) = (level, delta);
            if level == RecordedLevel::None {
                (gap.bound, gap.mean_error, gap.sd_error, gap.reason) =
                    (None, None, None, Some("of the weather.".into()));
                gap.assumptions.clear();
            }
            let page = report(&record, &extras);
            assert_balanced(&page);
            assert_self_contained(&page);
            assert_eq!(
                page.contains("from the best of all Gaussians (proved, "),
                level == RecordedLevel::Proved
            );
            let probable = page.contains("from the best of all Gaussians (with probability 0.99, ");
            assert_eq!(probable, level == RecordedLevel::Probable);
            let estimated = page.contains("from the best of all Gaussians (estimated, ");
            assert_eq!(estimated, level == RecordedLevel::Estimated);
            let bounded = page.contains("at most") || page.contains("within");
            assert_eq!(bounded, matches!(level, RecordedLevel::Proved | RecordedLevel::Probable));
            assert_eq!(page.contains("</strong>: of the weather."), level == RecordedLevel::None);
            assert_eq!(page.contains("certus verify"), level == RecordedLevel::Proved);
            assert_eq!(
                page.contains("The goal is reached"),
                status == "reached" && level != RecordedLevel::None
            );
            assert!(page.contains(&format!(">{status}</span>")));
        }
    }
}

#[test]
fn many_parameters_missing_numbers_and_empty_runs() {
    let (mut record, extras) = rich();
    record.parameters =
        (0..1500).map(|k| Parameter::normal(format!("b[{k}]"), f64::from(k % 7), 0.5)).collect();
    record.trace = (0..3000)
        .map(|k| TracePoint {
            seconds: f64::from(k),
            iteration: 1,
            gradients: 1,
            neg_elbo: None,
            bound: Some(10f64.powi(-(k / 100))),
        })
        .collect();
    let page = report(&record, &extras);
    assert_balanced(&page);
    assert!(
        page.contains("The first 40 of 1\u{202f}500 are shown") && page.contains("500 more are in fit.json")
    );
    assert_eq!(page.matches("class=\"interval\"").count(), 40);
    assert!(page.len() < 400_000, "{}", page.len());
    record.parameters = vec![Parameter::normal("a", f64::NAN, f64::INFINITY)];
    record.trace.clear();
    (record.neg_elbo, record.k_hat, record.data.rows) = (None, None, None);
    (record.message, record.route) = (String::new(), String::new());
    let page = report(&record, &Extras::default());
    assert_balanced(&page);
    assert!(page.contains("There is nothing to plot") && page.contains("too few recorded points for a plot"));
    assert!(!page.contains("NaN") && !page.contains("inf<"));
}

#[test]
fn draws_are_set_beside_the_gaussian() {
    let (mut record, mut extras) = rich();
    record.parameters = vec![Parameter::normal("a", 1.0, 2.0), Parameter::normal("b", 0.0, 1.0)];
    let parameters = vec![Parameter::normal("a", 2.0, 4.0), Parameter::normal("b", 0.0, 1.0)];
    extras.draws = Some(Comparison { source: "4,000 exact draws".into(), parameters });
    let page = report(&record, &extras);
    assert_balanced(&page);
    // (1 − 2)/2 and 2/4
    assert!(page.contains("<td>-0.500</td><td>0.500</td>"), "{page}");
    assert_eq!(page.matches("<circle class=\"draws\"").count(), 2);
}

/// A table with a response of each kind, a predictor, a factor, and groups; names of columns are the caller's.
fn table(names: [&str; 4], rows: usize) -> Table {
    let mut dice = Dice::new(7);
    let (mut x, mut arm, mut group) = (Vec::new(), Vec::new(), Vec::new());
    let (mut y, mut event, mut count) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..rows {
        let (own, high, level) = (50.0 + 10.0 * dice.normal(), dice.uniform() < 0.5, i % 6);
        let t = 0.06 * (own - 50.0) + f64::from(u8::from(high)) + 0.4 * (level as f64 - 2.5);
        x.push(own);
        arm.push(Some(if high { "high".to_string() } else { names[2].to_string() }));
        group.push(Some(format!("g{level}")));
        y.push(t + dice.normal());
        event.push(f64::from(u8::from(dice.uniform() < 1.0 / (1.0 + (-t).exp()))));
        count.push((-dice.uniform().ln() * (0.5 * t).exp() * 2.0).floor());
    }
    let column = |name: &str, cells: Column| (name.to_string(), cells);
    Table::new(vec![
        column("y", Column::Number(y)),
        column("event", Column::Number(event)),
        column("count", Column::Number(count)),
        column(names[0], Column::Number(x)),
        column(names[1], Column::Text(arm)),
        column(names[3], Column::Text(group)),
    ])
    .unwrap()
}

fn settings(model: &str, formula: &str) -> Settings {
    let (model, formula) = (Some(model.into()), Some(formula.into()));
    Settings { model, formula, ..Settings::default() }
}

fn problem(table: &Table, model: &str, formula: &str) -> Problem {
    Problem::new(table, &settings(model, formula).request().unwrap(), &Storage::default()).unwrap()
}

fn fit_of(problem: &Problem, settings: &Settings) -> Fit {
    let goal = settings.goal().unwrap();
    let choice = settings.posterior().unwrap();
    let mut ended = problem
        .run(&goal, &settings.choice().unwrap(), None, None, &mut |_, _| ControlFlow::Continue(()))
        .unwrap();
    ended.with(problem.compare(&goal, choice, None, &ended, &|_| {}));
    Fit::of_run(ended, problem, settings, &goal)
}

/// The page of a fit, and the fit.
fn page(table: &Table, model: &str, formula: &str) -> (String, Fit, Checks) {
    let problem = problem(table, model, formula);
    let fit = fit_of(&problem, &settings(model, formula));
    let checks = fit.checks(&problem, &problem.some_rows(table).unwrap());
    let page = report(&fit.record, &Extras { checks: checks.clone(), ..fit.extras() });
    assert_balanced(&page);
    assert_self_contained(&page);
    (page, fit, checks)
}

/// Where the sections begin, in the order of the page.
fn sections(page: &str) -> Vec<&str> {
    page.split("<h2 id=\"").skip(1).map(|part| part.split('"').next().unwrap()).collect()
}

const FIRST: [&str; 4] = ["question", "rows", "answer", "trust"];
const PICTURES: [&str; 4] = ["effects", "calibration", "residuals", "predictive"];
const NAMES: [&str; 4] = ["age", "arm", "low", "ward"];

/// First the page for everybody, then pictures, then the technical part; with rows and without.
#[test]
fn sections_are_in_the_order_of_the_reader() {
    let table = table(NAMES, 120);
    for (model, formula) in [
        ("logistic", "event ~ age + arm"),
        ("linear", "y ~ age + arm + (1 | ward)"),
        ("linear", "y ~ age + arm + (1 + arm | ward)"),
        ("poisson", "count ~ age + arm"),
    ] {
        let (page, fit, checks) = page(&table, model, formula);
        assert!(checks.rows.is_ok() && checks.curves.is_ok(), "{formula}: {checks:?}");
        let found = sections(&page);
        assert_eq!(found[..4], FIRST, "{formula}");
        assert_eq!(found[4..8], PICTURES, "{formula}");
        assert_eq!(found[8], "technical", "{formula}");
        assert!(!page.contains("Not shown"), "{formula}");
        // without the rows the page is there, and says what is missing, of the predictors and of all checks
        let bare = report(&fit.record, &fit.extras());
        assert_balanced(&bare);
        let checks = found.iter().filter(|s| !PICTURES[2..].contains(s));
        let left: Vec<&str> = checks.map(|s| if *s == PICTURES[1] { "checks" } else { s }).collect();
        assert_eq!(sections(&bare), left, "{formula}");
        assert_eq!(bare.matches("<p>Not shown: the report was made without the rows").count(), 2);
        assert_eq!(bare.matches("<figure class=\"plot\"").count(), 0);
    }
}

/// The question names what was asked; every sentence has the direction and the size of its coefficient.
#[test]
fn the_answer_is_said_in_sentences() {
    let table = table(NAMES, 400);
    let (found, fit, _) = page(&table, "logistic", "event ~ age + arm");
    assert!(found.contains(
        "How does the probability that <strong>event</strong> is <strong>1</strong> depend on <strong>age</strong> and \
         <strong>arm</strong>?"
    ));
    let parameter = |name: &str| fit.record.parameters.iter().find(|p| p.name == name).unwrap();
    let age = parameter("age");
    let three = |x: f64| certus::certificate::significant(x.exp(), 3);
    let [low, middle, high] = [age.q05, age.q50, age.q95].map(|x| three(x.unwrap()));
    let words = format!(
        "For one more unit of <strong>age</strong>, the odds that <strong>event</strong> is <strong>1</strong> are \
         multiplied by about {middle} (90\u{a0}% interval {low} to {high}): they are higher."
    );
    assert!(found.contains(&words), "{words}");
    assert!(found.contains(
        "For <strong>arm</strong> <strong>low</strong> rather than <strong>high</strong>, the odds"
    ));
    // the table has the numbers of fit.json
    let row = format!(
        "<tr><th scope=\"row\">age</th><td>{}</td>",
        certus::certificate::significant(age.mean.unwrap(), 3)
    );
    assert!(found.contains(&row), "{row}");
    // in an interaction no single number is true
    let (found, ..) = page(&table, "logistic", "event ~ age * arm");
    assert!(!found.contains("For one more unit of") && !found.contains("rather than"));
    assert!(found.contains(
        "What <strong>age</strong> and <strong>arm</strong> have to do with the response is no single"
    ));
    // nor of a column that has a curve of its own besides
    let (found, ..) = page(&table, "linear", "y ~ age + I(age^2) + arm");
    assert!(!found.contains("For one more unit of") && found.contains("rather than"));
    // where the sd between groups is not given, slopes are those of the average group
    let (found, ..) = page(&table, "linear", "y ~ age + (1 + age | ward)");
    assert!(found.contains("; this is the average group of <strong>ward</strong>"));
    assert!(found.contains(
        "The rows belong to 6 groups (<strong>ward</strong>), and the intercept and the coefficient"
    ));
}

/// Curves are what `effects` answers, and rows are those of `ppc`.
#[test]
fn pictures_have_the_numbers_of_effects_and_ppc() {
    let table = table(NAMES, 90);
    let (page, fit, checks) = page(&table, "logistic", "event ~ age + arm");
    let curves = checks.curves.unwrap();
    assert_eq!(curves.list.iter().map(|c| c.column.as_str()).collect::<Vec<_>>(), ["age", "arm"]);
    assert_eq!((curves.averaged, curves.left, curves.draws), (90, 0, 4000));
    for curve in &curves.list {
        let held = vec![Held { column: curve.column.clone(), values: curve.places.written() }];
        let answers = fit.effects(&table, &Question { held, ..Question::default() }, None).unwrap();
        assert_eq!(answers.rows.len(), curve.points.len());
        for (own, point) in answers.rows.iter().zip(&curve.points) {
            assert_eq!([own.estimate, own.conf_low, own.conf_high], *point, "{}", own.at);
        }
    }
    let Places::Numbers(ages) = &curves.list[0].places else { panic!("{curves:?}") };
    let said = |k: usize| certus::certificate::significant(curves.list[0].points[k][0], 3);
    let trimmed = |x: f64| certus::certificate::significant(x, 4).trim_end_matches('0').to_string();
    let words = format!(
        "age: about {} at {}, about {} at {}.",
        said(0),
        trimmed(ages[0]),
        said(14),
        trimmed(ages[14])
    );
    assert!(page.contains(&words), "{words}");
    let ppc = fit.ppc(&problem(&table, "logistic", "event ~ age + arm")).unwrap();
    assert_eq!(checks.rows.as_ref().unwrap(), &ppc);
    assert!(page.contains(&format!("<td>{:.3}</td></tr></tbody>", ppc.statistics[0].above)));
    // as many points as rows, in two pictures
    assert_eq!(page.matches("<circle class=\"faint\"").count(), 180);
    assert!(page.contains("From all 90 rows, and 4\u{202f}000 draws of the posterior."));
}

/// Of many rows some are looked at, in a fixed way, and the page says so.
#[test]
fn many_rows_are_thinned() {
    let table = table(NAMES, 4500);
    let (page, _, checks) = page(&table, "logistic", "event ~ age + arm");
    let rows = checks.rows.unwrap().rows;
    assert_eq!(checks.every, 3);
    // five standard errors about 1,500
    assert!((1340..1660).contains(&rows), "{rows}");
    let words = format!(
        "From 1\u{202f}{} rows, chosen by a fixed rule, about one of every 3 of 4\u{202f}500, and",
        rows - 1000
    );
    assert!(page.contains(&words), "{words}");
    assert!(page.contains("One row of every 3 is drawn."));
    assert!(page.len() < 300_000, "{}", page.len());
}

/// Names of columns and levels are text, wherever they stand.
#[test]
fn hostile_columns_stay_text() {
    let attack = "<script>alert(1)</script>\"'><img>";
    let names = [format!("{attack}1"), format!("{attack}2"), format!("{attack}3"), format!("{attack}4")];
    let table = table(names.each_ref().map(String::as_str), 120);
    let [x, arm, _, group] = names.each_ref().map(|name| format!("`{name}`"));
    for formula in [format!("event ~ {x} + {arm}"), format!("event ~ {x} + {arm} + (1 | {group})")] {
        let (page, ..) = page(&table, "logistic", &formula);
        assert!(!page.contains("<script") && !page.contains("<img"));
        assert!(page.matches("&lt;script&gt;").count() > 20);
    }
}

/// Effects of linear mixed models are drawn together with sigma: half of the responses lie below their draws, and the
/// residuals of the rows have about sd 1, whatever the shape of the model and of its posterior.
#[test]
fn linear_mixed_models_have_joint_draws() {
    let table = table(NAMES, 240);
    for formula in ["y ~ age + arm + (1 | ward)", "y ~ age + arm + (1 + arm | ward)"] {
        let problem = problem(&table, "linear", formula);
        let fit = fit_of(&problem, &settings("linear", formula));
        let (ppc, loo) = (fit.ppc(&problem).unwrap(), fit.loo(&problem).unwrap());
        // the noise takes about 1, so residuals of 240 rows have sd 1 ± 0.05, less what some eight coefficients take
        assert!((0.9..1.1).contains(&ppc.residual_sd) && ppc.residual_mean.abs() < 0.1, "{formula}: {ppc:?}");
        assert_eq!(ppc.note, None);
        // log p of a row under N(0, 1) is −1.42 on average
        assert!((-1.65..-1.25).contains(&(loo.loo.elpd / 240.0)), "{formula}: {:?}", loo.loo);
        assert!((5.0..16.0).contains(&loo.loo.p), "{formula}: {:?}", loo.loo);
        // draw k of the log likelihoods is draw k of the parameters
        let (draws, own) = (fit.draws(50, 9), fit.log_likelihood(&problem, 50, 9).unwrap());
        assert_eq!(own.len(), 240 * 50);
        let sigma = fit.record.parameters.iter().position(|p| p.name == "sigma").unwrap();
        let names = fit.record.parameters.len();
        for k in 0..50 {
            // Σ log p = −n log σ√2π − Σ r²/2σ²: the squares are about (n − 8)σ², whatever the draw
            let total: f64 = own.iter().skip(k).step_by(50).sum();
            let sd = draws[k * names + sigma];
            let squares = -2.0 * (total + 240.0 * (sd * std::f64::consts::TAU.sqrt()).ln()) * sd * sd / 240.0;
            assert!((0.7..1.5).contains(&squares), "{formula}, draw {k}: {squares}");
        }
    }
}

/// Estimates are beside data sets with new effects of all groups: statistics of the data are common among them, and
/// residuals have about sd 1; of the pictures only calibration is missing.
#[test]
fn estimates_are_checked_with_new_groups() {
    let table = table(NAMES, 240);
    for (model, formula, reml, sd) in [
        ("linear", "y ~ age + arm + (1 | ward)", true, 0.9..1.1),
        ("logistic", "event ~ age + (1 | ward)", false, 0.9..1.1),
        // these counts vary more than a Poisson law with such groups
        ("poisson", "count ~ age + arm + (1 | ward)", false, 1.1..1.35),
    ] {
        let settings = Settings { reml, ml: !reml, ..settings(model, formula) };
        let problem = Problem::new(&table, &settings.request().unwrap(), &Storage::default()).unwrap();
        let fit = fit_of(&problem, &settings);
        let ppc = fit.ppc(&problem).unwrap();
        assert!(ppc.at_estimates && ppc.draws == 4000 && ppc.rows == 240, "{formula}");
        let found = (ppc.residual_mean, ppc.residual_sd);
        assert!(found.0.abs() < 0.3 && sd.contains(&found.1), "{formula}: {found:?}");
        for s in &ppc.statistics[..ppc.statistics.len().min(2)] {
            assert!((0.01..0.99).contains(&s.above), "{formula}: {s:?}");
        }
        let checks = fit.checks(&problem, &problem.some_rows(&table).unwrap());
        let page = report(&fit.record, &Extras { checks, ..fit.extras() });
        assert_balanced(&page);
        assert_eq!(sections(&page)[4..8], PICTURES, "{formula}");
        assert_eq!(page.matches("Not shown").count(), 1, "{formula}");
        assert!(page.contains("each has new effects of all groups"), "{formula}");
    }
}

/// What cannot be drawn is said in a line, and numbers that are not finite break nothing.
#[test]
fn strange_checks_give_whole_pages() {
    let (record, extras) = rich();
    let row = |y: f64, expected: f64, residual: f64| CheckedRow { y, trials: 1.0, expected, residual };
    let ppc = |checked: Vec<CheckedRow>, frequencies: Vec<Frequency>| Ppc {
        statistics: vec![Statistic {
            name: "mean",
            observed: 3.0,
            mean: 1.0,
            low: 1.0,
            high: 1.0,
            above: 0.0,
        }],
        draws: 4000,
        rows: checked.len(),
        residual_mean: 0.0,
        residual_sd: 1.0,
        far: 0,
        note: None,
        at_estimates: false,
        residuals: checked.iter().map(|row| row.residual).collect(),
        checked,
        frequencies,
    };
    let curve = |points: Vec<[f64; 3]>, places: Places| Curve { column: "x".into(), places, points };
    for (points, places) in [
        (vec![[f64::NAN; 3]; 2], Places::Numbers(vec![0.0, 1.0])),
        (vec![[f64::INFINITY; 3]], Places::Levels(vec!["a".into()])),
        (vec![[0.5; 3]; 2], Places::Numbers(vec![0.0, 1.0])),
        (Vec::new(), Places::Levels(Vec::new())),
    ] {
        let list = vec![curve(points, places)];
        let curves = Ok(Curves { list, left: 1, averaged: 1, draws: 1, population: false });
        for (model, rows) in [
            ("logistic", vec![row(1.0, f64::NAN, f64::NAN)]),
            ("logistic", vec![row(1.0, 0.5, 0.0)]),
            ("linear", vec![row(1.0, f64::INFINITY, 0.0), row(2.0, 1.0, f64::NAN)]),
            ("poisson", vec![row(1.0, 1.0, 0.0)]),
            ("linear", Vec::new()),
        ] {
            let mut record = record.clone();
            record.model = model.into();
            let checks = Checks { curves: curves.clone(), rows: Ok(ppc(rows, Vec::new())), every: 1 };
            let page = report(&record, &Extras { checks, ..extras.clone() });
            assert_balanced(&page);
            assert!(!page.contains("NaN") && !page.contains("inf%") && !page.contains("=\"inf"), "{page}");
        }
    }
    let checks = Checks { curves: Err("it rains".into()), rows: Err("it snows.".into()), every: 1 };
    let page = report(&record, &Extras { checks, ..extras });
    assert_eq!(
        (page.matches("Not shown: it rains.").count(), page.matches("Not shown: it snows.<").count()),
        (1, 1)
    );
}

/// `REPORT_TO=DIR cargo test -p certus-fit --test it report::pages -- --ignored` writes pages to look at.
#[test]
#[ignore = "for people"]
fn pages() {
    let folder = std::path::PathBuf::from(std::env::var("REPORT_TO").unwrap());
    let (mut record, mut extras) = rich();
    let names = [
        "(Intercept)",
        "age",
        "income",
        "years at address",
        "a name that is much longer than anybody would like to read",
        "x6",
        "x7",
        "x8",
        "x9",
        "education: university",
    ];
    record.parameters.iter_mut().zip(names).for_each(|(p, name)| p.name = name.into());
    std::fs::write(folder.join("proved.html"), report(&record, &extras)).unwrap();
    let goal = certus::Goal { gap: 1e-4, ..certus::Goal::default() };
    let outcome =
        certus_models::auto::fit(&crate::common::model(), &goal, certus_models::auto::Method::Stochastic)
            .unwrap();
    let mut record = crate::common::record(&outcome, names.map(String::from).to_vec());
    record.settings["gap"] = serde_json::json!(1e-4);
    record.status = certus::Status::Limit;
    record.k_hat = Some(0.62);
    let other = record
        .parameters
        .iter()
        .map(|p| Parameter::normal(p.name.clone(), p.mean.unwrap() + 0.02, 1.05 * p.sd.unwrap()));
    extras.draws = Some(Comparison { source: "4,000 exact draws".into(), parameters: other.collect() });
    std::fs::write(folder.join("limit.html"), report(&record, &extras)).unwrap();
    record.status = certus::Status::AssumptionViolated;
    record.message =
        "the gradient does not match the log density: at (0.31, -1.2) its slope is 2.0 times the measured \
        one"
        .into();
    let gap = &mut record.certificate.gap;
    (gap.level, gap.bound, gap.mean_error, gap.sd_error) = (RecordedLevel::None, None, None, None);
    gap.reason = Some("the gradient cannot be trusted".into());
    gap.assumptions.clear();
    record.k_hat = Some(0.95);
    record.parameters = (0..60)
        .map(|k| {
            Parameter::normal(
                format!("theta[{k}]"),
                (f64::from(k) * 0.7).sin() * 3.0,
                0.2 + f64::from(k % 5) * 0.2,
            )
        })
        .collect();
    extras.draws = None;
    std::fs::write(folder.join("failed.html"), report(&record, &extras)).unwrap();
}
