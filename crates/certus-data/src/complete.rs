//! The rows of a source in memory, so that one can ask what they would be with other cells.

use crate::encoding::{ColumnEncoding, Encoding};
use crate::error::{ColumnError, DataError};
use crate::spec::find;
use crate::summary::mix;
use crate::table::{Column, Source, Table};

impl Column {
    /// Appends cells of a column of the same kind; false if it is of another.
    fn append(&mut self, other: &Self, rows: impl Iterator<Item = usize>) -> bool {
        match (self, other) {
            (Self::Number(own), Self::Number(more)) | (Self::Date(own), Self::Date(more)) => {
                own.extend(rows.map(|i| more[i]));
            }
            (Self::Boolean(own), Self::Boolean(more)) => own.extend(rows.map(|i| more[i])),
            (Self::Text(own), Self::Text(more)) => own.extend(rows.map(|i| more[i].clone())),
            _ => return false,
        }
        true
    }

    /// A column of the same kind without cells.
    fn emptied(&self) -> Self {
        match self {
            Self::Number(_) => Self::Number(Vec::new()),
            Self::Boolean(_) => Self::Boolean(Vec::new()),
            Self::Text(_) => Self::Text(Vec::new()),
            Self::Date(_) => Self::Date(Vec::new()),
        }
    }

    /// As many cells of the same kind that all read `text`; `None` if it cannot be read so.
    pub fn filled(&self, text: &str) -> Option<Self> {
        let (rows, text) = (self.len(), text.trim());
        Some(match self {
            Self::Number(_) => Self::Number(vec![text.parse().ok().filter(|x: &f64| x.is_finite())?; rows]),
            Self::Boolean(_) => Self::Boolean(vec![Some(text.parse().ok()?); rows]),
            Self::Text(_) => Self::Text(vec![Some(text.to_string()); rows]),
            Self::Date(_) => return None,
        })
    }
}

impl Table {
    /// The columns `names` of a source, each once, without the rows in which one of them is missing.
    pub fn complete(source: &dyn Source, names: &[&str]) -> Result<Self, DataError> {
        Self::some_complete(source, names, 1)
    }

    /// About one of every so many of these rows, see [`is_chosen`].
    pub fn some_complete(source: &dyn Source, names: &[&str], every: usize) -> Result<Self, DataError> {
        let mut wanted = Vec::new();
        for name in names {
            let place = find(source.columns(), name)?;
            if !wanted.contains(&place) {
                wanted.push(place);
            }
        }
        let mut columns: Vec<Option<Column>> = vec![None; wanted.len()];
        let mut seen = 0_usize;
        source.scan(&wanted, &mut |batch| {
            let whole = |i: &usize| {
                (0..wanted.len()).all(|c| {
                    let (column, row) = batch.cell(c, *i);
                    !column.is_missing(row)
                })
            };
            let mut kept: Vec<usize> = (0..batch.rows()).filter(whole).collect();
            kept.retain(|_| {
                seen += 1;
                is_chosen(seen - 1, every)
            });
            for (c, own) in columns.iter_mut().enumerate() {
                let (cells, start) = batch.cell(c, 0);
                let own = own.get_or_insert_with(|| cells.emptied());
                if !own.append(cells, kept.iter().map(|i| start + i)) {
                    let info = &source.columns()[wanted[c]];
                    let required = "cells of one kind in all files";
                    return Err(ColumnError::wrong_kind("column", &info.name, &info.kind, required).into());
                }
            }
            Ok(())
        })?;
        let named = wanted.iter().zip(columns).map(|(place, column)| {
            (source.columns()[*place].name.clone(), column.unwrap_or(Column::Number(Vec::new())))
        });
        Self::new(named.collect())
    }

    /// A column by its name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.names().position(|own| own == name).map(|place| self.at(place))
    }

    /// The same table with other cells of a column.
    pub fn with(&self, name: &str, column: Column) -> Result<Self, DataError> {
        let cells = |(k, own): (usize, &str)| {
            let cells = if own == name { column.clone() } else { self.at(k).clone() };
            (own.to_string(), cells)
        };
        Self::new(self.names().enumerate().map(cells).collect())
    }
}

/// True for about one row of every so many. Which are chosen is fixed, but no pattern, because rows may be in an order
/// with one.
pub fn is_chosen(row: usize, every: usize) -> bool {
    let spread = (1..=3).fold(row as u64 + 1, mix);
    every <= 1 || spread.is_multiple_of(every as u64)
}

/// The cells of a column as text, row by row; nothing where a value is missing.
pub fn labels(source: &dyn Source, name: &str) -> Result<Vec<String>, DataError> {
    let place = find(source.columns(), name)?;
    let mut out = Vec::new();
    source.scan(&[place], &mut |batch| {
        out.extend((0..batch.rows()).map(|i| {
            let (column, row) = batch.cell(0, i);
            if column.is_missing(row) { String::new() } else { column.label(row) }
        }));
        Ok(())
    })?;
    Ok(out)
}

impl Encoding {
    /// The columns that rows are made of, without response and weights.
    pub fn inputs(&self) -> Vec<&str> {
        let codings = self.columns.iter().flat_map(|coding| coding.columns());
        let offset = self.offset.iter().flat_map(|offset| offset.columns());
        codings.chain(offset).chain(self.trials.as_deref()).collect()
    }

    /// [`Encoding::inputs`], each once, with the levels of those that are read as levels: the reference is the first.
    pub fn inputs_with_levels(&self) -> Vec<(String, Option<Vec<String>>)> {
        let mut out: Vec<(String, Option<Vec<String>>)> = Vec::new();
        for name in self.inputs() {
            if out.iter().any(|(seen, _)| seen == name) {
                continue;
            }
            let levels = self.columns.iter().find_map(|coding| match &coding.how {
                ColumnEncoding::Levels { levels, reference } if coding.columns() == [name] => {
                    let reference = reference.as_ref().or(levels.first());
                    let others = levels.iter().filter(|level| Some(*level) != reference);
                    Some(reference.into_iter().chain(others).cloned().collect())
                }
                _ => None,
            });
            out.push((name.into(), levels));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_gaps_are_kept_and_can_be_changed() {
        let words = ["a", "NA", "c"].map(|s| Some(s.into())).to_vec();
        let numbers = Column::Number(vec![1.0, 2.0, f64::NAN]);
        let all = Table::new(vec![("x".into(), numbers), ("g".into(), Column::Text(words))]).unwrap();
        let both = Table::complete(&all, &["g", "x", "g"]).unwrap();
        assert_eq!((both.rows(), both.column("x")), (1, Some(&Column::Number(vec![1.0]))));
        assert_eq!(Table::complete(&all, &["x"]).unwrap().rows(), 2);
        let other = both.with("x", both.column("x").unwrap().filled("7").unwrap()).unwrap();
        assert_eq!(other.column("x"), Some(&Column::Number(vec![7.0])));
        assert_eq!(other.column("g"), both.column("g"));
        assert!(both.column("x").unwrap().filled("seven").is_none() && both.column("y").is_none());
        // of 30,000 rows without the gap of row 3, a tenth, wherever one looks
        let gap = |i: u32| if i == 3 { f64::NAN } else { f64::from(i) };
        let many = Table::new(vec![("x".into(), Column::Number((0..30_000).map(gap).collect()))]).unwrap();
        let Some(Column::Number(some)) =
            Table::some_complete(&many, &["x"], 10).unwrap().column("x").cloned()
        else {
            panic!("numbers")
        };
        for part in [0.0..10_000.0, 10_000.0..20_000.0, 20_000.0..30_000.0] {
            let found = some.iter().filter(|x| part.contains(*x)).count();
            // five standard errors
            assert!((850..=1150).contains(&found), "{found}");
        }
        // and of every residue of 10
        for residue in 0..10 {
            let found = some.iter().filter(|x| **x as usize % 10 == residue).count();
            assert!((215..=385).contains(&found), "{residue}: {found}");
        }
    }
}
