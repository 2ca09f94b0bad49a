//! Many nested groups, which the engine takes apart into connected components.
#![allow(clippy::unwrap_used)]

use certus_mixed::linear::{
    Criterion, Design, Error, Proof, Row, Scale, Statistics, Term, deviation_len, deviations, fit, global,
    modes, profile,
};

use super::data::load;

/// Numbers in (0, 1) without a pattern.
struct Uniform(u64);

impl Uniform {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }
}

fn row<'a>(levels: &'a [u32], effects: &'a [f64], fixed: &'a [f64], response: f64) -> Row<'a> {
    Row { levels, effects, fixed, response, weight: 1.0 }
}

/// A balanced layout of 20,000 schools, more than a dense matrix could hold, with three classes of four: the REML
/// estimates are those of the analysis of variance.
#[test]
fn a_balanced_nested_layout_has_closed_forms() {
    let (schools, classes, pupils) = (20_000usize, 3, 4);
    let mut noise = Uniform(3);
    let of_school: Vec<f64> = (0..schools).map(|_| 0.6 * noise.normal()).collect();
    let of_class: Vec<f64> = (0..schools * classes).map(|_| 0.4 * noise.normal()).collect();
    let n = schools * classes * pupils;
    let codes: Vec<[u32; 2]> = (0..n)
        .map(|i| {
            let class = (i * 7919) % (schools * classes);
            [(class % schools) as u32, class as u32]
        })
        .collect();
    let y: Vec<f64> = codes
        .iter()
        .map(|c| 2.0 + of_school[c[0] as usize] + of_class[c[1] as usize] + noise.normal())
        .collect();
    let term = |factor| Term { factor, effects: 1 };
    let design = Design { levels: vec![schools, schools * classes], terms: vec![term(0), term(1)], fixed: 1 };
    let rows = codes.iter().zip(&y).map(|(levels, y)| row(levels, &[1.0, 1.0], &[1.0], *y));
    let found = fit(&Statistics::from_rows(&design, rows).unwrap(), Criterion::Reml).unwrap();
    let mean = |of: &dyn Fn(usize) -> usize, groups: usize| -> Vec<f64> {
        let mut sums = vec![0.0; groups];
        (0..n).for_each(|i| sums[of(i)] += y[i]);
        sums.iter().map(|s| s * groups as f64 / n as f64).collect()
    };
    let all = mean(&|_| 0, 1)[0];
    let school = mean(&|i| codes[i][0] as usize, schools);
    let class = mean(&|i| codes[i][1] as usize, schools * classes);
    let between = |c: usize| class[c] - school[c % schools];
    let squares = [
        (0..n).map(|i| (y[i] - class[codes[i][1] as usize]).powi(2)).sum::<f64>(),
        pupils as f64 * (0..class.len()).map(|c| between(c).powi(2)).sum::<f64>(),
        (pupils * classes) as f64 * school.iter().map(|s| (s - all).powi(2)).sum::<f64>(),
    ];
    let freedom = [n - schools * classes, schools * (classes - 1), schools - 1];
    let means: Vec<f64> = squares.iter().zip(freedom).map(|(s, f)| s / f as f64).collect();
    let expected = [
        ((means[2] - means[1]) / (pupils * classes) as f64).sqrt(),
        ((means[1] - means[0]) / pupils as f64).sqrt(),
    ];
    for (term, expected) in found.terms.iter().zip(expected) {
        assert!((term.sds[0] / expected - 1.0).abs() < 1e-9, "{} {expected}", term.sds[0]);
    }
    assert!((found.sigma / means[0].sqrt() - 1.0).abs() < 1e-9, "{}", found.sigma);
    assert!((found.fixed[0] - all).abs() < 1e-9);
    // Var of the mean: MS of schools over n
    assert!((found.fixed_covariance[0] * n as f64 / means[2] - 1.0).abs() < 1e-8);
    assert!(matches!(found.proof, Proof::Ball(_)), "{:?}", found.proof);
}

/// Three levels of nesting, with slopes: any number of threads gives the same bits.
#[test]
fn threads_do_not_change_a_bit() {
    let (a, b, c) = (1_500, 6_000, 18_000);
    let n = 60_000;
    let mut noise = Uniform(4);
    let effects: Vec<[f64; 4]> = (0..c).map(|_| [0; 4].map(|_| 0.5 * noise.normal())).collect();
    type Pupil = ([u32; 3], [f64; 4], [f64; 2], f64);
    let rows: Vec<Pupil> = (0..n)
        .map(|_| {
            let (own, x) = ((noise.next() * c as f64) as usize, noise.normal());
            let (of_a, of_b) = (effects[own % a], effects[own % b]);
            let y = of_a[0] + of_a[1] * x + of_b[2] + effects[own][3] + noise.normal();
            let levels = [(own % a) as u32, (own % b) as u32, own as u32];
            (levels, [1.0, x, 1.0, 1.0], [1.0, x], y)
        })
        .collect();
    let terms = [2, 1, 1].into_iter().enumerate();
    let design = Design {
        levels: vec![a, b, c],
        terms: terms.map(|(factor, effects)| Term { factor, effects }).collect(),
        fixed: 2,
    };
    let run = |threads| {
        let work = || {
            let rows = rows.iter().map(|(levels, effects, fixed, y)| row(levels, effects, fixed, *y));
            let statistics = Statistics::from_rows(&design, rows).unwrap();
            let found = fit(&statistics, Criterion::Reml).unwrap();
            let modes = modes(&statistics, &found).unwrap();
            let normals: Vec<f64> = (0..deviation_len(&statistics)).map(|i| (i as f64).sin()).collect();
            let draw = deviations(&statistics, &found, &normals).unwrap();
            let interval = profile(&statistics, &found, Scale::Effect { term: 2, effect: 0 }, 3.841).unwrap();
            (found, modes, draw, interval)
        };
        certus::parallel::install(Some(threads), work).unwrap()
    };
    let one = run(1);
    assert_eq!(one, run(3));
    assert_eq!(one.0.terms[0].rank, 2);
}

/// Levels that no row has change nothing, also where variances are infinite and levels of one factor sum up to those of
/// the other in every component.
#[test]
fn empty_levels_change_nothing() {
    let data = load("pastes");
    let mut larger = data.clone();
    larger.design.levels.iter_mut().for_each(|levels| *levels += 1);
    let found = [data, larger].map(|data| {
        let s = data.statistics();
        let found = fit(&s, Criterion::Reml).unwrap();
        (found.value, global(&s, &found, 1e10).unwrap())
    });
    assert_eq!(found[0], found[1]);
}

/// Crossed factors of many levels are one component, and too large.
#[test]
fn one_large_component_is_refused() {
    let levels = 40_000;
    let codes: Vec<[u32; 2]> =
        (0..2 * levels as u32).map(|i| [i / 2, i.div_ceil(2) % levels as u32]).collect();
    let term = |factor| Term { factor, effects: 1 };
    let design = Design { levels: vec![levels; 2], terms: vec![term(0), term(1)], fixed: 1 };
    let rows = codes.iter().enumerate().map(|(i, c)| row(c, &[1.0, 1.0], &[1.0], (i as f64).sin()));
    let error = Statistics::from_rows(&design, rows).unwrap_err();
    let numbers = levels * levels;
    assert_eq!(error, Error::TooLarge { columns: levels, largest: levels, numbers, limit: 1 << 28 });
}
