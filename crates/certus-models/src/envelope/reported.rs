//! What the statements of an envelope are about: linear combinations of the latents, centred at q's mean and in units
//! of q's sd of each.

use certus::Gaussian;
use certus::combination::Combinations;

use crate::error::{Error, InvalidModel};

/// Combinations aᵀz with their means and sds under q.
pub(super) struct Reported<'a> {
    terms: Vec<Vec<(usize, f64)>>,
    moments: Vec<(f64, f64)>,
    q: &'a Gaussian,
}

impl<'a> Reported<'a> {
    /// The latents themselves.
    pub(super) fn latents(q: &'a Gaussian) -> Result<Self, Error> {
        Self::of(q, (0..q.dim()).map(|i| vec![(i, 1.0)]).collect())
    }

    /// Of combinations, as (latent, weight); refused where q knows no sd of one.
    pub(super) fn of(q: &'a Gaussian, terms: Vec<Vec<(usize, f64)>>) -> Result<Self, Error> {
        let d = q.dim();
        if let Some((i, _)) = terms.iter().flatten().find(|(i, _)| *i >= d) {
            let what = "a combination";
            return Err(InvalidModel::Index { what, index: *i, coefficients: d }.into());
        }
        let mut combinations = Combinations::new(q);
        let moments: Vec<(f64, f64)> = terms.iter().map(|terms| combinations.moments(terms)).collect();
        if let Some(k) = moments.iter().position(|(m, sd)| !(m.is_finite() && *sd > 0.0 && sd.is_finite())) {
            let (mean, sd) = moments[k];
            return Err(InvalidModel::Combination { combination: k, mean, sd }.into());
        }
        Ok(Self { terms, moments, q })
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.terms.len()
    }

    /// Mean and sd of each under q.
    pub(super) fn moments(&self) -> &[(f64, f64)] {
        &self.moments
    }

    /// y = aᵀ(z − E_q z)/sd_q of each at z.
    pub(super) fn at(&self, z: &[f64]) -> impl Iterator<Item = f64> {
        let mean = self.q.mean();
        self.terms
            .iter()
            .zip(&self.moments)
            .map(move |(terms, (_, sd))| terms.iter().map(|&(i, a)| a * (z[i] - mean[i])).sum::<f64>() / sd)
    }

    /// For a frame z = m + Cu: (shift, reach) of each, so that y lies within reach·|u| of shift.
    pub(super) fn in_frame(&self, frame: &Gaussian) -> Vec<(f64, f64)> {
        let mut combinations = Combinations::new(frame);
        let shifts = self.at(frame.mean());
        let each = self.terms.iter().zip(&self.moments).zip(shifts);
        each.map(|((terms, (_, sd)), shift)| (shift, combinations.moments(terms).1 / sd)).collect()
    }
}
