//! `certus report`: the HTML page, with what the data show where they can be read again.

use std::path::Path;

use certus_fit::directory::{MEANING, REPORT};
use certus_fit::proof::{ForReport, for_report};
use certus_fit::report::Extras;
use certus_fit::{Checks, Fit, READ, Record, extras};

use crate::exit::{Code, Failure, print};
use crate::request::{open, path};
use crate::results::{opened, settings};
use crate::verify::reread;

/// `certus report DIR`; for a fit without a Gaussian, what its record says.
pub fn report(dir: &Path, data: Option<&Path>) -> Result<Code, Failure> {
    let directory = opened(dir)?;
    let record = Record::read(&directory)?;
    let extras = match Fit::read(&directory) {
        Ok(fit) => {
            let (checks, certificates) = seen_rows(&fit, dir, data)?;
            Extras { checks, certificates, ..fit.extras() }
        }
        Err(_) => {
            let meaning = directory.read(MEANING).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
            let checks = Checks::absent("the fit has no result");
            Extras { checks, ..extras(&record, meaning.as_ref()) }
        }
    };
    let extras = Extras { directory: Some(dir.display().to_string()), ..extras };
    certus_fit::report::write(&directory, &record, &extras)?;
    print(&format!("{}\n", directory.file(REPORT).display()))?;
    Ok(Code::Reached)
}

/// What the rows show, and the certificates; the page is made without them where the rows cannot be had, and says why.
fn seen_rows(fit: &Fit, dir: &Path, data: Option<&Path>) -> Result<(Checks, Vec<ForReport>), Failure> {
    if let Some(rows) = fit.record.data.rows.filter(|rows| *rows > READ) {
        let words = format!("the fit has {rows} rows, and a report reads no more than {READ} again");
        return Ok((Checks::absent(words), Vec::new()));
    }
    match seen(fit, dir, data) {
        // a signal ends the command and not only this part of the page
        Err(failure) if matches!(failure.code, Code::HungUp | Code::Interrupted | Code::Terminated) => {
            Err(failure)
        }
        Err(failure) => Ok((Checks::absent(failure.message), Vec::new())),
        Ok(seen) => Ok(seen),
    }
}

fn seen(fit: &Fit, dir: &Path, data: Option<&Path>) -> Result<(Checks, Vec<ForReport>), Failure> {
    let (stored, problem) = reread(dir, data, "certus report DIR")?;
    let mut settings = settings(&fit.record)?;
    settings.data = data.map(Path::to_path_buf).or(settings.data);
    let table = problem.some_rows(&*open(path(&settings)?, &settings)?)?;
    Ok((fit.checks(&problem, &table), for_report(&problem, &stored)))
}
