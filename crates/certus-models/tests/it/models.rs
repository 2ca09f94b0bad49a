//! Models: derivatives, curvature, rows from anywhere, standardisation, errata.
#![allow(clippy::unwrap_used)]

use crate::common::*;
use certus::{Target, linalg};
use certus_likelihood::{Linear, Logistic, Poisson};
use certus_models::error::Unidentified;
use certus_models::rows::{LEAF, Rows};
use certus_models::{Design, Error, Glm, Memory, Prior, laplace};
use proptest::prelude::*;
use std::sync::Arc;

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    /// Value, gradient and Hessian at random points against central differences; the batch kernel against single
    /// points.
    #[test]
    fn derivatives_equal_central_differences(seed in 0u64..1_000_000, kind in 0usize..6, scale in 0.1f64..2.0) {
        let mut dice = Dice::new(seed);
        let (d, model) = (4, simulated(LIKELIHOODS[kind], 40, 3, 0.7, 2.0, &mut dice));
        let z: Vec<f64> = dice.normals(d).iter().map(|x| scale * x).collect();
        let here = model.derivatives(&z).unwrap();
        let size = here.hessian.iter().fold(1.0_f64, |a, b| a.max(b.abs()));
        let h = 1e-4;
        for i in 0..d {
            let shifted = |t: f64| { let mut x = z.clone(); x[i] += t; model.derivatives(&x).unwrap() };
            let (up, down) = (shifted(h), shifted(-h));
            let slope = (up.value - down.value) / (2.0 * h);
            prop_assert!((slope - here.gradient[i]).abs() < 1e-5 * size, "{}: {slope} \
                {}", LIKELIHOODS[kind], here.gradient[i]);
            for j in 0..d {
                let second = (up.gradient[j] - down.gradient[j]) / (2.0 * h);
                prop_assert!((second - here.hessian[i * d + j]).abs() < 1e-5 * size, "{}", LIKELIHOODS[kind]);
            }
        }
        // the batch gives the same numbers, with the sign of a log density
        let points: Vec<f64> = [z.clone(), dice.normals(d)].concat();
        let (mut values, mut gradients) = (vec![0.0; 2], vec![0.0; 2 * d]);
        model.log_density(&points, &mut values, &mut gradients).unwrap();
        prop_assert!((values[0] + here.value).abs() < 1e-12 * size * (1.0 + here.value.abs()));
        for i in 0..d {
            prop_assert!((gradients[i] + here.gradient[i]).abs() < 1e-11 * size);
        }
    }
}

/// μ ≤ eigenvalues of the Hessian ≤ M at 10⁴ random points per model: 0 violations.
#[test]
fn curvature_holds_everywhere() {
    let mut dice = Dice::new(1);
    for name in LIKELIHOODS {
        let model = simulated(name, 30, 3, 1.0, 1.5, &mut dice);
        let Some(curvature) = model.curvature() else {
            assert_eq!(name, "poisson", "only Poisson has no global bound");
            continue;
        };
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for k in 0..10_000 {
            let scale = [0.01, 0.3, 1.0, 5.0][k % 4];
            let z: Vec<f64> = dice.normals(4).iter().map(|x| scale * x).collect();
            let (a, b) = linalg::extreme_eigenvalues(&model.derivatives(&z).unwrap().hessian, 4).unwrap();
            (low, high) = (low.min(a), high.max(b));
        }
        assert!(
            curvature.strong_convexity() <= low && high <= curvature.smoothness(),
            "{name}: [{low}, {high}] {curvature:?}"
        );
        // and the bounds are not absurd: linear attains both, logistic's M is the curvature at 0
        if name == "linear" {
            assert!(
                curvature.smoothness() / high < 1.0 + 1e-9 && low / curvature.strong_convexity() < 1.0 + 1e-9
            );
        }
    }
}

fn columns(x: Vec<f64>, y: Vec<f64>, columns: usize) -> Arc<Memory> {
    Arc::new(Memory { x, y, columns, ..Memory::default() })
}

/// A1: M uses θ_max. With the printed θ_min a logistic model would have M = λ_max(J) = 1.
#[test]
fn erratum_a1() {
    let rows = columns(vec![3.0, 0.0, 0.0, 5.0], vec![0.0, 1.0], 2);
    let prior = Prior::independent(vec![0.0; 2], &[1.0; 2]).unwrap();
    let model = Glm::new(Design::new(rows, false), Arc::new(Logistic), prior).unwrap();
    let curvature = model.curvature().unwrap();
    assert!((curvature.smoothness() - (1.0 + 25.0 / 4.0)).abs() < 1e-9, "{curvature:?}");
    assert!((curvature.strong_convexity() - 1.0).abs() < 1e-9);
}

/// A2: linear regression has 1/σ², not 1/4, in both bounds.
#[test]
fn erratum_a2() {
    let rows = columns(vec![3.0, 0.0, 0.0, 5.0], vec![0.0, 1.0], 2);
    let prior = Prior::independent(vec![0.0; 2], &[1.0; 2]).unwrap();
    let model = Glm::new(Design::new(rows, false), Arc::new(Linear::new(0.3).unwrap()), prior).unwrap();
    let curvature = model.curvature().unwrap();
    assert!((curvature.strong_convexity() - (1.0 + 9.0 / 0.09)).abs() < 1e-7, "{curvature:?}");
    assert!((curvature.smoothness() - (1.0 + 25.0 / 0.09)).abs() < 1e-7);
}

/// A4: with fewer rows than coefficients AAᵀ is singular, so μ is the prior's; the smallest singular value of A is not
/// 0.
#[test]
fn erratum_a4() {
    let rows = columns(vec![3.0, 1.0, 0.0, 0.0, 2.0, 4.0], vec![0.0, 1.0], 3);
    let prior = Prior::independent(vec![0.0; 3], &[1.0; 3]).unwrap();
    let model = Glm::new(Design::new(rows, false), Arc::new(Linear::new(1.0).unwrap()), prior).unwrap();
    assert!((model.curvature().unwrap().strong_convexity() - 1.0).abs() < 1e-9);
}

/// A7: the hierarchical model *is* strongly log-concave, θθ block Σ⁻¹ + nΔ⁻¹, μ ≥ 1/((n+1)‖Σ‖ + ‖Δ‖).
#[test]
fn erratum_a7() {
    let p = problem(&data_dir(), "hier_logit");
    let curvature = p.model.curvature().unwrap();
    let (n, sigma, delta) = (20.0, 1.0, 1.0);
    let bound = 1.0 / ((n + 1.0) * sigma + delta);
    assert!(curvature.strong_convexity() >= bound, "{curvature:?} against {bound}");
    assert!(curvature.strong_convexity() <= 1.01 * bound);
}

/// The same bits from memory and from a file that is re-read leaf by leaf, with 1, 2, 3 and 8 threads.
#[test]
fn rows_from_anywhere_give_the_same_bits() {
    let mut dice = Dice::new(3);
    let path = std::env::temp_dir().join(format!("certus-rows-{}", std::process::id()));
    for name in ["logistic", "poisson"] {
        let memory = simulated_rows(name, 2 * LEAF + 300, 5, 0.3, &mut dice);
        let disk = Arc::new(Disk::new(&memory, &path));
        let prior = Prior::independent(vec![0.0; 6], &[2.0; 6]).unwrap();
        let z = dice.normals(6 * 7);
        let everything = |rows: Arc<dyn Rows>, standardise: bool| {
            let design =
                if standardise { Design::standardised(rows, true).unwrap() } else { Design::new(rows, true) };
            let model = Glm::new(design, likelihood(name), prior.clone()).unwrap();
            let (mut values, mut gradients) = (vec![0.0; 7], vec![0.0; 42]);
            model.log_density(&z, &mut values, &mut gradients).unwrap();
            let state = model.solve_exactly().unwrap();
            let user = model.design().to_user_scale(&state.gaussian).unwrap();
            let mut all = [values, gradients, vec![state.neg_elbo]].concat();
            all.extend(model.derivatives(&z[..6]).unwrap().hessian);
            all.extend(user.mean().iter().chain(user.factor().values()));
            all.into_iter().map(f64::to_bits).collect::<Vec<_>>()
        };
        for standardise in [false, true] {
            let want = everything(Arc::new(memory.clone()), standardise);
            for threads in [1, 2, 3, 8] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let got = pool.install(|| everything(disk.clone(), standardise));
                assert!(got == want, "{name}, {threads} threads, standardised: {standardise}");
            }
        }
        // column-major memory holds the same rows; only the order of multiplications inside a product may differ
        let n = memory.y.len();
        let x = (0..5).flat_map(|j| (0..n).map(move |i| (i, j))).map(|(i, j)| memory.x[i * 5 + j]).collect();
        let turned = Memory { x, column_major: true, ..memory.clone() };
        let (a, b) = (everything(Arc::new(memory), false), everything(Arc::new(turned), false));
        let worst = a.iter().zip(&b).map(|(a, b)| {
            let (a, b) = (f64::from_bits(*a), f64::from_bits(*b));
            (a - b).abs() / (1.0 + a.abs())
        });
        assert!(worst.fold(0.0, f64::max) < 1e-9);
    }
    std::fs::remove_file(path).unwrap();
}

/// Standardising changes the frame, not the posterior: with the prior carried over, the optimum on the user's scale is
/// the same.
#[test]
fn standardisation_is_only_a_change_of_variables() {
    let mut dice = Dice::new(4);
    let mut memory = simulated_rows("logistic", 400, 2, 1.0, &mut dice);
    for row in memory.x.chunks_exact_mut(2) {
        row[0] = 100.0 + 7.0 * row[0];
        row[1] *= 0.01;
    }
    let rows: Arc<dyn Rows> = Arc::new(memory);
    let design = Design::standardised(rows.clone(), true).unwrap();
    let flat = |sd: [f64; 3]| Prior::independent(vec![0.0; 3], &sd).unwrap();
    let infinite = f64::INFINITY;
    let standardised = Glm::new(design, Arc::new(Logistic), flat([infinite; 3])).unwrap();
    let raw = Glm::new(Design::new(rows, true), Arc::new(Logistic), flat([infinite; 3])).unwrap();
    let (a, b) = (standardised.solve_exactly().unwrap(), raw.solve_exactly().unwrap());
    let a = standardised.design().to_user_scale(&a.gaussian).unwrap();
    for i in 0..3 {
        let sd = b.gaussian.sd()[i];
        assert!((a.mean()[i] - b.gaussian.mean()[i]).abs() < 1e-6 * sd, "mean {i}");
        assert!((a.sd()[i] / sd - 1.0).abs() < 1e-6, "sd {i}");
    }
}

/// A diagonal precision matrix is the independent prior, constant included: −log p at the mean is (d/2) log 2π + Σ log
/// sd.
#[test]
fn priors_agree() {
    let (mean, sd) = (vec![0.3, -1.0], [0.5, 4.0]);
    let independent = Prior::independent(mean.clone(), &sd).unwrap();
    let dense = Prior::with_precision(mean, vec![4.0, 0.0, 0.0, 0.0625]).unwrap();
    let want = (2.0 * std::f64::consts::PI).ln() + 0.5_f64.ln() + 4f64.ln();
    assert!((independent.constant() - want).abs() < 1e-14 && (dense.constant() - want).abs() < 1e-14);
    let flat = Prior::independent(vec![0.0; 2], &[f64::INFINITY, 1.0]).unwrap();
    assert!(
        (flat.constant() - 0.5 * (2.0 * std::f64::consts::PI).ln()).abs() < 1e-14,
        "flat coefficients have no constant"
    );
}

#[test]
fn bad_input_is_named() {
    let prior = |d: usize| Prior::independent(vec![0.0; d], &vec![1.0; d]).unwrap();
    let refuse = |memory: Memory, d: usize, words: &[&str]| {
        let error = Glm::new(Design::new(Arc::new(memory), false), Arc::new(Logistic), prior(d))
            .err()
            .unwrap()
            .to_string();
        words.iter().for_each(|w| assert!(error.contains(w), "{error}"));
    };
    let good = Memory { x: vec![1.0, 2.0, 3.0, 4.0], y: vec![0.0, 1.0], columns: 2, ..Memory::default() };
    refuse(Memory { y: vec![0.0, 2.0], ..good.clone() }, 2, &["row 1", "2", "0 or 1"]);
    refuse(Memory { x: vec![1.0, 2.0, f64::NAN, 4.0], ..good.clone() }, 2, &["row 1, column 0", "NaN"]);
    refuse(Memory { weight: vec![1.0, -1.0], ..good.clone() }, 2, &["row 1", "weight is -1"]);
    refuse(Memory { offset: vec![1.0], ..good.clone() }, 2, &["offset has 1 entries for 2 rows"]);
    refuse(Memory { x: vec![1.0], ..good.clone() }, 2, &["needs 4 numbers"]);
    refuse(good.clone(), 3, &["2 coefficients", "prior has 3"]);
    for (mean, sd) in [
        (vec![0.0], vec![-1.0]),
        (vec![0.0], vec![f64::NAN]),
        (vec![f64::NAN], vec![1.0]),
        (vec![0.0; 2], vec![1.0]),
    ] {
        assert!(Prior::independent(mean, &sd).is_err());
    }
    assert!(Prior::with_precision(vec![0.0; 2], vec![1.0, 2.0, 2.0, 1.0]).is_err(), "not positive definite");
    assert!(Prior::with_precision(vec![0.0; 2], vec![1.0, 2.0, 0.0, 1.0]).is_err(), "not symmetric");
    // a flat prior where the data do not identify the coefficient
    let flat = Prior::independent(vec![0.0; 2], &[f64::INFINITY; 2]).unwrap();
    let twice = Memory {
        x: vec![1.0, 1.0, 2.0, 2.0, -1.0, -1.0],
        y: vec![0.0, 1.0, 1.0],
        columns: 2,
        ..Memory::default()
    };
    let model = Glm::new(Design::new(Arc::new(twice), false), Arc::new(Poisson), flat).unwrap();
    let Err(Error::NotIdentified { direction, .. }) = laplace(&model) else { panic!("two equal columns") };
    assert!((direction[0] + direction[1]).abs() < 1e-6 && direction[0].abs() > 0.99, "{direction:?}");
    // responses that a direction separates: the log density grows along it for ever
    let apart = Memory {
        x: vec![1.0, -2.0, 1.0, -1.0, 1.0, 1.0, 1.0, 2.0],
        y: vec![0.0, 0.0, 1.0, 1.0],
        columns: 2,
        ..Memory::default()
    };
    let flat = Prior::independent(vec![0.0; 2], &[f64::INFINITY; 2]).unwrap();
    let model = Glm::new(Design::new(Arc::new(apart), false), Arc::new(Logistic), flat).unwrap();
    let Err(Error::NotIdentified { reason, direction }) = laplace(&model) else { panic!("separated") };
    assert_eq!(reason, Unidentified::Separated);
    // the witness itself: every row is on its side
    for (x, y) in [(-2.0, 0.0), (-1.0, 0.0), (1.0, 1.0), (2.0, 1.0)] {
        assert!((direction[0] + direction[1] * x > 0.0) == (y == 1.0), "{direction:?}");
    }
    // numbers whose squares are not finite
    let huge =
        Memory { x: vec![1e200, -1e200, 3e200], y: vec![0.0, 1.0, 1.0], columns: 1, ..Memory::default() };
    let prior = Prior::independent(vec![0.0], &[1.0]).unwrap();
    let model = Glm::new(Design::new(Arc::new(huge), false), Arc::new(Logistic), prior).unwrap();
    assert!(matches!(laplace(&model), Err(Error::NotFinite(_))));
}
