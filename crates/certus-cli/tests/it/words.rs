//! The same bound with the same digits in everything a command writes, never below the stored one; an estimate is never
//! "at most"; progress lines too (finding T1).
#![allow(clippy::unwrap_used)]
#![cfg(feature = "scan")]

use crate::common::{certus, expect, scratch};

/// The numbers after some words, as text.
fn after(text: &str, words: &str) -> Vec<String> {
    let end = |rest: &str| rest.find(|c: char| !"0123456789.e-".contains(c)).unwrap_or(rest.len());
    let rest = text.match_indices(words).map(|(at, _)| &text[at + words.len()..]);
    rest.map(|rest| rest[..end(rest)].trim_end_matches('.').to_string()).collect()
}

fn without_tags(page: &str) -> String {
    let body = &page[page.find("<body>").unwrap()..];
    body.split('<').map(|part| part.split_once('>').map_or("", |p| p.1)).collect()
}

#[test]
fn a_bound_has_the_same_digits_everywhere_and_an_estimate_is_none() {
    let dir = scratch("digits");
    let rows: String = (0..200)
        .map(|i| {
            let x = (f64::from(i) * 1.3).sin() + (f64::from(i) * 0.37).cos();
            format!("{},{x}\n", u8::from((f64::from(i) * 0.77).sin() + 0.5 * x > 0.0))
        })
        .collect();
    std::fs::write(dir.join("rows.csv"), format!("y,x\n{rows}")).unwrap();
    let rows = dir.join("rows.csv");
    for model in ["logistic", "probit"] {
        let out = dir.join(model);
        let (rows, out) = (rows.to_str().unwrap(), out.to_str().unwrap());
        let fit = certus(&["fit", model, rows, "--response", "y", "--out", out]);
        expect(&fit, 0, "from the best of all Gaussians");
        let text = std::fs::read_to_string(dir.join(model).join("fit.json")).unwrap();
        let record: serde_json::Value = serde_json::from_str(&text).unwrap();
        expect(&certus(&["report", out]), 0, "");
        let page = without_tags(&std::fs::read_to_string(dir.join(model).join("report.html")).unwrap());
        let table = String::from_utf8(fit.stdout).unwrap();
        let progress = String::from_utf8(fit.stderr).unwrap();
        let message = record["message"].as_str().unwrap();
        let bound = record["certificate"]["gap"]["bound"].as_f64().unwrap();
        if model == "probit" {
            assert_eq!(record["certificate"]["gap"]["level"], "estimated");
            for text in [&page, message, table.lines().find(|l| l.starts_with("gap")).unwrap()] {
                assert!(!text.contains("gap at most") && !text.contains("gap is at most"), "{text}");
                assert!(text.contains("bounded by about "), "{text}");
                assert!(
                    text.contains("if the trapezoid rule for probit is as accurate as it was in tests"),
                    "{text}"
                );
            }
            assert!(!progress.contains("at most"), "{progress}");
            continue;
        }
        let line = table.lines().find(|l| l.starts_with("gap")).unwrap();
        let mut shown: Vec<String> =
            [message, line].iter().flat_map(|text| after(text, "at most ")).collect();
        shown.extend(after(&page, "Gap at most "));
        assert!(shown.len() >= 3, "{shown:?}");
        shown.dedup();
        let [digits] = &shown[..] else { panic!("{shown:?} for {bound}") };
        let value: f64 = digits.parse().unwrap();
        assert!(value >= bound && value <= 1.1 * bound, "{value} for {bound}");
    }
}
