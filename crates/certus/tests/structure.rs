//! The house rules that a compiler does not know: no import cycles, one purpose per file, nothing printed.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            out.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
    out
}

/// The library crates and where their sources are.
fn crates() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    ["certus", "certus-models", "certus-store", "certus-cluster"]
        .iter()
        .map(|c| folder.join(c).join("src"))
        .collect()
}

/// The top-level module a file belongs to: `factor/lower.rs` → `factor`.
fn module(root: &Path, file: &Path) -> String {
    let first = file.strip_prefix(root).unwrap().components().next().unwrap();
    first.as_os_str().to_string_lossy().trim_end_matches(".rs").to_string()
}

/// Edges `a → b` for every `crate::b` that non-comment code of module a names.
fn imports(root: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in sources(root) {
        let name = module(root, &file);
        if name == "lib" {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        for line in code.lines().filter(|l| !l.trim_start().starts_with("//")) {
            for (at, _) in line.match_indices("crate::") {
                let rest = &line[at + "crate::".len()..];
                let to: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                assert!(!to.is_empty(), "{}: write one `use crate::module::…` per line", file.display());
                if to != name {
                    edges.entry(name.clone()).or_default().insert(to);
                }
            }
        }
        edges.entry(name).or_default();
    }
    edges
}

#[test]
fn modules_do_not_import_each_other_in_circles() {
    let (core, models) = (imports(&crates()[0]), imports(&crates()[1]));
    assert!(core.len() >= 15 && models.len() >= 10, "the parser must see the modules: {core:?} {models:?}");
    assert!(core["fit"].contains("theorem") && core["update"].contains("estimator"), "{core:?}");
    assert!(models["exact"].contains("glm"), "{models:?}");
    // likelihood, prior and row files do not know solvers
    for name in ["likelihood", "prior", "rows", "expectation", "design"] {
        let allowed = ["error", "likelihood", "ranks", "rows", "special", "expectation"];
        assert!(models[name].iter().all(|m| allowed.contains(&m.as_str())), "{name}: {:?}", models[name]);
    }
    assert_acyclic(core);
    assert_acyclic(models);
}

/// The checker shares the likelihoods with what it checks, and no method; only writing a claim out looks at a model.
#[test]
fn the_checker_is_independent() {
    let folder = crates()[1].join("verify");
    for file in sources(&folder).iter().filter(|f| !f.ends_with("claim.rs")) {
        let text = std::fs::read_to_string(file).unwrap();
        for line in text.lines().filter(|l| l.trim_start().starts_with("use ")) {
            let shared = ["crate::error", "crate::likelihood", "crate::prior", "crate::special"];
            let outside = ["crate::", "certus::", "faer"].iter().any(|word| line.contains(word));
            assert!(!outside || shared.iter().any(|word| line.contains(word)), "{}: {line}", file.display());
        }
    }
}

fn assert_acyclic(mut left: BTreeMap<String, BTreeSet<String>>) {
    // peel off modules that import nothing that is left
    while let Some(free) =
        left.iter().find(|(_, to)| to.iter().all(|t| !left.contains_key(t))).map(|(m, _)| m.clone())
    {
        left.remove(&free);
    }
    assert!(left.is_empty(), "these modules import each other in a circle: {left:?}");
}

#[test]
fn every_file_has_one_purpose_and_says_it() {
    for file in crates().iter().flat_map(|c| sources(c)) {
        let text = std::fs::read_to_string(&file).unwrap();
        let first = text.lines().next().unwrap_or("");
        assert!(
            first.starts_with("//!") || first.starts_with("#![doc"),
            "{}: say what the file is for",
            file.display()
        );
        assert!(
            text.split("#[cfg(test)]").next().unwrap().lines().count() <= 420,
            "{}: {} lines; the noun was two nouns",
            file.display(),
            text.lines().count()
        );
    }
}

/// The core performs no I/O, never prints and knows no model.
#[test]
fn the_core_is_pure() {
    for file in sources(&crates()[0]) {
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

/// Only certus-cluster depends on MPI, and only if asked to.
#[test]
fn mpi_is_the_clusters_own() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(path.join("Cargo.toml")).unwrap();
        let lines: Vec<&str> =
            text.lines().filter(|l| l.starts_with("mpi = {") || l.starts_with("mpi.")).collect();
        let cluster = path.ends_with("certus-cluster");
        assert_eq!(lines.len(), usize::from(cluster), "{}: {lines:?}", path.display());
        assert!(lines.iter().all(|l| l.contains("optional = true")), "{lines:?}");
        seen += 1;
    }
    assert!(seen >= 6);
}
