//! The conditional mode of the kept effects at given parameters, and the Gaussian around it.
//!
//! Effects are b = Λv with v ~ N(0, I), so that a standard deviation of 0 needs no special case. F(v) = Σ_g f_g +
//! |v|²/2 is convex (Prékopa for integrals); H = ∇²F = I + ΛᵀKΛ = LLᵀ is block diagonal by components. The criterion is
//! F(v̂) + ½ log|H| (+ ½ log det of what groups integrate out by Gaussians): −log L by Laplace (docs/mixed.md, X0, X1).

use certus::{linalg, parallel};

use super::error::Error;
use super::group::{Curvature, GroupView};
use super::inner::Inner;
use super::model::{Component, CrossedModel};

/// Newton steps to the mode, at most.
const STEPS: usize = 200;
/// Numbers of groups' Hessians that are held at a time.
const NUMBERS: usize = 1 << 22;

/// The mode at given parameters.
pub(super) struct Conditional<'a> {
    pub(super) model: &'a CrossedModel,
    pub(super) inner: Inner,
    pub(super) parameters: Vec<f64>,
    /// T of every factor.
    pub(super) matrices: Vec<Vec<f64>>,
    /// v̂, by columns of the kept factors.
    pub(super) v: Vec<f64>,
    /// Predictors of all rows there.
    pub(super) t: Vec<f64>,
    /// f′ of all rows.
    pub(super) first: Vec<f64>,
    pub(super) parts: Vec<Part>,
    /// −log L, approximately, less the logarithm of the prior of β.
    pub(super) value: f64,
}

/// What belongs to one component.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    /// F(v̂).
    pub(super) value: f64,
    /// ½ log det of what groups integrate out by Gaussians.
    pub(super) half_log_det: f64,
    /// K, d × d.
    pub(super) curvature: Vec<f64>,
    /// L.
    pub(super) factor: Vec<f64>,
    /// ∇F.
    gradient: Vec<f64>,
}

impl Part {
    /// log L of the component, approximately.
    pub(super) fn log_likelihood(&self) -> f64 {
        -self.value - self.half_log_det - self.half_log_h()
    }

    /// ½ log|H|.
    pub(super) fn half_log_h(&self) -> f64 {
        let d = self.gradient.len();
        (0..d).map(|j| self.factor[j * (d + 1)].ln()).sum()
    }
}

impl<'a> Conditional<'a> {
    /// The mode, from `start` (columns of the kept factors) or from 0.
    pub(super) fn new(
        model: &'a CrossedModel,
        inner: Inner,
        parameters: &[f64],
        start: Option<&[f64]>,
    ) -> Result<Self, Error> {
        let matrices = model.layout.matrices(parameters);
        let v = start.map_or_else(|| vec![0.0; model.layout.columns], <[f64]>::to_vec);
        let mut at = Self {
            model,
            inner,
            parameters: parameters.to_vec(),
            matrices,
            v,
            t: Vec::new(),
            first: Vec::new(),
            parts: Vec::new(),
            value: f64::NAN,
        };
        at.find()?;
        at.value = model.penalty(&parameters[..model.layout.fixed]).0 - at.log_likelihood();
        if at.value.is_finite() { Ok(at) } else { Err(Error::NotFinite { sds: at.sds() }) }
    }

    /// log L, approximately.
    pub(super) fn log_likelihood(&self) -> f64 {
        self.parts.iter().map(Part::log_likelihood).sum()
    }

    fn sds(&self) -> Vec<f64> {
        self.model.layout.sds(&self.parameters)
    }

    /// Newton's method, every component with its own step length.
    fn find(&mut self) -> Result<(), Error> {
        let model = self.model;
        let base = model.fixed_predictors(&self.parameters[..model.layout.fixed]);
        let mut steps: Vec<Step> = model.components.iter().map(|_| Step::default()).collect();
        for _ in 0..STEPS {
            model.check_stop()?;
            self.pass(&base)?;
            let mut done = true;
            for ((component, part), step) in model.components.iter().zip(&mut self.parts).zip(&mut steps) {
                done &= step.advance(component, part, &mut self.v);
            }
            if done {
                return Ok(());
            }
        }
        Err(Error::NoMode { iterations: STEPS, sds: self.sds() })
    }

    /// F, its gradient and its Hessian at v.
    fn pass(&mut self, base: &[f64]) -> Result<(), Error> {
        let model = self.model;
        let b = model.effects(&self.matrices, &self.v);
        self.t = base.iter().enumerate().map(|(i, t)| t + model.kept_predictor(i, &b)).collect();
        self.first = vec![0.0; model.rows()];
        self.parts = model.components.iter().map(|c| Part::new(c, &self.v)).collect();
        let mut from = 0;
        while from < model.groups.len() {
            let mut numbers = 0;
            let more = model.groups[from..].iter().take_while(|g| {
                numbers += g.columns.len().pow(2) + 64;
                numbers <= NUMBERS
            });
            let count = more.count().max(1);
            let mut found = vec![Curvature::default(); count];
            let grain = (256 / (1 + model.rows() / model.groups.len())).max(1);
            parallel::for_each_piece(&mut found, 1, grain, &|i, out| {
                let view = GroupView::new(model, from + i, &self.t, &self.matrices[0]);
                out[0] = self.inner.curvature(&view);
            });
            for (group, of) in model.groups[from..].iter().zip(found) {
                let part = &mut self.parts[group.component];
                let d = part.gradient.len();
                part.value += of.value;
                part.half_log_det += of.half_log_det;
                self.first[group.rows.clone()].copy_from_slice(&of.first);
                for (row, &i) in of.matrix.chunks_exact(group.columns.len().max(1)).zip(&group.columns) {
                    let out = &mut part.curvature[i as usize * d..][..d];
                    row.iter().zip(&group.columns).for_each(|(k, &j)| out[j as usize] += k);
                }
            }
            from += count;
        }
        let slope = self.model.scatter(&self.matrices, &self.first);
        for (component, part) in model.components.iter().zip(&mut self.parts) {
            part.finish(model, component, &self.matrices, &slope);
        }
        Ok(())
    }
}

impl Part {
    fn new(component: &Component, v: &[f64]) -> Self {
        let d = component.columns.len();
        let gradient: Vec<f64> = component.columns.iter().map(|&c| v[c]).collect();
        let value = 0.5 * gradient.iter().map(|v| v * v).sum::<f64>();
        Self { value, half_log_det: 0.0, curvature: vec![0.0; d * d], factor: Vec::new(), gradient }
    }

    /// The gradient and the Cholesky factor of H = I + ΛᵀKΛ.
    fn finish(&mut self, model: &CrossedModel, component: &Component, matrices: &[Vec<f64>], slope: &[f64]) {
        let d = self.gradient.len();
        for (g, &c) in self.gradient.iter_mut().zip(&component.columns) {
            *g += slope[c];
        }
        let mut h = self.curvature.clone();
        times_effects(model, component, matrices, &mut h, false);
        transpose(&mut h, d);
        times_effects(model, component, matrices, &mut h, false);
        (0..d).for_each(|j| h[j * (d + 1)] += 1.0);
        if d > 0 && !linalg::cholesky(&mut h, d) {
            self.value = f64::NAN;
        }
        self.factor = h;
    }

    /// x ← H⁻¹x.
    pub(super) fn solve(&self, x: &mut [f64]) {
        let d = self.gradient.len();
        if d > 0 {
            linalg::solve_lower(&self.factor, d, false, x);
            linalg::solve_lower(&self.factor, d, true, x);
        }
    }

    /// H⁻¹.
    pub(super) fn inverse(&self) -> Vec<f64> {
        let d = self.gradient.len();
        if d == 0 { Vec::new() } else { linalg::inverse_of_factor(&self.factor, d) }
    }
}

fn transpose(a: &mut [f64], d: usize) {
    for j in 0..d {
        for i in 0..j {
            a.swap(j * d + i, i * d + j);
        }
    }
}

/// Every column x of a (d × d): x ← Λᵀx, or Λx if `forward`.
pub(super) fn times_effects(
    model: &CrossedModel,
    component: &Component,
    matrices: &[Vec<f64>],
    a: &mut [f64],
    forward: bool,
) {
    let d = component.columns.len();
    for x in a.chunks_exact_mut(d.max(1)) {
        for (&(f, _), &start) in component.blocks.iter().zip(&component.starts) {
            let (t, k) = (&matrices[f], model.layout.factors[f].effects);
            let x = &mut x[start..start + k];
            let mut old = [0.0; 8];
            let mut long = Vec::new();
            let old = if k <= 8 {
                old[..k].copy_from_slice(x);
                &old[..k]
            } else {
                long.extend_from_slice(x);
                &long[..]
            };
            for i in 0..k {
                let at = |j: usize| if forward { t[j * k + i] } else { t[i * k + j] };
                x[i] = (0..k).map(|j| at(j) * old[j]).sum();
            }
        }
    }
}

impl CrossedModel {
    /// ΛᵀZᵀa over the kept factors.
    pub(super) fn scatter(&self, matrices: &[Vec<f64>], a: &[f64]) -> Vec<f64> {
        let factors = self.layout.factors.len() - 1;
        let mut raw = vec![0.0; self.layout.columns];
        for (i, a) in a.iter().enumerate() {
            for (f, factor) in self.layout.factors[1..].iter().enumerate() {
                let first = self.place[i * factors + f] as usize;
                let z = &self.kept[i * self.layout.width + factor.first..][..factor.effects];
                z.iter().enumerate().for_each(|(e, z)| raw[first + e] += a * z);
            }
        }
        for (factor, t) in self.layout.factors.iter().zip(matrices).skip(1) {
            let k = factor.effects;
            for x in raw[factor.start..factor.start + factor.levels * k].chunks_exact_mut(k) {
                let old = x.to_vec();
                for i in 0..k {
                    x[i] = (0..k).map(|j| t[i * k + j] * old[j]).sum();
                }
            }
        }
        raw
    }
}

/// Where Newton's method is in one component.
#[derive(Default)]
struct Step {
    from: Vec<f64>,
    before: f64,
    direction: Vec<f64>,
    decrement: f64,
    part: f64,
    done: bool,
    /// Moves made: with none, v is the mode and nothing changes any more.
    moves: usize,
}

impl Step {
    /// One more point: accepted, with the next step; or the last step halved. True at the end.
    fn advance(&mut self, component: &Component, part: &Part, v: &mut [f64]) -> bool {
        if self.done || component.columns.is_empty() {
            return true;
        }
        let slack = 1e-11 * (1.0 + part.value.abs());
        let enough = self.before - 1e-4 * self.part * self.decrement + slack;
        let risen = self.moves > 0 && (part.value.is_nan() || part.value > enough);
        if risen && self.part > 1e-12 {
            self.part *= 0.5;
            for ((&c, from), x) in component.columns.iter().zip(&self.from).zip(&self.direction) {
                v[c] = from - self.part * x;
            }
            return false;
        }
        let mut direction = part.gradient.clone();
        part.solve(&mut direction);
        let decrement = linalg::dot(&direction, &part.gradient);
        let stalled = self.moves > 0 && decrement < 1e-12 && decrement >= 0.25 * self.decrement;
        if decrement < 1e-18 || stalled || decrement.is_nan() {
            self.done = true;
            return true;
        }
        self.from = component.columns.iter().map(|&c| v[c]).collect();
        (self.before, self.decrement, self.direction, self.part) = (part.value, decrement, direction, 1.0);
        for ((&c, from), x) in component.columns.iter().zip(&self.from).zip(&self.direction) {
            v[c] = from - x;
        }
        self.moves += 1;
        false
    }
}
