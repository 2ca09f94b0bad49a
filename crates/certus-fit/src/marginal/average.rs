//! Expected responses, averaged over rows, at every draw of the parameters.

use std::collections::HashMap;

use certus::linalg::add_scaled;
use certus_data::{Storage, Table};
use certus_likelihood::Link;

use crate::coefficient_map::CoefficientMap;
use crate::error::Error;
use crate::fit::Fit;
use crate::predict::{PredictedRow, each_row};
use crate::variance::names::UnknownScales;

/// Draws, at most and at least.
const DRAWS: [usize; 2] = [4000, 400];
/// Evaluations of a linear predictor's term, at most, where that leaves enough draws.
const WORK: usize = 1_000_000_000;
/// What an average over the population of groups costs, in such.
const POPULATION: usize = 80;
/// The seed of draws of a Gaussian or a mixture; a fit that keeps draws uses its own.
const SEED: u64 = 0;

/// A linear function of the latents: a constant, and (latent, weight).
pub(super) type Linear = (f64, Vec<(usize, f64)>);

/// Draws of the parameters, and what a row makes of them.
pub(super) struct Average<'a> {
    link: Link,
    meaning: CoefficientMap,
    /// Latent after latent, their values at the draws.
    latents: Vec<Vec<f64>>,
    /// The scales of groups that are averaged over, draw after draw.
    spread: Option<(&'a UnknownScales, Vec<Vec<f64>>)>,
    /// True if the last of the draws is the estimate itself.
    estimated: bool,
}

impl<'a> Average<'a> {
    /// For averages over so many rows, of expected responses or of linear predictors.
    pub(super) fn new(fit: &'a Fit, rows: usize, linear_predictor: bool) -> Result<Self, Error> {
        let terms = fit.meaning()?.encoding.features.len() + 1;
        let population = !linear_predictor && Self::costs_a_population(fit)?;
        let cost = rows.max(1) * (terms + if population { POPULATION } else { 4 });
        Self::with_draws(fit, (WORK / cost).clamp(DRAWS[1], DRAWS[0]), linear_predictor)
    }

    /// True if a row is averaged over the population of groups, which takes long.
    pub(super) fn costs_a_population(fit: &Fit) -> Result<bool, Error> {
        let groups = fit.mixture.as_ref().filter(|(_, scales)| !scales.effects.is_empty());
        Ok(groups.is_some() && fit.link()? != Link::Identity)
    }

    /// Of so many draws.
    pub(super) fn with_draws(fit: &'a Fit, count: usize, linear_predictor: bool) -> Result<Self, Error> {
        let meaning = fit.meaning()?;
        let link = if linear_predictor { Link::Identity } else { fit.link()? };
        let dim = meaning.dim();
        let groups = fit.mixture.as_ref().filter(|(_, scales)| !scales.effects.is_empty());
        // responses are averages over the population of groups
        let meaning = if groups.is_some() { meaning.without_groups() } else { meaning.clone() };
        let population = groups.is_some() && link != Link::Identity;
        let mut points: Vec<(Vec<f64>, Vec<f64>)> = Vec::new();
        let mut estimated = false;
        match (&fit.mixture, &fit.posterior_draws) {
            (scales, Some(draws)) => {
                let own = |z: &[f64]| scales.as_ref().map(|(_, scales)| scales.of_coordinates(&z[dim..]));
                points.extend(
                    draws.each().take(count).map(|z| (z[..dim].to_vec(), own(z).unwrap_or_default())),
                );
            }
            (Some((mixture, scales)), None) => {
                mixture.each_draw(scales, count, SEED, |z, s| points.push((z.to_vec(), s.to_vec())));
                estimated = mixture.is_estimated();
                if estimated {
                    points.push((mixture.nodes[0].mean.clone(), mixture.scales[0].clone()));
                }
            }
            (None, None) => {
                let latents = fit.gaussian.sample(count, SEED);
                points.extend(latents.chunks_exact(dim).map(|z| (z.to_vec(), Vec::new())));
            }
        }
        let latents = (0..dim).map(|j| points.iter().map(|(z, _)| z[j]).collect()).collect();
        let scales = || points.into_iter().map(|(_, scales)| scales).collect();
        let spread = groups.filter(|_| population).map(|(_, unknown)| (unknown, scales()));
        Ok(Self { link, meaning, latents, spread, estimated })
    }

    /// The same at other points, without groups that are averaged over.
    pub(super) fn at(&self, points: &[f64]) -> Self {
        let dim = self.latents.len();
        let latent = |j: usize| points.iter().skip(j).step_by(dim).copied().collect();
        Self {
            link: self.link,
            meaning: self.meaning.clone(),
            latents: (0..dim).map(latent).collect(),
            spread: None,
            estimated: false,
        }
    }

    /// What the responses are of the linear predictor.
    pub(super) fn link(&self) -> Link {
        self.link
    }

    /// The average of the rows' linear predictors: its offset, and the weight of every latent.
    pub(super) fn linear_mean(&self, table: &Table, weights: &[f64]) -> Result<(f64, Vec<f64>), Error> {
        let total: f64 = weights.iter().sum();
        let (mut offset, mut sums, mut row) = (0.0, vec![0.0; self.latents.len()], 0);
        each_row(&self.meaning, table, &Storage::default(), |own, _| {
            let weight = weights[row] / total;
            row += 1;
            offset += weight * own.offset;
            own.terms.iter().for_each(|(j, a)| sums[*j] += weight * a);
        })?;
        Ok((offset, sums))
    }

    /// Every row's linear predictor: its offset, and (latent, weight).
    pub(super) fn linear(&self, table: &Table) -> Result<Vec<Linear>, Error> {
        let mut out = Vec::with_capacity(table.rows());
        each_row(&self.meaning, table, &Storage::default(), |own, _| {
            out.push((own.offset, own.terms.to_vec()));
        })?;
        Ok(out)
    }

    /// Terms of a linear predictor.
    pub(super) fn terms(&self) -> usize {
        self.meaning.encoding.features.len() + 1
    }

    /// Draws of the parameters.
    pub(super) fn draws(&self) -> usize {
        self.latents.first().map_or(0, Vec::len) - usize::from(self.estimated)
    }

    /// The estimate itself, apart from the draws, where there is one.
    pub(super) fn split<'b>(&self, values: &'b [f64]) -> (&'b [f64], Option<f64>) {
        let (draws, last) = values.split_at(self.draws());
        (draws, last.first().copied())
    }

    /// The average expected response of the rows of a table, of one trial each, at every draw.
    pub(super) fn of(&self, table: &Table, weights: &[f64]) -> Result<Vec<f64>, Error> {
        let total: f64 = weights.iter().sum();
        let count = self.latents.first().map_or(0, Vec::len);
        let (mut sum, mut t, mut row) = (vec![0.0; count], vec![0.0; count], 0);
        let mut alike: HashMap<Vec<u64>, f64> = HashMap::new();
        let mut order: Vec<Alike> = Vec::new();
        each_row(&self.meaning, table, &Storage::default(), |own, _| {
            let weight = weights[row] / total;
            row += 1;
            if self.spread.is_none() {
                self.predict(own, &mut t);
                add_scaled(&mut sum, weight, &t);
                return;
            }
            // an average over a population takes long: rows that are alike have one
            *alike.entry(key(own)).or_insert_with(|| {
                let (terms, only) = (own.terms.to_vec(), own.only.to_vec());
                order.push(Alike { terms, only, offset: own.offset });
                0.0
            }) += weight;
        })?;
        for Alike { terms, only, offset } in &order {
            let own = PredictedRow { terms, only, offset: *offset, levels: &[] };
            self.predict(&own, &mut t);
            add_scaled(&mut sum, alike[&key(&own)], &t);
        }
        Ok(sum)
    }

    /// The expected response of a row at every draw.
    fn predict(&self, row: &PredictedRow<'_>, t: &mut [f64]) {
        t.fill(row.offset);
        row.terms.iter().for_each(|(j, a)| add_scaled(t, *a, &self.latents[*j]));
        match &self.spread {
            Some((unknown, scales)) => {
                let z = row.columns(unknown);
                for (t, scales) in t.iter_mut().zip(scales) {
                    *t = self.link.expected_response(*t, unknown.sd_of_new(scales, &z));
                }
            }
            None => self.link.respond(t),
        }
    }
}

/// A row of those that are alike, kept until all of them are counted.
struct Alike {
    terms: Vec<(usize, f64)>,
    only: Vec<f64>,
    offset: f64,
}

/// A row as the key of a map: its terms, what varies and the offset to the bit.
fn key(row: &PredictedRow<'_>) -> Vec<u64> {
    let terms = row.terms.iter().flat_map(|(j, a)| [*j as u64, a.to_bits()]);
    let others = row.only.iter().chain([&row.offset]).map(|x| x.to_bits());
    terms.chain(others).collect()
}
