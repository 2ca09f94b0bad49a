//! What the columns of CSV files hold, decided from all their cells and with the parsers that read them later.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{Array, StringArray};
use datafusion::arrow::compute::kernels::cast_utils::Parser;
use datafusion::arrow::csv::reader::Format;
use datafusion::arrow::datatypes::{DataType, Date32Type, Field, Float64Type, Schema};

use super::notation::Notation;
use crate::error::{DataError, FileError};
use crate::table::Kind;

/// Whole numbers above this are not all distinct as 64-bit floats.
pub(super) const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

/// The columns that the first line of a file names, as text.
pub(super) fn header(file: &Path, separator: u8, name: &str) -> Result<Schema, DataError> {
    let opened =
        File::open(file).map_err(|e| FileError::Read { name: name.into(), reason: e.to_string() })?;
    let format = Format::default().with_header(true).with_delimiter(separator);
    let (schema, _) = format
        .infer_schema(opened, Some(0))
        .map_err(|e| FileError::Damaged { name: name.into(), reason: e.to_string() })?;
    let text = |f: &Arc<Field>| Field::new(f.name(), DataType::Utf8, true);
    Ok(Schema::new(schema.fields().iter().map(text).collect::<Vec<_>>()))
}

/// What has been seen of a column.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    number: Option<String>,
    /// A number with a decimal point.
    point: Option<String>,
    /// A number with a decimal comma, which is text beside points and beside other text.
    comma: Option<String>,
    boolean: Option<String>,
    date: Option<String>,
    text: Option<String>,
    inexact: Option<String>,
}

impl Seen {
    /// Takes note of the cells of a batch; `place(i)` is row i in words.
    pub(super) fn cells(
        &mut self,
        cells: &StringArray,
        notation: &Notation,
        place: impl Fn(usize) -> String,
    ) {
        for i in (0..cells.len()).filter(|&i| !cells.is_null(i)) {
            let cell = cells.value(i);
            if notation.is_missing(cell) {
                continue;
            }
            let slot = if let Some(x) = Float64Type::parse(cell) {
                if self.point.is_none() && notation.commas && cell.contains('.') {
                    self.point = Some(format!("'{cell}' in {}", place(i)));
                }
                let digits = cell.trim().trim_start_matches(['-', '+']).bytes().all(|b| b.is_ascii_digit());
                if digits && x.abs() > MOST_EXACT && self.inexact.is_none() {
                    self.inexact = Some(format!("'{cell}' in {}", place(i)));
                }
                &mut self.number
            } else if cell.eq_ignore_ascii_case("true") || cell.eq_ignore_ascii_case("false") {
                &mut self.boolean
            } else if Date32Type::parse(cell).is_some() {
                &mut self.date
            } else if notation.is_decimal(cell) {
                &mut self.comma
            } else {
                &mut self.text
            };
            if slot.is_none() {
                *slot = Some(format!("'{cell}' in {}", place(i)));
            }
        }
    }

    /// The first number with a decimal comma, if the column is one of such numbers and whole ones.
    pub(super) fn decimal_comma(&self) -> Option<&str> {
        let others = [&self.point, &self.text, &self.boolean, &self.date];
        self.comma.as_deref().filter(|_| others.into_iter().all(Option::is_none))
    }

    /// The first cell of other text in a column that has dates and no numbers.
    pub(super) fn not_a_date(&self) -> Option<&str> {
        let others = [&self.number, &self.boolean, &self.comma];
        self.text.as_deref().filter(|_| self.date.is_some() && others.into_iter().all(Option::is_none))
    }

    /// The kind of the column and the type to read it as.
    pub(super) fn kind(&self) -> (Kind, DataType) {
        let decimal = self.decimal_comma().is_some();
        let number = if decimal { self.comma.as_ref() } else { self.point.as_ref().or(self.number.as_ref()) };
        let text = self.text.as_ref().or(self.comma.as_ref()).filter(|_| !decimal);
        let other = text.or(self.boolean.as_ref()).or(self.date.as_ref());
        match (number, other) {
            (Some(number), Some(other)) => {
                (Kind::Mixed { number: number.clone(), other: other.clone() }, DataType::Utf8)
            }
            (Some(_), None) => match &self.inexact {
                Some(first) => (Kind::Inexact { first: first.clone() }, DataType::Utf8),
                None => (Kind::Number, DataType::Float64),
            },
            (None, None) => (Kind::Empty, DataType::Utf8),
            (None, Some(_)) => match (text, &self.boolean, &self.date) {
                (None, Some(_), None) => (Kind::Boolean, DataType::Boolean),
                (None, None, Some(_)) => (Kind::Date, DataType::Date32),
                _ => (Kind::Text, DataType::Utf8),
            },
        }
    }
}
