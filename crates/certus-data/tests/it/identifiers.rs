//! Columns that count or identify rows are no features, unless they are named.
#![allow(clippy::unwrap_used)]

use certus_data::{Categorical, Column, Features, Formula, Spec, Table, prepare};
use certus_likelihood::Response;

/// Numbers under their names, with a response.
fn table(columns: &[(&str, &[f64])]) -> Table {
    let rows = columns[0].1.len();
    let y = ("y".to_string(), Column::Number((0..rows).map(|i| ((i * i) % 7) as f64).collect()));
    let column = |(name, cells): &(&str, &[f64])| (name.to_string(), Column::Number(cells.to_vec()));
    Table::new(std::iter::once(y).chain(columns.iter().map(column)).collect()).unwrap()
}

/// The columns that are left out without being asked.
fn left_out(columns: &[(&str, &[f64])]) -> Vec<String> {
    let prepared = prepare(&table(columns), &Spec::new("y", Response::Linear)).unwrap();
    prepared.ignored.into_iter().map(|unused| unused.name).collect()
}

#[test]
fn counters_and_identifiers_are_left_out() {
    let x: (&str, &[f64]) = ("x", &[2.5, 1.0, 1.0, 7.0]);
    for cells in [[1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 2.0, 3.0]] {
        assert_eq!(left_out(&[("n", &cells), x]), ["n"]);
    }
    for cells in [[2.0, 3.0, 4.0, 5.0], [1.0, 2.0, 3.0, 5.0], [1.0, 2.0, 4.0, 3.0], [0.5, 1.5, 2.5, 3.5]] {
        assert!(left_out(&[("n", &cells), x]).is_empty(), "{cells:?}");
    }
    for name in ["", "id", "ID", "patient_id", "Row.Names", "userId"] {
        assert_eq!(left_out(&[x, (name, &[40.0, 17.0, 90.0, 5.0])]), [name]);
        assert!(left_out(&[x, (name, &[40.0, 17.0, 40.0, 5.0])]).is_empty(), "{name}");
        assert!(left_out(&[x, (name, &[40.0, 17.5, 41.0, 5.0])]).is_empty(), "{name}");
    }
    for name in ["humid", "acid", "valid", "x2"] {
        assert!(left_out(&[x, (name, &[40.0, 17.0, 90.0, 5.0])]).is_empty(), "{name}");
    }
}

#[test]
fn the_only_feature_and_short_tables_are_kept() {
    assert!(left_out(&[("x", &[1.0, 2.0, 3.0])]).is_empty());
    assert!(left_out(&[("x", &[0.0, 1.0]), ("z", &[5.0, 6.0])]).is_empty());
    // beyond the first batch of a table
    let long: Vec<f64> = (0..20_000).map(f64::from).collect();
    let broken: Vec<f64> = (0..20_000).map(|i| f64::from(if i == 19_000 { 0 } else { i })).collect();
    assert_eq!(left_out(&[("a", &long), ("b", &broken)]), ["a"]);
}

#[test]
fn a_note_says_so_and_a_name_keeps_them() {
    let own: [(&str, &[f64]); 3] =
        [("n", &[1.0, 2.0, 3.0, 4.0]), ("id", &[9.0, 5.0, 7.0, 1.0]), ("x", &[2.5, 1.0, 1.0, 7.0])];
    let mut spec = Spec::new("y", Response::Linear);
    let notes = prepare(&table(&own), &spec).unwrap().notes;
    for words in
        ["'n' is ignored: it counts the rows; name it as a feature", "'id' is ignored: it has another whole"]
    {
        assert!(notes.iter().any(|note| note.contains(words)), "{notes:?}");
    }
    spec.features = Features::Terms(vec!["n".into(), "id".into()]);
    let named = prepare(&table(&own), &spec).unwrap();
    assert_eq!(named.encoding.features.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["n", "id"]);
    spec.features = Features::All;
    spec.categorical = vec![Categorical { column: "n".into(), reference: None }];
    let levels = prepare(&table(&own), &spec).unwrap();
    assert!(levels.ignored.iter().all(|unused| unused.name != "n"), "{:?}", levels.ignored);
    // which rows belong to one model among many says nothing about a column
    (spec.categorical, spec.by) = (Vec::new(), vec!["x".into()]);
    assert!(prepare(&table(&own), &spec).unwrap().ignored.is_empty());
}

/// `.` in a formula: every other column, text by its levels, without names of rows and what has a role.
#[test]
fn a_dot_stands_for_all_other_columns() {
    let text = |cells: [&str; 4]| Column::Text(cells.map(|cell| Some(cell.into())).to_vec());
    let columns = vec![
        ("y".to_string(), Column::Number(vec![0.5, 1.0, 3.0, 2.0])),
        ("name".into(), text(["Ann", "Bob", "Cyn", "Dan"])),
        ("n".into(), Column::Number(vec![1.0, 2.0, 3.0, 4.0])),
        ("arm".into(), text(["a", "b", "a", "b"])),
        ("site".into(), text(["s", "t", "t", "s"])),
        ("x".into(), Column::Number(vec![2.5, 1.0, 1.0, 7.0])),
        ("z".into(), Column::Number(vec![1.5, 2.0, 9.0, 7.0])),
        ("old".into(), Column::Boolean(vec![Some(true), Some(false), Some(false), Some(true)])),
    ];
    let table = Table::new(columns).unwrap();
    for (formula, expected) in [
        ("y ~ .", vec!["arm[b]", "site[t]", "x", "z", "old"]),
        ("y ~ . - site - z", vec!["arm[b]", "x", "old"]),
        ("y ~ . + log(x) + (1 | site)", vec!["log(x)", "arm[b]", "x", "z", "old"]),
        (
            "y ~ factor(x) + x:z + name + . - arm - site",
            vec!["factor(x)[2.5]", "factor(x)[7]", "x:z", "name[Bob]", "name[Cyn]", "name[Dan]", "z", "old"],
        ),
        ("y ~ z*x + . - arm - site - z", vec!["x", "z:x", "old"]),
    ] {
        let own: Formula = formula.parse().unwrap();
        let mut spec = Spec::new(&own.response, Response::Linear);
        (spec.features, spec.groups) = (own.features(), own.group_specs(&[]).unwrap());
        let prepared = prepare(&table, &spec).unwrap();
        let names: Vec<&str> = prepared.encoding.features.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, expected, "{formula}");
        assert!(prepared.ignored.iter().any(|unused| unused.name == "n"), "{formula}");
    }
    let spec = |formula: &str| {
        let own: Formula = formula.parse().unwrap();
        Spec { features: own.features(), ..Spec::new(&own.response, Response::Linear) }
    };
    let notes = prepare(&table, &spec("y ~ .")).unwrap().notes.join("\n");
    assert!(notes.contains("'name' is ignored: it has another text in every row"), "{notes}");
    assert!(prepare(&table, &spec("y ~ . - xx")).is_err_and(|error| error.to_string().contains("xx")));
}
