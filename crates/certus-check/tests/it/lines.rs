//! How long the checker is: what has to be read to believe it.

use std::path::Path;

/// Lines with code: neither empty nor a comment.
fn lines(path: &Path) -> usize {
    if path.is_dir() {
        return std::fs::read_dir(path).unwrap().map(|entry| lines(&entry.unwrap().path())).sum();
    }
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

/// Rules that have files of their own. write.rs is for those who make certificates, and checks nothing.
const RULES: [&str; 3] = ["draws", "mixed", "sd"];
const WRITES: &str = "write.rs";

/// docs/certificate-format.md, "How long the checkers are".
#[test]
fn the_checker_is_short() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let rule = |name: &str| {
        ["", ".rs"].map(|end| source.join(format!("{name}{end}"))).into_iter().find(|p| p.exists())
    };
    let rules: usize = RULES
        .iter()
        .map(|name| {
            let own = lines(&rule(name).unwrap());
            println!("{name}: {own}");
            assert!((1..=500).contains(&own), "{name} has {own} lines");
            own
        })
        .sum();
    let core = lines(&source) - rules - lines(&source.join(WRITES));
    println!("the rest: {core}");
    assert!((1..=1500).contains(&core), "the checker has {core} lines");
}
