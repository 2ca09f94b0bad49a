//! The linear predictors of rows as functions of the printed parameters, for programs that differentiate them.

use certus_data::{Source, Storage};
use certus_likelihood::Link;

use crate::error::Error;
use crate::fit::Fit;
use crate::predict::each_row;
use crate::refusal::RequestError;

/// The linear predictors t = offset + A z of rows, z the latents, and the coefficients β = Q z.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearRows {
    /// A, row after row.
    pub rows: Vec<f64>,
    /// Q, coefficient after coefficient, in the order of the printed parameters, which may have scales after them.
    pub coefficients: Vec<f64>,
    /// The offset of every row.
    pub offsets: Vec<f64>,
    /// Number of latents.
    pub latents: usize,
}

impl Fit {
    /// The linear predictors of the rows of a source, in its order. Where an sd between groups was not given they are
    /// those of the average group, whose expected response is the average over the population only for the identity.
    pub fn linear_rows(&self, source: &dyn Source) -> Result<LinearRows, Error> {
        let meaning = self.meaning()?;
        let groups = self.mixture.as_ref().is_some_and(|(_, scales)| !scales.effects.is_empty());
        if groups && self.link()? != Link::Identity {
            return Err(RequestError::OfPopulation.into());
        }
        let latents = meaning.dim();
        let average = groups.then(|| meaning.without_groups());
        let meaning = average.as_ref().unwrap_or(meaning);
        let (mut rows, mut offsets) = (Vec::new(), Vec::new());
        let gaps = each_row(meaning, source, &Storage::default(), |row, _| {
            offsets.push(row.offset);
            let first = rows.len();
            rows.resize(first + latents, 0.0);
            row.terms.iter().for_each(|(j, a)| rows[first + j] += a);
        })?;
        gaps.refuse()?;
        let mut coefficients = vec![0.0; self.quantities.len() * latents];
        for (row, quantity) in coefficients.chunks_exact_mut(latents.max(1)).zip(&self.quantities) {
            quantity.terms.iter().for_each(|(j, a)| row[*j] += a);
        }
        Ok(LinearRows { rows, coefficients, offsets, latents })
    }
}
