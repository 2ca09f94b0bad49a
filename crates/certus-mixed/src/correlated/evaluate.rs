//! F = −log L − log prior at (β, Σ): the groups' integrals with their errors, the gradient and the Hessian in (β, S),
//! summed over pieces of the rows (docs/mixed.md, G1).
//!
//! Σ = W M(S) Wᵀ, W = [T, τU] a [`Frame`] of rank ρ: b = (T + τU S₂₁)v, v ~ N(0, e^{S₁₁}). At fixed v the density is
//! ψ = Σ wφ(x·β + z·(T + τU S₂₁)v) + ½vᵀe^{−S₁₁}v + ½tr S₁₁, so that F′ = E ψ′ and F″ = E ψ″ − Cov(ψ′) with, at S = 0,
//!
//! ```text
//! ψ′:  β Σ wφ′x,  S₁₁ ½(tr B − uᵀBu),  S₂₁ Σ wφ′z̃_l u_j;   z̃ = τUᵀz
//! ψ″:  ββ Σ wφ″xxᵀ,  S₁₁S₁₁ ½uᵀ(BB′ + B′B)u/2,  βS₂₁ Σ wφ″x z̃_l u_j,  S₂₁S₂₁ Σ wφ″z̃_l z̃_m u_j u_n.
//! ```

use certus::linalg;

use super::error::Error;
use super::errors::Wrong;
use super::lattice::{GroupRows, LANES, Lattice, MOST_NODES, ROUNDING};
use super::nodes::{Line, Moments, Scores};
use super::rows::Model;
use super::space::{MOST_EFFECTS, Vector, dot};
use crate::collapsed::compensated::Compensated;
use crate::linear::chart::Frame;

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Options {
    /// Whether the gradient and the Hessian are wanted.
    pub(super) second: bool,
    /// The relative error of a group's integral to aim at.
    pub(super) epsilon: f64,
    /// Whether all steps are halved, for a check.
    pub(super) halved: bool,
}

/// F at a point.
#[derive(Clone, Debug)]
pub(super) struct Objective {
    /// F.
    pub(super) value: f64,
    pub(super) log_likelihood: f64,
    /// A bound on the error of log L by quadrature, with rounding allowed for; infinite where none is proved.
    pub(super) error: f64,
    /// In (β, S), S in the order of [`Frame::basis`].
    pub(super) gradient: Vec<f64>,
    /// Bounds on its errors by quadrature; infinite where none are proved.
    pub(super) gradient_error: Vec<f64>,
    pub(super) hessian: Vec<f64>,
    /// WᵀΓW, Γ = ∂F/∂Σ, in its block outside of the range of Σ, k × k.
    pub(super) outward: Vec<f64>,
    /// Nodes of all groups.
    pub(super) nodes: f64,
}

/// Sums over groups.
struct Sums {
    log: Compensated,
    error: f64,
    size: f64,
    nodes: f64,
    /// The gradient, its errors, the Hessian, the outward block.
    flat: Vec<f64>,
    failed: Option<Error>,
}

impl Sums {
    fn add(mut self, other: Self) -> Self {
        self.log.join(other.log);
        self.error += other.error;
        self.size += other.size;
        self.nodes += other.nodes;
        self.flat.iter_mut().zip(&other.flat).for_each(|(x, y)| *x += y);
        self.failed = self.failed.or(other.failed);
        self
    }
}

/// Memory of a piece of work.
#[derive(Default)]
pub(super) struct Room {
    pub(super) line: Line,
    pub(super) moments: Moments,
    t: Vec<f64>,
    reach: Vec<f64>,
    /// Wᵀz.
    full: Vec<Vector>,
    s: Vec<Vector>,
    sizes: Vec<f64>,
}

/// The directions (i, j) of a frame's basis, i ≥ j: S₁₁ where i is below the rank, else S₂₁.
pub(super) fn pairs(frame: &Frame) -> Vec<(usize, usize)> {
    (0..frame.rank).flat_map(|j| (j..frame.k).map(move |i| (i, j))).collect()
}

/// The standard deviations of Σ.
pub(super) fn sds(frame: &Frame) -> Vec<f64> {
    let (k, t) = (frame.k, frame.t());
    (0..k).map(|i| (0..k).map(|j| t[j * k + i].powi(2)).sum::<f64>().sqrt()).collect()
}

impl Model {
    /// Works on the rows of group g at (β, Σ), with Wᵀz of the rows.
    pub(super) fn with_group<T>(
        &self,
        g: usize,
        beta: &[f64],
        frame: &Frame,
        room: &mut Room,
        work: impl FnOnce(&GroupRows<'_>, &[Vector], &mut Line, &mut Moments) -> T,
    ) -> T {
        let (rows, p, k) = (&*self.sorted, self.design.fixed, frame.k);
        let range = rows.first[g]..rows.first[g + 1];
        let Room { line, moments, t, reach, full, s, sizes } = room;
        t.clear();
        reach.clear();
        full.clear();
        s.clear();
        sizes.clear();
        for i in range.clone() {
            let (mut sum, mut size) = (0.0, 0.0);
            for (x, b) in rows.x[i * p..][..p].iter().zip(beta) {
                sum += x * b;
                size += (x * b).abs();
            }
            t.push(sum + rows.offset[i]);
            reach.push(size + rows.offset[i].abs());
            let mut own = [0.0; MOST_EFFECTS];
            for j in 0..k {
                own[j] = (0..k).map(|l| frame.w[j * k + l] * rows.z[i][l]).sum();
            }
            full.push(own);
            own[frame.rank..].fill(0.0);
            s.push(own);
            let columns = frame.w.chunks_exact(k).take(frame.rank);
            let size = |w: &[f64]| w.iter().zip(&rows.z[i]).map(|(w, z)| (w * z).abs()).sum::<f64>();
            sizes.push(columns.map(size).sum());
        }
        let group = GroupRows {
            likelihood: &*self.likelihood,
            k: frame.rank,
            t,
            reach,
            columns: p,
            s,
            sizes,
            data: &rows.data[range.clone()],
            weight: &rows.weight[range],
        };
        work(&group, full, line, moments)
    }

    /// F at (β, Σ).
    pub(super) fn evaluate(&self, beta: &[f64], frame: &Frame, options: Options) -> Result<Objective, Error> {
        let not_finite = || Error::NotFinite { sds: sds(frame) };
        if beta.iter().chain(&frame.w).any(|x| !x.is_finite()) {
            return Err(not_finite());
        }
        let p = self.design.fixed;
        let directions = pairs(frame);
        let d = p + directions.len();
        let pieces = self.sorted.pieces.len() - 1;
        let piece = |piece: usize| self.piece(piece, beta, frame, &directions, options);
        let sums = certus::parallel::reduce(pieces, 1, &piece, &Sums::add).ok_or(Error::NoRows)?;
        if self.stopped() {
            return Err(Error::Stopped);
        }
        if let Some(error) = sums.failed {
            return Err(error);
        }
        let log = sums.log.value();
        let centred: Vec<f64> = beta.iter().zip(self.prior.mean()).map(|(b, m)| b - m).collect();
        let mut pull = vec![0.0; p];
        self.prior.add_precision_times(&centred, &mut pull);
        let energy = 0.5 * linalg::dot(&centred, &pull) + self.prior.constant();
        if !(energy - log).is_finite() || sums.flat.iter().take(d).any(|x| !x.is_finite()) {
            return Err(not_finite());
        }
        let mut out = Objective {
            value: energy - log,
            log_likelihood: log,
            error: (sums.error + ROUNDING * sums.size) * (1.0 + 1e-9),
            gradient: Vec::new(),
            gradient_error: Vec::new(),
            hessian: Vec::new(),
            outward: Vec::new(),
            nodes: sums.nodes,
        };
        if options.second {
            let mut flat = sums.flat;
            out.outward = flat.split_off(2 * d + d * d);
            out.hessian = flat.split_off(2 * d);
            out.gradient_error = flat.split_off(d);
            out.gradient = flat;
            out.gradient.iter_mut().zip(&pull).for_each(|(g, p)| *g += p);
            let mut block = vec![0.0; p * p];
            self.prior.add_to(&mut block);
            (0..p * p).for_each(|e| out.hessian[e / p * d + e % p] += block[e]);
        }
        Ok(out)
    }

    fn piece(
        &self,
        piece: usize,
        beta: &[f64],
        frame: &Frame,
        directions: &[(usize, usize)],
        options: Options,
    ) -> Sums {
        let (rows, p, k) = (&*self.sorted, self.design.fixed, frame.k);
        let d = p + directions.len();
        let length = if options.second { 2 * d + d * d + k * k } else { 0 };
        let mut out = Sums {
            log: Compensated::default(),
            error: 0.0,
            size: 0.0,
            nodes: 0.0,
            flat: vec![0.0; length],
            failed: None,
        };
        let mut room = Room::default();
        for g in rows.pieces[piece]..rows.pieces[piece + 1] {
            // the sums are not used then
            if self.stopped() {
                break;
            }
            let x = &rows.x[rows.first[g] * p..rows.first[g + 1] * p];
            let failed = self.with_group(g, beta, frame, &mut room, |group, full, line, moments| {
                let mut lattice = group.lattice([0.0; MOST_EFFECTS], options.epsilon);
                if options.halved {
                    lattice = lattice.halved();
                }
                let nodes = lattice.nodes();
                if nodes > MOST_NODES {
                    let level = rows.codes[g];
                    return Some(Error::TooManyNodes { level, nodes, most: MOST_NODES, sds: sds(frame) });
                }
                let (rank, outside) = (frame.rank, k - frame.rank);
                let scores = Scores { x, p, full, rank, outside, directions, with_u: false };
                moments.of(group, &lattice, line, options.second.then_some(&scores));
                let total = lattice.volume() * moments.sum;
                let log = total.ln() - lattice.least - 0.5 * rank as f64 * std::f64::consts::TAU.ln();
                let error = lattice.error(total);
                out.log.add(log);
                out.error += if error < 0.5 { error / (1.0 - error) } else { f64::INFINITY };
                out.error += group.rounding(&lattice, moments, log);
                out.size += log.abs();
                out.nodes += moments.nodes;
                if options.second {
                    let wrong = Wrong::new(group, &lattice, moments, total, f64::EPSILON * log.abs());
                    add(&mut out.flat, &wrong, group, moments, &scores);
                }
                None
            });
            if failed.is_some() {
                out.failed = failed;
                break;
            }
        }
        out
    }
}

/// Adds a group's part of the gradient, its errors, the Hessian and the outward block.
fn add(flat: &mut [f64], wrong: &Wrong<'_>, group: &GroupRows<'_>, moments: &Moments, scores: &Scores<'_>) {
    let (p, n, dirs) = (scores.p, group.t.len(), scores.directions.len());
    let (d, width, k) = (p + dirs, scores.width(), scores.rank + scores.outside);
    let m = width + dirs;
    let (gradient, rest) = flat.split_at_mut(d);
    let (errors, rest) = rest.split_at_mut(d);
    let (hessian, outward) = rest.split_at_mut(d * d);
    for i in 0..n {
        let x = &scores.x[i * p..][..p];
        let error = wrong.slope(i);
        for j in 0..p {
            gradient[j] += x[j] * moments.slope[i];
            errors[j] += x[j].abs() * error;
            (0..p).for_each(|l| hessian[j * d + l] += moments.curvature[i] * x[j] * x[l]);
        }
    }
    let root = std::f64::consts::FRAC_1_SQRT_2;
    for (at, &(i, j)) in scores.directions.iter().enumerate() {
        let to = p + at;
        if i < scores.rank {
            gradient[to] += moments.mean[width + at] + if i == j { 0.5 } else { 0.0 };
            errors[to] += wrong.square() * if i == j { 0.5 } else { root };
        } else {
            gradient[to] += moments.mean[width + at];
            errors[to] +=
                root * (0..n).map(|row| scores.full[row][i].abs() * wrong.product(row)).sum::<f64>();
        }
        // E ψ″ of two directions, and of a direction and the coefficients
        for (other, &(l, m)) in scores.directions.iter().enumerate() {
            let bend = if i < scores.rank && l < scores.rank {
                0.5 * jordan((i, j), (l, m), &moments.uu)
            } else if i >= scores.rank && l >= scores.rank {
                let each = |row: usize| {
                    scores.full[row][i] * scores.full[row][l] * moments.second[9 * row + 3 * j + m]
                };
                0.5 * (0..n).map(each).sum::<f64>()
            } else {
                0.0
            };
            hessian[to * d + p + other] += bend;
        }
        if i >= scores.rank {
            for c in 0..p {
                let each =
                    |row: usize| scores.x[row * p + c] * scores.full[row][i] * moments.first[3 * row + j];
                let bend = root * (0..n).map(each).sum::<f64>();
                hessian[to * d + c] += bend;
                hessian[c * d + to] += bend;
            }
        }
    }
    // − Cov, by rows where they are fewer than coefficients
    let cov = |a: usize, b: usize| moments.covariance[a * m + b];
    let spread: Vec<f64> = if scores.by_rows() {
        // XᵀC, p × m
        (0..p * m).map(|e| (0..n).map(|i| scores.x[i * p + e / m] * cov(i, e % m)).sum::<f64>()).collect()
    } else {
        (0..p * m).map(|e| cov(e / m, e % m)).collect()
    };
    for j in 0..p {
        for l in 0..p {
            hessian[j * d + l] -= if scores.by_rows() {
                (0..n).map(|i| spread[j * m + i] * scores.x[i * p + l]).sum::<f64>()
            } else {
                spread[j * m + l]
            };
        }
        for at in 0..dirs {
            let c = spread[j * m + width + at];
            hessian[j * d + p + at] -= c;
            hessian[(p + at) * d + j] -= c;
        }
    }
    for a in 0..dirs {
        (0..dirs).for_each(|b| hessian[(p + a) * d + p + b] -= cov(width + a, width + b));
    }
    for a in scores.rank..k {
        for b in scores.rank..k {
            let each = |i: usize| moments.curvature[i] * scores.full[i][a] * scores.full[i][b];
            outward[a * k + b] += 0.5 * ((0..n).map(each).sum::<f64>() - moments.outer[3 * a + b]);
        }
    }
}

/// ⟨(BB′ + B′B)/2, M⟩ of two matrices of the orthonormal basis.
fn jordan(a: (usize, usize), b: (usize, usize), m: &[Vector; MOST_EFFECTS]) -> f64 {
    let entries = |(i, j): (usize, usize)| -> Vec<(usize, usize, f64)> {
        if i == j {
            vec![(i, i, 1.0)]
        } else {
            let value = std::f64::consts::FRAC_1_SQRT_2;
            vec![(i, j, value), (j, i, value)]
        }
    };
    let mut sum = 0.0;
    for &(r, s, x) in &entries(a) {
        for &(t, u, y) in &entries(b) {
            if s == t {
                sum += x * y * 0.5 * (m[r][u] + m[u][r]);
            }
        }
    }
    sum
}

impl GroupRows<'_> {
    /// What rounding may add to the error of the logarithm (docs/collapsed.md, K11).
    fn rounding(&self, lattice: &Lattice, moments: &Moments, log: f64) -> f64 {
        let u = lattice.centre;
        let rounded = |i: usize| {
            let (datum, w) = (self.data[i], self.weight[i]);
            let s: f64 = self.s[i].iter().map(|s| s.abs()).sum();
            let spread = self.likelihood.first_derivative_spread(s, datum);
            let slope = moments.slope[i].abs() + w * spread;
            let blur = 0.5
                * f64::EPSILON
                * ((self.columns + 8) as f64 * self.reach[i] + 24.0 * self.sizes[i] * moments.farthest);
            let reach = self.t[i].abs() + s * moments.farthest;
            slope * blur + ROUNDING * w * self.likelihood.terms(reach, slope / w, datum)
        };
        let own = log.abs() + (dot(u, u).sqrt() + 4.0).powi(2) + 2.0;
        let sums = f64::EPSILON * (moments.nodes / LANES as f64);
        ROUNDING * own + sums + (0..self.t.len()).map(rounded).sum::<f64>()
    }
}
