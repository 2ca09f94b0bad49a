//! First derivatives of the criterion: u = ZᵀPr, the diagonal blocks of R = ZᵀPZ, and products with R
//! (docs/mixed.md, L0).

use certus::{linalg, parallel};

use super::point::{Criterion, PIECE, Point, scale, transpose};
use super::small;

/// What the derivatives in any direction are made of.
pub(super) struct Slopes {
    /// S⁻¹.
    pub(super) inverse: Vec<f64>,
    /// N = Λ₂S⁻¹Λ₂ᵀ.
    pub(super) n: Vec<f64>,
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
        let (q, width, all) = (s.layout.rest(), p + 1, s.layout.columns());
        let inverted: Vec<_> = (0..s.layout.factors.len()).map(|f| inverse_form(point, f)).collect();
        let inverse = if q > 0 { linalg::inverse_of_factor(&point.l, q) } else { Vec::new() };
        let mut n = inverse.clone();
        if q > 0 {
            scale(s, &point.t, false, &mut n);
            transpose(&mut n, q);
            scale(s, &point.t, false, &mut n);
        }
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
        out.blocks = vec![out.first_blocks(point)];
        for f in 1..s.layout.factors.len() {
            out.blocks.push(out.rest_blocks(point, f));
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
        for g in 0..first.levels {
            let kept = &point.kept[g * k * k..][..k * k];
            let (columns, b) = s.meeting(g);
            for c in 0..width {
                let mut left = s.cross[0][(g * width + c) * k..][..k].to_vec();
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
        scale(s, &point.t, true, &mut scaled);
        let mut solved = vec![0.0; c.len()];
        linalg::add_square_times(&self.inverse, q, false, &scaled, &mut solved);
        let mut through = solved.clone();
        scale(s, &point.t, false, &mut through);
        let mut out = c.to_vec();
        if self.inverted[1..].iter().any(Option::is_none) {
            let mut back = vec![0.0; c.len()];
            linalg::add_square_times(&point.k, q, false, &through, &mut back);
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

    /// The blocks G_gA_g − G_gB_gNB_gᵀG_gᵀ of factor 1.
    fn first_blocks(&self, point: &Point<'_>) -> Vec<f64> {
        let s = point.statistics;
        let (k, q) = (s.layout.factors[0].effects, s.layout.rest());
        let mut out = vec![0.0; s.own[0].len()];
        parallel::for_each_piece(&mut out, PIECE * k * k, 1, &|piece, out| {
            let (mut u, mut nu) = (Vec::new(), Vec::new());
            let count = out.len() / (k * k);
            let mut products = Vec::new();
            if s.dense {
                let mut rows = vec![0.0; q * k * count];
                for g in 0..count {
                    kept_meeting(point, piece * PIECE + g, &mut u);
                    for (t, &column) in s.meeting(piece * PIECE + g).0.iter().enumerate() {
                        (0..k).for_each(|i| rows[(g * k + i) * q + column as usize] = u[t * k + i]);
                    }
                }
                products = vec![0.0; rows.len()];
                linalg::add_square_times(&self.n, q, false, &rows, &mut products);
            }
            for (g, out) in out.chunks_exact_mut(k * k).enumerate() {
                let level = piece * PIECE + g;
                let kept = &point.kept[level * k * k..][..k * k];
                small::product_into(kept, false, &s.own[0][level * k * k..][..k * k], k, out);
                kept_meeting(point, level, &mut u);
                let columns = s.meeting(level).0;
                for (t, &column) in columns.iter().enumerate() {
                    // N u of this column, for every effect
                    nu.clear();
                    if s.dense {
                        nu.extend((0..k).map(|j| products[(g * k + j) * q + column as usize]));
                    } else {
                        nu.resize(k, 0.0);
                        let row = &self.n[column as usize * q..][..q];
                        for (v, &other) in columns.iter().enumerate() {
                            let by = row[other as usize];
                            (0..k).for_each(|j| nu[j] += by * u[v * k + j]);
                        }
                    }
                    for j in 0..k {
                        (0..k).for_each(|i| out[j * k + i] -= u[t * k + i] * nu[j]);
                    }
                }
            }
        });
        out
    }

    /// The blocks of another factor: Λ⁻ᵀ(I − S⁻¹)Λ⁻¹ or K − KNK.
    fn rest_blocks(&self, point: &Point<'_>, f: usize) -> Vec<f64> {
        let (s, factor) = (point.statistics, point.statistics.layout.factors[f]);
        let (q, k, start) = (s.layout.rest(), factor.effects, factor.start - s.layout.factors[0].columns());
        let mut out = Vec::with_capacity(factor.columns() * k);
        if let Some(inverse) = &self.inverted[f] {
            let turned = small::transposed(inverse, k);
            let mut block = vec![0.0; k * k];
            for at in (0..factor.levels).map(|l| start + l * k) {
                for j in 0..k {
                    for i in 0..k {
                        block[j * k + i] = f64::from(u8::from(i == j)) - self.inverse[(at + j) * q + at + i];
                    }
                }
                out.extend(small::congruence(&turned, &block, k));
            }
            return out;
        }
        let own = &point.k[start * q..][..factor.columns() * q];
        let mut nk = vec![0.0; own.len()];
        linalg::add_square_times(&self.n, q, false, own, &mut nk);
        for level in 0..factor.levels {
            for j in 0..k {
                for i in 0..k {
                    let (a, b) = (level * k + i, level * k + j);
                    out.push(own[b * q + start + a] - linalg::dot(&own[a * q..][..q], &nk[b * q..][..q]));
                }
            }
        }
        out
    }

    /// The block of (XᵀV⁻¹X)⁻¹ that estimated coefficients take away: D_jΞD_jᵀ at column `at` of Z.
    pub(super) fn explained(&self, at: usize, k: usize) -> Vec<f64> {
        let (p, all) = (self.beta.len(), self.u.len());
        let mut out = vec![0.0; k * k];
        for j in 0..k {
            for c in 0..p {
                let by: f64 = (0..p).map(|e| self.xi[e * p + c] * self.d[e * all + at + j]).sum();
                (0..k).for_each(|i| out[j * k + i] += self.d[c * all + at + i] * by);
            }
        }
        out
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
                        let less = self.explained(at, k);
                        trace.iter_mut().zip(&less).for_each(|(t, b)| *t -= b);
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
            linalg::add_square_times(&point.k, q, false, &v2, &mut met);
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

/// U_g = G_gB_g, one column of k numbers per column of Z₂ that the level meets.
pub(super) fn kept_meeting(point: &Point<'_>, g: usize, out: &mut Vec<f64>) {
    let k = point.statistics.layout.factors[0].effects;
    let (kept, (_, b)) = (&point.kept[g * k * k..][..k * k], point.statistics.meeting(g));
    out.resize(b.len(), 0.0);
    for (out, b) in out.chunks_exact_mut(k).zip(b.chunks_exact(k)) {
        (0..k).for_each(|i| out[i] = (0..k).map(|l| kept[l * k + i] * b[l]).sum());
    }
}

/// T⁻¹ of a factor of Z₂ if all its scales are above what its columns of K allow to tell from 0 (λ² max K_jj ≥ 1).
fn inverse_form(point: &Point<'_>, f: usize) -> Option<Vec<f64>> {
    if f == 0 {
        return None;
    }
    let s = point.statistics;
    let (factor, q) = (s.layout.factors[f], s.layout.rest());
    let (k, start) = (factor.effects, factor.start - s.layout.factors[0].columns());
    let size =
        |e: usize| (0..factor.levels).map(|l| point.k[(start + l * k + e) * (q + 1)]).fold(0.0, f64::max);
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
