//! The bound on the error of the collapsed likelihood, rounding included, against 40 digits (docs/collapsed.md, part
//! K11).
//!
//! Groups repeat few distinct rows, so that the reference multiplies by counts. Its trapezoid sums are halved until
//! they agree to 1e-14; bounds are above 1e-11.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use certus_likelihood::{Binomial, Datum, Likelihood, Linear, Logistic, NegativeBinomial, Poisson};
use certus_mixed::collapsed::{Collapsed, Order};
use certus_models::{Design, Memory, Prior};
use dashu_float::{FBig, round::mode::HalfEven};

use crate::common::Dice;

type Big = FBig<HalfEven, 2>;

/// Bits: 42 digits.
const BITS: usize = 140;
/// The noise of the linear model, and the two dispersions.
const NOISE: f64 = 0.8;
const DISPERSIONS: [f64; 2] = [1.7, 75.0];

fn big(x: f64) -> Big {
    Big::try_from(x).unwrap().with_precision(BITS).value()
}

fn to_f64(x: &Big) -> f64 {
    x.to_f64().value()
}

/// 2π with 32 digits.
fn two_pi() -> Big {
    big(std::f64::consts::TAU) + big(2.449_293_598_294_706_4e-16)
}

/// One row and how often it is there.
#[derive(Clone, Debug)]
struct Row {
    x: Vec<f64>,
    y: f64,
    trials: f64,
    offset: f64,
    weight: f64,
    times: usize,
}

/// A row along u: t + s u, and the constant of φ.
struct Line<'a> {
    row: &'a Row,
    t: Big,
    s: Big,
    constant: Big,
}

impl Line<'_> {
    /// What all copies of the row add, from φ but for its constant.
    fn times(&self, value: Big) -> Big {
        (value + self.constant.clone()) * big(self.row.weight) * big(self.row.times as f64)
    }
}

/// Groups of rows at coefficients and an sd.
struct Case {
    kind: usize,
    groups: Vec<Vec<Row>>,
    effect: Option<usize>,
    beta: Vec<f64>,
    log_sd: f64,
}

impl Case {
    fn likelihood(&self) -> Arc<dyn Likelihood> {
        match self.kind {
            0 => Arc::new(Logistic),
            1 => Arc::new(Binomial),
            2 => Arc::new(Poisson),
            3 => Arc::new(Linear::new(NOISE).unwrap()),
            kind => Arc::new(NegativeBinomial::new(DISPERSIONS[kind - 4]).unwrap()),
        }
    }

    fn model(&self) -> Collapsed {
        let columns = self.beta.len() - 1;
        let mut memory = Memory { columns, ..Memory::default() };
        let mut group = Vec::new();
        for (g, rows) in self.groups.iter().enumerate() {
            // the copies of a row are not next to each other
            let most = rows.iter().map(|r| r.times).max().unwrap();
            for copy in 0..most {
                for row in rows.iter().filter(|r| copy < r.times) {
                    memory.x.extend(&row.x);
                    memory.y.push(row.y);
                    memory.trials.push(row.trials);
                    memory.offset.push(row.offset);
                    memory.weight.push(row.weight);
                    group.push(g);
                }
            }
        }
        let prior = Prior::independent(vec![0.0; columns + 1], &vec![f64::INFINITY; columns + 1]).unwrap();
        let design = Design::new(Arc::new(memory), true);
        Collapsed::new(&design, &group, self.effect, self.likelihood(), prior).unwrap()
    }

    /// The log likelihood with 40 digits.
    fn exactly(&self) -> Big {
        self.groups.iter().map(|rows| self.group(rows)).fold(big(0.0), |a, b| a + b)
    }

    /// log I of a group: trapezoid sums about the mode of the integrand whose step is halved until halving it changes
    /// the sum by less than 1e-14 of it. Halving at least doubles the logarithm of the error of such a sum, so that the
    /// last one errs by far less.
    fn group(&self, rows: &[Row]) -> Big {
        let sigma = big(self.log_sd).exp();
        let lines: Vec<Line> = rows
            .iter()
            .map(|row| {
                let terms = row.x.iter().zip(&self.beta[1..]).map(|(x, b)| big(*x) * big(*b));
                let t = terms.fold(big(self.beta[0]) + big(row.offset), |a, b| a + b);
                let z = self.effect.map_or(1.0, |c| if c == 0 { 1.0 } else { row.x[c - 1] });
                Line { row, t, s: sigma.clone() * big(z), constant: self.constant(row) }
            })
            .collect();
        let (mode, second) = self.mode(&lines);
        let widest = lines.iter().map(|l| to_f64(&l.s).abs()).fold(0.0, f64::max);
        let mut step = big(second.sqrt().recip().min(1.0 / widest));
        let middle = big(mode);
        let least = self.psi(&lines, &middle);
        let mut sum = self.sum(&lines, &middle, &step, &least);
        loop {
            let between = self.sum(&lines, &(middle.clone() + step.clone() * big(0.5)), &step, &least);
            let differ = to_f64(&((between.clone() - sum.clone()) / (between.clone() + sum.clone()))).abs();
            sum += between;
            step *= big(0.5);
            if differ < 1e-14 {
                break;
            }
        }
        (sum * step).ln() - least - two_pi().ln() * big(0.5)
    }

    /// The minimum of ψ, by halves, and ψ″ there; both roughly.
    fn mode(&self, lines: &[Line<'_>]) -> (f64, f64) {
        let likelihood = self.likelihood();
        let near: Vec<[f64; 2]> = lines.iter().map(|l| [to_f64(&l.t), to_f64(&l.s)]).collect();
        let derivatives = |u: f64| {
            let mut out = [u, 1.0];
            for (Line { row, .. }, [t, s]) in lines.iter().zip(&near) {
                let n = row.times as f64 * row.weight;
                let datum = Datum { y: row.y, trials: row.trials };
                out[0] += n * s * likelihood.first_derivative(t + s * u, datum);
                out[1] += n * s * s * likelihood.second_derivative(t + s * u, datum);
            }
            out
        };
        let [mut low, mut high] = [-1.0, 1.0];
        while derivatives(low)[0] > 0.0 {
            low *= 2.0;
        }
        while derivatives(high)[0] < 0.0 {
            high *= 2.0;
        }
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if derivatives(middle)[0] < 0.0 { low = middle } else { high = middle }
        }
        (high, derivatives(high)[1])
    }

    /// ψ(u).
    fn psi(&self, lines: &[Line<'_>], u: &Big) -> Big {
        let rows = lines.iter().map(|l| {
            let predictor = l.t.clone() + l.s.clone() * u.clone();
            let e = predictor.exp();
            l.times(self.value(l.row, &predictor, &e))
        });
        rows.fold(u.clone() * u.clone() * big(0.5), |a, b| a + b)
    }

    /// Σ e^{least − ψ} over u = from + k·step, both ways until the terms are below e⁻⁷⁰; e^{t + s u} by products.
    fn sum(&self, lines: &[Line<'_>], from: &Big, step: &Big, least: &Big) -> Big {
        let mut sum = big(0.0);
        let factors: Vec<Big> = lines.iter().map(|l| (l.s.clone() * step.clone()).exp()).collect();
        let first: Vec<Big> =
            lines.iter().map(|l| (l.t.clone() + l.s.clone() * from.clone()).exp()).collect();
        for right in [true, false] {
            let (mut u, mut here) = (from.clone(), first.clone());
            for k in 0.. {
                assert!(k < 100_000, "the integrand does not end");
                if k > 0 || !right {
                    u = if right { u + step.clone() } else { u - step.clone() };
                    for (e, f) in here.iter_mut().zip(&factors) {
                        *e = if right { e.clone() * f.clone() } else { e.clone() / f.clone() };
                    }
                }
                let mut psi = u.clone() * u.clone() * big(0.5);
                for (l, e) in lines.iter().zip(&here) {
                    let predictor = l.t.clone() + l.s.clone() * u.clone();
                    psi += l.times(self.value(l.row, &predictor, e));
                }
                let away = psi - least.clone();
                if to_f64(&away) > 70.0 {
                    break;
                }
                sum += (-away).exp();
            }
        }
        sum
    }

    /// φ but for its constant, at the predictor t with e^t.
    fn value(&self, row: &Row, t: &Big, e: &Big) -> Big {
        let (one, y) = (big(1.0), big(row.y));
        match self.kind {
            0 => (one + e.clone()).ln() - y * t.clone(),
            1 => big(row.trials) * (one + e.clone()).ln() - y * t.clone(),
            2 => e.clone() - y * t.clone(),
            3 => {
                let r = (t.clone() - y) / big(NOISE);
                r.clone() * r * big(0.5)
            }
            kind => {
                let k = big(DISPERSIONS[kind - 4]);
                (y.clone() + k.clone()) * (k + e.clone()).ln() - y * t.clone()
            }
        }
    }

    fn constant(&self, row: &Row) -> Big {
        let product = |count: f64, of: &dyn Fn(f64) -> Big| -> Big {
            (0..count as usize).fold(big(1.0), |p, j| p * of(j as f64))
        };
        let log_factorial = |y: f64| product(y, &|j| big(j + 1.0)).ln();
        match self.kind {
            0 => big(0.0),
            1 => log_factorial(row.y) + log_factorial(row.trials - row.y) - log_factorial(row.trials),
            2 => log_factorial(row.y),
            3 => two_pi().ln() * big(0.5) + big(NOISE).ln(),
            kind => {
                let k = big(DISPERSIONS[kind - 4]);
                let rising = product(row.y, &|j| k.clone() + big(j)).ln();
                log_factorial(row.y) - rising - k.clone() * k.ln()
            }
        }
    }

    /// Error and bound.
    fn errors(&self) -> [f64; 2] {
        let at = self.model().at(&self.beta, self.log_sd, Order::Value).unwrap();
        [to_f64(&(big(at.log_likelihood) - self.exactly())).abs(), at.error]
    }

    /// The same, the one below the other.
    fn check(&self, what: &str) -> [f64; 2] {
        let [off, bound] = self.errors();
        assert!(off <= bound, "{what}, kind {}: error {off:e} above its bound {bound:e}", self.kind);
        [off, bound]
    }
}

/// A random case: up to `distinct` rows per group, each up to `times` times; every third has two columns that are
/// nearly the same and large coefficients.
fn random(dice: &mut Dice, k: usize, distinct: usize, times: usize) -> Case {
    let kind = k % 6;
    let close = (k / 6).is_multiple_of(3);
    let log_sd = [-3.0, -0.7, 0.0, 0.7, 1.2][(k / 2) % 5] + 0.1 * dice.normal();
    let effect = [None, Some(0), Some(1)][(k / 18) % 3];
    let large = 1e5 * dice.normal();
    let beta = if close {
        vec![0.3 * dice.normal(), large, 0.2 - large]
    } else {
        vec![0.3 * dice.normal(), dice.normal(), dice.normal()]
    };
    let mut groups = Vec::new();
    for _ in 0..1 + k % 3 {
        let effect_here = log_sd.exp() * dice.normal();
        let count = 1 + (dice.uniform() * distinct as f64) as usize;
        let rows = (0..count).map(|_| {
            let first = dice.normal();
            let second = if close { first + 1e-6 * dice.normal() } else { dice.normal() };
            let offset = if k.is_multiple_of(4) { dice.normal() } else { 0.0 };
            let x = vec![first, second];
            let z = if effect == Some(1) { first } else { 1.0 };
            let t = beta[0] + beta[1] * x[0] + beta[2] * x[1] + offset + z * effect_here;
            let trials = (1.0 + 40.0 * dice.uniform()).floor();
            let chance = 1.0 / (1.0 + (-t).exp());
            let y = match kind {
                0 => f64::from(u8::from(dice.uniform() < chance)),
                1 => (trials * chance).round(),
                3 => t + NOISE * dice.normal(),
                _ => dice.count(t.clamp(-3.0, 4.0).exp(), 200.0),
            };
            let weight = if k.is_multiple_of(5) { 0.5 + dice.uniform() } else { 1.0 };
            // few groups are large
            let times = 1 + ((times as f64).powf(dice.uniform()) as usize - 1);
            Row { x, y, trials: if kind == 1 { trials } else { 1.0 }, offset, weight, times }
        });
        groups.push(rows.collect());
    }
    Case { kind, groups, effect, beta, log_sd }
}

/// 200 random cases, then three with 10⁶ rows in one group: no error is above its bound.
#[test]
fn errors_are_within_their_bounds() {
    let mut dice = Dice::new(31);
    let mut worst = [0.0_f64; 6];
    for k in 0..200 {
        let [off, bound] = random(&mut dice, k, 5, 500).check(&format!("case {k}"));
        worst[k % 6] = worst[k % 6].max(off / bound);
    }
    println!("the largest errors by kind, of their bounds: {worst:.2?}");
    // bounds that are never nearly reached would be of little use
    assert!(worst.iter().all(|part| *part > 1e-4), "{worst:?}");
    let row = |x: f64, y: f64, times: usize| Row {
        x: vec![x, 0.0],
        y,
        trials: 1.0,
        offset: 0.0,
        weight: 1.0,
        times,
    };
    let million =
        vec![row(0.0, 0.0, 260_001), row(0.0, 1.0, 240_123), row(1.0, 0.0, 310_007), row(1.0, 1.0, 189_869)];
    for log_sd in [-2.0, 0.4] {
        let groups = vec![million.clone()];
        let case = Case { kind: 0, groups, effect: None, beta: vec![0.1 / 3.0, -0.37, 0.0], log_sd };
        case.check("a million rows");
    }
}

/// The same with up to 1,000 distinct rows per group, a quarter of the cases with one group of 10⁶ rows.
#[test]
#[ignore = "long: scripts/check certificates"]
fn full() {
    let mut dice = Dice::new(32);
    let cases: Vec<Case> = (0..200)
        .map(|k| {
            let (distinct, times) = [(1000, 20), (300, 300), (40, 25_000), (4, 250_000)][(k / 6) % 4];
            let mut case = random(&mut dice, k, distinct, times);
            if (k / 6) % 4 == 3 {
                let rest: usize = case.groups[0][1..].iter().map(|r| r.times).sum();
                case.groups[0][0].times = 1_000_000 - rest;
            }
            case
        })
        .collect();
    let (next, all) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let k = next.fetch_add(1, Ordering::Relaxed)
                    && k < cases.len()
                {
                    let [off, bound] = cases[k].errors();
                    assert!(off < 1e-6, "case {k}: {off:e} of {bound:e}");
                    println!("case {k}, kind {}: {off:.1e} of {bound:.1e}", cases[k].kind);
                    all.lock().unwrap().push((k, off / bound));
                }
            });
        }
    });
    let all = all.into_inner().unwrap();
    let worst = all.iter().map(|(_, part)| *part).fold(0.0, f64::max);
    let silent = all.iter().filter(|(_, part)| *part == 0.0).count();
    println!("{} cases, {silent} without a bound; the largest error is {worst:.2e} of its bound", all.len());
    let violated: Vec<_> = all.iter().filter(|(_, part)| part.is_nan() || *part > 1.0).collect();
    assert!(all.len() == 200 && violated.is_empty(), "above their bounds: {violated:?}");
    assert!(silent <= 20, "{silent} have no bound");
}

/// 1.2·10⁶ rows of three groups with one binary column and flat priors: the bound was 7.7e-8 where the error was
/// 3.2e-7.
#[test]
fn a_million_rows_in_three_groups() {
    let counts = [[171_111, 228_889], [199_003, 200_997], [233_333, 166_667]];
    let mut groups = Vec::new();
    for (g, [low, high]) in counts.into_iter().enumerate() {
        let row = |x: f64, y: f64, times: usize| Row {
            x: vec![x],
            y,
            trials: 1.0,
            offset: 0.0,
            weight: 1.0,
            times,
        };
        let tilt = 7_000 * (g + 1);
        let (a, b) = (low / 2 + tilt, high / 2 - tilt);
        groups.push(vec![
            row(0.0, 0.0, a),
            row(0.0, 1.0, b),
            row(1.0, 0.0, low - a),
            row(1.0, 1.0, high - b),
        ]);
    }
    let case = Case { kind: 0, groups, effect: None, beta: vec![0.137, -0.211], log_sd: -1.3 };
    let [_, bound] = case.check("three large groups");
    assert!(bound < 1e-6, "{bound:e}");
}
