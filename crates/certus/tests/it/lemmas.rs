//! The lemmas the methods stand on: prox, projections, adjoints, patterns, closed forms.
#![allow(clippy::unwrap_used)]

use crate::common::*;
use certus::factor::Workspace;
use certus::frame::Frame;
use certus::update::{Update, prox};
use certus::{Factor, Family, Gaussian, Tree};
use dashu_float::{FBig, round::mode::HalfEven};
use std::sync::Arc;

type Big = FBig<HalfEven, 2>;

fn big(x: f64) -> Big {
    Big::try_from(x).unwrap().with_precision(240).value()
}

/// (c + √(c² + 4γ))/2 with 240 bits; for c < 0 in the form without cancellation.
fn exact_prox(c: f64, gamma: f64) -> f64 {
    let (c, four_gamma) = (big(c), big(gamma) * big(4.0));
    let root = (c.clone() * c.clone() + four_gamma.clone()).sqrt();
    let two = big(2.0);
    if c >= big(0.0) {
        ((c + root) / two).to_f64().value()
    } else {
        (four_gamma / two / (root - c)).to_f64().value()
    }
}

fn ulps(a: f64, b: f64) -> u64 {
    a.to_bits().abs_diff(b.to_bits())
}

#[test]
fn prox_is_right_to_4_ulp() {
    let mut cases: Vec<(f64, f64)> = Vec::new();
    let extremes = [0.0, 5e-324, 1e-310, 2.2e-308, 1e-300, 1e-160, 1e-10, 1.0, 1e9, 1e160, 1e300, 1.7e308];
    for c in extremes {
        for gamma in [5e-324, 1e-310, 1e-300, 1e-100, 1e-3, 1.0, 1e9, 1e100, 1e300] {
            cases.extend([(c, gamma), (-c, gamma)]);
        }
    }
    let mut dice = Dice::new(1);
    while cases.len() < 100_000 {
        let c = 10f64.powf(dice.between(-323.0, 308.0)) * dice.normal().signum();
        let gamma = if dice.uniform() < 0.5 {
            10f64.powf(dice.between(-12.0, 1.0))
        } else {
            10f64.powf(dice.between(-323.0, 300.0))
        };
        // also the interesting region c ~ √γ
        let c = if dice.uniform() < 0.5 { dice.normal() * gamma.sqrt() * 3.0 } else { c };
        cases.push((c, gamma));
    }
    let mut worst = 0;
    for (c, gamma) in cases {
        let (got, want) = (prox(c, gamma), exact_prox(c, gamma));
        assert!(got >= 0.0 && ulps(got, want) <= 4, "prox({c:e}, {gamma:e}) = {got:e}, exact {want:e}");
        worst = worst.max(ulps(got, want));
    }
    assert!(worst >= 1, "a comparison of equal things proves nothing");
}

/// A27: at c = −1e9 the textbook form gives exactly 0.
#[test]
fn prox_does_not_cancel() {
    let (c, gamma) = (-1e9_f64, 1e-3_f64);
    assert_eq!(0.5 * (c + (c * c + 4.0 * gamma).sqrt()), 0.0);
    assert!(ulps(prox(c, gamma), exact_prox(c, gamma)) <= 4);
    assert!(ulps(prox(c, gamma), 1e-12) <= 4);
}

#[test]
fn prox_is_firmly_nonexpansive() {
    let mut dice = Dice::new(2);
    for _ in 0..20_000 {
        let gamma = 10f64.powf(dice.between(-6.0, 3.0));
        let (a, b) = (5.0 * dice.normal(), 5.0 * dice.normal());
        let (dp, d) = (prox(a, gamma) - prox(b, gamma), a - b);
        assert!(dp * dp <= dp * d + 1e-14 * (1.0 + d * d + gamma), "γ = {gamma}, {a}, {b}");
    }
}

/// On every triangular family the prox minimises h(v) + |v − w|²/(2γ): checked against nearby points.
#[test]
fn prox_of_the_whole_factor_is_the_minimiser() {
    let mut dice = Dice::new(3);
    for family in families().iter().filter(|f| **f != Family::Symmetric) {
        for _ in 0..20 {
            let gamma = dice.between(0.01, 2.0);
            let w = Gaussian::new(dice.normals(6), random_factor(family, 6, 1.0, &mut dice)).unwrap();
            let mut p = w.clone();
            Update::Prox.map(&mut p, gamma, &mut Workspace::default()).unwrap();
            let objective = |v: &Gaussian| v.neg_entropy() + v.distance_squared(&w) / (2.0 * gamma);
            let best = objective(&p);
            for _ in 0..20 {
                let other =
                    Gaussian::new(w.mean().to_vec(), random_factor(family, 6, 1.0, &mut dice)).unwrap();
                for t in [1e-3, 0.1, 0.5] {
                    // p + t (other − p), by a projection on a ball around `other`
                    let mut v = p.clone();
                    let distance = p.distance_squared(&other).sqrt();
                    let ball =
                        Update::ProjectBall { center: Box::new(other.clone()), radius: (1.0 - t) * distance };
                    ball.map(&mut v, gamma, &mut Workspace::default()).unwrap();
                    assert!(objective(&v) >= best - 1e-12 * best.abs());
                }
            }
        }
    }
}

fn project(c: &[f64], floor: f64) -> Vec<f64> {
    // Symmetric::new wants positive definite input; a step may leave that set, so go through one: I − (I − c).
    let d = (c.len() as f64).sqrt() as usize;
    let mut w = Gaussian::isotropic(vec![0.0; d], 1.0, &Family::Symmetric).unwrap();
    let mut gradient =
        certus::estimator::Gradient::new(d, certus::estimator::Sampling { batch: d, antithetic: false });
    gradient.set_draws(Family::Lower.scaled_identity(d, 1.0).values());
    let shift: Vec<f64> = (0..d * d).map(|k| f64::from(u8::from(k % (d + 1) == 0)) - c[k]).collect();
    let target = Linear { dim: d, slopes: shift.iter().map(|x| -x * d as f64).collect() };
    let mut workspace = Workspace::default();
    certus::estimator::Estimator::Energy.estimate(&target, &w, &mut gradient, &mut workspace).unwrap();
    Update::ProjectSpectrum { floor }.apply(&mut w, &gradient, 1.0, &mut workspace).unwrap();
    w.factor().values().to_vec()
}

/// A target whose gradient at sample k is column k of `slopes`: it puts any matrix into a gradient.
struct Linear {
    dim: usize,
    slopes: Vec<f64>,
}

impl certus::Target for Linear {
    fn dim(&self) -> usize {
        self.dim
    }
    fn log_density(
        &self,
        _: &[f64],
        values: &mut [f64],
        gradients: &mut [f64],
    ) -> Result<(), certus::TargetError> {
        values.fill(0.0);
        gradients.copy_from_slice(&self.slopes);
        Ok(())
    }
}

fn random_symmetric(d: usize, dice: &mut Dice) -> Vec<f64> {
    let values: Vec<f64> = (0..d).map(|_| 2.0 * dice.normal()).collect();
    spectral(&dice.rotation(d), &values, |x| x)
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum::<f64>().sqrt()
}

#[test]
fn projection_on_the_spectrum() {
    let mut dice = Dice::new(4);
    for d in [1, 2, 3, 7, 70] {
        let eps = 100.0 * d as f64 * f64::EPSILON;
        for _ in 0..if d > 10 { 5 } else { 60 } {
            let floor = dice.between(0.05, 1.5);
            let values: Vec<f64> = (0..d).map(|_| 2.0 * dice.normal()).collect();
            let rotation = dice.rotation(d);
            let c = spectral(&rotation, &values, |x| x);
            let p = project(&c, floor);
            // the closed form: max(λ, floor), *not* max(|λ|, floor)
            assert!(distance(&p, &spectral(&rotation, &values, |x| x.max(floor))) <= 10.0 * eps);
            assert!(distance(&p, &transpose(&p, d)) == 0.0, "symmetric to the bit");
            assert!(distance(&project(&p, floor), &p) <= 10.0 * eps, "idempotent");
            let other = random_symmetric(d, &mut dice);
            let q = project(&other, floor);
            assert!(distance(&p, &q) <= distance(&c, &other) + 10.0 * eps, "nonexpansive");
            // equivariant: proj(R C Rᵀ) = R proj(C) Rᵀ
            let r = dice.rotation(d);
            let turn = |x: &[f64]| {
                let mut y = times(&times(&r, x, d), &transpose(&r, d), d);
                (0..d).for_each(|j| (j..d).for_each(|i| y[i * d + j] = y[j * d + i]));
                y
            };
            assert!(distance(&project(&turn(&c), floor), &turn(&p)) <= 20.0 * eps, "equivariant");
        }
    }
}

/// A15: −I goes to I/√M. A singular value decomposition would keep its size and return I.
#[test]
fn erratum_a15_negative_eigenvalues_are_clamped() {
    let (d, smoothness) = (4, 9.0_f64);
    let minus: Vec<f64> = Family::Lower.scaled_identity(d, 1.0).values().iter().map(|x| -5.0 * x).collect();
    let p = project(&minus, 1.0 / smoothness.sqrt());
    for (k, x) in p.iter().enumerate() {
        let want = if k % (d + 1) == 0 { 1.0 / 3.0 } else { 0.0 };
        assert!((x - want).abs() < 1e-15, "entry {k} is {x}");
    }
}

#[test]
fn projection_on_a_ball() {
    let mut dice = Dice::new(5);
    for family in families() {
        for _ in 0..50 {
            let draw = |dice: &mut Dice| {
                Gaussian::new(dice.normals(6), random_factor(&family, 6, 1.0, dice)).unwrap()
            };
            let (center, a, b) = (draw(&mut dice), draw(&mut dice), draw(&mut dice));
            let radius = dice.between(0.1, 5.0);
            let ball = Update::ProjectBall { center: Box::new(center.clone()), radius };
            let go = |w: &Gaussian| {
                let mut p = w.clone();
                ball.map(&mut p, 1.0, &mut Workspace::default()).unwrap();
                p
            };
            let (p, q) = (go(&a), go(&b));
            assert!(p.distance_squared(&center).sqrt() <= radius * (1.0 + 1e-14));
            assert!(go(&p).distance_squared(&p).sqrt() <= 1e-14 * radius, "idempotent");
            assert!(p.distance_squared(&q) <= a.distance_squared(&b) * (1.0 + 1e-13), "nonexpansive");
            if a.distance_squared(&center).sqrt() < radius {
                assert_eq!(p, a, "points inside stay");
            }
        }
    }
}

/// ⟨proj_V(z uᵀ), C⟩ = ⟨z, C u⟩ in every space, with the product of the *stored* entries: the adjoint of T_w, and the
/// isometry that erratum A16 asks for (symm(c) would count off-diagonal entries once).
#[test]
fn adjoint_and_isometry_a16() {
    let mut dice = Dice::new(6);
    for family in families() {
        for _ in 0..100 {
            let c = random_factor(&family, 6, 1.0, &mut dice);
            let (z, u) = (dice.normals(6), dice.normals(6));
            let mut outer = family.scaled_identity(6, 1.0);
            let identity = outer.clone();
            outer.add_outer(1.0, &z, &u);
            let product: f64 = outer
                .values()
                .iter()
                .zip(identity.values())
                .zip(c.values())
                .map(|((o, i), c)| (o - i) * c)
                .sum();
            let mut cu = vec![0.0; 6];
            c.add_apply(&u, &mut cu);
            assert!((product - dot(&z, &cu)).abs() < 1e-12, "{}", family.name());
            // isometry: stored entries carry the Frobenius norm of the matrix
            let dense = c.to_dense();
            assert!((c.norm_squared() - dot(&dense, &dense)).abs() < 1e-12 * c.norm_squared());
        }
    }
    // A16 in numbers: an off-diagonal pair of 1s has squared norm 2, and one step moves it by half of π uᵀ + u πᵀ.
    let mut c = Family::Symmetric.scaled_identity(2, 1.0);
    c.add_outer(1.0, &[1.0, 0.0], &[0.0, 1.0]);
    assert_eq!(c.to_dense(), vec![1.0, 0.5, 0.5, 1.0]);
    assert_eq!(c.norm_squared(), 2.5);
}

#[test]
fn patterns_equal_their_dense_counterparts() {
    let mut dice = Dice::new(7);
    let many = Family::Pattern(Arc::new(
        Tree::new(
            &[3, 2, 4, 1, 2, 5, 1, 1],
            &[None, Some(0), Some(1), Some(0), None, Some(4), Some(2), Some(6)],
        )
        .unwrap(),
    ));
    let cases: Vec<(Family, usize)> = families().into_iter().map(|f| (f, 6)).chain([(many, 19)]).collect();
    for (family, d) in cases {
        let Family::Pattern(tree) = &family else { continue };
        let mask = pattern_mask(tree);
        for n in [1, 3, 9] {
            let c = random_factor(&family, d, 1.0, &mut dice);
            let dense = from_dense(&Family::Lower, &c.to_dense());
            let x = dice.normals(d * n);
            let close = |a: &[f64], b: &[f64], what: &str| {
                let scale = 1.0 + b.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
                assert!(distance(a, b) < 1e-12 * scale * (d * n) as f64, "{what}: {a:?} {b:?}");
            };
            let both = |f: &dyn Fn(&Factor) -> Vec<f64>, what: &str| close(&f(&c), &f(&dense), what);
            both(
                &|c| {
                    let mut z = vec![0.5; d * n];
                    c.add_apply(&x, &mut z);
                    z
                },
                "C u",
            );
            both(
                &|c| {
                    let mut z = vec![0.5; d * n];
                    c.add_apply_transpose(&x, &mut z);
                    z
                },
                "Cᵀ u",
            );
            both(
                &|c| {
                    let mut z = x.clone();
                    assert!(c.solve(&mut z, &mut Workspace::default()));
                    z
                },
                "C⁻¹ x",
            );
            both(
                &|c| {
                    let mut z = x.clone();
                    assert!(c.solve_transpose(&mut z, &mut Workspace::default()));
                    z
                },
                "C⁻ᵀ x",
            );
            both(&|c| c.variances(), "variances");
            both(&|c| vec![c.log_det()], "log det");
            both(&|c| (0..d).map(|i| c.diagonal(i)).collect(), "diagonal");
            // gradients are projected: the dense result, with what lies outside the pattern left alone
            let a = dice.normals(d * n);
            let (mut sparse, mut full) = (c.clone(), dense.clone());
            sparse.add_outer(-0.3, &a, &x);
            full.add_outer(-0.3, &a, &x);
            let kept: Vec<f64> =
                full.to_dense().iter().zip(&mask).map(|(x, &inside)| if inside { *x } else { 0.0 }).collect();
            close(&sparse.to_dense(), &kept, "outer product");
            assert_eq!(
                sparse.values().len() - nonzero_slots(&sparse),
                zero_slots(&sparse),
                "zeros stay zero"
            );
            // the inverse stays in the pattern, and so does a product (closed under both)
            let mut identity = Family::Lower.scaled_identity(d, 1.0).to_dense();
            c.solve(&mut identity, &mut Workspace::default());
            assert!(identity.iter().zip(&mask).all(|(x, &inside)| inside || x.abs() < 1e-14));
            let p = random_factor(&family, d, 1.0, &mut dice);
            let w = Gaussian::new(vec![0.0; d], c.clone()).unwrap();
            let mapped = Frame::new(vec![0.0; d], p.clone()).unwrap().to_original(&w).unwrap();
            close(&mapped.factor().to_dense(), &times(&p.to_dense(), &c.to_dense(), d), "P C");
        }
    }
}

fn nonzero_slots(c: &Factor) -> usize {
    let mut n = 0;
    c.for_each_entry(|_, _, _| n += 1);
    n
}

fn zero_slots(c: &Factor) -> usize {
    c.values().iter().filter(|x| **x == 0.0).count()
}

/// Dense kernels at sizes that cross block boundaries, against the plain triple loop.
#[test]
fn dense_kernels_equal_the_triple_loop() {
    let mut dice = Dice::new(8);
    for d in [1, 17, 63, 64, 65, 150] {
        for n in [1, 2, 33] {
            for family in [Family::Lower, Family::Symmetric] {
                let mut c = random_factor(&family, d, 0.3, &mut dice);
                let (dense, u, a) = (c.to_dense(), dice.normals(d * n), dice.normals(d * n));
                let tolerance = 1e-13 * (d * n) as f64;
                let mut z = vec![0.0; d * n];
                c.add_apply(&u, &mut z);
                assert!(distance(&z, &times(&dense, &u, d)) < tolerance);
                let mut z = vec![0.0; d * n];
                c.add_apply_transpose(&u, &mut z);
                assert!(distance(&z, &times(&transpose(&dense, d), &u, d)) < tolerance);
                c.add_outer(0.7, &a, &u);
                for j in 0..d {
                    for i in 0..d {
                        let sum =
                            |p: usize, q: usize| -> f64 { (0..n).map(|k| a[k * d + p] * u[k * d + q]).sum() };
                        let step = match family {
                            Family::Lower => {
                                if i >= j {
                                    sum(i, j)
                                } else {
                                    0.0
                                }
                            }
                            _ => 0.5 * (sum(i, j) + sum(j, i)),
                        };
                        let want = dense[j * d + i] + 0.7 * step;
                        assert!((c.to_dense()[j * d + i] - want).abs() < tolerance);
                    }
                    if d > 20 {
                        break;
                    } // one column is enough at large sizes; to_dense is slow
                }
                let values = c.values();
                for j in 0..d {
                    for i in 0..j {
                        let (above, below) = (values[j * d + i], values[i * d + j]);
                        assert!(if family == Family::Lower { above == 0.0 } else { above == below });
                    }
                }
            }
        }
    }
}

/// ∇l = (H(m − m̄), proj_V(H C)) and ∇h = (0, −proj_V(C⁻ᵀ)) against central differences of the closed forms, in every
/// direction of every space.
#[test]
fn closed_form_gradients_equal_finite_differences() {
    let mut dice = Dice::new(9);
    let target = GaussianTarget::with_kappa(6, 8.0, &mut dice);
    for family in families() {
        let w = Gaussian::new(dice.normals(6), random_factor(&family, 6, 0.7, &mut dice)).unwrap();
        let energy = |w: &Gaussian| {
            let dm: Vec<f64> = w.mean().iter().zip(&target.mean).map(|(a, b)| a - b).collect();
            let c = w.factor().to_dense();
            0.5 * (dot(&dm, &times(&target.hessian, &dm, 6)) + dot(&c, &times(&target.hessian, &c, 6)))
        };
        // The gradient of l in V, as a factor: proj_V(H C · I).
        let mut gradient_l = family.scaled_identity(6, 1.0);
        let identity = Family::Lower.scaled_identity(6, 1.0).to_dense();
        gradient_l.add_outer(1.0, &times(&target.hessian, &w.factor().to_dense(), 6), &identity);
        let one = family.scaled_identity(6, 1.0);
        let gl: Vec<f64> = gradient_l.values().iter().zip(one.values()).map(|(a, b)| a - b).collect();
        let mut moved = w.factor().clone();
        assert!(moved.add_inverse_transpose(1.0, &mut Workspace::default()));
        let gh: Vec<f64> = w.factor().values().iter().zip(moved.values()).map(|(a, b)| a - b).collect();
        for (i, j) in entries(w.factor()) {
            let unit = |k: usize| (0..6).map(|x| f64::from(u8::from(x == k))).collect::<Vec<f64>>();
            let eps = 1e-5;
            let shifted = |t: f64| {
                let mut f = w.factor().clone();
                f.add_outer(t, &unit(i), &unit(j));
                Gaussian::new(w.mean().to_vec(), f).unwrap()
            };
            let direction: Vec<f64> = {
                let mut f = family.scaled_identity(6, 1.0);
                f.add_outer(1.0, &unit(i), &unit(j));
                f.values().iter().zip(one.values()).map(|(a, b)| a - b).collect()
            };
            let difference =
                |f: &dyn Fn(&Gaussian) -> f64| (f(&shifted(eps)) - f(&shifted(-eps))) / (2.0 * eps);
            // central differences: error ~ eps² f‴ + f·ulp/eps
            assert!(
                (difference(&energy) - dot(&gl, &direction)).abs() < 1e-8,
                "∇l, {} ({i}, {j})",
                family.name()
            );
            let want = dot(&gh, &direction);
            let got = difference(&Gaussian::neg_entropy);
            assert!(
                (got - want).abs() < 1e-5 * (1.0 + want.abs().powi(3)),
                "∇h, {} ({i}, {j}): {got} {want}",
                family.name()
            );
        }
    }
}

fn entries(c: &Factor) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    c.for_each_entry(|i, j, _| out.push((i, j)));
    out
}

/// A12: h with its constant: for p = N(0, I), q = p the ELBO is log p(x) = 0 exactly, with no noise.
#[test]
fn neg_elbo_keeps_every_constant() {
    let mut dice = Dice::new(10);
    let target = GaussianTarget::with_kappa(5, 30.0, &mut dice);
    let w = target.optimum(&Family::Lower);
    let estimate = certus::diagnostics::neg_elbo(&target, &w, 1000, 0).unwrap();
    assert!(estimate.value.abs() < 1e-12 && estimate.standard_error < 1e-13, "{estimate:?}");
    // and away from it, KL between two Gaussians in closed form
    let q = Gaussian::new(dice.normals(5), random_factor(&Family::Lower, 5, 0.5, &mut dice)).unwrap();
    let dm: Vec<f64> = q.mean().iter().zip(&target.mean).map(|(a, b)| a - b).collect();
    let c = q.factor().to_dense();
    let trace = dot(&c, &times(&target.hessian, &c, 5));
    let log_det: f64 = target.values.iter().map(|x| x.ln()).sum();
    let kl = 0.5 * (trace + dot(&dm, &times(&target.hessian, &dm, 5)) - 5.0 - log_det) - q.factor().log_det();
    let estimate = certus::diagnostics::neg_elbo(&target, &q, 100_000, 1).unwrap();
    assert!((estimate.value - kl).abs() < 5.0 * estimate.standard_error, "{estimate:?} against {kl}");
}

/// h(N(0, s²I)) = −d log s − (d/2)(1 + log 2π), the expectation of log q under q itself.
#[test]
fn neg_entropy_has_its_constant() {
    for family in families() {
        let w = Gaussian::isotropic(vec![0.3; 6], 2.0, &family).unwrap();
        let want = -6.0 * 2f64.ln() - 3.0 * (1.0 + (2.0 * std::f64::consts::PI).ln());
        assert!((w.neg_entropy() - want).abs() < 1e-13, "{}", family.name());
        let draws = w.sample(20_000, 5);
        let mut values = vec![0.0; 20_000];
        assert!(w.log_density(&draws, &mut values, &mut Workspace::default()));
        // log q has variance d/2 = 3, so the mean of 20,000 draws is within 5·√(3/20,000) = .061
        assert!((values.iter().sum::<f64>() / 20_000.0 - want).abs() < 0.061);
    }
}

/// A frame changes neither the density (with its Jacobian) nor the ELBO, and maps Gaussians back.
#[test]
fn frames_are_changes_of_variables() {
    let mut dice = Dice::new(11);
    let target = GaussianTarget::with_kappa(6, 50.0, &mut dice);
    for family in families() {
        let frame = Frame::new(dice.normals(6), random_factor(&family, 6, 0.8, &mut dice)).unwrap();
        let framed = certus::frame::Framed::new(&target, frame.clone(), None).unwrap();
        for inner in families() {
            let y = Gaussian::new(dice.normals(6), random_factor(&inner, 6, 0.5, &mut dice)).unwrap();
            let z = frame.to_original(&y).unwrap();
            // same law: mean and covariance
            let p = random_dense(&frame, &y);
            let mut covariance = times(&p, &transpose(&p, 6), 6);
            covariance.iter_mut().zip(z.covariance()).for_each(|(a, b)| *a -= b);
            assert!(dot(&covariance, &covariance).sqrt() < 1e-11);
            let a = certus::diagnostics::neg_elbo(&framed, &y, 20_000, 3).unwrap();
            let b = certus::diagnostics::neg_elbo(&target, &z, 20_000, 4).unwrap();
            let error = (a.standard_error.powi(2) + b.standard_error.powi(2)).sqrt();
            assert!(
                (a.value - b.value).abs() < 5.0 * error,
                "{} in {}: {a:?} {b:?}",
                inner.name(),
                family.name()
            );
        }
        // gradients through the frame against central differences
        let point = dice.normals(6);
        let value = |x: &[f64]| {
            let (mut v, mut g) = ([0.0], vec![0.0; 6]);
            certus::Target::log_density(&framed, x, &mut v, &mut g).unwrap();
            (v[0], g)
        };
        for i in 0..6 {
            let shifted = |t: f64| {
                let mut x = point.clone();
                x[i] += t;
                value(&x).0
            };
            let difference = (shifted(1e-5) - shifted(-1e-5)) / 2e-5;
            assert!((difference - value(&point).1[i]).abs() < 1e-4 * (1.0 + difference.abs()));
        }
    }
}

/// P · C_y as a dense matrix, column by column through the frame.
fn random_dense(frame: &Frame, y: &Gaussian) -> Vec<f64> {
    let c = y.factor().to_dense();
    let origin = frame.to_original(&Gaussian::isotropic(vec![0.0; 6], 1.0, &Family::Lower).unwrap()).unwrap();
    (0..6)
        .flat_map(|j| {
            let w = Gaussian::isotropic(c[j * 6..][..6].to_vec(), 1.0, &Family::Lower).unwrap();
            let z = frame.to_original(&w).unwrap();
            z.mean().iter().zip(origin.mean()).map(|(a, b)| a - b).collect::<Vec<f64>>()
        })
        .collect()
}
