//! `certus fit-many` on real files: the bits of single fits, any order, kills, parts, bad groups, keys of every kind.
#![allow(clippy::unwrap_used)]
#![cfg(feature = "scan")]

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{BINARY, expect, scratch};

fn run(words: &str) -> Output {
    Command::new(BINARY).args(words.split_whitespace()).output().unwrap()
}

/// Row i of store s: a luck between 0 and 1, two features, a response that follows them.
fn row(s: usize, i: usize) -> [f64; 3] {
    let wave = |k: usize| ((s * 131 + i * 17 + k * 7) as f64 * 1.618).sin();
    let (a, b) = (wave(1) + 0.3 * wave(5), 2.0 * wave(2) - wave(9));
    let luck = ((s * 7919 + i * 104_729) % 1000) as f64 / 1000.0;
    let t = 0.8 * a - 0.4 * b + (s % 5) as f64 * 0.3 - 0.5;
    [f64::from(u8::from(luck < 1.0 / (1.0 + (-t).exp()))), a, b]
}

/// A CSV file of stores whose rows are not together; `name(s)` is the key of store s.
fn file(path: &Path, stores: usize, rows: usize, name: &dyn Fn(usize) -> String, reversed: bool) {
    let mut text = String::from("store,y,a,b\n");
    for i in 0..rows {
        for k in 0..stores {
            let s = if reversed { stores - 1 - k } else { k };
            if i < rows - s % 7 {
                let [y, a, b] = row(s, i);
                writeln!(text, "{},{y},{a},{b}", name(s)).unwrap();
            }
        }
    }
    std::fs::write(path, text).unwrap();
}

/// Every result of a directory, from its chunks.
fn results(dir: &Path) -> Vec<(Vec<String>, Value)> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(dir.join("chunks")).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let chunk: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let names: Vec<String> =
            chunk["names"].as_array().unwrap().iter().map(|n| n.as_str().unwrap().to_string()).collect();
        all.extend(chunk["fits"].as_array().unwrap().iter().map(|fit| (names.clone(), fit.clone())));
    }
    all
}

fn table(dir: &Path) -> Vec<u8> {
    std::fs::read(dir.join("fits.parquet")).unwrap()
}

#[test]
fn every_group_has_the_bits_of_a_fit_of_its_own() {
    let dir = scratch("bits");
    let (data, out) = (dir.join("d.csv"), dir.join("fits"));
    file(&data, 12, 40, &|s| format!("s{s}"), false);
    let (data, out) = (data.display(), out.display());
    let all = run(&format!("fit-many logistic {data} --response y --by store --chunk 5 --out {out}"));
    expect(&all, 0, "12 models by store, 449 rows");
    let found = results(&dir.join("fits"));
    // names by their letters
    let keys: Vec<&str> = found.iter().map(|(_, f)| f["key"]["text"].as_str().unwrap()).collect();
    assert_eq!(keys, ["s0", "s1", "s10", "s11", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9"]);
    for (names, many) in found.iter().step_by(3) {
        let key = many["key"]["text"].as_str().unwrap();
        let one = Command::new(BINARY)
            .args(format!("fit logistic {data} --response y --features a,b --json").split_whitespace())
            .args(["--posterior", "gaussian"])
            .args(["--where", &format!("store = '{key}'")])
            .output()
            .unwrap();
        let one: Value = serde_json::from_slice(&one.stdout).unwrap();
        assert_eq!(many["neg_elbo"], one["neg_elbo"], "{key}");
        assert_eq!(many["gap_bound"], one["certificate"]["gap"]["bound"]);
        assert_eq!((&many["status"], &many["message"]), (&one["status"], &one["message"]));
        assert_eq!(many["rows"], one["data"]["rows"]);
        for (k, parameter) in one["parameters"].as_array().unwrap().iter().enumerate() {
            assert_eq!(parameter["name"], names[k].as_str());
            assert_eq!(many["parameters"][k][0], parameter["mean"]);
            assert_eq!(many["parameters"][k][1], parameter["sd"]);
        }
    }
}

#[test]
fn neither_order_nor_threads_nor_parts_change_a_byte() {
    let dir = scratch("order");
    let path = |name: &str| dir.join(name).display().to_string();
    let name = |s: usize| format!("{}", 100 - s);
    file(&dir.join("a.csv"), 23, 30, &name, false);
    file(&dir.join("b.csv"), 23, 30, &name, true);
    let many = |data: &str, out: &str, more: &str| {
        run(&format!(
            "fit-many logistic {} --response y --by store --chunk 4 --out {} {more}",
            path(data),
            path(out)
        ))
    };
    expect(&many("a.csv", "one", "--threads 1"), 0, "23 models");
    expect(&many("b.csv", "other", "--threads 3"), 0, "23 models");
    assert_eq!(table(&dir.join("one")), table(&dir.join("other")));
    let key = |k: usize| results(&dir.join("one"))[k].1["key"]["number"].as_f64().unwrap();
    assert_eq!((key(0), key(22)), (78.0, 100.0), "numbers are ordered by size");
    // parts, in any order, with what is missing said before the last
    expect(&many("a.csv", "parts", "--part 3/3"), 0, "4 of 6 chunks are missing");
    expect(&many("a.csv", "parts", "--part 1/3"), 0, "2 of 6 chunks are missing");
    let collect = format!("fit-many --out {} --collect", path("parts"));
    expect(&run(&collect), 10, "2 of 6 chunks are missing, the first is 1");
    expect(&many("b.csv", "parts", "--part 2/3"), 0, "23 models");
    expect(&run(&collect), 0, "23 models");
    assert_eq!(table(&dir.join("one")), table(&dir.join("parts")));
    for bad in ["0/3", "4/3", "2", "a/b"] {
        expect(&many("a.csv", "bad", &format!("--part {bad}")), 64, "K from 1 to P");
    }
}

#[test]
fn kills_and_interrupts_lose_no_finished_chunk() {
    let dir = scratch("kills");
    let data = dir.join("d.csv");
    file(&data, 240, 60, &|s| s.to_string(), false);
    let words = |out: &str| {
        let (data, out) = (data.display(), dir.join(out).display().to_string());
        format!("fit-many logistic {data} --response y --by store --chunk 4 --out {out} --quiet")
    };
    expect(&run(&words("whole")), 0, "");
    let chunks = || std::fs::read_dir(dir.join("broken/chunks")).map_or(0, |entries| entries.count());
    let mut seen = 0;
    for (round, signal) in ["-KILL", "-INT", "-KILL", "-TERM", "-KILL"].into_iter().enumerate() {
        let mut child = Command::new(BINARY)
            .args(words("broken").split_whitespace())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // a few chunks later, wherever it is then
        let clock = Instant::now();
        while chunks() < seen + 3 + round && child.try_wait().unwrap().is_none() {
            assert!(clock.elapsed() < Duration::from_secs(120), "no chunk was made");
            std::thread::sleep(Duration::from_millis(2));
        }
        let ended = child.try_wait().unwrap();
        Command::new("kill").args([signal, &child.id().to_string()]).stderr(Stdio::null()).status().unwrap();
        let status = child.wait().unwrap();
        if ended.is_none() && status.code() != Some(0) {
            let wanted = [("-INT", Some(130)), ("-TERM", Some(143)), ("-KILL", None)];
            assert!(wanted.contains(&(signal, status.code())), "{signal} {status}");
        }
        let now = chunks();
        assert!(now >= seen, "a finished chunk is gone");
        seen = now;
    }
    let made = |dir: &Path| std::fs::metadata(dir).unwrap().modified().unwrap();
    let first = dir.join("broken/chunks/000000.json");
    let before = made(&first);
    expect(&run(&format!("resume {} --quiet", dir.join("broken").display())), 0, "");
    assert_eq!(made(&first), before, "what is there is not made again");
    assert_eq!(table(&dir.join("whole")), table(&dir.join("broken")));
    // the same command once more changes nothing; a damaged chunk is named, and made again once it is removed
    expect(&run(&words("broken")), 0, "");
    std::fs::write(&first, "{").unwrap();
    expect(&run(&words("broken")), 65, "000000.json");
    std::fs::remove_file(&first).unwrap();
    expect(&run(&words("broken")), 0, "");
    assert_eq!(table(&dir.join("whole")), table(&dir.join("broken")));
    let halves = std::fs::read_dir(dir.join("broken/chunks")).unwrap();
    let halves = halves.filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().ends_with(".tmp"));
    assert_eq!(halves.count(), 0);
}

#[test]
fn other_settings_or_changed_data_are_refused() {
    let dir = scratch("other");
    let data = dir.join("d.csv");
    file(&data, 6, 30, &|s| s.to_string(), false);
    let (shown, out) = (data.display(), dir.join("fits"));
    let command = format!(
        "fit-many logistic {shown} --response y --by store --chunk 2 --quiet --out {}",
        out.display()
    );
    expect(&run(&command), 0, "");
    expect(&run(&format!("{command} --prior-sd 1")), 73, "contains fits with other settings");
    expect(&run(&format!("{command} --prior-sd 1 --overwrite")), 0, "");
    expect(&run(&format!("{command} --overwrite")), 0, "");
    // one cell of a finished chunk
    let text = std::fs::read_to_string(&data).unwrap();
    let line = text.lines().nth(1).unwrap();
    let [y, a, b] = row(0, 0);
    assert_eq!(line, format!("0,{y},{a},{b}"));
    std::fs::write(&data, text.replacen(line, &format!("0,{y},{a},{}", b + 1.0), 1)).unwrap();
    std::fs::remove_file(out.join("chunks/000001.json")).unwrap();
    expect(&run(&command), 65, "the data of chunk 0 (from group '0' on) have changed since it was fitted");
    // a directory of somebody else
    std::fs::create_dir(dir.join("mine")).unwrap();
    std::fs::write(dir.join("mine/letter.txt"), "dear").unwrap();
    let words =
        format!("fit-many logistic {shown} --response y --by store --out {}", dir.join("mine").display());
    expect(&run(&words), 73, "contains other files and no fit");
}

#[test]
fn a_bad_group_stops_nobody() {
    let dir = scratch("bad");
    let data = dir.join("d.csv");
    file(&data, 8, 40, &|s| s.to_string(), false);
    let mut text = std::fs::read_to_string(&data).unwrap();
    // a response that is none, separated responses, a constant response, two rows
    text.push_str("80,1,0.5,0.25\n80,2,0.1,0.2\n");
    for i in 0..20 {
        let x = f64::from(i) - 9.5;
        writeln!(
            text,
            "81,{},{x},{}\n82,1,{x},{}",
            u8::from(x > 0.0),
            row(1, i as usize)[1],
            row(2, i as usize)[1]
        )
        .unwrap();
    }
    std::fs::write(&data, text).unwrap();
    let (shown, out) = (data.display(), dir.join("fits"));
    let command = format!("fit-many logistic {shown} --response y --by store --out {}", out.display());
    let flat = run(&format!("{command} --prior-sd inf --intercept-prior-sd inf"));
    expect(&flat, 10, "assumption_violated");
    let status = |k: usize| results(&out)[k].1["status"].as_str().unwrap().to_string();
    let message = |k: usize| results(&out)[k].1["message"].as_str().unwrap().to_string();
    assert!((0..8).all(|k| status(k) == "reached"), "{:?}", (0..8).map(status).collect::<Vec<_>>());
    assert_eq!([8, 9, 10].map(status), ["user_error", "assumption_violated", "assumption_violated"]);
    assert!(
        message(8).contains("row 2 among those where store is 80, column 'y': the response is 2"),
        "{}",
        message(8)
    );
    assert!(message(9).contains("separated") && message(9).contains("witness"), "{}", message(9));
    assert!(results(&out)[9].1["gap_bound"].is_null());
    // with a prior only the response that is none is bad
    let proper = run(&format!("{command} --overwrite --json"));
    expect(&proper, 10, "");
    let said: Value = serde_json::from_slice(&proper.stdout).unwrap();
    assert_eq!(said["status"], serde_json::json!({"reached": 10, "user_error": 1}));
    assert_eq!(said["gap"]["level"], serde_json::json!({"none": 1, "proved": 10}));
    // counts below 0
    std::fs::write(&data, "store,y,a\n1,2,0.5\n1,0,1.5\n1,3,0.1\n2,-1,0.5\n2,1,0.25\n").unwrap();
    let counts =
        run(&format!("fit-many poisson {shown} --response y --by store --out {} --overwrite", out.display()));
    expect(&counts, 10, "store = 2");
    assert_eq!([0, 1].map(status), ["reached", "user_error"]);
}

#[test]
fn keys_of_every_kind() {
    let dir = scratch("keys");
    let data = dir.join("d.csv");
    let shown = data.display();
    let many = |out: &str, more: &str| {
        let out = dir.join(out);
        run(&format!("fit-many logistic {shown} --response y --by store --out {} {more}", out.display()))
    };
    let kinds: [(&str, &dyn Fn(usize) -> String); 4] = [
        ("date", &|s| format!("2026-0{}-1{}", 9 - s, s)),
        ("number", &|s| format!("{}", 0.5 * s as f64 - 1.0)),
        ("boolean", &|s| (s % 2 == 0).to_string()),
        ("text", &|s| if s == 0 { "12".into() } else { format!("north {s}") }),
    ];
    for (kind, name) in kinds {
        file(&data, 4, 30, name, false);
        expect(&many(kind, ""), 0, "models by store");
        let found = results(&dir.join(kind));
        assert_eq!(found.len(), if kind == "boolean" { 2 } else { 4 });
        assert!(found.iter().all(|(_, fit)| !fit["key"][kind].is_null()), "{:?}", found[0]);
    }
    let dates: Vec<f64> =
        results(&dir.join("date")).iter().map(|f| f.1["key"]["date"].as_f64().unwrap()).collect();
    assert!(dates.is_sorted(), "{dates:?}");
    // a gap is named, or left out with its row
    file(&data, 3, 30, &|s| s.to_string(), false);
    let text = std::fs::read_to_string(&data).unwrap().replacen("\n1,", "\n,", 1);
    std::fs::write(&data, text).unwrap();
    expect(&many("gap", ""), 65, "row 2 of d.csv has no value of the key 'store'");
    expect(&many("gap", "--missing drop"), 0, "3 models by store, 86 rows");
    // what is wrong for every group is refused at once
    expect(&many("none", "--features nothing"), 65, "there is no column 'nothing'");
    expect(&run(&format!("fit-many logistic {shown} --response y --out {}", dir.display())), 64, "--by COL");
    expect(&run(&format!("fit-many logistic {shown} --response y --by store")), 64, "--out DIR");
    expect(
        &run(&format!("fit-many logistic {shown} --response y --by shop --out {}/x", dir.display())),
        65,
        "shop",
    );
    assert!(!dir.join("x").exists() && !dir.join("none").exists());
}
