//! Every seed of the fuzz targets (`fuzz/corpus`), and bytes next to it, through the function that is fuzzed: no panic,
//! and an end in time.
#![cfg(all(unix, feature = "scan"))]
#![allow(unreachable_pub, clippy::unwrap_used)]

#[path = "../../../fuzz/src/lib.rs"]
#[expect(dead_code, reason = "decoders_may_panic is for the engine of cargo-fuzz")]
mod fuzz;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What a small file may take, in a build whose decoders are not optimised.
const LONGEST: Duration = Duration::from_secs(2);

/// Its name, what is fuzzed, and how many changes of each seed are tried here.
type Target = (&'static str, fn(&[u8]), u64);

/// Every target.
const TARGETS: [Target; 13] = [
    ("settings", fuzz::settings, 100),
    ("formula", fuzz::formula, 300),
    ("csv", fuzz::csv, 15),
    ("parquet", fuzz::parquet, 30),
    ("arrow", fuzz::arrow, 30),
    ("checkpoint", fuzz::checkpoint, 300),
    ("state", fuzz::state, 100),
    ("fit", fuzz::fit, 100),
    ("meaning", fuzz::meaning, 100),
    ("manifest", fuzz::manifest, 50),
    ("safetensors", fuzz::safetensors, 300),
    ("wire", fuzz::wire, 300),
    ("certificate", fuzz::certificate, 100),
];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn names(path: PathBuf) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

/// Xorshift: the same changes every time.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

/// Some bytes next to a seed: bits flipped, numbers at their ends, parts removed, repeated and moved.
fn changed(seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(3) {
        let (at, to) = (random.below(bytes.len()), random.below(bytes.len()));
        let (from, to) = (at.min(to), at.max(to));
        match random.below(7) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            1 if !bytes.is_empty() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff, b'"', b'9'][random.below(7)],
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(from..to.min(from + 9))),
            4 => {
                let part = bytes[from..to.min(from + 40)].to_vec();
                let at = random.below(bytes.len());
                bytes.splice(at..at, part);
            }
            5 if bytes.len() >= 8 => {
                let at = random.below(bytes.len() - 7);
                let word = [0, 1, u64::MAX, 1 << 63, (1 << 31) - 1, f64::NAN.to_bits()][random.below(6)];
                bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
            }
            _ => bytes.insert(at, [b'0', b'-', b'e', b'[', b'\n', 0xc3][random.below(6)]),
        }
    }
    bytes
}

fn replay(wanted: &[&str]) {
    for (name, run, changes) in TARGETS.iter().filter(|target| wanted.contains(&target.0)) {
        for path in names(folder().join("corpus").join(name)) {
            let seed = std::fs::read(&path).unwrap();
            let mut random = Random(0x9e37_79b9_7f4a_7c15);
            for k in 0..=*changes {
                let bytes = if k == 0 { seed.clone() } else { changed(&seed, &mut random) };
                let clock = Instant::now();
                let ended = std::panic::catch_unwind(|| run(&bytes));
                let took = clock.elapsed();
                if ended.is_err() || took > LONGEST {
                    let found = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{k}"));
                    std::fs::write(&found, &bytes).unwrap();
                    panic!("{name}: change {k} of {} took {took:?}: {}", path.display(), found.display());
                }
            }
        }
    }
}

#[test]
fn files_of_data() {
    replay(&["csv", "parquet", "arrow"]);
}

#[test]
fn everything_else() {
    let files = ["csv", "parquet", "arrow"];
    let others: Vec<&str> =
        TARGETS.map(|target| target.0).into_iter().filter(|t| !files.contains(t)).collect();
    replay(&others);
}

/// Every target has seeds, a file for cargo-fuzz, and a line in this test.
#[test]
fn targets_are_complete() {
    let here: BTreeSet<String> = TARGETS.iter().map(|target| target.0.to_string()).collect();
    let of = |path: &str| -> BTreeSet<String> {
        let stem = |path: PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
        names(folder().join(path)).into_iter().map(stem).collect()
    };
    assert_eq!(of("fuzz_targets"), here);
    assert_eq!(of("corpus"), here);
}
