//! The Laplace start and the exact solver on the pattern: Newton-CG with cost linear in the number of groups.

use certus::Gaussian;
use certus::factor::{Factor, Pattern};
use certus::frame::Frame;

use super::Hierarchical;
use super::sums::dot;
use crate::error::Error;

/// The iterate of the exact solver on the pattern.
#[derive(Clone, Debug)]
pub struct TreeState {
    /// w, its factor on the pattern.
    pub gaussian: Gaussian,
    /// f(w), exact.
    pub neg_elbo: f64,
    /// About the gap at the iterate before the last step: ½(|g_m|² + Σ_{i≠j} S_ij² + ½Σ S_ii²).
    pub decrement: f64,
    /// Steps taken.
    pub iterations: usize,
    /// Hessian-vector products spent.
    pub products: usize,
    /// True once no step can improve f beyond rounding.
    pub done: bool,
}

impl Hierarchical {
    /// The mode by damped Newton and the Gaussian with the inverse Hessian there.
    pub fn laplace(&self) -> Result<Gaussian, Error> {
        let mut w = self.origin();
        let mut value = self.energy(&w, true)?;
        for _ in 0..200 {
            let here = self.first_order(&w, true)?;
            let factor = self.forest.inverse_factor(&here.factor).ok_or_else(|| {
                Error::NotIdentified(
                    "the Hessian is singular; give every global coefficient a proper prior".into(),
                )
            })?;
            let (mut half, mut step) = (vec![0.0; self.dim()], vec![0.0; self.dim()]);
            factor.add_apply_transpose(&here.mean, &mut half);
            factor.add_apply(&half, &mut step);
            let decrement = 0.5 * dot(&half, &half);
            let mut tau = 1.0;
            let mut moved = None;
            while decrement > 1e-20 * (1.0 + value.abs()) && tau > 1e-12 {
                let mean = w.mean().iter().zip(&step).map(|(z, s)| z - tau * s).collect();
                let trial = Gaussian::new(mean, factor.clone())?;
                let f = self.energy(&trial, true)?;
                if f <= value - 2e-4 * tau * decrement + 1e-13 * value.abs() {
                    moved = Some((trial, f));
                    break;
                }
                tau *= 0.5;
            }
            let Some((next, f)) = moved else { return Ok(Gaussian::new(w.mean().to_vec(), factor)?) };
            (w, value) = (next, f);
            if decrement < 1e-14 {
                let here = self.first_order(&w, true)?;
                if let Some(factor) = self.forest.inverse_factor(&here.factor) {
                    return Ok(Gaussian::new(w.mean().to_vec(), factor)?);
                }
            }
        }
        Ok(w)
    }

    /// The state at a Gaussian on the pattern.
    pub fn exact_start(&self, start: &Gaussian) -> Result<TreeState, Error> {
        let neg_elbo = self.neg_elbo(start)?;
        Ok(TreeState {
            gaussian: start.clone(),
            neg_elbo,
            decrement: f64::INFINITY,
            iterations: 0,
            products: 0,
            done: false,
        })
    }

    /// One Newton-CG step with a line search on the exact f.
    pub fn exact_step(&self, state: &mut TreeState) -> Result<(), Error> {
        let g = self.whitened_gradient(&state.gaussian)?;
        let weight = self.preconditioner();
        let right: Vec<f64> = g.mean.iter().chain(&g.factor).map(|v| -v).collect();
        let decrement = 0.5 * right.iter().zip(&weight).map(|(r, m)| r * r * m).sum::<f64>();
        let stalled = decrement >= 0.25 * state.decrement && decrement < 1e-12;
        state.decrement = decrement;
        // |g| ≤ 2√decrement: 6e-10 is as far as we go
        if decrement < 1e-19 || stalled {
            state.done = true;
            return Ok(());
        }
        // conjugate gradients, forced to min(.01, decrement)
        let mut x = vec![0.0; right.len()];
        let mut r = right.clone();
        let precondition = |r: &[f64]| -> Vec<f64> { r.iter().zip(&weight).map(|(r, m)| r * m).collect() };
        let mut z = precondition(&r);
        let mut p = z.clone();
        let mut rz = dot(&r, &z);
        let (start, mut hp) = (rz, vec![0.0; right.len()]);
        for _ in 0..200 {
            self.hessian_times(&state.gaussian, &g, &p, &mut hp);
            state.products += 1;
            let step = rz / dot(&p, &hp);
            for i in 0..x.len() {
                x[i] += step * p[i];
                r[i] -= step * hp[i];
            }
            z = precondition(&r);
            let next = dot(&r, &z);
            // enough for quadratic convergence, and never far beyond |g| = 3e-10
            if next < (start.min(0.01) * start).max(5e-20) {
                break;
            }
            let beta = next / rz;
            rz = next;
            p.iter_mut().zip(&z).for_each(|(p, z)| *p = z + beta * *p);
        }
        let slope = dot(&right, &x);
        let dc = &x[self.dim()..];
        let lowest = self.forest.diagonal().map(|i| dc[i]).fold(0.0, f64::min);
        let mut tau = if lowest > -0.9 { 1.0 } else { 0.9 / -lowest };
        while tau > 1e-10 {
            let trial = self.moved(&state.gaussian, &x, tau)?;
            let f = self.neg_elbo(&trial)?;
            if f <= state.neg_elbo - 1e-4 * tau * slope + 1e-13 * state.neg_elbo.abs() {
                (state.gaussian, state.neg_elbo) = (trial, f);
                state.iterations += 1;
                return Ok(());
            }
            tau *= 0.5;
        }
        state.done = true;
        Ok(())
    }

    /// 1 for the mean and off-diagonal entries, 1/2 on the diagonal, where h adds its own curvature.
    fn preconditioner(&self) -> Vec<f64> {
        let mut weight = vec![1.0; self.dim() + self.forest.tree.stored()];
        for i in self.forest.diagonal() {
            weight[self.dim() + i] = 0.5;
        }
        weight
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
    pub fn solve_exactly(&self) -> Result<TreeState, Error> {
        let mut state = self.exact_start(&self.laplace()?)?;
        while !state.done && state.iterations < 300 {
            self.exact_step(&mut state)?;
        }
        Ok(state)
    }
}
