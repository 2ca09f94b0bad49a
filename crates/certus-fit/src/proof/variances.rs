//! The certificate of the variance parameters of a stored fit of a linear mixed model.

use super::refused;
use crate::error::Error;
use crate::problem::Problem;
use crate::variance::maximum::{StatedVariances, takes_long};
use crate::variance::mixed::LinearMixed;
use crate::verify::Stored;

/// The linear mixed model of a problem whose variance parameters are all estimated, if it is one.
fn model(problem: &Problem) -> Option<&LinearMixed> {
    problem.collapsed()?.model.linear_mixed()
}

/// Whether a fit has variance parameters that can be certified, and if so whether that takes longer than a report or a
/// verification should.
pub(crate) fn covers(problem: &Problem) -> Option<bool> {
    model(problem).map(takes_long)
}

/// What is certified of a stored fit.
pub(crate) fn of(problem: &Problem, stored: &Stored) -> Result<StatedVariances, Error> {
    let (Some(model), Some(scale)) = (model(problem), &stored.record.certificate.scale) else {
        return Err(refused("the fit is not one of a linear mixed model whose variances are estimated"));
    };
    let others = scale.others.iter().map(|other| other.estimate);
    let scales = std::iter::once(scale.estimate).chain(others).map(|own| own.unwrap_or(f64::NAN));
    StatedVariances::at(model, &problem.prepared, &scales.collect::<Vec<_>>())
}
