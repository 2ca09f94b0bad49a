//! Intervals of an sd with every rounding error included: one effect of one group in a logistic or a binomial model, as
//! certus-check's library proves them.

use certus_data::Prepared;
use certus_likelihood::Response;
use certus_likelihood::prior::Precision;
use certus_mixed::collapsed::Interval;
use certus_models::Error;
use certus_models::error::{Declined, InvalidModel, NotFinite};
use certus_models::proof::{SdRow, SdSubject};
use certus_models::rows::leaves;

use crate::variance::model::ScaleModel;

/// What a division by a unit and a product with it may change, as a part of a number.
const UNITS: f64 = 4.0 * f64::EPSILON;

/// True if an interval of an sd can have a certificate.
pub(crate) fn is_covered(model: &ScaleModel, prepared: &Prepared, response: Response) -> bool {
    model.model.is_one_sd()
        && model.unknown_scales.effects.len() == 1
        && prepared.codes.len() == 1
        && matches!(response, Response::Logistic | Response::Binomial)
}

/// The interval of an sd with every rounding error included, as certus-check's library proves it, in the units of the
/// design, of which one is `unit`.
pub(crate) fn interval(subject: &SdSubject, start: &[f64], sd: f64, unit: f64, own: &Interval) -> Interval {
    if own.proved.is_err() {
        return own.clone();
    }
    match subject.checked(start, sd * unit, own.sds.map(|end| end * unit)) {
        // multiplied by the unit again, the ends must not be nearer to each other
        Ok([low, high]) if unit == 1.0 => Interval { sds: [low, high], proved: Ok(()) },
        Ok([low, high]) => {
            Interval { sds: [low / unit * (1.0 - UNITS), high / unit * (1.0 + UNITS)], proved: Ok(()) }
        }
        Err(error) => {
            let why = format!("not every rounding error is included: {error}");
            Interval { sds: [f64::NAN; 2], proved: Err(why) }
        }
    }
}

/// The model of one sd as it is certified.
pub(crate) fn subject(
    model: &ScaleModel,
    prepared: &Prepared,
    response: Response,
) -> Result<SdSubject, Error> {
    let encoding = &prepared.encoding;
    let Precision::Diagonal(precision) = model.prior.precision() else {
        return Err(Declined::Proof("its prior is not one of independent coefficients".into()).into());
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
        return Err(InvalidModel::Requires { what, required }.into());
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
        return Err(NotFinite::Quantity { what: "a row" }.into());
    }
    let prior = [model.prior.mean().to_vec(), precision.clone()];
    SdSubject::new(response.name(), encoding.intercept, columns.collect(), prior, rows)
}
