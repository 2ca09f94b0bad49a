//! The first pass over the columns: how many rows are complete, where values are missing, which levels and dates there
//! are.

use std::collections::HashSet;

use certus_likelihood::Values;

use crate::basis::{FittedBasis, TooFewValues};
use crate::encoding::Reading;
use crate::error::{ColumnError, DataError, MissingIn, Subject};
use crate::event::Event;
use crate::formula::{Basis, Variable};
use crate::levels::{group_key, in_order, label};
use crate::spec::{Missing, Spec};
use crate::table::{Batch, Source};
use crate::terms::{MOST_SHOWN, Terms, Used};

/// Levels that a column of text may have as a feature; more are the business of groups.
const MOST_LEVELS: usize = 10_000;

/// What the first pass found.
pub(crate) struct Profile {
    /// Complete rows.
    pub(crate) used: usize,
    /// Rows with a missing value.
    pub(crate) incomplete: usize,
    /// The columns with missing values.
    pub(crate) missing: Vec<MissingIn>,
    /// Per variable of the terms, its levels in order.
    pub(crate) levels: Vec<Vec<String>>,
    /// Per variable of the terms, its first date.
    pub(crate) first_dates: Vec<f64>,
    /// Per variable of the terms, what is made of its numbers.
    pub(crate) bases: Vec<FittedBasis>,
    /// The event of a binary response that is not 0 and 1.
    pub(crate) event: Option<Event>,
    /// Per group, its levels in order.
    pub(crate) group_levels: Vec<Vec<String>>,
}

/// Levels, first dates and group levels of the complete rows.
pub(crate) fn profile(source: &dyn Source, terms: &Terms, spec: &Spec) -> Result<Profile, DataError> {
    let (mut used, mut incomplete) = (0, 0);
    let mut gaps: Vec<(usize, String)> = vec![(0, String::new()); terms.wanted.len()];
    let mut levels: Vec<HashSet<String>> = vec![HashSet::new(); terms.variables.len()];
    let mut first: Vec<f64> = vec![f64::INFINITY; terms.variables.len()];
    let mut groups: Vec<HashSet<String>> = vec![HashSet::new(); terms.groups.len()];
    let mut numbers: Vec<Vec<f64>> = vec![Vec::new(); terms.variables.len()];
    let (binary, mut responses) = (spec.model.values() == Values::Binary, HashSet::new());
    let of_groups: Vec<Vec<usize>> = terms.groups.iter().map(|g| terms.inputs_of(&g.columns)).collect();
    let mut key = String::new();
    source.scan(&terms.wanted, &mut |batch| {
        for i in 0..batch.rows() {
            let mut complete = true;
            for (c, (count, place)) in gaps.iter_mut().enumerate() {
                let (column, row) = batch.cell(c, i);
                if column.is_missing(row) {
                    if *count == 0 {
                        *place = batch.place(i);
                    }
                    (*count, complete) = (*count + 1, false);
                }
            }
            if !complete {
                incomplete += 1;
                continue;
            }
            used += 1;
            for (c, used) in terms.variables.iter().enumerate() {
                let input = used.inputs[0];
                match used.reading {
                    Reading::Levels => {
                        let label = label(batch, input, i);
                        if !levels[c].contains(label.as_ref()) {
                            levels[c].insert(label.into_owned());
                            if levels[c].len() > MOST_LEVELS {
                                let (column, most) = (used.variable.label(), MOST_LEVELS);
                                return Err(ColumnError::TooManyLevels { column, most }.into());
                            }
                        }
                    }
                    Reading::Days => {
                        let (column, row) = batch.cell(input, i);
                        first[c] = first[c].min(column.number(row).unwrap_or(f64::INFINITY));
                    }
                    Reading::Computed => numbers[c].extend(number_of_basis(used, batch, i)?),
                    _ => (),
                }
            }
            for (inputs, seen) in of_groups.iter().zip(&mut groups) {
                group_key(batch, inputs, i, &mut key);
                if !seen.contains(&key) {
                    seen.insert(key.clone());
                }
            }
            if binary && responses.len() <= MOST_SHOWN {
                let label = label(batch, terms.response, i);
                if !responses.contains(label.as_ref()) {
                    responses.insert(label.into_owned());
                }
            }
        }
        Ok(())
    })?;
    let named = terms.wanted.iter().map(|&c| source.columns()[c].name.clone());
    let missing: Vec<MissingIn> = named
        .zip(gaps)
        .filter(|(_, (count, _))| *count > 0)
        .map(|(column, (count, first))| MissingIn { column, count, first })
        .collect();
    if spec.missing == Missing::Error && incomplete > 0 {
        let rows = used + incomplete;
        return Err(ColumnError::Missing { incomplete, rows, columns: missing }.into());
    }
    if used == 0 {
        return Err(ColumnError::NoRows { incomplete }.into());
    }
    let kind = &source.columns()[terms.wanted[terms.response]].kind;
    let event = match binary {
        true => Event::of(&spec.response, kind, &in_order(responses), spec.event.as_deref())?,
        false => None,
    };
    let fitted = terms.variables.iter().zip(&mut numbers).map(|(used, values)| match &used.variable {
        Variable::Computed { basis, .. } => {
            FittedBasis::fit(*basis, values).map_err(|TooFewValues { needed, found }| {
                let term = used.variable.label();
                ColumnError::TooFewValues { term, needed, found }
            })
        }
        _ => Ok(FittedBasis::Itself),
    });
    Ok(Profile {
        bases: fitted.collect::<Result<_, _>>()?,
        event,
        used,
        incomplete,
        missing,
        levels: levels.into_iter().map(in_order).collect(),
        first_dates: first,
        group_levels: groups.into_iter().map(in_order).collect(),
    })
}

/// The number of row i that a basis is made of, if that depends on the numbers of all rows.
fn number_of_basis(used: &Used, batch: &Batch<'_>, i: usize) -> Result<Option<f64>, DataError> {
    let Variable::Computed { of, basis } = &used.variable else { return Ok(None) };
    if *basis == Basis::Itself {
        return Ok(None);
    }
    let x = of.value(&used.cell(batch, i));
    if x.is_finite() {
        return Ok(Some(x));
    }
    let subject = Subject::Feature(used.variable.label());
    Err(ColumnError::not_finite(batch.place(i), subject, x.to_string()).into())
}
