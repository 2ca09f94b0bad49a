//! Cross-products of rows, which is all that a linear mixed model needs of them: sums, so that parts of the rows can be
//! added up apart and merged (docs/mixed.md, L0).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use certus_likelihood::internals::add_exactly;

use super::error::Error;
use super::layout::{Design, Layout};
use super::relations::Relations;

/// One row.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The level of each factor.
    pub levels: &'a [u32],
    /// z: the effects of every term, one after the other.
    pub effects: &'a [f64],
    /// x.
    pub fixed: &'a [f64],
    /// y.
    pub response: f64,
    /// w: the row counts w times (frequency weights; 1 without).
    pub weight: f64,
}

/// A multiplicative hash: keys are pairs of columns, not data that somebody chose to collide.
#[derive(Default)]
struct Fold(u64);

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.write_u64(u64::from(*b));
        }
    }
    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 29);
    }
}

/// Sums over rows of zzᵀ, z[x r]ᵀ and [x r][x r]ᵀ, r = y − xβ₀.
#[derive(Debug, Clone)]
pub struct Sums {
    pub(super) layout: Layout,
    /// β₀.
    pub(super) base: Vec<f64>,
    pub(super) rows: usize,
    /// n = Σ w.
    pub(super) weight: f64,
    /// The largest |y|, and the largest Σ|xβ₀| over columns that are not 1: what rounding of the rows grows with.
    pub(super) largest: f64,
    pub(super) spread: f64,
    /// The largest |y| + Σ|xβ₀|.
    pub(super) reach: f64,
    /// Additions that a summand goes through at most.
    pub(super) depth: usize,
    /// Per factor and effect, and per column of X: whether all values are 0, 1 or −1 and all weights are integers, so
    /// that sums of their products are exact as long as they are below 2⁵³.
    pub(super) whole: Vec<Vec<bool>>,
    pub(super) whole_fixed: Vec<bool>,
    /// Per factor, per level: Σ w zzᵀ (k × k).
    pub(super) own: Vec<Vec<f64>>,
    /// Per factor, per level: Σ w z [x r]ᵀ (k × (p + 1), by columns).
    pub(super) cross: Vec<Vec<f64>>,
    /// Where the block of two columns of Z, of two factors, begins in `blocks`.
    slots: HashMap<u64, usize, BuildHasherDefault<Fold>>,
    /// First columns of the pairs of levels that meet, in the order in which they were seen.
    pub(super) pairs: Vec<(u32, u32)>,
    /// Their blocks Σ w z_f z_gᵀ (k_f × k_g, by columns).
    pub(super) blocks: Vec<f64>,
    /// Σ w [x r][x r]ᵀ.
    pub(super) fixed: Vec<f64>,
    /// Rows of the level with most rows: what rounding grows with.
    pub(super) counts: Vec<u32>,
    pub(super) relations: Relations,
}

impl Sums {
    /// No rows yet. `base` is β₀, any coefficients near the least-squares fit ([`super::LeastSquares`]): the closer,
    /// the more digits the sums of squares keep.
    pub fn new(design: &Design, base: Vec<f64>) -> Result<Self, Error> {
        let layout = Layout::new(design)?;
        let width = design.fixed + 1;
        if base.len() != design.fixed {
            let (found, expected) = (base.len(), design.fixed);
            return Err(Error::Length { row: 0, what: "base coefficients", found, expected });
        }
        Ok(Self {
            own: layout.factors.iter().map(|f| vec![0.0; f.levels * f.effects * f.effects]).collect(),
            cross: layout.factors.iter().map(|f| vec![0.0; f.columns() * width]).collect(),
            counts: vec![0; layout.factors[0].levels],
            relations: Relations::new(&layout),
            slots: HashMap::default(),
            pairs: Vec::new(),
            blocks: Vec::new(),
            fixed: vec![0.0; width * width],
            rows: 0,
            weight: 0.0,
            largest: 0.0,
            spread: 0.0,
            reach: 0.0,
            depth: 0,
            whole: layout.factors.iter().map(|f| vec![true; f.effects]).collect(),
            whole_fixed: vec![true; design.fixed],
            layout,
            base,
        })
    }

    fn check(&self, row: &Row<'_>) -> Result<(), Error> {
        let at = self.rows;
        let effects: usize = self.layout.places.iter().map(|p| p.effects).sum();
        let lengths =
            [("effects", row.effects.len(), effects), ("fixed effects", row.fixed.len(), self.layout.fixed)];
        for (what, found, expected) in lengths {
            if found != expected {
                return Err(Error::Length { row: at, what, found, expected });
            }
        }
        for factor in &self.layout.factors {
            let Some(&level) = row.levels.get(factor.index) else {
                let (found, expected) = (row.levels.len(), factor.index + 1);
                return Err(Error::Length { row: at, what: "levels", found, expected });
            };
            if level as usize >= factor.levels {
                return Err(Error::Level { row: at, factor: factor.index, level, levels: factor.levels });
            }
        }
        let bad = |what, value, required| Error::Value { row: at, what, value, required };
        if let Some(&v) = row.effects.iter().chain(row.fixed).find(|v| !v.is_finite()) {
            return Err(bad("an effect", v, "it must be finite"));
        }
        if !row.response.is_finite() {
            return Err(bad("the response", row.response, "it must be finite"));
        }
        if !(row.weight > 0.0 && row.weight.is_finite()) {
            return Err(bad(
                "the weight",
                row.weight,
                "it must be positive and finite; leave the row out instead of weight 0",
            ));
        }
        Ok(())
    }

    /// Adds a row.
    pub fn push(&mut self, row: &Row<'_>) -> Result<(), Error> {
        self.check(row)?;
        self.relations.push(&self.layout, row.levels, row.effects, row.fixed);
        let (width, w) = (self.layout.fixed + 1, row.weight);
        let residual = residual(row, &self.base);
        self.largest = self.largest.max(row.response.abs());
        let each = row.fixed.iter().zip(&self.base).filter(|(x, _)| **x != 1.0);
        self.spread = self.spread.max(each.map(|(x, b)| (x * b).abs()).sum());
        let all = row.fixed.iter().zip(&self.base).map(|(x, b)| (x * b).abs());
        self.reach = self.reach.max(row.response.abs() + all.sum::<f64>());
        let whole = |x: f64| (x == 0.0 || x.abs() == 1.0) && w == w.round();
        self.whole_fixed.iter_mut().zip(row.fixed).for_each(|(own, x)| *own &= whole(*x));
        let xr = |c: usize| if c + 1 == width { residual } else { row.fixed[c] };
        for c in 0..width {
            for r in 0..=c {
                self.fixed[c * width + r] += w * xr(r) * xr(c);
            }
        }
        // the effects by factor
        let factors = &self.layout.factors;
        let mut z: Vec<[f64; 8]> = Vec::new();
        let mut long: Vec<Vec<f64>> = Vec::new();
        let short = factors.len() <= 8 && factors.iter().all(|f| f.effects <= 8);
        let mut at = 0;
        if short {
            z.resize(factors.len(), [0.0; 8]);
        } else {
            long = factors.iter().map(|f| vec![0.0; f.effects]).collect();
        }
        for place in &self.layout.places {
            let values = &row.effects[at..at + place.effects];
            let to = if short { &mut z[place.factor][..] } else { &mut long[place.factor][..] };
            to[place.first..place.first + place.effects].copy_from_slice(values);
            at += place.effects;
        }
        let of = |f: usize| if short { &z[f][..factors[f].effects] } else { &long[f][..] };
        self.counts[row.levels[factors[0].index] as usize] += 1;
        for (f, factor) in factors.iter().enumerate() {
            let (k, level, zf) = (factor.effects, row.levels[factor.index] as usize, of(f));
            self.whole[f].iter_mut().zip(zf).for_each(|(own, z)| *own &= whole(*z));
            let own = &mut self.own[f][level * k * k..][..k * k];
            for j in 0..k {
                for i in 0..k {
                    own[j * k + i] += w * zf[i] * zf[j];
                }
            }
            let cross = &mut self.cross[f][level * k * width..][..k * width];
            for c in 0..width {
                for i in 0..k {
                    cross[c * k + i] += w * zf[i] * xr(c);
                }
            }
            let column = factor.start + level * k;
            for (g, other) in factors.iter().enumerate().skip(f + 1) {
                let (kg, zg) = (other.effects, of(g));
                let pair = (column as u32, (other.start + row.levels[other.index] as usize * kg) as u32);
                let slot = slot(&mut self.slots, &mut self.pairs, &mut self.blocks, pair, k * kg);
                for j in 0..kg {
                    for i in 0..k {
                        self.blocks[slot + j * k + i] += w * zf[i] * zg[j];
                    }
                }
            }
        }
        self.rows += 1;
        self.depth += 1;
        self.weight += w;
        Ok(())
    }

    /// Adds the sums of other rows. The order of merges decides about the last bits, the number of threads does not.
    pub fn merge(&mut self, other: &Self) -> Result<(), Error> {
        if self.layout != other.layout || self.base != other.base {
            return Err(Error::Merge);
        }
        let add = |to: &mut [f64], from: &[f64]| to.iter_mut().zip(from).for_each(|(a, b)| *a += b);
        for f in 0..self.own.len() {
            add(&mut self.own[f], &other.own[f]);
            add(&mut self.cross[f], &other.cross[f]);
        }
        add(&mut self.fixed, &other.fixed);
        self.relations.merge(&other.relations);
        self.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
        let mut from = 0;
        for &pair in &other.pairs {
            let size = self.layout.effects_of(pair.0) * self.layout.effects_of(pair.1);
            let slot = slot(&mut self.slots, &mut self.pairs, &mut self.blocks, pair, size);
            add(&mut self.blocks[slot..slot + size], &other.blocks[from..from + size]);
            from += size;
        }
        self.rows += other.rows;
        self.weight += other.weight;
        self.largest = self.largest.max(other.largest);
        self.spread = self.spread.max(other.spread);
        self.reach = self.reach.max(other.reach);
        self.depth = self.depth.max(other.depth) + 1;
        let both = |own: &mut [bool], other: &[bool]| own.iter_mut().zip(other).for_each(|(a, b)| *a &= b);
        self.whole.iter_mut().zip(&other.whole).for_each(|(own, other)| both(own, other));
        both(&mut self.whole_fixed, &other.whole_fixed);
        Ok(())
    }
}

/// y − xᵀβ₀ with one rounding, however far y is from 0: products and sums keep what is rounded away.
fn residual(row: &Row<'_>, base: &[f64]) -> f64 {
    let (mut sum, mut low) = (row.response, 0.0);
    for (x, b) in row.fixed.iter().zip(base) {
        let product = x * b;
        add_exactly(&mut sum, &mut low, -product);
        low -= x.mul_add(*b, -product);
    }
    sum + low
}

/// Where the block of a pair begins; a new pair gets a block of zeros.
fn slot(
    slots: &mut HashMap<u64, usize, BuildHasherDefault<Fold>>,
    pairs: &mut Vec<(u32, u32)>,
    blocks: &mut Vec<f64>,
    pair: (u32, u32),
    size: usize,
) -> usize {
    let key = (u64::from(pair.0) << 32) | u64::from(pair.1);
    *slots.entry(key).or_insert_with(|| {
        pairs.push(pair);
        blocks.resize(blocks.len() + size, 0.0);
        blocks.len() - size
    })
}
