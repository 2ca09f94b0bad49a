//! Logistic rows with five effects per group: `effects [GROUPS [ROWS [FILE]]]` writes them as Parquet, sorted by group.
//!
//! Every group has ROWS rows, a key, a 0/1 response and 4 features with mean 0 and sd 1; its intercept and slopes are drawn around common
//! ones with sd 1. `cargo run --release -p certus-data --example effects -- 10000 10 rows.parquet`
#![allow(clippy::print_stdout)]

mod common;

use std::error::Error;
use std::path::Path;

use common::{Cells, mixed, write};
use parquet::basic::{Compression, Type as Physical};
use parquet::file::properties::WriterProperties;

const EFFECTS: usize = 5;
/// What the effects of all groups are drawn around.
const COMMON: [f64; EFFECTS] = [-0.5, 0.8, -0.4, 0.2, 0.0];
/// Rows of a row group, about.
const ROW_GROUP: usize = 1 << 20;

/// Roughly normal with mean 0 and sd 1, a function of the three numbers only.
fn normal(group: usize, row: usize, column: usize) -> f64 {
    let own = bits(group, row, column);
    ((0..4).map(|k| uniform(own, k)).sum::<f64>() - 2.0) * 3f64.sqrt()
}

fn uniform(bits: u64, part: u32) -> f64 {
    (bits >> (16 * part) & 0xffff) as f64 / 65536.0
}

fn bits(group: usize, row: usize, column: usize) -> u64 {
    mixed(group, row * 16 + column + 1)
}

fn response(group: usize, row: usize) -> f64 {
    let effect = |j: usize| COMMON[j] + normal(group, 1 << 20, j);
    let t = effect(0) + (1..EFFECTS).map(|j| effect(j) * normal(group, row, j)).sum::<f64>();
    f64::from(u8::from(uniform(bits(group, row, 0), 0) < 1.0 / (1.0 + (-t).exp())))
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
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
    let numbers = ["y", "x1", "x2", "x3", "x4"].map(|name| (name.to_string(), Physical::DOUBLE));
    let columns: Vec<_> = std::iter::once(("g".to_string(), Physical::INT64)).chain(numbers).collect();
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let at_once = (ROW_GROUP / rows.max(1)).max(1);
    let parts = (0..groups).step_by(at_once).map(|first| first..(first + at_once).min(groups));
    write(Path::new(path), &columns, properties, parts, |c, part| {
        let places = part.clone().flat_map(|g| (0..rows).map(move |i| (g, i)));
        match c {
            0 => Cells::Int64(places.map(|(g, _)| g as i64).collect()),
            1 => Cells::Double(places.map(|(g, i)| response(g, i)).collect()),
            _ => Cells::Double(places.map(|(g, i)| normal(g, i, c - 1)).collect()),
        }
    })?;
    Ok(())
}
