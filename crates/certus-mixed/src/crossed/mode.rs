//! A group at the minimum û of its exponent ψ(u) = Σ w_iφ_i(t_i + s_i·u) + |u|²/2: what the Laplace approximation takes
//! of it (docs/mixed.md, X0).
//!
//! With d_i = w_iφ_i″, W = I + Σ d_i s_i s_iᵀ and C = Σ d_i s_i z_iᵀ, the Hessian of min ψ in t is D − DSW⁻¹SᵀD and
//! K = Σ d_i z_i z_iᵀ − CᵀW⁻¹C. Under the Gaussian of all effects, whose kept ones have the covariance matrix P,
//! η_i = s_i·u + z_i·b has the variance h_i = s_iᵀW⁻¹s_i + a_iᵀPa_i with a_i = z_i − Bᵀs_i, B = W⁻¹C, and
//! Cov(η_i, u) = W⁻¹s_i − BPa_i. So log det changes by h_iφ_i‴ along η_i.

use super::group::{Along, Curvature, DIFFERENCES, GroupView, STEP, Slopes};
use crate::linear::small;

/// Newton steps to the mode, at most.
const STEPS: usize = 200;

/// The mode of a group.
pub(super) struct Mode {
    pub(super) u: Vec<f64>,
    /// ψ(û).
    pub(super) value: f64,
    /// w_iφ_i′.
    pub(super) first: Vec<f64>,
    /// d_i.
    pub(super) second: Vec<f64>,
    /// The lower Cholesky factor of W.
    pub(super) factor: Vec<f64>,
}

impl Mode {
    /// Newton's method with halved steps; ψ is convex.
    pub(super) fn new(view: &GroupView<'_>) -> Self {
        let (n, k) = (view.len(), view.k);
        let mut at = Self {
            u: vec![0.0; k],
            value: f64::INFINITY,
            first: vec![0.0; n],
            second: vec![0.0; n],
            factor: vec![0.0; k * k],
        };
        at.evaluate(view);
        let mut last = f64::INFINITY;
        for _ in 0..STEPS {
            let mut g = at.gradient(view);
            at.factorise(view);
            let gradient = g.clone();
            small::forward(&at.factor, k, &mut g);
            small::backward(&at.factor, k, &mut g);
            let decrement = small::inner(&gradient, &g);
            // at rounding it stops falling
            if decrement.is_nan() || decrement <= 1e-24 || (decrement < 1e-14 && decrement >= 0.25 * last) {
                break;
            }
            last = decrement;
            let (from, before) = (at.u.clone(), at.value);
            let mut part = 1.0;
            for _ in 0..60 {
                at.u = from.iter().zip(&g).map(|(u, g)| u - part * g).collect();
                at.evaluate(view);
                if at.value <= before - 1e-4 * part * decrement || (decrement < 1e-10 && part == 1.0) {
                    break;
                }
                part *= 0.5;
            }
        }
        at.factorise(view);
        at
    }

    fn evaluate(&mut self, view: &GroupView<'_>) {
        let k = view.k;
        let eta: Vec<f64> =
            view.t.iter().zip(view.s.chunks_exact(k)).map(|(t, s)| t + small::inner(s, &self.u)).collect();
        let likelihood = &view.model.likelihood;
        self.value = likelihood.derivatives(&eta, view.data, view.weight, &mut self.first, &mut self.second)
            + 0.5 * small::inner(&self.u, &self.u);
    }

    fn gradient(&self, view: &GroupView<'_>) -> Vec<f64> {
        let mut g = self.u.clone();
        add_rows(&view.s, view.k, |i| self.first[i], &mut g);
        g
    }

    fn factorise(&mut self, view: &GroupView<'_>) {
        let k = view.k;
        self.factor = small::identity(k);
        for (s, d) in view.s.chunks_exact(k).zip(&self.second) {
            for j in 0..k {
                (0..k).for_each(|i| self.factor[j * k + i] += d * s[i] * s[j]);
            }
        }
        // W ⪰ I, so this fails only where a number is not finite, which the value shows
        if !small::cholesky(&mut self.factor, k) {
            self.value = f64::NAN;
            self.factor = small::identity(k);
        }
    }

    /// x ← W⁻¹x.
    pub(super) fn solve(&self, x: &mut [f64]) {
        let k = self.u.len();
        small::forward(&self.factor, k, x);
        small::backward(&self.factor, k, x);
    }

    /// B = W⁻¹C, k × c by columns.
    pub(super) fn regression(&self, view: &GroupView<'_>) -> Vec<f64> {
        let k = view.k;
        let mut b = vec![0.0; k * view.c];
        for i in 0..view.len() {
            let s = &view.s[i * k..][..k];
            view.kept(i, |c, z| (0..k).for_each(|j| b[c * k + j] += self.second[i] * z * s[j]));
        }
        b.chunks_exact_mut(k).for_each(|column| self.solve(column));
        b
    }
}

/// out += Σ_i a_i x_i over rows of k numbers.
fn add_rows(x: &[f64], k: usize, a: impl Fn(usize) -> f64, out: &mut [f64]) {
    for (i, x) in x.chunks_exact(k).enumerate() {
        let a = a(i);
        (0..k).for_each(|j| out[j] += a * x[j]);
    }
}

pub(super) fn curvature(view: &GroupView<'_>) -> Curvature {
    let (at, k, c) = (Mode::new(view), view.k, view.c);
    let mut matrix = vec![0.0; c * c];
    view.add_squares(|i| at.second[i], &mut matrix);
    // CᵀW⁻¹C = (WB)ᵀB through the Cholesky factor: its rows are LᵀB
    let b = at.regression(view);
    let half: Vec<f64> = b
        .chunks_exact(k)
        .flat_map(|x| {
            let of = |i: usize| (i..k).map(|j| at.factor[i * k + j] * x[j]).sum::<f64>();
            (0..k).map(of).collect::<Vec<f64>>()
        })
        .collect();
    for i in 0..c {
        for j in 0..c {
            matrix[i * c + j] -= small::inner(&half[i * k..][..k], &half[j * k..][..k]);
        }
    }
    let half_log_det = (0..k).map(|j| at.factor[j * (k + 1)].ln()).sum();
    Curvature { value: at.value, half_log_det, first: at.first, matrix }
}

pub(super) fn slopes(view: &GroupView<'_>, p: &[f64]) -> Slopes {
    let (at, n, k, c) = (Mode::new(view), view.len(), view.k, view.c);
    let b = at.regression(view);
    // BP, k × c, and BPBᵀ
    let mut bp = vec![0.0; k * c];
    for j in 0..c {
        for l in 0..c {
            (0..k).for_each(|e| bp[j * k + e] += b[l * k + e] * p[j * c + l]);
        }
    }
    let mut bpb = vec![0.0; k * k];
    for l in 0..c {
        for j in 0..k {
            (0..k).for_each(|i| bpb[j * k + i] += bp[l * k + i] * b[l * k + j]);
        }
    }
    let third = third(view, &at);
    let mut out = Slopes { rows: vec![0.0; n], value: vec![0.0; k * k], spread: vec![0.0; k * k] };
    // r_i = ½h_iφ_i‴ and Σ r_i s_i, Σ r_i z_i
    let (mut to_s, mut to_z) = (vec![0.0; k], vec![0.0; k]);
    for i in 0..n {
        let (s, z) = (&view.s[i * k..][..k], &view.z[i * k..][..k]);
        let mut bpz = vec![0.0; k];
        view.kept(i, |c, z| (0..k).for_each(|e| bpz[e] += bp[c * k + e] * z));
        let mut covariance = s.to_vec();
        at.solve(&mut covariance);
        let own = small::inner(s, &covariance);
        let bpbs: Vec<f64> = (0..k).map(|e| (0..k).map(|j| bpb[j * k + e] * s[j]).sum()).collect();
        let h = own + view.square(i, p) - 2.0 * small::inner(s, &bpz) + small::inner(s, &bpbs);
        let r = 0.5 * h * third[i];
        out.rows[i] = r;
        for e in 0..k {
            covariance[e] -= bpz[e] - bpbs[e];
            to_s[e] += r * s[e];
            to_z[e] += r * z[e];
        }
        for e in 0..k {
            for a in 0..k {
                out.spread[e * k + a] += at.second[i] * z[a] * covariance[e];
                out.value[e * k + a] += at.first[i] * z[a] * at.u[e];
            }
        }
    }
    // û moves by −W⁻¹s_id_i along t_i, and along T_ab by −W⁻¹(e_b Σ z_aφ′ + u_b Σ s d z_a)
    let mut pull = to_s;
    at.solve(&mut pull);
    let (mut by_first, mut by_second) = (vec![0.0; k], vec![0.0; k]);
    for i in 0..n {
        let (s, z) = (&view.s[i * k..][..k], &view.z[i * k..][..k]);
        let along = small::inner(s, &pull);
        out.rows[i] -= at.second[i] * along;
        for a in 0..k {
            by_first[a] += at.first[i] * z[a];
            by_second[a] += at.second[i] * z[a] * along;
        }
    }
    for e in 0..k {
        for a in 0..k {
            out.spread[e * k + a] += (to_z[a] - by_second[a]) * at.u[e] - by_first[a] * pull[e];
        }
    }
    out
}

/// w_iφ_i‴ at the mode, by differences of φ″.
fn third(view: &GroupView<'_>, at: &Mode) -> Vec<f64> {
    let (n, k) = (view.len(), view.k);
    let [mut first, mut second, mut out] = [vec![0.0; n], vec![0.0; n], vec![0.0; n]];
    let eta: Vec<f64> =
        view.t.iter().zip(view.s.chunks_exact(k)).map(|(t, s)| t + small::inner(s, &at.u)).collect();
    for (step, weight) in DIFFERENCES {
        let moved: Vec<f64> = eta.iter().map(|t| t + step * STEP).collect();
        view.model.likelihood.derivatives(&moved, view.data, view.weight, &mut first, &mut second);
        (0..n).for_each(|i| out[i] += weight / STEP * second[i]);
    }
    out
}

pub(super) fn along(view: &GroupView<'_>, delta: &[f64]) -> Along {
    let (at, k) = (Mode::new(view), view.k);
    let mut du = vec![0.0; k];
    add_rows(&view.s, k, |i| -at.second[i] * delta[i], &mut du);
    at.solve(&mut du);
    let moved = |i: usize| at.second[i] * (delta[i] + small::inner(&view.s[i * k..][..k], &du));
    let rows: Vec<f64> = (0..view.len()).map(moved).collect();
    let mut own = vec![0.0; k * k];
    for (i, z) in view.z.chunks_exact(k).enumerate() {
        for e in 0..k {
            (0..k).for_each(|a| own[e * k + a] += z[a] * (rows[i] * at.u[e] + at.first[i] * du[e]));
        }
    }
    Along { rows, own }
}
