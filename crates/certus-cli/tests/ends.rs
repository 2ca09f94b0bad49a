//! Stops from outside hold in every phase: signals and `--max-time` end the process within 2 s, with the right code and
//! words, and leave files that can be read or gone on from.
//!
//! The product promises 2 s. A machine with more to do than cores, one whose host takes its cores away, or one whose
//! disk keeps everybody waiting gives the process too little time, so that on such a machine 4 s are allowed here. The
//! tests run one after the other, because each of them needs the machine. Here each phase is ended by one of the three
//! signals; `full` ends it by each of them.
#![cfg(all(unix, feature = "scan"))]
#![allow(clippy::unwrap_used)]

mod common;

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use common::{BINARY, certus, expect, scratch};

/// True while every signal is tried.
static FULL: AtomicBool = AtomicBool::new(false);
const PROMISE: Duration = Duration::from_secs(2);
/// Long enough for any phase to begin.
const BEGIN: Duration = Duration::from_secs(120);

/// One test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Seconds that processes on this machine have lost so far: to its host, on the core that lost most, and to its disk,
/// while no process could run.
fn lost() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let cores = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
    // in hundredths of a second, the eighth number of a core
    let stolen =
        cores.filter_map(|line| line.split_whitespace().nth(8)?.parse::<f64>().ok()).fold(0.0, f64::max);
    let pressure = fs::read_to_string("/proc/pressure/io").unwrap_or_default();
    let full = pressure.lines().find(|line| line.starts_with("full"));
    let waited = full.and_then(|line| line.rsplit("total=").next()?.parse::<f64>().ok()).unwrap_or(0.0);
    stolen / 100.0 + waited / 1e6
}

/// What is allowed on a machine that lost so many seconds meanwhile.
fn allowed(lost: f64) -> Duration {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load.split(' ').next().and_then(|x| x.parse().ok()).unwrap_or(0.0);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
    // the process itself is one of those that run
    let busy = load > cores + 1.0 || lost > 0.2;
    if busy { 2 * PROMISE } else { PROMISE }
}

/// A process whose stderr is read line by line.
struct Running {
    child: Child,
    lines: mpsc::Receiver<String>,
    stderr: String,
    began: Instant,
    /// See [`lost`], when it began.
    lost: f64,
}

struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    /// Since the signal, or since the process began.
    took: Duration,
    /// Seconds that the machine lost meanwhile.
    lost: f64,
}

fn start(arguments: &[&str]) -> Running {
    let (began, lost) = (Instant::now(), lost());
    // with every signal at its default: whoever started the tests may ignore some, as `nohup` does
    let mut child = Command::new("env")
        .args(["--default-signal", BINARY])
        .args(arguments)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (send, lines) = mpsc::channel();
    let stderr = child.stderr.take().unwrap();
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    Running { child, lines, stderr: String::new(), began, lost }
}

impl Running {
    /// Waits until the process says `words`.
    #[track_caller]
    fn wait_for(&mut self, words: &str) {
        let began = Instant::now();
        while !self.stderr.contains(words) {
            match self.lines.recv_timeout(BEGIN.saturating_sub(began.elapsed())) {
                Ok(line) => {
                    self.stderr.push_str(&line);
                    self.stderr.push('\n');
                }
                Err(_) => {
                    let _ = self.child.kill();
                    panic!("it never said {words:?}:\n{}", self.stderr);
                }
            }
        }
    }

    /// Waits until it ends by itself.
    #[track_caller]
    fn end(mut self, since: Instant) -> Ended {
        let mut out = self.child.stdout.take().unwrap();
        let stdout = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = out.read_to_string(&mut text);
            text
        });
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if since.elapsed() > Duration::from_secs(60) {
                let _ = self.child.kill();
                let _ = self.child.wait();
                panic!("it does not end:\n{}", self.stderr);
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let (took, lost) = (since.elapsed(), lost() - self.lost);
        while let Ok(line) = self.lines.recv() {
            let _ = writeln!(self.stderr, "{line}");
        }
        Ended { code: status.code(), stdout: stdout.join().unwrap(), stderr: self.stderr, took, lost }
    }

    /// Sends a signal and waits for the end.
    #[track_caller]
    fn signal(mut self, name: &str) -> Ended {
        self.lost = lost();
        let sent = Instant::now();
        let kill = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        self.end(sent)
    }
}

impl Ended {
    /// The code, the time beyond `limit`, and words on either stream.
    #[track_caller]
    fn expect(&self, code: i32, limit: Duration, words: &str) -> &Self {
        let all = format!("stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        assert_eq!(self.code, Some(code), "{all}");
        assert!(self.stdout.contains(words) || self.stderr.contains(words), "no word of {words:?}\n{all}");
        let most = limit + allowed(self.lost);
        let took =
            format!("it took {:?}, {most:?} were allowed, the machine lost {:.2} s", self.took, self.lost);
        assert!(self.took <= most, "{took}\n{all}");
        self
    }
}

/// A run that `--max-time` ends.
#[track_caller]
fn limited(seconds: u64, arguments: &[&str], words: &str) -> Ended {
    let limit = format!("{seconds}s");
    let all: Vec<&str> = arguments.iter().copied().chain(["--max-time", &limit]).collect();
    let running = start(&all);
    let began = running.began;
    let ended = running.end(began);
    ended.expect(10, Duration::from_secs(seconds), words);
    ended
}

/// A run that a signal ends a moment after it has said `phase`: in the short version one of the three, which one by the
/// words, so that each of them has its turn. Returns what the last of them is called.
#[track_caller]
fn signalled(phase: &str, after: Duration, arguments: &[&str], words: &str) -> &'static str {
    let all = [("INT", 130, "Ctrl-C"), ("TERM", 143, "SIGTERM"), ("HUP", 129, "SIGHUP")];
    let one = (phase.len() + arguments.len()) % all.len();
    let few = if FULL.load(Ordering::Relaxed) { &all[..] } else { &all[one..=one] };
    for &(name, code, _) in few {
        let mut running = start(arguments);
        running.wait_for(phase);
        std::thread::sleep(after);
        running.signal(name).expect(code, Duration::ZERO, words);
    }
    few[few.len() - 1].2
}

/// Numbers that look random.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// `y,x1..xp,g`: a 0/1 response, features, and one of `levels` labels that the response depends on.
fn table(path: &Path, rows: usize, features: usize, levels: usize) {
    let mut noise = Noise(7);
    let mut text = String::from("y");
    (0..features).for_each(|j| text.push_str(&format!(",x{j}")));
    text.push_str(",g\n");
    for i in 0..rows {
        let level = if i < levels { i } else { (noise.next() * levels as f64) as usize };
        let _ = write!(text, "{}", u8::from(noise.next() < 0.2 + 0.1 * (level * 37 % 7) as f64));
        for _ in 0..features {
            let _ = write!(text, ",{:.4}", noise.next() - 0.5);
        }
        let _ = writeln!(text, ",l{level}");
    }
    fs::write(path, text).unwrap();
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn record(out: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(out.join("fit.json")).unwrap()).unwrap()
}

/// The table that F3 was found with, or a larger one, made once.
fn wide(levels: usize) -> PathBuf {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("ends-wide-{levels}.csv"));
    if !file.exists() {
        let half = file.with_extension("tmp");
        table(&half, 8000, 1, levels);
        fs::rename(&half, &file).unwrap();
    }
    file
}

#[test]
fn reading() {
    let _alone = alone();
    let dir = scratch("reading");
    let (data, out) = (dir.join("t.csv"), dir.join("fit"));
    table(&data, 3000, 1, 2);
    let (data, out) = (path(&data), path(&out));
    // no row comes out of this before 2.7e10 were joined
    let silent = "select a.y, count(*) as k, avg(b.x0) as z from data a cross join data b cross join data c group by \
        a.y";
    // and out of this they never stop to come
    let endless = "select a.y, b.x0 as k, c.x0 as z from data a cross join data b cross join data c";
    let nothing = "while reading and preparing the data; nothing was fitted";
    for sql in [silent, endless] {
        let fit = ["fit", "logistic", data, "--response", "y", "--sql", sql, "--out", out];
        limited(1, &fit, nothing);
        signalled("reading and preparing the data", Duration::from_millis(500), &fit, nothing);
        assert!(!Path::new(out).exists(), "what was not read leaves nothing behind");
        let ended = limited(1, &[&fit[..], &["--json"]].concat(), nothing);
        let record: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(record["status"], "limit");
        limited(1, &["plan", "logistic", data, "--response", "y", "--sql", sql], nothing);
        let many = ["fit-many", "logistic", data, "--response", "y", "--by", "k", "--sql", sql, "--out", out];
        limited(1, &many, "while reading the keys; finished chunks are kept");
        signalled("reading the keys", Duration::from_millis(500), &many, "finished chunks are kept");
    }
    no_reader_is_left(Path::new(data));
    let fifo = dir.join("pipe.csv");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // nobody ever writes into it
    let fit = ["fit", "logistic", path(&fifo), "--response", "y"];
    limited(1, &fit, nothing);
    signalled("reading and preparing the data", Duration::from_millis(300), &fit, nothing);
}

/// The process that decodes a file ends with the one that asked it to, also in the middle of a query.
fn no_reader_is_left(data: &Path) {
    let data = fs::canonicalize(data).unwrap();
    let reads = |process: &Path| {
        let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        files.into_iter().any(|file| fs::read_link(file.path()).is_ok_and(|to| to == data))
    };
    let readers =
        || fs::read_dir("/proc").into_iter().flatten().flatten().filter(|p| reads(&p.path())).count();
    let began = Instant::now();
    while readers() > 0 {
        assert!(began.elapsed() < Duration::from_secs(5), "a process still reads {}", data.display());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A fit that is there is still there when the one that should replace it was stopped while its data were read.
#[test]
fn a_fit_that_is_there_stays() {
    let _alone = alone();
    let dir = scratch("stays");
    let (data, out) = (dir.join("t.csv"), dir.join("fit"));
    table(&data, 3000, 1, 2);
    let fit = ["fit", "logistic", path(&data), "--response", "y", "--out", path(&out)];
    expect(&certus(&fit), 0, "reached");
    let before = (fs::read(out.join("fit.json")).unwrap(), fs::read(out.join("arrays.safetensors")).unwrap());
    let sql = "select a.y, count(*) as k, avg(b.x0) as z from data a cross join data b cross join data c group by a.y";
    limited(1, &[&fit[..], &["--overwrite", "--sql", sql]].concat(), "nothing was fitted");
    let after = (fs::read(out.join("fit.json")).unwrap(), fs::read(out.join("arrays.safetensors")).unwrap());
    assert!(before == after);
    expect(&certus(&["verify", path(&out)]), 0, "confirmed");
}

/// Two factors with `levels` levels each, crossed: their elimination leaves a dense block as wide as one of them.
fn crossed(levels: usize) -> PathBuf {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("ends-crossed-{levels}.csv"));
    let (mut noise, mut text) = (Noise(3), String::from("y,x,a,b\n"));
    for i in 0..4 * levels {
        let (a, b) = if i < levels {
            (i, i * 7 % levels)
        } else {
            ((noise.next() * levels as f64) as usize, i % levels)
        };
        let _ = writeln!(text, "{},{},a{a},b{b}", u8::from(noise.next() < 0.4), i % 17);
    }
    fs::write(&file, text).unwrap();
    file
}

/// The arguments of a fit with both factors.
fn crossed_fit<'a>(data: &'a Path, method: &'a str, out: &'a Path) -> Vec<&'a str> {
    let fit = [
        "fit",
        "logistic",
        path(data),
        "--response",
        "y",
        "--features",
        "x",
        "--group",
        "a",
        "--group",
        "b",
        "--group-sd",
        "1",
    ];
    [&fit[..], &["--method", method, "--overwrite", "--out", path(out)]].concat()
}

/// The input of F3: preparing 1,500 columns of levels takes longer than 2 s (as do, in the build that ships, the mode
/// and every step).
#[test]
fn preparing() {
    let _alone = alone();
    let dir = scratch("preparing");
    let (data, out) = (wide(1500), dir.join("fit"));
    let fit = ["fit", "logistic", path(&data), "--response", "y", "--features", "x0,g", "--out", path(&out)];
    limited(3, &fit, "stopped by --max-time 3s");
    let _ = fs::remove_dir_all(&out);
    signalled(
        "reading and preparing the data",
        Duration::from_secs(2),
        &[&fit[..], &["--overwrite"]].concat(),
        "stopped by",
    );
}

/// The mode of 2,000 coefficients, 1,000 of them in a dense block: steps and factorisations that nobody can look into.
/// It can be gone on with, and stopped again.
#[test]
fn mode_and_factorisation() {
    let _alone = alone();
    let dir = scratch("mode");
    let (data, out) = (crossed(1000), dir.join("fit"));
    for method in ["exact", "stochastic"] {
        let fit = crossed_fit(&data, method, &out);
        let by = signalled("searching for the mode", Duration::from_millis(700), &fit, "stopped by");
        let found = record(&out);
        assert_eq!(found["status"], "interrupted");
        let words = format!("stopped by {by} while searching for the mode");
        assert!(found["message"].as_str().unwrap().contains(&words), "{found}");
        let ended = limited(3, &fit, "");
        assert!(ended.stderr.contains("while searching for the mode"), "{}", ended.stderr);
        assert_eq!(record(&out)["status"], "limit");
        let again = start(&["resume", path(&out)]);
        let began = again.began;
        again.end(began).expect(10, Duration::from_secs(3), "stopped by --max-time 3s");
        assert_eq!(record(&out)["status"], "limit");
    }
}

/// Steps of the stochastic route and its exact passes, and those of the exact route.
#[test]
fn steps_and_passes() {
    let _alone = alone();
    let dir = scratch("steps");
    let data = dir.join("t.csv");
    table(&data, 6000, 20, 2);
    let out = dir.join("stochastic");
    let fit = [
        "fit",
        "logistic",
        path(&data),
        "--response",
        "y",
        "--gap",
        "1e-12",
        "--checkpoint-every",
        "1h",
        "--overwrite",
    ];
    let draws = [&fit[..], &["--method", "stochastic", "--out", path(&out)]].concat();
    // a line is written after the first step
    signalled("; iteration ", Duration::from_millis(300), &draws, "stopped");
    let ended = limited(8, &draws, "");
    assert_eq!(record(&out)["status"], "limit", "{}", ended.stderr);
    assert!([".run/checkpoint.0", ".run/checkpoint.1"].iter().any(|name| out.join(name).exists()));
    // a step of the exact route takes some seconds here
    let (data, out) = (crossed(300), dir.join("exact"));
    let exact = crossed_fit(&data, "exact", &out);
    signalled("iteration 1,", Duration::from_millis(20), &exact, "stopped");
    assert_eq!(record(&out)["status"], "interrupted");
    assert!([".run/checkpoint.0", ".run/checkpoint.1"].iter().any(|name| out.join(name).exists()));
}

/// A hang-up leaves a checkpoint, and the run that goes on from it ends with the bits of one that was never stopped.
#[test]
fn hang_up_and_resume() {
    let _alone = alone();
    let dir = scratch("hang-up");
    let (data, whole, out) = (dir.join("t.csv"), dir.join("whole"), dir.join("out"));
    table(&data, 4000, 10, 2);
    let fit = |out: &Path| -> Vec<String> {
        let all = [
            "fit",
            "logistic",
            path(&data),
            "--response",
            "y",
            "--method",
            "prox-energy",
            "--iterations",
            "3000",
            "--out",
            path(out),
            "--checkpoint-every",
            "1h",
        ];
        all.map(String::from).to_vec()
    };
    let arguments = fit(&out);
    let mut running = start(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    running.wait_for("iteration 1,");
    running.signal("HUP").expect(129, Duration::ZERO, "interrupted");
    assert_eq!(record(&out)["status"], "interrupted");
    assert_eq!(certus(&["resume", path(&out)]).status.code(), Some(10));
    let arguments = fit(&whole);
    assert_eq!(certus(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).status.code(), Some(10));
    let arrays = |out: &Path| fs::read(out.join("arrays.safetensors")).unwrap();
    assert!(arrays(&out) == arrays(&whole));
    // `nohup` asks for the opposite
    let mut deaf = Command::new("nohup");
    let sleepy = dir.join("sleepy");
    let arguments = fit(&sleepy);
    let mut child =
        deaf.arg(BINARY).args(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(Command::new("kill").args(["-HUP", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(10));
    assert!(arrays(&sleepy) == arrays(&whole));
}

/// The gap is proved; what is stopped is the comparison with the posterior.
#[test]
fn comparing_with_the_posterior() {
    let _alone = alone();
    let dir = scratch("posterior");
    let (data, out) = (dir.join("t.csv"), dir.join("fit"));
    table(&data, 24_000, 9, 2);
    let fit = [
        "fit",
        "logistic",
        path(&data),
        "--response",
        "y",
        "--overwrite",
        "--threads",
        "1",
        "--out",
        path(&out),
    ];
    let mut running = start(&fit);
    running.wait_for("comparing with the posterior");
    running.signal("TERM").expect(
        143,
        Duration::ZERO,
        "KL(q‖p) not known: stopped by SIGTERM before the comparison was finished",
    );
    let found = record(&out);
    assert_eq!(found["status"], "reached");
    assert!(found["certificate"]["gap"]["bound"].as_f64().unwrap() <= 0.01);
    expect(&certus(&["verify", path(&out)]), 0, "confirmed");
    expect(&certus(&["resume", path(&out)]), 0, "reached");
}

/// Draws of several group effects keep all threads busy, which what is said after a stop needs.
#[test]
fn several_group_effects() {
    let _alone = alone();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../certus-mixed/tests/data/salamander.csv");
    let fit = ["fit", "logistic", path(&data), "Mate ~ Cross + (1 | Female) + (1 | Male)"];
    let phase = "comparing with the posterior: importance sampling";
    signalled(phase, Duration::from_secs(1), &fit, "before the comparison was finished");
}

/// Scales that are not given: the search, the interval, the grid.
#[test]
fn scales() {
    let _alone = alone();
    let dir = scratch("scales");
    let (data, out) = (dir.join("t.csv"), dir.join("fit"));
    table(&data, 100_000, 1, 20_000);
    let out = path(&out);
    let group =
        ["fit", "logistic", path(&data), "--response", "y", "--group", "g", "--overwrite", "--out", out];
    let words = "before there was an estimate of what was not given";
    signalled("searching for the scales", Duration::from_millis(100), &group, words);
    assert_eq!(record(Path::new(out))["status"], "interrupted");
    // once there is an estimate it is returned
    let mut running = start(&group);
    running.wait_for("computing the posterior on a grid");
    running.signal("TERM").expect(143, Duration::ZERO, "sd(g)");
    assert_eq!(record(Path::new(out))["status"], "interrupted");
    for model in ["linear", "negative-binomial"] {
        let fit = ["fit", model, path(&data), "--response", "y", "--group", "g", "--overwrite", "--out", out];
        signalled("searching for the scales", Duration::ZERO, &fit, "stopped");
    }
}

#[test]
fn many() {
    let _alone = alone();
    let dir = scratch("many");
    let (data, out) = (dir.join("t.csv"), dir.join("fits"));
    table(&data, 200_000, 4, 20_000);
    let (data, out) = (path(&data), path(&out));
    let many = [
        "fit-many",
        "logistic",
        data,
        "--response",
        "y",
        "--features",
        "x0,x1,x2,x3",
        "--by",
        "g",
        "--chunk",
        "100",
        "--gap",
        "1e-6",
        "--out",
        out,
    ];
    signalled("groups, ", Duration::ZERO, &many, "chunks left; run the same command to continue");
    // one group of which each step takes longer than 2 s
    let (wide, one) = (wide(1500), dir.join("one"));
    let many = [
        "fit-many",
        "logistic",
        path(&wide),
        "--response",
        "y",
        "--features",
        "x0,g",
        "--by",
        "one",
        "--sql",
        "select *, 'a' as one from data",
        "--out",
        path(&one),
    ];
    signalled("reading the rows of 1 group", Duration::from_secs(3), &many, "with 1 of 1 chunks left");
    limited(4, &many, "stopped by --max-time 4s");
}

#[test]
fn verifying() {
    let _alone = alone();
    let dir = scratch("verify");
    let (data, out) = (dir.join("t.csv"), dir.join("fit"));
    table(&data, 6000, 250, 2);
    let fit = ["fit", "logistic", path(&data), "--response", "y", "--out", path(&out), "--quiet"];
    assert_eq!(certus(&fit).status.code(), Some(0));
    let before = fs::read(out.join("fit.json")).unwrap();
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let running = start(&["verify", path(&out)]);
        std::thread::sleep(Duration::from_secs(2));
        running.signal(name).expect(code, Duration::ZERO, "the fit was not verified");
    }
    assert!(before == fs::read(out.join("fit.json")).unwrap());
}

/// Each phase with each signal.
#[test]
#[ignore = "ten minutes; scripts/check kills"]
fn full() {
    FULL.store(true, Ordering::Relaxed);
    for test in [reading, preparing, mode_and_factorisation, steps_and_passes, scales, many] {
        test();
    }
}
