//! Predictions by draws of coefficients and log scales: for the groups of the fit, for a new group, and averaged over
//! the population of groups.

use certus::random::{Purpose, Random};

use super::groups::Groups;
use super::{PredictedRow, Prediction, Predictions, Responses, each_row, mean_and_sd};
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

/// Linear predictors of rows of known groups, at draws of coefficients and log scales.
pub(crate) struct KnownGroups<'a> {
    unknown_scales: &'a UnknownScales,
    effects: Option<&'a Effects>,
    points: Vec<&'a [f64]>,
    moments: Moments,
    normals: Vec<f64>,
    /// Of the levels of the one effect, where there are no draws of effects.
    levels: Vec<OfLevel>,
}

/// The effect of a group given the coefficients: m + bᵀ(β − β̄) + s u, u standard normal.
struct OfLevel {
    mean: f64,
    slope: Vec<f64>,
    sd: f64,
}

impl<'a> KnownGroups<'a> {
    /// Of `dim` coefficients.
    pub(crate) fn new(
        dim: usize,
        unknown_scales: &'a UnknownScales,
        effects: Option<&'a Effects>,
        draws: &'a PosteriorDraws,
    ) -> Self {
        let points: Vec<&[f64]> = draws.each().collect();
        let moments = Moments::of(&points, dim);
        let mut normals = vec![0.0; points.len()];
        Random::new(0, Purpose::Sample, 0).normals(STREAM, 0, 1, &mut normals);
        let levels = match effects.filter(|e| e.deviations.is_empty()) {
            Some(effects) => (0..effects.mean.len()).map(|g| OfLevel::new(effects, g, &moments)).collect(),
            None => Vec::new(),
        };
        Self { unknown_scales, effects, points, moments, normals, levels }
    }

    /// At every draw.
    pub(crate) fn linear(&self, row: &PredictedRow<'_>) -> Vec<f64> {
        let (along, at) = (|z: &[f64]| row.along(z), row.levels);
        let d = self.moments.mean.len();
        let columns = row.columns(self.unknown_scales);
        let (Some(&column), Some(effects)) = (columns.first(), self.effects) else {
            return self.points.iter().map(|z| along(z)).collect();
        };
        if effects.deviations.is_empty() {
            let own = &self.levels[at[0]];
            let effect = |z: &[f64], u: f64| {
                let apart = z.iter().zip(&self.moments.mean).map(|(z, m)| z - m);
                own.mean + own.slope.iter().zip(apart).map(|(b, x)| b * x).sum::<f64>() + own.sd * u
            };
            let each = self.points.iter().zip(&self.normals);
            return each.map(|(z, u)| along(z) + column * effect(&z[..d], *u)).collect();
        }
        let center = along(&self.moments.mean);
        let each = self.unknown_scales.effects.iter().zip(&columns);
        let at: Vec<(usize, f64)> = each.map(|(e, z)| (e.first + at[e.term], *z)).collect();
        let mean = center + at.iter().map(|(k, z)| z * effects.mean[*k]).sum::<f64>();
        let one = |apart: &[f64]| {
            let own: f64 = row.terms.iter().map(|(j, a)| a * apart[*j]).sum();
            mean + own + at.iter().map(|(k, z)| z * apart[d + k]).sum::<f64>()
        };
        effects.deviations.chunks_exact(d + effects.mean.len()).map(one).collect()
    }
}

impl OfLevel {
    /// The regression of a group's effect on the coefficients, Cov(v, β)Cov(β)⁻¹, and what it leaves.
    fn new(effects: &Effects, level: usize, moments: &Moments) -> Self {
        let d = moments.mean.len();
        let covariance = &effects.covariance[level * d..][..d];
        let slope = moments.solved(covariance.to_vec());
        let explained: f64 = slope.iter().zip(covariance).map(|(b, c)| b * c).sum();
        let sd = (effects.variance[level] - explained).max(0.0).sqrt();
        Self { mean: effects.mean[level], slope, sd }
    }
}

impl ByDraws<'_> {
    pub(super) fn predict(&self, source: &dyn Source, storage: &Storage) -> Result<Predictions, Error> {
        let d = self.meaning.dim();
        let known = self.groups == Groups::Known;
        let effects = self.effects.filter(|_| known);
        let groups = KnownGroups::new(d, self.unknown_scales, effects, self.draws);
        let points = &groups.points;
        let mut out = Vec::new();
        let gaps = each_row(self.meaning, source, storage, |row, trials| {
            let of_draws = |t| Prediction::of_draws(self.responses, trials, t);
            if known || self.unknown_scales.effects.is_empty() {
                out.push(of_draws(groups.linear(row)));
                return;
            }
            let along = |z: &[f64]| row.along(z);
            let columns = row.columns(self.unknown_scales);
            let spread = |z: &[f64]| {
                self.unknown_scales.sd_of_new(&self.unknown_scales.of_coordinates(&z[d..]), &columns)
            };
            // an observation is one of a new group
            let each = points.iter().zip(&groups.normals);
            let new: Vec<f64> = each.map(|(z, u)| along(z) + spread(z) * u).collect();
            if self.groups == Groups::New {
                out.push(of_draws(new));
                return;
            }
            let few = points.len().div_ceil(POPULATION).max(1);
            let expected = |z: &&[f64]| self.responses.link.expected_response(along(z), spread(z));
            let mut responses: Vec<f64> = points.iter().step_by(few).map(expected).collect();
            responses.sort_by(f64::total_cmp);
            let linear: Vec<f64> = points.iter().map(|z| along(z)).collect();
            let at = |p| quantile(&responses, p);
            let observed = self.responses.of_draws(trials, &new);
            let moments = (mean_and_sd(&responses), mean_and_sd(&linear));
            out.push(Prediction {
                observed,
                ..Prediction::of(self.responses, trials, moments.0, at, moments.1)
            });
        })?;
        Ok(Predictions::new(self.responses, out, gaps))
    }
}
