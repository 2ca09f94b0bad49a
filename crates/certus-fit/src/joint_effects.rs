//! Effects of groups whose sd was not given: those of linear models drawn together with the coefficients and the
//! scales, from their law given these and the rows (docs/mixed.md, P1); those of new groups, from their law given the
//! scales.

use certus::parallel;
use certus::random::{Purpose, Random};
use certus_mixed::linear::Criterion;

use crate::error::Error;
use crate::predict::PredictedRow;
use crate::problem::Problem;
use crate::refusal::RequestError;
use crate::variance::engine::JointLaw;
use crate::variance::mixed::LinearMixed;
use crate::variance::names::{RandomEffect, UnknownScales};
use crate::variance::several::EffectTerms;

/// The stream of the normal numbers ([`Purpose`] lists them all).
const STREAM: u64 = 1 << 44;
/// The stream of those of new groups.
const NEW: u64 = 1 << 49;
/// Effects of all draws that are kept, at most.
const KEPT: usize = 50_000_000;
/// Multiplications, at most, where that leaves enough draws.
const WORK: f64 = 2e10;
/// Draws, at least.
const ENOUGH: usize = 200;

/// Coefficients, effects and scales that were drawn together.
pub(crate) struct JointEffects<'a> {
    unknown: &'a UnknownScales,
    /// Coefficients and scales.
    points: Vec<(Vec<f64>, Vec<f64>)>,
    /// The effects at each of them.
    effects: Vec<Vec<f64>>,
    /// σ, if it was given.
    sigma: Option<f64>,
}

impl<'a> JointEffects<'a> {
    /// At draws of coefficients and scales, or at the first of them where all would take too long.
    pub(crate) fn new(
        problem: &Problem,
        unknown: &'a UnknownScales,
        mut points: Vec<(Vec<f64>, Vec<f64>)>,
        sigma: Option<f64>,
    ) -> Result<Self, Error> {
        let summed;
        let model: &dyn JointLaw = match problem.collapsed().and_then(|own| own.model.joint_law()) {
            Some(model) => model,
            None => {
                summed = LinearMixed::new(&problem.prepared, unknown, Criterion::Ml)?;
                &summed
            }
        };
        let levels = model.effects_count();
        let quick = (WORK / model.cost()) as usize;
        let kept = KEPT / levels.max(1);
        if kept < ENOUGH.min(points.len()) {
            return Err(RequestError::NoDraws("its groups have too many effects to draw them").into());
        }
        // one factorisation is enough where all scales are the same
        let all_given = unknown.scales.is_empty();
        points.truncate(if all_given { kept } else { quick.max(ENOUGH).min(kept) });
        let mut normals = vec![0.0; points.len() * levels];
        Random::new(0, Purpose::Sample, 0).normals(STREAM, 0, levels, &mut normals);
        if let Some(sigma) = sigma.filter(|_| all_given) {
            let betas: Vec<&[f64]> = points.iter().map(|(beta, _)| &beta[..]).collect();
            let effects = model.drawn_effects_of_all(&betas, &[sigma], &normals)?;
            return Ok(Self { unknown, points, effects, sigma: Some(sigma) });
        }
        let mut found: Vec<Result<Vec<f64>, certus_models::Error>> = Vec::with_capacity(points.len());
        found.resize_with(points.len(), || Ok(Vec::new()));
        let one = |k: usize, part: &mut [Result<Vec<f64>, certus_models::Error>]| {
            let (beta, scales) = &points[k];
            let all: Vec<f64> = scales.iter().copied().chain(sigma).collect();
            part[0] = model.drawn_effects(beta, &all, &normals[k * levels..][..levels]);
        };
        parallel::install(None, || parallel::for_each_piece(&mut found, 1, 1, &one))
            .map_err(certus_models::Error::from)?;
        let effects = found.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(Self { unknown, points, effects, sigma })
    }

    /// New effects of all groups of the problem, from their law at some coefficients and scales: of the groups of a
    /// term N(0, TTᵀ), T the lower factor of their covariance matrix.
    pub(crate) fn of_new_groups(
        problem: &Problem,
        unknown: &'a UnknownScales,
        (beta, scales): (&[f64], &[f64]),
        count: usize,
        seed: u64,
    ) -> Result<Self, Error> {
        let terms = EffectTerms::new(&problem.prepared, unknown);
        let levels = terms.levels_of_effects().count();
        if levels.saturating_mul(count) > KEPT {
            let words = "its groups have too many effects for so many data sets";
            return Err(RequestError::NoDraws(words).into());
        }
        let mut normals = vec![0.0; count * levels];
        if levels > 0 {
            Random::new(seed, Purpose::Sample, 0).normals(NEW, 0, levels, &mut normals);
        }
        let mut effects: Vec<Vec<f64>> = match levels {
            0 => vec![Vec::new(); count],
            _ => normals.chunks_exact(levels).map(<[f64]>::to_vec).collect(),
        };
        for term in &terms.list {
            let (t, k) = (terms.factor(term, scales), term.effects.len());
            let own: Vec<&RandomEffect> = term.effects.iter().map(|e| &unknown.effects[*e]).collect();
            for draw in &mut effects {
                for level in 0..own[0].levels {
                    let z: Vec<f64> = own.iter().map(|e| draw[e.first + level]).collect();
                    for (i, e) in own.iter().enumerate() {
                        draw[e.first + level] = (0..=i).map(|j| t[j * k + i] * z[j]).sum();
                    }
                }
            }
        }
        let points = vec![(beta.to_vec(), scales.to_vec()); count];
        Ok(Self { unknown, points, effects, sigma: None })
    }

    /// How many draws of new groups can be kept.
    pub(crate) fn affordable(problem: &Problem, unknown: &UnknownScales) -> usize {
        KEPT / EffectTerms::new(&problem.prepared, unknown).levels_of_effects().count().max(1)
    }

    /// Draws.
    pub(crate) fn count(&self) -> usize {
        self.points.len()
    }

    /// σ at every draw.
    pub(crate) fn noise(&self) -> Vec<Option<f64>> {
        let own = |(_, scales): &(Vec<f64>, Vec<f64>)| self.sigma.or(scales.last().copied());
        self.points.iter().map(own).collect()
    }

    /// The linear predictor of a row at every draw.
    pub(crate) fn linear(&self, row: &PredictedRow<'_>) -> Vec<f64> {
        let columns = row.columns(self.unknown);
        let each = self.unknown.effects.iter().zip(&columns);
        let at: Vec<(usize, f64)> = each.map(|(e, z)| (e.first + row.levels[e.term], *z)).collect();
        let one = |((beta, _), effects): (&(Vec<f64>, Vec<f64>), &Vec<f64>)| {
            row.along(beta) + at.iter().map(|(k, z)| z * effects[*k]).sum::<f64>()
        };
        self.points.iter().zip(&self.effects).map(one).collect()
    }
}
