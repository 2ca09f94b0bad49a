//! Vectors and matrices that are known within a radius (docs/certificate-format.md, "Matrices of section 5").

use crate::ball::{Ball, U, up};
use crate::stated::Stated;
use crate::text::triangle;

/// A vector, or a full square matrix row by row, that is known within `rad` in the Euclidean norm.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) mid: Vec<f64>,
    pub(crate) rad: f64,
}

/// Σ x_i y_i with its rounding.
pub(crate) fn dot(x: &[f64], y: &[f64]) -> Ball {
    let products = || x.iter().zip(y).map(|(x, y)| x * y);
    let sizes: f64 = products().map(f64::abs).sum();
    let n = x.len() as f64 + 2.0;
    Ball::new(products().sum(), up(n * U * sizes * (1.0 + 2.0 * n * U)))
}

/// The Euclidean norm of exact numbers.
fn norm(x: &[f64]) -> f64 {
    dot(x, x).sqrt().upper()
}

impl Array {
    /// From balls.
    pub(crate) fn of(balls: &[Ball]) -> Self {
        let radii: Vec<f64> = balls.iter().map(|b| b.rad).collect();
        let finite = radii.iter().all(|rad| rad.is_finite());
        let rad = if finite { norm(&radii) } else { f64::INFINITY };
        Self { mid: balls.iter().map(|b| b.mid).collect(), rad }
    }

    /// At least the norm of every member.
    pub(crate) fn size(&self) -> f64 {
        up(norm(&self.mid) + self.rad)
    }

    /// a + x·b, entry by entry.
    pub(crate) fn plus(&self, x: f64, other: &Self) -> Self {
        let entries = self.mid.iter().zip(&other.mid);
        let sum = Self::of(&entries.map(|(a, b)| Ball::exact(*a) + Ball::exact(*b) * x).collect::<Vec<_>>());
        Self { mid: sum.mid, rad: up(sum.rad + self.rad + x.abs() * other.rad) }
    }

    /// This matrix times an exact one of d columns (or a vector).
    pub(crate) fn times(&self, right: &[f64], d: usize) -> Self {
        let columns = right.len() / d;
        let column = |j: usize| (0..d).map(|k| right[k * columns + j]).collect::<Vec<f64>>();
        let columns: Vec<Vec<f64>> = (0..columns).map(column).collect();
        let rows = self.mid.chunks(d);
        let products: Vec<Ball> = rows.flat_map(|row| columns.iter().map(|c| dot(row, c))).collect();
        let product = Self::of(&products);
        Self { mid: product.mid, rad: up(product.rad + self.rad * norm(right)) }
    }

    pub(crate) fn transposed(&self, d: usize) -> Self {
        let mid = (0..d * d).map(|at| self.mid[(at % d) * d + at / d]).collect();
        Self { mid, rad: self.rad }
    }

    /// The same symmetric matrix with equal numbers on both sides of the diagonal.
    pub(crate) fn symmetric(mut self, d: usize) -> Self {
        // both entries are within their radii of the same number
        for i in 0..d {
            for j in 0..i {
                self.mid[i * d + j] = self.mid[j * d + i];
            }
        }
        self.rad = up(2.0 * self.rad);
        self
    }

    /// Its inner product with exact numbers.
    pub(crate) fn dot(&self, x: &[f64]) -> Ball {
        let at = dot(&self.mid, x);
        Ball::new(at.mid, up(at.rad + self.rad * norm(x)))
    }
}

/// The full symmetric matrix of a lower triangle.
pub(crate) fn full(lower: &[f64], d: usize) -> Vec<f64> {
    let mut out = vec![0.0; d * d];
    for (i, row) in triangle(lower).enumerate() {
        for (j, x) in row.iter().enumerate() {
            (out[i * d + j], out[j * d + i]) = (*x, *x);
        }
    }
    out
}

/// A lower bound of the least eigenvalue of a symmetric matrix that is about `hint`: with L from a factorisation of
/// H − hint·I, H ≥ hint − |H − hint·I − LL′|.
pub(crate) fn least_eigenvalue(h: &Array, d: usize, hint: f64) -> Option<f64> {
    let mut l = vec![0.0; d * d];
    for j in 0..d {
        for i in j..d {
            let known: f64 = (0..j).map(|k| l[i * d + k] * l[j * d + k]).sum();
            let left = h.mid[i * d + j] - if i == j { hint } else { 0.0 } - known;
            l[i * d + j] = if i == j { left.sqrt() } else { left / l[j * d + j] };
        }
    }
    if !l.iter().all(|x| x.is_finite()) {
        return None;
    }
    let mut residual = Vec::new();
    for i in 0..d {
        for j in 0..d {
            let product = dot(&l[i * d..][..d], &l[j * d..][..d]);
            let own = Ball::exact(h.mid[i * d + j]) - if i == j { hint } else { 0.0 };
            residual.push(own - product);
        }
    }
    let wrong = up(Array::of(&residual).size() + h.rad);
    Some((Ball::exact(hint) - wrong).lower())
}

/// The sum over the blocks of what they state, a vector or the triangle of a matrix.
pub(crate) fn total<'a>(stated: impl Iterator<Item = &'a Stated>, d: usize, is_matrix: bool) -> Array {
    let mut sum = vec![Ball::ZERO; if is_matrix { d * (d + 1) / 2 } else { d }];
    let mut rad = Ball::ZERO;
    for own in stated {
        sum.iter_mut().zip(&own.parts).for_each(|(sum, x)| *sum = *sum + *x);
        rad = rad + own.rad;
    }
    let mut array = Array::of(&sum);
    if is_matrix {
        // a triangle's norm is at least the root of half of the matrix's
        array = Array { mid: full(&array.mid, d), rad: array.rad * 1.5 };
    }
    array.rad = up(array.rad + rad.upper());
    array
}
