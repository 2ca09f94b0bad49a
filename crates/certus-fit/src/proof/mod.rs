//! `certus export-proof`: the gap of a fit, the interval of its sd, its variance parameters or its posterior, written
//! out with the rows and with hints for `certus-check` (docs/certificate-format.md).

pub(crate) mod moments;
pub(crate) mod sd;
pub(crate) mod variances;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use certus::certificate::figure;
use certus_models::Glm;
use certus_models::proof::{Guess, MOST_COEFFICIENTS, Subject, covers};

use crate::atomic;
use crate::error::Error;
use crate::problem::{ModelKind, Problem};
use crate::record::RecordedLevel;
use crate::verify::Stored;

fn refused(words: impl Into<String>) -> Error {
    Error::NoProof(words.into())
}

/// What was exported.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The claim in words, and what the fit states.
    pub claim: String,
    /// The file of the rows.
    pub rows: PathBuf,
    /// Blocks of rows.
    pub blocks: u64,
}

/// Multiplications that a report spends on a certificate at most.
const MOST_WORK: f64 = 1e9;

/// A certificate for a report, or why it has none.
pub type ForReport = Result<String, String>;

/// The certificates for a report; none where nobody would expect one.
pub fn for_report(problem: &Problem, stored: &Stored) -> Vec<ForReport> {
    let made = match &problem.model_kind {
        ModelKind::Dense(model) => [of_gap(problem, model, stored), of_posterior(problem, stored)],
        ModelKind::Grouped(_) => [None, None],
        ModelKind::Collapsed(_) => [of_variances(problem, stored), of_sd(problem, stored)],
    };
    made.into_iter().flatten().collect()
}

fn too_long(command: &str) -> ForReport {
    Err(format!("a certificate that anyone can check takes too long for a report: {command} writes it"))
}

fn in_words(made: Result<String, Error>) -> ForReport {
    made.map_err(|error| error.to_string())
}

fn of_gap(problem: &Problem, model: &Glm, stored: &Stored) -> Option<ForReport> {
    let gap = &stored.record.certificate.gap;
    let bound = gap.bound.filter(|_| gap.level == RecordedLevel::Proved)?;
    if !covers(model) || model.dim() > MOST_COEFFICIENTS {
        return None;
    }
    // a pass with three sums of squares, and some hundred operations for the expectations of a row
    let d = model.dim() as f64;
    if problem.prepared.rows_used as f64 * (2.0 * d * d + 1000.0) > MOST_WORK {
        return Some(too_long("certus export-proof"));
    }
    let names = problem.prepared.encoding.coefficients();
    let guess = Guess { gap: bound, curvature: 1.0 };
    let made = Subject::new(model, &stored.arrays.gaussian, &names, None);
    let made = made.and_then(|subject| Ok(subject.certify(guess)?.write()));
    Some(in_words(made.map_err(Error::from)))
}

fn of_posterior(problem: &Problem, stored: &Stored) -> Option<ForReport> {
    if !moments::concerns(problem, stored) {
        return None;
    }
    let Some(pairs) = moments::pairs(problem) else {
        return Some(too_long("certus export-proof --posterior"));
    };
    let stated = moments::StatedMoments::of(problem, stored);
    Some(in_words(stated.and_then(|stated| Ok(stated.certify(Some(pairs))?.write()))))
}

fn of_sd(problem: &Problem, stored: &Stored) -> Option<ForReport> {
    if !sd::covers(problem, stored.record.certificate.scale.as_ref()) {
        return None;
    }
    if sd::takes_long(problem) {
        return Some(too_long("certus export-proof"));
    }
    let stated = sd::StatedSd::of(problem, stored);
    Some(in_words(stated.and_then(|own| Ok(own.subject.certify(own.start, own.sd, own.between)?.write()))))
}

fn of_variances(problem: &Problem, stored: &Stored) -> Option<ForReport> {
    if variances::covers(problem)? {
        return Some(too_long("certus export-proof"));
    }
    let stated = variances::of(problem, stored);
    Some(in_words(stated.and_then(|stated| Ok(stated.certify()?.0.write()))))
}

/// Writes the certificate of a fit to `to`, and its rows to a file beside it whose name ends in `.rows`.
pub fn export(problem: &Problem, stored: &Stored, to: &Path) -> Result<Exported, Error> {
    let rows = beside(to)?;
    let model = match &problem.model_kind {
        ModelKind::Dense(model) => model,
        ModelKind::Grouped(_) => {
            return Err(refused("certificates of version 1 cover models without group terms"));
        }
        ModelKind::Collapsed(_) if variances::covers(problem).is_some() => {
            let stated = variances::of(problem, stored)?;
            let (certificate, bytes) = stated.certify()?;
            write(to, &rows, &certificate.write(), std::iter::once(Ok(bytes)))?;
            return Ok(Exported { claim: stated.words(&certificate), rows, blocks: 1 });
        }
        ModelKind::Collapsed(_) => {
            let sd::StatedSd { subject, start, sd, between } = sd::StatedSd::of(problem, stored)?;
            let certificate =
                subject.certify(start, sd, between).map_err(|error| sd::without(stored, &error))?;
            write(to, &rows, &certificate.write(), subject.rows().map(|rows| Ok(rows.to_vec())))?;
            let [[low, high], [least, most]] =
                [certificate.between, between].map(|ends| ends.map(|end| format!("{end:?}")));
            let name = stored.record.certificate.scale.as_ref().map_or("", |scale| &scale.name);
            let claim = format!(
                "{name} has a local maximum of the objective between {low} and {high} (the fit states {least} and \
                 {most})"
            );
            return Ok(Exported { claim, rows, blocks: certificate.blocks.len() as u64 });
        }
    };
    let names = problem.prepared.encoding.coefficients();
    let subject = Subject::new(model, &stored.arrays.gaussian, &names, None)?;
    let blocks = subject.blocks();
    let stated = stored.record.certificate.gap.bound;
    let guess = Guess { gap: stated.unwrap_or(1e-3), curvature: 1.0 };
    let certificate = Subject::new(model, &stored.arrays.gaussian, &names, None)?.certify(guess)?;
    write(to, &rows, &certificate.write(), (0..blocks).map(|block| subject.block(block)))?;
    let stated = stated.map_or(String::new(), |x| format!(" (the fit states {})", figure(x)));
    let claim = format!("the gap is at most {} nats{stated}", figure(certificate.bound));
    Ok(Exported { claim, rows, blocks })
}

/// Writes a certificate of the posterior's means and sds of the reported coefficients, from draws.
pub fn export_posterior(problem: &Problem, stored: &Stored, to: &Path) -> Result<Exported, Error> {
    let rows = beside(to)?;
    let stated = moments::StatedMoments::of(problem, stored)?;
    let certificate = stated.certify(None)?;
    let blocks = stated.subject.blocks();
    write(to, &rows, &certificate.write(), (0..blocks).map(|block| stated.subject.block(block)))?;
    Ok(Exported { claim: stated.words(&certificate), rows, blocks })
}

/// The file of the rows.
fn beside(to: &Path) -> Result<PathBuf, Error> {
    let rows = to.with_extension("rows");
    if rows == to {
        return Err(refused("the rows are written to a file that ends in .rows: choose another name"));
    }
    Ok(rows)
}

/// Rows first: a certificate is never without them.
fn write(
    to: &Path,
    rows: &Path,
    certificate: &str,
    parts: impl Iterator<Item = Result<Vec<u8>, certus_models::Error>>,
) -> Result<(), Error> {
    let half = atomic::temporary(rows);
    let write = || -> Result<(), Error> {
        let failed = |source| Error::write(rows, source);
        let mut file = BufWriter::new(File::create_new(&half).map_err(failed)?);
        for part in parts {
            file.write_all(&part?).map_err(failed)?;
        }
        file.into_inner().map_err(|error| failed(error.into_error()))?.sync_all().map_err(failed)?;
        std::fs::rename(&half, rows).map_err(failed)
    };
    write().inspect_err(|_| drop(std::fs::remove_file(&half)))?;
    atomic::write_atomically(to, certificate.as_bytes())
}
