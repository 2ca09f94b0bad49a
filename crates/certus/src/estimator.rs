//! Gradient estimators at w = (m, C) from B draws z = m + C u: energy, entropy, sticking the landing, control variate.
//!
//! With π = −∇ log p(z) the average of B draws of
//!
//! | estimator | of | mean part | factor part |
//! |---|---|---|---|
//! | energy | ∇l | π | proj_V(π uᵀ) |
//! | entropy | ∇f | π | proj_V(π uᵀ) − proj_V(C⁻ᵀ) |
//! | sticking the landing | ∇f | π − C⁻ᵀu | proj_V((π − C⁻ᵀu) uᵀ) |
//! | control variate (B6) | ∇l | v + s(m − m₀) | proj_V(v uᵀ) + s C, with v = π − s(z − m₀) |
//!
//! is unbiased. The factor part has rank B, so it is kept as the two `d × B` batches it is the product of and never
//! formed: a step costs one rank-B update of C.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, same_length};
use crate::factor::Workspace;
use crate::gaussian::Gaussian;
use crate::linalg;
use crate::parallel;
use crate::random::Random;
use crate::target::Target;

/// Which unbiased estimate of the gradient.
#[derive(Clone, Debug, PartialEq)]
pub enum Estimator {
    /// Of ∇l only; the entropy is left to the prox.
    Energy,
    /// Energy plus the exact ∇h.
    Entropy,
    /// ∇h estimated with the same draw, so that the noise vanishes at the optimum of a Gaussian target.
    StickingTheLanding,
    /// Energy of −log p minus a quadratic, plus the quadratic's exact gradient.
    ControlVariate(Quadratic),
}

/// The quadratic (s/2)|z − m₀|² of the control variate. In a whitening [`Frame`](crate::frame) s = 1 fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Quadratic {
    /// m₀.
    pub center: Vec<f64>,
    /// s.
    pub precision: f64,
}

/// How many draws a gradient averages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// B independent draws.
    pub batch: usize,
    /// Use every draw u together with −u. The second moment of a pair is at most that of one draw (Jensen), so every
    /// bound holds with B = number of pairs.
    pub antithetic: bool,
}

impl Sampling {
    /// Points at which the target is evaluated.
    pub fn points(&self) -> usize {
        self.batch * if self.antithetic { 2 } else { 1 }
    }
}

/// One averaged gradient estimate, with the memory that making the next one needs.
pub struct Gradient {
    dim: usize,
    sampling: Sampling,
    u: Vec<f64>,
    points: Vec<f64>,
    log_densities: Vec<f64>,
    residual: Vec<f64>,
    solved: Vec<f64>,
    drift: Drift,
}

/// The part of the gradient that does not depend on the draws.
enum Drift {
    None,
    NegEntropy,
    Quadratic(Quadratic),
}

impl Gradient {
    /// Memory for gradients in dimension `dim`.
    pub fn new(dim: usize, sampling: Sampling) -> Self {
        let batch = || vec![0.0; dim * sampling.points()];
        let log_densities = vec![0.0; sampling.points()];
        let (u, points, residual) = (batch(), batch(), batch());
        Self { dim, sampling, u, points, log_densities, residual, solved: Vec::new(), drift: Drift::None }
    }

    /// u ~ N(0, I) for every sample of this iteration.
    pub fn draw(&mut self, random: &Random, iteration: u64) {
        let (positive, negative) = self.u.split_at_mut(self.dim * self.sampling.batch);
        random.normals(iteration, 0, self.dim, positive);
        for (n, p) in negative.iter_mut().zip(positive) {
            *n = -*p;
        }
    }

    /// Sets the draws by hand (`d × points`); for tests and experiments.
    pub fn set_draws(&mut self, u: &[f64]) {
        self.u.copy_from_slice(u);
    }

    /// The points at which the target was evaluated, and their log densities.
    pub fn evaluations(&self) -> (&[f64], &[f64]) {
        (&self.points, &self.log_densities)
    }

    /// Average of −log p over the draws: an unbiased estimate of the energy l(w).
    pub fn energy(&self) -> f64 {
        -self.log_densities.iter().sum::<f64>() / self.log_densities.len() as f64
    }

    /// w ← w − γ g. False if C is not positive definite where its inverse is needed.
    pub fn descend(&self, w: &mut Gaussian, step_size: f64, workspace: &mut Workspace) -> bool {
        self.descend_then(w, step_size, workspace, &|x| x)
    }

    /// The same, and then C_ii ← map(C_ii) on triangular factors.
    pub(crate) fn descend_then(
        &self,
        w: &mut Gaussian,
        step_size: f64,
        workspace: &mut Workspace,
        map: &(impl Fn(f64) -> f64 + Sync),
    ) -> bool {
        let scale = step_size / self.sampling.points() as f64;
        let (mean, factor) = w.parts_mut();
        match &self.drift {
            Drift::None => {}
            Drift::NegEntropy => {
                if !factor.add_inverse_transpose(step_size, workspace) {
                    return false;
                }
            }
            Drift::Quadratic(q) => {
                let pull = step_size * q.precision;
                mean.iter_mut().zip(&q.center).for_each(|(m, c)| *m -= pull * (*m - c));
                factor.scale(1.0 - pull);
            }
        }
        linalg::add_columns(mean, -scale, &self.residual);
        factor.add_outer_then(-scale, &self.residual, &self.u, map);
        true
    }

    /// g itself at `w`: the mean part and the entries of the factor part, as [`Factor::values`](crate::Factor::values)
    /// orders them. For tests and diagnostics; a step never forms it.
    pub fn explicit(&self, w: &Gaussian, workspace: &mut Workspace) -> (Vec<f64>, Vec<f64>) {
        let mut moved = w.clone();
        self.descend(&mut moved, 1.0, workspace);
        let difference = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x - y).collect();
        (difference(w.mean(), moved.mean()), difference(w.factor().values(), moved.factor().values()))
    }
}

impl Estimator {
    /// A short name for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Estimator::Energy => "energy",
            Estimator::Entropy => "entropy",
            Estimator::StickingTheLanding => "sticking-the-landing",
            Estimator::ControlVariate(_) => "control-variate",
        }
    }

    /// Evaluates the target at z = m + C u for the draws in `g` and leaves the estimate there.
    ///
    /// A value or gradient that is not finite is an error with its place; no draw is ever skipped.
    pub fn estimate(
        &self,
        target: &dyn Target,
        w: &Gaussian,
        g: &mut Gradient,
        workspace: &mut Workspace,
    ) -> Result<(), Error> {
        same_length("the target", w.dim(), target.dim())?;
        same_length("the gradient", w.dim(), g.dim)?;
        w.transform(&g.u, &mut g.points);
        target.log_density(&g.points, &mut g.log_densities, &mut g.residual).map_err(Error::Target)?;
        negate_finite(&mut g.residual, &g.log_densities, g.dim)?;
        g.drift = match self {
            Estimator::Energy => Drift::None,
            Estimator::Entropy => Drift::NegEntropy,
            Estimator::StickingTheLanding => {
                g.solved.clear();
                g.solved.extend_from_slice(&g.u);
                if !w.factor().solve_transpose(&mut g.solved, workspace) {
                    return Err(not_positive_definite());
                }
                linalg::add_scaled(&mut g.residual, -1.0, &g.solved);
                Drift::None
            }
            Estimator::ControlVariate(q) => {
                for (v, z) in g.residual.chunks_exact_mut(g.dim).zip(g.points.chunks_exact(g.dim)) {
                    for i in 0..v.len() {
                        v[i] -= q.precision * (z[i] - q.center[i]);
                    }
                }
                match std::mem::replace(&mut g.drift, Drift::None) {
                    Drift::Quadratic(old) if old == *q => Drift::Quadratic(old),
                    _ => Drift::Quadratic(q.clone()),
                }
            }
        };
        Ok(())
    }
}

pub(crate) fn not_positive_definite() -> Error {
    Error::NonFinite {
        what: "the smallest eigenvalue of the symmetric factor",
        value: 0.0,
        place: "the current iterate; it must be positive (smaller steps, or check the declared smoothness)"
            .into(),
    }
}

/// Beyond this a gradient's square overflows and the run has diverged; stopping here keeps every iterate finite.
const LARGEST: f64 = 1e150;

/// gradients ← −gradients, and an error naming the first value or entry that is not finite (or above 1e150).
pub(crate) fn negate_finite(gradients: &mut [f64], values: &[f64], dim: usize) -> Result<(), Error> {
    const RUN: usize = 4096;
    let finite = AtomicBool::new(true);
    parallel::for_each_piece(gradients, RUN, 8, &|_, part| {
        let mut all = true;
        for x in part {
            all &= x.abs() <= LARGEST;
            *x = -*x;
        }
        if !all {
            finite.store(false, Ordering::Relaxed);
        }
    });
    if let Some(sample) = values.iter().position(|v| v.is_nan() || v.abs() > LARGEST) {
        let place = format!("sample {sample} of {}", values.len());
        return Err(Error::NonFinite { what: "the log density", value: values[sample], place });
    }
    if !finite.into_inner() {
        let i = gradients.iter().position(|x| x.is_nan() || x.abs() > LARGEST).expect("one was seen above");
        let place = format!("coordinate {} of sample {} of {}", i % dim, i / dim, values.len());
        return Err(Error::NonFinite {
            what: "the gradient of the log density",
            value: -gradients[i],
            place,
        });
    }
    Ok(())
}
