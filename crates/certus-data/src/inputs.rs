//! The columns of a source that are read, each once, and whether their cells can be read in the way that is asked for.

use crate::encoding::Reading;
use crate::error::{ColumnError, DataError};
use crate::spec::find;
use crate::table::{ColumnInfo, Kind};

/// Columns of a source in the order in which they were first asked for.
pub(crate) struct Inputs<'a> {
    columns: &'a [ColumnInfo],
    /// Their places in the source.
    pub(crate) wanted: Vec<usize>,
}

impl<'a> Inputs<'a> {
    pub(crate) fn new(columns: &'a [ColumnInfo]) -> Self {
        Self { columns, wanted: Vec::new() }
    }

    /// Asks for a column, which must hold what is read from it; its index in `wanted`.
    pub(crate) fn add(&mut self, name: &str, reading: Reading) -> Result<usize, DataError> {
        let place = find(self.columns, name)?;
        check_kind(&self.columns[place], reading)?;
        Ok(self.wanted.iter().position(|own| *own == place).unwrap_or_else(|| {
            self.wanted.push(place);
            self.wanted.len() - 1
        }))
    }

    /// The name of a column that was asked for.
    pub(crate) fn name(&self, index: usize) -> &'a str {
        &self.columns[self.wanted[index]].name
    }
}

/// Refuses a column whose cells can't be read in this way.
fn check_kind(column: &ColumnInfo, reading: Reading) -> Result<(), DataError> {
    let (name, kind) = (&column.name, &column.kind);
    if !matches!(reading, Reading::Levels | Reading::Label)
        && let Some(error) = ColumnError::unclear(name, kind)
    {
        return Err(error.into());
    }
    let required = match (reading, kind) {
        (_, Kind::Other(_)) => "numbers, truth values, text or dates",
        (_, Kind::Empty) => "a value in every row that is used",
        (Reading::Number | Reading::Boolean | Reading::Computed, Kind::Text | Kind::Date) => {
            "numbers or truth values"
        }
        (Reading::Days, Kind::Number | Kind::Boolean | Kind::Text) => "dates",
        _ => return Ok(()),
    };
    Err(ColumnError::wrong_kind("column", name, kind, required).into())
}
