//! Priors of coefficients: what is requested for one of them, the units in which priors are given (docs/priors.md, P1),
//! and the prior on the user's scale in words.

use certus_models::Prior;

use crate::error::Error;
use crate::number::{number, short};
use crate::refusal::RequestError;
use crate::request::Request;
use certus_data::DataError;
use certus_data::encoding::Encoding;
use certus_data::prepare::Prepared;
use certus_data::summary::{all, over_leaves};
use certus_likelihood::Link;

impl Request {
    /// Priors that no data could make legal.
    pub(crate) fn refuse_priors(&self) -> Result<(), RequestError> {
        let named = self.priors.iter().filter_map(|(name, prior)| prior.sd.map(|sd| (name.as_str(), sd)));
        let every = [("prior-sd", self.prior_sd), ("intercept-prior-sd", self.intercept_prior_sd)];
        if let Some((name, sd)) = every.into_iter().chain(named).find(|(_, sd)| sd.is_nan() || *sd <= 0.0) {
            let (setting, required) = (name.into(), "a number above 0, or inf,");
            return Err(RequestError::Number { setting, value: sd, required });
        }
        for (name, prior) in &self.priors {
            let Some(mean) = prior.mean else { continue };
            if !mean.is_finite() {
                let (setting, required) = (format!("the prior mean of {name}"), "a finite number");
                return Err(RequestError::Number { setting, value: mean, required });
            }
            let general = if name == "(Intercept)" { self.intercept_prior_sd } else { self.prior_sd };
            if prior.sd.unwrap_or(general).is_infinite() {
                return Err(RequestError::MeanOfFlatPrior { coefficient: name.clone(), mean });
            }
        }
        Ok(())
    }
}

/// What 0 and 1 of a prior are in the response (P1): its mean and sd, less the offset, for a linear model whose
/// features are standardised, whether or not sigma is given; 0 and 1 for all other models.
pub(crate) struct Unit {
    pub(crate) mean: f64,
    pub(crate) sd: f64,
    /// What to say if it is not the usual one.
    pub(crate) note: Option<String>,
}

impl Unit {
    pub(crate) fn of(request: &Request, prepared: &Prepared) -> Result<Self, Error> {
        if request.spec.model.link() != Link::Identity || !request.spec.standardise {
            return Ok(Self { mean: 0.0, sd: 1.0, note: None });
        }
        let (mean, sd) = centred(prepared)?;
        if !(mean.is_finite() && sd.is_finite()) {
            let response = prepared.encoding.response.clone();
            return Err(RequestError::LargeResponse { response }.into());
        }
        if sd > 0.0 {
            return Ok(Self { mean, sd, note: None });
        }
        let less = if prepared.encoding.offset.is_some() { ", less its offset," } else { "" };
        let Some(sigma) = request.sigma else {
            return Err(RequestError::ConstantResponse {
                response: prepared.encoding.response.clone(),
                offset: prepared.encoding.offset.is_some(),
                rows: prepared.rows_used,
            }
            .into());
        };
        let note = format!(
            "the sd of the response '{}'{less} is 0, so priors are in units of sigma, {sigma}, instead",
            prepared.encoding.response
        );
        Ok(Self { mean, sd: sigma, note: Some(note) })
    }
}

/// Mean and sd of the response less its offset, not finite if they are too large; an sd below 1e-12 of the size is
/// rounding, and 0.
fn centred(prepared: &Prepared) -> Result<(f64, f64), DataError> {
    let response = &prepared.response;
    let (mean, sd) = if prepared.encoding.offset.is_none() {
        let sd = if response.min == response.max { 0.0 } else { response.sd };
        (response.mean, sd)
    } else {
        let (rows, n) = (&*prepared.rows, prepared.rows_used as f64);
        let sum = |f: &(dyn Fn(f64) -> f64 + Sync)| -> Result<f64, DataError> {
            let sums = over_leaves(
                rows,
                &all(rows),
                &[0.0],
                |leaf, out| {
                    out[0] += (0..leaf.y.len()).map(|i| f(leaf.y[i] - leaf.offset_of(i))).sum::<f64>();
                },
                certus_models::rows::add,
            )?;
            Ok(sums[0])
        };
        let mean = sum(&|y| y)? / n;
        (mean, (sum(&|y| (y - mean).powi(2))? / n).sqrt())
    };
    Ok((mean, if sd <= 1e-12 * mean.abs() { 0.0 } else { sd }))
}

/// Independent normal priors of the coefficients of the design.
#[derive(Clone, Debug, PartialEq)]
pub struct DesignPrior {
    /// Their means.
    pub mean: Vec<f64>,
    /// Their sds; infinite for a flat prior.
    pub sd: Vec<f64>,
}

impl DesignPrior {
    /// What is requested, in the units of the design.
    pub(crate) fn new(request: &Request, prepared: &Prepared, unit: &Unit) -> Result<Self, RequestError> {
        let encoding = &prepared.encoding;
        let names = encoding.coefficients();
        let terms: Vec<&str> = encoding.features.iter().map(|f| f.term.as_str()).collect();
        let dropped = prepared.dropped.iter().map(|l| l.name.as_str());
        let known: Vec<&str> = names.iter().map(String::as_str).chain(terms.clone()).chain(dropped).collect();
        if let Some(name) = request.priors.keys().find(|name| !known.contains(&name.as_str())) {
            let available = known.iter().map(ToString::to_string).collect();
            return Err(RequestError::UnknownCoefficient { name: name.clone(), available });
        }
        let first = usize::from(encoding.intercept);
        let one = |(j, name): (usize, &String)| {
            let general = if j < first { request.intercept_prior_sd } else { request.prior_sd };
            let term = j.checked_sub(first).and_then(|j| request.priors.get(terms[j]));
            let own = request.priors.get(name).or(term).copied().unwrap_or_default();
            let sd = unit.sd * own.sd.unwrap_or(general);
            let zero = if j < first { unit.mean } else { 0.0 };
            let mean = if sd.is_finite() { zero + unit.sd * own.mean.unwrap_or(0.0) } else { 0.0 };
            (mean, sd)
        };
        let (mean, sd) = names.iter().enumerate().map(one).unzip();
        Ok(Self { mean, sd })
    }

    /// As the models take it.
    pub(crate) fn model(&self) -> Result<Prior, certus_models::Error> {
        Ok(Prior::independent(self.mean.clone(), &self.sd)?)
    }

    /// Coefficient j on the user's scale: N(mean, sd²), or flat. The intercept's is where centred features are average.
    pub(crate) fn words(&self, encoding: &Encoding, j: usize) -> String {
        if self.sd[j].is_infinite() {
            return "flat".into();
        }
        let unit = user_unit(encoding, j);
        format!("N({}, {}²)", number(unit * self.mean[j]), short(unit * self.sd[j]))
    }

    /// All of them on the user's scale.
    pub(crate) fn lines(&self, encoding: &Encoding) -> Vec<String> {
        let line =
            |(j, name): (usize, String)| format!("{name} ~ {}{}", self.words(encoding, j), at(encoding, j));
        encoding.coefficients().into_iter().enumerate().map(line).collect()
    }
}

/// One of coefficient j of the design, on the user's scale.
pub(crate) fn user_unit(encoding: &Encoding, j: usize) -> f64 {
    let (_, scale) = encoding.center_and_scale();
    j.checked_sub(usize::from(encoding.intercept)).map_or(1.0, |k| 1.0 / scale[k])
}

/// Where coefficient j of the design is the user's: an intercept of centred features is that of an average row.
pub(crate) fn at(encoding: &Encoding, j: usize) -> &'static str {
    let centred = || encoding.center_and_scale().0.iter().any(|c| *c != 0.0);
    if j < usize::from(encoding.intercept) && centred() { " at the mean of the features" } else { "" }
}
