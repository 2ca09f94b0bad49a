//! Files through DataFusion, against the tables they were written from.
#![cfg(feature = "scan")]
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use certus_data::{
    Column, DataError, Encoding, ErrorKind, Features, FileOptions, FileSource, GroupSpec, Kind, Missing,
    Slopes, Source, Spec, Storage, Table, prepare, prepare_with,
};
use certus_likelihood::Response;
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray,
};
use datafusion::arrow::ipc::writer::FileWriter;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use tempfile::TempDir;

use crate::common::{matrix, names};

fn open(path: &Path) -> FileSource {
    FileSource::try_from(path).unwrap()
}

fn ask(path: &Path, filter: Option<&str>, sql: Option<&str>) -> Result<FileSource, DataError> {
    let (filter, sql) = (filter.map(String::from), sql.map(String::from));
    FileSource::open(&[path.to_path_buf()], FileOptions { filter, sql, ..FileOptions::default() })
}

fn csv(directory: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = directory.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[track_caller]
fn refused<T>(result: Result<T, DataError>, kind: ErrorKind, words: &[&str]) {
    let error = result.err().expect("it must be refused");
    assert_eq!(error.kind(), kind, "{error}");
    words.iter().for_each(|w| assert!(error.to_string().contains(w), "'{w}' is not in: {error}"));
}

fn linear(features: &[&str]) -> Spec {
    let mut spec = Spec::new("y", Response::Linear);
    spec.features = Features::Terms(features.iter().map(|s| s.to_string()).collect());
    spec
}

/// Rows `from..to`: y = row number, x = row mod 7, city by thirds, and columns nobody uses.
fn batch(from: usize, to: usize) -> RecordBatch {
    let rows = || from..to;
    let city = |i: usize| ["Utrecht", "Breda", "Ede"][i % 3];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("y", Arc::new(Int64Array::from_iter_values(rows().map(|i| i as i64)))),
        ("x", Arc::new(Float64Array::from_iter_values(rows().map(|i| (i % 7) as f64)))),
        ("city", Arc::new(StringArray::from_iter_values(rows().map(city)))),
        ("late", Arc::new(BooleanArray::from_iter(rows().map(|i| Some(i % 2 == 0))))),
        ("day", Arc::new(Date32Array::from_iter_values(rows().map(|i| 20_000 + i as i32)))),
        ("unused", Arc::new(Float64Array::from_iter(rows().map(|_| None::<f64>)))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap()
}

/// A Parquet file with row groups of 500.
fn parquet(path: &Path, from: usize, to: usize) {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(500)).build();
    let data = batch(from, to);
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), data.schema(), Some(properties)).unwrap();
    writer.write(&data).unwrap();
    writer.close().unwrap();
}

/// Twelve thousand rows in three files, named so that the order of their names is that of the rows; beside them what
/// must be ignored.
fn directory() -> TempDir {
    let directory = TempDir::new().unwrap();
    std::fs::create_dir(directory.path().join("b")).unwrap();
    parquet(&directory.path().join("a.parquet"), 0, 5000);
    parquet(&directory.path().join("b/1.parquet"), 5000, 9000);
    parquet(&directory.path().join("c.parquet"), 9000, 12_000);
    std::fs::write(directory.path().join("_SUCCESS"), "").unwrap();
    std::fs::write(directory.path().join("notes.txt"), "x").unwrap();
    directory
}

#[test]
fn a_directory_of_parquet_is_read_in_order_on_any_number_of_threads() {
    let directory = directory();
    let run = |threads: usize, memory: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let source = open(directory.path());
            let mut spec = linear(&["x", "city", "late", "day"]);
            spec.groups = vec![];
            let storage = Storage { memory, ..Storage::default() };
            let prepared = prepare_with(&source, &spec, &storage).unwrap();
            (matrix(&*prepared.rows), prepared.fingerprint, prepared.encoding)
        })
    };
    let (rows, fingerprint, encoding) = run(1, 1 << 30);
    assert_eq!(rows.len(), 12_000);
    for (i, row) in rows.iter().enumerate() {
        let city = [[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]][i % 3];
        let expected =
            [(i % 7) as f64, city[0], city[1], f64::from(u8::from(i % 2 == 0)), i as f64, i as f64];
        assert_eq!(row[..], expected, "row {i}");
    }
    for (threads, memory) in [(2, 1 << 30), (8, 1 << 30), (8, 0)] {
        let again = run(threads, memory);
        assert!(rows == again.0 && fingerprint == again.1 && encoding == again.2, "{threads} threads");
    }
}

#[test]
fn only_what_is_asked_for_is_read() {
    let directory = directory();
    let source = ask(directory.path(), Some("day >= date '2037-06-30' and city = 'Ede'"), None).unwrap();
    let place = |name: &str| source.columns().iter().position(|c| c.name == name).unwrap();
    let plan = source.plan(&[place("y"), place("x")]).unwrap();
    assert!(plan.contains("predicate=") && !plan.contains("unused") && !plan.contains("late"), "{plan}");
    assert!(!plan.contains("Repartition") && !plan.contains("Coalesce"), "{plan}");
    // day 20000 + i; 2037-06-30 is day 24652: i ≥ 4652 and i mod 3 = 2
    let prepared = prepare(&source, &linear(&["x"])).unwrap();
    let expected: Vec<Vec<f64>> =
        (4652..12_000).filter(|i| i % 3 == 2).map(|i| vec![(i % 7) as f64, i as f64]).collect();
    assert_eq!(matrix(&*prepared.rows), expected);
}

#[test]
fn queries_name_new_columns() {
    let directory = directory();
    let sql = "select y, ln(x + 1) as lx, X2.z from data join (select 3 as z) as X2 on true where city = 'Utrecht' and \
        y < 100";
    let source = ask(directory.path(), None, Some(sql)).unwrap();
    assert_eq!(source.columns().iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["y", "lx", "z"]);
    let mut spec = Spec::new("y", Response::Linear);
    spec.intercept = false;
    let prepared = prepare(&source, &spec).unwrap();
    let rows = matrix(&*prepared.rows);
    assert_eq!(rows.len(), 34);
    for (row, i) in rows.iter().zip((0..100).step_by(3)) {
        assert!(
            (row[0] - ((i % 7) as f64 + 1.0).ln()).abs() <= 1e-15 && row[1..] == [3.0, i as f64],
            "{row:?}"
        );
    }
    // functions are known in any case, columns as they are written
    assert!(ask(directory.path(), None, Some("select LN(x) from data")).is_ok());
    refused(
        ask(directory.path(), None, Some("select City from data")),
        ErrorKind::Data,
        &["no column 'City'", "did you mean 'city'?"],
    );
    refused(
        ask(directory.path(), Some("citty = 'Ede'"), None),
        ErrorKind::Data,
        &["no column 'citty'", "'city'"],
    );
    refused(ask(directory.path(), None, Some("selekt y")), ErrorKind::Request, &["not understood"]);
    refused(ask(directory.path(), Some("city ="), None), ErrorKind::Request, &["not understood"]);
    refused(ask(directory.path(), None, Some("create table t as select 1")), ErrorKind::Request, &[]);
    refused(
        ask(directory.path(), Some("x > 1"), Some("select y from data")),
        ErrorKind::Request,
        &["--where", "--sql"],
    );
}

#[test]
fn csv_cells_are_numbers_text_or_missing() {
    let directory = TempDir::new().unwrap();
    let text = "y,x,\"a, b\",city,day,yes,none,big\n\
                1,0.5,2,\"Den Haag, NL\",2024-02-28,true,,12345678901234567890\n\
                2,nan,3,Breda,2024-03-01,false,NA,1\n\
                3,NA,4,Ede,2024-03-02,true,nan,1\n\
                4,, 5,\"say \"\"hi\"\"\",2024-03-03,FALSE, ,1\n\
                5,1e3,6,Breda,2024-03-04,true,,1\n";
    let path = csv(&directory, "trips.csv", text);
    let source = open(&path);
    let kinds: Vec<&Kind> = source.columns().iter().map(|c| &c.kind).collect();
    assert_eq!(
        kinds[..7],
        [&Kind::Number, &Kind::Number, &Kind::Number, &Kind::Text, &Kind::Date, &Kind::Boolean, &Kind::Empty]
    );
    assert!(
        matches!(kinds[7], Kind::Inexact { first } if first == "'12345678901234567890' in row 1 of trips.csv"),
        "{kinds:?}"
    );
    let mut spec = linear(&["x", "a, b", "city", "day", "yes"]);
    refused(
        prepare(&source, &spec),
        ErrorKind::Data,
        &["3 of 5 rows", "'x' has 3 missing values, the first in row 2 of trips.csv"],
    );
    spec.missing = Missing::Drop;
    let prepared = prepare(&source, &spec).unwrap();
    // both rows have yes = true, which is left out; 28 February to 4 March 2024 are five days
    assert_eq!(names(&prepared), ["x", "a, b", "city[Den Haag, NL]", "day"]);
    assert_eq!(matrix(&*prepared.rows), [[0.5, 2.0, 1.0, 0.0, 1.0], [1000.0, 6.0, 0.0, 5.0, 5.0]]);
    let spec = linear(&["a, b", "yes", "city"]);
    let prepared = prepare(&source, &spec).unwrap();
    assert_eq!(names(&prepared)[2..], ["city[Den Haag, NL]", "city[Ede]", "city[say \"hi\"]"]);
    assert_eq!(matrix(&*prepared.rows)[3], [5.0, 0.0, 0.0, 0.0, 1.0, 4.0]);
    // conditions see the types, not the text
    let filtered = ask(&path, Some("x > 2 or day < date '2024-02-29'"), None).unwrap();
    assert_eq!(matrix(&*prepare(&filtered, &linear(&["x"])).unwrap().rows), [[0.5, 1.0], [1000.0, 5.0]]);
    let counted = ask(&path, None, Some("select count(x) as y, sum(y) as x, 1 as one from data")).unwrap();
    let mut spec = linear(&["x"]);
    spec.intercept = false;
    assert_eq!(matrix(&*prepare(&counted, &spec).unwrap().rows), [[15.0, 2.0]]);
}

#[test]
fn text_among_numbers_is_named_with_its_place() {
    let directory = TempDir::new().unwrap();
    // the text comes long after any sample of the beginning
    let mut text = String::from("y,x\n");
    (0..3000).for_each(|i| text += &format!("{i},{}\n", i % 10));
    csv(&directory, "1.csv", &text);
    csv(&directory, "2.csv", "y,x\n1,2\n2,abc\n3,4\n");
    let words = ["'x'", "'0' in row 1 of 1.csv", "'abc' in row 2 of 2.csv", "mixes numbers and text"];
    let source = open(directory.path());
    refused(prepare(&source, &linear(&["x"])), ErrorKind::Data, &words);
    refused(prepare(&source, &Spec::new("y", Response::Linear)), ErrorKind::Data, &words);
    refused(prepare(&source, &Spec::new("x", Response::Linear)), ErrorKind::Data, &words);
    let passed_on = ask(directory.path(), None, Some("select y, x from data")).unwrap();
    refused(prepare(&passed_on, &Spec::new("y", Response::Linear)), ErrorKind::Data, &words);
    // converted by the user, it is a number with a gap
    let converted =
        ask(directory.path(), None, Some("select y, try_cast(x as double) as x from data")).unwrap();
    refused(
        prepare(&converted, &linear(&["x"])),
        ErrorKind::Data,
        &["1 of 3003 rows", "row 3002 of the query's result"],
    );
    // a bad response is placed in its own file, too
    let late = csv(&directory, "3.csv", "y,x\n0,1\n2,1\n1,2\n");
    refused(
        prepare(&open(&late), &Spec::new("y", Response::Logistic)),
        ErrorKind::Data,
        &["row 2 of 3.csv", "0 or 1"],
    );
}

#[test]
fn arrow_parquet_csv_and_memory_agree() {
    let directory = TempDir::new().unwrap();
    let data = batch(0, 3000);
    let ipc = directory.path().join("a.arrow");
    let mut writer = FileWriter::try_new(File::create(&ipc).unwrap(), &data.schema()).unwrap();
    writer.write(&data.slice(0, 1000)).unwrap();
    writer.write(&data.slice(1000, 2000)).unwrap();
    writer.finish().unwrap();
    let columns = directory.path().join("a.parquet");
    parquet(&columns, 0, 3000);
    let mut text = String::from("y,x,city\n");
    (0..3000).for_each(|i| text += &format!("{i},{},{}\n", i % 7, ["Utrecht", "Breda", "Ede"][i % 3]));
    let text = csv(&directory, "a.csv", &text);
    let memory = Table::new(vec![
        ("y".into(), Column::Number((0..3000).map(f64::from).collect())),
        ("x".into(), Column::Number((0..3000).map(|i| f64::from(i % 7)).collect())),
        (
            "city".into(),
            Column::Text((0..3000).map(|i| Some(["Utrecht", "Breda", "Ede"][i % 3].to_string())).collect()),
        ),
    ])
    .unwrap();
    let mut spec = linear(&["x", "city", "city:x"]);
    spec.features = Features::Terms(vec!["x".into()]);
    spec.groups = vec![GroupSpec {
        factor: vec!["city".into()],
        slopes: Slopes::All,
        sd: Some(1.0),
        correlated: false,
    }];
    let sources: Vec<Box<dyn Source>> =
        vec![Box::new(memory), Box::new(open(&ipc)), Box::new(open(&columns)), Box::new(open(&text))];
    let results: Vec<(u64, Encoding, Vec<Vec<u32>>)> = sources
        .iter()
        .map(|s| prepare(s.as_ref(), &spec).unwrap())
        .map(|p| (p.fingerprint, p.encoding, p.codes))
        .collect();
    results.iter().for_each(|r| assert!(*r == results[0]));
    // and new data may come from anywhere
    let encoded = results[0].1.encode(&*sources[2], &Storage::default()).unwrap();
    assert_eq!(encoded.codes, results[0].2);
}

#[test]
fn the_benchmark_is_the_same_through_the_file() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/logit_bc.csv");
    let from_file = prepare(&open(&path), &Spec::new("y", Response::Logistic)).unwrap();
    assert_eq!(from_file.dropped[0].name, "x0");
    let text = std::fs::read_to_string(&path).unwrap();
    let by_hand: Vec<Vec<f64>> = text
        .lines()
        .skip(1)
        .map(|line| {
            let row: Vec<f64> = line.split(',').map(|x| x.parse().unwrap()).collect();
            row[2..].iter().chain(&row[..1]).copied().collect()
        })
        .collect();
    assert!(matrix(&*from_file.rows) == by_hand);
}

#[test]
fn paths_are_checked() {
    let directory = TempDir::new().unwrap();
    refused(ask(&directory.path().join("absent.csv"), None, None), ErrorKind::NotFound, &["absent.csv"]);
    refused(ask(directory.path(), None, None), ErrorKind::NotFound, &["holds no file"]);
    refused(ask(&csv(&directory, "a.xlsx", "x"), None, None), ErrorKind::Request, &["a.xlsx", "csv"]);
    let odd = csv(&directory, "a b%[1].csv", "y,x\n1,2\n3,4\n");
    assert_eq!(matrix(&*prepare(&open(&odd), &linear(&["x"])).unwrap().rows), [[2.0, 1.0], [4.0, 3.0]]);
    refused(
        FileSource::open(&[odd.clone(), csv(&directory, "b.csv", "y,z\n1,2\n")], FileOptions::default()),
        ErrorKind::Data,
        &["'x'", "'z'"],
    );
    refused(ask(&csv(&directory, "c.csv", "y,x,x\n1,2,3\n"), None, None), ErrorKind::Data, &["'x'"]);
    refused(ask(&csv(&directory, "d.csv", "y,x\n1,2\n1,2,3\n"), None, None), ErrorKind::Data, &["d.csv"]);
    refused(ask(&csv(&directory, "e.csv", ""), None, None), ErrorKind::Data, &["e.csv"]);
    let broken = directory.path().join("f.parquet");
    std::fs::write(&broken, "this is no parquet file").unwrap();
    refused(ask(&broken, None, None), ErrorKind::Data, &["f.parquet"]);
    parquet(&directory.path().join("g.parquet"), 0, 10);
    refused(
        FileSource::open(&[odd, directory.path().join("g.parquet")], FileOptions::default()),
        ErrorKind::Request,
        &["different formats"],
    );
    let big = RecordBatch::try_from_iter([
        ("y", Arc::new(Float64Array::from(vec![1.0, 2.0])) as ArrayRef),
        ("id", Arc::new(Int64Array::from(vec![1, 9_007_199_254_740_994])) as ArrayRef),
    ])
    .unwrap();
    let path = directory.path().join("h.parquet");
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), big.schema(), None).unwrap();
    writer.write(&big).unwrap();
    writer.close().unwrap();
    refused(
        prepare(&open(&path), &linear(&["id"])),
        ErrorKind::Data,
        &["row 2 of h.parquet", "'id'", "digits"],
    );
}
