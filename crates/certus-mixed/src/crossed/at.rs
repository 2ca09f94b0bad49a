//! The likelihood at given parameters, for those who maximise it themselves or check a fit.

use super::conditional::Conditional;
use super::corrected::{Sampling, sets};
use super::correction::{Draws, Weights};
use super::error::Error;
use super::fit::Method;
use super::inner::Inner;
use super::layout::MOST;
use super::model::CrossedModel;

/// log L at given parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct LikelihoodValue {
    /// The Laplace approximation, or Λ, that of what is left after the largest factor is integrated out.
    pub approximation: f64,
    /// Its gradient in (β, θ), that of the prior of β included.
    pub gradient: Vec<f64>,
    /// c = log L − Λ with its standard error, where it is sampled; both 0 for the plain Laplace approximation.
    pub correction: f64,
    /// The standard error of c.
    pub standard_error: f64,
}

/// log L at (β, θ), θ the lower triangles of every term's T by columns. As in a fit, four sets of draws, 256
/// each unless a number is given.
pub fn likelihood_at(
    model: &CrossedModel,
    parameters: &[f64],
    method: Method,
) -> Result<LikelihoodValue, Error> {
    let expected = model.parameters();
    if parameters.len() != expected {
        return Err(Error::Length { row: 0, what: "parameters", found: parameters.len(), expected });
    }
    match method {
        Method::Laplace => {
            let at = Conditional::new(model, Inner::Mode, parameters, None)?;
            Ok(LikelihoodValue {
                approximation: at.log_likelihood(),
                gradient: at.gradient().iter().map(|g| -g).collect(),
                correction: 0.0,
                standard_error: 0.0,
            })
        }
        Method::Corrected(_) if !model.layout.collapses() => Err(Error::NothingToCollapse { most: MOST }),
        Method::Corrected(sampling) => {
            let at = Conditional::new(model, Inner::Integral, parameters, None)?;
            let draws = sampling.first(256)?;
            let each = sets(model).map(|set| at.weights(&Draws::new(model, draws, sampling.seed, set)));
            let summary = Weights::joined(&each.collect::<Result<Vec<_>, _>>()?).summary();
            Ok(LikelihoodValue {
                approximation: at.log_likelihood(),
                gradient: at.gradient().iter().map(|g| -g).collect(),
                correction: summary.value,
                standard_error: summary.standard_error,
            })
        }
    }
}

/// The mode of the kept effects at (β, θ), where searches at other points may begin.
pub fn kept_mode(model: &CrossedModel, parameters: &[f64]) -> Result<Vec<f64>, Error> {
    let at = Conditional::new(model, Inner::Integral, parameters, None)?;
    Ok(model.effects(&at.matrices, &at.v))
}

/// v with Λv = b, 0 where there is none.
fn standardised(model: &CrossedModel, parameters: &[f64], b: &[f64]) -> Vec<f64> {
    let mut v = b.to_vec();
    for (factor, t) in model.layout.factors.iter().zip(model.layout.matrices(parameters)).skip(1) {
        let k = factor.effects;
        for x in v[factor.start..][..factor.levels * k].chunks_exact_mut(k) {
            for i in 0..k {
                let known: f64 = (0..i).map(|j| t[j * k + i] * x[j]).sum();
                let own = (x[i] - known) / t[i * (k + 1)];
                x[i] = if own.is_finite() { own } else { 0.0 };
            }
        }
    }
    v
}

/// Normal numbers that are the same for every point of a fit have sets below this; those of points that are drawn have
/// sets of their own.
const DRAWN: u64 = 1 << 20;

/// An estimate of log L at (β, θ) whose exponential has the expectation L: draws of the kept effects around their mode,
/// which is searched from `start` (effects of [`kept_mode`]), with normal numbers that belong to the point
/// (docs/mixed.md, P1).
pub fn likelihood_drawn(
    model: &CrossedModel,
    parameters: &[f64],
    start: Option<&[f64]>,
    sampling: Sampling,
    point: u64,
) -> Result<f64, Error> {
    let near = start.map(|b| standardised(model, parameters, b));
    let at = match Conditional::new(model, Inner::Integral, parameters, near.as_deref()) {
        // a curvature that is lost to rounding far from the mode
        Err(Error::NotFinite { .. } | Error::NoMode { .. }) if near.is_some() => {
            Conditional::new(model, Inner::Integral, parameters, None)?
        }
        other => other?,
    };
    let draws = Draws::new(model, sampling.first(256)?, sampling.seed, DRAWN + point);
    Ok(at.log_likelihood() + at.weights(&draws)?.correction())
}
