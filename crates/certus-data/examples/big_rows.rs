//! Many rows for `bench/big`: `big_rows ROWS DIRECTORY [FILES]` writes ROWS rows of a 0/1 response and 10 features into FILES [10] Parquet files,
//! 84 bytes a row; without arguments a few rows into a directory that is removed again.
//!
//! Numbers use all of their 52 bits and are stored as they are, so that neither dictionaries nor compression make the file small.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Repetition, Type as Physical};
use parquet::data_type::{DoubleType, Int32Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use rayon::prelude::*;

const FEATURES: usize = 10;
/// Rows of a row group.
const GROUP: usize = 1 << 18;

/// Bits that depend on (row, column, part) only.
fn mixed(row: usize, column: usize, part: usize) -> u64 {
    let mut x = (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ ((4 * column + part) as u64 + 1).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    for _ in 0..2 {
        x = (x ^ (x >> 31)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
    x ^ (x >> 32)
}

fn uniform(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// Three uniform numbers of mean 0, added up to sd 1.
fn noise(row: usize, column: usize) -> f64 {
    2.0 * ((0..3).map(|part| uniform(mixed(row, column, part))).sum::<f64>() - 1.5)
}

/// Features share a part of the first one, so that they are correlated.
fn feature(row: usize, j: usize) -> f64 {
    if j == 0 { noise(row, 1) } else { noise(row, j + 1) + 0.5 * noise(row, 1) }
}

fn response(row: usize) -> i32 {
    let slope = |j: usize| if j.is_multiple_of(2) { 0.4 } else { -0.25 };
    let t = (0..FEATURES).map(|j| slope(j) * feature(row, j)).sum::<f64>() - 0.7;
    i32::from(uniform(mixed(row, 0, 0)) < 1.0 / (1.0 + (-t).exp()))
}

fn write(path: &Path, rows: std::ops::Range<usize>) -> Result<(), Box<dyn Error + Send + Sync>> {
    let field = |name: &str, physical| {
        let column = Type::primitive_type_builder(name, physical);
        column.with_repetition(Repetition::REQUIRED).build().map(Arc::new)
    };
    let features = (0..FEATURES).map(|j| field(&format!("x{}", j + 1), Physical::DOUBLE));
    let fields = std::iter::once(field("y", Physical::INT32)).chain(features).collect::<Result<_, _>>()?;
    let schema = Arc::new(Type::group_type_builder("rows").with_fields(fields).build()?);
    let properties = Arc::new(WriterProperties::builder().set_dictionary_enabled(false).build());
    let mut file = SerializedFileWriter::new(File::create(path)?, schema, properties)?;
    for first in rows.clone().step_by(GROUP) {
        let part = first..rows.end.min(first + GROUP);
        let mut group = file.next_row_group()?;
        let mut c = 0;
        while let Some(mut column) = group.next_column()? {
            if c == 0 {
                let values: Vec<i32> = part.clone().map(response).collect();
                column.typed::<Int32Type>().write_batch(&values, None, None)?;
            } else {
                let values: Vec<f64> = part.clone().map(|i| feature(i, c - 1)).collect();
                column.typed::<DoubleType>().write_batch(&values, None, None)?;
            }
            column.close()?;
            c += 1;
        }
        group.close()?;
    }
    file.close()?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rows: usize = arguments.first().map_or(Ok(3000), |n| n.parse())?;
    let files: usize = arguments.get(2).map_or(Ok(10), |n| n.parse())?;
    let temporary = tempfile::tempdir()?;
    let directory = arguments.get(1).map_or(temporary.path(), |d| Path::new(d));
    // file k holds rows in the order of its name
    (0..files).into_par_iter().try_for_each(|k| {
        let part = rows * k / files..rows * (k + 1) / files;
        write(&directory.join(format!("part-{k:03}.parquet")), part)
    })?;
    println!("{rows} rows in {files} files");
    Ok(())
}
