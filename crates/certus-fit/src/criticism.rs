//! What a report shows of a fit beside its data: curves along the predictors, and the rows beside simulated data sets.
//! It looks at so few rows that the report is made in seconds, and says at how many.

use std::iter::repeat_n;

use certus_data::{Column, DataError, Offset, Source, Table, is_chosen};
use certus_models::rows::leaves;

use crate::checks::Checks;
use crate::error::Error;
use crate::fit::Fit;
use crate::predict::DRAWS;
use crate::problem::Problem;

/// Rows up to which data are read again for a report.
pub const READ: u64 = 5_000_000;
/// Rows that are compared with simulated data sets, at most.
const ROWS: usize = 2000;
/// Numbers of all draws that are kept for that, at most.
const NUMBERS: usize = 40_000_000;
/// Draws, at least.
const ENOUGH: usize = 100;

impl Fit {
    /// What can be shown of the rows; `problem` is built from them, `table` is [`Problem::some_rows`] of them.
    pub fn checks(&self, problem: &Problem, table: &Table) -> Checks {
        let rows = problem.prepared.rows_used;
        let every = rows.div_ceil(ROWS).max(1);
        let draws = (NUMBERS / self.gaussian.dim().max(1)).min(DRAWS);
        let checked = match draws < ENOUGH {
            true => Err("the model has too many coefficients to simulate data".to_string()),
            false => self.ppc_of_some(problem, draws, every).map_err(|e| e.to_string()),
        };
        let curves = match draws < ENOUGH {
            true => Err("the model has too many coefficients for it".to_string()),
            false => self.curves(table).map_err(|e| e.to_string()),
        };
        Checks { curves, rows: checked, every }
    }
}

impl Problem {
    /// Some thousand rows of the source that the problem was built from, with every column that it needs: enough for
    /// [`Fit::checks`].
    pub fn some_rows(&self, source: &dyn Source) -> Result<Table, Error> {
        let encoding = &self.prepared.encoding;
        let has = |name: &&str| source.columns().iter().any(|c| c.name == **name);
        let more = encoding.response_columns().into_iter().chain(encoding.weights.as_deref());
        let names: Vec<&str> = encoding.inputs().into_iter().chain(more).filter(has).collect();
        Ok(Table::some_complete(source, &names, self.step())?)
    }

    /// The same of rows that were numbers already.
    pub fn some_numbers(&self) -> Result<Table, Error> {
        let (prepared, every) = (&self.prepared, self.step());
        let encoding = &prepared.encoding;
        let offset = match &encoding.offset {
            Some(Offset::Column(name)) => Some(name),
            _ => None,
        };
        let p = encoding.columns.len();
        let roles = [offset, encoding.trials.as_ref(), encoding.weights.as_ref()];
        let mut columns: Vec<Vec<f64>> = repeat_n(Vec::new(), p + roles.len()).collect();
        for index in 0..leaves(&*prepared.rows) {
            let mut take = |leaf: &certus_models::rows::Leaf<'_>| {
                for i in (0..leaf.y.len()).filter(|i| is_chosen(leaf.first + i, every)) {
                    (0..p).for_each(|j| columns[j].push(leaf.x.get(i, j)));
                    let own = [leaf.offset_of(i), leaf.datum(i).trials, leaf.weight_of(i)];
                    columns[p..].iter_mut().zip(own).for_each(|(column, x)| column.push(x));
                }
            };
            prepared.rows.leaf(index, &mut |leaf| take(&leaf)).map_err(DataError::from)?;
        }
        let names = encoding.columns.iter().map(|coding| Some(&coding.name)).chain(roles);
        let named = names.zip(columns).filter_map(|(name, x)| Some((name?.clone(), Column::Number(x))));
        Ok(Table::new(named.collect())?)
    }

    fn step(&self) -> usize {
        self.prepared.rows_used.div_ceil(ROWS).max(1)
    }
}
