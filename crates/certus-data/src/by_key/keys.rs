//! The values of a key column: which groups there are, in an order that the order of rows does not change, and how many
//! rows each has.

use std::collections::{HashMap, HashSet};

use crate::error::{ColumnError, DataError};
use crate::levels::in_order;
use crate::spec::{Missing, find};
use crate::summary::text_hash;
use crate::table::{Batch, Column, Kind, Source, date_label};

/// What tells one group from the others.
#[derive(Clone, Debug, PartialEq)]
pub enum Key {
    /// A number.
    Number(f64),
    /// Days since 1970-01-01.
    Date(f64),
    /// A truth value.
    Boolean(bool),
    /// Text.
    Text(String),
}

impl Key {
    /// As people write it.
    pub fn label(&self) -> String {
        match self {
            Self::Number(x) => format!("{x}"),
            Self::Date(days) => date_label(*days),
            Self::Boolean(b) => b.to_string(),
            Self::Text(text) => text.clone(),
        }
    }

    /// The key of the group's random streams: a hash of its label, so that neither the other groups nor their order
    /// matter.
    pub fn model_key(&self) -> u64 {
        text_hash(0, &self.label())
    }
}

/// Where a key is found: text by itself, anything else by its bits.
#[derive(Default)]
struct Places {
    numbers: HashMap<u64, u32>,
    texts: HashMap<String, u32>,
}

/// Bits under which a number is found; −0 is 0.
fn bits(x: f64) -> u64 {
    (x + 0.0).to_bits()
}

impl Places {
    fn find(&self, column: &Column, row: usize) -> Option<u32> {
        match column {
            Column::Number(v) | Column::Date(v) => self.numbers.get(&bits(v[row])).copied(),
            Column::Boolean(v) => self.numbers.get(&bits(f64::from(u8::from(v[row]?)))).copied(),
            Column::Text(v) => self.texts.get(v[row].as_deref()?).copied(),
        }
    }

    fn insert(&mut self, key: &Key, place: u32) {
        match key {
            Key::Number(x) | Key::Date(x) => self.numbers.insert(bits(*x), place),
            Key::Boolean(b) => self.numbers.insert(bits(f64::from(u8::from(*b))), place),
            Key::Text(text) => self.texts.insert(text.clone(), place),
        };
    }
}

/// All groups, numbers and dates by size, names by their letters after those that are numbers.
pub struct Keys {
    /// The column.
    pub column: usize,
    name: String,
    keys: Vec<Key>,
    counts: Vec<usize>,
    places: Places,
}

impl Keys {
    /// One pass over the key column. A missing key is refused by its place, or its row left out if missing values are
    /// dropped.
    pub fn read(source: &dyn Source, name: &str, missing: Missing) -> Result<Self, DataError> {
        let column = find(source.columns(), name)?;
        if let kind @ (Kind::Other(_) | Kind::Empty) = &source.columns()[column].kind {
            let required = "numbers, truth values, text or dates in every row";
            return Err(ColumnError::wrong_kind("the key", name, kind, required).into());
        }
        let mut keys = Self {
            column,
            name: name.into(),
            keys: Vec::new(),
            counts: Vec::new(),
            places: Places::default(),
        };
        source.scan(&[column], &mut |batch| {
            for i in 0..batch.rows() {
                let (cells, row) = batch.cell(0, i);
                if cells.is_missing(row) {
                    keys.refuse(batch, i, missing)?;
                    continue;
                }
                match keys.places.find(cells, row) {
                    Some(k) => keys.counts[k as usize] += 1,
                    None => keys.push(key_of(cells, row))?,
                }
            }
            Ok(())
        })?;
        if keys.keys.is_empty() {
            return Err(ColumnError::NoRows { incomplete: 0 }.into());
        }
        keys.sort();
        Ok(keys)
    }

    fn refuse(&self, batch: &Batch<'_>, i: usize, missing: Missing) -> Result<(), DataError> {
        if missing == Missing::Drop {
            return Ok(());
        }
        Err(ColumnError::MissingKey { place: batch.place(i), key: self.name.clone() }.into())
    }

    fn push(&mut self, key: Key) -> Result<(), DataError> {
        let place = u32::try_from(self.keys.len())
            .ok()
            .filter(|k| *k < u32::MAX)
            .ok_or_else(|| ColumnError::TooManyKeys { key: self.name.clone(), most: u32::MAX - 1 })?;
        self.places.insert(&key, place);
        self.keys.push(key);
        self.counts.push(1);
        Ok(())
    }

    fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.keys.len()).collect();
        let text = |key: &Key| if let Key::Text(text) = key { Some(text.clone()) } else { None };
        let texts: HashSet<String> = self.keys.iter().filter_map(text).collect();
        let ranks: HashMap<String, usize> =
            in_order(texts).into_iter().enumerate().map(|(rank, text)| (text, rank)).collect();
        let number = |key: &Key| match key {
            Key::Number(x) | Key::Date(x) => *x,
            Key::Boolean(b) => f64::from(u8::from(*b)),
            Key::Text(text) => ranks[text] as f64,
        };
        order.sort_by(|a, b| number(&self.keys[*a]).total_cmp(&number(&self.keys[*b])));
        self.keys = order.iter().map(|k| self.keys[*k].clone()).collect();
        self.counts = order.iter().map(|k| self.counts[*k]).collect();
        for (place, key) in self.keys.iter().enumerate() {
            self.places.insert(key, place as u32);
        }
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Never: a table without a row is refused.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The key of group g.
    pub fn key(&self, g: usize) -> &Key {
        &self.keys[g]
    }

    /// Its rows.
    pub fn rows(&self, g: usize) -> usize {
        self.counts[g]
    }

    /// The column's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Tells these groups from others: keys and numbers of rows.
    pub fn fingerprint(&self) -> u64 {
        let one = |hash: u64, (key, count): (&Key, &usize)| {
            text_hash(hash, &format!("{}{}{count}", key.label(), crate::encoding::SEPARATOR))
        };
        self.keys.iter().zip(&self.counts).fold(text_hash(1, &self.name), one)
    }

    /// The group of a row, or `None` for a row without a key; data that changed since are refused.
    pub fn group(&self, batch: &Batch<'_>, c: usize, i: usize) -> Result<Option<usize>, DataError> {
        let (cells, row) = batch.cell(c, i);
        if cells.is_missing(row) {
            return Ok(None);
        }
        let found = self.places.find(cells, row).map(|k| k as usize);
        found
            .map(Some)
            .ok_or_else(|| ColumnError::NewKey { place: batch.place(i), key: cells.label(row) }.into())
    }
}

fn key_of(cells: &Column, row: usize) -> Key {
    match cells {
        Column::Number(v) => Key::Number(v[row] + 0.0),
        Column::Date(v) => Key::Date(v[row] + 0.0),
        Column::Boolean(v) => Key::Boolean(v[row] == Some(true)),
        Column::Text(v) => Key::Text(v[row].clone().unwrap_or_default()),
    }
}
