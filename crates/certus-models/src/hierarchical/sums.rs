//! First- and second-order sums over the rows of a hierarchical model, on the arrow and in the whitened frame.

use certus::Gaussian;

use super::Hierarchical;
use crate::error::Error;

/// The gradient of f in the whitened frame, on the arrow: (mean, factor).
pub(super) struct Whitened {
    pub(super) mean: Vec<f64>,
    pub(super) factor: Vec<f64>,
    pub(super) rows: Vec<f64>,
}

impl Hierarchical {
    /// Gradient and Gauss-Newton sums at w: g = Σ e₁ ã, S = Σ q₀ ã ãᵀ on the arrow, ã = Cᵀa (or a itself if `point`).
    pub(super) fn first_order(&self, w: &Gaussian, point: bool) -> Result<Whitened, Error> {
        Ok(self.sums_at(w, self.row_moments(w, point)?, point))
    }

    /// The same for given moments of the rows.
    pub(super) fn sums_at(&self, w: &Gaussian, rows: Vec<f64>, point: bool) -> Whitened {
        let (globals, groups, root, panels) = self.split(w);
        let (g, p, width, panel) =
            (self.arrow.globals, self.arrow.size, self.arrow.width(), self.arrow.panel());
        let mut out = vec![0.0; self.arrow.groups * (p + panel)];
        let sums = self.arrow.over_groups(&mut out, p + panel, g + g * g, &|first, run, sums| {
            let (mut path, mut at) = (vec![0.0; width * width], vec![0.0; width]);
            let (mut mean, mut square) = (vec![0.0; width], vec![0.0; width * width]);
            for (k, out) in run.chunks_exact_mut(p + panel).enumerate() {
                let group = first + k;
                self.arrow.path(root, &panels[group * panel..][..panel], &mut path);
                mean.fill(0.0);
                square.fill(0.0);
                self.visit(group, (globals, groups), &rows, |a, [e1, q0, _, _]| {
                    let at = if point {
                        a
                    } else {
                        whiten(&path, a, &mut at);
                        &at
                    };
                    for j in 0..width {
                        mean[j] += e1 * at[j];
                        let scaled = q0 * at[j];
                        for i in j..width {
                            square[j * width + i] += scaled * at[i];
                        }
                    }
                });
                self.take(&mean, &square, out, sums);
            }
        });
        let mut result = self.assemble(&out, &sums, point);
        // the prior of θ: whitened row j of C_root
        for j in 0..g {
            let at = |k: usize| if point { f64::from(u8::from(k == j)) } else { root[k * g + j] };
            let residual = self.root_precision[j] * (globals[j] - self.root_mean[j]);
            for b in 0..g {
                result.mean[b] += residual * at(b);
                for a in b..g {
                    result.factor[b * g + a] += self.root_precision[j] * at(a) * at(b);
                }
            }
        }
        result.rows = rows;
        result
    }

    /// Splits path sums of one group between the group's own output and the root's sums.
    pub(super) fn take(&self, mean: &[f64], square: &[f64], out: &mut [f64], sums: &mut [f64]) {
        let (g, p, width) = (self.arrow.globals, self.arrow.size, self.arrow.width());
        for j in 0..g {
            sums[j] += mean[j];
            for i in 0..g {
                sums[g + j * g + i] += square[j * width + i];
            }
        }
        out[..p].copy_from_slice(&mean[g..]);
        for j in 0..width {
            out[p + j * p..][..p].copy_from_slice(&square[j * width + g..][..p]);
        }
    }

    /// Root sums and group outputs as one vector over the mean and one over the arrow.
    pub(super) fn assemble(&self, out: &[f64], sums: &[f64], symmetric: bool) -> Whitened {
        let (g, p, panel) = (self.arrow.globals, self.arrow.size, self.arrow.panel());
        let (mut mean, mut factor) = (sums[..g].to_vec(), sums[g..].to_vec());
        for out in out.chunks_exact(p + panel) {
            mean.extend_from_slice(&out[..p]);
            let at = factor.len();
            factor.extend_from_slice(&out[p..]);
            if symmetric {
                mirror(&mut factor[at + p * g..], p);
            }
        }
        if symmetric {
            mirror(&mut factor[..g * g], g);
        }
        Whitened { mean, factor, rows: Vec::new() }
    }

    /// The exact gradient of f at w in its own frame, on the arrow: g_m and proj(S) − I.
    pub(super) fn whitened_gradient(&self, w: &Gaussian) -> Result<Whitened, Error> {
        let mut g = self.first_order(w, false)?;
        for i in self.diagonal() {
            g.factor[i] -= 1.0;
        }
        Ok(g)
    }

    /// |g| in the whitened frame, for checks.
    pub fn whitened_gradient_norm(&self, w: &Gaussian) -> Result<f64, Error> {
        let g = self.whitened_gradient(w)?;
        Ok((dot(&g.mean, &g.mean) + dot(&g.factor, &g.factor)).sqrt())
    }

    /// Where the diagonal of a factor sits among its values.
    pub(super) fn diagonal(&self) -> impl Iterator<Item = usize> + use<> {
        let (g, p, panel, root) =
            (self.arrow.globals, self.arrow.size, self.arrow.panel(), self.arrow.root());
        let groups = self.arrow.groups;
        let own = (0..groups).flat_map(move |k| (0..p).map(move |i| root + k * panel + p * g + i * (p + 1)));
        (0..g).map(move |i| i * (g + 1)).chain(own)
    }

    /// The Hessian of f at w applied to a direction (mean, factor) on the arrow, in the whitened frame (Lemma B; h curves the diagonal).
    pub(super) fn hessian_times(&self, w: &Gaussian, at_w: &Whitened, direction: &[f64], result: &mut [f64]) {
        let (globals, groups, root, panels) = self.split(w);
        let (g, p, width, panel) =
            (self.arrow.globals, self.arrow.size, self.arrow.width(), self.arrow.panel());
        let (dm, dc) = direction.split_at(self.dim());
        let (dc_root, dc_panels) = dc.split_at(self.arrow.root());
        let mut out = vec![0.0; self.arrow.groups * (p + panel)];
        let sums = self.arrow.over_groups(&mut out, p + panel, g + g * g, &|first, run, sums| {
            let square = || vec![0.0; width * width];
            let (mut path, mut turn, mut factor) = (square(), square(), square());
            let line = || vec![0.0; width];
            let (mut at, mut b, mut mean, mut step) = (line(), line(), line(), line());
            for (k, out) in run.chunks_exact_mut(p + panel).enumerate() {
                let group = first + k;
                self.arrow.path(root, &panels[group * panel..][..panel], &mut path);
                self.arrow.path(dc_root, &dc_panels[group * panel..][..panel], &mut turn);
                step[..g].copy_from_slice(&dm[..g]);
                step[g..].copy_from_slice(&dm[g + group * p..][..p]);
                mean.fill(0.0);
                factor.fill(0.0);
                self.visit(group, (globals, groups), &at_w.rows, |a, [_, q0, q1, q2]| {
                    whiten(&path, a, &mut at);
                    whiten(&turn, &at, &mut b);
                    lemma_b(&at, &b, dot(&at, &step), [q0, q1, q2], &mut mean, &mut factor);
                });
                self.take(&mean, &factor, out, sums);
            }
        });
        let mut total = self.assemble(&out, &sums, false);
        let (mut at, mut b) = (vec![0.0; g], vec![0.0; g]);
        for j in 0..g {
            for k in 0..g {
                at[k] = root[k * g + j];
            }
            whiten(dc_root, &at, &mut b);
            let q = self.root_precision[j];
            let along = dot(&at, &dm[..g]);
            lemma_b(&at, &b, along, [q, 0.0, q], &mut total.mean[..g], &mut total.factor[..g * g]);
        }
        for i in self.diagonal() {
            total.factor[i] += dc[i];
        }
        result[..self.dim()].copy_from_slice(&total.mean);
        result[self.dim()..].copy_from_slice(&total.factor);
    }
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// out ← Lᵀ a for a lower-triangular square L.
pub(super) fn whiten(l: &[f64], a: &[f64], out: &mut [f64]) {
    let w = a.len();
    for (j, (column, out)) in l.chunks_exact(w).zip(out).enumerate() {
        *out = dot(&column[j..], &a[j..]);
    }
}

/// Lemma B for one row: with α = ã·dm, b = dCᵀã, β = b·ã/sd, adds ã(q₀α + q₁β) to the mean and tril(ã(q₀b + (q₁α + (q₂−q₀)β)ã/sd)ᵀ) to
/// the factor.
pub(super) fn lemma_b(
    at: &[f64],
    b: &[f64],
    alpha: f64,
    [q0, q1, q2]: [f64; 3],
    mean: &mut [f64],
    factor: &mut [f64],
) {
    let width = at.len();
    let sd = dot(at, at).sqrt();
    let per_sd = if sd > 0.0 { 1.0 / sd } else { 0.0 };
    let beta = dot(b, at) * per_sd;
    let along = q0 * alpha + q1 * beta;
    let twist = (q1 * alpha + (q2 - q0) * beta) * per_sd;
    for j in 0..width {
        mean[j] += along * at[j];
        let r = q0 * b[j] + twist * at[j];
        for i in j..width {
            factor[j * width + i] += at[i] * r;
        }
    }
}

pub(super) fn mirror(a: &mut [f64], n: usize) {
    for j in 0..n {
        for i in j + 1..n {
            a[i * n + j] = a[j * n + i];
        }
    }
}
