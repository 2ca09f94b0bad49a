//! Factors C of the covariance Σ = C Cᵀ: lower triangular, symmetric, or a sparse lower-triangular ancestor pattern.
//!
//! V is the linear space the factor lives in, with the Frobenius product. Every space stores its entries in one slice
//! whose plain Euclidean product *is* that product (symmetric factors are stored in full, so off-diagonal pairs count
//! twice as they must: erratum A16), so averages, distances and projections on balls are vector operations.

mod kernel;
mod lower;
mod pattern;
mod symmetric;
mod tree;

pub use lower::Lower;
pub use pattern::Pattern;
pub use symmetric::Symmetric;
pub use tree::{Node, Tree};

use std::sync::Arc;

use crate::linalg::Scratch;

/// A family V of factors, without values.
#[derive(Clone, Debug, PartialEq)]
pub enum Family {
    /// 𝒯: lower triangular with positive diagonal.
    Lower,
    /// 𝒮: symmetric positive definite.
    Symmetric,
    /// A sparse lower-triangular ancestor pattern with positive diagonal.
    Pattern(Arc<Tree>),
}

impl Family {
    /// The factor s·I of dimension `dim`.
    pub fn scaled_identity(&self, dim: usize, s: f64) -> Factor {
        let mut factor = match self {
            Family::Lower => Factor::Lower(Lower::zeros(dim)),
            Family::Symmetric => Factor::Symmetric(Symmetric::zeros(dim)),
            Family::Pattern(tree) => Factor::Pattern(Pattern::zeros(tree.clone())),
        };
        factor.map_diagonal(&|_| s);
        factor
    }

    /// A short name for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Family::Lower => "lower-triangular",
            Family::Symmetric => "symmetric",
            Family::Pattern(_) => "pattern",
        }
    }
}

/// A factor with its values.
#[derive(Clone, Debug, PartialEq)]
pub enum Factor {
    /// Dense lower triangular.
    Lower(Lower),
    /// Dense symmetric.
    Symmetric(Symmetric),
    /// Sparse lower triangular.
    Pattern(Pattern),
}

/// Evaluates the same expression for each kind of factor.
macro_rules! each {
    ($self:expr, $c:ident => $body:expr) => {
        match $self {
            Factor::Lower($c) => $body,
            Factor::Symmetric($c) => $body,
            Factor::Pattern($c) => $body,
        }
    };
}

impl Factor {
    /// d.
    pub fn dim(&self) -> usize {
        each!(self, c => c.dim())
    }

    /// The family this factor belongs to.
    pub fn family(&self) -> Family {
        match self {
            Factor::Lower(_) => Family::Lower,
            Factor::Symmetric(_) => Family::Symmetric,
            Factor::Pattern(c) => Family::Pattern(c.tree().clone()),
        }
    }

    /// The stored entries; their Euclidean product is the Frobenius product of V.
    pub fn values(&self) -> &[f64] {
        each!(self, c => c.values())
    }

    pub(crate) fn values_mut(&mut self) -> &mut [f64] {
        each!(self, c => c.values_mut())
    }

    /// Z += C U for a `d × n` batch.
    pub fn add_apply(&self, u: &[f64], z: &mut [f64]) {
        each!(self, c => c.add_apply(u, z))
    }

    /// Z += Cᵀ U for a `d × n` batch.
    pub fn add_apply_transpose(&self, u: &[f64], z: &mut [f64]) {
        each!(self, c => c.add_apply_transpose(u, z))
    }

    /// X ← C⁻¹ X.
    pub fn solve(&self, x: &mut [f64], workspace: &mut Workspace) -> bool {
        match self {
            Factor::Lower(c) => c.solve(x),
            Factor::Symmetric(c) => return c.solve(x, workspace.scratch(c.dim())),
            Factor::Pattern(c) => c.solve(x),
        }
        true
    }

    /// X ← C⁻ᵀ X; false if a symmetric C is not positive definite.
    pub fn solve_transpose(&self, x: &mut [f64], workspace: &mut Workspace) -> bool {
        match self {
            Factor::Lower(c) => c.solve_transpose(x),
            Factor::Symmetric(c) => return c.solve(x, workspace.scratch(c.dim())),
            Factor::Pattern(c) => c.solve_transpose(x),
        }
        true
    }

    /// C += alpha · proj_V(A Uᵀ) for `d × n` batches A and U: the adjoint of C ↦ C U, in O(nonzeros · n).
    pub fn add_outer(&mut self, alpha: f64, a: &[f64], u: &[f64]) {
        self.add_outer_then(alpha, a, u, &|x| x);
    }

    /// The same, and then C_ii ← map(C_ii) while the entries are still in the cache (triangular spaces).
    pub(crate) fn add_outer_then(
        &mut self,
        alpha: f64,
        a: &[f64],
        u: &[f64],
        map: &(impl Fn(f64) -> f64 + Sync),
    ) {
        match self {
            Factor::Lower(c) => {
                c.add_outer(alpha, a, u);
                c.map_diagonal(map);
            }
            Factor::Symmetric(c) => c.add_outer(alpha, a, u),
            Factor::Pattern(c) => c.add_outer_then(alpha, a, u, map),
        }
    }

    /// C += alpha · proj_V(C⁻ᵀ), the direction −∇h; false if C is not positive definite.
    ///
    /// For triangular spaces proj_V(C⁻ᵀ) is the diagonal 1/C_ii.
    pub fn add_inverse_transpose(&mut self, alpha: f64, workspace: &mut Workspace) -> bool {
        match self {
            Factor::Symmetric(c) => {
                let dim = c.dim();
                return c.add_inverse(alpha, workspace.scratch(dim));
            }
            _ => self.map_diagonal(&|x| x + alpha / x),
        }
        true
    }

    /// C D for two factors on one pattern; `None` for others, whose products leave their space or are dense.
    pub fn times(&self, right: &Self) -> Option<Self> {
        match (self, right) {
            (Factor::Pattern(c), Factor::Pattern(d)) if c.tree() == d.tree() => {
                Some(Factor::Pattern(c.times(d)))
            }
            _ => None,
        }
    }

    /// s C.
    #[must_use]
    pub fn scaled(mut self, s: f64) -> Self {
        self.scale(s);
        self
    }

    /// C ← s C.
    pub(crate) fn scale(&mut self, s: f64) {
        match self {
            Factor::Lower(c) => c.scale(s),
            _ => crate::linalg::scale(self.values_mut(), s),
        }
    }

    /// log det C = Σ log C_ii for triangular spaces; NaN if C is not positive definite.
    pub fn log_det(&self) -> f64 {
        match self {
            Factor::Symmetric(c) => c.log_det(),
            Factor::Pattern(c) => c.log_det(),
            _ => (0..self.dim()).map(|i| self.diagonal(i).ln()).sum(),
        }
    }

    /// C_ii.
    pub fn diagonal(&self, i: usize) -> f64 {
        each!(self, c => c.diagonal(i))
    }

    /// C_ii ← map(C_ii) for every i.
    pub(crate) fn map_diagonal(&mut self, map: &(impl Fn(f64) -> f64 + Sync)) {
        each!(self, c => c.map_diagonal(map))
    }

    /// Σ_ii = |row i of C|², the marginal variances.
    pub fn variances(&self) -> Vec<f64> {
        let mut out = vec![0.0; self.dim()];
        self.for_each_entry(|i, _, x| out[i] += x * x);
        out
    }

    /// Calls `visit(i, j, C_ij)` for every structural entry (both triangles of a symmetric factor).
    pub fn for_each_entry(&self, visit: impl FnMut(usize, usize, f64)) {
        each!(self, c => c.for_each_entry(visit))
    }

    /// The full `d × d` column-major matrix C; for small d and tests.
    pub fn to_dense(&self) -> Vec<f64> {
        let dim = self.dim();
        let mut out = vec![0.0; dim * dim];
        self.for_each_entry(|i, j, x| out[j * dim + i] = x);
        out
    }

    /// |C|_F².
    pub fn norm_squared(&self) -> f64 {
        crate::linalg::norm_squared(self.values())
    }
}

/// Memory that solves with symmetric factors and projections need, made on first use and kept.
#[derive(Default)]
pub struct Workspace {
    scratch: Option<Scratch>,
}

impl Workspace {
    pub(crate) fn scratch(&mut self, dim: usize) -> &mut Scratch {
        if self.scratch.as_ref().is_none_or(|s| s.matrix.len() != dim * dim) {
            self.scratch = Some(Scratch::new(dim));
        }
        self.scratch.as_mut().expect("made above")
    }
}
