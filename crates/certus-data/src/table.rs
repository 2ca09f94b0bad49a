//! Columns as they are given: typed cells with gaps, and the sources that hand them out in the order of their rows.

use crate::error::{ColumnError, DataError};
pub use crate::kind::Kind;

/// Rows that a table hands out at a time.
const BATCH: usize = 8192;

/// The cells of one column.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Numbers; NaN is missing.
    Number(Vec<f64>),
    /// Truth values.
    Boolean(Vec<Option<bool>>),
    /// Text; see [`Column::is_missing`] for the texts that count as missing.
    Text(Vec<Option<String>>),
    /// Days since 1970-01-01, with fractions for times of day; NaN is missing.
    Date(Vec<f64>),
}

impl Column {
    /// Number of cells.
    pub fn len(&self) -> usize {
        match self {
            Self::Number(v) | Self::Date(v) => v.len(),
            Self::Boolean(v) => v.len(),
            Self::Text(v) => v.len(),
        }
    }

    /// True without cells.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What kind of cells these are.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Number(_) => Kind::Number,
            Self::Boolean(_) => Kind::Boolean,
            Self::Text(_) => Kind::Text,
            Self::Date(_) => Kind::Date,
        }
    }

    /// True for a gap, NaN, and the texts `NA`, `.`, `nan` (in any case) and nothing but spaces.
    pub fn is_missing(&self, i: usize) -> bool {
        match self {
            Self::Number(v) | Self::Date(v) => v[i].is_nan(),
            Self::Boolean(v) => v[i].is_none(),
            Self::Text(v) => v[i].as_deref().is_none_or(missing_text),
        }
    }

    /// Cell i as a number: itself, 0 or 1, or days; `None` for text.
    pub fn number(&self, i: usize) -> Option<f64> {
        match self {
            Self::Number(v) | Self::Date(v) => Some(v[i]),
            Self::Boolean(v) => Some(v[i].map_or(f64::NAN, |b| f64::from(u8::from(b)))),
            Self::Text(_) => None,
        }
    }

    /// Cell i as the name of a level.
    pub fn label(&self, i: usize) -> String {
        match self {
            // + 0.0 makes −0 the same level as 0
            Self::Number(v) => format!("{}", v[i] + 0.0),
            Self::Date(v) => date_label(v[i]),
            Self::Boolean(v) => v[i].map_or(String::new(), |b| b.to_string()),
            Self::Text(v) => v[i].clone().unwrap_or_default(),
        }
    }
}

/// True for the texts that stand for a missing value.
pub(crate) fn missing_text(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || text == "NA" || text == "." || text.eq_ignore_ascii_case("nan")
}

/// Year-month-day of a day since 1970-01-01 (proleptic Gregorian), with the fraction of the day if there is one.
pub(crate) fn date_label(days: f64) -> String {
    let (whole, fraction) = (days.floor(), days - days.floor());
    // years counted from March, so that the leap day is the last of its year; eras of 400 years have 146097 days
    let day = whole as i64 + 719_468;
    let (era, in_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year_of_era = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * in_year + 2) / 153;
    let day_of_month = in_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + 400 * era + i64::from(month <= 2);
    let date = format!("{year:04}-{month:02}-{day_of_month:02}");
    if fraction == 0.0 { date } else { format!("{date}+{fraction}d") }
}

/// A column's name and kind.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ColumnInfo {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
}

/// Some consecutive rows of the columns asked for.
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    columns: Vec<&'a Column>,
    start: usize,
    rows: usize,
    first: usize,
    place: &'a str,
}

impl<'a> Batch<'a> {
    /// `columns[..][start..start + rows]`. `first` is the number of the first row within `place`, such as " of
    /// trips.csv" or nothing.
    pub fn new(columns: Vec<&'a Column>, start: usize, rows: usize, first: usize, place: &'a str) -> Self {
        debug_assert!(columns.iter().all(|c| c.len() >= start + rows));
        Self { columns, start, rows, first, place }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of the first row within its place.
    #[cfg(feature = "scan")]
    pub(crate) fn first(&self) -> usize {
        self.first
    }

    /// Where the rows are, in words: " of trips.csv" or nothing.
    #[cfg(feature = "scan")]
    pub(crate) fn place_of_file(&self) -> &'a str {
        self.place
    }

    /// Column `c` of those asked for, and the index of row i in it.
    pub fn cell(&self, c: usize, i: usize) -> (&'a Column, usize) {
        (self.columns[c], self.start + i)
    }

    /// Row i in words, counted from 1.
    pub fn place(&self, i: usize) -> String {
        format!("row {}{}", self.first + i + 1, self.place)
    }
}

/// Where columns come from. Rows have one fixed order.
pub trait Source: Send + Sync {
    /// The columns, in their order.
    fn columns(&self) -> &[ColumnInfo];

    /// Hands every row of the columns `wanted` to `visit`, in order; other columns are not read.
    fn scan(
        &self,
        wanted: &[usize],
        visit: &mut dyn FnMut(&Batch<'_>) -> Result<(), DataError>,
    ) -> Result<(), DataError>;

    /// How many files and rows were read, in words, if a search chose the files; `rows` is what a scan gave.
    fn files_read(&self, _rows: usize) -> Option<String> {
        None
    }

    /// What a user should know of how the cells of the columns `wanted` are read, one sentence each.
    fn notes(&self, _wanted: &[usize]) -> Vec<String> {
        Vec::new()
    }
}

/// Columns in memory.
#[derive(Clone, Debug, Default)]
pub struct Table {
    info: Vec<ColumnInfo>,
    columns: Vec<Column>,
}

impl Table {
    /// Columns of the same length under different names.
    pub fn new(columns: Vec<(String, Column)>) -> Result<Self, DataError> {
        let mut table = Self::default();
        for (name, column) in columns {
            if table.info.iter().any(|c| c.name == name) {
                return Err(ColumnError::Repeated { name, file: None }.into());
            }
            if let Some(first) = table.columns.first().filter(|first| first.len() != column.len()) {
                return Err(ColumnError::Lengths {
                    column: name,
                    rows: column.len(),
                    other: table.info[0].name.clone(),
                    other_rows: first.len(),
                }
                .into());
            }
            let gaps = !column.is_empty() && (0..column.len()).all(|i| column.is_missing(i));
            let kind = if gaps { Kind::Empty } else { column.kind() };
            table.info.push(ColumnInfo { name, kind });
            table.columns.push(column);
        }
        Ok(table)
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, Column::len)
    }

    /// Names, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.info.iter().map(|info| info.name.as_str())
    }

    /// A column by its place.
    pub(crate) fn at(&self, place: usize) -> &Column {
        &self.columns[place]
    }
}

impl Source for Table {
    fn columns(&self) -> &[ColumnInfo] {
        &self.info
    }

    fn scan(
        &self,
        wanted: &[usize],
        visit: &mut dyn FnMut(&Batch<'_>) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let columns: Vec<&Column> = wanted.iter().map(|&c| &self.columns[c]).collect();
        for start in (0..self.rows()).step_by(BATCH) {
            visit(&Batch::new(columns.clone(), start, BATCH.min(self.rows() - start), start, ""))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_have_names() {
        // 2000-03-01 is day 11017; 1900 and 2100 are no leap years, 2000 is one
        for (day, name) in [
            (0.0, "1970-01-01"),
            (-1.0, "1969-12-31"),
            (11_016.0, "2000-02-29"),
            (11_017.0, "2000-03-01"),
            (-25_508.0, "1900-03-01"),
            (-25_509.0, "1900-02-28"),
            (20_772.0, "2026-11-15"),
            (0.5, "1970-01-01+0.5d"),
        ] {
            assert_eq!(date_label(day), name);
        }
    }

    #[test]
    fn gaps_have_many_spellings() {
        let text = Column::Text(["NA", "", " ", "nan", ".", "na", "x"].map(|s| Some(s.into())).to_vec());
        assert_eq!(
            (0..7).map(|i| text.is_missing(i)).collect::<Vec<_>>(),
            [true, true, true, true, true, false, false]
        );
        assert!(Column::Number(vec![f64::NAN]).is_missing(0) && Column::Boolean(vec![None]).is_missing(0));
    }
}
