//! R1: what a computed solution leaves of its equations, errors of the sums and of rounding included, bounds how far it
//! is off (docs/mixed.md, Lemma R1a).

use super::enclosure::{Enclosure, gamma};
use super::point::Point;
use super::slopes::Slopes;
use super::small;
use super::statistics::Statistics;

/// Every bound is a sum of non-negative products, computed with a relative error far below this.
pub(super) const SAFE: f64 = 1.01;
/// The unit roundoff.
pub(super) const U: f64 = 0.5 * f64::EPSILON;

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

pub(super) fn norm(x: &[f64]) -> f64 {
    small::inner(x, x).sqrt()
}

/// An estimate in units of which Z is given, what was computed there, and what of that is uncertain.
pub(super) struct Bound<'a> {
    pub(super) exact: &'a Enclosure,
    pub(super) point: &'a Point<'a>,
    pub(super) slopes: &'a Slopes,
    /// Which columns of Z have a variance, by factors and effects.
    pub(super) active: Vec<Vec<bool>>,
    /// 1, or 2 with columns that have none.
    beside: f64,
    /// Products that are added up in a row of C.
    pub(super) terms: Vec<f64>,
}

/// ĜΠx of vectors over all columns of Z: as computed, of moduli, and with the radii.
pub(super) struct Times {
    pub(super) value: Vec<f64>,
    pub(super) size: Vec<f64>,
    pub(super) radius: Vec<f64>,
}

impl<'a> Bound<'a> {
    pub(super) fn new(exact: &'a Enclosure, point: &'a Point<'a>, slopes: &'a Slopes) -> Self {
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
    pub(super) fn kept(&self, x: &[f64]) -> Vec<f64> {
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
    pub(super) fn times_all(&self, x: &[f64]) -> Times {
        let sizes: Vec<f64> = x.iter().map(|x| x.abs()).collect();
        Times {
            value: apply(&self.exact.middle, x, false),
            size: apply(&self.exact.middle, &sizes, true),
            radius: apply(&self.exact.radius, &sizes, true),
        }
    }

    /// s = b − x − ĜΠx as computed, and what its entries may be off; `off` is what those of b are.
    pub(super) fn residual(&self, x: &[f64], b: &[f64], off: &[f64]) -> (Vec<f64>, Vec<f64>) {
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
    pub(super) fn off(&self, s: &(Vec<f64>, Vec<f64>)) -> f64 {
        let square: f64 = s.0.iter().zip(&s.1).map(|(s, r)| (s.abs() + r).powi(2)).sum();
        SAFE * self.beside * square.sqrt()
    }

    /// Ẑᵀ[X r]m, and what its entries may be off.
    pub(super) fn right(&self, m: &[f64]) -> (Vec<f64>, Vec<f64>) {
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
    pub(super) fn fixed(&self, a: &[f64], b: &[f64]) -> (f64, f64) {
        let (width, middle, radius) = (a.len(), &self.exact.middle.fixed, &self.exact.radius.fixed);
        let products: Vec<f64> = (0..width * width).map(|e| a[e % width] * b[e / width]).collect();
        let (value, error) = dot(&products, middle);
        let off = products.iter().zip(radius.iter().zip(middle));
        let off: f64 = off.map(|(p, (r, m))| p.abs() * (r + 2.0 * U * m.abs())).sum();
        (value, SAFE * (error + off))
    }

    /// ‖B − X − AΠX‖ of a level, errors of A and B added.
    pub(super) fn own_residual(
        &self,
        a: &[f64],
        a_off: &[f64],
        b: &[f64],
        b_off: &[f64],
        x: &[f64],
        k: usize,
    ) -> f64 {
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
