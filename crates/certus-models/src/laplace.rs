//! The mode by damped Newton, and the Gaussian with the inverse Hessian there: the start of everything else.

use certus::factor::{Factor, Lower};
use certus::{Gaussian, linalg};

use crate::error::{Error, InvalidModel, NotFinite, Unidentified};
use crate::glm::{Derivatives, Glm};
use crate::newton::dot;
use certus_likelihood::prior::Precision;

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
    let flat = match model.prior().precision() {
        Precision::Diagonal(precision) => precision.contains(&0.0),
        Precision::Dense(_) => false,
    };
    for iteration in 0..MOST {
        if let Some(j) = (0..d).find(|j| !here.hessian[j * (d + 1)].is_finite()) {
            let value = here.hessian[j * (d + 1)];
            return Err(NotFinite::Curvature { coefficient: j, value }.into());
        }
        let (factor, exact) =
            factorise(&here, d).ok_or_else(|| not_identified(model, &z, &here.gradient, &here))?;
        let mut step = here.gradient.clone();
        linalg::solve_lower(&factor, d, false, &mut step);
        let decrement = 0.5 * dot(&step, &step);
        linalg::solve_lower(&factor, d, true, &mut step);
        // quadratic convergence ends at the rounding of the value
        let floor = 1e-16 * (1.0 + here.value.abs()) * f64::EPSILON.sqrt();
        let arrived = |z: Vec<f64>, here: &Derivatives, spent: usize| {
            if !exact || (flat && endless(model, &z, &step, here.value).is_some()) {
                return Err(not_identified(model, &z, &step, here));
            }
            let lower = Lower::new(d, linalg::lower_of_inverse(&factor, d))?;
            let gaussian = Gaussian::new(z, Factor::Lower(lower))?;
            Ok(Laplace { gaussian, iterations: iteration, decrement, gradients: spent, hessians: spent })
        };
        if decrement <= floor || (decrement < 1e-18 && decrement >= last) || iteration + 1 == MOST {
            return arrived(z, &here, spent);
        }
        last = decrement;
        let mut tau = 1.0;
        loop {
            let trial: Vec<f64> = z.iter().zip(&step).map(|(z, s)| z - tau * s).collect();
            let there = model.derivatives(&trial)?;
            spent += 1;
            if there.value <= here.value - 2e-4 * tau * decrement + 1e-13 * here.value.abs() {
                if tau < 1e-6 && decrement < 1.0 {
                    // rounding of the value took the place of a gain
                    return arrived(z, &here, spent);
                }
                (z, here) = (trial, there);
                break;
            }
            tau *= 0.5;
            // far from the mode a Newton step may be too long by any factor (counts of 10¹⁵ from the rate 1)
            if tau < if decrement < 1.0 { 1e-12 } else { 1e-30 } {
                return arrived(z, &here, spent);
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
    Err(InvalidModel::Start { coefficients: dim }.into())
}

/// The Cholesky factor of the Hessian, and whether it is that of the Hessian itself. Far from the mode (Poisson rates
/// of e³⁰) the Hessian can be singular to rounding although the prior is proper; a ridge of a few ulp then still gives
/// a direction of descent.
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

/// How much of the value a way back must cost for the way there to have mattered.
const MATTERS: f64 = 1e-6;

/// A direction along which −log p falls for ever, if the last point or the last step is one: forward by a thousand
/// times the size of the point nothing is lost, back by its own size something is. A convex function with a minimum in
/// between would grow a thousandfold.
fn endless(model: &Glm, z: &[f64], step: &[f64], value: f64) -> Option<Vec<f64>> {
    let size = |v: &[f64]| v.iter().fold(0.0_f64, |a, x| a.max(x.abs()));
    let at = |v: &[f64], t: f64| {
        let point: Vec<f64> = z.iter().zip(v).map(|(z, v)| z + t * v).collect();
        model.derivatives(&point).map_or(f64::INFINITY, |there| there.value)
    };
    let back: Vec<f64> = step.iter().map(|x| -x).collect();
    [z.to_vec(), back].into_iter().find(|v| {
        let t = size(z) / size(v);
        t.is_finite()
            && at(v, -t) > value + MATTERS * (1.0 + value.abs())
            && at(v, 1e3 * t) <= value + 1e-13 * value.abs()
    })
}

/// Why there is no mode, with a witness: a direction along which −log p falls for ever, or one in which the Hessian is
/// singular.
fn not_identified(model: &Glm, z: &[f64], step: &[f64], here: &Derivatives) -> Error {
    if let Some(direction) = endless(model, z, step, here.value) {
        return Error::NotIdentified { reason: Unidentified::Separated, direction: scaled(direction) };
    }
    let d = z.len();
    let root: Vec<f64> = (0..d).map(|i| here.hessian[i * (d + 1)].sqrt().max(f64::MIN_POSITIVE)).collect();
    let balanced: Vec<f64> = (0..d * d).map(|k| here.hessian[k] / (root[k / d] * root[k % d])).collect();
    let direction = linalg::eigen(&balanced, d)
        .map(|(_, vectors)| scaled((0..d).map(|i| vectors[i] / root[i]).collect()))
        .filter(|v| v.iter().all(|x| x.is_finite()))
        .unwrap_or_default();
    let reason = Unidentified::Singular { what: "the Hessian of −log p" };
    Error::NotIdentified { reason, direction }
}

/// Its largest entry made ±1.
fn scaled(v: Vec<f64>) -> Vec<f64> {
    let most = v.iter().fold(0.0_f64, |a, x| a.max(x.abs()));
    v.into_iter().map(|x| x / most).collect()
}
