//! One group, the rows of a level of the factor that is integrated out: what the rest of the model sees of it.
//!
//! As a function of the rows' predictors t a group has a value f (minus the logarithm of its integral, or the minimum
//! of its exponent), a gradient f′ and a Hessian 𝒲; K = Zᵀ𝒲Z is the Hessian in the kept effects that it has.

use certus_likelihood::Datum;

use super::model::{CrossedModel, Group};

/// Step of the differences that φ‴ is computed by; their error is 5e-9 of φ⁗‴.
pub(super) const STEP: f64 = 0.02;
/// Central differences of order 4: multiples of [`STEP`], and weights.
pub(super) const DIFFERENCES: [(f64, f64); 4] =
    [(-2.0, 1.0 / 12.0), (-1.0, -8.0 / 12.0), (1.0, 8.0 / 12.0), (2.0, -1.0 / 12.0)];

/// The rows of a group at given predictors.
pub(super) struct GroupView<'a> {
    pub(super) model: &'a CrossedModel,
    pub(super) group: &'a Group,
    /// xβ + offset + the kept effects.
    pub(super) t: &'a [f64],
    pub(super) data: &'a [Datum],
    pub(super) weight: &'a [f64],
    /// k, effects that are integrated out.
    pub(super) k: usize,
    /// z of these effects, row after row.
    pub(super) z: &'a [f64],
    /// s = Tᵀz, row after row.
    pub(super) s: Vec<f64>,
    /// Columns of kept effects.
    pub(super) c: usize,
}

/// Value, gradient and Hessian.
#[derive(Debug, Clone, Default)]
pub(super) struct Curvature {
    /// f.
    pub(super) value: f64,
    /// ½ log det of what was integrated out by a Gaussian.
    pub(super) half_log_det: f64,
    /// f′, per row.
    pub(super) first: Vec<f64>,
    /// K, c × c.
    pub(super) matrix: Vec<f64>,
}

/// Derivatives of f and of G = ½ tr(PK) (+ ½ log det), P given.
#[derive(Debug, Clone, Default)]
pub(super) struct Slopes {
    /// ∂G/∂t, per row.
    pub(super) rows: Vec<f64>,
    /// ∂f/∂T, k × k by columns.
    pub(super) value: Vec<f64>,
    /// ∂G/∂T.
    pub(super) spread: Vec<f64>,
}

/// Derivatives of the gradient along a direction δ of t.
#[derive(Debug, Clone, Default)]
pub(super) struct Along {
    /// 𝒲δ.
    pub(super) rows: Vec<f64>,
    /// ∂²f/∂T∂t δ.
    pub(super) own: Vec<f64>,
}

impl<'a> GroupView<'a> {
    /// `t` are the predictors of all rows of the model, `matrix` is T of the first factor.
    pub(super) fn new(model: &'a CrossedModel, g: usize, t: &'a [f64], matrix: &[f64]) -> Self {
        let group = &model.groups[g];
        let rows = group.rows.clone();
        let k = model.layout.factors[0].effects;
        let z = &model.own[rows.start * k..rows.end * k];
        let mut s = vec![0.0; z.len()];
        for (s, z) in s.chunks_exact_mut(k).zip(z.chunks_exact(k)) {
            for b in 0..k {
                s[b] = (0..k).map(|a| matrix[b * k + a] * z[a]).sum();
            }
        }
        let (data, weight) = (&model.data[rows.clone()], &model.weight[rows.clone()]);
        Self { model, group, t: &t[rows], data, weight, k, z, s, c: group.columns.len() }
    }

    pub(super) fn len(&self) -> usize {
        self.t.len()
    }

    /// Calls `visit(column, value)` for the kept effects of row i, columns as in the list of the group.
    #[inline]
    pub(super) fn kept(&self, i: usize, mut visit: impl FnMut(usize, f64)) {
        let layout = &self.model.layout;
        let (row, factors) = (self.group.rows.start + i, layout.factors.len() - 1);
        for (f, factor) in layout.factors[1..].iter().enumerate() {
            let first = self.model.local[row * factors + f] as usize;
            let z = &self.model.kept[row * layout.width + factor.first..][..factor.effects];
            z.iter().enumerate().for_each(|(e, z)| visit(first + e, *z));
        }
    }

    /// out += Σ_i a_i z_i z_iᵀ over the kept effects.
    pub(super) fn add_squares(&self, a: impl Fn(usize) -> f64, out: &mut [f64]) {
        let mut own: Vec<(usize, f64)> = Vec::new();
        for i in 0..self.len() {
            let a = a(i);
            own.clear();
            self.kept(i, |c, z| own.push((c, z)));
            for &(c, z) in &own {
                own.iter().for_each(|&(d, y)| out[c * self.c + d] += a * z * y);
            }
        }
    }

    /// z_iᵀ P z_i.
    pub(super) fn square(&self, i: usize, p: &[f64]) -> f64 {
        let mut own: Vec<(usize, f64)> = Vec::new();
        self.kept(i, |c, z| own.push((c, z)));
        let of = |&(c, z): &(usize, f64)| -> f64 {
            own.iter().map(|&(d, y)| p[c * self.c + d] * z * y).sum::<f64>()
        };
        own.iter().map(of).sum()
    }
}
