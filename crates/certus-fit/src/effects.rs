//! What a problem says of its groups: how many rows each has, and where their coefficients are.

use certus::Family;
use certus_models::auto::Model;

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
                "the {} coefficients of groups are in groups.parquet (with --out); the table lists those shared by \
                    all rows",
                self.meaning.dim() - self.prepared.encoding.coefficients().len()
            ));
        }
        notes
    }
}
