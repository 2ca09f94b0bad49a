//! The report is one balanced HTML file without addresses or scripts, in which nothing from outside is more than text.
#![allow(clippy::unwrap_used)]

use crate::common::{fitted, fresh};
use certus_fit::record::{Parameter, Record, RecordedLevel, TracePoint};
use certus_fit::report::{Comparison, Extras, report, write};
use certus_fit::{FitDirectory, directory::REPORT};

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
