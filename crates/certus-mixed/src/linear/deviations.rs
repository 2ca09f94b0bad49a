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
    let at = Root { point: &point, half: &half, lx: &lx, y: &y, sigma: fit.sigma };
    let mut out = Vec::with_capacity(normals.len());
    for piece in normals.chunks(TOGETHER * length) {
        out.extend(at.draws(piece));
    }
    Ok(out)
}

/// Draws that are solved for at once, so that the factor is read from memory once for all of them.
const TOGETHER: usize = 32;

/// What makes draws: `half` has J of every level, `y` is Y.
pub(super) struct Root<'a> {
    pub(super) point: &'a Point<'a>,
    pub(super) half: &'a [f64],
    pub(super) lx: &'a [f64],
    pub(super) y: &'a [f64],
    pub(super) sigma: f64,
}

impl Root<'_> {
    /// Draws, one after another.
    pub(super) fn draws(&self, normals: &[f64]) -> Vec<f64> {
        let layout = &self.point.statistics.layout;
        let (p, q, n1) = (layout.fixed, layout.rest(), layout.factors[0].columns());
        let length = p + n1 + q;
        let count = normals.len() / length;
        let mut betas = Vec::with_capacity(count * p);
        let mut all = Vec::with_capacity(count * q);
        for z in normals.chunks_exact(length) {
            let mut beta: Vec<f64> = z[..p].iter().map(|z| self.sigma * z).collect();
            small::backward(self.lx, p, &mut beta);
            let at = all.len();
            all.extend(z[p + n1..].iter().map(|z| self.sigma * z));
            for (c, by) in beta.iter().enumerate() {
                all[at..].iter_mut().zip(&self.y[c * q..]).for_each(|(b, y)| *b -= y * by);
            }
            betas.extend(beta);
        }
        if q > 0 {
            self.point.l.solve_lower(true, &mut all);
            scale(layout, &self.point.t, false, &mut all);
        }
        let mut out = vec![0.0; normals.len()];
        let pieces = out.chunks_mut(LANES * length).zip(normals.chunks(LANES * length));
        for (piece, (out, normals)) in pieces.enumerate() {
            let lanes = out.len() / length;
            let (betas, all) = (&betas[piece * LANES * p..], &all[piece * LANES * q..]);
            let mut b = vec![[0.0; LANES]; n1 + q];
            let (b1, b2) = b.split_at_mut(n1);
            interleave(all, q, lanes, b2);
            let (mut beta, mut z) = (vec![[0.0; LANES]; p], vec![[0.0; LANES]; p + n1]);
            interleave(betas, p, lanes, &mut beta);
            for (lane, normals) in normals.chunks_exact(length).enumerate() {
                z.iter_mut().zip(normals).for_each(|(z, x)| z[lane] = self.sigma * x);
            }
            self.first(&beta, &z[p..], b2, b1);
            for (lane, out) in out.chunks_exact_mut(length).enumerate() {
                out.iter_mut().zip(&beta).for_each(|(out, b)| *out = b[lane]);
                let columns = layout.places.iter().flat_map(|place| {
                    let factor = layout.factors[place.factor];
                    (0..factor.levels).flat_map(move |level| {
                        let at = factor.start + level * factor.effects + place.first;
                        at..at + place.effects
                    })
                });
                out[p..].iter_mut().zip(columns).for_each(|(out, column)| *out = b[column][lane]);
            }
        }
        out
    }

    /// b₁ of some draws.
    fn first(&self, beta: &[Lanes], z: &[Lanes], b2: &[Lanes], b1: &mut [Lanes]) {
        let s = self.point.statistics;
        let (k, width) = (s.layout.factors[0].effects, s.layout.fixed + 1);
        let mut met = vec![[0.0; LANES]; k];
        for (g, (out, z)) in b1.chunks_exact_mut(k).zip(z.chunks_exact(k)).enumerate() {
            let (j, (columns, meeting)) = (&self.half[g * k * k..][..k * k], s.meeting(g));
            met.fill([0.0; LANES]);
            for (meeting, &column) in meeting.chunks_exact(k).zip(columns) {
                let by = &b2[column as usize];
                met.iter_mut().zip(meeting).for_each(|(met, m)| add(met, *m, by));
            }
            for (c, by) in beta.iter().enumerate() {
                let cross = &s.cross[0][(g * width + c) * k..][..k];
                met.iter_mut().zip(cross).for_each(|(met, m)| add(met, *m, by));
            }
            for (j, z) in j.chunks_exact(k).zip(z) {
                let mut left = *z;
                met.iter().zip(j).for_each(|(met, j)| add(&mut left, -j, met));
                out.iter_mut().zip(j).for_each(|(b, j)| add(b, *j, &left));
            }
        }
    }
}

/// Draws whose numbers lie side by side.
const LANES: usize = 8;
type Lanes = [f64; LANES];

/// to ← to + by·x.
fn add(to: &mut Lanes, by: f64, x: &Lanes) {
    to.iter_mut().zip(x).for_each(|(to, x)| *to += by * x);
}

/// Columns of `dim` numbers side by side.
fn interleave(columns: &[f64], dim: usize, lanes: usize, to: &mut [Lanes]) {
    for (lane, column) in columns.chunks_exact(dim.max(1)).take(lanes).enumerate() {
        to.iter_mut().zip(column).for_each(|(to, x)| to[lane] = *x);
    }
}
