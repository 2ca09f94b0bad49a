//! Tables to rows, against matrices and moments made by hand.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use certus::Gaussian;
use certus::factor::{Factor, Lower};
use certus_data::{
    Column, ColumnEncoding, ColumnError, DataError, Encoding, ErrorKind, Features, GroupSpec, Missing,
    MissingIn, Prepared, Slopes, Source, Spec, Storage, Table, prepare, prepare_with,
};
use certus_likelihood::Logistic;
use certus_likelihood::Response;
use certus_models::rows::{LEAF, Rows};
use certus_models::{Design, Glm, Hierarchical, Memory, Prior, laplace};

use crate::common::{matrix, names};

fn number(values: &[f64]) -> Column {
    Column::Number(values.to_vec())
}

fn text(values: &[&str]) -> Column {
    Column::Text(values.iter().map(|s| Some(s.to_string())).collect())
}

fn table(columns: &[(&str, Column)]) -> Table {
    Table::new(columns.iter().map(|(n, c)| (n.to_string(), c.clone())).collect()).unwrap()
}

fn terms(names: &[&str]) -> Features {
    Features::Terms(names.iter().map(|s| s.to_string()).collect())
}

/// Four trips: city, rain, toll, day.
fn trips() -> Table {
    table(&[
        ("late", Column::Boolean(vec![Some(true), Some(false), Some(true), Some(false)])),
        ("city", text(&["Utrecht", "Breda", "Ede", "Breda"])),
        ("rain", number(&[1.0, 2.0, 4.0, 8.0])),
        ("toll", Column::Boolean(vec![Some(false), Some(true), Some(true), Some(false)])),
        ("day", Column::Date(vec![20_000.0, 19_998.0, 20_001.0, 20_000.0])),
    ])
}

#[track_caller]
fn refused(result: Result<Prepared, DataError>, kind: ErrorKind, words: &[&str]) {
    let error = result.err().expect("it must be refused");
    assert_eq!(error.kind(), kind, "{error}");
    words.iter().for_each(|w| assert!(error.to_string().contains(w), "'{w}' is not in: {error}"));
}

#[test]
fn columns_are_encoded_as_by_hand() {
    let mut spec = Spec::new("late", Response::Logistic);
    spec.features = terms(&["rain", "city", "toll", "day", "city:rain", "toll:city"]);
    let prepared = prepare(&trips(), &spec).unwrap();
    // the reference is Breda; days count from 19998
    assert_eq!(
        names(&prepared),
        [
            "rain",
            "city[Ede]",
            "city[Utrecht]",
            "toll",
            "day",
            "city[Ede]:rain",
            "city[Utrecht]:rain",
            "toll:city[Ede]"
        ]
    );
    let expected = [
        [1.0, 0.0, 1.0, 0.0, 2.0, 0.0, 1.0, 0.0, 1.0],
        [2.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [4.0, 1.0, 0.0, 1.0, 3.0, 4.0, 0.0, 1.0, 1.0],
        [8.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0],
    ];
    assert_eq!(matrix(&*prepared.rows), expected.map(|r| r.to_vec()));
    // toll is false in Utrecht: that product is 0 everywhere and is left out by name
    assert_eq!(prepared.dropped.len(), 1);
    assert_eq!(prepared.dropped[0].name, "toll:city[Utrecht]");
    let how = &prepared.encoding.columns[1].how;
    let levels = ["Breda", "Ede", "Utrecht"].map(String::from).to_vec();
    assert_eq!(*how, ColumnEncoding::Levels { levels, reference: Some("Breda".into()) });
    let notes = prepared.notes.join("\n");
    assert!(notes.contains("the reference is Breda") && notes.contains("days since 2024-10-02"), "{notes}");
    let y = prepared.response;
    assert_eq!((y.mean, y.sd, y.min, y.max), (0.5, 0.5, 0.0, 1.0));
}

#[test]
fn without_an_intercept_the_first_text_keeps_its_levels() {
    let mut spec = Spec::new("late", Response::Logistic);
    spec.features = terms(&["city"]);
    spec.intercept = false;
    let prepared = prepare(&trips(), &spec).unwrap();
    assert_eq!(names(&prepared), ["city[Breda]", "city[Ede]", "city[Utrecht]"]);
    let rows = matrix(&*prepared.rows);
    assert_eq!(rows[0], [0.0, 0.0, 1.0, 1.0]);
    assert_eq!(rows[1], [1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn all_means_numbers_and_names_the_rest() {
    let mut spec = Spec::new("late", Response::Logistic);
    spec.groups = vec![GroupSpec {
        factor: vec!["city".into()],
        slopes: Slopes::Terms(vec![]),
        sd: Some(1.0),
        correlated: false,
    }];
    let prepared = prepare(&trips(), &spec).unwrap();
    assert_eq!(names(&prepared), ["rain", "toll"]);
    assert_eq!(prepared.ignored.iter().map(|l| l.name.as_str()).collect::<Vec<_>>(), ["day"]);
    assert!(prepared.notes[0].contains("'day' is ignored: it holds dates"), "{:?}", prepared.notes);
    assert_eq!(prepared.codes, [[2, 0, 1, 0]]);
}

#[test]
fn moments_are_those_of_the_design() {
    // x = 1 … n: mean (n+1)/2, variance (n²−1)/12
    let n = 3 * LEAF + 5;
    let x: Vec<f64> = (1..=n).map(|i| i as f64).collect();
    let wave: Vec<f64> = x.iter().map(|x| (x * 0.7).sin() * 3.0 + 100.0).collect();
    let data = table(&[
        ("y", number(&wave)),
        ("x", number(&x)),
        ("wave2", number(&wave.iter().map(|w| w * w).collect::<Vec<_>>())),
    ]);
    for intercept in [true, false] {
        let mut spec = Spec::new("y", Response::Linear);
        // x counts the rows, so it has to be named
        (spec.intercept, spec.features) = (intercept, terms(&["x", "wave2"]));
        let prepared = prepare(&data, &spec).unwrap();
        let f = &prepared.encoding.features[0];
        let (mean, sd) = ((n as f64 + 1.0) / 2.0, ((n * n - 1) as f64 / 12.0).sqrt());
        // sums of n terms in a tree and a root: a few ulps; without an intercept E x² − (E x)² loses a factor of 4
        assert!((f.mean - mean).abs() <= 1e-13 * mean && (f.sd - sd).abs() <= 1e-13 * sd, "{f:?}");
        // β = z/scale and the intercept −Σ z center/scale show what the design uses, to the bit
        let design = prepared.design().unwrap();
        let (center, scale) = prepared.encoding.center_and_scale();
        let first = usize::from(intercept);
        for j in 0..2 {
            let mut z = vec![0.0; 2 + first];
            z[first + j] = 1.0;
            let d = z.len();
            let unit: Vec<f64> = (0..d * d).map(|k| f64::from(u8::from(k % (d + 1) == 0))).collect();
            let w = Gaussian::new(z, Factor::Lower(Lower::new(d, unit).unwrap())).unwrap();
            let user = design.to_user_scale(&w).unwrap();
            assert_eq!(user.mean()[first + j], 1.0 / scale[j]);
            if intercept {
                assert_eq!(user.mean()[0], -(1.0 / scale[j]) * center[j]);
            }
        }
    }
}

#[test]
fn missing_values_are_refused_or_dropped_with_their_number() {
    let data = table(&[
        ("y", number(&[1.0, 2.0, f64::NAN, 4.0, 5.0])),
        ("x", number(&[1.0, f64::NAN, 3.0, f64::NAN, 0.5])),
        ("city", text(&["a", "b", "NA", "b", "c"])),
        ("unused", number(&[f64::NAN; 5])),
    ]);
    let mut spec = Spec::new("y", Response::Linear);
    spec.features = terms(&["x"]);
    refused(
        prepare(&data, &spec),
        ErrorKind::Data,
        &[
            "3 of 5 rows",
            "'x' has 2 missing values, the first in row 2",
            "'y' has 1 missing value, the first in row 3",
            "leave out the rows (`missing` drop)",
        ],
    );
    spec.missing = Missing::Drop;
    let prepared = prepare(&data, &spec).unwrap();
    assert_eq!(matrix(&*prepared.rows), [[1.0, 1.0], [0.5, 5.0]]);
    assert_eq!((prepared.rows_used, prepared.rows_dropped), (2, 3));
    assert!(prepared.notes[0].contains("3 of 5 rows are left out"), "{:?}", prepared.notes);
    // levels come from the rows in use: b is in none
    spec.features = terms(&["x", "city"]);
    assert_eq!(names(&prepare(&data, &spec).unwrap()), ["x", "city[c]"]);
    spec.features = terms(&["unused"]);
    refused(prepare(&data, &spec), ErrorKind::Data, &["'unused' holds no value at all"]);
}

#[test]
fn errors_have_their_parts_as_fields() {
    let data = table(&[("y", number(&[1.0, f64::NAN])), ("x", number(&[1.0, 2.0]))]);
    match prepare(&data, &Spec::new("y", Response::Linear)).err() {
        Some(DataError::Column(ColumnError::Missing { incomplete: 1, rows: 2, columns })) => {
            let missing = MissingIn { column: "y".into(), count: 1, first: "row 2".into() };
            assert_eq!(columns, [missing]);
        }
        other => panic!("{other:?}"),
    }
    match prepare(&data, &Spec::new("z", Response::Linear)).err() {
        Some(DataError::Column(ColumnError::NotFound { name, within: None, available })) => {
            assert_eq!((name.as_str(), available), ("z", vec!["y".to_string(), "x".to_string()]));
        }
        other => panic!("{other:?}"),
    }
    let groups = |sd: &str| GroupSpec::all(&["batch/cask".into()], &[sd.into()]).unwrap_err().to_string();
    assert_eq!(groups("cask=1"), "group-sd: unknown group 'cask'; available: batch, batch/cask");
    assert_eq!(groups("wide"), "group-sd is 'wide', but a number above 0, or GROUP=NUMBER, is required");
}

#[test]
fn bad_cells_and_names_are_refused_by_name() {
    let data = table(&[
        ("y", number(&[0.0, 1.0, 2.0])),
        ("x", number(&[1.0, f64::INFINITY, 3.0])),
        ("z", number(&[1.0, 2.0, 3.0])),
        ("name", text(&["anna", "ben", "chris"])),
        ("w", number(&[1.0, -1.0, 1.0])),
    ]);
    let spec = |response: &str, family, features: &[&str]| {
        let mut spec = Spec::new(response, family);
        spec.features = terms(features);
        spec
    };
    refused(
        prepare(&data, &spec("y", Response::Linear, &["x"])),
        ErrorKind::Data,
        &["row 2", "'x'", "inf", "finite"],
    );
    refused(
        prepare(&data, &spec("y", Response::Logistic, &["z"])),
        ErrorKind::Data,
        &["row 3", "'y'", "2", "0 or 1"],
    );
    refused(prepare(&data, &spec("y", Response::Probit, &["z"])), ErrorKind::Data, &["row 3", "0 or 1"]);
    refused(
        prepare(&data, &spec("name", Response::Logistic, &["z"])),
        ErrorKind::Data,
        &["'name'", "3 levels (anna, ben, chris)", "two levels are required"],
    );
    refused(
        prepare(&data, &spec("y", Response::Linear, &["zz"])),
        ErrorKind::Data,
        &["no column 'zz'", "did you mean 'z'?"],
    );
    refused(prepare(&data, &spec("Y", Response::Linear, &["z"])), ErrorKind::Data, &["did you mean 'y'?"]);
    let mut weighted = spec("y", Response::Linear, &["z"]);
    weighted.weights = Some("w".into());
    refused(prepare(&data, &weighted), ErrorKind::Data, &["row 2", "weight is -1"]);
    let only = table(&[("y", number(&[0.0, 1.0])), ("name", text(&["anna", "ben"]))]);
    refused(
        prepare(&only, &Spec::new("y", Response::Linear)),
        ErrorKind::Data,
        &["no feature is left", "'name'", "'anna' in row 1"],
    );
    let flat = table(&[("y", number(&[0.0, 1.0])), ("x", number(&[3.0, 3.0]))]);
    refused(
        prepare(&flat, &Spec::new("y", Response::Linear)),
        ErrorKind::Data,
        &["no feature is left", "'x' is 3 in every row, so it is confounded with the intercept"],
    );
    let alone = table(&[("y", number(&[0.0, 1.0])), ("name", text(&["anna", "anna"]))]);
    refused(
        prepare(&alone, &spec("y", Response::Linear, &["name"])),
        ErrorKind::Data,
        &["no feature is left", "one level only"],
    );
    let mut kept = Spec::new("y", Response::Linear);
    kept.intercept = false;
    assert_eq!(names(&prepare(&flat, &kept).unwrap()), ["x"]);
}

#[test]
fn copies_and_combinations_are_named() {
    let n = 2 * LEAF + 100;
    let at = |f: &dyn Fn(f64) -> f64| number(&(0..n).map(|i| f(i as f64)).collect::<Vec<_>>());
    let (a, b) = (|i: f64| (0.3 * i).sin(), |i: f64| (0.77 * i).cos() + 5.0);
    let data = table(&[
        ("y", at(&|i| i)),
        ("a", at(&a)),
        ("b", at(&b)),
        ("copy", at(&a)),
        ("scaled", at(&|i| 3.0 * b(i) - 7.0)),
        ("sum", at(&|i| a(i) + 2.0 * b(i))),
        // a thousandth of something new is enough to be independent
        ("near", at(&|i| a(i) + 1e-3 * (1.9 * i).sin())),
    ]);
    let mut spec = Spec::new("y", Response::Linear);
    let dependent = |spec: &Spec| -> Vec<String> {
        let notes = prepare(&data, spec).unwrap().notes;
        notes.into_iter().map(|n| n.split(';').next().unwrap().to_string()).collect()
    };
    assert_eq!(
        dependent(&spec),
        [
            "'copy' is a copy of 'a'",
            "'scaled' is collinear with 'b'",
            "'sum' is a linear combination of 'a', 'b'"
        ]
    );
    // without an intercept a shifted column is something new
    spec.intercept = false;
    assert_eq!(dependent(&spec), ["'copy' is a copy of 'a'", "'sum' is a linear combination of 'a', 'b'"]);
}

#[test]
fn groups_nest_and_slopes_are_found() {
    let data = table(&[
        ("y", number(&[0.0, 1.0, 0.0, 1.0, 1.0])),
        ("a", number(&[0.1, 0.2, 0.4, 0.8, 1.6])),
        ("b", number(&[3.0, 1.0, 4.0, 1.0, 5.0])),
        ("school", number(&[10.0, 9.0, 9.0, 10.0, 9.0])),
        ("class", text(&["x", "x", "y", "x", "x"])),
    ]);
    let group = |factor: &str, slopes, sd| GroupSpec {
        factor: factor.split('/').map(String::from).collect(),
        slopes,
        sd,
        correlated: false,
    };
    let some = |names: &[&str]| Slopes::Terms(names.iter().map(|s| s.to_string()).collect());
    let mut spec = Spec::new("y", Response::Logistic);
    spec.groups = GroupSpec::all(&["school/class:: b".into()], &["0.5".into()]).unwrap();
    let prepared = prepare(&data, &spec).unwrap();
    let groups = &prepared.encoding.groups;
    assert_eq!(groups.iter().map(|g| g.name.as_str()).collect::<Vec<_>>(), ["school", "school/class"]);
    assert_eq!(prepared.codes, [[1, 0, 0, 1, 0], [2, 0, 1, 2, 0]]);
    assert_eq!((0..3).map(|k| groups[1].level_name(k)).collect::<Vec<_>>(), ["9/x", "9/y", "10/x"]);
    let built = prepared.group_terms(None).unwrap();
    assert_eq!((&built[1].slopes, &built[1].sd, built[1].within), (&vec![0, 2], &vec![0.5, 0.5], Some(0)));
    assert_eq!((&built[0].slopes, built[0].within), (&vec![0, 2], None));
    // the outer factor may have its own term
    spec.groups = vec![group("school", Slopes::All, Some(2.0)), group("school/class", some(&[]), None)];
    let prepared = prepare(&data, &spec).unwrap();
    let built = prepared.group_terms(Some(1.0)).unwrap();
    assert_eq!((&built[0].slopes, &built[1].slopes, built[1].within), (&vec![0, 1, 2], &vec![0], Some(0)));
    assert!(prepared.group_terms(None).unwrap_err().to_string().contains("'school/class'"));
    spec.groups = vec![group("school", some(&["c"]), None)];
    refused(prepare(&data, &spec), ErrorKind::Request, &["'c'", "no such feature"]);
    spec.intercept = false;
    spec.groups = vec![group("school", some(&[]), Some(1.0))];
    refused(prepare(&data, &spec), ErrorKind::Request, &["nothing varies"]);
    spec.groups = vec![group("school", Slopes::All, None), group("school", Slopes::All, None)];
    refused(prepare(&data, &spec), ErrorKind::Request, &["twice"]);
}

/// What varies need not be a feature: an intercept, a number, an effect for every level; their levels are coded as if
/// the group's terms were alone, their order is that of the term, and new data are read in the same way.
#[test]
fn what_only_varies_has_columns_of_its_own() {
    let data = table(&[
        ("y", number(&[0.0, 1.0, 0.0, 1.0, 1.0])),
        ("a", number(&[0.1, 0.2, 0.4, 0.8, 1.6])),
        ("b", number(&[3.0, 1.0, 4.0, 1.0, 5.0])),
        ("arm", text(&["p", "q", "r", "p", "q"])),
        ("g", text(&["x", "x", "y", "x", "y"])),
    ]);
    let names = |slopes: &[usize], encoding: &Encoding| -> Vec<String> {
        slopes.iter().map(|j| encoding.coefficient(*j)).collect()
    };
    let of = |features: &[&str], intercept: bool, group: &str| {
        let mut spec = Spec::new("y", Response::Logistic);
        spec.features = terms(features);
        spec.intercept = intercept;
        spec.groups = GroupSpec::all(&[group.into()], &[]).unwrap();
        prepare(&data, &spec).unwrap()
    };
    let prepared = of(&["a"], true, "g: b");
    let encoding = &prepared.encoding;
    assert_eq!(names(&encoding.groups[0].slopes, encoding), ["(Intercept)", "b"]);
    assert_eq!(
        (encoding.coefficients(), &prepared.effects),
        (vec!["(Intercept)".into(), "a".into()], &vec![vec![3.0, 1.0, 4.0, 1.0, 5.0]])
    );
    // its unit is the sd, as that of a feature
    let sd = |x: &[f64]| {
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        (x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64).sqrt()
    };
    assert!((encoding.effects[0].unit / sd(&prepared.effects[0]) - 1.0).abs() < 1e-12);
    let read = encoding.encode(&data, &Storage::default()).unwrap();
    assert_eq!(read.effects, prepared.effects);
    assert_ne!(prepared.fingerprint, of(&["a"], true, "g: a").fingerprint);
    let prepared = of(&["a"], false, "g: a");
    let encoding = &prepared.encoding;
    assert_eq!(names(&encoding.groups[0].slopes, encoding), ["(Intercept)", "a"]);
    assert!(encoding.is_intercept(encoding.groups[0].slopes[0]) && prepared.effects == [[1.0; 5]]);
    // every level where the group has no intercept, and only those that are no features have columns of their own
    let prepared = of(&["arm"], true, "g: 0,arm");
    let encoding = &prepared.encoding;
    assert_eq!(names(&encoding.groups[0].slopes, encoding), ["arm[p]", "arm[q]", "arm[r]"]);
    assert_eq!(prepared.effects, [[1.0, 0.0, 0.0, 1.0, 0.0]]);
    let prepared = of(&["arm"], false, "g: arm");
    let encoding = &prepared.encoding;
    assert_eq!(names(&encoding.groups[0].slopes, encoding), ["(Intercept)", "arm[q]", "arm[r]"]);
    let stored = serde_json::to_string(encoding).unwrap();
    assert_eq!(&serde_json::from_str::<Encoding>(&stored).unwrap(), encoding);
}

#[test]
fn the_encoding_reads_new_data_the_same_way() {
    let mut spec = Spec::new("late", Response::Logistic);
    spec.features = terms(&["rain", "city", "day", "city:rain"]);
    spec.groups = vec![GroupSpec {
        factor: vec!["toll".into()],
        slopes: Slopes::All,
        sd: Some(1.0),
        correlated: false,
    }];
    let prepared = prepare(&trips(), &spec).unwrap();
    let stored = serde_json::to_string(&prepared.encoding).unwrap();
    let encoding: Encoding = serde_json::from_str(&stored).unwrap();
    assert_eq!(encoding, prepared.encoding);
    let encoded = encoding.encode(&trips(), &Storage::default()).unwrap();
    let features =
        |rows: &dyn Rows| matrix(rows).into_iter().map(|r| r[..r.len() - 1].to_vec()).collect::<Vec<_>>();
    assert_eq!(features(&*encoded.rows), features(&*prepared.rows));
    assert_eq!(encoded.codes, prepared.codes);
    let new = |city: &str, toll: bool, rain: f64| {
        let data = table(&[
            ("toll", Column::Boolean(vec![Some(toll)])),
            ("day", Column::Date(vec![20_010.0])),
            ("rain", number(&[rain])),
            ("city", text(&[city])),
        ]);
        encoding.encode(&data, &Storage::default())
    };
    let rows = new("Ede", true, 3.0).unwrap().rows;
    assert_eq!(matrix(&*rows), [[3.0, 1.0, 0.0, 12.0, 3.0, 0.0, 0.0]]);
    let error = new("Delft", true, 3.0).err().unwrap();
    assert!(
        error.kind() == ErrorKind::Data
            && error.to_string().contains("'Delft'")
            && error.to_string().contains("row 1"),
        "{error}"
    );
    assert!(new("Ede", true, f64::NAN).err().unwrap().to_string().contains("'rain' holds no value"));
}

#[test]
fn fingerprints_tell_data_apart() {
    let print = |x: &[f64], name: &str, y: &[f64]| {
        let data = table(&[("y", number(y)), (name, number(x)), ("other", number(&[1.0, 5.0, 2.0]))]);
        prepare(&data, &Spec::new("y", Response::Linear)).unwrap().fingerprint
    };
    let (x, y) = ([1.0, 2.0, 4.0], [0.5, 0.25, 0.0]);
    let base = print(&x, "x", &y);
    assert_eq!(base, print(&x, "x", &y));
    let others = [
        print(&[1.0, 4.0, 2.0], "x", &y),
        print(&[-1.0, -2.0, 4.0], "x", &y),
        print(&x, "z", &y),
        print(&x, "x", &[0.5, 0.0, 0.25]),
        print(&x, "x", &[0.5, 0.25, -0.0]),
    ];
    others.iter().for_each(|o| assert_ne!(*o, base));
    // the same leaves in another order
    let halves = |first: f64| {
        let y: Vec<f64> =
            (0..2 * LEAF).map(|i| (i % LEAF) as f64 + if i < LEAF { first } else { -first }).collect();
        let data = table(&[("y", number(&y)), ("x", number(&y))]);
        prepare(&data, &Spec::new("y", Response::Linear)).unwrap().fingerprint
    };
    assert_ne!(halves(0.5), halves(-0.5));
}

/// The columns of a benchmark file.
fn benchmark(name: &str) -> (Vec<String>, Vec<Vec<f64>>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data").join(name);
    let file = std::fs::read_to_string(path).unwrap();
    let mut lines = file.lines();
    let names: Vec<String> = lines.next().unwrap().split(',').map(String::from).collect();
    let mut columns = vec![Vec::new(); names.len()];
    for line in lines {
        line.split(',').zip(&mut columns).for_each(|(x, c)| c.push(x.parse().unwrap()));
    }
    (names, columns)
}

fn bench_table(names: &[String], columns: &[Vec<f64>]) -> Table {
    Table::new(names.iter().cloned().zip(columns.iter().map(|c| Column::Number(c.clone()))).collect())
        .unwrap()
}

#[test]
fn a_logistic_fit_is_that_of_the_matrix_made_by_hand() {
    let (names, columns) = benchmark("logit_bc.csv");
    let prepared = prepare(&bench_table(&names, &columns), &Spec::new("y", Response::Logistic)).unwrap();
    assert_eq!(prepared.dropped.len(), 1);
    assert_eq!(prepared.dropped[0].name, "x0");
    assert!(prepared.notes.iter().any(|n| n.contains("'x0' is left out: it is 1 in every row")));
    // by hand: without x0, with an intercept, standardised
    let memory = Memory {
        x: columns[2..].concat(),
        column_major: true,
        y: columns[0].clone(),
        columns: 30,
        ..Memory::default()
    };
    let by_hand = Design::standardised(Arc::new(memory), true).unwrap();
    let fit = |design: Design| {
        let sd: Vec<f64> = std::iter::once(10.0).chain([2.5; 30]).collect();
        let prior = Prior::independent(vec![0.0; 31], &sd).unwrap();
        let model = Glm::new(design.clone(), Arc::new(Logistic), prior).unwrap();
        let start = laplace(&model).unwrap();
        let mut state = model.exact_start(&start.gaussian).unwrap();
        (0..3).for_each(|_| model.exact_step(&mut state).unwrap());
        let w = design.to_user_scale(&state.gaussian).unwrap();
        (w.mean().to_vec(), w.factor().to_dense())
    };
    assert_eq!(fit(prepared.design().unwrap()), fit(by_hand));
}

#[test]
fn a_hierarchical_model_is_that_made_by_hand() {
    let (names, columns) = benchmark("hier_logit.csv");
    let mut spec = Spec::new("y", Response::Logistic);
    (spec.intercept, spec.standardise) = (false, false);
    spec.groups = vec![GroupSpec {
        factor: vec!["group".into()],
        slopes: Slopes::All,
        sd: Some(1.0),
        correlated: false,
    }];
    let prepared = prepare(&bench_table(&names, &columns), &spec).unwrap();
    let memory = Memory {
        x: columns[2..].concat(),
        column_major: true,
        y: columns[1].clone(),
        columns: 5,
        ..Memory::default()
    };
    let by_hand = certus_models::GroupTerm {
        group: columns[0].iter().map(|g| *g as usize).collect(),
        slopes: (0..5).collect(),
        sd: vec![1.0; 5],
        within: None,
    };
    let mode = |design: Design, terms: &[certus_models::GroupTerm]| {
        let prior = Prior::independent(vec![0.0; 5], &[1.0; 5]).unwrap();
        let model = Hierarchical::new(design, terms, Arc::new(Logistic), &prior, 1 << 30).unwrap();
        model.laplace().unwrap().mean().to_vec()
    };
    let ours = mode(prepared.design().unwrap(), &prepared.group_terms(None).unwrap());
    assert_eq!(ours, mode(Design::new(Arc::new(memory), false), &[by_hand]));
}

#[test]
fn a_scratch_file_and_threads_change_nothing() {
    let n = 5 * LEAF + 3;
    let column = |k: f64| number(&(0..n).map(|i| (i as f64 * k).sin()).collect::<Vec<_>>());
    let data = table(&[
        ("y", column(0.1)),
        ("a", column(0.2)),
        ("one", number(&vec![1.0; n])),
        ("b", column(0.3)),
        ("w", number(&vec![2.0; n])),
    ]);
    let mut spec = Spec::new("y", Response::Linear);
    spec.weights = Some("w".into());
    let run = |memory: usize, threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let storage = Storage { memory, ..Storage::default() };
            let p = prepare_with(&data, &spec, &storage).unwrap();
            let m = p.encoding.features.clone();
            (p.fingerprint, m, matrix(&*p.rows))
        })
    };
    let base = run(1 << 30, 1);
    for (memory, threads) in [(0, 1), (2 * 8 * LEAF * 5, 2), (0, 8)] {
        assert!(run(memory, threads) == base);
    }
    assert_eq!(data.columns().len(), 5);
}

/// T14. Squares of 1e-170 are 0 and those of 1e170 infinite: such columns were left as they are, and called a
/// combination of nothing.
#[test]
fn features_of_any_size_are_standardised() {
    let sd = |size: f64, intercept: bool| {
        let at = |f: &dyn Fn(f64) -> f64| number(&(0..40).map(|i| f(f64::from(i))).collect::<Vec<_>>());
        let a = |i: f64| size * ((0.7 * i).sin() + 0.2);
        let data = table(&[("y", at(&|i| i)), ("a", at(&a)), ("b", at(&|i| (1.9 * i).cos()))]);
        let mut spec = Spec::new("y", Response::Linear);
        spec.intercept = intercept;
        let prepared = prepare(&data, &spec).unwrap();
        assert_eq!(prepared.notes, Vec::<String>::new(), "size {size}");
        prepared.encoding.features[0].sd
    };
    for intercept in [true, false] {
        let ordinary = sd(1.0, intercept);
        for size in [1e-300, 1e-170, 1e-155, 1e155, 1e170, 1e300] {
            let ratio = sd(size, intercept) / size / ordinary;
            assert!((ratio - 1.0).abs() < 1e-12, "size {size}: {ratio}");
        }
    }
}
