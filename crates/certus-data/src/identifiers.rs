//! Columns that tell rows apart and measure nothing: counters of the rows, identifiers, and names.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::error::DataError;
use crate::left::UnusedColumn;
use crate::table::{Batch, Kind, Source};

/// Rows that it takes to tell a counter from a measurement.
const FEWEST: usize = 3;
/// Names of columns of identifiers, without regard to case.
const NAMES: [&str; 9] = ["", "id", "index", "key", "row", "rowid", "rowname", "rownames", "row.names"];
/// Endings of such names.
const ENDINGS: [&str; 4] = ["_id", ".id", "-id", " id"];

/// A column that may tell rows apart.
struct Candidate {
    place: usize,
    /// True while every cell is its row, counted from 0 or from 1.
    counts: bool,
    /// The cells so far, while they are different whole numbers and the name is that of an identifier, or while they
    /// are different texts (their hashes).
    distinct: Option<HashSet<u64>>,
    /// The first cell.
    first: f64,
    /// True for a column of text.
    text: bool,
}

impl Candidate {
    fn new(place: usize, name: &str, text: bool) -> Self {
        let distinct = (text || is_name(name)).then(HashSet::new);
        Self { place, counts: !text, distinct, first: f64::NAN, text }
    }

    /// Takes note of a cell of text; false once two rows have the same.
    fn label(&mut self, label: &str) -> bool {
        let mut hash = DefaultHasher::new();
        label.hash(&mut hash);
        self.distinct.as_mut().is_some_and(|seen| seen.insert(hash.finish()))
    }

    /// Takes note of the cell of a row; false once it tells nothing apart.
    fn cell(&mut self, row: usize, x: f64) -> bool {
        if row == 0 {
            self.first = x;
            self.counts = x == 0.0 || x == 1.0;
        }
        self.counts &= x == self.first + row as f64;
        if let Some(seen) = &mut self.distinct
            && !(x.fract() == 0.0 && seen.insert((x + 0.0).to_bits()))
        {
            self.distinct = None;
        }
        self.counts || self.distinct.is_some()
    }
}

/// True for a name that columns of identifiers have.
fn is_name(name: &str) -> bool {
    let lower = name.trim().to_lowercase();
    let camel = name.strip_suffix("Id").or(name.strip_suffix("ID"));
    let camel = camel.is_some_and(|rest| rest.ends_with(|c: char| c.is_lowercase()));
    camel || NAMES.contains(&lower.as_str()) || ENDINGS.iter().any(|end| lower.ends_with(end))
}

/// Those of the columns `places` that count the rows, that have the name of an identifier and a different whole number
/// in every row, or that have a different text in every row. None of them if there is no other column.
pub(crate) fn identifiers(source: &dyn Source, places: &[usize]) -> Result<Vec<UnusedColumn>, DataError> {
    let columns = source.columns();
    let looked_at = |c: &usize| matches!(columns[*c].kind, Kind::Number | Kind::Text);
    let looked_at: Vec<usize> = places.iter().copied().filter(looked_at).collect();
    let candidate = |c: usize| Candidate::new(c, &columns[c].name, columns[c].kind == Kind::Text);
    let mut left: Vec<(usize, Candidate)> =
        looked_at.iter().enumerate().map(|(k, c)| (k, candidate(*c))).collect();
    let mut rows = 0;
    let scanned = source.scan(&looked_at, &mut |batch: &Batch<'_>| {
        left.retain_mut(|(k, candidate)| {
            (0..batch.rows()).all(|i| {
                let (cells, row) = batch.cell(*k, i);
                match candidate.text {
                    true => !cells.is_missing(row) && candidate.label(&cells.label(row)),
                    false => cells.number(row).is_some_and(|x| candidate.cell(rows + i, x)),
                }
            })
        });
        rows += batch.rows();
        // there is nothing more to see
        if left.is_empty() { Err(DataError::Stopped) } else { Ok(()) }
    });
    if !left.is_empty() {
        scanned?;
    }
    if left.len() == places.len() || rows < FEWEST {
        return Ok(Vec::new());
    }
    let keep = "name it as a feature to use it";
    let unused = |(_, candidate): &(usize, Candidate)| UnusedColumn {
        name: columns[candidate.place].name.clone(),
        reason: match (candidate.counts, candidate.text) {
            (true, _) => format!("counts the rows; {keep}"),
            (false, true) => format!("has another text in every row, like a name; {keep}"),
            (false, false) => format!("has another whole number in every row, like an identifier; {keep}"),
        },
    };
    Ok(left.iter().map(unused).collect())
}
