//! The nodes that a group is integrated out by: the proved trapezoid rule of one effect, a lattice for two or three.

use std::collections::BTreeSet;
use std::f64::consts::TAU;

use certus_likelihood::special::exp;

use super::group::GroupView;
use super::mode::Mode;
use crate::collapsed::group::GroupRows;
use crate::collapsed::nodes::Nodes;
use crate::linear::small;

/// The relative error aimed at for one effect.
const EPSILON: f64 = 1e-9;
/// Largest spacing of the lattice, in standard deviations at the mode, and the cut in nats, for two and three effects.
const LATTICE: [(f64, f64); 2] = [(0.7, 23.0), (0.9, 18.0)];
/// The spacing along an axis times the largest slope of a predictor along it: what its poles ask for (K1).
const SLOPE: f64 = 0.5;
/// The smallest spacing, and the largest number of nodes of a group.
const SMALLEST: f64 = 0.12;
const LARGEST: usize = 20_000;

/// Nodes u_m with their posterior weights p_m; slopes and curvatures w_iφ_i′, w_iφ_i″ there, row after row.
pub(super) struct Points {
    /// log ∫ e^{−ψ}/(2π)^{k/2}.
    pub(super) log: f64,
    pub(super) count: usize,
    /// k numbers per node.
    pub(super) u: Vec<f64>,
    pub(super) p: Vec<f64>,
    pub(super) slope: Vec<f64>,
    pub(super) curvature: Vec<f64>,
}

impl Points {
    pub(super) fn new(view: &GroupView<'_>) -> Self {
        if view.k == 1 { Self::line(view) } else { Self::lattice(view) }
    }

    fn line(view: &GroupView<'_>) -> Self {
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
        let mut nodes = Nodes::default();
        let log = rows.integrate(&mut nodes, EPSILON).log;
        let Nodes { u, p, slope, curvature } = nodes;
        Self { log, count: u.len(), u, p, slope, curvature }
    }

    /// The trapezoid rule on the lattice û + Rhn, n ∈ ℤᵏ, RRᵀ = W⁻¹: its points grow from û layer by layer while
    /// ψ − ψ(û) is below a cut (ψ is convex, so that they are connected and what is left out is beyond all of them).
    fn lattice(view: &GroupView<'_>) -> Self {
        let (at, k, n) = (Mode::new(view), view.k, view.len());
        let (widest, cut) = LATTICE[(k - 2).min(1)];
        let steps = steps(view, &at, widest);
        let mut out = Self {
            log: 0.0,
            count: 0,
            u: Vec::new(),
            p: Vec::new(),
            slope: Vec::new(),
            curvature: Vec::new(),
        };
        // slopes and curvatures are gathered node after node, and turned at the end
        let (mut seen, mut layer) = (BTreeSet::from([vec![0i32; k]]), vec![vec![0i32; k]]);
        while !layer.is_empty() && out.count < LARGEST {
            let mut u = Vec::with_capacity(layer.len() * k);
            for n in &layer {
                let mut x: Vec<f64> = n.iter().zip(&steps).map(|(&n, h)| h * f64::from(n)).collect();
                small::backward(&at.factor, k, &mut x);
                u.extend(x.iter().zip(&at.u).map(|(x, u)| u + x));
            }
            let (psi, slope, curvature) = evaluate(view, &u);
            let mut next = Vec::new();
            for (m, index) in layer.iter().enumerate() {
                if psi[m].is_nan() || psi[m] - at.value > cut {
                    continue;
                }
                out.count += 1;
                out.u.extend_from_slice(&u[m * k..][..k]);
                out.p.push(exp(at.value - psi[m]));
                out.slope.extend((0..n).map(|i| slope[i * layer.len() + m]));
                out.curvature.extend((0..n).map(|i| curvature[i * layer.len() + m]));
                for j in 0..k {
                    for by in [-1, 1] {
                        let mut neighbour = index.clone();
                        neighbour[j] += by;
                        if seen.insert(neighbour.clone()) {
                            next.push(neighbour);
                        }
                    }
                }
            }
            layer = next;
        }
        let turned = |a: &[f64]| (0..n * out.count).map(|e| a[e % out.count * n + e / out.count]).collect();
        (out.slope, out.curvature) = (turned(&out.slope), turned(&out.curvature));
        let sum: f64 = out.p.iter().sum();
        out.p.iter_mut().for_each(|p| *p /= sum);
        let scale: f64 = (0..k).map(|j| (steps[j] / at.factor[j * (k + 1)]).ln()).sum();
        out.log = sum.ln() - at.value + scale - 0.5 * k as f64 * TAU.ln();
        out
    }

    /// Σ p_m a_m.
    pub(super) fn mean(&self, a: &[f64]) -> f64 {
        small::inner(&self.p, a)
    }

    /// w_iφ_i′ at the nodes.
    pub(super) fn slopes(&self, i: usize) -> &[f64] {
        &self.slope[i * self.count..][..self.count]
    }

    /// w_iφ_i″ at the nodes.
    pub(super) fn curvatures(&self, i: usize) -> &[f64] {
        &self.curvature[i * self.count..][..self.count]
    }
}

/// Spacings of the lattice along the columns of R.
fn steps(view: &GroupView<'_>, at: &Mode, widest: f64) -> Vec<f64> {
    let k = view.k;
    let of = |j: usize| {
        let mut axis = vec![0.0; k];
        axis[j] = 1.0;
        small::backward(&at.factor, k, &mut axis);
        let slope = view.s.chunks_exact(k).map(|s| small::inner(s, &axis).abs()).fold(0.0, f64::max);
        (SLOPE / slope).min(widest).max(SMALLEST)
    };
    (0..k).map(of).collect()
}

/// ψ at the nodes, and slopes and curvatures there, row after row.
fn evaluate(view: &GroupView<'_>, u: &[f64]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let (k, n, count) = (view.k, view.len(), u.len() / view.k);
    let mut psi: Vec<f64> = u.chunks_exact(k).map(|u| 0.5 * small::inner(u, u)).collect();
    let [mut slope, mut curvature] = [vec![0.0; n * count], vec![0.0; n * count]];
    let mut nodes = vec![0.0; count];
    for i in 0..n {
        project(u, &view.s[i * k..][..k], &mut nodes);
        let (slope, curvature) = (&mut slope[i * count..][..count], &mut curvature[i * count..][..count]);
        let likelihood = &view.model.likelihood;
        likelihood.along(view.t[i], 1.0, view.data[i], view.weight[i], &nodes, &mut psi, slope, curvature);
    }
    (psi, slope, curvature)
}

/// out_m = s·u_m.
pub(super) fn project(u: &[f64], s: &[f64], out: &mut [f64]) {
    for (out, u) in out.iter_mut().zip(u.chunks_exact(s.len())) {
        *out = small::inner(u, s);
    }
}
