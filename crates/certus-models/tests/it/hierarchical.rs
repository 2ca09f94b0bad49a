//! Hierarchical models on the arrow: the same optimum as the dense solver, at a cost linear in the number of groups.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::common::*;
use certus::Target;
use certus_likelihood::{Likelihood, Logistic, NegativeBinomial};
use certus_models::rows::Rows;
use certus_models::{Design, Glm, GroupTerm, Hierarchical, Memory, Prior};
use std::sync::Arc;
use std::time::Instant;

const MEMORY: usize = 4 << 30;

fn term(group: Vec<usize>, slopes: &[usize], sd: &[f64]) -> GroupTerm {
    GroupTerm { group, slopes: slopes.to_vec(), sd: sd.to_vec(), within: None }
}

/// The columns as they are.
fn plain(rows: &Memory) -> Design {
    Design::new(Arc::new(rows.clone()), false)
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum::<f64>().sqrt()
}

fn norm(a: &[f64]) -> f64 {
    a.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// The shipped problem: 20 groups × 5, against its reference optimum over all Gaussians. The arrow loses nothing.
#[test]
fn hier_logit_reaches_its_reference() {
    let p = problem(&data_dir(), "hier_logit");
    let (names, rows) = read(&data_dir().join("hier_logit.csv"));
    let at = |name: &str| names.iter().position(|n| n == name).unwrap();
    let xs: Vec<usize> = (0..5).map(|j| at(&format!("x{j}"))).collect();
    let grouped = Memory {
        x: rows.iter().flat_map(|r| xs.iter().map(|&j| r[j]).collect::<Vec<_>>()).collect(),
        columns: 5,
        y: rows.iter().map(|r| r[at("y")]).collect(),
        ..Memory::default()
    };
    let groups = term(rows.iter().map(|r| r[at("group")] as usize).collect(), &[0, 1, 2, 3, 4], &[1.0; 5]);
    let prior = Prior::independent(vec![0.0; 5], &[1.0; 5]).unwrap();
    let model = Hierarchical::new(plain(&grouped), &[groups], Arc::new(Logistic), &prior, MEMORY).unwrap();
    let state = model.solve_exactly().unwrap();
    println!("hier_logit: {} iterations, {} products", state.iterations, state.products);
    assert!(
        (state.neg_elbo - p.neg_elbo).abs() <= 1e-8 * p.neg_elbo,
        "{} against {}",
        state.neg_elbo,
        p.neg_elbo
    );
    assert!(state.iterations <= 6);
    assert!(model.whitened_gradient_norm(&state.gaussian).unwrap() < 1e-9);
    let sd = p.optimum.sd();
    for i in 0..105 {
        assert!((state.gaussian.mean()[i] - p.optimum.mean()[i]).abs() <= 1e-6 * sd[i]);
    }
    let (a, b) = (state.gaussian.covariance(), p.optimum.covariance());
    assert!(distance(&a, &b) <= 1e-6 * norm(&b));
}

/// Rows whose features are 1 and normals, and the labels of `groups` groups of `each` rows, shuffled so that order is
/// not given.
fn simulate_grouped(
    name: &str,
    groups: usize,
    each: usize,
    k: usize,
    slopes: &[usize],
    dice: &mut Dice,
) -> (Memory, Vec<usize>) {
    let (theta, mut labels) = (dice.normals(k), Vec::new());
    let deviation: Vec<Vec<f64>> = (0..groups).map(|_| dice.normals(slopes.len())).collect();
    let mut rows = Memory { columns: k, ..Memory::default() };
    for i in 0..groups * each {
        let g = (i * 7 + i / groups) % groups;
        let mut x = dice.normals(k);
        x[0] = 1.0;
        let mut t: f64 = x.iter().zip(&theta).map(|(a, b)| 0.5 * a * b).sum();
        t += slopes.iter().zip(&deviation[g]).map(|(&j, b)| 0.7 * x[j] * b).sum::<f64>();
        let (y, trials) = simulate(name, t, dice);
        rows.x.extend(x);
        rows.y.push(y);
        rows.trials.push(trials);
        rows.offset.push(0.1 * dice.normal());
        rows.weight.push(0.5 + dice.uniform());
        labels.push(g);
    }
    (rows, labels)
}

/// The same model as a dense GLM: latents in the hierarchical model's own order, rows and prior written out from their
/// meaning.
fn dense(
    rows: &Memory,
    terms: &[GroupTerm],
    model: &Hierarchical,
    name: &str,
    mean: &[f64],
    sd: &[f64],
) -> Glm {
    let (n, k, d) = (rows.y.len(), rows.columns, model.dim());
    let find = |term: Option<usize>, level: usize, feature: usize| {
        model.latents().iter().position(|l| l.term == term && l.level == level && l.feature == feature)
    };
    // the latent that row i of a chain uses for a feature: the deepest term that has it
    let inner = |t: usize| terms.iter().position(|o| o.within == Some(t));
    let deepest = |mut t: usize, i: usize, j: usize| {
        let mut found = None;
        loop {
            if terms[t].slopes.contains(&j) {
                found = find(Some(t), terms[t].group[i], j);
            }
            match inner(t) {
                Some(next) => t = next,
                None => return found,
            }
        }
    };
    let tops: Vec<usize> = (0..terms.len()).filter(|&t| terms[t].within.is_none()).collect();
    let mut x = vec![0.0; n * d];
    for i in 0..n {
        for j in 0..k {
            let value = rows.x[i * k + j];
            let own = deepest(tops[0], i, j).or_else(|| find(None, 0, j)).unwrap();
            x[i * d + own] += value;
            for &t in &tops[1..] {
                if let Some(latent) = deepest(t, i, j) {
                    x[i * d + latent] += value;
                }
            }
        }
    }
    let (mut precision, mut center) = (vec![0.0; d * d], vec![0.0; d]);
    for (a, latent) in model.latents().iter().enumerate() {
        let Some(t) = latent.term else {
            precision[a * (d + 1)] += sd[latent.feature].powi(-2);
            center[a] = mean[latent.feature];
            continue;
        };
        let q = latent.sd.powi(-2);
        let slot = terms[t].slopes.iter().position(|&j| j == latent.feature).unwrap();
        assert_eq!(latent.sd, terms[t].sd[slot]);
        precision[a * (d + 1)] += q;
        if let Some((o, _)) = latent.outer {
            precision[o * (d + 1)] += q;
            precision[a * d + o] -= q;
            precision[o * d + a] -= q;
            assert_eq!(model.latents()[o].feature, latent.feature);
            center[a] = center[o];
        }
    }
    let memory = Memory {
        x,
        columns: d,
        y: rows.y.clone(),
        trials: rows.trials.clone(),
        offset: rows.offset.clone(),
        weight: rows.weight.clone(),
        ..Memory::default()
    };
    Glm::new(
        Design::new(Arc::new(memory), false),
        likelihood(name),
        Prior::with_precision(center, precision).unwrap(),
    )
    .unwrap()
}

/// Solves a hierarchical model and its dense twin and compares everything.
fn compare(rows: &Memory, terms: &[GroupTerm], name: &str, dice: &mut Dice) {
    let k = rows.columns;
    let (mean, sd): (Vec<f64>, Vec<f64>) = (dice.normals(k), (0..k).map(|j| 1.0 + 0.3 * j as f64).collect());
    let prior = Prior::independent(mean.clone(), &sd).unwrap();
    let model = Hierarchical::new(plain(rows), terms, likelihood(name), &prior, MEMORY).unwrap();
    let state = model.solve_exactly().unwrap();
    let twin = dense(rows, terms, &model, name, &mean, &sd);
    let want = twin.solve_exactly().unwrap();
    let (scale, d) = (1.0 + want.neg_elbo.abs(), model.dim());
    assert!(
        (state.neg_elbo - want.neg_elbo).abs() < 1e-10 * scale,
        "{name}: {} against {}",
        state.neg_elbo,
        want.neg_elbo
    );
    let (a, b) = (state.gaussian.covariance(), want.gaussian.covariance());
    assert!(
        distance(state.gaussian.mean(), want.gaussian.mean()) < 1e-8 * (1.0 + norm(want.gaussian.mean())),
        "{name}: means"
    );
    assert!(distance(&a, &b) < 1e-8 * norm(&b), "{name}: covariance");
    assert!(
        (twin.neg_elbo(&state.gaussian).unwrap() - want.neg_elbo).abs() < 1e-10 * scale,
        "{name}: same f"
    );
    assert!(state.iterations <= 8, "{name}: {}", state.iterations);
    // as targets: the same log density, gradient and curvature
    let points: Vec<f64> = dice.normals(3 * d).iter().map(|x| 0.5 * x).collect();
    let evaluate = |target: &dyn Target| {
        let (mut values, mut gradients) = (vec![0.0; 3], vec![0.0; 3 * d]);
        target.log_density(&points, &mut values, &mut gradients).unwrap();
        [values, gradients].concat()
    };
    let (ours, theirs) = (evaluate(&model), evaluate(&twin));
    assert!(distance(&ours, &theirs) < 1e-11 * norm(&theirs), "{name}: {}", distance(&ours, &theirs));
    match (Target::curvature(&model), Target::curvature(&twin)) {
        (Some(a), Some(b)) => {
            assert!((a.smoothness() / b.smoothness() - 1.0).abs() < 1e-10, "{name}: {a:?} {b:?}");
            let close = 1e-11 * b.smoothness();
            assert!((a.strong_convexity() - b.strong_convexity()).abs() < close, "{name}: {a:?} {b:?}");
        }
        (None, None) => assert_eq!(name, "poisson"),
        other => panic!("{name}: {other:?}"),
    }
}

/// One factor, every likelihood, some slopes global and some by group: equal to the dense solver to 1e-10.
#[test]
fn one_factor_equals_the_dense_solver() {
    let mut dice = Dice::new(60);
    for name in LIKELIHOODS {
        let slopes = [0, 2];
        let (rows, labels) = simulate_grouped(name, 20, 12, 3, &slopes, &mut dice);
        compare(&rows, &[term(labels, &slopes, &[0.8, 0.5])], name, &mut dice);
    }
}

/// Three nested levels, with fewer slopes further down: the tree is as deep as the nesting.
#[test]
fn nested_levels_equal_the_dense_solver() {
    let mut dice = Dice::new(64);
    let (rows, labels) = simulate_grouped("logistic", 24, 10, 3, &[0, 1], &mut dice);
    let of = |f: &dyn Fn(usize) -> usize| labels.iter().map(|&g| f(g)).collect::<Vec<_>>();
    let country = term(of(&|g| g / 12), &[0, 1, 2], &[1.0, 0.5, 0.7]);
    let city = GroupTerm { within: Some(0), ..term(of(&|g| g / 3), &[0, 1], &[0.8, 0.4]) };
    let school = GroupTerm { within: Some(1), ..term(of(&|g| g), &[0], &[0.6]) };
    compare(&rows, &[country.clone(), city.clone(), school.clone()], "logistic", &mut dice);
    let prior = Prior::independent(vec![0.0; 3], &[1.0; 3]).unwrap();
    let model = Hierarchical::new(plain(&rows), &[country, city, school], Arc::new(Logistic), &prior, MEMORY)
        .unwrap();
    let certus::Family::Pattern(tree) = model.family() else { panic!("a pattern") };
    assert_eq!(tree.levels(), 4);
    assert_eq!(tree.widest(), 3 + 3 + 2 + 1);
}

/// Crossed factors, and a crossed one with something nested in it: the elimination tree has no gaps, so nothing is
/// lost.
#[test]
fn crossed_factors_equal_the_dense_solver() {
    let mut dice = Dice::new(65);
    for name in ["logistic", "poisson"] {
        let (rows, labels) = simulate_grouped(name, 15, 16, 2, &[0], &mut dice);
        let items: Vec<usize> = (0..labels.len()).map(|i| (i * i + 3 * i) % 6).collect();
        let halves: Vec<usize> = items.iter().enumerate().map(|(i, g)| 2 * g + i % 2).collect();
        let crossed = [term(labels.clone(), &[0, 1], &[0.9, 0.4]), term(items.clone(), &[0], &[0.7])];
        compare(&rows, &crossed, name, &mut dice);
        let nested = [
            term(labels, &[0], &[0.9]),
            term(items, &[0, 1], &[0.7, 0.3]),
            GroupTerm { within: Some(1), ..term(halves, &[0], &[0.5]) },
        ];
        compare(&rows, &nested, name, &mut dice);
    }
    // a group has met three of fifty on its path: the others are left out of what it sends up the tree
    let (rows, labels) = simulate_grouped("logistic", 60, 3, 2, &[0], &mut dice);
    let items: Vec<usize> = (0..labels.len()).map(|i| (i * i + 3 * i) % 50).collect();
    compare(&rows, &[term(labels, &[0], &[0.9]), term(items, &[0], &[0.7])], "logistic", &mut dice);
    // two large crossed factors: refused with the figure
    let n = 4000;
    let rows = Memory {
        x: vec![1.0; n],
        columns: 1,
        y: (0..n).map(|i| (i % 2) as f64).collect(),
        ..Memory::default()
    };
    let a = term((0..n).map(|i| (i * 31) % 1000).collect(), &[0], &[1.0]);
    let b = term((0..n).map(|i| (i * 17 + i / 3) % 900).collect(), &[0], &[1.0]);
    let prior = Prior::independent(vec![0.0], &[1.0]).unwrap();
    let error = Hierarchical::new(plain(&rows), &[a, b], Arc::new(Logistic), &prior, 1 << 20)
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("1 MB were given") && error.contains("widest path"), "{error}");
}

/// The same bits for any number of threads.
#[test]
fn deterministic_over_threads() {
    let mut dice = Dice::new(61);
    let (rows, labels) = simulate_grouped("logistic", 300, 6, 3, &[0, 1], &mut dice);
    let outer = term(labels.iter().map(|g| g / 100).collect(), &[0], &[0.5]);
    let terms = [outer, GroupTerm { within: Some(0), ..term(labels, &[0, 1], &[1.0, 0.5]) }];
    let prior = Prior::independent(vec![0.0; 3], &[1.0; 3]).unwrap();
    let solve = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let model = Hierarchical::new(plain(&rows), &terms, Arc::new(Logistic), &prior, MEMORY).unwrap();
            let state = model.solve_exactly().unwrap();
            state
                .gaussian
                .factor()
                .values()
                .iter()
                .chain(state.gaussian.mean())
                .map(|x| x.to_bits())
                .collect::<Vec<_>>()
        })
    };
    let one = solve(1);
    assert!([2, 3, 8].iter().all(|&n| solve(n) == one));
}

/// The features stay in their source: leaves re-read from a file give the same bits, sorted or not, standardised or
/// not; and a source that fails says so.
#[test]
fn rows_stay_in_their_source() {
    let mut dice = Dice::new(66);
    let (rows, labels) = simulate_grouped("binomial", 40, 60, 3, &[0, 1], &mut dice);
    let path = std::env::temp_dir().join(format!("certus-grouped-{}", std::process::id()));
    let disk = Arc::new(Disk::new(&rows, &path));
    let prior = Prior::independent(vec![0.0; 4], &[1.0; 4]).unwrap();
    let terms = [term(labels, &[0, 2], &[0.8, 0.5])];
    let bits = |design: Design| {
        let model = Hierarchical::new(design, &terms, likelihood("binomial"), &prior, MEMORY).unwrap();
        let state = model.solve_exactly().unwrap();
        let (z, mut gradient) = (vec![0.1; model.dim()], vec![0.0; model.dim()]);
        let mut value = [0.0];
        model.log_density(&z, &mut value, &mut gradient).unwrap();
        let value = value[0];
        let all = state.gaussian.factor().values().iter().chain(state.gaussian.mean()).chain(&gradient);
        all.chain([&value, &state.neg_elbo]).map(|x| x.to_bits()).collect::<Vec<_>>()
    };
    let memory = Arc::new(rows);
    assert!(bits(Design::new(memory.clone(), true)) == bits(Design::new(disk.clone(), true)));
    let standardised = |rows: Arc<dyn Rows>| Design::standardised(rows, true).unwrap();
    assert!(bits(standardised(memory)) == bits(standardised(disk.clone())));
    let model =
        Hierarchical::new(Design::new(disk, true), &terms, likelihood("binomial"), &prior, MEMORY).unwrap();
    std::fs::File::create(&path).unwrap().set_len(0).unwrap();
    let start = certus::Gaussian::isotropic(vec![0.0; model.dim()], 1.0, &model.family()).unwrap();
    let error = model.neg_elbo(&start).unwrap_err().to_string();
    assert!(error.contains("leaf"), "{error}");
    assert!(model.laplace().is_err() && model.bounds().is_err());
    std::fs::remove_file(path).unwrap();
}

/// A model rebuilt with new hyperparameters is the model built with them, to the bit.
#[test]
fn rebuilding_equals_building() {
    let mut dice = Dice::new(67);
    let (rows, labels) = simulate_grouped("negative-binomial", 12, 20, 3, &[0, 1], &mut dice);
    let outer = term(labels.iter().map(|g| g / 4).collect(), &[0, 1, 2], &[1.0, 0.5, 0.7]);
    let mut terms = [outer, GroupTerm { within: Some(0), ..term(labels, &[0, 1], &[0.8, 0.4]) }];
    let prior = Prior::independent(vec![0.0; 3], &[1.0; 3]).unwrap();
    let first =
        Hierarchical::new(plain(&rows), &terms, likelihood("negative-binomial"), &prior, MEMORY).unwrap();
    let sds = [vec![0.3, 0.6, 1.1], vec![0.2, 2.0]];
    let prior = Prior::independent(vec![0.1; 3], &[0.7; 3]).unwrap();
    let other: Arc<dyn Likelihood> = Arc::new(NegativeBinomial::new(7.0).unwrap());
    let rebuilt = first.rebuilt(other.clone(), &prior, &sds).unwrap();
    terms.iter_mut().zip(&sds).for_each(|(t, sd)| t.sd.clone_from(sd));
    let built = Hierarchical::new(plain(&rows), &terms, other.clone(), &prior, MEMORY).unwrap();
    assert_eq!(rebuilt.latents(), built.latents());
    let (a, b) = (rebuilt.solve_exactly().unwrap(), built.solve_exactly().unwrap());
    assert_eq!(a.gaussian, b.gaussian);
    assert_eq!(rebuilt.bounds().unwrap(), built.bounds().unwrap());
    for wrong in [&sds[..1], &[vec![0.3, 0.6], sds[1].clone()], &[sds[0].clone(), vec![0.2, -2.0]]] {
        assert!(first.rebuilt(other.clone(), &prior, wrong).is_err());
    }
    assert!(first.rebuilt(Arc::new(Logistic), &prior, &sds).err().unwrap().to_string().contains("row "));
}

/// 20,000 groups × 5 + 5 globals, 200,000 rows (d = 100,005): decrement 1e-8 in at most 15 iterations of at most 2 s
/// each.
#[test]
fn a_hundred_thousand_latents() {
    let mut dice = Dice::new(62);
    let slopes = [0, 1, 2, 3, 4];
    let (rows, labels) = simulate_grouped("logistic", 20_000, 10, 5, &slopes, &mut dice);
    let prior = Prior::independent(vec![0.0; 5], &[1.0; 5]).unwrap();
    let model = Hierarchical::new(
        plain(&rows),
        &[term(labels, &slopes, &[1.0; 5])],
        Arc::new(Logistic),
        &prior,
        MEMORY,
    )
    .unwrap();
    let clock = Instant::now();
    let start = model.laplace().unwrap();
    println!("Laplace in {:.2} s", clock.elapsed().as_secs_f64());
    let mut state = model.exact_start(&start).unwrap();
    let mut slowest = 0.0_f64;
    while state.iterations < 15 && !state.done {
        let clock = Instant::now();
        model.exact_step(&mut state).unwrap();
        let seconds = clock.elapsed().as_secs_f64();
        slowest = slowest.max(seconds);
        println!(
            "iteration {}: decrement {:.2e}, {seconds:.2} s, {} products",
            state.iterations, state.decrement, state.products
        );
        if state.decrement < 1e-8 {
            break;
        }
    }
    assert!(state.decrement < 1e-8 && state.iterations <= 15);
    let clock = Instant::now();
    let gap = model.gap(&state.gaussian).unwrap();
    let seconds = clock.elapsed().as_secs_f64();
    println!("certificate in {seconds:.2} s, {:.2} of an iteration\n{gap:?}", seconds / slowest);
    assert!(gap.statement.level() == certus::certificate::Level::Proved);
    assert!(gap.statement.bound().unwrap() <= 1e-8);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap_or("").trim().to_string();
    println!("slowest iteration {slowest:.2} s, peak memory {peak}");
}

/// The stochastic methods run on the same model and the same pattern, and come close to the exact optimum.
#[test]
fn prox_energy_on_the_arrow() {
    let mut dice = Dice::new(63);
    let (rows, labels) = simulate_grouped("logistic", 15, 8, 2, &[0], &mut dice);
    let prior = Prior::independent(vec![0.0; 2], &[1.0; 2]).unwrap();
    let model =
        Hierarchical::new(plain(&rows), &[term(labels, &[0], &[1.0])], Arc::new(Logistic), &prior, MEMORY)
            .unwrap();
    let optimum = model.solve_exactly().unwrap();
    let settings =
        certus::Settings { family: Some(model.family()), iterations: 30_000, ..certus::Settings::default() };
    let fit = certus::fit(&model, &settings).unwrap();
    let gap = model.neg_elbo(&fit.gaussian).unwrap() - optimum.neg_elbo;
    println!(
        "gap {gap:.4} after {} gradients; proved |w - w*|^2 <= {:?}",
        fit.state.gradients(),
        fit.guarantee.as_ref().map(|g| g.bound())
    );
    assert!(gap > 0.0 && gap < 0.2, "{gap}");
    let guarantee = fit.guarantee.unwrap();
    assert!(fit.gaussian.distance_squared(&optimum.gaussian) <= guarantee.with_probability(0.5));
}

#[test]
fn bad_input_is_named() {
    let rows = Memory { x: vec![1.0, 2.0], columns: 1, y: vec![0.0, 1.0], ..Memory::default() };
    let prior = Prior::independent(vec![0.0], &[1.0]).unwrap();
    let refuse = |rows: &Memory, terms: &[GroupTerm], words: &str| {
        let likelihood: Arc<dyn Likelihood> = Arc::new(Logistic);
        let error =
            Hierarchical::new(plain(rows), terms, likelihood, &prior, MEMORY).err().unwrap().to_string();
        assert!(error.contains(words), "{error}");
    };
    let good = term(vec![0, 1], &[0], &[1.0]);
    refuse(&rows, &[], "requires a group term");
    refuse(&rows, &[GroupTerm { slopes: vec![3], ..good.clone() }], "[3]");
    refuse(&rows, &[GroupTerm { sd: vec![0.0], ..good.clone() }], "above 0");
    refuse(&rows, &[GroupTerm { group: vec![0], ..good.clone() }], "1 entries for 2 rows");
    refuse(&rows, &[GroupTerm { within: Some(0), ..good.clone() }], "earlier term");
    let inner = GroupTerm { within: Some(0), ..term(vec![0, 0], &[0], &[1.0]) };
    refuse(&rows, &[good.clone(), inner], "two levels of term 0");
    refuse(&Memory { y: vec![0.0, 3.0], ..rows.clone() }, std::slice::from_ref(&good), "row 1");
    refuse(&Memory { x: vec![1.0, f64::NAN], ..rows }, &[good], "row 1");
}
