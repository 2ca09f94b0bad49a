//! What one of a feature is to its prior (docs/priors.md, P1): an sd of a number, the distance between the values of a
//! column that has two, 1 for a level; the product over the parts of an interaction.

use crate::encoding::{Coding, ColumnEncoding, Part};

/// What is known of a column of numbers, one after the other in the order of the rows, so that every process finds the
/// same.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread {
    count: f64,
    mean: f64,
    /// Σ (x − mean)², by Welford's update.
    squares: f64,
    /// The first two values that differ.
    values: [Option<f64>; 2],
    /// True if there is a third.
    more: bool,
}

impl Spread {
    /// Of all of a column.
    pub(crate) fn of(column: &[f64]) -> Self {
        let mut out = Self::default();
        column.iter().for_each(|x| out.push(*x));
        out
    }

    pub(crate) fn push(&mut self, x: f64) {
        self.count += 1.0;
        let away = x - self.mean;
        self.mean += away / self.count;
        self.squares += away * (x - self.mean);
        match self.values {
            [None, _] => self.values[0] = Some(x),
            [Some(a), None] if a != x => self.values[1] = Some(x),
            [Some(a), Some(b)] if a != x && b != x => self.more = true,
            _ => (),
        }
    }

    /// P1. A constant c has the unit |c|, so that a product with it has that of its other parts on the user's scale.
    pub(crate) fn unit(&self) -> f64 {
        let sd = (self.squares / self.count.max(1.0)).sqrt();
        match self.values {
            [Some(a), Some(b)] if !self.more => (a - b).abs(),
            [Some(_), Some(_)] if sd > 1e-12 * self.mean.abs() => sd,
            _ if self.mean != 0.0 => self.mean.abs(),
            _ => 1.0,
        }
    }
}

/// What is known of numbers that are parts of interactions, and of what varies by group without being a feature.
pub(crate) struct Spreads {
    pub(crate) parts: Vec<(Part, Spread)>,
    pub(crate) effects: Vec<Spread>,
}

/// Numbers that are parts of interactions.
pub(crate) fn parts_of_products<'a>(features: impl Iterator<Item = &'a [Part]>) -> Vec<Part> {
    let products = features.filter(|parts| parts.len() > 1);
    let mut numbers: Vec<Part> = products.flatten().filter(|p| p.level.is_none()).copied().collect();
    numbers.sort_unstable_by_key(|p| (p.column, p.function));
    numbers.dedup();
    numbers
}

/// The unit of the product of `parts`; `alone` is that of a column of numbers which is a feature by itself.
pub(crate) fn unit_of(parts: &[Part], columns: &[Coding], alone: f64, spreads: &[(Part, Spread)]) -> f64 {
    let one = |part: &Part| match (&columns[part.column].how, part.level) {
        (ColumnEncoding::Levels { .. }, _) | (_, Some(_)) => 1.0,
        _ if parts.len() == 1 => alone,
        _ => spreads.iter().find(|(own, _)| own == part).map_or(1.0, |(_, spread)| spread.unit()),
    };
    parts.iter().map(one).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_columns() {
        let unit = |values: &[f64]| {
            let mut spread = Spread::default();
            values.iter().for_each(|x| spread.push(*x));
            spread.unit()
        };
        assert_eq!(unit(&[0.0, 1.0, 1.0, 0.0]), 1.0);
        assert_eq!(unit(&[20.0, 10.0, 10.0]), 10.0);
        assert_eq!(unit(&[-3.0, -3.0]), 3.0);
        assert_eq!(unit(&[0.0]), 1.0);
        let (n, shift) = (7.0, 1e6);
        let values: Vec<f64> = (0..7).map(|k| shift + f64::from(k)).collect();
        assert!((unit(&values) - ((n * n - 1.0) / 12.0f64).sqrt()).abs() < 1e-9);
    }
}
