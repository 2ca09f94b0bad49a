//! First- and second-order sums over the rows of a hierarchical model, on its pattern and in the whitened frame.

use certus::Gaussian;

use super::{At, Entry, Hierarchical, KEPT};
use crate::error::Error;
use crate::forest::Visit;
use crate::newton::dot;
use crate::rows::Failure;

/// The gradient of f in the whitened frame, on the pattern: (mean, factor), and the moments of the rows.
pub(super) struct Whitened {
    pub(super) mean: Vec<f64>,
    pub(super) factor: Vec<f64>,
    pub(super) rows: Vec<f64>,
}

impl Hierarchical {
    /// Calls `row(entries, [E φ′, q₀, q₁, q₂])` for every data and prior row of a node.
    fn visit(
        &self,
        node: usize,
        mean: &[f64],
        rows: &[f64],
        mut row: impl FnMut(&[Entry], [f64; 4]),
    ) -> Result<(), Error> {
        self.layout.rows_of(node, |k, entries| {
            let kept = &rows[k * KEPT..][..KEPT];
            row(entries, [kept[1], kept[2], kept[3], kept[4]]);
        })?;
        let node = &self.forest.nodes()[node];
        for coordinate in node.start..node.start + node.size {
            let (entries, residual, precision) = self.prior_row(coordinate, mean);
            row(&entries, [precision * residual, precision, 0.0, precision]);
        }
        Ok(())
    }

    /// The node's own rows of what its path has gathered; the ancestors' rows stay in the message.
    pub(super) fn keep(&self, visit: &mut Visit<'_>) {
        let node = &self.forest.nodes()[visit.node];
        let above = node.width - node.size;
        visit.own.copy_from_slice(&visit.vector[above..]);
        for (j, column) in visit.panel.chunks_exact_mut(node.size).enumerate() {
            column.copy_from_slice(&visit.square[j * node.width + above..][..node.size]);
        }
    }

    /// Gradient and Gauss-Newton sums: g = Σ e₁ ã, S = Σ q₀ ã ãᵀ on the pattern, ã = Cᵀa (or a itself at a point, and
    /// then S is stored as a symmetric matrix).
    pub(super) fn first_order(&self, at: At<'_>) -> Result<Whitened, Error> {
        self.sums_at(at, self.row_moments(at, false)?)
    }

    /// The same for given moments of the rows.
    pub(super) fn sums_at(&self, at: At<'_>, rows: Vec<f64>) -> Result<Whitened, Error> {
        let failure = Failure::default();
        let (mut mean, mut factor) = (vec![0.0; self.dim()], vec![0.0; self.forest.tree.stored()]);
        self.forest.upward(&mut mean, &mut factor, &|mut visit| {
            let width = self.forest.nodes()[visit.node].width;
            let (mut path, mut whitened) = (Vec::new(), vec![0.0; width]);
            let mut places = Vec::new();
            if let Some(factor) = at.factor {
                path.resize(width * width, 0.0);
                self.forest.path(factor, visit.node, &mut path);
            }
            failure.note(self.visit(visit.node, at.mean, &rows, |entries, [e1, q0, _, _]| {
                if at.factor.is_none() {
                    // few entries: nothing to whiten
                    places.extend(entries.iter().map(|e| e.0));
                    for &(j, v) in entries {
                        visit.vector[j] += e1 * v;
                        for &(i, u) in entries.iter().filter(|e| e.0 >= j) {
                            visit.square[j * width + i] += q0 * v * u;
                        }
                    }
                    return;
                }
                whiten(&path, entries.iter().copied(), &mut whitened);
                for j in 0..width {
                    visit.vector[j] += e1 * whitened[j];
                    let scaled = q0 * whitened[j];
                    let column = &mut visit.square[j * width + j..(j + 1) * width];
                    column.iter_mut().zip(&whitened[j..]).for_each(|(s, a)| *s += scaled * a);
                }
            }));
            self.keep(&mut visit);
            if at.factor.is_none() {
                places.sort_unstable();
                places.dedup();
                *visit.touched = Some(places);
            }
        });
        failure.into_result()?;
        if at.factor.is_none() {
            self.mirror_own_blocks(&mut factor);
        }
        Ok(Whitened { mean, factor, rows })
    }

    /// The own blocks of a symmetric matrix in full, from their lower triangles.
    pub(super) fn mirror_own_blocks(&self, matrix: &mut [f64]) {
        for n in self.forest.nodes() {
            let own = &mut matrix[n.offset + (n.width - n.size) * n.size..][..n.size * n.size];
            for j in 0..n.size {
                for i in j + 1..n.size {
                    own[i * n.size + j] = own[j * n.size + i];
                }
            }
        }
    }

    /// The exact gradient of f at w in its own frame, on the pattern: g_m and proj(S) − I.
    pub(super) fn whitened_gradient(&self, w: &Gaussian) -> Result<Whitened, Error> {
        let mut g = self.first_order(At::of(w))?;
        self.forest.diagonal().for_each(|i| g.factor[i] -= 1.0);
        Ok(g)
    }

    /// |g| in the whitened frame, for checks.
    pub fn whitened_gradient_norm(&self, w: &Gaussian) -> Result<f64, Error> {
        let g = self.whitened_gradient(w)?;
        Ok((dot(&g.mean, &g.mean) + dot(&g.factor, &g.factor)).sqrt())
    }

    /// The Hessian of f at w, with the moments of the rows there, applied to a direction (mean, factor) on the pattern,
    /// in the whitened frame (Lemma B; h curves the diagonal).
    pub(super) fn hessian_times(
        &self,
        w: &Gaussian,
        rows: &[f64],
        direction: &[f64],
        result: &mut [f64],
    ) -> Result<(), Error> {
        let failure = Failure::default();
        let (dm, dc) = direction.split_at(self.dim());
        let (mean, factor) = result.split_at_mut(self.dim());
        self.forest.upward(mean, factor, &|mut visit| {
            let width = self.forest.nodes()[visit.node].width;
            let square = || vec![0.0; width * width];
            let line = || vec![0.0; width];
            let (mut path, mut factor_step) = (square(), square());
            let (mut at, mut b, mut step) = (line(), line(), line());
            self.forest.path(w.factor().values(), visit.node, &mut path);
            self.forest.path(dc, visit.node, &mut factor_step);
            self.forest.path_vector(dm, visit.node, &mut step);
            failure.note(self.visit(visit.node, w.mean(), rows, |entries, [_, q0, q1, q2]| {
                whiten(&path, entries.iter().copied(), &mut at);
                whiten(&factor_step, at.iter().copied().enumerate(), &mut b);
                lemma_b(&at, &b, dot(&at, &step), [q0, q1, q2], visit.vector, visit.square);
            }));
            self.keep(&mut visit);
        });
        self.forest.diagonal().for_each(|i| factor[i] += dc[i]);
        failure.into_result()
    }
}

/// out ← Lᵀ a for a lower-triangular L stored by rows and the entries of a.
pub(super) fn whiten(l: &[f64], a: impl IntoIterator<Item = Entry>, out: &mut [f64]) {
    let width = out.len();
    out.fill(0.0);
    for (i, v) in a {
        let row = &l[i * width..][..=i];
        out[..=i].iter_mut().zip(row).for_each(|(o, l)| *o += v * l);
    }
}

/// Lemma B for one row: with α = ã·dm, b = dCᵀã, β = b·ã/sd, adds ã(q₀α + q₁β) to the mean and tril(ã(q₀b + (q₁α +
/// (q₂−q₀)β)ã/sd)ᵀ) to the factor.
fn lemma_b(at: &[f64], b: &[f64], alpha: f64, [q0, q1, q2]: [f64; 3], mean: &mut [f64], factor: &mut [f64]) {
    let width = at.len();
    let sd = dot(at, at).sqrt();
    let per_sd = if sd > 0.0 { 1.0 / sd } else { 0.0 };
    let beta = dot(b, at) * per_sd;
    let along = q0 * alpha + q1 * beta;
    let cross = (q1 * alpha + (q2 - q0) * beta) * per_sd;
    for j in 0..width {
        mean[j] += along * at[j];
        let r = q0 * b[j] + cross * at[j];
        for (f, a) in factor[j * width + j..(j + 1) * width].iter_mut().zip(&at[j..]) {
            *f += a * r;
        }
    }
}
