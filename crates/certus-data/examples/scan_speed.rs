//! How fast columns come out of a Parquet file, against a bare decode of the same file in the same run.
//!
//! `cargo run --profile dist -p certus-data --features scan --example scan_speed -- ROWS [FILE]` makes FILE (a temporary one by default) with
//! ROWS rows, a 0/1 response and 20 features, if it is not there, and prints one line per way of reading it.
#![allow(clippy::print_stdout)]

mod common;

use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use certus_data::{Column, Family, FileSource, Source, Spec, prepare};
use common::{Cells, mixed, write};
use parquet::basic::{Compression, Type as Physical};
use parquet::column::reader::ColumnReader;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};

const FEATURES: usize = 20;
const GROUP: usize = 1 << 20;

/// Features roughly normal with sd 1, rounded to 1/64 as measurements are; the response follows three of them.
fn value(row: usize, column: usize) -> f64 {
    let part = |k: u32| (mixed(row, column) >> (16 * k) & 0xffff) as f64 / 65536.0 - 0.5;
    let normal = (part(0) + part(1) + part(2) + part(3)) * 3f64.sqrt();
    if column > 0 {
        return (64.0 * normal).round() / 64.0;
    }
    let t = value(row, 1) - 0.5 * value(row, 2) + 0.25 * value(row, 3) - 1.0;
    f64::from(u8::from(part(0) + 0.5 < 1.0 / (1.0 + (-t).exp())))
}

fn make(path: &Path, rows: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
    let name = |j: usize| if j == 0 { "y".to_string() } else { format!("x{j}") };
    let columns: Vec<_> = (0..=FEATURES).map(|j| (name(j), Physical::DOUBLE)).collect();
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let parts = (0..rows).step_by(GROUP).map(|first| first..rows.min(first + GROUP));
    write(path, &columns, properties, parts, |j, part| {
        Cells::Double(part.clone().map(|i| value(i, j)).collect())
    })
}

/// Every column of every row group into one buffer.
fn bare(path: &Path) -> Result<f64, Box<dyn Error + Send + Sync>> {
    let reader = SerializedFileReader::new(File::open(path)?)?;
    let (mut buffer, mut sum) = (Vec::new(), 0.0);
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group)?;
        for j in 0..=FEATURES {
            let ColumnReader::DoubleColumnReader(mut column) = group.get_column_reader(j)? else { continue };
            buffer.clear();
            column.read_records(group.metadata().num_rows() as usize, None, None, &mut buffer)?;
            sum += buffer.iter().sum::<f64>();
        }
    }
    Ok(sum)
}

/// Sum and sum of squares of every column, in one pass through the source.
fn statistics(path: &Path) -> Result<f64, Box<dyn Error + Send + Sync>> {
    let source = FileSource::open(&[path.to_path_buf()], None, None)?;
    let wanted: Vec<usize> = (0..source.columns().len()).collect();
    let mut sums = vec![(0.0, 0.0); wanted.len()];
    source.scan(&wanted, &mut |batch| {
        for (c, sums) in sums.iter_mut().enumerate() {
            let (column, start) = batch.cell(c, 0);
            let Column::Number(numbers) = column else { continue };
            // four sums, so that one addition does not wait for the other
            let mut lanes = [[0.0; 2]; 4];
            for four in numbers[start..start + batch.rows()].chunks(4) {
                for (lane, x) in lanes.iter_mut().zip(four) {
                    *lane = [lane[0] + x, lane[1] + x * x];
                }
            }
            lanes.iter().for_each(|lane| (sums.0, sums.1) = (sums.0 + lane[0], sums.1 + lane[1]));
        }
        Ok(())
    })?;
    Ok(sums.iter().map(|s| s.0).sum())
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let rows: usize = arguments.next().map_or(Ok(20_000), |text| text.parse())?;
    let given = arguments.next().map(PathBuf::from);
    let path = given
        .clone()
        .unwrap_or_else(|| std::env::temp_dir().join(format!("certus-scan-{}.parquet", std::process::id())));
    if !path.exists() {
        make(&path, rows)?;
    }
    let timed = |what: &str,
                 work: &dyn Fn() -> Result<f64, Box<dyn Error + Send + Sync>>|
     -> Result<(f64, f64), Box<dyn Error + Send + Sync>> {
        let clock = Instant::now();
        let sum = work()?;
        let seconds = clock.elapsed().as_secs_f64();
        println!("{what:<36} {seconds:8.3} s {:12.3e} rows/s", rows as f64 / seconds);
        Ok((seconds, sum))
    };
    // the first one also brings the file into memory
    bare(&path)?;
    let (bare_time, bare_sum) = timed("bare decode of every column", &|| bare(&path))?;
    let (scan_time, scan_sum) = timed("one pass of statistics", &|| statistics(&path))?;
    timed("prepared: two passes, leaves, checks", &|| {
        let source = FileSource::open(std::slice::from_ref(&path), None, None)?;
        Ok(prepare(&source, &Spec::new("y", Family::Logistic))?.response.mean)
    })?;
    println!("statistics against the bare decode: {:.2}", scan_time / bare_time);
    assert!((bare_sum - scan_sum).abs() <= 1e-9 * rows as f64, "{bare_sum} {scan_sum}");
    if given.is_none() {
        std::fs::remove_file(&path)?;
    }
    Ok(())
}
