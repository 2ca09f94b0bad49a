//! The sum of squares Q where variances are infinite: their effects are fixed effects then (docs/mixed.md, L3).

use std::sync::Mutex;

use certus::linalg;

use super::point::{fixed, remaining};
use super::statistics::Statistics;

/// What is left of a column after the others, as a part of its sum of squares: below this it may be their combination.
const COMBINATION: f64 = 1e-10;
/// A sum of squares below this part of that of the residuals may be rounding.
const NOTHING: f64 = 1e-9;

/// Q with the variance ratios `ratios` of terms that have one effect each, some of them infinite, and what rounding is
/// expected to add to it as a part of it; nothing if rounding hides what is left.
///
/// Columns that seem to be combinations of others are left out only if as many are known to be combinations from the
/// rows: then the others span the same space. Nothing is known of Q otherwise, because a column that is nearly a
/// combination may explain anything.
///
/// With Σ⁻¹ = 0 for infinite terms, Z₁ᵀV⁻¹ and S come from T = 1 and 0 in place of the identity: M = T(D + TᵀAT)⁻¹Tᵀ.
pub(super) fn sum_of_squares(s: &Statistics, ratios: &[f64]) -> Option<(f64, f64)> {
    let (layout, width, q) = (&s.layout, s.layout.fixed + 1, s.layout.rest());
    // per factor and effect: T and the entry of D
    let mut scales: Vec<Vec<(f64, f64)>> =
        layout.factors.iter().map(|f| vec![(0.0, 1.0); f.effects]).collect();
    for (place, &ratio) in layout.places.iter().zip(ratios) {
        scales[place.factor][place.first] =
            if ratio == f64::INFINITY { (1.0, 0.0) } else { (ratio.sqrt(), 1.0) };
    }
    let infinite: Vec<bool> = ratios.iter().map(|r| *r == f64::INFINITY).collect();
    let (half, mut least) = levels(s, &scales[0])?;
    let mut xx = fixed(s, &half);
    if q > 0 {
        let (mut k, mut c) = remaining(s, &half);
        let of: Vec<(f64, f64)> = layout.factors[1..]
            .iter()
            .zip(&scales[1..])
            .flat_map(|(f, own)| (0..f.levels).flat_map(move |_| own.iter().copied()))
            .collect();
        for column in c.chunks_exact_mut(q) {
            column.iter_mut().zip(&of).for_each(|(c, of)| *c *= of.0);
        }
        c = s.components.gather(&c);
        let found = Mutex::new((0, least));
        k.for_each_with(&mut c, width, &|component, k, c| {
            let n = s.components.size(component);
            let of: Vec<_> =
                s.components.members(component).iter().map(|&i| (i as usize, of[i as usize])).collect();
            let whole: Vec<f64> = of.iter().map(|&(i, (t, d))| t.powi(2) * s.rest.at(i, i) + d).collect();
            for j in 0..n {
                for i in 0..n {
                    k[j * n + i] *= of[i].1.0 * of[j].1.0;
                }
                k[j * (n + 1)] += of[j].1.1;
            }
            let mut least = 1.0;
            let (kept, dropped) = factor(k, n, &whole, &mut least);
            c.chunks_exact_mut(n).for_each(|column| forward(k, n, &kept, column));
            if let Ok(mut found) = found.lock() {
                *found = (found.0 + dropped, found.1.min(least));
            }
        });
        let (dropped, smallest) = found.into_inner().ok()?;
        least = smallest;
        // effects of two crossed or nested factors sum up to the same in every part of the rows
        let both = infinite.iter().all(|x| *x) && layout.factors.len() == 2;
        let combinations = if both && s.relations.intercepts() { s.components.used() } else { 0 };
        if dropped != combinations {
            return None;
        }
        let gathered = c.clone();
        s.components.scatter(&gathered, &mut c);
        for j in 0..width {
            for i in 0..width {
                xx[j * width + i] -= linalg::dot(&c[i * q..][..q], &c[j * q..][..q]);
            }
        }
    }
    let p = width - 1;
    let whole: Vec<f64> = (0..p).map(|j| s.fixed[j * (width + 1)]).collect();
    let mut x: Vec<f64> = (0..p * p).map(|e| xx[e / p * width + e % p]).collect();
    let mut r = xx[p * width..][..p].to_vec();
    let (kept, dropped) = factor(&mut x, p, &whole, &mut least);
    if dropped != s.relations.of_fixed(&infinite) {
        return None;
    }
    forward(&x, p, &kept, &mut r);
    let left = xx[width * width - 1] - linalg::dot(&r, &r);
    let all = s.fixed[width * width - 1];
    let roundings = (s.rows + layout.columns() + p) as f64 * f64::EPSILON;
    (left > NOTHING * all).then(|| (left, roundings * (1.0 / least).sqrt() * all / left))
}

/// J with JJᵀ = T(D + TᵀAT)⁻¹Tᵀ of every level of the first factor, k × k by columns; and the least that is left of a
/// column.
fn levels(s: &Statistics, scales: &[(f64, f64)]) -> Option<(Vec<f64>, f64)> {
    let (k, mut least) = (scales.len(), 1.0);
    let mut out = vec![0.0; s.own[0].len()];
    for (out, a) in out.chunks_exact_mut(k * k).zip(s.own[0].chunks_exact(k * k)) {
        let mut w: Vec<f64> = (0..k * k).map(|e| scales[e % k].0 * a[e] * scales[e / k].0).collect();
        (0..k).for_each(|i| w[i * (k + 1)] += scales[i].1);
        let whole: Vec<f64> = (0..k).map(|i| w[i * (k + 1)]).collect();
        let (kept, dropped) = factor(&mut w, k, &whole, &mut least);
        if dropped > 0 {
            return None;
        }
        for i in 0..k {
            let mut column = vec![0.0; k];
            column[i] = scales[i].0;
            forward(&w, k, &kept, &mut column);
            (0..k).for_each(|j| out[j * k + i] = column[j]);
        }
    }
    Some((out, least))
}

/// The Cholesky factor of a semidefinite matrix in its lower triangle, which columns are not combinations of earlier
/// ones, and how many are (beside columns of 0); `whole` are the sums of squares that the diagonal began with.
fn factor(a: &mut [f64], d: usize, whole: &[f64], least: &mut f64) -> (Vec<bool>, usize) {
    let (mut kept, mut dropped) = (vec![false; d], 0);
    for j in 0..d {
        let left = a[j * (d + 1)];
        if left.is_nan() || left <= COMBINATION * whole[j] {
            dropped += usize::from(whole[j] != 0.0);
            continue;
        }
        kept[j] = true;
        *least = least.min(left / whole[j]);
        let root = left.sqrt();
        a[j * d + j..][..d - j].iter_mut().for_each(|x| *x /= root);
        let (before, after) = a.split_at_mut((j + 1) * d);
        let column = &before[j * d..][..d];
        for (i, to) in after.chunks_exact_mut(d).enumerate() {
            let i = j + 1 + i;
            to[i..].iter_mut().zip(&column[i..]).for_each(|(to, c)| *to -= column[i] * c);
        }
    }
    (kept, dropped)
}

/// x ← L⁻¹x without the columns that are not kept, whose entries become 0.
fn forward(l: &[f64], d: usize, kept: &[bool], x: &mut [f64]) {
    for j in 0..d {
        if !kept[j] {
            x[j] = 0.0;
            continue;
        }
        x[j] /= l[j * (d + 1)];
        let own = x[j];
        x[j + 1..].iter_mut().zip(&l[j * d + j + 1..][..d - j - 1]).for_each(|(x, l)| *x -= own * l);
    }
}
