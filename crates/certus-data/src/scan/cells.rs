//! Arrow arrays to columns.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, TimeUnit};
use datafusion::arrow::error::ArrowError;

use super::csv::MOST_EXACT;
use crate::error::{ColumnError, DataError};
use crate::table::{Column, Kind};

const MICROSECONDS_PER_DAY: f64 = 86_400e6;

/// What an Arrow type holds.
pub(super) fn kind(data_type: &DataType) -> Kind {
    match data_type {
        DataType::Boolean => Kind::Boolean,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Kind::Text,
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => Kind::Date,
        DataType::Null => Kind::Empty,
        DataType::Dictionary(_, values) => kind(values),
        t if t.is_numeric() => Kind::Number,
        t => Kind::Other(t.to_string()),
    }
}

/// The cells of an array whose type has the kind `kind`; `place(i)` is row i in words.
pub(super) fn column(
    array: &ArrayRef,
    name: &str,
    place: impl Fn(usize) -> String,
) -> Result<Column, DataError> {
    let unreadable = |e: ArrowError| ColumnError::Unreadable {
        name: name.into(),
        data_type: array.data_type().to_string(),
        reason: e.to_string(),
    };
    let to = |data_type: DataType| cast(array, &data_type).map_err(unreadable);
    Ok(match kind(array.data_type()) {
        Kind::Boolean => Column::Boolean(to(DataType::Boolean)?.as_boolean().iter().collect()),
        Kind::Number => {
            let numbers = to(DataType::Float64)?;
            let numbers = numbers.as_primitive::<Float64Type>();
            let values: Vec<f64> = match numbers.null_count() {
                0 => numbers.values().to_vec(),
                _ => numbers.iter().map(|x| x.unwrap_or(f64::NAN)).collect(),
            };
            let whole =
                !matches!(array.data_type(), DataType::Float16 | DataType::Float32 | DataType::Float64);
            let too_long = || values.iter().position(|x| x.abs() > MOST_EXACT);
            if let Some(i) = whole.then(too_long).flatten() {
                let (place, name, value) = (place(i), name.into(), values[i]);
                return Err(ColumnError::InexactCell { place, name, value }.into());
            }
            Column::Number(values)
        }
        Kind::Date if *array.data_type() == DataType::Date32 => {
            let days = to(DataType::Int32)?;
            Column::Date(
                days.as_primitive::<Int32Type>().iter().map(|d| d.map_or(f64::NAN, f64::from)).collect(),
            )
        }
        Kind::Date => {
            let times = to(DataType::Timestamp(TimeUnit::Microsecond, None))?;
            let times = cast(&times, &DataType::Int64).map_err(unreadable)?;
            let days = |t: Option<i64>| t.map_or(f64::NAN, |t| t as f64 / MICROSECONDS_PER_DAY);
            Column::Date(times.as_primitive::<Int64Type>().iter().map(days).collect())
        }
        Kind::Text => {
            let texts = to(DataType::Utf8)?;
            Column::Text(texts.as_string::<i32>().iter().map(|s| s.map(String::from)).collect())
        }
        Kind::Empty => Column::Number(vec![f64::NAN; array.len()]),
        other => {
            let required = "numbers, truth values, text or dates";
            return Err(ColumnError::wrong_kind("column", name, &other, required).into());
        }
    })
}
