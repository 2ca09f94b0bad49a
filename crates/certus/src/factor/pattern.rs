//! Sparse lower-triangular factors on an ancestor pattern, as one dense column-major panel per block.

use std::ops::Range;
use std::sync::Arc;

use faer::MatMut;

use super::kernel;
use super::tree::{Node, Tree};
use crate::error::{Error, same_length};
use crate::parallel;

/// Stored values worth a task of their own.
const TASK: usize = 1 << 15;
/// Right-hand sides that are solved together.
const COLUMNS: usize = 4;

/// A sparse lower-triangular factor.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    tree: Arc<Tree>,
    values: Vec<f64>,
}

impl Pattern {
    pub(crate) fn zeros(tree: Arc<Tree>) -> Self {
        let values = vec![0.0; tree.stored()];
        Self { tree, values }
    }

    /// From the panels in the order of [`Tree::nodes`]; own blocks lower triangular with a positive diagonal.
    pub fn new(tree: Arc<Tree>, values: Vec<f64>) -> Result<Self, Error> {
        same_length("a pattern factor", tree.stored(), values.len())?;
        for node in tree.nodes() {
            for (column, entries) in panel(&values, node).chunks_exact(node.size).enumerate() {
                for (i, &value) in entries.iter().enumerate() {
                    let diagonal = node.width - node.size + i;
                    let wrong = !value.is_finite()
                        || (column > diagonal && value != 0.0)
                        || (column == diagonal && value <= 0.0);
                    if wrong {
                        return Err(Error::NonFinite {
                            what: "an entry of a pattern factor (zero above the diagonal, positive on it, finite)",
                            value,
                            place: format!("row {}, panel column {column}", node.start + i),
                        });
                    }
                }
            }
        }
        Ok(Self { tree, values })
    }

    /// The pattern.
    pub fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    pub(crate) fn dim(&self) -> usize {
        self.tree.dim()
    }

    pub(crate) fn values(&self) -> &[f64] {
        &self.values
    }

    pub(crate) fn values_mut(&mut self) -> &mut [f64] {
        &mut self.values
    }

    /// z_k += Σ_{a ancestor-or-self} C_ka u_a: rows are independent, so threads take runs of nodes.
    pub(crate) fn add_apply(&self, u: &[f64], z: &mut [f64]) {
        let dim = self.dim();
        let z = MatMut::from_column_major_slice_mut(z, dim, u.len() / dim);
        over_rows(&self.tree, 0..self.tree.nodes().len(), z, &|nodes, mut z| {
            let first = nodes[0].start;
            for (u, z) in u.chunks_exact(dim).zip(columns(&mut z)) {
                for node in nodes {
                    let (panel, z) = (panel(&self.values, node), &mut z[node.start - first..][..node.size]);
                    self.tree.for_each_ancestor(node, |column, a| {
                        let block = &panel[column * node.size..][..a.size * node.size];
                        kernel::add_times(node.size, 1.0, block, &u[a.start..][..a.size], z);
                    });
                }
            }
        });
    }

    /// C += alpha · P∘(A Uᵀ), then C_ii ← map(C_ii).
    pub(crate) fn add_outer_then(
        &mut self,
        alpha: f64,
        a: &[f64],
        u: &[f64],
        map: &(impl Fn(f64) -> f64 + Sync),
    ) {
        let (tree, dim) = (&*self.tree, self.dim());
        over_panels(tree, 0..tree.nodes().len(), &mut self.values, &|nodes, values| {
            let first = nodes[0].offset;
            for (a, u) in a.chunks_exact(dim).zip(u.chunks_exact(dim)) {
                for node in nodes {
                    let panel = &mut values[node.offset - first..][..node.size * node.width];
                    let a = &a[node.start..][..node.size];
                    tree.for_each_ancestor(node, |column, ancestor| {
                        let block = &mut panel[column * node.size..][..ancestor.size * node.size];
                        let u = &u[ancestor.start..][..ancestor.size];
                        if ancestor.start == node.start {
                            kernel::add_lower_outer(node.size, alpha, a, u, block);
                        } else {
                            kernel::add_outer(node.size, alpha, a, u, block);
                        }
                    });
                }
            }
            map_diagonals(nodes, values, map);
        });
    }

    /// z_a += C_kaᵀ u_k, summed over k in order; threads take runs of samples.
    pub(crate) fn add_apply_transpose(&self, u: &[f64], z: &mut [f64]) {
        let dim = self.dim();
        parallel::for_each_piece(z, dim, TASK.div_ceil(self.values.len()), &|sample, z| {
            let u = &u[sample * dim..][..dim];
            for node in self.tree.nodes() {
                let panel = panel(&self.values, node);
                self.tree.for_each_ancestor(node, |column, a| {
                    let block = &panel[column * node.size..][..a.size * node.size];
                    kernel::add_transpose_times(node.size, 1.0, block, &u[node.start..], &mut z[a.start..]);
                });
            }
        });
    }

    /// x_k ← L_kk⁻¹ (x_k − Σ_a C_ka x_a), root first.
    pub(crate) fn solve(&self, x: &mut [f64]) {
        self.over_samples(x, false, &|node, panel, x| {
            let (above, below) = x.split_at_mut(node.start);
            let own = &mut below[..node.size];
            self.tree.for_each_ancestor(node, |column, a| {
                let block = &panel[column * node.size..][..a.size * node.size];
                if a.start != node.start {
                    kernel::add_times(node.size, -1.0, block, &above[a.start..][..a.size], own);
                }
            });
            solve_own(panel, node, own);
        });
    }

    /// x_k ← L_kk⁻ᵀ x_k, then x_a −= C_kaᵀ x_k for its ancestors; leaves first.
    pub(crate) fn solve_transpose(&self, x: &mut [f64]) {
        self.over_samples(x, true, &|node, panel, x| {
            let (above, below) = x.split_at_mut(node.start);
            let own = &mut below[..node.size];
            for (j, column) in own_block(panel, node).chunks_exact(node.size).enumerate().rev() {
                let known: f64 = own[j + 1..].iter().zip(&column[j + 1..]).map(|(x, c)| x * c).sum();
                own[j] = (own[j] - known) / column[j];
            }
            self.tree.for_each_ancestor(node, |column, a| {
                let block = &panel[column * node.size..][..a.size * node.size];
                if a.start != node.start {
                    kernel::add_transpose_times(node.size, -1.0, block, own, &mut above[a.start..]);
                }
            });
        });
    }

    /// C⁻¹, which has the same pattern: X_kj = L_kk⁻¹(I_kj − Σ_b C_kb X_bj) over the ancestors b of k, root first.
    pub(crate) fn inverse(&self) -> Self {
        let mut inverse = Self::zeros(self.tree.clone());
        for node in self.tree.nodes() {
            let left = panel(&self.values, node);
            let (done, rest) = inverse.values.split_at_mut(node.offset);
            let out = &mut rest[..node.size * node.width];
            let own = (node.width - node.size) * node.size;
            (0..node.size).for_each(|i| out[own + i * (node.size + 1)] = 1.0);
            self.tree.for_each_ancestor(node, |column, b| {
                let block = &left[column * node.size..][..b.size * node.size];
                if b.start != node.start {
                    for (x, known) in out.chunks_exact_mut(node.size).zip(panel(done, b).chunks_exact(b.size))
                    {
                        kernel::add_times(node.size, -1.0, block, known, x);
                    }
                }
            });
            out.chunks_exact_mut(node.size).for_each(|x| solve_own(left, node, x));
        }
        inverse
    }

    /// P C for two factors on one pattern: (P C)_kj = Σ_b P_kb C_bj over the ancestors b of k, and the columns of C's
    /// row b are a prefix of the columns of k.
    pub(crate) fn times(&self, right: &Self) -> Self {
        let mut product = Self::zeros(self.tree.clone());
        self.add_product(right, &mut product.values);
        product
    }

    /// P ← P C; `scratch` is memory.
    pub(crate) fn multiply_right(&mut self, right: &Self, scratch: &mut Vec<f64>) {
        scratch.clear();
        scratch.resize(self.values.len(), 0.0);
        self.add_product(right, scratch);
        std::mem::swap(&mut self.values, scratch);
    }

    /// out += P C; rows are independent, so threads take runs of nodes.
    fn add_product(&self, right: &Self, out: &mut [f64]) {
        over_panels(&self.tree, 0..self.tree.nodes().len(), out, &|nodes, out| {
            for node in nodes {
                let left = panel(&self.values, node);
                let out = &mut out[node.offset - nodes[0].offset..][..node.size * node.width];
                self.tree.for_each_ancestor(node, |column, b| {
                    let block = &left[column * node.size..][..b.size * node.size];
                    let columns = panel(&right.values, b).chunks_exact(b.size);
                    for (z, c) in out.chunks_exact_mut(node.size).zip(columns) {
                        kernel::add_times(node.size, 1.0, block, c, z);
                    }
                });
            }
        });
    }

    /// Visits pieces of this matrix and of `x` with the part that they belong to: part 2k has block k of `x` and of the
    /// diagonal, part 2k + 1 what is below that block in its columns.
    pub(crate) fn for_each_part(&mut self, x: &mut [f64], mut visit: impl FnMut(usize, &mut [f64])) {
        for (k, node) in self.tree.nodes().iter().enumerate() {
            visit(2 * k, &mut x[node.start..][..node.size]);
            let panel = &mut self.values[node.offset..][..node.size * node.width];
            let mut next = Some(k);
            while let Some(a) = next {
                let above = &self.tree.nodes()[a];
                let columns = (above.width - above.size) * node.size..above.width * node.size;
                visit(2 * a + usize::from(a != k), &mut panel[columns]);
                next = above.parent;
            }
        }
    }

    /// Σ log C_ii, in order.
    pub(crate) fn log_det(&self) -> f64 {
        let own = |node: &Node| {
            let (own, size) = (node.offset + (node.width - node.size) * node.size, node.size);
            (0..size).map(move |i| self.values[own + i * (size + 1)].ln())
        };
        self.tree.nodes().iter().flat_map(own).sum()
    }

    /// Sweeps the nodes in order (or in reverse) for each sample; threads take runs of samples.
    fn over_samples(&self, x: &mut [f64], reverse: bool, work: &(impl Fn(&Node, &[f64], &mut [f64]) + Sync)) {
        let (dim, nodes) = (self.dim(), self.tree.nodes());
        let grain = TASK.div_ceil(self.values.len() * COLUMNS);
        parallel::for_each_piece(x, COLUMNS * dim, grain, &|_, x| {
            let mut visit = |node: &Node| {
                let panel = panel(&self.values, node);
                x.chunks_exact_mut(dim).for_each(|x| work(node, panel, x));
            };
            if reverse { nodes.iter().rev().for_each(&mut visit) } else { nodes.iter().for_each(&mut visit) }
        });
    }

    pub(crate) fn diagonal(&self, i: usize) -> f64 {
        let nodes = self.tree.nodes();
        let node = &nodes[nodes.partition_point(|n| n.start <= i) - 1];
        own_block(panel(&self.values, node), node)[(i - node.start) * (node.size + 1)]
    }

    pub(crate) fn map_diagonal(&mut self, map: &(impl Fn(f64) -> f64 + Sync)) {
        let tree = &*self.tree;
        over_panels(tree, 0..tree.nodes().len(), &mut self.values, &|nodes, values| {
            map_diagonals(nodes, values, map);
        });
    }

    pub(crate) fn for_each_entry(&self, mut visit: impl FnMut(usize, usize, f64)) {
        for node in self.tree.nodes() {
            let panel = panel(&self.values, node);
            self.tree.for_each_ancestor(node, |column, a| {
                for j in 0..a.size {
                    let first = if a.start == node.start { j } else { 0 };
                    for i in first..node.size {
                        visit(node.start + i, a.start + j, panel[(column + j) * node.size + i]);
                    }
                }
            });
        }
    }
}

/// C_ii ← map(C_ii) for a run of nodes whose panels are `values`.
fn map_diagonals(nodes: &[Node], values: &mut [f64], map: &impl Fn(f64) -> f64) {
    for node in nodes {
        let own = node.offset - nodes[0].offset + (node.width - node.size) * node.size;
        for i in 0..node.size {
            let x = &mut values[own + i * (node.size + 1)];
            *x = map(*x);
        }
    }
}

fn panel<'a>(values: &'a [f64], node: &Node) -> &'a [f64] {
    &values[node.offset..][..node.size * node.width]
}

/// The lower-triangular block of a panel that belongs to the node itself.
fn own_block<'a>(panel: &'a [f64], node: &Node) -> &'a [f64] {
    &panel[(node.width - node.size) * node.size..]
}

/// x ← L⁻¹ x for the node's own block L.
fn solve_own(panel: &[f64], node: &Node, x: &mut [f64]) {
    for (j, column) in own_block(panel, node).chunks_exact(node.size).enumerate() {
        x[j] /= column[j];
        let solved = x[j];
        x[j + 1..].iter_mut().zip(&column[j + 1..]).for_each(|(x, c)| *x -= solved * c);
    }
}

/// The columns of `z` as slices.
fn columns<'a>(z: &'a mut MatMut<'_, f64>) -> impl Iterator<Item = &'a mut [f64]> {
    z.as_mut().col_iter_mut().map(|c| {
        c.try_as_col_major_mut().expect("columns of a column-major slice are contiguous").as_slice_mut()
    })
}

/// Splits the rows of `z` at node boundaries and calls `work` on runs of nodes whose panels fit the cache.
fn over_rows(
    tree: &Tree,
    range: Range<usize>,
    z: MatMut<'_, f64>,
    work: &(impl Fn(&[Node], MatMut<'_, f64>) + Sync),
) {
    let Some(m) = middle(tree, &range) else { return work(&tree.nodes()[range], z) };
    let (left, right) = z.split_at_row_mut(tree.nodes()[m].start - tree.nodes()[range.start].start);
    parallel::join(
        || over_rows(tree, range.start..m, left, work),
        || over_rows(tree, m..range.end, right, work),
    );
}

/// Splits the values at node boundaries and calls `work` on runs of nodes whose panels fit the cache.
fn over_panels(
    tree: &Tree,
    range: Range<usize>,
    values: &mut [f64],
    work: &(impl Fn(&[Node], &mut [f64]) + Sync),
) {
    let Some(m) = middle(tree, &range) else { return work(&tree.nodes()[range], values) };
    let (left, right) = values.split_at_mut(tree.nodes()[m].offset - tree.nodes()[range.start].offset);
    parallel::join(
        || over_panels(tree, range.start..m, left, work),
        || over_panels(tree, m..range.end, right, work),
    );
}

/// Where to cut a run of nodes in two, if it is too long for one task.
fn middle(tree: &Tree, range: &Range<usize>) -> Option<usize> {
    let (first, last) = (&tree.nodes()[range.start], &tree.nodes()[range.end - 1]);
    let stored = last.offset + last.size * last.width - first.offset;
    (range.len() > 1 && stored > TASK).then(|| range.start + range.len() / 2)
}
