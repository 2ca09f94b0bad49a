//! The independent checker: it confirms what models certify, and refuses what was tampered with.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::common::*;
use certus::factor::{Factor, Lower, Pattern, Symmetric, Tree};
use certus::{Gaussian, linalg};
use certus_likelihood::Datum;
use certus_models::claim::claim;
use certus_models::{Design, Glm, Prior};
use certus_verify::{self, Claim, ClaimFamily, Theorem, Verdict, gradient, verify};
use proptest::prelude::*;
use std::sync::Arc;

/// A d × d matrix (column-major) as a factor on a pattern.
fn on_pattern(tree: &Arc<Tree>, dense: &[f64]) -> Factor {
    let (d, nodes) = (tree.dim(), tree.nodes());
    let mut values = vec![0.0; tree.stored()];
    for node in nodes {
        let mut above = Some(node);
        while let Some(a) = above {
            for c in 0..a.size {
                for i in (0..node.size).filter(|i| node.start + i >= a.start + c) {
                    let column = a.width - a.size + c;
                    values[node.offset + column * node.size + i] = dense[(a.start + c) * d + node.start + i];
                }
            }
            above = a.parent.map(|p| &nodes[p]);
        }
    }
    Factor::Pattern(Pattern::new(tree.clone(), values).unwrap())
}

/// a b, column-major.
fn times(a: &[f64], b: &[f64], d: usize) -> Vec<f64> {
    (0..d * d).map(|k| (0..d).map(|l| a[l * d + k % d] * b[k / d * d + l]).sum()).collect()
}

/// (m + C dm, C(I + dC)), on the pattern of `tree` if there is one, else lower triangular.
fn moved(w: &Gaussian, dm: &[f64], dc: &[f64], tree: Option<&Arc<Tree>>) -> Gaussian {
    let (d, c) = (w.dim(), w.factor().to_dense());
    let mut mean = w.mean().to_vec();
    w.factor().add_apply(dm, &mut mean);
    let mut inner = dc.to_vec();
    inner.iter_mut().step_by(d + 1).for_each(|x| *x += 1.0);
    let product = times(&c, &inner, d);
    let factor = match tree {
        Some(tree) => on_pattern(tree, &product),
        None => Factor::Lower(Lower::new(d, linalg::lower_of_same_covariance(&product, d)).unwrap()),
    };
    Gaussian::new(mean, factor).unwrap()
}

/// Only the entries of a pattern.
fn projected(tree: &Arc<Tree>, dense: &[f64]) -> Vec<f64> {
    let present = on_pattern(tree, &vec![1.0; dense.len()]).to_dense();
    dense.iter().zip(&present).map(|(x, p)| x * p).collect()
}

/// Close to the optimum over a pattern, by gradient steps in the frame of the iterate.
fn best_on(model: &Glm, tree: &Arc<Tree>, optimum: &Gaussian) -> Gaussian {
    let d = model.dim();
    let mut start = vec![0.0; d * d];
    optimum.sd().iter().enumerate().for_each(|(i, s)| start[i * (d + 1)] = 0.7 * s);
    let mut w = Gaussian::new(optimum.mean().to_vec(), on_pattern(tree, &start)).unwrap();
    for _ in 0..300 {
        let g = model.whitened_gradient(&w).unwrap();
        let dm: Vec<f64> = g.mean.iter().map(|x| -0.4 * x).collect();
        let dc: Vec<f64> = projected(tree, &g.factor).iter().map(|x| -0.2 * x).collect();
        w = moved(&w, &dm, &dc, Some(tree));
    }
    w
}

/// A random move of the given size.
fn perturbed(w: &Gaussian, size: f64, dice: &mut Dice, tree: Option<&Arc<Tree>>) -> Gaussian {
    let d = w.dim();
    let (mut dm, mut dc) = (dice.normals(d), dice.normals(d * d));
    (0..d * d).filter(|k| k % d < k / d).for_each(|k| dc[k] = 0.0);
    if let Some(tree) = tree {
        dc = projected(tree, &dc);
    }
    let norm = (linalg::norm_squared(&dm) + linalg::norm_squared(&dc)).sqrt();
    dm.iter_mut().chain(&mut dc).for_each(|x| *x *= size / norm);
    moved(w, &dm, &dc, tree)
}

fn claimed(model: &Glm, w: &Gaussian) -> Option<Claim> {
    let gap = model.gap(w).unwrap();
    gap.statement.bound()?;
    Some(claim(model, w, &gap).unwrap())
}

/// By how much the certificate's allowances can raise its bound, relatively. Per row they are 1e-13 of the scale for
/// quadrature, 1088 ulp/2 for sums and δ = (d + 4) ulp/2 Σ|a_j||C_j·| for ã: the norms of the gradient grow by A = Σ w
/// scale [2.5e-13 (sd + sd²) + 2δ(1 + sd)] at most, ρ by A/√λ, ρ²/2 by about ρA/√λ, and √λ is above 0.35 in these
/// tests.
fn allowance(claim: &Claim) -> f64 {
    let (d, likelihood) = (claim.dim(), likelihood(&claim.likelihood));
    let row = |n: usize| {
        let a = &claim.design[n * d..][..d];
        let mean = claim.offset[n] + a.iter().zip(&claim.mean).map(|(a, m)| a * m).sum::<f64>();
        let turned = (0..d).map(|k| (0..d).map(|j| a[j] * claim.factor[j * d + k]).sum::<f64>());
        let sd = turned.map(|x| x * x).sum::<f64>().sqrt();
        let datum = Datum { y: claim.y[n], trials: claim.trials[n] };
        let spread = (0..d).map(|j| {
            let row = &claim.factor[j * d..][..d];
            a[j].abs() * linalg::norm_squared(row).sqrt()
        });
        let delta = (d + 4) as f64 * 0.5 * f64::EPSILON * (spread.sum::<f64>() + sd);
        let own = 2.5e-13 * (sd + sd * sd) + 2.0 * delta * (1.0 + sd);
        claim.weight[n] * likelihood.scale(mean, sd, datum) * own
    };
    4.0 * (0..claim.y.len()).map(row).sum::<f64>() / claim.bound.sqrt()
}

/// True, and the two implementations agree, up to what the certificate allows for rounding and the checker does not
/// need. Theorem A′ is recomputed with half the step, so that its bound is smaller.
fn confirm(claim: &Claim, what: &str) -> Verdict {
    let verdict = verify(claim).unwrap();
    assert!(verdict.holds, "{what}: {verdict:?} against {:e}", claim.bound);
    let ratio = verdict.bound / claim.bound;
    let least = if claim.theorem == Theorem::APrime { 0.8 } else { 1.0 - 1e-8 - allowance(claim) };
    assert!(
        ratio > least && ratio < 1.0 + 1e-8,
        "{what}: the bounds' ratio is {ratio}, not {least}, {:?}",
        claim.theorem
    );
    verdict
}

fn trees(d: usize) -> Vec<Arc<Tree>> {
    let trees = [
        Tree::diagonal(d),
        Tree::blocks(&[1, d - 1]),
        Tree::new(&[1, 1, d - 3, 1], &[None, Some(0), Some(1), Some(0)]),
    ];
    trees.into_iter().map(|t| Arc::new(t.unwrap())).collect()
}

/// All six likelihoods, all Gaussians and patterns, gaps from 1e-14 to 1: every certificate is confirmed, by the same
/// numbers.
#[test]
fn certificates_are_confirmed() {
    let mut dice = Dice::new(9001);
    let mut seen = std::collections::BTreeMap::new();
    for name in LIKELIHOODS {
        let model = simulated(name, 120, 3, 0.6, 1.5, &mut dice);
        let optimum = model.solve_exactly().unwrap().gaussian;
        let mut check = |w: &Gaussian, what: &str| {
            let Some(claim) = claimed(&model, w) else { return };
            let verdict = confirm(&claim, what);
            // f's gradient, by two ways
            let (mean, factor) = gradient(&claim).unwrap();
            let g = model.whitened_gradient(w).unwrap();
            let tree = match w.factor() {
                Factor::Pattern(p) => projected(p.tree(), &g.factor),
                _ => g.factor.clone(),
            };
            let d = w.dim();
            for i in 0..d {
                assert!((mean[i] - g.mean[i]).abs() < 1e-12, "{what}: {} {}", mean[i], g.mean[i]);
                for j in 0..d {
                    assert!((factor[i * d + j] - tree[j * d + i]).abs() < 1e-12, "{what}");
                }
            }
            *seen.entry((claim.theorem as usize, matches!(claim.family, ClaimFamily::All))).or_insert(0) += 1;
            assert!(verdict.bound > 0.0);
        };
        check(&optimum, &format!("{name} at the optimum"));
        for size in [1e-6, 1e-3, 0.05, 0.3, 0.8, 3.0] {
            check(&perturbed(&optimum, size, &mut dice, None), &format!("{name} moved by {size}"));
        }
        for tree in trees(model.dim()) {
            let best = best_on(&model, &tree, &optimum);
            for size in [1e-5, 0.02, 0.4] {
                let w = perturbed(&best, size, &mut dice, Some(&tree));
                check(&w, &format!("{name} on a pattern moved by {size}"));
            }
        }
    }
    println!("{seen:?}");
    // every theorem occurred for all Gaussians, and Theorem D for patterns
    for kind in [(0, true), (1, true), (2, true), (0, false)] {
        assert!(seen.get(&kind).is_some_and(|n| *n > 2), "{kind:?}: {seen:?}");
    }
}

/// Dense priors, symmetric factors, standardised designs, more coefficients, wide rows.
#[test]
fn other_models_are_confirmed() {
    let mut dice = Dice::new(9002);
    let rows = Arc::new(simulated_rows("logistic", 60, 2, 0.5, &mut dice));
    let j = vec![2.0, 0.5, 0.0, 0.5, 1.0, -0.3, 0.0, -0.3, 3.0];
    let prior = Prior::with_precision(vec![0.1, -0.2, 0.3], j).unwrap();
    let design = Design::standardised(rows, true).unwrap();
    let model = Glm::new(design, likelihood("logistic"), prior).unwrap();
    let optimum = model.solve_exactly().unwrap().gaussian;
    let (values, vectors) = linalg::eigen(&optimum.covariance(), 3).unwrap();
    let mut root: Vec<f64> = (0..9)
        .map(|k| (0..3).map(|e| vectors[3 * e + k % 3] * values[e].sqrt() * vectors[3 * e + k / 3]).sum())
        .collect();
    linalg::mirror(&mut root, 3);
    let mean = optimum.mean().iter().map(|m| m + 1e-3).collect();
    let symmetric = Gaussian::new(mean, Factor::Symmetric(Symmetric::new(3, root).unwrap())).unwrap();
    confirm(&claimed(&model, &symmetric).unwrap(), "a symmetric factor");
    // 30 coefficients and few rows: rows of sd about 5
    for name in ["logistic", "negative-binomial", "probit"] {
        let model = simulated(name, 40, 29, 0.3, 1.0, &mut dice);
        let optimum = model.solve_exactly().unwrap().gaussian;
        for size in [1e-4, 0.1] {
            let w = perturbed(&optimum, size, &mut dice, None);
            confirm(&claimed(&model, &w).unwrap(), &format!("{name} with 30 coefficients, {size}"));
        }
    }
}

/// A certified claim of a logistic model with a gap of about 1e-4.
fn example(name: &str) -> Claim {
    let mut dice = Dice::new(9003);
    let model = simulated(name, 100, 3, 0.6, 1.5, &mut dice);
    let optimum = model.solve_exactly().unwrap().gaussian;
    let claim = claimed(&model, &perturbed(&optimum, 0.01, &mut dice, None)).unwrap();
    assert_eq!(claim.theorem, Theorem::D);
    assert!(confirm(&claim, "the example").reason == "confirmed");
    claim
}

/// Whatever is changed in a claim is noticed, and the reason names it.
#[test]
fn tampering_is_refused() {
    let good = example("logistic");
    let refuse = |what: &str, word: &str, change: &dyn Fn(&mut Claim)| {
        let mut claim = good.clone();
        change(&mut claim);
        let verdict = verify(&claim).unwrap();
        assert!(!verdict.holds && verdict.reason.contains(word), "{what}: {verdict:?}");
    };
    refuse("a halved bound", "bound", &|c| c.bound *= 0.5);
    refuse("a bound smaller by 1e-5", "bound", &|c| c.bound *= 1.0 - 1e-5);
    refuse("a negative bound", "bound", &|c| c.bound = -1.0);
    refuse("a smaller mean error", "mean error", &|c| c.mean_error = c.mean_error.map(|e| 0.99 * e));
    refuse("a smaller sd error", "sd error", &|c| c.sd_error = c.sd_error.map(|e| 0.99 * e));
    // data: the gradient is no longer what it was
    refuse("a changed feature", "is", &|c| c.design[1] += 1.0);
    refuse("a flipped response", "is", &|c| c.y[5] = 1.0 - c.y[5]);
    refuse("a weight", "is", &|c| c.weight[7] += 1.0);
    refuse("an offset", "is", &|c| c.offset[3] -= 2.0);
    refuse("a removed row", "is", &|c| {
        c.design.truncate(99 * 4);
        for column in [&mut c.y, &mut c.trials, &mut c.offset, &mut c.weight] {
            column.truncate(99);
        }
    });
    refuse("a prior mean", "is", &|c| c.prior_mean[0] += 1.0);
    refuse("a moved mean", "is", &|c| c.mean[2] += 0.01);
    refuse("a scaled factor", "radius", &|c| c.factor.iter_mut().for_each(|x| *x *= 1.05));
    refuse("a slightly scaled factor", "is", &|c| c.factor.iter_mut().for_each(|x| *x *= 1.01));
    // hypotheses
    refuse("a smaller radius", "radius", &|c| c.radius = c.radius.map(|r| 0.3 * r));
    refuse("a radius beyond the domain", "radius", &|c| c.radius = Some(1.5));
    refuse("no radius", "radius", &|c| c.radius = None);
    refuse("theta 0", "theta", &|c| c.theta = Some(0.0));
    refuse("a negative theta", "theta", &|c| c.theta = Some(-0.5));
    refuse("omega", "omega", &|c| c.omega = Some(0.0));
    refuse("a huge theta", "is", &|c| c.theta = Some(1e3));
    // a smaller family needs its own proof; what is not in it is not looked at
    refuse("another theorem", "bound", &|c| c.theorem = Theorem::D1);
    let mut claim = good.clone();
    claim.family = ClaimFamily::Pattern { sizes: vec![1; 4], parents: vec![None; 4] };
    assert!(verify(&claim).unwrap_err().to_string().contains("pattern"));
    claim.family = ClaimFamily::Pattern { sizes: vec![4], parents: vec![None] };
    assert!(verify(&claim).is_ok());
    for (sizes, parents) in [(vec![2, 2], vec![Some(1), None]), (vec![3], vec![None]), (vec![], vec![])] {
        claim.family = ClaimFamily::Pattern { sizes, parents };
        assert!(matches!(verify(&claim), Err(certus_verify::Error::Malformed(_))));
    }
    let mut claim = good.clone();
    claim.theorem = Theorem::Bracket;
    assert!(verify(&claim).unwrap_err().to_string().contains("scope"));
    let mut claim = good.clone();
    claim.y[0] = 0.5;
    assert!(verify(&claim).unwrap_err().to_string().contains("row 0"));
    let mut claim = good.clone();
    claim.factor[..4].fill(0.0);
    assert!(verify(&claim).unwrap_err().to_string().contains("singular"));
    let mut claim = good.clone();
    claim.trials.pop();
    assert!(verify(&claim).unwrap_err().to_string().contains("trials"));
    assert!(claim.write(&mut String::new()).is_err());
    // probit is only estimated
    let mut probit = example("probit");
    assert!(!probit.proved);
    probit.proved = true;
    let verdict = verify(&probit).unwrap();
    assert!(!verdict.holds && verdict.reason.contains("level"));
    // another dispersion is another model
    let mut counts = example("negative-binomial");
    counts.parameter = Some(5.0);
    assert!(!verify(&counts).unwrap().holds);
    counts.parameter = None;
    assert!(verify(&counts).is_err());
}

/// Theorem D's condition ρ ≤ r√min(λ_m, λ_C/ω) is r ≥ max(ρ/√λ_m, √ω ρ/√λ_C): a radius 2 % below is refused, one 2 %
/// above is not.
#[test]
fn the_radius_is_checked_on_both_sides() {
    for name in LIKELIHOODS {
        // a small ω makes the mean decide, a large one the factor
        for (omega, by_factor) in [(1.0_f64, false), (8.0, true)] {
            let claim = Claim { omega: Some(omega), ..example(name) };
            let at = |radius: f64| verify(&Claim { radius: Some(radius), ..claim.clone() }).unwrap();
            let needed = |v: &Verdict| v.mean_error.max(omega.sqrt() * v.sd_error);
            let near = at(needed(&at(0.1)));
            let (mean, factor) = (near.mean_error, omega.sqrt() * near.sd_error);
            assert!(if by_factor { factor > 1.1 * mean } else { mean > 1.1 * factor }, "{name}: {near:?}");
            let below = at(0.98 * needed(&near));
            assert!(!below.holds && below.reason.contains("radius"), "{name}: {below:?}");
            assert!(at(1.02 * needed(&near)).bound.is_finite(), "{name}");
        }
    }
}

/// Larger claims, with the time they take.
#[test]
#[ignore = "a minute"]
fn larger_claims_are_confirmed() {
    let mut dice = Dice::new(9004);
    for (n, d) in [(569, 31), (1000, 100), (1000, 200), (1000, 400)] {
        let model = simulated("logistic", n, d - 1, 0.3 / (d as f64).sqrt(), 1.0, &mut dice);
        let optimum = model.solve_exactly().unwrap().gaussian;
        let claim = claimed(&model, &perturbed(&optimum, 1e-3, &mut dice, None)).unwrap();
        let clock = std::time::Instant::now();
        confirm(&claim, &format!("{d} coefficients"));
        println!("{n} rows, {d} coefficients: {:?}", clock.elapsed());
    }
}

/// Too many coefficients are declined, not attempted.
#[test]
fn the_limit_is_stated() {
    let d = certus_verify::MOST_COEFFICIENTS + 1;
    let mut claim = example("logistic");
    claim.mean = vec![0.0; d];
    claim.prior_mean = vec![0.0; d];
    claim.prior_precision = certus_likelihood::prior::Precision::Diagonal(vec![1.0; d]);
    claim.factor = vec![0.0; d * d];
    claim.factor.iter_mut().step_by(d + 1).for_each(|x| *x = 1.0);
    claim.design = vec![0.0; 100 * d];
    assert!(matches!(verify(&claim), Err(certus_verify::Error::Declined(_))));
}

fn bits(claim: &Claim) -> Vec<u64> {
    let parts = [&claim.prior_mean, &claim.design, &claim.y, &claim.offset, &claim.weight, &claim.mean];
    parts
        .iter()
        .flat_map(|p| p.iter())
        .chain(&claim.factor)
        .chain([&claim.bound])
        .map(|x| x.to_bits())
        .collect()
}

/// Written and read back, a claim is the same to the bit; hexadecimal numbers, comments and blank lines are read;
/// errors name the line.
#[test]
fn claims_survive_writing() {
    let mut claim = example("negative-binomial");
    claim.design[0] = -0.0;
    claim.design[1] = 5e-324;
    claim.offset[0] = 1.234_567_890_123_456_7e300;
    for change in 0..3 {
        match change {
            1 => {
                claim.prior_precision =
                    certus_likelihood::prior::Precision::Dense((0..16).map(f64::from).collect())
            }
            2 => {
                claim.family =
                    ClaimFamily::Pattern { sizes: vec![1, 2, 1], parents: vec![None, Some(0), None] };
                (claim.mean_error, claim.theta, claim.theorem) = (None, None, Theorem::APrime);
            }
            _ => {}
        }
        let mut text = String::new();
        claim.write(&mut text).unwrap();
        let again = Claim::read(&text).unwrap();
        assert_eq!(again, claim);
        assert_eq!(bits(&again), bits(&claim));
        let spaced = text.replace('\n', "\r\n\n# a remark\n  ");
        assert_eq!(Claim::read(&spaced).unwrap(), claim);
    }
    let mut text = String::new();
    example("logistic").write(&mut text).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let replaced = |k: usize, line: &str| {
        let mut lines = lines.clone();
        lines[k] = line;
        Claim::read(&lines.join("\n"))
    };
    for (k, line) in [
        (0, "certus-claim 2"),
        (1, "likelihood"),
        (2, "dimension -1"),
        (2, "dimension 5"),
        (3, "rows 99"),
        (3, "rows 101"),
        (4, "prior-mean 0 0 0 nan"),
        (5, "prior-diagonal 1 1 1 0x1"),
        (8, "row 1 2 3"),
        (106, "mean 0 0 0 0 0"),
        (111, "family some"),
        (112, "theorem E"),
        (113, "level certain"),
        (114, "bound"),
        (lines.len() - 1, "END"),
    ] {
        let message = replaced(k, line).unwrap_err().to_string();
        // a wrong count is found where the numbers stop to fit
        let at = match line {
            "dimension 5" => 5,
            "rows 99" => 106,
            "rows 101" => 107,
            _ => k + 1,
        };
        assert!(message.starts_with(&format!("line {at}:")), "{line}: {message}");
    }
    assert!(replaced(4, "prior-mean 0x1.8p1 -0x0p0 1e-3 +2").is_ok());
    for end in 0..lines.len() {
        assert!(Claim::read(&lines[..end].join("\n")).is_err(), "{end} lines");
    }
    assert!(Claim::read(&format!("{text}end\n")).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Neither reader nor checker panics, whatever the text.
    #[test]
    fn reading_never_panics(text in "\\PC*") {
        prop_assert!(Claim::read(&text).is_err());
    }

    /// Lines of a legal claim with pieces exchanged, repeated and dropped.
    #[test]
    fn damaged_claims_never_panic(edits in prop::collection::vec((0..40_usize, 0..12_usize, 0..9_usize), 1..6)) {
        const TEXT: &str = "certus-claim 1\nlikelihood logistic\ndimension 2\nrows 3\nprior-mean 0 0\n\
            prior-diagonal 1 1\nrow 1 0.5 1 1 0 1\nrow 1 -0.5 0 1 0 1\nrow 1 0.1 1 1 0.5 2\nmean 0.4 0.3\n\
            factor-row 0.8 0\nfactor-row 0.1 0.9\nfamily pattern\nblocks 1 1\nparents - 0\ntheorem D1\n\
            level proved\nbound 10\nmean-error 5\nend\n";
        const WORDS: [&str; 9] =
            ["-", "0", "-1", "1e308", "0x1p-1074", "nan", "18446744073709551615", "row", "D"];
        let mut lines: Vec<Vec<&str>> = TEXT.lines().map(|l| l.split(' ').collect()).collect();
        for (line, place, word) in edits {
            let count = lines.len();
            let line = line % count;
            let count = lines[line].len();
            match place {
                0 => { lines.remove(line); if lines.is_empty() { break } }
                1 => { let copy = lines[line].clone(); lines.insert(line, copy); }
                2 => { lines[line].pop(); }
                _ => if count > 0 { lines[line][place % count] = WORDS[word] },
            }
        }
        let text: Vec<String> = lines.iter().map(|l| l.join(" ")).collect();
        if let Ok(claim) = Claim::read(&text.join("\n")) {
            let _ = verify(&claim);
        }
        prop_assert!(verify(&Claim::read(TEXT).unwrap()).unwrap().holds);
    }
}
