//! Files that are cut, changed or made to deceive: data (finding F4), fits, checkpoints, links (finding F1).

use std::fs;
use std::path::Path;
use std::process::Stdio;

use super::table::{Ended, Left, Row, certus, ended};

const ARROW: &[u8] = include_bytes!("data/rows.arrow");
const DICTIONARY: &[u8] = include_bytes!("data/dictionary.arrow");
const PARQUET: &[u8] = include_bytes!("data/rows.parquet");

/// A generator of Knuth's, by its upper bits.
struct Noise(u64);

impl Noise {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }
}

/// Fits of changed files: each ends with 0 (the change is in what is not read, or in a cell), or as bad data with the
/// file named, in seconds. None panics, none is killed.
fn changed(
    name: &'static str,
    change: impl Fn(usize) -> Vec<u8> + Send + Sync + 'static,
    all: usize,
) -> impl Fn(&Path) -> Ended {
    move |place| {
        let (mut said, mut refused) = (String::new(), 0);
        for k in 0..all {
            fs::write(place.join(name), change(k)).unwrap();
            let fit = [
                "fit",
                "logistic",
                name,
                "--response",
                "y",
                "--features",
                "x,g",
                "--quiet",
                // what is tried here is the reader
                "--posterior",
                "gaussian",
                "--max-time",
                "1s",
            ];
            let clock = std::time::Instant::now();
            let found = ended(&certus(place, &fit.map(String::from)).output().unwrap());
            let fine = match found.how.as_str() {
                "0" | "10" | "12" => true,
                "65" => found.said.contains(name) || found.said.contains("column"),
                _ => false,
            };
            refused += usize::from(found.how == "65");
            if !fine || clock.elapsed().as_secs() > 10 || found.said.contains("panicked at") {
                said.push_str(&format!("change {k}, {:?}: {} {}\n", clock.elapsed(), found.how, found.said));
            }
        }
        let how = if said.is_empty() {
            format!("{} refused", if refused > 0 { "some" } else { "none" })
        } else {
            "wrong".into()
        };
        Ended { how, said }
    }
}

/// A fit in `out` with a file that is changed; every command says so and changes nothing else.
fn of_fit(
    what: &str,
    change: impl Fn(&Path) + Send + Sync + 'static,
    commands: &'static [&'static [&'static str]],
    code: &str,
    words: &str,
) -> Row {
    let (code, all) = (code.to_string(), code.to_string());
    Row::new(what, all, words, move |place| {
        change(&place.join("out"));
        let mut last = Ended { how: String::new(), said: String::new() };
        for command in commands {
            let words: Vec<String> = command.iter().map(ToString::to_string).collect();
            last = ended(&certus(place, &words).output().unwrap());
            if last.how != code {
                last.said = format!("{command:?}: {}", last.said);
                return last;
            }
        }
        last
    })
    .fitted()
}

const READERS: &[&[&str]] = &[
    &["verify", "out"],
    &["sample", "out", "--draws", "5", "--to", "s.csv"],
    &["predict", "out", "d.csv"],
    &["report", "out"],
    &["compare", "out", "out"],
    &["effects", "out", "--slope", "x"],
    &["resume", "out"],
];

fn flip(path: &Path, place: usize) {
    let mut bytes = fs::read(path).unwrap();
    let k = place % bytes.len();
    bytes[k] ^= 1 << (place % 8);
    fs::write(path, bytes).unwrap();
}

fn cut(path: &Path, part: f64) {
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..(bytes.len() as f64 * part) as usize]).unwrap();
}

/// A run in `out` that was interrupted, with both checkpoints; then a change, then `resume`.
fn of_checkpoint(what: &str, change: impl Fn(&Path) + Send + Sync + 'static, code: i32, words: &str) -> Row {
    Row::new(what, code.to_string(), words, move |place| {
        let fit = [
            "fit",
            "logistic",
            "d.csv",
            "--response",
            "y",
            "--features",
            "x,z",
            "--method",
            "prox-energy",
            "--iterations",
            "100000000",
            "--checkpoint-every",
            "1ms",
            "--gap",
            "1e-7",
            "--max-time",
            "4s",
            "--out",
            "out",
            "--quiet",
        ];
        let mut run = certus(place, &fit.map(String::from));
        let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let there = |name: &str| place.join("out/.run").join(name).exists();
        while !(there("checkpoint.0") && there("checkpoint.1")) {
            assert!(run.try_wait().unwrap().is_none(), "it ended before there were checkpoints");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let stopped = std::process::Command::new("kill").arg(run.id().to_string()).status().unwrap();
        assert!(stopped.success() && run.wait().unwrap().code() == Some(143));
        change(place);
        let resume = ["resume", "out", "--quiet"].map(String::from);
        // all iterations take longer: the limit of time is among the settings
        ended(&certus(place, &resume).output().unwrap())
    })
}

#[allow(clippy::too_many_lines)]
pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, bytes) in [("rows.arrow", ARROW), ("dictionary.arrow", DICTIONARY), ("rows.parquet", PARQUET)]
    {
        rows.push(Row::new(
            &format!("{name} as it is"),
            "none refused",
            "",
            changed(name, |_| bytes.to_vec(), 1),
        ));
        for part in 0..4 {
            let all = 6;
            let length = move |k: usize| bytes.len() * (part * all + k) / (4 * all);
            let row = changed(name, move |k| bytes[..length(k)].to_vec(), all);
            rows.push(Row::new(&format!("{name} cut in quarter {part} (F4)"), "some refused", "", row));
        }
        for seed in 0..5_u64 {
            let row = changed(
                name,
                move |k| {
                    let mut noise = Noise(1000 * seed + k as u64);
                    let mut other = bytes.to_vec();
                    for _ in 0..=k % 3 {
                        let at = noise.below(other.len());
                        other[at] ^= 1 << noise.below(8);
                    }
                    other
                },
                8,
            );
            rows.push(Row::new(
                &format!("{name} with flipped bits, seed {seed} (F4)"),
                "some refused",
                "",
                row,
            ));
        }
        // lengths and offsets are 32 or 64 bits: every aligned word of the footer as large as it can be
        let row = changed(
            name,
            move |k| {
                let mut other = bytes.to_vec();
                let at = (other.len() - 8 * (k + 2)) / 8 * 8;
                other[at..at + 4].copy_from_slice(&0x7fff_fff0_u32.to_le_bytes());
                other
            },
            12,
        );
        rows.push(Row::new(&format!("{name} with huge lengths in its footer (F4)"), "some refused", "", row));
    }
    let rubbish = |what: &str, name: &'static str, bytes: Vec<u8>| {
        Row::new(what, "some refused", "", changed(name, move |_| bytes.clone(), 1))
    };
    rows.extend([
        rubbish("an Arrow file of text", "a.arrow", b"y,x,g\n1,2,3\n".to_vec()),
        rubbish("a Parquet file of zeros", "a.parquet", vec![0; 5000]),
        rubbish("a Parquet file of two magic words", "a.parquet", b"PAR1\xff\xff\xff\x7fPAR1".to_vec()),
        rubbish("a gzip file that is none", "a.csv.gz", b"y,x,g\n1,2,3\n".to_vec()),
        Row::shell(
            "a gzip file cut short",
            "gzip d.csv; head -c 200 d.csv.gz > e.csv.gz; certus fit logistic \
            e.csv.gz --response y --features x",
            65,
            "e.csv.gz",
        ),
        Row::shell(
            "a file that changes while it is read",
            "certus fit logistic d.csv --response y --features x \
            --out out --quiet && sed -i 's/^1,/0,/' d.csv && certus verify out",
            14,
            "fingerprints differ",
        ),
        Row::shell(
            "two files of different columns",
            "mkdir p; cp d.csv p/a.csv; sed 's/^y,x/y,w/' d.csv > p/b.csv; \
            certus fit logistic p --response y --features x",
            65,
            "b.csv",
        ),
        Row::shell(
            "files of two formats",
            "mkdir p; cp d.csv p/a.csv; cp d.csv p/b.parquet; certus fit logistic p \
            --response y --features x",
            64,
            "different formats",
        ),
        // finding F1
        Row::shell(
            "a link from a directory to itself (F1)",
            "mkdir p; cp d.csv p/; ln -s . p/self; certus fit \
            logistic p --response y --features x",
            0,
            "read 1 file, 60 rows",
        ),
        Row::shell(
            "links to files that are there (F1)",
            "mkdir p; cp d.csv p/; ln -s d.csv p/a.csv; ln p/d.csv \
            p/e.csv; certus fit logistic p --response y --features x",
            0,
            "read 1 file, 60 rows",
        ),
        Row::shell(
            "two directories that link to each other (F1)",
            "mkdir -p p/a p/b; cp d.csv p/a; ln -s ../b \
            p/a/b; ln -s ../a p/b/a; certus fit logistic p --response y --features x",
            0,
            "read 1 file, 60 rows",
        ),
        Row::shell(
            "a link that leads nowhere (F1)",
            "mkdir p; cp d.csv p/; ln -s nowhere.csv p/a.csv; certus fit \
            logistic p --response y --features x",
            74,
            "a.csv",
        ),
        Row::shell(
            "a link to itself",
            "ln -s a.csv a.csv; certus fit logistic a.csv --response y --features \
            x",
            74,
            "a.csv",
        ),
        Row::shell(
            "a name of 5,000 letters",
            "certus fit logistic $(printf 'a%.0s' {1..5000}).csv --response \
            y",
            74,
            "can't be opened",
        ),
    ]);
    for (what, file) in [
        ("the record", "fit.json"),
        ("the arrays", "arrays.safetensors"),
        ("the coefficients", "meaning.json"),
        ("the settings", "settings.json"),
    ] {
        for place in [3, 77, 1234] {
            let change = move |out: &Path| flip(&out.join(file), place);
            rows.push(of_fit(
                &format!("{what} with byte {place} flipped"),
                change,
                READERS,
                "65",
                "has changed|SHA-256",
            ));
        }
        rows.push(of_fit(
            &format!("{what} cut in half"),
            move |out| cut(&out.join(file), 0.5),
            READERS,
            "65",
            "bytes",
        ));
        rows.push(of_fit(
            &format!("{what} removed"),
            move |out| fs::remove_file(out.join(file)).unwrap(),
            READERS,
            "65",
            file,
        ));
        rows.push(of_fit(
            &format!("{what} as a device that never ends"),
            move |out| {
                fs::remove_file(out.join(file)).unwrap();
                std::os::unix::fs::symlink("/dev/zero", out.join(file)).unwrap();
            },
            READERS,
            "65",
            "not a regular file",
        ));
    }
    rows.push(of_fit(
        "the manifest cut in half",
        |out| cut(&out.join("manifest.json"), 0.5),
        READERS,
        "65",
        "manifest.json",
    ));
    rows.push(of_fit(
        "the manifest removed",
        |out| fs::remove_file(out.join("manifest.json")).unwrap(),
        READERS,
        "65",
        "manifest.json",
    ));
    rows.push(of_fit(
        "a file in the place of a fit",
        |out| {
            fs::remove_dir_all(out).unwrap();
            fs::write(out, "x").unwrap();
        },
        READERS,
        "65",
        "a fit is a directory",
    ));
    rows.push(of_fit("no fit at all", |out| fs::remove_dir_all(out).unwrap(), READERS, "66", "out"));
    rows.push(of_fit(
        "an empty directory in the place of a fit",
        |out| {
            fs::remove_dir_all(out).unwrap();
            fs::create_dir(out).unwrap();
        },
        READERS,
        "66",
        "out",
    ));
    let both = |change: fn(&Path)| {
        move |place: &Path| {
            ["checkpoint.0", "checkpoint.1"]
                .iter()
                .for_each(|name| change(&place.join("out/.run").join(name)))
        }
    };
    rows.extend([
        of_checkpoint("checkpoints as they are", |_| (), 10, ""),
        of_checkpoint("one checkpoint cut", |place| cut(&place.join("out/.run/checkpoint.0"), 0.7), 10, ""),
        of_checkpoint(
            "one checkpoint empty",
            |place| fs::write(place.join("out/.run/checkpoint.1"), "").unwrap(),
            10,
            "",
        ),
        of_checkpoint("both checkpoints cut to nothing", both(|path| cut(path, 0.0)), 65, "damaged"),
        of_checkpoint("both checkpoints cut in the header", both(|path| cut(path, 0.05)), 65, "damaged"),
        of_checkpoint("both checkpoints cut in the state", both(|path| cut(path, 0.9)), 65, "damaged"),
        of_checkpoint(
            "both checkpoints with a flipped bit in the magic word",
            both(|path| flip(path, 5)),
            65,
            "damaged",
        ),
        of_checkpoint("both checkpoints of another version", both(|path| flip(path, 17)), 65, "damaged"),
        of_checkpoint(
            "both checkpoints with a flipped bit in the fingerprint",
            both(|path| flip(path, 50)),
            65,
            "damaged",
        ),
        of_checkpoint(
            "both checkpoints with a flipped bit in the check sum",
            both(|path| flip(path, 90)),
            65,
            "damaged",
        ),
        of_checkpoint(
            "both checkpoints with a flipped bit in the state",
            both(|path| flip(path, 333)),
            65,
            "damaged",
        ),
        of_checkpoint("no checkpoint any more", both(|path| fs::remove_file(path).unwrap()), 10, ""),
        of_checkpoint(
            "a checkpoint of other data",
            |place| {
                let text = fs::read_to_string(place.join("d.csv")).unwrap();
                fs::write(place.join("d.csv"), text.replacen("\n0,", "\n1,", 1)).unwrap();
            },
            65,
            "belongs to another fit",
        ),
        of_checkpoint(
            "a checkpoint that is a directory",
            both(|path| {
                fs::remove_file(path).unwrap();
                fs::create_dir(path).unwrap();
            }),
            10,
            "what it does now is not saved",
        ),
    ]);
    rows.push(
        Row::shell(
            "every 9th length of a checkpoint",
            "env --default-signal \"$CERTUS\" fit logistic d.csv --response y --features x,z \
        --method prox-energy --iterations 100000000 --gap 1e-7 --checkpoint-every 1ms --max-time 4s --out out --quiet \
        2>/dev/null & pid=$!
        for t in {1..1000}; do [[ -e out/.run/checkpoint.0 && -e out/.run/checkpoint.1 ]] && break; sleep 0.01; done
        kill $pid; wait $pid
        cp out/.run/checkpoint.0 whole; size=$(stat -c %s whole); rm out/.run/checkpoint.1
        for ((n = 0; n < size; n += 1 + size / 9)); do
         head -c $n whole > out/.run/checkpoint.0
         certus resume out --quiet 2> said
         code=$?; cat said
         [[ $code == 65 ]] || exit $code; done; exit 65",
            65,
            "damaged",
        )
        .leaves(Left::Any),
    );
    rows
}
