//! Symmetric matrices on a tree of blocks are factored from the leaves to the root, and the factor of their inverse is
//! assembled from the root to the leaves.

use certus::factor::{Factor, Pattern};
use certus::parallel;

use super::Forest;

impl Forest {
    /// The factor C with C Cᵀ = H⁻¹ for a symmetric H: leaves are eliminated first. With H_kk = U Uᵀ (U upper) after
    /// the children's Schur complements, C_kk = U⁻ᵀ and C_k,above = −H_kk⁻¹H_k,above C_above. `None` if H is not
    /// positive definite.
    pub(crate) fn inverse_factor(&self, mut h: Vec<f64>) -> Option<Factor> {
        self.eliminate(&mut h).then(|| self.assemble(h))?
    }

    /// True if a symmetric H, shifted by −shift·I, is positive definite (to rounding).
    pub(crate) fn is_positive(&self, h: &[f64], shift: f64) -> bool {
        let mut values = h.to_vec();
        self.diagonal().for_each(|i| values[i] -= shift);
        self.eliminate(&mut values)
    }

    /// h ← panels (H_kk⁻¹H_k,above, C_kk), leaves first; false if H is not positive definite.
    fn eliminate(&self, values: &mut [f64]) -> bool {
        let mut failed = vec![0.0; self.dim()];
        self.upward(&mut failed, values, &|visit| {
            let node = &self.nodes()[visit.node];
            let (p, width) = (node.size, node.width);
            let above = width - p;
            for j in 0..width {
                for i in 0..p {
                    // the children's Schur complement is stored as a lower triangle
                    let (row, column) = ((above + i).max(j), (above + i).min(j));
                    visit.panel[j * p + i] -= visit.square[column * width + row];
                }
            }
            let (across, own) = visit.panel.split_at_mut(p * above);
            if !inverse_lower_factor(own, p) {
                visit.own[0] = 1.0;
                own.fill(0.0);
                return;
            }
            // y = C_kkᵀ H_k,above: the Schur complement loses yᵀy, and H_kk⁻¹H_k,above = C_kk y
            let mut y = across.to_vec();
            for column in y.chunks_exact_mut(p) {
                for i in 0..p {
                    column[i] = (i..p).map(|k| own[i * p + k] * column[k]).sum();
                }
            }
            let zero = |b: &usize| y[b * p..][..p].iter().all(|y| *y == 0.0);
            let some: Vec<usize> = (0..above).filter(|b| !zero(b)).collect();
            // of crossed groups a leaf has met few of those on its path
            if 4 * some.len() < above {
                for (at, &b) in some.iter().enumerate() {
                    for &a in &some[at..] {
                        visit.square[b * width + a] +=
                            (0..p).map(|k| y[a * p + k] * y[b * p + k]).sum::<f64>();
                    }
                }
                *visit.touched = Some(some);
            } else {
                for b in 0..above {
                    for a in b..above {
                        visit.square[b * width + a] +=
                            (0..p).map(|k| y[a * p + k] * y[b * p + k]).sum::<f64>();
                    }
                }
            }
            for (column, y) in across.chunks_exact_mut(p).zip(y.chunks_exact(p)) {
                for i in 0..p {
                    column[i] = (0..=i).map(|k| own[k * p + i] * y[k]).sum();
                }
            }
        });
        failed.iter().all(|x| *x == 0.0)
    }

    /// C from the panels of [`Self::eliminate`], root first.
    fn assemble(&self, mut values: Vec<f64>) -> Option<Factor> {
        for level in &self.levels[1..] {
            let (_, stored) = self.start(level);
            let (above_values, here) = values.split_at_mut(stored);
            let above_values = &*above_values;
            let runs = self.runs(level);
            let mut rest = here;
            let mut parts = Vec::with_capacity(runs.len());
            for run in runs {
                let stored: usize = self.nodes()[run.clone()].iter().map(|n| n.size * n.width).sum();
                let (part, after) = rest.split_at_mut(stored);
                parts.push((run, part));
                rest = after;
            }
            parallel::for_each_piece(&mut parts, 1, 1, &|_, part| {
                let (run, panels) = &mut part[0];
                let first = &self.nodes()[run.start];
                let above = first.width - first.size;
                let mut path = vec![0.0; above * above];
                self.path(above_values, first.parent.unwrap_or(0), &mut path);
                let mut panels = &mut **panels;
                for k in run.clone() {
                    let p = self.nodes()[k].size;
                    let (panel, rest) = panels.split_at_mut(p * (above + p));
                    panels = rest;
                    let across = panel[..p * above].to_vec();
                    for b in 0..above {
                        for i in 0..p {
                            panel[b * p + i] =
                                -(b..above).map(|a| across[a * p + i] * path[a * above + b]).sum::<f64>();
                        }
                    }
                }
            });
        }
        Pattern::new(self.tree.clone(), values).ok().map(Factor::Pattern)
    }
}

/// a ← the lower K with K Kᵀ = a⁻¹ (strict upper triangle zero): a = U Uᵀ from the last row up, K = U⁻ᵀ. Small blocks
/// only.
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
