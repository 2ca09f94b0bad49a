//! Linear algebra on the arrow: a global block and many groups that see only it. Everything is linear in the number of groups.
//!
//! Matrices use the layout of [`Pattern`](certus::factor::Pattern): the root's G × G block, then one p × (G + p) panel per group, all
//! column-major. A factor is lower triangular in its own blocks; a symmetric matrix stores its own blocks in full.

use certus::factor::{Factor, Pattern, Tree};
use certus::parallel;
use std::sync::Arc;

use crate::error::Error;

/// Groups handled together: root sums are made per run and combined in the fixed tree.
pub(crate) const RUN: usize = 64;

/// The shape of an arrow with equal groups.
#[derive(Clone, Debug)]
pub(crate) struct Arrow {
    pub(crate) tree: Arc<Tree>,
    pub(crate) globals: usize,
    pub(crate) size: usize,
    pub(crate) groups: usize,
}

impl Arrow {
    pub(crate) fn new(globals: usize, size: usize, groups: usize) -> Result<Self, Error> {
        let tree = Arc::new(Tree::arrow(globals, &vec![size; groups])?);
        Ok(Self { tree, globals, size, groups })
    }

    /// d.
    pub(crate) fn dim(&self) -> usize {
        self.globals + self.groups * self.size
    }

    /// Coordinates on the path of a group: the globals and its own.
    pub(crate) fn width(&self) -> usize {
        self.globals + self.size
    }

    /// Numbers in the root's block.
    pub(crate) fn root(&self) -> usize {
        self.globals * self.globals
    }

    /// Numbers in a group's panel.
    pub(crate) fn panel(&self) -> usize {
        self.size * self.width()
    }

    /// out ← the w × w matrix of one group's path: rows of the root, then rows of the group.
    pub(crate) fn path(&self, root: &[f64], panel: &[f64], out: &mut [f64]) {
        let (g, p, w) = (self.globals, self.size, self.width());
        for j in 0..w {
            let column = &mut out[j * w..][..w];
            if j < g {
                column[..g].copy_from_slice(&root[j * g..][..g]);
            } else {
                column[..g].fill(0.0);
            }
            column[g..].copy_from_slice(&panel[j * p..][..p]);
        }
    }

    /// Calls `work(first group, panels of the run, root sums of the run)` and returns Σ of the root sums, in the fixed tree.
    pub(crate) fn over_groups(
        &self,
        panels: &mut [f64],
        panel: usize,
        sums: usize,
        work: &(impl Fn(usize, &mut [f64], &mut [f64]) + Sync),
    ) -> Vec<f64> {
        let runs = self.groups.div_ceil(RUN);
        let mut partial = vec![0.0; runs * sums.max(1)];
        let mut jobs: Vec<_> =
            panels.chunks_mut((RUN * panel).max(1)).zip(partial.chunks_mut(sums.max(1))).collect();
        parallel::for_each_piece(&mut jobs, 1, 1, &|run, job| {
            let (panels, sums) = &mut job[0];
            work(run * RUN, panels, sums);
        });
        drop(jobs);
        let leaf = |run: usize| partial[run * sums.max(1)..][..sums].to_vec();
        let add = |mut a: Vec<f64>, b: Vec<f64>| {
            a.iter_mut().zip(&b).for_each(|(x, y)| *x += y);
            a
        };
        parallel::reduce(runs, 16, &leaf, &add).unwrap_or_else(|| vec![0.0; sums])
    }

    /// The factor C with C Cᵀ = H⁻¹ for a symmetric arrow H: groups are eliminated first, so with H_gg = U Uᵀ (U upper),
    /// C_gg = U⁻ᵀ, C_g,root = −H_gg⁻¹H_g,root C_root, and C_root from the Schur complement. `None` if H is not positive definite.
    pub(crate) fn inverse_factor(&self, h: &[f64]) -> Option<Factor> {
        let (g, p, panel) = (self.globals, self.size, self.panel());
        let mut values = h.to_vec();
        let (root, panels) = values.split_at_mut(self.root());
        // per group: own block ← C_gg, ancestors' part ← H_gg⁻¹H_g,root; Schur complement into the sums, failures counted
        let sums = self.over_groups(panels, panel, g * g + 1, &|_, panels, sums| {
            for h in panels.chunks_exact_mut(panel) {
                let (across, own) = h.split_at_mut(p * g);
                if !inverse_lower_factor(own, p) {
                    sums[g * g] += 1.0;
                    continue;
                }
                // y = C_ggᵀ H_g,root, so that H_gg⁻¹H_g,root = C_gg y and the Schur complement loses yᵀy
                let mut y = across.to_vec();
                for column in y.chunks_exact_mut(p) {
                    for i in 0..p {
                        column[i] = (i..p).map(|k| own[i * p + k] * column[k]).sum();
                    }
                }
                for b in 0..g {
                    for a in 0..g {
                        sums[b * g + a] += (0..p).map(|k| y[a * p + k] * y[b * p + k]).sum::<f64>();
                    }
                }
                for (column, y) in across.chunks_exact_mut(p).zip(y.chunks_exact(p)) {
                    for i in 0..p {
                        column[i] = (0..=i).map(|k| own[k * p + i] * y[k]).sum();
                    }
                }
            }
        });
        if sums[g * g] > 0.0 {
            return None;
        }
        root.iter_mut().zip(&sums).for_each(|(r, s)| *r -= s);
        if !inverse_lower_factor(root, g) {
            return None;
        }
        let root = &*root;
        self.over_groups(panels, panel, 0, &|_, panels, _| {
            let mut product = vec![0.0; p * g];
            for c in panels.chunks_exact_mut(panel) {
                for b in 0..g {
                    for i in 0..p {
                        product[b * p + i] = -(b..g).map(|a| c[a * p + i] * root[b * g + a]).sum::<f64>();
                    }
                }
                c[..p * g].copy_from_slice(&product);
            }
        });
        Pattern::new(self.tree.clone(), values).ok().map(Factor::Pattern)
    }
}

/// a ← the lower K with K Kᵀ = a⁻¹ (strict upper triangle zero): a = U Uᵀ from the last row up, K = U⁻ᵀ. Small blocks only.
fn inverse_lower_factor(a: &mut [f64], n: usize) -> bool {
    for j in (0..n).rev() {
        let pivot = a[j * n + j] - (j + 1..n).map(|k| a[k * n + j] * a[k * n + j]).sum::<f64>();
        if pivot.is_nan() || pivot <= 0.0 {
            return false;
        }
        let root = pivot.sqrt();
        a[j * n + j] = root;
        for i in 0..j {
            let s: f64 = (j + 1..n).map(|k| a[k * n + i] * a[k * n + j]).sum();
            a[j * n + i] = (a[j * n + i] - s) / root;
        }
    }
    // K = U⁻ᵀ: solve Uᵀ K = I column by column; Uᵀ is lower with entries (i, k) = U(k, i) = a[i·n + k]
    let u = a.to_vec();
    for j in 0..n {
        for i in 0..n {
            a[j * n + i] = if i < j {
                0.0
            } else {
                let s: f64 = (j..i).map(|k| u[i * n + k] * a[j * n + k]).sum();
                (f64::from(u8::from(i == j)) - s) / u[i * n + i]
            };
        }
    }
    true
}
