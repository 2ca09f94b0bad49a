//! Claims about scales, checked from the data: does the interval of one hold a maximum (Theorem K3), and do the weights
//! of a lattice follow?

use super::estimate::above;
use super::evaluator::ScaleEvaluator;
use super::lattice::log_density;
use super::{Care, ScaleProblem};
use crate::collapsed::{Confirmed, Excluded, Node, SdPrior, differ, is_excluded};
use crate::evaluations::{Evaluations, Stage};
use certus_models::Error;

/// Coordinates of scales; those that are 0 are at the floor.
fn point<M: ScaleProblem + ?Sized>(model: &M, scales: &[f64]) -> Vec<f64> {
    let logs: Vec<f64> = scales.iter().map(|s| s.ln()).collect();
    model.at_logs(&logs).iter().zip(model.floor()).map(|(x, f)| x.max(f)).collect()
}

/// F_p at both ends of the interval of the only scale, if there is one, against F at the estimate between them. `start`
/// are coefficients to begin with. An end of 0 needs no margin: a maximum at 0 itself counts.
pub fn confirm<M: ScaleProblem + ?Sized>(
    model: &M,
    start: &[f64],
    scales: &[f64],
    interval: Option<[f64; 2]>,
) -> Result<Confirmed, Error> {
    let x = point(model, scales);
    let here = model.conditional_fit(&x, start, Care::Full)?;
    let bounds = model.bracket(&x, &here.beta);
    let error = bounds.as_ref().map_or(here.error, |b| b[1] - here.value);
    let mut margins = [f64::NEG_INFINITY; 2];
    if let (Some(ends), [scale], Ok([_, top])) = (interval, scales, &bounds)
        && (ends[0]..=ends[1]).contains(scale)
    {
        for (margin, end) in margins.iter_mut().zip(ends) {
            *margin = if end == 0.0 {
                f64::INFINITY
            } else {
                let there = model.at_logs(&[end.ln()]);
                let beta = model.conditional_fit(&there, &here.beta, Care::Full)?.beta;
                model.bracket(&there, &beta).map_or(f64::NEG_INFINITY, |b| b[0] - top)
            };
        }
    }
    Ok(Confirmed { log_likelihood: here.log_likelihood, value: here.value, error, margins })
}

/// Whether all values of the only scale in `claim.searched` but those in the open parts have a lower maximum of −F over
/// β than `scales` have, from the data again. `start` are coefficients to begin with.
pub fn confirm_excluded<M: ScaleProblem + ?Sized>(
    model: &M,
    start: &[f64],
    scales: &[f64],
    claim: &Excluded,
) -> Result<bool, Error> {
    let x = point(model, scales);
    let conditional_fit = model.conditional_fit(&x, start, Care::Full)?;
    let (1, Ok([_, top])) = (scales.len(), model.bracket(&x, &conditional_fit.beta)) else {
        return Ok(false);
    };
    let evaluator = &mut ScaleEvaluator { model, evaluations: Evaluations::hidden(Stage::Interval) };
    let logs = |part: &[f64; 2]| part.map(|s| model.at_logs(&[s.ln()])[0]);
    let open: Vec<[f64; 2]> = claim.open.iter().map(logs).collect();
    let mut near = conditional_fit.beta;
    let mut above = |b: f64| above(evaluator, &mut near, b, top);
    let fall = |b: f64, a: f64| model.fall(b, a).unwrap_or(f64::INFINITY);
    is_excluded(logs(&claim.searched), &open, &mut above, &fall)
}

/// The largest difference between the weights of nodes and those that follow from the data at their scales; infinite if
/// a node's coefficients do not maximise F there.
pub fn weights_differ<M: ScaleProblem + ?Sized>(
    model: &M,
    nodes: &[Node],
    scales: &[Vec<f64>],
    priors: &[SdPrior],
) -> Result<f64, Error> {
    differ(nodes, |k, node| {
        let x = model.at_logs(&scales[k].iter().map(|s| s.ln()).collect::<Vec<_>>());
        let conditional_fit = model.conditional_fit(&x, &node.mean, Care::Density)?;
        let log_density = log_density(model, priors, &x, &conditional_fit);
        Ok((conditional_fit.beta, log_density))
    })
}
