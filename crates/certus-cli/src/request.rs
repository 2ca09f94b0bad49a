//! From arguments to a request, its source and its model.

use std::path::Path;
use std::sync::Arc;

use certus_data::{DataError, Source, Storage};
use certus_fit::{Problem, Request, Settings};
use certus_likelihood::Response;
use certus_models::Ranks;

use crate::exit::{Code, Failure};
use crate::signals::Signals;

fn usage(message: impl Into<String>) -> Failure {
    Failure::new(Code::Usage, message)
}

/// The data, or the error without them.
pub fn path(settings: &Settings) -> Result<&Path, Failure> {
    settings.data.as_deref().ok_or_else(|| {
        usage("the data are not given: name a CSV, TSV, Parquet or Arrow file, or a directory of them")
    })
}

/// What is requested of the data.
pub fn request(settings: &Settings) -> Result<Request, Failure> {
    if settings.model.is_none() {
        let names = Response::names();
        return Err(usage(format!(
            "the model is not given: use one of {names}; for example: certus fit logistic data.csv \"y ~ x\""
        )));
    }
    if settings.data.is_none() && settings.response.is_none() && settings.formula.is_none() {
        let model = settings.model.as_deref().unwrap_or_default();
        return Err(usage(format!(
            "the data are not given: for example certus fit {model} data.csv \"y ~ x\""
        )));
    }
    if settings.response.is_none() && settings.formula.is_none() {
        return Err(usage("the response is not given: write a formula, \"y ~ x\", or use --response COL"));
    }
    Ok(settings.request()?)
}

/// Reads the data and builds the model, its rows spread over `ranks` if there are any.
pub fn problem(
    settings: &Settings,
    signals: &Signals,
    ranks: Option<Arc<dyn Ranks>>,
) -> Result<Problem, Failure> {
    let request = request(settings)?;
    let source = open_as(path(settings)?, settings, Files::Fit(request.spec.columns()))?;
    let source = Stoppable { source, signals };
    // ranks must stop together, so where there are several no pass ends before its last row
    let stop = ranks.is_none().then(|| signals.flag().clone());
    let storage = Storage { ranks, stop, ..Storage::default() };
    let read = Problem::new(&source, &request, &storage);
    read.map_err(|e| if source.stopped() { signals.end() } else { e.into() })
}

/// Whose files are opened.
#[cfg_attr(not(feature = "scan"), expect(dead_code, reason = "no files are read in such a build"))]
enum Files<'a> {
    /// Those of a fit, with its condition and its query, and the columns that it uses if they are known.
    Fit(Option<Vec<String>>),
    /// Files that are new to a fit.
    New,
    /// The same with the query of the fit, which may name the response although they do not have it.
    NewByQuery(&'a [&'a str]),
}

/// Opens files, as a fit with these settings reads them.
pub fn open(path: &Path, settings: &Settings) -> Result<Box<dyn Source>, Failure> {
    open_as(path, settings, Files::Fit(None))
}

/// Opens files that are new to a fit: its condition and its query are not applied.
pub fn open_new(path: &Path, settings: &Settings) -> Result<Box<dyn Source>, Failure> {
    open_as(path, settings, Files::New)
}

/// The same with the query of the fit, in which the response may be missing.
pub fn open_new_by_query(
    path: &Path,
    settings: &Settings,
    response: &[&str],
) -> Result<Box<dyn Source>, Failure> {
    open_as(path, settings, Files::NewByQuery(response))
}

#[cfg(feature = "scan")]
fn open_as(path: &Path, settings: &Settings, files: Files<'_>) -> Result<Box<dyn Source>, Failure> {
    let na = settings.na.clone().unwrap_or_default();
    let mut options = certus_data::FileOptions { na, ..certus_data::FileOptions::default() };
    match files {
        Files::Fit(used) => {
            (options.filter, options.sql) = (settings.r#where.clone(), settings.sql.clone());
            options.used = used;
        }
        Files::New => (),
        Files::NewByQuery(response) => {
            (options.sql, options.absent) =
                (settings.sql.clone(), response.iter().map(ToString::to_string).collect());
        }
    }
    crate::reader::open(path, options)
}

/// This build cannot.
#[cfg(not(feature = "scan"))]
fn open_as(path: &Path, _: &Settings, _: Files<'_>) -> Result<Box<dyn Source>, Failure> {
    Err(usage(format!(
        "{} cannot be read: this build does not support files (build it with the feature `scan`)",
        path.display()
    )))
}

/// A source that a signal ends, or the time.
pub struct Stoppable<'a> {
    /// The source.
    pub source: Box<dyn Source>,
    /// Whose signals.
    pub signals: &'a Signals,
}

impl Stoppable<'_> {
    /// True once no more rows are given.
    pub fn stopped(&self) -> bool {
        self.signals.seen().is_some() || self.signals.must_end()
    }
}

impl Source for Stoppable<'_> {
    fn columns(&self) -> &[certus_data::ColumnInfo] {
        self.source.columns()
    }

    fn files_read(&self, rows: usize) -> Option<String> {
        self.source.files_read(rows)
    }

    fn notes(&self, wanted: &[usize]) -> Vec<String> {
        self.source.notes(wanted)
    }

    fn scan(
        &self,
        wanted: &[usize],
        visit: &mut dyn FnMut(&certus_data::Batch<'_>) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        self.source.scan(wanted, &mut |batch| {
            if self.stopped() { Err(DataError::Stopped) } else { visit(batch) }
        })
    }
}
