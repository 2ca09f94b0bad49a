//! The posterior certificates of generalised linear models against quadrature in one and two dimensions, and importance
//! sampling.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::common::*;
use certus::Gaussian;
use certus::certificate::{Level, Posterior};
use certus::diagnostics::importance;
use certus::factor::{Factor, Lower, Symmetric};
use certus_models::posterior::{global, local};
use certus_models::{Design, Error, Glm, Memory, PosteriorSettings, Prior, laplace};
use std::sync::Arc;

fn settings(draws: usize, seed: u64) -> PosteriorSettings {
    PosteriorSettings { draws, delta: 1e-6, seed }
}

/// Everything that is said, against quadrature.
fn check(label: &str, model: &Glm, q: &Gaussian, said: &Posterior, truth: &Truth) -> f64 {
    let (evidence, means, sds) = truth;
    let kl = evidence + model.neg_elbo(q).unwrap();
    let bound = said.statement.bound().unwrap_or_else(|| panic!("{label}: {:?}", said.statement.reason()));
    let bracket = said.log_evidence.unwrap();
    // D7 is exact, and quadrature is not
    let slack = if said.statement.theorem() == "D7" { 1e-8 } else { 0.0 };
    assert!(kl >= -1e-9 && kl <= bound + slack, "{label}: KL {kl} > {bound}");
    assert!(
        bracket.0 <= evidence + 1e-9 && *evidence <= bracket.1 + slack,
        "{label}: {evidence} {bracket:?}"
    );
    let (mean_error, sd_error) = (said.mean_error.unwrap(), said.sd_error.unwrap());
    for (i, sd) in q.sd().iter().enumerate() {
        let off = (means[i] - q.mean()[i]).abs() / sd;
        assert!(off <= mean_error + slack, "{label}: mean {i} is {off} > {mean_error} off");
        let off = (sds[i] / sd - 1.0).abs();
        assert!(off <= sd_error + slack, "{label}: sd {i} is {off} > {sd_error} off");
    }
    println!(
        "{label}: {} KL {kl:.5} ≤ {bound:.5}, means {mean_error:.3}, sds {sd_error:.3}",
        said.statement.theorem()
    );
    bound
}

/// A q moved and widened.
fn moved(q: &Gaussian, shift: f64, scale: f64) -> Gaussian {
    let d = q.dim();
    let mut mean = q.mean().to_vec();
    q.factor().add_apply(&vec![shift; d], &mut mean);
    let factor = q.factor().to_dense().iter().map(|x| scale * x).collect();
    Gaussian::new(mean, Factor::Lower(Lower::new(d, factor).unwrap())).unwrap()
}

/// True KL, evidence, means and sds within every certificate: bounded likelihoods, d = 1 and 2, good and bad q, two
/// seeds. δ = 1e-6 for each of 160 statements.
#[test]
fn one_and_two_dimensions() {
    let mut dice = Dice::new(70);
    for name in ["linear", "logistic", "probit", "binomial", "negative-binomial"] {
        for (n, p, intercept) in [(8, 1, false), (40, 1, true)] {
            let rows = Arc::new(simulated_rows(name, n, p, 0.8, &mut dice));
            let d = p + usize::from(intercept);
            let prior = Prior::independent(vec![0.2; d], &vec![1.7; d]).unwrap();
            let model = Glm::new(Design::new(rows, intercept), likelihood(name), prior).unwrap();
            let best = model.solve_exactly().unwrap().gaussian;
            let truth = quadrature(&model);
            for (q, how) in
                [(best.clone(), "best"), (moved(&best, 0.5, 1.0), "off"), (moved(&best, -0.3, 1.4), "wide")]
            {
                for seed in 0..2 {
                    let label = format!("{name} d = {d} {how}");
                    let s = settings(5000, seed);
                    let near = local(&model, &q, &s).unwrap();
                    let far = global(&model, &q, &s).unwrap();
                    check(&label, &model, &q, &near, &truth);
                    check(&label, &model, &q, &far, &truth);
                    let level = Level::Probable { delta: 1e-6 };
                    assert_eq!(far.statement.level(), level, "{label}");
                    let level = if name == "probit" { Level::Estimated } else { level };
                    assert_eq!(near.statement.level(), level, "{label}");
                    let said = model.posterior(&q, &s).unwrap();
                    check(&label, &model, &q, &said, &truth);
                    let best = if name == "linear" { ("D7", Level::Proved) } else { ("D6", level) };
                    assert_eq!((said.statement.theorem(), said.statement.level()), best, "{label}");
                    if name == "linear" {
                        // KL itself
                        let kl = truth.0 + model.neg_elbo(&q).unwrap();
                        let bound = said.statement.bound().unwrap();
                        assert!((bound - kl).abs() < 1e-8 * (1.0 + kl), "{label}: {kl} {bound}");
                        // p is Gaussian, s is linear, and D3 and D5 say the same: E sᵀJ⁻¹s/2, nothing is outside of the
                        // largest balls
                        let (a, b) = (near.statement.bound().unwrap(), far.statement.bound().unwrap());
                        assert!((a / b - 1.0).abs() < 0.05 || a + b < 1e-6, "{label}: {a} {b}");
                    }
                }
            }
        }
    }
}

/// A Gaussian target and q with the right covariance: s is constant and D3 is an equality, KL = ½δᵀJδ; so is the error
/// of the mean. J is far from a multiple of I, so that no other frame gives it.
#[test]
fn equality_for_shifted_gaussians() {
    let x = vec![3.0, 0.1, 2.9, -0.2, -3.1, 0.15, 0.3, 0.2];
    let rows = Memory { x, y: vec![1.0, -0.5, 0.3, 0.8], columns: 2, ..Memory::default() };
    let prior = Prior::independent(vec![0.0; 2], &[2.0, 0.5]).unwrap();
    let model = Glm::new(Design::new(Arc::new(rows), false), likelihood("linear"), prior).unwrap();
    let best = model.solve_exactly().unwrap().gaussian;
    let q = moved(&best, 0.7, 1.0);
    let kl = model.neg_elbo(&q).unwrap() - model.neg_elbo(&best).unwrap();
    assert!((kl - 0.49).abs() < 1e-9);
    for said in
        [global(&model, &q, &settings(100, 1)).unwrap(), local(&model, &q, &settings(100, 1)).unwrap()]
    {
        let bound = said.statement.bound().unwrap();
        assert!(bound >= kl && bound <= kl * (1.0 + 1e-6), "{}: {bound} {kl}", said.statement.theorem());
        // |δ| in q's sds, along its own direction
        let error = said.mean_error.unwrap();
        assert!((error / (2.0 * kl).sqrt() - 1.0).abs() < 1e-6, "{}: {error}", said.statement.theorem());
    }
}

/// logit_d10: D5 below D3, D6 below both, all above the estimate.
#[test]
fn logit_d10() {
    let p = problem(&data_dir(), "logit_d10");
    let s = settings(20_000, 3);
    let near = local(&p.model, &p.optimum, &s).unwrap();
    let far = global(&p.model, &p.optimum, &s).unwrap();
    let best = p.model.posterior(&p.optimum, &s).unwrap();
    let estimate = importance(&p.model, &p.optimum, 100_000, 4).unwrap();
    let bounds = [&far, &near, &best].map(|x| x.statement.bound().unwrap());
    println!(
        "logit_d10: D3 {:.4}, D5 {:.4}, D6 {:.4}, importance sampling {:?}",
        bounds[0], bounds[1], bounds[2], estimate.kl
    );
    println!("{:?}", near.statement.constants());
    println!("means {:?} {:?} {:?}", far.mean_error, near.mean_error, best.mean_error);
    assert_eq!(best.statement.theorem(), "D6");
    assert!(bounds[2] < bounds[1] && bounds[1] < 0.3 * bounds[0]);
    assert!(bounds.iter().all(|b| *b > estimate.kl.value - 5.0 * estimate.kl.standard_error));
}

/// d = 30, where the envelope accepts too little: the better of D5 and D3 is stated, above the estimate, with the
/// reason.
#[test]
fn thirty_coefficients() {
    let mut dice = Dice::new(71);
    let model = simulated("logistic", 600, 29, 0.4, 1.0, &mut dice);
    let q = model.solve_exactly().unwrap().gaussian;
    let s = settings(5000, 5);
    let said = model.posterior(&q, &s).unwrap();
    let quarter = PosteriorSettings { delta: 0.25 * s.delta, ..s };
    let (near, far) = (local(&model, &q, &quarter).unwrap(), global(&model, &q, &quarter).unwrap());
    let [bound, near, far] = [&said, &near, &far].map(|x| x.statement.bound().unwrap_or(f64::INFINITY));
    let estimate = importance(&model, &q, 20_000, 4).unwrap();
    println!("d = 30: {bound:.4}, D5 {near:.4}, D3 {far:.4}, importance sampling {:?}", estimate.kl);
    assert_eq!(said.statement.level(), Level::Probable { delta: 1e-6 });
    assert_eq!(said.statement.theorem(), if near < far { "D5" } else { "D3" });
    assert_eq!(bound, near.min(far));
    let reason = said.statement.reason().unwrap();
    assert!(reason.contains("D6: "), "{reason}");
    assert!(bound > estimate.kl.value - 5.0 * estimate.kl.standard_error);
}

/// No statement, with the reasons, where φ″ is unbounded or J is singular; errors for bad settings.
#[test]
fn reasons() {
    let mut dice = Dice::new(72);
    let counts = simulated("poisson", 30, 1, 0.5, 1.0, &mut dice);
    let q = counts.solve_exactly().unwrap().gaussian;
    let s = settings(1000, 0);
    for said in [local(&counts, &q, &s).unwrap(), global(&counts, &q, &s).unwrap()] {
        assert_eq!(said.statement.level(), Level::None);
        assert!(said.statement.reason().unwrap().contains("poisson likelihood has no upper bound"));
    }
    // the envelope still works
    let said = counts.posterior(&q, &settings(20_000, 0)).unwrap();
    assert_eq!((said.statement.theorem(), said.statement.level()), ("D6", Level::Probable { delta: 1e-6 }));
    // … and where it does not, all three reasons are given
    let said = counts.posterior(&q, &settings(5, 0)).unwrap();
    assert_eq!((said.statement.level(), said.log_evidence), (Level::None, None));
    for name in ["D6: ", "D5: ", "D3: "] {
        assert!(said.statement.reason().unwrap().contains(name));
    }
    // a flat prior: D3 has no J, D5 has
    let rows = simulated_rows("logistic", 60, 1, 0.3, &mut dice);
    let prior = Prior::independent(vec![0.0], &[f64::INFINITY]).unwrap();
    let flat = Glm::new(Design::new(Arc::new(rows), false), likelihood("logistic"), prior).unwrap();
    let w = flat.solve_exactly().unwrap().gaussian;
    let far = global(&flat, &w, &s).unwrap();
    assert!(far.statement.reason().unwrap().contains("strongly convex"), "{:?}", far.statement.reason());
    check("flat prior", &flat, &w, &local(&flat, &w, &s).unwrap(), &quadrature(&flat));
    for bad in [settings(1, 0), PosteriorSettings { delta: 0.0, ..s }, PosteriorSettings { delta: 1.0, ..s }]
    {
        assert!(matches!(counts.posterior(&q, &bad), Err(Error::Model(_))));
        assert!(matches!(local(&flat, &w, &bad), Err(Error::Model(_))));
        assert!(matches!(global(&flat, &w, &bad), Err(Error::Model(_))));
    }
    assert!(matches!(counts.posterior(&w, &s), Err(Error::Model(_))));
    // a symmetric factor of the same law says the same
    let symmetric = Factor::Symmetric(Symmetric::new(1, w.factor().to_dense()).unwrap());
    let same = Gaussian::new(w.mean().to_vec(), symmetric).unwrap();
    assert_eq!(local(&flat, &same, &s).unwrap(), local(&flat, &w, &s).unwrap());
}

/// The bits do not depend on the number of threads, and the seed matters.
#[test]
fn threads() {
    let mut dice = Dice::new(73);
    let model = simulated("logistic", 300, 3, 0.3, 1.0, &mut dice);
    let q = laplace(&model).unwrap().gaussian;
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            (local(&model, &q, &settings(3001, 5)).unwrap(), global(&model, &q, &settings(3001, 5)).unwrap())
        })
    };
    let one = run(1);
    assert_eq!(run(3), one);
    assert_ne!(local(&model, &q, &settings(3001, 6)).unwrap(), one.0);
}
