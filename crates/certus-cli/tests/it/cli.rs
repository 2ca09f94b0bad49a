//! The real binary on real files: fits against references, every exit code, signals, kills and what comes after.
#![allow(clippy::unwrap_used, clippy::print_stdout)]
#![cfg(feature = "scan")]

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::common::{BINARY, certus, expect, scratch};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data").join(name)
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Column `mean` of the reference, and the sds of its factor.
fn reference(name: &str) -> (Vec<f64>, Vec<f64>) {
    let text = std::fs::read_to_string(data(&format!("{name}.reference.csv"))).unwrap();
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let at = names.iter().position(|n| *n == "mean").unwrap();
    let (mut means, mut sds) = (Vec::new(), Vec::new());
    for line in lines {
        let row: Vec<f64> = line.split(',').map(|x| x.parse().unwrap()).collect();
        means.push(row[at]);
        let square: f64 = row.iter().enumerate().filter(|(j, _)| *j != at).map(|(_, x)| x * x).sum();
        sds.push(square.sqrt());
    }
    (means, sds)
}

/// A file as its authors give it, on their scale, agrees with the reference as the certificate promises; to 2e-4 sd
/// when asked for more.
#[test]
fn benchmark_problems() {
    for (name, model, more) in [
        ("logit_bc", "logistic", vec![]),
        ("logit_d10", "logistic", vec![]),
        ("lin_ill_d50", "linear", vec!["--sigma", "1"]),
        ("hier_logit", "logistic", vec!["--group", "group:: *", "--group-sd", "1"]),
    ] {
        let path = data(&format!("{name}.csv"));
        let mut arguments = vec!["fit", model, path.to_str().unwrap(), "--response", "y", "--no-intercept"];
        arguments.extend(["--no-standardise", "--prior-sd", "1", "--json", "--quiet"]);
        // the references are the best Gaussians
        arguments.extend(["--posterior", "gaussian"]);
        arguments.extend(&more);
        for tight in [false, true] {
            if tight {
                arguments.extend(["--method", "exact", "--gap", "1e-8"]);
            }
            let output = certus(&arguments);
            expect(&output, 0, "\"reached\"");
            let fit = json(&output);
            let gap = &fit["certificate"]["gap"];
            assert_eq!(gap["level"], "proved");
            assert!(gap["bound"].as_f64().unwrap() <= if tight { 1e-8 } else { 0.01 });
            let (means, sds) = reference(name);
            let (mean_error, sd_error) = if tight {
                (2e-4, 2e-4)
            } else {
                (gap["mean_error"].as_f64().unwrap(), gap["sd_error"].as_f64().unwrap())
            };
            // of a group the deviations are shown, too
            let own = |p: &&serde_json::Value| !p["name"].as_str().unwrap().contains(" - ");
            let parameters: Vec<_> = fit["parameters"].as_array().unwrap().iter().filter(own).collect();
            assert_eq!(parameters.len(), means.len(), "{name}");
            for (p, (mean, sd)) in parameters.iter().zip(means.iter().zip(&sds)) {
                let (m, s) = (p["mean"].as_f64().unwrap(), p["sd"].as_f64().unwrap());
                assert!(
                    (m - mean).abs() <= mean_error * s + 1e-9,
                    "{name} {}: mean {m}, not {mean}",
                    p["name"]
                );
                assert!((s - sd).abs() <= sd_error * s + 1e-9, "{name} {}: sd {s}, not {sd}", p["name"]);
            }
        }
    }
}

#[test]
fn defaults_drop_the_constant_column_and_say_so() {
    let output = certus(&["fit", "logistic", data("logit_bc.csv").to_str().unwrap(), "--response", "y"]);
    expect(&output, 0, "x0");
    expect(&output, 0, "proved");
}

#[test]
fn exit_codes() {
    let dir = scratch("codes");
    let write = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let good = data("logit_d10.csv");
    let good = good.to_str().unwrap();
    // on a busy machine already while the data are read
    let late = certus(&["fit", "logistic", good, "--response", "y", "--max-time", "0s"]);
    let reading = String::from_utf8_lossy(&late.stderr).contains("stopped by --max-time");
    expect(&late, 10, if reading { "nothing was fitted" } else { "the time limit was reached" });
    let least = ["--method", "exact", "--gap", "1e-40"];
    expect(&certus(&[&["fit", "logistic", good, "--response", "y"], &least[..]].concat()), 11, "rounding");
    let huge = write("huge.csv", "y,x\n0,1e200\n1,-1e200\n1,3e200\n0,2e200\n");
    expect(&certus(&["fit", "logistic", &huge, "--response", "y", "--no-standardise"]), 12, "");
    let apart = write("apart.csv", "y,x\n0,-2\n0,-1\n1,1\n1,2\n");
    let flat = ["--prior-sd", "inf", "--intercept-prior-sd", "inf"];
    expect(&certus(&[&["fit", "logistic", &apart, "--response", "y"], &flat[..]].concat()), 13, "+1.000 x");
    // a failed fit still writes what it knows
    let out = dir.join("failed");
    let failed = ["fit", "logistic", &apart, "--response", "y", "--out", out.to_str().unwrap()];
    expect(&certus(&[&failed[..], &flat[..]].concat()), 13, "separat");
    let text = std::fs::read_to_string(out.join("fit.json")).unwrap();
    assert!(text.contains("\"assumption_violated\""), "{text}");
    expect(&certus(&["fit"]), 64, "model");
    expect(&certus(&["fit", "logistic", good, "--response", "y", "--nonsense"]), 64, "nonsense");
    expect(
        &certus(&["fit", "logistic", good, "--response", "y", "--group", "x1: *"]),
        64,
        "more than 3 effects",
    );
    expect(&certus(&["fit", "logistic", good, "--response", "yy"]), 65, "yy");
    let text = write("text.csv", "y,x\n0,1\n1,two\n");
    expect(&certus(&["fit", "logistic", &text, "--response", "y", "--features", "x"]), 65, "two");
    let half = write("half.csv", "y,x\n0,1\n0.5,2\n");
    expect(&certus(&["fit", "logistic", &half, "--response", "y"]), 65, "0.5");
    let gaps = write("gaps.csv", "y,x\n0,1\n1,\n1,nan\n0,2\n1,0.5\n");
    expect(&certus(&["fit", "logistic", &gaps, "--response", "y"]), 65, "missing");
    expect(
        &certus(&["fit", "logistic", &gaps, "--response", "y", "--missing", "drop"]),
        0,
        "2 of 5 rows are left out",
    );
    expect(&certus(&["fit", "logistic", "no-such-file.csv", "--response", "y"]), 66, "no-such-file.csv");
    let out = dir.join("fit");
    let out = out.to_str().unwrap();
    let fit = ["fit", "logistic", good, "--response", "y", "--out", out, "--quiet"];
    expect(&certus(&fit), 0, "");
    expect(&certus(&fit), 73, "--overwrite");
    expect(&certus(&[&fit[..], &["--overwrite"]].concat()), 0, "");
    let config = write("bad.toml", "respons = \"y\"\n");
    expect(&certus(&["fit", "--config", &config]), 78, "did you mean 'response'?");
    let config =
        write("good.toml", &format!("model = \"logistic\"\ndata = {good:?}\nresponse = \"y\"\ngap = 0.5\n"));
    let config = ["fit", "--config", &config, "--gap", "0.1"];
    expect(&certus(&config), 0, "reached");
    expect(&certus(&[&config[..], &["--print-config"]].concat()), 0, "gap = 0.1");
    let probit = ["fit", "probit", good, "--response", "y"];
    expect(&certus(&probit), 0, "estimated");
    expect(
        &certus(&[&probit[..], &["--level", "proved"]].concat()),
        10,
        "a stronger statement was requested",
    );
    // the result cannot be written
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = Command::new(BINARY)
        .args(["fit", "logistic", good, "--response", "y"])
        .stdout(full)
        .output()
        .unwrap();
    expect(&output, 74, "stdout");
    #[cfg(feature = "bug")]
    expect(&certus(&["bug"]), 70, "please report it");
    expect(&certus(&["doctor"]), 0, "Parquet");
    expect(&certus(&["completions", "bash"]), 0, "complete");
    expect(&certus(&["man"]), 0, ".TH certus");
    expect(&certus(&["--help"]), 0, "Fit a model");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// `verify` accepts its own fits; a bound of half what it recomputes, or a parameter changed in its third digit, is
/// refused.
#[test]
fn verify_accepts_and_refuses() {
    let dir = scratch("verify");
    let out = dir.join("fit");
    let (file, target) = (data("logit_d10.csv"), out.to_str().unwrap());
    expect(
        &certus(&["fit", "logistic", file.to_str().unwrap(), "--response", "y", "--out", target, "--quiet"]),
        0,
        "",
    );
    expect(&certus(&["verify", target]), 0, "confirmed");
    let path = out.join("fit.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut fit: serde_json::Value = serde_json::from_str(&text).unwrap();
    let bound = fit["certificate"]["gap"]["bound"].as_f64().unwrap();
    fit["certificate"]["gap"]["bound"] = serde_json::json!(0.5 * bound);
    std::fs::write(&path, fit.to_string()).unwrap();
    certus_fit::rewrite_manifest(&out).unwrap();
    expect(&certus(&["verify", target]), 14, "certificate.gap.bound is");
    expect(&certus(&["verify", target]), 14, "the independent checker finds");
    let mut fit: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mean = fit["parameters"][1]["mean"].as_f64().unwrap();
    fit["parameters"][1]["mean"] = serde_json::json!(mean * 1.004);
    std::fs::write(&path, fit.to_string()).unwrap();
    certus_fit::rewrite_manifest(&out).unwrap();
    expect(&certus(&["verify", target]), 14, "in the arrays it is");
    std::fs::write(&path, text).unwrap();
    certus_fit::rewrite_manifest(&out).unwrap();
    expect(&certus(&["report", target]), 0, "report.html");
    assert!(std::fs::read_to_string(out.join("report.html")).unwrap().contains("<html"));
    std::fs::remove_dir_all(&dir).unwrap();
}

/// A run that takes a while, with checkpoints after every step.
fn long_run(out: &Path, method: &str) -> Vec<String> {
    let file = data("lin_ill_d50.csv");
    let mut arguments: Vec<String> =
        ["fit", "linear", file.to_str().unwrap(), "--response", "y", "--sigma", "1"]
            .map(String::from)
            .to_vec();
    arguments
        .extend(["--out", out.to_str().unwrap(), "--checkpoint-every", "0s", "--quiet"].map(String::from));
    arguments.extend(["--method", method, "--iterations", "2000"].map(String::from));
    arguments
}

fn start(arguments: &[String]) -> Child {
    Command::new(BINARY).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn arrays(out: &Path) -> Vec<u8> {
    std::fs::read(out.join("arrays.safetensors")).unwrap()
}

/// Waits until the first checkpoint is there.
fn wait_for_checkpoint(out: &Path) {
    for _ in 0..2000 {
        if out.join(".run/checkpoint.1").exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("no checkpoint in {}", out.display());
}

/// Ctrl-C and SIGTERM end with 130 and 143, the result so far is written, and `resume` ends at the bits of a run that
/// was never stopped.
#[test]
fn signals_stop_and_resume_goes_on() {
    let dir = scratch("signals");
    let whole = dir.join("whole");
    expect(&start(&long_run(&whole, "prox-energy")).wait_with_output().unwrap(), 10, "");
    for (signal, wanted) in [("INT", 130), ("TERM", 143)] {
        let out = dir.join(signal);
        let child = start(&long_run(&out, "prox-energy"));
        wait_for_checkpoint(&out);
        let kill =
            Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        expect(&child.wait_with_output().unwrap(), wanted, "");
        let text = std::fs::read_to_string(out.join("fit.json")).unwrap();
        assert!(text.contains("\"interrupted\""), "{text}");
        assert_ne!(arrays(&out), arrays(&whole));
        expect(&certus(&["resume", out.to_str().unwrap()]), 10, "2000 iterations");
        assert_eq!(arrays(&out), arrays(&whole), "{signal}");
        let fit: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(out.join("fit.json")).unwrap()).unwrap();
        assert_eq!(fit["status"], "limit");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Data that have moved are read where `--data` says, and must be those of the fit.
#[test]
fn data_that_moved() {
    let dir = scratch("moved");
    let paths = ["before.csv", "after.csv", "fit"].map(|name| dir.join(name));
    let [before, after, out] = [0, 1, 2].map(|k| paths[k].to_str().unwrap());
    let not_there = "give their new path with --data";
    std::fs::copy(data("lin_ill_d50.csv"), before).unwrap();
    let mut arguments = long_run(&paths[2], "prox-energy");
    arguments[2] = before.to_string();
    let child = start(&arguments);
    wait_for_checkpoint(&paths[2]);
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    expect(&child.wait_with_output().unwrap(), 130, "");
    std::fs::rename(before, after).unwrap();
    expect(&certus(&["resume", out]), 66, not_there);
    let child = start(&["resume", out, "--data", after].map(String::from));
    std::thread::sleep(Duration::from_secs(1));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    expect(&child.wait_with_output().unwrap(), 130, "");
    std::fs::copy(data("logit_d10.csv"), before).unwrap();
    let fit = ["fit", "logistic", before, "--response", "y", "--out", out, "--overwrite", "--quiet"];
    expect(&certus(&fit), 0, "");
    std::fs::rename(before, after).unwrap();
    expect(&certus(&["verify", out]), 66, not_there);
    expect(&certus(&["verify", out, "--data", after]), 0, "confirmed");
    let text = std::fs::read_to_string(after).unwrap();
    std::fs::write(after, text.replacen("-0.7719056917229347", "-0.77", 1)).unwrap();
    expect(&certus(&["verify", out, "--data", after]), 14, "their fingerprints differ");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Kills a run at moments spread over its length and resumes it, again and again, until it ends by itself; the arrays
/// are those of a run that was left alone.
fn killed(method: &str, kills: usize, name: &str) {
    let dir = scratch(name);
    let whole = dir.join("whole");
    let began = std::time::Instant::now();
    let code_of_whole = code(&start(&long_run_of(&whole, method)).wait_with_output().unwrap());
    let length = began.elapsed();
    let (mut done, mut round) = (0, 0);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    while done < kills {
        round += 1;
        let out = dir.join(format!("killed-{round}"));
        let mut child = start(&long_run_of(&out, method));
        loop {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let pause = length.mul_f64((state >> 33) as f64 / f64::from(u32::MAX >> 1) * 0.9);
            // the last one is left alone: on a busy machine every pause may be shorter than what is left to do
            if done < kills {
                std::thread::sleep(pause);
                if child.try_wait().unwrap().is_none() {
                    child.kill().unwrap();
                }
            }
            let output = child.wait_with_output().unwrap();
            if output.status.signal() == Some(9) {
                done += 1;
                // before the data were read there is nothing to go on from
                let begun = [".run/settings.json", "settings.json"].iter().any(|f| out.join(f).exists());
                child = if begun {
                    start(&["resume".to_string(), out.to_str().unwrap().to_string(), "--quiet".to_string()])
                } else {
                    let mut again = long_run_of(&out, method);
                    again.push("--overwrite".to_string());
                    start(&again)
                };
                continue;
            }
            expect(&output, code_of_whole, "");
            break;
        }
        assert_eq!(arrays(&out), arrays(&whole), "{method}, round {round}");
        std::fs::remove_dir_all(&out).unwrap();
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// The method's own long run.
fn long_run_of(out: &Path, method: &str) -> Vec<String> {
    if method == "mixed" {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../certus-mixed/tests/data/salamander.csv");
        let formula = "Mate ~ Cross + (1 | Female) + (1 | Male)";
        return ["fit", "logistic", file.to_str().unwrap(), formula, "--ml", "--out", out.to_str().unwrap()]
            .into_iter()
            .chain(["--checkpoint-every", "0s", "--quiet"])
            .map(String::from)
            .collect();
    }
    if method.contains('-') {
        return long_run(out, method);
    }
    let file = data("hier_logit.csv");
    let mut arguments: Vec<String> =
        ["fit", "logistic", file.to_str().unwrap(), "--response", "y", "--no-intercept"]
            .map(String::from)
            .to_vec();
    // kills come before the posterior is compared with, which would take longer than the run
    arguments.extend(["--group", "group:: *", "--group-sd", "1", "--gap", "1e-4"].map(String::from));
    arguments.extend(["--posterior", "gaussian"].map(String::from));
    arguments
        .extend(["--out", out.to_str().unwrap(), "--checkpoint-every", "0s", "--quiet"].map(String::from));
    arguments.extend(["--method", method].map(String::from));
    arguments
}

#[test]
fn killed_and_resumed() {
    killed("stochastic", 2, "kill-stochastic");
    killed("exact", 1, "kill-exact");
    killed("prox-energy", 1, "kill-planned");
    killed("mixed", 1, "kill-mixed");
}

/// 200 kills.
#[test]
#[ignore = "takes minutes"]
fn full_killed_and_resumed() {
    for method in ["stochastic", "exact", "prox-energy", "mixed"] {
        killed(method, 50, &format!("full-{method}"));
        println!("{method}: 50 kills, the same bits after each resume");
    }
}

/// A damaged newest checkpoint is refused with a word, and the one before is used.
#[test]
fn damaged_checkpoints() {
    let dir = scratch("damaged");
    let whole = dir.join("whole");
    expect(&start(&long_run(&whole, "prox-energy")).wait_with_output().unwrap(), 10, "");
    for damage in ["cut", "flip"] {
        let out = dir.join(damage);
        let mut child = start(&long_run(&out, "prox-energy"));
        wait_for_checkpoint(&out);
        std::thread::sleep(Duration::from_millis(50));
        child.kill().unwrap();
        child.wait().unwrap();
        let read = |k: usize| std::fs::read(out.join(format!(".run/checkpoint.{k}"))).unwrap();
        let generation = |bytes: &[u8]| u64::from_le_bytes(bytes[24..32].try_into().unwrap());
        let newest = if generation(&read(0)) > generation(&read(1)) { 0 } else { 1 };
        let mut bytes = read(newest);
        match damage {
            "cut" => bytes.truncate(bytes.len() - 9),
            _ => *bytes.last_mut().unwrap() ^= 4,
        }
        std::fs::write(out.join(format!(".run/checkpoint.{newest}")), bytes).unwrap();
        expect(&certus(&["resume", out.to_str().unwrap()]), 10, &format!("checkpoint.{newest} is damaged"));
        assert_eq!(arrays(&out), arrays(&whole), "{damage}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Draws have the moments of the fit, predictions follow from the coefficients, comparisons say what differs.
#[test]
fn draws_predictions_and_comparisons() {
    let dir = scratch("results");
    let trips = dir.join("trips.csv");
    let mut text = String::from("late,distance,city,van\n");
    for i in 0..400_u32 {
        let distance = f64::from(i % 37) * 1.5 + 1.0;
        let city = ["Delft", "Utrecht", "Zwolle"][(i % 3) as usize];
        let late = u32::from((i * 7919) % 100 < 20 + 2 * (i % 37) - 10 * (i % 3) / 2);
        text.push_str(&format!("{late},{distance},{city},{}\n", i % 5));
    }
    std::fs::write(&trips, text).unwrap();
    let (trips, dense, grouped) = (trips.to_str().unwrap(), dir.join("dense"), dir.join("grouped"));
    // of a Gaussian predictions are known exactly
    let fit = ["fit", "logistic", trips, "--response", "late", "--features", "distance,city", "--quiet"];
    let fit = [&fit[..], &["--posterior", "gaussian", "--out"]].concat();
    expect(&certus(&[&fit[..], &[dense.to_str().unwrap()]].concat()), 0, "");
    let group = ["--group", "van", "--group-sd", "0.5"];
    expect(&certus(&[&fit[..], &[grouped.to_str().unwrap()], &group].concat()), 0, "");
    for out in [&dense, &grouped] {
        let record: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(out.join("fit.json")).unwrap()).unwrap();
        let file = dir.join("draws.csv");
        let n = 4000;
        let draws = ["sample", out.to_str().unwrap(), "--draws", "4000", "--to", file.to_str().unwrap()];
        expect(&certus(&[&draws[..], &["--overwrite"]].concat()), 0, "4000 draws");
        let text = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().filter(|l| !l.starts_with('#')).collect();
        assert_eq!(lines.len(), n + 1);
        let parameters = record["parameters"].as_array().unwrap();
        for (j, p) in parameters.iter().enumerate() {
            let (mean, sd) = (p["mean"].as_f64().unwrap(), p["sd"].as_f64().unwrap());
            assert_eq!(lines[0].split(',').nth(j).unwrap(), p["name"].as_str().unwrap());
            let column: Vec<f64> =
                lines[1..].iter().map(|l| l.split(',').nth(j).unwrap().parse().unwrap()).collect();
            let average = column.iter().sum::<f64>() / n as f64;
            let spread = (column.iter().map(|x| (x - average).powi(2)).sum::<f64>() / n as f64).sqrt();
            // 4.5 standard errors: one false alarm in 7,000 of these forty checks
            assert!((average - mean).abs() < 4.5 * sd / (n as f64).sqrt(), "{} {average} {mean}", p["name"]);
            assert!((spread / sd - 1.0).abs() < 4.5 / (2.0 * n as f64).sqrt(), "{} {spread} {sd}", p["name"]);
        }
        let parquet = dir.join("draws.parquet");
        expect(
            &certus(&["sample", out.to_str().unwrap(), "--to", parquet.to_str().unwrap(), "--overwrite"]),
            0,
            "1000 draws",
        );
        assert!(std::fs::read(&parquet).unwrap().starts_with(b"PAR1"));
    }
    // a row with distance 0 in the reference city has the intercept as its linear predictor; of a van, its own
    let new = dir.join("new.csv");
    std::fs::write(&new, "distance,city,van\n0,Delft,3\n10,Zwolle,1\n").unwrap();
    let to = dir.join("predicted.csv");
    for (out, intercept, slope) in
        [(&dense, "(Intercept)", "(Intercept)"), (&grouped, "(Intercept)[van=3]", "(Intercept)[van=1]")]
    {
        let record: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(out.join("fit.json")).unwrap()).unwrap();
        let of = |name: &str, what: &str| {
            let all = record["parameters"].as_array().unwrap();
            all.iter().find(|p| p["name"] == name).unwrap_or_else(|| panic!("{name}"))[what].as_f64().unwrap()
        };
        let predict = ["predict", out.to_str().unwrap(), new.to_str().unwrap(), "--to", to.to_str().unwrap()];
        expect(&certus(&[&predict[..], &["--overwrite"]].concat()), 0, "rows: 2");
        let text = std::fs::read_to_string(&to).unwrap();
        let rows: Vec<Vec<f64>> =
            text.lines().skip(1).map(|l| l.split(',').map(|x| x.parse().unwrap()).collect()).collect();
        assert_eq!(text.lines().next().unwrap(), "mean,sd,q05,q50,q95,linear_mean,linear_sd");
        assert!(
            (rows[0][5] - of(intercept, "mean")).abs() < 1e-9
                && (rows[0][6] - of(intercept, "sd")).abs() < 1e-9
        );
        let expected = of(slope, "mean") + 10.0 * of("distance", "mean") + of("city[Zwolle]", "mean");
        assert!((rows[1][5] - expected).abs() < 1e-9, "{} {expected}", rows[1][5]);
        assert!((rows[1][3] - 1.0 / (1.0 + (-expected).exp())).abs() < 1e-9);
        assert!(rows[1][2] < rows[1][0] && rows[1][0] < rows[1][4]);
    }
    std::fs::write(&new, "distance,city,van\n0,Gouda,3\n").unwrap();
    let predict = ["predict", dense.to_str().unwrap(), new.to_str().unwrap(), "--to", to.to_str().unwrap()];
    expect(&certus(&predict), 73, "predicted.csv already exists");
    expect(&certus(&[&predict[..], &["--overwrite"]].concat()), 65, "Gouda");
    let output = certus(&["compare", dense.to_str().unwrap(), grouped.to_str().unwrap()]);
    expect(&output, 0, "4 parameters in both");
    // differences in sds of the first, the largest first
    let moments = |out: &Path, name: &str| {
        let record: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(out.join("fit.json")).unwrap()).unwrap();
        let p = record["parameters"].as_array().unwrap().iter().find(|p| p["name"] == name).unwrap().clone();
        ["mean", "sd"].map(|what| p[what].as_f64().unwrap())
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let mut before = f64::INFINITY;
    for line in text.lines().skip(1).take(4) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ([m, s], [n, t]) = (moments(&dense, words[0]), moments(&grouped, words[0]));
        let difference = (n - m) / s;
        assert_eq!(words[5..], [format!("{difference:+.4}"), "sd".into(), format!("{:.4}", t / s)], "{text}");
        assert!(difference.abs() <= before, "{text}");
        before = difference.abs();
    }
    // models of the same responses are compared, whatever their columns
    let (fewer, tight, short) = (dir.join("fewer.csv"), dir.join("tight"), dir.join("short"));
    expect(&certus(&[&fit[..], &[tight.to_str().unwrap(), "--prior-sd", "1"]].concat()), 0, "");
    let output = certus(&["compare", dense.to_str().unwrap(), tight.to_str().unwrap()]);
    expect(&output, 0, "ELBO");
    let rows = std::fs::read_to_string(trips).unwrap();
    std::fs::write(&fewer, rows.trim_end().rsplit_once('\n').unwrap().0).unwrap();
    let mut again = fit;
    again[2] = fewer.to_str().unwrap();
    expect(&certus(&[&again[..], &[short.to_str().unwrap()]].concat()), 0, "");
    let output = certus(&["compare", dense.to_str().unwrap(), short.to_str().unwrap()]);
    expect(&output, 0, "criteria and evidence are not comparable: ");
    expect(&certus(&["sample", dense.to_str().unwrap(), "--to", "draws.xlsx"]), 64, ".parquet");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// What a user reads, word for word, but for the time.
#[test]
fn the_table() {
    let file = data("logit_d10.csv");
    let output =
        certus(&["fit", "logistic", file.to_str().unwrap(), "--response", "y", "--features", "x0,x1"]);
    expect(&output, 0, "");
    let text = String::from_utf8(output.stdout).unwrap();
    let shown: Vec<String> =
        text.lines()
            .map(|l| {
                if l.starts_with("spent") {
                    l.rsplit_once(", ").unwrap().0.to_string()
                } else {
                    l.to_string()
                }
            })
            .collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/table.txt");
    if std::env::var_os("CERTUS_WRITE").is_some() {
        std::fs::write(&path, shown.join("\n") + "\n").unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        shown.join("\n") + "\n",
        expected,
        "if the change is meant: CERTUS_WRITE=1 and look at the difference"
    );
}

/// The paper's methods end with a certificate of their own.
#[test]
fn methods_of_the_paper() {
    let file = data("logit_d10.csv");
    for method in ["prox-energy", "prox-cv", "proj-entropy", "proj-stl", "ball-stl", "subsampled"] {
        let fit = [
            "fit",
            "logistic",
            file.to_str().unwrap(),
            "--response",
            "y",
            "--no-intercept",
            "--no-standardise",
        ];
        let more = [
            "--prior-sd",
            "1",
            "--method",
            method,
            "--gap",
            "0.1",
            "--iterations",
            "4000",
            "--posterior",
            "gaussian",
            "--json",
            "--quiet",
        ];
        let output = certus(&[&fit[..], &more].concat());
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(code(&output), 0, "{method}: {err}\n{out}");
        let fit = json(&output);
        assert_eq!(fit["certificate"]["gap"]["level"], "proved", "{method}: {out}");
        assert!(fit["route"].as_str().unwrap().starts_with(method));
    }
    let fit = ["fit", "logistic", file.to_str().unwrap(), "--response", "y"];
    expect(&certus(&[&fit[..], &["--batch", "3"]].concat()), 64, "batch applies only");
    expect(&certus(&[&fit[..], &["--row-batch", "3"]].concat()), 64, "row-batch applies only");
    expect(&certus(&[&fit[..], &["--method", "ball-stl", "--constants", "paper"]].concat()), 64, "paper");
}

/// Started several times over by a launcher, a build without MPI does not run the same fit several times; once it does.
#[test]
#[cfg(not(feature = "mpi"))]
fn ranks_need_mpi() {
    let path = data("logit_d10.csv");
    let arguments = ["fit", "logistic", path.to_str().unwrap(), "--response", "y", "--quiet"];
    let run = |count: &str, rank: &str| {
        let mut command = Command::new(BINARY);
        command.args(arguments).env("OMPI_COMM_WORLD_SIZE", count).env("OMPI_COMM_WORLD_RANK", rank);
        command.output().unwrap()
    };
    expect(&run("2", "0"), 64, "built without MPI");
    let second = run("2", "1");
    assert!(code(&second) == 0 && second.stderr.is_empty(), "only rank 0 speaks");
    expect(&run("1", "0"), 0, "");
}
