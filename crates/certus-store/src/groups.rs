//! `groups.parquet`: a row per group with the posterior of its effect, written a row group at a time.

use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::directory::{FitDirectory, GROUPS};
use crate::error::Error;
use crate::record::GroupEffect;

/// Rows of a row group.
const ROWS: usize = 1 << 16;

/// Writes the effects, whole or not at all: `group` (text), `rows`, `mean`, `sd`, `q05`, `q50`, `q95`.
pub fn write_groups(directory: &FitDirectory, effects: &[GroupEffect]) -> Result<(), Error> {
    directory.write(GROUPS, &groups_bytes(effects)?)
}

/// The bytes of that file, a function of the effects alone.
pub fn groups_bytes(effects: &[GroupEffect]) -> Result<Vec<u8>, Error> {
    encode(effects).map_err(|e| Error::Mismatch(format!("groups cannot be encoded: {e}")))
}

fn encode(effects: &[GroupEffect]) -> Result<Vec<u8>, ParquetError> {
    let column = |name: &str, kind: Physical, logical: Option<LogicalType>| {
        let column = Type::primitive_type_builder(name, kind).with_repetition(Repetition::REQUIRED);
        column.with_logical_type(logical).build().map(Arc::new)
    };
    let mut fields = vec![
        column("group", Physical::BYTE_ARRAY, Some(LogicalType::String))?,
        column("rows", Physical::INT64, None)?,
    ];
    for name in ["mean", "sd", "q05", "q50", "q95"] {
        fields.push(column(name, Physical::DOUBLE, None)?);
    }
    let schema = Type::group_type_builder("groups").with_fields(fields).build()?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(false)
        .set_created_by(concat!("certus ", env!("CARGO_PKG_VERSION")).into())
        .build();
    let mut bytes = Vec::new();
    let mut file = SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::new(properties))?;
    for rows in effects.chunks(ROWS) {
        let mut group = file.next_row_group()?;
        let mut place = 0;
        while let Some(mut column) = group.next_column()? {
            match place {
                0 => {
                    let keys: Vec<ByteArray> = rows.iter().map(|e| e.group.as_str().into()).collect();
                    column.typed::<ByteArrayType>().write_batch(&keys, None, None)?;
                }
                1 => {
                    let counts: Vec<i64> = rows.iter().map(|e| e.rows as i64).collect();
                    column.typed::<Int64Type>().write_batch(&counts, None, None)?;
                }
                _ => {
                    let of = |e: &GroupEffect| [e.mean, e.sd, e.q05, e.q50, e.q95][place - 2];
                    let values: Vec<f64> = rows.iter().map(of).collect();
                    column.typed::<DoubleType>().write_batch(&values, None, None)?;
                }
            }
            column.close()?;
            place += 1;
        }
        group.close()?;
    }
    file.close()?;
    Ok(bytes)
}
