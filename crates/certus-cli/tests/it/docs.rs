//! The commands of pages of docs, typed one page after the other in one directory that holds the published data sets;
//! what they are shown to print is what they print.
#![allow(clippy::unwrap_used)]
#![cfg(feature = "scan")]

use std::path::Path;
use std::process::Command;

use crate::common::{BINARY, scratch};

/// The pages whose commands are run, and at least how many blocks of them there are.
const PAGES: [(&str, usize); 14] = [
    ("docs/quick-start.md", 3),
    ("docs/cli.md", 1),
    ("docs/groups.md", 1),
    ("docs/chapters/dose.md", 3),
    ("docs/chapters/clinics.md", 2),
    ("docs/chapters/repeated.md", 2),
    ("docs/chapters/ratings.md", 2),
    ("docs/chapters/counts.md", 2),
    ("docs/chapters/million-groups.md", 1),
    ("docs/chapters/shops.md", 2),
    ("docs/coming-from.md", 1),
    ("docs/when-it-says-no.md", 1),
    ("docs/who-is-right.md", 1),
    ("docs/faq.md", 1),
];

/// The published data sets, which pages say are to be read from the directory of the commands.
const DATA: [&str; 2] = ["data", "crates/certus-mixed/tests/data"];

/// The fenced blocks of a text, as (language, body).
fn blocks(text: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = text.split("```").collect();
    let inside = parts.iter().skip(1).step_by(2);
    inside.filter_map(|block| block.split_once('\n')).collect()
}

/// Without the times, which differ.
fn timeless(text: &str) -> Vec<String> {
    let line = |l: &str| if l.starts_with("spent") { l.rsplit_once(", ").unwrap().0 } else { l }.to_string();
    text.lines().map(line).collect()
}

#[test]
fn commands_do_what_is_shown() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let binaries = Path::new(BINARY).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
    let dir = scratch("commands");
    for file in DATA.iter().flat_map(|data| std::fs::read_dir(root.join(data)).unwrap()) {
        let file = file.unwrap();
        std::fs::copy(file.path(), dir.join(file.file_name())).unwrap();
    }
    for (name, least) in PAGES {
        let text = std::fs::read_to_string(root.join(name)).unwrap();
        let blocks = blocks(&text);
        let mut run = 0;
        for (k, (_, body)) in blocks.iter().enumerate().filter(|(_, b)| b.0 == "sh") {
            let output = Command::new("bash")
                .args(["-euc", body])
                .current_dir(&dir)
                .env("PATH", &path)
                .output()
                .unwrap();
            let (out, err) =
                (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success(), "{name}:\n{body}\n{out}\n{err}");
            if let Some((_, shown)) = blocks.get(k + 1).filter(|b| b.0 == "text") {
                assert_eq!(timeless(&out), timeless(shown), "{name} must show:\n{out}");
            }
            run += 1;
        }
        assert!(run >= least, "{name}: {run} blocks of commands");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Every setting of a TOML file that is shown is one.
#[test]
fn settings_are_legal() {
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md")).unwrap();
    let dir = scratch("settings");
    for (_, body) in blocks(&text).into_iter().filter(|b| b.0 == "toml") {
        std::fs::write(dir.join("model.toml"), body).unwrap();
        let output = Command::new(BINARY)
            .args(["fit", "--config", "model.toml", "--print-config"])
            .current_dir(&dir)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), body.trim());
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
