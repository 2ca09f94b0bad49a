//! Certified answers about responses and linear predictors against sums over a grid of the coefficients, which share
//! no code with certus: random small problems with one or two coefficients.
//!
//! The oracle: a trapezoid sum over u in [−9, 9]² (twice or four times as far where that has to be), z = m + Lu with
//! mean and factor of the fit as the place of the grid and nothing else; what is beyond has no mass, or the test fails.
//! The law of a function adds up cells, in which it is taken to be linear.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::ops::ControlFlow;
use std::sync::LazyLock;

use certus::Goal;
use certus_data::{Column, Features, Spec, Storage, Table};
use certus_fit::{
    Certifying, Comparison, Contrast, Fit, Held, MarginalEffects, MethodChoice, PosteriorChoice, Problem,
    Question, Request, Settings,
};
use certus_likelihood::Response;
use certus_models::auto::Method;

use crate::scale_posterior::Dice;

const SIGMA: f64 = 0.7;
/// Half the side of the grid, and its step.
const SIDE: i32 = 75;
const STEP: f64 = 0.12;
/// What the grid may be off: of means and sds of values, and of probabilities.
const SLACK: f64 = 1e-5;
const PROBABILITY: f64 = 4e-4;

/// Rows (x, y), and what else there is.
struct Case {
    response: Response,
    rows: Vec<(f64, f64)>,
    slope: bool,
    prior: [f64; 2],
}

/// log Φ(t) and its slope: the series of Φ − ½, or the continued fraction of Mills' ratio.
fn log_normal_by_series(t: f64) -> (f64, f64) {
    let density = (-0.5 * t * t).exp() / std::f64::consts::TAU.sqrt();
    if t.abs() < 5.0 {
        let (mut term, mut sum) = (t, t);
        for k in 1..80 {
            term *= t * t / f64::from(2 * k + 1);
            sum += term;
        }
        let value = 0.5 + density * sum;
        return (value.ln(), density / value);
    }
    let mills = (1..80).rev().fold(t.abs(), |f, k| t.abs() + f64::from(k) / f);
    if t > 0.0 {
        let value = 1.0 - density / mills;
        return (value.ln(), density / value);
    }
    (-0.5 * t * t - mills.ln() - 0.5 * std::f64::consts::TAU.ln(), mills)
}

/// log Φ(t), from a table for |t| < 30 with cubics between its points.
fn log_normal(t: f64) -> f64 {
    const STEPS: f64 = 500.0;
    static TABLE: LazyLock<Vec<(f64, f64)>> =
        LazyLock::new(|| (-15_000..=15_000).map(|i| log_normal_by_series(f64::from(i) / STEPS)).collect());
    let at = t * STEPS + 15_000.0;
    let (i, s) = (at.floor(), at.fract());
    if !(0.0..30_000.0).contains(&i) {
        return log_normal_by_series(t).0;
    }
    let ((a, da), (b, db)) = (TABLE[i as usize], TABLE[i as usize + 1]);
    let (da, db) = (da / STEPS, db / STEPS);
    let (c, d) = (3.0 * (b - a) - 2.0 * da - db, 2.0 * (a - b) + da + db);
    a + s * (da + s * (c + s * d))
}

impl Case {
    fn random(index: u64) -> Self {
        let mut dice = Dice::new(1000 + index);
        let response =
            [Response::Logistic, Response::Poisson, Response::Logistic, Response::Linear, Response::Probit]
                [index as usize % 5];
        let slope = dice.uniform() < 0.75;
        let n = 12 + (dice.uniform() * 50.0) as usize;
        let (a, b) = (0.6 * dice.normal(), if slope { 0.7 * dice.normal() } else { 0.0 });
        let rows = (0..n)
            .map(|_| {
                let x = dice.normal();
                let t: f64 = a + b * x;
                let y = match response {
                    Response::Linear => t + SIGMA * dice.normal(),
                    Response::Poisson => (t + 0.4 * dice.normal()).exp().floor().min(15.0),
                    _ => f64::from(u8::from(dice.uniform() < 1.0 / (1.0 + (-1.5 * t).exp()))),
                };
                (x, y)
            })
            .collect();
        let prior = [[1.0, 3.0, 10.0], [0.5, 1.0, 2.5]].map(|all| all[(dice.uniform() * 3.0) as usize]);
        Self { response, rows, slope, prior }
    }

    fn table(&self) -> Table {
        let column = |of: &dyn Fn(&(f64, f64)) -> f64| Column::Number(self.rows.iter().map(of).collect());
        Table::new(vec![("x".into(), column(&|r| r.0)), ("y".into(), column(&|r| r.1))]).unwrap()
    }

    fn problem(&self) -> Problem {
        let mut spec = Spec::new("y", self.response);
        spec.features = Features::Terms(if self.slope { vec!["x".into()] } else { Vec::new() });
        spec.standardise = false;
        let mut request = Request::new(spec);
        [request.intercept_prior_sd, request.prior_sd] = self.prior;
        request.sigma = (self.response == Response::Linear).then_some(SIGMA);
        Problem::new(&self.table(), &request, &Storage::default()).unwrap()
    }

    /// −log p, but for a constant.
    fn energy(&self, [a, b]: [f64; 2]) -> f64 {
        let prior = 0.5 * (a / self.prior[0]).powi(2) + 0.5 * (b / self.prior[1]).powi(2);
        let loss = |&(x, y): &(f64, f64)| {
            let t = a + b * x;
            match self.response {
                Response::Linear => 0.5 * ((y - t) / SIGMA).powi(2),
                Response::Poisson => t.exp() - y * t,
                Response::Probit => -log_normal(if y > 0.5 { t } else { -t }),
                _ => t.max(0.0) + (-t.abs()).exp().ln_1p() - y * t,
            }
        };
        prior + self.rows.iter().map(loss).sum::<f64>()
    }

    fn response_of(&self, t: f64) -> f64 {
        match self.response {
            Response::Linear => t,
            Response::Poisson => t.exp(),
            Response::Probit => log_normal(t).exp(),
            _ => 1.0 / (1.0 + (-t).exp()),
        }
    }

    /// What is asked, as functions of the coefficients: on the scale of the response, and of the linear predictor.
    fn questions(&self) -> Vec<(Question, Vec<Function<'_>>)> {
        if !self.slope {
            // the mean of the rows is that of one of them
            let nothing = |linear_predictor| Question { linear_predictor, ..Question::default() };
            return vec![
                (nothing(false), vec![Box::new(|[a, _]| self.response_of(a))]),
                (Question { interval: Some(0.8), ..nothing(true) }, vec![Box::new(|[a, _]| a)]),
            ];
        }
        let contrast = |comparison| Contrast {
            column: "x".into(),
            values: Some(["1".into(), "-0.5".into()]),
            comparison,
        };
        let average = move |[a, b]: [f64; 2], step: f64| {
            let all = self.rows.iter().map(|(x, _)| self.response_of(a + b * (x + step)));
            all.sum::<f64>() / self.rows.len() as f64
        };
        let at = move |[a, b]: [f64; 2], x: f64| self.response_of(a + b * x);
        let mean = self.rows.iter().map(|r| r.0).sum::<f64>() / self.rows.len() as f64;
        let sd =
            (self.rows.iter().map(|r| (r.0 - mean).powi(2)).sum::<f64>() / self.rows.len() as f64).sqrt();
        let h = 1e-3 * sd;
        let both = vec![contrast(Comparison::Difference), contrast(Comparison::Ratio)];
        let difference = Question {
            contrasts: vec![contrast(Comparison::Difference)],
            linear_predictor: true,
            ..Question::default()
        };
        let held = vec![Held { column: "x".into(), values: vec!["0.25".into(), "2".into()] }];
        vec![
            (
                Question { contrasts: both, slopes: vec!["x".into()], ..Question::default() },
                vec![
                    Box::new(move |z| at(z, 1.0) - at(z, -0.5)),
                    Box::new(move |z| at(z, 1.0) / at(z, -0.5)),
                    Box::new(move |z| (average(z, h) - average(z, -h)) / (2.0 * h)),
                ],
            ),
            (
                Question { held: held.clone(), interval: Some(0.95), ..Question::default() },
                vec![Box::new(move |z| at(z, 0.25)), Box::new(move |z| at(z, 2.0))],
            ),
            (Question { held, ..difference }, vec![Box::new(|[_, b]| 1.5 * b), Box::new(|[_, b]| 1.5 * b)]),
            (
                Question { slopes: vec!["x".into()], linear_predictor: true, ..Question::default() },
                vec![Box::new(|[_, b]| b)],
            ),
        ]
    }
}

/// The fit of the problem.
fn fitted(case: &Case, problem: &Problem, seed: u64) -> Fit {
    let posterior = if case.response == Response::Linear { "auto" } else { "corrected" };
    let settings = Settings {
        model: Some(case.response.name().into()),
        posterior: Some(posterior.into()),
        ..Settings::default()
    };
    let goal = Goal { seed, ..Goal::default() };
    let choice: PosteriorChoice = posterior.parse().unwrap();
    let mut ended = problem
        .run(&goal, &MethodChoice::Auto(Method::Auto), None, None, &mut |_, _| ControlFlow::Continue(()))
        .unwrap();
    ended.with(problem.compare(&goal, choice, None, &ended, &|_| {}));
    Fit::of_run(ended, problem, &settings, &goal)
}

type Function<'a> = Box<dyn Fn([f64; 2]) -> f64 + 'a>;

/// p over the grid: the coefficients and their share, u₁ after u₁.
type Grid = Vec<Vec<([f64; 2], f64)>>;

fn grid(case: &Case, fit: &Fit) -> Grid {
    // a skewed posterior has more of its mass far out: then twice as far, and again
    let found = [SIDE, 2 * SIDE, 4 * SIDE].into_iter().map(|side| grid_to(side, case, fit));
    let mut found = found.skip_while(|(_, outside)| *outside > 1e-6);
    found.next().expect("the grid ends too early").0
}

/// The grid to so many steps on each side, and the share of the points at its ends.
fn grid_to(most: i32, case: &Case, fit: &Fit) -> (Grid, f64) {
    let (m, d) = (fit.gaussian.mean(), fit.gaussian.dim());
    let factor = fit.gaussian.factor().to_dense();
    let place = |u: [f64; 2]| {
        let mut z = [0.0; 2];
        for i in 0..d {
            z[i] = m[i] + (0..d).map(|j| factor[j * d + i] * u[j]).sum::<f64>();
        }
        z
    };
    let side = |i: i32| f64::from(i) * STEP;
    // with one coefficient, the second direction has one point
    let first = if d == 2 { -most..=most } else { 0..=0 };
    let at = |i: i32, j: i32| place(if d == 2 { [side(i), side(j)] } else { [side(j), 0.0] });
    let least = case.energy(at(0, 0));
    let mut out: Grid = first
        .map(|i| {
            let row = (-most..=most).map(|j| at(i, j));
            row.map(|z| (z, (least - case.energy(z)).exp())).collect()
        })
        .collect();
    let total: f64 = out.iter().flatten().map(|p| p.1).sum();
    out.iter_mut().flatten().for_each(|p| p.1 /= total);
    let last = out.len() - 1;
    let edge: f64 = if d == 2 { out[0].iter().chain(&out[last]).map(|p| p.1).sum() } else { 0.0 };
    let ends: f64 = out.iter().map(|row| row[0].1 + row[row.len() - 1].1).sum();
    (out, edge + ends)
}

/// p and f at the points of the grid, line after line in the direction in which f varies more.
fn lines(grid: &Grid, f: &Function<'_>) -> Vec<Vec<(f64, f64)>> {
    let along: Vec<Vec<(f64, f64)>> =
        grid.iter().map(|row| row.iter().map(|(z, p)| (*p, f(*z))).collect()).collect();
    let across: Vec<Vec<(f64, f64)>> =
        (0..along[0].len()).map(|j| along.iter().map(|row| row[j]).collect()).collect();
    let varies = |lines: &[Vec<(f64, f64)>]| {
        let pairs = lines.iter().flat_map(|line| line.windows(2));
        pairs.map(|pair| pair[0].0 * (pair[1].1 - pair[0].1).abs()).sum::<f64>()
    };
    if varies(&across) > varies(&along) { across } else { along }
}

/// p(f ≤ t): in every cell f is linear and p, too.
fn below(lines: &[Vec<(f64, f64)>], t: f64) -> f64 {
    let part = |pair: &[(f64, f64)]| {
        let ([p, r], [f, g]) = ([pair[0].0, pair[1].0], [pair[0].1, pair[1].1]);
        let s = (t - f) / (g - f);
        let to = s * p + 0.5 * s * s * (r - p);
        match [f <= t, g <= t] {
            [true, true] => 0.5 * (p + r),
            [false, false] => 0.0,
            [true, false] => to,
            [false, true] => 0.5 * (p + r) - to,
        }
    };
    lines.iter().flat_map(|line| line.windows(2)).map(part).sum()
}

/// What was stated of some cases, and what of it is false.
#[derive(Debug, Default)]
struct Seen {
    means: usize,
    intervals: usize,
    answers: usize,
    declined: usize,
    wrong: Vec<String>,
    theorems: std::collections::BTreeMap<String, usize>,
    /// Errors of ends, in sds.
    widths: Vec<f64>,
}

impl Seen {
    fn join(&mut self, other: Self) {
        self.means += other.means;
        self.intervals += other.intervals;
        self.answers += other.answers;
        self.declined += other.declined;
        self.wrong.extend(other.wrong);
        self.widths.extend(other.widths);
        other.theorems.into_iter().for_each(|(theorem, n)| *self.theorems.entry(theorem).or_default() += n);
    }
}

fn check(index: u64, seen: &mut Seen) {
    let case = Case::random(index);
    let problem = case.problem();
    let fit = fitted(&case, &problem, index);
    let names: Vec<&str> = fit.quantities.iter().map(|q| q.name.as_str()).collect();
    assert_eq!(names, ["(Intercept)", "x"][..if case.slope { 2 } else { 1 }]);
    let goal = Goal { seed: index, ..Goal::default() };
    let mut grid_of_case = None;
    for (call, (question, functions)) in case.questions().into_iter().enumerate() {
        let certifying = Certifying::new(&problem, &goal, 1 + call as u32).unwrap();
        let found: MarginalEffects = fit.effects(&case.table(), &question, Some(certifying)).unwrap();
        seen.answers += found.rows.len();
        let Some(theorem) = &found.theorem else {
            seen.declined += found.rows.len();
            continue;
        };
        *seen.theorems.entry(theorem.clone()).or_default() += 1;
        let grid = grid_of_case.get_or_insert_with(|| grid(&case, &fit));
        assert_eq!(found.rows.len(), functions.len());
        for (row, f) in found.rows.iter().zip(&functions) {
            let place = format!("case {index}, call {call}, {} {}", row.term, row.at);
            let lines = lines(grid, f);
            let of = |g: &dyn Fn(f64) -> f64| -> f64 { lines.iter().flatten().map(|(p, f)| p * g(*f)).sum() };
            let mean = of(&|f| f);
            let sd = of(&|f| (f - mean).powi(2)).sqrt();
            if let Some(error) = row.error {
                seen.means += 1;
                if (row.estimate - mean).abs() > error + SLACK * (sd + mean.abs()) {
                    seen.wrong.push(format!("{place}: the mean is {mean}, {row:?}"));
                }
            }
            let Some(error) = row.interval_error else { continue };
            seen.intervals += 1;
            seen.widths.push(error / sd);
            let tail = 0.5 * (1.0 - found.interval);
            let room = error + SLACK * (sd + mean.abs());
            for (end, alpha) in [(row.conf_low, tail), (row.conf_high, 1.0 - tail)] {
                let [least, most] = [end - room, end + room].map(|t| below(&lines, t));
                if least > alpha + PROBABILITY || most < alpha - PROBABILITY {
                    seen.wrong.push(format!("{place}: {alpha} is not in {least} to {most}, {row:?}"));
                }
            }
        }
    }
}

fn run(indices: std::ops::Range<u64>) {
    let total = indices.end - indices.start;
    let half = |parity: u64| {
        let mut seen = Seen::default();
        for index in indices.clone().filter(|index| index % 2 == parity) {
            check(index, &mut seen);
            if index % 50 == 0 {
                println!("case {index}, {} false", seen.wrong.len());
            }
        }
        seen
    };
    let mut seen = std::thread::scope(|scope| {
        let other = scope.spawn(|| half(1));
        let mut seen = half(0);
        seen.join(other.join().unwrap());
        seen
    });
    seen.widths.sort_by(f64::total_cmp);
    let width = |share: f64| seen.widths[(share * (seen.widths.len() - 1) as f64) as usize];
    println!(
        "{total} cases, {} answers: {} means and {} intervals with a certified error, {} answers declined; {} false; \
         errors of ends, in posterior sds: median {:.3}, nine in ten below {:.3}; calls by theorem {:?}",
        seen.answers,
        seen.means,
        seen.intervals,
        seen.declined,
        seen.wrong.len(),
        width(0.5),
        width(0.9),
        seen.theorems
    );
    assert!(seen.wrong.is_empty(), "{:#?}", seen.wrong);
    // a check that compares nothing is none
    assert!(seen.means as u64 > 3 * total && seen.intervals as u64 > 3 * total, "{seen:?}");
}

/// The oracle itself: Φ, and the law of a normal function on the grid of a linear model.
#[test]
fn the_oracle() {
    for (t, wanted) in [(0.0, 0.5_f64), (-1.0, 0.158_655_253_931_457_07), (2.0, 0.977_249_868_051_820_8)] {
        assert!((log_normal(t) - wanted.ln()).abs() < 1e-10, "{t}");
    }
    assert!((log_normal_by_series(-5.0).0 - log_normal_by_series(-4.999_999_999).0).abs() < 1e-7);
    assert!((log_normal(-9.876) - log_normal_by_series(-9.876).0).abs() < 1e-10);
    let case = Case::random(3);
    assert!(case.response == Response::Linear);
    let fit = fitted(&case, &case.problem(), 0);
    let grid = grid(&case, &fit);
    let (m, sd) = (fit.gaussian.mean()[0], fit.gaussian.sd()[0]);
    let lines = lines(&grid, &(Box::new(|z: [f64; 2]| z[0]) as Function<'_>));
    for t in [-2.0, -0.4, 0.33, 1.7] {
        let found = below(&lines, m + sd * t);
        assert!((found - log_normal(t).exp()).abs() < 0.7 * PROBABILITY, "{t}: {found}");
    }
}

#[test]
fn certified_answers_hold() {
    run(0..30);
}

/// bench/results has what it printed.
#[test]
#[ignore = "300 cases take minutes"]
fn full_certified_answers_hold() {
    run(0..300);
}

/// The parts of δ of all calls add up to δ, and each call has draws of its own.
#[test]
fn calls_share_delta() {
    let case = Case::random(0);
    let problem = case.problem();
    let fit = fitted(&case, &problem, 0);
    let question = || case.questions().swap_remove(0).0;
    let of = |call: u32| {
        let certifying = Certifying::new(&problem, &Goal::default(), call).unwrap();
        fit.effects(&case.table(), &question(), Some(certifying)).unwrap()
    };
    let all: Vec<MarginalEffects> = (1..=4).map(of).collect();
    let delta = Goal::default().delta;
    let sum: f64 = (1..100_000).map(|n| 6.0 / (std::f64::consts::PI * f64::from(n)).powi(2)).sum();
    assert!(sum < 1.0 && sum > 0.999);
    for (n, found) in (1..=4).zip(&all) {
        let share = delta * 6.0 / (std::f64::consts::PI * f64::from(n)).powi(2);
        assert!((found.delta.unwrap() / share - 1.0).abs() < 1e-12, "{n}");
    }
    assert_ne!(all[0].rows[0].estimate, all[1].rows[0].estimate);
    assert_eq!(all[1], of(2));
    assert!(Certifying::new(&problem, &Goal::default(), 0).is_err());
    // nothing is stated without the model; it is found again in the rows of the fit, and only there
    let without = fit.effects(&case.table(), &question(), None).unwrap();
    assert!(without.theorem.is_none() && without.rows.iter().all(|row| row.error.is_none()));
}

/// Ratios of linear predictors are refused; an error that is stated of a linear model needs no model.
#[test]
fn linear_predictors() {
    let case = Case::random(3);
    let problem = case.problem();
    let fit = fitted(&case, &problem, 0);
    let mut question = case.questions().swap_remove(0).0;
    let found = fit.effects(&case.table(), &question, None).unwrap();
    assert_eq!((found.theorem.as_deref(), found.delta), (Some("D7"), None));
    let [difference, ratio, slope] = &found.rows[..] else { panic!("three answers") };
    assert!(ratio.error.is_none() && ratio.interval_error.is_none());
    for row in [difference, slope] {
        assert!(
            row.error.unwrap() < 1e-6 * row.std_error && row.interval_error.unwrap() < 1e-6 * row.std_error
        );
    }
    question.linear_predictor = true;
    let refused = fit.effects(&case.table(), &question, None).unwrap_err().to_string();
    assert!(refused.contains("'x: 1 / -0.5' is a ratio"), "{refused}");
}
