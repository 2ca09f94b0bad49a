//! `certus verify`: do the parameters follow from the arrays, are the data the same, and does the certificate hold in other arithmetic?

use std::path::Path;

use certus::Gaussian;
use certus::certificate::figure;
use certus_data::{Fitted, Problem};
use certus_models::auto::Model;
use certus_models::verify::{ABSOLUTE, Claim, RELATIVE, verify};
use certus_store::record::{Gap, Level, Parameter};
use certus_store::{Arrays, FitDirectory, Record};

use crate::arguments::FitArguments;
use crate::exit::{Code, Failure, print};
use crate::fit::moved;
use crate::signals::{Parting, Signals};

pub(crate) fn refuted(message: impl Into<String>) -> Failure {
    Failure::new(Code::Refuted, message)
}

/// `certus verify DIR`.
pub fn check(dir: &Path, data: Option<&Path>) -> Result<Code, Failure> {
    let directory = FitDirectory::open(dir)?;
    directory.note().iter().for_each(|words| crate::exit::note(words));
    let record = Record::read(&directory)?;
    let mut arguments: FitArguments = serde_json::from_value(record.settings.clone())
        .map_err(|e| Failure::new(Code::Data, format!("the settings in fit.json: {e}")))?;
    if let Some(data) = data {
        arguments.data = Some(data.to_path_buf());
    }
    let arrays = Arrays::read(&directory)?;
    let signals = Signals::listen()?;
    signals.doing("reading and preparing the data");
    signals.on_end(|reason| {
        Parting::saying(format!("{} while {}; the fit was not verified", reason.words, reason.doing))
    });
    let problem = arguments.problem(&signals, None).map_err(moved)?;
    signals.doing("checking the certificate");
    let fingerprint = format!("{:016x}", problem.prepared.fingerprint);
    if record.data.fingerprint.as_deref() != Some(fingerprint.as_str()) {
        return Err(refuted("the data are not those of the fit: their fingerprints differ"));
    }
    if problem.meaning.dim() != arrays.gaussian.dim() {
        return Err(refuted(format!(
            "the arrays have {} latents, but the model has {}",
            arrays.gaussian.dim(),
            problem.meaning.dim()
        )));
    }
    if let Some(varying) = problem.collapsed() {
        let rows = problem.prepared.rows_used;
        let found = crate::verify_scale::check(&problem, varying, &record, &arrays)?;
        print(&format!("the data are those of the fit ({rows} rows)\n{found}"))?;
        return Ok(Code::Reached);
    }
    follows(&problem, &record, &arrays.gaussian)?;
    let mut out = format!(
        "the data are those of the fit ({} rows)\nall {} parameters follow from the arrays\n",
        problem.prepared.rows_used,
        record.parameters.len()
    );
    match record.certificate.gap.bound {
        Some(bound) => {
            let how = certificate(&problem, &arrays.gaussian, &record.certificate.gap, bound)?;
            out.push_str(&format!("the gap is at most {} nats: confirmed, {how}\n", figure(bound)));
        }
        None => out.push_str("nothing is claimed of the gap\n"),
    }
    print(&out)?;
    Ok(Code::Reached)
}

/// Names, means, sds and quantiles are those of the arrays.
fn follows(problem: &Problem, record: &Record, w: &Gaussian) -> Result<(), Failure> {
    let normals = problem.on_user_scale(w);
    if record.parameters.len() != normals.len() {
        return Err(refuted(format!(
            "fit.json has {} parameters, but the model {}",
            record.parameters.len(),
            normals.len()
        )));
    }
    for ((stored, normal), quantity) in record.parameters.iter().zip(&normals).zip(&problem.quantities) {
        if stored.name != quantity.name {
            return Err(refuted(format!(
                "fit.json has a parameter '{}' where the model has '{}'",
                stored.name, quantity.name
            )));
        }
        let own = Parameter::normal(&quantity.name, normal.mean, normal.sd);
        for (what, there, own) in [
            ("mean", stored.mean, own.mean),
            ("sd", stored.sd, own.sd),
            ("5 % quantile", stored.q05, own.q05),
            ("median", stored.q50, own.q50),
            ("95 % quantile", stored.q95, own.q95),
        ] {
            let (there, own) = (there.unwrap_or(f64::NAN), own.unwrap_or(f64::NAN));
            // rounding of a few sums, in units of the parameter's own size; what is not a number differs from everything
            let near = (there - own).abs() <= 1e-9 * (normal.sd + own.abs());
            if !near {
                return Err(refuted(format!(
                    "the {what} of {} is {there} in fit.json, but the arrays say {own}",
                    stored.name
                )));
            }
        }
    }
    Ok(())
}

/// How the claim was confirmed; an error if it was not.
fn certificate(problem: &Problem, w: &Gaussian, stored: &Gap, bound: f64) -> Result<String, Failure> {
    let proved = stored.level == Level::Proved;
    let again = |model: &dyn Model, why: String| -> Result<String, Failure> {
        let gap = model.certified_gap(w)?;
        let own = gap.statement.bound().unwrap_or(f64::INFINITY);
        compare(bound, own)?;
        let level = gap.statement.level();
        if proved && level != certus::certificate::Level::Proved {
            return Err(refuted(format!(
                "the level is proved in fit.json, but computed again it is {level}"
            )));
        }
        for (what, there, own) in
            [("means", stored.mean_error, gap.mean_error), ("sds", stored.sd_error, gap.sd_error)]
        {
            if there.is_some_and(|there| own.is_none_or(|own| own > there * (1.0 + RELATIVE) + ABSOLUTE)) {
                return Err(refuted(format!(
                    "the error of the {what} is {there:?} in fit.json, but computed again {own:?}"
                )));
            }
        }
        Ok(format!("computed again by the same code ({why})"))
    };
    match &problem.fitted {
        Fitted::Collapsed(_) => Err(refuted("a gap is claimed of a mixture, which has none")),
        Fitted::Grouped(model) => again(&**model, "the independent checker does not know group terms".into()),
        Fitted::Dense(model) => {
            let gap = model.gap(w)?;
            let claim = match Claim::new(model, w, &gap) {
                Ok(claim) => Claim { bound, proved, ..claim },
                Err(certus_models::Error::Declined(reason)) => return again(&**model, reason),
                Err(other) => return Err(other.into()),
            };
            match verify(&claim) {
                Ok(verdict) => {
                    compare(bound, verdict.bound)?;
                    if !verdict.holds {
                        return Err(refuted(verdict.reason));
                    }
                    // the errors of means and sds may come from another theorem, which the checker does not know
                    again(&**model, String::new())?;
                    Ok("in double-double arithmetic, by a checker of its own".into())
                }
                Err(certus_models::Error::Declined(reason)) => again(&**model, reason),
                Err(other) => Err(other.into()),
            }
        }
    }
}

fn compare(bound: f64, own: f64) -> Result<(), Failure> {
    if own <= bound * (1.0 + RELATIVE) + ABSOLUTE {
        return Ok(());
    }
    Err(refuted(format!(
        "the gap is claimed to be at most {bound:e} nats, but computed again the bound is {own:e}"
    )))
}
