//! Logistic rows with five effects per group: `effects [GROUPS [ROWS [FILE]]]` writes them as Parquet, sorted by group.
//!
//! Every group has ROWS rows, a key, a 0/1 response and 4 features with mean 0 and sd 1; its intercept and slopes are drawn around common
//! ones with sd 1. `cargo run --release -p certus-data --example effects -- 10000 10 rows.parquet`
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs::File;
use std::sync::Arc;

use parquet::basic::{Compression, Repetition, Type as Physical};
use parquet::data_type::{DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

const EFFECTS: usize = 5;
/// What the effects of all groups are drawn around.
const COMMON: [f64; EFFECTS] = [-0.5, 0.8, -0.4, 0.2, 0.0];
/// Rows of a row group, about.
const ROW_GROUP: usize = 1 << 20;

/// Roughly normal with mean 0 and sd 1, a function of the three numbers only.
fn normal(group: usize, row: usize, column: usize) -> f64 {
    let bits = mixed(group, row, column);
    ((0..4).map(|k| uniform(bits, k)).sum::<f64>() - 2.0) * 3f64.sqrt()
}

fn uniform(bits: u64, part: u32) -> f64 {
    (bits >> (16 * part) & 0xffff) as f64 / 65536.0
}

fn mixed(group: usize, row: usize, column: usize) -> u64 {
    let mut x = (group as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ ((row * 16 + column) as u64 + 1).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    for _ in 0..2 {
        x = (x ^ (x >> 31)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
    x ^ (x >> 32)
}

fn response(group: usize, row: usize) -> f64 {
    let effect = |j: usize| COMMON[j] + normal(group, 1 << 20, j);
    let t = effect(0) + (1..EFFECTS).map(|j| effect(j) * normal(group, row, j)).sum::<f64>();
    f64::from(u8::from(uniform(mixed(group, row, 0), 0) < 1.0 / (1.0 + (-t).exp())))
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |k: usize, usual: usize| arguments.get(k).map_or(Ok(usual), |n| n.parse::<usize>());
    let (groups, rows) = (number(0, 100)?, number(1, 10)?);
    let ones = (0..groups.min(1000)).flat_map(|g| (0..rows).map(move |i| response(g, i))).sum::<f64>();
    println!(
        "{groups} groups, {} rows; {:.3} of the first responses are 1",
        groups * rows,
        ones / (groups.min(1000) * rows) as f64
    );
    let Some(path) = arguments.get(2) else { return Ok(()) };
    let field = |name: &str, physical| {
        let column = Type::primitive_type_builder(name, physical);
        column.with_repetition(Repetition::REQUIRED).build().map(Arc::new)
    };
    let numbers = ["y", "x1", "x2", "x3", "x4"].into_iter().map(|name| field(name, Physical::DOUBLE));
    let fields = std::iter::once(field("g", Physical::INT64)).chain(numbers).collect::<Result<_, _>>()?;
    let schema = Arc::new(Type::group_type_builder("rows").with_fields(fields).build()?);
    let properties = Arc::new(WriterProperties::builder().set_compression(Compression::SNAPPY).build());
    let mut file = SerializedFileWriter::new(File::create(path)?, schema, properties)?;
    let at_once = (ROW_GROUP / rows.max(1)).max(1);
    for first in (0..groups).step_by(at_once) {
        let places = || (first..(first + at_once).min(groups)).flat_map(|g| (0..rows).map(move |i| (g, i)));
        let mut part = file.next_row_group()?;
        let mut c = 0;
        while let Some(mut column) = part.next_column()? {
            if c == 0 {
                let keys: Vec<i64> = places().map(|(g, _)| g as i64).collect();
                column.typed::<Int64Type>().write_batch(&keys, None, None)?;
            } else {
                let value = |(g, i)| if c == 1 { response(g, i) } else { normal(g, i, c - 1) };
                let values: Vec<f64> = places().map(value).collect();
                column.typed::<DoubleType>().write_batch(&values, None, None)?;
            }
            column.close()?;
            c += 1;
        }
        part.close()?;
    }
    file.close()?;
    Ok(())
}
