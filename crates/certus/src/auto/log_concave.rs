//! Targets that the user declares log-concave: means, sds, quantiles, total variation and KL(p ‖ q) that hold with
//! probability 1 − δ, from importance weights whose tail convexity bounds (math: D9), and the search for gradients that
//! contradict the declaration.

use std::cmp::Ordering;
use std::sync::{Mutex, PoisonError};

use super::Goal;
use super::verdict::{ACCURATE, CertifiedWeights};
use crate::certificate::figure;
use crate::certificate::weights::{WeightObstacle, WeightProblem, WeightSettings};
use crate::diagnostics::WeightedDraws;
use crate::error::{Error, TargetError};
use crate::gaussian::Gaussian;
use crate::moving::Violation;
use crate::target::{Change, Curvature, Target, Witness};

/// Pairs of the attempts, one after the other, until the numbers are accurate enough.
const PAIRS: [usize; 3] = [8000, 32_000, 128_000];
/// Points that are kept with their weights.
const KEPT: usize = 20_000;
/// Numbers that they may take.
const NUMBERS: usize = 1 << 25;
/// How far a log density may be off by rounding, as a part of it.
const ROUNDING: f64 = 1e-12;

/// Why a certificate was not made.
pub(super) enum Contradiction {
    /// Two points contradict the declaration.
    Violated(Violation),
    /// The target failed.
    Error(Error),
}

/// A target that compares the points of every batch, each with its neighbour and the first half with the second (x with
/// −x in the frame of q), and keeps the two between which −log p is least convex, if it is not.
struct Monotone<'a> {
    target: &'a dyn Target,
    witness: Mutex<Option<Witness>>,
}

impl<'a> Monotone<'a> {
    fn new(target: &'a dyn Target) -> Self {
        Self { target, witness: Mutex::new(None) }
    }

    /// The worst contradiction seen: the same for any number of threads.
    fn witness(&self) -> Option<Witness> {
        self.witness.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// ⟨Δπ, Δz⟩ ≥ 0 for π = −∇log p, up to the rounding of gradients.
    fn compare(&self, points: &[f64], gradients: &[f64]) {
        let dim = self.target.dim();
        let (count, half) = (points.len() / dim, points.len() / dim / 2);
        let at = |k: usize| (&points[k * dim..][..dim], &gradients[k * dim..][..dim]);
        let neighbours = (1..count).map(|k| (k - 1, k));
        for (a, b) in neighbours.chain((0..half).map(|k| (k, half + k))) {
            let ((z, g), (y, h)) = (at(a), at(b));
            let change = Change::new((0..dim).map(|i| (z[i] - y[i], h[i] - g[i])));
            let size: f64 = g.iter().zip(h).map(|(g, h)| g * g + h * h).sum();
            if change.product < -1e-9 * (size * change.apart).sqrt() {
                self.keep(change.witness([z.to_vec(), y.to_vec()]));
            }
        }
    }

    fn keep(&self, witness: Witness) {
        let mut kept = self.witness.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|kept| order(&witness, kept) == Ordering::Less) {
            *kept = Some(witness);
        }
    }
}

/// The most negative second derivative first; which of equal ones does not depend on when they were seen.
fn order(a: &Witness, b: &Witness) -> Ordering {
    let places = |w: &Witness| w.points.concat();
    a.along.total_cmp(&b.along).then_with(|| {
        let pairs = places(a).into_iter().zip(places(b));
        pairs.map(|(x, y)| x.total_cmp(&y)).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    })
}

impl Target for Monotone<'_> {
    fn dim(&self) -> usize {
        self.target.dim()
    }

    fn log_density(
        &self,
        points: &[f64],
        values: &mut [f64],
        gradients: &mut [f64],
    ) -> Result<(), TargetError> {
        self.target.log_density(points, values, gradients)?;
        self.compare(points, gradients);
        Ok(())
    }

    fn curvature(&self) -> Option<Curvature> {
        self.target.curvature()
    }

    fn log_concave(&self) -> bool {
        self.target.log_concave()
    }
}

/// Why a certificate is declined.
fn words(obstacle: &WeightObstacle) -> String {
    match obstacle {
        WeightObstacle::Tail { slope, z } => format!(
            "the tail of the importance weights is not bounded, because their gradients are too large ({} where less \
             than {} is needed)",
            figure(*slope),
            figure(z.max(0.0))
        ),
        WeightObstacle::Unresolved { .. } => "the draws are too few to bound the mean weight".into(),
        WeightObstacle::Contradiction { .. } => "the bounds of the mean weight exclude each other".into(),
    }
}

/// What holds with probability 1 − δ of the posterior's coordinates, if anything does; `log_evidence` is an estimate,
/// and `most` gradients may be spent.
pub(super) fn certify(
    target: &dyn Target,
    q: &Gaussian,
    goal: &Goal,
    log_evidence: f64,
    most: u64,
    here: bool,
) -> Result<Result<CertifiedWeights, String>, Contradiction> {
    let guarded = Monotone::new(target);
    let reported: Vec<Vec<(usize, f64)>> = (0..q.dim()).map(|i| vec![(i, 1.0)]).collect();
    let problem = WeightProblem {
        target: &guarded,
        q,
        reported: &reported,
        // any constant will do; this one makes the mean weight about one
        neg_elbo: (-log_evidence, f64::INFINITY),
        kappa: 0.0,
        rounding: ROUNDING * (1.0 + log_evidence.abs() + q.dim() as f64),
        grain: if here { usize::MAX } else { 1 },
    };
    let accuracy = goal.accuracy.unwrap_or(ACCURATE);
    let (mut best, mut spent, mut share) = (None::<(_, WeightSettings)>, 0, goal.delta);
    let mut why = "the limit of gradients leaves too few draws".to_string();
    for (attempt, pairs) in PAIRS.into_iter().enumerate() {
        // two gradients of every pair, and of the pilot
        let cost = 2 * (pairs + (pairs / 8).clamp(500, 4000)) as u64;
        spent += cost;
        if spent > most {
            break;
        }
        share *= 0.5;
        let settings = WeightSettings { pairs, delta: share, seed: goal.seed, attempt: attempt as u64 };
        let found = problem.certify(&settings).map_err(Contradiction::Error)?;
        if let Some(witness) = guarded.witness() {
            return Err(Contradiction::Violated(Violation::Gradients(witness)));
        }
        let found = match found {
            Ok(found) => found,
            Err(declined) => {
                why = words(&declined.obstacle);
                // more draws help only where a tail is nearly bounded
                match declined.obstacle {
                    WeightObstacle::Tail { slope, z } if slope > z + 1.0 => break,
                    _ => continue,
                }
            }
        };
        let width = found.width;
        best = Some((found, settings));
        if width <= 0.5 * accuracy {
            break;
        }
    }
    let Some((certificate, settings)) = best else { return Ok(Err(why)) };
    let kept = settings.pairs.min(KEPT / 2).min(NUMBERS / q.dim() / 2);
    let latents = problem.latents(&settings, kept);
    let points = WeightedDraws::new(q.dim(), latents, &certificate.log_weights[..2 * kept])
        .map_err(Contradiction::Error)?;
    Ok(Ok(CertifiedWeights { certificate, points, pairs: settings.pairs, delta: goal.delta }))
}
