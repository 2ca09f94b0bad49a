//! Many small logistic posteriors: `many_speed GROUPS FILE` makes a Parquet file of them, `many_speed GROUPS` fits them from memory.
//!
//! A group has 50 to 200 rows, a key, a 0/1 response and 4 features (d = 5); rows of a group are as far from each other as can be.
//! `cargo run --profile dist -p certus-data --example many_speed -- 20000`
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use certus::Goal;
use certus_data::many::{Chunks, GroupFit, Many, ManyHow, Watcher};
use certus_data::{Column, Family, Numbers, Request, Spec, Table, Way};
use parquet::basic::{Compression, Repetition, Type as Physical};
use parquet::data_type::{DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

const FEATURES: usize = 4;
const ROW_GROUP: usize = 1 << 20;

/// Bits that depend on (group, row, column) only.
fn mixed(group: usize, row: usize, column: usize) -> u64 {
    let mut x = (group as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ ((row * 8 + column) as u64 + 1).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    for _ in 0..2 {
        x = (x ^ (x >> 31)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
    x ^ (x >> 32)
}

fn uniform(bits: u64, part: u32) -> f64 {
    (bits >> (16 * part) & 0xffff) as f64 / 65536.0
}

/// Rows of a group.
fn size(group: usize) -> usize {
    50 + (mixed(group, 1 << 20, 0) % 151) as usize
}

/// Roughly normal with sd 1.
fn feature(group: usize, row: usize, j: usize) -> f64 {
    let bits = mixed(group, row, j + 1);
    ((0..4).map(|k| uniform(bits, k)).sum::<f64>() - 2.0) * 3f64.sqrt()
}

/// The response; coefficients differ from group to group.
fn response(group: usize, row: usize) -> f64 {
    let slope = |j: usize| 2.0 * uniform(mixed(group, 1 << 21, j), 0) - 1.0;
    let t = (0..FEATURES).map(|j| slope(j) * feature(group, row, j)).sum::<f64>() + slope(FEATURES);
    f64::from(u8::from(uniform(mixed(group, row, 0), 0) < 1.0 / (1.0 + (-t).exp())))
}

/// All (group, row): first rows of all groups, then their second ones, and so on.
fn places(groups: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..200).flat_map(move |i| (0..groups).filter(move |g| i < size(*g)).map(move |g| (g, i)))
}

fn value(c: usize, (g, i): (usize, usize)) -> f64 {
    if c == 0 { response(g, i) } else { feature(g, i, c - 1) }
}

fn name(c: usize) -> String {
    if c == 0 { "y".into() } else { format!("x{c}") }
}

fn write(groups: usize, path: &str) -> Result<(), Box<dyn Error>> {
    let field = |name: &str, physical| {
        let column = Type::primitive_type_builder(name, physical);
        column.with_repetition(Repetition::REQUIRED).build().map(Arc::new)
    };
    let numbers = (0..=FEATURES).map(|c| field(&name(c), Physical::DOUBLE));
    let fields = std::iter::once(field("store", Physical::INT64)).chain(numbers).collect::<Result<_, _>>()?;
    let schema = Arc::new(Type::group_type_builder("rows").with_fields(fields).build()?);
    let properties = Arc::new(WriterProperties::builder().set_compression(Compression::SNAPPY).build());
    let mut file = SerializedFileWriter::new(File::create(path)?, schema, properties)?;
    let mut rest = places(groups).peekable();
    while rest.peek().is_some() {
        let part: Vec<(usize, usize)> = rest.by_ref().take(ROW_GROUP).collect();
        let mut group = file.next_row_group()?;
        let mut c = 0;
        while let Some(mut column) = group.next_column()? {
            if c == 0 {
                let keys: Vec<i64> = part.iter().map(|(g, _)| *g as i64).collect();
                column.typed::<Int64Type>().write_batch(&keys, None, None)?;
            } else {
                let values: Vec<f64> = part.iter().map(|place| value(c - 1, *place)).collect();
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

#[derive(Default)]
struct Count(AtomicUsize);

impl Watcher for Count {
    fn stop(&self) -> bool {
        false
    }
    fn group(&self) {}
    fn chunk(&self, _: usize, fits: Vec<GroupFit>, _: u64) -> bool {
        let proved = fits.iter().filter(|f| f.level == "proved" && f.bound.is_some_and(|b| b <= 0.01));
        self.0.fetch_add(proved.count(), Ordering::Relaxed);
        true
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let groups: usize = arguments.first().map_or(Ok(500), |n| n.parse())?;
    if let Some(path) = arguments.get(1) {
        return write(groups, path);
    }
    let keys = Column::Number(places(groups).map(|(g, _)| g as f64).collect());
    let numbers =
        (0..=FEATURES).map(|c| (name(c), Column::Number(places(groups).map(|p| value(c, p)).collect())));
    let table = Table::new(std::iter::once(("store".to_string(), keys)).chain(numbers).collect())?;
    let clock = Instant::now();
    let many = Many::new(&table, &Request::new(Spec::new("y", Family::Logistic)), "store")?;
    let rows = table.rows();
    let how = ManyHow {
        goal: Goal::default(),
        way: Way::new("auto", None, Numbers::default())?,
        level: None,
        threads: None,
        memory: None,
    };
    let chunks = Chunks::usual(groups, rows);
    let todo: Vec<usize> = (0..chunks.count()).collect();
    let count = Count::default();
    let (read, before) = (clock.elapsed().as_secs_f64(), cpu());
    many.run(&table, &chunks, &todo, &[], &how, &count)?;
    let (wall, spent) = (clock.elapsed().as_secs_f64() - read, cpu() - before);
    println!(
        "{groups} groups, {rows} rows from memory: {} proved within 0.01 nats; keys {read:.2} s; fits {wall:.2} s, {:.0} a second, {spent:.2} s \
         of CPU, {:.0} per second of CPU",
        count.0.into_inner(),
        groups as f64 / wall,
        groups as f64 / spent
    );
    Ok(())
}

/// Seconds of CPU of this process so far, in hundredths (user and system of /proc/self/stat); 0 where there is none.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |k: usize| fields.get(k).and_then(|x| x.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}
