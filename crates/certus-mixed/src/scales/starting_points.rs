//! Starts for the search of maxima: the points of a coarse grid over the whole range of the scales at which F_p is
//! lower than at all their neighbours.

use super::evaluator::ScaleEvaluator;
use super::{Care, ScaleProblem};
use certus_models::Error;

/// Points of the grid per coordinate, for one scale and for two.
const POINTS: [usize; 2] = [17, 5];

/// A start: coordinates, coefficients there, F_p.
pub(super) struct StartingPoint {
    pub(super) x: Vec<f64>,
    pub(super) beta: Vec<f64>,
}

/// The steps of the grid.
pub(super) fn steps(range: &[[f64; 2]]) -> Vec<f64> {
    let points = POINTS[range.len().clamp(1, 2) - 1];
    range.iter().map(|[low, high]| (high - low) / (points - 1) as f64).collect()
}

/// All local minima of F_p on the grid, none if the model names no range. Points at which F_p cannot be computed count
/// as high.
pub(super) fn starts<M: ScaleProblem + ?Sized>(
    evaluator: &mut ScaleEvaluator<'_, M>,
    beta: &[f64],
) -> Result<Vec<StartingPoint>, Error> {
    let range = evaluator.model.range();
    if range.is_empty() || range.len() > 2 {
        return Ok(Vec::new());
    }
    let (points, steps) = (POINTS[range.len() - 1], steps(&range));
    let count = if range.len() == 1 { [points, 1] } else { [points; 2] };
    let place = |k: usize| -> Vec<f64> {
        let of = [k % points, k / points];
        range.iter().zip(&steps).zip(of).map(|((r, step), i)| r[0] + step * i as f64).collect()
    };
    let mut values = Vec::new();
    let mut betas = Vec::new();
    let mut near = beta.to_vec();
    for k in 0..count[0] * count[1] {
        match evaluator.conditional_fit(&place(k), &near, Care::Density) {
            Ok(conditional_fit) => {
                near.clone_from(&conditional_fit.beta);
                values.push(conditional_fit.value);
                betas.push(conditional_fit.beta);
            }
            Err(Error::Stopped) => return Err(Error::Stopped),
            Err(_) => {
                values.push(f64::INFINITY);
                betas.push(near.clone());
            }
        }
    }
    let lowest = |k: usize| {
        let (i, j) = (k % points, k / points);
        let mut others = (i.saturating_sub(1)..=(i + 1).min(count[0] - 1))
            .flat_map(|i| (j.saturating_sub(1)..=(j + 1).min(count[1] - 1)).map(move |j| j * points + i));
        values[k].is_finite() && others.all(|other| other == k || values[other] >= values[k])
    };
    let found = (0..values.len()).filter(|k| lowest(*k));
    Ok(found.map(|k| StartingPoint { x: place(k), beta: betas[k].clone() }).collect())
}
