//! 𝒯: dense lower-triangular factors, stored as a full column-major square whose strict upper triangle is zero.

use crate::error::{Error, same_length};
use crate::linalg;

/// A dense lower-triangular factor.
#[derive(Clone, Debug, PartialEq)]
pub struct Lower {
    dim: usize,
    values: Vec<f64>,
}

impl Lower {
    pub(crate) fn zeros(dim: usize) -> Self {
        Self { dim, values: vec![0.0; dim * dim] }
    }

    /// From a column-major `dim × dim` matrix; entries above the diagonal must be zero, the diagonal positive.
    pub fn new(dim: usize, values: Vec<f64>) -> Result<Self, Error> {
        same_length("a lower-triangular factor", dim * dim, values.len())?;
        for (j, column) in values.chunks_exact(dim).enumerate() {
            for (i, &x) in column.iter().enumerate() {
                let ok = if i < j { x == 0.0 } else { x.is_finite() && (i > j || x > 0.0) };
                if !ok {
                    return Err(Error::NonFinite {
                        what: "an entry of a lower-triangular factor (zero above the diagonal, positive on it, finite)",
                        value: x,
                        place: format!("row {i}, column {j}"),
                    });
                }
            }
        }
        Ok(Self { dim, values })
    }

    pub(crate) fn dim(&self) -> usize {
        self.dim
    }

    pub(crate) fn values(&self) -> &[f64] {
        &self.values
    }

    pub(crate) fn values_mut(&mut self) -> &mut [f64] {
        &mut self.values
    }

    pub(crate) fn add_apply(&self, u: &[f64], z: &mut [f64]) {
        linalg::add_square_times(&self.values, self.dim, true, u, z);
    }

    pub(crate) fn add_apply_transpose(&self, u: &[f64], z: &mut [f64]) {
        linalg::add_transpose_times(&self.values, self.dim, true, u, z);
    }

    pub(crate) fn solve(&self, x: &mut [f64]) {
        linalg::solve_lower(&self.values, self.dim, false, x);
    }

    pub(crate) fn solve_transpose(&self, x: &mut [f64]) {
        linalg::solve_lower(&self.values, self.dim, true, x);
    }

    pub(crate) fn add_outer(&mut self, alpha: f64, a: &[f64], u: &[f64]) {
        linalg::add_lower_outer(&mut self.values, self.dim, alpha, a, u);
    }

    pub(crate) fn scale(&mut self, s: f64) {
        for (j, column) in self.values.chunks_exact_mut(self.dim).enumerate() {
            linalg::scale(&mut column[j..], s);
        }
    }

    pub(crate) fn diagonal(&self, i: usize) -> f64 {
        self.values[i * (self.dim + 1)]
    }

    pub(crate) fn map_diagonal(&mut self, map: &impl Fn(f64) -> f64) {
        for x in self.values.iter_mut().step_by(self.dim + 1) {
            *x = map(*x);
        }
    }

    pub(crate) fn for_each_entry(&self, mut visit: impl FnMut(usize, usize, f64)) {
        for j in 0..self.dim {
            for i in j..self.dim {
                visit(i, j, self.values[j * self.dim + i]);
            }
        }
    }
}
