//! The house rules that a compiler does not know: which crate may know which, no import circles between files, one
//! purpose per file, nothing printed by the core.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Every crate, and the crates of this workspace it may name (ARCHITECTURE.md).
const CRATES: [(&str, &[&str]); 11] = [
    ("certus", &[]),
    // depends on nothing at all
    ("certus-check", &[]),
    ("certus-likelihood", &["certus"]),
    ("certus-verify", &["certus-likelihood"]),
    ("certus-models", &["certus", "certus-check", "certus-likelihood", "certus-verify"]),
    ("certus-mixed", &["certus", "certus-likelihood", "certus-models"]),
    ("certus-data", &["certus", "certus-likelihood", "certus-models"]),
    (
        "certus-fit",
        &[
            "certus",
            "certus-check",
            "certus-data",
            "certus-likelihood",
            "certus-mixed",
            "certus-models",
            "certus-verify",
        ],
    ),
    ("certus-cluster", &["certus", "certus-models"]),
    (
        "certus-cli",
        &["certus", "certus-cluster", "certus-data", "certus-fit", "certus-likelihood", "certus-models"],
    ),
    ("certus-python", &["certus", "certus-data", "certus-fit", "certus-models"]),
];
/// Lines of a file without its tests, at most.
const LINES: usize = 420;
/// Columns of a line, at most.
const COLUMNS: usize = 120;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return out };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            out.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
    out
}

/// The code of a file without its tests.
fn code(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap();
    text.split("#[cfg(test)]\nmod tests").next().unwrap().to_string()
}

/// The module of a file: `factor/lower.rs` → ["factor", "lower"], `factor/mod.rs` → ["factor"].
fn module(root: &Path, file: &Path) -> Vec<String> {
    let path = file.strip_prefix(root).unwrap().with_extension("");
    let mut parts: Vec<String> = path.iter().map(|p| p.to_string_lossy().into_owned()).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// Edges between the files of a crate: every `use crate::…` and `use super::…` outside of tests. A module and its own
/// children count as one.
fn imports(root: &Path) -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    let files: BTreeMap<Vec<String>, PathBuf> =
        sources(root).into_iter().map(|file| (module(root, &file), file)).collect();
    let mut edges = BTreeMap::new();
    for (own, file) in &files {
        let to: &mut BTreeSet<Vec<String>> = edges.entry(own.clone()).or_default();
        for line in code(file).lines() {
            let line = line.trim_start().trim_start_matches("pub(crate) ").trim_start_matches("pub ");
            let Some(path) = line.strip_prefix("use ") else { continue };
            let names: Vec<&str> = path.split("::").map(|p| p.trim_end_matches(';')).collect();
            let up = names.iter().take_while(|n| **n == "super").count();
            let mut at: Vec<String> = match names[0] {
                "crate" => names[1..].iter().map(ToString::to_string).collect(),
                "super" if up <= own.len() => {
                    let names = names[up..].iter().map(ToString::to_string);
                    own[..own.len() - up].iter().cloned().chain(names).collect()
                }
                _ => continue,
            };
            while !at.is_empty() && !files.contains_key(&at) {
                at.pop();
            }
            if !at.is_empty() && !at.starts_with(own) && !own.starts_with(&at) {
                to.insert(at);
            }
        }
    }
    edges
}

#[test]
fn no_file_imports_itself_through_others() {
    let mut seen = 0;
    for (name, _) in CRATES {
        let mut left = imports(&folder().join(name).join("src"));
        seen += left.values().map(BTreeSet::len).sum::<usize>();
        // peel off what imports nothing that is left
        while let Some(free) =
            left.iter().find(|(_, to)| to.iter().all(|t| !left.contains_key(t))).map(|(m, _)| m.clone())
        {
            left.remove(&free);
        }
        assert!(left.is_empty(), "{name}: these files import each other in a circle: {:?}", left.keys());
    }
    assert!(seen > 500, "the parser must see the imports: {seen}");
    let core = imports(&folder().join("certus").join("src"));
    let names = |parts: &[&str]| parts.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(core[&names(&["update"])].contains(&names(&["estimator"])), "{core:?}");
}

/// Cargo enforces what a manifest says; this says what manifests may say.
#[test]
fn crates_know_only_those_below_them() {
    let there: BTreeSet<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(there, CRATES.iter().map(|(name, _)| name.to_string()).collect(), "list every crate here");
    for (name, allowed) in CRATES {
        let text = std::fs::read_to_string(folder().join(name).join("Cargo.toml")).unwrap();
        let dependencies = text.split("[dependencies]").nth(1).unwrap_or_default();
        let dependencies = dependencies.split("\n[").next().unwrap();
        let named: Vec<&str> = dependencies
            .lines()
            .filter_map(|line| line.split([' ', '.', '=']).next())
            .filter(|word| word.starts_with("certus"))
            .collect();
        for one in &named {
            assert!(allowed.contains(one), "{name} must not depend on {one}");
        }
        // libraries with a purpose of their own stay where they belong
        for (library, homes) in [
            ("mpi", &["certus-cluster"][..]),
            ("datafusion", &["certus-data"]),
            ("pyo3", &["certus-python"]),
            ("parquet", &["certus-fit"]),
            ("safetensors", &["certus-fit"]),
            ("faer", &["certus", "certus-models"]),
            ("nuts-rs", &["certus-models"]),
        ] {
            let asked = |line: &str| {
                line.starts_with(&format!("{library} =")) || line.starts_with(&format!("{library}."))
            };
            let has = dependencies.lines().any(asked);
            assert!(!has || homes.contains(&name), "{name} must not depend on {library}");
        }
    }
}

#[test]
fn every_file_has_one_purpose_and_says_it() {
    let crates = CRATES.iter().map(|(name, _)| folder().join(name));
    for file in crates.clone().flat_map(|c| sources(&c.join("src"))) {
        let (text, lines) = (std::fs::read_to_string(&file).unwrap(), code(&file).lines().count());
        let first = text.lines().next().unwrap_or("");
        let says = first.starts_with("//!") || first.starts_with("#![doc");
        assert!(says, "{}: say what the file is for", file.display());
        assert!(lines <= LINES, "{}: {lines} lines; the noun was two nouns", file.display());
    }
    for file in crates.flat_map(|c| [sources(&c.join("src")), sources(&c.join("tests"))].concat()) {
        let text = std::fs::read_to_string(&file).unwrap();
        for (k, line) in text.lines().enumerate() {
            // tables and raw text cannot be broken
            let fixed = line.contains("r#\"") || line.trim_start().starts_with("//! |");
            assert!(fixed || line.chars().count() <= COLUMNS, "{}:{}", file.display(), k + 1);
        }
    }
}

/// The core performs no I/O, never prints and knows no model.
#[test]
fn the_core_is_pure() {
    for file in sources(&folder().join("certus").join("src")) {
        let text = std::fs::read_to_string(&file).unwrap();
        for word in [
            "println!",
            "eprintln!",
            "std::fs",
            "std::env",
            "std::net",
            "std::process",
            "logistic",
            "poisson",
        ] {
            assert!(!text.contains(word), "{}: {word}", file.display());
        }
    }
}

/// Likelihoods, priors, rows and designs do not know methods.
#[test]
fn data_and_losses_do_not_know_methods() {
    let models = imports(&folder().join("certus-models").join("src"));
    for name in ["rows", "expectation", "design", "ranks"] {
        let own = vec![name.to_string()];
        let allowed = ["error", "expectation", "matrix", "ranks", "rows"];
        assert!(models[&own].iter().all(|m| allowed.contains(&m[0].as_str())), "{name}: {:?}", models[&own]);
    }
}

/// Every file with unsafe code, how many places of it there are, and why it needs them.
const UNSAFE: [(&str, usize, &str); 4] = [
    ("certus-cluster/src/mpi.rs", 1, "sets a variable of the environment before MPI starts its threads"),
    ("certus-python/src/memory.rs", 3, "reads rows of a NumPy matrix where they are, from several threads"),
    ("certus-python/src/stan.rs", 20, "calls the C functions of a compiled Stan program"),
    ("certus/tests/determinism.rs", 5, "counts allocations, which takes an allocator"),
];

/// Nothing else is unsafe, and every place says above it why it is sound.
#[test]
fn unsafe_code_is_where_it_is_listed() {
    // in two parts, so that this file has none
    let word = ["un", "safe"].concat();
    let starts = ["{", "impl", "fn"].map(|next| format!("{word} {next}"));
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for file in CRATES.iter().flat_map(|(name, _)| sources(&folder().join(name))) {
        let text = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (k, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap();
            let places: usize = starts.iter().map(|start| code.matches(start.as_str()).count()).sum();
            if places > 0 {
                let name = file.strip_prefix(folder()).unwrap().to_string_lossy().into_owned();
                *found.entry(name).or_default() += places;
                let above = &lines[k.saturating_sub(25)..k];
                let why = above.iter().any(|line| line.contains("// SAFETY:"));
                assert!(why, "{}:{}: say why this is sound", file.display(), k + 1);
            }
        }
    }
    let listed: BTreeMap<String, usize> = UNSAFE.iter().map(|(file, n, _)| (file.to_string(), *n)).collect();
    assert_eq!(found, listed, "list what is new in UNSAFE, with its reason");
    // the others forbid it, or deny it but for these files
    for (name, _) in CRATES {
        let root = ["src/lib.rs", "src/main.rs"].map(|file| folder().join(name).join(file));
        let forbids = root.iter().any(|file| {
            std::fs::read_to_string(file).is_ok_and(|text| text.contains(&format!("#![forbid({word}_code)]")))
        });
        let has = UNSAFE.iter().any(|(file, _, _)| file.starts_with(&format!("{name}/src")));
        assert!(forbids != has, "{name}");
    }
    let security = std::fs::read_to_string(folder().join("../SECURITY.md")).unwrap();
    for (file, _, _) in UNSAFE.iter().filter(|(file, _, _)| file.contains("/src/")) {
        assert!(security.contains(file), "SECURITY.md does not name {file}");
    }
}

/// `maturin build --release` builds what ships: pyproject.toml repeats the profile `dist` for Cargo's `release`.
#[test]
fn wheels_are_built_as_they_ship() {
    let cargo = std::fs::read_to_string(folder().join("../Cargo.toml")).unwrap();
    let python = std::fs::read_to_string(folder().join("certus-python/pyproject.toml")).unwrap();
    let own: BTreeSet<String> = python
        .lines()
        .filter_map(|line| line.trim().trim_end_matches(',').strip_suffix(['"', '\''])?.get(1..))
        .filter_map(|line| line.strip_prefix("profile.release."))
        .map(String::from)
        .collect();
    let mut shipped = BTreeSet::new();
    for (head, prefix) in [("\n[profile.dist]\n", ""), ("\n[profile.dist.package]\n", "package.")] {
        let section = cargo.split_once(head).unwrap().1.split("\n[").next().unwrap();
        let lines = section.lines().filter(|line| line.contains('=') && !line.starts_with("inherits"));
        shipped.extend(lines.map(|line| format!("{prefix}{}", line.replace(" = ", "="))));
    }
    assert!(shipped.len() > 5 && own == shipped, "{own:?} and {shipped:?}");
    assert!(python.contains("\nprofile = \"dist\"\n"));
}
