//! Predictions for files as they come: identifiers, quantiles that are asked for, missing cells, raw files.
#![allow(clippy::unwrap_used)]
#![cfg(feature = "scan")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use certus_data::{Column, FileSource, Table};

use crate::common::{certus, expect, scratch};

/// The path of a file with this text.
fn file(dir: &Path, name: &str, text: &str) -> String {
    fs::write(dir.join(name), text).unwrap();
    dir.join(name).to_str().unwrap().to_string()
}

fn rows() -> String {
    let row =
        |i: usize| format!("{},{},{}\n", 1.0 + 0.25 * ((i * 7) % 11) as f64, (i * 5) % 9, ["a", "b"][i % 2]);
    format!("y,x,g\n{}", (0..24).map(row).collect::<String>())
}

/// A directory with a fit of these rows.
#[track_caller]
fn fitted(name: &str, more: &[&str]) -> (PathBuf, String) {
    let dir = scratch(name);
    let (data, out) = (file(&dir, "data.csv", &rows()), dir.join("fit").to_str().unwrap().to_string());
    expect(
        &certus(&[&["fit", "linear", &data, "--quiet", "--sigma", "0.5", "--out", &out], more].concat()),
        0,
        "",
    );
    (dir, out)
}

fn lines(output: &Output) -> Vec<Vec<String>> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| line.split(',').map(String::from).collect()).collect()
}

#[test]
fn rows_with_missing_cells_keep_their_place() {
    let (dir, fit) = fitted("missing", &["y ~ x + g"]);
    let new = file(&dir, "new.csv", "who,x,g\nann,1,a\nbob,NA,b\n\"carl, jr\",3,\n,4,b\n");
    let output = certus(&["predict", &fit, &new, "--id", "who", "--observations"]);
    expect(
        &output,
        0,
        "2 of 4 rows have missing values and no prediction, their cells are empty: the first is row 2 of",
    );
    expect(&output, 0, "column 'x'");
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let all: Vec<&str> = text.lines().collect();
    assert_eq!(all[0], "who,mean,sd,q05,q50,q95,linear_mean,linear_sd,y05,y95");
    assert_eq!((all[2], all[3]), ("bob,,,,,,,,,", "\"carl, jr\",,,,,,,,,"));
    // the other rows are those of a file without gaps
    let whole = file(&dir, "whole.csv", "x,g\n1,a\n4,b\n");
    let alone = certus(&["predict", &fit, &whole]);
    expect(&alone, 0, "");
    let (own, alone) = (lines(&output), lines(&alone));
    assert_eq!((&own[1][1..8], &own[4][1..8]), (&alone[1][..], &alone[2][..]));
    assert!(own[4][0].is_empty());
    // in Parquet they are null
    let to = dir.join("p.parquet");
    expect(&certus(&["predict", &fit, &new, "--id", "who", "--to", to.to_str().unwrap()]), 0, "rows: 4");
    let table = Table::complete(&FileSource::try_from(&*to).unwrap(), &["who", "mean"]).unwrap();
    assert_eq!(table.column("who"), Some(&Column::Text(vec![Some("ann".into())])));
}

#[test]
fn identifiers_are_copied_and_checked() {
    let (dir, fit) = fitted("ids", &["y ~ x"]);
    let new = file(&dir, "new.csv", "x,who,nr,mean\n1,ann,17,1\n2,bob,4,2\n");
    let two = lines(&certus(&["predict", &fit, &new, "--id", "nr", "--id", "who"]));
    assert_eq!(two[0][..3], ["nr", "who", "mean"].map(String::from));
    assert_eq!(
        (&two[1][..2], &two[2][..2]),
        (&["17", "ann"].map(String::from)[..], &["4", "bob"].map(String::from)[..])
    );
    expect(&certus(&["predict", &fit, &new, "--id", "name"]), 65, "'name'");
    for ids in [["--id", "mean", "--id", "nr"], ["--id", "nr", "--id", "nr"]] {
        let words = format!("two columns '{}'", ids[1]);
        expect(&certus(&[&["predict", &fit, &new], &ids[..]].concat()), 64, &words);
    }
}

/// t is normal: its quantile at p is mean + z sd.
#[test]
fn quantiles_are_those_asked_for() {
    let (dir, fit) = fitted("quantiles", &["y ~ x", "--posterior", "gaussian"]);
    let new = file(&dir, "new.csv", "x\n1\n2\n");
    let output = certus(&["predict", &fit, &new, "--quantiles", "0.1,0.025,0.9", "--observations"]);
    let all = lines(&output);
    assert_eq!(all[0].join(" "), "mean sd q10 q02.5 q90 linear_mean linear_sd y10 y02.5 y90");
    for row in &all[1..] {
        let x: Vec<f64> = row.iter().map(|cell| cell.parse().unwrap()).collect();
        for (k, z) in [(2, -1.281_551_565_544_6), (3, -1.959_963_984_540_05), (4, 1.281_551_565_544_6)] {
            assert!((x[k] - (x[5] + z * x[6])).abs() < 1e-9, "{x:?}");
            // the standard error of a quantile at 2.5 % of 4,000 observations is 0.042 sds
            let observed = x[5] + z * x[6].hypot(0.5);
            assert!((x[k + 5] - observed).abs() < 4.5 * 0.042 * x[6].hypot(0.5), "{x:?}");
        }
    }
    for (levels, words) in
        [("0,0.5", "--quantiles has '0'"), ("0.5,0.5", "given twice"), ("95", "between 0 and 1")]
    {
        expect(&certus(&["predict", &fit, &new, "--quantiles", levels]), 64, words);
    }
}

#[test]
fn the_query_of_a_fit_reads_raw_files() {
    let query = "select y, ln(x + 1) as far, g from data where y > 0 or y is null";
    let (dir, fit) = fitted("query", &["--sql", query, "y ~ far + g"]);
    let new = file(&dir, "new.csv", "x,g\n1,a\n8,b\n");
    let output = certus(&["predict", &fit, &new]);
    expect(&output, 0, "is read by the query of the fit (--sql), which computes 'far'");
    let computed = file(&dir, "computed.csv", &format!("far,g\n{:?},a\n{:?},b\n", 2_f64.ln(), 9_f64.ln()));
    let other = certus(&["predict", &fit, &computed]);
    assert!(other.stderr.is_empty(), "{other:?}");
    let number = |cell: &String| cell.parse::<f64>().unwrap();
    for (own, other) in lines(&output).iter().zip(lines(&other)).skip(1) {
        let pairs = own.iter().map(number).zip(other.iter().map(number));
        pairs.for_each(|(a, b)| assert!((a - b).abs() < 1e-12, "{a} {b}"));
    }
    let wrong = file(&dir, "wrong.csv", "g\na\n");
    expect(&certus(&["predict", &fit, &wrong]), 65, "'x'");
}

#[test]
fn settings_of_the_fit_read_new_files() {
    let dir = scratch("na");
    let data = file(&dir, "data.csv", &format!("{}?,3,a\n2,-9,b\n", rows()));
    let out = dir.join("fit").to_str().unwrap().to_string();
    let fit = ["fit", "linear", &data, "y ~ x", "--sigma", "1", "--na", "?", "--na", "-9", "--out", &out];
    expect(&certus(&fit), 65, "missing");
    expect(&certus(&[&fit[..], &["--missing", "drop"]].concat()), 0, "2 of 26 rows are left out");
    let new = file(&dir, "new.csv", "x\n-9\n2\n");
    expect(
        &certus(&["predict", &out, &new]),
        0,
        "1 of 2 rows has missing values and no prediction, its cells are",
    );
    expect(&certus(&["verify", &out]), 0, "");
}

#[test]
fn files_as_they_come_are_fitted() {
    let dir = scratch("as-they-come");
    let row = |i: usize| format!("{};{},5;{},25\n", i + 1, (i * 7) % 11, (i * 5) % 9);
    let text = format!("nr;y;x\n{}", (0..24).map(row).collect::<String>());
    let data = file(&dir, "european.csv", &text);
    let output = certus(&["fit", "linear", &data, "--response", "y", "--sigma", "1"]);
    expect(&output, 0, "'y', 'x' have decimal commas: '0,5' in row 1 of european.csv is read as 0.5");
    expect(&output, 0, "'nr' is ignored: it counts the rows; name it as a feature to use it");
    let output = certus(&["fit", "linear", &data, "--response", "y", "--features", "nr,x", "--sigma", "1"]);
    assert!(!String::from_utf8_lossy(&output.stdout).contains("counts the rows"), "{output:?}");
}
