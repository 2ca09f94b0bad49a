//! Files as they come: compressed, with decimal commas, with texts of their own for missing values.
#![cfg(feature = "scan")]
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use certus_data::{Column, DataError, ErrorKind, FileOptions, FileSource, Kind, Source, Spec, prepare};
use certus_likelihood::Response;
use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use datafusion::parquet::arrow::ArrowWriter;
use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

fn gzip(text: &str) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    out.write_all(text.as_bytes()).unwrap();
    out.finish().unwrap()
}

fn file(directory: &TempDir, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = directory.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn open(path: &Path, na: &[&str], filter: Option<&str>, sql: Option<&str>) -> Result<FileSource, DataError> {
    let (filter, sql) = (filter.map(String::from), sql.map(String::from));
    let na = na.iter().map(|text| text.to_string()).collect();
    FileSource::open(
        &[path.to_path_buf()],
        FileOptions { filter, sql, na, absent: vec!["late".into()], ..FileOptions::default() },
    )
}

fn plain(path: &Path) -> FileSource {
    open(path, &[], None, None).unwrap()
}

/// The cells of a column.
fn cells(source: &FileSource, name: &str) -> Vec<String> {
    let place = source.columns().iter().position(|c| c.name == name).unwrap();
    let mut out = Vec::new();
    let visit = &mut |batch: &certus_data::Batch<'_>| {
        for i in 0..batch.rows() {
            let (column, row) = batch.cell(0, i);
            out.push(if column.is_missing(row) { "-".into() } else { Column::label(column, row) });
        }
        Ok(())
    };
    source.scan(&[place], visit).unwrap();
    out
}

fn kind(source: &FileSource, name: &str) -> Kind {
    source.columns().iter().find(|c| c.name == name).unwrap().kind.clone()
}

fn unpacked() -> usize {
    let own = format!("certus-unpacked-{}-", std::process::id());
    let names = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().starts_with(&own)).count()
}

#[test]
fn compressed_files_are_read_like_plain_ones() {
    let directory = TempDir::new().unwrap();
    let texts = [
        ("a.csv", "y,x\n1,2.5\n2,3.5\n"),
        ("b.tsv", "y\tx\n1\t2.5\n2\t3.5\n"),
        ("c.txt", "y;x\n1;2.5\n2;3.5\n"),
        ("d.CSV", "y\tx\n1\t2.5\n2\t3.5\n"),
    ];
    for (name, text) in texts {
        let packed = plain(&file(&directory, &format!("{name}.gz"), gzip(text)));
        let own = plain(&file(&directory, name, text));
        assert_eq!(packed.columns(), own.columns(), "{name}");
        assert_eq!(
            (cells(&packed, "y"), cells(&packed, "x")),
            (cells(&own, "y"), cells(&own, "x")),
            "{name}"
        );
        assert_eq!(cells(&packed, "x"), ["2.5", "3.5"]);
        assert!(unpacked() >= 1);
    }
    // several members, one after the other, as `cat a.gz b.gz` makes them
    let two = [gzip("y,x\n1,2\n"), gzip("3,4\n")].concat();
    assert_eq!(cells(&plain(&file(&directory, "two.csv.gz", two)), "x"), ["2", "4"]);
    let query =
        open(&directory.path().join("a.csv.gz"), &[], None, Some("select 2*x as z from data where y > 1"));
    assert_eq!(cells(&query.unwrap(), "z"), ["7"]);
}

#[test]
fn compressed_files_of_a_directory_keep_their_order_and_do_not_mix_with_plain_ones() {
    let directory = TempDir::new().unwrap();
    for k in 0..12 {
        file(&directory, &format!("part-{k:02}.csv.gz"), gzip(&format!("y,x\n{k},1\n")));
    }
    let all = plain(directory.path());
    assert_eq!(cells(&all, "y"), (0..12).map(|k| k.to_string()).collect::<Vec<_>>());
    assert_eq!(all.files().len(), 12);
    let query = open(directory.path(), &[], None, Some("select y from data")).unwrap();
    assert_eq!(cells(&query, "y"), (0..12).map(|k| k.to_string()).collect::<Vec<_>>());
    file(&directory, "part-00.csv", "y,x\n0,1\n");
    let error = open(directory.path(), &[], None, None).err().unwrap();
    assert!(error.to_string().contains("different formats"), "{error}");
}

#[test]
fn what_is_no_gzip_is_refused_by_name() {
    let directory = TempDir::new().unwrap();
    let whole = gzip(&"y,x\n1,2\n".repeat(500));
    for (name, bytes) in
        [("no.csv.gz", b"y,x\n1,2\n".to_vec()), ("half.csv.gz", whole[..whole.len() / 2].to_vec())]
    {
        let error = open(&file(&directory, name, bytes), &[], None, None).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Data, "{error}");
        for words in [name, "a complete gzip file", "gzip -t"] {
            assert!(error.to_string().contains(words), "{error}");
        }
    }
    let error = open(&file(&directory, "a.parquet.gz", whole), &[], None, None).err().unwrap();
    assert!(error.to_string().contains("unknown format"), "{error}");
}

#[test]
fn decimal_commas_are_numbers() {
    let directory = TempDir::new().unwrap();
    for (name, text) in [
        ("s.csv", "y;x;n\n1;1,5;3\n2; 2;NA\n3;-0,25;4\n"),
        ("t.tsv", "y\tx\tn\n1\t1,5\t3\n2\t 2\tNA\n3\t-0,25\t4\n"),
    ] {
        let source = plain(&file(&directory, name, text));
        assert_eq!((kind(&source, "x"), kind(&source, "n")), (Kind::Number, Kind::Number));
        assert_eq!(cells(&source, "x"), ["1.5", "2", "-0.25"]);
        let notes = source.notes(&[0, 1]);
        assert_eq!(notes, [format!("'x' has decimal commas: '1,5' in row 1 of {name} is read as 1.5")]);
        assert!(source.notes(&[0, 2]).is_empty(), "the column is not used");
    }
    let path = directory.path().join("s.csv");
    assert_eq!(cells(&open(&path, &[], Some("x > 1.7"), None).unwrap(), "y"), ["2"]);
    assert_eq!(
        cells(&open(&path, &[], None, Some("select 2*x as z from data")).unwrap(), "z"),
        ["3", "4", "-0.5"]
    );
    let mut spec = Spec::new("y", Response::Linear);
    spec.features = certus_data::Features::Terms(vec!["x".into()]);
    let notes = prepare(&plain(&path), &spec).unwrap().notes;
    assert!(notes.iter().any(|note| note.contains("decimal commas")), "{notes:?}");
}

#[test]
fn commas_beside_points_and_text_are_text() {
    let directory = TempDir::new().unwrap();
    let text = "a;b;c;d\n1,5;1,5;1,5;2\n2.5;x;1,2,3;1,5\n";
    let source = plain(&file(&directory, "m.csv", text));
    let mixed =
        Kind::Mixed { number: "'2.5' in row 2 of m.csv".into(), other: "'1,5' in row 1 of m.csv".into() };
    assert_eq!(kind(&source, "a"), mixed);
    assert_eq!(
        (kind(&source, "b"), kind(&source, "c"), kind(&source, "d")),
        (Kind::Text, Kind::Text, Kind::Number)
    );
    // where commas separate cells, a quoted one is text
    let quoted = plain(&file(&directory, "q.csv", "y,x\n1,\"1,5\"\n"));
    assert_eq!(kind(&quoted, "x"), Kind::Text);
}

#[test]
fn texts_for_missing_values_can_be_given() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory, "n.csv", "y,x,g\n-999,?,a\n2, ? ,missing\n3,4,-999\nNA,5,b\n");
    assert!(matches!(kind(&plain(&path), "x"), Kind::Mixed { .. }));
    let source = open(&path, &["-999", "?", "missing"], None, None).unwrap();
    assert_eq!((kind(&source, "x"), kind(&source, "g")), (Kind::Number, Kind::Text));
    assert_eq!(cells(&source, "y"), ["-", "2", "3", "-"]);
    assert_eq!(cells(&source, "x"), ["-", "-", "4", "5"]);
    assert_eq!(cells(&source, "g"), ["a", "-", "-", "b"]);
    // conditions and queries see them as missing, too
    assert_eq!(cells(&open(&path, &["-999", "?"], Some("y < 3"), None).unwrap(), "y"), ["2"]);
    let sum = open(&path, &["-999", "?"], None, Some("select sum(y) as s from data")).unwrap();
    assert_eq!(cells(&sum, "s"), ["5"]);
    let both = file(&directory, "c.csv", "y;x\n1;1,5\n2;-9,9\n");
    assert_eq!(cells(&open(&both, &["-9,9"], None, None).unwrap(), "x"), ["1.5", "-"]);
}

#[test]
fn files_with_types_of_their_own_have_them_too() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("t.parquet");
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("k", Arc::new(Int64Array::from(vec![1, -999, 3]))),
        ("x", Arc::new(Float64Array::from(vec![0.5, 1.5, -999.0]))),
        ("g", Arc::new(StringArray::from(vec!["a", "none", "b"]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let source = open(&path, &["-999", "none"], None, None).unwrap();
    assert_eq!(cells(&source, "k"), ["1", "-", "3"]);
    assert_eq!(cells(&source, "x"), ["0.5", "1.5", "-"]);
    assert_eq!(cells(&source, "g"), ["a", "-", "b"]);
    assert_eq!(cells(&open(&path, &["-999"], Some("k < 3"), None).unwrap(), "k"), ["1"]);
}

#[test]
fn a_query_may_name_columns_that_new_files_do_not_have() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory, "new.csv", "x\n1\n2\n");
    let query = "select late, 2*x as z from data";
    let new = open(&path, &[], None, Some(query)).unwrap();
    assert_eq!((cells(&new, "late"), cells(&new, "z")), (vec!["-".into(); 2], vec!["2".into(), "4".into()]));
    let old = file(&directory, "old.csv", "x,late\n1,0\n2,1\n");
    assert_eq!(cells(&open(&old, &[], None, Some(query)).unwrap(), "late"), ["0", "1"]);
    let error = open(&path, &[], None, Some("select early from data")).err().unwrap();
    assert!(error.to_string().contains("early"), "{error}");
}

#[test]
fn columns_that_are_not_used_are_not_looked_at() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory, "w.csv", "y,x,z\n1,2,a\n2,4,5\n3,5,6\n");
    let used = Some(vec!["x".into(), "y".into()]);
    let some = |used, filter: Option<&str>| {
        let filter = filter.map(String::from);
        let options = FileOptions { used, filter, ..FileOptions::default() };
        FileSource::open(std::slice::from_ref(&path), options).unwrap()
    };
    let source = some(used.clone(), None);
    assert_eq!((kind(&source, "y"), kind(&source, "x")), (Kind::Number, Kind::Number));
    assert!(matches!(kind(&source, "z"), Kind::Other(_)));
    assert_eq!(cells(&source, "x"), ["2", "4", "5"]);
    // a condition may name others
    assert_eq!(cells(&some(used, Some("z = \'5\'")), "x"), ["4"]);
    let mut spec = Spec::new("y", Response::Linear);
    assert_eq!(spec.columns(), None);
    spec.features = certus_data::Features::Terms(vec!["log(x):z".into()]);
    spec.weights = Some("w".into());
    let mut names = spec.columns().unwrap();
    names.sort();
    assert_eq!(names, ["w", "x", "y", "z"]);
}
