//! The coefficients of groups as a table, where they are too many for a list: a row per group and coefficient.

use certus::certificate::Gap;
use certus::combination::Combinations;
use certus::{Family, Gaussian};
use certus_models::auto::Model;

use crate::meaning::Meaning;
use crate::problem::Problem;

/// Columns of text as names and the number of the name in every row.
pub struct Labels {
    /// The names.
    pub names: Vec<String>,
    /// Which of them.
    pub cells: Vec<u32>,
}

/// The table, on the scale of the data.
pub struct GroupTable {
    /// The group term.
    pub term: Labels,
    /// Its level.
    pub group: Labels,
    /// The coefficient of the design.
    pub coefficient: Labels,
    /// Mean and sd of the group's own coefficient, then of what it differs by from the outer one.
    pub numbers: [Vec<f64>; 4],
}

impl GroupTable {
    /// The names of [`GroupTable::numbers`].
    pub const NUMBERS: [&str; 4] = ["mean", "sd", "deviation", "deviation_sd"];

    /// `None` where the coefficients are listed one by one.
    pub fn new(meaning: &Meaning, w: &Gaussian) -> Option<Self> {
        if !meaning.has_table() {
            return None;
        }
        let encoding = &meaning.encoding;
        // the names of all levels, one term after the other
        let (mut names, mut first) = (Vec::new(), Vec::new());
        for group in &encoding.groups {
            first.push(names.len());
            names.extend((0..group.levels.len()).map(|level| group.level_name(level)));
        }
        let labels = |names: Vec<String>| Labels { names, cells: Vec::with_capacity(meaning.dim()) };
        let mut table = Self {
            term: labels(encoding.groups.iter().map(|g| g.name.clone()).collect()),
            group: labels(names),
            coefficient: labels(encoding.coefficients()),
            numbers: std::array::from_fn(|_| Vec::with_capacity(meaning.dim())),
        };
        let mut combinations = Combinations::new(w);
        meaning.for_each_effect(|place, own, deviation| {
            let term = place.group.unwrap_or_default();
            table.term.cells.push(term as u32);
            table.group.cells.push((first[term] + place.level) as u32);
            table.coefficient.cells.push(place.feature as u32);
            let ((mean, sd), (apart, apart_sd)) =
                (combinations.moments(own), combinations.moments(deviation));
            table.numbers.iter_mut().zip([mean, sd, apart, apart_sd]).for_each(|(to, x)| to.push(x));
        });
        Some(table)
    }

    /// The certificate of every mean and sd of the table, in words: what holds in the frame of q holds of every combination of latents.
    pub fn stated(gap: &Gap) -> String {
        let facts = gap.facts();
        match facts.errors() {
            Some(errors) => format!("{}: {errors}", facts.level_words()),
            None => "nothing is proved of these means and sds".into(),
        }
    }
}

impl Problem {
    /// What the record says of a table, and of the factor.
    pub(crate) fn structure_notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(Family::Pattern(tree)) = self.model().map(Model::family) {
            notes.push(format!(
                "factor: {} blocks in {} levels, {} numbers; this pattern holds the best of all Gaussians, so it loses nothing",
                tree.nodes().len(),
                tree.levels(),
                tree.stored()
            ));
        }
        if self.meaning.has_table() {
            notes.push(format!(
                "the {} coefficients of groups are in groups.parquet (with --out); the list has those of all rows",
                self.meaning.dim() - self.prepared.encoding.coefficients().len()
            ));
        }
        notes
    }
}
