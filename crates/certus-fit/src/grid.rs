//! The one writer of Parquet files: columns of text, whole numbers, dates, and numbers that may be missing.

use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};

use crate::error::{Error, Mismatch};

/// Rows of a row group.
const GROUP: usize = 1 << 16;

/// The cells of one column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells<'a> {
    /// Text.
    Text(Vec<String>),
    /// Text of which there are few kinds, or many cells: the kinds, and which of them every cell is.
    Label(Vec<String>, Vec<u32>),
    /// Whole numbers.
    Whole(Vec<i64>),
    /// Days since 1970-01-01.
    Date(Vec<i32>),
    /// Numbers; `None` is null.
    Number(Vec<Option<f64>>),
    /// Numbers of which none is missing: every so many of a slice, from one of them on.
    Every(&'a [f64], usize, usize),
}

impl Cells<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Text(v) => v.len(),
            Self::Label(_, v) => v.len(),
            Self::Whole(v) => v.len(),
            Self::Date(v) => v.len(),
            Self::Number(v) => v.len(),
            Self::Every(v, first, step) => v.len().saturating_sub(*first).div_ceil(*step),
        }
    }

    fn field(&self, name: &str) -> Result<TypePtr, ParquetError> {
        let (physical, logical, repetition) = match self {
            Self::Text(_) | Self::Label(..) => {
                (Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED)
            }
            Self::Whole(_) => (Physical::INT64, None, Repetition::REQUIRED),
            Self::Date(_) => (Physical::INT32, Some(LogicalType::Date), Repetition::REQUIRED),
            Self::Number(_) => (Physical::DOUBLE, None, Repetition::OPTIONAL),
            Self::Every(..) => (Physical::DOUBLE, None, Repetition::REQUIRED),
        };
        let column = Type::primitive_type_builder(name, physical).with_logical_type(logical);
        column.with_repetition(repetition).build().map(Arc::new)
    }
}

/// Named columns of the same length.
pub struct Grid<'a> {
    /// The columns.
    pub columns: &'a [(String, Cells<'a>)],
    /// A comment on them, in the metadata under `certus`.
    pub comment: &'a str,
}

impl Grid<'_> {
    /// The bytes of a Parquet file, a function of the cells alone.
    pub fn to_parquet(&self) -> Result<Vec<u8>, Error> {
        let rows = self.columns.first().map_or(0, |c| c.1.len());
        for (k, (name, cells)) in self.columns.iter().enumerate() {
            if cells.len() != rows {
                return Err(Mismatch::Cells { name: name.clone(), cells: cells.len(), rows }.into());
            }
            if self.columns[..k].iter().any(|c| c.0 == *name) {
                return Err(Mismatch::Twice { name: name.clone() }.into());
            }
        }
        Ok(self.encode(rows).map_err(Mismatch::from)?)
    }

    fn encode(&self, rows: usize) -> Result<Vec<u8>, ParquetError> {
        let fields = self.columns.iter().map(|(name, cells)| cells.field(name)).collect::<Result<_, _>>()?;
        let schema = Type::group_type_builder("rows").with_fields(fields).build()?;
        let words = KeyValue { key: "certus".into(), value: Some(self.comment.to_string()) };
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("certus ", env!("CARGO_PKG_VERSION")).into())
            .set_key_value_metadata(Some(vec![words]))
            .build();
        let mut bytes = Vec::new();
        let mut file = SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::new(properties))?;
        for first in (0..rows).step_by(GROUP) {
            let range = first..(first + GROUP).min(rows);
            let mut group = file.next_row_group()?;
            for (_, cells) in self.columns {
                let mut column =
                    group.next_column()?.ok_or_else(|| ParquetError::General("a column too many".into()))?;
                match cells {
                    Cells::Text(v) => {
                        let texts: Vec<ByteArray> =
                            v[range.clone()].iter().map(|s| ByteArray::from(s.as_str())).collect();
                        column.typed::<ByteArrayType>().write_batch(&texts, None, None)?;
                    }
                    Cells::Label(kinds, v) => {
                        let text = |k: &u32| ByteArray::from(kinds[*k as usize].as_str());
                        let texts: Vec<ByteArray> = v[range.clone()].iter().map(text).collect();
                        column.typed::<ByteArrayType>().write_batch(&texts, None, None)?;
                    }
                    Cells::Whole(v) => {
                        column.typed::<Int64Type>().write_batch(&v[range.clone()], None, None)?;
                    }
                    Cells::Date(v) => {
                        column.typed::<Int32Type>().write_batch(&v[range.clone()], None, None)?;
                    }
                    Cells::Number(v) => {
                        let there: Vec<f64> = v[range.clone()].iter().flatten().copied().collect();
                        let marks: Vec<i16> =
                            v[range.clone()].iter().map(|x| i16::from(x.is_some())).collect();
                        column.typed::<DoubleType>().write_batch(&there, Some(&marks), None)?;
                    }
                    Cells::Every(v, first, step) => {
                        let own = v[first + range.start * step..].iter().step_by(*step);
                        let values: Vec<f64> = own.take(range.len()).copied().collect();
                        column.typed::<DoubleType>().write_batch(&values, None, None)?;
                    }
                }
                column.close()?;
            }
            group.close()?;
        }
        file.close()?;
        Ok(bytes)
    }
}
