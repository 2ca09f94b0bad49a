//! What a fit looks like on stdout: what is known of the numbers and how well, how the run ended, then the numbers.

use std::fmt::Write;
use std::path::Path;

use certus::Status;
use certus_fit::record::{Parameter, number};
use certus_fit::{FitDirectory, Record, Settings};

use crate::exit::{Failure, note, print, print_json};
use crate::terminal::cell;

/// Prints the record, as requested.
pub fn show(arguments: &Settings, record: &Record, directory: Option<&FitDirectory>) -> Result<(), Failure> {
    match (arguments.json, arguments.quiet) {
        (true, _) => print_json(&record.to_json()),
        (false, false) => print(&fit(record, directory.map(FitDirectory::path))),
        (false, true) => {
            // the exit code alone does not say what is missing
            if record.status != Status::Reached {
                note(&record.message);
            }
            Ok(())
        }
    }
}

/// Parameters shown.
const SHOWN: usize = 40;

/// Rows of a table, the first column to the left, the others to the right.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|text| cell(text)).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|t| t.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in &rows {
        for (c, text) in row.iter().enumerate() {
            let space = " ".repeat(widths[c] - text.chars().count());
            out.push_str(&if c == 0 { format!("{text}{space}") } else { format!("  {space}{text}") });
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out
}

/// The table of the parameters.
pub fn parameters(parameters: &[Parameter], estimated: bool) -> String {
    let [mean, sd] = if estimated { ["estimate", "se"] } else { ["mean", "sd"] };
    let head = ["parameter", mean, sd, "5 %", "95 %"].map(String::from).to_vec();
    let row = |p: &Parameter| {
        let numbers = [p.mean, p.sd, p.q05, p.q95].map(number);
        std::iter::once(p.name.clone()).chain(numbers).collect()
    };
    let rows: Vec<Vec<String>> =
        std::iter::once(head).chain(parameters.iter().take(SHOWN).map(row)).collect();
    let mut out = aligned(&rows);
    if parameters.len() > SHOWN {
        let _ = writeln!(out, "and {} more (--json or fit.json lists all of them)", parameters.len() - SHOWN);
    }
    out
}

/// What is known of the printed numbers, how the run ended, the parameters, the notes. A run that fell short says so
/// first.
pub fn fit(record: &Record, written: Option<&Path>) -> String {
    let mut lines = record.statements();
    let place = if record.status == Status::Reached { lines.len() } else { 0 };
    lines.insert(place, (record.status.as_str(), record.message.clone()));
    if !record.route.is_empty() {
        lines.push(("route", record.route.clone()));
    }
    lines.push(("spent", record.spent()));
    let width = lines.iter().map(|l| l.0.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for (what, text) in &lines {
        let _ = writeln!(out, "{what:<width$}  {text}");
    }
    if !record.parameters.is_empty() {
        let _ = write!(out, "\n{}", parameters(&record.parameters, record.criterion.is_some()));
    }
    if !record.notes.is_empty() {
        out.push('\n');
        record.notes.iter().for_each(|note| {
            let _ = writeln!(out, "note: {note}");
        });
    }
    if let Some(path) = written {
        let path = path.display();
        let _ = writeln!(out, "\nwritten to {path}; for a report: certus report {path}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_five_digits() {
        let shown = [0.0, 1.0, -12.345678, 123_456.0, 0.000_123, 99_999.4].map(|x| number(Some(x)));
        assert_eq!(shown, ["0", "1.0000", "-12.346", "1.2346e5", "1.2300e-4", "99999"]);
        assert_eq!(number(None), "-");
    }

    #[test]
    fn tables_are_aligned() {
        let rows = [vec!["a".into(), "10".into()], vec!["äöü".into(), "5".into()]];
        assert_eq!(aligned(&rows), "a    10\näöü   5\n");
    }
}
