//! Columns of numbers as files that other programs read: draws in CmdStan's style or as Parquet, and predictions.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;

use crate::directory::{write_atomically, write_new};
use crate::error::{Error, Mismatch};
use crate::grid::{Cells, Grid};

/// Named columns.
#[derive(Clone, Copy, Debug)]
pub struct ColumnFile<'a> {
    /// A name per column; for CmdStan's readers vectors are `theta.1`, `theta.2`, …
    pub names: &'a [String],
    /// Row after row; NaN is an empty cell, or null.
    pub values: &'a [f64],
    /// Columns of text that come before them, such as identifiers of the rows.
    pub labels: &'a [(String, Vec<String>)],
    /// Comments on them at the head of a CSV file, and in the metadata of a Parquet file under `certus`.
    pub comments: &'a [String],
}

impl ColumnFile<'_> {
    /// An error if the parts do not fit together.
    fn check(&self) -> Result<(), Error> {
        let (columns, given) = (self.names.len(), self.values.len());
        if columns == 0 || given % columns != 0 {
            return Err(Mismatch::Numbers { given, columns }.into());
        }
        let rows = given / columns;
        if let Some((name, cells)) = self.labels.iter().find(|(_, cells)| cells.len() != rows) {
            return Err(Mismatch::Cells { name: name.clone(), cells: cells.len(), rows }.into());
        }
        let mut seen = HashSet::new();
        match self.all_names().find(|name| !seen.insert(*name)) {
            Some(name) => Err(Mismatch::Twice { name: name.clone() }.into()),
            None => Ok(()),
        }
    }

    fn all_names(&self) -> impl Iterator<Item = &String> {
        self.labels.iter().map(|(name, _)| name).chain(self.names)
    }

    /// Writes a CSV or a Parquet file, by the ending of its name, whole or not at all. An existing file is replaced.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        write_atomically(path, &self.encoded(path)?)
    }

    /// The same where nothing may exist.
    pub fn write_new(&self, path: &Path) -> Result<(), Error> {
        write_new(path, &self.encoded(path)?)
    }

    fn encoded(&self, path: &Path) -> Result<Vec<u8>, Error> {
        match path.extension().and_then(|e| e.to_str()) {
            Some("csv") => Ok(self.to_csv()?.into_bytes()),
            Some("parquet") => self.to_parquet(),
            _ => Err(Error::Format { path: path.to_path_buf() }),
        }
    }

    /// The bytes of a Parquet file with a column of text per label and of doubles per name, required where none is
    /// missing.
    pub fn to_parquet(&self) -> Result<Vec<u8>, Error> {
        self.check()?;
        let d = self.names.len();
        let column = |(k, name): (usize, &String)| {
            let own = || self.values.iter().skip(k).step_by(d);
            let cells = match own().any(|x| x.is_nan()) {
                true => Cells::Number(own().map(|x| Some(*x).filter(|x| !x.is_nan())).collect()),
                false => Cells::Every(self.values, k, d),
            };
            (name.clone(), cells)
        };
        let labels = self.labels.iter().map(|(name, cells)| (name.clone(), Cells::Text(cells.clone())));
        let columns: Vec<(String, Cells<'_>)> =
            labels.chain(self.names.iter().enumerate().map(column)).collect();
        Grid { columns: &columns, comment: &self.comments.join("\n") }.to_parquet()
    }

    /// The text of a CSV file: comments with `#`, a line of names, a line per row; every number reads back to its bits.
    /// A name with a comma, a quote or a line break is quoted.
    pub fn to_csv(&self) -> Result<String, Error> {
        self.check()?;
        let mut out = String::new();
        for line in self.comments.iter().flat_map(|text| text.lines()) {
            let _ = writeln!(out, "# {line}");
        }
        let names: Vec<String> = self.all_names().map(|name| quoted(name)).collect();
        let _ = writeln!(out, "{}", names.join(","));
        for (k, row) in self.values.chunks_exact(self.names.len()).enumerate() {
            for (_, cells) in self.labels {
                let _ = write!(out, "{},", quoted(&cells[k]));
            }
            for (i, x) in row.iter().enumerate() {
                let comma = if i > 0 { "," } else { "" };
                let _ = if x.is_nan() { write!(out, "{comma}") } else { write!(out, "{comma}{x:?}") };
            }
            out.push('\n');
        }
        Ok(out)
    }
}

/// A field as RFC 4180 has it; a name that would look like a comment is quoted, too.
fn quoted(name: &str) -> String {
    if name.contains([',', '"', '\n', '\r']) || name.starts_with('#') || name.trim() != name {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.to_string()
    }
}
