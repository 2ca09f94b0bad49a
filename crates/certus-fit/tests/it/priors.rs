//! Priors of coefficients: their units, means that are not 0 in every kind of model, and the notes on priors that win
//! and on responses that are separated or constant.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;

use certus::{Goal, Outcome};
use certus_data::{Column, Features, GroupSpec, Slopes, Spec, Storage, Table};
use certus_fit::{
    CoefficientPrior, ErrorKind, MethodChoice, Normal, Numbers, Problem, Request, ScaleRequest,
};
use certus_likelihood::Response;

fn wave(k: f64, i: usize) -> f64 {
    (k * (i + 1) as f64).sin() + 0.3 * (0.37 * k * (i + 3) as f64).cos()
}

fn number(name: &str, n: usize, f: impl Fn(usize) -> f64) -> (String, Column) {
    (name.into(), Column::Number((0..n).map(f).collect()))
}

fn text(name: &str, n: usize, f: impl Fn(usize) -> String) -> (String, Column) {
    (name.into(), Column::Text((0..n).map(|i| Some(f(i))).collect()))
}

fn terms(names: &[&str]) -> Features {
    Features::Terms(names.iter().map(|s| s.to_string()).collect())
}

fn problem(data: &Table, request: &Request) -> Problem {
    Problem::new(data, request, &Storage::default()).unwrap()
}

fn choice() -> MethodChoice {
    MethodChoice::new("auto", None, None, Numbers::default()).unwrap()
}

/// Fits whatever kind of model it is.
fn outcome(problem: &Problem, gap: f64) -> Outcome {
    let goal = Goal { gap, ..Goal::default() };
    problem.run(&goal, &choice(), None, None, &mut |_, _| ControlFlow::Continue(())).unwrap().outcome
}

fn fitted(data: &Table, request: &Request) -> Vec<Normal> {
    let problem = problem(data, request);
    let outcome = outcome(&problem, 1e-10);
    problem.on_user_scale(&outcome.gaussian)
}

fn notes(data: &Table, request: &Request) -> Vec<String> {
    let problem = problem(data, request);
    let outcome = outcome(&problem, 0.01);
    problem.notes_of(&Goal::default(), &outcome)
}

fn sd(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt()
}

/// P1: numbers are scaled by their sd, two-valued columns by their step, levels not at all, interactions by the product
/// over their parts.
#[test]
fn units_of_features() {
    let n = 60;
    let x = |i: usize| 40.0 + 7.0 * wave(2.1, i);
    let z = |i: usize| -3.0 + 0.2 * wave(5.3, i);
    let data = Table::new(vec![
        number("y", n, |i| f64::from(u8::from(wave(11.7, i) > 0.0))),
        number("x", n, x),
        number("z", n, z),
        number("flag", n, |i| f64::from(u8::from(i % 5 == 0))),
        number("code", n, |i| if i % 4 == 1 { 20.0 } else { 10.0 }),
        ("wet".into(), Column::Boolean((0..n).map(|i| Some(i % 7 < 2)).collect())),
        text("city", n, |i| ["Delft", "Leiden", "Utrecht"][i % 3].into()),
    ])
    .unwrap();
    let mut spec = Spec::new("y", Response::Logistic);
    let all = ["x", "flag", "code", "wet", "city", "x:city", "flag:city", "x:z", "x:flag", "code:z"];
    spec.features = terms(&all);
    let [sx, sz] = [&x as &dyn Fn(usize) -> f64, &z].map(|f| sd(&(0..n).map(f).collect::<Vec<_>>()));
    let wanted = [
        ("x", sx),
        ("flag", 1.0),
        ("code", 10.0),
        ("wet", 1.0),
        ("city[Leiden]", 1.0),
        ("city[Utrecht]", 1.0),
        ("x:city[Leiden]", sx),
        ("x:city[Utrecht]", sx),
        ("flag:city[Leiden]", 1.0),
        ("flag:city[Utrecht]", 1.0),
        ("x:z", sx * sz),
        ("x:flag", sx),
        ("code:z", 10.0 * sz),
    ];
    let made = problem(&data, &Request::new(spec.clone()));
    let features = &made.prepared.encoding.features;
    assert_eq!(features.len(), wanted.len());
    for (j, (feature, (name, unit))) in features.iter().zip(wanted).enumerate() {
        assert_eq!(feature.name, name);
        let own = feature.unit.unwrap();
        assert!((own / unit - 1.0).abs() < 1e-12, "{name}: {own}, by hand {unit}");
        // the design divides by it, and the prior sd of what is left is 2.5
        assert_eq!((made.prior.mean[1 + j], made.prior.sd[1 + j]), (0.0, 2.5), "{name}");
    }
    assert_eq!(made.prior.sd[0], 10.0);
    for line in ["flag ~ N(0, 2.5²)", "code ~ N(0, 0.25²)", "city[Leiden] ~ N(0, 2.5²)"] {
        assert!(made.priors.iter().any(|p| p == line), "{:?}", made.priors);
    }
    spec.standardise = false;
    let raw = problem(&data, &Request::new(spec));
    assert!(raw.priors[1..].iter().all(|line| line.ends_with("~ N(0, 2.5²)")), "{:?}", raw.priors);
}

/// A fit of an older version, whose features have no unit of their own, divided by their sds.
#[test]
fn older_encodings_divide_by_sds() {
    let data = Table::new(vec![
        number("y", 20, |i| wave(11.7, i)),
        number("flag", 20, |i| f64::from(u8::from(i % 5 == 0))),
    ])
    .unwrap();
    let made = problem(&data, &Request::new(Spec::new("y", Response::Linear)));
    assert_eq!(made.prepared.encoding.center_and_scale().1, [1.0]);
    let mut old = serde_json::to_value(&made.prepared.encoding).unwrap();
    assert!(old["features"][0].as_object_mut().unwrap().remove("unit").is_some());
    let old: certus_data::Encoding = serde_json::from_value(old).unwrap();
    assert!((old.center_and_scale().1[0] - 0.4).abs() < 1e-15);
}

/// Solves the normal equations with a prior: (XᵀX/σ² + J) β = Xᵀy/σ² + Jμ.
fn ridge(x: &[Vec<f64>], y: &[f64], sigma: f64, prior: &[(f64, f64)]) -> (Vec<f64>, Vec<f64>) {
    let d = prior.len();
    let mut a = vec![vec![0.0; 2 * d + 1]; d];
    for j in 0..d {
        let pull = 1.0 / prior[j].1.powi(2);
        for k in 0..d {
            a[j][k] = x.iter().map(|r| r[j] * r[k]).sum::<f64>() / (sigma * sigma);
        }
        a[j][j] += pull;
        a[j][d] = x.iter().zip(y).map(|(r, y)| r[j] * y).sum::<f64>() / (sigma * sigma) + pull * prior[j].0;
        a[j][d + 1 + j] = 1.0;
    }
    for k in 0..d {
        let pivot = a[k][k];
        a[k].iter_mut().for_each(|v| *v /= pivot);
        let row = a[k].clone();
        for i in (0..d).filter(|i| *i != k) {
            let f = a[i][k];
            a[i].iter_mut().zip(&row).for_each(|(v, r)| *v -= f * r);
        }
    }
    let means = (0..d).map(|j| a[j][d]).collect();
    (means, (0..d).map(|j| a[j][d + 1 + j].sqrt()).collect())
}

/// T10: with sigma, priors of a linear model are in sds of the response, less its offset, and the intercept's is about
/// its mean; one coefficient has a mean and an sd of its own. Against the normal equations of the centred features.
#[test]
fn linear_priors_are_in_sds_of_the_response() {
    let n = 40;
    let x = |i: usize| 4.5 + 2.9 * wave(2.1, i);
    let flag = |i: usize| f64::from(u8::from(i.is_multiple_of(3)));
    let offset = |i: usize| 5.0 * wave(0.9, i);
    let y = |i: usize| 250.0 + 10.0 * x(i) - 20.0 * flag(i) + 30.0 * wave(12.9, i) + offset(i);
    let data = Table::new(vec![
        number("y", n, y),
        number("x", n, x),
        number("flag", n, flag),
        number("o", n, offset),
    ])
    .unwrap();
    for with_offset in [false, true] {
        let mut request = Request::new(Spec::new("y", Response::Linear));
        request.spec.features = terms(&["x", "flag"]);
        request.spec.offset = with_offset.then(|| "o".into());
        request.sigma = Some(48.0);
        request.priors.insert("flag".into(), CoefficientPrior { mean: Some(-0.4), sd: Some(0.1) });
        let left: Vec<f64> = (0..n).map(|i| y(i) - if with_offset { offset(i) } else { 0.0 }).collect();
        let (mean, unit) = (left.iter().sum::<f64>() / n as f64, sd(&left));
        let sx = sd(&(0..n).map(x).collect::<Vec<_>>());
        let [mx, mf] = [&x as &dyn Fn(usize) -> f64, &flag].map(|f| (0..n).map(f).sum::<f64>() / n as f64);
        let rows: Vec<Vec<f64>> = (0..n).map(|i| vec![1.0, x(i) - mx, flag(i) - mf]).collect();
        let prior = [(mean, 10.0 * unit), (0.0, 2.5 * unit / sx), (-0.4 * unit, 0.1 * unit)];
        let (means, sds) = ridge(&rows, &left, 48.0, &prior);
        let found = fitted(&data, &request);
        for (j, name) in [(1, "x"), (2, "flag")] {
            assert!((found[j].mean - means[j]).abs() < 1e-6 * sds[j], "{name}: {:?} {}", found[j], means[j]);
            assert!((found[j].sd / sds[j] - 1.0).abs() < 1e-6, "{name}");
        }
        let intercept = means[0] - means[1] * mx - means[2] * mf;
        assert!((found[0].mean - intercept).abs() < 1e-6 * sds[0], "{:?} {intercept}", found[0]);
        let lines = problem(&data, &request).priors;
        assert!(lines[2].starts_with("flag ~ N(-"), "{lines:?}");
    }
}

/// Sigma given or found, groups or none: the same priors.
#[test]
fn one_unit_whether_or_not_scales_are_given() {
    let n = 60;
    let data = Table::new(vec![
        number("y", n, |i| 250.0 + 12.0 * wave(2.1, i) + 40.0 * wave(12.9, i)),
        number("x", n, |i| wave(2.1, i)),
        text("g", n, |i| format!("g{}", i % 6)),
    ])
    .unwrap();
    let lines = |sigma: Option<f64>, groups: Option<Option<f64>>| {
        let mut request = Request::new(Spec::new("y", Response::Linear));
        request.spec.features = terms(&["x"]);
        request.sigma = sigma;
        let group = |sd| GroupSpec {
            factor: vec!["g".into()],
            slopes: Slopes::Terms(Vec::new()),
            sd,
            correlated: false,
        };
        request.spec.groups = groups.into_iter().map(group).collect();
        problem(&data, &request).priors
    };
    let plain = lines(None, None);
    assert!(plain[0].starts_with("(Intercept) ~ N(2"), "{plain:?}");
    for other in [
        lines(Some(30.0), None),
        lines(Some(30.0), Some(Some(20.0))),
        lines(Some(30.0), Some(None)),
        lines(None, Some(None)),
    ] {
        assert_eq!(other[..2], plain[..2]);
    }
    // the sd between groups, too
    assert_eq!(lines(Some(30.0), Some(None))[2], lines(None, Some(None))[2]);
}

/// A prior mean μ of a coefficient is the same as an offset xμ and a mean of 0, in every kind of model: the coefficient
/// is moved by μ, everything else stays.
#[test]
fn a_prior_mean_is_an_offset() {
    let n = 72;
    let x = |i: usize| 2.0 + 1.5 * wave(2.1, i);
    let unit = sd(&(0..n).map(x).collect::<Vec<_>>());
    let moved = 0.7;
    let t = |i: usize| 0.4 - 0.5 * x(i) + 0.8 * wave(0.7, i % 6);
    let luck = |i: usize| ((i * 7919) % 1000) as f64 / 1000.0;
    let columns = |y: &dyn Fn(usize) -> f64| {
        Table::new(vec![
            number("y", n, y),
            number("x", n, x),
            number("b", n, |i| f64::from(u8::from(i % 4 == 0))),
            text("g", n, |i| format!("g{}", i % 6)),
            // centred, so that the intercept of an average row is the same
            number("o", n, |i| moved * (x(i) - (0..n).map(x).sum::<f64>() / n as f64) / unit),
            number("raw", n, |i| moved * x(i)),
        ])
        .unwrap()
    };
    let binary = columns(&|i| f64::from(u8::from(luck(i) < 1.0 / (1.0 + (-t(i)).exp()))));
    let counts = columns(&|i| (t(i).exp() * 2.0 * luck(i) + 0.3 * (i % 3) as f64).floor());
    let normal = columns(&|i| t(i) + 0.6 * wave(12.9, i));
    let group = |sd| {
        vec![GroupSpec { factor: vec!["g".into()], slopes: Slopes::Terms(Vec::new()), sd, correlated: false }]
    };
    for (what, data, family, groups) in [
        // as it is, for the sd of a response is another without its offset
        ("raw", &normal, Response::Linear, vec![]),
        ("raw of unknown noise", &normal, Response::Linear, vec![]),
        ("raw of unknown noise and groups", &normal, Response::Linear, group(None)),
        ("dense", &binary, Response::Logistic, vec![]),
        ("probit", &binary, Response::Probit, vec![]),
        ("groups", &binary, Response::Logistic, group(Some(0.8))),
        ("groups integrated out", &binary, Response::Logistic, group(None)),
        ("counts", &counts, Response::Poisson, vec![]),
        ("counts of unknown dispersion", &counts, Response::NegativeBinomial, vec![]),
    ] {
        let mut request = Request::new(Spec::new("y", family));
        (request.spec.features, request.spec.groups) = (terms(&["x", "b"]), groups);
        if what == "groups integrated out" {
            request.scale = ScaleRequest::new(None, None, Some("estimate")).unwrap();
        }
        let raw = what.starts_with("raw");
        request.spec.standardise = !raw;
        request.sigma = (what == "raw").then_some(0.7);
        let mut with = request.clone();
        with.priors.insert("x".into(), CoefficientPrior { mean: Some(moved), sd: None });
        request.spec.offset = Some(if raw { "raw" } else { "o" }.into());
        let (a, b) = (fitted(data, &with), fitted(data, &request));
        // slopes per unit of x; a mean over a grid of scales is right to 1e-3 sd
        let tolerance = if what.contains("unknown") || what.contains("integrated") { 2e-3 } else { 1e-4 };
        for (j, shift) in [(1, if raw { moved } else { moved / unit }), (2, 0.0)] {
            let (a, b) = (&a[j], &b[j]);
            assert!((a.mean - b.mean - shift).abs() < tolerance * a.sd, "{what} {j}: {a:?} {b:?}");
            assert!((a.sd / b.sd - 1.0).abs() < tolerance, "{what} {j}: {a:?} {b:?}");
        }
        // and it is not the same as a mean of 0
        let mut without = with.clone();
        without.priors.clear();
        assert!((fitted(data, &without)[1].mean - a[1].mean).abs() > 1e-3 * a[1].sd, "{what}");
    }
}

#[test]
fn priors_that_make_no_sense_are_refused() {
    let data =
        Table::new(vec![number("y", 9, |i| (i % 2) as f64), number("x", 9, |i| wave(2.0, i))]).unwrap();
    for (prior, prior_sd, word) in [
        (CoefficientPrior { mean: Some(f64::NAN), sd: None }, 2.5, "finite"),
        (CoefficientPrior { mean: Some(1.0), sd: Some(f64::INFINITY) }, 2.5, "no effect"),
        (CoefficientPrior { mean: Some(1.0), sd: None }, f64::INFINITY, "no effect"),
        (CoefficientPrior { mean: Some(1.0), sd: Some(0.0) }, 2.5, "above 0"),
    ] {
        let mut request = Request::new(Spec::new("y", Response::Logistic));
        request.prior_sd = prior_sd;
        request.priors.insert("x".into(), prior);
        let error = Problem::new(&data, &request, &Storage::default()).err().unwrap();
        assert!(error.kind() == ErrorKind::Request && error.to_string().contains(word), "{error}");
    }
}

/// P2: a prior that wins is named, with what the coefficient would be without it, which is the fit without that prior;
/// the usual prior is not.
#[test]
fn prior_and_data_disagree() {
    let n = 50;
    let data = Table::new(vec![
        number("y", n, |i| 250.0 + 30.0 * wave(2.1, i) + 20.0 * wave(12.9, i)),
        number("x", n, |i| wave(2.1, i)),
        number("z", n, |i| wave(4.4, i)),
    ])
    .unwrap();
    let mut request = Request::new(Spec::new("y", Response::Linear));
    request.sigma = Some(20.0);
    let calm = notes(&data, &request);
    assert!(!calm.iter().any(|note| note.contains("disagree")), "{calm:?}");
    request.priors.insert("x".into(), 0.02.into());
    let found = notes(&data, &request);
    let note = found.iter().find(|note| note.contains("disagree")).unwrap_or_else(|| panic!("{found:?}"));
    let mut flat = request.clone();
    flat.priors.insert("x".into(), f64::INFINITY.into());
    let (with, alone) = (fitted(&data, &request)[1].clone(), fitted(&data, &flat)[1].clone());
    let numbers: Vec<f64> = note
        .split_whitespace()
        .filter_map(|word| word.trim_matches(|c: char| ",;²)(N".contains(c)).parse().ok())
        .collect();
    // x is m ± s with its prior N(0, p²) and about m ± s without it (k posterior sds)
    let [m, s, .., a, b, k] = numbers[..] else { panic!("{note}") };
    for (printed, exact) in [(m, with.mean), (s, with.sd), (a, alone.mean), (b, alone.sd)] {
        assert!((printed / exact - 1.0).abs() < 6e-3, "{note}: {printed} {exact}");
    }
    assert!((k / ((alone.mean - with.mean).abs() / with.sd) - 1.0).abs() < 6e-3 && k > 0.5, "{note}");
    assert_eq!(found.iter().filter(|note| note.contains("disagree")).count(), 1, "{found:?}");
    // just below the threshold nothing is said: half a posterior sd; far above it, where hardly anything but the prior
    // is left, it is
    let mut last = false;
    for step in -40..40 {
        request.priors.insert("x".into(), (0.02 * 1.15f64.powi(step)).into());
        let said = notes(&data, &request).iter().any(|note| note.contains("disagree"));
        let (with, alone) = (fitted(&data, &request)[1].clone(), fitted(&data, &flat)[1].clone());
        let moved = (alone.mean - with.mean).abs() / with.sd;
        if (moved - 0.5).abs() > 0.02 {
            assert_eq!(said, moved > 0.5, "{moved}");
        }
        last = said;
    }
    assert!(!last);
    // a narrow prior that the data do not contradict is no disagreement
    request.priors.insert(
        "x".into(),
        CoefficientPrior { mean: Some(alone.mean / unit(&data, &request)), sd: Some(1e-4) },
    );
    assert!(!notes(&data, &request).iter().any(|note| note.contains("disagree")));
}

/// What a prior mean of 1 is for x on the user's scale.
fn unit(data: &Table, request: &Request) -> f64 {
    let made = problem(data, request);
    made.prior.sd[2] / 2.5 / made.prepared.encoding.center_and_scale().1[0]
}

fn separated(data: &Table, response: Response) -> Option<String> {
    let mut request = Request::new(Spec::new("y", response));
    request.spec.trials = (response == Response::Binomial).then(|| "n".into());
    let names: Vec<String> =
        ["a", "b", "city"].into_iter().filter(|name| has(data, name)).map(String::from).collect();
    request.spec.features = Features::Terms(names);
    notes(data, &request).into_iter().find(|note| note.contains("separate the response"))
}

fn has(data: &Table, name: &str) -> bool {
    use certus_data::Source;
    data.columns().iter().any(|c| c.name == name)
}

/// P3: directions of every kind, and what is nearly one.
#[test]
fn separated_responses_are_named() {
    let n = 24;
    let a = |i: usize| wave(2.1, i);
    let of = |y: &dyn Fn(usize) -> f64, more: Vec<(String, Column)>| {
        let mut columns = vec![number("y", n, y), number("a", n, a)];
        columns.extend(more);
        Table::new(columns).unwrap()
    };
    let step = |i: usize| f64::from(u8::from(a(i) > 0.1));
    // one number, completely, either way round
    let note = separated(&of(&step, vec![]), Response::Logistic).unwrap();
    assert!(note.contains("y is 1 wherever a > ") && note.contains("and 0 wherever a < "), "{note}");
    let note = separated(&of(&|i| 1.0 - step(i), vec![]), Response::Probit).unwrap();
    assert!(note.contains("y is 1 wherever a < ") && note.contains("and 0 wherever a > "), "{note}");
    // all rows but one: none
    let nearly = |i: usize| if i == 5 { 1.0 - step(i) } else { step(i) };
    assert_eq!(separated(&of(&nearly, vec![]), Response::Logistic), None);
    // a level whose responses are all 1, the others mixed
    let luck = |i: usize| f64::from(u8::from((i * 7919) % 10 < 5));
    let city = |pure: &'static str| {
        let names = ["Delft", "Leiden", "Utrecht"];
        let own = move |i: usize| names[i % 3];
        let y = move |i: usize| if own(i) == pure { 1.0 } else { luck(i) };
        of(&y, vec![text("city", n, |i| own(i).into())])
    };
    for pure in ["Leiden", "Utrecht", "Delft"] {
        let note = separated(&city(pure), Response::Logistic).unwrap_or_else(|| panic!("{pure}"));
        assert!(note.contains(&format!("y is 1 wherever city is {pure}")), "{note}");
    }
    assert_eq!(separated(&city("nowhere"), Response::Logistic), None);
    // two numbers together, but neither alone
    let b = |i: usize| wave(5.3, i);
    let both = |i: usize| f64::from(u8::from(a(i) - 1.7 * b(i) > 0.2));
    let note = separated(&of(&both, vec![number("b", n, b)]), Response::Logistic).unwrap();
    assert!(note.contains("a linear combination of") && note.contains("is above a threshold"), "{note}");
    // a + b − 1 for 0/1 columns: 1 where both are, 0 where neither is, mixed elsewhere
    let (p, q) = (|i: usize| (i % 2) as f64, |i: usize| (i / 2 % 2) as f64);
    let y = move |i: usize| match p(i) + q(i) {
        0.0 => 0.0,
        2.0 => 1.0,
        _ => f64::from(u8::from((i / 4).is_multiple_of(2))),
    };
    let square = |y: &dyn Fn(usize) -> f64| {
        Table::new(vec![number("y", n, y), number("a", n, p), number("b", n, q)]).unwrap()
    };
    let note = separated(&square(&y), Response::Logistic).unwrap();
    assert!(note.contains("never below a threshold"), "{note}");
    assert_eq!(separated(&square(&luck), Response::Logistic), None);
    // in order, so that the leaves that are looked at first hold one response and one value
    let many = 20 * 1024;
    let late = |flipped: usize| {
        let y = move |i: usize| f64::from(u8::from(i >= many / 2)) - if i == flipped { 1.0 } else { 0.0 };
        let columns =
            vec![number("y", many, y), number("a", many, |i| (i / (many / 2)) as f64 * wave(2.1, i).abs())];
        separated(&Table::new(columns).unwrap(), Response::Logistic)
    };
    assert!(late(many).unwrap().contains("y is 1 wherever a > 0"));
    let note = late(many - 1);
    assert_eq!(note, None);
    // trials and counts
    let trials = |y: &dyn Fn(usize) -> f64| {
        of(y, vec![number("n", n, |_| 4.0), text("city", n, |i| ["Delft", "Leiden"][i % 2].into())])
    };
    let note =
        separated(&trials(&|i| if i % 2 == 1 { 4.0 } else { (i % 5) as f64 }), Response::Binomial).unwrap();
    assert!(note.contains("y is all of its trials wherever city is Leiden"), "{note}");
    assert_eq!(separated(&trials(&|i| (i % 5) as f64), Response::Binomial), None);
    let note =
        separated(&trials(&|i| if i % 2 == 1 { 0.0 } else { (i % 5) as f64 }), Response::Poisson).unwrap();
    assert!(note.contains("y is 0 wherever city is Leiden"), "{note}");
    assert_eq!(separated(&trials(&|i| (i % 5) as f64), Response::Poisson), None);
}

/// Whole numbers in a plane: an extreme direction of the cone of all that separate is a line through two points, so
/// trying all of these, in whole numbers, decides. The note is never wrong, and finds nearly all.
#[test]
fn separation_of_random_points_against_all_lines() {
    let mut state = 12345u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let (mut there, mut found) = (0, 0);
    for case in 0..300 {
        let n = 6 + (case % 7);
        let rows: Vec<[i64; 3]> =
            (0..n).map(|_| [random(2) as i64, random(9) as i64 - 4, random(9) as i64 - 4]).collect();
        let signs: Vec<i64> = rows.iter().map(|r| 2 * r[0] - 1).collect();
        if signs.iter().all(|s| *s == signs[0])
            || [1, 2].iter().any(|k| rows.iter().all(|r| r[*k] == rows[0][*k]))
        {
            continue;
        }
        let separates = |d: [i64; 3]| {
            let t: Vec<i64> =
                rows.iter().zip(&signs).map(|(r, s)| s * (d[0] + d[1] * r[1] + d[2] * r[2])).collect();
            t.iter().all(|t| *t >= 0) && t.iter().any(|t| *t > 0)
        };
        let mut exists = false;
        for (p, q) in rows.iter().flat_map(|p| rows.iter().map(move |q| (p, q))) {
            let d = [p[1] * q[2] - q[1] * p[2], p[2] - q[2], q[1] - p[1]];
            exists |= separates(d) || separates(d.map(|x| -x));
        }
        let column = |k: usize| number(["y", "a", "b"][k], n, |i| rows[i][k] as f64);
        let note = separated(&Table::new((0..3).map(column).collect()).unwrap(), Response::Logistic);
        assert!(exists || note.is_none(), "{note:?}: {rows:?}");
        there += usize::from(exists);
        found += usize::from(note.is_some());
    }
    assert!(there > 50 && found as f64 >= 0.9 * there as f64, "{found} of {there}");
}

/// A response that is the same in every row has a note; a linear model then counts in sigma, and without sigma is
/// refused.
#[test]
fn constant_responses_are_named() {
    let n = 12;
    let of = |y: f64| Table::new(vec![number("y", n, |_| y), number("a", n, |i| wave(2.1, i))]).unwrap();
    let mut request = Request::new(Spec::new("y", Response::Linear));
    request.sigma = Some(2.0);
    let said = notes(&of(0.1), &request).join("\n");
    assert!(said.contains("the response 'y' is 0.1 in all 12 rows"), "{said}");
    assert!(said.contains("priors are in units of sigma, 2, instead"), "{said}");
    assert_eq!(problem(&of(0.1), &request).prior.sd, [20.0, 5.0]);
    request.sigma = None;
    let error = Problem::new(&of(0.1), &request, &Storage::default()).err().unwrap();
    assert!(error.kind() == ErrorKind::Data && error.to_string().contains("give sigma"), "{error}");
    for (family, y, endless) in [
        (Response::Logistic, 1.0, true),
        (Response::Probit, 0.0, true),
        (Response::Poisson, 0.0, true),
        (Response::Poisson, 3.0, false),
    ] {
        let said = notes(&of(y), &Request::new(Spec::new("y", family))).join("\n");
        assert!(said.contains(&format!("the response 'y' is {y} in all 12 rows")), "{said}");
        assert_eq!(said.contains("no maximum"), endless, "{family:?} {y}: {said}");
        assert!(!said.contains("separate the response"), "{said}");
    }
    let trials = |y: &dyn Fn(usize) -> f64| {
        let columns =
            vec![number("y", n, y), number("n", n, |i| (2 + i % 3) as f64), number("a", n, |i| wave(2.1, i))];
        let mut request = Request::new(Spec::new("y", Response::Binomial));
        (request.spec.trials, request.spec.features) = (Some("n".into()), terms(&["a"]));
        notes(&Table::new(columns).unwrap(), &request).join("\n")
    };
    assert!(trials(&|i| (2 + i % 3) as f64).contains("is all of its trials in all 12 rows"));
    assert!(trials(&|_| 0.0).contains("is 0 in all 12 rows"));
    assert!(!trials(&|_| 1.0).contains("in all 12 rows"));
    let vary =
        Table::new(vec![number("y", n, |i| (i % 2) as f64), number("a", n, |i| wave(2.1, i))]).unwrap();
    assert!(!notes(&vary, &Request::new(Spec::new("y", Response::Logistic))).join("\n").contains("in all"));
}
