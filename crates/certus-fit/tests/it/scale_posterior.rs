//! Means and sds of models whose group sd is not given, against sums over fine grids that share no code with certus.
//!
//! The oracle: a trapezoid sum over (intercept, slope, log sd), in which every group is a trapezoid sum over its effect
//! from −8 to 8 sds, in steps of 0.2 or less. All of its functions are analytic and decay on both sides; halving its
//! steps moves nothing that is printed here (see `the_oracle_has_converged`).
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;

use certus::Goal;
use certus::random::{Purpose, Random};
use certus_data::{Column, Features, GroupSpec, Slopes, Spec, Storage, Table};
use certus_fit::record::{Parameter, Source};
use certus_fit::{Fit, MethodChoice, PosteriorChoice, Problem, Request, Settings};
use certus_likelihood::Response;
use certus_likelihood::special::ln_gamma;
use certus_models::auto::Method;

/// Random numbers.
pub(crate) struct Dice(Random, u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Random::new(seed, Purpose::Simulate, 0), 0)
    }

    pub(crate) fn uniform(&mut self) -> f64 {
        let mut out = [0.0];
        self.1 += 1;
        self.0.uniforms(self.1, 0, 1, &mut out);
        out[0]
    }

    pub(crate) fn normal(&mut self) -> f64 {
        let mut out = [0.0];
        self.1 += 1;
        self.0.normals(self.1, 0, 1, &mut out);
        out[0]
    }
}

/// The fit with a source of the posterior.
pub(crate) fn fitted(problem: &Problem, posterior: &str, seed: u64) -> Fit {
    tried(problem, posterior, None, seed).unwrap()
}

/// The same with an accuracy [0.1], or why there is none.
pub(crate) fn tried(
    problem: &Problem,
    posterior: &str,
    accuracy: Option<f64>,
    seed: u64,
) -> Result<Fit, certus_fit::Error> {
    let settings = Settings { posterior: Some(posterior.into()), ..Settings::default() };
    let goal = Goal { seed, accuracy, ..Goal::default() };
    let choice: PosteriorChoice = posterior.parse().unwrap();
    let mut ended = problem
        .run(&goal, &MethodChoice::Auto(Method::Auto), None, None, &mut |_, _| ControlFlow::Continue(()))?;
    ended.with(problem.compare(&goal, choice, None, &ended, &|_| {}));
    Ok(Fit::of_run(ended, problem, &settings, &goal))
}

/// A row: its group, the feature, the response, the trials.
type Row = (usize, f64, f64, f64);

struct Case {
    response: Response,
    rows: Vec<Row>,
    /// False for an intercept alone.
    slope: bool,
}

impl Case {
    fn problem(&self) -> Problem {
        let column = |of: &dyn Fn(&Row) -> f64| Column::Number(self.rows.iter().map(of).collect());
        let columns = vec![
            ("y".into(), column(&|r| r.2)),
            ("n".into(), column(&|r| r.3)),
            ("x".into(), column(&|r| r.1)),
            ("g".into(), column(&|r| r.0 as f64)),
        ];
        let mut spec = Spec::new("y", self.response);
        spec.features = Features::Terms(if self.slope { vec!["x".into()] } else { Vec::new() });
        spec.groups = vec![GroupSpec {
            factor: vec!["g".into()],
            slopes: Slopes::Terms(Vec::new()),
            correlated: true,
            sd: None,
        }];
        spec.trials = (self.response == Response::Binomial).then(|| "n".into());
        spec.standardise = false;
        Problem::new(&Table::new(columns).unwrap(), &Request::new(spec), &Storage::default()).unwrap()
    }

    fn fit(&self, posterior: &str, seed: u64) -> Fit {
        fitted(&self.problem(), posterior, seed)
    }

    /// log p(y | t), by the formulas of a textbook.
    fn log_likelihood(&self, t: f64, y: f64, n: f64) -> f64 {
        match self.response {
            Response::Poisson => y * t - t.exp() - ln_gamma(y + 1.0),
            _ => {
                let soft = if t > 0.0 { t + (-t).exp().ln_1p() } else { t.exp().ln_1p() };
                y * t - n * soft
            }
        }
    }

    /// Means and sds of (Intercept), x and sd(g) over the box of means and sds, with steps of `step` sds.
    fn oracle(&self, center: &[[f64; 2]; 3], step: f64) -> Vec<[f64; 2]> {
        let slope = if self.slope { center[1] } else { [0.0, 0.0] };
        let reach = |wide: f64| (wide / step).ceil() as i64;
        let groups = 1 + self.rows.iter().map(|r| r.0).max().unwrap();
        // the sd of an effect given its rows is about 1/√counts
        let counts = |g: usize| self.rows.iter().filter(|r| r.0 == g).map(|r| r.2 + 1.0).sum::<f64>();
        let counts: Vec<f64> = (0..groups).map(counts).collect();
        let log_density = |intercept: f64, slope: f64, log_sd: f64| {
            let sd = log_sd.exp();
            let mut sum = log_sd - 0.5 * (sd / 2.5).powi(2);
            sum -= 0.5 * (intercept / 10.0).powi(2) + 0.5 * (slope / 2.5).powi(2);
            // likelihoods of counts are at most 1, so nothing is left of such points
            if sum < -60.0 {
                return f64::NEG_INFINITY;
            }
            for g in 0..groups {
                let own: Vec<&Row> = self.rows.iter().filter(|r| r.0 == g).collect();
                let h = 0.2_f64.min(0.7 / (sd * counts[g].sqrt())).max(0.005);
                let at = |k: i64| {
                    let u = h * k as f64;
                    let of = |r: &&Row| self.log_likelihood(intercept + slope * r.1 + sd * u, r.2, r.3);
                    -0.5 * u * u + own.iter().map(of).sum::<f64>()
                };
                let end = (8.0 / h) as i64;
                let logs: Vec<f64> = (-end..=end).map(at).collect();
                let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                sum += most + (h * logs.iter().map(|l| (l - most).exp()).sum::<f64>()).ln();
            }
            sum
        };
        let mut points: Vec<(f64, [f64; 3])> = Vec::new();
        let slopes = if self.slope { reach(10.0) } else { 0 };
        for k in -reach(9.0)..=reach(9.0) {
            let log_sd = center[2][0] + step * k as f64 * center[2][1];
            for j in -slopes..=slopes {
                let b = slope[0] + step * j as f64 * slope[1];
                for i in -reach(10.0)..=reach(10.0) {
                    let a = center[0][0] + step * i as f64 * center[0][1];
                    points.push((log_density(a, b, log_sd), [a, b, log_sd.exp()]));
                }
            }
        }
        let most = points.iter().map(|p| p.0).fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = points.iter().map(|p| (p.0 - most).exp()).sum();
        let moments = |c: usize| {
            let over = |f: &dyn Fn(f64) -> f64| -> f64 {
                points.iter().map(|(l, z)| (l - most).exp() * f(z[c])).sum::<f64>() / total
            };
            let mean = over(&|x| x);
            [mean, over(&|x| (x - mean).powi(2)).sqrt()]
        };
        let shown = if self.slope { vec![0, 1, 2] } else { vec![0, 2] };
        shown.into_iter().map(moments).collect()
    }

    /// The middle and the width of the box, by a fit; nothing else of it enters the oracle.
    fn boxed(&self, fit: &Fit) -> [[f64; 2]; 3] {
        let draws = fit.draws(4000, 1);
        let rows = fit.record.parameters.len();
        let moments = |k: usize, f: fn(f64) -> f64| {
            let values: Vec<f64> = draws.iter().skip(k).step_by(rows).map(|x| f(*x)).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            [mean, (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()]
        };
        let slope = if self.slope { moments(1, |x| x) } else { [0.0, 0.0] };
        [moments(0, |x| x), slope, moments(1 + usize::from(self.slope), f64::ln)]
    }
}

fn row<'a>(fit: &'a Fit, name: &str) -> &'a Parameter {
    fit.record.parameters.iter().find(|p| p.name == name).unwrap()
}

/// Eight clinics with a control and a treated arm; nobody in a treated arm has an event.
fn clinics() -> Case {
    const CONTROL: [(f64, f64); 8] = [
        (2.0, 15.0),
        (0.0, 10.0),
        (3.0, 20.0),
        (1.0, 12.0),
        (5.0, 18.0),
        (0.0, 8.0),
        (2.0, 25.0),
        (1.0, 9.0),
    ];
    const TREATED: [f64; 8] = [14.0, 11.0, 19.0, 12.0, 20.0, 9.0, 22.0, 10.0];
    let control = CONTROL.iter().enumerate().map(|(g, (y, n))| (g, 0.0, *y, *n));
    let treated = TREATED.iter().enumerate().map(|(g, n)| (g, 1.0, 0.0, *n));
    Case { response: Response::Binomial, rows: control.chain(treated).collect(), slope: true }
}

/// What `Case::oracle` says of the clinics, and a program in C with other steps and boxes: (Intercept), x, sd(g).
const CLINICS: [[f64; 2]; 3] = [[-2.2497, 0.4743], [-3.8610, 1.3380], [0.6588, 0.5405]];

/// Every printed mean and sd of the clinics is as close as stated, whatever its source, and the mixture's are not.
#[test]
fn clinics_without_events() {
    let case = clinics();
    let names = ["(Intercept)", "x", "sd(g)"];
    for (posterior, source) in [("auto", Source::Importance), ("nuts", Source::Nuts)] {
        let fit = case.fit(posterior, 1);
        for (name, [mean, sd]) in names.iter().zip(CLINICS) {
            let p = row(&fit, name);
            assert_eq!(p.source, Some(source), "{name}");
            let (off, wide) = ((p.mean.unwrap() - mean).abs() / sd, (p.sd.unwrap() / sd - 1.0).abs());
            println!("{posterior} {name}: {off:.4} of {:?}, {wide:.4} of {:?}", p.mean_error, p.sd_error);
            // of 100 numbers one is further off than stated; 3.9 standard errors are one in 10,000
            let stated = [p.mean_error, p.sd_error].map(|e| 1.5 * e.unwrap());
            assert!(off <= stated[0] && wide <= stated[1], "{name}: {p:?}");
            assert!(p.mean_error.unwrap() < 0.1, "{name}: {p:?}");
        }
    }
    let mixture = case.fit("gaussian", 1);
    let p = row(&mixture, "x");
    assert!(p.source.is_none() && (p.mean.unwrap() - CLINICS[1][0]).abs() > 0.3 * CLINICS[1][1], "{p:?}");
}

/// Steps of half the length give the same moments, and they are the ones that the tests compare with.
#[test]
#[ignore = "half a minute"]
fn the_oracle_has_converged() {
    let case = clinics();
    let fit = case.fit("auto", 1);
    let center = case.boxed(&fit);
    let [rough, fine] = [0.5, 0.25].map(|step| case.oracle(&center, step));
    println!("{rough:?}\n{fine:?}");
    for ((a, b), stored) in rough.iter().zip(&fine).zip(CLINICS) {
        assert!((a[0] - b[0]).abs() < 1e-5 * b[1] && (a[1] / b[1] - 1.0).abs() < 1e-5, "{a:?} {b:?}");
        assert!((stored[0] - b[0]).abs() < 1e-4 && (stored[1] - b[1]).abs() < 1e-4, "{stored:?} {b:?}");
    }
}

/// A random data set, kind 0 to 3: logistic, binomial, Poisson, binomial with few events.
fn random(dice: &mut Dice, kind: usize) -> Case {
    let below = |dice: &mut Dice, n: usize| ((dice.uniform() * n as f64) as usize).min(n - 1);
    let (groups, slope) = (5 + below(dice, 8), dice.uniform() < 0.7);
    let (intercept, b, sd) =
        (if kind == 3 { -3.0 } else { -1.0 } + dice.normal(), 1.5 * dice.normal(), 1.5 * dice.uniform());
    let mut rows = Vec::new();
    for g in 0..groups {
        let v = sd * dice.normal();
        for _ in 0..2 + below(dice, 3) {
            let x = if dice.uniform() < 0.5 { 0.0 } else { 1.0 };
            let t = intercept + b * x + v;
            let (n, rate) = (if kind == 0 { 1.0 } else { 2.0 + below(dice, 8) as f64 }, t.exp());
            let y = if kind == 2 {
                // by its distribution function
                let (mut u, mut k, mut p) = (dice.uniform(), 0.0, (-rate.min(30.0)).exp());
                while u > p && k < 200.0 {
                    u -= p;
                    k += 1.0;
                    p *= rate.min(30.0) / k;
                }
                k
            } else {
                (0..n as usize).filter(|_| dice.uniform() < rate / (1.0 + rate)).count() as f64
            };
            rows.push((g, x, y, n));
        }
    }
    let response = [Response::Logistic, Response::Binomial, Response::Poisson, Response::Binomial][kind];
    Case { response, rows, slope }
}

/// Random data sets: how many printed means and sds are further from the sums than printed. About 1 % may be; with 5 %
/// the errors would be wrong.
#[test]
#[ignore = "minutes"]
fn random_data_sets() {
    let count: u64 = std::env::var("CERTUS_CASES").ok().and_then(|x| x.parse().ok()).unwrap_or(32);
    let (mut off, mut all, mut worst_mixture) = ([0, 0], [0, 0], 0.0_f64);
    for seed in 0..count {
        let mut dice = Dice::new(1000 + seed);
        let case = random(&mut dice, (seed % 4) as usize);
        let distinct = |f: fn(&Row) -> f64| case.rows.iter().any(|r| f(r) != f(&case.rows[0]));
        if !distinct(|r| r.2) || case.slope && !distinct(|r| r.1) {
            println!("{seed}: a constant column, left out before it was fitted");
            continue;
        }
        let fit = case.fit("auto", seed);
        let truth = case.oracle(&case.boxed(&fit), 0.45);
        let names: &[&str] =
            if case.slope { &["(Intercept)", "x", "sd(g)"] } else { &["(Intercept)", "sd(g)"] };
        for (name, [mean, sd]) in names.iter().zip(truth) {
            let p = row(&fit, name);
            let index = usize::from(p.source == Some(Source::Nuts));
            assert!(p.source.is_some(), "{seed}: {:?}", fit.record.message);
            let (m, s) = ((p.mean.unwrap() - mean).abs() / p.sd.unwrap(), (sd / p.sd.unwrap() - 1.0).abs());
            all[index] += 2;
            off[index] += i32::from(m > p.mean_error.unwrap()) + i32::from(s > p.sd_error.unwrap());
            if m > p.mean_error.unwrap() || s > p.sd_error.unwrap() {
                println!("{seed} {name}: {m:.4} {s:.4} of {:?} {:?}", p.mean_error, p.sd_error);
            }
            let own =
                fit.record.gaussian.as_ref().unwrap().parameters.iter().find(|p| p.name == *name).unwrap();
            worst_mixture = worst_mixture.max((own.mean.unwrap() - mean).abs() / sd);
        }
        println!("{seed}: {:?}, {}", case.response, fit.record.table.as_ref().unwrap().made);
    }
    println!("off {off:?} of {all:?} (importance, NUTS); the mixture's means by up to {worst_mixture:.2} sd");
    assert!(f64::from(off[0] + off[1]) <= 0.05 * f64::from(all[0] + all[1]));
}
