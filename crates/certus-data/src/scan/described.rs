//! What is known of files once they are open: their columns, and what a user is told of how they are read.

use serde::{Deserialize, Serialize};

use super::csv::Seen;
use super::notation::point;
use crate::table::ColumnInfo;

/// Everything of opened files but their rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Described {
    /// The columns, in their order.
    pub columns: Vec<ColumnInfo>,
    /// How many files there are.
    pub(super) files: usize,
    /// True if they were found in a directory.
    pub(super) searched: bool,
    /// True if rows must satisfy a condition.
    pub(super) filtered: bool,
    /// True if rows are those of a query.
    pub(super) queried: bool,
    /// Columns with decimal commas, and the first such cell.
    pub(super) decimal: Vec<(String, String)>,
    /// Columns of dates with other text, and the first such cell.
    pub(super) dates: Vec<(String, String)>,
}

impl Described {
    /// Takes note of what a column of CSV files holds.
    pub(super) fn notice(&mut self, name: &str, seen: &Seen) {
        let own = |cell: &str| (name.to_string(), cell.to_string());
        self.decimal.extend(seen.decimal_comma().map(own));
        self.dates.extend(seen.not_a_date().map(own));
    }

    /// See [`Source::files_read`](crate::Source::files_read).
    pub fn files_read(&self, rows: usize) -> Option<String> {
        let files = format!("read {} {}", self.files, if self.files == 1 { "file" } else { "files" });
        self.searched.then(|| match (self.filtered, self.queried) {
            (false, false) => format!("{files}, {rows} rows"),
            (true, _) => format!("{files}; {rows} rows satisfy the condition"),
            (false, true) => format!("{files}; the query gives {rows} rows"),
        })
    }

    /// See [`Source::notes`](crate::Source::notes).
    pub fn notes(&self, wanted: &[usize]) -> Vec<String> {
        // a query may use any column
        let used = |name: &String| self.queried || wanted.iter().any(|c| self.columns[*c].name == *name);
        let dates = self.dates.iter().filter(|(name, _)| used(name));
        let of_dates = |(name, cell): &(String, String)| {
            format!("'{name}' has dates, but {cell} is none: all are read as text")
        };
        let mut notes: Vec<String> = dates.map(of_dates).collect();
        let decimal: Vec<_> = self.decimal.iter().filter(|(name, _)| used(name)).collect();
        if let Some((_, first)) = decimal.first() {
            let names: Vec<String> = decimal.iter().map(|(name, _)| format!("'{name}'")).collect();
            let have = if names.len() == 1 { "has" } else { "have" };
            let read = point(first);
            notes.push(format!("{} {have} decimal commas: {first} is read as {read}", names.join(", ")));
        }
        notes
    }
}
