//! Fits of published data with two correlated effects: reference values, proofs, a singular matrix.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use certus_likelihood::{Datum, Likelihood, Linear, Logistic, Prior, Probit};
use certus_mixed::correlated::{CorrelatedFit, Proof, Quadrature};
use certus_mixed::linear;

use super::data::{Data, load};
use crate::common::Dice;

/// Name, sds, correlation, first coefficients, log L: docs/mixed.md, G1, from independent quadrature.
type Reference = (&'static str, [f64; 2], f64, &'static [f64], f64);

const REFERENCES: [Reference; 3] = [
    ("contraception", [0.626707, 0.748990], -0.791442, &[-1.0659, 0.00306], -1180.007741),
    ("epil", [0.501034, 0.736538], 0.00912, &[-1.3540, 0.8838], -655.350220),
    ("toenail", [8.5919, 1.01516], -0.5972, &[-2.6569, -0.0809, -0.8274, -0.3386], -549.16229),
];

fn fit(name: &str) -> CorrelatedFit {
    let (data, likelihood) = load(name);
    data.model(likelihood).fit().unwrap()
}

#[test]
fn estimates_are_the_reference_values() {
    for (name, sds, correlation, fixed, log_likelihood) in REFERENCES {
        let fit = fit(name);
        assert!((fit.log_likelihood - log_likelihood).abs() < 1e-5, "{name}: {}", fit.log_likelihood);
        let Quadrature::Proved { error } = fit.quadrature else { panic!("{name}: {:?}", fit.quadrature) };
        assert!(error < 1e-7, "{name}: {error}");
        for j in 0..2 {
            assert!((fit.term.sds[j] / sds[j] - 1.0).abs() < 1e-5, "{name}: {:?}", fit.term.sds);
        }
        assert!((fit.term.correlations[1] - correlation).abs() < 6e-5, "{name}: {:?}", fit.term.correlations);
        for (own, value) in fit.fixed.iter().zip(fixed) {
            assert!((own - value).abs() < 6e-5, "{name}: {:?}", fit.fixed);
        }
        let Proof::Ball(ball) = &fit.proof else { panic!("{name}: {:?}", fit.proof) };
        assert!(ball.radius < 1e-7 && ball.exclusion > ball.radius, "{name}: {ball:?}");
        assert_eq!(fit.parameters(), fit.fixed.len() + 3);
        assert_eq!(fit.term.rank, 2);
        assert!(fit.term.log_sd_errors.iter().all(|e| *e > 0.01 && *e < 1.0));
    }
}

/// The maximum has a correlation of 1: a matrix of rank 1, found and proved to be one among those of rank 1.
#[test]
fn bacteria_is_singular() {
    let fit = fit("bacteria");
    assert_eq!(fit.term.rank, 1);
    assert!((fit.log_likelihood + 97.8485).abs() < 1e-4, "{}", fit.log_likelihood);
    assert!((fit.term.sds[0] - 0.597).abs() < 1e-3 && (fit.term.sds[1] - 0.152).abs() < 1e-3);
    assert!((fit.term.correlations[1] - 1.0).abs() < 1e-12 && fit.term.log_sd_errors.is_empty());
    let Proof::Face { ball, outward } = &fit.proof else { panic!("{:?}", fit.proof) };
    assert!(ball.radius < 1e-7 && *outward > 0.01, "{ball:?} {outward}");
    // no matrix near by is better
    let (data, likelihood) = load("bacteria");
    let model = data.model(likelihood);
    let mut dice = Dice::new(4);
    for size in [1e-3, 1e-2, 0.1] {
        for _ in 0..20 {
            let factor: Vec<f64> = fit.factor().iter().map(|t| t + size * dice.normal()).collect();
            let (value, error) = model.log_likelihood(&fit.fixed, &factor).unwrap();
            assert!(value < fit.log_likelihood + error + 1e-8, "{size}: {value}");
        }
    }
}

fn simulated(dice: &mut Dice, groups: usize, sds: [f64; 2]) -> Data {
    let mut out = Data::default();
    for g in 0..groups {
        let b = [sds[0] * dice.normal(), sds[1] * dice.normal()];
        for _ in 0..6 {
            let x = dice.normal();
            let t = 0.4 - 0.3 * x + b[0] + b[1] * x;
            out.levels.push(g as u32);
            out.effects.push(vec![1.0, x]);
            out.fixed.push(vec![1.0, x]);
            out.offset.push(0.0);
            out.weight.push(1.0);
            let y = f64::from(u8::from(dice.uniform() < 1.0 / (1.0 + (-t).exp())));
            out.data.push(Datum { y, trials: 1.0 });
        }
    }
    out
}

/// With normal responses the linear engine fits the same model: at its σ, ML is the same.
#[test]
fn normal_responses_are_the_linear_engine() {
    let mut dice = Dice::new(9);
    let mut data = simulated(&mut dice, 15, [1.0, 0.7]);
    for d in &mut data.data {
        d.y = d.y * 2.0 + 0.5 * dice.normal();
    }
    let design =
        linear::Design { levels: vec![15], terms: vec![linear::Term { factor: 0, effects: 2 }], fixed: 2 };
    let levels: Vec<[u32; 1]> = data.levels.iter().map(|l| [*l]).collect();
    let rows = (0..data.data.len()).map(|i| linear::Row {
        levels: &levels[i],
        effects: &data.effects[i],
        fixed: &data.fixed[i],
        response: data.data[i].y,
        weight: 1.0,
    });
    let statistics = linear::Statistics::from_rows(&design, rows).unwrap();
    let reference = linear::fit(&statistics, linear::Criterion::Ml).unwrap();
    let fit = data.model(Arc::new(Linear::new(reference.sigma).unwrap())).fit().unwrap();
    assert!((fit.log_likelihood - reference.log_likelihood).abs() < 1e-7);
    for (own, other) in fit.term.sds.iter().zip(&reference.terms[0].sds) {
        assert!((own / other - 1.0).abs() < 1e-6, "{own} {other}");
    }
    for (own, other) in fit.fixed.iter().zip(&reference.fixed) {
        assert!((own - other).abs() < 1e-6);
    }
}

/// Twice a row is a row of weight two; a prior pulls; the number of threads changes no bit.
#[test]
fn weights_priors_and_threads() {
    let mut dice = Dice::new(31);
    let data = simulated(&mut dice, 25, [1.2, 0.8]);
    let logistic = || Arc::new(Logistic) as Arc<dyn Likelihood>;
    let mut twice = data.clone();
    twice.weight.iter_mut().for_each(|w| *w = 2.0);
    let mut copied = data.clone();
    for i in 0..data.data.len() {
        copied.levels.push(data.levels[i]);
        copied.effects.push(data.effects[i].clone());
        copied.fixed.push(data.fixed[i].clone());
        copied.data.push(data.data[i]);
        copied.offset.push(0.0);
        copied.weight.push(1.0);
    }
    let [a, b] = [twice, copied].map(|d| d.model(logistic()).fit().unwrap());
    assert!((a.log_likelihood - b.log_likelihood).abs() < 1e-7);
    assert!(a.fixed.iter().zip(&b.fixed).all(|(a, b)| (a - b).abs() < 1e-6));
    let model = data.model(logistic());
    let pool = |n| rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap();
    let [one, two] = [1, 2].map(|n| pool(n).install(|| model.fit().unwrap()));
    assert_eq!(one, two);
    let near = Prior::independent(vec![0.0; 2], &[0.05; 2]).unwrap();
    let pulled = data.with_prior(logistic(), near).fit().unwrap();
    assert!(pulled.fixed.iter().zip(&one.fixed).all(|(p, f)| p.abs() < f.abs()));
    assert!(pulled.log_likelihood < one.log_likelihood);
}

/// Where no error is proved, halved steps say how far log L may be off, and the proof says why there is none.
#[test]
fn probit_is_estimated() {
    let mut dice = Dice::new(8);
    let fit = simulated(&mut dice, 40, [0.8, 0.5]).model(Arc::new(Probit)).fit().unwrap();
    let Quadrature::Estimated { change } = fit.quadrature else { panic!("{:?}", fit.quadrature) };
    assert!(change < 1e-8, "{change}");
    assert!(matches!(&fit.proof, Proof::None { reason } if reason.to_string().contains("no bounds")));
}

/// Responses without any variation between groups: the matrix is 0 or of rank 1, and nothing near by is better.
#[test]
fn shuffled_responses_end_on_the_boundary() {
    let mut singular = 0;
    for seed in 0..6 {
        let mut dice = Dice::new(100 + seed);
        let data = simulated(&mut dice, 12, [0.0, 0.0]);
        let model = data.model(Arc::new(Logistic));
        let fit = model.fit().unwrap();
        singular += usize::from(fit.term.rank < 2);
        for _ in 0..30 {
            let size = 10f64.powf(-3.0 + 3.0 * dice.uniform());
            let factor: Vec<f64> = fit.factor().iter().map(|t| t + size * dice.normal()).collect();
            let (value, error) = model.log_likelihood(&fit.fixed, &factor).unwrap();
            assert!(
                value < fit.log_likelihood + error + 1e-8,
                "{seed} {size}: {value} {}",
                fit.log_likelihood
            );
        }
    }
    assert!(singular >= 3, "{singular}");
}
