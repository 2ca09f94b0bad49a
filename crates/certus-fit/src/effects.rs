//! What a problem says of its groups: how many rows each has, and where their coefficients are; and what a fit says of
//! these.

use certus::Family;
use certus_models::auto::Model;

use crate::error::Error;
use crate::fit::Fit;
use crate::groups::{EffectSource, own_coefficients};
use crate::problem::Problem;

impl Problem {
    /// Rows of every level of every group term.
    pub fn rows_by_level(&self) -> Vec<Vec<i64>> {
        let whole = |rows: Vec<usize>| rows.into_iter().map(|n| n as i64).collect();
        self.prepared.rows_by_level().into_iter().map(whole).collect()
    }

    /// What the record says about a table, and about the factor.
    pub(crate) fn structure_notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(Family::Pattern(tree)) = self.model().map(Model::family) {
            notes.push(format!(
                "factor: {} blocks in {} levels, {} numbers; this pattern includes the best of all Gaussians, so \
                    nothing is lost",
                tree.nodes().len(),
                tree.levels(),
                tree.stored()
            ));
        }
        if self.meaning.has_table() {
            notes.push(format!(
                "the {} coefficients of groups are in groups.parquet of a fit that is kept; the table lists those \
                    shared by all rows",
                self.meaning.dim() - self.prepared.encoding.coefficients().len()
            ));
        }
        notes
    }
}

impl Fit {
    /// Mean and sd of every group's own coefficient, effect after effect, where groups were integrated out.
    pub fn own_coefficients(&self) -> Result<Vec<[f64; 2]>, Error> {
        let (Some((mixture, unknown_scales)), Some(meaning)) = (&self.mixture, &self.meaning) else {
            return Ok(Vec::new());
        };
        let Some(effects) = &mixture.effects else { return Ok(Vec::new()) };
        let gaussian = mixture.gaussian().map_err(certus_models::Error::from)?;
        let source =
            self.posterior_draws.as_ref().map_or(EffectSource::Gaussian(&gaussian), EffectSource::Draws);
        Ok(own_coefficients(meaning, &unknown_scales.effects, effects, &source))
    }
}
