//! The likelihood at given parameters, for those who maximise it themselves or check a fit.

use super::conditional::Conditional;
use super::corrected::sets;
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
    /// Its gradient in (β, θ).
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
                approximation: -at.value,
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
                approximation: -at.value,
                gradient: at.gradient().iter().map(|g| -g).collect(),
                correction: summary.value,
                standard_error: summary.standard_error,
            })
        }
    }
}
