//! The report: one HTML file for readers who never heard of certus: the question, the data, the answer, how far to
//! trust it; then pictures of the predictors and of the data beside the model; then the technical part.
//!
//! It holds its own style and pictures, no script and no address, so it works offline, prints, and follows the reader's
//! light or dark theme. Everything that comes from outside is escaped.

mod answer;
mod axes;
mod checked;
mod html;
mod plots;
mod predictors;
mod proof;
mod question;
mod scale;
mod sentences;
mod technical;
mod trust;
mod words;

use std::fmt::Write;

use certus_data::Encoding;
use html::escape;

use crate::checks::Checks;
use crate::directory::{FitDirectory, REPORT, write_atomically};
use crate::error::Error;
use crate::proof::ForReport;
use crate::record::{Parameter, Record};

const STYLE: &str = include_str!("style.css");

/// What the record does not know.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// The title of the page; the model's name if absent.
    pub title: Option<String>,
    /// How rows were made of columns; `None` of a log density.
    pub encoding: Option<Encoding>,
    /// What is shown of the rows.
    pub checks: Checks,
    /// Lines of the summary of the data: what, and its value.
    pub data: Vec<(String, String)>,
    /// Other draws of the posterior to compare with.
    pub draws: Option<Comparison>,
    /// The posterior of an sd between groups that was not given: sds and densities.
    pub density: Vec<(f64, f64)>,
    /// Its certificates, as certus-check reads them, or why there is none.
    pub certificates: Vec<ForReport>,
    /// Where the fit is, as the user would type it, for the commands that the report names.
    pub directory: Option<String>,
}

/// A summary of draws of the posterior: exact ones, or those of another program.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Where they come from.
    pub source: String,
    /// One entry per parameter of the record, in its order.
    pub parameters: Vec<Parameter>,
}

/// The report of a fit.
pub fn report(record: &Record, extras: &Extras) -> String {
    let title = question::title(record, extras);
    let (headline, tone) = words::headline(record);
    let headline = escape(&headline);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>{title}: {headline}</title><style>\n{STYLE}</style></head><body>\n\
         <header><p class=\"kicker\">Report of a fit by certus · <span class=\"badge \
         {}\">{}</span></p><h1>{title}</h1></header>\n<main>\n",
        tone.class(),
        record.status.as_str()
    );
    question::part(&mut out, record, extras);
    answer::part(&mut out, record, extras);
    trust::part(&mut out, record);
    checked::part(&mut out, record, extras);
    technical::part(&mut out, record, extras);
    let _ = write!(
        out,
        "</main>\n<footer>Made from fit.json, schema {}. q is the fitted Gaussian, p the posterior; 1 nat is the \
            natural unit of information.</footer>\n</body></html>\n",
        record.schema
    );
    out
}

/// Writes `report.html`.
pub fn write(directory: &FitDirectory, record: &Record, extras: &Extras) -> Result<(), Error> {
    write_atomically(&directory.file(REPORT), report(record, extras).as_bytes())
}

fn section(out: &mut String, id: &str, title: &str) {
    let _ = writeln!(out, "<section aria-labelledby=\"{id}\"><h2 id=\"{id}\">{title}</h2>");
}

fn paragraphs(out: &mut String, sentences: &[String]) {
    sentences.iter().for_each(|s| {
        let _ = write!(out, "<p>{s}</p>");
    });
}
