//! 𝒮: dense symmetric positive-definite factors, stored in full and kept symmetric to the bit.

use crate::error::{Error, same_length};
use crate::linalg::{self, Scratch};

/// A dense symmetric factor.
#[derive(Clone, Debug, PartialEq)]
pub struct Symmetric {
    dim: usize,
    values: Vec<f64>,
}

impl Symmetric {
    pub(crate) fn zeros(dim: usize) -> Self {
        Self { dim, values: vec![0.0; dim * dim] }
    }

    /// From a column-major symmetric positive-definite matrix.
    pub fn new(dim: usize, values: Vec<f64>) -> Result<Self, Error> {
        same_length("a symmetric factor", dim * dim, values.len())?;
        for j in 0..dim {
            for i in j..dim {
                let (a, b) = (values[j * dim + i], values[i * dim + j]);
                if a != b {
                    return Err(Error::NonFinite {
                        what: "an entry that differs from its mirror image in a symmetric factor",
                        value: a,
                        place: format!("row {i}, column {j}"),
                    });
                }
            }
        }
        let factor = Self { dim, values };
        if factor.log_det().is_nan() {
            return Err(Error::invalid("the symmetric factor", "not positive definite", "it must be"));
        }
        Ok(factor)
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
        linalg::add_square_times(&self.values, self.dim, false, u, z);
    }

    pub(crate) fn add_apply_transpose(&self, u: &[f64], z: &mut [f64]) {
        self.add_apply(u, z);
    }

    pub(crate) fn solve(&self, x: &mut [f64], scratch: &mut Scratch) -> bool {
        if !scratch.cholesky(&self.values, 0.0) {
            return false;
        }
        linalg::solve_lower(&scratch.matrix, self.dim, false, x);
        linalg::solve_lower(&scratch.matrix, self.dim, true, x);
        true
    }

    pub(crate) fn add_outer(&mut self, alpha: f64, a: &[f64], u: &[f64]) {
        linalg::add_symmetric_outer(&mut self.values, self.dim, alpha, a, u);
    }

    pub(crate) fn add_inverse(&mut self, alpha: f64, scratch: &mut Scratch) -> bool {
        if !scratch.cholesky(&self.values, 0.0) {
            return false;
        }
        let inverse = scratch.inverse();
        for j in 0..self.dim {
            let column = j * self.dim + j..(j + 1) * self.dim;
            for (c, x) in self.values[column.clone()].iter_mut().zip(&inverse[column]) {
                *c += alpha * x;
            }
        }
        linalg::mirror(&mut self.values, self.dim);
        true
    }

    /// Eigenvalues below `floor` become `floor` (A15: eigenvalues, not singular values). A Cholesky factorisation of
    /// C − floor·I shows first, at a twentieth of the cost, whether there is anything to do. False: not finite.
    pub(crate) fn clamp_eigenvalues(&mut self, floor: f64, scratch: &mut Scratch) -> bool {
        scratch.cholesky(&self.values, floor) || scratch.clamp_eigenvalues(&mut self.values, floor)
    }

    pub(crate) fn log_det(&self) -> f64 {
        let mut scratch = Scratch::new(self.dim);
        if !scratch.cholesky(&self.values, 0.0) {
            return f64::NAN;
        }
        scratch.matrix.iter().step_by(self.dim + 1).map(|x| 2.0 * x.ln()).sum()
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
            for i in 0..self.dim {
                visit(i, j, self.values[j * self.dim + i]);
            }
        }
    }
}
