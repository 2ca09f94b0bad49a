//! Is the gradient that of the log density? A directional check before anything else is believed.

use super::mode::Place;
use crate::error::Error;
use crate::linalg;
use crate::random::Random;
use crate::target::Target;

/// Halvings of the step, each by 4: predicted changes of log p from 1 nat down to 1/4096.
const STEPS: i32 = 7;
/// Estimates of these iterations belong to the check.
const CHECKS: u64 = 1 << 40;
/// The gradient may disagree with the change of log p by this fraction at the best step.
const TOLERANCE: f64 = 0.1;

/// Two points between which log p does not change as its gradients there say.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// The two points.
    pub points: [Vec<f64>; 2],
    /// log p at the second minus log p at the first.
    pub change: f64,
    /// What the two gradients predict, by the trapezoid rule.
    pub predicted: f64,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "between {} and {} the log density changes by {:.6e}, but its gradients predict {:.6e} (a ratio of {:.3})",
            short(&self.points[0]),
            short(&self.points[1]),
            self.change,
            self.predicted,
            self.predicted / self.change
        )
    }
}

/// A point in at most four coordinates.
pub(super) fn short(z: &[f64]) -> String {
    let shown: Vec<String> = z.iter().take(4).map(|x| format!("{x:.6}")).collect();
    format!("({}{})", shown.join(", "), if z.len() > 4 { ", …" } else { "" })
}

/// Along the gradient and a random direction the change of log p must be what its gradients say, at `here` or at a
/// point a nat away: one of the two may lie on a kink, but a wrong sign or factor is wrong at both.
pub(super) fn check(target: &dyn Target, here: &Place, random: &Random) -> Result<Option<Mismatch>, Error> {
    let Some(first) = check_at(target, here, random, 0)? else { return Ok(None) };
    let there = Place::at(target, first.points[1].clone())?;
    // if nothing can be said of the second point, the first is all there is
    let informative = there.is_finite() && linalg::norm_squared(&there.slope) > 0.0;
    Ok(if informative { check_at(target, &there, random, 1)?.map(|_| first) } else { Some(first) })
}

/// Steps are predicted to change log p by 1 nat, 1/4, 1/16, …; the change must agree with h(g + g′)·v/2 at one of them.
/// The error of that rule falls with h², and rounding only matters far below.
fn check_at(
    target: &dyn Target,
    here: &Place,
    random: &Random,
    which: u64,
) -> Result<Option<Mismatch>, Error> {
    let dim = here.point.len();
    let mut across = vec![0.0; dim];
    random.normals(CHECKS + which, 0, dim, &mut across);
    for direction in [here.slope.iter().map(|g| -g).collect(), across] {
        let along = -linalg::dot(&direction, &here.slope);
        if along == 0.0 || !(1.0 / along).is_finite() {
            continue;
        }
        let mut best: Option<(f64, Mismatch)> = None;
        for k in 0..STEPS {
            let h = 0.25f64.powi(k) / along;
            let point: Vec<f64> = here.point.iter().zip(&direction).map(|(z, v)| z + h * v).collect();
            let there = Place::at(target, point)?;
            if !there.is_finite() {
                continue;
            }
            let change = here.value - there.value;
            let predicted = 0.5 * h * (along - linalg::dot(&direction, &there.slope));
            let rounding = 1e-13 * (here.value.abs() + there.value.abs());
            let error = ((change - predicted).abs() - rounding).max(0.0) / (change.abs() + predicted.abs());
            if error <= TOLERANCE {
                best = None;
                break;
            }
            if best.as_ref().is_none_or(|b| error < b.0) {
                let points = [here.point.clone(), there.point];
                best = Some((error, Mismatch { points, change, predicted }));
            }
        }
        if let Some((_, mismatch)) = best {
            return Ok(Some(mismatch));
        }
    }
    Ok(None)
}
