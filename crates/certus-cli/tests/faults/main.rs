//! The fault table: one row per fault, each provoked for real through the command line or the library, with the exit
//! code or status, words of the message, and what must be left on the disk (docs/statuses.md).
//!
//! A row has a directory of its own with `d.csv`, in which its commands run. It prints `N fault rows`.
#![cfg(all(unix, feature = "scan"))]
#![allow(unreachable_pub, clippy::unwrap_used)]

mod arguments;
mod damaged;
mod data;
mod disk;
mod library;
mod signals;
mod statuses;
mod table;
mod terminal;

use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use table::Row;

/// A row that takes longer than this hangs.
const LONGEST: Duration = Duration::from_secs(60);

#[test]
fn every_fault_ends_as_it_is_said() {
    let mut rows: Vec<Row> = Vec::new();
    rows.extend(arguments::rows());
    rows.extend(data::rows());
    rows.extend(damaged::rows());
    rows.extend(disk::rows());
    rows.extend(signals::rows());
    rows.extend(terminal::rows());
    rows.extend(library::rows());
    let only = std::env::var("FAULT").unwrap_or_default();
    rows.retain(|row| row.what.contains(&only));
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let slow = Mutex::new(Vec::new());
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((k, row)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|k| Some((k, rows.get(k)?)))
                {
                    let clock = Instant::now();
                    if let Err(words) = row.check(k) {
                        // at once, for those who wait
                        let _ = writeln!(std::io::stdout(), "failed: {}:\n{words}", row.what);
                        failures.lock().unwrap().push(row.what.clone());
                    }
                    slow.lock().unwrap().push((clock.elapsed(), row.what.clone()));
                    if clock.elapsed() > LONGEST {
                        failures.lock().unwrap().push(format!("{}: it took {:?}", row.what, clock.elapsed()));
                    }
                }
            });
        }
    });
    let mut slow = slow.into_inner().unwrap();
    slow.sort();
    let slowest: Vec<String> = slow
        .iter()
        .rev()
        .take(3)
        .map(|(took, what)| format!("{what}: {:.1} s", took.as_secs_f64()))
        .collect();
    // not by `println`, which a test that passes keeps to itself
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{} fault rows in {:.0} s; the slowest: {}",
        rows.len(),
        began.elapsed().as_secs_f64(),
        slowest.join("; ")
    )
    .unwrap();
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {} rows:\n{}", failures.len(), rows.len(), failures.join("\n"));
    assert!(rows.len() >= 150 || !only.is_empty(), "{} rows", rows.len());
}

/// No two rows are the same.
#[test]
fn rows_have_names_of_their_own() {
    let mut names: Vec<String> = arguments::rows()
        .into_iter()
        .chain(data::rows())
        .chain(damaged::rows())
        .chain(disk::rows())
        .chain(signals::rows())
        .chain(terminal::rows())
        .chain(library::rows())
        .map(|row| row.what)
        .collect();
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all);
}
