//! Given sds in closed form against the elimination tree, against a model with one group, and what is refused.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;

use certus::Goal;
use certus_data::{Column, Features, GroupSpec, Prepared, Slopes, Spec, Storage, Table, prepare_with};
use certus_likelihood::Response;
use certus_mixed::scales::{Grouping, LinearNoise};
use certus_models::auto::Method;

use super::*;
use crate::method_choice::MethodChoice;
use crate::problem::{ModelKind, Problem};

/// 70 rows of crossed groups a (8 levels) and b (5), with a feature, and their sds.
fn request(sds: [Option<f64>; 2], sigma: Option<f64>) -> (Table, Request) {
    let noise = |i: usize, k: usize| (((i * 7919 + k * 104_729) * 31) % 1009) as f64 / 1009.0 - 0.5;
    let n = 70;
    let column = |of: &dyn Fn(usize) -> f64| Column::Number((0..n).map(of).collect());
    let (a, b) = (|i: usize| i * 5 % 8, |i: usize| (i * 3 + i / 8) % 5);
    let y = |i: usize| {
        2.0 + 1.5 * noise(i, 1)
            + (a(i) as f64 * 2.3).sin()
            + 0.6 * (b(i) as f64 * 1.7).cos()
            + 1.2 * noise(i, 2)
    };
    let columns = vec![
        ("y".into(), column(&y)),
        ("x".into(), column(&|i| 3.0 + noise(i, 1))),
        ("a".into(), column(&|i| a(i) as f64)),
        ("b".into(), column(&|i| b(i) as f64)),
    ];
    let mut spec = Spec::new("y", Response::Linear);
    spec.features = Features::Terms(vec!["x".into()]);
    let group = |name: &str, sd| GroupSpec {
        factor: vec![name.into()],
        slopes: Slopes::Terms(Vec::new()),
        correlated: true,
        sd,
    };
    spec.groups = vec![group("a", sds[0]), group("b", sds[1])];
    (Table::new(columns).unwrap(), Request { sigma, ..Request::new(spec) })
}

fn prepared(table: &Table, request: &Request) -> Prepared {
    prepare_with(table, &request.spec, &Storage::default()).unwrap()
}

/// What the problem makes of a request, with the prior of its coefficients.
fn model(sds: [Option<f64>; 2], sigma: Option<f64>) -> (GivenMixed, Prepared) {
    let (table, request) = request(sds, sigma);
    let problem = Problem::new(&table, &request, &Storage::default()).unwrap();
    let prepared = prepared(&table, &request);
    let unknown =
        UnknownScales::of(&prepared.encoding, Response::Linear, sigma, None, true).unwrap().unwrap();
    let prior = problem.prior.model().unwrap();
    (GivenMixed::new(&prepared, &unknown, prior, sigma).unwrap(), prepared)
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-8 * (1.0 + b.abs()), "{a} {b}");
}

/// Means and sds of coefficients and effects are those of the Gaussian on the elimination tree.
#[test]
fn the_closed_form_is_that_of_the_tree() {
    let (sds, sigma) = ([Some(0.8), Some(0.5)], Some(0.7));
    let (table, request) = request(sds, sigma);
    let problem = Problem::new(&table, &request, &Storage::default()).unwrap();
    assert!(matches!(problem.model_kind, ModelKind::Grouped(_)), "the tree of so few rows is quick");
    let goal = Goal::default();
    let choice = MethodChoice::Auto(Method::Auto);
    let ended = problem.run(&goal, &choice, None, None, &mut |_, _| ControlFlow::Continue(())).unwrap();
    let normals = problem.on_user_scale(&ended.outcome.gaussian);
    let of = |name: &str| {
        let at = problem.quantities.iter().position(|q| q.name == name);
        &normals[at.unwrap_or_else(|| panic!("{name}"))]
    };
    let (own, prepared) = model(sds, sigma);
    let fit = own.fit_at(&[]).unwrap();
    let node = Node { sd: f64::NAN, weight: 1.0, mean: fit.beta, factor: fit.lower, error: 0.0 };
    let nodes = std::slice::from_ref(&node);
    let found = own.effects(nodes, &[Vec::new()], &mut |_| ControlFlow::Continue(())).unwrap().unwrap();
    let coefficients = certus::Gaussian::new(
        node.mean.clone(),
        certus::Factor::Lower(certus::factor::Lower::new(2, node.factor.clone()).unwrap()),
    );
    let dense = crate::coefficient_map::CoefficientMap::dense(prepared.encoding.clone());
    let own_normals = crate::problem::on_user_scale(&dense.quantities(), &coefficients.unwrap());
    for (quantity, normal) in dense.quantities().iter().zip(&own_normals) {
        close(normal.mean, of(&quantity.name).mean);
        close(normal.sd, of(&quantity.name).sd);
    }
    for (k, effect) in found.effects.iter().enumerate() {
        // the first group has its own coefficients on the tree, the second deviations
        let name = match k.checked_sub(8) {
            None => format!("(Intercept)[a={k}] - (Intercept)"),
            Some(level) => format!("(Intercept)[b={level}]"),
        };
        close(effect.mean, of(&name).mean);
        close(effect.sd, of(&name).sd);
    }
    // 13 effects and 2 coefficients: as many draws as are kept
    assert_eq!(found.deviations.len(), DRAWS * 15);
    // nothing is left of the normal equations but rounding; of wrong effects much
    let left = own.residual(&prepared, &node, &found.effects).unwrap();
    assert!(left < 1e-11, "{left}");
    let mut wrong = found.effects.clone();
    wrong[3].mean += 0.01 * wrong[3].sd;
    let left = own.residual(&prepared, &node, &wrong).unwrap();
    assert!((0.01..0.1).contains(&left), "{left}");
}

/// With one group, sums over the rows of each group say the same at all scales, and where the sd of the other group
/// is next to nothing.
#[test]
fn one_group_is_that_of_sums() {
    let (own, prepared) = model([Some(0.8), Some(1e-9)], None);
    let (table, asked) = request([None, Some(1e-9)], None);
    let problem = Problem::new(&table, &asked, &Storage::default()).unwrap();
    let ModelKind::Collapsed(scale_model) = &problem.model_kind else { panic!("not all is given") };
    let two = scale_model.model.closed_form().expect("sds are given");
    let codes: Vec<usize> = prepared.codes[0].iter().map(|c| *c as usize).collect();
    let grouping = Grouping { codes: &codes, column: None, shift: 0.0 };
    let prior = problem.prior.model().unwrap();
    let sums = LinearNoise::new(&prepared.design().unwrap(), Some(grouping), prior).unwrap();
    for sigma in [0.4, 0.75, 2.0] {
        let x = sums.at_logs(&[0.8_f64.ln(), f64::ln(sigma)]);
        let expected = sums.conditional_fit(&x, &[], Care::Full).unwrap();
        for found in [own.fit_at(&[sigma]).unwrap(), two.fit_at(&[0.8, sigma]).unwrap()] {
            close(found.value, expected.value);
            close(found.log_likelihood, expected.log_likelihood);
            close(found.log_det, expected.log_det);
            found.beta.iter().zip(&expected.beta).for_each(|(a, b)| close(*a, *b));
            found.lower.iter().zip(&expected.lower).for_each(|(a, b)| close(*a, *b));
        }
    }
}

/// The grid over sigma against sums over a fine one, and the mixture of its effects.
#[test]
fn the_posterior_of_sigma_is_that_of_a_fine_grid() {
    let sds = [Some(0.8), Some(0.5)];
    let (table, asked) = request(sds, None);
    let problem = Problem::new(&table, &asked, &Storage::default()).unwrap();
    let goal = Goal::default();
    let choice = MethodChoice::Auto(Method::Auto);
    let ended = problem.run(&goal, &choice, None, None, &mut |_, _| ControlFlow::Continue(())).unwrap();
    let scales = ended.scales.as_ref().unwrap();
    let ModelKind::Collapsed(scale_model) = &problem.model_kind else { panic!("sigma is not given") };
    let own = scale_model.model.closed_form().expect("sds are given");
    let (mut total, mut first, mut beta) = (0.0, 0.0, 0.0);
    let step = 0.005;
    let at = |k: i32| (0.4_f64.ln() + step * f64::from(k)).exp();
    let density = |sigma: f64| {
        let fit = own.fit_at(&[sigma]).unwrap();
        let prior = scale_model.priors[0].log_density(sigma) + sigma.ln();
        (prior - fit.value - 0.5 * fit.log_det, fit.beta[1])
    };
    let top = density(0.4).0;
    for sigma in (-200..=200).map(at) {
        let (log, slope) = density(sigma);
        let weight = (log - top).exp();
        total += weight;
        first += weight * sigma;
        beta += weight * slope;
    }
    let (_, scale) = problem.prepared.encoding.center_and_scale();
    let printed = |name: &str| {
        let own = scales.parameters.iter().find(|p| p.name == name).unwrap();
        (own.mean.unwrap(), own.sd.unwrap())
    };
    let (mean, sd) = printed("sigma");
    assert!((mean - first / total).abs() < 2e-3 * sd, "{mean} {}", first / total);
    let (mean, sd) = printed("x");
    assert!((mean - beta / total / scale[0]).abs() < 2e-3 * sd, "{mean} {}", beta / total / scale[0]);
    assert_eq!(scales.groups.len(), 13);
    assert!(scales.scale.as_ref().is_some_and(|s| s.name == "sigma" && s.others.is_empty()));
}

/// Draws of coefficients and effects have the covariances that are stated: of a sum of them within 4 standard errors.
#[test]
fn draws_have_the_stated_variances() {
    let (own, _) = model([Some(0.8), Some(0.5)], Some(0.7));
    let fit = own.fit_at(&[]).unwrap();
    let node = Node { sd: f64::NAN, weight: 1.0, mean: fit.beta, factor: fit.lower, error: 0.0 };
    let found = own.effects(&[node], &[Vec::new()], &mut |_| ControlFlow::Continue(())).unwrap().unwrap();
    let count = DRAWS as f64;
    for (e, effect) in found.effects.iter().enumerate() {
        let each = || found.deviations.chunks_exact(15);
        let variance = each().map(|d| d[2 + e] * d[2 + e]).sum::<f64>() / count;
        let z = (variance / (effect.sd * effect.sd) - 1.0) / (2.0 / count).sqrt();
        assert!(z.abs() < 4.5, "{e}: {z}");
        for (c, covariance) in effect.covariance.iter().enumerate() {
            let own = each().map(|d| d[2 + e] * d[c]).sum::<f64>() / count;
            let spread = each().map(|d| (d[2 + e] * d[c] - own).powi(2)).sum::<f64>().sqrt() / count;
            assert!((own - covariance).abs() < 4.5 * spread, "{e} {c}: {own} {covariance}");
        }
    }
}

#[test]
fn what_beside_given_sds_is_refused() {
    let said = |sds, sigma, change: &dyn Fn(&mut Request)| {
        let (table, mut asked) = request(sds, sigma);
        change(&mut asked);
        Problem::new(&table, &asked, &Storage::default()).err().map(|e| e.to_string()).unwrap_or_default()
    };
    let slopes = |asked: &mut Request| {
        asked.spec.groups[0].slopes = Slopes::Terms(vec!["x".into()]);
        asked.spec.groups[0].correlated = false;
    };
    assert!(said([Some(0.8), Some(0.5)], None, &slopes).contains("intercepts alone vary"));
    assert!(said([None, Some(0.5)], None, &slopes).contains("3 other scales are not"));
    assert_eq!(said([None, Some(0.5)], None, &|_| ()), "");
    assert_eq!(said([None, Some(0.5)], Some(1.0), &|_| ()), "");
    let reml = |asked: &mut Request| asked.scale = asked.scale.with_criterion(Criterion::Reml).unwrap();
    assert!(said([Some(0.8), Some(0.5)], None, &reml).contains("none of whose sds is given"));
}

/// Crossed groups are integrated out from a size of their tree on.
#[test]
fn a_deep_tree_is_not_built() {
    let n = 1300_usize;
    let with = |levels: usize, sigma: Option<f64>| {
        let (_, mut asked) = request([Some(0.8), Some(0.5)], sigma);
        asked.spec.features = Features::Terms(Vec::new());
        let column = |of: &dyn Fn(usize) -> usize| Column::Number((0..n).map(|i| of(i) as f64).collect());
        let columns = vec![
            ("y".into(), column(&|i| i * 37 % 11)),
            ("a".into(), column(&|i| i)),
            ("b".into(), column(&|i| i % levels)),
        ];
        let prepared = prepared(&Table::new(columns).unwrap(), &asked);
        integrated(&prepared, &asked)
    };
    // 1,300 × 876² < 10⁹ < 1,300 × 878²
    assert!(!with(875, Some(1.0)) && with(877, Some(1.0)) && !with(877, None));
}
