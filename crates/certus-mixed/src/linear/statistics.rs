//! The sufficient statistics of a linear mixed model: cross-products of rows around their least-squares fit
//! (docs/mixed.md, L0). After them no step looks at a row again.

use std::sync::Arc;

use certus::linalg;

use super::blocks::Blocks;
use super::components::Components;
use super::error::Error;
use super::layout::{Design, Factor, Layout};
use super::relations::Relations;
use super::small;
use super::sums::{Row, Sums};

/// What of a column of X must be left after the columns before it, as a part of its sum of squares.
const COLLINEAR: f64 = 1e-13;
/// Residuals of the fixed effects below this many roundings of the largest response are none.
const PERFECT: f64 = 64.0;
/// Entries that the blocks of Z₂ᵀZ₂ may have (2 GiB).
const LIMIT: usize = 16_384 * 16_384;

/// Cross-products for the least-squares fit alone: a first pass, for the base of [`Sums`].
#[derive(Debug, Clone)]
pub struct LeastSquares {
    fixed: usize,
    sums: Vec<f64>,
}

impl LeastSquares {
    /// No rows yet, `fixed` columns.
    pub fn new(fixed: usize) -> Self {
        Self { fixed, sums: vec![0.0; (fixed + 1) * (fixed + 1)] }
    }

    /// Adds a row.
    pub fn push(&mut self, row: &Row<'_>) {
        let width = self.fixed + 1;
        let at = |c: usize| if c == self.fixed { row.response } else { row.fixed[c] };
        for c in 0..width {
            for r in 0..=c {
                self.sums[c * width + r] += row.weight * at(r) * at(c);
            }
        }
    }

    /// Adds other rows.
    pub fn merge(&mut self, other: &Self) {
        self.sums.iter_mut().zip(&other.sums).for_each(|(a, b)| *a += b);
    }

    /// β₀.
    pub fn solve(&self) -> Result<Vec<f64>, Error> {
        normal(&self.sums, self.fixed)
    }
}

/// The solution of XᵀXβ = Xᵀy, from the upper triangle of [X y]ᵀ[X y].
fn normal(sums: &[f64], p: usize) -> Result<Vec<f64>, Error> {
    let width = p + 1;
    let scale: Vec<f64> = (0..p).map(|j| sums[j * width + j].sqrt()).collect();
    if let Some(column) = scale.iter().position(|s| s.is_nan() || *s == 0.0) {
        return Err(Error::Collinear { column });
    }
    let mut l = vec![0.0; p * p];
    for j in 0..p {
        for i in j..p {
            l[j * p + i] = sums[i * width + j] / (scale[i] * scale[j]);
        }
    }
    for j in 0..p {
        let pivot = 1.0 - (0..j).map(|c| l[c * p + j] * l[c * p + j]).sum::<f64>();
        if pivot.is_nan() || pivot < COLLINEAR {
            return Err(Error::Collinear { column: j });
        }
        let root = pivot.sqrt();
        l[j * p + j] = root;
        for i in j + 1..p {
            let sum: f64 = (0..j).map(|c| l[c * p + i] * l[c * p + j]).sum();
            l[j * p + i] = (l[j * p + i] - sum) / root;
        }
    }
    let mut x: Vec<f64> = (0..p).map(|j| sums[p * width + j] / scale[j]).collect();
    small::forward(&l, p, &mut x);
    small::backward(&l, p, &mut x);
    x.iter_mut().zip(&scale).for_each(|(x, s)| *x /= s);
    Ok(x)
}

/// The sufficient statistics, with r = y − Xβ₀ for y, β₀ the least-squares fit.
#[derive(Debug, Clone)]
pub struct Statistics {
    pub(super) layout: Layout,
    pub(super) base: Vec<f64>,
    pub(super) rows: usize,
    /// n = Σ w, what rows count for.
    pub(super) weight: f64,
    /// Per factor, per level: Z_fᵀZ_f (k × k).
    pub(super) own: Vec<Vec<f64>>,
    /// Per factor, per level: Z_fᵀ[X r] (k × (p + 1)).
    pub(super) cross: Vec<Vec<f64>>,
    /// The columns of Z₂ that belong together.
    pub(super) components: Arc<Components>,
    /// Z₂ᵀZ₂.
    pub(super) rest: Blocks,
    /// Z₂ᵀ[X r] (q₂ × (p + 1)).
    pub(super) rest_cross: Vec<f64>,
    /// [X r]ᵀ[X r].
    pub(super) fixed: Vec<f64>,
    /// Per level of factor 1: where its columns of Z₁ᵀZ₂ begin in `columns`.
    pub(super) offsets: Vec<usize>,
    /// Columns of Z₂ that a level meets, ascending.
    pub(super) columns: Vec<u32>,
    /// B_g: per level k₁ × (its columns), by columns.
    pub(super) meetings: Vec<f64>,
    /// Rows of the largest level of factor 1.
    pub(super) largest: usize,
    /// [`Sums::spread`].
    pub(super) spread: f64,
    /// R1: at least ‖r‖, of which sums of products with r are wrong by a few roundings; and how far r itself may be
    /// off, in units of a rounding.
    pub(super) residual: f64,
    pub(super) stray: f64,
    /// [`Sums::depth`].
    pub(super) depth: usize,
    /// [`Sums::whole`].
    pub(super) whole: Vec<Vec<bool>>,
    pub(super) whole_fixed: Vec<bool>,
    pub(super) relations: Relations,
}

impl Sums {
    /// The statistics of all rows that were pushed or merged.
    pub fn finish(self) -> Result<Statistics, Error> {
        let p = self.layout.fixed;
        if self.rows <= p || self.weight <= p as f64 {
            return Err(Error::TooFewRows { rows: self.rows, fixed: p });
        }
        let change = normal(&self.fixed, p)?;
        let Self { layout, mut base, rows, weight, spread, own, mut cross, mut fixed, .. } = self;
        let (blocks, pairs, counts) = (self.blocks, self.pairs, self.counts);
        let width = p + 1;
        // R1: r is off by u|r| and by what the compensated sum leaves; columns of X by four roundings of themselves
        let root = |c: usize| fixed[c * width + c].sqrt();
        let moved: f64 = change.iter().enumerate().map(|(c, change)| change.abs() * root(c)).sum();
        let left = ((width + 2) as f64).powi(2) * f64::EPSILON * self.reach + 8.0 * spread;
        let (residual, stray) = (root(p) + moved, left * weight.sqrt());
        base.iter_mut().zip(&change).for_each(|(b, c)| *b += c);
        for (factor, cross) in layout.factors.iter().zip(&mut cross) {
            let k = factor.effects;
            for level in cross.chunks_exact_mut(k * width) {
                let (x, r) = level.split_at_mut(k * p);
                for (c, d) in change.iter().enumerate() {
                    r.iter_mut().zip(&x[c * k..]).for_each(|(r, x)| *r -= d * x);
                }
            }
        }
        // Xᵀr and rᵀr of the new residual
        for c in 0..width {
            for r in 0..c {
                fixed[r * width + c] = fixed[c * width + r];
            }
        }
        let old = fixed[p * width..].to_vec();
        let moved = |i: usize| (0..p).map(|c| fixed[c * width + i] * change[c]).sum::<f64>();
        let new: Vec<f64> = (0..p).map(|i| old[i] - moved(i)).collect();
        let square = old[p] - (0..p).map(|i| change[i] * (old[i] + new[i])).sum::<f64>();
        for i in 0..p {
            (fixed[p * width + i], fixed[i * width + p]) = (new[i], new[i]);
        }
        fixed[p * width + p] = square;
        // as small as the rounding of the responses
        let nothing = PERFECT * f64::EPSILON * self.largest;
        if square.is_nan() || square <= weight * nothing * nothing {
            return Err(Error::PerfectFit);
        }
        let largest = counts.iter().copied().max().unwrap_or(0) as usize;
        let (first, q) = (layout.factors[0], layout.rest());
        let mut rest_cross = vec![0.0; q * width];
        for (f, factor) in layout.factors.iter().enumerate().skip(1) {
            let (k, start) = (factor.effects, factor.start - first.columns());
            for level in 0..factor.levels {
                let at = start + level * k;
                for c in 0..width {
                    for i in 0..k {
                        rest_cross[c * q + at + i] = cross[f][(level * width + c) * k + i];
                    }
                }
            }
        }
        // pairs in the order of their columns; those of factor 1 apart
        let mut from = 0;
        let mut met: Vec<(u32, u32, usize)> = Vec::new();
        let mut beside: Vec<(u32, u32)> = Vec::new();
        let mut beside_from = Vec::new();
        for &(a, b) in &pairs {
            let (ka, kb) = (layout.effects_of(a), layout.effects_of(b));
            if (a as usize) < first.columns() {
                met.push((a, b, from));
            } else {
                let before = first.columns() as u32;
                beside.push((a - before, b - before));
                beside_from.push(from);
            }
            from += ka * kb;
        }
        met.sort_unstable();
        let (mut offsets, mut columns, mut meetings) = (vec![0], Vec::new(), Vec::new());
        let (k, mut next) = (first.effects, met.iter().peekable());
        for level in 0..first.levels {
            while let Some(&(_, b, from)) = next.next_if(|m| m.0 as usize == level * k) {
                let kb = layout.effects_of(b);
                columns.extend((0..kb).map(|j| b - first.columns() as u32 + j as u32));
                meetings.extend_from_slice(&blocks[from..from + k * kb]);
            }
            offsets.push(columns.len());
        }
        let components = Arc::new(Components::new(&layout, &offsets, &columns, &beside));
        if components.numbers() > LIMIT {
            let largest = (0..components.count()).map(|c| components.size(c)).max().unwrap_or(0);
            return Err(Error::TooLarge { columns: q, largest, numbers: components.numbers(), limit: LIMIT });
        }
        let mut rest = Blocks::zeros(&components);
        for (factor, own) in layout.factors.iter().zip(&own).skip(1) {
            let (k, start) = (factor.effects, factor.start - first.columns());
            for (at, own) in (start..).step_by(k).zip(own.chunks_exact(k * k)) {
                (0..k * k).for_each(|e| rest.set(at + e % k, at + e / k, own[e]));
            }
        }
        for (&(a, b), from) in beside.iter().zip(beside_from) {
            let first = first.columns() as u32;
            let (ka, kb) = (layout.effects_of(a + first), layout.effects_of(b + first));
            let (a, b) = (a as usize, b as usize);
            for (j, i) in (0..kb).flat_map(|j| (0..ka).map(move |i| (j, i))) {
                let value = blocks[from + j * ka + i];
                rest.set(a + i, b + j, value);
                rest.set(b + j, a + i, value);
            }
        }
        Ok(Statistics {
            layout,
            base,
            rows,
            weight,
            own,
            cross,
            components,
            rest,
            rest_cross,
            fixed,
            offsets,
            columns,
            meetings,
            largest,
            spread,
            residual,
            stray,
            depth: self.depth,
            whole: self.whole,
            whole_fixed: self.whole_fixed,
            relations: self.relations,
        })
    }
}

impl Statistics {
    /// From rows in memory, in two passes: the least-squares fit, then the cross-products around it.
    pub fn from_rows<'a>(
        design: &Design,
        rows: impl Iterator<Item = Row<'a>> + Clone,
    ) -> Result<Self, Error> {
        let mut first = LeastSquares::new(design.fixed);
        for row in rows.clone() {
            if row.fixed.len() != design.fixed {
                let (found, expected) = (row.fixed.len(), design.fixed);
                return Err(Error::Length { row: 0, what: "fixed effects", found, expected });
            }
            first.push(&row);
        }
        let mut sums = Sums::new(design, first.solve()?)?;
        for row in rows {
            sums.push(&row)?;
        }
        sums.finish()
    }

    /// Rows that were pushed.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// n = Σ w.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Σ w (y − xβ)².
    pub fn square(&self, beta: &[f64]) -> f64 {
        let (p, width) = (self.layout.fixed, self.layout.fixed + 1);
        // [X r](β₀ − β, 1)
        let mut by: Vec<f64> = self.base.iter().zip(beta).map(|(b0, b)| b0 - b).collect();
        by.push(1.0);
        let row = |i: usize| (0..=p).map(|j| self.fixed[j * width + i] * by[j]).sum::<f64>();
        (0..=p).map(|i| by[i] * row(i)).sum()
    }

    /// β₀, the least-squares fit.
    pub fn least_squares(&self) -> &[f64] {
        &self.base
    }

    /// p.
    pub fn fixed(&self) -> usize {
        self.layout.fixed
    }

    /// The number of terms.
    pub fn terms(&self) -> usize {
        self.layout.places.len()
    }

    /// Multiplications that the factors take that are not eliminated level by level: the cubes of the sizes of their
    /// connected components.
    pub fn cubes(&self) -> f64 {
        self.components.cubes()
    }

    /// B_g: the columns of Z₂ that level g of factor 1 meets, and its k₁ × (columns) block.
    pub(super) fn meeting(&self, g: usize) -> (&[u32], &[f64]) {
        let (k, at) = (self.layout.factors[0].effects, self.offsets[g]..self.offsets[g + 1]);
        (&self.columns[at.clone()], &self.meetings[at.start * k..at.end * k])
    }

    /// Per factor, the condition number of Σ_g Z_gᵀZ_g, its diagonal scaled to 1: how well its effects can be told
    /// apart.
    pub(super) fn conditions(&self) -> Vec<f64> {
        let of = |(factor, own): (&Factor, &Vec<f64>)| {
            let k = factor.effects;
            let mut sum = vec![0.0; k * k];
            own.chunks_exact(k * k).for_each(|a| sum.iter_mut().zip(a).for_each(|(s, a)| *s += a));
            let root: Vec<f64> = (0..k).map(|i| sum[i * (k + 1)].sqrt()).collect();
            let scaled: Vec<f64> = (0..k * k).map(|e| sum[e] / (root[e % k] * root[e / k])).collect();
            match linalg::extreme_eigenvalues(&scaled, k) {
                Some((least, most)) if least > 0.0 => most / least,
                _ => f64::INFINITY,
            }
        };
        self.layout.factors.iter().zip(&self.own).map(of).collect()
    }

    /// Per term, the root mean square of its effects' columns over the rows.
    pub(super) fn rms(&self) -> Vec<Vec<f64>> {
        let sizes = |f: usize, e: usize| -> f64 {
            let k = self.layout.factors[f].effects;
            self.own[f].chunks_exact(k * k).map(|a| a[e * k + e]).sum()
        };
        let of = |s: f64| (s / self.weight).sqrt();
        let places = self.layout.places.iter();
        places.map(|p| (0..p.effects).map(|e| of(sizes(p.factor, p.first + e))).collect()).collect()
    }
}
