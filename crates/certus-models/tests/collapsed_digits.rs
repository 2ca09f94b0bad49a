//! The bound on the error of the collapsed likelihood, rounding included, against 40 digits (docs/collapsed.md, part K11).
//!
//! Groups repeat few distinct rows, so that the reference multiplies by counts. Its trapezoid sum is that of an analytic function with a step at which twice the step
//! already errs by less than 1e-7, so that it errs by the square of that; bounds are above 1e-11.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use certus_models::collapsed::{Collapsed, Order};
use certus_models::likelihood::{Binomial, Likelihood, Linear, Logistic, NegativeBinomial, Poisson};
use certus_models::{Design, Memory, Prior};
use dashu_float::{FBig, round::mode::HalfEven};

use common::Dice;

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

    fn group(&self, rows: &[Row]) -> Big {
        let sigma = self.log_sd.exp();
        let slope_of =
            |row: &Row| sigma * self.effect.map_or(1.0, |c| if c == 0 { 1.0 } else { row.x[c - 1] });
        let t: Vec<Big> = rows
            .iter()
            .map(|row| {
                let terms = row.x.iter().zip(&self.beta[1..]).map(|(x, b)| big(*x) * big(*b));
                terms.fold(big(self.beta[0]) + big(row.offset), |a, b| a + b)
            })
            .collect();
        // s is rounded as the program rounds it, which its bound covers either way
        let exact_s = |row: &Row| match self.effect {
            Some(c) if c > 0 => big(sigma) * big(row.x[c - 1]),
            _ => big(sigma),
        };
        let likelihood = self.likelihood();
        // the mode and the curvature there, in f64
        let near: Vec<f64> = t.iter().map(to_f64).collect();
        let mut u = 0.0;
        let mut bend = 1.0;
        for _ in 0..200 {
            let (mut g, mut h) = (u, 1.0);
            for (row, t) in rows.iter().zip(&near) {
                let (s, n) = (slope_of(row), row.times as f64 * row.weight);
                let datum = certus_models::likelihood::Datum { y: row.y, trials: row.trials };
                g += n * s * likelihood.slope(t + s * u, datum);
                h += n * s * s * likelihood.bend(t + s * u, datum);
            }
            bend = h;
            u -= (g / h).clamp(-1.0, 1.0);
            if (g / h).abs() < 1e-6 / h.sqrt() {
                break;
            }
        }
        let widest = rows.iter().map(|r| slope_of(r).abs()).fold(0.0, f64::max);
        let strip = if self.kind == 2 || self.kind == 5 { 0.17 } else { 0.35 };
        let step = (bend.sqrt().recip() / 2.2).min(strip / widest);
        let (middle, step) = (big(u), big(step));
        let mut terms: Vec<(i64, Big)> = Vec::new();
        let mut least: Option<Big> = None;
        // e^{t + s u} at the nodes by products
        let powers: Vec<[Big; 2]> = rows
            .iter()
            .zip(&t)
            .map(|(row, t)| {
                let s = exact_s(row);
                [(t.clone() + s.clone() * middle.clone()).exp(), (s * step.clone()).exp()]
            })
            .collect();
        let constants = rows.iter().map(|row| self.constant(row)).collect::<Vec<_>>();
        for side in [1i64, -1] {
            let mut here: Vec<Big> = powers.iter().map(|p| p[0].clone()).collect();
            for k in 0..4000i64 {
                if k > 0 {
                    for (e, p) in here.iter_mut().zip(&powers) {
                        *e = if side > 0 { e.clone() * p[1].clone() } else { e.clone() / p[1].clone() };
                    }
                }
                if side < 0 && k == 0 {
                    continue;
                }
                let at = middle.clone() + step.clone() * big((side * k) as f64);
                let mut psi = at.clone() * at.clone() * big(0.5);
                for (i, row) in rows.iter().enumerate() {
                    let predictor = t[i].clone() + exact_s(row) * at.clone();
                    let value = self.value(row, &predictor, &here[i]) + constants[i].clone();
                    psi += value * big(row.weight) * big(row.times as f64);
                }
                let first = least.get_or_insert_with(|| psi.clone()).clone();
                let away = to_f64(&(psi.clone() - first));
                terms.push((side * k, psi));
                if away > 60.0 {
                    break;
                }
            }
        }
        let least = least.unwrap();
        let [mut all, mut even] = [big(0.0), big(0.0)];
        for (k, psi) in terms {
            let term = (least.clone() - psi).exp();
            if k % 2 == 0 {
                even += term.clone() * big(2.0);
            }
            all += term;
        }
        let differ = to_f64(&(even / all.clone() - big(1.0))).abs();
        assert!(differ < 1e-7, "the reference errs by {differ:e} with twice the step");
        let two_pi = big(std::f64::consts::TAU) + big(2.449_293_598_294_706_4e-16);
        (all * step).ln() - least - two_pi.ln() * big(0.5)
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
            3 => {
                let two_pi = big(std::f64::consts::TAU) + big(2.449_293_598_294_706_4e-16);
                two_pi.ln() * big(0.5) + big(NOISE).ln()
            }
            kind => {
                let k = big(DISPERSIONS[kind - 4]);
                let rising = product(row.y, &|j| k.clone() + big(j)).ln();
                log_factorial(row.y) - rising - k.clone() * k.ln()
            }
        }
    }

    /// Error and bound.
    fn check(&self, what: &str) -> [f64; 2] {
        let at = self.model().at(&self.beta, self.log_sd, Order::Value).unwrap();
        let off = to_f64(&(big(at.log_likelihood) - self.exactly())).abs();
        assert!(off <= at.error, "{what}, kind {}: error {off:e} above its bound {:e}", self.kind, at.error);
        [off, at.error]
    }
}

/// A random case: up to `distinct` rows per group, each up to `times` times; every third has two columns that are nearly the same and large coefficients.
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
            let offset = if k % 4 == 0 { dice.normal() } else { 0.0 };
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
            let weight = if k % 5 == 0 { 0.5 + dice.uniform() } else { 1.0 };
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
    let mut worst = 0.0_f64;
    for k in 0..200 {
        let [off, bound] = random(&mut dice, k, 5, 500).check(&format!("case {k}"));
        worst = worst.max(off / bound);
    }
    // bounds that are never nearly reached would be of little use
    assert!(worst > 1e-3, "{worst:e}");
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

/// The same with up to 1,000 distinct rows per group and up to 10⁶ rows.
#[test]
#[ignore = "long: scripts/check certificates"]
fn full() {
    let mut dice = Dice::new(32);
    for k in 0..200 {
        let (distinct, times) = [(1000, 20), (300, 300), (40, 25_000), (4, 250_000)][k % 4];
        let [off, bound] = random(&mut dice, k, distinct, times).check(&format!("case {k}"));
        println!("{k}: {off:.1e} of {bound:.1e}");
    }
}

/// 1.2·10⁶ rows of three groups with one binary column and flat priors: the bound was 7.7e-8 where the error was 3.2e-7.
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
