//! One Newton-CG step on the exact ELBO, shared by dense and hierarchical models, and the state it moves.

use certus::Gaussian;
pub(crate) use certus::linalg::dot;

use crate::error::Error;

/// The iterate of an exact solver: plain data, so that it can be saved and gone on from.
#[derive(Clone, Debug)]
pub struct ExactState {
    /// w.
    pub gaussian: Gaussian,
    /// f(w), exact.
    pub neg_elbo: f64,
    /// ½ gᵀ diag(1, 2)⁻¹ g in the whitened frame, about the gap, at the iterate *before* the last step.
    pub decrement: f64,
    /// Steps taken.
    pub iterations: usize,
    /// Hessian-vector products spent.
    pub products: usize,
    /// Exact gradients and values of f spent.
    pub passes: usize,
    /// True once no step can improve f beyond rounding.
    pub done: bool,
}

/// A decrement above which, plus one per number, a narrower Gaussian is tried first.
const WIDE: f64 = 1e3;

/// What a step needs to know of a model at the iterate: all in the whitened frame, directions as one vector (mean, factor).
pub(crate) trait Newton {
    /// −g.
    fn descent(&self) -> &[f64];
    /// The inverse of the preconditioner's diagonal.
    fn weight(&self, i: usize) -> f64;
    /// out ← H p.
    fn hessian_times(&self, p: &[f64], out: &mut [f64]) -> Result<(), Error>;
    /// The largest τ ≤ 1 tried along `direction`, which keeps I + τ dC well inside the positive cone.
    fn longest_step(&self, direction: &[f64]) -> f64;
    /// w with half its factor, and f there.
    fn narrowed(&self) -> Result<(Gaussian, f64), Error>;
    /// w moved by τ along `direction`, and f there.
    fn trial(&self, direction: &[f64], tau: f64) -> Result<(Gaussian, f64), Error>;
}

impl ExactState {
    /// The state at a Gaussian.
    pub(crate) fn new(gaussian: Gaussian, neg_elbo: f64) -> Self {
        Self {
            gaussian,
            neg_elbo,
            decrement: f64::INFINITY,
            iterations: 0,
            products: 0,
            passes: 1,
            done: false,
        }
    }

    /// The state at a Gaussian, or, where f is not finite there (Poisson rates of e^{sd²/2}), at a narrower one with the same mean.
    pub(crate) fn starting(
        start: Gaussian,
        neg_elbo: impl Fn(&Gaussian) -> Result<f64, Error>,
    ) -> Result<Self, Error> {
        let (mut gaussian, mut tries) = (start, 0);
        loop {
            match neg_elbo(&gaussian) {
                Ok(f) if f.is_finite() => return Ok(Self { passes: 1 + tries, ..Self::new(gaussian, f) }),
                Err(Error::NotFinite(_)) | Ok(_) if tries < 60 => {
                    let halved = gaussian.factor().clone().scaled(0.5);
                    gaussian = Gaussian::new(gaussian.mean().to_vec(), halved)?;
                    tries += 1;
                }
                Err(error) => return Err(error),
                Ok(f) => return Err(Error::NotFinite(format!("the negative ELBO is {f} at the start"))),
            }
        }
    }

    /// Steps until there is nothing left to gain.
    pub(crate) fn run(mut self, step: impl Fn(&mut Self) -> Result<(), Error>) -> Result<Self, Error> {
        while !self.done && self.iterations < 300 {
            step(&mut self)?;
        }
        Ok(self)
    }

    /// One Newton-CG step with a line search on the exact f; marks the state as done where there is nothing left to gain.
    pub(crate) fn advance(&mut self, here: &impl Newton) -> Result<(), Error> {
        let right = here.descent();
        self.passes += 1;
        let decrement = 0.5 * right.iter().enumerate().map(|(i, r)| r * r * here.weight(i)).sum::<f64>();
        let stalled = decrement >= 0.25 * self.decrement && decrement < 1e-12;
        self.decrement = decrement;
        // |g| ≤ 2√decrement: 6e-10 is as far as we go
        if decrement < 1e-19 || stalled {
            self.done = true;
            return Ok(());
        }
        // far too wide (Poisson rates of e^{sd²/2}): a Newton step would shrink the factor by little at a time
        if decrement.is_nan() || decrement > WIDE + right.len() as f64 {
            let (gaussian, f) = here.narrowed()?;
            self.passes += 1;
            if f < self.neg_elbo {
                (self.gaussian, self.neg_elbo) = (gaussian, f);
                self.iterations += 1;
                return Ok(());
            }
        }
        let direction = self.conjugate_gradients(here)?;
        let slope = dot(right, &direction);
        let mut tau = here.longest_step(&direction);
        while tau > 1e-10 {
            let (gaussian, f) = here.trial(&direction, tau)?;
            self.passes += 1;
            if f <= self.neg_elbo - 1e-4 * tau * slope + 1e-13 * self.neg_elbo.abs() {
                (self.gaussian, self.neg_elbo) = (gaussian, f);
                self.iterations += 1;
                return Ok(());
            }
            tau *= 0.5;
        }
        self.done = true;
        Ok(())
    }

    /// H x = −g, preconditioned, forced to min(.01, decrement).
    fn conjugate_gradients(&mut self, here: &impl Newton) -> Result<Vec<f64>, Error> {
        let mut r = here.descent().to_vec();
        let precondition =
            |r: &[f64]| -> Vec<f64> { r.iter().enumerate().map(|(i, v)| here.weight(i) * v).collect() };
        let (mut x, mut hp) = (vec![0.0; r.len()], vec![0.0; r.len()]);
        let mut p = precondition(&r);
        let mut rz = dot(&r, &p);
        let first = rz;
        for _ in 0..200 {
            here.hessian_times(&p, &mut hp)?;
            self.products += 1;
            let step = rz / dot(&p, &hp);
            for i in 0..x.len() {
                x[i] += step * p[i];
                r[i] -= step * hp[i];
            }
            let z = precondition(&r);
            let next = dot(&r, &z);
            // enough for quadratic convergence, and never far beyond |g| = 3e-10
            if next < (first.min(0.01) * first).max(5e-20) {
                break;
            }
            let beta = next / rz;
            rz = next;
            p.iter_mut().zip(&z).for_each(|(p, z)| *p = z + beta * *p);
        }
        Ok(x)
    }
}
