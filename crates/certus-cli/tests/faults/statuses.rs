//! docs/statuses.md lists every status and every exit code of the code, and nothing else.

use std::collections::BTreeSet;
use std::path::Path;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// The body of an item of Rust, from `head` to the brace that closes it.
fn body<'a>(text: &'a str, head: &str) -> &'a str {
    let from = text.find(head).unwrap_or_else(|| panic!("there is no {head}")) + head.len();
    let mut depth = 0;
    let end = text[from..].find(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == '}' && depth == 0
    });
    &text[from..from + end.unwrap()]
}

/// The first cells of the rows of the table under a heading.
fn cells(text: &str, heading: &str) -> BTreeSet<String> {
    let part = text.split(&format!("## {heading}\n")).nth(1).unwrap_or_else(|| panic!("no {heading}"));
    let part = part.split("\n## ").next().unwrap();
    let rows = part.lines().filter(|line| line.starts_with("| ")).skip(1);
    rows.map(|line| line.split('|').nth(1).unwrap().trim().trim_matches('`').to_string()).collect()
}

#[test]
fn every_exit_code_is_documented() {
    let exit = read("crates/certus-cli/src/exit.rs");
    let codes: BTreeSet<String> = body(&exit, "pub enum Code ")
        .lines()
        .filter_map(|line| Some(line.trim().trim_end_matches(',').split_once(" = ")?.1.to_string()))
        .collect();
    assert!(codes.len() > 15, "{codes:?}");
    assert_eq!(cells(&read("docs/statuses.md"), "Exit codes"), codes);
}

#[test]
fn every_status_is_documented() {
    let code = read("crates/certus/src/fit/mod.rs");
    let words: BTreeSet<String> = body(&code, "pub fn as_str(&self) -> &'static str ")
        .split('"')
        .skip(1)
        .step_by(2)
        .map(String::from)
        .collect();
    assert_eq!(words.len(), 7, "{words:?}");
    assert_eq!(cells(&read("docs/statuses.md"), "Statuses of a fit"), words);
}

#[test]
fn every_kind_of_error_is_documented() {
    let code = read("crates/certus-data/src/error/mod.rs");
    let kinds: BTreeSet<String> = body(&code, "pub enum ErrorKind ")
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with("//") && line.ends_with(','))
        .map(|line| line.trim_end_matches(',').to_string())
        .collect();
    assert_eq!(kinds.len(), 8, "{kinds:?}");
    assert_eq!(cells(&read("docs/statuses.md"), "Kinds of errors"), kinds);
}
