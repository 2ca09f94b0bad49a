//! Dense matrices in memory that others own, and their products in sequence: all that this crate calls of faer.

use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::{Accum, MatMut, MatRef, Par};

/// A matrix in memory that somebody else owns.
pub(crate) type Matrix<'a> = MatRef<'a, f64>;

/// A `rows` × `columns` matrix, column after column.
pub(crate) fn view(values: &[f64], rows: usize, columns: usize) -> Matrix<'_> {
    MatRef::from_column_major_slice(values, rows, columns)
}

/// The same with `stride` numbers from one column to the next, or from one row to the next.
pub(crate) fn strided(
    values: &[f64],
    rows: usize,
    columns: usize,
    stride: usize,
    column_major: bool,
) -> Matrix<'_> {
    if column_major {
        MatRef::from_column_major_slice_with_stride(values, rows, columns, stride)
    } else {
        MatRef::from_row_major_slice_with_stride(values, rows, columns, stride)
    }
}

/// out ← a b.
pub(crate) fn product(out: &mut [f64], a: Matrix<'_>, b: Matrix<'_>) {
    let out = MatMut::from_column_major_slice_mut(out, a.nrows(), b.ncols());
    matmul(out, Accum::Replace, a, b, 1.0, Par::Seq);
}

/// out += a b.
pub(crate) fn add_product(out: &mut [f64], a: Matrix<'_>, b: Matrix<'_>) {
    let out = MatMut::from_column_major_slice_mut(out, a.nrows(), b.ncols());
    matmul(out, Accum::Add, a, b, 1.0, Par::Seq);
}

/// The lower triangle of out += aᵀ b.
pub(crate) fn add_lower_gram(out: &mut [f64], a: Matrix<'_>, b: Matrix<'_>) {
    triangular::matmul(
        MatMut::from_column_major_slice_mut(out, a.ncols(), b.ncols()),
        BlockStructure::TriangularLower,
        Accum::Add,
        a.transpose(),
        BlockStructure::Rectangular,
        b,
        BlockStructure::Rectangular,
        1.0,
        Par::Seq,
    );
}

/// out ← a c; of c only the lower triangle is read if `lower`.
pub(crate) fn product_with_factor(out: &mut [f64], a: Matrix<'_>, c: Matrix<'_>, lower: bool) {
    let shape = if lower { BlockStructure::TriangularLower } else { BlockStructure::Rectangular };
    triangular::matmul(
        MatMut::from_column_major_slice_mut(out, a.nrows(), c.ncols()),
        BlockStructure::Rectangular,
        Accum::Replace,
        a,
        BlockStructure::Rectangular,
        c,
        shape,
        1.0,
        Par::Seq,
    );
}
