//! First derivatives of the criterion: u = ZᵀPr, the diagonal blocks of R = ZᵀPZ, and products with R
//! (docs/mixed.md, L0).

use certus::{linalg, parallel};

use super::blocks::{Blocks, add_times, scale};
use super::components::NOWHERE;
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

    /// The blocks G_gA_g − G_gB_gNB_gᵀG_gᵀ of factor 1.
    fn first_blocks(&self, point: &Point<'_>) -> Vec<f64> {
        let s = point.statistics;
        let size = s.layout.factors[0].effects.pow(2);
        let levels = s.components.all_levels();
        let mut sorted = vec![0.0; s.own[0].len()];
        parallel::for_each_piece(&mut sorted, PIECE * size, 1, &|piece, mut out| {
            let mut at = piece * PIECE;
            while !out.is_empty() {
                let (component, end) = s.components.run(at);
                let count = (end - at).min(out.len() / size);
                let (own, after) = out.split_at_mut(count * size);
                let levels = &levels[at..at + count];
                if component != NOWHERE && s.components.dense(component) {
                    self.dense_blocks(point, component, levels, own);
                } else {
                    self.sparse_blocks(point, component, levels, own);
                }
                (at, out) = (at + count, after);
            }
        });
        let mut out = vec![0.0; sorted.len()];
        for (&g, block) in levels.iter().zip(sorted.chunks_exact(size)) {
            out[g as usize * size..][..size].copy_from_slice(block);
        }
        out
    }

    /// The same for levels of one component whose columns most of them meet.
    fn dense_blocks(&self, point: &Point<'_>, component: usize, levels: &[u32], out: &mut [f64]) {
        let s = point.statistics;
        let (k, n) = (s.layout.factors[0].effects, s.components.size(component));
        let mut u = Vec::new();
        let mut rows = vec![0.0; n * k * levels.len()];
        for (rows, &g) in rows.chunks_exact_mut(n * k).zip(levels) {
            kept_meeting(point, g as usize, &mut u);
            for (t, &column) in s.meeting(g as usize).0.iter().enumerate() {
                (0..k).for_each(|i| rows[i * n + s.components.place(column)] = u[t * k + i]);
            }
        }
        let mut products = vec![0.0; rows.len()];
        linalg::add_square_times(self.n.block(component), n, false, &rows, &mut products);
        for ((out, &g), products) in out.chunks_exact_mut(k * k).zip(levels).zip(products.chunks_exact(n * k))
        {
            kept_own(point, g as usize, out);
            kept_meeting(point, g as usize, &mut u);
            for (t, &column) in s.meeting(g as usize).0.iter().enumerate() {
                for j in 0..k {
                    let by = products[j * n + s.components.place(column)];
                    (0..k).for_each(|i| out[j * k + i] -= u[t * k + i] * by);
                }
            }
        }
    }

    /// The same for levels that meet few columns, or none.
    fn sparse_blocks(&self, point: &Point<'_>, component: usize, levels: &[u32], out: &mut [f64]) {
        let s = point.statistics;
        let k = s.layout.factors[0].effects;
        let (n, block) = match component {
            NOWHERE => (0, &[][..]),
            c => (s.components.size(c), self.n.block(c)),
        };
        let (mut u, mut nu) = (Vec::new(), vec![0.0; k]);
        for (out, &g) in out.chunks_exact_mut(k * k).zip(levels) {
            kept_own(point, g as usize, out);
            kept_meeting(point, g as usize, &mut u);
            let columns = s.meeting(g as usize).0;
            for (t, &column) in columns.iter().enumerate() {
                // N u of this column, for every effect
                nu.fill(0.0);
                let row = &block[s.components.place(column) * n..][..n];
                for (v, &other) in columns.iter().enumerate() {
                    let by = row[s.components.place(other)];
                    (0..k).for_each(|j| nu[j] += by * u[v * k + j]);
                }
                for j in 0..k {
                    (0..k).for_each(|i| out[j * k + i] -= u[t * k + i] * nu[j]);
                }
            }
        }
    }

    /// The blocks of another factor: Λ⁻ᵀ(I − S⁻¹)Λ⁻¹ or K − KNK.
    fn rest_blocks(&self, point: &Point<'_>, f: usize) -> Vec<f64> {
        let (s, factor) = (point.statistics, point.statistics.layout.factors[f]);
        let (k, start) = (factor.effects, factor.start - s.layout.factors[0].columns());
        if let Some(inverse) = &self.inverted[f] {
            let turned = small::transposed(inverse, k);
            let mut out = Vec::with_capacity(factor.columns() * k);
            let mut block = vec![0.0; k * k];
            for at in (0..factor.levels).map(|l| start + l * k) {
                for j in 0..k {
                    for i in 0..k {
                        block[j * k + i] = f64::from(u8::from(i == j)) - self.inverse.at(at + i, at + j);
                    }
                }
                out.extend(small::congruence(&turned, &block, k));
            }
            return out;
        }
        // per piece of components, the blocks of their levels
        let pieces = s.components.pieces();
        let mut found = vec![Vec::new(); pieces.len()];
        parallel::for_each_piece(&mut found, 1, 1, &|i, out| {
            let mut nk = Vec::new();
            for c in pieces[i].clone() {
                let (n, part) = (s.components.size(c), s.components.part(c, f));
                let own = &point.k.block(c)[part.start * n..part.end * n];
                nk.clear();
                nk.resize(own.len(), 0.0);
                add_times(self.n.block(c), n, own, &mut nk);
                for level in (0..part.len()).step_by(k) {
                    for (b, a) in (level..level + k).flat_map(|b| (level..level + k).map(move |a| (b, a))) {
                        let through = linalg::dot(&own[a * n..][..n], &nk[b * n..][..n]);
                        out[0].push(own[b * n + part.start + a] - through);
                    }
                }
            }
        });
        let mut out = vec![0.0; factor.columns() * k];
        let mut found = found.iter().flatten();
        for c in 0..s.components.count() {
            for column in &s.components.members(c)[s.components.part(c, f)] {
                let at = (*column as usize - start) * k;
                out[at..at + k].iter_mut().zip(&mut found).for_each(|(o, x)| *o = *x);
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

/// U_g = G_gB_g, one column of k numbers per column of Z₂ that the level meets.
pub(super) fn kept_meeting(point: &Point<'_>, g: usize, out: &mut Vec<f64>) {
    let k = point.statistics.layout.factors[0].effects;
    let (kept, (_, b)) = (&point.kept[g * k * k..][..k * k], point.statistics.meeting(g));
    out.resize(b.len(), 0.0);
    for (out, b) in out.chunks_exact_mut(k).zip(b.chunks_exact(k)) {
        (0..k).for_each(|i| out[i] = (0..k).map(|l| kept[l * k + i] * b[l]).sum());
    }
}

/// G_gA_g.
fn kept_own(point: &Point<'_>, g: usize, out: &mut [f64]) {
    let (s, k) = (point.statistics, point.statistics.layout.factors[0].effects);
    let at = g * k * k;
    small::product_into(&point.kept[at..at + k * k], false, &s.own[0][at..at + k * k], k, out);
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
