//! The mode by damped Newton, and the Gaussian with the inverse Hessian there: the start of everything else.

use certus::factor::{Factor, Lower};
use certus::{Gaussian, linalg};

use crate::error::Error;
use crate::glm::{Derivatives, Glm};
use crate::newton::dot;

/// The Laplace approximation and how it was reached.
#[derive(Clone, Debug)]
pub struct Laplace {
    /// N(mode, H⁻¹).
    pub gaussian: Gaussian,
    /// Newton steps taken.
    pub iterations: usize,
    /// ½ gᵀH⁻¹g at the mode: about how far −log p is from its minimum.
    pub decrement: f64,
    /// Gradients at a point spent, values alone included.
    pub gradients: usize,
    /// Hessians at a point spent.
    pub hessians: usize,
}

const MOST: usize = 200;

/// Finds the mode of −log p. It is convex, so damped Newton with an Armijo rule converges wherever it starts.
pub fn laplace(model: &Glm) -> Result<Laplace, Error> {
    laplace_from(model, model.prior().mean())
}

/// The same from a point of one's own.
pub fn laplace_from(model: &Glm, start: &[f64]) -> Result<Laplace, Error> {
    let d = model.dim();
    check_start(start, d)?;
    let mut z = start.to_vec();
    let mut here = model.derivatives(&z)?;
    let mut spent = 1;
    let mut last = f64::INFINITY;
    for iteration in 0..MOST {
        let (factor, exact) = factorise(&here, d).ok_or_else(not_identified)?;
        let mut step = here.gradient.clone();
        linalg::solve_lower(&factor, d, false, &mut step);
        let decrement = 0.5 * dot(&step, &step);
        linalg::solve_lower(&factor, d, true, &mut step);
        // quadratic convergence ends at the rounding of the value
        let floor = 1e-16 * (1.0 + here.value.abs()) * f64::EPSILON.sqrt();
        let arrived = |z: Vec<f64>, spent: usize| {
            if !exact {
                return Err(not_identified());
            }
            let lower = Lower::new(d, linalg::lower_of_inverse(&factor, d))?;
            let gaussian = Gaussian::new(z, Factor::Lower(lower))?;
            Ok(Laplace { gaussian, iterations: iteration, decrement, gradients: spent, hessians: spent })
        };
        if decrement <= floor || (decrement < 1e-18 && decrement >= last) || iteration + 1 == MOST {
            return arrived(z, spent);
        }
        last = decrement;
        let mut tau = 1.0;
        loop {
            let trial: Vec<f64> = z.iter().zip(&step).map(|(z, s)| z - tau * s).collect();
            let there = model.derivatives(&trial)?;
            spent += 1;
            if there.value <= here.value - 2e-4 * tau * decrement + 1e-13 * here.value.abs() {
                (z, here) = (trial, there);
                break;
            }
            tau *= 0.5;
            if tau < 1e-12 {
                return arrived(z, spent);
            }
        }
    }
    unreachable!("the loop returns at its last iteration")
}

/// A start must be a point.
pub(crate) fn check_start(start: &[f64], dim: usize) -> Result<(), Error> {
    if start.len() == dim && start.iter().all(|x| x.is_finite()) {
        return Ok(());
    }
    Err(Error::Model(format!("the start must be {dim} finite numbers, one per coefficient")))
}

/// The Cholesky factor of the Hessian, and whether it is that of the Hessian itself. Far from the mode (Poisson rates of e³⁰) the
/// Hessian can be singular to rounding although the prior is proper; a ridge of a few ulp then still gives a direction of descent.
fn factorise(here: &Derivatives, d: usize) -> Option<(Vec<f64>, bool)> {
    let mut ridge = 0.0;
    while ridge < 1e-6 {
        let mut factor = here.hessian.clone();
        factor.iter_mut().step_by(d + 1).for_each(|x| *x *= 1.0 + ridge);
        if linalg::cholesky(&mut factor, d) {
            // a column that the others explain to rounding may leave a pivot above 0 by luck
            let rounding = 8.0 * d as f64 * f64::EPSILON;
            let sound = |i: usize| factor[i * (d + 1)].powi(2) > rounding * here.hessian[i * (d + 1)];
            let exact = ridge == 0.0 && (0..d).all(sound);
            return Some((factor, exact));
        }
        ridge = if ridge == 0.0 { 1e-15 } else { 4.0 * ridge };
    }
    None
}

fn not_identified() -> Error {
    Error::NotIdentified(
        "the Hessian of −log p is singular: the data do not identify a coefficient with a flat prior (constant, duplicate or \
         collinear columns, or perfect separation); give every coefficient a proper prior"
            .into(),
    )
}
