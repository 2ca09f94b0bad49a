//! Draws of what is not known of coefficients and group effects, the variances given (docs/mixed.md, L0).

use super::blocks::scale;
use super::error::Error;
use super::fit::LinearMixedFit;
use super::point::{Point, levels};
use super::small;
use super::statistics::Statistics;

/// Numbers of one draw: β, then the effects of every term, level by level.
pub fn deviation_len(statistics: &Statistics) -> usize {
    let layout = &statistics.layout;
    let of = |p: &super::layout::Place| p.effects * layout.factors[p.factor].levels;
    layout.fixed + layout.places.iter().map(of).sum::<usize>()
}

/// (β − β̂, b − b̂) at independent standard normal numbers, [`deviation_len`] per draw. The precision of (v, β)/σ,
/// b = Λv, is LLᵀ with the blocks L_W of the levels of factor 1, L of S and L_x of XᵀV⁻¹X; solving Lᵀ from below gives
/// β = σL_x⁻ᵀz, b₂ = Λ₂L⁻ᵀ(σz − Yβ) with Y = L⁻¹Λ₂ᵀZ₂ᵀV₁⁻¹X, and b₁ = J(σz − Jᵀ(B_gb₂ + C_gβ)) with J = T₁L_W⁻ᵀ.
pub fn deviations(statistics: &Statistics, fit: &LinearMixedFit, normals: &[f64]) -> Result<Vec<f64>, Error> {
    let point = Point::new(statistics, fit.criterion, &fit.factors)?;
    let s = statistics;
    let (p, q, length) = (s.layout.fixed, s.layout.rest(), deviation_len(s));
    let width = p + 1;
    let not_finite = || Error::NotFinite { sds: fit.terms.iter().flat_map(|t| t.sds.clone()).collect() };
    let half = levels(s, &point.t[0]).ok_or_else(not_finite)?.0;
    let mut lx = vec![0.0; p * p];
    (0..p).for_each(|j| lx[j * p..][..p].copy_from_slice(&point.lx[j * width..][..p]));
    let mut y = point.c[..q * p].to_vec();
    if q > 0 {
        scale(&s.layout, &point.t, true, &mut y);
        point.l.solve_lower(false, &mut y);
    }
    let each = normals.chunks_exact(length);
    Ok(each.flat_map(|z| one(&point, &half, &lx, &y, fit.sigma, z)).collect())
}

/// One draw; `half` has J of every level, `y` is Y.
pub(super) fn one(
    point: &Point<'_>,
    half: &[f64],
    lx: &[f64],
    y: &[f64],
    sigma: f64,
    normals: &[f64],
) -> Vec<f64> {
    let (s, layout) = (point.statistics, &point.statistics.layout);
    let (p, q, first) = (layout.fixed, layout.rest(), layout.factors[0]);
    let (width, k, n1) = (p + 1, first.effects, first.columns());
    let z: Vec<f64> = normals.iter().map(|z| sigma * z).collect();
    let (mut beta, effects) = (z[..p].to_vec(), &z[p..]);
    small::backward(lx, p, &mut beta);
    let mut b = vec![0.0; n1 + q];
    let (b1, b2) = b.split_at_mut(n1);
    b2.copy_from_slice(&effects[n1..]);
    for (c, by) in beta.iter().enumerate() {
        b2.iter_mut().zip(&y[c * q..]).for_each(|(b, y)| *b -= y * by);
    }
    if q > 0 {
        point.l.solve_lower(true, b2);
        scale(layout, &point.t, false, b2);
    }
    for g in 0..first.levels {
        let (j, (columns, meeting)) = (&half[g * k * k..][..k * k], s.meeting(g));
        let mut met = vec![0.0; k];
        for (t, &column) in columns.iter().enumerate() {
            (0..k).for_each(|i| met[i] += meeting[t * k + i] * b2[column as usize]);
        }
        for (c, by) in beta.iter().enumerate() {
            (0..k).for_each(|i| met[i] += s.cross[0][(g * width + c) * k + i] * by);
        }
        let left = |c: usize| effects[g * k + c] - small::inner(&j[c * k..][..k], &met);
        let left: Vec<f64> = (0..k).map(left).collect();
        (0..k).for_each(|i| b1[g * k + i] = (0..k).map(|c| j[c * k + i] * left[c]).sum());
    }
    let mut out = beta;
    for place in &layout.places {
        let factor = layout.factors[place.factor];
        for level in 0..factor.levels {
            let at = factor.start + level * factor.effects + place.first;
            out.extend_from_slice(&b[at..at + place.effects]);
        }
    }
    out
}
