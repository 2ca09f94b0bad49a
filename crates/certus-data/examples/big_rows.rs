//! Many rows for `bench/big`: `big_rows ROWS DIRECTORY [FILES]` writes ROWS rows of a 0/1 response and 10 features into FILES [10] Parquet files,
//! 84 bytes a row; without arguments a few rows into a directory that is removed again.
//!
//! Numbers use all of their 52 bits and are stored as they are, so that neither dictionaries nor compression make the file small.
#![allow(clippy::print_stdout)]

mod common;

use std::error::Error;
use std::ops::Range;
use std::path::Path;

use common::{Cells, mixed, write};
use parquet::basic::Type as Physical;
use parquet::file::properties::WriterProperties;
use rayon::prelude::*;

const FEATURES: usize = 10;
/// Rows of a row group.
const GROUP: usize = 1 << 18;

fn bits(row: usize, column: usize, part: usize) -> u64 {
    mixed(row, 4 * column + part + 1)
}

fn uniform(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// Three uniform numbers of mean 0, added up to sd 1.
fn noise(row: usize, column: usize) -> f64 {
    2.0 * ((0..3).map(|part| uniform(bits(row, column, part))).sum::<f64>() - 1.5)
}

/// Features share a part of the first one, so that they are correlated.
fn feature(row: usize, j: usize) -> f64 {
    if j == 0 { noise(row, 1) } else { noise(row, j + 1) + 0.5 * noise(row, 1) }
}

fn response(row: usize) -> i32 {
    let slope = |j: usize| if j.is_multiple_of(2) { 0.4 } else { -0.25 };
    let t = (0..FEATURES).map(|j| slope(j) * feature(row, j)).sum::<f64>() - 0.7;
    i32::from(uniform(bits(row, 0, 0)) < 1.0 / (1.0 + (-t).exp()))
}

fn write_rows(path: &Path, rows: Range<usize>) -> Result<(), Box<dyn Error + Send + Sync>> {
    let features = (1..=FEATURES).map(|j| (format!("x{j}"), Physical::DOUBLE));
    let columns: Vec<_> = std::iter::once(("y".to_string(), Physical::INT32)).chain(features).collect();
    let properties = WriterProperties::builder().set_dictionary_enabled(false).build();
    let parts = rows.clone().step_by(GROUP).map(|first| first..rows.end.min(first + GROUP));
    write(path, &columns, properties, parts, |c, part: &Range<usize>| match c {
        0 => Cells::Int32(part.clone().map(response).collect()),
        _ => Cells::Double(part.clone().map(|i| feature(i, c - 1)).collect()),
    })
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
        write_rows(&directory.join(format!("part-{k:03}.parquet")), part)
    })?;
    println!("{rows} rows in {files} files");
    Ok(())
}
