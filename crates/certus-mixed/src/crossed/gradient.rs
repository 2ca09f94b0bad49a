//! The exact gradient of the Laplace criterion C = F(v̂) + G, G = ½ log|H| (+ …), in β and θ (docs/mixed.md, X0).
//!
//! With a prior of β, C has its penalty too.
//!
//! dC = ∂F + ∂G − λᵀ∂(∇F), λ = H⁻¹∂G/∂v, because F is stationary at v̂ and v̂ moves by −H⁻¹∂(∇F). With δ = ZΛλ,
//! Q = ∂G/∂t and A = f′ + Q − 𝒲δ per row: ∂C/∂β = XᵀA; for a kept T, ∂C/∂T_ab = Σ_i z_ia(A_i v_b − f′_i λ_b) + Σ
//! over its levels of (H⁻¹ΛᵀK)_ba; for the T that groups integrate out, the groups' own derivatives.

use certus::parallel;

use super::conditional::{Conditional, times_effects};
use super::group::{Along, GroupView, Slopes};

impl Conditional<'_> {
    /// ∂C/∂(β, θ).
    pub(super) fn gradient(&self) -> Vec<f64> {
        let model = self.model;
        let layout = &model.layout;
        let (n, p) = (model.rows(), layout.fixed);
        let k = layout.factors[0].effects;
        let mut of_matrices: Vec<Vec<f64>> =
            layout.factors.iter().map(|f| vec![0.0; f.effects * f.effects]).collect();
        // P = ΛH⁻¹Λᵀ of every component, and the explicit part of the kept T
        let mut covariances: Vec<Vec<f64>> = Vec::new();
        for (component, part) in model.components.iter().zip(&self.parts) {
            let d = component.columns.len();
            let mut inverse = part.inverse();
            times_effects(model, component, &self.matrices, &mut inverse, true);
            // now ΛH⁻¹ by columns, that is H⁻¹Λᵀ by rows
            for (&(f, _), &start) in component.blocks.iter().zip(&component.starts) {
                let k = layout.factors[f].effects;
                for b in 0..k {
                    let row = &inverse[(start + b) * d..][..d];
                    for a in 0..k {
                        let column = &part.curvature[(start + a) * d..][..d];
                        of_matrices[f][b * k + a] += row.iter().zip(column).map(|(x, y)| x * y).sum::<f64>();
                    }
                }
            }
            turn(&mut inverse, d);
            times_effects(model, component, &self.matrices, &mut inverse, true);
            covariances.push(inverse);
        }
        let grain = (128 / (1 + n / model.groups.len())).max(1);
        let mut slopes = vec![Slopes::default(); model.groups.len()];
        parallel::for_each_piece(&mut slopes, 1, grain, &|g, out| {
            let view = GroupView::new(model, g, &self.t, &self.matrices[0]);
            let group = &model.groups[g];
            let (c, d) = (group.columns.len(), model.components[group.component].columns.len());
            let mut own = Vec::with_capacity(c * c);
            for &i in &group.columns {
                let row = &covariances[group.component][i as usize * d..][..d];
                own.extend(group.columns.iter().map(|&j| row[j as usize]));
            }
            out[0] = self.inner.slopes(&view, &own);
        });
        let mut spread = vec![0.0; n];
        for (group, of) in model.groups.iter().zip(&slopes) {
            spread[group.rows.clone()].copy_from_slice(&of.rows);
            for e in 0..k * k {
                of_matrices[0][e] += of.value[e] + of.spread[e];
            }
        }
        // λ, and δ = ZΛλ
        let mut lambda = model.scatter(&self.matrices, &spread);
        for (component, part) in model.components.iter().zip(&self.parts) {
            let mut own: Vec<f64> = component.columns.iter().map(|&c| lambda[c]).collect();
            part.solve(&mut own);
            component.columns.iter().zip(own).for_each(|(&c, x)| lambda[c] = x);
        }
        let moved = model.effects(&self.matrices, &lambda);
        let delta: Vec<f64> = (0..n).map(|i| model.kept_predictor(i, &moved)).collect();
        let mut along = vec![Along::default(); model.groups.len()];
        parallel::for_each_piece(&mut along, 1, grain, &|g, out| {
            let view = GroupView::new(model, g, &self.t, &self.matrices[0]);
            out[0] = self.inner.along(&view, &delta[model.groups[g].rows.clone()]);
        });
        let mut all: Vec<f64> = self.first.iter().zip(&spread).map(|(f, q)| f + q).collect();
        for (group, of) in model.groups.iter().zip(&along) {
            all[group.rows.clone()].iter_mut().zip(&of.rows).for_each(|(a, w)| *a -= w);
            (0..k * k).for_each(|e| of_matrices[0][e] -= of.own[e]);
        }
        let factors = layout.factors.len() - 1;
        for (f, factor) in layout.factors[1..].iter().enumerate() {
            let (k, out) = (factor.effects, &mut of_matrices[f + 1]);
            for i in 0..n {
                let first = model.place[i * factors + f] as usize;
                let z = &model.kept[i * layout.width + factor.first..][..k];
                for b in 0..k {
                    let by = all[i] * self.v[first + b] - self.first[i] * lambda[first + b];
                    (0..k).for_each(|a| out[b * k + a] += z[a] * by);
                }
            }
        }
        let mut out = vec![0.0; layout.parameters];
        out[..p].copy_from_slice(&model.penalty(&self.parameters[..p]).1);
        for (x, a) in model.x.chunks_exact(p.max(1)).zip(&all) {
            (0..p).for_each(|j| out[j] += a * x[j]);
        }
        layout.gather(&of_matrices, &mut out);
        out
    }
}

fn turn(a: &mut [f64], d: usize) {
    for j in 0..d {
        for i in 0..j {
            a.swap(j * d + i, i * d + j);
        }
    }
}
