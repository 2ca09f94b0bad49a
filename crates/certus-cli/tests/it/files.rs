//! Files on disk: results that were changed are refused, results are replaced as a whole, outputs replace nothing that
//! was not meant, and no row is read twice.
#![allow(clippy::unwrap_used)]
#![cfg(all(feature = "scan", unix))]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use certus_fit::directory::{ARRAYS, MEANING, RECORD, SETTINGS};
use certus_fit::{ErrorKind, FitDirectory, Record};
use serde_json::Value;

use crate::common::{BINARY, certus, expect, scratch};

/// Rows of a logistic regression with a group, from a count on.
fn rows(from: usize, count: usize) -> String {
    let mut text = String::from("y,x,city,van\n");
    for i in from..from + count {
        let x = ((i * 37) % 101) as f64 / 25.0 - 2.0;
        let y = u8::from(((i * 7919) % 100) as f64 / 100.0 < 1.0 / (1.0 + (-x).exp()));
        text.push_str(&format!("{y},{x},{},{}\n", ["Delft", "Gouda", "Ede"][i % 3], i % 5));
    }
    text
}

/// A finished fit `fit` of `d.csv` in a directory of its own.
fn fitted(name: &str, more: &[&str]) -> (PathBuf, PathBuf, PathBuf) {
    let dir = scratch(name);
    let (data, out) = (dir.join("d.csv"), dir.join("fit"));
    fs::write(&data, rows(0, 60)).unwrap();
    let fit = ["fit", "logistic", text(&data), "--response", "y", "--features", "x,city", "--quiet", "--out"];
    expect(&certus(&[&fit[..], &[text(&out)], more].concat()), 0, "");
    (dir, data, out)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Every value of a JSON document with every leaf changed once, alone.
fn edits(value: &Value) -> Vec<Value> {
    match value {
        Value::Object(members) => {
            let each = members.iter().flat_map(|(key, inner)| {
                edits(inner).into_iter().map(move |edit| {
                    let mut other = value.clone();
                    other[key] = edit;
                    other
                })
            });
            each.collect()
        }
        Value::Array(items) => {
            let each = items.iter().enumerate().flat_map(|(k, inner)| {
                edits(inner).into_iter().map(move |edit| {
                    let mut other = value.clone();
                    other[k] = edit;
                    other
                })
            });
            each.collect()
        }
        Value::Number(x) => {
            vec![x.as_i64().map_or_else(|| (1.5 * x.as_f64().unwrap()).into(), |i| (i + 1).into())]
        }
        Value::String(word) => vec![format!("{word}x").into()],
        Value::Bool(b) => vec![(!b).into()],
        Value::Null => vec![1.into()],
    }
}

/// The commands that read a fit; `k` is a number that no other call has.
fn readers(dir: &Path, out: &Path, data: &Path, k: usize) -> Vec<Vec<String>> {
    let to = dir.join(format!("out-{k}.csv"));
    let all: [&[&str]; 6] = [
        &["sample", text(out), "--draws", "5", "--to", text(&to)],
        &["predict", text(out), text(data), "--to", text(&to)],
        &["verify", text(out)],
        &["report", text(out)],
        &["compare", text(out), text(out)],
        &["resume", text(out)],
    ];
    all.iter().map(|words| words.iter().map(ToString::to_string).collect()).collect()
}

#[track_caller]
fn run(words: &[String]) -> std::process::Output {
    certus(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Finding V3: all edits of meaning.json went through and changed predictions. Every leaf of every JSON file of a
/// result, changed alone, is refused by whoever opens it, and every command does so.
#[test]
fn a_changed_leaf_is_refused_by_every_command() {
    let (dir, data, out) = fitted("leaves", &[]);
    let mut count = 0;
    for name in [MEANING, SETTINGS, RECORD] {
        let file = out.join(name);
        let whole = fs::read(&file).unwrap();
        let all = edits(&serde_json::from_slice(&whole).unwrap());
        assert!(all.len() >= 7, "{name}: {}", all.len());
        for (k, edit) in all.iter().enumerate() {
            fs::write(&file, edit.to_string()).unwrap();
            let error = FitDirectory::open(&out).unwrap_err();
            assert!(error.kind() == ErrorKind::Data && error.to_string().contains(name), "{error}");
            // every leaf of meaning.json by one command after the other, a few of the others
            if name == MEANING || k % 29 == 0 {
                let commands = readers(&dir, &out, &data, count);
                expect(&run(&commands[count % commands.len()]), 65, name);
                count += 1;
            }
        }
        fs::write(&file, &whole).unwrap();
    }
    assert!(count >= 30, "{count}");
    for words in readers(&dir, &out, &data, count) {
        expect(&run(&words), 0, "");
        let _ = fs::remove_file(dir.join(format!("out-{count}.csv")));
    }
    fs::remove_dir_all(&dir).unwrap();
}

/// Finding V3: one-bit flips in the arrays went through `sample` 80 of 120, `predict` 40 of 60, `verify` 65 of 240
/// times.
#[test]
fn a_flipped_bit_is_refused_by_every_command() {
    let (dir, data, out) = fitted("flips", &[]);
    let file = out.join(ARRAYS);
    let whole = fs::read(&file).unwrap();
    let bits = 8 * whole.len();
    for k in 0..60 {
        let bit = (k * 7919 * 13) % bits;
        let mut other = whole.clone();
        other[bit / 8] ^= 1 << (bit % 8);
        fs::write(&file, other).unwrap();
        expect(&run(&readers(&dir, &out, &data, k)[k % 3]), 65, ARRAYS);
        assert!(!dir.join(format!("out-{k}.csv")).exists());
    }
    fs::write(&file, &whole).unwrap();
    // without the manifest nothing is known of a fit that had one
    fs::remove_file(out.join("manifest.json")).unwrap();
    for words in readers(&dir, &out, &data, 99) {
        expect(&run(&words), 65, "manifest.json");
    }
    // one from before there were manifests
    let record = fs::read_to_string(out.join(RECORD)).unwrap();
    fs::write(out.join(RECORD), record.replacen("\"schema\": 3", "\"schema\": 2", 1)).unwrap();
    for words in readers(&dir, &out, &data, 100) {
        // what it states can be read, but not checked
        let code = if words.iter().any(|word| word == "verify") { 65 } else { 0 };
        expect(&run(&words), code, "has no manifest.json, so its files are not checked");
        let _ = fs::remove_file(dir.join("out-100.csv"));
    }
    fs::remove_dir_all(&dir).unwrap();
}

/// What a reader sees: the seed of the result, after every file was compared with the manifest. One that is replaced
/// meanwhile is read again.
fn seed(out: &Path) -> u64 {
    let read = || {
        let directory = FitDirectory::open(out)?;
        Ok((directory.read(SETTINGS)?, Record::read(&directory)?))
    };
    let (settings, record) = loop {
        match read() {
            Err(certus_fit::Error::Replaced { .. }) => {}
            other => break other.unwrap(),
        }
    };
    let settings: Value = serde_json::from_slice(&settings).unwrap();
    assert_eq!(settings["seed"].as_u64().unwrap_or(0), record.seed, "a mixture");
    record.seed
}

/// Finding F5: `--overwrite` deleted the old fit before the new one was there. A run with bad data, one that ends
/// without a result, and kills at any moment leave the old result or the new one, which can be read at every moment.
#[test]
fn overwriting_keeps_the_old_result_until_the_new_one_is_there() {
    let (dir, data, out) = fitted("overwrite", &["--seed", "1"]);
    let again = |seed: &str, features: &str| -> Vec<String> {
        let words = ["fit", "logistic", text(&data), "--response", "y", "--features", features, "--quiet"];
        let more = ["--out", text(&out), "--overwrite", "--seed", seed, "--posterior", "gaussian"];
        words.iter().chain(&more).map(ToString::to_string).collect()
    };
    expect(&run(&again("2", "nothing")), 65, "nothing");
    assert_eq!(seed(&out), 1);
    let mut clock = Instant::now();
    expect(&run(&again("2", "x")), 0, "");
    let mut length = clock.elapsed();
    assert_eq!(seed(&out), 2);
    let (mut state, mut kept, mut replaced, mut now) = (7_u64, 0, 0, 2);
    clock = Instant::now();
    while (kept < 5 || replaced < 3) && clock.elapsed() < Duration::from_secs(100) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let words = again(&(now + 1).to_string(), "x,city");
        let mut child =
            Command::new(BINARY).args(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let until = Instant::now() + length.mul_f64(1.5 * (state >> 33) as f64 / f64::from(u32::MAX >> 1));
        while Instant::now() < until && child.try_wait().unwrap().is_none() {
            let seen = seed(&out);
            assert!(seen == now || seen == now + 1, "{seen}");
        }
        let _ = child.kill();
        child.wait().unwrap();
        let seen = seed(&out);
        assert!(seen == now || seen == now + 1, "{seen}");
        // on a machine that has more to do now than before, a run takes longer
        length = length.mul_f64(if seen == now { 1.1 } else { 0.8 });
        if seen == now {
            kept += 1;
            // what was begun can be gone on with
            if out.join(".run/settings.json").exists() && kept % 2 == 0 {
                expect(&certus(&["resume", text(&out), "--quiet"]), 0, "");
                assert_eq!(seed(&out), now + 1);
                now += 1;
            }
        } else {
            replaced += 1;
            now += 1;
        }
    }
    assert!(kept > 0 && replaced > 0, "{kept} {replaced}");
    expect(&run(&again("99", "x")), 0, "");
    assert_eq!(seed(&out), 99);
    expect(&certus(&["verify", text(&out)]), 0, "confirmed");
    let mut names: Vec<_> = fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [ARRAYS, RECORD, "manifest.json", MEANING, SETTINGS]);
    fs::remove_dir_all(&dir).unwrap();
}

/// Finding V3: a chunk edited to the gap 1e-30 arrived in the table as proved.
#[test]
fn a_changed_chunk_never_arrives_in_the_table() {
    let dir = scratch("chunks");
    let (data, out) = (dir.join("d.csv"), dir.join("fits"));
    fs::write(&data, rows(0, 300)).unwrap();
    let many = ["fit-many", "logistic", text(&data), "--response", "y", "--features", "x", "--by", "van"];
    let many = [&many[..], &["--chunk", "2", "--out", text(&out), "--quiet"]].concat();
    let (collect, resume) =
        (["fit-many", "--out", text(&out), "--collect"], ["resume", text(&out), "--quiet"]);
    for finished in [false, true] {
        if finished {
            expect(&certus(&many), 0, "");
        } else {
            // a part of a run, so that there is no table and no manifest yet
            expect(&certus(&[&many[..], &["--part", "1/3"]].concat()), 0, "");
            expect(&certus(&[&many[..], &["--part", "2/3"]].concat()), 0, "");
        }
        let table = fs::read(out.join("fits.parquet")).ok();
        let file = out.join("chunks/000001.json");
        let whole = fs::read_to_string(&file).unwrap();
        let mut edit: Value = serde_json::from_str(&whole).unwrap();
        edit["fits"][0]["gap_bound"] = serde_json::json!(1e-30);
        let place = whole.find("\"gap_bound\":").unwrap() + "\"gap_bound\":".len();
        let end = place + whole[place..].find(',').unwrap();
        for other in [edit.to_string(), format!("{}1e-30{}", &whole[..place], &whole[end..])] {
            fs::write(&file, other).unwrap();
            for words in [&collect[..], &resume, &many] {
                expect(&certus(words), 65, "000001.json");
                assert_eq!(fs::read(out.join("fits.parquet")).ok(), table);
            }
        }
        fs::write(&file, whole).unwrap();
    }
    expect(&certus(&collect), 0, "");
    // the table itself
    let mut table = fs::read(out.join("fits.parquet")).unwrap();
    let whole = table.clone();
    *table.last_mut().unwrap() ^= 1;
    fs::write(out.join("fits.parquet"), &table).unwrap();
    expect(&certus(&collect), 65, "fits.parquet");
    fs::write(out.join("fits.parquet"), &whole).unwrap();
    // replaced as a whole: the old table stays until the new one is there
    let other = [&many[..], &["--prior-sd", "1", "--overwrite"]].concat();
    expect(&certus(&[&other[..], &["--max-time", "0s"]].concat()), 10, "chunks left");
    assert_eq!(fs::read(out.join("fits.parquet")).unwrap(), whole);
    assert!(out.join("chunks/000001.json").exists());
    // the same command without a limit goes on with the new ones
    expect(&certus(&[&many[..], &["--prior-sd", "1"]].concat()), 0, "");
    assert_ne!(fs::read(out.join("fits.parquet")).unwrap(), whole);
    assert!(!out.join(".run").exists());
    expect(&certus(&[&many[..], &["--overwrite"]].concat()), 0, "");
    assert_eq!(fs::read(out.join("fits.parquet")).unwrap(), whole, "the same bytes again");
    fs::remove_dir_all(&dir).unwrap();
}

/// Finding F5: `predict fit new.csv --to new.csv` replaced its input, `sample --to fit/groups.parquet` succeeded.
#[test]
fn outputs_replace_nothing_that_was_not_meant() {
    let (dir, data, out) = fitted("outputs", &[]);
    let new = dir.join("new.csv");
    fs::write(&new, rows(100, 5)).unwrap();
    symlink(&new, dir.join("link.csv")).unwrap();
    fs::hard_link(&new, dir.join("hard.csv")).unwrap();
    fs::create_dir(dir.join("many")).unwrap();
    fs::write(dir.join("many/a.csv"), rows(100, 5)).unwrap();
    symlink(dir.join("many"), dir.join("linked")).unwrap();
    fs::create_dir(dir.join("fits")).unwrap();
    fs::write(dir.join("fits/many.json"), "").unwrap();
    let at = |name: &str| dir.join(name).to_str().unwrap().to_string();
    let predict = |new: &str, to: &str, more: &[&str]| {
        let words = ["predict", text(&out), new, "--to", to];
        certus(&[&words[..], more].concat())
    };
    let all = || -> Vec<Vec<u8>> {
        ["new.csv", "d.csv", "many/a.csv"].iter().map(|name| fs::read(dir.join(name)).unwrap()).collect()
    };
    let before = all();
    for more in [&[][..], &["--overwrite"]] {
        for (new, to) in [
            ("new.csv", "new.csv"),
            ("new.csv", "link.csv"),
            ("new.csv", "hard.csv"),
            ("link.csv", "new.csv"),
            ("many", "many/a.csv"),
            ("many", "linked/a.csv"),
            ("new.csv", "d.csv"),
        ] {
            expect(&predict(&at(new), &at(to), more), 73, "which contains data");
        }
        for to in [
            "fit/groups.parquet",
            "fit/../fit/groups.parquet",
            "fit/.run/x.csv",
            "linkfit/groups.parquet",
            "fits/fits.parquet",
        ] {
            let _ = symlink(&out, dir.join("linkfit"));
            fs::create_dir_all(out.join(".run")).unwrap();
            let words = ["sample", text(&out), "--draws", "3", "--to", &at(to)];
            expect(&certus(&[&words[..], more].concat()), 73, "a file of a fit");
        }
        fs::remove_dir(out.join(".run")).unwrap();
        assert!(!out.join("groups.parquet").exists());
    }
    assert_eq!(all(), before);
    // what exists is replaced only if that is asked for, and a link is never followed
    expect(&predict(&at("new.csv"), &at("p.csv"), &[]), 0, "rows: 5");
    let first = fs::read(dir.join("p.csv")).unwrap();
    fs::write(dir.join("other.csv"), rows(200, 7)).unwrap();
    expect(&predict(&at("other.csv"), &at("p.csv"), &[]), 73, "p.csv already exists");
    assert_eq!(fs::read(dir.join("p.csv")).unwrap(), first);
    expect(&predict(&at("other.csv"), &at("p.csv"), &["--overwrite"]), 0, "rows: 7");
    assert_ne!(fs::read(dir.join("p.csv")).unwrap(), first);
    fs::write(dir.join("victim"), "mine").unwrap();
    symlink(dir.join("victim"), dir.join("v.csv")).unwrap();
    symlink(dir.join("nowhere"), dir.join("w.csv")).unwrap();
    // the name that temporary files had, which could be foreseen
    symlink(dir.join("victim"), dir.join(".q.csv.tmp")).unwrap();
    expect(&predict(&at("new.csv"), &at("v.csv"), &[]), 73, "already exists");
    expect(&predict(&at("new.csv"), &at("w.csv"), &[]), 73, "already exists");
    expect(&predict(&at("new.csv"), &at("v.csv"), &["--overwrite"]), 0, "");
    expect(&predict(&at("new.csv"), &at("q.csv"), &[]), 0, "");
    assert_eq!(fs::read_to_string(dir.join("victim")).unwrap(), "mine");
    assert!(!dir.join("nowhere").exists());
    // a report is replaced, and a fit does not replace the data it reads
    expect(&certus(&["report", text(&out)]), 0, "");
    expect(&certus(&["report", text(&out)]), 0, "");
    fs::copy(&data, out.join("groups.parquet")).unwrap();
    let own =
        ["fit", "logistic", &at("fit/groups.parquet"), "--response", "y", "--out", text(&out), "--overwrite"];
    expect(&certus(&own), 73, "which is an input");
    let halves = fs::read_dir(&dir).unwrap().filter(|e| {
        let name = e.as_ref().unwrap().file_name().to_string_lossy().into_owned();
        name.ends_with(".tmp") && name != ".q.csv.tmp"
    });
    assert_eq!(halves.count(), 0, "no temporary file is left");
    fs::remove_dir_all(&dir).unwrap();
}

/// Finding F1: `ln -s . dl/self` read 410 rows instead of 10, and ended with a proof.
#[test]
fn links_in_a_directory_of_data_multiply_no_rows() {
    let dir = scratch("links");
    let (data, elsewhere) = (dir.join("dl"), dir.join("elsewhere"));
    fs::create_dir_all(data.join("inner")).unwrap();
    fs::create_dir_all(&elsewhere).unwrap();
    fs::write(data.join("a.csv"), rows(0, 20)).unwrap();
    fs::write(data.join("inner/b.csv"), rows(20, 20)).unwrap();
    let fit = |data: &Path, more: &[&str]| {
        let words = ["fit", "logistic", text(data), "--response", "y", "--features", "x", "--json"];
        let more = &[more, &["--posterior", "gaussian"]].concat()[..];
        let output = certus(&[&words[..], more].concat());
        expect(&output, 0, "");
        let record: Value = serde_json::from_slice(&output.stdout).unwrap();
        let notes: Vec<String> =
            record["notes"].as_array().unwrap().iter().map(|n| n.as_str().unwrap().to_string()).collect();
        (record["data"].clone(), notes)
    };
    let (plain, notes) = fit(&data, &[]);
    assert!(notes.contains(&"read 2 files, 40 rows".to_string()), "{notes:?}");
    // loops, links to files and to directories inside, a second name
    symlink(".", data.join("self")).unwrap();
    symlink("..", data.join("inner/up")).unwrap();
    symlink("a.csv", data.join("0.csv")).unwrap();
    symlink("inner", data.join("0")).unwrap();
    fs::hard_link(data.join("a.csv"), data.join("z.csv")).unwrap();
    let (same, notes) = fit(&data, &[]);
    assert_eq!(same, plain);
    assert!(notes.contains(&"read 2 files, 40 rows".to_string()), "{notes:?}");
    // what lies outside is read, once
    fs::write(elsewhere.join("c.csv"), rows(40, 10)).unwrap();
    symlink(&elsewhere, data.join("one")).unwrap();
    symlink(&elsewhere, data.join("two")).unwrap();
    symlink(elsewhere.join("c.csv"), data.join("three.csv")).unwrap();
    symlink(&data, elsewhere.join("back")).unwrap();
    let (more, notes) = fit(&data, &[]);
    assert_eq!(more["rows"], 50);
    assert!(notes.contains(&"read 3 files, 50 rows".to_string()), "{notes:?}");
    let (_, notes) = fit(&data, &["--where", "x > 0"]);
    assert!(notes.iter().any(|n| n.starts_with("read 3 files; ") && n.ends_with("satisfy the condition")));
    // the table says so too, as do predictions and many fits; a single file needs no such note
    let out = dir.join("fit");
    let words = ["fit", "logistic", text(&data), "--response", "y", "--features", "x", "--out", text(&out)];
    expect(&certus(&words), 0, "read 3 files, 50 rows");
    let to = dir.join("p.csv");
    expect(
        &certus(&["predict", text(&out), text(&data), "--to", text(&to)]),
        0,
        "rows: 50 (read 3 files, 50 rows)",
    );
    let fits = dir.join("fits");
    let many = ["fit-many", "logistic", text(&data), "--response", "y", "--features", "x", "--by", "city"];
    expect(&certus(&[&many[..], &["--out", text(&fits)]].concat()), 0, "read 3 files, 50 rows");
    let (_, notes) = fit(&data.join("a.csv"), &[]);
    assert!(!notes.iter().any(|n| n.starts_with("read ")), "{notes:?}");
    fs::remove_dir_all(&dir).unwrap();
}

/// The first line tells the separator, outside quotes; `.` is missing; a header alone is no data.
#[test]
fn files_as_other_programs_write_them() {
    let dir = scratch("separators");
    let rows = |separator: &str, end: &str| {
        let head = ["\"y, or not\"", "x", "note"].join(separator);
        let lines = (0..12).map(|i| [(i % 5 / 2).to_string(), format!("{i}.5"), "a".into()].join(separator));
        format!("{head}\n{}\n{end}", lines.collect::<Vec<_>>().join("\n"))
    };
    let mut wanted = None;
    for (name, separator) in
        [("a.csv", ","), ("b.csv", ";"), ("c.txt", "\t"), ("d.txt", ";"), ("e.tsv", "\t")]
    {
        let (path, end) = (dir.join(name), [".", "3", "b"].join(separator));
        std::fs::write(&path, rows(separator, &format!("{end}\n"))).unwrap();
        let arguments = [
            "fit",
            "linear",
            path.to_str().unwrap(),
            "`y, or not` ~ x",
            "--missing",
            "drop",
            "--json",
            "--quiet",
        ];
        let output = certus(&arguments);
        expect(&output, 0, "");
        let fit: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(fit["data"]["rows"], 12, "{name}");
        let parameters = fit["parameters"].to_string();
        assert_eq!(wanted.get_or_insert_with(|| parameters.clone()), &parameters, "{name}");
    }
    let empty = dir.join("empty.csv");
    std::fs::write(&empty, "y,x\n").unwrap();
    let output = certus(&["fit", "linear", empty.to_str().unwrap(), "y ~ x"]);
    expect(&output, 65, "empty.csv has a header and no rows");
}
