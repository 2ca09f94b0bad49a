//! The radial envelope as thin shells: how fast −log p must grow along every ray, and the piecewise constant density
//! over it.
//!
//! ψ(u) ≥ ψ(0) + ID(|u|), D(s) = −ε₀ + ∫₀ˢ k, ID(s) = ∫₀ˢ D (math: D6), for any nonincreasing k ≥ 0 below the curvature
//! along rays. On each shell the least value of ID is taken: with ε₀ > 0 it falls before it rises, so that is neither
//! end in general.

use std::f64::consts::PI;

/// The width over which k is taken as constant. Frames are scaled so that k(0) = 1.
pub(crate) const STEP: f64 = 1.0 / 32.0;
/// Shells per step.
const FINER: usize = 8;
/// Beyond this e^{−ID} is useless and may overflow.
const DEEPEST: f64 = 300.0;

/// Shells r₀ = 0 < r₁ < … < r_K = R with a constant envelope on each, and what may lie beyond R.
#[derive(Debug)]
pub(super) struct Shells {
    dim: usize,
    edges: Vec<f64>,
    /// The least value of ID on each shell.
    low: Vec<f64>,
    /// Shares of the mass of shells 0..=i.
    cumulative: Vec<f64>,
    /// log ∫_{|u| ≤ R} e^{−ID_low}.
    pub(super) log_mass: f64,
    /// Upper bounds of ∫_{|u| > R} |u|ʲ e^{ψ(0) − ψ} for j = 0, 1, 2, in units of the mass.
    pub(super) tails: [f64; 3],
    /// The largest |ID| on a shell.
    pub(super) height: f64,
}

/// Shells being made, from the centre outward.
#[derive(Debug)]
pub(crate) struct Growing {
    dim: usize,
    edges: Vec<f64>,
    low: Vec<f64>,
    masses: Vec<f64>,
    total: f64,
    /// D at the last edge.
    slope: f64,
    /// ID at the last edge.
    rise: f64,
}

impl Growing {
    /// No shell yet; `slope` is ε₀ = |∇ψ(0)|.
    pub(crate) fn new(dim: usize, slope: f64) -> Self {
        let (edges, low, masses) = (vec![0.0], Vec::new(), Vec::new());
        Self { dim, edges, low, masses, total: 0.0, slope: -slope, rise: 0.0 }
    }

    /// R so far.
    pub(crate) fn radius(&self) -> f64 {
        self.edges[self.edges.len() - 1]
    }

    /// D(R) so far.
    pub(crate) fn slope(&self) -> f64 {
        self.slope
    }

    /// The shells of one more step, on which the curvature along rays is at least k ≥ 0.
    pub(crate) fn extend(&mut self, k: f64) {
        let width = STEP / FINER as f64;
        for _ in 0..FINER {
            let (inner, outer) = (self.radius(), (self.edges.len() as f64) * width);
            // ID on the shell is at least the parabola rise + slope·s + k s²/2, whose least value is at −slope/k
            let lowest = if self.slope >= 0.0 { 0.0 } else { (-self.slope / k).min(width) };
            let low = self.rise + self.slope * lowest + 0.5 * k * lowest * lowest;
            let mass = power_difference(inner, outer, self.dim) * (-low).exp();
            self.rise += self.slope * width + 0.5 * k * width * width;
            self.slope += k * width;
            self.total += mass;
            self.edges.push(outer);
            self.low.push(low);
            self.masses.push(mass);
        }
    }

    /// ∫_R^∞ s^{n} e^{−ID(R) − D(R)(s−R)} ds = e^{−ID(R)} Σ_k n!/(n−k)! R^{n−k}/D^{k+1}, n = d − 1 + j: D does not fall
    /// beyond R.
    pub(crate) fn tail(&self, j: usize) -> f64 {
        if self.slope <= 0.0 {
            return f64::INFINITY;
        }
        let (n, r) = (self.dim - 1 + j, self.radius());
        let mut term = r.powi(n as i32) / self.slope;
        let mut sum = term;
        for k in 0..n {
            term *= (n - k) as f64 / (r * self.slope);
            sum += term;
        }
        sum * (-self.rise).exp()
    }

    /// True once what lies beyond R is at most this share of the mass.
    pub(super) fn done(&self, share: f64) -> bool {
        self.tail(0) <= share * self.total / self.dim as f64
    }

    /// True if e^{−ID} has grown beyond use.
    pub(crate) fn hopeless(&self) -> bool {
        self.rise < -DEEPEST
    }

    /// The finished shells.
    pub(super) fn finish(self) -> Shells {
        let dim = self.dim as f64;
        let mass = self.total / dim;
        let tails = [0, 1, 2].map(|j| self.tail(j) / mass * (1.0 + 1e-12));
        let height = self.low.iter().fold(0.0_f64, |a, b| a.max(b.abs()));
        let mut sum = 0.0;
        let cumulative = self.masses.iter().map(|m| {
            sum += m / self.total;
            sum
        });
        Shells {
            dim: self.dim,
            cumulative: cumulative.collect(),
            edges: self.edges,
            low: self.low,
            log_mass: mass.ln() + log_sphere(self.dim),
            tails,
            height,
        }
    }
}

/// log |S^{d−1}| = log 2π^{d/2}/Γ(d/2).
pub(crate) fn log_sphere(dim: usize) -> f64 {
    let half = 0.5 * dim as f64;
    2f64.ln() + half * PI.ln() - libm::lgamma(half)
}

/// outerᵈ − innerᵈ, from the factor outer − inner, so that nothing cancels.
fn power_difference(inner: f64, outer: f64, dim: usize) -> f64 {
    let ratio = inner / outer;
    let sum = (1..dim).fold(1.0, |sum, _| sum * ratio + 1.0);
    (outer - inner) * outer.powi(dim as i32 - 1) * sum
}

impl Shells {
    /// R.
    pub(super) fn radius(&self) -> f64 {
        self.edges[self.edges.len() - 1]
    }

    /// The radius of a proposal and ID_low there, from two uniform numbers: a shell by its mass, then s = (aᵈ + U(bᵈ −
    /// aᵈ))^{1/d}.
    pub(super) fn propose(&self, shell: f64, within: f64) -> (f64, f64) {
        let i = self.cumulative.partition_point(|c| *c < shell).min(self.low.len() - 1);
        let (inner, outer) = (self.edges[i], self.edges[i + 1]);
        let start = (inner / outer).powi(self.dim as i32);
        let radius = outer * (start + within * (1.0 - start)).powf(1.0 / self.dim as f64);
        (radius.clamp(inner, outer), self.low[i])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(dim: usize, slope: f64, k: impl Fn(f64) -> f64) -> Shells {
        let mut growing = Growing::new(dim, slope);
        while !growing.done(1e-12) {
            assert!(!growing.hopeless() && growing.radius() < 60.0);
            growing.extend(k(growing.radius() + STEP));
        }
        growing.finish()
    }

    /// k = 1, ε₀ = 0 is the standard normal: the mass is (2π)^{d/2} up to the thickness of the shells, and always above
    /// it.
    #[test]
    fn the_envelope_of_a_normal_is_the_normal() {
        for dim in [1, 2, 3, 10, 40] {
            let shells = grown(dim, 0.0, |_| 1.0);
            let excess = shells.log_mass - 0.5 * dim as f64 * (2.0 * PI).ln();
            // D·width ≤ R/256 inside a shell
            assert!(excess > 0.0 && excess < shells.radius() / 256.0, "d = {dim}: {excess}");
            assert!(shells.tails[0] < 1e-12 && shells.tails[0] > 1e-16, "{:?}", shells.tails);
            let r = shells.radius();
            assert!(shells.tails[2] > r * r * shells.tails[0] && shells.tails[1] > r * shells.tails[0]);
        }
    }

    /// With k falling and ε₀ > 0 the envelope lies below ID = −ε₀s + ∬k everywhere, touches it to within a step, and
    /// its mass and tails are those of the integral.
    #[test]
    fn shells_lie_below_the_growth() {
        let k = |s: f64| 0.2 + 0.8 * (-0.4 * s).exp();
        let id =
            |s: f64, slope: f64| -slope * s + 0.1 * s * s + 0.8 * (s / 0.4 - (1.0 - (-0.4 * s).exp()) / 0.16);
        for (dim, slope) in [(1, 0.0), (1, 1.0), (2, 0.7), (6, 1.3)] {
            let shells = grown(dim, slope, k);
            for (i, low) in shells.low.iter().enumerate() {
                let (a, b) = (shells.edges[i], shells.edges[i + 1]);
                let least = (0..=20)
                    .map(|j| id(a + (b - a) * f64::from(j) / 20.0, slope))
                    .fold(f64::INFINITY, f64::min);
                assert!(*low <= least + 1e-12, "shell {i}: {low} above {least}");
                // k is taken at the right end of steps: at most STEP · 0.32 too small at each s, twice integrated; and
                // the shell is thin
                assert!(
                    least - low <= 0.5 * 0.32 * STEP * b * b + 0.02,
                    "shell {i}: {low} far below {least}"
                );
            }
            let r = shells.radius();
            let density = |s: f64, j: i32| s.powi(dim as i32 - 1 + j) * (-id(s, slope)).exp();
            let integral = |from: f64, to: f64, j: i32| {
                let n = 40_000;
                let h = (to - from) / f64::from(n);
                (0..n).map(|i| density(from + (f64::from(i) + 0.5) * h, j)).sum::<f64>() * h
            };
            let sphere = 2.0 * PI.powf(0.5 * dim as f64) / libm::tgamma(0.5 * dim as f64);
            let mass = shells.log_mass.exp() / sphere;
            let truth = integral(0.0, r, 0);
            assert!(mass >= truth && mass <= 1.35 * truth, "d = {dim}: {mass} {truth}");
            for j in 0..3 {
                let tail = integral(r, r + 40.0, j as i32);
                assert!(shells.tails[j] * mass >= tail, "tail {j}: {} {tail}", shells.tails[j] * mass);
                assert!(shells.tails[j] * mass <= 3.0 * tail, "tail {j}: {} {tail}", shells.tails[j] * mass);
            }
        }
    }

    /// One thick shell: a point is uniform in the ball, P(s ≤ 1/2) = 1/8 in three dimensions.
    #[test]
    fn points_are_uniform_in_a_shell() {
        let (edges, low, cumulative) = (vec![0.0, 1.0, 2.0], vec![0.0, 3.0], vec![0.5, 1.0]);
        let shells = Shells { dim: 3, edges, low, cumulative, log_mass: 0.0, tails: [0.0; 3], height: 3.0 };
        assert_eq!(shells.propose(0.3, 0.125), (0.5, 0.0));
        let (radius, low) = shells.propose(0.7, 0.5);
        assert!((radius.powi(3) - 4.5).abs() < 1e-14 && low == 3.0);
    }

    /// Radii have the distribution they should: the mean of sᵏ over a fine grid of the two uniforms.
    #[test]
    fn proposals_follow_the_envelope() {
        let shells = grown(3, 0.5, |_| 1.0);
        let (n, m) = (2000, 50);
        let mut mean = [0.0; 2];
        for i in 0..n {
            for j in 0..m {
                let (s, low) = shells.propose((i as f64 + 0.5) / n as f64, (j as f64 + 0.5) / m as f64);
                let at = shells.edges.partition_point(|e| *e < s).max(1) - 1;
                assert!((shells.low[at] - low).abs() < 0.1);
                mean[0] += s / (n * m) as f64;
                mean[1] += s * s / (n * m) as f64;
            }
        }
        // ∫ s^{2+j} e^{s/2 − s²/2}
        let integral = |j: i32| {
            let f = |s: f64| s.powi(2 + j) * (0.5 * s - 0.5 * s * s).exp();
            (0..100_000).map(|i| f((f64::from(i) + 0.5) * 1e-4)).sum::<f64>() * 1e-4
        };
        for j in 0..2 {
            let want = integral(j as i32 + 1) / integral(0);
            assert!((mean[j] / want - 1.0).abs() < 3e-3, "{} {want}", mean[j]);
        }
    }
}
