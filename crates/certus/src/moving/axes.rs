//! P with q = N(m, P Pᵀ): any invertible matrix, or a pattern. Right products P(I − D) never leave the space, so the
//! frame of the iterate can move with it.

use crate::error::Error;
use crate::factor::{Factor, Lower, Pattern};
use crate::gaussian::Gaussian;
use crate::linalg;

/// A square matrix in one of two spaces that are closed under products: all matrices (column-major), or an ancestor
/// pattern.
#[derive(Clone, Debug, PartialEq)]
pub enum Axes {
    /// All d × d matrices.
    Dense {
        /// d.
        dim: usize,
        /// The entries, column by column.
        values: Vec<f64>,
    },
    /// A sparse lower-triangular pattern.
    Pattern(Pattern),
}

impl Axes {
    /// P = C.
    pub fn of(factor: &Factor) -> Self {
        match factor {
            Factor::Pattern(p) => Axes::Pattern(p.clone()),
            dense => Axes::Dense { dim: dense.dim(), values: dense.to_dense() },
        }
    }

    pub(crate) fn zeros_like(&self) -> Self {
        let mut out = self.clone();
        out.values_mut().fill(0.0);
        out
    }

    pub(crate) fn values(&self) -> &[f64] {
        match self {
            Axes::Dense { values, .. } => values,
            Axes::Pattern(p) => p.values(),
        }
    }

    pub(crate) fn values_mut(&mut self) -> &mut [f64] {
        match self {
            Axes::Dense { values, .. } => values,
            Axes::Pattern(p) => p.values_mut(),
        }
    }

    /// Z += P U.
    pub(crate) fn add_apply(&self, u: &[f64], z: &mut [f64]) {
        match self {
            Axes::Dense { dim, values } => linalg::add_square_times(values, *dim, false, u, z),
            Axes::Pattern(p) => p.add_apply(u, z),
        }
    }

    /// Z += Pᵀ U.
    pub(crate) fn add_apply_transpose(&self, u: &[f64], z: &mut [f64]) {
        match self {
            Axes::Dense { dim, values } => linalg::add_transpose_times(values, *dim, false, u, z),
            Axes::Pattern(p) => p.add_apply_transpose(u, z),
        }
    }

    /// += alpha Σ of the gradient's factor part for the columns of V and U: sym(V Uᵀ) over all matrices, the pattern of
    /// V Uᵀ on one.
    pub(crate) fn add_moment(&mut self, alpha: f64, v: &[f64], u: &[f64]) {
        match self {
            Axes::Dense { dim, values } => linalg::add_symmetric_outer(values, *dim, alpha, v, u),
            Axes::Pattern(p) => p.add_outer_then(alpha, v, u, &|x| x),
        }
    }

    /// The gradient's factor part G → H⁻¹G with the Hessian of a Gaussian target at its optimum: 2 on symmetric
    /// matrices; on a pattern 1, and 2 on the diagonal (Lemma B: the entropy curves only that).
    pub(crate) fn precondition(&mut self) {
        match self {
            Axes::Dense { values, .. } => linalg::scale(values, 0.5),
            Axes::Pattern(p) => p.map_diagonal(&|x| 0.5 * x),
        }
    }

    /// Parts of a step that have a length of their own: all of it, or two of every block of a pattern.
    pub(crate) fn parts(&self) -> usize {
        match self {
            Axes::Dense { .. } => 1,
            Axes::Pattern(p) => 2 * p.tree().nodes().len(),
        }
    }

    /// Visits pieces of this matrix and of `x` with the part that they belong to.
    pub(crate) fn for_each_part(&mut self, x: &mut [f64], mut visit: impl FnMut(usize, &mut [f64])) {
        match self {
            Axes::Dense { values, .. } => [x, values].into_iter().for_each(|piece| visit(0, piece)),
            Axes::Pattern(p) => p.for_each_part(x, visit),
        }
    }

    /// P ← P (I + D).
    pub(crate) fn multiply_right(&mut self, d: &mut Axes, scratch: &mut Vec<f64>) {
        match (self, d) {
            (Axes::Dense { dim, values }, Axes::Dense { values: d, .. }) => {
                scratch.clear();
                scratch.extend_from_slice(values);
                linalg::add_square_times(scratch, *dim, false, d, values);
            }
            (Axes::Pattern(p), Axes::Pattern(d)) => {
                d.map_diagonal(&|x| 1.0 + x);
                p.multiply_right(d, scratch);
            }
            _ => unreachable!("P and D come from the same space"),
        }
    }

    /// P ← P + t (other − P).
    pub(crate) fn move_towards(&mut self, other: &Self, t: f64) {
        self.values_mut().iter_mut().zip(other.values()).for_each(|(x, y)| *x += t * (y - *x));
    }

    /// N(m, P Pᵀ) with a triangular factor.
    pub fn gaussian(&self, mean: &[f64]) -> Result<Gaussian, Error> {
        let factor = match self {
            Axes::Dense { dim, values } => {
                Factor::Lower(Lower::new(*dim, linalg::lower_of_same_covariance(values, *dim))?)
            }
            Axes::Pattern(p) => Factor::Pattern(p.clone()),
        };
        Gaussian::new(mean.to_vec(), factor)
    }

    /// How much the squared noise of a gradient exceeds the squared gradient far from the optimum: d + 3 (fact 2), on a
    /// pattern k + 1 + 2√levels (Theorem H).
    pub(crate) fn noise_factor(&self) -> f64 {
        match self {
            Axes::Dense { dim, .. } => *dim as f64 + 3.0,
            Axes::Pattern(p) => {
                let tree = p.tree();
                tree.widest() as f64 + 1.0 + 2.0 * (tree.levels() as f64).sqrt()
            }
        }
    }
}
