//! The exact solver reaches the reference optimum of every benchmark problem, from the Laplace start, in a few
//! iterations.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::common::*;
use certus::Target;
use std::path::Path;

fn check(dir: &Path, name: &str) {
    let p = problem(dir, name);
    let state = p.model.solve_exactly().unwrap();
    let scale = 1.0 + p.neg_elbo.abs();
    assert!(
        (state.neg_elbo - p.neg_elbo).abs() <= 1e-8 * scale,
        "{name}: f = {} against {}",
        state.neg_elbo,
        p.neg_elbo
    );
    assert!(state.iterations <= 6, "{name}: {} outer iterations", state.iterations);
    let d = p.optimum.dim();
    let sd = p.optimum.sd();
    for i in 0..d {
        let error = (state.gaussian.mean()[i] - p.optimum.mean()[i]).abs() / sd[i];
        assert!(error <= 1e-6, "{name}: mean {i} is {error} sd off");
    }
    let (a, b) = (state.gaussian.covariance(), p.optimum.covariance());
    let norm = |x: &[f64]| x.iter().map(|v| v * v).sum::<f64>().sqrt();
    let difference: Vec<f64> = a.iter().zip(&b).map(|(x, y)| x - y).collect();
    assert!(
        norm(&difference) <= 1e-6 * norm(&b),
        "{name}: covariance off by {}",
        norm(&difference) / norm(&b)
    );
    // what the model says of its curvature
    let curvature = Target::curvature(&p.model).unwrap();
    for (key, ours, outward) in [
        ("strong_convexity", curvature.strong_convexity(), -1.0),
        ("smoothness", curvature.smoothness(), 1.0),
    ] {
        let theirs = reference(dir, name, key);
        // the allowance for rounding is 64(d + 16) ulp of the norm
        let allowed = 2e-11 * curvature.smoothness();
        assert!((ours - theirs).abs() <= allowed, "{name}: {key} {ours} against {theirs}");
        assert!(outward * (ours - theirs) >= -1e-12 * theirs, "{name}: {key} must be rounded outward");
    }
    let gradient = p.model.whitened_gradient(&state.gaussian).unwrap();
    println!(
        "{name}: {} iterations, {} products, |g| = {:e}",
        state.iterations,
        state.products,
        gradient.norm()
    );
    assert!(gradient.norm() < 1e-8, "{name}: whitened gradient {}", gradient.norm());
}

#[test]
fn shipped_problems() {
    for name in ["lin_d10", "lin_ill_d50", "logit_d10", "logit_bc", "hier_logit"] {
        check(&data_dir(), name);
    }
}

/// The large problems, where somebody has them as CSV: `CERTUS_BENCH=DIR cargo test -p certus-models --release --
/// --ignored`.
#[test]
#[ignore = "needs the large benchmark files"]
fn large_problems() {
    let dir = std::env::var("CERTUS_BENCH").unwrap();
    for name in ["lin_d100", "logit_d100", "logit_d500"] {
        check(Path::new(&dir), name);
    }
}
