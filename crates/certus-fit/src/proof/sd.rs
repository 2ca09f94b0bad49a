//! The certificate of the interval of an sd that was not given: one effect of one group in a logistic or a
//! binomial model.

use certus_models::proof::SdSubject;

use super::refused;
use crate::error::Error;
use crate::problem::Problem;
use crate::record::{RecordedLevel, Scale};
use crate::variance::enclosed::{is_covered, subject};
use crate::verify::Stored;

/// Rows times what is computed for each, at most, where nobody asked for a certificate.
const MOST_WORK: f64 = 2e9;

/// What is certified of a fit, and where the search begins.
pub(crate) struct StatedSd<'a> {
    pub(crate) subject: SdSubject,
    pub(crate) start: &'a [f64],
    pub(crate) sd: f64,
    pub(crate) between: [f64; 2],
}

/// True if a proved interval of an sd can have a certificate.
pub(crate) fn covers(problem: &Problem, scale: Option<&Scale>) -> bool {
    problem.collapsed().is_some_and(|model| is_covered(model, &problem.prepared, problem.response))
        && scale.is_some_and(|s| s.level == RecordedLevel::Proved && s.interval.is_some())
}

/// True if it takes longer than a report or a verification should.
pub(crate) fn takes_long(problem: &Problem) -> bool {
    let d = problem.meaning.dim() as f64;
    problem.prepared.rows_used as f64 * (d * d + 50.0 * d + 5000.0) > MOST_WORK
}

impl<'a> StatedSd<'a> {
    pub(crate) fn of(problem: &Problem, stored: &'a Stored) -> Result<Self, Error> {
        let scale = stored.record.certificate.scale.as_ref();
        let model = problem.collapsed().filter(|_| covers(problem, scale));
        let (Some(model), Some(scale)) = (model, scale) else {
            let words = "certificates of models whose scales are not all given cover proved intervals of the sd of one \
                         effect of one group, logistic or binomial, and the variance parameters of linear mixed models \
                         by REML or ML";
            return Err(refused(words));
        };
        let (Some(sd), Some(between)) = (scale.estimate, scale.interval) else {
            return Err(refused("its interval is missing"));
        };
        Ok(Self {
            subject: subject(model, &problem.prepared, problem.response)?,
            start: stored.arrays.gaussian.mean(),
            sd,
            between,
        })
    }
}

/// Why an interval that the fit has proved has no certificate: what is proved, by what, and what is not.
pub(crate) fn without(stored: &Stored, error: &certus_models::Error) -> Error {
    let why = error.to_string();
    let proved = stored.record.certificate.scale.as_ref().and_then(|scale| {
        let ((low, high), theorem) = (scale.ends()?, scale.theorem.as_deref()?);
        let (name, objective) = (&scale.name, &scale.objective);
        Some(format!(
            "{name} has a maximum of the {objective} between {low} and {high}: certus proves it ({theorem})"
        ))
    });
    match proved {
        Some(proved) => refused(format!("{proved}, and that stands, but certus-check cannot. {why}")),
        None => refused(why),
    }
}
