//! Nodes of a group with one effect that serve for every draw of the kept effects around one mode: equally spaced, so
//! that a draw takes values of ψ only (docs/mixed.md, X1).
//!
//! Where the strip's bound is the same for all predictors (K1), so is the step that an error asks for. The ends are
//! those at the mode with some room; whether they are far enough for a draw shows in ψ, which is convex: beyond the
//! last node the terms fall at least as fast as between the last two.

use std::f64::consts::PI;

use certus_likelihood::special::exp;

use super::group::GroupView;
use crate::collapsed::group::GroupRows;
use crate::collapsed::nodes::Spaced;

/// The relative error aimed at.
const EPSILON: f64 = 1e-9;
/// Part of the nodes that is added at both ends: draws move the mode of a group.
const ROOM: f64 = 0.3;
/// Nodes up to which they are worth being kept.
const MOST: usize = 512;

/// The nodes of one group.
pub(super) struct FixedNodes(Spaced);

impl FixedNodes {
    /// `None` where the step depends on the predictors, or the group has several effects.
    pub(super) fn new(view: &GroupView<'_>) -> Option<Self> {
        if view.k > 1 {
            return None;
        }
        let rows = GroupRows {
            likelihood: &*view.model.likelihood,
            t: view.t,
            reach: view.t,
            s: &view.s,
            shift: 0.0,
            columns: 0,
            data: view.data,
            weight: view.weight,
        };
        rows.spaced(EPSILON, ROOM).filter(|nodes| nodes.count <= MOST).map(Self)
    }

    /// f = −log ∫ e^{−ψ}du/√2π; `None` if the nodes end too early for it. `psi` is memory.
    pub(super) fn value(&self, view: &GroupView<'_>, psi: &mut Vec<f64>) -> Option<f64> {
        let Spaced { first, step, count } = self.0;
        psi.clear();
        psi.extend((0..count).map(|k| 0.5 * (first + k as f64 * step).powi(2)));
        view.model.likelihood.line_values(view.t, &view.s, view.data, view.weight, first, step, psi);
        let least = psi.iter().copied().fold(f64::INFINITY, f64::min);
        let total: f64 = psi.iter().map(|psi| exp(least - psi)).sum();
        let beyond = |end: f64, inner: f64| {
            let fall = end - inner;
            if fall > 0.0 { (least - end).exp() / fall.exp_m1() } else { f64::INFINITY }
        };
        let missed = beyond(psi[0], psi[1]) + beyond(psi[count - 1], psi[count - 2]);
        // false for NaN
        (missed <= EPSILON * total).then(|| least - (step * total).ln() + 0.5 * (2.0 * PI).ln())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use certus_likelihood::{Binomial, Datum, Likelihood, Logistic, Poisson};

    use super::super::integral;
    use super::super::model::{CrossedModel, Observation};
    use super::*;
    use crate::linear::{Design, Term};

    /// Seven groups of nine rows, crossed with three levels; predictors t and T = (sd).
    fn model(likelihood: Arc<dyn Likelihood>, trials: f64, weight: f64) -> CrossedModel {
        let terms = vec![Term { factor: 0, effects: 1 }, Term { factor: 1, effects: 1 }];
        let design = Design { levels: vec![7, 3], terms, fixed: 1 };
        let levels: Vec<[u32; 2]> = (0..63).map(|i| [i % 7, i / 7 % 3]).collect();
        let wave = |i: usize| (1.7 * i as f64).sin() + 0.5 * (i % 7) as f64 - 1.0;
        let effects: Vec<[f64; 2]> = (0..63).map(|i| [1.0 + 0.3 * wave(i), 1.0]).collect();
        let rows = (0..63).map(|i| Observation {
            levels: &levels[i],
            effects: &effects[i],
            fixed: &[1.0],
            datum: Datum { y: if wave(i) > 0.0 { trials } else { 0.0 }, trials },
            offset: 0.0,
            weight,
        });
        CrossedModel::new(&design, likelihood, rows).expect("a model")
    }

    /// The nodes at one place give the integrals elsewhere, or say that they do not.
    #[test]
    fn nodes_serve_for_other_predictors() {
        let cases: [(Arc<dyn Likelihood>, f64, f64); 3] =
            [(Arc::new(Logistic), 1.0, 1.0), (Arc::new(Logistic), 1.0, 2.5), (Arc::new(Binomial), 6.0, 1.0)];
        for (likelihood, trials, weight) in cases {
            let model = model(likelihood, trials, weight);
            let here = vec![0.2; 63];
            for (sd, g) in [(0.3, 0), (1.0, 3), (4.0, 6)] {
                let nodes =
                    FixedNodes::new(&GroupView::new(&model, g, &here, &[sd])).expect("a uniform bound");
                let (mut served, mut psi) = (0, Vec::new());
                for shift in [-30.0, -4.0, -1.0, -0.2, 0.0, 0.3, 1.0, 3.0, 30.0] {
                    let t: Vec<f64> = here.iter().map(|t| t + shift).collect();
                    let view = GroupView::new(&model, g, &t, &[sd]);
                    let Some(found) = nodes.value(&view, &mut psi) else { continue };
                    let truth = integral::value(&view);
                    assert!((found - truth).abs() < 1e-8, "{sd} {shift}: {found} {truth}");
                    served += 1;
                }
                assert!(served >= 5, "{sd}: {served}");
            }
        }
        // the step of counts depends on the predictors
        let counts = model(Arc::new(Poisson), 1.0, 1.0);
        assert!(FixedNodes::new(&GroupView::new(&counts, 0, &[0.2; 63], &[1.0])).is_none());
    }
}
