//! Mean field against closed forms, an optimisation of its own, and the truth of its certificate.

use std::sync::Arc;

use certus::Goal;
use certus::certificate::Level;
use certus::factor::{Factor, Pattern};
use certus::fit::Status;
use certus::{Family, Gaussian};
use certus_likelihood::{Likelihood, Linear, Logistic};
use certus_models::auto::{Method, Model, fit};
use certus_models::certificate::Certified;
use certus_models::{Design, Glm, MeanField, Memory, Prior};

const N: usize = 40;

fn wave(k: usize) -> f64 {
    (k as f64 * 1.7).sin() + 0.6 * (k as f64 * 0.31).cos()
}

/// Correlated columns, so that the family costs something.
fn features(d: usize) -> Vec<f64> {
    (0..N * d).map(|k| wave(k) + 0.9 * wave(1000 + k / d)).collect()
}

fn model(d: usize, likelihood: Arc<dyn Likelihood>) -> Glm {
    let memory = Memory {
        x: features(d),
        y: (0..N).map(|i| f64::from(u8::from(wave(3 * i + 1) > 0.1))).collect(),
        columns: d,
        ..Memory::default()
    };
    let prior = Prior::independent(vec![0.3; d], &vec![1.5; d]).expect("a prior");
    Glm::new(Design::new(Arc::new(memory), false), likelihood, prior).expect("a model")
}

fn sds(w: &Gaussian) -> &[f64] {
    assert!(matches!(w.factor(), Factor::Pattern(_)));
    w.factor().values()
}

/// A Gaussian posterior with precision Λ: the mean is exact, sd_i = Λ_ii^(−1/2), and the family costs ½(Σ log Λ_ii −
/// log det Λ).
#[test]
fn a_gaussian_posterior_has_a_closed_form() {
    let (d, sigma) = (3, 0.7);
    let model = model(d, Arc::new(Linear::new(sigma).expect("valid")));
    let field = MeanField::new(&model).expect("a model");
    let x = features(d);
    let mut precision = [[0.0; 3]; 3];
    for row in x.chunks_exact(d) {
        for i in 0..d {
            for j in 0..d {
                precision[i][j] += row[i] * row[j] / (sigma * sigma);
            }
        }
    }
    (0..d).for_each(|i| precision[i][i] += 1.0 / (1.5 * 1.5));
    let [a, b, c] = precision;
    let det = a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0])
        + a[2] * (b[0] * c[1] - b[1] * c[0]);
    let cost = 0.5 * ((0..d).map(|i| precision[i][i].ln()).sum::<f64>() - det.ln());
    assert!(cost > 0.3, "{cost}");
    let state = field.solve_exactly().expect("an optimum");
    for (i, sd) in sds(&state.gaussian).iter().enumerate() {
        assert!((sd * precision[i][i].sqrt() - 1.0).abs() < 1e-12, "{i}: {sd}");
    }
    let dense = field.dense().solve_exactly().expect("an optimum");
    for (own, all) in state.gaussian.mean().iter().zip(dense.gaussian.mean()) {
        assert!((own - all).abs() < 1e-10, "{own} {all}");
    }
    assert!((state.neg_elbo - dense.neg_elbo - cost).abs() < 1e-10);
    let found = field.family_cost(&state.gaussian).expect("finite").expect("certified");
    assert!((found.value - cost).abs() < 1e-10, "{found:?} {cost}");
    assert!(found.least <= cost && cost <= found.most && found.most - found.least < 1e-8, "{found:?}");
}

/// Σ E log(1 + e^t) − y t and the rest by a plain sum over 241 nodes, written for this test alone.
fn value(d: usize, mean: &[f64], sd: &[f64]) -> f64 {
    let x = features(d);
    let mut f = 0.0;
    for (i, row) in x.chunks_exact(d).enumerate() {
        let y = f64::from(u8::from(wave(3 * i + 1) > 0.1));
        let t: f64 = row.iter().zip(mean).map(|(a, m)| a * m).sum();
        let s = row.iter().zip(sd).map(|(a, c)| a * a * c * c).sum::<f64>().sqrt();
        for k in -120..=120 {
            let u = 0.075 * f64::from(k);
            let z = t + s * u;
            let loss = z.max(0.0) + (-z.abs()).exp().ln_1p() - y * z;
            f += 0.075 * (-0.5 * u * u).exp() / std::f64::consts::TAU.sqrt() * loss;
        }
    }
    let constant = 0.5 * std::f64::consts::TAU.ln();
    for (m, c) in mean.iter().zip(sd) {
        f += 0.5 * ((m - 0.3).powi(2) + c * c) / 2.25 + constant + 1.5f64.ln() - c.ln() - 0.5 - constant;
    }
    f
}

/// Against a search of its own: one coordinate of (m, log c) after the other by golden sections.
#[test]
fn a_logistic_optimum_is_that_of_another_search() {
    let d = 3;
    let model = model(d, Arc::new(Logistic));
    let field = MeanField::new(&model).expect("a model");
    let state = field.solve_exactly().expect("an optimum");
    assert!(state.iterations <= 8, "Newton's method takes few steps, not {}", state.iterations);
    let at = |x: &[f64]| {
        let sd: Vec<f64> = x[d..].iter().map(|l| l.exp()).collect();
        value(d, &x[..d], &sd)
    };
    let mut x = vec![0.0; 2 * d];
    let golden = 0.5 * (5f64.sqrt() - 1.0);
    for sweep in 0..60 {
        let reach = if sweep < 8 { 2.0 } else { 0.05 };
        for j in 0..2 * d {
            let (mut low, mut high) = (x[j] - reach, x[j] + reach);
            for _ in 0..36 {
                let (a, b) = (high - golden * (high - low), low + golden * (high - low));
                let mut try_at = |v: f64| {
                    x[j] = v;
                    at(&x)
                };
                if try_at(a) < try_at(b) { high = b } else { low = a }
            }
            x[j] = 0.5 * (low + high);
        }
    }
    let found = at(&x);
    assert!((found - state.neg_elbo).abs() < 1e-9, "{found} {}", state.neg_elbo);
    for j in 0..d {
        assert!((x[j] - state.gaussian.mean()[j]).abs() < 1e-4, "mean {j}");
        assert!((x[d + j].exp() - sds(&state.gaussian)[j]).abs() < 1e-4, "sd {j}");
    }
}

/// Bounds are above the gap within the family, and not far; nothing of the dense optimum enters.
#[test]
fn the_certificate_speaks_of_the_family() {
    let model = model(4, Arc::new(Logistic));
    let field = MeanField::new(&model).expect("a model");
    let best = field.solve_exactly().expect("an optimum");
    let Family::Pattern(tree) = Model::family(&field) else { panic!("a pattern") };
    for size in [1e-4, 1e-3, 0.02, 0.1] {
        let moved = |x: &[f64], scale: &[f64], k: usize| -> Vec<f64> {
            x.iter().zip(scale).enumerate().map(|(i, (x, s))| x + size * s * wave(5 * i + k)).collect()
        };
        let sd = sds(&best.gaussian);
        let factor = Pattern::new(tree.clone(), moved(sd, sd, 3)).expect("proper");
        let w = Gaussian::new(moved(best.gaussian.mean(), sd, 0), Factor::Pattern(factor)).expect("proper");
        let gap = field.certified_gap(&w).expect("finite");
        assert_eq!(gap.family, "all Gaussians with independent coordinates");
        let (bound, truth) =
            (gap.statement.bound().expect("bounded"), field.neg_elbo(&w).expect("finite") - best.neg_elbo);
        assert!(bound >= truth, "{size}: {bound} for {truth}");
        // far away only the prior's curvature is left
        assert!(size > 0.05 || bound < 3.0 * truth + 1e-9, "{size}: {bound} for {truth}");
        let close = gap.sd_error.unwrap_or(f64::INFINITY);
        assert!(size > 0.05 || close < 0.2, "{size}: {close}");
        for (here, there) in sds(&w).iter().zip(sd) {
            assert!((there / here - 1.0).abs() <= close, "{here} {there} {close}");
        }
    }
    let dense = field.dense().solve_exactly().expect("an optimum");
    let cost = field.family_cost(&best.gaussian).expect("finite").expect("certified");
    let truth = best.neg_elbo - dense.neg_elbo;
    assert!(truth > 0.01 && cost.least <= truth && truth <= cost.most, "{truth} {cost:?}");
}

/// Through `fit`: proved within the family, both routes at the same optimum; a dense Gaussian is refused.
#[test]
fn the_routes_end_at_the_same_optimum() {
    let model = model(4, Arc::new(Logistic));
    let field = MeanField::new(&model).expect("a model");
    let goal = Goal { gap: 0.01, seed: 3, ..Goal::default() };
    let exact = fit(&field, &goal, Method::Auto).expect("a fit");
    assert_eq!(exact.status, Status::Reached);
    assert_eq!(exact.certificate.gap.statement.level(), Level::Proved);
    assert_eq!(exact.certificate.gap.family, "all Gaussians with independent coordinates");
    let stochastic = fit(&field, &goal, Method::Stochastic).expect("a fit");
    assert_eq!(stochastic.status, Status::Reached, "{}", stochastic.message);
    let apart = stochastic.neg_elbo.value - exact.neg_elbo.value;
    assert!((-1e-9..=0.01).contains(&apart), "{apart}");
    let dense = field.dense().solve_exactly().expect("an optimum");
    assert!(field.certified_gap(&dense.gaussian).is_err() && field.neg_elbo(&dense.gaussian).is_err());
}
