//! Block-diagonal matrices over the columns of Z₂, one dense block per connected component (docs/mixed.md, L0): what of a
//! q₂ × q₂ matrix is not 0, whatever the number of components.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use certus::{linalg, parallel};

use super::components::{Components, SMALL};
use super::layout::Layout;
use super::small;

/// A matrix over the columns of Z₂; blocks by columns.
#[derive(Debug, Clone)]
pub(super) struct Blocks {
    components: Arc<Components>,
    values: Vec<f64>,
}

impl Blocks {
    pub(super) fn zeros(components: &Arc<Components>) -> Self {
        Self { values: vec![0.0; components.numbers()], components: components.clone() }
    }

    /// Where the entry of two columns of one component is.
    fn index(&self, i: usize, j: usize) -> usize {
        let ((c, j), (other, i)) = (self.components.of(j), self.components.of(i));
        debug_assert_eq!(c, other, "columns of two components");
        self.components.square(c).start + j * self.components.size(c) + i
    }

    /// The entry at row `i` and column `j` of one component.
    pub(super) fn at(&self, i: usize, j: usize) -> f64 {
        self.values[self.index(i, j)]
    }

    pub(super) fn set(&mut self, i: usize, j: usize, value: f64) {
        let index = self.index(i, j);
        self.values[index] = value;
    }

    /// The matrix of a component.
    pub(super) fn block(&self, c: usize) -> &[f64] {
        &self.values[self.components.square(c)]
    }

    /// Calls `work` on every block and on its part of `beside`, which has `width` numbers per column of Z₂, component by
    /// component. Pieces are fixed, so that threads do not change a bit.
    pub(super) fn for_each_with(
        &mut self,
        beside: &mut [f64],
        width: usize,
        work: &(impl Fn(usize, &mut [f64], &mut [f64]) + Sync),
    ) {
        let components = self.components.clone();
        let (mut values, mut beside) = (&mut self.values[..], beside);
        let mut pieces = Vec::with_capacity(components.pieces().len());
        for piece in components.pieces() {
            let (first, last) = (piece.start, piece.end - 1);
            let numbers = components.square(last).end - components.square(first).start;
            let columns = components.range(last).end - components.range(first).start;
            let (own, after) = std::mem::take(&mut values).split_at_mut(numbers);
            let (own_beside, after_beside) = std::mem::take(&mut beside).split_at_mut(columns * width);
            pieces.push((own, own_beside));
            (values, beside) = (after, after_beside);
        }
        parallel::for_each_piece(&mut pieces, 1, 1, &|i, piece| {
            let (mut values, mut beside) = std::mem::take(&mut piece[0]);
            for c in components.pieces()[i].clone() {
                let n = components.size(c);
                let (own, after) = std::mem::take(&mut values).split_at_mut(n * n);
                let (own_beside, after_beside) = std::mem::take(&mut beside).split_at_mut(n * width);
                work(c, own, own_beside);
                (values, beside) = (after, after_beside);
            }
        });
    }

    /// Calls `work` on every block.
    pub(super) fn for_each(&mut self, work: &(impl Fn(usize, &mut [f64]) + Sync)) {
        self.for_each_with(&mut [], 0, &|c, block, _| work(c, block));
    }

    /// x ← `work` of the block and of its rows of a q₂ × anything matrix.
    fn apply(&self, x: &mut [f64], work: &(impl Fn(&[f64], usize, &mut [f64]) + Sync)) {
        let (components, width) = (&self.components, x.len() / self.components.columns().max(1));
        if components.count() == 1 {
            work(&self.values, components.columns(), x);
            return;
        }
        let mut own = components.gather(x);
        let mut pieces = Vec::with_capacity(components.pieces().len());
        let mut rest = &mut own[..];
        for piece in components.pieces() {
            let columns = components.range(piece.end - 1).end - components.range(piece.start).start;
            let (part, after) = std::mem::take(&mut rest).split_at_mut(columns * width);
            pieces.push(part);
            rest = after;
        }
        parallel::for_each_piece(&mut pieces, 1, 4, &|i, piece| {
            let mut rest = std::mem::take(&mut piece[0]);
            for c in components.pieces()[i].clone() {
                let n = components.size(c);
                let (part, after) = std::mem::take(&mut rest).split_at_mut(n * width);
                work(self.block(c), n, part);
                rest = after;
            }
        });
        components.scatter(&own, x);
    }

    /// A ← ΛᵀAΛ (or ΛAΛᵀ) of a symmetric A, Λ with the T of every factor.
    pub(super) fn congruent(&mut self, layout: &Layout, t: &[Vec<f64>], transposed: bool) {
        let components = self.components.clone();
        self.for_each(&|c, block| {
            let n = components.size(c);
            let scale = |block: &mut [f64]| {
                parallel::for_each_piece(block, n, 16, &|_, column| {
                    scale_column(&components, c, layout, t, transposed, column);
                });
            };
            scale(block);
            transpose(block, n);
            scale(block);
        });
    }

    /// A ← A + I; its trace in every component.
    pub(super) fn add_identity(&mut self) -> Vec<f64> {
        let components = self.components.clone();
        let of = |c: usize| {
            let diagonal = self.values[components.square(c)].iter_mut().step_by(components.size(c) + 1);
            diagonal.fold(0.0, |sum, x| {
                *x += 1.0;
                sum + *x
            })
        };
        (0..components.count()).map(of).collect()
    }

    /// A ← its lower Cholesky factor; false if it is not positive definite.
    pub(super) fn cholesky(&mut self) -> bool {
        let (components, failed) = (self.components.clone(), AtomicBool::new(false));
        self.for_each(&|c, block| {
            let n = components.size(c);
            let done = if n <= SMALL { small::cholesky(block, n) } else { linalg::cholesky(block, n) };
            if !done {
                failed.store(true, Ordering::Relaxed);
            }
        });
        !failed.into_inner()
    }

    /// Σ log of the diagonal.
    pub(super) fn log_diagonal(&self) -> f64 {
        let components = &self.components;
        let of = |c: usize| self.block(c).iter().step_by(components.size(c) + 1).map(|x| x.ln()).sum::<f64>();
        let leaf = |i: usize| components.pieces()[i].clone().map(of).sum::<f64>();
        parallel::reduce(components.pieces().len(), 4, &leaf, &|a, b| a + b).unwrap_or(0.0)
    }

    /// (LLᵀ)⁻¹ of a Cholesky factor.
    pub(super) fn inverse_of_factor(&self) -> Self {
        let mut out = self.clone();
        out.for_each(&|c, block| {
            let n = self.components.size(c);
            let l = self.block(c);
            if n > SMALL {
                block.copy_from_slice(&linalg::inverse_of_factor(l, n));
                return;
            }
            block.fill(0.0);
            for (j, column) in block.chunks_exact_mut(n).enumerate() {
                column[j] = 1.0;
                small::forward(l, n, column);
                small::backward(l, n, column);
            }
            linalg::mirror(block, n);
        });
        out
    }

    /// x ← L⁻¹x, or L⁻ᵀx.
    pub(super) fn solve_lower(&self, transposed: bool, x: &mut [f64]) {
        self.apply(x, &|l, n, x| match (n <= SMALL, transposed) {
            (false, _) => linalg::solve_lower(l, n, transposed, x),
            (true, false) => x.chunks_exact_mut(n).for_each(|x| small::forward(l, n, x)),
            (true, true) => x.chunks_exact_mut(n).for_each(|x| small::backward(l, n, x)),
        });
    }

    /// z ← z + Ax.
    pub(super) fn add_times(&self, x: &[f64], z: &mut [f64]) {
        if self.components.count() == 1 {
            add_times(&self.values, self.components.columns(), x, z);
            return;
        }
        let mut product = x.to_vec();
        self.apply(&mut product, &|a, n, x| {
            if let ([a], [x]) = (a, &mut *x) {
                *x *= a;
                return;
            }
            let mut out = vec![0.0; x.len()];
            add_times(a, n, x, &mut out);
            x.copy_from_slice(&out);
        });
        z.iter_mut().zip(&product).for_each(|(z, x)| *z += x);
    }
}

/// z ← z + Ax of an n × n matrix.
pub(super) fn add_times(a: &[f64], n: usize, x: &[f64], z: &mut [f64]) {
    if n > SMALL {
        linalg::add_square_times(a, n, false, x, z);
        return;
    }
    for (x, z) in x.chunks_exact(n.max(1)).zip(z.chunks_exact_mut(n.max(1))) {
        for (x, a) in x.iter().zip(a.chunks_exact(n)) {
            z.iter_mut().zip(a).for_each(|(z, a)| *z += a * x);
        }
    }
}

/// x ← Tx, or Tᵀx, for every level of a factor.
fn scale_levels(t: &[f64], k: usize, transposed: bool, x: &mut [f64]) {
    if k == 1 {
        x.iter_mut().for_each(|x| *x *= t[0]);
        return;
    }
    let mut old = vec![0.0; k];
    for x in x.chunks_exact_mut(k) {
        old.copy_from_slice(x);
        for i in 0..k {
            let at = |l: usize| if transposed { t[i * k + l] } else { t[l * k + i] };
            x[i] = (0..k).map(|l| at(l) * old[l]).sum();
        }
    }
}

/// x ← Λ₂x, or Λ₂ᵀx, for a component's column.
pub(super) fn scale_column(
    components: &Components,
    c: usize,
    layout: &Layout,
    t: &[Vec<f64>],
    transposed: bool,
    x: &mut [f64],
) {
    for (f, (factor, t)) in layout.factors.iter().zip(t).enumerate().skip(1) {
        scale_levels(t, factor.effects, transposed, &mut x[components.part(c, f)]);
    }
}

/// x ← Λ₂x, or Λ₂ᵀx, for the columns of a q₂ × anything matrix.
pub(super) fn scale(layout: &Layout, t: &[Vec<f64>], transposed: bool, x: &mut [f64]) {
    let before = layout.factors[0].columns();
    parallel::for_each_piece(x, layout.rest(), 16, &|_, x| {
        for (factor, t) in layout.factors.iter().zip(t).skip(1) {
            let part = &mut x[factor.start - before..][..factor.columns()];
            scale_levels(t, factor.effects, transposed, part);
        }
    });
}

/// A ← Aᵀ, tile by tile.
pub(super) fn transpose(a: &mut [f64], dim: usize) {
    const TILE: usize = 16;
    for j0 in (0..dim).step_by(TILE) {
        for i0 in (j0..dim).step_by(TILE) {
            for j in j0..(j0 + TILE).min(dim) {
                for i in i0.max(j + 1)..(i0 + TILE).min(dim) {
                    a.swap(i * dim + j, j * dim + i);
                }
            }
        }
    }
}
