//! One certificate, one wording: whatever is printed of a record, "at most" and "within" stand before bounds only, no
//! printed bound is below the stored one, and the same number has the same digits everywhere (finding T1).
#![allow(clippy::unwrap_used)]

use crate::common::{fitted, record};
use certus::certificate::{Gap, Level, Posterior, Statement};
use certus::{Certificate, Outcome, Provenance};
use certus_fit::report::{Extras, report};

/// A xorshift generator.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Of any size from 1e-12 to 1e4.
    fn bound(&mut self) -> f64 {
        let digits = 1.0 + (self.next() % 1_000_000) as f64 * 9e-6;
        digits * 10f64.powi((self.next() % 16) as i32 - 12)
    }
}

/// The numbers after some words, as text.
fn after<'a>(text: &'a str, words: &str) -> Vec<&'a str> {
    let end = |rest: &str| rest.find(|c: char| !"0123456789.e-".contains(c)).unwrap_or(rest.len());
    text.match_indices(words)
        .map(|(at, _)| &text[at + words.len()..])
        .map(|rest| rest[..end(rest)].trim_end_matches('.'))
        .collect()
}

/// The text of a page.
fn without_tags(page: &str) -> String {
    let body = &page[page.find("<body>").unwrap()..];
    body.split('<').map(|part| part.split_once('>').map_or("", |p| p.1)).collect()
}

/// All that is said of an outcome: by the core, by the record (command line and Python), and in the report.
fn renderings(outcome: &Outcome) -> Vec<(&'static str, String)> {
    let mut record = record(outcome, (1..=10).map(|k| format!("x{k}")).collect());
    record.trace.clear();
    let table = [record.certificate.gap.facts(), record.certificate.posterior.facts()]
        .iter()
        .flat_map(|f| {
            [Some(f.sentence().to_string()), f.errors(), f.evidence(), Some(f.message())]
                .into_iter()
                .flatten()
        })
        .collect::<Vec<_>>()
        .join("\n");
    vec![
        ("core", outcome.certificate.to_string()),
        ("message", outcome.certificate.gap.facts().message()),
        ("facts of the record", table),
        ("sentences", record.sentences().join("\n")),
        ("report", without_tags(&report(&record, &Extras::default()))),
    ]
}

fn statement(level: Level, bound: f64, by: &Provenance) -> Statement {
    let word = by.vouched().unwrap();
    match level {
        Level::Proved => Statement::proved("Theorem D", bound, &word, "curvature"),
        Level::Probable { delta } => Statement::probable("D1", bound, delta, &word, "curvature"),
        _ => Statement::estimated("part J", bound, "the draws are enough"),
    }
}

#[test]
fn words_claim_what_the_record_holds() {
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let (mut outcome, _) = fitted();
    (outcome.message, outcome.route) = ("it ended".into(), "some route".into());
    for k in 0..400 {
        let level = |k: u64| match k % 3 {
            0 => Level::Proved,
            1 => Level::Probable { delta: 0.01 },
            _ => Level::Estimated,
        };
        let (of_gap, of_posterior) = (level(k), level(k / 3));
        let by = Provenance::DeclaredByUser("a test".into());
        let numbers: Vec<f64> = (0..6).map(|_| dice.bound()).collect();
        let [gap, mean, sd, kl, far, wide] = numbers[..] else { unreachable!() };
        let evidence = -100.0 * dice.bound();
        let mut stated = statement(of_gap, gap, &by);
        if of_gap == Level::Estimated && k % 2 == 0 {
            stated = stated.with("estimate", 0.9 * gap).with("standard error", 0.05 * gap);
        }
        outcome.certificate = Certificate {
            gap: Gap {
                statement: stated,
                family: "all Gaussians".into(),
                mean_error: Some(mean),
                sd_error: Some(sd),
            },
            posterior: Posterior {
                statement: statement(of_posterior, kl, &by),
                log_evidence: Some((evidence, evidence + kl)),
                mean_error: Some(far),
                sd_error: Some(wide),
            },
        };
        let bounds = |level: Level, numbers: [f64; 3]| {
            if level == Level::Estimated { vec![] } else { numbers.to_vec() }
        };
        let claimed: Vec<f64> = bounds(of_gap, [gap, mean, 100.0 * sd])
            .into_iter()
            .chain(bounds(of_posterior, [kl, far, 100.0 * wide]))
            .collect();
        let mut digits = std::collections::BTreeMap::new();
        for (who, text) in renderings(&outcome) {
            let shown: Vec<&str> = ["at most ", "within "].iter().flat_map(|w| after(&text, w)).collect();
            if claimed.is_empty() {
                assert!(shown.is_empty(), "{who}: {shown:?} in\n{text}");
            }
            for number in shown {
                let value: f64 = number.parse().unwrap_or_else(|_| panic!("{who}: {number:?} in\n{text}"));
                // it is one of the bounds, rounded up in its second digit: the largest that is not above it
                let below = claimed.iter().filter(|b| **b <= value * (1.0 + 4e-16));
                let own = below.max_by(|a, b| a.total_cmp(b)).filter(|b| value <= **b * 1.1);
                let own = own.unwrap_or_else(|| panic!("{who}: {value} is none of {claimed:?} in\n{text}"));
                let first = digits.entry(own.to_bits()).or_insert(number.to_string());
                assert_eq!(first, number, "{who}: two spellings of {own}");
            }
            // the evidence is rounded outward, and an estimate of it is no bracket
            for (low, high) in after(&text, "log evidence between ").iter().zip(after(&text, " and ")) {
                assert!(of_posterior != Level::Estimated, "{who}: {text}");
                let (low, high): (f64, f64) = (low.parse().unwrap(), high.parse().unwrap_or(f64::INFINITY));
                assert!(low <= evidence && evidence + kl <= high, "{who}: {low} {high} {evidence} {kl}");
            }
        }
        assert!(claimed.is_empty() || digits.len() >= 3, "{digits:?}");
    }
}

/// The record keeps what the core has: the sentences are the same before and after a file.
#[test]
fn a_record_says_what_the_outcome_said() {
    let (outcome, record) = fitted();
    assert_eq!(record.certificate.gap.facts(), outcome.certificate.gap.facts());
    assert_eq!(record.certificate.posterior.facts(), outcome.certificate.posterior.facts());
    let gap = outcome.certificate.gap.facts();
    assert_eq!(record.message, gap.message());
    assert!(gap.message().starts_with("the gap is at most "), "{}", gap.message());
    let back = certus_fit::Record::from_json(&record.to_json()).unwrap();
    assert_eq!(back.sentences(), record.sentences());
}
