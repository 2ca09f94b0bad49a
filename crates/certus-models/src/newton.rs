//! One Newton-CG step on the exact ELBO, shared by dense and hierarchical models, and the state it moves.

use certus::linalg::dot as dot_in_sequence;
use certus::{Gaussian, parallel};

use crate::error::{Error, NotFinite};

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

/// Most steps. Newton's method takes tens; what has not arrived by then moves within rounding.
const MOST: usize = 300;

/// What rounding does to f, in units of the sum of the sizes of the rows' losses: some ulp.
pub(crate) const NOISE: f64 = 4.0 * f64::EPSILON;

/// Numbers of a long vector that are handled in sequence.
const PIECE: usize = 1 << 16;

/// aᵀb, the pieces of long vectors in the fixed tree.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    if a.len() <= PIECE {
        return dot_in_sequence(a, b);
    }
    let leaf = |k: usize| {
        let range = k * PIECE..((k + 1) * PIECE).min(a.len());
        dot_in_sequence(&a[range.clone()], &b[range])
    };
    parallel::reduce(a.len().div_ceil(PIECE), 1, &leaf, &|x, y| x + y).unwrap_or(0.0)
}

/// Σ `work(first, a, b)` over pieces of two vectors, in the fixed tree.
fn sweep(
    first: usize,
    a: &mut [f64],
    b: &mut [f64],
    work: &(impl Fn(usize, &mut [f64], &mut [f64]) -> f64 + Sync),
) -> f64 {
    let pieces = a.len().div_ceil(PIECE);
    if pieces <= 1 {
        return work(first, a, b);
    }
    let middle = PIECE * (pieces.next_power_of_two() / 2);
    let ((a, after_a), (b, after_b)) = (a.split_at_mut(middle), b.split_at_mut(middle));
    let (left, right) =
        parallel::join(|| sweep(first, a, b, work), || sweep(first + middle, after_a, after_b, work));
    left + right
}

/// What a step needs to know of a model at the iterate: all in the whitened frame, directions as one vector (mean,
/// factor).
pub(crate) trait Newton: Sync {
    /// −g.
    fn descent(&self) -> &[f64];
    /// The inverse of the preconditioner's diagonal.
    fn weight(&self, i: usize) -> f64;
    /// out ← H p.
    fn hessian_times(&self, p: &[f64], out: &mut [f64]) -> Result<(), Error>;
    /// The largest τ ≤ 1 tried along `direction`, which keeps I + τ dC well inside the positive cone.
    fn longest_step(&self, direction: &[f64]) -> f64;
    /// w.
    fn at(&self) -> &Gaussian;
    /// w moved by τ along `direction`.
    fn moved(&self, direction: &[f64], tau: f64) -> Result<Gaussian, Error>;
    /// f(w).
    fn value(&self, w: &Gaussian) -> Result<f64, Error>;
    /// About what rounding does to f here. Where losses are large and cancel (counts of 10¹³) that is far more than
    /// some ulp of f.
    fn noise(&self) -> Result<f64, Error>;
}

/// w with half its factor.
fn narrowed(w: &Gaussian) -> Result<Gaussian, Error> {
    Ok(Gaussian::new(w.mean().to_vec(), w.factor().clone().scaled(0.5))?)
}

/// The largest τ ≤ 1 with 1 + τ·`lowest` ≥ 0.1: a triangular I + τ dC is positive where its diagonal is.
pub(crate) fn positive_step(lowest: f64) -> f64 {
    if lowest > -0.9 { 1.0 } else { 0.9 / -lowest }
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

    /// The state at a Gaussian, or, where f is not finite there (Poisson rates of e^{sd²/2}), at a narrower one with
    /// the same mean.
    pub(crate) fn starting(
        start: Gaussian,
        neg_elbo: impl Fn(&Gaussian) -> Result<f64, Error>,
    ) -> Result<Self, Error> {
        let (mut gaussian, mut tries) = (start, 0);
        loop {
            match neg_elbo(&gaussian) {
                Ok(f) if f.is_finite() => return Ok(Self { passes: 1 + tries, ..Self::new(gaussian, f) }),
                Err(Error::NotFinite(_)) | Ok(_) if tries < 60 => {
                    gaussian = narrowed(&gaussian)?;
                    tries += 1;
                }
                Err(error) => return Err(error),
                Ok(value) => {
                    let (what, place) = ("the negative ELBO", "the start".into());
                    return Err(NotFinite::Value { what, value, place }.into());
                }
            }
        }
    }

    /// Steps until there is nothing left to gain.
    pub(crate) fn run(mut self, step: impl Fn(&mut Self) -> Result<(), Error>) -> Result<Self, Error> {
        while !self.done && self.iterations < MOST {
            step(&mut self)?;
        }
        Ok(self)
    }

    /// One Newton-CG step with a line search on the exact f; marks the state as done where there is nothing left to
    /// gain.
    pub(crate) fn advance(&mut self, here: &impl Newton) -> Result<(), Error> {
        let right = here.descent();
        self.passes += 1;
        let leaf = |k: usize| {
            let part = right.iter().enumerate().skip(k * PIECE).take(PIECE);
            part.map(|(i, r)| r * r * here.weight(i)).sum::<f64>()
        };
        let pieces = right.len().div_ceil(PIECE);
        let decrement = 0.5 * parallel::reduce(pieces, 1, &leaf, &|a, b| a + b).unwrap_or(0.0);
        // a step whose gain rounding hides is worth another one only if it shortened the gradient
        let stalled =
            decrement >= 0.25 * self.decrement && (decrement < 1e-12 || self.decrement <= here.noise()?);
        self.decrement = decrement;
        // |g| ≤ 2√decrement: 6e-10 is as far as we go
        if decrement < 1e-19 || stalled || self.iterations >= MOST {
            self.done = true;
            return Ok(());
        }
        // far too wide (Poisson rates of e^{sd²/2}): a Newton step would shrink the factor by little at a time
        if decrement.is_nan() || decrement > WIDE + right.len() as f64 {
            let gaussian = narrowed(here.at())?;
            let f = here.value(&gaussian)?;
            self.passes += 1;
            if f < self.neg_elbo {
                (self.gaussian, self.neg_elbo) = (gaussian, f);
                self.iterations += 1;
                return Ok(());
            }
        }
        let direction = self.conjugate_gradients(here)?;
        let slope = dot(right, &direction);
        let longest = here.longest_step(&direction);
        let (mut tau, mut noise) = (longest, None);
        while tau > 1e-10 {
            let gaussian = here.moved(&direction, tau)?;
            let f = here.value(&gaussian)?;
            self.passes += 1;
            let mut enough = f <= self.neg_elbo - 1e-4 * tau * slope + 1e-13 * self.neg_elbo.abs();
            let mut hidden = false;
            if !enough {
                let noise = match noise {
                    Some(noise) => noise,
                    None => *noise.insert(here.noise()?),
                };
                // nothing can be read off f any more: a whole step is taken, and the gradient there decides
                hidden = tau * slope <= noise;
                enough = hidden && tau == longest && f <= self.neg_elbo + noise;
            }
            if enough {
                (self.gaussian, self.neg_elbo) = (gaussian, f);
                self.iterations += 1;
                return Ok(());
            }
            if hidden {
                break;
            }
            tau *= 0.5;
        }
        self.done = true;
        Ok(())
    }

    /// H x = −g, preconditioned, forced to min(.01, decrement). Four vectors are kept: x, r, p and H p.
    fn conjugate_gradients(&mut self, here: &impl Newton) -> Result<Vec<f64>, Error> {
        let mut r = here.descent().to_vec();
        let (mut x, mut hp, mut p) = (vec![0.0; r.len()], vec![0.0; r.len()], vec![0.0; r.len()]);
        // p ← z + βp with z = the preconditioned r; the first time β = 0
        let update_direction = |p: &mut [f64], r: &[f64], beta: f64| {
            parallel::for_each_piece(p, PIECE, 1, &|k, p| {
                for (i, (p, r)) in p.iter_mut().zip(&r[k * PIECE..]).enumerate() {
                    *p = here.weight(k * PIECE + i) * r + beta * *p;
                }
            });
        };
        update_direction(&mut p, &r, 0.0);
        let mut rz = dot(&r, &p);
        let first = rz;
        for _ in 0..200 {
            here.hessian_times(&p, &mut hp)?;
            self.products += 1;
            let step = rz / dot(&p, &hp);
            let next = sweep(0, &mut x, &mut r, &|first, x, r| {
                let mut sum = 0.0;
                for i in 0..x.len() {
                    x[i] += step * p[first + i];
                    r[i] -= step * hp[first + i];
                    sum += here.weight(first + i) * r[i] * r[i];
                }
                sum
            });
            // enough for quadratic convergence, and never far beyond |g| = 3e-10
            if next < (first.min(0.01) * first).max(5e-20) {
                break;
            }
            update_direction(&mut p, &r, next / rz);
            rz = next;
        }
        Ok(x)
    }
}
