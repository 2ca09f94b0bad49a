//! Where the nodes of one group's integral are, and a proved bound on what a sum over them errs by (docs/mixed.md,
//! G1).
//!
//! ψ(u) = Σ w_iφ_i(t_i + s_i·u) + |u|²/2. Nodes are û + Σ n_jh_jr_j, r_j the columns of R with RᵀKR = I, K about the
//! largest Hessian of ψ. If ∫|e^{−ψ(x + icr_j)}|dx ≤ N_j for |c| ≤ a_j, the sum errs by at most Σ_j
//! N_jS_k(e^{−2πa_j/h_j}).

use std::f64::consts::{PI, TAU};

use super::space::{
    IDENTITY, MOST_EFFECTS, Matrix, Potential, Vector, along, backward, cholesky, dot, form, forward, minimum,
};
use certus_likelihood::{Datum, Likelihood};

/// Rows worked on at a time.
const RUN: usize = 32;
/// Nodes on one side of an axis, at most.
const MOST: f64 = 2000.0;
/// Nodes of a group, at most.
pub(super) const MOST_NODES: f64 = 1e9;
/// What sums and a few operations on each term lose of the sizes of the terms (docs/collapsed.md, K11).
pub(super) const ROUNDING: f64 = 32.0 * f64::EPSILON;
/// The part of |u − û|²/2 that the ends leave to functions that grow: what is beyond them is bounded with
/// e^{SLACK|u − û|²/2} as a factor.
pub(super) const SLACK: f64 = 0.125;
/// The number of nodes of a line is a multiple of this.
pub(super) const LANES: usize = 8;

/// The rows of one group.
pub(super) struct GroupRows<'a> {
    pub(super) likelihood: &'a dyn Likelihood,
    /// The number of coordinates of u: the rank of the covariance matrix.
    pub(super) k: usize,
    /// x_iβ + offset.
    pub(super) t: &'a [f64],
    /// Σ_j |x_ij β_j| + |offset|.
    pub(super) reach: &'a [f64],
    /// Coefficients.
    pub(super) columns: usize,
    /// s_i = Tᵀz_i.
    pub(super) s: &'a [Vector],
    /// Σ_jl |T_lj z_il|: the sizes of the products that s_i is the sum of.
    pub(super) sizes: &'a [f64],
    pub(super) data: &'a [Datum],
    pub(super) weight: &'a [f64],
}

/// One axis of a lattice.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Axis {
    /// h_j.
    pub(super) step: f64,
    /// a_j, the height of the strip.
    pub(super) height: f64,
    /// log N_j, relative to the integral if the bound is uniform, else to (2π)^{k/2}e^{−ψ(û)}.
    pub(super) exponent: f64,
    /// x̃ and ∇G(x̃), where the bound is not uniform.
    pub(super) centre: Vector,
    pub(super) lean: Vector,
}

/// The nodes of a group.
#[derive(Clone, Debug)]
pub(super) struct Lattice {
    pub(super) k: usize,
    /// û, near the minimum of ψ.
    pub(super) centre: Vector,
    /// ψ(û).
    pub(super) least: f64,
    /// The axes r_j, and the steps h_j times them are between nodes.
    pub(super) r: Matrix,
    pub(super) axes: [Axis; MOST_EFFECTS],
    /// Steps to the last node on either side.
    pub(super) ends: [[i64; 2]; MOST_EFFECTS],
    /// Nodes at which ψ − SLACK|u − û|²/2 exceeds ψ(û) by more may be left out.
    pub(super) cut: f64,
    /// Σ e^{−ψ + SLACK|u − û|²/2} over the nodes beyond the ends and those left out, at most, as a part of e^{−ψ(û)}.
    pub(super) missed: f64,
    /// True if N_j is a multiple of the integral itself.
    pub(super) uniform: bool,
    /// False if nothing is proved of the steps.
    pub(super) proved: bool,
}

/// S_k(q) = Σ_{l≥1} 2(2l + 1)^{k−1}q^l for q = e^{−x}.
pub(super) fn series(k: usize, x: f64) -> f64 {
    let q = (-x).exp();
    if q >= 1.0 || q.is_nan() {
        return f64::INFINITY;
    }
    let (one, two) = (2.0 * q / (1.0 - q), 4.0 * q / (1.0 - q).powi(2));
    match k {
        0 => 0.0,
        1 => one,
        2 => one + two,
        _ => one + 2.0 * two + 8.0 * q * (1.0 + q) / (1.0 - q).powi(3),
    }
}

impl GroupRows<'_> {
    /// ψ at u.
    pub(super) fn potential(&self, u: Vector) -> Potential {
        let mut out = Potential::square(u);
        let [mut at, mut slope, mut curvature] = [[0.0; RUN]; 3];
        for from in (0..self.t.len()).step_by(RUN) {
            let n = RUN.min(self.t.len() - from);
            let (t, s) = (&self.t[from..][..n], &self.s[from..][..n]);
            (0..n).for_each(|i| at[i] = t[i] + dot(s[i], u));
            let (data, weight) = (&self.data[from..][..n], &self.weight[from..][..n]);
            out.value +=
                self.likelihood.derivatives(&at[..n], data, weight, &mut slope[..n], &mut curvature[..n]);
            (0..n).for_each(|i| out.add(s[i], 0.0, slope[i], curvature[i]));
        }
        out
    }

    /// A convex function that is nowhere above Re ψ(x + icb), |c| ≤ 1; `None` where nothing is proved.
    fn rotated(&self, x: Vector, b: Vector) -> Option<Potential> {
        let mut out = Potential::square(x);
        out.value -= 0.5 * dot(b, b);
        for i in 0..self.t.len() {
            let (t, w) = (self.t[i] + dot(self.s[i], x), self.weight[i]);
            let [value, slope, curvature] = self.likelihood.rotated(t, dot(self.s[i], b), self.data[i])?;
            out.add(self.s[i], w * value, w * slope, w * curvature);
        }
        Some(out)
    }

    /// L(b) = |b|²/2 + Σ w_i size_i g(s_i·b), for likelihoods with a bound for all t alike.
    fn loss(&self, b: Vector) -> Option<f64> {
        let mut sum = 0.5 * dot(b, b);
        for i in 0..self.t.len() {
            let loss = self.likelihood.strip_loss(dot(self.s[i], b))?;
            sum += self.weight[i] * self.likelihood.strip_size(self.data[i]) * loss;
        }
        Some(sum)
    }

    /// I + g″(0)Σ w_i size_i s_is_iᵀ: ¼ for g″(0) of the logistic kinds.
    fn largest_hessian(&self) -> Matrix {
        let tau = 1e-3;
        let g = 2.0 * self.likelihood.strip_loss(tau).unwrap_or(0.0) / (tau * tau);
        let mut at = Potential::square([0.0; MOST_EFFECTS]);
        for i in 0..self.t.len() {
            at.add(self.s[i], 0.0, 0.0, g * self.weight[i] * self.likelihood.strip_size(self.data[i]));
        }
        at.hessian
    }

    /// The lattice whose sum errs by at most epsilon of the integral, where that can be proved.
    pub(super) fn lattice(&self, start: Vector, epsilon: f64) -> Lattice {
        let k = self.k;
        let found = minimum(start, &IDENTITY, 1e-3, |u| Some(self.potential(u)));
        let (centre, here) = found.unwrap_or((start, self.potential(start)));
        let uniform = self.likelihood.strip_loss(0.0).is_some();
        let wide = if uniform { self.largest_hessian() } else { here.hessian };
        let l = cholesky(&wide);
        let r = IDENTITY.map(|e| backward(&l, e));
        let axes = [0, 1, 2]
            .map(|j| if j < k { self.axis(r[j], uniform, centre, &here, epsilon) } else { Axis::default() });
        let proved = axes[..k].iter().all(|a| a.height > 0.0);
        let mut out = Lattice {
            k,
            centre,
            least: here.value,
            r,
            axes,
            ends: [[0; 2]; MOST_EFFECTS],
            cut: f64::INFINITY,
            missed: 0.0,
            uniform,
            proved,
        };
        let norm = (0..k * k).map(|e| wide[e % k][e / k].powi(2)).sum::<f64>().sqrt();
        self.find_ends(&mut out, &here, norm.max(1.0), epsilon);
        out
    }

    /// The longest step along r for which the axis errs by at most a k-th of epsilon.
    fn axis(&self, r: Vector, uniform: bool, u: Vector, here: &Potential, epsilon: f64) -> Axis {
        let k = self.k as f64;
        // S_k(q) is about 2·3^{k−1}q
        let own = 2.0 * 3f64.powi(self.k as i32 - 1) * k;
        let wanted = (own / epsilon).ln() + if uniform { 0.0 } else { 0.5 * here.log_det() };
        let widest = self.s.iter().fold(0.0_f64, |a, s| a.max(dot(*s, r).abs()));
        let top = (2.0 * wanted).sqrt().min(0.97 * PI / widest);
        let mut best = Axis::default();
        for part in [1.0, 0.8, 0.62, 0.47, 0.35, 0.25, 0.15] {
            let height = part * top;
            let b = r.map(|x| height * x);
            let bound = if uniform {
                self.loss(b).map(|exponent| (exponent, u, [0.0; MOST_EFFECTS]))
            } else {
                let found = minimum(u, &IDENTITY, 0.05, |x| self.rotated(x, b));
                found.map(|(x, g)| (here.value - g.value + 0.5 * dot(g.gradient, g.gradient), x, g.gradient))
            };
            let Some((exponent, centre, lean)) = bound.filter(|b| b.0.is_finite()) else { continue };
            let step = TAU * height / (exponent.max(0.0) + wanted);
            if step > best.step {
                best = Axis { step, height, exponent, centre, lean };
            }
        }
        if best.step == 0.0 {
            // nothing is proved: a quarter of the step of a Gaussian
            best.step = 0.25 * TAU / (2.0 * wanted).sqrt();
            best.exponent = f64::INFINITY;
        }
        best
    }

    /// The last nodes on both sides of every axis, and a bound on what lies beyond all of them.
    ///
    /// With ψ̃ = ψ − c|u − û|²/2, c = [`SLACK`]: at a point x̃ of the last layer of nodes ψ̃ ≥ ψ̃(x̃) + g·y +
    /// p|y|²/2 for the
    /// distance y from it in units of R, p = (1 − c) times the least eigenvalue of RᵀR. With g_j > 0 across the
    /// layer, all
    /// layers beyond sum to e^{−ψ̃(x̃)}·q/(1 − q)·Π_{i≠j} e^{g_i²/2p}(1 + √(2π/p)/h_i), q = e^{−g_jh_j}.
    fn find_ends(&self, lattice: &mut Lattice, here: &Potential, norm: f64, epsilon: f64) {
        let (k, r, centre) = (lattice.k, lattice.r, lattice.centre);
        // one node, which is the integral
        if k == 0 {
            return;
        }
        let h = lattice.axes.map(|a| a.step);
        let p = (1.0 - SLACK) / norm;
        // the law of the coordinates, about
        let mut own = IDENTITY;
        for j in 0..k {
            (0..k).for_each(|i| own[j][i] = form(&here.hessian, r[i], r[j]));
        }
        let l = cholesky(&own);
        let det: f64 = (0..k).map(|j| l[j][j]).product();
        let steps: f64 = h[..k].iter().product();
        let least = epsilon / (40.0 * k as f64) * TAU.powf(0.5 * k as f64) / (det * steps);
        for axis in 0..k {
            let mut others = r;
            others[axis] = [0.0; MOST_EFFECTS];
            others[k..].fill([0.0; MOST_EFFECTS]);
            let unit = forward(&l, IDENTITY[axis]);
            let sd = dot(unit, unit).sqrt();
            for (side, sign) in [-1.0, 1.0].into_iter().enumerate() {
                let mut count = ((2.0 * (2.0 / epsilon).ln()).sqrt() * sd / h[axis]).ceil().min(MOST);
                let mut beyond = f64::INFINITY;
                while count < MOST {
                    let edge = along(centre, sign * count * h[axis], r[axis]);
                    let at = |u: Vector| Some(self.potential(u).less(SLACK, centre, u));
                    let Some((_, there)) = minimum(edge, &others, 0.125 * p, at) else { break };
                    let rise = sign * h[axis] * dot(r[axis], there.gradient);
                    if rise > 0.0 {
                        let mut wide = 1.0;
                        for i in (0..k).filter(|&i| i != axis) {
                            let g = dot(r[i], there.gradient);
                            wide *= (0.5 * g * g / p).exp() * (1.0 + (TAU / p).sqrt() / h[i]);
                        }
                        beyond = (here.value - there.value).exp() * wide / rise.exp_m1();
                        let more = ((beyond / least).ln() / rise).ceil().clamp(0.0, MOST - count);
                        beyond *= (-more * rise).exp();
                        count += more;
                        break;
                    }
                    count += (count / 4.0).ceil().max(1.0);
                }
                lattice.ends[axis][side] = count as i64;
                lattice.missed += beyond;
            }
        }
        lattice.cut = (lattice.nodes() / least).ln();
        lattice.missed += lattice.nodes() * (-lattice.cut).exp();
    }

    /// The places y along a line base + y·r, y = 0 at its first guess, beyond which ψ̃ = ψ − c|u − û|²/2 exceeds
    /// ψ(û) by the
    /// lattice's cut; nothing if it does on the whole line. `guess` becomes the place of the minimum, about.
    ///
    /// f(y) = ψ̃ − ψ(û) is convex with f″ ≥ κ = (1 − c)|r|²: f ≥ f(y₀) − f′(y₀)²/2κ, and f ≥ cut beyond
    /// y₁ + max(0, cut − f(y₁))/f′(y₁) for f′(y₁) > 0.
    pub(super) fn window(
        &self,
        lattice: &Lattice,
        base: Vector,
        r: Vector,
        guess: &mut f64,
    ) -> Option<[f64; 2]> {
        let at = |y: f64| {
            let u = along(base, y, r);
            let here = self.potential(u).less(SLACK, lattice.centre, u);
            [here.value - lattice.least, dot(here.gradient, r), form(&here.hessian, r, r)]
        };
        let kappa = (1.0 - SLACK) * dot(r, r);
        let mut y = if guess.is_finite() { *guess } else { 0.0 };
        let mut here = at(y);
        for _ in 0..20 {
            if here[0] - 0.5 * here[1] * here[1] / kappa > lattice.cut {
                *guess = y;
                return None;
            }
            if here[1] * here[1] <= here[2] {
                break;
            }
            // a step that does not lower f is halved
            let mut step = -here[1] / here[2];
            let mut there = at(y + step);
            while there[0] > here[0] && step.abs() > 1e-9 {
                step *= 0.5;
                there = at(y + step);
            }
            (y, here) = (y + step, there);
        }
        *guess = y;
        let spare = lattice.cut - here[0] + here[1] * here[1];
        let far = (2.0 * spare.max(1.0) / here[2]).sqrt();
        Some([-1.0, 1.0].map(|sign| {
            let (mut inner, mut outer) = (0.0, far);
            for _ in 0..12 {
                let [value, slope, _] = at(y + sign * outer);
                let rise = sign * slope;
                if rise > 0.0 && value < lattice.cut {
                    let more = (lattice.cut - value) / rise;
                    if more < 0.25 * outer {
                        return y + sign * (outer + more);
                    }
                    (inner, outer) = (outer, outer + more.min(outer));
                } else if rise <= 0.0 {
                    (inner, outer) = (outer, 2.0 * outer);
                } else if value < lattice.cut + 6.0 || outer - inner < 0.05 * outer {
                    return y + sign * outer;
                } else {
                    outer = 0.5 * (inner + outer);
                }
            }
            sign * f64::INFINITY
        }))
    }
}

impl Lattice {
    /// Nodes between the ends.
    pub(super) fn nodes(&self) -> f64 {
        let along = |j: usize| (self.ends[j][0] + self.ends[j][1] + 1) as f64;
        (0..self.k).map(along).product()
    }

    /// Π h_j |det R|.
    pub(super) fn volume(&self) -> f64 {
        (0..self.k).map(|j| self.axes[j].step * self.r[j][j]).product()
    }

    /// N_jS_k of an axis, in the units of its exponent.
    pub(super) fn outside(&self, axis: usize) -> f64 {
        let a = self.axes[axis];
        a.exponent.exp() * series(self.k, TAU * a.height / a.step)
    }

    /// A bound on the relative error of the integral whose sum is `total` in units of e^{−ψ(û)}; infinite where
    /// nothing is
    /// proved.
    pub(super) fn error(&self, total: f64) -> f64 {
        if !self.proved {
            return f64::INFINITY;
        }
        let outside: f64 = (0..self.k).map(|j| self.outside(j)).sum();
        let missed = self.volume() * self.missed;
        let error = if self.uniform {
            // I ≥ total/(1 + outside), I ≤ (total + missed)/(1 − outside)
            if outside < 0.5 { (outside + missed / total) / (1.0 - outside) } else { f64::INFINITY }
        } else {
            let wrong = TAU.powf(0.5 * self.k as f64) * outside + missed;
            if wrong < 0.5 * total { wrong / (total - wrong) } else { f64::INFINITY }
        };
        if error.is_nan() { f64::INFINITY } else { error }
    }

    /// The same lattice with half the steps, as far out.
    pub(super) fn halved(&self) -> Self {
        let mut out = self.clone();
        for j in 0..self.k {
            out.axes[j].step *= 0.5;
            out.ends[j] = out.ends[j].map(|e| 2 * e);
        }
        out.missed *= 2f64.powi(self.k as i32);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S_k against its series, and by hand at q = 1/2: 2, 2 + 8, 2 + 16 + 48.
    #[test]
    fn series_are_summed() {
        let half = 2f64.ln();
        for (k, hand) in [(1, 2.0), (2, 10.0), (3, 66.0)] {
            assert!((series(k, half) - hand).abs() < 1e-12, "{k}: {}", series(k, half));
        }
        for x in [0.3, 1.0, 5.0, 30.0] {
            for k in 1..=3 {
                let terms = (1..400)
                    .rev()
                    .map(|l| 2.0 * f64::from(2 * l + 1).powi(k - 1) * (-x * f64::from(l)).exp());
                let direct: f64 = terms.sum();
                assert!((series(k as usize, x) / direct - 1.0).abs() < 1e-12, "{k} {x}");
            }
        }
        assert_eq!(series(2, 0.0), f64::INFINITY);
        assert_eq!(series(0, 1.0), 0.0);
    }
}
