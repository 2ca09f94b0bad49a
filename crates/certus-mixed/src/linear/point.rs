//! The criterion at one point: what is left of every cross-product once the group effects are eliminated, and the
//! determinant and the sum of squares that follow (docs/mixed.md, L0).

use certus::{linalg, parallel};

use super::blocks::{Blocks, scale};
use super::error::Error;
use super::small;
use super::statistics::Statistics;

/// Levels of a piece of work.
pub(super) const PIECE: usize = 512;

/// Which likelihood is maximised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Criterion {
    /// The restricted likelihood: of the residuals, so that standard deviations account for estimated coefficients.
    Reml,
    /// The likelihood itself.
    Ml,
}

/// Everything that one evaluation at Σ = TTᵀ leaves behind.
pub(super) struct Point<'a> {
    pub(super) statistics: &'a Statistics,
    pub(super) criterion: Criterion,
    /// T of every factor (k × k).
    pub(super) t: Vec<Vec<f64>>,
    /// G_g = I − A_gM_g per level: Z₁ᵀV₁⁻¹ = GZ₁ᵀ.
    pub(super) kept: Vec<f64>,
    /// K = Z₂ᵀV₁⁻¹Z₂.
    pub(super) k: Blocks,
    /// Z₂ᵀV₁⁻¹[X r].
    pub(super) c: Vec<f64>,
    /// L, LLᵀ = S = I + Λ₂ᵀKΛ₂.
    pub(super) l: Blocks,
    /// tr S of every connected component.
    pub(super) sizes: Vec<f64>,
    /// The largest tr W_g of factor 1.
    pub(super) largest_block: f64,
    /// The Cholesky factor of [X r]ᵀV⁻¹[X r].
    pub(super) lx: Vec<f64>,
    /// Q = rᵀPr.
    pub(super) q: f64,
    /// F = −2 log L.
    pub(super) value: f64,
}

/// m of (1): rows less coefficients for REML.
pub(super) fn freedom(statistics: &Statistics, criterion: Criterion) -> f64 {
    match criterion {
        Criterion::Reml => statistics.weight - statistics.layout.fixed as f64,
        Criterion::Ml => statistics.weight,
    }
}

impl<'a> Point<'a> {
    /// The criterion at the terms' T.
    pub(super) fn new(s: &'a Statistics, criterion: Criterion, terms: &[Vec<f64>]) -> Result<Self, Error> {
        Self::evaluate(s, criterion, s.layout.blocks(terms)).ok_or_else(|| Error::NotFinite {
            sds: terms.iter().flat_map(|t| diagonal_of_square(t)).collect(),
        })
    }

    fn evaluate(s: &'a Statistics, criterion: Criterion, t: Vec<Vec<f64>>) -> Option<Self> {
        let (q, width) = (s.layout.rest(), s.layout.fixed + 1);
        let (half, kept, blocks, largest_block) = levels(s, &t[0])?;
        let mut log_det = blocks;
        let mut xx = fixed(s, &half);
        let (k, c) = remaining(s, &half);
        let mut l = k.clone();
        let mut sizes = Vec::new();
        if q > 0 {
            l.congruent(&s.layout, &t, true);
            sizes = l.add_identity();
            if !l.cholesky() {
                return None;
            }
            log_det += 2.0 * l.log_diagonal();
            // Y = L⁻¹Λ₂ᵀC₂
            let mut y = c.clone();
            scale(&s.layout, &t, true, &mut y);
            l.solve_lower(false, &mut y);
            for j in 0..width {
                for i in 0..width {
                    xx[j * width + i] -= linalg::dot(&y[i * q..][..q], &y[j * q..][..q]);
                }
            }
        }
        let mut lx = xx.clone();
        if !small::cholesky(&mut lx, width) {
            return None;
        }
        if criterion == Criterion::Reml {
            log_det += 2.0 * (0..width - 1).map(|i| lx[i * (width + 1)].ln()).sum::<f64>();
        }
        let (root, m) = (lx[width * width - 1], freedom(s, criterion));
        let sum = root * root;
        let value = log_det + m * (1.0 + (2.0 * std::f64::consts::PI * sum / m).ln());
        value.is_finite().then_some(Self {
            statistics: s,
            criterion,
            t,
            kept,
            k,
            c,
            l,
            sizes,
            largest_block,
            lx,
            q: sum,
            value,
        })
    }

    /// m.
    pub(super) fn freedom(&self) -> f64 {
        freedom(self.statistics, self.criterion)
    }

    /// U_g = G_gB_g, one column of k numbers per column of Z₂ that the level meets.
    pub(super) fn kept_meeting(&self, g: usize, out: &mut Vec<f64>) {
        let k = self.statistics.layout.factors[0].effects;
        let (kept, (_, b)) = (&self.kept[g * k * k..][..k * k], self.statistics.meeting(g));
        out.resize(b.len(), 0.0);
        for (out, b) in out.chunks_exact_mut(k).zip(b.chunks_exact(k)) {
            (0..k).for_each(|i| out[i] = (0..k).map(|l| kept[l * k + i] * b[l]).sum());
        }
    }
}

/// −2 log L at T of every term and σ: F + m(ρ − log ρ − 1) with ρ = Q/(mσ²).
pub fn criterion_at(
    statistics: &Statistics,
    criterion: Criterion,
    factors: &[Vec<f64>],
    sigma: f64,
) -> Result<f64, Error> {
    let point = Point::new(statistics, criterion, factors)?;
    let m = point.freedom();
    let ratio = point.q / (m * sigma * sigma);
    Ok(point.value + m * (ratio - ratio.ln() - 1.0))
}

/// √ of the diagonal of TTᵀ.
pub(super) fn diagonal_of_square(t: &[f64]) -> Vec<f64> {
    let k = t.len().isqrt();
    (0..k).map(|i| (0..k).map(|j| t[j * k + i] * t[j * k + i]).sum::<f64>().sqrt()).collect()
}

/// Step 1: per level W = I + TᵀAT = L_WL_Wᵀ, J = TL_W⁻ᵀ, G = T⁻ᵀW⁻¹Tᵀ or I − AJJᵀ, whichever keeps its digits; in all
/// Σ log|W|, and the largest tr W.
pub(super) fn levels(s: &Statistics, t: &[f64]) -> Option<(Vec<f64>, Vec<f64>, f64, f64)> {
    let k = s.layout.factors[0].effects;
    let inverse = small::inverse(t, k);
    let mut both = vec![0.0; s.layout.factors[0].levels * (2 * k * k + 2)];
    let size = 2 * k * k + 2;
    parallel::for_each_piece(&mut both, size * PIECE, 4, &|piece, out| {
        let (mut at, mut w, mut column) = (vec![0.0; k * k], vec![0.0; k * k], vec![0.0; k]);
        for (g, out) in out.chunks_exact_mut(size).enumerate() {
            let a = &s.own[0][(piece * PIECE + g) * k * k..][..k * k];
            let (half, out) = out.split_at_mut(k * k);
            let (kept, last) = out.split_at_mut(k * k);
            small::product_into(a, false, t, k, &mut at);
            small::product_into(t, true, &at, k, &mut w);
            let smallest = (0..k).map(|i| w[i * (k + 1)]).fold(f64::INFINITY, f64::min);
            let mut trace = 0.0;
            for i in 0..k {
                w[i * (k + 1)] += 1.0;
                trace += w[i * (k + 1)];
            }
            if !small::cholesky(&mut w, k) {
                last[0] = f64::NAN;
                continue;
            }
            last[0] = (0..k).map(|i| 2.0 * w[i * (k + 1)].ln()).sum();
            last[1] = trace;
            for i in 0..k {
                (0..k).for_each(|j| column[j] = t[j * k + i]);
                small::forward(&w, k, &mut column);
                (0..k).for_each(|j| half[j * k + i] = column[j]);
            }
            match &inverse {
                Some(inverse) if smallest > 1.0 => {
                    // columns of W⁻¹Tᵀ = L_W⁻ᵀJᵀ, then T⁻ᵀ on the left
                    for c in 0..k {
                        (0..k).for_each(|j| column[j] = half[j * k + c]);
                        small::backward(&w, k, &mut column);
                        for i in 0..k {
                            kept[c * k + i] = (0..k).map(|l| inverse[i * k + l] * column[l]).sum();
                        }
                    }
                }
                _ => {
                    small::product_into(a, false, half, k, &mut at);
                    for c in 0..k {
                        for i in 0..k {
                            let sum: f64 = (0..k).map(|l| at[l * k + i] * half[l * k + c]).sum();
                            kept[c * k + i] = f64::from(u8::from(i == c)) - sum;
                        }
                    }
                }
            }
        }
    });
    let pieces = both.len().div_ceil(size * PIECE);
    let piece = |i: usize| both[i * size * PIECE..].chunks_exact(size).take(PIECE);
    let log_det =
        parallel::reduce(pieces, 4, &|i| piece(i).map(|b| b[2 * k * k]).sum::<f64>(), &|a, b| a + b);
    let log_det = log_det.unwrap_or(0.0);
    let largest = both.chunks_exact(size).map(|b| b[2 * k * k + 1]).fold(1.0, f64::max);
    let half = both.chunks_exact(size).flat_map(|b| &b[..k * k]).copied().collect();
    let kept = both.chunks_exact(size).flat_map(|b| &b[k * k..2 * k * k]).copied().collect();
    log_det.is_finite().then_some((half, kept, log_det, largest))
}

/// JᵀC of a level (k × (p + 1)).
fn half_cross(half: &[f64], c: &[f64], k: usize, out: &mut [f64]) {
    for (out, c) in out.chunks_exact_mut(k).zip(c.chunks_exact(k)) {
        for i in 0..k {
            out[i] = (0..k).map(|l| half[i * k + l] * c[l]).sum();
        }
    }
}

/// Step 2, the fixed effects: [X r]ᵀ[X r] − Σ_g C_gᵀM_gC_g.
pub(super) fn fixed(s: &Statistics, half: &[f64]) -> Vec<f64> {
    let (k, width) = (s.layout.factors[0].effects, s.layout.fixed + 1);
    let levels = s.layout.factors[0].levels;
    let leaf = |i: usize| {
        let (mut out, mut jc) = (vec![0.0; width * width], vec![0.0; k * width]);
        for g in i * PIECE..((i + 1) * PIECE).min(levels) {
            half_cross(&half[g * k * k..][..k * k], &s.cross[0][g * k * width..][..k * width], k, &mut jc);
            for c in 0..width {
                for r in 0..=c {
                    out[c * width + r] += small::inner(&jc[r * k..][..k], &jc[c * k..][..k]);
                }
            }
        }
        out
    };
    let add = |mut a: Vec<f64>, b: Vec<f64>| {
        a.iter_mut().zip(&b).for_each(|(a, b)| *a += b);
        a
    };
    let sum = parallel::reduce(levels.div_ceil(PIECE), 4, &leaf, &add);
    let sum = sum.unwrap_or_else(|| vec![0.0; width * width]);
    let mut out = s.fixed.clone();
    for c in 0..width {
        for r in 0..=c {
            out[c * width + r] -= sum[c * width + r];
            out[r * width + c] = out[c * width + r];
        }
    }
    out
}

/// Step 2, the other factors: K = Z₂ᵀZ₂ − Σ_g B_gᵀM_gB_g and Z₂ᵀ[X r] − Σ_g B_gᵀM_gC_g.
pub(super) fn remaining(s: &Statistics, half: &[f64]) -> (Blocks, Vec<f64>) {
    let width = s.layout.fixed + 1;
    let mut out = s.rest.clone();
    let mut own = s.components.gather(&s.rest_cross);
    out.for_each_with(&mut own, width, &|c, block, cross| component(s, half, c, block, cross));
    let mut cross = own.clone();
    s.components.scatter(&own, &mut cross);
    (out, cross)
}

/// The same for one component.
fn component(s: &Statistics, half: &[f64], c: usize, out: &mut [f64], cross: &mut [f64]) {
    let (n, width, components) = (s.components.size(c), s.layout.fixed + 1, &s.components);
    let (k, is_dense) = (s.layout.factors[0].effects, components.dense(c));
    let mut jc = vec![0.0; k * width];
    let rows = if is_dense { (PIECE / k).max(1) } else { 1 };
    let mut dense = vec![0.0; if is_dense { n * rows * k } else { 0 }];
    let (mut jb, mut places) = (Vec::new(), Vec::new());
    let levels = components.levels(c);
    for (at, &g) in levels.iter().enumerate() {
        let g = g as usize;
        let j = &half[g * k * k..][..k * k];
        let (columns, b) = s.meeting(g);
        jb.resize(b.len(), 0.0);
        half_cross(j, b, k, &mut jb);
        half_cross(j, &s.cross[0][g * k * width..][..k * width], k, &mut jc);
        places.clear();
        places.extend(columns.iter().map(|&column| components.place(column)));
        for (t, &place) in places.iter().enumerate() {
            let own = &jb[t * k..][..k];
            for r in 0..width {
                cross[r * n + place] -= small::inner(own, &jc[r * k..][..k]);
            }
        }
        if is_dense {
            for i in 0..k {
                let to = &mut dense[((at % rows) * k + i) * n..][..n];
                places.iter().enumerate().for_each(|(t, &place)| to[place] = jb[t * k + i]);
            }
            if at % rows + 1 == rows || at + 1 == levels.len() {
                let used = (at % rows + 1) * k * n;
                linalg::add_outer(out, n, -1.0, &dense[..used], &dense[..used]);
                dense.fill(0.0);
            }
        } else {
            for (t, &column) in places.iter().enumerate() {
                let (own, to) = (&jb[t * k..][..k], &mut out[column * n..][..n]);
                for (u, &row) in places.iter().enumerate().skip(t) {
                    to[row] -= small::inner(own, &jb[u * k..][..k]);
                }
            }
        }
    }
    linalg::mirror(out, n);
}
