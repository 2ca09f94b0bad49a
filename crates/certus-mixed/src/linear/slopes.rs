//! First derivatives of the criterion: u = ZᵀPr, the diagonal blocks of R = ZᵀPZ, and products with R
//! (docs/mixed.md, L0).

use certus::{linalg, parallel};

use super::blocks::{Blocks, scale};
use super::diagonal;
use super::point::{Criterion, PIECE, Point};
use super::small;

/// What the derivatives in any direction are made of.
pub(super) struct Slopes {
    /// S⁻¹.
    pub(super) inverse: Blocks,
    /// N = Λ₂S⁻¹Λ₂ᵀ.
    pub(super) n: Blocks,
    /// Per factor T⁻¹, where R is Λ⁻ᵀ(I − S⁻¹)Λ⁻¹ and not K − KNK: whichever keeps its digits.
    pub(super) inverted: Vec<Option<Vec<f64>>>,
    /// ZᵀV⁻¹[X r], all columns of Z × (p + 1).
    pub(super) d: Vec<f64>,
    /// (XᵀV⁻¹X)⁻¹.
    pub(super) xi: Vec<f64>,
    /// β̂ − β₀.
    pub(super) beta: Vec<f64>,
    /// u.
    pub(super) u: Vec<f64>,
    /// Per factor and level, the diagonal blocks of ZᵀV⁻¹Z.
    pub(super) blocks: Vec<Vec<f64>>,
    /// Per factor, the sum over levels of the diagonal blocks of R (REML) or ZᵀV⁻¹Z (ML).
    pub(super) trace: Vec<Vec<f64>>,
    /// Per factor, Σ uuᵀ over levels.
    pub(super) outer: Vec<Vec<f64>>,
}

impl Slopes {
    pub(super) fn new(point: &Point<'_>) -> Self {
        let (s, p) = (point.statistics, point.statistics.layout.fixed);
        let (width, all) = (p + 1, s.layout.columns());
        let inverted: Vec<_> = (0..s.layout.factors.len()).map(|f| inverse_form(point, f)).collect();
        let inverse = point.l.inverse_of_factor();
        let mut n = inverse.clone();
        n.congruent(&s.layout, &point.t, false);
        let mut lx = vec![0.0; p * p];
        (0..p).for_each(|j| lx[j * p..][..p].copy_from_slice(&point.lx[j * width..][..p]));
        let mut xi = small::identity(p);
        for column in xi.chunks_exact_mut(p.max(1)) {
            small::forward(&lx, p, column);
            small::backward(&lx, p, column);
        }
        let row: Vec<f64> = (0..p).map(|j| point.lx[j * width + p]).collect();
        let mut beta = row;
        small::backward(&lx, p, &mut beta);
        let mut out = Self {
            inverse,
            n,
            inverted,
            d: vec![0.0; all * width],
            xi,
            beta,
            u: vec![0.0; all],
            blocks: Vec::new(),
            trace: Vec::new(),
            outer: Vec::new(),
        };
        out.crossed(point);
        out.blocks = vec![diagonal::first(point, &out.n)];
        for f in 1..s.layout.factors.len() {
            out.blocks.push(match &out.inverted[f] {
                Some(inverse) => diagonal::inverted(point, &out.inverse, inverse, f),
                None => diagonal::rest(point, &out.n, f),
            });
        }
        out.totals(point);
        out
    }

    /// d and u.
    fn crossed(&mut self, point: &Point<'_>) {
        let s = point.statistics;
        let (p, q, all) = (s.layout.fixed, s.layout.rest(), s.layout.columns());
        let (first, width) = (s.layout.factors[0], p + 1);
        let k = first.effects;
        let (through, rest) = self.residual(point, &point.c);
        let mut left = vec![0.0; k];
        for g in 0..first.levels {
            let kept = &point.kept[g * k * k..][..k * k];
            let (columns, b) = s.meeting(g);
            for c in 0..width {
                left.copy_from_slice(&s.cross[0][(g * width + c) * k..][..k]);
                for (t, &column) in columns.iter().enumerate() {
                    let by = through[c * q + column as usize];
                    (0..k).for_each(|i| left[i] -= b[t * k + i] * by);
                }
                for i in 0..k {
                    self.d[c * all + g * k + i] = (0..k).map(|l| kept[l * k + i] * left[l]).sum();
                }
            }
        }
        for c in 0..width {
            self.d[c * all + first.columns()..][..q].copy_from_slice(&rest[c * q..][..q]);
        }
        self.u.copy_from_slice(&self.d[p * all..]);
        for (c, beta) in self.beta.iter().enumerate() {
            for i in 0..all {
                self.u[i] -= self.d[c * all + i] * beta;
            }
        }
    }

    /// (NC, (I − KN)C) for the columns of C: Z₂ᵀV⁻¹ from Z₂ᵀV₁⁻¹.
    fn residual(&self, point: &Point<'_>, c: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let s = point.statistics;
        let q = s.layout.rest();
        if q == 0 {
            return (Vec::new(), Vec::new());
        }
        let mut scaled = c.to_vec();
        scale(&s.layout, &point.t, true, &mut scaled);
        let mut solved = vec![0.0; c.len()];
        self.inverse.add_times(&scaled, &mut solved);
        let mut through = solved.clone();
        scale(&s.layout, &point.t, false, &mut through);
        let mut out = c.to_vec();
        if self.inverted[1..].iter().any(Option::is_none) {
            let mut back = vec![0.0; c.len()];
            point.k.add_times(&through, &mut back);
            out.iter_mut().zip(&back).for_each(|(o, b)| *o -= b);
        }
        let before = s.layout.factors[0].columns();
        for (factor, inverse) in s.layout.factors.iter().zip(&self.inverted).skip(1) {
            let (Some(inverse), k) = (inverse, factor.effects) else { continue };
            for (out, from) in out.chunks_exact_mut(q).zip(solved.chunks_exact(q)) {
                let at = factor.start - before..factor.start - before + factor.columns();
                for (o, x) in out[at.clone()].chunks_exact_mut(k).zip(from[at].chunks_exact(k)) {
                    (0..k).for_each(|i| o[i] = (0..k).map(|l| inverse[i * k + l] * x[l]).sum());
                }
            }
        }
        (through, out)
    }

    /// The block of (XᵀV⁻¹X)⁻¹ that estimated coefficients take away: D_jΞD_jᵀ at column `at` of Z.
    pub(super) fn explained(&self, at: usize, k: usize) -> Vec<f64> {
        let mut out = vec![0.0; k * k];
        self.add_explained(at, k, 1.0, &mut out);
        out
    }

    fn add_explained(&self, at: usize, k: usize, sign: f64, out: &mut [f64]) {
        let (p, all) = (self.beta.len(), self.u.len());
        for j in 0..k {
            for c in 0..p {
                let by: f64 = (0..p).map(|e| self.xi[e * p + c] * self.d[e * all + at + j]).sum();
                (0..k).for_each(|i| out[j * k + i] += sign * self.d[c * all + at + i] * by);
            }
        }
    }

    /// trace and outer.
    fn totals(&mut self, point: &Point<'_>) {
        let s = point.statistics;
        let reml = point.criterion == Criterion::Reml;
        for (factor, blocks) in s.layout.factors.iter().zip(&self.blocks) {
            let k = factor.effects;
            let leaf = |piece: usize| {
                let (mut trace, mut outer) = (vec![0.0; k * k], vec![0.0; k * k]);
                for level in piece * PIECE..((piece + 1) * PIECE).min(factor.levels) {
                    let at = factor.start + level * k;
                    let block = &blocks[level * k * k..][..k * k];
                    trace.iter_mut().zip(block).for_each(|(t, b)| *t += b);
                    if reml {
                        self.add_explained(at, k, -1.0, &mut trace);
                    }
                    let u = &self.u[at..at + k];
                    for j in 0..k {
                        (0..k).for_each(|i| outer[j * k + i] += u[i] * u[j]);
                    }
                }
                (trace, outer)
            };
            let add = |mut a: (Vec<f64>, Vec<f64>), b: (Vec<f64>, Vec<f64>)| {
                a.0.iter_mut().zip(&b.0).for_each(|(a, b)| *a += b);
                a.1.iter_mut().zip(&b.1).for_each(|(a, b)| *a += b);
                a
            };
            let pieces = factor.levels.div_ceil(PIECE);
            let sums = parallel::reduce(pieces, 4, &leaf, &add);
            let (trace, outer) = sums.unwrap_or_else(|| (vec![0.0; k * k], vec![0.0; k * k]));
            self.trace.push(trace);
            self.outer.push(outer);
        }
    }

    /// R v for the columns of v.
    pub(super) fn times(&self, point: &Point<'_>, v: &[f64]) -> Vec<f64> {
        let s = point.statistics;
        let (p, q, all, first) = (s.layout.fixed, s.layout.rest(), s.layout.columns(), s.layout.factors[0]);
        let (k, n1, count) = (first.effects, first.columns(), v.len() / all);
        let mut turned = vec![0.0; n1];
        let mut met = vec![0.0; q * count];
        let mut v2 = Vec::with_capacity(q * count);
        for (v, met) in v.chunks_exact(all).zip(met.chunks_exact_mut(q.max(1))) {
            v2.extend_from_slice(&v[n1..]);
            // c₂ = Kv₂ + BᵀGᵀv₁
            for g in 0..first.levels {
                let (kept, (columns, b)) = (&point.kept[g * k * k..][..k * k], s.meeting(g));
                let turned = &mut turned[g * k..][..k];
                (0..k).for_each(|i| turned[i] = small::inner(&kept[i * k..][..k], &v[g * k..][..k]));
                for (t, &column) in columns.iter().enumerate() {
                    met[column as usize] += small::inner(&b[t * k..][..k], turned);
                }
            }
        }
        let (mut through, mut rest) = (Vec::new(), Vec::new());
        if q > 0 {
            point.k.add_times(&v2, &mut met);
            (through, rest) = self.residual(point, &met);
        }
        let mut out = vec![0.0; v.len()];
        let mut left = vec![0.0; k];
        for c in 0..count {
            let (v, out) = (&v[c * all..][..all], &mut out[c * all..][..all]);
            for g in 0..first.levels {
                let (kept, (columns, b)) = (&point.kept[g * k * k..][..k * k], s.meeting(g));
                let a = &s.own[0][g * k * k..][..k * k];
                (0..k).for_each(|i| left[i] = (0..k).map(|l| a[l * k + i] * v[g * k + l]).sum());
                for (t, &column) in columns.iter().enumerate() {
                    let by = v2[c * q + column as usize] - through[c * q + column as usize];
                    (0..k).for_each(|i| left[i] += b[t * k + i] * by);
                }
                (0..k).for_each(|i| out[g * k + i] = (0..k).map(|l| kept[l * k + i] * left[l]).sum());
            }
            out[n1..].copy_from_slice(&rest[c * q..][..q]);
            let along: Vec<f64> = (0..p).map(|j| small::inner(&self.d[j * all..][..all], v)).collect();
            for j in 0..p {
                let by: f64 = (0..p).map(|e| self.xi[e * p + j] * along[e]).sum();
                out.iter_mut().zip(&self.d[j * all..]).for_each(|(o, d)| *o -= d * by);
            }
        }
        out
    }
}

/// T⁻¹ of a factor of Z₂ if all its scales are above what its columns of K allow to tell from 0 (λ² max K_jj ≥ 1).
fn inverse_form(point: &Point<'_>, f: usize) -> Option<Vec<f64>> {
    if f == 0 {
        return None;
    }
    let s = point.statistics;
    let factor = s.layout.factors[f];
    let (k, start) = (factor.effects, factor.start - s.layout.factors[0].columns());
    let columns = |e: usize| (start + e..start + factor.columns()).step_by(k);
    let size = |e: usize| columns(e).map(|at| point.k.at(at, at)).fold(0.0, f64::max);
    let sizes: Vec<f64> = (0..k).map(size).collect();
    // TᵀdiagKT has smallest eigenvalue ≥ 1
    let t = &point.t[f];
    let mut gram = vec![0.0; k * k];
    for j in 0..k {
        for i in 0..k {
            gram[j * k + i] = (0..k).map(|l| t[i * k + l] * sizes[l] * t[j * k + l]).sum();
        }
    }
    let (least, _) = linalg::extreme_eigenvalues(&gram, k)?;
    if least >= 1.0 { small::inverse(t, k) } else { None }
}
