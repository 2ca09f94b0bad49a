//! The real binary under the real `mpirun`: the bits of one process for any number of ranks, lost and silent ranks,
//! what travels.
#![cfg(all(feature = "mpi", feature = "scan"))]
#![allow(clippy::unwrap_used)]

mod common;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use common::{BINARY, expect, scratch};

/// One test at a time: two cores are few for several times four ranks.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Numbers that look random enough, always the same.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// `n` rows with four features, a binary response `b` and a real one `y`; 9 leaves and a bit for 9300.
fn table(dir: &Path, n: usize) -> String {
    let (mut noise, mut text) = (Noise(7), String::from("x1,x2,x3,x4,site,b,y\n"));
    for i in 0..n {
        let x: Vec<f64> = (0..4).map(|j| (1.0 + j as f64) * (noise.next() + noise.next() - 1.0)).collect();
        let t = 0.8 * x[0] - 0.5 * x[1] + 0.2 * x[2] + noise.next() - 0.4;
        let b = u8::from(noise.next() < 1.0 / (1.0 + (-t).exp()));
        text.push_str(&format!("{},{},{},{},{},{b},{}\n", x[0], x[1], x[2], x[3], i % 7, t + noise.next()));
    }
    let path = dir.join("data.csv");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_string()
}

fn mpirun(ranks: usize, arguments: &[&str]) -> Command {
    let mut command = Command::new("mpirun");
    command
        .args(["--allow-run-as-root", "--oversubscribe", "-n", &ranks.to_string(), BINARY])
        .args(arguments);
    command.env("NO_COLOR", "1").env_remove("CERTUS_RANK_TIMEOUT");
    command
}

/// The record of a fit, without what tells the time or the place.
fn record(dir: &Path) -> serde_json::Value {
    let mut record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.join("fit.json")).unwrap()).unwrap();
    let fields = record.as_object_mut().unwrap();
    ["seconds", "trace", "settings"].iter().for_each(|name| drop(fields.remove(*name)));
    record
}

/// Everything of a fit that does not tell the time or the place.
fn result(dir: &Path) -> (Vec<u8>, serde_json::Value) {
    (std::fs::read(dir.join("arrays.safetensors")).unwrap(), record(dir))
}

#[test]
fn any_number_of_ranks_gives_the_bits_of_one_process() {
    let (_one, dir) = (alone(), scratch("bits"));
    let data = table(&dir, 9300);
    for (model, response, more) in [
        ("logistic", "b", &["--method", "stochastic", "--posterior", "gaussian"][..]),
        ("logistic", "b", &["--method", "exact", "--gap", "1e-14"]),
        ("logistic", "b", &["--method", "auto"]),
        (
            "logistic",
            "b",
            &["--method", "ball-stl", "--batch", "16", "--iterations", "100", "--posterior", "gaussian"],
        ),
        ("linear", "y", &["--method", "stochastic", "--sigma", "0.6"]),
        ("linear", "y", &["--method", "exact", "--sigma", "0.6", "--gap", "1e-14"]),
        ("linear", "y", &["--method", "auto", "--sigma", "0.6"]),
    ] {
        let name = format!("{model}-{}", more[1]);
        let run = |ranks: usize| {
            let out = dir.join(format!("{name}-{ranks}"));
            let to = out.to_str().unwrap();
            let mut arguments = vec!["fit", model, &data, "--response", response, "--out", to, "--json"];
            arguments.extend(["--features", "x1,x2,x3,x4", "--seed", "3", "--quiet"]);
            arguments.extend(more);
            let output = if ranks == 0 {
                Command::new(BINARY).args(&arguments).output().unwrap()
            } else {
                mpirun(ranks, &arguments).output().unwrap()
            };
            // a gap that rounding forbids ends without the certificate of the posterior, which takes most of the time
            assert!(matches!(output.status.code(), Some(0 | 10 | 11)), "{name} on {ranks}: {output:?}");
            // one object: rank 0 alone speaks
            serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap();
            let left: Vec<_> = std::fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name()).collect();
            assert!(!left.iter().any(|f| f.to_string_lossy().starts_with("heartbeat")), "{left:?}");
            result(&out)
        };
        let one = run(0);
        for ranks in 1..=4 {
            let many = run(ranks);
            assert!(one.0 == many.0, "{name}: the arrays of {ranks} ranks differ");
            assert_eq!(one.1, many.1, "{name}: {ranks} ranks");
        }
    }
}

/// Only rank 0 speaks, also of failures, and its code is that of `mpirun`.
#[test]
fn failures_are_told_once() {
    let (_one, dir) = (alone(), scratch("failures"));
    let data = table(&dir, 3000);
    let out = dir.join("there");
    std::fs::create_dir(&out).unwrap();
    let fit = ["fit", "logistic", &data, "--response"];
    for (arguments, code, words) in [
        ([&fit[..], &["nobody"]].concat(), 65, "no column 'nobody'"),
        ([&fit[..], &["b", "--group", "site", "--group-sd", "1"]].concat(), 64, "can't be spread over 3"),
        ([&fit[..], &["b", "--out", out.to_str().unwrap()]].concat(), 73, "already exists"),
        (vec!["sample", "somewhere", "--to", "x.csv"], 64, "leave mpirun out"),
        (vec!["fit", "logistic", "--no-such-flag"], 64, "unexpected argument"),
    ] {
        let output = mpirun(3, &arguments).output().unwrap();
        expect(&output, code, words);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(err.matches(words).count(), 1, "{err}");
    }
    // one rank is a process like any other
    let one =
        mpirun(1, &[&fit[..], &["b", "--group", "site", "--group-sd", "1", "--quiet"]].concat()).output();
    expect(&one.unwrap(), 0, "");
    let plan = mpirun(2, &["plan", "logistic", &data, "--response", "b"]).output().unwrap();
    expect(&plan, 0, "latents");
    assert_eq!(String::from_utf8_lossy(&plan.stdout).matches("latents").count(), 1);
}

/// The processes of the ranks, in the order of ranks.
fn ranks_of(launcher: &Child, count: usize) -> Vec<u32> {
    let began = Instant::now();
    loop {
        let path = format!("/proc/{0}/task/{0}/children", launcher.id());
        let children = std::fs::read_to_string(path).unwrap_or_default();
        let rank = |pid: u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let mut words = environment.split(|b| *b == 0).map(|w| String::from_utf8_lossy(w).into_owned());
            words.find_map(|w| w.strip_prefix("OMPI_COMM_WORLD_RANK=")?.parse::<usize>().ok())
        };
        let pids = children.split_whitespace().map(|w| w.parse::<u32>().unwrap());
        let mut found: Vec<(usize, u32)> = pids.filter_map(|pid| Some((rank(pid)?, pid))).collect();
        found.sort_unstable();
        if found.len() == count || began.elapsed() > Duration::from_secs(20) {
            return found.into_iter().map(|(_, pid)| pid).collect();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(name: &str, pid: u32) {
    // a process that has just ended is no failure
    let _ = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).stderr(Stdio::null()).status();
}

/// A run of some seconds, to its last iteration.
fn long<'a>(data: &'a str, out: &'a str) -> Vec<&'a str> {
    let mut arguments = vec!["fit", "logistic", data, "--response", "b", "--features", "x1,x2,x3,x4"];
    arguments.extend([
        "--method",
        "prox-energy",
        "--batch",
        "16",
        "--iterations",
        "1000",
        "--gap",
        "1e-9",
        "--out",
        out,
    ]);
    arguments.extend(["--checkpoint-every", "20ms", "--quiet"]);
    arguments
}

/// Kills a rank at random moments and goes on with another number of ranks, until the run has ended by itself and
/// `kills` were made.
fn killed(kills: usize, name: &str) {
    let (_one, dir) = (alone(), scratch(name));
    let data = table(&dir, 9300);
    let whole = dir.join("whole");
    let began = Instant::now();
    let output = mpirun(2, &long(&data, whole.to_str().unwrap())).output().unwrap();
    let lasted = began.elapsed().as_secs_f64();
    assert!(matches!(output.status.code(), Some(0 | 10)), "{output:?}");
    let (mut noise, mut done, mut round) = (Noise(11), 0, 0);
    while done < kills {
        round += 1;
        let out = dir.join(format!("killed-{round}"));
        let to = out.to_str().unwrap();
        loop {
            let ranks = 1 + (4.0 * noise.next()) as usize;
            let settings = [".run/settings.json", "settings.json"].iter().any(|f| out.join(f).exists());
            let arguments = if settings { vec!["resume", to, "--quiet"] } else { long(&data, to) };
            let mut child =
                mpirun(ranks, &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let pids = ranks_of(&child, ranks);
            if done < kills {
                std::thread::sleep(Duration::from_secs_f64(0.7 * lasted * noise.next()));
                let victim = pids.get((noise.next() * pids.len() as f64) as usize);
                if let (Some(pid), None) = (victim, child.try_wait().unwrap()) {
                    signal("KILL", *pid);
                    done += 1;
                }
            }
            let status = child.wait().unwrap();
            if matches!(status.code(), Some(0 | 10)) {
                break;
            }
            assert!(status.code().is_some() || status.signal().is_some());
            // killed before there was anything to go on from
            if ![".run/settings.json", "settings.json"].iter().any(|f| out.join(f).exists()) {
                let _ = std::fs::remove_dir_all(&out);
            }
        }
        assert!(result(&whole).0 == result(&out).0, "round {round}: the arrays differ");
    }
}

#[test]
fn a_rank_is_killed_and_the_run_resumed() {
    killed(4, "kill");
}

#[test]
#[ignore = "minutes"]
fn full_a_rank_is_killed_and_the_run_resumed() {
    killed(20, "kill-full");
}

/// A rank that is stopped is named by its heartbeat, within the limit; the run is ended and can be resumed.
#[test]
fn a_silent_rank_is_named() {
    let (_one, dir) = (alone(), scratch("silent"));
    let data = table(&dir, 9300);
    let whole = dir.join("whole");
    assert!(matches!(
        mpirun(1, &long(&data, whole.to_str().unwrap())).status().unwrap().code(),
        Some(0 | 10)
    ));
    for (ranks, stopped) in [(2, 1), (3, 2), (3, 0)] {
        let out = dir.join(format!("silent-{ranks}-{stopped}"));
        let to = out.to_str().unwrap();
        let child = mpirun(ranks, &long(&data, to))
            .env("CERTUS_RANK_TIMEOUT", "5s")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pids = ranks_of(&child, ranks);
        let began = Instant::now();
        while !out.join(".run/checkpoint.0").exists() && began.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(10));
        }
        signal("STOP", pids[stopped]);
        let began = Instant::now();
        let output = child.wait_with_output().unwrap();
        let lasted = began.elapsed();
        expect(&output, 69, &format!("rank {stopped} (no heartbeat for"));
        assert!(lasted < Duration::from_secs(12), "it took {lasted:?}");
        expect(&mpirun(2, &["resume", to]).output().unwrap(), 10, "1000 iterations");
        assert!(result(&whole).0 == result(&out).0, "the arrays differ");
    }
}

/// A signal to rank 0 stops all ranks after the same step, a clock too.
#[test]
fn all_stop_together() {
    let (_one, dir) = (alone(), scratch("stop"));
    let data = table(&dir, 9300);
    let whole = dir.join("whole");
    assert!(matches!(
        mpirun(1, &long(&data, whole.to_str().unwrap())).status().unwrap().code(),
        Some(0 | 10)
    ));
    let out = dir.join("signal");
    let to = out.to_str().unwrap();
    let child = mpirun(3, &long(&data, to)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pids = ranks_of(&child, 3);
    let began = Instant::now();
    while !out.join(".run/checkpoint.0").exists() && began.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(10));
    }
    signal("TERM", pids[0]);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{output:?}");
    // on a slow machine there is no time for a certificate of what was found, and then there are no arrays
    assert_eq!(record(&out)["status"], "interrupted");
    expect(&mpirun(2, &["resume", to]).output().unwrap(), 10, "1000 iterations");
    assert!(result(&whole).0 == result(&out).0, "the arrays differ");
    let out = dir.join("clock");
    let mut arguments = long(&data, out.to_str().unwrap());
    arguments.extend(["--max-time", "500ms"]);
    arguments.retain(|word| *word != "--quiet");
    expect(&mpirun(3, &arguments).output().unwrap(), 10, "the time limit was reached");
}

/// Ranks that do not run the same program are found by their iterates.
#[test]
fn ranks_that_differ_are_found() {
    let (_one, dir) = (alone(), scratch("differ"));
    let data = table(&dir, 3000);
    let out = dir.join("fit");
    let mut arguments = long(&data, out.to_str().unwrap());
    arguments.extend(["--seed", "1"]);
    let mut command = mpirun(1, &arguments);
    *arguments.last_mut().unwrap() = "2";
    command.args([":", "-n", "1", BINARY]).args(&arguments);
    expect(&command.output().unwrap(), 69, "rank 1 and rank 0 do not agree after iteration 1");
}

/// Numbers that travel per iteration, from two runs of different length, against what docs/scaling.md says and against
/// a ring.
#[test]
fn what_travels_is_what_the_documentation_says() {
    let (_one, dir) = (alone(), scratch("bytes"));
    let data = table(&dir, 9300);
    let (d, batch) = (5.0, 16.0);
    let travelled = |ranks: usize, iterations: &str| {
        let mut arguments = vec!["fit", "logistic", &data, "--response", "b", "--features", "x1,x2,x3,x4"];
        arguments.extend(["--method", "prox-energy", "--batch", "16", "--iterations", iterations, "--quiet"]);
        let output = mpirun(ranks, &arguments).env("CERTUS_RANK_COUNT", "1").output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        let numbers =
            err.lines().filter_map(|l| l.split(": ").nth(1)?.strip_suffix(" numbers")?.parse::<f64>().ok());
        let numbers: Vec<f64> = numbers.collect();
        assert_eq!(numbers.len(), ranks, "{err}");
        numbers.iter().sum::<f64>()
    };
    // 10 leaves: the tree is (8 | 2), and boundaries are at 5, or at 2, 5 and 8
    for (ranks, moves) in [(2, 2.0), (4, 4.0)] {
        let each = (travelled(ranks, "384") - travelled(ranks, "128")) / 256.0;
        let others = ranks as f64 - 1.0;
        let documented = (moves + others) * batch * (d + 1.0) + 2.0 * others;
        let ring = 2.0 * others * batch * d;
        assert!((each / documented - 1.0).abs() < 0.1, "{ranks} ranks: {each}, not {documented}");
        assert!(each <= 2.0 * ring, "{ranks} ranks: {each} against {ring} of a ring");
    }
}
