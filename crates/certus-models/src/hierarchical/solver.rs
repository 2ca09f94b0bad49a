//! The Laplace start and the exact solver on the pattern: Newton-CG with cost linear in the number of groups.

use certus::Gaussian;
use certus::factor::{Factor, Pattern};
use certus::frame::Frame;

use super::Hierarchical;
use super::sums::Whitened;
use crate::error::Error;
use crate::laplace::{Laplace, check_start};
use crate::newton::{ExactState, Newton, dot};

impl Hierarchical {
    /// The mode by damped Newton and the Gaussian with the inverse Hessian there.
    pub fn laplace(&self) -> Result<Gaussian, Error> {
        Ok(self.laplace_from(&vec![0.0; self.dim()])?.gaussian)
    }

    /// The same from a point of one's own, with how it was reached.
    pub fn laplace_from(&self, start: &[f64]) -> Result<Laplace, Error> {
        check_start(start, self.dim())?;
        let mut w = Gaussian::new(start.to_vec(), self.origin().factor().clone())?;
        let mut value = self.energy(&w, true)?;
        let (mut gradients, mut hessians, mut last) = (1, 0, f64::INFINITY);
        for iterations in 0..200 {
            let here = self.first_order(&w, true)?;
            (gradients, hessians) = (gradients + 1, hessians + 1);
            let factor = self.forest.inverse_factor(&here.factor).ok_or_else(|| {
                let reason = "the Hessian is singular; give every global coefficient a proper prior".into();
                Error::NotIdentified { reason, direction: Vec::new() }
            })?;
            let (mut half, mut step) = (vec![0.0; self.dim()], vec![0.0; self.dim()]);
            factor.add_apply_transpose(&here.mean, &mut half);
            factor.add_apply(&half, &mut step);
            let decrement = 0.5 * dot(&half, &half);
            last = decrement;
            let mut tau = 1.0;
            let mut moved = None;
            while decrement > 1e-20 * (1.0 + value.abs()) && tau > 1e-12 {
                let mean = w.mean().iter().zip(&step).map(|(z, s)| z - tau * s).collect();
                let trial = Gaussian::new(mean, factor.clone())?;
                let f = self.energy(&trial, true)?;
                gradients += 1;
                if f <= value - 2e-4 * tau * decrement + 1e-13 * value.abs() {
                    moved = Some((trial, f));
                    break;
                }
                tau *= 0.5;
            }
            let Some((next, f)) = moved else {
                let gaussian = Gaussian::new(w.mean().to_vec(), factor)?;
                return Ok(Laplace { gaussian, iterations, decrement, gradients, hessians });
            };
            (w, value) = (next, f);
            if decrement < 1e-14 {
                let here = self.first_order(&w, true)?;
                (gradients, hessians) = (gradients + 1, hessians + 1);
                if let Some(factor) = self.forest.inverse_factor(&here.factor) {
                    let gaussian = Gaussian::new(w.mean().to_vec(), factor)?;
                    return Ok(Laplace {
                        gaussian,
                        iterations: iterations + 1,
                        decrement,
                        gradients,
                        hessians,
                    });
                }
            }
        }
        Ok(Laplace { gaussian: w, iterations: 200, decrement: last, gradients, hessians })
    }

    /// The state at a Gaussian on the pattern.
    pub fn exact_start(&self, start: &Gaussian) -> Result<ExactState, Error> {
        ExactState::starting(start.clone(), |w| self.neg_elbo(w))
    }

    /// One Newton-CG step with a line search on the exact f.
    pub fn exact_step(&self, state: &mut ExactState) -> Result<(), Error> {
        let w = state.gaussian.clone();
        let gradient = self.whitened_gradient(&w)?;
        let descent = gradient.mean.iter().chain(&gradient.factor).map(|v| -v).collect();
        // h adds its own curvature on the diagonal of the factor
        let mut weight = vec![1.0; self.dim() + self.forest.tree.stored()];
        self.forest.diagonal().for_each(|i| weight[self.dim() + i] = 0.5);
        state.advance(&Here { model: self, w, gradient, descent, weight })
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
        let turned = Gaussian::new(vec![0.0; self.dim()], inner)?;
        let frame = Frame::new(mean, w.factor().clone())?;
        Ok(frame.to_original(&turned)?)
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
    gradient: Whitened,
    descent: Vec<f64>,
    weight: Vec<f64>,
}

impl Newton for Here<'_> {
    fn descent(&self) -> &[f64] {
        &self.descent
    }

    fn weight(&self, i: usize) -> f64 {
        self.weight[i]
    }

    fn hessian_times(&self, p: &[f64], out: &mut [f64]) -> Result<(), Error> {
        self.model.hessian_times(&self.w, &self.gradient, p, out)
    }

    /// A triangular I + τ dC is positive where its diagonal is: it stays above 0.1.
    fn longest_step(&self, direction: &[f64]) -> f64 {
        let dc = &direction[self.model.dim()..];
        let lowest = self.model.forest.diagonal().map(|i| dc[i]).fold(0.0, f64::min);
        if lowest > -0.9 { 1.0 } else { 0.9 / -lowest }
    }

    fn narrowed(&self) -> Result<(Gaussian, f64), Error> {
        let narrow = Gaussian::new(self.w.mean().to_vec(), self.w.factor().clone().scaled(0.5))?;
        let f = self.model.neg_elbo(&narrow)?;
        Ok((narrow, f))
    }

    fn trial(&self, direction: &[f64], tau: f64) -> Result<(Gaussian, f64), Error> {
        let trial = self.model.moved(&self.w, direction, tau)?;
        let f = self.model.neg_elbo(&trial)?;
        Ok((trial, f))
    }
}
