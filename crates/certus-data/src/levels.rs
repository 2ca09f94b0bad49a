//! The levels of columns and groups: their labels and their order.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashSet;

use crate::encoding::SEPARATOR;
use crate::table::{Batch, Column};

/// The label of a cell, borrowed where it is text already.
pub(crate) fn label<'a>(batch: &Batch<'a>, c: usize, i: usize) -> Cow<'a, str> {
    let (column, row) = batch.cell(c, i);
    match column {
        Column::Text(v) => Cow::Borrowed(v[row].as_deref().unwrap_or_default()),
        _ => Cow::Owned(column.label(row)),
    }
}

/// The labels of several columns as one key.
pub(crate) fn group_key(batch: &Batch<'_>, columns: &[usize], i: usize, key: &mut String) {
    key.clear();
    for (k, &c) in columns.iter().enumerate() {
        if k > 0 {
            key.push(SEPARATOR);
        }
        key.push_str(&label(batch, c, i));
    }
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
