//! Proved bounds on the errors of expectations over a group's nodes, which are those of the gradient (docs/mixed.md,
//! G1): E f for f = φ_i′, |u|² and their product.
//!
//! The sum over nodes of f e^{−ψ} errs by at most Σ_j S_k(e^{−2πa_j/h_j})∫F_j|e^{−ψ(x + ia_jr_j)}|dx and K·missed, if
//! |f(x + icr_j)| ≤ F_j(x) for |c| ≤ a_j and |f| ≤ Ke^{c|u − û|²/2}, c = SLACK; and that of e^{−ψ} with F = K = 1.

use std::f64::consts::{E, TAU};

use super::lattice::{GroupRows, Lattice, ROUNDING, SLACK};
use super::nodes::Moments;
use super::space::{Vector, along, dot};

/// The errors of a group's expectations.
pub(super) struct Wrong<'a> {
    group: &'a GroupRows<'a>,
    lattice: &'a Lattice,
    moments: &'a Moments,
    /// Per axis, what its strip adds to the integral, as a part of it.
    parts: [f64; 3],
    /// What is beyond the ends, as a part of the integral.
    beyond: f64,
    /// A bound on E|u|².
    squares: f64,
    /// e^{2δ} − 1, where rounding changes ψ by about δ: what that may change of the weights of the nodes.
    blurred: f64,
}

impl<'a> Wrong<'a> {
    /// From the sum `total` in units of e^{−ψ(û)} and about what rounding changes of ψ: an allowance.
    pub(super) fn new(
        group: &'a GroupRows<'a>,
        lattice: &'a Lattice,
        moments: &'a Moments,
        total: f64,
        rounding: f64,
    ) -> Self {
        let k = lattice.k;
        let missed = lattice.volume() * lattice.missed;
        let unit = TAU.powf(0.5 * k as f64);
        let mut parts = [0, 1, 2].map(|j| if j < k { lattice.outside(j) } else { 0.0 });
        let all: f64 = parts.iter().sum();
        let beyond = if lattice.uniform {
            (1.0 + all) * missed / total
        } else {
            let least = total - unit * all - missed;
            let least = if least > 0.0 { least } else { 0.0 };
            parts = parts.map(|p| p * unit / least);
            missed / least
        };
        if !lattice.proved {
            parts = [f64::INFINITY; 3];
        }
        let squares = (0..k).map(|j| moments.uu[j][j]).sum();
        let blurred = (2.0 * rounding).exp_m1();
        let mut out = Self { group, lattice, moments, parts, beyond, squares, blurred };
        // the bound on E|u|² counts in its own error
        let small = out.parts.iter().sum::<f64>();
        out.squares = if small < 0.5 { (out.squares + out.square()) / (1.0 - small) } else { f64::INFINITY };
        out
    }

    /// What is wrong with E f, |E f| computed as `mean`: `inside` is F of an axis, `growth` is K.
    fn of(&self, mean: f64, inside: impl Fn(usize) -> f64, growth: f64) -> f64 {
        let own: f64 = self.parts.iter().sum::<f64>() + self.beyond;
        let strips: f64 = (0..self.lattice.k).map(|j| self.parts[j] * inside(j)).sum();
        let error = strips + growth * self.beyond + mean * own;
        if error.is_nan() { f64::INFINITY } else { error }
    }

    /// a_j²|r_j|².
    fn height(&self, j: usize) -> f64 {
        self.lattice.axes[j].height.powi(2) * dot(self.lattice.r[j], self.lattice.r[j])
    }

    /// |u|² ≤ Ke^{c|u − û|²/2}.
    fn square_growth(&self) -> f64 {
        2.0 * dot(self.lattice.centre, self.lattice.centre) + 4.0 / (E * SLACK)
    }

    /// The centre of the Gaussian that bounds e^{−G} of an axis.
    fn gaussian(&self, j: usize) -> Vector {
        along(self.lattice.axes[j].centre, -1.0, self.lattice.axes[j].lean)
    }

    fn square_inside(&self, j: usize) -> f64 {
        let centre = self.gaussian(j);
        let own =
            if self.lattice.uniform { self.squares } else { self.lattice.k as f64 + dot(centre, centre) };
        own + self.height(j)
    }

    /// E u_iu_j, any i and j.
    pub(super) fn square(&self) -> f64 {
        let rounding = ROUNDING * (self.squares + 1.0) + self.blurred * 2.0 * self.squares;
        self.of(self.squares, |j| self.square_inside(j), self.square_growth()) + rounding
    }

    /// F and K of w_iφ_i′.
    fn slope_bounds(&self, i: usize) -> (impl Fn(usize) -> f64, f64) {
        let (group, lattice) = (self.group, self.lattice);
        let (datum, w, s, t) = (group.data[i], group.weight[i], group.s[i], group.t[i]);
        let size = dot(s, s).sqrt();
        let inside = move |j: usize| {
            let axis = lattice.axes[j];
            let lean = if size > 0.0 { dot(s, axis.lean) / size } else { 0.0 };
            let tau = axis.height * dot(s, lattice.r[j]);
            let bound =
                group.likelihood.rotated_first_derivative(t + dot(s, axis.centre), size, lean, tau, datum);
            w * bound.unwrap_or(f64::INFINITY)
        };
        let growth = if lattice.uniform {
            w * (group.likelihood.strip_size(datum) + datum.y.abs())
        } else {
            let at = group.likelihood.first_derivative(t + dot(s, lattice.centre), datum).abs();
            w * (at + group.likelihood.first_derivative_growth(datum)) * (0.5 * size * size / SLACK).exp()
        };
        (inside, growth)
    }

    /// E w_iφ_i′.
    pub(super) fn slope(&self, i: usize) -> f64 {
        let (inside, growth) = self.slope_bounds(i);
        let (mean, bent) = (self.moments.slope[i].abs(), self.moments.curvature[i]);
        let reach = self.group.reach[i] + self.group.sizes[i] * self.moments.farthest;
        let (s, datum) = (self.group.s[i].iter().map(|s| s.abs()).sum(), self.group.data[i]);
        // E|φ′ − Eφ′| ≤ 2|Eφ′| + spread
        let spread =
            2.0 * mean + self.group.weight[i] * self.group.likelihood.first_derivative_spread(s, datum);
        let blurred = if self.blurred == 0.0 { 0.0 } else { self.blurred * spread };
        self.of(mean, inside, growth) + blurred + ROUNDING * (mean + bent * (1.0 + reach))
    }

    /// E w_iφ_i′u_j, any j; proved for bounds that are uniform only, where |φ′||u| ≤ F(1 + |u|²)/2.
    pub(super) fn product(&self, i: usize) -> f64 {
        if !self.lattice.uniform {
            return f64::INFINITY;
        }
        let (inside, growth) = self.slope_bounds(i);
        let half = |j: usize| 0.5 * inside(j) * (1.0 + self.square_inside(j));
        let mean = growth * (1.0 + self.squares);
        let reach = self.group.reach[i] + self.group.sizes[i] * self.moments.farthest;
        let rounding = ROUNDING * mean * (1.0 + reach) + self.blurred * 2.0 * mean;
        self.of(mean, half, 0.5 * growth * (1.0 + self.square_growth())) + rounding
    }
}
