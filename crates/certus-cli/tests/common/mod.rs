//! The real binary, a place for its files, and what is expected of it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub const BINARY: &str = env!("CARGO_BIN_EXE_certus");

/// A directory of this test's own, empty, named after its file; what the last run left in it stays to be looked at.
#[track_caller]
pub fn scratch(name: &str) -> PathBuf {
    let file = Path::new(std::panic::Location::caller().file()).file_stem().unwrap();
    let own = format!("{}-{name}", file.to_string_lossy());
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(own);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

pub fn certus(arguments: &[&str]) -> Output {
    Command::new(BINARY).args(arguments).env("NO_COLOR", "1").output().unwrap()
}

/// The code, and words on either stream.
#[track_caller]
pub fn expect(output: &Output, wanted: i32, words: &str) {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(wanted), "stdout:\n{out}\nstderr:\n{err}");
    assert!(
        out.contains(words) || err.contains(words),
        "no word of {words:?}\nstdout:\n{out}\nstderr:\n{err}"
    );
}
