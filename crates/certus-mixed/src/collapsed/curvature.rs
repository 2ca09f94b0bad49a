//! How much F curves near β at least (Lemma K4): what the certificate of the sd needs when the prior is flat.
//!
//! ∇²F ≥ Σ_g e^{−c_g}P_g X_gᵀ(D_g⁻¹ + ssᵀ)⁻¹X_g + J in the ball |Lᵀ(β − β̂)| ≤ r. There a row's predictor moves by at
//! most ρ_i = r|L⁻¹x_i|. By Brascamp and Lieb ∇²F_g ≥ E S(u), S(u) = X_gᵀ(D⁻¹ + σ²zzᵀ)⁻¹X_g with D = diag(w_i φ_i″),
//! and S grows with D. On an interval of u around û, D is at least its least value there; the posterior's density at
//! the moved β is at least e^{−c} times that at β̂, c = Σ w_i ρ_i(max|φ_i′| + |E φ_i′|), because F_g is convex; and the
//! interval has at least the probability P that the slopes of ψ at its ends leave.

use certus::linalg;

use super::group::{GroupRows, Integral};
use super::nodes::Nodes;
use super::{Collapsed, ObjectiveValue};
use certus_models::Error;
use certus_models::error::NotFinite;

/// Radius r of the ball, in the metric LLᵀ, times √groups: the errors of the gradient grow so in this metric, and rows
/// matter less and less to it.
pub(crate) const RADIUS: f64 = 1e-4;

/// The sum over groups.
pub(super) struct Curvature<'a> {
    metric: &'a [f64],
    radius: f64,
    sum: Vec<f64>,
    x: Vec<f64>,
    v: Vec<f64>,
    curvatures: Vec<f64>,
}

impl<'a> Curvature<'a> {
    pub(super) fn new(d: usize, metric: &'a [f64], radius: f64) -> Self {
        Self {
            metric,
            radius,
            sum: vec![0.0; d * d],
            x: vec![0.0; d],
            v: vec![0.0; d],
            curvatures: Vec::new(),
        }
    }

    pub(super) fn sum(self) -> Vec<f64> {
        self.sum
    }

    /// Adds the group with the rows `a`; `mean` are E w_i φ_i′.
    pub(super) fn add(
        &mut self,
        a: &[f64],
        rows: &GroupRows,
        integral: &Integral,
        nodes: &Nodes,
        mean: &[f64],
    ) {
        let d = self.x.len();
        let here = rows.potential(integral.mode);
        let half = 3.0 / here[2].sqrt();
        let scaled = integral.log + here[0] + 0.5 * (2.0 * std::f64::consts::PI).ln();
        let total = scaled.exp() * (1.0 - integral.error);
        let beyond = |sign: f64| {
            let there = rows.potential(integral.mode + sign * half);
            let outward = sign * there[1];
            if outward > 0.0 { (here[0] - there[0]).exp() / outward } else { f64::INFINITY }
        };
        let probability = (1.0 - (beyond(-1.0) + beyond(1.0)) / total).max(0.0);
        let mut c = 0.0;
        self.curvatures.clear();
        for (i, row) in a.chunks_exact(d).enumerate() {
            self.x.copy_from_slice(row);
            linalg::solve_lower(self.metric, d, false, &mut self.x);
            let rho = self.radius * linalg::norm_squared(&self.x).sqrt() * (1.0 + 1e-9);
            let (w, datum, s) = (rows.weight[i], rows.data[i], rows.s[i]);
            let (middle, reach) = (rows.t[i] + s * integral.mode, s.abs() * half + rho);
            let slope = |t: f64| rows.likelihood.first_derivative(t, datum).abs();
            let most = slope(middle - reach).max(slope(middle + reach));
            c += rho * (w * most + mean[i].abs() + rows.slope_error(i, integral, nodes, mean[i]));
            self.curvatures.push(w * rows.likelihood.second_derivative_within(middle, reach, datum));
        }
        let least = probability * (-c).exp();
        if least.is_nan() || least <= 0.0 {
            return;
        }
        // D − Ds sᵀD/(1 + sᵀDs)
        let mut q = 1.0;
        self.v.fill(0.0);
        for (i, x) in a.chunks_exact(d).enumerate() {
            let (curvature, s) = (self.curvatures[i], rows.s[i]);
            q += curvature * s * s;
            for j in 0..d {
                self.v[j] += curvature * s * x[j];
                let scaled = least * curvature * x[j];
                self.sum[j * d..][..d].iter_mut().zip(x).for_each(|(h, x)| *h += scaled * x);
            }
        }
        for j in 0..d {
            let scaled = least * self.v[j] / q;
            self.sum[j * d..][..d].iter_mut().zip(&self.v).for_each(|(h, v)| *h -= scaled * v);
        }
    }
}

impl Collapsed {
    /// r.
    pub(super) fn radius(&self) -> f64 {
        RADIUS * (self.groups() as f64).sqrt()
    }

    /// λ with ∇²F ≥ λ LLᵀ in the ball around the point that was evaluated with this metric.
    pub(super) fn least_curvature(&self, at: &ObjectiveValue, metric: &[f64]) -> Result<f64, Error> {
        let d = self.dim;
        let mut sum = at.least_hessian.clone();
        self.prior.add_to(&mut sum);
        least_relative(&sum, metric, d)
    }
}

/// λ with sum ≥ λ LLᵀ.
pub(crate) fn least_relative(sum: &[f64], metric: &[f64], d: usize) -> Result<f64, Error> {
    // L⁻¹ sum L⁻ᵀ
    let mut half = Vec::with_capacity(d * d);
    for j in 0..d {
        let mut column = sum[j * d..][..d].to_vec();
        linalg::solve_lower(metric, d, false, &mut column);
        half.extend(column);
    }
    let mut turned = vec![0.0; d * d];
    for i in 0..d {
        let mut row: Vec<f64> = (0..d).map(|j| half[j * d + i]).collect();
        linalg::solve_lower(metric, d, false, &mut row);
        turned[i * d..][..d].copy_from_slice(&row);
    }
    let eigen = linalg::eigen(&turned, d).ok_or(NotFinite::Quantity { what: "a curvature" })?;
    // rounding of d² sums
    let least = eigen.0.iter().copied().fold(f64::INFINITY, f64::min);
    Ok((least - 1e-9 * d as f64).max(0.0))
}
