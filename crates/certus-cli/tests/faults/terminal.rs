//! What names and values of data can do to a terminal, a page or a spreadsheet: nothing (finding F8).

use super::table::{Ended, Row, certus, ended, usual};

/// A column, a level and a file name with commands for terminals: a title, colours, text turned around.
const EVIL: &str = "x\u{1b}]0;owned\u{7}\u{1b}[31m\u{202e}evil\u{2066}\u{9b}2J\u{7f}";

fn raw(text: &str) -> Option<char> {
    text.chars().find(|c| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    })
}

/// The command, which must show the name and no character that a terminal obeys.
fn shows(what: &str, commands: &'static [&'static [&'static str]], code: &str, words: &str) -> Row {
    let owned = code.to_string();
    let csv = usual().replace("x,", &format!("\"{EVIL}\",")).replace(",g0", &format!(",\"g{EVIL}\""));
    Row::new(what, code, words, move |place| {
        let mut all = Ended { how: String::new(), said: String::new() };
        for command in commands {
            let command: Vec<String> = command.iter().map(|word| word.replace("EVIL", EVIL)).collect();
            let found = ended(&certus(place, &command).output().unwrap());
            all = Ended { how: found.how, said: all.said + &found.said };
        }
        if let Some(c) = raw(&all.said) {
            return Ended { how: format!("{owned}, with {c:?} raw"), said: all.said };
        }
        all
    })
    .file("e.csv", csv)
}

pub fn rows() -> Vec<Row> {
    const JSON: &[&str] =
        &["fit", "logistic", "e.csv", "--response", "y", "--features", "EVIL,z,g", "--json"];
    const ABSENT: &[&str] = &["fit", "logistic", "e.csv", "--response", "y", "--features", "EVILx"];
    const MANY: &[&str] = &[
        "fit-many",
        "logistic",
        "e.csv",
        "--response",
        "y",
        "--features",
        "z",
        "--by",
        "g",
        "--out",
        "many",
    ];
    const PRINT: &[&str] = &["fit", "logistic", "e.csv", "--response", "EVIL", "--print-config"];
    const FIT: &[&str] =
        &["fit", "logistic", "e.csv", "--response", "y", "--features", "EVIL,z,g", "--out", "out"];
    const QUIET: &[&str] =
        &["fit", "logistic", "e.csv", "--response", "y", "--features", "EVIL,z,g", "--out", "out", "--quiet"];
    vec![
        shows("a table of a fit (F8)", &[FIT], "0", "x\\u{1b}]0;owned"),
        shows("JSON of a fit (F8)", &[JSON], "0", "\\u202e"),
        shows("a column that is not there (F8)", &[ABSENT], "65", "owned"),
        shows(
            "a response that is named so (F8)",
            &[&["fit", "linear", "e.csv", "--response", "EVIL"]],
            "0",
            "reached",
        ),
        shows("an argument that is unknown (F8)", &[&["fit", "--EVIL"]], "64", "evil"),
        shows("a command that is unknown (F8)", &[&["EVIL"]], "64", "evil"),
        shows(
            "a file that is not there (F8)",
            &[&["fit", "logistic", "EVIL.csv", "--response", "y"]],
            "66",
            "owned",
        ),
        shows(
            "a query that is none (F8)",
            &[&[
                "fit",
                "logistic",
                "e.csv",
                "--response",
                "y",
                "--sql",
                "select EVIL \
            from",
            ]],
            "64",
            "",
        ),
        shows(
            "a plan (F8)",
            &[&["plan", "logistic", "e.csv", "--response", "y", "--features", "EVIL,z"]],
            "0",
            "evil",
        ),
        shows("effects (F8)", &[QUIET, &["effects", "out", "--slope", "EVIL"]], "0", "evil"),
        shows("a comparison (F8)", &[QUIET, &["compare", "out", "out"]], "0", "evil"),
        shows("a check (F8)", &[QUIET, &["verify", "out"]], "0", "confirmed"),
        shows("a check of predictions (F8)", &[QUIET, &["ppc", "out"]], "0", ""),
        shows("leave-one-out (F8)", &[QUIET, &["loo", "out"]], "0", ""),
        shows("many fits by such a key (F8)", &[MANY], "0", ""),
        shows("settings that are printed (F8)", &[PRINT], "0", "owned"),
        Row::shell(
            "a report has no such characters (F8)",
            r#"certus fit logistic e.csv --response y --out out --quiet && certus report out
            page=out/report.html
            ! grep -P '[\x00-\x08\x0b-\x1f\x7f]|\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]' $page &&
            ! grep -F '<script' $page"#,
            0,
            "",
        )
        .file("e.csv", usual().replace("x,", &format!("\"{EVIL}<script>\","))),
        Row::shell(
            "a name with a line end is one line of a table",
            "certus fit logistic e.csv --response y --out \
            out | grep -c '^reached  forged'; exit 0",
            0,
            "0",
        )
        .file("e.csv", usual().replace("x,", "\"x\nreached  forged\",")),
    ]
}
