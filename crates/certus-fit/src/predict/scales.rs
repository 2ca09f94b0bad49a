//! Predictions by draws of coefficients and log scales: for the groups of the fit, for a new group, and averaged over
//! the population of groups.

use certus::random::{Purpose, Random};

use super::groups::Groups;
use super::{Prediction, Predictions, Responses, each_row, mean_and_sd};
use crate::coefficient_map::CoefficientMap;
use crate::error::Error;
use crate::posterior_draws::PosteriorDraws;
use crate::quantile::quantile;
use crate::variance::corrected::Moments;
use crate::variance::mixture::Effects;
use crate::variance::names::UnknownScales;
use certus_data::leaves::Storage;
use certus_data::table::Source;

/// The stream of the normal numbers, one for every draw ([`Purpose`] lists them all).
const STREAM: u64 = 1 << 41;
/// Draws that an average over groups is taken at, at most.
const POPULATION: usize = 1000;

/// What predictions by draws need.
pub(super) struct ByDraws<'a> {
    pub(super) responses: &'a Responses,
    pub(super) meaning: &'a CoefficientMap,
    pub(super) unknown_scales: &'a UnknownScales,
    pub(super) effects: Option<&'a Effects>,
    pub(super) draws: &'a PosteriorDraws,
    pub(super) groups: Groups,
}

/// The effect of a group given the coefficients: m + bᵀ(β − β̄) + s u, u standard normal.
struct OfLevel {
    mean: f64,
    slope: Vec<f64>,
    sd: f64,
}

impl ByDraws<'_> {
    pub(super) fn predict(&self, source: &dyn Source, storage: &Storage) -> Result<Predictions, Error> {
        let d = self.meaning.dim();
        let points: Vec<&[f64]> = self.draws.each().collect();
        let moments = Moments::of(&points, d);
        let mut normals = vec![0.0; points.len()];
        Random::new(0, Purpose::Sample, 0).normals(STREAM, 0, 1, &mut normals);
        let mut levels: Vec<Option<OfLevel>> = Vec::new();
        let mut out = Vec::new();
        let gaps = each_row(self.meaning, source, storage, |terms, offset, trials, at| {
            let along = |z: &[f64]| offset + terms.iter().map(|(j, a)| a * z[*j]).sum::<f64>();
            let columns: Vec<f64> = self.unknown_scales.effects.iter().map(|e| e.column(terms)).collect();
            let Some(&column) = columns.first() else {
                out.push(Prediction::of_draws(
                    self.responses,
                    trials,
                    points.iter().map(|z| along(z)).collect(),
                ));
                return;
            };
            let spread = |z: &[f64]| {
                self.unknown_scales.sd_of_new(&self.unknown_scales.of_coordinates(&z[d..]), &columns)
            };
            if let Some(effects) = self.effects.filter(|e| !e.deviations.is_empty())
                && self.groups == Groups::Known
            {
                let center = along(&moments.mean);
                let each = self.unknown_scales.effects.iter().zip(&columns);
                let at: Vec<(usize, f64)> = each.map(|(e, z)| (e.first + at[e.term], *z)).collect();
                let mean = center + at.iter().map(|(k, z)| z * effects.mean[*k]).sum::<f64>();
                let one = |apart: &[f64]| {
                    let own: f64 = terms.iter().map(|(j, a)| a * apart[*j]).sum();
                    mean + own + at.iter().map(|(k, z)| z * apart[d + k]).sum::<f64>()
                };
                let t = effects.deviations.chunks_exact(d + effects.mean.len()).map(one).collect();
                out.push(Prediction::of_draws(self.responses, trials, t));
                return;
            }
            let with_normals = || points.iter().zip(&normals);
            out.push(match self.groups {
                Groups::Known => {
                    if levels.len() <= at[0] {
                        levels.resize_with(at[0] + 1, || None);
                    }
                    let own = levels[at[0]].get_or_insert_with(|| self.of_level(at[0], &moments));
                    let effect = |z: &[f64], u: f64| {
                        let apart = z.iter().zip(&moments.mean).map(|(z, m)| z - m);
                        own.mean + own.slope.iter().zip(apart).map(|(b, x)| b * x).sum::<f64>() + own.sd * u
                    };
                    let t = with_normals().map(|(z, u)| along(z) + column * effect(&z[..d], *u));
                    Prediction::of_draws(self.responses, trials, t.collect())
                }
                Groups::New => {
                    let t = with_normals().map(|(z, u)| along(z) + spread(z) * u);
                    Prediction::of_draws(self.responses, trials, t.collect())
                }
                Groups::Population => {
                    let few = points.len().div_ceil(POPULATION).max(1);
                    let expected = |z: &&[f64]| self.responses.link.expected_response(along(z), spread(z));
                    let mut responses: Vec<f64> = points.iter().step_by(few).map(expected).collect();
                    responses.sort_by(f64::total_cmp);
                    let linear: Vec<f64> = points.iter().map(|z| along(z)).collect();
                    let at = |p| quantile(&responses, p);
                    // an observation is one of a new group
                    let new: Vec<f64> = with_normals().map(|(z, u)| along(z) + spread(z) * u).collect();
                    let observed = self.responses.of_draws(trials, &new);
                    let moments = (mean_and_sd(&responses), mean_and_sd(&linear));
                    Prediction {
                        observed,
                        ..Prediction::of(self.responses, trials, moments.0, at, moments.1)
                    }
                }
            });
        })?;
        Ok(Predictions::new(self.responses, out, gaps))
    }

    /// The regression of a group's effect on the coefficients, Cov(v, β)Cov(β)⁻¹, and what it leaves.
    fn of_level(&self, level: usize, moments: &Moments) -> OfLevel {
        let Some(effects) = self.effects else {
            return OfLevel { mean: f64::NAN, slope: Vec::new(), sd: 0.0 };
        };
        let d = moments.mean.len();
        let covariance = &effects.covariance[level * d..][..d];
        let slope = moments.solved(covariance.to_vec());
        let explained: f64 = slope.iter().zip(covariance).map(|(b, c)| b * c).sum();
        let sd = (effects.variance[level] - explained).max(0.0).sqrt();
        OfLevel { mean: effects.mean[level], slope, sd }
    }
}
