//! The gap certified from fresh draws, against exact gaps: closed forms for Gaussian targets, one-dimensional
//! quadrature for others.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::common::*;
use certus::certificate::{Checks, Gap, Level, Spending};
use certus::diagnostics::{importance, neg_elbo};
use certus::factor::Lower;
use certus::random::{Purpose, Random};
use certus::{
    Curvature, Error, Factor, Family, Gaussian, PointTarget, Provenance, Target, TargetError, Tree,
};
use std::sync::{Arc, Mutex};

/// φ(z) = Σ ½ a t_i² + b_i log cosh(t_i − s_i) with t = Rᵀz, so a ≤ H ≤ a + max b; its best Gaussian is a product in t.
struct Hills {
    rotation: Vec<f64>,
    pull: f64,
    bends: Vec<f64>,
    shifts: Vec<f64>,
    provenance: Provenance,
}

impl Hills {
    fn new(d: usize, pull: f64, bend: f64, rotate: bool, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let rotation = match rotate {
            true => dice.rotation(d),
            false => (0..d * d).map(|k| f64::from(u8::from(k % (d + 1) == 0))).collect(),
        };
        let bends = (0..d).map(|i| if i == 0 { bend } else { bend * dice.between(0.2, 1.0) }).collect();
        Self { rotation, pull, bends, shifts: dice.normals(d), provenance: certus::internals::by_model() }
    }

    fn dim(&self) -> usize {
        self.bends.len()
    }

    /// E ½at² + b log cosh(t − s), its derivative and second derivative in the mean, for t ~ N(mean, sd²): the
    /// trapezoid rule with step h errs by e^{−2πα/h} for integrands analytic in |Im x| < α = π/(2 sd), here below 1e-15
    /// for sd ≤ 3.
    fn expect(&self, i: usize, mean: f64, sd: f64) -> (f64, f64, f64) {
        let (h, mut sums) = (0.05, (0.0, 0.0, 0.0));
        for k in -180..=180 {
            let x = h * f64::from(k);
            let weight = h * (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
            let t = mean + sd * x;
            let (r, tanh) = ((t - self.shifts[i]).abs(), (t - self.shifts[i]).tanh());
            let log_cosh = r + (-2.0 * r).exp().ln_1p() - std::f64::consts::LN_2;
            sums.0 += weight * (0.5 * self.pull * t * t + self.bends[i] * log_cosh);
            sums.1 += weight * (self.pull * t + self.bends[i] * tanh);
            sums.2 += weight * (self.pull + self.bends[i] * (1.0 - tanh * tanh));
        }
        sums
    }

    /// The mean and sd of every t_i under the best Gaussian: E φ′ = 0 and sd⁻² = E φ″.
    fn best(&self) -> Vec<(f64, f64)> {
        (0..self.dim())
            .map(|i| {
                let (mut mean, mut sd) = (0.0, self.pull.powf(-0.5));
                for _ in 0..300 {
                    let (_, slope, bend) = self.expect(i, mean, sd);
                    mean -= slope / (self.pull + self.bends[i]);
                    sd = (0.5 / (sd * sd) + 0.5 * bend).powf(-0.5);
                }
                (mean, sd)
            })
            .collect()
    }

    /// The best Gaussian moved by `shift` in every t_i and with sds times `stretch`, as a lower-triangular factor.
    fn near_best(&self, shift: f64, stretch: f64) -> Gaussian {
        let d = self.dim();
        let best = self.best();
        let mut mean = vec![0.0; d];
        let mut covariance = vec![0.0; d * d];
        for (k, (m, sd)) in best.iter().enumerate() {
            let axis = &self.rotation[k * d..][..d];
            for i in 0..d {
                mean[i] += (m + shift) * axis[i];
                for j in 0..d {
                    covariance[j * d + i] += (sd * stretch).powi(2) * axis[i] * axis[j];
                }
            }
        }
        assert!(certus::linalg::cholesky(&mut covariance, d));
        Gaussian::new(mean, Factor::Lower(Lower::new(d, covariance).unwrap())).unwrap()
    }

    /// f(w) − f*, exactly.
    fn gap(&self, w: &Gaussian) -> f64 {
        let (d, covariance) = (self.dim(), w.covariance());
        let mut f = -w.factor().log_det();
        for (i, (m, sd)) in self.best().into_iter().enumerate() {
            let axis = &self.rotation[i * d..][..d];
            let variance = dot(axis, &times(&covariance, axis, d));
            f += self.expect(i, dot(axis, w.mean()), variance.sqrt()).0;
            f -= self.expect(i, m, sd).0 - sd.ln();
        }
        f
    }
}

impl PointTarget for Hills {
    fn dim(&self) -> usize {
        self.bends.len()
    }

    fn log_density_at(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, TargetError> {
        let d = self.bends.len();
        let mut value = 0.0;
        gradient.fill(0.0);
        for i in 0..d {
            let axis = &self.rotation[i * d..][..d];
            let t = dot(axis, z);
            let r = (t - self.shifts[i]).abs();
            value -= 0.5 * self.pull * t * t
                + self.bends[i] * (r + (-2.0 * r).exp().ln_1p() - std::f64::consts::LN_2);
            let slope = self.pull * t + self.bends[i] * (t - self.shifts[i]).tanh();
            gradient.iter_mut().zip(axis).for_each(|(g, a)| *g -= slope * a);
        }
        Ok(value)
    }

    fn curvature(&self) -> Option<Curvature> {
        let top = self.bends.iter().copied().fold(0.0, f64::max);
        Some(Curvature::new(self.pull, self.pull + top, self.provenance.clone()).unwrap())
    }
}

/// f(w) − f(optimum of the family), exactly: f = ½[(m−m₀)ᵀH(m−m₀) + tr CᵀHC] − log det C + constant.
fn gaussian_gap(target: &GaussianTarget, w: &Gaussian) -> f64 {
    let f = |w: &Gaussian| {
        let d = w.dim();
        let c = w.factor().to_dense();
        let offset: Vec<f64> = w.mean().iter().zip(&target.mean).map(|(a, b)| a - b).collect();
        0.5 * (dot(&offset, &times(&target.hessian, &offset, d)) + dot(&c, &times(&target.hessian, &c, d)))
            - w.factor().log_det()
    };
    f(w) - f(&target.optimum(&w.factor().family()))
}

fn once(target: &dyn Target, w: &Gaussian, draws: usize, seed: u64) -> Gap {
    Checks::new(Spending::planned(0.05, 1), draws, seed).unwrap().certify(target, w).unwrap()
}

/// The optimum of a Gaussian target with its mean moved by `shift` and C stretched, unevenly unless `stretch` is 1.
fn moved(target: &GaussianTarget, family: &Family, shift: f64, stretch: f64) -> Gaussian {
    let best = target.optimum(family);
    let mean = best.mean().iter().map(|m| m + shift).collect();
    let mut dense = best.factor().to_dense();
    let d = target.mean.len();
    for (k, x) in dense.iter_mut().enumerate().filter(|_| stretch != 1.0) {
        *x *= stretch * (1.0 + 0.2 * (1.3 * (k % d + k / d) as f64).cos());
    }
    Gaussian::new(mean, from_dense(family, &dense)).unwrap()
}

/// H = μI and M = μ: S is affine with slope 0 at C = I/√μ, so nothing is left to chance and the bound is the gap.
/// Kills a wrong μ, a wrong factor in D1, a wrong mean of the draws.
#[test]
fn exact_when_nothing_is_random() {
    for (mu, shift) in [(1.0, 0.5), (9.0, 0.1), (0.04, 3.0)] {
        let target = GaussianTarget::new(vec![1.0, -2.0], vec![1.0, 0.0, 0.0, 1.0], vec![mu, mu]);
        let w = moved(&target, &Family::Lower, shift, 1.0);
        let gap = once(&target, &w, 300, 4);
        let (bound, truth) = (gap.statement.bound().unwrap(), gaussian_gap(&target, &w));
        assert!((truth - 0.5 * mu * 2.0 * shift * shift).abs() < 1e-13 * (1.0 + truth));
        assert!(bound >= truth * (1.0 - 1e-14) && bound < truth * (1.0 + 1e-6), "{bound} {truth}");
        // S is μ·shift in both coordinates, so a block's gradient has the norm of it times (1, lower part of 1 ūᵀ)
        let blocks = gap.statement.constant("blocks").unwrap() as usize;
        let mut u = vec![0.0; 600];
        Random::new(4, Purpose::Check, 0).normals(1, 0, 2, &mut u);
        let norm = |j: usize| {
            let (from, to) = (j * 300 / blocks, (j + 1) * 300 / blocks);
            let mean = |i: usize| (from..to).map(|k| u[2 * k + i]).sum::<f64>() / (to - from) as f64;
            mu * shift * (2.0 + 2.0 * mean(0).powi(2) + mean(1).powi(2)).sqrt()
        };
        let mut norms: Vec<f64> = (0..blocks).map(norm).collect();
        norms.sort_by(f64::total_cmp);
        let estimate = gap.statement.constant("gradient estimate").unwrap();
        assert!((estimate / norms[blocks / 2] - 1.0).abs() < 1e-9, "{estimate} {norms:?}");
        // distance to the optimum in sds of q: √2 shift √μ
        let distance = 2.0_f64.sqrt() * shift * mu.sqrt();
        assert!((gap.mean_error.unwrap() / distance - 1.0).abs() < 1e-6);
        assert_eq!(gap.mean_error, gap.sd_error);
        assert_eq!(gap.family, "all Gaussians");
        // at the optimum only the allowance for rounding is left
        let best = once(&target, &moved(&target, &Family::Lower, 0.0, 1.0), 300, 4);
        let floor = best.statement.bound().unwrap();
        assert!(floor > 0.0 && floor < 1e-20, "{floor}");
    }
}

/// S is 0 to the last bit for the standard normal at itself; what is left is the allowance for rounding, not 0.
#[test]
fn rounding_is_allowed_for() {
    let target = GaussianTarget::new(vec![0.0; 2], vec![1.0, 0.0, 0.0, 1.0], vec![1.0, 1.0]);
    let statement = once(&target, &moved(&target, &Family::Lower, 0.0, 1.0), 300, 4).statement;
    assert_eq!(statement.constant("gradient estimate"), Some(0.0));
    // S is allowed 16 d ε (M|C| + √d/σ_min) with all three √2, the gradient √(d+3) = √5 times that, and √F, where ρ
    // has an allowance of its own, up to twice
    let size = (2.0 * statement.bound().unwrap()).sqrt() / (16.0 * 2.0 * f64::EPSILON * 8.0_f64.sqrt());
    assert!(size > 5.0_f64.sqrt() && size < 5.0_f64.sqrt() + 2.0, "{size}");
}

/// With many draws the gradient bound comes down to the exact gradient, in every family, from its own side only.
#[test]
fn the_bound_holds_in_every_family_and_tightens_with_draws() {
    let target = GaussianTarget::with_kappa(6, 3.0, &mut Dice::new(11));
    for family in families() {
        let w = moved(&target, &family, 0.2, 1.1);
        let truth = gaussian_gap(&target, &w);
        let mut last = f64::INFINITY;
        for draws in [200, 20_000] {
            let gap = once(&target, &w, draws, 5);
            let bound = gap.statement.bound().unwrap();
            assert!(truth > 0.0 && bound >= truth && bound < last, "{}: {bound} {truth}", family.name());
            last = bound;
        }
        println!("{}: gap {truth:.3}, bound {last:.3}, ratio {:.1}", family.name(), last / truth);
        // κ is 3, and 2·10⁴ draws leave little noise
        assert!(last < 4.0 * truth, "{}", family.name());
        // the statement about means and sds is true of the optimum
        let gap = once(&target, &w, 20_000, 5);
        let best = target.optimum(&family);
        for i in 0..6 {
            let sd = w.sd()[i];
            assert!((w.mean()[i] - best.mean()[i]).abs() <= gap.mean_error.unwrap() * sd);
            assert!((sd - best.sd()[i]).abs() <= gap.sd_error.unwrap() * sd);
        }
    }
}

/// The exact gradient (E S, tril E S uᵀ) of a Gaussian target, in the limit of many draws, and its noise constants.
#[test]
fn what_the_draws_estimate() {
    let target = GaussianTarget::with_kappa(4, 5.0, &mut Dice::new(12));
    let w = moved(&target, &Family::Lower, 0.1, 1.2);
    let (d, c) = (4, w.factor().to_dense());
    // S = H(m − m₀) + (HC − C⁻ᵀ)u
    let offset: Vec<f64> = w.mean().iter().zip(&target.mean).map(|(a, b)| a - b).collect();
    let slope = times(&target.hessian, &offset, d);
    let mut matrix = times(&target.hessian, &c, d);
    for j in 0..d {
        let e: Vec<f64> = (0..d).map(|i| f64::from(u8::from(i == j))).collect();
        let column = solve(&transpose(&c, d), &e);
        (0..d).for_each(|i| matrix[j * d + i] -= column[i]);
    }
    let lower: f64 = (0..d * d).filter(|k| k % d >= k / d).map(|k| matrix[k] * matrix[k]).sum();
    let (gradient, fisher) =
        ((dot(&slope, &slope) + lower).sqrt(), dot(&slope, &slope) + dot(&matrix, &matrix));
    let statement = once(&target, &w, 200_000, 6).statement;
    let constant = |name: &str| statement.constant(name).unwrap();
    // the estimate is off by at most 5 standard errors √((d+3) F/N)
    let noise = 5.0 * (7.0 * fisher / 200_000.0_f64).sqrt();
    assert!((constant("gradient estimate") - gradient).abs() < noise, "{gradient} ± {noise}");
    assert!(constant("fisher") > fisher && constant("fisher") < 1.1 * fisher);
    assert!(constant("gradient deviation") > 0.0);
    assert!(constant("gradient bound") <= constant("fisher").sqrt() * (1.0 + 1e-9), "Bessel");
    assert!((statement.bound().unwrap() - constant("gradient bound").powi(2) / 2.0).abs() < 1e-12);
    // the true Lipschitz constant and the variance along the gradient, from 10⁴ draws of our own
    let (mut largest, mut moments) = (0.0_f64, (0.0, 0.0));
    let mut dice = Dice::new(13);
    for _ in 0..10_000 {
        let u = dice.normals(d);
        let change = times(&matrix, &u, d);
        largest = largest.max((dot(&change, &change) / dot(&u, &u)).sqrt());
        let s: Vec<f64> = slope.iter().zip(&change).map(|(a, b)| a + b).collect();
        let mut along = dot(&s, &slope);
        (0..d * d).filter(|k| k % d >= k / d).for_each(|k| along += s[k % d] * u[k / d] * matrix[k]);
        let x = along / gradient;
        moments = (moments.0 + x / 1e4, moments.1 + x * x / 1e4);
    }
    assert!(largest <= constant("lipschitz"), "{largest}");
    let variance = moments.1 - moments.0 * moments.0;
    assert!(variance < constant("variance"), "{variance} {}", constant("variance"));
}

/// φ = (M/2)|z|² declared with μ < M: at C = sI the residual is (Ms − 1/s)u, the worst the declaration allows; and
/// likewise at the other end. A smaller M (or larger μ) would understate the noise that is really there.
#[test]
fn the_declared_constants_cover_the_worst_targets() {
    struct Bowl(f64);
    impl PointTarget for Bowl {
        fn dim(&self) -> usize {
            3
        }
        fn log_density_at(&self, z: &[f64], g: &mut [f64]) -> Result<f64, TargetError> {
            g.iter_mut().zip(z).for_each(|(g, z)| *g = -self.0 * z);
            Ok(-0.5 * self.0 * dot(z, z))
        }
        fn curvature(&self) -> Option<Curvature> {
            Some(Curvature::new(1.0, 40.0, Provenance::DeclaredByUser("a test".into())).unwrap())
        }
    }
    for (h, s) in [(40.0, 0.5), (40.0, 2.0), (1.0, 0.05), (1.0, 0.02)] {
        let w = Gaussian::isotropic(vec![0.0; 3], s, &Family::Lower).unwrap();
        let statement = once(&Bowl(h), &w, 2000, 7).statement;
        let slope: f64 = h * s - 1.0 / s;
        let rho = statement.constant("lipschitz").unwrap();
        assert!((rho / slope.abs() - 1.0).abs() < 1e-9, "{rho} {slope}");
        // S = slope·u: F = 3 slope², gradient slope·I, E⟨S, a + Au⟩² up to (3 + 2) slope² at A = I/√3
        assert!(statement.constant("fisher").unwrap() > 3.0 * slope * slope);
        assert!(statement.constant("variance").unwrap() > 5.0 * slope * slope);
        let truth = 3.0 * (0.5 * h * s * s - s.ln() - 0.5 - 0.5 * h.ln());
        assert!(statement.bound().unwrap() > truth);
    }
}

#[test]
fn levels_follow_from_who_vouches() {
    let mut target = Hills::new(2, 1.0, 2.0, true, 3);
    let w = target.near_best(0.1, 1.0);
    let mut checks = Checks::new(Spending::anytime(0.05), 500, 1).unwrap();
    for check in 1..4 {
        // the level is the total, whatever this check may spend
        let statement = checks.certify(&target, &w).unwrap().statement;
        assert_eq!(statement.level(), Level::Probable { delta: 0.05 });
        assert_eq!((statement.theorem(), statement.constant("check")), ("D2", Some(f64::from(check))));
        let share = 0.05 * 6.0 / (std::f64::consts::PI * f64::from(check)).powi(2);
        assert!((statement.constant("delta of this check").unwrap() / share - 1.0).abs() < 1e-12);
        assert_eq!(statement.assumptions()[0].provenance, certus::internals::by_model());
    }
    target.provenance = Provenance::DeclaredByUser("see the notebook".into());
    assert_eq!(once(&target, &w, 500, 1).statement.level(), Level::Probable { delta: 0.05 });
    target.provenance = Provenance::Estimated;
    let estimated = once(&target, &w, 500, 1).statement;
    assert_eq!(estimated.level(), Level::Estimated);
    assert!(estimated.bound().unwrap() > 0.0);

    /// A flat target, or one that says nothing.
    struct Silent(Option<Curvature>);
    impl PointTarget for Silent {
        fn dim(&self) -> usize {
            2
        }
        fn log_density_at(&self, _: &[f64], _: &mut [f64]) -> Result<f64, TargetError> {
            panic!("no draw is needed to say nothing")
        }
        fn curvature(&self) -> Option<Curvature> {
            self.0.clone()
        }
    }
    let convex = Silent(Some(Curvature::new(0.0, 1.0, certus::internals::by_model()).unwrap()));
    for (silent, word) in [(convex, "mu is 0"), (Silent(None), "no curvature")] {
        let gap = checks.certify(&silent, &w).unwrap();
        assert_eq!((gap.statement.level(), gap.statement.bound()), (Level::None, None));
        assert!(gap.statement.reason().unwrap().contains(word), "{gap:?}");
        assert_eq!((gap.mean_error, gap.sd_error, checks.done()), (None, None, 3));
    }
    let mut one = Checks::new(Spending::planned(0.05, 1), 500, 1).unwrap();
    assert!(one.certify(&target, &w).unwrap().statement.bound().is_some());
    let spent = one.certify(&target, &w).unwrap().statement;
    assert!(spent.bound().is_none() && spent.reason().unwrap().contains("all planned checks have been made"));
}

/// A target that keeps the points it saw.
struct Recorder(Mutex<Vec<f64>>);

impl Target for Recorder {
    fn dim(&self) -> usize {
        3
    }
    fn log_density(&self, z: &[f64], values: &mut [f64], g: &mut [f64]) -> Result<(), TargetError> {
        self.0.lock().unwrap().extend_from_slice(z);
        values.fill(0.0);
        g.iter_mut().zip(z).for_each(|(g, z)| *g = -z);
        Ok(())
    }
    fn curvature(&self) -> Option<Curvature> {
        Some(Curvature::new(1.0, 1.0, certus::internals::by_model()).unwrap())
    }
}

/// q is the standard normal, so the points are the draws: those of Purpose::Check at the check's own number, never
/// those of a run, of another check (of the gap or of the posterior), of `neg_elbo`, of `importance`, or of another
/// model.
#[test]
fn every_check_draws_afresh() {
    let w = Gaussian::isotropic(vec![0.0; 3], 1.0, &Family::Lower).unwrap();
    let seen = |work: &mut dyn FnMut(&Recorder)| {
        let recorder = Recorder(Mutex::default());
        work(&recorder);
        recorder.0.into_inner().unwrap()
    };
    let mut checks = Checks::new(Spending::anytime(0.1), 200, 17).unwrap();
    let first = seen(&mut |r| drop(checks.certify(r, &w).unwrap()));
    let second = seen(&mut |r| drop(checks.certify_posterior(r, &w).unwrap()));
    let third = seen(&mut |r| drop(checks.certify(r, &w).unwrap()));
    let other_model = seen(&mut |r| {
        let mut checks = Checks::new(Spending::anytime(0.1), 200, 17).unwrap().for_model(1);
        drop(checks.certify(r, &w).unwrap());
    });
    let estimate = seen(&mut |r| assert!(neg_elbo(r, &w, 200, 17).is_ok()));
    let weighted = seen(&mut |r| assert!(importance(r, &w, 200, 17).is_ok()));
    let draws = |purpose, iteration| {
        let mut out = vec![0.0; 600];
        Random::new(17, purpose, 0).normals(iteration, 0, 3, &mut out);
        out
    };
    for (check, seen) in [(1, &first), (2, &second), (3, &third)] {
        assert_eq!(seen, &draws(Purpose::Check, check));
    }
    let runs = (0..5).map(|t| draws(Purpose::Step, t)).collect::<Vec<_>>().concat();
    let mut all: Vec<u64> = [first, second, third, other_model, estimate, weighted, runs]
        .concat()
        .iter()
        .map(|x| x.to_bits())
        .collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!((count, all.len()), (600 * 6 + 3000, count), "no draw comes twice");
}

/// The same bits for one and for several threads.
#[test]
fn threads_do_not_change_the_bound() {
    let target = GaussianTarget::with_kappa(130, 3.0, &mut Dice::new(14));
    let tree = Arc::new(Tree::arrow(2, &[2; 64]).unwrap());
    for family in [Family::Lower, Family::Symmetric, Family::Pattern(tree)] {
        let w = moved(&target, &family, 0.01, 1.0);
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| once(&target, &w, 150, 8))
        };
        assert_eq!(with(1), with(3), "{}", family.name());
    }
}

#[test]
fn bad_draws_and_bad_settings_are_errors() {
    /// Not finite, or failing, at the 100th point.
    struct Moody(std::sync::atomic::AtomicU64, bool);
    impl PointTarget for Moody {
        fn dim(&self) -> usize {
            2
        }
        fn log_density_at(&self, z: &[f64], g: &mut [f64]) -> Result<f64, TargetError> {
            g.copy_from_slice(z);
            g.iter_mut().for_each(|g| *g = -*g);
            if self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 100 {
                if self.1 {
                    return Err("the disk is full".into());
                }
                g[1] = f64::NAN;
            }
            Ok(0.0)
        }
        fn curvature(&self) -> Option<Curvature> {
            Some(Curvature::new(1.0, 1.0, certus::internals::by_model()).unwrap())
        }
    }
    let w = Gaussian::isotropic(vec![0.0; 2], 1.0, &Family::Lower).unwrap();
    let mut checks = Checks::new(Spending::planned(0.05, 2), 1000, 1).unwrap();
    let error = checks.certify(&Moody(0.into(), false), &w).unwrap_err().to_string();
    for word in ["coordinate 1", "sample 36 of 64", "after draw 64 of 1000 of check 1"] {
        assert!(error.contains(word), "{error}");
    }
    assert!(matches!(checks.certify(&Moody(0.into(), true), &w), Err(Error::Target(_))));
    assert_eq!(checks.done(), 2, "failed checks are used up");
    for (delta, draws) in [(0.0, 10), (1.0, 10), (f64::NAN, 10), (0.05, 0)] {
        assert!(matches!(Checks::new(Spending::anytime(delta), draws, 1), Err(Error::Invalid { .. })));
    }
    let wrong = Gaussian::isotropic(vec![0.0; 3], 1.0, &Family::Lower).unwrap();
    assert!(matches!(checks.certify(&Moody(0.into(), false), &wrong), Err(Error::Dimension { .. })));
}

/// A problem with its exact gap.
struct Problem {
    name: &'static str,
    target: Box<dyn Target>,
    w: Gaussian,
    gap: f64,
}

fn problems() -> Vec<Problem> {
    let hills = |name, target: Hills, shift, stretch| {
        let w = target.near_best(shift, stretch);
        let gap = target.gap(&w);
        Problem { name, target: Box::new(target), w, gap }
    };
    let gaussian = |name, target: GaussianTarget, family: &Family, shift, stretch| {
        let w = moved(&target, family, shift, stretch);
        let gap = gaussian_gap(&target, &w);
        Problem { name, target: Box::new(target), w, gap }
    };
    let mut dice = Dice::new(20);
    let nearly_round = GaussianTarget::new(vec![0.0; 2], vec![1.0, 0.0, 0.0, 1.0], vec![1.0, 1.05]);
    let arrow = Family::Pattern(Arc::new(Tree::arrow(1, &[1, 1]).unwrap()));
    vec![
        hills("hill", Hills::new(1, 1.0, 3.0, false, 1), 0.4, 1.0),
        gaussian("nearly round", nearly_round, &Family::Lower, 0.3, 1.0),
        gaussian("arrow", GaussianTarget::with_kappa(3, 4.0, &mut dice), &arrow, 0.2, 1.1),
        hills("hills, rotated", Hills::new(3, 1.0, 2.0, true, 2), 0.2, 0.8),
        gaussian("symmetric", GaussianTarget::with_kappa(3, 2.0, &mut dice), &Family::Symmetric, 0.0, 1.3),
        hills("hills, near the optimum", Hills::new(2, 0.5, 4.0, true, 4), 0.01, 1.01),
    ]
}

/// The oracle itself: f by quadrature against 4·10⁵ draws of `neg_elbo`, within 5 standard errors, and f* is a minimum.
#[test]
fn the_exact_gap_is_right() {
    for seed in [1, 2] {
        let target = Hills::new(2, 1.0, 2.0, true, seed);
        let (near, best) = (target.near_best(0.3, 1.2), target.near_best(0.0, 1.0));
        assert!(target.gap(&best).abs() < 1e-13 && target.gap(&near) > 1e-2);
        for (shift, stretch) in [(1e-3, 1.0), (-1e-3, 1.0), (0.0, 1.001), (0.0, 0.999)] {
            assert!(target.gap(&target.near_best(shift, stretch)) > 1e-7);
        }
        let [a, b] = [&near, &best].map(|w| neg_elbo(&target, w, 400_000, 3).unwrap());
        let error = 5.0 * (a.standard_error + b.standard_error);
        assert!((a.value - b.value - target.gap(&near)).abs() < error);
    }
}

/// The most violations that probability δ allows in n runs: P(Bin(n, δ) > limit) < 1e-6.
fn most_violations(n: u64, delta: f64) -> u64 {
    let mut term = (n as f64 * (-delta).ln_1p()).exp();
    let (mut k, mut below) = (0, term);
    while below < 1.0 - 1e-6 {
        k += 1;
        term *= (n - k + 1) as f64 / k as f64 * delta / (1.0 - delta);
        below += term;
    }
    k
}

/// Violations of P(some check says less than the gap) ≤ δ = 0.05: of a single check, and of the smallest of 50.
fn coverage(seeds: u64, which: &[usize], checks: u64) {
    let (delta, limit) = (0.05, most_violations(seeds, 0.05));
    let problems = problems();
    for problem in which.iter().map(|&i| &problems[i]) {
        let (mut single, mut any, mut ratio) = (0, 0, 0.0);
        for seed in 0..seeds {
            let ask = |checks: &mut Checks| {
                checks.certify(&*problem.target, &problem.w).unwrap().statement.bound().unwrap()
            };
            let bound = ask(&mut Checks::new(Spending::planned(delta, 1), 200, seed).unwrap());
            ratio += bound / problem.gap / seeds as f64;
            single += u64::from(bound < problem.gap);
            // another seed, so that the two counts are independent
            let mut repeated = Checks::new(Spending::anytime(delta), 100, seed + (1 << 32)).unwrap();
            let smallest = (0..checks).map(|_| ask(&mut repeated)).fold(f64::INFINITY, f64::min);
            any += u64::from(smallest < problem.gap);
        }
        println!(
            "{}: gap {:.2e}, mean bound / gap {ratio:.1}; violations {single}, {any} of {seeds} (limit {limit})",
            problem.name, problem.gap
        );
        assert!(single <= limit && any <= limit, "{}", problem.name);
    }
}

/// 200 seeds, 3 problems, 20 looks; at most 27 violations are allowed (a wrong alarm has probability 1e-6 per count).
#[test]
fn coverage_short() {
    assert_eq!((most_violations(200, 0.05), most_violations(1000, 0.05)), (27, 86));
    coverage(200, &[0, 1, 2], 20);
}

/// 1000 seeds, 6 problems, 50 looks, one to two minutes: `cargo test --release -p certus --test it
/// certificates:: -- --ignored`.
#[test]
#[ignore = "long"]
fn coverage_long() {
    coverage(1000, &[0, 1, 2, 3, 4, 5], 50);
}
