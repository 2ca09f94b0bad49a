//! Posterior densities of coefficients and several scales, drawn by importance sampling from a proposal that pilots
//! adapt (docs/mixed.md, P1), and the effects of groups over the draws.

mod scale_prior;
mod several;
mod student;

use certus::random::{Purpose, Random};
use certus::{Gaussian, parallel};
use certus_mixed::collapsed::Effect;
use certus_mixed::density::{CollapsedDensity, CollapsedSample};
use certus_models::Error;

pub(crate) use scale_prior::{LKJ, ScalePrior};
pub(crate) use several::{EffectLikelihood, SeveralDensity};
pub(crate) use student::{FREEDOM, Student};

use crate::variance::mixture::{Law, MixturePosterior};

/// Draws evaluated by one thread at a time.
const PIECE: usize = 8;
/// Draws that the effects of groups average over.
const DRAWS: usize = 200;
/// Effects up to which quantiles are those of the mixture of normal laws over the draws, and not of one normal law.
const MIXED: usize = 2000;
/// The first stream of the draws; each batch has one ([`Purpose`] lists them all).
const STREAM: u64 = 1 << 43;
/// The stream of the normal numbers of effects.
const EFFECTS: u64 = 1 << 44;

/// A density with a proposal of its own.
pub(crate) trait Piloted: CollapsedDensity {
    /// The proposal to begin with, at the estimate; `None` if it has no extent.
    fn first(&self, found: &MixturePosterior) -> Option<Student>;

    /// Draws with weights.
    fn sample(
        &self,
        proposal: &Student,
        draws: usize,
        seed: u64,
        batch: u64,
    ) -> Result<CollapsedSample, Error>;

    /// The Gaussian that a sampler begins with; `None` if the density is known up to Monte Carlo errors only, so that
    /// there is nothing to follow.
    fn gaussian(&self, proposal: &Student) -> Result<Option<Gaussian>, Error>;

    /// The effects of all groups over draws of the posterior, and draws of coefficients and effects less their means.
    fn effects(&self, draws: &[f64]) -> Result<(Vec<Effect>, Vec<f64>), Error>;

    /// How the likelihood of every draw is known; `None` if its stated error says it.
    fn likelihood_words(&self) -> Option<String>;
}

/// A draw: the point, the logarithm of its weight, and the error of its likelihood.
pub(crate) type Drawn = (Vec<f64>, f64, f64);

/// Makes the draw at a place of a batch, of normal numbers.
pub(crate) type Draw<'a> = dyn Fn(usize, &[f64]) -> Result<Drawn, Error> + Sync + 'a;

/// Draws with weights, each made by `one` of its place in the batch and `each` normal numbers of its own.
pub(crate) fn drawn(
    draws: usize,
    each: usize,
    seed: u64,
    batch: u64,
    one: &Draw<'_>,
) -> Result<CollapsedSample, Error> {
    let mut normals = vec![0.0; each * draws];
    Random::new(seed, Purpose::Estimate, 0).normals(STREAM + batch, 0, each, &mut normals);
    let mut found: Vec<Result<Drawn, Error>> = Vec::with_capacity(draws);
    found.resize_with(draws, || Ok(Drawn::default()));
    parallel::for_each_piece(&mut found, PIECE, 1, &|piece, part| {
        for (i, to) in part.iter_mut().enumerate() {
            let place = piece * PIECE + i;
            *to = one(place, &normals[place * each..][..each]);
        }
    });
    let (mut points, mut raw, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for one in found {
        let (point, weight, error) = one?;
        points.extend(point);
        raw.push(weight);
        errors.push(error);
    }
    CollapsedSample::weighted(points, &raw, &errors)
}

/// The laws of all effects at a point, given coefficients and scales: their means and variances, and a draw less the
/// means, made of normal numbers.
pub(crate) type EffectsAt<'a> = dyn Fn(&[f64], &[f64]) -> Result<[Vec<f64>; 3], Error> + Sync + 'a;

/// The effects over draws of `p` coefficients and some scales, taken at even distances in the order of the first scale;
/// `levels` are the level of every effect and its rows.
pub(crate) fn effects_over(
    draws: &[f64],
    [p, dim, length]: [usize; 3],
    levels: &[(usize, usize)],
    at: &EffectsAt<'_>,
) -> Result<(Vec<Effect>, Vec<f64>), Error> {
    let mut order: Vec<&[f64]> = draws.chunks_exact(dim).collect();
    order.sort_by(|a, b| a[p].total_cmp(&b[p]));
    let n = DRAWS.min(order.len());
    let few: Vec<&[f64]> = (0..n).map(|k| order[(2 * k + 1) * order.len() / (2 * n)]).collect();
    let mut normals = vec![0.0; n * length];
    Random::new(0, Purpose::Sample, 0).normals(EFFECTS, 0, length, &mut normals);
    let mut found: Vec<Result<[Vec<f64>; 3], Error>> = Vec::with_capacity(n);
    found.resize_with(n, || Ok(Default::default()));
    parallel::for_each_piece(&mut found, 1, 1, &|k, part| {
        part[0] = at(few[k], &normals[k * length..][..length]);
    });
    let found = found.into_iter().collect::<Result<Vec<_>, _>>()?;
    let (count, all) = (n as f64, levels.len());
    let beta: Vec<f64> = (0..p).map(|c| few.iter().map(|z| z[c]).sum::<f64>() / count).collect();
    let average: Vec<f64> = (0..all).map(|e| found.iter().map(|f| f[0][e]).sum::<f64>() / count).collect();
    let mut effects = Vec::with_capacity(all);
    for (e, (group, rows)) in levels.iter().enumerate() {
        let law = Law(found.iter().map(|f| [1.0 / count, f[0][e], f[1][e].max(0.0).sqrt()]).collect());
        let (mean, sd) = law.moments();
        let quantiles = match all <= MIXED {
            true => [0.05, 0.5, 0.95].map(|q| law.quantile(q)),
            false => [-1.0, 0.0, 1.0].map(|z| mean + z * certus::gaussian::NORMAL_95 * sd),
        };
        let with = |c: usize| {
            let each = few.iter().zip(&found);
            each.map(|(z, f)| (z[c] - beta[c]) * (f[0][e] - mean)).sum::<f64>() / count
        };
        let covariance = (0..p).map(with).collect();
        effects.push(Effect { group: *group, rows: *rows, mean, sd, quantiles, covariance });
    }
    let mut deviations = Vec::with_capacity(n * (p + all));
    for (z, f) in few.iter().zip(&found) {
        deviations.extend((0..p).map(|c| z[c] - beta[c]));
        deviations.extend((0..all).map(|e| f[0][e] + f[2][e] - average[e]));
    }
    Ok((effects, deviations))
}
