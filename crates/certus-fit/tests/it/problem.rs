//! From latents to the user's scale and to new rows, against least squares by hand and sums of named coefficients.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;

use certus::Gaussian;
use certus::factor::{Factor, Lower};
use certus_data::{Column, Features, GroupSpec, Spec, Storage, Table};
use certus_fit::{Levels, ModelKind, Problem, Request, Responses, predict};
use certus_likelihood::Response;
use certus_models::laplace;

fn table(columns: &[(&str, &[f64])]) -> Table {
    let own = |(name, values): &(&str, &[f64])| (name.to_string(), Column::Number(values.to_vec()));
    Table::new(columns.iter().map(own).collect()).unwrap()
}

/// The inverse by Gauss-Jordan.
fn inverse(mut a: [[f64; 3]; 3]) -> [[f64; 3]; 3] {
    let mut out = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    for k in 0..3 {
        let pivot = a[k][k];
        (0..3).for_each(|j| (a[k][j], out[k][j]) = (a[k][j] / pivot, out[k][j] / pivot));
        for i in (0..3).filter(|&i| i != k) {
            let f = a[i][k];
            (0..3).for_each(|j| (a[i][j], out[i][j]) = (a[i][j] - f * a[k][j], out[i][j] - f * out[k][j]));
        }
    }
    out
}

const Y: [f64; 6] = [1.0, 3.5, 2.0, 4.0, 0.5, 6.0];
const A: [f64; 6] = [10.0, 12.0, 9.0, 11.0, 10.5, 13.0];
const B: [f64; 6] = [0.1, -0.4, 0.3, 0.2, -0.1, 0.5];

/// With flat priors the posterior is N((XᵀX)⁻¹Xᵀy, σ²(XᵀX)⁻¹), on whatever scale the model works.
#[test]
fn coefficients_and_predictions_are_those_of_least_squares() {
    let sigma = 0.5;
    let row = |i: usize| [1.0, A[i], B[i]];
    let sum = |f: &dyn Fn(usize) -> f64| (0..6).map(f).sum::<f64>();
    let mut gram = [[0.0; 3]; 3];
    for j in 0..3 {
        (0..3).for_each(|k| gram[j][k] = sum(&|i| row(i)[j] * row(i)[k]));
    }
    let cov = inverse(gram).map(|r| r.map(|x| sigma * sigma * x));
    let right: Vec<f64> = (0..3).map(|j| sum(&|i| row(i)[j] * Y[i]) / (sigma * sigma)).collect();
    let beta: Vec<f64> = (0..3).map(|j| (0..3).map(|k| cov[j][k] * right[k]).sum()).collect();
    for standardise in [true, false] {
        let mut request = Request::new(Spec::new("y", Response::Linear));
        request.spec.standardise = standardise;
        (request.sigma, request.prior_sd, request.intercept_prior_sd) =
            (Some(sigma), f64::INFINITY, f64::INFINITY);
        let data = table(&[("y", &Y), ("a", &A), ("b", &B)]);
        let problem = Problem::new(&data, &request, &Storage::default()).unwrap();
        let ModelKind::Dense(model) = &problem.model_kind else { panic!("there are no groups") };
        let w = laplace(model).unwrap().gaussian;
        assert_eq!(
            problem.quantities.iter().map(|q| q.name.as_str()).collect::<Vec<_>>(),
            ["(Intercept)", "a", "b"]
        );
        // XᵀX has a condition number near 1e5, so about 1e-11 of the sizes is lost by hand
        for (j, normal) in problem.on_user_scale(&w).iter().enumerate() {
            assert!((normal.mean - beta[j]).abs() < 1e-9 * (1.0 + beta[j].abs()), "{j}: {normal:?}");
            assert!((normal.sd / cov[j][j].sqrt() - 1.0).abs() < 1e-9, "{j}: {normal:?}");
        }
        let new = [1.0, 7.0, 2.0];
        let rows = table(&[("b", &new[2..]), ("a", &new[1..2])]);
        let got = predict(
            &Responses::expected(Response::Linear.link(), Levels::new(None, false).unwrap()),
            &problem.meaning,
            &w,
            &rows,
            &Storage::default(),
        )
        .unwrap();
        let got = &got.rows[0];
        let mean: f64 = (0..3).map(|j| new[j] * beta[j]).sum();
        let variance: f64 = (0..9).map(|k| new[k / 3] * cov[k / 3][k % 3] * new[k % 3]).sum();
        assert!((got.mean - mean).abs() < 1e-8 && got.mean == got.linear_mean, "{got:?} {mean}");
        assert!((got.linear_sd / variance.sqrt() - 1.0).abs() < 1e-8, "{got:?} {variance}");
        assert!(
            (got.quantiles[2] - got.quantiles[0] - 2.0 * 1.644_853_626_951_472_2 * got.linear_sd).abs()
                < 1e-9
        );
    }
}

/// The offset of a new row is added to its linear predictor.
#[test]
fn offsets_are_added_to_predictions() {
    let mut spec = Spec::new("y", Response::Linear);
    (spec.features, spec.offset) = (Features::Terms(vec!["a".into()]), Some("b".into()));
    let mut request = Request::new(spec);
    request.sigma = Some(0.5);
    let data = table(&[("y", &Y), ("a", &A), ("b", &B)]);
    let problem = Problem::new(&data, &request, &Storage::default()).unwrap();
    let ModelKind::Dense(model) = &problem.model_kind else { panic!("there are no groups") };
    let w = laplace(model).unwrap().gaussian;
    let [intercept, slope] = [0, 1].map(|j| problem.on_user_scale(&w)[j].mean);
    let got = predict(
        &Responses::expected(Response::Linear.link(), Levels::new(None, false).unwrap()),
        &problem.meaning,
        &w,
        &data,
        &Storage::default(),
    )
    .unwrap();
    for (i, row) in got.rows.iter().enumerate() {
        assert!((row.linear_mean - (intercept + slope * A[i] + B[i])).abs() < 1e-9, "{i}: {row:?}");
    }
}

/// A row's predictor is the sum of the coefficients that the table of results shows for it: those of its innermost
/// group, of all rows where that has none, and the deviations of a crossed factor.
#[test]
fn predictors_are_sums_of_the_coefficients_shown() {
    let school = [1.0, 1.0, 2.0, 2.0, 2.0, 1.0];
    let class = [1.0, 2.0, 1.0, 1.0, 2.0, 2.0];
    let day = [5.0, 6.0, 7.0, 5.0, 6.0, 7.0];
    let y = [0.0, 1.0, 0.0, 1.0, 1.0, 0.0];
    let data =
        table(&[("y", &y), ("a", &A), ("b", &B), ("school", &school), ("class", &class), ("day", &day)]);
    let mut spec = Spec::new("y", Response::Logistic);
    spec.features = Features::Terms(vec!["a".into(), "b".into()]);
    spec.groups = GroupSpec::all(&["school/class:: b".into(), "day:: a".into()], &["1".into()]).unwrap();
    let problem = Problem::new(&data, &Request::new(spec), &Storage::default()).unwrap();
    let dim = problem.meaning.dim();
    let z: Vec<f64> = (0..dim).map(|i| (1.0 + i as f64 * 0.7).sin()).collect();
    let of = |terms: &[(usize, f64)]| terms.iter().map(|(i, a)| a * z[*i]).sum::<f64>();
    let shown: HashMap<&str, f64> =
        problem.quantities.iter().map(|q| (q.name.as_str(), of(&q.terms))).collect();
    let value = |name: &str, place: &str| shown[format!("{name}[{place}]").as_str()];
    let rows = problem.meaning.rows();
    let mut terms = Vec::new();
    for i in 0..6 {
        let levels: Vec<usize> = problem.prepared.codes.iter().map(|codes| codes[i] as usize).collect();
        rows.terms(&[A[i], B[i]], &levels, &mut terms);
        let inner = format!("school/class={}/{}", school[i], class[i]);
        let day = format!("day={}", day[i]);
        let own = value("(Intercept)", &inner) + value("b", &inner) * B[i] + shown["a"] * A[i];
        let deviation = value("(Intercept)", &day) + value("a", &day) * A[i];
        assert!((of(&terms) - own - deviation).abs() < 1e-12, "row {i}: {} {own} {deviation}", of(&terms));
        // and what is shown as a deviation is the difference of what is shown
        let outer = format!("school={}", school[i]);
        let difference = shown[format!("b[{inner}] - b[{outer}]").as_str()];
        assert!((difference - (value("b", &inner) - value("b", &outer))).abs() < 1e-12);
    }
    // a Gaussian with this mean says the same of new rows
    let mut factor = vec![0.0; dim * dim];
    factor.iter_mut().step_by(dim + 1).for_each(|x| *x = 0.1);
    let w = Gaussian::new(z.clone(), Factor::Lower(Lower::new(dim, factor).unwrap())).unwrap();
    let got = predict(
        &Responses::expected(Response::Logistic.link(), Levels::new(None, false).unwrap()),
        &problem.meaning,
        &w,
        &data,
        &Storage::default(),
    )
    .unwrap();
    for (i, prediction) in got.rows.iter().enumerate() {
        let levels: Vec<usize> = problem.prepared.codes.iter().map(|codes| codes[i] as usize).collect();
        rows.terms(&[A[i], B[i]], &levels, &mut terms);
        let sd = 0.1 * terms.iter().map(|(_, a)| a * a).sum::<f64>().sqrt();
        assert!((prediction.linear_mean - of(&terms)).abs() < 1e-12);
        assert!((prediction.linear_sd - sd).abs() < 1e-12);
    }
}
