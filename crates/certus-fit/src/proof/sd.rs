//! The certificate of the interval of an sd that was not given: one effect of one group in a logistic or a
//! binomial model.

use certus_likelihood::prior::Precision;
use certus_models::error::{InvalidModel, NotFinite};
use certus_models::proof::{SdRow, SdSubject};
use certus_models::rows::leaves;

use super::refused;
use crate::error::Error;
use crate::problem::Problem;
use crate::record::{RecordedLevel, Scale};
use crate::variance::model::ScaleModel;
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
    let one = problem.collapsed().is_some_and(|model| {
        model.model.is_one_sd()
            && model.unknown_scales.effects.len() == 1
            && problem.prepared.codes.len() == 1
    });
    let proved = scale.is_some_and(|s| s.level == RecordedLevel::Proved && s.interval.is_some());
    one && proved && ["logistic", "binomial"].contains(&problem.response.name())
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
                         effect of one group, logistic or binomial";
            return Err(refused(words));
        };
        let (Some(sd), Some(between)) = (scale.estimate, scale.interval) else {
            return Err(refused("its interval is missing"));
        };
        Ok(Self { subject: subject(problem, model)?, start: stored.arrays.gaussian.mean(), sd, between })
    }
}

fn subject(problem: &Problem, model: &ScaleModel) -> Result<SdSubject, Error> {
    let (prepared, encoding) = (&problem.prepared, &problem.prepared.encoding);
    let Precision::Diagonal(precision) = model.prior.precision() else {
        return Err(refused("its prior is not one of independent coefficients"));
    };
    let (center, scale) = encoding.center_and_scale();
    let first = usize::from(encoding.intercept);
    let names = encoding.coefficients();
    let columns = (0..encoding.features.len()).map(|j| (names[j + first].clone(), center[j], scale[j]));
    let effect = &model.unknown_scales.effects[0];
    let column =
        (!encoding.is_intercept(effect.feature)).then(|| effect.feature.checked_sub(first)).flatten();
    if column.is_none() && effect.unit != 1.0 {
        let (what, required) = ("a certificate of an sd", "an effect in units of its predictor");
        return Err(certus_models::Error::from(InvalidModel::Requires { what, required }).into());
    }
    // groups in the order of their codes, without those that have no rows
    let mut present: Vec<u32> = prepared.codes[0].clone();
    present.sort_unstable();
    present.dedup();
    let mut rows = Vec::with_capacity(prepared.rows_used);
    for index in 0..leaves(&*prepared.rows) {
        prepared.rows.leaf(index, &mut |leaf| {
            for i in 0..leaf.y.len() {
                let x: Vec<f64> = (0..leaf.x.columns()).map(|j| leaf.x.get(i, j)).collect();
                let code = prepared.codes[0][leaf.first + i];
                let group = present.binary_search(&code).unwrap_or(usize::MAX);
                let rest = [leaf.datum(i).y, leaf.datum(i).trials, leaf.offset_of(i), leaf.weight_of(i)];
                rows.push(SdRow { z: column.map_or(1.0, |j| x[j]), x, group, rest });
            }
        })?;
    }
    if rows.iter().any(|row| row.x.iter().chain(&row.rest).any(|x| !x.is_finite())) {
        return Err(certus_models::Error::from(NotFinite::Quantity { what: "a row" }).into());
    }
    let prior = [model.prior.mean().to_vec(), precision.clone()];
    Ok(SdSubject::new(problem.response.name(), encoding.intercept, columns.collect(), prior, rows)?)
}
