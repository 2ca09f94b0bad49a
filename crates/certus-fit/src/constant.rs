//! The note on a response that is the same in every row.

use certus_data::summary::{all, over_leaves};
use certus_data::{DataError, Prepared};
use certus_likelihood::{Response, Values};
use certus_models::rows::{Leaf, add};

use crate::number::number;

/// A sentence on a response that is the same in every row.
pub(crate) fn constant_response(prepared: &Prepared, model: Response) -> Result<Option<String>, DataError> {
    let (encoding, response, n) = (&prepared.encoding, &prepared.response, prepared.rows_used);
    let zero = response.min == 0.0 && response.max == 0.0;
    let value = match model.values() {
        Values::Successes if zero => "0".to_string(),
        Values::Successes => {
            let rows = &*prepared.rows;
            let failed = |leaf: &Leaf<'_>, out: &mut [f64]| {
                out[0] +=
                    (0..leaf.y.len()).filter(|&i| leaf.datum(i).y < leaf.datum(i).trials).count() as f64;
            };
            // a few rows tell most responses apart
            let few = over_leaves(rows, &[0], &[0.0], failed, add)?[0];
            if few > 0.0 || over_leaves(rows, &all(rows), &[0.0], failed, add)?[0] > 0.0 {
                return Ok(None);
            }
            "all of its trials".into()
        }
        _ if response.min == response.max => number(response.min),
        _ => return Ok(None),
    };
    let name = &encoding.response;
    let unbounded = match model.values() {
        Values::Numbers => false,
        Values::Counts => zero,
        Values::Binary | Values::Successes => true,
    };
    let end = if unbounded && encoding.intercept {
        "; the likelihood has no maximum, and only priors keep the coefficients finite"
    } else {
        ": is this the right column?"
    };
    Ok(Some(format!("the response '{name}' is {value} in all {n} rows{end}")))
}
