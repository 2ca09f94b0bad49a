//! Scales with every rounding error included, as certus-check's library proves them: the sd of one effect of one group
//! in a logistic or a binomial model, and the sds and correlations of a linear mixed model.

use certus_data::Prepared;
use certus_likelihood::Response;
use certus_likelihood::prior::Precision;
use certus_mixed::collapsed::Interval;
use certus_models::Error;
use certus_models::error::{Declined, InvalidModel, NotFinite};
use certus_models::proof::{SdRow, SdSubject};
use certus_models::rows::leaves;

use crate::variance::engine::JointMaximum;
use crate::variance::maximum::StatedVariances;
use crate::variance::mixed::LinearMixed;
use crate::variance::model::ScaleModel;
use crate::variance::names::ScaleName;
use crate::variance::request::Scales;

/// What a division by a unit and a product with it may change, as a part of a number.
const UNITS: f64 = 4.0 * f64::EPSILON;

/// True if an interval of an sd can have a certificate.
pub(crate) fn is_covered(model: &ScaleModel, prepared: &Prepared, response: Response) -> bool {
    model.model.is_one_sd()
        && model.unknown_scales.effects.len() == 1
        && prepared.codes.len() == 1
        && matches!(response, Response::Logistic | Response::Binomial)
}

/// What can be proved again.
pub(crate) enum Enclosure<'a> {
    /// The interval of an sd, by Theorem K3.
    Sd(Box<SdSubject>),
    /// All variance parameters of a linear mixed model, by Theorem V1.
    Variances(&'a LinearMixed, &'a Prepared),
}

impl<'a> Enclosure<'a> {
    /// Of a model with one sd, or of a linear mixed model whose scales are estimated, if it is one of them.
    pub(crate) fn covers(model: &ScaleModel, prepared: &Prepared, response: Response) -> bool {
        let mixed = model.model.linear_mixed().is_some() && model.scales == Scales::Estimate;
        mixed || is_covered(model, prepared, response)
    }

    pub(crate) fn of(
        model: &'a ScaleModel,
        prepared: &'a Prepared,
        response: Response,
    ) -> Result<Self, Error> {
        match model.model.linear_mixed() {
            Some(mixed) => Ok(Self::Variances(mixed, prepared)),
            None => Ok(Self::Sd(Box::new(subject(model, prepared, response)?))),
        }
    }

    /// The theorem that it uses, of one that was proved with allowances for rounding.
    pub(crate) fn theorem(&self) -> &'static str {
        match self {
            Self::Sd(_) => "Theorem K3",
            Self::Variances(..) => "Theorem V1",
        }
    }

    /// Replaces what is proved of a maximum by what is proved without allowances.
    pub(crate) fn enclose(&self, model: &ScaleModel, found: &mut JointMaximum) {
        let scales = &model.unknown_scales;
        match self {
            Self::Sd(subject) if found.intervals[0].proved.is_ok() => {
                let (unit, own) = (scales.scales[0].unit, &found.intervals[0]);
                let ends = own.sds.map(|end| end * unit);
                let found_again = subject.checked(&found.beta, found.scales[0] * unit, ends);
                found.intervals[0] = interval(found_again, unit);
            }
            Self::Sd(_) => {}
            Self::Variances(mixed, prepared) => {
                let all = StatedVariances::at(mixed, prepared, &scales.user(&found.scales))
                    .and_then(|own| Ok(own.enclosed(&own.proved()?, 1.0)));
                let why = |error| match error {
                    // nothing is exported here
                    crate::Error::NoProof(why) => unenclosed(why),
                    other => unenclosed(other),
                };
                match (all.map_err(why), &mut found.several) {
                    (Ok(all), several) => {
                        let one = |(ends, own): (&[f64; 2], &ScaleName)| in_units(*ends, own.unit);
                        found.intervals = all.iter().zip(&scales.scales).map(one).collect();
                        several.iter_mut().for_each(|several| several.ball = None);
                    }
                    // what is proved with allowances stays
                    (Err(why), Some(several)) => several.unenclosed = Some(why),
                    (Err(why), None) => {
                        found.intervals[0] = Interval { sds: [f64::NAN; 2], proved: Err(why) };
                    }
                }
            }
        }
    }
}

fn unenclosed(why: impl std::fmt::Display) -> String {
    format!("not every rounding error is included: {why}")
}

/// An interval in units of the design, of which one is `unit`, or why there is none.
fn interval(found: Result<[f64; 2], impl std::fmt::Display>, unit: f64) -> Interval {
    match found {
        Ok(ends) => in_units(ends, unit),
        Err(error) => Interval { sds: [f64::NAN; 2], proved: Err(unenclosed(error)) },
    }
}

fn in_units([low, high]: [f64; 2], unit: f64) -> Interval {
    if unit == 1.0 {
        return Interval { sds: [low, high], proved: Ok(()) };
    }
    // multiplied by the unit again, the ends must not be nearer to each other
    let [low, high] = [low / unit, high / unit];
    Interval { sds: [low - UNITS * low.abs(), high + UNITS * high.abs()], proved: Ok(()) }
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
