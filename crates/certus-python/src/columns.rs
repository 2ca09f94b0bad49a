//! Python columns to a table: `{name: (kind, cells)}`.

use certus_data::{Column, Table};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{data, usage};

/// Kinds are `number` and `date` (float64, NaN is missing), `boolean` (int8, −1 is missing) and `text` (a list of str
/// or None).
pub(crate) fn table(py: Python<'_>, columns: &Bound<'_, PyDict>) -> PyResult<Table> {
    let mut out = Vec::with_capacity(columns.len());
    for (name, column) in columns {
        let (kind, cells): (String, Bound<'_, PyAny>) = column.extract()?;
        let column = match kind.as_str() {
            "number" => Column::Number(numbers(&cells)?),
            "date" => Column::Date(numbers(&cells)?),
            "boolean" => {
                let cells: PyReadonlyArray1<'_, i8> = cells.extract()?;
                Column::Boolean(cells.as_array().iter().map(|&b| (b >= 0).then_some(b == 1)).collect())
            }
            "text" => Column::Text(cells.extract()?),
            other => return Err(usage(py, &format!("unknown kind of column '{other}'"))),
        };
        out.push((name.extract::<String>()?, column));
    }
    Table::new(out).map_err(|e| data(py, &e))
}

pub(crate) fn numbers(cells: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    let cells: PyReadonlyArray1<'_, f64> = cells.extract()?;
    Ok(cells.as_array().iter().copied().collect())
}
