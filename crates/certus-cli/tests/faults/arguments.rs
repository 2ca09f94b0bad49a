//! Arguments and settings that make no sense or ask for more than there is (finding F9).

use super::table::{Left, Row};

const FIT: [&str; 7] = ["fit", "logistic", "d.csv", "--response", "y", "--features", "x,z"];

fn with(what: &str, more: &[&str], code: i32, words: &str) -> Row {
    let out = ["--out", "out"];
    Row::run(what, &[&FIT[..], more, &out].concat(), code, words).leaves(Left::Nothing)
}

pub fn rows() -> Vec<Row> {
    let most = "18446744073709551615";
    let mut rows = vec![
        Row::run("no command", &[], 64, "Usage"),
        Row::run("an unknown command", &["fitt"], 64, "fit"),
        Row::run("an unknown model", &["fit", "logit", "d.csv", "--response", "y"], 64, "logistic"),
        Row::run("no data", &["fit", "logistic", "--response", "y"], 64, "data"),
        Row::run("no response", &["fit", "logistic", "d.csv"], 64, "response"),
        Row::run("no such file", &["fit", "logistic", "nowhere.csv", "y ~ x"], 66, "nowhere.csv"),
        Row::run("a file of no known format", &["fit", "logistic", "d.xlsx", "y ~ x"], 64, "unknown format")
            .file("d.xlsx", "PK"),
        Row::run("an empty directory of data", &["fit", "logistic", "empty", "y ~ x"], 66, "empty")
            .file("empty/readme", "nothing"),
        Row::run("a formula cut short", &["fit", "logistic", "d.csv", "y ~ x +"], 64, "y ~ x +"),
        Row::run(
            "a formula of 10,000 brackets",
            &["fit", "logistic", "d.csv", &format!("y ~ {}", "(".repeat(10_000))],
            64,
            "",
        ),
        with("an unknown flag", &["--gapp", "1"], 64, "--gap"),
        with("a flag without a value", &["--gap"], 64, ""),
        with("sql that is none", &["--sql", "select from where"], 64, "not understood"),
        with("sql that writes", &["--sql", "copy data to 'stolen.csv'"], 64, ""),
        with("sql that reads another file", &["--sql", "select * from '/etc/passwd'"], 64, ""),
        with("a condition on no column", &["--where", "nothing > 1"], 65, "nothing"),
        with("a condition and a query", &["--where", "x > 0", "--sql", "select * from data"], 64, "--where"),
        with(
            "a path that does not end",
            &["--sql", &format!("select {} from data", "(".repeat(3000))],
            64,
            "",
        ),
    ];
    for (flag, value, words) in [
        ("--gap", "0", "gap is 0"),
        ("--gap", "-1", ""),
        ("--gap", "NaN", "gap is NaN"),
        ("--gap", "inf", "gap is inf"),
        ("--gap", "wide", "wide"),
        ("--delta", "0", "delta is 0"),
        ("--delta", "1", "delta is 1"),
        ("--delta", "NaN", "delta is NaN"),
        ("--accuracy", "0", "accuracy is 0"),
        ("--accuracy", "NaN", "accuracy is NaN"),
        ("--max-time", "soon", "not a duration"),
        ("--max-time", "1e400s", "not a duration"),
        ("--max-time=-1s", "", "not a duration"),
        ("--checkpoint-every", "NaNs", "not a duration"),
        ("--threads", "0", "threads is 0"),
        ("--threads", "100000", "threads is 100000"),
        ("--threads", most, "at most 1024 threads"),
        ("--seed", "-1", ""),
        ("--prior-sd", "0", "0"),
        ("--prior-sd", "NaN", "NaN"),
        ("--prior-sd=-1", "", "-1"),
        ("--level", "certain", "proved"),
        ("--method", "magic", "exact"),
        ("--posterior", "prior", "auto"),
        ("--group-sd", "0", ""),
        ("--sigma", "1", ""),
    ] {
        let more = if value.is_empty() { vec![flag] } else { vec![flag, value] };
        rows.push(with(&format!("{flag} {value}"), &more, 64, words));
    }
    for (what, more, words) in [
        ("--batch 2^64 − 1", ["--method", "prox-energy", "--batch", most], "at most 1048576"),
        ("--batch 0", ["--method", "prox-energy", "--batch", "0"], "batch is 0"),
        ("--row-batch 2^64 − 1", ["--method", "subsampled", "--row-batch", most], "at most 2147483648"),
        ("--row-batch 0", ["--method", "subsampled", "--row-batch", "0"], "row-batch is 0"),
        ("pairs of draws 2^64 − 1", ["--method", "subsampled", "--batch", most], "at most 1048576"),
        ("--iterations 0", ["--method", "prox-energy", "--iterations", "0"], "iterations is 0"),
        ("a number that its method does not have", ["--method", "exact", "--iterations", "5"], "iterations"),
    ] {
        rows.push(with(what, &more, 64, words));
    }
    let endless = [
        "--method",
        "prox-energy",
        "--iterations",
        most,
        "--gap",
        "1e-9",
        "--max-time",
        "1s",
        "--out",
        "out",
    ];
    rows.push(
        Row::run("--iterations 2^64 − 1", &[&FIT[..], &endless].concat(), 10, "")
            .leaves(Left::Result("limit")),
    );
    // finding F9
    for draws in [most, "1000000000000"] {
        let sample = ["sample", "out", "--draws", draws, "--to", "draws.csv"];
        rows.push(
            Row::run(&format!("{draws} draws"), &sample, 64, "at most 2147483648 numbers")
                .fitted()
                .leaves(Left::Same),
        );
    }
    rows.extend([
        Row::run(
            "a prediction at a quantile of 2",
            &["predict", "out", "d.csv", "--quantiles", "2"],
            64,
            "2",
        )
        .fitted(),
        Row::run("an interval of 1.5", &["effects", "out", "--slope", "x", "--interval", "1.5"], 64, "1.5")
            .fitted(),
        Row::run(
            "an interval that is no number",
            &["effects", "out", "--slope", "x", "--interval", "NaN"],
            64,
            "NaN",
        )
        .fitted(),
        Row::run("a call of number 0", &["effects", "out", "--slope", "x", "--call", "0"], 64, "").fitted(),
        Row::run("an effect of no column", &["effects", "out", "--slope", "nothing"], 64, "nothing").fitted(),
        Row::run(
            "chunks of 0 groups",
            &[
                "fit-many",
                "logistic",
                "d.csv",
                "--response",
                "y",
                "--features",
                "x",
                "--by",
                "g",
                "--chunk",
                "0",
                "--out",
                "out",
            ],
            64,
            "--chunk is 0",
        )
        .leaves(Left::Nothing),
        Row::run(
            "a part beyond the last",
            &[
                "fit-many",
                "logistic",
                "d.csv",
                "--response",
                "y",
                "--features",
                "x",
                "--by",
                "g",
                "--part",
                "3/2",
                "--out",
                "out",
            ],
            64,
            "3/2",
        )
        .leaves(Left::Nothing),
        Row::run(
            "a part of none",
            &[
                "fit-many",
                "logistic",
                "d.csv",
                "--response",
                "y",
                "--features",
                "x",
                "--by",
                "g",
                "--part",
                "0/0",
                "--out",
                "out",
            ],
            64,
            "0/0",
        )
        .leaves(Left::Nothing),
        Row::run(
            "settings from a device that never ends (F9)",
            &["fit", "--config", "/dev/zero"],
            78,
            "longer than 1 MiB",
        ),
        Row::run("settings from nothing", &["fit", "--config", "/dev/null"], 64, "model is not given"),
        Row::run("settings that are not there", &["fit", "--config", "no.toml"], 66, "no.toml"),
        Row::run("settings in a directory", &["fit", "--config", "."], 66, "cannot read"),
        Row::run(
            "settings that are not UTF-8 (F10)",
            &["fit", "--config", "a.toml"],
            78,
            "not UTF-8 from byte 9",
        )
        .file("a.toml", b"model = \"\xff\"".to_vec()),
        Row::run("an unknown setting", &["fit", "--config", "a.toml"], 78, "did you mean 'response'?")
            .file("a.toml", "respons = 1"),
        Row::run("a setting of the wrong type", &["fit", "--config", "a.toml"], 78, "gap")
            .file("a.toml", "gap = \"wide\""),
        Row::run("settings of 10,000 brackets", &["fit", "--config", "a.toml"], 78, "a.toml")
            .file("a.toml", format!("gap = {}", "[".repeat(10_000))),
        Row::run("settings cut short", &["fit", "--config", "a.toml"], 78, "a.toml")
            .file("a.toml", "[priors"),
        Row::run("a setting of 400 digits", &["fit", "--config", "a.toml"], 78, "a.toml")
            .file("a.toml", format!("seed = {}", "9".repeat(400))),
        Row::run("a command of tests that panics", &["bug"], 70, "please report it").allow_panic(),
        Row::run("the reader of files by hand", &["__read"], 0, ""),
        Row::shell("the reader of files with rubbish", "head -c 4000 /dev/urandom | certus __read", 64, ""),
    ]);
    rows
}
