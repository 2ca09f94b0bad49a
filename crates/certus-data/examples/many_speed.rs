//! Many small logistic posteriors: `many_speed GROUPS FILE` makes a Parquet file of them, `many_speed GROUPS` fits them from memory.
//!
//! A group has 50 to 200 rows, a key, a 0/1 response and 4 features (d = 5); rows of a group are as far from each other as can be.
//! `cargo run --profile dist -p certus-data --example many_speed -- 20000`
#![allow(clippy::print_stdout)]

mod common;

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use certus::Goal;
use certus_data::many::{Chunks, GroupFit, Many, ManyHow, Watcher};
use certus_data::{Column, Family, Numbers, Request, Spec, Table, Way};
use common::{Cells, mixed, write};
use parquet::basic::{Compression, Type as Physical};
use parquet::file::properties::WriterProperties;

const FEATURES: usize = 4;
const ROW_GROUP: usize = 1 << 20;

fn bits(group: usize, row: usize, column: usize) -> u64 {
    mixed(group, row * 8 + column + 1)
}

fn uniform(bits: u64, part: u32) -> f64 {
    (bits >> (16 * part) & 0xffff) as f64 / 65536.0
}

/// Rows of a group.
fn size(group: usize) -> usize {
    50 + (bits(group, 1 << 20, 0) % 151) as usize
}

/// Roughly normal with sd 1.
fn feature(group: usize, row: usize, j: usize) -> f64 {
    let own = bits(group, row, j + 1);
    ((0..4).map(|k| uniform(own, k)).sum::<f64>() - 2.0) * 3f64.sqrt()
}

/// The response; coefficients differ from group to group.
fn response(group: usize, row: usize) -> f64 {
    let slope = |j: usize| 2.0 * uniform(bits(group, 1 << 21, j), 0) - 1.0;
    let t = (0..FEATURES).map(|j| slope(j) * feature(group, row, j)).sum::<f64>() + slope(FEATURES);
    f64::from(u8::from(uniform(bits(group, row, 0), 0) < 1.0 / (1.0 + (-t).exp())))
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

fn write_rows(groups: usize, path: &Path) -> Result<(), Box<dyn Error + Send + Sync>> {
    let numbers = (0..=FEATURES).map(|c| (name(c), Physical::DOUBLE));
    let columns: Vec<_> = std::iter::once(("store".to_string(), Physical::INT64)).chain(numbers).collect();
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut rest = places(groups).peekable();
    let parts = std::iter::from_fn(move || {
        rest.peek().is_some().then(|| rest.by_ref().take(ROW_GROUP).collect::<Vec<_>>())
    });
    write(path, &columns, properties, parts, |c, part| match c {
        0 => Cells::Int64(part.iter().map(|(g, _)| *g as i64).collect()),
        _ => Cells::Double(part.iter().map(|place| value(c - 1, *place)).collect()),
    })
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

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let groups: usize = arguments.first().map_or(Ok(500), |n| n.parse())?;
    if let Some(path) = arguments.get(1) {
        return write_rows(groups, Path::new(path));
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
        way: Way::new("auto", None, None, Numbers::default())?,
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
