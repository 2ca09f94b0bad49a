//! Certificates of models: never below the truth, whatever the data.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../../examples/certificate.rs"]
#[allow(unreachable_pub)]
mod example;

use crate::common::*;
use certus::certificate::{Gap, Level};
use certus::factor::{Factor, Lower, Pattern, Tree};
use certus::frame::Frame;
use certus::{Gaussian, linalg};
use certus_models::certificate::Certified;
use certus_models::claim::claim;
use certus_models::{Design, Error, Glm, Memory, Prior};
use certus_verify::verify;
use std::sync::Arc;

const NAMES: [&str; 6] = ["logistic", "poisson", "probit", "negative-binomial", "binomial", "linear"];

/// A random problem of up to 8 coefficients: scales over six decades, separable, duplicate, zero and tiny rows, row sds
/// to 30.
fn nasty(name: &str, dice: &mut Dice) -> Glm {
    let whole = |dice: &mut Dice, most: usize| (dice.uniform() * most as f64) as usize;
    let (d, n) = (1 + whole(dice, 7), whole(dice, 60));
    let scales: Vec<f64> = (0..d).map(|_| 10f64.powf(6.0 * dice.uniform() - 3.0)).collect();
    let (beta, separable) = (dice.normals(d), dice.uniform() < 0.2);
    let mut rows = Memory { columns: d, ..Memory::default() };
    for i in 0..n {
        let mut x = dice.normals(d);
        let kind = dice.uniform();
        if kind < 0.05 {
            x.fill(0.0);
        } else if kind < 0.1 {
            x.iter_mut().for_each(|v| *v *= 1e-9);
        } else if kind < 0.2 && i > 0 {
            x = rows.x[(i - 1) * d..][..d].iter().zip(&scales).map(|(x, s)| x / s).collect();
        }
        let t: f64 = 0.7 * x.iter().zip(&beta).map(|(a, b)| a * b).sum::<f64>() / (d as f64).sqrt();
        let (mut y, trials) = simulate(name, t, dice);
        if separable && matches!(name, "logistic" | "probit") {
            y = f64::from(u8::from(t > 0.0));
        }
        rows.x.extend(x.iter().zip(&scales).map(|(x, s)| x * s));
        rows.y.push(y);
        rows.trials.push(trials);
        rows.offset.push(if dice.uniform() < 0.5 { 0.0 } else { 0.5 * dice.normal() });
        rows.weight.push(if dice.uniform() < 0.5 { 1.0 } else { 2.0 * dice.uniform() });
    }
    // prior sds in units of the columns' scales: up to 30 row sds where the data say nothing
    let wide = 10f64.powf(1.5 * dice.uniform());
    let sds: Vec<f64> = scales.iter().map(|s| wide * (0.3 + dice.uniform()) / s).collect();
    let mean = sds.iter().map(|s| 0.3 * s * dice.normal()).collect();
    Glm::new(Design::new(Arc::new(rows), false), likelihood(name), Prior::independent(mean, &sds).unwrap())
        .unwrap()
}

/// (m + C dm, C(I + dC)) for dC lower triangular or on a pattern.
fn moved(w: &Gaussian, dm: &[f64], dc: &[f64]) -> Option<Gaussian> {
    let d = w.dim();
    let mut mean = w.mean().to_vec();
    w.factor().add_apply(dm, &mut mean);
    let identity = w.factor().family().scaled_identity(d, 1.0);
    let inner: Vec<f64> = identity.values().iter().zip(dc).map(|(i, c)| i + c).collect();
    let inner = match w.factor() {
        Factor::Pattern(p) => Factor::Pattern(Pattern::new(p.tree().clone(), inner).ok()?),
        _ => Factor::Lower(Lower::new(d, inner).ok()?),
    };
    let turned = Gaussian::new(vec![0.0; d], inner).ok()?;
    Frame::new(mean, w.factor().clone()).ok()?.to_original(&turned).ok()
}

/// Entries of the factor's storage that the family has.
fn present(w: &Gaussian) -> Vec<f64> {
    let d = w.dim();
    let mut ones = vec![0.0; w.factor().values().len()];
    match w.factor() {
        Factor::Pattern(p) => {
            for node in p.tree().nodes() {
                for j in 0..node.width {
                    for i in 0..node.size {
                        let below = j < node.width - node.size + i + 1;
                        ones[node.offset + j * node.size + i] = f64::from(u8::from(below));
                    }
                }
            }
        }
        _ => (0..d * d).filter(|k| k % d >= k / d).for_each(|k| ones[k] = 1.0),
    }
    ones
}

/// A random move of size |d| = `size`, in mean, factor or both.
fn perturbed(w: &Gaussian, size: f64, dice: &mut Dice) -> Option<Gaussian> {
    let (d, has) = (w.dim(), present(w));
    let mut dm = dice.normals(d);
    let mut dc: Vec<f64> = dice.normals(has.len()).iter().zip(&has).map(|(x, h)| x * h).collect();
    match (dice.uniform() * 3.0) as usize {
        0 => dm.fill(0.0),
        1 => dc.fill(0.0),
        _ => {}
    }
    let norm = (linalg::norm_squared(&dm) + linalg::norm_squared(&dc)).sqrt();
    dm.iter_mut().chain(&mut dc).for_each(|x| *x *= size / norm);
    moved(w, &dm, &dc)
}

/// The optimum over a pattern, by gradient steps in the frame of the iterate with a line search on the exact f.
fn descend(model: &Glm, mut w: Gaussian) -> Option<Gaussian> {
    let mut f = model.neg_elbo(&w).ok()?;
    let has = present(&w);
    for _ in 0..120 {
        let g = model.whitened_gradient(&w).ok()?;
        let mut dc = vec![0.0; has.len()];
        scatter(&w, &g.factor, &mut dc);
        let decrement = linalg::norm_squared(&g.mean) + linalg::norm_squared(&dc);
        if decrement < 1e-22 {
            break;
        }
        let mut tau = 1.0;
        loop {
            let (step_m, step_c): (Vec<f64>, Vec<f64>) =
                (g.mean.iter().map(|x| -tau * x).collect(), dc.iter().map(|x| -0.5 * tau * x).collect());
            let next = moved(&w, &step_m, &step_c).and_then(|w| Some((model.neg_elbo(&w).ok()?, w)));
            if let Some((value, next)) = next.filter(|(value, _)| *value < f) {
                (w, f) = (next, value);
                break;
            }
            tau *= 0.5;
            if tau < 1e-12 {
                return Some(w);
            }
        }
    }
    Some(w)
}

/// The entries of a dense matrix that the family stores.
fn scatter(w: &Gaussian, dense: &[f64], out: &mut [f64]) {
    let d = w.dim();
    match w.factor() {
        Factor::Pattern(p) => {
            let nodes = p.tree().nodes();
            for node in nodes {
                let mut above = Some(node);
                while let Some(a) = above {
                    for (c, j) in (a.start..a.start + a.size).enumerate() {
                        for i in 0..node.size {
                            if node.start + i >= j {
                                let column = a.width - a.size + c;
                                out[node.offset + column * node.size + i] = dense[j * d + node.start + i];
                            }
                        }
                    }
                    above = a.parent.map(|p| &nodes[p]);
                }
            }
        }
        _ => (0..d * d).filter(|k| k % d >= k / d).for_each(|k| out[k] = dense[k]),
    }
}

/// What the truth says against a certificate at w, if anything. f is known to its own error.
fn refuted(
    model: &dyn Certified,
    w: &Gaussian,
    gap: &Gap,
    optimum: &Gaussian,
) -> Result<Option<String>, Error> {
    let Some(bound) = gap.statement.bound() else { return Ok(None) };
    let (here, there) = (model.exact_value(w)?, model.exact_value(optimum)?);
    if here.value - here.error - (there.value + there.error) > bound {
        return Ok(Some(format!("the gap is {:e}, not {bound:e}", here.value - there.value)));
    }
    // the optimum itself is known to about 1e-7 of its own sds where f is flat
    let d = w.dim();
    let lower = linalg::lower_of_same_covariance(&w.factor().to_dense(), d);
    let mut dm: Vec<f64> = optimum.mean().iter().zip(w.mean()).map(|(a, b)| a - b).collect();
    linalg::solve_lower(&lower, d, false, &mut dm);
    let moved = linalg::norm_squared(&dm).sqrt();
    if gap.mean_error.is_some_and(|e| moved > e + 1e-6) {
        return Ok(Some(format!("the mean moves by {moved:e}, not {:?}", gap.mean_error)));
    }
    let mut k = optimum.factor().to_dense();
    linalg::solve_lower(&lower, d, false, &mut k);
    // singular values of L⁻¹C* are the ratios of sds, in the worst directions
    let mut gram = vec![0.0; d * d];
    linalg::add_transpose_times(&k, d, false, &k, &mut gram);
    let (low, high) = linalg::extreme_eigenvalues(&gram, d).unwrap();
    let worst = (1.0 - low.max(0.0).sqrt()).max(high.sqrt() - 1.0);
    if gap.sd_error.is_some_and(|e| worst > e + 1e-6) {
        return Ok(Some(format!("an sd moves by {worst:e}, not {:?}", gap.sd_error)));
    }
    Ok(None)
}

#[derive(Debug, Default)]
struct Tally {
    tried: usize,
    local: usize,
    global: usize,
    declined: usize,
}

/// Random problems and random perturbations: no statement is ever refuted.
fn falsify(problems: std::ops::Range<u64>) -> Tally {
    let mut tally = Tally::default();
    for seed in problems {
        let clock = std::time::Instant::now();
        let mut dice = Dice::new(7_000_000 + seed);
        let name = NAMES[(seed % 6) as usize];
        let model = nasty(name, &mut dice);
        let optimum =
            model.solve_exactly().unwrap_or_else(|e| panic!("problem {seed} ({name}): {e}")).gaussian;
        let d = model.dim();
        let mut check = |w: &Gaussian, optimum: &Gaussian| {
            let gap = model.gap(w).unwrap();
            tally.tried += 1;
            match gap.statement.theorem() {
                "" => tally.declined += 1,
                "D1 in matrix form" => tally.global += 1,
                _ => tally.local += 1,
            }
            let level = if name == "probit" { Level::Estimated } else { Level::Proved };
            assert!(gap.statement.bound().is_none() || gap.statement.level() == level);
            let verdict = refuted(&model, w, &gap, optimum)
                .unwrap_or_else(|e| panic!("problem {seed} ({name}): {e}\n{gap:?}\n{optimum:?}"));
            if let Some(message) = verdict {
                panic!("problem {seed} ({name}, d = {d}): {message}\n{gap:?}");
            }
            // one problem in five also goes to the independent checker
            if seed % 5 == 0 && gap.statement.bound().is_some() {
                let verdict = verify(&claim(&model, w, &gap).unwrap()).unwrap();
                assert!(verdict.holds, "problem {seed} ({name}, d = {d}): {verdict:?}\n{gap:?}");
            }
        };
        for _ in 0..2 {
            let size = 10f64.powf(5.0 * dice.uniform() - 4.7);
            if let Some(w) = perturbed(&optimum, size, &mut dice) {
                check(&w, &optimum);
            }
        }
        // far from the optimum, in no frame of its own: sds and means off by factors
        let sd = optimum.sd();
        let mut factor = vec![0.0; d * d];
        sd.iter().enumerate().for_each(|(i, s)| factor[i * (d + 1)] = s * (0.3 + dice.uniform()));
        let mean = optimum.mean().iter().zip(&sd).map(|(m, s)| m + s * dice.normal()).collect();
        check(&Gaussian::new(mean, Factor::Lower(Lower::new(d, factor).unwrap())).unwrap(), &optimum);
        // patterns: independent coordinates, blocks and a tree
        let tree = match seed % 3 {
            0 => Tree::diagonal(d),
            1 if d > 2 => Tree::blocks(&[2, d - 2]),
            _ if d > 3 => Tree::new(&[1, 1, d - 3, 1], &[None, Some(0), Some(1), Some(0)]),
            _ => Tree::arrow(1, &vec![1; d - 1]),
        };
        let family = certus::Family::Pattern(Arc::new(tree.unwrap()));
        let start = Gaussian::new(optimum.mean().to_vec(), family.scaled_identity(d, 1.0)).unwrap();
        // the pattern's own sds to begin with
        let mut values = start.factor().values().to_vec();
        let mut dense = vec![0.0; d * d];
        optimum.sd().iter().enumerate().for_each(|(i, s)| dense[i * (d + 1)] = 0.5 * s);
        scatter(&start, &dense, &mut values);
        let Factor::Pattern(pattern) = start.factor() else { panic!("a pattern") };
        let factor = Factor::Pattern(Pattern::new(pattern.tree().clone(), values).unwrap());
        let start = Gaussian::new(optimum.mean().to_vec(), factor).unwrap();
        if let Some(best) = descend(&model, start) {
            let size = 10f64.powf(4.0 * dice.uniform() - 4.0);
            if let Some(w) = perturbed(&best, size, &mut dice) {
                check(&w, &best);
            }
            check(&best, &best);
        }
        if clock.elapsed().as_secs_f64() > 2.0 {
            println!(
                "problem {seed} ({name}, d = {d}, {} rows) took {:?}",
                model.design().rows().len(),
                clock.elapsed()
            );
        }
    }
    tally
}

/// The short version: 300 problems, 1,500 certificates.
#[test]
fn no_statement_is_refuted() {
    let tally = falsify(0..300);
    println!("{tally:?}");
    // it would be easy never to be wrong by declining
    assert!(tally.local * 2 > tally.tried && tally.declined * 10 < tally.tried, "{tally:?}");
}

#[test]
#[ignore = "2,000 problems"]
fn no_statement_is_refuted_in_full() {
    let tally = falsify(300..2300);
    println!("{tally:?}");
    assert!(tally.local * 2 > tally.tried && tally.declined * 10 < tally.tried, "{tally:?}");
}

/// Far from the optimum the bracket against a certified reference bounds any gap, from both sides.
#[test]
fn the_bracket_holds_at_any_distance() {
    let mut dice = Dice::new(71);
    for name in ["logistic", "poisson", "linear"] {
        let memory = simulated_rows(name, 300, 4, 0.5, &mut dice);
        let prior = Prior::independent(vec![0.0; 4], &[1.0; 4]).unwrap();
        let model = Glm::new(Design::new(Arc::new(memory), false), likelihood(name), prior).unwrap();
        let optimum = model.solve_exactly().unwrap();
        let reference = model.reference(&optimum.gaussian).unwrap().unwrap();
        for size in [1e-3, 0.1, 0.8] {
            for far in [1.0, 5.0] {
                let Some(mut w) = perturbed(&optimum.gaussian, size, &mut dice) else { continue };
                let mean = w.mean().iter().zip(w.sd()).map(|(m, s)| m + (far - 1.0) * s).collect();
                w = Gaussian::new(mean, w.factor().clone()).unwrap();
                let gap = model.gap_against(&w, &reference).unwrap();
                let truth = model.neg_elbo(&w).unwrap() - optimum.neg_elbo;
                let bound = gap.statement.bound().unwrap();
                assert_eq!(gap.statement.level(), Level::Proved);
                let noise = 4.0 * model.exact_value(&w).unwrap().error;
                assert!(
                    bound >= truth - noise && bound <= truth * (1.0 + 1e-6) + 4.0 * noise + 1e-12,
                    "{bound:e} {truth:e}"
                );
            }
        }
        // f of the certificates is the solver's f
        let value = model.exact_value(&optimum.gaussian).unwrap();
        assert!((value.value - optimum.neg_elbo).abs() <= value.error && value.error < 1e-8, "{value:?}");
    }
}

/// A Gaussian's certificate, its f and its gradient's length do not depend on how its factor is stored.
#[test]
fn storage_does_not_matter() {
    let mut dice = Dice::new(72);
    let memory = simulated_rows("logistic", 200, 3, 0.5, &mut dice);
    let prior = Prior::independent(vec![0.0; 3], &[1.0; 3]).unwrap();
    let model = Glm::new(Design::new(Arc::new(memory), false), likelihood("logistic"), prior).unwrap();
    let optimum = model.solve_exactly().unwrap().gaussian;
    let lower = perturbed(&optimum, 0.05, &mut dice).unwrap();
    // the symmetric root of the same covariance
    let (values, vectors) = linalg::eigen(&lower.covariance(), 3).unwrap();
    let root: Vec<f64> = (0..9)
        .map(|k| (0..3).map(|e| vectors[3 * e + k % 3] * values[e].sqrt() * vectors[3 * e + k / 3]).sum())
        .collect();
    let mut root = root;
    linalg::mirror(&mut root, 3);
    let symmetric = Gaussian::new(
        lower.mean().to_vec(),
        Factor::Symmetric(certus::factor::Symmetric::new(3, root).unwrap()),
    );
    let symmetric = symmetric.unwrap();
    let close = |a: f64, b: f64| assert!((a - b).abs() <= 1e-9 * (1.0 + b.abs()), "{a} {b}");
    close(model.neg_elbo(&symmetric).unwrap(), model.neg_elbo(&lower).unwrap());
    close(model.exact_value(&symmetric).unwrap().value, model.neg_elbo(&lower).unwrap());
    close(
        model.whitened_gradient(&symmetric).unwrap().norm(),
        model.whitened_gradient(&lower).unwrap().norm(),
    );
    let bound = |w: &Gaussian| model.gap(w).unwrap().statement.bound().unwrap();
    assert!((bound(&symmetric) / bound(&lower) - 1.0).abs() < 1e-6);
}

/// The a-priori plan on logit_d10, gap 0.01, B = 10, from the Laplace approximation: at most 800 iterations, and obeyed
/// in the mean over 200 seeds; the global constants promise nothing useful.
#[test]
fn local_plans_are_short_and_kept() {
    let p = problem(&data_dir(), "logit_d10");
    let start = certus_models::laplace(&p.model).unwrap().gaussian;
    let plan = p.model.iterations_to(&start, 0.01, 10).unwrap();
    println!("local {:?}, sharp {:?}, paper {:?}", plan.local, plan.sharp, plan.paper);
    let iterations = plan.local.unwrap();
    assert!(
        iterations <= 800 && plan.paper.unwrap() > 1_000_000_000 && plan.sharp.unwrap() < plan.paper.unwrap()
    );
    let local = p.model.ball(&start).unwrap().unwrap();
    let frame = Frame::of(&start).unwrap();
    let framed = certus::frame::Framed::new(&p.model, frame.clone(), None).unwrap();
    let least = p.model.solve_exactly().unwrap().neg_elbo;
    let mut gaps = Vec::new();
    for seed in 0..200 {
        let settings = certus::Settings {
            method: certus::MethodName::BallStl,
            local: Some(local.clone()),
            batch: 10,
            iterations,
            seed,
            ..certus::Settings::default()
        };
        let fit = certus::fit(&framed, &settings).unwrap();
        gaps.push(p.model.neg_elbo(&frame.to_original(&fit.gaussian).unwrap()).unwrap() - least);
        let guarantee = fit.guarantee.unwrap();
        assert!(0.5 * local.smoothness() * guarantee.bound() <= 0.01 * (1.0 + 1e-9));
    }
    let mean = gaps.iter().sum::<f64>() / 200.0;
    println!("mean gap {mean:.2e}, largest {:.2e}", gaps.iter().fold(0.0_f64, |a, b| a.max(*b)));
    assert!(mean <= 0.01);
}

/// docs/certificates.md shows what the example prints.
#[test]
fn the_documented_example_is_true() {
    let docs = data_dir().join("../docs/certificates.md");
    let (shown, printed) = (std::fs::read_to_string(docs).unwrap(), example::report().unwrap());
    assert!(shown.contains(printed.trim()), "docs/certificates.md should show\n{printed}");
}

/// A correlated model and its mean-field optimum, 0.66 nats from the best Gaussian: nothing that is said of one family
/// is used for another.
#[test]
fn families_are_not_mixed_up() {
    let rows = Memory {
        x: vec![1.0, 1.0, 1.0, 0.9, 1.0, 1.1],
        y: vec![0.5, 1.0, -0.3],
        columns: 2,
        ..Memory::default()
    };
    let prior = Prior::independent(vec![0.0; 2], &[3.0; 2]).unwrap();
    let model = Glm::new(Design::new(Arc::new(rows), false), likelihood("linear"), prior).unwrap();
    let best = model.solve_exactly().unwrap();
    let family = certus::Family::Pattern(Arc::new(Tree::diagonal(2).unwrap()));
    let start = Gaussian::new(best.gaussian.mean().to_vec(), family.scaled_identity(2, 0.2)).unwrap();
    let independent = descend(&model, start).unwrap();
    let lost = model.neg_elbo(&independent).unwrap() - best.neg_elbo;
    assert!(lost > 0.3, "{lost}");
    // within its family it is certified
    let own = model.gap(&independent).unwrap();
    assert!(own.statement.bound().unwrap() < 1e-6 && own.family.contains("independent"), "{own:?}");
    // a ball of all Gaussians holds the best of all, or there is none
    if let Ok(ball) = model.ball(&independent).unwrap() {
        assert!(0.5 * ball.smoothness() * ball.initial_distance_squared() >= lost);
    }
    // a reference of the pattern does not speak for all Gaussians, but one of all speaks for the pattern
    let of_pattern = model.reference(&independent).unwrap().unwrap();
    let moved = perturbed(&best.gaussian, 0.3, &mut Dice::new(73)).unwrap();
    assert_eq!(model.gap_against(&moved, &of_pattern).unwrap(), model.gap(&moved).unwrap());
    let of_all = model.reference(&best.gaussian).unwrap().unwrap();
    assert!(model.gap_against(&independent, &of_all).unwrap().statement.bound().unwrap() <= lost + 1e-6);
    // f below what a reference allows is a contradiction, never a gap of 0
    let other =
        model.rebuilt(likelihood("linear"), Prior::independent(vec![100.0; 2], &[0.01; 2]).unwrap()).unwrap();
    let wrong = other.reference(&other.solve_exactly().unwrap().gaussian).unwrap().unwrap();
    assert!(matches!(model.gap_against(&best.gaussian, &wrong), Err(Error::Violated(_))));
}

/// Predictors that are all cancellation: 1e17 less 1e17. What rounding may have done to them is not small, and is not
/// taken for small.
#[test]
fn cancellation_is_seen() {
    let d = 11;
    let rows =
        Memory { x: vec![1.0; d], y: vec![0.0], offset: vec![-1e17 - 48.0], columns: d, ..Memory::default() };
    let mut mean = vec![7.0; d];
    mean[0] = 1e17;
    let prior = Prior::independent(mean.clone(), &[1.0; 11]).unwrap();
    let model = Glm::new(Design::new(Arc::new(rows), false), likelihood("poisson"), prior).unwrap();
    let w = Gaussian::isotropic(mean, 0.99, &certus::Family::Lower).unwrap();
    let gap = model.gap(&w).unwrap();
    // truth: the predictor is 1e17 + 70 − 1e17 − 48, give or take 16 for the rounding of the offset
    assert!(gap.statement.bound().is_none_or(|b| b > 7.8e11), "{gap:?}");
}
