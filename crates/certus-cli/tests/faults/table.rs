//! A row of the table: what is provoked, how it must end, what it must say and what it must leave.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub const BINARY: &str = env!("CARGO_BIN_EXE_certus");

/// How something ended.
pub struct Ended {
    /// The exit code, or the status of a fit.
    pub how: String,
    /// All that was said.
    pub said: String,
}

/// What must be left in the directory of the row.
#[derive(Clone, Copy)]
pub enum Left {
    /// Whatever it is.
    Any,
    /// No `out`.
    Nothing,
    /// `out` as it was before, byte for byte.
    Same,
    /// A result in `out` that can be read, of this status.
    Result(&'static str),
}

/// What provokes a fault.
type Provoke = Box<dyn Fn(&Path) -> Ended + Send + Sync>;

pub struct Row {
    pub what: String,
    /// Before the fault: files, and a fit in `out` where one is to stay.
    before: Vec<(String, Vec<u8>)>,
    fitted: bool,
    panics: bool,
    provoke: Provoke,
    how: String,
    words: Vec<String>,
    left: Left,
}

impl Row {
    /// A command in the directory of the row.
    pub fn run(what: &str, arguments: &[&str], code: i32, words: &str) -> Self {
        let owned: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let provoke = move |place: &Path| ended(&certus(place, &owned).output().unwrap());
        Self::new(what, code.to_string(), words, provoke)
    }

    /// A command of the shell in the directory of the row, in which `certus` is the binary.
    pub fn shell(what: &str, script: &str, code: i32, words: &str) -> Self {
        let script = format!("certus() {{ \"$CERTUS\" \"$@\"; }}\n{script}");
        let provoke = move |place: &Path| {
            let mut command = Command::new("bash");
            command.args(["-c", &script]).current_dir(place).env("NO_COLOR", "1").env("CERTUS", BINARY);
            ended(&command.stdin(Stdio::null()).output().unwrap())
        };
        Self::new(what, code.to_string(), words, provoke)
    }

    pub fn new(
        what: &str,
        how: impl Into<String>,
        words: &str,
        provoke: impl Fn(&Path) -> Ended + Send + Sync + 'static,
    ) -> Self {
        Self {
            what: what.into(),
            before: Vec::new(),
            fitted: false,
            panics: false,
            provoke: Box::new(provoke),
            how: how.into(),
            words: words.split('|').map(String::from).collect(),
            left: Left::Any,
        }
    }

    /// With this file.
    #[must_use]
    pub fn file(mut self, name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.before.push((name.into(), bytes.into()));
        self
    }

    /// With a fit of `d.csv` in `out`.
    #[must_use]
    pub fn fitted(mut self) -> Self {
        self.fitted = true;
        self
    }

    /// With these words, unless the row says that it is skipped here.
    #[must_use]
    pub fn or_skipped(mut self, words: &'static str) -> Self {
        let provoke = self.provoke;
        self.provoke = Box::new(move |place| {
            let mut found = provoke(place);
            if !found.said.contains(words) && !found.said.contains("skipped: ") {
                found.how.push_str(&format!(", without a word of {words:?}"));
            }
            found
        });
        self
    }

    /// Which may panic.
    #[must_use]
    pub fn allow_panic(mut self) -> Self {
        self.panics = true;
        self
    }

    #[must_use]
    pub fn leaves(mut self, left: Left) -> Self {
        self.left = left;
        self
    }

    pub fn check(&self, number: usize) -> Result<(), String> {
        let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("faults-{number}"));
        let _ = fs::remove_dir_all(&place);
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("d.csv"), usual()).unwrap();
        for (name, bytes) in &self.before {
            let path = place.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        if self.fitted {
            let words = [
                "fit",
                "logistic",
                "d.csv",
                "--response",
                "y",
                "--features",
                "x,z",
                "--out",
                "out",
                "--quiet",
            ];
            let made = certus(&place, &words.map(String::from)).output().unwrap();
            assert_eq!(made.status.code(), Some(0), "{}", String::from_utf8_lossy(&made.stderr));
        }
        let before = tree(&place.join("out"));
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (self.provoke)(&place)));
        let Ok(found) = found else { return Err("the row itself panicked".into()) };
        let mut wrong = String::new();
        if found.how != self.how {
            let _ = writeln!(wrong, "it ended with {}, not with {}", found.how, self.how);
        }
        for words in self.words.iter().filter(|words| !found.said.contains(*words)) {
            let _ = writeln!(wrong, "no word of {words:?}");
        }
        if !self.panics && found.said.contains("panicked at") {
            let _ = writeln!(wrong, "it panicked");
        }
        match self.left {
            Left::Any => {}
            Left::Nothing if place.join("out").exists() => {
                let _ = writeln!(wrong, "out is there: {:?}", tree(&place.join("out")).keys());
            }
            Left::Nothing => {}
            Left::Same if tree(&place.join("out")) != before => {
                let _ = writeln!(wrong, "out has changed: {:?}", tree(&place.join("out")).keys());
            }
            Left::Same => {}
            Left::Result(status) => {
                let record = fs::read(place.join("out/fit.json")).unwrap_or_default();
                let record: Value = serde_json::from_slice(&record).unwrap_or_default();
                let opened = certus_fit::FitDirectory::open(&place.join("out"));
                if record["status"] != status || opened.is_err() {
                    let _ = writeln!(
                        wrong,
                        "out has status {}, not {status} ({:?})",
                        record["status"],
                        opened.err()
                    );
                }
            }
        }
        if wrong.is_empty() {
            let _ = fs::remove_dir_all(&place);
            Ok(())
        } else {
            Err(format!("{wrong}{}", found.said))
        }
    }
}

/// The binary in the directory of a row.
pub fn certus(place: &Path, arguments: &[String]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(arguments).current_dir(place).env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

pub fn ended(output: &Output) -> Ended {
    let how = output.status.code().map_or_else(|| output.status.to_string(), |code| code.to_string());
    let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    Ended { how, said: said.join("") }
}

/// The bytes of every file below a directory.
pub fn tree(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut out = BTreeMap::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            out.extend(tree(&path));
        } else {
            out.insert(path.clone(), fs::read(&path).unwrap_or_default());
        }
    }
    out
}

/// 60 rows: `y` of 0 and 1, numbers `x`, `z` and `n`, counts `k`, groups `g`.
pub fn usual() -> String {
    let mut text = String::from("y,x,z,n,k,g\n");
    for i in 0..60_u32 {
        let (x, z) = (f64::from(i * 7 % 11) / 4.0 - 1.2, f64::from(i * 5 % 13) / 5.0 - 1.1);
        let y = u32::from((i * 3 % 7) + u32::from(x > 0.0) > 3);
        let _ = writeln!(text, "{y},{x},{z},{},{},g{}", x - z + f64::from(i % 5), i % 4, i % 6);
    }
    text
}

/// A table with these columns, made from the number of the row.
pub fn columns(header: &str, rows: usize, cells: impl Fn(usize) -> String) -> String {
    let mut text = format!("{header}\n");
    (0..rows).for_each(|i| text.push_str(&format!("{}\n", cells(i))));
    text
}
