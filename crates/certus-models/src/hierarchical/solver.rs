//! The Laplace start and the exact solver on the pattern: Newton-CG with cost linear in the number of groups.

use certus::factor::{Factor, Pattern};
use certus::{Family, Gaussian};

use super::{At, Hierarchical, ON_PATTERN};
use crate::certificate::Certified;
use crate::error::{Error, InvalidModel, NotFinite, Unidentified};
use crate::laplace::{Laplace, check_start};
use crate::newton::{ExactState, Newton, dot, positive_step};

impl Hierarchical {
    /// The mode by damped Newton and the Gaussian with the inverse Hessian there.
    pub fn laplace(&self) -> Result<Gaussian, Error> {
        Ok(self.laplace_from(&vec![0.0; self.dim()])?.gaussian)
    }

    /// The same from a point of one's own, with how it was reached.
    pub fn laplace_from(&self, start: &[f64]) -> Result<Laplace, Error> {
        check_start(start, self.dim())?;
        let mut point = start.to_vec();
        let mut value = self.energy(At::point(&point))?;
        let (mut gradients, mut hessians, mut last) = (1, 0, f64::INFINITY);
        for iterations in 0..200 {
            let here = self.first_order(At::point(&point))?;
            (gradients, hessians) = (gradients + 1, hessians + 1);
            let (slope, hessian) = (here.mean, here.factor);
            drop(here.rows);
            let factor = self.inverse_hessian(hessian)?;
            let (mut half, mut step) = (vec![0.0; self.dim()], vec![0.0; self.dim()]);
            factor.add_apply_transpose(&slope, &mut half);
            factor.add_apply(&half, &mut step);
            let decrement = 0.5 * dot(&half, &half);
            last = decrement;
            let mut tau = 1.0;
            let mut moved = None;
            while decrement > 1e-20 * (1.0 + value.abs()) && tau > 1e-12 {
                let trial: Vec<f64> = point.iter().zip(&step).map(|(z, s)| z - tau * s).collect();
                if let Some(i) = trial.iter().position(|z| !z.is_finite()) {
                    return Err(NotFinite::Diverged { coordinate: i, value: trial[i] }.into());
                }
                let f = self.energy(At::point(&trial))?;
                gradients += 1;
                if f <= value - 2e-4 * tau * decrement + 1e-13 * value.abs() {
                    moved = Some((trial, f));
                    break;
                }
                tau *= 0.5;
            }
            let Some((next, f)) = moved else {
                let gaussian = Gaussian::new(point, factor)?;
                return Ok(Laplace { gaussian, iterations, decrement, gradients, hessians });
            };
            drop(factor);
            (point, value) = (next, f);
            if decrement < 1e-14 {
                break;
            }
        }
        let factor = self.inverse_hessian(self.first_order(At::point(&point))?.factor)?;
        let gaussian = Gaussian::new(point, factor)?;
        let iterations = hessians;
        Ok(Laplace {
            gaussian,
            iterations,
            decrement: last,
            gradients: gradients + 1,
            hessians: hessians + 1,
        })
    }

    /// The factor C with C Cᵀ = H⁻¹.
    fn inverse_hessian(&self, hessian: Vec<f64>) -> Result<Factor, Error> {
        self.forest.inverse_factor(hessian).ok_or_else(|| {
            let reason = Unidentified::Singular { what: "the Hessian of −log p" };
            Error::NotIdentified { reason, direction: Vec::new() }
        })
    }

    /// The state at a Gaussian on the pattern.
    pub fn exact_start(&self, start: &Gaussian) -> Result<ExactState, Error> {
        ExactState::starting(start.clone(), |w| self.neg_elbo(w))
    }

    /// One Newton-CG step with a line search on the exact f. With millions of latents every vector counts: the iterate
    /// is moved out of the state and back, and the gradient is kept once.
    pub fn exact_step(&self, state: &mut ExactState) -> Result<(), Error> {
        let gradient = self.whitened_gradient(&state.gaussian)?;
        let mut descent = gradient.mean;
        descent.reserve_exact(gradient.factor.len());
        descent.extend_from_slice(&gradient.factor);
        drop(gradient.factor);
        descent.iter_mut().for_each(|g| *g = -*g);
        // h adds its own curvature on the diagonal of the factor
        let mut curved = vec![false; descent.len()];
        self.forest.diagonal().for_each(|i| curved[self.dim() + i] = true);
        let standin = Gaussian::isotropic(vec![0.0], 1.0, &Family::Lower)?;
        let w = std::mem::replace(&mut state.gaussian, standin);
        let here = Here { model: self, w, rows: gradient.rows, descent, curved };
        let before = state.iterations;
        let result = state.advance(&here);
        if state.iterations == before {
            state.gaussian = here.w;
        }
        result
    }

    /// (m + τ C dm, C(I + τ dC)): patterns are closed under products.
    fn moved(&self, w: &Gaussian, x: &[f64], tau: f64) -> Result<Gaussian, Error> {
        let (dm, dc) = x.split_at(self.dim());
        let mut shift = vec![0.0; self.dim()];
        w.factor().add_apply(dm, &mut shift);
        let mean: Vec<f64> = w.mean().iter().zip(&shift).map(|(m, s)| m + tau * s).collect();
        let mut inner: Vec<f64> = dc.iter().map(|v| tau * v).collect();
        for i in self.forest.diagonal() {
            inner[i] += 1.0;
        }
        let inner = Factor::Pattern(Pattern::new(self.forest.tree.clone(), inner)?);
        let factor = w.factor().times(&inner).ok_or(InvalidModel::Factor { required: ON_PATTERN })?;
        Ok(Gaussian::new(mean, factor)?)
    }

    /// From the Laplace approximation to the optimum.
    pub fn solve_exactly(&self) -> Result<ExactState, Error> {
        self.exact_start(&self.laplace()?)?.run(|state| self.exact_step(state))
    }
}

/// A model at an iterate, for one step.
struct Here<'a> {
    model: &'a Hierarchical,
    w: Gaussian,
    rows: Vec<f64>,
    descent: Vec<f64>,
    /// The entries that h curves.
    curved: Vec<bool>,
}

impl Newton for Here<'_> {
    fn descent(&self) -> &[f64] {
        &self.descent
    }

    fn weight(&self, i: usize) -> f64 {
        if self.curved[i] { 0.5 } else { 1.0 }
    }

    fn hessian_times(&self, p: &[f64], out: &mut [f64]) -> Result<(), Error> {
        self.model.hessian_times(&self.w, &self.rows, p, out)
    }

    fn longest_step(&self, direction: &[f64]) -> f64 {
        let dc = &direction[self.model.dim()..];
        positive_step(self.model.forest.diagonal().map(|i| dc[i]).fold(0.0, f64::min))
    }

    fn at(&self) -> &Gaussian {
        &self.w
    }

    fn moved(&self, direction: &[f64], tau: f64) -> Result<Gaussian, Error> {
        self.model.moved(&self.w, direction, tau)
    }

    fn value(&self, w: &Gaussian) -> Result<f64, Error> {
        self.model.neg_elbo(w)
    }

    /// A hundredth of the proved bound on the error of f, whose allowances are hundreds of ulp.
    fn noise(&self) -> Result<f64, Error> {
        Ok(0.01 * self.model.exact_value(&self.w)?.error)
    }
}
