//! Rows made up for the benchmarks that run the binary, as Parquet files.
//!
//! `rows big ROWS DIRECTORY [FILES]` (bench/big): a 0/1 response and 10 features in FILES [10] files, 84 bytes a row.
//! Numbers use all of their 52 bits and are stored as they are, so that neither dictionaries nor compression make the
//! files small.
//!
//! `rows effects GROUPS ROWS FILE` (bench/structure): ROWS logistic rows per group, sorted by group, a key and 4
//! features; the intercept and the slopes of a group are drawn around common ones with sd 1.
//!
//! `rows many GROUPS FILE` (bench/many): 50 to 200 logistic rows per group, a key and 4 features; rows of a group are
//! as far from each other as can be.

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, Repetition, Type as Physical};
use parquet::data_type::{DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

type Failure = Box<dyn Error + Send + Sync>;

/// Bits that depend on the two numbers only.
fn mixed(first: usize, second: usize) -> u64 {
    let mut x = (first as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ (second as u64).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    for _ in 0..2 {
        x = (x ^ (x >> 31)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
    x ^ (x >> 32)
}

/// One of four numbers in [0, 1) that the bits hold.
fn uniform(bits: u64, part: u32) -> f64 {
    (bits >> (16 * part) & 0xffff) as f64 / 65536.0
}

/// Roughly normal with mean 0 and sd 1.
fn normal(bits: u64) -> f64 {
    ((0..4).map(|k| uniform(bits, k)).sum::<f64>() - 2.0) * 3f64.sqrt()
}

fn logistic(t: f64) -> f64 {
    1.0 / (1.0 + (-t).exp())
}

/// The cells of a column in one row group.
enum Cells {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Double(Vec<f64>),
}

/// Writes columns of these names and types, none of them with missing values; `cells(c, part)` are those of column c in
/// a row group.
fn write<P>(
    path: &Path,
    columns: &[(String, Physical)],
    properties: WriterProperties,
    parts: impl Iterator<Item = P>,
    cells: impl Fn(usize, &P) -> Cells,
) -> Result<(), Failure> {
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

/// Columns of doubles after a first one.
fn columns(first: (&str, Physical), others: impl Iterator<Item = String>) -> Vec<(String, Physical)> {
    let others = others.map(|name| (name, Physical::DOUBLE));
    std::iter::once((first.0.to_string(), first.1)).chain(others).collect()
}

fn compressed() -> WriterProperties {
    WriterProperties::builder().set_compression(Compression::SNAPPY).build()
}

mod big {
    use super::*;
    use rayon::prelude::*;
    use std::ops::Range;

    const FEATURES: usize = 10;
    /// Rows of a row group.
    const GROUP: usize = 1 << 18;

    fn fine(row: usize, column: usize, part: usize) -> f64 {
        (mixed(row, 4 * column + part + 1) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Three uniform numbers of mean 0, added up to sd 1.
    fn noise(row: usize, column: usize) -> f64 {
        2.0 * ((0..3).map(|part| fine(row, column, part)).sum::<f64>() - 1.5)
    }

    /// Features share a part of the first one, so that they are correlated.
    fn feature(row: usize, j: usize) -> f64 {
        if j == 0 { noise(row, 1) } else { noise(row, j + 1) + 0.5 * noise(row, 1) }
    }

    fn response(row: usize) -> i32 {
        let slope = |j: usize| if j.is_multiple_of(2) { 0.4 } else { -0.25 };
        let t = (0..FEATURES).map(|j| slope(j) * feature(row, j)).sum::<f64>() - 0.7;
        i32::from(fine(row, 0, 0) < logistic(t))
    }

    fn part(path: &Path, rows: Range<usize>) -> Result<(), Failure> {
        let columns = columns(("y", Physical::INT32), (1..=FEATURES).map(|j| format!("x{j}")));
        let properties = WriterProperties::builder().set_dictionary_enabled(false).build();
        let parts = rows.clone().step_by(GROUP).map(|first| first..rows.end.min(first + GROUP));
        write(path, &columns, properties, parts, |c, part: &Range<usize>| match c {
            0 => Cells::Int32(part.clone().map(response).collect()),
            _ => Cells::Double(part.clone().map(|i| feature(i, c - 1)).collect()),
        })
    }

    pub fn make(rows: usize, directory: &Path, files: usize) -> Result<(), Failure> {
        // file k holds rows in the order of its name
        (0..files).into_par_iter().try_for_each(|k| {
            let rows = rows * k / files..rows * (k + 1) / files;
            part(&directory.join(format!("part-{k:03}.parquet")), rows)
        })?;
        println!("{rows} rows in {files} files");
        Ok(())
    }
}

mod effects {
    use super::*;

    const EFFECTS: usize = 5;
    /// What the effects of all groups are drawn around.
    const COMMON: [f64; EFFECTS] = [-0.5, 0.8, -0.4, 0.2, 0.0];
    /// Rows of a row group, about.
    const ROW_GROUP: usize = 1 << 20;

    fn bits(group: usize, row: usize, column: usize) -> u64 {
        mixed(group, row * 16 + column + 1)
    }

    fn response(group: usize, row: usize) -> f64 {
        let effect = |j: usize| COMMON[j] + normal(bits(group, 1 << 20, j));
        let t = effect(0) + (1..EFFECTS).map(|j| effect(j) * normal(bits(group, row, j))).sum::<f64>();
        f64::from(u8::from(uniform(bits(group, row, 0), 0) < logistic(t)))
    }

    pub fn make(groups: usize, rows: usize, path: &Path) -> Result<(), Failure> {
        let seen = groups.min(1000);
        let ones = (0..seen).flat_map(|g| (0..rows).map(move |i| response(g, i))).sum::<f64>();
        println!(
            "{groups} groups, {} rows; {:.3} of the first responses are 1",
            groups * rows,
            ones / (seen * rows) as f64
        );
        let columns =
            columns(("g", Physical::INT64), ["y", "x1", "x2", "x3", "x4"].map(String::from).into_iter());
        let at_once = (ROW_GROUP / rows.max(1)).max(1);
        let parts = (0..groups).step_by(at_once).map(|first| first..(first + at_once).min(groups));
        write(path, &columns, compressed(), parts, |c, part| {
            let places = part.clone().flat_map(|g| (0..rows).map(move |i| (g, i)));
            match c {
                0 => Cells::Int64(places.map(|(g, _)| g as i64).collect()),
                1 => Cells::Double(places.map(|(g, i)| response(g, i)).collect()),
                _ => Cells::Double(places.map(|(g, i)| normal(bits(g, i, c - 1))).collect()),
            }
        })
    }
}

mod many {
    use super::*;

    const FEATURES: usize = 4;
    const ROW_GROUP: usize = 1 << 20;

    fn bits(group: usize, row: usize, column: usize) -> u64 {
        mixed(group, row * 8 + column + 1)
    }

    /// Rows of a group.
    fn size(group: usize) -> usize {
        50 + (bits(group, 1 << 20, 0) % 151) as usize
    }

    fn feature(group: usize, row: usize, j: usize) -> f64 {
        normal(bits(group, row, j + 1))
    }

    /// The response; coefficients differ from group to group.
    fn response(group: usize, row: usize) -> f64 {
        let slope = |j: usize| 2.0 * uniform(bits(group, 1 << 21, j), 0) - 1.0;
        let t = (0..FEATURES).map(|j| slope(j) * feature(group, row, j)).sum::<f64>() + slope(FEATURES);
        f64::from(u8::from(uniform(bits(group, row, 0), 0) < logistic(t)))
    }

    pub fn make(groups: usize, path: &Path) -> Result<(), Failure> {
        let name = |c: usize| if c == 0 { "y".into() } else { format!("x{c}") };
        let columns = columns(("store", Physical::INT64), (0..=FEATURES).map(name));
        // first rows of all groups, then their second ones, and so on
        let all = (0..200).flat_map(|i| (0..groups).filter(move |g| i < size(*g)).map(move |g| (g, i)));
        let mut rest = all.peekable();
        let parts = std::iter::from_fn(|| {
            rest.peek().is_some().then(|| rest.by_ref().take(ROW_GROUP).collect::<Vec<_>>())
        });
        write(path, &columns, compressed(), parts, |c, part| match c {
            0 => Cells::Int64(part.iter().map(|(g, _)| *g as i64).collect()),
            1 => Cells::Double(part.iter().map(|(g, i)| response(*g, *i)).collect()),
            _ => Cells::Double(part.iter().map(|(g, i)| feature(*g, *i, c - 2)).collect()),
        })
    }
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["big", rows, directory] => big::make(rows.parse()?, Path::new(directory), 10),
        ["big", rows, directory, files] => big::make(rows.parse()?, Path::new(directory), files.parse()?),
        ["effects", groups, rows, file] => effects::make(groups.parse()?, rows.parse()?, Path::new(file)),
        ["many", groups, file] => many::make(groups.parse()?, Path::new(file)),
        _ => Err("rows big ROWS DIRECTORY [FILES], effects GROUPS ROWS FILE, or many GROUPS FILE".into()),
    }
}
