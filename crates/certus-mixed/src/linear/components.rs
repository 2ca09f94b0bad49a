//! Connected components of the columns of Z₂, what remains when factor 1 is eliminated: two levels belong together if
//! they meet in a row or meet a common level of factor 1 (docs/mixed.md, L0). Nested factors have many.

use std::ops::Range;

use super::layout::Layout;

/// Blocks of up to this many columns are worked on by loops, larger ones by calls that are made for large matrices.
pub(super) const SMALL: usize = 16;
/// From this part of non-zero blocks on, products with Z₁ᵀZ₂ are dense.
const DENSE: f64 = 0.1;
/// Multiplications of a piece of work, about.
const PIECE: usize = 1 << 17;
/// The component of a level of factor 1 that no row has.
pub(super) const NOWHERE: usize = usize::MAX;

/// A partition of the columns of Z₂ and of the levels of factor 1, the same for every evaluation.
#[derive(Debug, Clone)]
pub(super) struct Components {
    /// Columns of Z₂, component by component, ascending within.
    order: Vec<u32>,
    /// Where a column is in its component.
    place: Vec<u32>,
    /// The component of a column.
    owner: Vec<u32>,
    /// Where components begin in `order`; the last entry is its end.
    starts: Vec<usize>,
    /// Where their square matrices begin, one after the other.
    squares: Vec<usize>,
    /// Per component, where the columns of each kept factor begin in it.
    parts: Vec<u32>,
    /// Levels of factor 1 by components; those without rows last.
    levels: Vec<u32>,
    /// Where components begin in `levels`.
    level_starts: Vec<usize>,
    /// Whether products with a component's part of Z₁ᵀZ₂ are dense.
    dense: Vec<bool>,
    /// Components that are worked on together.
    pieces: Vec<Range<usize>>,
    /// Kept factors.
    factors: usize,
}

/// The least member of the set of `x`.
fn root(parent: &mut [u32], mut x: u32) -> u32 {
    while parent[x as usize] != x {
        parent[x as usize] = parent[parent[x as usize] as usize];
        x = parent[x as usize];
    }
    x
}

fn join(parent: &mut [u32], a: u32, b: u32) {
    let (a, b) = (root(parent, a), root(parent, b));
    parent[a.max(b) as usize] = a.min(b);
}

impl Components {
    /// From the columns of Z₂ that each level of factor 1 meets, and pairs of columns of Z₂ that meet in a row.
    pub(super) fn new(layout: &Layout, offsets: &[usize], columns: &[u32], pairs: &[(u32, u32)]) -> Self {
        let (q, before) = (layout.rest(), layout.factors[0].columns());
        let kept = &layout.factors[1..];
        let mut parent: Vec<u32> = (0..q as u32).collect();
        for factor in kept {
            let start = factor.start - before;
            for at in start..start + factor.columns() {
                let first = at - (at - start) % factor.effects;
                join(&mut parent, first as u32, at as u32);
            }
        }
        pairs.iter().for_each(|&(a, b)| join(&mut parent, a, b));
        let met = |g: usize| &columns[offsets[g]..offsets[g + 1]];
        for g in 0..layout.factors[0].levels {
            met(g).windows(2).for_each(|pair| join(&mut parent, pair[0], pair[1]));
        }
        // components in the order of their first columns
        let mut owner = vec![0u32; q];
        let mut sizes = Vec::new();
        for column in 0..q {
            let first = root(&mut parent, column as u32) as usize;
            if first == column {
                owner[column] = sizes.len() as u32;
                sizes.push(0);
            }
            owner[column] = owner[first];
            sizes[owner[column] as usize] += 1;
        }
        let (order, starts) = sorted(&owner, &sizes);
        let mut place = vec![0; q];
        for (c, &column) in order.iter().enumerate() {
            place[column as usize] = (c - starts[owner[column as usize] as usize]) as u32;
        }
        let count = sizes.len();
        let mut parts = Vec::with_capacity(count * kept.len());
        for c in 0..count {
            let own = &order[starts[c]..starts[c + 1]];
            let begins = |start: usize| own.partition_point(|&column| (column as usize) < start - before);
            parts.extend(kept.iter().map(|factor| begins(factor.start) as u32));
        }
        let of_level = |g: usize| met(g).first().map_or(count, |&column| owner[column as usize] as usize);
        let owners: Vec<u32> = (0..layout.factors[0].levels).map(|g| of_level(g) as u32).collect();
        let mut level_sizes = vec![0; count + 1];
        owners.iter().for_each(|&c| level_sizes[c as usize] += 1);
        let (levels, level_starts) = sorted(&owners, &level_sizes);
        let mut filled = vec![0usize; count];
        columns.iter().for_each(|&column| filled[owner[column as usize] as usize] += 1);
        let is_dense = |c: usize| {
            sizes[c] > SMALL && filled[c] as f64 > DENSE * (level_sizes[c] as f64) * (sizes[c] as f64)
        };
        let dense = (0..count).map(is_dense).collect();
        let mut squares = vec![0];
        sizes.iter().for_each(|n| squares.push(squares[squares.len() - 1] + n * n));
        let (mut pieces, mut first, mut work) = (Vec::new(), 0, 0);
        for c in 0..count {
            work = sizes[c].saturating_pow(3).saturating_add(work + 64 * (level_sizes[c] + 1));
            if work >= PIECE || c + 1 == count {
                pieces.push(first..c + 1);
                (first, work) = (c + 1, 0);
            }
        }
        let factors = kept.len();
        Self { order, place, owner, starts, squares, parts, levels, level_starts, dense, pieces, factors }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// q₂.
    pub(super) fn columns(&self) -> usize {
        self.order.len()
    }

    /// Entries of all blocks.
    pub(super) fn numbers(&self) -> usize {
        self.squares[self.count()]
    }

    /// Columns of a component.
    pub(super) fn size(&self, c: usize) -> usize {
        self.starts[c + 1] - self.starts[c]
    }

    /// Where a component's columns are among all, component by component.
    pub(super) fn range(&self, c: usize) -> Range<usize> {
        self.starts[c]..self.starts[c + 1]
    }

    /// A component's columns of Z₂, ascending.
    pub(super) fn members(&self, c: usize) -> &[u32] {
        &self.order[self.range(c)]
    }

    /// Where a component's matrix is.
    pub(super) fn square(&self, c: usize) -> Range<usize> {
        self.squares[c]..self.squares[c + 1]
    }

    /// The component of a column of Z₂ and its place there.
    pub(super) fn of(&self, column: usize) -> (usize, usize) {
        (self.owner[column] as usize, self.place[column] as usize)
    }

    /// Where a column of Z₂ is in its component.
    pub(super) fn place(&self, column: u32) -> usize {
        self.place[column as usize] as usize
    }

    /// The columns of kept factor `f` (1 is the first) in component `c`.
    pub(super) fn part(&self, c: usize, f: usize) -> Range<usize> {
        let own = &self.parts[c * self.factors..][..self.factors];
        let end = own.get(f).map_or(self.size(c), |&end| end as usize);
        own[f - 1] as usize..end
    }

    /// Levels of factor 1 that meet component `c`.
    pub(super) fn levels(&self, c: usize) -> &[u32] {
        &self.levels[self.level_starts[c]..self.level_starts[c + 1]]
    }

    /// All levels of factor 1, component by component.
    pub(super) fn all_levels(&self) -> &[u32] {
        &self.levels
    }

    /// The component of the levels at a place of [`Self::all_levels`], and where they end.
    pub(super) fn run(&self, at: usize) -> (usize, usize) {
        let c = self.level_starts.partition_point(|&start| start <= at) - 1;
        (if c < self.count() { c } else { NOWHERE }, self.level_starts[c + 1])
    }

    /// Whether products with a component's part of Z₁ᵀZ₂ are dense.
    pub(super) fn dense(&self, c: usize) -> bool {
        self.dense[c]
    }

    /// Components that are worked on together, of about equal work.
    pub(super) fn pieces(&self) -> &[Range<usize>] {
        &self.pieces
    }

    /// Σ n³, the multiplications that a factorisation takes.
    pub(super) fn cubes(&self) -> f64 {
        (0..self.count()).map(|c| (self.size(c) as f64).powi(3)).sum()
    }

    /// Components that rows belong to.
    pub(super) fn used(&self) -> usize {
        (0..self.count()).filter(|&c| !self.levels(c).is_empty()).count()
    }

    /// A q₂ × anything matrix component by component, each by columns.
    pub(super) fn gather(&self, x: &[f64]) -> Vec<f64> {
        let q = self.columns();
        let mut out = Vec::with_capacity(x.len());
        for c in 0..self.count() {
            for x in x.chunks_exact(q) {
                out.extend(self.members(c).iter().map(|&column| x[column as usize]));
            }
        }
        out
    }

    /// The inverse of [`Self::gather`].
    pub(super) fn scatter(&self, from: &[f64], x: &mut [f64]) {
        let q = self.columns();
        let mut from = from.iter();
        for c in 0..self.count() {
            for x in x.chunks_exact_mut(q) {
                self.members(c).iter().zip(&mut from).for_each(|(&column, from)| x[column as usize] = *from);
            }
        }
    }
}

/// Indices sorted by their owner, in order within, and where each owner's begin.
fn sorted(owner: &[u32], sizes: &[usize]) -> (Vec<u32>, Vec<usize>) {
    let mut starts = vec![0];
    sizes.iter().for_each(|n| starts.push(starts[starts.len() - 1] + n));
    let (mut next, mut order) = (starts.clone(), vec![0; owner.len()]);
    for (i, &c) in owner.iter().enumerate() {
        order[next[c as usize]] = i as u32;
        next[c as usize] += 1;
    }
    (order, starts)
}
