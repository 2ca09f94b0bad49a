//! Second derivatives of the log determinant: Σ vec(R_ij)vec(R_ij)ᵀ over the blocks of R = ZᵀPZ, from which tr(RERE)
//! follows for all directions (docs/mixed.md, L0).

use certus::linalg;

use super::point::{Criterion, PIECE, Point, scale, transpose};
use super::slopes::{Slopes, kept_meeting};
use super::small;

/// For factors f ≤ g the sum over levels of vec(R_ij)vec(R_ij)ᵀ, R_ij k_f × k_g by columns. For ML, R is ZᵀV⁻¹Z.
pub(super) struct Moments {
    sums: Vec<Vec<Vec<f64>>>,
    effects: Vec<usize>,
}

impl Moments {
    pub(super) fn new(point: &Point<'_>, slopes: &Slopes) -> Self {
        let s = point.statistics;
        let effects: Vec<usize> = s.layout.factors.iter().map(|f| f.effects).collect();
        let count = effects.len();
        let p = if point.criterion == Criterion::Reml { s.layout.fixed } else { 0 };
        let grams = grams(point, slopes, p);
        let mut sums: Vec<Vec<Vec<f64>>> = vec![Vec::new(); count];
        sums[0].push(first(point, slopes, &grams, p));
        if count > 1 {
            let through = through(point, slopes);
            sums[0].extend(mixed(point, slopes, &grams, &through, p));
            let r = rest(point, slopes, &through, p);
            for f in 1..count {
                for g in f..count {
                    sums[f].push(between(point, &r, f, g));
                }
            }
        }
        Self { sums, effects }
    }

    /// tr(R E R E′) for directions E of factor f and E′ of factor g.
    pub(super) fn trace(&self, f: usize, e: &[f64], g: usize, other: &[f64]) -> f64 {
        let (f, e, g, other) = if f <= g { (f, e, g, other) } else { (g, other, f, e) };
        let (k, l, sums) = (self.effects[f], self.effects[g], &self.sums[f][g - f]);
        let mut total = 0.0;
        for (b, a) in (0..l).flat_map(|b| (0..k).map(move |a| (b, a))) {
            for (d, c) in (0..l).flat_map(|d| (0..k).map(move |c| (d, c))) {
                total += sums[(d * k + c) * k * l + b * k + a] * e[c * k + a] * other[d * l + b];
            }
        }
        total
    }
}

/// Γ_ab = Σ_g ũ_ga ũ_gbᵀ with ũ_g = [G_gB_g, D_g], of dimension q₂ + p; index a k + b.
fn grams(point: &Point<'_>, slopes: &Slopes, p: usize) -> Vec<Vec<f64>> {
    let s = point.statistics;
    let (first, q, all) = (s.layout.factors[0], s.layout.rest(), s.layout.columns());
    let (k, dim) = (first.effects, q + p);
    let mut out = vec![vec![0.0; dim * dim]; k * k];
    let mut u = Vec::new();
    let rows = PIECE;
    let mut dense = vec![vec![0.0; if s.dense { dim * rows } else { 0 }]; k];
    for g in 0..first.levels {
        kept_meeting(point, g, &mut u);
        let columns = s.meeting(g).0;
        // places and values of ũ_g
        let places: Vec<usize> = columns.iter().map(|&c| c as usize).chain(q..dim).collect();
        for c in 0..p {
            u.extend((0..k).map(|i| slopes.d[c * all + g * k + i]));
        }
        if s.dense {
            for (t, &place) in places.iter().enumerate() {
                (0..k).for_each(|i| dense[i][(g % rows) * dim + place] = u[t * k + i]);
            }
            if g % rows + 1 == rows || g + 1 == first.levels {
                let used = (g % rows + 1) * dim;
                for (ab, out) in out.iter_mut().enumerate() {
                    linalg::add_outer(out, dim, 1.0, &dense[ab / k][..used], &dense[ab % k][..used]);
                }
                dense.iter_mut().for_each(|d| d.fill(0.0));
            }
        } else {
            for (ab, out) in out.iter_mut().enumerate() {
                for (v, &column) in places.iter().enumerate() {
                    let by = u[v * k + ab % k];
                    let to = &mut out[column * dim..][..dim];
                    for (t, &row) in places.iter().enumerate() {
                        to[row] += u[t * k + ab / k] * by;
                    }
                }
            }
        }
    }
    out
}

/// Factor 1 with itself: R_gh = [g = h]E_g − ũ_gÑũ_hᵀ, Ñ = diag(N, Ξ); Σ_gh of the second part is tr(ÑΓ_bb′ÑΓ_a′a).
fn first(point: &Point<'_>, slopes: &Slopes, grams: &[Vec<f64>], p: usize) -> Vec<f64> {
    let s = point.statistics;
    let (factor, q) = (s.layout.factors[0], s.layout.rest());
    let (k, dim) = (factor.effects, q + p);
    let mut n = vec![0.0; dim * dim];
    for c in 0..q {
        n[c * dim..][..q].copy_from_slice(&slopes.n[c * q..][..q]);
    }
    for c in 0..p {
        n[(q + c) * dim + q..][..p].copy_from_slice(&slopes.xi[c * p..][..p]);
    }
    let mut products: Vec<Vec<f64>> = Vec::new();
    for gram in grams {
        let mut product = vec![0.0; dim * dim];
        if dim > 0 {
            linalg::add_square_times(&n, dim, false, gram, &mut product);
        }
        products.push(product);
    }
    let turned: Vec<Vec<f64>> = products
        .iter()
        .map(|product| {
            let mut turned = product.clone();
            transpose(&mut turned, dim);
            turned
        })
        .collect();
    let size = k * k;
    let mut out = vec![0.0; size * size];
    for (b, a) in (0..k).flat_map(|b| (0..k).map(move |a| (b, a))) {
        for (d, c) in (0..k).flat_map(|d| (0..k).map(move |c| (d, c))) {
            out[(d * k + c) * size + b * k + a] = small::inner(&products[b * k + d], &turned[c * k + a]);
        }
    }
    // the diagonal blocks are E_g less the second part
    let mut own = vec![0.0; size];
    for g in 0..factor.levels {
        small::product_into(
            &point.kept[g * size..][..size],
            false,
            &s.own[0][g * size..][..size],
            k,
            &mut own,
        );
        let mut block = slopes.blocks[0][g * size..][..size].to_vec();
        if p > 0 {
            block.iter_mut().zip(slopes.explained(g * k, k)).for_each(|(b, e)| *b -= e);
        }
        for j in 0..size {
            for i in 0..size {
                out[j * size + i] += block[i] * block[j] - (own[i] - block[i]) * (own[j] - block[j]);
            }
        }
    }
    out
}

/// I − NK = Λ₂S⁻¹Λ₂⁻¹ (q₂ × q₂), by factors of columns in the form that keeps its digits.
fn through(point: &Point<'_>, slopes: &Slopes) -> Vec<f64> {
    let s = point.statistics;
    let (q, before) = (s.layout.rest(), s.layout.factors[0].columns());
    let mut out = vec![0.0; q * q];
    for (factor, inverse) in s.layout.factors.iter().zip(&slopes.inverted).skip(1) {
        let (at, k) = ((factor.start - before) * q, factor.effects);
        let part = &mut out[at..at + factor.columns() * q];
        if let Some(inverse) = inverse {
            // columns of S⁻¹Λ⁻¹
            for (level, part) in part.chunks_exact_mut(k * q).enumerate() {
                for j in 0..k {
                    for l in 0..k {
                        let from = &slopes.inverse[at + (level * k + l) * q..][..q];
                        let by = inverse[j * k + l];
                        part[j * q..][..q].iter_mut().zip(from).for_each(|(o, x)| *o += by * x);
                    }
                }
            }
            scale(s, &point.t, false, part);
        } else {
            linalg::add_square_times(&slopes.n, q, false, &point.k[at..at + factor.columns() * q], part);
            part.iter_mut().for_each(|x| *x = -*x);
            for j in 0..factor.columns() {
                part[j * q + at / q + j] += 1.0;
            }
        }
    }
    out
}

/// Factor 1 with every other: R_gj = ũ_g[(I − NK)_j; −ΞD_jᵀ].
fn mixed(point: &Point<'_>, slopes: &Slopes, grams: &[Vec<f64>], through: &[f64], p: usize) -> Vec<Vec<f64>> {
    let s = point.statistics;
    let (q, all, before) = (s.layout.rest(), s.layout.columns(), s.layout.factors[0].columns());
    let (k, dim) = (s.layout.factors[0].effects, q + p);
    let mut right = vec![0.0; dim * q];
    for j in 0..q {
        let (to, less) = right[j * dim..][..dim].split_at_mut(q);
        to.copy_from_slice(&through[j * q..][..q]);
        for (c, to) in less.iter_mut().enumerate() {
            *to = -(0..p).map(|e| slopes.xi[e * p + c] * slopes.d[e * all + before + j]).sum::<f64>();
        }
    }
    let factors = &s.layout.factors[1..];
    let mut out: Vec<Vec<f64>> = factors.iter().map(|f| vec![0.0; (k * f.effects).pow(2)]).collect();
    for (ac, gram) in grams.iter().enumerate() {
        let (a, c) = (ac / k, ac % k);
        let mut product = vec![0.0; dim * q];
        linalg::add_square_times(gram, dim, false, &right, &mut product);
        for (factor, out) in factors.iter().zip(&mut out) {
            let (l, size) = (factor.effects, k * factor.effects);
            for at in (0..factor.levels).map(|i| factor.start - before + i * l) {
                for b in 0..l {
                    for d in 0..l {
                        let (x, y) = (&right[(at + b) * dim..][..dim], &product[(at + d) * dim..][..dim]);
                        out[(d * k + c) * size + b * k + a] += small::inner(x, y);
                    }
                }
            }
        }
    }
    out
}

/// R of the other factors: Λ⁻ᵀ(I − S⁻¹)Λ⁻¹ or K(I − NK), less DΞDᵀ.
fn rest(point: &Point<'_>, slopes: &Slopes, through: &[f64], p: usize) -> Vec<f64> {
    let s = point.statistics;
    let (q, all, before) = (s.layout.rest(), s.layout.columns(), s.layout.factors[0].columns());
    let mut out = vec![0.0; q * q];
    for (factor, inverse) in s.layout.factors.iter().zip(&slopes.inverted).skip(1) {
        let (at, columns) = (factor.start - before, factor.columns());
        let part = &mut out[at * q..(at + columns) * q];
        let all_inverted = slopes.inverted[1..].iter().all(Option::is_some);
        match inverse {
            Some(inverse) if all_inverted => {
                let k = factor.effects;
                for (j, part) in part.chunks_exact_mut(q).enumerate() {
                    let (level, j) = (j / k, j % k);
                    for l in 0..k {
                        let from = &slopes.inverse[(at + level * k + l) * q..][..q];
                        let by = inverse[j * k + l];
                        part.iter_mut().zip(from).for_each(|(o, x)| *o -= by * x);
                        part[at + level * k + l] += by;
                    }
                }
                let inverses: Vec<Vec<f64>> =
                    slopes.inverted.iter().map(|i| i.clone().unwrap_or_default()).collect();
                scale(s, &inverses, true, part);
            }
            _ => linalg::add_square_times(&point.k, q, false, &through[at * q..(at + columns) * q], part),
        }
    }
    for j in 0..q {
        for c in 0..p {
            let by: f64 = (0..p).map(|e| slopes.xi[e * p + c] * slopes.d[e * all + before + j]).sum();
            let from = &slopes.d[c * all + before..][..q];
            out[j * q..][..q].iter_mut().zip(from).for_each(|(o, d)| *o -= d * by);
        }
    }
    out
}

/// Two of the other factors, from R itself.
fn between(point: &Point<'_>, r: &[f64], f: usize, g: usize) -> Vec<f64> {
    let s = point.statistics;
    let (q, before) = (s.layout.rest(), s.layout.factors[0].columns());
    let (left, right) = (s.layout.factors[f], s.layout.factors[g]);
    let (k, l) = (left.effects, right.effects);
    let size = k * l;
    let mut out = vec![0.0; size * size];
    let mut block = vec![0.0; size];
    for j in (0..right.levels).map(|j| right.start - before + j * l) {
        for i in (0..left.levels).map(|i| left.start - before + i * k) {
            for b in 0..l {
                block[b * k..][..k].copy_from_slice(&r[(j + b) * q + i..][..k]);
            }
            for y in 0..size {
                (0..size).for_each(|x| out[y * size + x] += block[x] * block[y]);
            }
        }
    }
    out
}
