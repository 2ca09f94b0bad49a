//! The few dense operations we need, on column-major slices: `faer` in sequence inside our own fixed row blocks,
//! threads over the blocks. The bits never depend on the number of threads.

use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use faer::linalg::cholesky::llt::factor::{
    LltParams, LltRegularization, cholesky_in_place, cholesky_in_place_scratch,
};
use faer::linalg::cholesky::llt::inverse::{inverse, inverse_scratch};
use faer::linalg::evd::{
    ComputeEigenvectors, SelfAdjointEvdParams, self_adjoint_evd, self_adjoint_evd_scratch,
};
use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::{Accum, MatMut, MatRef, Par, Spec};

use crate::parallel;

/// Rows of a block. 64 was the fastest of 32, 64 and 128 at d = 100 and 500.
const ROWS: usize = 64;
/// Right-hand sides that are solved together.
const COLUMNS: usize = 16;
/// Flops worth a task of their own (about 50 µs).
const TASK: usize = 1 << 19;

fn view(x: &[f64], rows: usize, columns: usize) -> MatRef<'_, f64> {
    MatRef::from_column_major_slice(x, rows, columns)
}

fn view_mut(x: &mut [f64], rows: usize, columns: usize) -> MatMut<'_, f64> {
    MatMut::from_column_major_slice_mut(x, rows, columns)
}

/// acc += alpha · left · right, in sequence.
fn add_product(acc: MatMut<'_, f64>, left: MatRef<'_, f64>, right: MatRef<'_, f64>, alpha: f64) {
    matmul(acc, Accum::Add, left, right, alpha, Par::Seq);
}

/// Calls `work(first_row, rows)` on the fixed row blocks of `matrix`.
fn row_blocks(
    matrix: MatMut<'_, f64>,
    first: usize,
    grain: usize,
    work: &(impl Fn(usize, MatMut<'_, f64>) + Sync),
) {
    let count = matrix.nrows().div_ceil(ROWS);
    if count <= 1 {
        work(first, matrix);
        return;
    }
    let middle = count / 2 * ROWS;
    let (upper, lower) = matrix.split_at_row_mut(middle);
    if count <= grain {
        row_blocks(upper, first, grain, work);
        row_blocks(lower, first + middle, grain, work);
    } else {
        parallel::join(
            || row_blocks(upper, first, grain, work),
            || row_blocks(lower, first + middle, grain, work),
        );
    }
}

fn grain(flops_per_row: usize) -> usize {
    TASK.div_ceil(ROWS * flops_per_row.max(1))
}

/// Z += A U for a square `a`; only the first `rows_end` columns of a row block are used when `lower`.
pub fn add_square_times(a: &[f64], dim: usize, lower: bool, u: &[f64], z: &mut [f64]) {
    let n = u.len() / dim;
    let (a, u) = (view(a, dim, dim), view(u, dim, n));
    row_blocks(view_mut(z, dim, n), 0, grain(2 * dim * n), &|first, z| {
        let rows = z.nrows();
        let end = if lower { first + rows } else { dim };
        add_product(z, a.submatrix(first, 0, rows, end), u.subrows(0, end), 1.0);
    });
}

/// Z += Aᵀ U for a square `a`, lower triangular if `lower`.
pub fn add_transpose_times(a: &[f64], dim: usize, lower: bool, u: &[f64], z: &mut [f64]) {
    let n = u.len() / dim;
    let (a, u) = (view(a, dim, dim), view(u, dim, n));
    row_blocks(view_mut(z, dim, n), 0, grain(2 * dim * n), &|first, z| {
        let (rows, start) = (z.nrows(), if lower { first } else { 0 });
        let block = a.submatrix(start, first, dim - start, rows);
        add_product(z, block.transpose(), u.subrows(start, dim - start), 1.0);
    });
}

/// C += alpha · tril(A Uᵀ); the strict upper triangle of C stays exactly zero.
pub(crate) fn add_lower_outer(c: &mut [f64], dim: usize, alpha: f64, a: &[f64], u: &[f64]) {
    let n = u.len() / dim;
    let (a, u) = (view(a, dim, n), view(u, dim, n));
    row_blocks(view_mut(c, dim, dim), 0, grain(dim * n), &|first, c| {
        let end = first + c.nrows();
        let mut block = c.subcols_mut(0, end);
        add_product(block.as_mut(), a.subrows(first, end - first), u.subrows(0, end).transpose(), alpha);
        for j in first..end {
            for i in first..j {
                block[(i - first, j)] = 0.0;
            }
        }
    });
}

/// C += alpha · A Uᵀ for a square C.
pub fn add_outer(c: &mut [f64], dim: usize, alpha: f64, a: &[f64], u: &[f64]) {
    let n = u.len() / dim;
    let (a, u) = (view(a, dim, n), view(u, dim, n));
    row_blocks(view_mut(c, dim, dim), 0, grain(2 * dim * n), &|first, c| {
        let rows = c.nrows();
        add_product(c, a.subrows(first, rows), u.transpose(), alpha);
    });
}

/// C += alpha · (A Uᵀ + U Aᵀ)/2; C stays symmetric to the bit.
pub(crate) fn add_symmetric_outer(c: &mut [f64], dim: usize, alpha: f64, a: &[f64], u: &[f64]) {
    let n = u.len() / dim;
    let (am, um) = (view(a, dim, n), view(u, dim, n));
    row_blocks(view_mut(c, dim, dim), 0, grain(2 * dim * n), &|first, c| {
        let (rows, end) = (c.nrows(), first + c.nrows());
        let mut block = c.subcols_mut(0, end);
        for (left, right) in [(am, um), (um, am)] {
            let (left, right) = (left.subrows(first, rows), right.subrows(0, end));
            add_product(block.as_mut(), left, right.transpose(), 0.5 * alpha);
        }
    });
    mirror(c, dim);
}

/// Copies the lower triangle onto the upper one, tile by tile.
pub fn mirror(c: &mut [f64], dim: usize) {
    const TILE: usize = 16;
    for j0 in (0..dim).step_by(TILE) {
        for i0 in (j0..dim).step_by(TILE) {
            for j in j0..(j0 + TILE).min(dim) {
                for i in i0.max(j + 1)..(i0 + TILE).min(dim) {
                    c[i * dim + j] = c[j * dim + i];
                }
            }
        }
    }
}

/// A ← (A + Aᵀ)/2.
pub(crate) fn symmetrise(a: &mut [f64], dim: usize) {
    for j in 0..dim {
        for i in 0..j {
            let both = 0.5 * (a[j * dim + i] + a[i * dim + j]);
            (a[j * dim + i], a[i * dim + j]) = (both, both);
        }
    }
}

/// X ← L⁻¹ X (or L⁻ᵀ X if `transpose`) for a lower-triangular L.
pub fn solve_lower(l: &[f64], dim: usize, transpose: bool, x: &mut [f64]) {
    let l = view(l, dim, dim);
    let grain = TASK.div_ceil(dim * dim * COLUMNS);
    parallel::for_each_piece(x, dim * COLUMNS, grain, &|_, part| {
        let n = part.len() / dim;
        let x = view_mut(part, dim, n);
        if transpose {
            solve_upper_triangular_in_place(l.transpose(), x, Par::Seq);
        } else {
            solve_lower_triangular_in_place(l, x, Par::Seq);
        }
    });
}

/// Memory for factorisations of d × d symmetric matrices, made once per run.
pub(crate) struct Scratch {
    /// The matrix being factorised, then its Cholesky factor.
    pub(crate) matrix: Vec<f64>,
    other: Vec<f64>,
    values: Vec<f64>,
    buffer: MemBuffer,
}

impl Scratch {
    pub(crate) fn new(dim: usize) -> Self {
        let need = StackReq::any_of(&[
            cholesky_in_place_scratch::<f64>(dim, Par::Seq, Spec::<LltParams, f64>::default()),
            inverse_scratch::<f64>(dim, Par::Seq),
            self_adjoint_evd_scratch::<f64>(
                dim,
                ComputeEigenvectors::Yes,
                Par::Seq,
                Spec::<SelfAdjointEvdParams, f64>::default(),
            ),
        ]);
        Self {
            matrix: vec![0.0; dim * dim],
            other: vec![0.0; dim * dim],
            values: vec![0.0; dim],
            buffer: MemBuffer::new(need),
        }
    }

    /// `self.matrix` ← the Cholesky factor of `c − shift·I` (lower triangle); false if that is not positive definite.
    pub(crate) fn cholesky(&mut self, c: &[f64], shift: f64) -> bool {
        let dim = self.values.len();
        self.matrix.copy_from_slice(c);
        for i in 0..dim {
            self.matrix[i * (dim + 1)] -= shift;
        }
        cholesky_in_place(
            view_mut(&mut self.matrix, dim, dim),
            LltRegularization::default(),
            Par::Seq,
            MemStack::new(&mut self.buffer),
            Spec::default(),
        )
        .is_ok()
    }

    /// The inverse of the matrix whose factor `self.matrix` holds (lower triangle).
    pub(crate) fn inverse(&mut self) -> &[f64] {
        let dim = self.values.len();
        let out = view_mut(&mut self.other, dim, dim);
        inverse(out, view(&self.matrix, dim, dim), Par::Seq, MemStack::new(&mut self.buffer));
        &self.other
    }

    /// c = V λ Vᵀ, λ ascending in `self.values`, V in `self.other`; false if the iteration fails (non-finite entries).
    fn eigen(&mut self, c: &[f64]) -> bool {
        let dim = self.values.len();
        c.iter().all(|x| x.is_finite())
            && self_adjoint_evd(
                view(c, dim, dim),
                faer::diag::DiagMut::from_slice_mut(&mut self.values),
                Some(view_mut(&mut self.other, dim, dim)),
                Par::Seq,
                MemStack::new(&mut self.buffer),
                Spec::default(),
            )
            .is_ok()
    }

    /// c ← V max(λ, floor) Vᵀ with c = V λ Vᵀ; false if the eigenvalue iteration fails (non-finite entries).
    pub(crate) fn clamp_eigenvalues(&mut self, c: &mut [f64], floor: f64) -> bool {
        let dim = self.values.len();
        if !self.eigen(c) {
            return false;
        }
        // matrix = V diag(max(λ, floor)), c = matrix Vᵀ
        for (j, value) in self.values.iter().enumerate() {
            let (scaled, vector) = (&mut self.matrix[j * dim..][..dim], &self.other[j * dim..][..dim]);
            for (s, v) in scaled.iter_mut().zip(vector) {
                *s = value.max(floor) * v;
            }
        }
        c.fill(0.0);
        let (scaled, vectors) = (view(&self.matrix, dim, dim), view(&self.other, dim, dim));
        row_blocks(view_mut(c, dim, dim), 0, grain(dim * dim), &|first, c| {
            let end = first + c.nrows();
            let rows = scaled.subrows(first, end - first);
            add_product(c.subcols_mut(0, end), rows, vectors.subrows(0, end).transpose(), 1.0);
        });
        mirror(c, dim);
        true
    }
}

/// The lower-triangular L with positive diagonal and L Lᵀ = A Aᵀ: from Aᵀ = Q R, L = Rᵀ up to signs.
pub fn lower_of_same_covariance(a: &[f64], dim: usize) -> Vec<f64> {
    let qr = view(a, dim, dim).transpose().qr();
    let r = qr.thin_R();
    let mut lower = vec![0.0; dim * dim];
    for j in 0..dim {
        let sign = r[(j, j)].signum();
        for i in j..dim {
            lower[j * dim + i] = sign * r[(j, i)];
        }
    }
    lower
}

/// The lower-triangular K with K Kᵀ = (L Lᵀ)⁻¹: L⁻ᵀ is upper, so it is turned.
pub fn lower_of_inverse(l: &[f64], dim: usize) -> Vec<f64> {
    let mut inverse = vec![0.0; dim * dim];
    inverse.iter_mut().step_by(dim + 1).for_each(|x| *x = 1.0);
    solve_lower(l, dim, true, &mut inverse);
    lower_of_same_covariance(&inverse, dim)
}

/// CᵀB for a symmetric CᵀB (B = AC, A symmetric), symmetric to the bit; C is lower triangular if `lower`.
pub fn congruent(c: &[f64], lower: bool, b: &[f64], dim: usize) -> Vec<f64> {
    let mut out = vec![0.0; dim * dim];
    add_transpose_times(c, dim, lower, b, &mut out);
    mirror(&mut out, dim);
    out
}

/// matrix ← its lower Cholesky factor, strict upper triangle zero; false if it is not positive definite.
pub fn cholesky(matrix: &mut [f64], dim: usize) -> bool {
    let mut scratch = Scratch::new(dim);
    if !scratch.cholesky(matrix, 0.0) {
        return false;
    }
    matrix.copy_from_slice(&scratch.matrix);
    for j in 0..dim {
        matrix[j * dim..][..j].fill(0.0);
    }
    true
}

/// (L Lᵀ)⁻¹ from a lower-triangular L, symmetric to the bit.
pub fn inverse_of_factor(l: &[f64], dim: usize) -> Vec<f64> {
    let mut out = vec![0.0; dim * dim];
    let mut buffer = MemBuffer::new(inverse_scratch::<f64>(dim, Par::Seq));
    inverse(view_mut(&mut out, dim, dim), view(l, dim, dim), Par::Seq, MemStack::new(&mut buffer));
    mirror(&mut out, dim);
    out
}

/// log det of a positive-definite matrix.
pub fn log_det_positive(matrix: &[f64], dim: usize) -> Option<f64> {
    let mut factor = matrix.to_vec();
    cholesky(&mut factor, dim).then(|| factor.iter().step_by(dim + 1).map(|x| 2.0 * x.ln()).sum())
}

/// Smallest and largest eigenvalue of a symmetric matrix.
pub fn extreme_eigenvalues(c: &[f64], dim: usize) -> Option<(f64, f64)> {
    eigen(c, dim).map(|(values, _)| (values[0], values[dim - 1]))
}

/// Eigenvalues (ascending) and eigenvectors (columns) of a symmetric matrix: those of a matrix within c·d·u·|A| of it.
pub fn eigen(a: &[f64], dim: usize) -> Option<(Vec<f64>, Vec<f64>)> {
    let mut scratch = Scratch::new(dim);
    scratch.eigen(a).then_some((scratch.values, scratch.other))
}

/// Σ x², in the fixed tree over runs of 4096 entries.
pub fn norm_squared(x: &[f64]) -> f64 {
    const RUN: usize = 4096;
    let leaf = |i: usize| x[i * RUN..((i + 1) * RUN).min(x.len())].iter().map(|v| v * v).sum::<f64>();
    parallel::reduce(x.len().div_ceil(RUN), 8, &leaf, &|a, b| a + b).unwrap_or(0.0)
}

/// Σ x y.
pub fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(a, b)| a * b).sum()
}

/// Σ x y in eight sums that are kept apart, so that it is vectorised; never inlined, so that crates which are built
/// without optimisation have it too.
#[inline(never)]
pub fn dot_in_lanes(x: &[f64], y: &[f64]) -> f64 {
    let ((xs, x_rest), (ys, y_rest)) = (x.as_chunks::<8>(), y.as_chunks::<8>());
    let mut lanes = [0.0; 8];
    for (x, y) in xs.iter().zip(ys) {
        (0..8).for_each(|k| lanes[k] += x[k] * y[k]);
    }
    lanes.iter().sum::<f64>() + x_rest.iter().zip(y_rest).map(|(x, y)| x * y).sum::<f64>()
}

/// y += alpha x.
pub fn add_scaled(y: &mut [f64], alpha: f64, x: &[f64]) {
    const RUN: usize = 4096;
    parallel::for_each_piece(y, RUN, 8, &|i, part| {
        for (a, b) in part.iter_mut().zip(&x[i * RUN..]) {
            *a += alpha * b;
        }
    });
}

/// y += alpha · (sum of the columns of `x`), four columns at a time.
pub(crate) fn add_columns(y: &mut [f64], alpha: f64, x: &[f64]) {
    const RUN: usize = 4096;
    let dim = y.len();
    parallel::for_each_piece(y, RUN, 1, &|i, part| {
        let length = part.len();
        let at = |k: usize| &x[k * dim + i * RUN..][..length];
        let columns = x.len() / dim;
        let mut k = 0;
        while k + 4 <= columns {
            let (a, b, c, d) = (at(k), at(k + 1), at(k + 2), at(k + 3));
            for j in 0..length {
                part[j] += alpha * ((a[j] + b[j]) + (c[j] + d[j]));
            }
            k += 4;
        }
        for k in k..columns {
            part.iter_mut().zip(at(k)).for_each(|(y, x)| *y += alpha * x);
        }
    });
}

/// x ← s x.
pub(crate) fn scale(x: &mut [f64], s: f64) {
    parallel::for_each_piece(x, 4096, 8, &|_, part| part.iter_mut().for_each(|x| *x *= s));
}

/// Columns of `z` ← `mean`.
pub(crate) fn broadcast(mean: &[f64], z: &mut [f64]) {
    const RUN: usize = 1 << 15;
    for column in z.chunks_exact_mut(mean.len()) {
        parallel::for_each_piece(column, RUN, 1, &|i, part| {
            part.copy_from_slice(&mean[i * RUN..][..part.len()])
        });
    }
}
