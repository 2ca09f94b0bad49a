//! The first pass over the columns: how many rows are complete, where values are missing, which levels and dates there are.

use std::cmp::Ordering;
use std::collections::HashSet;

use crate::encoding::{Encoding, How, Reader, SEPARATOR, group_key, label};
use crate::error::DataError;
use crate::spec::Missing;
use crate::table::{Kind, Source};

/// Levels that a column of text may have as a feature; more are the business of groups.
const MOST_LEVELS: usize = 10_000;

/// What the first pass found.
pub(crate) struct Profile {
    /// Complete rows.
    pub(crate) used: usize,
    /// Rows with a missing value.
    pub(crate) incomplete: usize,
    /// Per column with a missing value: name, how many, where first.
    pub(crate) missing: Vec<(String, usize, String)>,
}

/// Fills in levels, first dates and group levels of the encoding from the complete rows.
pub(crate) fn profile(
    source: &dyn Source,
    encoding: &mut Encoding,
    policy: Missing,
) -> Result<Profile, DataError> {
    let reader = Reader::new(encoding, source.columns(), true)?;
    let (mut used, mut incomplete) = (0, 0);
    let mut gaps: Vec<(usize, String)> = vec![(0, String::new()); reader.wanted.len()];
    let mut levels: Vec<HashSet<String>> = vec![HashSet::new(); encoding.columns.len()];
    let mut first: Vec<f64> = vec![f64::INFINITY; encoding.columns.len()];
    let mut groups: Vec<HashSet<String>> = vec![HashSet::new(); encoding.groups.len()];
    let mut key = String::new();
    source.scan(&reader.wanted, &mut |batch| {
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
            for (c, coding) in encoding.columns.iter().enumerate() {
                match coding.how {
                    How::Levels { .. } => {
                        let label = label(batch, c, i);
                        if !levels[c].contains(label.as_ref()) {
                            levels[c].insert(label.into_owned());
                            if levels[c].len() > MOST_LEVELS {
                                return Err(DataError::BadData(format!(
                                    "column '{}' has more than {MOST_LEVELS} different values, too many for a \
                                     feature: make it a group or leave it out",
                                    coding.name
                                )));
                            }
                        }
                    }
                    How::Days { .. } => {
                        let (column, row) = batch.cell(c, i);
                        first[c] = first[c].min(column.number(row).unwrap_or(f64::INFINITY));
                    }
                    _ => (),
                }
            }
            for (group, seen) in encoding.groups.iter().zip(&mut groups) {
                group_key(batch, &group.columns, i, &mut key);
                if !seen.contains(&key) {
                    seen.insert(key.clone());
                }
            }
        }
        Ok(())
    })?;
    let named = reader.wanted.iter().map(|&c| source.columns()[c].name.clone());
    let missing: Vec<(String, usize, String)> = named
        .zip(gaps)
        .filter(|(_, (count, _))| *count > 0)
        .map(|(n, (count, place))| (n, count, place))
        .collect();
    if policy == Missing::Error && incomplete > 0 {
        let each: Vec<String> = missing
            .iter()
            .map(|(name, count, place)| format!("column '{name}' misses {count}, the first in {place}"))
            .collect();
        return Err(DataError::BadData(format!(
            "{incomplete} of {} rows have missing values: {}; fill them in, leave these columns out, or leave out the \
             rows (--missing drop, in Python missing=\"drop\")",
            used + incomplete,
            each.join("; ")
        )));
    }
    if used == 0 {
        return Err(DataError::BadData(match incomplete {
            0 => "there is no row of data".into(),
            n => {
                format!("none of the {n} rows is complete: every one misses a value in a column that is used")
            }
        }));
    }
    for (c, coding) in encoding.columns.iter_mut().enumerate() {
        match &mut coding.how {
            How::Levels { levels: sorted, .. } => *sorted = in_order(std::mem::take(&mut levels[c])),
            How::Days { first: origin } => *origin = first[c],
            _ => (),
        }
    }
    for (group, seen) in encoding.groups.iter_mut().zip(groups) {
        group.levels = in_order(seen);
    }
    Ok(Profile { used, incomplete, missing })
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

/// The first cell of a column that is not missing, in words.
pub(crate) fn first_cell(source: &dyn Source, column: usize) -> Result<String, DataError> {
    if matches!(source.columns()[column].kind, Kind::Other(_)) {
        return Ok("of a type that can't be read".into());
    }
    let mut found = None;
    source.scan(&[column], &mut |batch| {
        if found.is_none() {
            found = (0..batch.rows()).find_map(|i| {
                let (cells, row) = batch.cell(0, i);
                (!cells.is_missing(row)).then(|| format!("'{}' in {}", cells.label(row), batch.place(i)))
            });
        }
        Ok(())
    })?;
    Ok(found.unwrap_or_else(|| "missing in every row".into()))
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
