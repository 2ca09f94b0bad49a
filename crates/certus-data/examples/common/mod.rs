//! Tables made up for the purpose: numbers that look random, and Parquet files of them.
#![allow(dead_code, unreachable_pub)]

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Repetition, Type as Physical};
use parquet::data_type::{DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

/// Bits that depend on the two numbers only.
pub fn mixed(first: usize, second: usize) -> u64 {
    let mut x = (first as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ (second as u64).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    for _ in 0..2 {
        x = (x ^ (x >> 31)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
    x ^ (x >> 32)
}

/// The cells of a column in one row group.
pub enum Cells {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Double(Vec<f64>),
}

/// Writes columns of these names and types, none of them with gaps; `cells(c, part)` are those of column c in a row group.
pub fn write<P>(
    path: &Path,
    columns: &[(String, Physical)],
    properties: WriterProperties,
    parts: impl Iterator<Item = P>,
    cells: impl Fn(usize, &P) -> Cells,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let field = |(name, physical): &(String, Physical)| {
        let column = Type::primitive_type_builder(name, *physical);
        column.with_repetition(Repetition::REQUIRED).build().map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<_, _>>()?;
    let schema = Arc::new(Type::group_type_builder("rows").with_fields(fields).build()?);
    let mut file = SerializedFileWriter::new(File::create(path)?, schema, Arc::new(properties))?;
    for part in parts {
        let mut group = file.next_row_group()?;
        let mut c = 0;
        while let Some(mut column) = group.next_column()? {
            match cells(c, &part) {
                Cells::Int32(values) => column.typed::<Int32Type>().write_batch(&values, None, None)?,
                Cells::Int64(values) => column.typed::<Int64Type>().write_batch(&values, None, None)?,
                Cells::Double(values) => column.typed::<DoubleType>().write_batch(&values, None, None)?,
            };
            column.close()?;
            c += 1;
        }
        group.close()?;
    }
    file.close()?;
    Ok(())
}
