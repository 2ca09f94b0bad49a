//! Text responses, factors and functions of columns: the same numbers for the data of a fit and for new data.
#![allow(clippy::unwrap_used)]

use certus_data::{
    Categorical, Column, Encoding, Features, Formula, Prepared, Spec, Storage, Table, prepare,
};
use certus_likelihood::Response;
use certus_models::rows::Rows;

fn number(values: &[f64]) -> Column {
    Column::Number(values.to_vec())
}

fn text(values: &[&str]) -> Column {
    Column::Text(values.iter().map(|s| Some(s.to_string())).collect())
}

fn table(columns: &[(&str, Column)]) -> Table {
    Table::new(columns.iter().map(|(name, column)| (name.to_string(), column.clone())).collect()).unwrap()
}

/// Features and responses, row by row.
fn rows(rows: &dyn Rows) -> Vec<(Vec<f64>, f64)> {
    let mut out = Vec::new();
    rows.leaf(0, &mut |leaf| {
        for i in 0..leaf.y.len() {
            out.push(((0..leaf.x.columns()).map(|j| leaf.x.get(i, j)).collect(), leaf.y[i]));
        }
    })
    .unwrap();
    out
}

fn spec(model: Response, formula: &str) -> Spec {
    let formula: Formula = formula.parse().unwrap();
    let mut spec = Spec::new(&formula.response, model);
    (spec.features, spec.offset, spec.intercept) =
        (formula.features(), formula.offset.clone(), formula.intercept);
    spec
}

fn names(prepared: &Prepared) -> Vec<&str> {
    prepared.encoding.features.iter().map(|f| f.name.as_str()).collect()
}

#[test]
fn two_levels_of_text_are_a_binary_response() {
    let data = table(&[("y", text(&["no", "yes", "no"])), ("x", number(&[1.0, 2.0, 4.0]))]);
    let ones = |spec: &Spec| -> Vec<f64> {
        rows(&*prepare(&data, spec).unwrap().rows).into_iter().map(|(_, y)| y).collect()
    };
    let mut own = spec(Response::Logistic, "y ~ x");
    assert_eq!(ones(&own), [0.0, 1.0, 0.0]);
    let note = &prepare(&data, &own).unwrap().notes[0];
    assert!(note.contains("the event of 'y' is 'yes'"), "{note}");
    own.event = Some("no".into());
    assert_eq!(ones(&own), [1.0, 0.0, 1.0]);
    own.model = Response::Linear;
    assert!(prepare(&data, &own).err().unwrap().to_string().contains("event"));
}

#[test]
fn any_column_may_be_a_factor() {
    let data = table(&[
        ("y", number(&[1.0, 2.0, 3.0, 5.0])),
        ("stay", text(&["0", "1", "3+", "0"])),
        ("year", number(&[1.0, 2.0, 3.0, 1.0])),
    ]);
    let prepared = prepare(&data, &spec(Response::Linear, "y ~ factor(year, ref=\"2\")")).unwrap();
    assert_eq!(names(&prepared), ["factor(year)[1]", "factor(year)[3]"]);
    let features: Vec<Vec<f64>> = rows(&*prepared.rows).into_iter().map(|(x, _)| x).collect();
    assert_eq!(features, [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [1.0, 0.0]]);
    let mut all = Spec::new("y", Response::Linear);
    all.categorical = vec![Categorical::of_text("stay:ref=3+"), Categorical::of_text("year")];
    assert_eq!(names(&prepare(&data, &all).unwrap()), ["stay[0]", "stay[1]", "year[2]", "year[3]"]);
    for (categorical, word) in [("year:ref=7", "no level '7'"), ("yaer", "did you mean 'year'")] {
        all.categorical = vec![Categorical::of_text(categorical)];
        let error = prepare(&data, &all).err().unwrap().to_string();
        assert!(error.contains(word), "{error}");
    }
    all.features = Features::Terms(vec!["year".into()]);
    all.categorical = vec![Categorical::of_text("stay")];
    assert!(prepare(&data, &all).err().unwrap().to_string().contains("not among the features"));
}

/// The encoding is read back from JSON, and gives every row of the fit again, one at a time.
#[test]
fn functions_are_the_same_for_new_data() {
    let x: Vec<f64> = (1..=12).map(|i| f64::from(i * i) / 10.0).collect();
    let z: Vec<f64> = (0..12).map(|i| f64::from(i * 7 % 12)).collect();
    let y: Vec<f64> = (0..12).map(|i| f64::from(i % 4)).collect();
    let data = table(&[("y", number(&y)), ("x", number(&x)), ("z", number(&z)), ("n", number(&x))]);
    let formula = "y ~ log(x) + x^2 + scale(z) + poly(x, 2)*z + ns(z, 3) + bs(x, 4) + offset(log(n))";
    let prepared = prepare(&data, &spec(Response::Poisson, formula)).unwrap();
    let own = names(&prepared);
    assert_eq!(own[..3], ["log(x)", "I(x^2)", "scale(z)"]);
    assert!(own.contains(&"poly(x, 2)[1]:z") && own.contains(&"ns(z, 3)[3]") && own.contains(&"bs(x, 4)[4]"));
    let fitted = rows(&*prepared.rows);
    assert_eq!((fitted[2].0[0], fitted[2].0[1]), (0.9f64.ln(), 0.9 * 0.9));
    let json = serde_json::to_string(&prepared.encoding).unwrap();
    let encoding: Encoding = serde_json::from_str(&json).unwrap();
    assert_eq!(encoding, prepared.encoding);
    for i in 0..12 {
        let new = table(&[("z", number(&z[i..=i])), ("n", number(&[2.0])), ("x", number(&x[i..=i]))]);
        let encoded = encoding.encode(&new, &Storage::default()).unwrap();
        assert_eq!(rows(&*encoded.rows)[0].0, fitted[i].0, "row {i}");
        encoded.rows.leaf(0, &mut |leaf| assert_eq!(leaf.offset_of(0), 2f64.ln())).unwrap();
    }
    let bad = table(&[("y", number(&[0.0, 1.0])), ("x", number(&[1.0, -1.0]))]);
    let error = prepare(&bad, &spec(Response::Poisson, "y ~ log(x)")).err().unwrap().to_string();
    assert!(error.contains("row 2: the feature 'log(x)' is NaN"), "{error}");
    let error = prepare(&bad, &spec(Response::Poisson, "y ~ poly(x, 3)")).err().unwrap().to_string();
    assert!(error.contains("needs at least 4 different values, but there are 2"), "{error}");
}
