//! The columns that files and queries have in common, and what the engine says about them.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::DataFusionError;
use datafusion::dataframe::DataFrame;

use super::cells;
use crate::error::{ColumnError, DataError, Difference, FileError};
use crate::table::{ColumnInfo, Kind};

/// Makes the fields of two files one: the same names in the same order, and the same kind of cells.
pub(super) fn agree(
    common: &mut [Field],
    fields: &[Field],
    first: &str,
    name: &str,
) -> Result<(), DataError> {
    let differ =
        |difference| Err(FileError::Different { first: first.into(), other: name.into(), difference }.into());
    if let Some((a, b)) = common.iter().zip(fields).find(|(a, b)| a.name() != b.name()) {
        return differ(Difference::Name { first: a.name().clone(), other: b.name().clone() });
    }
    if common.len() != fields.len() {
        return differ(Difference::Count { first: common.len(), other: fields.len() });
    }
    for (a, b) in common.iter_mut().zip(fields).filter(|(a, b)| a.data_type() != b.data_type()) {
        match (cells::kind(a.data_type()), cells::kind(b.data_type())) {
            (Kind::Number, Kind::Number) => a.set_data_type(DataType::Float64),
            (Kind::Text, Kind::Text) => a.set_data_type(DataType::Utf8),
            _ => {
                return differ(Difference::Type {
                    column: a.name().clone(),
                    first: a.data_type().to_string(),
                    other: b.data_type().to_string(),
                });
            }
        }
    }
    Ok(())
}

/// The columns of a query. One that was handed through with numbers and text mixed stays so.
pub(super) fn result_columns(frame: &DataFrame, files: &[ColumnInfo]) -> Vec<ColumnInfo> {
    let column = |field: &Arc<Field>| {
        let kind = cells::kind(field.data_type());
        let before = files.iter().find(|c| c.name == *field.name());
        let unclear =
            |c: &&ColumnInfo| matches!(c.kind, Kind::Mixed { .. } | Kind::Inexact { .. } | Kind::Empty);
        let through = before.filter(unclear).filter(|_| kind == Kind::Text);
        ColumnInfo { name: field.name().clone(), kind: through.map_or(kind, |c| c.kind.clone()) }
    };
    frame.schema().fields().iter().map(column).collect()
}

/// What DataFusion says, sorted by whose fault it is.
pub(super) fn problem(error: DataFusionError, what: &str, columns: &[ColumnInfo]) -> DataError {
    let name = what.to_string();
    match error.find_root() {
        DataFusionError::SchemaError(schema, _) => match schema.as_ref() {
            datafusion::common::SchemaError::FieldNotFound { field, .. } => ColumnError::NotFound {
                name: field.name.clone(),
                within: Some(name),
                available: columns.iter().map(|c| c.name.clone()).collect(),
            }
            .into(),
            other => FileError::Query { name, reason: other.to_string() }.into(),
        },
        DataFusionError::SQL(parser, _) => FileError::Query { name, reason: parser.to_string() }.into(),
        DataFusionError::Plan(words) => FileError::Query { name, reason: words.clone() }.into(),
        DataFusionError::ObjectStore(e) => FileError::Read { name, reason: e.to_string() }.into(),
        DataFusionError::IoError(e) => FileError::Read { name, reason: e.to_string() }.into(),
        other => FileError::Damaged { name, reason: other.to_string() }.into(),
    }
}
