//! Second derivatives of the log determinant: Σ vec(R_ij)vec(R_ij)ᵀ over the blocks of R = ZᵀPZ, from which tr(RERE)
//! follows for all directions (docs/mixed.md, L0).

use certus::{linalg, parallel};

use super::blocks::{add_times, scale_column, transpose};
use super::point::{Criterion, PIECE, Point};
use super::slopes::Slopes;
use super::small;

/// For factors f ≤ g the sum over levels of vec(R_ij)vec(R_ij)ᵀ, R_ij k_f × k_g by columns. For ML, R is ZᵀV⁻¹Z.
pub(super) struct Moments {
    sums: Vec<Vec<Vec<f64>>>,
    effects: Vec<usize>,
}

/// What a set of components adds to the sums, and its Σ_i x̃_ia x̃_icᵀ per kept factor, x̃ = L_x⁻¹D: the part −D_iΞD_jᵀ
/// of R is also between components, where its sum is the inner product of two such matrices.
#[derive(Clone)]
struct Part {
    sums: Vec<Vec<Vec<f64>>>,
    grams: Vec<Vec<f64>>,
}

impl Moments {
    pub(super) fn new(point: &Point<'_>, slopes: &Slopes) -> Self {
        let each = Each::new(point, slopes);
        let pieces = point.statistics.components.pieces();
        let leaf = |i: usize| {
            let mut out = each.nothing();
            for c in pieces[i].clone() {
                out = each.together(out, each.component(c));
            }
            out
        };
        let all = parallel::reduce(pieces.len(), 1, &leaf, &|a, b| each.together(a, b));
        let Part { mut sums, grams } = all.unwrap_or_else(|| each.nothing());
        each.finish(&mut sums, &grams);
        Self { sums, effects: each.effects }
    }

    /// tr(R E R E′) for directions E of factor f and E′ of factor g.
    pub(super) fn trace(&self, f: usize, e: &[f64], g: usize, other: &[f64]) -> f64 {
        let (f, e, g, other) = if f <= g { (f, e, g, other) } else { (g, other, f, e) };
        let (k, l, sums) = (self.effects[f], self.effects[g], &self.sums[f][g - f]);
        let mut total = 0.0;
        for (at, [a, b, c, d]) in entries(k, l) {
            total += sums[at] * e[c * k + a] * other[d * l + b];
        }
        total
    }
}

/// Entries of vec(R_ij)vec(R_ij)ᵀ, R_ij k × l: where that of R_ij's entries (a, b) and (c, d) is, and a, b, c, d.
fn entries(k: usize, l: usize) -> impl Iterator<Item = (usize, [usize; 4])> {
    let size = k * l;
    (0..size * size).map(move |at| {
        let (row, column) = (at % size, at / size);
        (at, [row % k, row / k, column % k, column / k])
    })
}

/// Γ_ac = Σ_g ũ_ga ũ_gcᵀ of a component, ũ_g = [G_gB_g, x̃_g]: the block of its columns (n × n) and that beside it
/// (n × p); index a k + c.
struct Grams {
    own: Vec<Vec<f64>>,
    beside: Vec<Vec<f64>>,
}

struct Each<'a> {
    point: &'a Point<'a>,
    slopes: &'a Slopes,
    effects: Vec<usize>,
    /// Columns of X in R: p, or 0 for ML.
    p: usize,
    /// x̃ of every column of Z, p numbers each.
    x: Vec<f64>,
    /// Per factor T⁻¹, if R₂₂ is Λ⁻ᵀ(I − S⁻¹)Λ⁻¹ for all.
    inverses: Option<Vec<Vec<f64>>>,
}

impl<'a> Each<'a> {
    fn new(point: &'a Point<'a>, slopes: &'a Slopes) -> Self {
        let layout = &point.statistics.layout;
        let p = if point.criterion == Criterion::Reml { layout.fixed } else { 0 };
        let x = whitened(point, slopes, p);
        let inverses = || -> Option<Vec<Vec<f64>>> {
            let rest: Option<Vec<Vec<f64>>> = slopes.inverted[1..].iter().cloned().collect();
            Some([vec![Vec::new()], rest?].concat())
        };
        let effects = layout.factors.iter().map(|f| f.effects).collect();
        Self { point, slopes, effects, p, x, inverses: inverses() }
    }

    /// x̃ of a column of Z.
    fn x(&self, column: usize) -> &[f64] {
        &self.x[column * self.p..][..self.p]
    }

    fn nothing(&self) -> Part {
        let k = &self.effects;
        let of = |f: usize| (f..k.len()).map(|g| vec![0.0; (k[f] * k[g]).pow(2)]).collect();
        let grams = k[1..].iter().map(|k| vec![0.0; (k * self.p).pow(2)]).collect();
        Part { sums: (0..k.len()).map(of).collect(), grams }
    }

    /// Of both sets of components: what they add, and what is between them.
    fn together(&self, mut a: Part, b: Part) -> Part {
        for (own, other) in a.sums.iter_mut().flatten().zip(b.sums.iter().flatten()) {
            own.iter_mut().zip(other).for_each(|(a, b)| *a += b);
        }
        let kept = if self.p > 0 { self.effects.len() } else { 0 };
        for (f, g) in (1..kept).flat_map(|f| (f..kept).map(move |g| (f, g))) {
            let (k, l) = (self.effects[f], self.effects[g]);
            for (at, [i, j, m, n]) in entries(k, l) {
                let both = |f: &Part, g: &Part, left: usize, right: usize| {
                    small::inner(self.gram(&f.grams[left], i, m), self.gram(&g.grams[right], j, n))
                };
                a.sums[f][g - f][at] += both(&a, &b, f - 1, g - 1) + both(&b, &a, f - 1, g - 1);
            }
        }
        for (own, other) in a.grams.iter_mut().zip(&b.grams) {
            own.iter_mut().zip(other).for_each(|(a, b)| *a += b);
        }
        a
    }

    /// Σ_i x̃_ia x̃_icᵀ, p × p, of the effects a and c of a factor.
    fn gram<'b>(&self, grams: &'b [f64], a: usize, c: usize) -> &'b [f64] {
        let size = self.p * self.p;
        let k = (grams.len() / size).isqrt();
        &grams[(a * k + c) * size..][..size]
    }

    /// Adds x̃_ia x̃_icᵀ of a level whose first column of Z is `at`.
    fn add_gram(&self, at: usize, k: usize, out: &mut [f64]) {
        let p = self.p;
        for (ac, out) in out.chunks_exact_mut((p * p).max(1)).enumerate() {
            let (x, other) = (self.x(at + ac / k), self.x(at + ac % k));
            for (out, by) in out.chunks_exact_mut(p).zip(other) {
                out.iter_mut().zip(x).for_each(|(o, x)| *o += x * by);
            }
        }
    }

    fn component(&self, c: usize) -> Part {
        let (layout, mut out) = (&self.point.statistics.layout, self.nothing());
        let (components, before) = (&self.point.statistics.components, layout.factors[0].columns());
        let grams = self.grams(c);
        self.first(c, &grams, &mut out.sums[0][0]);
        let through = self.through(c);
        self.mixed(c, &grams, &through, &mut out.sums[0][1..]);
        drop(grams);
        let r = self.rest(c, through);
        for f in 1..self.effects.len() {
            for g in f..self.effects.len() {
                self.between(c, &r, f, g, &mut out.sums[f][g - f]);
            }
            let k = self.effects[f];
            for column in components.members(c)[components.part(c, f)].iter().step_by(k) {
                self.add_gram(before + *column as usize, k, &mut out.grams[f - 1]);
            }
        }
        out
    }

    fn grams(&self, c: usize) -> Grams {
        let s = self.point.statistics;
        let (k, n, p) = (self.effects[0], s.components.size(c), self.p);
        let mut own = vec![vec![0.0; n * n]; k * k];
        let mut beside = vec![vec![0.0; n * p]; k * k];
        let (is_dense, levels) = (s.components.dense(c), s.components.levels(c));
        let (mut u, mut places) = (Vec::new(), Vec::new());
        let mut dense = vec![vec![0.0; if is_dense { n * PIECE } else { 0 }]; k];
        for (at, &g) in levels.iter().enumerate() {
            self.point.kept_meeting(g as usize, &mut u);
            places.clear();
            places.extend(s.meeting(g as usize).0.iter().map(|&column| s.components.place(column)));
            for (ac, out) in beside.iter_mut().enumerate().filter(|_| p > 0) {
                for (x, out) in self.x(g as usize * k + ac % k).iter().zip(out.chunks_exact_mut(n)) {
                    places.iter().enumerate().for_each(|(t, &place)| out[place] += u[t * k + ac / k] * x);
                }
            }
            if is_dense {
                for (t, &place) in places.iter().enumerate() {
                    (0..k).for_each(|i| dense[i][(at % PIECE) * n + place] = u[t * k + i]);
                }
                if at % PIECE + 1 == PIECE || at + 1 == levels.len() {
                    let used = (at % PIECE + 1) * n;
                    for (ac, out) in own.iter_mut().enumerate() {
                        linalg::add_outer(out, n, 1.0, &dense[ac / k][..used], &dense[ac % k][..used]);
                    }
                    dense.iter_mut().for_each(|d| d.fill(0.0));
                }
                continue;
            }
            for (ac, out) in own.iter_mut().enumerate() {
                for (v, &column) in places.iter().enumerate() {
                    let by = u[v * k + ac % k];
                    let to = &mut out[column * n..][..n];
                    places.iter().enumerate().for_each(|(t, &row)| to[row] += u[t * k + ac / k] * by);
                }
            }
        }
        Grams { own, beside }
    }

    /// Factor 1 with itself: R_gh = [g = h]E_g − ũ_gÑũ_hᵀ, Ñ = diag(N, I); Σ_gh of the second part is tr(ÑΓ_bdÑΓ_ca).
    fn first(&self, c: usize, grams: &Grams, out: &mut [f64]) {
        let (k, n) = (self.effects[0], self.point.statistics.components.size(c));
        let by = self.slopes.n.block(c);
        let times = |x: &Vec<f64>| {
            let mut product = vec![0.0; x.len()];
            add_times(by, n, x, &mut product);
            product
        };
        let products: Vec<Vec<f64>> = grams.own.iter().map(times).collect();
        let beside: Vec<Vec<f64>> = grams.beside.iter().map(times).collect();
        let mut turned = products.clone();
        turned.iter_mut().for_each(|product| transpose(product, n));
        for (at, [a, b, c, d]) in entries(k, k) {
            out[at] += small::inner(&products[b * k + d], &turned[c * k + a])
                + small::inner(&beside[b * k + d], &grams.beside[a * k + c])
                + small::inner(&beside[c * k + a], &grams.beside[d * k + b]);
        }
    }

    /// I − NK = Λ₂S⁻¹Λ₂⁻¹ (n × n), by factors of columns in the form that keeps its digits.
    fn through(&self, c: usize) -> Vec<f64> {
        let (s, slopes) = (self.point.statistics, self.slopes);
        let n = s.components.size(c);
        let mut out = vec![0.0; n * n];
        for (f, inverse) in slopes.inverted.iter().enumerate().skip(1) {
            let (columns, k) = (s.components.part(c, f), self.effects[f]);
            let at = columns.start * n..columns.end * n;
            let part = &mut out[at.clone()];
            if let Some(inverse) = inverse {
                // columns of S⁻¹Λ⁻¹
                times_levels(&slopes.inverse.block(c)[at], inverse, k, n, part);
                parallel::for_each_piece(part, n, 16, &|_, column| {
                    scale_column(&s.components, c, &s.layout, &self.point.t, false, column);
                });
            } else {
                add_times(slopes.n.block(c), n, &self.point.k.block(c)[at], part);
                part.iter_mut().for_each(|x| *x = -*x);
                for (j, column) in columns.enumerate() {
                    part[j * n + column] += 1.0;
                }
            }
        }
        out
    }

    /// Factor 1 with every other: R_gj = ũ_g[(I − NK)_j; −x̃_j].
    fn mixed(&self, c: usize, grams: &Grams, through: &[f64], out: &mut [Vec<f64>]) {
        let s = self.point.statistics;
        let (k, n, p) = (self.effects[0], s.components.size(c), self.p);
        let (members, before) = (s.components.members(c), s.layout.factors[0].columns());
        // x̃'s part of Γ times I − NK, p numbers per column
        let turn = |beside: &Vec<f64>| -> Vec<f64> {
            let each = through.chunks_exact(n);
            each.flat_map(|t| (0..p).map(|x| small::inner(&beside[x * n..][..n], t)).collect::<Vec<_>>())
                .collect()
        };
        let beside: Vec<Vec<f64>> = grams.beside.iter().map(turn).collect();
        let mut product = vec![0.0; n * n];
        for (ac, gram) in grams.own.iter().enumerate() {
            let (a, c_) = (ac / k, ac % k);
            product.fill(0.0);
            add_times(gram, n, through, &mut product);
            for (f, out) in out.iter_mut().enumerate() {
                let (l, part) = (self.effects[f + 1], s.components.part(c, f + 1));
                let size = k * l;
                for at in part.step_by(l) {
                    for (b, d) in (0..l).flat_map(|b| (0..l).map(move |d| (b, d))) {
                        let (j, m) = (at + b, at + d);
                        let x = |i: usize| self.x(before + members[i] as usize);
                        out[(d * k + c_) * size + b * k + a] +=
                            small::inner(&through[j * n..][..n], &product[m * n..][..n])
                                - small::inner(&beside[ac][j * p..][..p], x(m))
                                - small::inner(&beside[c_ * k + a][m * p..][..p], x(j));
                    }
                }
            }
        }
    }

    /// R of the component's columns: Λ⁻ᵀ(I − S⁻¹)Λ⁻¹ or K(I − NK), less DΞDᵀ.
    fn rest(&self, c: usize, through: Vec<f64>) -> Vec<f64> {
        let s = self.point.statistics;
        let (n, p) = (s.components.size(c), self.p);
        let mut out = vec![0.0; n * n];
        if let Some(inverses) = &self.inverses {
            for (f, inverse) in inverses.iter().enumerate().skip(1) {
                let (columns, k) = (s.components.part(c, f), self.effects[f]);
                let at = columns.start * n..columns.end * n;
                let part = &mut out[at.clone()];
                times_levels(&self.slopes.inverse.block(c)[at], inverse, k, n, part);
                part.iter_mut().for_each(|x| *x = -*x);
                for (j, column) in columns.clone().enumerate() {
                    (0..k).for_each(|l| part[j * n + column - j % k + l] += inverse[j % k * k + l]);
                }
            }
            parallel::for_each_piece(&mut out, n, 16, &|_, column| {
                scale_column(&s.components, c, &s.layout, inverses, true, column);
            });
        } else {
            add_times(self.point.k.block(c), n, &through, &mut out);
        }
        let (members, before) = (s.components.members(c), s.layout.factors[0].columns());
        for (out, &j) in out.chunks_exact_mut(n).zip(members).filter(|_| p > 0) {
            let by = self.x(before + j as usize);
            for (o, &i) in out.iter_mut().zip(members) {
                *o -= small::inner(self.x(before + i as usize), by);
            }
        }
        out
    }

    /// Two of the other factors, from R itself.
    fn between(&self, c: usize, r: &[f64], f: usize, g: usize, out: &mut [f64]) {
        let components = &self.point.statistics.components;
        let (k, l, n) = (self.effects[f], self.effects[g], components.size(c));
        let size = k * l;
        let mut block = vec![0.0; size];
        for j in components.part(c, g).step_by(l) {
            for i in components.part(c, f).step_by(k) {
                for b in 0..l {
                    block[b * k..][..k].copy_from_slice(&r[(j + b) * n + i..][..k]);
                }
                for y in 0..size {
                    (0..size).for_each(|x| out[y * size + x] += block[x] * block[y]);
                }
            }
        }
    }

    /// Adds what x̃ of factor 1 brings, and that its diagonal blocks are E_g less ũ_gÑũ_gᵀ.
    fn finish(&self, sums: &mut [Vec<Vec<f64>>], grams: &[Vec<f64>]) {
        let s = self.point.statistics;
        let (k, p, levels) = (self.effects[0], self.p, s.layout.factors[0].levels);
        let size = k * k;
        let leaf = |piece: usize| {
            let (mut sum, mut gram) = (vec![0.0; size * size], vec![0.0; size * p * p]);
            let (mut own, mut block) = (vec![0.0; size], vec![0.0; size]);
            for g in piece * PIECE..((piece + 1) * PIECE).min(levels) {
                let at = g * size..(g + 1) * size;
                small::product_into(&self.point.kept[at.clone()], false, &s.own[0][at.clone()], k, &mut own);
                block.copy_from_slice(&self.slopes.blocks[0][at]);
                for (e, block) in block.iter_mut().enumerate().filter(|_| p > 0) {
                    *block -= small::inner(self.x(g * k + e % k), self.x(g * k + e / k));
                }
                for j in 0..size {
                    for i in 0..size {
                        sum[j * size + i] += block[i] * block[j] - (own[i] - block[i]) * (own[j] - block[j]);
                    }
                }
                if p > 0 {
                    self.add_gram(g * k, k, &mut gram);
                }
            }
            (sum, gram)
        };
        let add = |mut a: (Vec<f64>, Vec<f64>), b: (Vec<f64>, Vec<f64>)| {
            a.0.iter_mut().zip(&b.0).for_each(|(a, b)| *a += b);
            a.1.iter_mut().zip(&b.1).for_each(|(a, b)| *a += b);
            a
        };
        let Some((sum, first)) = parallel::reduce(levels.div_ceil(PIECE), 4, &leaf, &add) else { return };
        sums[0][0].iter_mut().zip(&sum).for_each(|(a, b)| *a += b);
        if p == 0 {
            return;
        }
        for (g, out) in sums[0].iter_mut().enumerate() {
            let other = if g == 0 { &first } else { &grams[g - 1] };
            for (at, [a, b, c, d]) in entries(k, self.effects[g]) {
                out[at] += small::inner(self.gram(&first, a, c), self.gram(other, b, d));
            }
        }
    }
}

/// x̃ = L_x⁻¹Dᵀ, p numbers per column of Z (p is the number of columns of X, or 0).
pub(super) fn whitened(point: &Point<'_>, slopes: &Slopes, p: usize) -> Vec<f64> {
    let (all, width) = (slopes.u.len(), point.statistics.layout.fixed + 1);
    let lx: Vec<f64> = (0..p * p).map(|e| point.lx[e / p * width + e % p]).collect();
    let mut x = vec![0.0; all * p];
    for (at, x) in x.chunks_exact_mut(p.max(1)).enumerate() {
        (0..p).for_each(|c| x[c] = slopes.d[c * all + at]);
        small::forward(&lx, p, x);
    }
    x
}

/// out ← out + A diag(T, …, T) for the n × (levels of k) columns of A.
fn times_levels(a: &[f64], t: &[f64], k: usize, n: usize, out: &mut [f64]) {
    for (out, a) in out.chunks_exact_mut(k * n).zip(a.chunks_exact(k * n)) {
        for (j, out) in out.chunks_exact_mut(n).enumerate() {
            for (l, a) in a.chunks_exact(n).enumerate() {
                let by = t[j * k + l];
                out.iter_mut().zip(a).for_each(|(o, a)| *o += by * a);
            }
        }
    }
}
