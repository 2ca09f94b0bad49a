//! One group with two effects integrated out: ∫ e^{−ψ(u)} du/2π over the plane by the trapezoid rule on a lattice, with
//! a proved bound on its error (Theorem K7).
//!
//! ψ(u) = Σ w_i φ_i(t_i + s_i·u) + |u|²/2. Nodes are û + k₁h₁r₁ + k₂h₂r₂, r₁ and r₂ the columns of R with RᵀKR = I, K
//! about the largest Hessian of ψ. If Re ψ(x + iar_j) ≥ ψ(x) − L_j, the rule errs by at most Σ_j e^{L_j}S(e^{−2πa/h_j})
//! of the integral, S(q) = 2q/(1 − q) + 4q/(1 − q)².

use std::f64::consts::{PI, TAU};

use crate::collapsed::group::{LANES, Nodes, ROUNDING, RUN, weighted};
use certus_likelihood::{Datum, Likelihood};

/// Newton steps, at most.
const STEPS: usize = 100;
/// Nodes on one side of an axis, at most.
const MOST: f64 = 1000.0;

/// The rows of one group.
pub(super) struct PairRows<'a> {
    pub(super) likelihood: &'a dyn Likelihood,
    pub(super) t: &'a [f64],
    /// Σ_j |x_ij β_j| + |offset|.
    pub(super) reach: &'a [f64],
    /// Coefficients.
    pub(super) columns: usize,
    /// s_i.
    pub(super) s: &'a [[f64; 2]],
    pub(super) data: &'a [Datum],
    pub(super) weight: &'a [f64],
}

/// A group's integral.
pub(super) struct PairIntegral {
    /// The logarithm of the integral.
    pub(super) log: f64,
    /// Bound on its relative error; infinite where nothing is proved.
    pub(super) error: f64,
    /// What rounding may add to the error of the logarithm.
    pub(super) rounding: f64,
}

/// Memory reused from group to group.
#[derive(Default)]
pub(super) struct Plane {
    /// Weights, slopes and curvatures of all nodes; `u` is zero.
    pub(super) nodes: Nodes,
    /// u₁ and u₂ of all nodes.
    pub(super) u: [Vec<f64>; 2],
    /// Derivatives by θ of all nodes.
    pub(super) q: [Vec<f64>; 3],
    t: Vec<f64>,
    s: Vec<f64>,
    line: Vec<f64>,
    slope: Vec<f64>,
    curvature: Vec<f64>,
}

/// A function of the plane at a point: value, gradient, Hessian (11, 12, 22).
#[derive(Clone, Copy)]
struct Potential {
    value: f64,
    gradient: [f64; 2],
    hessian: [f64; 3],
}

impl Potential {
    /// |u|²/2.
    fn square(u: [f64; 2]) -> Self {
        Self { value: 0.5 * (u[0] * u[0] + u[1] * u[1]), gradient: u, hessian: [1.0, 0.0, 1.0] }
    }

    fn add(&mut self, s: [f64; 2], value: f64, slope: f64, curvature: f64) {
        self.value += value;
        for j in 0..2 {
            self.gradient[j] += s[j] * slope;
        }
        let h = &mut self.hessian;
        *h = [h[0] + s[0] * s[0] * curvature, h[1] + s[0] * s[1] * curvature, h[2] + s[1] * s[1] * curvature];
    }

    fn det(&self) -> f64 {
        self.hessian[0] * self.hessian[2] - self.hessian[1] * self.hessian[1]
    }

    /// H⁻¹g.
    fn newton(&self) -> [f64; 2] {
        let ([a, b, c], g) = (self.hessian, self.gradient);
        [(c * g[0] - b * g[1]) / self.det(), (a * g[1] - b * g[0]) / self.det()]
    }
}

fn dot(a: [f64; 2], b: [f64; 2]) -> f64 {
    a[0] * b[0] + a[1] * b[1]
}

/// a + c b.
fn along(a: [f64; 2], c: f64, b: [f64; 2]) -> [f64; 2] {
    [a[0] + c * b[0], a[1] + c * b[1]]
}

/// The minimum of a convex function, nearly: Newton's method with halved steps until half the squared decrement is
/// below `enough`.
fn minimum(
    mut u: [f64; 2],
    enough: f64,
    at: impl Fn([f64; 2]) -> Option<Potential>,
) -> Option<([f64; 2], Potential)> {
    let mut here = at(u)?;
    for _ in 0..STEPS {
        let step = here.newton();
        let promised = dot(step, here.gradient);
        if 0.5 * promised <= enough {
            break;
        }
        let mut scale = 1.0;
        while scale > 1e-9 {
            let trial = along(u, -scale, step);
            if let Some(there) = at(trial).filter(|t| t.value <= here.value - 1e-4 * scale * promised) {
                (u, here) = (trial, there);
                break;
            }
            scale *= 0.5;
        }
        if scale <= 1e-9 {
            break;
        }
    }
    Some((u, here))
}

/// S(q) for q = e^{−x}.
fn series(x: f64) -> f64 {
    let q = (-x).exp();
    if q < 1.0 { 2.0 * q / (1.0 - q) + 4.0 * q / (1.0 - q).powi(2) } else { f64::INFINITY }
}

impl PairRows<'_> {
    fn potential(&self, u: [f64; 2]) -> Potential {
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
    fn rotated(&self, x: [f64; 2], b: [f64; 2]) -> Option<Potential> {
        let mut out = Potential::square(x);
        out.value -= 0.5 * dot(b, b);
        for i in 0..self.t.len() {
            let (t, w) = (self.t[i] + dot(self.s[i], x), self.weight[i]);
            let [value, slope, curvature] = self.likelihood.rotated(t, dot(self.s[i], b), self.data[i])?;
            out.add(self.s[i], w * value, w * slope, w * curvature);
        }
        Some(out)
    }

    /// A bound on the logarithm of ∫|e^{−ψ(x + ib)}|dx: as a part of the integral itself if `uniform`, else as a part
    /// of 2πe^{−ψ(û)}.
    fn exponent(&self, b: [f64; 2], uniform: bool, u: [f64; 2], here: &Potential) -> Option<f64> {
        if uniform {
            let mut sum = 0.5 * dot(b, b);
            for i in 0..self.t.len() {
                let loss = self.likelihood.strip_loss(dot(self.s[i], b))?;
                sum += self.weight[i] * self.likelihood.strip_size(self.data[i]) * loss;
            }
            return Some(sum);
        }
        let (_, g) = minimum(u, 0.05, |x| self.rotated(x, b))?;
        Some(here.value - g.value + 0.5 * dot(g.gradient, g.gradient))
    }

    /// The longest step along r for which the axis errs by at most half of epsilon, and its height and exponent.
    fn axis(&self, r: [f64; 2], uniform: bool, u: [f64; 2], here: &Potential, epsilon: f64) -> [f64; 3] {
        let wanted = (12.0 / epsilon).ln() + if uniform { 0.0 } else { 0.5 * here.det().ln() };
        let widest = self.s.iter().fold(0.0_f64, |a, s| a.max(dot(*s, r).abs()));
        let top = (2.0 * wanted).sqrt().min(0.97 * PI / widest);
        let mut best = [0.0, 0.0, f64::INFINITY];
        for part in [1.0, 0.8, 0.62, 0.47, 0.35, 0.25] {
            let a = part * top;
            let b = [a * r[0], a * r[1]];
            let found = self.exponent(b, uniform, u, here).filter(|e| e.is_finite());
            let Some(exponent) = found else { continue };
            let step = TAU * a / (exponent.max(0.0) + wanted);
            if step > best[0] {
                best = [step, a, exponent];
            }
        }
        if best[0] == 0.0 {
            // nothing is proved: a quarter of the step of a Gaussian
            best[0] = 0.25 * TAU / (2.0 * wanted).sqrt();
        }
        best
    }

    /// The integral; weights, slopes and curvatures of the nodes stay in `plane`.
    pub(super) fn integrate(&self, plane: &mut Plane, epsilon: f64) -> PairIntegral {
        let Some((u, here)) = minimum([0.0; 2], 0.05, |u| Some(self.potential(u))) else {
            unreachable!("the potential is there everywhere")
        };
        let uniform = self.likelihood.strip_loss(0.0).is_some();
        let k = if uniform { self.second_derivative_max() } else { here.hessian };
        let (c11, c21) = (k[0].sqrt(), k[1] / k[0].sqrt());
        let c22 = (k[2] - c21 * c21).max(1.0 / (k[0] + k[2])).sqrt();
        let r = [[1.0 / c11, 0.0], [-c21 / (c11 * c22), 1.0 / c22]];
        let axes = r.map(|r| self.axis(r, uniform, u, &here, epsilon));
        let h = axes.map(|a| a[0]);
        let (ends, missed) = self.ends(u, &here, r, h, epsilon);
        let sum = self.fill(plane, u, &here, r, h, ends);
        // all in units of e^{−ψ(û)}: the integral over the plane is volume·sum
        let volume = h[0] * h[1] / (c11 * c22);
        let outside: f64 =
            axes.iter().map(|[step, height, exponent]| exponent.exp() * series(TAU * height / step)).sum();
        let (total, missed) = (volume * sum, volume * missed);
        // uniform: |total + missed − I| ≤ outside·I; else |…| ≤ 2π·outside
        let error = if uniform {
            // I ≥ total/(1 + outside), I ≤ (total + missed)/(1 − outside)
            if outside < 0.5 { (outside + missed / total) / (1.0 - outside) } else { f64::INFINITY }
        } else {
            let wrong = TAU * outside + missed;
            if wrong < 0.5 * total { wrong / (total - wrong) } else { f64::INFINITY }
        };
        let error = if error.is_nan() { f64::INFINITY } else { error };
        let farthest = plane.u.iter().flatten().fold(0.0_f64, |a, x| a.max(x.abs()));
        // as in one dimension (K11)
        let rounded = |i: usize| {
            let (datum, w) = (self.data[i], self.weight[i]);
            let s = self.s[i][0].abs() + self.s[i][1].abs();
            let slope = plane.nodes.mean_slope(i).abs()
                + weighted(w, self.likelihood.first_derivative_spread(s, datum));
            let blur = 0.5 * f64::EPSILON * ((self.columns + 5) as f64 * self.reach[i] + 16.0 * s * farthest);
            let reach = self.t[i].abs() + s * farthest;
            let terms = if w > 0.0 { w * self.likelihood.terms(reach, slope / w, datum) } else { 0.0 };
            slope * blur + ROUNDING * terms
        };
        let log = total.ln() - here.value - TAU.ln();
        let own = log.abs() + (u[0].abs() + u[1].abs() + 4.0).powi(2) + 2.0;
        let sums = f64::EPSILON * (plane.nodes.p.len() / LANES) as f64;
        let rounding = ROUNDING * own + sums + (0..self.t.len()).map(rounded).sum::<f64>();
        PairIntegral { log, error, rounding }
    }

    /// I + Σ w·size·g″(0) s sᵀ.
    fn second_derivative_max(&self) -> [f64; 3] {
        let tau = 1e-3;
        let g = 2.0 * self.likelihood.strip_loss(tau).unwrap_or(0.0) / (tau * tau);
        let mut at = Potential::square([0.0; 2]);
        for i in 0..self.t.len() {
            at.add(self.s[i], 0.0, 0.0, g * self.weight[i] * self.likelihood.strip_size(self.data[i]));
        }
        at.hessian
    }

    /// For both axes the number of steps to the last node on either side, and a bound on what lies beyond all four as a
    /// part of e^{−ψ(û)}.
    ///
    /// At a point x̃ of the last line of nodes ψ ≥ ψ(x̃) + g·y + p|y|²/2 for the distance y from it, in units of r₁ and
    /// r₂, p the least eigenvalue of RᵀR. With g across the line > 0, what is beyond sums to e^{−ψ(x̃)}·q/(1 −
    /// q)·e^{g₂²/2p}(1 + √(2π/p)/h₂), q = e^{−gh}, g₂ and h₂ along the line.
    fn ends(
        &self,
        u: [f64; 2],
        here: &Potential,
        r: [[f64; 2]; 2],
        h: [f64; 2],
        epsilon: f64,
    ) -> ([[i64; 2]; 2], f64) {
        let gram = [dot(r[0], r[0]), dot(r[0], r[1]), dot(r[1], r[1])];
        let half = 0.5 * (gram[0] + gram[2]);
        let p = (half - (0.25 * (gram[0] - gram[2]).powi(2) + gram[1] * gram[1]).sqrt()).max(1e-12 * half);
        let turned = |a: &Potential, i: usize, j: usize| {
            let [x, y, z] = a.hessian;
            let (v, w) = (r[i], r[j]);
            v[0] * (x * w[0] + y * w[1]) + v[1] * (y * w[0] + z * w[1])
        };
        let det = turned(here, 0, 0) * turned(here, 1, 1) - turned(here, 0, 1).powi(2);
        let least = epsilon / 40.0 * TAU / (det.sqrt() * h[0] * h[1]);
        let (mut ends, mut missed) = ([[0; 2]; 2], 0.0);
        for axis in 0..2 {
            let (across, line) = (r[axis], r[1 - axis]);
            let sd = (turned(here, 1 - axis, 1 - axis) / det).sqrt();
            for (side, sign) in [-1.0, 1.0].into_iter().enumerate() {
                let mut k = ((2.0 * (2.0 / epsilon).ln()).sqrt() * sd / h[axis]).ceil().min(MOST);
                let mut beyond = f64::INFINITY;
                while k < MOST {
                    let edge = along(u, sign * k * h[axis], across);
                    let (there, inward) = self.along_line(edge, line, p);
                    let rise = sign * h[axis] * dot(across, there.gradient);
                    if rise > 0.0 {
                        let wide = (0.5 * inward * inward / p).exp() * (1.0 + (TAU / p).sqrt() / h[1 - axis]);
                        beyond = (here.value - there.value).exp() * wide / rise.exp_m1();
                        let more = ((beyond / least).ln() / rise).ceil().clamp(0.0, MOST - k);
                        beyond *= (-more * rise).exp();
                        k += more;
                        break;
                    }
                    k += (k / 4.0).ceil().max(1.0);
                }
                ends[axis][side] = k as i64;
                missed += beyond;
            }
        }
        (ends, missed)
    }

    /// The minimum of ψ along a line, nearly, and the slope along the line there.
    fn along_line(&self, edge: [f64; 2], line: [f64; 2], p: f64) -> (Potential, f64) {
        let mut x = edge;
        let mut here = self.potential(x);
        let slope = |a: &Potential| dot(line, a.gradient);
        for _ in 0..STEPS {
            let [a, b, c] = here.hessian;
            let curvature = line[0] * (a * line[0] + b * line[1]) + line[1] * (b * line[0] + c * line[1]);
            if slope(&here).powi(2) <= 0.25 * p {
                break;
            }
            let (newton, mut scale) = (-slope(&here) / curvature, 1.0);
            while scale > 1e-9 {
                let trial = along(x, scale * newton, line);
                let there = self.potential(trial);
                if there.value <= here.value - 1e-4 * scale * newton.abs() * slope(&here).abs() {
                    (x, here) = (trial, there);
                    break;
                }
                scale *= 0.5;
            }
            if scale <= 1e-9 {
                break;
            }
        }
        (here, slope(&here))
    }

    /// Evaluates the nodes, line by line; returns Σ e^{ψ(û) − ψ}.
    fn fill(
        &self,
        plane: &mut Plane,
        u: [f64; 2],
        here: &Potential,
        r: [[f64; 2]; 2],
        h: [f64; 2],
        ends: [[i64; 2]; 2],
    ) -> f64 {
        let n = self.t.len();
        let wide = ((ends[1][0] + ends[1][1] + 1) as usize).next_multiple_of(LANES);
        let lines = (ends[0][0] + ends[0][1] + 1) as usize;
        let count = lines * wide;
        let Plane { nodes, u: points, t, s, line, slope, curvature, .. } = plane;
        let y2: Vec<f64> = (0..wide).map(|k| (k as i64 - ends[1][0]) as f64 * h[1]).collect();
        s.clear();
        s.extend(self.s.iter().map(|s| dot(*s, r[1])));
        nodes.u.clear();
        nodes.u.resize(count, 0.0);
        nodes.p.clear();
        points.iter_mut().for_each(Vec::clear);
        nodes.slope.resize(n * count, 0.0);
        nodes.curvature.resize(n * count, 0.0);
        slope.resize(n * wide, 0.0);
        curvature.resize(n * wide, 0.0);
        for k in 0..lines {
            let y1 = (k as i64 - ends[0][0]) as f64 * h[0];
            let base = along(u, y1, r[0]);
            t.clear();
            t.extend((0..n).map(|i| self.t[i] + dot(self.s[i], base)));
            line.clear();
            for y in &y2 {
                let at = along(base, *y, r[1]);
                line.push(0.5 * dot(at, at));
                (0..2).for_each(|j| points[j].push(at[j]));
            }
            self.likelihood.lines(t, s, self.data, self.weight, &y2, line, slope, curvature);
            nodes.p.extend(line.iter());
            for i in 0..n {
                let to = i * count + k * wide;
                nodes.slope[to..to + wide].copy_from_slice(&slope[i * wide..][..wide]);
                nodes.curvature[to..to + wide].copy_from_slice(&curvature[i * wide..][..wide]);
            }
        }
        nodes.weigh(here.value)
    }
}
