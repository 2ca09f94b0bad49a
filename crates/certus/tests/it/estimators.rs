//! The estimators are unbiased, and their second moments stay below every bound the theorems use.
#![allow(clippy::unwrap_used)]

use crate::common::*;
use certus::estimator::{Estimator, Gradient, Quadratic, Sampling};
use certus::factor::Workspace;
use certus::random::{Purpose, Random};
use certus::theorem::Problem;
use certus::{Curvature, Family, Gaussian, Tree};
use std::sync::Arc;

fn estimators(d: usize) -> Vec<Estimator> {
    let quadratic = Quadratic { center: vec![0.3; d], precision: 1.7 };
    vec![
        Estimator::Energy,
        Estimator::Entropy,
        Estimator::StickingTheLanding,
        Estimator::ControlVariate(quadratic),
    ]
}

/// (∇l or ∇f) in closed form on a Gaussian target: (H(m − m̄), proj_V(H C) [− proj_V(C⁻ᵀ)]).
fn exact_gradient(target: &GaussianTarget, w: &Gaussian, with_entropy: bool) -> (Vec<f64>, Vec<f64>) {
    let d = w.dim();
    let family = w.factor().family();
    let dm: Vec<f64> = w.mean().iter().zip(&target.mean).map(|(a, b)| a - b).collect();
    let identity = Family::Lower.scaled_identity(d, 1.0).to_dense();
    let mut factor = family.scaled_identity(d, 1.0);
    let start = factor.values().to_vec();
    let mut full = times(&target.hessian, &w.factor().to_dense(), d);
    if with_entropy {
        // C⁻ᵀ column by column with the plain solver
        let ct = transpose(&w.factor().to_dense(), d);
        for j in 0..d {
            let e: Vec<f64> = (0..d).map(|i| f64::from(u8::from(i == j))).collect();
            full[j * d..][..d].iter_mut().zip(solve(&ct, &e)).for_each(|(a, b)| *a -= b);
        }
    }
    factor.add_outer(1.0, &full, &identity);
    let values = factor.values().iter().zip(&start).map(|(a, b)| a - b).collect();
    (times(&target.hessian, &dm, d), values)
}

/// z-test on every coordinate of every estimator in every space: 2·10⁵ draws, |z| ≤ 5.5. Over the some 1,500 tests made
/// here the chance of a false alarm is below 1e-4.
#[test]
fn unbiased() {
    let mut dice = Dice::new(20);
    let target = GaussianTarget::with_kappa(6, 10.0, &mut dice);
    for family in families() {
        let w = Gaussian::new(dice.normals(6), random_factor(&family, 6, 0.6, &mut dice)).unwrap();
        for (k, estimator) in estimators(6).iter().enumerate() {
            let with_entropy = matches!(estimator, Estimator::Entropy | Estimator::StickingTheLanding);
            let (mean, factor) = exact_gradient(&target, &w, with_entropy);
            let exact: Vec<f64> = mean.into_iter().chain(factor).collect();
            for antithetic in [false, true] {
                let sampling = Sampling { batch: 10, antithetic };
                let mut g = Gradient::new(6, sampling);
                let mut workspace = Workspace::default();
                let random = Random::new(77 + k as u64, Purpose::Step, u64::from(antithetic));
                let n = 200_000 / sampling.points() as u64;
                let (mut sum, mut squares) = (vec![0.0; exact.len()], vec![0.0; exact.len()]);
                for t in 0..n {
                    g.draw(&random, t);
                    estimator.estimate(&target, &w, &mut g, &mut workspace).unwrap();
                    let (a, b) = g.explicit(&w, &mut workspace);
                    for (i, x) in a.iter().chain(&b).enumerate() {
                        let e = x - exact[i];
                        sum[i] += e;
                        squares[i] += e * e;
                    }
                }
                let n = n as f64;
                for i in 0..exact.len() {
                    let se = (squares[i] / n / n).sqrt();
                    // a coordinate without noise (zeros of the pattern, antithetic means of a linear π) must be exact
                    let ok =
                        if se < 1e-14 { sum[i].abs() / n < 1e-12 } else { (sum[i] / n).abs() <= 5.5 * se };
                    assert!(
                        ok,
                        "{} in {}, coordinate {i}: bias {:e}, s.e. {se:e}",
                        estimator.name(),
                        family.name(),
                        sum[i] / n
                    );
                }
            }
        }
    }
}

/// E|g|² for g = (v, proj_V(v uᵀ)), v = b + A u.
///
/// Triangular spaces: Σ_i (k_i + 1)(b_i² + |A_i|²) + 2|P∘A|². 𝒮: |sym(v uᵀ)|² = (|v|²|u|² + (v·u)²)/2.
fn second_moment(family: &Family, a: &[f64], b: &[f64]) -> f64 {
    let d = b.len();
    let (bb, aa) = (dot(b, b), dot(a, a));
    if let Family::Symmetric = family {
        let trace: f64 = (0..d).map(|i| a[i * (d + 1)]).sum();
        let trace_square: f64 = (0..d * d).map(|k| a[k] * a[(k % d) * d + k / d]).sum();
        let (n, dd) = (d as f64, d as f64 + 2.0);
        return bb + aa + 0.5 * (n * bb + dd * aa + bb + trace * trace + trace_square + aa);
    }
    let mut inside = vec![false; d * d];
    family.scaled_identity(d, 1.0).for_each_entry(|i, j, _| inside[j * d + i] = true);
    (0..d)
        .map(|i| {
            let row: f64 = (0..d).map(|j| a[j * d + i] * a[j * d + i]).sum();
            let kept: f64 = (0..d).filter(|&j| inside[j * d + i]).map(|j| a[j * d + i] * a[j * d + i]).sum();
            let k = (0..d).filter(|&j| inside[j * d + i]).count() as f64;
            (k + 1.0) * (b[i] * b[i] + row) + 2.0 * kept
        })
        .sum()
}

/// The closed form above is what the estimators really have: measured on each family (5.5 standard errors).
#[test]
fn second_moments_are_the_closed_forms() {
    let mut dice = Dice::new(21);
    let target = GaussianTarget::with_kappa(6, 5.0, &mut dice);
    for family in families() {
        let w = Gaussian::new(dice.normals(6), random_factor(&family, 6, 0.6, &mut dice)).unwrap();
        let dm: Vec<f64> = w.mean().iter().zip(&target.mean).map(|(a, b)| a - b).collect();
        let b = times(&target.hessian, &dm, 6);
        let exact = second_moment(&family, &times(&target.hessian, &w.factor().to_dense(), 6), &b);
        let mut g = Gradient::new(6, Sampling { batch: 1, antithetic: false });
        let (random, mut workspace) = (Random::new(5, Purpose::Step, 0), Workspace::default());
        let (mut sum, mut squares, n) = (0.0, 0.0, 100_000);
        for t in 0..n {
            g.draw(&random, t);
            Estimator::Energy.estimate(&target, &w, &mut g, &mut workspace).unwrap();
            let (m, c) = g.explicit(&w, &mut workspace);
            let x = dot(&m, &m) + dot(&c, &c) - exact;
            sum += x;
            squares += x * x;
        }
        let (n, se) = (n as f64, (squares).sqrt() / n as f64);
        assert!((sum / n).abs() <= 5.5 * se, "{}: {} against {exact}, s.e. {se}", family.name(), sum / n);
    }
}

struct Case {
    target: GaussianTarget,
    family: Family,
    problem: Problem,
}

fn random_case(dice: &mut Dice, batch: usize) -> Case {
    let d = 1 + (dice.uniform() * 4.999) as usize;
    let kappa = 10f64.powf(dice.between(0.0, 3.0));
    let mu = 10f64.powf(dice.between(-1.0, 1.0));
    let values: Vec<f64> = (0..d)
        .map(|i| {
            if i == 0 {
                mu
            } else if i == 1 {
                mu * kappa
            } else {
                mu * kappa.powf(dice.uniform())
            }
        })
        .collect();
    let target = GaussianTarget::new(dice.normals(d), dice.rotation(d), values);
    let family = match (dice.uniform() * 5.0) as usize {
        0 => Family::Lower,
        1 | 2 => Family::Symmetric,
        3 => Family::Pattern(Arc::new(Tree::diagonal(d).unwrap())),
        _ if d >= 3 => Family::Pattern(Arc::new(Tree::arrow(1, &[1, d - 2]).unwrap())),
        _ => Family::Lower,
    };
    let curvature = Curvature::new(target.mu(), target.m(), certus::internals::by_model()).unwrap();
    let problem = Problem::new(d, &curvature, &family, batch);
    Case { target, family, problem }
}

/// A random w; in W_M if the family is symmetric.
fn random_gaussian(case: &Case, dice: &mut Dice) -> Gaussian {
    let d = case.problem.dim;
    let scale = 10f64.powf(dice.between(-1.0, 1.0)) / case.problem.smoothness.sqrt();
    let factor = match case.family {
        Family::Symmetric => {
            let floor = case.problem.smoothness.powf(-0.5);
            let values: Vec<f64> = (0..d).map(|_| floor + scale * dice.uniform()).collect();
            from_dense(&case.family, &spectral(&dice.rotation(d), &values, |x| x))
        }
        _ => random_factor(&case.family, d, scale, dice),
    };
    let spread = 10f64.powf(dice.between(-2.0, 1.0));
    let mean = dice.normals(d).iter().zip(&case.target.mean).map(|(x, m)| m + spread * x).collect();
    Gaussian::new(mean, factor).unwrap()
}

/// (A, b) with π = b + A u.
fn affine(target: &GaussianTarget, w: &Gaussian) -> (Vec<f64>, Vec<f64>) {
    let d = w.dim();
    let dm: Vec<f64> = w.mean().iter().zip(&target.mean).map(|(a, b)| a - b).collect();
    (times(&target.hessian, &w.factor().to_dense(), d), times(&target.hessian, &dm, d))
}

fn inverse(a: &[f64], d: usize) -> Vec<f64> {
    (0..d).flat_map(|j| solve(a, &(0..d).map(|i| f64::from(u8::from(i == j))).collect::<Vec<_>>())).collect()
}

fn norm2(parts: &(Vec<f64>, Vec<f64>)) -> f64 {
    dot(&parts.0, &parts.0) + dot(&parts.1, &parts.1)
}

/// 10⁵ random (H, m, C), d ≤ 5: fact 2, B1 to B4 and Theorem H are never exceeded; the worst ratio of each is recorded,
/// so that a bound that is only true because it is huge would be noticed too.
#[test]
fn second_moments_never_exceed_their_bounds() {
    let mut dice = Dice::new(22);
    let mut worst: std::collections::BTreeMap<&str, f64> = Default::default();
    let mut check = |label: &'static str, value: f64, bound: f64| {
        assert!(value <= bound * (1.0 + 1e-9) + 1e-9, "{label}: {value} > {bound}");
        let ratio = if bound > 0.0 { value / bound } else { 0.0 };
        let entry = worst.entry(label).or_insert(0.0);
        *entry = entry.max(ratio);
    };
    for round in 0..100_000 {
        let batch = if round % 2 == 0 { 1 } else { 10 };
        let case = random_case(&mut dice, batch);
        let (p, d, bf) = (&case.problem, case.problem.dim, batch as f64);
        let (mu, m) = (p.strong_convexity, p.smoothness);
        let optimum = case.target.optimum(&case.family);
        let w = random_gaussian(&case, &mut dice);
        let e = w.distance_squared(&optimum);
        let origin = |x: &Gaussian| {
            x.mean().iter().zip(&case.target.mean).map(|(a, b)| (a - b).powi(2)).sum::<f64>()
                + x.factor().norm_squared()
        };
        let solution = origin(&optimum);
        check("fact 4: |w* − w̄|² ≤ d/μ", solution, p.solution_norm_squared());

        let (a, b) = affine(&case.target, &w);
        let single = second_moment(&case.family, &a, &b);
        let gradient_l = exact_gradient(&case.target, &w, false);
        let averaged = |moment: f64, mean: f64| (1.0 - 1.0 / bf) * mean + moment / bf;
        let general = (d as f64 + 1.0) * dot(&b, &b) + (d as f64 + 3.0) * dot(&a, &a);
        check("fact 2: any V is below all matrices", single, general);
        check("Theorem H: c_P M²|w − w̄|²", single, p.pattern_constant() * m * m * origin(&w));
        let bound = p.energy_second_moment(solution);
        check("B1 energy", averaged(single, norm2(&gradient_l)), bound.a * e + bound.b);

        // B2 between two arbitrary points: Δπ = HΔm + HΔC u
        let other = random_gaussian(&case, &mut dice);
        let (a2, b2) = affine(&case.target, &other);
        let minus = |x: &[f64], y: &[f64]| -> Vec<f64> { x.iter().zip(y).map(|(p, q)| p - q).collect() };
        let difference = second_moment(&case.family, &minus(&a, &a2), &minus(&b, &b2));
        let (dm, dc) =
            (minus(w.mean(), other.mean()), minus(&w.factor().to_dense(), &other.factor().to_dense()));
        let monotone = dot(&minus(&b, &b2), &dm) + dot(&minus(&a, &a2), &dc);
        check("B2 expected smoothness", difference, p.expected_smoothness() * monotone);

        // B3 at the optimum
        let (a0, b0) = affine(&case.target, &optimum);
        let gradient_star = exact_gradient(&case.target, &optimum, false);
        let variance = second_moment(&case.family, &a0, &b0) - norm2(&gradient_star);
        check("B3 noise of the energy estimator at w*", variance, p.energy_noise_at_optimum());
        check("fact 5: |∇l(w*)|² ≤ dM", norm2(&gradient_star), d as f64 * m);
        check("fact 5: |∇l(w*)|² ≥ dμ", d as f64 * mu, norm2(&gradient_star));

        if case.family == Family::Symmetric {
            let gradient_f = exact_gradient(&case.target, &w, true);
            // entropy: E|g|² + 2⟨∇l, ∇h⟩ + |∇h|² = E|g|² − |∇l|² + |∇f|²
            let entropy = single - norm2(&gradient_l) + norm2(&gradient_f);
            let entropy = averaged(entropy, norm2(&gradient_f));
            let bound = p.entropy_second_moment(solution);
            check("B1 entropy", entropy, bound.a * e + bound.b);
            let paper = p.entropy_second_moment_paper(solution);
            check("paper entropy (2dM)", entropy, paper.a * e + paper.b);
            // sticking the landing: v = b + (A − C⁻¹)u; at w* it is zero
            let c = w.factor().to_dense();
            let residual = minus(&a, &inverse(&c, d));
            let stl = second_moment(&case.family, &residual, &b);
            let bound = p.stl_second_moment();
            check("B1 STL", averaged(stl, norm2(&gradient_f)), bound.a * e + bound.b);
            check("B4 (i) STL difference", stl, 4.0 * (d as f64 + 3.0) * m * m * e);
            let monotone_f = dot(&gradient_f.0, &minus(w.mean(), optimum.mean()))
                + dot(&gradient_f.1, &minus(w.factor().values(), optimum.factor().values()));
            check("B4 (i) STL difference, 2Λ I_f", stl, 2.0 * p.expected_smoothness() * monotone_f);
            check("I_f ≥ μ|w − w*|²", mu * e, monotone_f);
            check("|∇f|² ≤ 2M I_f", norm2(&gradient_f), 2.0 * m * monotone_f);
            let at_optimum =
                second_moment(&case.family, &minus(&a0, &inverse(&optimum.factor().to_dense(), d)), &b0);
            check("STL at w* is zero", at_optimum, 1e-18 * d as f64 * m);
        }
    }
    // Bounds that are attained must be seen (nearly) attained, or the test looks in the wrong places.
    for (label, at_least) in [
        ("fact 4: |w* − w̄|² ≤ d/μ", 0.99),
        ("Theorem H: c_P M²|w − w̄|²", 0.9),
        ("B2 expected smoothness", 0.3),
        ("B4 (i) STL difference", 0.3),
        ("fact 5: |∇l(w*)|² ≤ dM", 0.99),
    ] {
        assert!(worst[label] >= at_least, "{label}: worst ratio only {}", worst[label]);
    }
}

/// B3 and B4 (ii) at the optimum of a target that is *not* Gaussian: −log p = Σ_i μ z²/2 + (M−μ) log cosh(z − c_i),
/// whose curvature runs through (μ, M]. Separable, so w* is diagonal and all moments are products of 1-D integrals.
#[test]
fn noise_at_the_optimum_of_a_curved_target() {
    let (n, h) = (1601, 0.0125);
    let nodes: Vec<(f64, f64)> = (0..n)
        .map(|k| {
            let x = h * (k as f64 - (n / 2) as f64);
            (x, h * (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt())
        })
        .collect();
    let integrate = |f: &dyn Fn(f64) -> f64| nodes.iter().map(|(x, w)| w * f(*x)).sum::<f64>();
    for (mu, m) in [(1.0, 3.0), (1.0, 30.0), (0.2, 50.0)] {
        for shifts in [vec![0.0, 1.0], vec![2.0, -1.0, 0.5], vec![3.0; 5]] {
            let d = shifts.len();
            let curvature = Curvature::new(mu, m, certus::internals::by_model()).unwrap();
            let problem = Problem::new(d, &curvature, &Family::Symmetric, 1);
            // per coordinate: E π = 0 and s² E φ″ = 1, by a damped fixed point
            let coordinates: Vec<(f64, f64, f64)> = shifts
                .iter()
                .map(|&c| {
                    let slope = |z: f64| mu * z + (m - mu) * (z - c).tanh();
                    let bend = |z: f64| mu + (m - mu) / (z - c).cosh().powi(2);
                    let (mut mean, mut sd) = (c * 0.5, 1.0 / m.sqrt());
                    for _ in 0..2000 {
                        let curvature = integrate(&|u| bend(mean + sd * u));
                        mean -= 0.3 * integrate(&|u| slope(mean + sd * u)) / curvature;
                        sd += 0.3 * (curvature.powf(-0.5) - sd);
                    }
                    assert!(integrate(&|u| slope(mean + sd * u)).abs() < 1e-11);
                    (c, mean, sd)
                })
                .collect();
            let moments = |v: &dyn Fn(f64, f64, f64, f64) -> f64| {
                // Σ E v², Σ E v²u², (Σ E v u)² − Σ (E v u)²
                let each: Vec<[f64; 3]> = coordinates
                    .iter()
                    .map(|&(c, mean, sd)| {
                        let v = |u: f64| v(c, mean, sd, u);
                        [
                            integrate(&|u| v(u).powi(2)),
                            integrate(&|u| (v(u) * u).powi(2)),
                            integrate(&|u| v(u) * u),
                        ]
                    })
                    .collect();
                let sum = |k: usize| each.iter().map(|e| e[k]).sum::<f64>();
                let cross = sum(2).powi(2) - each.iter().map(|e| e[2] * e[2]).sum::<f64>();
                // |v|² + (|v|²|u|² + (v·u)²)/2
                let spread = sum(1) + (d as f64 - 1.0) * sum(0);
                sum(0) + 0.5 * (spread + sum(1) + cross)
            };
            let slope = |c: f64, mean: f64, sd: f64, u: f64| {
                let z = mean + sd * u;
                mu * z + (m - mu) * (z - c).tanh()
            };
            let energy = moments(&slope) - coordinates.iter().map(|x| x.2.powi(-2)).sum::<f64>();
            assert!(energy <= problem.energy_noise_at_optimum(), "B3: {energy}");
            let stl = moments(&|c, mean, sd, u| slope(c, mean, sd, u) - u / sd);
            assert!(stl <= problem.stl_noise_at_optimum(), "B4: {stl} > {}", problem.stl_noise_at_optimum());
            assert!(stl > 1e-3 * (m - mu) / m, "the target must not be Gaussian: {stl}");
            // A25: K ≤ M − μ suffices; with κ = 1 there is no noise left, which 2M would not say.
            let gaussian = Curvature::new(m, m, certus::internals::by_model()).unwrap();
            assert_eq!(Problem::new(d, &gaussian, &Family::Symmetric, 1).stl_noise_at_optimum(), 0.0);
            // Control variate at w*, centred at the mode, against its bound (B6).
            let s = 0.5 * (mu + m);
            let modes: Vec<f64> = shifts
                .iter()
                .map(|&c| (0..200).fold(0.5 * c, |z, _| z - (mu * z + (m - mu) * (z - c).tanh()) / m))
                .collect();
            let mode_of = |c: f64| modes[shifts.iter().position(|x| *x == c).unwrap()];
            let controlled =
                moments(&|c, mean, sd, u| slope(c, mean, sd, u) - s * (mean + sd * u - mode_of(c)));
            assert!(controlled <= problem.control_variate_noise_at_optimum(s, 0.0), "B6: {controlled}");
        }
    }
}

/// Sticking the landing is identically zero at w* of a Gaussian target, draw by draw, antithetic or not, and so is the
/// control variate's noise when its quadratic *is* the target.
#[test]
fn no_noise_at_the_optimum_of_a_gaussian() {
    let mut dice = Dice::new(23);
    let target = GaussianTarget::with_kappa(6, 40.0, &mut dice);
    for family in [Family::Lower, Family::Symmetric] {
        let w = target.optimum(&family);
        for antithetic in [false, true] {
            let mut g = Gradient::new(6, Sampling { batch: 4, antithetic });
            let mut workspace = Workspace::default();
            for t in 0..500 {
                g.draw(&Random::new(1, Purpose::Step, 0), t);
                Estimator::StickingTheLanding.estimate(&target, &w, &mut g, &mut workspace).unwrap();
                let (m, c) = g.explicit(&w, &mut workspace);
                assert!(m.iter().chain(&c).all(|x| x.abs() < 1e-12), "{m:?} {c:?}");
            }
        }
    }
    let round = GaussianTarget::new(vec![0.5; 3], dice.rotation(3), vec![2.0; 3]);
    let w = Gaussian::new(dice.normals(3), random_factor(&Family::Lower, 3, 1.0, &mut dice)).unwrap();
    let exact = exact_gradient(&round, &w, false);
    let estimator = Estimator::ControlVariate(Quadratic { center: round.mean.clone(), precision: 2.0 });
    let mut g = Gradient::new(3, Sampling { batch: 1, antithetic: false });
    let mut workspace = Workspace::default();
    for t in 0..100 {
        g.draw(&Random::new(1, Purpose::Step, 0), t);
        estimator.estimate(&round, &w, &mut g, &mut workspace).unwrap();
        let (m, c) = g.explicit(&w, &mut workspace);
        assert!(m.iter().zip(&exact.0).chain(c.iter().zip(&exact.1)).all(|(a, b)| (a - b).abs() < 1e-12));
    }
}

/// Antithetic points are mirror images in the mean.
#[test]
fn antithetic_pairs_are_pairs() {
    let mut dice = Dice::new(24);
    let target = GaussianTarget::with_kappa(6, 3.0, &mut dice);
    let w = Gaussian::new(dice.normals(6), random_factor(&Family::Lower, 6, 1.0, &mut dice)).unwrap();
    let mut g = Gradient::new(6, Sampling { batch: 5, antithetic: true });
    g.draw(&Random::new(1, Purpose::Step, 0), 0);
    Estimator::Energy.estimate(&target, &w, &mut g, &mut Workspace::default()).unwrap();
    let (points, _) = g.evaluations();
    assert_eq!(points.len(), 60);
    for k in 0..30 {
        assert!((points[k] + points[30 + k] - 2.0 * w.mean()[k % 6]).abs() < 1e-13);
        assert!(points[k] != w.mean()[k % 6]);
    }
}

/// A bad draw is an error with its place; it is never skipped.
#[test]
fn non_finite_values_are_reported() {
    struct Broken(f64);
    impl certus::PointTarget for Broken {
        fn dim(&self) -> usize {
            2
        }
        fn log_density_at(&self, z: &[f64], g: &mut [f64]) -> Result<f64, certus::TargetError> {
            g.copy_from_slice(&[-z[0], if z[0] > 0.0 { self.0 } else { 0.0 }]);
            Ok(0.0)
        }
    }
    let w = Gaussian::isotropic(vec![0.0; 2], 1.0, &Family::Lower).unwrap();
    for bad in [f64::NAN, f64::INFINITY, 1e200] {
        let mut g = Gradient::new(2, Sampling { batch: 3, antithetic: false });
        g.set_draws(&[-1.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
        let error =
            Estimator::Energy.estimate(&Broken(bad), &w, &mut g, &mut Workspace::default()).unwrap_err();
        assert!(error.to_string().contains("coordinate 1 of sample 1 of 3"), "{error}");
    }
}
