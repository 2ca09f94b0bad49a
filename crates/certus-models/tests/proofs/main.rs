//! A corpus of certificates (docs/certificate-format.md): true ones of random models, and false ones, each with one
//! thing wrong. certus-check must judge all of them rightly, and so must the checker in Python, for which they are
//! written out.

#![allow(unreachable_pub, clippy::unwrap_used, clippy::print_stdout)]

mod draws;
mod gap;
// its edits of texts are for the tests of certus-check
#[allow(dead_code)]
#[path = "../../../certus-check/tests/it/judge.rs"]
mod judge;
mod mixed;
mod sd;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use certus_check::Refusal;

use judge::Written;

/// Numbers without a pattern (SplitMix64).
struct Dice(u64);

impl Dice {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, a: f64, b: f64) -> f64 {
        a + (b - a) * self.unit()
    }

    fn whole(&mut self, a: usize, b: usize) -> usize {
        a + (self.unit() * (b - a + 1) as f64) as usize
    }
}

/// A certificate with its rows.
#[derive(Clone)]
struct Case<C> {
    certificate: C,
    rows: Vec<u8>,
}

/// What is wrong with a false certificate, and how it comes to be.
type Flaw<C> = (&'static str, fn(&mut Case<C>));

impl<C: Written> Case<C> {
    fn judge(&self) -> Result<(), Refusal> {
        judge::judge(&self.certificate, &self.rows)
    }

    /// Bytes of a row.
    fn width(&self) -> usize {
        8 * self.certificate.numbers_per_row()
    }

    /// Changes a number of a row, counted from its end (1 is the last one).
    fn change(&mut self, row: usize, from_end: usize, change: impl Fn(f64) -> f64) {
        let at = (row + 1) * self.width() - 8 * from_end;
        let word: [u8; 8] = self.rows[at..at + 8].try_into().unwrap();
        self.rows[at..at + 8].copy_from_slice(&change(f64::from_le_bytes(word)).to_le_bytes());
    }

    fn drop_row(&mut self, row: usize) {
        let width = self.width();
        self.rows.drain(row * width..(row + 1) * width);
    }

    fn append_first_row(&mut self) {
        self.rows.extend_from_within(..self.width());
    }

    /// With flaw number `index`, and the name of that.
    fn flawed(mut self, flaws: &[Flaw<C>], index: usize) -> Judged {
        let (name, flaw) = flaws[index % flaws.len()];
        flaw(&mut self);
        self.named(name)
    }

    fn named(self, name: &'static str) -> Judged {
        (self.judge(), self.certificate.to_text(), self.rows, name)
    }
}

/// What certus-check says of a certificate, its text and its rows, and what is wrong with it or what it is about.
type Judged = (Result<(), Refusal>, String, Vec<u8>, &'static str);

/// What a corpus is made of.
#[derive(Clone, Copy)]
enum Rule {
    Gap,
    Sd,
    Draws,
    Mixed,
}

/// Number `index` of the true certificates of a rule, or of the false ones.
fn certificate(rule: Rule, true_one: bool, index: usize, dice: &mut Dice) -> Judged {
    match (rule, true_one) {
        (Rule::Gap, true) => gap::true_one(dice, index),
        (Rule::Gap, false) => gap::false_one(dice, index),
        (Rule::Sd, _) => {
            let case = sd::some_truth(dice, sd::WIDTHS[index % 3], true_one && index % 5 == 4);
            if true_one { case.named("sd-interval") } else { case.flawed(&sd::FLAWS, index) }
        }
        (Rule::Draws, _) => {
            let case = draws::some_truth(dice, (index + index / draws::FLAWS.len()) % 4);
            if true_one { case.named("posterior-moments") } else { case.flawed(&draws::FLAWS, index) }
        }
        (Rule::Mixed, _) => {
            let case = mixed::some_truth(dice);
            if true_one { case.named("variance-maximum") } else { case.flawed(&mixed::FLAWS, index) }
        }
    }
}

/// Makes `count` true and `count` false certificates of a rule, judges them, and writes them to a directory.
fn corpus(rule: Rule, count: usize, to: &Path) {
    let mut table: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    let mut wrong = Vec::new();
    for k in 0..2 * count {
        let (true_one, index) = (k % 2 == 0, k / 2);
        let mut dice = Dice([1000, 100_000, 200_000, 300_000][rule as usize] + k as u64);
        let (verdict, text, rows, name) = certificate(rule, true_one, index, &mut dice);
        let whether = if true_one { "true" } else { "false" };
        table.entry(format!("{whether}, {name}")).or_default()[usize::from(verdict.is_err())] += 1;
        if verdict.is_ok() != true_one {
            wrong.push(format!("{whether}-{index:04}-{name}: {verdict:?}"));
        }
        let file = |kind: &str| to.join(format!("{whether}-{index:04}-{name}.{kind}"));
        std::fs::write(file("proof"), text).unwrap();
        std::fs::write(file("rows"), rows).unwrap();
    }
    for (name, [accepted, refused]) in &table {
        println!("{name:<44} accepted {accepted:>4}  refused {refused:>4}");
    }
    assert!(wrong.is_empty(), "judged wrongly: {wrong:#?}");
}

/// The checker in Python judges what was written, if there is a Python, until so many seconds of processor time are
/// over.
fn in_python(directory: &Path, seconds: &str) {
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/check_certificate.py");
    match Command::new("python3").arg(tool).arg("--corpus").arg(directory).arg(seconds).output() {
        Ok(output) => {
            println!("{}", String::from_utf8_lossy(&output.stdout));
            assert!(output.status.success(), "{output:?}");
        }
        Err(error) => println!("skipped: python3 cannot be run ({error})"),
    }
}

fn both_checkers(rule: Rule, count: usize) {
    let directory = tempfile::tempdir().unwrap();
    corpus(rule, count, directory.path());
    in_python(directory.path(), "inf");
}

/// Of the long corpora the checker in Python judges as many as CERTUS_SECONDS allow, 500 of each if that is not set.
/// With CERTUS_TO they are written there.
fn long_corpus(rule: Rule, name: &str) {
    let (kept, made) = (std::env::var("CERTUS_TO"), tempfile::tempdir().unwrap());
    let directory = kept.map_or(made.path().to_path_buf(), |to| PathBuf::from(to).join(name));
    std::fs::create_dir_all(&directory).unwrap();
    corpus(rule, 500, &directory);
    in_python(&directory, &std::env::var("CERTUS_SECONDS").unwrap_or("inf".into()));
}

/// Writes two certificates from draws to the directory CERTUS_TO: those of crates/certus-check/tests/data.
#[test]
#[ignore = "writes files"]
fn write_draws() {
    let to = PathBuf::from(std::env::var("CERTUS_TO").unwrap());
    for (kind, name) in [(0, "draws-logistic"), (2, "draws-poisson")] {
        let informative = |case: &Case<certus_check::DrawsCertificate>| {
            let found = &case.certificate.directions;
            found.len() == 2 && found.iter().all(|d| d.sd[0] > 0.0)
        };
        let cases = (0..100).map(|seed| draws::some_truth(&mut Dice(seed), kind));
        let case = cases.into_iter().find(informative).unwrap();
        std::fs::write(to.join(format!("{name}.proof")), case.certificate.write()).unwrap();
        std::fs::write(to.join(format!("{name}.rows")), case.rows).unwrap();
    }
    let case = mixed::some_truth(&mut Dice(8));
    std::fs::write(to.join("mixed.proof"), case.certificate.write()).unwrap();
    std::fs::write(to.join("mixed.rows"), case.rows).unwrap();
}

/// Every flaw with every likelihood.
#[test]
fn flaws_of_draws_are_seen() {
    let mut dice = Dice(77);
    for kind in 0..4 {
        let case = draws::some_truth(&mut dice, kind);
        assert_eq!(case.judge(), Ok(()));
        for (name, flaw) in draws::FLAWS {
            let mut case = case.clone();
            flaw(&mut case);
            assert!(case.judge().is_err(), "{kind} {name}");
        }
    }
}

#[test]
fn both_checkers_judge_a_small_corpus() {
    both_checkers(Rule::Gap, gap::FLAWS.len() + 1);
    both_checkers(Rule::Sd, sd::FLAWS.len());
    both_checkers(Rule::Draws, draws::FLAWS.len());
}

#[test]
fn both_checkers_judge_certificates_of_variances() {
    both_checkers(Rule::Mixed, mixed::FLAWS.len());
}

/// 500 true and 500 false ones of every rule.
#[test]
#[ignore = "long"]
fn full_gap() {
    long_corpus(Rule::Gap, "gap");
}

#[test]
#[ignore = "long"]
fn full_sd() {
    long_corpus(Rule::Sd, "sd");
}

#[test]
#[ignore = "long"]
fn full_draws() {
    long_corpus(Rule::Draws, "draws");
}

#[test]
#[ignore = "long"]
fn full_mixed() {
    long_corpus(Rule::Mixed, "mixed");
}
