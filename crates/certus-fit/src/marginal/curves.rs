//! Expected responses along each predictor, averaged over rows of the fit: adjusted predictions, for pictures.

use certus_data::{Column, ColumnEncoding, Encoding, Table};
use certus_likelihood::Link;

use super::average::Average;
use super::{INTERVAL, answer, of_groups, set};
use crate::checks::{Curve, Curves, Places};
use crate::error::Error;
use crate::fit::Fit;
use crate::quantile::quantile;

/// Predictors that have a curve.
const DRAWN: usize = 6;
/// Places of a column of numbers.
const PLACES: usize = 15;
/// Levels of a column.
const LEVELS: usize = 12;
/// Different numbers up to which a column has a place for each.
const FEW: usize = 3;
/// The part of the rows at either end that a curve leaves out.
const TAIL: f64 = 0.01;
/// Rows that are averaged over, about; where each is an average over a population of groups, which takes long.
const ROWS: [usize; 2] = [500, 100];
/// Draws, at most and at least.
const DRAWS: [usize; 2] = [4000, 200];
/// Expected responses of all curves together; an average over a population costs some eighty.
const WORK: [usize; 2] = [20_000_000, 400_000];

impl Fit {
    /// The curves of the first predictors over some rows of a table.
    pub fn curves(&self, table: &Table) -> Result<Curves, Error> {
        // that of a logarithm has a closed form
        let kind = usize::from(Average::costs_a_population(self)? && self.link()? != Link::Log);
        let (table, weights) = self.rows_of(table, table.rows().div_ceil(ROWS[kind]).max(1))?;
        let encoding = &self.meaning()?.encoding;
        let mut columns: Vec<(String, Places)> = Vec::new();
        let (mut seen, mut left) = (Vec::new(), 0);
        for name in predictors(encoding) {
            if seen.contains(&name) {
                continue;
            }
            seen.push(name);
            match places(encoding, &table, name) {
                Some(places) if columns.len() < DRAWN => columns.push((name.into(), places)),
                _ => left += 1,
            }
        }
        let count: usize = columns.iter().map(|(_, places)| places.len()).sum();
        let draws = (WORK[kind] / (table.rows() * count.max(1))).clamp(DRAWS[1], DRAWS[0]);
        let average = Average::with_draws(self, draws, false)?;
        let mut list = Vec::new();
        for (column, places) in columns {
            let mut points = Vec::new();
            for value in places.written() {
                let values = average.of(&set(&table, encoding, &column, &value)?, &weights)?;
                let own = answer(String::new(), value, &average, &values, None, INTERVAL);
                points.push([own.estimate, own.conf_low, own.conf_high]);
            }
            list.push(Curve { column, places, points });
        }
        let population = self.mixture.as_ref().is_some_and(|(_, scales)| !scales.effects.is_empty());
        Ok(Curves { list, left, averaged: table.rows(), draws: average.draws(), population })
    }
}

/// The columns that the model is made of, but for those that only name groups.
fn predictors(encoding: &Encoding) -> impl Iterator<Item = &str> {
    let labels = of_groups(encoding);
    let codings = encoding.columns.iter().filter(|coding| coding.how != ColumnEncoding::Label);
    codings.flat_map(|coding| coding.columns()).filter(move |name| !labels.contains(name))
}

/// Where a column has its curve; `None` of dates, and of a column with one value.
fn places(encoding: &Encoding, table: &Table, name: &str) -> Option<Places> {
    let levels = encoding.columns.iter().find_map(|coding| match &coding.how {
        ColumnEncoding::Levels { levels, .. } if coding.columns() == [name] => Some(levels),
        _ => None,
    });
    if let Some(levels) = levels {
        return Some(Places::Levels(levels.iter().take(LEVELS).cloned().collect()));
    }
    match table.column(name)? {
        Column::Boolean(_) => Some(Places::Levels(vec!["false".into(), "true".into()])),
        Column::Number(x) => {
            let mut sorted = x.clone();
            sorted.sort_by(f64::total_cmp);
            let mut different = sorted.clone();
            different.dedup();
            match different.len() {
                0 | 1 => None,
                2..=FEW => Some(Places::Levels(different.iter().map(f64::to_string).collect())),
                _ => Some(Places::Numbers(grid(&sorted, &different))),
            }
        }
        _ => None,
    }
}

/// Places between the quantiles near the ends; those of the data where there are few of them.
fn grid(sorted: &[f64], different: &[f64]) -> Vec<f64> {
    if different.len() <= PLACES {
        return different.to_vec();
    }
    let (mut low, mut high) = (quantile(sorted, TAIL), quantile(sorted, 1.0 - TAIL));
    if low >= high {
        (low, high) = (different[0], different[different.len() - 1]);
    }
    (0..PLACES).map(|k| low + (high - low) * k as f64 / (PLACES - 1) as f64).collect()
}

impl Places {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Numbers(all) => all.len(),
            Self::Levels(all) => all.len(),
        }
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As a question would write them.
    pub fn written(&self) -> Vec<String> {
        match self {
            Self::Numbers(all) => all.iter().map(f64::to_string).collect(),
            Self::Levels(all) => all.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_leave_out_the_ends() {
        let many: Vec<f64> = (0..=1000).map(f64::from).collect();
        let found = grid(&many, &many);
        assert_eq!((found.len(), found[0], found[14]), (15, 10.0, 990.0));
        let days: Vec<f64> = (0..10).map(f64::from).collect();
        assert_eq!(grid(&days.repeat(3), &days), days);
    }
}
