//! R1: bounds of the errors of the derivatives that L1 and L2 use, against those of the rows without any rounding
//! (docs/mixed.md, R1).

use super::blocks::add_times;
use super::derivatives::{Direction, traces};
use super::enclosure::{Enclosure, gamma};
use super::moments::{Moments, whitened};
use super::point::{Criterion, Point, levels};
use super::slopes::Slopes;
use super::small;
use super::statistics::Statistics;

/// Every bound is a sum of non-negative products, computed with a relative error far below this.
const SAFE: f64 = 1.01;
const U: f64 = 0.5 * f64::EPSILON;

/// Derivatives along directions, and at least how far each is off.
pub(super) struct Verified {
    pub(super) m: f64,
    pub(super) gradient: Vec<f64>,
    pub(super) gradient_error: Vec<f64>,
    pub(super) hessian: Vec<f64>,
    pub(super) hessian_error: Vec<f64>,
    pub(super) e: Vec<f64>,
    pub(super) e_error: Vec<f64>,
    pub(super) q1: Vec<f64>,
    pub(super) q1_error: Vec<f64>,
    pub(super) q2: Vec<f64>,
    pub(super) q2_error: Vec<f64>,
    /// Of Q, as a part of it.
    pub(super) q_error: f64,
}

/// Σxy in twice the working precision, and a bound of its error.
pub(super) fn dot(x: &[f64], y: &[f64]) -> (f64, f64) {
    let (mut sum, mut low, mut size) = (0.0f64, 0.0f64, 0.0f64);
    for (x, y) in x.iter().zip(y) {
        let product = x * y;
        let next = sum + product;
        let back = next - sum;
        low += ((sum - (next - back)) + (product - back)) + x.mul_add(*y, -product);
        size += product.abs();
        sum = next;
    }
    let value = sum + low;
    (value, 2.0 * U * value.abs() + 2.0 * gamma(x.len() as f64 + 2.0).powi(2) * size)
}

fn norm(x: &[f64]) -> f64 {
    small::inner(x, x).sqrt()
}

/// What the rows of a component and of its levels leave uncertain, as Frobenius norms.
#[derive(Clone, Copy, Default)]
struct Part {
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

struct Bound<'a> {
    exact: &'a Enclosure,
    point: &'a Point<'a>,
    slopes: &'a Slopes,
    /// Which columns of Z have a variance, by factors and effects.
    active: Vec<Vec<bool>>,
    /// 1, or 2 with columns that have none.
    beside: f64,
    /// Products that are added up in a row of C.
    terms: Vec<f64>,
}

/// ĜΠx of vectors over all columns of Z: as computed, of moduli, and with the radii.
struct Times {
    value: Vec<f64>,
    size: Vec<f64>,
    radius: Vec<f64>,
}

impl<'a> Bound<'a> {
    fn new(exact: &'a Enclosure, point: &'a Point<'a>, slopes: &'a Slopes) -> Self {
        let s = &exact.middle;
        let (first, before) = (s.layout.factors[0], s.layout.factors[0].columns());
        let active: Vec<Vec<bool>> = s
            .layout
            .factors
            .iter()
            .zip(&point.t)
            .map(|(f, t)| (0..f.effects).map(|i| t[i * (f.effects + 1)] != 0.0).collect())
            .collect();
        let beside = if active.iter().flatten().all(|x| *x) { 1.0 } else { 2.0 };
        let mut terms = vec![0.0; s.layout.columns()];
        for g in 0..first.levels {
            let met = s.meeting(g).0;
            let own = (first.effects + met.len()) as f64;
            terms[g * first.effects..][..first.effects].fill(own);
            met.iter().for_each(|&c| terms[before + c as usize] += first.effects as f64);
        }
        for c in 0..s.components.count() {
            let members = s.components.members(c);
            members.iter().for_each(|&column| terms[before + column as usize] += members.len() as f64);
        }
        Self { exact, point, slopes, active, beside, terms }
    }

    /// Πx.
    fn kept(&self, x: &[f64]) -> Vec<f64> {
        let mut out = x.to_vec();
        for (factor, active) in self.exact.middle.layout.factors.iter().zip(&self.active) {
            for level in out[factor.start..factor.start + factor.columns()].chunks_exact_mut(factor.effects) {
                level.iter_mut().zip(active).filter(|(_, a)| !**a).for_each(|(x, _)| *x = 0.0);
            }
        }
        out
    }

    /// ĜΠx.
    fn times(&self, x: &[f64]) -> Times {
        self.times_all(&self.kept(x))
    }

    /// Ĝx.
    fn times_all(&self, x: &[f64]) -> Times {
        let sizes: Vec<f64> = x.iter().map(|x| x.abs()).collect();
        Times {
            value: apply(&self.exact.middle, x, false),
            size: apply(&self.exact.middle, &sizes, true),
            radius: apply(&self.exact.radius, &sizes, true),
        }
    }

    /// s = b − x − ĜΠx as computed, and what its entries may be off; `off` is what those of b are.
    fn residual(&self, x: &[f64], b: &[f64], off: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let times = self.times(x);
        let each = 0..x.len();
        let value: Vec<f64> = each.clone().map(|i| (b[i] - x[i]) - times.value[i]).collect();
        let radius = each.map(|i| {
            let size = b[i].abs() + x[i].abs() + times.size[i];
            SAFE * (off[i] + times.radius[i] + gamma(self.terms[i] + 4.0) * size)
        });
        let radius = radius.collect();
        (value, radius)
    }

    /// Lemma R1a: ‖x − x*‖ ≤ ‖s‖, twice that with columns without a variance.
    fn off(&self, s: &(Vec<f64>, Vec<f64>)) -> f64 {
        let square: f64 = s.0.iter().zip(&s.1).map(|(s, r)| (s.abs() + r).powi(2)).sum();
        SAFE * self.beside * square.sqrt()
    }

    /// Ẑᵀ[X r]m, and what its entries may be off.
    fn right(&self, m: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (s, width) = (&self.exact.middle, m.len());
        let (mut value, mut off) = (vec![0.0; s.layout.columns()], vec![0.0; s.layout.columns()]);
        let rounding = gamma(width as f64 + 2.0);
        for (f, factor) in s.layout.factors.iter().enumerate() {
            let k = factor.effects;
            for (at, (middle, radius)) in
                s.cross[f].chunks_exact(k).zip(self.exact.radius.cross[f].chunks_exact(k)).enumerate()
            {
                let (level, by) = (at / width, m[at % width]);
                for i in 0..k {
                    let to = factor.start + level * k + i;
                    value[to] += middle[i] * by;
                    off[to] += (radius[i] + rounding * middle[i].abs()) * by.abs();
                }
            }
        }
        (value, off)
    }

    /// aᵀ[X r]ᵀ[X r]b, and what it may be off.
    fn fixed(&self, a: &[f64], b: &[f64]) -> (f64, f64) {
        let (width, middle, radius) = (a.len(), &self.exact.middle.fixed, &self.exact.radius.fixed);
        let products: Vec<f64> = (0..width * width).map(|e| a[e % width] * b[e / width]).collect();
        let (value, error) = dot(&products, middle);
        let off = products.iter().zip(radius.iter().zip(middle));
        let off: f64 = off.map(|(p, (r, m))| p.abs() * (r + 2.0 * U * m.abs())).sum();
        (value, SAFE * (error + off))
    }

    /// (‖P_g‖ and how far it is off) of every level of factor 1; and what every component leaves uncertain.
    fn parts(&self) -> Option<(Vec<(f64, f64)>, Vec<Part>)> {
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

    /// ‖B − X − AΠX‖ of a level, errors of A and B added.
    fn own_residual(&self, a: &[f64], a_off: &[f64], b: &[f64], b_off: &[f64], x: &[f64], k: usize) -> f64 {
        let (active, rounding) = (&self.active[0], gamma(k as f64 + 4.0));
        let mut sum = 0.0;
        for (j, x) in x.chunks_exact(k).enumerate() {
            for i in 0..k {
                let at = j * k + i;
                let (mut value, mut size, mut off) = (b[at] - x[i], b[at].abs() + x[i].abs(), b_off[at]);
                for l in (0..k).filter(|&l| active[l]) {
                    value -= a[l * k + i] * x[l];
                    size += (a[l * k + i] * x[l]).abs();
                    off += a_off[l * k + i] * x[l].abs();
                }
                sum += (value.abs() + off + rounding * size).powi(2);
            }
        }
        SAFE * sum.sqrt()
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
                    y_off += each
                        .map(|(h, (b, off))| h.abs() * (off + rounding * b.abs()))
                        .sum::<f64>()
                        .powi(2);
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
    fn traces(
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
            root * (4.0 * part.k + part.residual * size)
                + gamma(2.0 * part.n + 4.0) * (root * size + size * size * part.inverse)
        };
        parts.iter().enumerate().map(of).sum()
    }

    /// How far tr(RBRB′) is off, ‖B‖_F = ‖B′‖_F = 1: of R itself, and of the sums that it is computed by.
    fn second(&self, own: &[(f64, f64)], parts: &[Part], total: f64, projection: f64) -> f64 {
        let s = &self.exact.middle;
        let p = s.layout.fixed as f64;
        let k = s.layout.factors.iter().map(|f| f.effects).max().unwrap_or(1) as f64;
        let levels: f64 = own.iter().map(|(_, off)| off * off).sum();
        let of = |part: &Part| {
            let (root, root_error) = (part.u.sqrt(), part.u_error.sqrt());
            let through = part.residual * (1.0 + part.size) + part.k;
            (4.0 * part.k + part.residual * (1.0 + part.size))
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

/// ĜΠx of x with the entries of `s`, or of moduli.
fn apply(s: &Statistics, x: &[f64], moduli: bool) -> Vec<f64> {
    let sized = |v: f64| if moduli { v.abs() } else { v };
    let (first, before) = (s.layout.factors[0], s.layout.factors[0].columns());
    let k = first.effects;
    let mut out = vec![0.0; x.len()];
    let (out1, out2) = out.split_at_mut(before);
    let (x1, x2) = x.split_at(before);
    for g in 0..first.levels {
        let a = &s.own[0][g * k * k..][..k * k];
        let (met, b) = s.meeting(g);
        for i in 0..k {
            let mut sum: f64 = (0..k).map(|l| sized(a[l * k + i]) * x1[g * k + l]).sum();
            for (t, &column) in met.iter().enumerate() {
                sum += sized(b[t * k + i]) * x2[column as usize];
                out2[column as usize] += sized(b[t * k + i]) * x1[g * k + i];
            }
            out1[g * k + i] = sum;
        }
    }
    for c in 0..s.components.count() {
        let (members, block) = (s.components.members(c), s.rest.block(c));
        for (&j, column) in members.iter().zip(block.chunks_exact(members.len())) {
            let by = x2[j as usize];
            members.iter().zip(column).for_each(|(&i, v)| out2[i as usize] += sized(*v) * by);
        }
    }
    out
}

/// Bv of a direction at its factor's columns, 0 elsewhere.
fn moved(s: &Statistics, direction: &Direction, v: &[f64]) -> Vec<f64> {
    let factor = s.layout.factors[direction.factor];
    let (k, at) = (factor.effects, factor.start..factor.start + factor.columns());
    let mut out = vec![0.0; v.len()];
    for (to, v) in out[at.clone()].chunks_exact_mut(k).zip(v[at].chunks_exact(k)) {
        (0..k).for_each(|i| to[i] = (0..k).map(|l| direction.e[l * k + i] * v[l]).sum());
    }
    out
}

/// Derivatives at an estimate in units of which Z is given (T is the identity, or 0 for columns without a variance);
/// nothing if rounding may hide what they are.
pub(super) fn verified(
    exact: &Enclosure,
    criterion: Criterion,
    point: &Point<'_>,
    slopes: &Slopes,
    directions: &[Direction],
) -> Option<Verified> {
    let s = &exact.middle;
    let (p, all, d) = (s.layout.fixed, s.layout.columns(), directions.len());
    let bound = Bound::new(exact, point, slopes);
    let reml = criterion == Criterion::Reml;

    // solutions: the whitened columns of X, and v = Ẑᵀ P r
    let x = whitened(point, slopes, p);
    let width = p + 1;
    let lx: Vec<f64> = (0..p * p).map(|e| point.lx[e / p * width + e % p]).collect();
    let mut combinations = vec![vec![0.0; width]; width];
    for c in 0..p {
        let mut column = vec![0.0; p];
        column[c] = 1.0;
        small::forward(&lx, p, &mut column);
        (0..p).for_each(|j| combinations[j][c] = column[j]);
    }
    (0..p).for_each(|c| combinations[p][c] = -slopes.beta[c]);
    combinations[p][p] = 1.0;
    let mut solutions: Vec<Vec<f64>> =
        (0..p).map(|j| (0..all).map(|at| x[at * p + j]).collect()).collect();
    solutions.push(slopes.u.clone());
    let rights: Vec<(Vec<f64>, Vec<f64>)> = combinations.iter().map(|m| bound.right(m)).collect();
    let residuals: Vec<(Vec<f64>, Vec<f64>)> =
        solutions.iter().zip(&rights).map(|(x, (b, off))| bound.residual(x, b, off)).collect();
    let offs: Vec<f64> = residuals.iter().map(|r| bound.off(r)).collect();

    // G = [X r]ᵀV⁻¹[X r], in these combinations
    let gram = |a: usize, b: usize| -> (f64, f64) {
        let (kept_a, kept_b) = (bound.kept(&solutions[a]), bound.kept(&solutions[b]));
        let (own, own_off) = bound.fixed(&combinations[a], &combinations[b]);
        let (through, through_off) = dot(&rights[a].0, &kept_b);
        let (beside, beside_off) = dot(&kept_a, &residuals[b].0);
        let modulus = |x: &[f64], r: &[f64]| x.iter().zip(r).map(|(x, r)| x.abs() * r).sum::<f64>();
        let value = own - through - beside;
        let off = own_off + through_off + beside_off + modulus(&kept_b, &rights[a].1)
            + modulus(&kept_a, &residuals[b].1)
            + offs[a] * offs[b]
            + 4.0 * U * (own.abs() + through.abs() + beside.abs());
        (value, SAFE * off)
    };
    let mut theta = 0.0f64;
    for (a, b) in (0..p).flat_map(|b| (0..=b).map(move |a| (a, b))) {
        let (value, off) = gram(a, b);
        let wanted = f64::from(u8::from(a == b));
        theta += (if a == b { 1.0 } else { 2.0 }) * ((value - wanted).abs() + off).powi(2);
    }
    let theta = SAFE * theta.sqrt();
    if theta.is_nan() || theta > 0.1 {
        return None;
    }
    let left: f64 = (0..p).map(|a| gram(a, p)).map(|(value, off)| (value.abs() + off).powi(2)).sum();
    let left = SAFE * left.sqrt() / (1.0 - theta);
    let (q, q_off) = gram(p, p);
    let q_off = q_off + left * left;
    let q_error = q_off / (q - q_off);
    if q_error.is_nan() || q <= q_off || q_error > 0.1 {
        return None;
    }
    let v = &solutions[p];
    let v_off = SAFE * (offs[p] + (1.0 + theta).sqrt() * left);
    let x_off = SAFE * norm(&offs[..p]);
    // Lemma R1c: of D_w(I + Δ)⁻¹D_wᵀ
    let through = theta / (1.0 - theta) * (1.0 + theta);
    let roots = (p as f64 * (1.0 + theta)).sqrt();
    let projection = SAFE * (2.0 * roots * x_off + x_off * x_off + through * p as f64);

    // traces
    let (own, parts) = bound.parts()?;
    let (trace, trace_error, total) = bound.traces(&own, &parts, directions);
    let mut gradient = Vec::with_capacity(d);
    let mut gradient_error = Vec::with_capacity(d);
    let (mut q1, mut q1_error) = (Vec::with_capacity(d), Vec::with_capacity(d));
    let m = point.freedom();
    let m_error = if m == m.round() { 0.0 } else { gamma(s.depth as f64 + 4.0) * (m + p as f64) };
    let moves: Vec<Vec<f64>> = directions.iter().map(|direction| moved(s, direction, v)).collect();
    for ((direction, w), (t, t_error)) in directions.iter().zip(&moves).zip(trace.iter().zip(&trace_error)) {
        let rounding = gamma(s.layout.factors[direction.factor].effects as f64 + 2.0);
        let (sum, sum_off) = dot(v, w);
        let own = norm(&v[s.layout.factors[direction.factor].start..]
            [..s.layout.factors[direction.factor].columns()]);
        let off = sum_off + (2.0 * v_off + 2.0 * rounding * own) * own + v_off * v_off;
        let slope = -sum / q;
        let slope_off = SAFE * (off / (q - q_off) + slope.abs() * (q_error + 4.0 * U));
        let (mut along, mut along_off) = (*t, *t_error);
        if reml {
            for column in &solutions[..p] {
                let (square, off) = dot(column, &moved(s, direction, column));
                along -= square;
                along_off += off + 2.0 * rounding * small::inner(column, column) + 4.0 * U * (t.abs() + square.abs());
            }
            along_off += projection;
        }
        gradient.push(along + m * slope);
        let sizes = along.abs() + m * slope.abs();
        gradient_error.push(SAFE * (along_off + m * slope_off + m_error * slope.abs() + 4.0 * U * sizes));
        q1.push(slope);
        q1_error.push(slope_off);
    }

    // second derivatives
    let image = slopes.times(point, &moves.concat());
    let mut image_off = Vec::with_capacity(d);
    for (w, z) in moves.iter().zip(image.chunks_exact(all)) {
        let times = bound.times_all(w);
        let mut back = z.to_vec();
        for column in &solutions[..p] {
            let by = dot(column, w).0;
            back.iter_mut().zip(column).for_each(|(b, x)| *b += by * x);
        }
        let off: Vec<f64> = (0..all)
            .map(|i| times.radius[i] + gamma(bound.terms[i] + 2.0) * times.size[i])
            .collect();
        let left = bound.off(&bound.residual(&back, &times.value, &off));
        let size = norm(w);
        let rounding = gamma(2.0 * p as f64 + 10.0) * (norm(z) + 2.0 * p as f64 * size);
        image_off.push(SAFE * (left + projection * size + rounding));
    }
    let e = traces(&Moments::new(point, slopes), directions);
    let e_off = bound.second(&own, &parts, total, if reml { projection } else { 0.0 });
    let (mut q2, mut q2_error) = (vec![0.0; d * d], vec![0.0; d * d]);
    let (mut hessian, mut hessian_error) = (vec![0.0; d * d], vec![0.0; d * d]);
    for (a, b) in (0..d).flat_map(|b| (0..d).map(move |a| (a, b))) {
        // the larger index has the image, so that all stays symmetric
        let (low, high) = (a.min(b), a.max(b));
        let (w, z) = (&moves[low], &image[high * all..][..all]);
        let (sum, off) = dot(w, z);
        let (w_size, z_size) = (norm(w), norm(z));
        let moved_off = v_off + gamma(16.0) * w_size;
        let off = off + w_size * (image_off[high] + moved_off) + moved_off * (z_size + image_off[high] + moved_off);
        let at = b * d + a;
        q2[at] = 2.0 * sum / q;
        q2_error[at] = SAFE * (2.0 * off / (q - q_off) + q2[at].abs() * (q_error + 4.0 * U));
        hessian[at] = -e[at] + m * (q2[at] - q1[a] * q1[b]);
        let products = q1[a].abs() * q1_error[b] + q1[b].abs() * q1_error[a] + q1_error[a] * q1_error[b];
        let sizes = e[at].abs() + m * (q2[at].abs() + (q1[a] * q1[b]).abs());
        hessian_error[at] = SAFE
            * (e_off + m * (q2_error[at] + products) + (8.0 * U + m_error / m) * sizes);
    }
    let bounds = [&gradient_error, &hessian_error, &q2_error, &q1_error];
    if bounds.iter().any(|errors| errors.iter().any(|x| !x.is_finite())) || !e_off.is_finite() {
        return None;
    }
    Some(Verified {
        m,
        gradient,
        gradient_error,
        hessian,
        hessian_error,
        e,
        e_error: vec![e_off; d * d],
        q1,
        q1_error,
        q2,
        q2_error,
        q_error: SAFE * q_error,
    })
}
