//! R1: how far the diagonal blocks of ẐᵀV⁻¹Ẑ and what is summed over all its blocks are off (docs/mixed.md, Traces and
//! E).

use super::blocks::add_times;
use super::derivatives::Direction;
use super::enclosure::gamma;
use super::point::levels;
use super::residuals::{Bound, SAFE, U, dot, norm};
use super::small;

/// What the rows of a component and of its levels leave uncertain, as Frobenius norms.
#[derive(Clone, Copy, Default)]
pub(super) struct Part {
    /// Columns.
    n: f64,
    /// ‖S̃⁻¹‖, and of I − SS̃⁻¹.
    inverse: f64,
    residual: f64,
    /// Of K.
    k: f64,
    /// ‖K‖, 0 if it is not used.
    size: f64,
    /// Σ‖U_g‖², Σ‖δU_g‖².
    u: f64,
    u_error: f64,
}

/// ‖P_g‖ of every level of factor 1, and how far it is off.
type LevelNorms = Vec<(f64, f64)>;

impl Bound<'_> {
    /// (‖P_g‖ and how far it is off) of every level of factor 1; and what every component leaves uncertain.
    pub(super) fn parts(&self) -> Option<(LevelNorms, Vec<Part>)> {
        let (s, radius) = (&self.exact.middle, &self.exact.radius);
        let (k, count) = (s.layout.factors[0].effects, s.layout.factors[0].levels);
        let (half, ..) = levels(s, &self.point.t[0])?;
        let mut own = Vec::with_capacity(count);
        for g in 0..count {
            let at = g * k * k..(g + 1) * k * k;
            let (a, a_off) = (&s.own[0][at.clone()], &radius.own[0][at.clone()]);
            let mut p = vec![0.0; k * k];
            small::product_into(&self.point.kept[at], false, a, k, &mut p);
            own.push((norm(&p), 2.0 * self.own_residual(a, a_off, a, a_off, &p, k)));
        }
        let parts = (0..s.components.count()).map(|c| self.part(c, &half));
        Some((own, parts.collect::<Option<Vec<_>>>()?))
    }

    /// θ of a level: its J is HᵀH to this part of itself, H = `half`ᵀ.
    fn level_part(&self, half: &[f64], a: &[f64], a_off: &[f64], k: usize) -> f64 {
        let (active, rounding) = (&self.active[0], gamma(2.0 * k as f64 + 4.0));
        let mut most = 0.0f64;
        for i in 0..k {
            let mut row = 0.0;
            for j in 0..k {
                let (mut value, mut off) = (0.0, 0.0);
                for m in 0..k {
                    for l in 0..k {
                        let unit = f64::from(u8::from(l == m));
                        let by = half[i * k + l] * half[j * k + m];
                        value += by * (unit + a[m * k + l]);
                        off += by.abs() * (rounding * (unit + a[m * k + l].abs()) + a_off[m * k + l]);
                    }
                }
                let wanted = f64::from(u8::from(i == j && active[i]));
                row += (value - wanted).abs() + off + 2.0 * U;
            }
            most = most.max(row);
        }
        let most = SAFE * most;
        if most < 0.5 { most / (1.0 - most) } else { f64::INFINITY }
    }

    fn part(&self, c: usize, half: &[f64]) -> Option<Part> {
        let (s, radius) = (&self.exact.middle, &self.exact.radius);
        let (k, n) = (s.layout.factors[0].effects, s.components.size(c));
        let levels = s.components.levels(c);
        let mut out = Part { n: n as f64, ..Part::default() };
        let (mut squares, mut off) = (0.0, 0.0);
        let (rounding, mut u) = (gamma(k as f64 + 2.0), Vec::new());
        for &g in levels {
            let g = g as usize;
            let at = g * k * k..(g + 1) * k * k;
            let (h, a, a_off) = (&half[at.clone()], &s.own[0][at.clone()], &radius.own[0][at]);
            let (b, b_off) = (s.meeting(g).1, radius.meeting(g).1);
            // Y = HB̂ and its errors
            let (mut y, mut y_off) = (0.0, 0.0);
            for (b, b_off) in b.chunks_exact(k).zip(b_off.chunks_exact(k)) {
                for i in 0..k {
                    let h = &h[i * k..][..k];
                    y += small::inner(h, b).powi(2);
                    let each = h.iter().zip(b.iter().zip(b_off));
                    y_off +=
                        each.map(|(h, (b, off))| h.abs() * (off + rounding * b.abs())).sum::<f64>().powi(2);
                }
            }
            let (y_off, y) = (y_off.sqrt(), y.sqrt() + y_off.sqrt());
            squares += y * y;
            off += self.level_part(h, a, a_off, k) * y * y + 2.0 * y * y_off;
            self.point.kept_meeting(g, &mut u);
            out.u += small::inner(&u, &u);
            out.u_error += (2.0 * self.own_residual(a, a_off, b, b_off, &u, k)).powi(2);
        }
        let (known, beside) = (norm(s.rest.block(c)), norm(radius.rest.block(c)));
        let summed = gamma((k * levels.len()) as f64 + 4.0);
        out.k = SAFE * (beside + summed * (known + squares) + off);
        // I − SS̃⁻¹
        let inverse = self.slopes.inverse.block(c);
        let mut active = vec![true; n];
        for f in 1..s.layout.factors.len() {
            let effects = &self.active[f];
            s.components.part(c, f).enumerate().for_each(|(i, at)| active[at] = effects[i % effects.len()]);
        }
        let mut whole = self.point.k.block(c).to_vec();
        for (j, column) in whole.chunks_exact_mut(n).enumerate() {
            let kept = column.iter_mut().zip(&active);
            kept.filter(|(_, a)| !**a || !active[j]).for_each(|(x, _)| *x = 0.0);
            column[j] += 1.0;
        }
        let mut residual = vec![0.0; n * n];
        residual.iter_mut().step_by(n + 1).for_each(|x| *x = -1.0);
        add_times(&whole, n, inverse, &mut residual);
        out.inverse = norm(inverse);
        let computed = norm(&residual)
            + gamma(n as f64 + 4.0) * (norm(&whole) * out.inverse + out.n.sqrt())
            + 2.0 * U * norm(&whole) * out.inverse;
        out.residual = SAFE * (computed + out.k) / (1.0 - out.k);
        let direct = self.slopes.inverted[1..].iter().any(Option::is_none);
        out.size = if direct { norm(self.point.k.block(c)) } else { 0.0 };
        (out.k < 0.1 && out.residual < 0.1).then_some(out)
    }

    /// Σ_levels ⟨block, B⟩ of ẐᵀV⁻¹Ẑ for directions of ‖B‖ ≤ 1, what they may be off, and at least its trace.
    pub(super) fn traces(
        &self,
        own: &[(f64, f64)],
        parts: &[Part],
        directions: &[Direction],
    ) -> (Vec<f64>, Vec<f64>, f64) {
        let s = &self.exact.middle;
        let factors = 0..s.layout.factors.len();
        let errors: Vec<f64> = factors.clone().map(|f| self.trace_error(f, own, parts)).collect();
        let sum = |f: usize, e: &[f64]| -> (f64, f64) {
            let size = e.len();
            let each = self.slopes.blocks[f].chunks_exact(size);
            let inner: Vec<f64> = each.clone().map(|block| small::inner(block, e)).collect();
            let sizes: f64 =
                each.map(|block| block.iter().zip(e).map(|(b, e)| (b * e).abs()).sum::<f64>()).sum();
            let (value, off) = dot(&inner, &vec![1.0; inner.len()]);
            (value, off + gamma(size as f64 + 2.0) * sizes)
        };
        let each = directions.iter().map(|v| {
            let (value, off) = sum(v.factor, &v.e);
            (value, SAFE * (off + errors[v.factor]))
        });
        let (values, offs) = each.unzip();
        let total: f64 = factors
            .map(|f| {
                let (value, off) = sum(f, &small::identity(s.layout.factors[f].effects));
                value + off + errors[f]
            })
            .sum();
        (values, offs, (SAFE * total).min(s.layout.columns() as f64))
    }

    /// How far the sum of the diagonal blocks of factor `f` is off, along any direction of ‖B‖ ≤ 1.
    fn trace_error(&self, f: usize, own: &[(f64, f64)], parts: &[Part]) -> f64 {
        let s = &self.exact.middle;
        let k = s.layout.factors[f].effects as f64;
        if f == 0 {
            let rounding = gamma(k + 4.0);
            let levels: f64 = own.iter().map(|(size, off)| k.sqrt() * (off + rounding * size)).sum();
            let of = |part: &Part| {
                (2.0 * part.u.sqrt() + part.u_error.sqrt()) * part.u_error.sqrt()
                    + part.u * (part.residual + gamma(3.0 * part.n + k + 8.0) * part.inverse)
            };
            return levels + parts.iter().map(of).sum::<f64>();
        }
        let inverted = self.slopes.inverted[f].is_some();
        let of = |(c, part): (usize, &Part)| {
            let root = part.n.sqrt();
            if inverted {
                return root * part.residual + 8.0 * U * k * (part.n + root * part.inverse);
            }
            let (at, n) = (s.components.part(c, f), s.components.size(c));
            let size = norm(&self.point.k.block(c)[at.start * n..at.end * n]);
            root * (4.0 * part.k + 2.0 * part.residual * size)
                + gamma(2.0 * part.n + 4.0) * (root * size + size * size * part.inverse)
        };
        parts.iter().enumerate().map(of).sum()
    }

    /// How far tr(RBRB′) is off, ‖B‖_F = ‖B′‖_F = 1: of R itself, and of the sums that it is computed by.
    pub(super) fn second(&self, own: &[(f64, f64)], parts: &[Part], total: f64, projection: f64) -> f64 {
        let s = &self.exact.middle;
        let p = s.layout.fixed as f64;
        let k = s.layout.factors.iter().map(|f| f.effects).max().unwrap_or(1) as f64;
        let levels: f64 = own.iter().map(|(_, off)| off * off).sum();
        let of = |part: &Part| {
            let (root, root_error) = (part.u.sqrt(), part.u_error.sqrt());
            let through = part.residual * (1.0 + 2.0 * part.size) + part.k;
            (4.0 * part.k + part.residual * (1.0 + 2.0 * part.size))
                + 4.0 * root_error
                + 2.0 * root * through
                + 2.0 * root * root_error
                + part.u_error
                + part.u * part.residual
        };
        let rest: f64 = parts.iter().map(|part| of(part).powi(2)).sum();
        let off = levels.sqrt() + rest.sqrt() + projection;
        let sums = |part: &Part| {
            let (root, inverse) = (part.n.sqrt(), part.inverse);
            let through = inverse + root + inverse * part.size;
            let rest = inverse + root + part.size * through;
            2.0 * (inverse * part.u).powi(2)
                + 2.0 * inverse * part.u * p
                + (through * part.u.sqrt() + p).powi(2)
                + (rest + p).powi(2)
        };
        let squares = own.iter().map(|(size, _)| size * size).sum::<f64>() + 8.0 * p * p;
        let sums = 4.0 * (squares + parts.iter().map(sums).sum::<f64>());
        let rounding = gamma(4.0 * s.layout.columns() as f64 + 64.0) * 4.0 * k * k * sums;
        SAFE * (2.0 * total.sqrt() * off + off * off + rounding)
    }
}
