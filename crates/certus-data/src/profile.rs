//! The first pass over the columns: how many rows are complete, where values are missing, which levels and dates there
//! are.

use std::cmp::Ordering;
use std::collections::HashSet;

use crate::encoding::{Reading, SEPARATOR};
use crate::error::{ColumnError, DataError, MissingIn};
use crate::reader::{group_key, label};
use crate::spec::Missing;
use crate::table::Source;
use crate::terms::Terms;

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
    /// Per column of the terms, its levels in order.
    pub(crate) levels: Vec<Vec<String>>,
    /// Per column of the terms, its first date.
    pub(crate) first_dates: Vec<f64>,
    /// Per group, its levels in order.
    pub(crate) group_levels: Vec<Vec<String>>,
}

/// Levels, first dates and group levels of the complete rows.
pub(crate) fn profile(source: &dyn Source, terms: &Terms, policy: Missing) -> Result<Profile, DataError> {
    let (mut used, mut incomplete) = (0, 0);
    let mut gaps: Vec<(usize, String)> = vec![(0, String::new()); terms.wanted.len()];
    let mut levels: Vec<HashSet<String>> = vec![HashSet::new(); terms.columns.len()];
    let mut first: Vec<f64> = vec![f64::INFINITY; terms.columns.len()];
    let mut groups: Vec<HashSet<String>> = vec![HashSet::new(); terms.groups.len()];
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
            for (c, (name, reading)) in terms.columns.iter().enumerate() {
                match reading {
                    Reading::Levels => {
                        let label = label(batch, c, i);
                        if !levels[c].contains(label.as_ref()) {
                            levels[c].insert(label.into_owned());
                            if levels[c].len() > MOST_LEVELS {
                                let (column, most) = (name.clone(), MOST_LEVELS);
                                return Err(ColumnError::TooManyLevels { column, most }.into());
                            }
                        }
                    }
                    Reading::Days => {
                        let (column, row) = batch.cell(c, i);
                        first[c] = first[c].min(column.number(row).unwrap_or(f64::INFINITY));
                    }
                    _ => (),
                }
            }
            for (group, seen) in terms.groups.iter().zip(&mut groups) {
                group_key(batch, &group.columns, i, &mut key);
                if !seen.contains(&key) {
                    seen.insert(key.clone());
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
    if policy == Missing::Error && incomplete > 0 {
        let rows = used + incomplete;
        return Err(ColumnError::Missing { incomplete, rows, columns: missing }.into());
    }
    if used == 0 {
        return Err(ColumnError::NoRows { incomplete }.into());
    }
    Ok(Profile {
        used,
        incomplete,
        missing,
        levels: levels.into_iter().map(in_order).collect(),
        first_dates: first,
        group_levels: groups.into_iter().map(in_order).collect(),
    })
}

/// Levels in order: part by part, numbers by size and before names, names by their letters.
pub(crate) fn in_order(levels: HashSet<String>) -> Vec<String> {
    let number = |text: &str| text.parse::<f64>().ok().filter(|x| x.is_finite());
    let part = |a: &str, b: &str| match (number(a), number(b)) {
        (Some(x), Some(y)) => x.total_cmp(&y).then_with(|| a.cmp(b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    };
    let mut sorted: Vec<String> = levels.into_iter().collect();
    sorted.sort_by(|a, b| {
        let pairs = a.split(SEPARATOR).zip(b.split(SEPARATOR));
        pairs.map(|(a, b)| part(a, b)).find(|o| o.is_ne()).unwrap_or_else(|| a.cmp(b))
    });
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_in_a_natural_order() {
        let order = |names: &[&str]| in_order(names.iter().map(|s| s.to_string()).collect());
        assert_eq!(order(&["10", "9", "b", "a", "-1"]), ["-1", "9", "10", "a", "b"]);
        assert_eq!(order(&["inf", "nan", "2"]), ["2", "inf", "nan"]);
        assert_eq!(order(&["2\u{1f}10", "10\u{1f}1", "2\u{1f}9"]), ["2\u{1f}9", "2\u{1f}10", "10\u{1f}1"]);
    }
}
