//! `certus export-proof`: the gap of a fit, written out with its rows and with hints for `certus-check`
//! (docs/certificate-format.md).

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use certus::Gaussian;
use certus_models::proof::{Guess, MOST_COEFFICIENTS, Subject, covers};

use crate::atomic;
use crate::error::Error;
use crate::problem::{ModelKind, Problem};
use crate::record::{Record, RecordedLevel};
use crate::verify::Stored;

fn refused(words: impl Into<String>) -> Error {
    Error::NoProof(words.into())
}

/// What was exported.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The claim, in nats.
    pub bound: f64,
    /// What the fit states.
    pub stated: Option<f64>,
    /// The file of the rows.
    pub rows: PathBuf,
    /// Blocks of rows.
    pub blocks: u64,
}

/// Multiplications that a report spends on a certificate at most.
const MOST_WORK: f64 = 1e9;

/// The certificate for a report, or why it has none; `None` where nobody would expect one.
pub fn for_report(problem: &Problem, gaussian: &Gaussian, record: &Record) -> Option<Result<String, String>> {
    let ModelKind::Dense(model) = &problem.model_kind else { return None };
    let gap = &record.certificate.gap;
    let bound = gap.bound.filter(|_| gap.level == RecordedLevel::Proved)?;
    if !covers(model) || model.dim() > MOST_COEFFICIENTS {
        return None;
    }
    // a pass with three sums of squares, and some hundred operations for the expectations of a row
    let d = model.dim() as f64;
    if problem.prepared.rows_used as f64 * (2.0 * d * d + 1000.0) > MOST_WORK {
        let words =
            "a certificate that anyone can check takes too long for a report: certus export-proof writes it";
        return Some(Err(words.into()));
    }
    let names = problem.prepared.encoding.coefficients();
    let guess = Guess { gap: bound, curvature: 1.0 };
    let made = Subject::new(model, gaussian, &names, None).and_then(|subject| subject.certify(guess));
    Some(made.map(|certificate| certificate.write()).map_err(|error| error.to_string()))
}

/// Writes the certificate of a fit to `to`, and its rows to a file beside it whose name ends in `.rows`.
pub fn export(problem: &Problem, stored: &Stored, to: &Path) -> Result<Exported, Error> {
    let model = match &problem.model_kind {
        ModelKind::Dense(model) => model,
        ModelKind::Grouped(_) => {
            return Err(refused("certificates of version 1 cover models without group terms"));
        }
        ModelKind::Collapsed(_) => {
            return Err(refused("certificates of version 1 cover models whose scales are all given"));
        }
    };
    let names = problem.prepared.encoding.coefficients();
    let subject = Subject::new(model, &stored.arrays.gaussian, &names, None)?;
    let blocks = subject.blocks();
    let rows = to.with_extension("rows");
    if rows == to {
        return Err(refused("the rows are written to a file that ends in .rows: choose another name"));
    }
    let stated = stored.record.certificate.gap.bound;
    let guess = Guess { gap: stated.unwrap_or(1e-3), curvature: 1.0 };
    let certificate = Subject::new(model, &stored.arrays.gaussian, &names, None)?.certify(guess)?;
    // rows first: a certificate is never without them
    let half = atomic::temporary(&rows);
    let write = || -> Result<(), Error> {
        let failed = |source| Error::write(&rows, source);
        let mut file = BufWriter::new(File::create_new(&half).map_err(failed)?);
        for block in 0..blocks {
            file.write_all(&subject.block(block)?).map_err(failed)?;
        }
        file.into_inner().map_err(|error| failed(error.into_error()))?.sync_all().map_err(failed)?;
        std::fs::rename(&half, &rows).map_err(failed)
    };
    write().inspect_err(|_| drop(std::fs::remove_file(&half)))?;
    atomic::write_atomically(to, certificate.write().as_bytes())?;
    Ok(Exported { bound: certificate.bound, stated, rows, blocks })
}
