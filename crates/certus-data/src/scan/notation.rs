//! How cells are written: texts that stand for missing values, and decimal commas.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::cast_utils::Parser;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Volatility, cast as cast_to, create_udf, lit, try_cast, when,
};
use datafusion::prelude::nullif;
use datafusion::scalar::ScalarValue;

use crate::table::missing_text;

/// What cells stand for beside their plain meaning.
#[derive(Clone, Debug, Default)]
pub(super) struct Notation {
    /// Texts that stand for a missing value, beside those that always do.
    pub(super) na: Vec<String>,
    /// True if a comma may be that of a decimal fraction, because it does not separate cells.
    pub(super) commas: bool,
}

impl Notation {
    /// True for the text of a missing value.
    pub(super) fn is_missing(&self, cell: &str) -> bool {
        missing_text(cell) || self.is_na(cell)
    }

    fn is_na(&self, cell: &str) -> bool {
        self.na.iter().any(|na| na.trim() == cell.trim())
    }

    /// True for a number with a decimal comma, such as `1,5`.
    pub(super) fn is_decimal(&self, cell: &str) -> bool {
        self.commas && cell.matches(',').count() == 1 && Float64Type::parse(&cell.replace(',', ".")).is_some()
    }

    /// A column of text as cells of a type; what cannot be read so is missing. `decimal` for decimal commas.
    pub(super) fn of_text(&self, text: Expr, data_type: &DataType, decimal: bool) -> Expr {
        let text = if decimal || !self.na.is_empty() { self.cleaned(text, decimal) } else { text };
        match data_type {
            DataType::Utf8 => text,
            // a condition on NaN would hold or not by its sign; on nothing it never holds
            DataType::Float64 => nullif(try_cast(text, DataType::Float64), lit(f64::NAN)),
            other => try_cast(text, other.clone()),
        }
    }

    /// A column of a file that has types of its own, without the cells that stand for missing values.
    pub(super) fn of_typed(&self, column: Expr, data_type: &DataType) -> Result<Expr, DataFusionError> {
        if matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
            return Ok(self.cleaned(column, false));
        }
        let numbers = self.na.iter().filter_map(|na| na.trim().parse::<f64>().ok());
        numbers.filter(|_| data_type.is_numeric()).try_fold(column, |column, na| {
            let is_na = cast_to(column.clone(), DataType::Float64).eq(lit(na));
            when(is_na, lit(ScalarValue::Null)).otherwise(column)
        })
    }

    /// The text of cells: nothing where a value is missing, decimal commas as points.
    fn cleaned(&self, text: Expr, decimal: bool) -> Expr {
        let own = self.clone();
        let clean = move |arguments: &[ColumnarValue]| {
            let array = match &arguments[0] {
                ColumnarValue::Array(array) => array.clone(),
                ColumnarValue::Scalar(one) => one.to_array()?,
            };
            let array = cast(&array, &DataType::Utf8)?;
            let cells = array.as_string::<i32>().iter().map(|cell| {
                let cell = cell.filter(|cell| !own.is_na(cell))?;
                Some(if decimal { cell.replace(',', ".") } else { cell.to_string() })
            });
            let cells: ArrayRef = Arc::new(cells.collect::<StringArray>());
            Ok(ColumnarValue::Array(cells))
        };
        let name = if decimal { "decimal_commas" } else { "without_na" };
        let types = vec![DataType::Utf8];
        create_udf(name, types, DataType::Utf8, Volatility::Immutable, Arc::new(clean)).call(vec![text])
    }
}

/// The number in a cell with a decimal comma, as messages show it: '1,5' in row 1.
pub(super) fn point(shown: &str) -> String {
    shown.split('\'').nth(1).unwrap_or_default().trim().replace(',', ".")
}
