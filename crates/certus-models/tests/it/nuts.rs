//! The sampler against closed forms and quadrature, its diagnostics against arviz.
#![allow(clippy::unwrap_used)]

use crate::common::*;
use certus::factor::{Factor, Lower};
use certus::{Gaussian, PointTarget, TargetError, parallel};
use certus_models::error::{Declined, InvalidModel, NotFinite};
use certus_models::nuts::{Chains, Diagnosed, NutsSettings, diagnosed, nuts};
use certus_models::{Error, laplace};
use std::path::Path;

/// A log density on the line.
struct Line<F>(F);

impl<F: Fn(f64) -> Result<(f64, f64), TargetError> + Sync> PointTarget for Line<F> {
    fn dim(&self) -> usize {
        1
    }
    fn log_density_at(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, TargetError> {
        let (value, slope) = (self.0)(z[0])?;
        gradient[0] = slope;
        Ok(value)
    }
}

/// N(m, CCᵀ) with a lower triangular C.
struct Normal {
    mean: Vec<f64>,
    factor: Vec<f64>,
}

impl Normal {
    fn new(d: usize, dice: &mut Dice) -> Self {
        let mut factor = vec![0.0; d * d];
        for j in 0..d {
            factor[j * d + j] = 10f64.powf(dice.normal());
            for i in j + 1..d {
                factor[j * d + i] = dice.normal();
            }
        }
        Self { mean: dice.normals(d), factor }
    }
    fn gaussian(&self) -> Gaussian {
        let factor = Lower::new(self.mean.len(), self.factor.clone()).unwrap();
        Gaussian::new(self.mean.clone(), Factor::Lower(factor)).unwrap()
    }
}

impl PointTarget for Normal {
    fn dim(&self) -> usize {
        self.mean.len()
    }
    /// −½|y|² and −C⁻ᵀy with y = C⁻¹(z − m), by substitution.
    fn log_density_at(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, TargetError> {
        let d = z.len();
        let mut y: Vec<f64> = z.iter().zip(&self.mean).map(|(z, m)| z - m).collect();
        for i in 0..d {
            let before: f64 = (0..i).map(|j| self.factor[j * d + i] * y[j]).sum();
            y[i] = (y[i] - before) / self.factor[i * d + i];
        }
        for i in (0..d).rev() {
            let after: f64 = (i + 1..d).map(|j| self.factor[i * d + j] * gradient[j]).sum();
            gradient[i] = (-y[i] - after) / self.factor[i * d + i];
        }
        Ok(-0.5 * y.iter().map(|y| y * y).sum::<f64>())
    }
}

fn line(mean: f64, sd: f64) -> Gaussian {
    Gaussian::new(vec![mean], Factor::Lower(Lower::new(1, vec![sd]).unwrap())).unwrap()
}

fn seeded(seed: u64) -> NutsSettings {
    NutsSettings { seed, ..NutsSettings::default() }
}

/// Means and sds within 5 of their standard errors: a false alarm has probability 6e-7 per number.
fn agree(chains: &Chains, means: &[f64], sds: &[f64]) {
    assert_eq!(chains.values.len(), chains.dim * chains.chains * NutsSettings::default().draws);
    for i in 0..chains.dim {
        let found = chains.diagnosed(|z| z[i]);
        let off = [(found.mean - means[i]) / found.mean_se, (found.sd - sds[i]) / found.sd_se];
        assert!(off.iter().all(|z| z.abs() < 5.0), "{i}: {found:?}, {off:?}");
        assert!(found.r_hat < 1.02 && found.ess > 400.0, "{i}: {found:?}");
        assert!(found.mean_se < 0.05 * found.sd && found.sd_se < 0.05 * found.sd, "{i}: {found:?}");
    }
}

#[test]
fn a_gaussian_that_is_q() {
    let target = Normal::new(5, &mut Dice::new(1));
    let q = target.gaussian();
    let chains = nuts(&target, &q, &seeded(1)).unwrap();
    agree(&chains, q.mean(), &q.sd());
    assert_eq!(chains.divergences, 0);
}

/// The frame of q is only a frame: another mean, other scales and no correlations.
#[test]
fn a_gaussian_that_is_not_q() {
    let target = Normal::new(3, &mut Dice::new(2));
    let q = Gaussian::isotropic(vec![0.0; 3], 1.0, &certus::Family::Lower).unwrap();
    let chains = nuts(&target, &q, &seeded(2)).unwrap();
    agree(&chains, &target.mean, &target.gaussian().sd());
}

/// Few rows, so that the posterior is skewed and q is wrong.
#[test]
fn a_logistic_regression() {
    let model = simulated("logistic", 25, 2, 2.0, 3.0, &mut Dice::new(3));
    let q = laplace(&model).unwrap().gaussian;
    let (_, means, sds) = quadrature(&model);
    let chains = nuts(&model, &q, &seeded(3)).unwrap();
    agree(&chains, &means, &sds);
    let off = |i: usize| (q.mean()[i] - means[i]).abs() / chains.diagnosed(|z| z[i]).mean_se;
    assert!((0..3).any(|i| off(i) > 5.0), "q must be told from the posterior");
}

/// The model has three leaves, so that evaluations use threads as well.
#[test]
fn threads_change_no_bit() {
    let model = simulated("logistic", 2500, 2, 1.0, 3.0, &mut Dice::new(4));
    let q = laplace(&model).unwrap().gaussian;
    let few = NutsSettings { warmup: 40, draws: 30, chains: 3, ..seeded(4) };
    let run = |threads, settings| {
        parallel::install(Some(threads), || nuts(&model, &q, &settings)).unwrap().unwrap()
    };
    let one = run(1, few);
    assert_eq!(one, run(2, few));
    assert_eq!(one, run(2, NutsSettings { grain: usize::MAX, ..few }));
    assert_ne!(one.values, run(2, NutsSettings { seed: 5, ..few }).values);
    // more chains begin with the same ones, and no two are alike
    let more = run(2, NutsSettings { chains: 4, ..few });
    assert_eq!(one.values, more.values[..one.values.len()]);
    let first: Vec<&[f64]> = more.values.chunks_exact(30 * 3).map(|chain| &chain[..3]).collect();
    assert!((1..4).all(|k| first[..k].iter().all(|other| *other != first[k])));
}

/// An error comes back as it is, and the same one for any number of threads.
#[test]
fn errors_of_the_target() {
    let stop = Line(|_| Err(Error::Stopped.into()));
    assert!(nuts(&stop, &line(0.0, 1.0), &seeded(0)).unwrap_err().is_stopped());
    let late = Line(|z: f64| if z > 2.0 { Err(z.to_string().into()) } else { Ok((-0.5 * z * z, -z)) });
    let message = |threads| {
        let run = || nuts(&late, &line(0.0, 1.0), &seeded(0)).unwrap_err();
        let Error::Core(certus::Error::Target(error)) = parallel::install(Some(threads), run).unwrap() else {
            panic!("another error")
        };
        error.to_string()
    };
    assert_eq!(message(1), message(2));
    assert!(message(1).parse::<f64>().unwrap() > 2.0);
}

/// A standard normal below 1 and nothing above: the mean is −φ(1)/Φ(1) =: −h, the variance 1 − h − h².
#[test]
fn a_density_that_is_not_everywhere() {
    let h = 0.287_599_970_939_178_3_f64;
    for nothing in [f64::NAN, f64::NEG_INFINITY] {
        let target = Line(|z: f64| Ok(if z < 1.0 { (-0.5 * z * z, -z) } else { (nothing, nothing) }));
        let chains = nuts(&target, &line(-0.5, 0.4), &seeded(6)).unwrap();
        assert!(chains.divergences > 0 && chains.values.iter().all(|z| *z < 1.0));
        agree(&chains, &[-h], &[(1.0 - h - h * h).sqrt()]);
        let error = nuts(&target, &line(9.0, 0.4), &seeded(6)).unwrap_err();
        assert!(error.to_string().contains("at the start of chain 0"), "{error}");
        assert!(matches!(error, Error::NotFinite(NotFinite::Value { what: "the log density", .. })));
    }
}

#[test]
fn what_is_refused() {
    let target = Line(|z: f64| Ok((-0.5 * z * z, -z)));
    let refused = |q: &Gaussian, settings| nuts(&target, q, &settings).unwrap_err();
    let q = line(0.0, 1.0);
    for (settings, expected) in [
        (NutsSettings { chains: 0, ..seeded(0) }, "chains"),
        (NutsSettings { draws: 3, ..seeded(0) }, "draws"),
        (NutsSettings { acceptance: 1.0, ..seeded(0) }, "acceptance"),
    ] {
        let error = refused(&q, settings);
        assert!(matches!(error, Error::Model(InvalidModel::Setting { name, .. }) if name == expected));
    }
    let wide = Gaussian::isotropic(vec![0.0; 2], 1.0, &certus::Family::Lower).unwrap();
    assert!(matches!(refused(&wide, seeded(0)), Error::Model(InvalidModel::Gaussian { coefficients: 1 })));
    let error = nuts(&Line(|_| Ok((0.0, 0.0))), &q, &seeded(0)).unwrap_err();
    assert!(matches!(error, Error::Declined(Declined::NoSlope { .. })), "{error}");
    // no warm-up: the first step size is kept
    let raw = nuts(&target, &q, &NutsSettings { warmup: 0, draws: 4, ..seeded(0) }).unwrap();
    assert_eq!(raw.values.len(), 16);
}

fn numbers(found: &Diagnosed) -> [f64; 6] {
    [found.mean, found.mean_se, found.sd, found.sd_se, found.r_hat, found.ess]
}

/// diagnostics.csv is made by diagnostics.py.
#[test]
fn diagnostics_of_arviz() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/diagnostics.csv");
    let text = std::fs::read_to_string(path).unwrap();
    let number = |text: &str| text.parse::<f64>().unwrap();
    for row in text.lines().skip(1) {
        let cells: Vec<&str> = row.split(',').collect();
        let series: Vec<f64> = cells[8].split(' ').map(number).collect();
        let found = diagnosed(&series, cells[1].parse().unwrap());
        for (found, cell) in numbers(&found).iter().zip(&cells[2..8]) {
            // sums of a few hundred terms; 1000 ± 0.001 loses six digits of the sixteen
            let expected = number(cell);
            assert!(
                (found - expected).abs() <= 1e-9 * expected.abs(),
                "{}: {found}, not {expected}",
                cells[0]
            );
        }
    }
    assert_eq!(text.lines().count(), 12);
}

#[test]
fn diagnostics_of_series_that_say_little() {
    let constant = diagnosed(&[0.1; 30], 3);
    assert_eq!(numbers(&constant), [0.1, 0.0, 0.0, 0.0, 1.0, 30.0]);
    // chains that never moved
    let stuck: Vec<f64> = (0..300).map(|k| f64::from(k / 100)).collect();
    let found = diagnosed(&stuck, 3);
    assert!(found.r_hat == f64::INFINITY && found.ess < 10.0, "{found:?}");
    // two values: all are as far from the median
    let signs: Vec<f64> = (0..40).map(|k| if k % 3 == 0 { -0.1 } else { 0.3 }).collect();
    assert!(numbers(&diagnosed(&signs, 2)).iter().all(|x| x.is_finite()));
    assert!(numbers(&diagnosed(&[0.0, 1.0, f64::INFINITY, 2.0], 1)).iter().all(|x| x.is_nan()));
    assert!(numbers(&diagnosed(&[], 0)).iter().all(|x| x.is_nan()));
    let short = diagnosed(&[1.0, 2.0, 3.0], 1);
    assert_eq!([short.mean, short.sd], [2.0, 1.0]);
    assert!(short.r_hat.is_nan() && short.ess.is_nan() && short.mean_se.is_nan());
    // one chain has two halves
    let trend: Vec<f64> = (0..100).map(f64::from).collect();
    assert!(diagnosed(&trend, 1).r_hat > 1.5);
}

/// In another unit, which is a power of two, every number is the same.
#[test]
fn diagnostics_have_no_unit() {
    let series = Dice::new(8).normals(200);
    let unit = 2f64.powi(-80);
    let found = diagnosed(&series, 4);
    let other = diagnosed(&series.iter().map(|x| x * unit).collect::<Vec<_>>(), 4);
    let [mean, mean_se, sd, sd_se, r_hat, ess] = numbers(&found);
    assert_eq!(numbers(&other), [mean * unit, mean_se * unit, sd * unit, sd_se * unit, r_hat, ess]);
}
