//! A group integrated out by quadrature: f = −log ∫ e^{−ψ(u)} du/(2π)^{k/2}, its derivatives as expectations over the
//! posterior of u (docs/mixed.md, X1).
//!
//! With f_i = w_iφ_i′, d_i = w_iφ_i″ at t_i + s_i·u and σ = Σ z_if_i over kept effects,
//! f′ = E f_i, 𝒲 = diag(E d_i) − Cov(f_i, f_j), K = Σ z_iz_iᵀ E d_i − Cov(σ). For any h, ∂E h = E ∂h − Cov(h, ∂ψ), so
//! with M_i = z_iᵀPz_i and h = Σ M_id_i − (σ − Eσ)ᵀP(σ − Eσ),
//!
//! ```text
//! ∂ tr(PK)/∂t_i  = M_i E φ_i‴ − 2E[z_iᵀP(σ − Eσ) d_i] − Cov(h, f_i),
//! ∂ tr(PK)/∂T_ab = E[Σ M_jφ_j‴ z_ja u_b] − 2E[(σ − Eσ)ᵀP Σ z_jd_jz_ja u_b] − Cov(h, r), r = Σ f_jz_ja u_b = ∂ψ/∂T_ab.
//! ```

use super::group::{Along, Curvature, DIFFERENCES, GroupView, STEP, Slopes};
use super::points::{Points, project};
use crate::linear::small;

pub(super) fn curvature(view: &GroupView<'_>) -> Curvature {
    let (points, c) = (Points::new(view), view.c);
    let first = (0..view.len()).map(|i| points.mean(points.slopes(i))).collect();
    let mut matrix = vec![0.0; c * c];
    view.add_squares(|i| points.mean(points.curvatures(i)), &mut matrix);
    let sigma = centred_sums(view, &points);
    for (sigma, p) in sigma.chunks_exact(c.max(1)).zip(&points.p) {
        for i in 0..c {
            let a = p * sigma[i];
            (0..=i).for_each(|j| matrix[i * c + j] -= a * sigma[j]);
        }
    }
    for i in 0..c {
        for j in 0..i {
            matrix[j * c + i] = matrix[i * c + j];
        }
    }
    Curvature { value: -points.log, half_log_det: 0.0, first, matrix }
}

/// The value alone.
pub(super) fn value(view: &GroupView<'_>) -> f64 {
    -Points::new(view).log
}

/// σ − Eσ at every node, c numbers each.
fn centred_sums(view: &GroupView<'_>, points: &Points) -> Vec<f64> {
    let c = view.c;
    let mut sigma = vec![0.0; points.count * c];
    for i in 0..view.len() {
        let slopes = points.slopes(i);
        view.kept(i, |column, z| {
            slopes.iter().enumerate().for_each(|(m, f)| sigma[m * c + column] += z * f);
        });
    }
    let mut mean = vec![0.0; c];
    for (sigma, p) in sigma.chunks_exact(c.max(1)).zip(&points.p) {
        (0..c).for_each(|j| mean[j] += p * sigma[j]);
    }
    sigma.chunks_exact_mut(c.max(1)).for_each(|s| (0..c).for_each(|j| s[j] -= mean[j]));
    sigma
}

pub(super) fn slopes(view: &GroupView<'_>, p: &[f64]) -> Slopes {
    let (points, n, k, c) = (Points::new(view), view.len(), view.k, view.c);
    let sigma = centred_sums(view, &points);
    // P(σ − Eσ) at every node, and h
    let mut weighted = vec![0.0; sigma.len()];
    let mut h = vec![0.0; points.count];
    for m in 0..points.count {
        let (sigma, out) = (&sigma[m * c..][..c], &mut weighted[m * c..][..c]);
        for j in 0..c {
            out[j] = small::inner(&p[j * c..][..c], sigma);
        }
        h[m] = -small::inner(out, sigma);
    }
    let squares: Vec<f64> = (0..n).map(|i| view.square(i, p)).collect();
    for (i, square) in squares.iter().enumerate() {
        points.curvatures(i).iter().enumerate().for_each(|(m, d)| h[m] += square * d);
    }
    let mean = points.mean(&h);
    h.iter_mut().for_each(|h| *h -= mean);
    let mut out = Slopes { rows: vec![0.0; n], value: vec![0.0; k * k], spread: vec![0.0; k * k] };
    let mut moments = Third::new(&points, k);
    let mut pulls = vec![0.0; points.count];
    for i in 0..n {
        let (slopes, curvatures, z) = (points.slopes(i), points.curvatures(i), &view.z[i * k..][..k]);
        let third = moments.of(view, &points, i);
        pulls.fill(0.0);
        view.kept(i, |column, z| {
            pulls.iter_mut().enumerate().for_each(|(m, x)| *x += z * weighted[m * c + column]);
        });
        let mut own = squares[i] * third[0];
        let mut by_effect: Vec<f64> = (0..k).map(|b| squares[i] * third[b + 1]).collect();
        let mut values = vec![0.0; k];
        for m in 0..points.count {
            let (weight, u) = (points.p[m], &points.u[m * k..][..k]);
            let x = weight * (2.0 * pulls[m] * curvatures[m] + h[m] * slopes[m]);
            own -= x;
            for b in 0..k {
                by_effect[b] -= x * u[b];
                values[b] += weight * slopes[m] * u[b];
            }
        }
        out.rows[i] = 0.5 * own;
        for b in 0..k {
            for a in 0..k {
                out.value[b * k + a] += z[a] * values[b];
                out.spread[b * k + a] += 0.5 * z[a] * by_effect[b];
            }
        }
    }
    out
}

/// E φ_i‴ and E φ_i‴u_b, by differences of trapezoid sums of φ″.
struct Third {
    nodes: Vec<f64>,
    weights: Vec<Vec<f64>>,
}

impl Third {
    fn new(points: &Points, k: usize) -> Self {
        let mut weights = vec![points.p.clone()];
        for b in 0..k {
            weights.push((0..points.count).map(|m| points.p[m] * points.u[m * k + b]).collect());
        }
        Self { nodes: vec![0.0; points.count], weights }
    }

    fn of(&mut self, view: &GroupView<'_>, points: &Points, i: usize) -> Vec<f64> {
        let (k, likelihood) = (view.k, &view.model.likelihood);
        project(&points.u, &view.s[i * k..][..k], &mut self.nodes);
        let mut out = vec![0.0; k + 1];
        for (step, weight) in DIFFERENCES {
            for (out, weights) in out.iter_mut().zip(&self.weights) {
                let t = view.t[i] + step * STEP;
                let sum = likelihood.trapezoid_derivatives(t, 1.0, view.data[i], &self.nodes, weights).q0;
                *out += view.weight[i] * weight / STEP * sum;
            }
        }
        out
    }
}

pub(super) fn along(view: &GroupView<'_>, delta: &[f64]) -> Along {
    let (points, n, k) = (Points::new(view), view.len(), view.k);
    // Σ f_jδ_j at the nodes, centred
    let mut along = vec![0.0; points.count];
    for i in 0..n {
        points.slopes(i).iter().enumerate().for_each(|(m, f)| along[m] += delta[i] * f);
    }
    let mean = points.mean(&along);
    along.iter_mut().for_each(|x| *x -= mean);
    let mut out = Along { rows: vec![0.0; n], own: vec![0.0; k * k] };
    for i in 0..n {
        let (slopes, curvatures, z) = (points.slopes(i), points.curvatures(i), &view.z[i * k..][..k]);
        let mut effects = vec![0.0; k];
        for m in 0..points.count {
            let x = points.p[m] * (curvatures[m] * delta[i] - slopes[m] * along[m]);
            out.rows[i] += x;
            (0..k).for_each(|b| effects[b] += x * points.u[m * k + b]);
        }
        for b in 0..k {
            (0..k).for_each(|a| out.own[b * k + a] += z[a] * effects[b]);
        }
    }
    out
}
