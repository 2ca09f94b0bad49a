//! A random walk by nested dissection: the pattern holds the best of all Gaussians, with logarithmically few entries
//! per row.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use certus::factor::{Factor, Pattern};
use certus::{Family, Gaussian, Settings, Tree};
use certus_likelihood::Logistic;
use certus_models::certificate::Certified;
use certus_models::{Design, Glm, Memory, Prior};

/// z_0 ~ N(0, 1), z_k − z_{k−1} ~ N(0, 0.5²), y_k ~ Bernoulli(σ(z_k)); coordinate i of the model is place `order[i]` of
/// the walk.
fn walk(order: &[usize]) -> Glm {
    let n = order.len();
    let mut precision = vec![0.0; n * n];
    let mut at = vec![0; n];
    order.iter().enumerate().for_each(|(i, k)| at[*k] = i);
    precision[at[0] * (n + 1)] += 1.0;
    for k in 1..n {
        let (a, b) = (at[k - 1], at[k]);
        precision[a * (n + 1)] += 4.0;
        precision[b * (n + 1)] += 4.0;
        precision[a * n + b] -= 4.0;
        precision[b * n + a] -= 4.0;
    }
    let mut rows = Memory { x: vec![0.0; n * n], columns: n, ..Memory::default() };
    for k in 0..n {
        rows.x[k * n + at[k]] = 1.0;
        rows.y.push(f64::from(u8::from((k as f64 * 0.37).sin() > -0.2)));
    }
    let prior = Prior::with_precision(vec![0.0; n], precision).unwrap();
    Glm::new(Design::new(Arc::new(rows), false), Arc::new(Logistic), prior).unwrap()
}

/// The entries of a dense lower factor that lie on the pattern, and the largest one that does not.
fn restricted(dense: &Factor, tree: &Arc<Tree>) -> (Factor, f64) {
    let (n, c) = (dense.dim(), dense.to_dense());
    let mut inside = vec![false; n * n];
    tree.for_each_entry(|i, j| inside[j * n + i] = true);
    let outside = (0..n * n).filter(|k| !inside[*k]).map(|k| c[k].abs()).fold(0.0, f64::max);
    let mut values = Vec::with_capacity(tree.stored());
    for node in tree.nodes() {
        let mut path = vec![node];
        while let Some(parent) = path[path.len() - 1].parent {
            path.push(&tree.nodes()[parent]);
        }
        for above in path.iter().rev() {
            for j in above.start..above.start + above.size {
                values.extend(
                    (node.start..node.start + node.size).map(|i| if i < j { 0.0 } else { c[j * n + i] }),
                );
            }
        }
    }
    (Factor::Pattern(Pattern::new(tree.clone(), values).unwrap()), outside)
}

#[test]
fn dissection_loses_nothing() {
    for n in [1, 2, 7, 63, 100] {
        let (tree, order) = Tree::chain(n, 1).unwrap();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..n).collect::<Vec<_>>());
        assert_eq!(tree.widest(), (n + 1).next_power_of_two().ilog2() as usize, "{n}");
        let tree = Arc::new(tree);
        let model = walk(&order);
        let best = model.solve_exactly().unwrap();
        let (factor, outside) = restricted(best.gaussian.factor(), &tree);
        // the solver ends at |g| ≤ 6e-10, and the curvature is above 0.3
        assert!(outside < 1e-8, "{n}: {outside}");
        let sparse = Gaussian::new(best.gaussian.mean().to_vec(), factor).unwrap();
        let f = model.neg_elbo(&sparse).unwrap();
        assert!((f - best.neg_elbo).abs() < 1e-10 * (1.0 + f.abs()), "{n}: {f} {}", best.neg_elbo);
        // within the family it is certified as the optimum, and the walk in its own order has the same one
        assert!(model.gap(&sparse).unwrap().statement.bound().unwrap() < 1e-12, "{n}");
        let plain = walk(&(0..n).collect::<Vec<_>>()).solve_exactly().unwrap();
        assert!((plain.neg_elbo - f).abs() < 1e-10 * (1.0 + f.abs()), "{n}");
        for (i, k) in order.iter().enumerate() {
            assert!((plain.gaussian.mean()[*k] - sparse.mean()[i]).abs() < 1e-8, "{n} {k}");
            assert!((plain.gaussian.sd()[*k] / sparse.sd()[i] - 1.0).abs() < 1e-8, "{n} {k}");
        }
    }
    // the order of the walk fills its factor: the last row has every entry
    let plain = walk(&(0..63).collect::<Vec<_>>()).solve_exactly().unwrap();
    let c = plain.gaussian.factor().to_dense();
    assert!((0..63).all(|j| c[j * 63 + 62].abs() > 1e-12));
}

/// A stochastic method on the pattern comes near the same optimum, which its certificate confirms.
#[test]
fn prox_energy_on_a_chain() {
    let (tree, order) = Tree::chain(31, 1).unwrap();
    let (tree, model) = (Arc::new(tree), walk(&order));
    let settings =
        Settings { family: Some(Family::Pattern(tree)), iterations: 20_000, ..Settings::default() };
    let fit = certus::fit(&model, &settings).unwrap();
    let best = model.solve_exactly().unwrap();
    let gap = model.neg_elbo(&fit.gaussian).unwrap() - best.neg_elbo;
    assert!(gap > 0.0 && gap < 0.3, "{gap}");
    let bounds = model.gap_bounds(&fit.gaussian).unwrap();
    assert!(!bounds.is_empty() && bounds.iter().all(|(_, bound)| *bound >= gap), "{gap} {bounds:?}");
}
