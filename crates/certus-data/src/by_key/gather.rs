//! Rows sorted by group: one pass puts every row of the chosen groups where it belongs, and a group is then a table of
//! its own.

use std::collections::HashMap;

use crate::error::{ColumnError, DataError};
use crate::summary::{mix, text_hash};
use crate::table::{Batch, Column, ColumnInfo, Source};

use super::Keys;

/// What the cells of a stored column were.
#[derive(Default)]
enum Stored {
    /// Nothing was seen yet.
    #[default]
    Unseen,
    Number,
    Date,
    /// 0 or 1.
    Boolean,
    /// The place in the list.
    Text(Vec<String>, HashMap<String, u32>),
}

/// The rows of some groups, row after row, group after group: 8 bytes per cell.
pub struct Gathered<'a> {
    info: &'a [ColumnInfo],
    by: &'a str,
    wanted: &'a [usize],
    stored: Vec<Stored>,
    values: Vec<f64>,
    /// Per group, where its rows begin; `None` if it was not chosen.
    starts: Vec<Option<usize>>,
    /// Per group, rows seen so far.
    seen: Vec<u32>,
    /// Per group, chosen or not, a hash of its cells in the order of its rows.
    hashes: Vec<u64>,
}

impl<'a> Gathered<'a> {
    /// One pass over the columns `wanted`, keeping the groups that `choose` chooses.
    pub fn read(
        source: &'a dyn Source,
        keys: &'a Keys,
        wanted: &'a [usize],
        choose: &dyn Fn(usize) -> bool,
    ) -> Result<Self, DataError> {
        let mut rows = 0;
        let starts = (0..keys.len()).map(|g| {
            choose(g).then(|| {
                rows += keys.rows(g);
                rows - keys.rows(g)
            })
        });
        let starts: Vec<Option<usize>> = starts.collect();
        let mut all = Self {
            info: source.columns(),
            by: keys.name(),
            wanted,
            stored: wanted.iter().map(|_| Stored::Unseen).collect(),
            values: vec![0.0; rows * wanted.len()],
            starts,
            seen: vec![0; keys.len()],
            hashes: vec![0; keys.len()],
        };
        let with_key: Vec<usize> = wanted.iter().copied().chain([keys.column]).collect();
        let mut groups = Vec::new();
        source.scan(&with_key, &mut |batch| {
            groups.clear();
            for i in 0..batch.rows() {
                groups.push(keys.group(batch, wanted.len(), i)?);
            }
            all.add(batch, &groups, keys)
        })?;
        match (0..keys.len()).find(|&g| all.seen[g] as usize != keys.rows(g)) {
            None => Ok(all),
            Some(g) => Err(changed(keys, g)),
        }
    }

    fn add(&mut self, batch: &Batch<'_>, groups: &[Option<usize>], keys: &Keys) -> Result<(), DataError> {
        let width = self.wanted.len();
        for (i, group) in groups.iter().enumerate() {
            let Some(g) = *group else { continue };
            let k = self.seen[g] as usize;
            if k == keys.rows(g) {
                return Err(changed(keys, g));
            }
            self.seen[g] += 1;
            for c in 0..width {
                let (cells, row) = batch.cell(c, i);
                let (value, hash) = self.stored[c].code(cells, row, self.hashes[g]);
                self.hashes[g] = hash;
                if let Some(start) = self.starts[g] {
                    self.values[(start + k) * width + c] = value;
                }
            }
        }
        Ok(())
    }

    /// The hash of the cells of group g, whether it was chosen or not.
    pub fn hash(&self, g: usize) -> u64 {
        self.hashes[g]
    }

    /// A group as a source: the columns of the whole, its rows in their order.
    pub fn group(&self, keys: &Keys, g: usize) -> OneGroup<'_> {
        let (width, rows) = (self.wanted.len(), keys.rows(g));
        let start = self.starts[g].expect("only chosen groups are asked for");
        let values = &self.values[start * width..][..rows * width];
        let column = |(c, stored): (usize, &Stored)| stored.column(values.iter().skip(c).step_by(width));
        OneGroup {
            info: self.info,
            wanted: self.wanted,
            columns: self.stored.iter().enumerate().map(column).collect(),
            rows,
            place: format!(" among those where {} is {}", self.by, keys.key(g).label()),
        }
    }
}

fn changed(keys: &Keys, g: usize) -> DataError {
    ColumnError::RowsChanged { key: keys.key(g).label() }.into()
}

impl Stored {
    /// A cell as a number to keep, NaN for a gap, and the hash with it.
    fn code(&mut self, cells: &Column, row: usize, hash: u64) -> (f64, u64) {
        let value = match cells {
            Column::Number(v) => {
                *self = Stored::Number;
                v[row]
            }
            Column::Date(v) => {
                *self = Stored::Date;
                v[row]
            }
            Column::Boolean(v) => {
                *self = Stored::Boolean;
                v[row].map_or(f64::NAN, |b| f64::from(u8::from(b)))
            }
            Column::Text(v) => {
                if !matches!(self, Stored::Text(..)) {
                    *self = Stored::Text(Vec::new(), HashMap::new());
                }
                let Stored::Text(list, places) = self else { unreachable!("made above") };
                let Some(text) = &v[row] else { return (f64::NAN, mix(hash, 1)) };
                let place = places.get(text).copied().unwrap_or_else(|| {
                    list.push(text.clone());
                    places.insert(text.clone(), list.len() as u32 - 1);
                    list.len() as u32 - 1
                });
                return (f64::from(place), text_hash(hash, text));
            }
        };
        (value, mix(hash, value.to_bits()))
    }

    fn column<'v>(&self, values: impl Iterator<Item = &'v f64>) -> Column {
        match self {
            Stored::Number | Stored::Unseen => Column::Number(values.copied().collect()),
            Stored::Date => Column::Date(values.copied().collect()),
            Stored::Boolean => Column::Boolean(values.map(|x| (!x.is_nan()).then_some(*x == 1.0)).collect()),
            Stored::Text(list, _) => {
                Column::Text(values.map(|x| (!x.is_nan()).then(|| list[*x as usize].clone())).collect())
            }
        }
    }
}

/// The rows of one group.
pub struct OneGroup<'a> {
    info: &'a [ColumnInfo],
    wanted: &'a [usize],
    columns: Vec<Column>,
    rows: usize,
    place: String,
}

impl Source for OneGroup<'_> {
    fn columns(&self) -> &[ColumnInfo] {
        self.info
    }

    fn scan(
        &self,
        wanted: &[usize],
        visit: &mut dyn FnMut(&Batch<'_>) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let column = |c: &usize| {
            let kept = self.wanted.iter().position(|w| w == c);
            kept.map(|k| &self.columns[k])
                .ok_or_else(|| ColumnError::NotKept { name: self.info[*c].name.clone() })
        };
        let columns = wanted.iter().map(column).collect::<Result<Vec<_>, _>>()?;
        visit(&Batch::new(columns, 0, self.rows, 0, &self.place))
    }
}
