//! `fits.parquet`: a row per group, its columns made of the chunks.

use super::{Chunk, Key, Manifest};
use crate::error::Error;
use crate::grid::{Cells, Grid};

/// Results column by column.
pub(super) struct Table {
    keys: Vec<Key>,
    rows: Vec<i64>,
    status: Vec<String>,
    bound: Vec<Option<f64>>,
    level: Vec<String>,
    neg_elbo: Vec<Option<f64>>,
    message: Vec<String>,
    names: Vec<String>,
    /// Mean and sd by name; shorter than the table while the last groups had none.
    parameters: Vec<Vec<Option<[f64; 2]>>>,
}

impl Table {
    pub(super) fn new(manifest: &Manifest) -> Self {
        Self {
            keys: Vec::new(),
            rows: Vec::new(),
            status: Vec::new(),
            bound: Vec::new(),
            level: Vec::new(),
            neg_elbo: Vec::new(),
            message: Vec::new(),
            names: manifest.parameters.clone(),
            parameters: vec![Vec::new(); manifest.parameters.len()],
        }
    }

    pub(super) fn add(&mut self, chunk: Chunk) {
        let place = |name: &String| {
            let known = self.names.iter().position(|n| n == name);
            known.unwrap_or_else(|| {
                self.names.push(name.clone());
                self.parameters.push(Vec::new());
                self.names.len() - 1
            })
        };
        let places: Vec<usize> = chunk.names.iter().map(place).collect();
        for fit in chunk.fits {
            for (place, value) in places.iter().zip(&fit.parameters) {
                let column = &mut self.parameters[*place];
                column.resize(self.keys.len(), None);
                column.push(*value);
            }
            self.keys.push(fit.key);
            self.rows.push(fit.rows as i64);
            self.status.push(fit.status);
            self.bound.push(fit.gap_bound);
            self.level.push(fit.gap_level);
            self.neg_elbo.push(fit.neg_elbo);
            self.message.push(fit.message);
        }
    }

    pub(super) fn to_parquet(&self, manifest: &Manifest) -> Result<Vec<u8>, Error> {
        let n = self.keys.len();
        let mut columns: Vec<(String, Cells)> = vec![
            ("key".into(), key_cells(&self.keys)),
            ("rows".into(), Cells::Whole(self.rows.clone())),
            ("status".into(), Cells::Text(self.status.clone())),
            ("gap_bound".into(), Cells::Number(self.bound.clone())),
            ("gap_level".into(), Cells::Text(self.level.clone())),
            ("neg_elbo".into(), Cells::Number(self.neg_elbo.clone())),
            ("message".into(), Cells::Text(self.message.clone())),
        ];
        for (name, values) in self.names.iter().zip(&self.parameters) {
            for (k, what) in ["mean", "sd"].into_iter().enumerate() {
                let cell = |i: usize| values.get(i).copied().flatten().map(|pair| pair[k]);
                columns.push((format!("{what}_{name}"), Cells::Number((0..n).map(cell).collect())));
            }
        }
        let comment = format!("posteriors by {}, fitted by certus, one row per group", manifest.by);
        Grid { columns: &columns, comment: &comment }.to_parquet()
    }
}

/// Whole numbers and whole days as such, so that the table can be joined with the data.
fn key_cells(keys: &[Key]) -> Cells<'static> {
    let all = |holds: &dyn Fn(&Key) -> bool| keys.iter().all(holds);
    let number = |key: &Key| match key {
        Key::Number(x) | Key::Date(x) => *x,
        Key::Boolean(b) => f64::from(u8::from(*b)),
        Key::Text(_) => f64::NAN,
    };
    if all(&|k| matches!(k, Key::Number(x) if x.fract() == 0.0 && x.abs() < 9e15)) {
        Cells::Whole(keys.iter().map(|k| number(k) as i64).collect())
    } else if all(&|k| matches!(k, Key::Number(_))) {
        Cells::Number(keys.iter().map(|k| Some(number(k))).collect())
    } else if all(&|k| matches!(k, Key::Date(x) if x.fract() == 0.0 && x.abs() < 1e9)) {
        Cells::Date(keys.iter().map(|k| number(k) as i32).collect())
    } else {
        let label = |key: &Key| match key {
            Key::Text(text) => text.clone(),
            Key::Boolean(b) => b.to_string(),
            // days with a fraction
            Key::Number(x) | Key::Date(x) => x.to_string(),
        };
        Cells::Text(keys.iter().map(label).collect())
    }
}
