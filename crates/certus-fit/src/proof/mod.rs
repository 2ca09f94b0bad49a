//! `certus export-proof`: the gap of a fit, or the interval of its sd, written out with its rows and with hints for
//! `certus-check` (docs/certificate-format.md).

pub(crate) mod sd;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use certus::certificate::figure;
use certus_models::proof::{Guess, MOST_COEFFICIENTS, Subject, covers};

use crate::atomic;
use crate::coefficient_map::Quantity;
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

/// The certificate for a report, or why it has none; `None` where nobody would expect one.
pub fn for_report(problem: &Problem, stored: &Stored) -> Option<Result<String, String>> {
    let long =
        "a certificate that anyone can check takes too long for a report: certus export-proof writes it";
    let model = match &problem.model_kind {
        ModelKind::Dense(model) => model,
        ModelKind::Grouped(_) => return None,
        ModelKind::Collapsed(_) => {
            let scale = stored.record.certificate.scale.as_ref();
            if !sd::covers(problem, scale) {
                return None;
            }
            if sd::takes_long(problem) {
                return Some(Err(long.into()));
            }
            let made = sd::StatedSd::of(problem, stored).and_then(|stated| {
                let certificate = stated.subject.certify(stated.start, stated.sd, stated.between)?;
                Ok(certificate.write())
            });
            return Some(made.map_err(|error| error.to_string()));
        }
    };
    let gap = &stored.record.certificate.gap;
    let bound = gap.bound.filter(|_| gap.level == RecordedLevel::Proved)?;
    if !covers(model) || model.dim() > MOST_COEFFICIENTS {
        return None;
    }
    // a pass with three sums of squares, and some hundred operations for the expectations of a row
    let d = model.dim() as f64;
    if problem.prepared.rows_used as f64 * (2.0 * d * d + 1000.0) > MOST_WORK {
        return Some(Err(long.into()));
    }
    let names = problem.prepared.encoding.coefficients();
    let guess = Guess { gap: bound, curvature: 1.0 };
    let gaussian = &stored.arrays.gaussian;
    let made = Subject::new(model, gaussian, &names, None).and_then(|subject| subject.certify(guess));
    Some(made.map(|certificate| certificate.write()).map_err(|error| error.to_string()))
}

/// Writes the certificate of a fit to `to`, and its rows to a file beside it whose name ends in `.rows`.
pub fn export(problem: &Problem, stored: &Stored, to: &Path) -> Result<Exported, Error> {
    let rows = beside(to)?;
    let model = match &problem.model_kind {
        ModelKind::Dense(model) => model,
        ModelKind::Grouped(_) => {
            return Err(refused("certificates of version 1 cover models without group terms"));
        }
        ModelKind::Collapsed(_) => {
            let sd::StatedSd { subject, start, sd, between } = sd::StatedSd::of(problem, stored)?;
            let certificate = subject.certify(start, sd, between)?;
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

/// The part of the certificates of posteriors that may be false: small, because nobody knows how many were made.
const DELTA: f64 = 1e-6;

/// Writes a certificate of the posterior's means and sds of the reported coefficients, from draws.
pub fn export_posterior(problem: &Problem, stored: &Stored, to: &Path) -> Result<Exported, Error> {
    let rows = beside(to)?;
    let ModelKind::Dense(model) = &problem.model_kind else {
        return Err(refused(
            "certificates of a posterior cover models without group terms whose scales are given",
        ));
    };
    let names = problem.prepared.encoding.coefficients();
    let subject = Subject::new(model, &stored.arrays.gaussian, &names, None)?;
    let combination = |quantity: Quantity| {
        let mut weights = vec![0.0; model.dim()];
        quantity.terms.iter().for_each(|(latent, weight)| weights[*latent] += weight);
        (quantity.name, weights)
    };
    let combinations: Vec<_> = problem.meaning.quantities().into_iter().map(combination).collect();
    let certificate = subject.weigh(&combinations, None, DELTA)?;
    let blocks = subject.blocks();
    write(to, &rows, &certificate.write(), (0..blocks).map(|block| subject.block(block)))?;
    let mut claim = format!(
        "with probability {}, from {} pairs of draws, KL(posterior || q) is at most {} nats",
        1.0 - DELTA,
        certificate.pairs,
        figure(certificate.divergence)
    );
    for ((name, _), direction) in combinations.iter().zip(&certificate.directions) {
        let ([a, b], [c, d]) = (direction.mean, direction.sd);
        claim.push_str(&format!("\n  {name}: mean between {a:?} and {b:?}, sd between {c:?} and {d:?}"));
    }
    Ok(Exported { claim, rows, blocks })
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
