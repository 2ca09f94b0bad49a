//! Priors of coefficients: what is asked for one of them, the units in which priors are given (docs/priors.md, P1), and the prior on the user's scale in words.

use std::fmt;

use certus::certificate::significant;
use certus_models::Prior;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::encoding::Encoding;
use crate::error::DataError;
use crate::prepare::Prepared;
use crate::problem::Request;
use crate::spec::{Family, nearest};
use crate::summary::{all, over_leaves};

/// The prior of one coefficient, or of all coefficients of a term, in the units of `prior-sd`. In TOML and JSON a number (the sd, `"inf"` for a flat prior) or
/// `{ mean = 0.5, sd = 1.0 }`, of which either may be left out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoefficientPrior {
    /// Its mean; 0 if it is not given.
    pub mean: Option<f64>,
    /// Its sd; that of all other coefficients if it is not given.
    pub sd: Option<f64>,
}

impl From<f64> for CoefficientPrior {
    fn from(sd: f64) -> Self {
        Self { mean: None, sd: Some(sd) }
    }
}

/// A number that may be infinite, which JSON cannot express: "inf" there.
struct Wide(f64);

impl Serialize for Wide {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() {
            serializer.serialize_f64(self.0)
        } else {
            serializer.serialize_str(&self.0.to_string())
        }
    }
}

struct WideVisitor;

impl Visitor<'_> for WideVisitor {
    type Value = Wide;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or inf")
    }

    fn visit_f64<E>(self, x: f64) -> Result<Wide, E> {
        Ok(Wide(x))
    }

    fn visit_i64<E>(self, x: i64) -> Result<Wide, E> {
        Ok(Wide(x as f64))
    }

    fn visit_u64<E>(self, x: u64) -> Result<Wide, E> {
        Ok(Wide(x as f64))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Wide, E> {
        text.parse().map(Wide).map_err(|_| E::custom(format!("\"{text}\" is no number")))
    }
}

impl<'de> Deserialize<'de> for Wide {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WideVisitor)
    }
}

impl Serialize for CoefficientPrior {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let (None, Some(sd)) = (self.mean, self.sd) {
            return Wide(sd).serialize(serializer);
        }
        let given = [("mean", self.mean), ("sd", self.sd)];
        let given = given.into_iter().filter_map(|(name, x)| x.map(|x| (name, x)));
        let mut map = serializer.serialize_map(Some(given.clone().count()))?;
        for (name, x) in given {
            map.serialize_entry(name, &Wide(x))?;
        }
        map.end()
    }
}

struct PriorVisitor;

impl<'de> Visitor<'de> for PriorVisitor {
    type Value = CoefficientPrior;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the sd of a prior, or { mean = 0.5, sd = 1.0 }")
    }

    fn visit_f64<E>(self, x: f64) -> Result<CoefficientPrior, E> {
        Ok(x.into())
    }

    fn visit_i64<E>(self, x: i64) -> Result<CoefficientPrior, E> {
        Ok((x as f64).into())
    }

    fn visit_u64<E>(self, x: u64) -> Result<CoefficientPrior, E> {
        Ok((x as f64).into())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<CoefficientPrior, E> {
        WideVisitor.visit_str(text).map(|x| x.0.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CoefficientPrior, A::Error> {
        let mut out = CoefficientPrior::default();
        while let Some(key) = map.next_key::<String>()? {
            let value = Some(map.next_value::<Wide>()?.0);
            match key.as_str() {
                "mean" => out.mean = value,
                "sd" => out.sd = value,
                _ => {
                    return Err(A::Error::custom(format!(
                        "a prior has no '{key}': use mean, sd or both, as in {{ mean = 0.5, sd = 1.0 }}"
                    )));
                }
            }
        }
        if out == CoefficientPrior::default() {
            return Err(A::Error::custom("a prior is empty: give its mean, its sd or both"));
        }
        Ok(out)
    }
}

impl<'de> Deserialize<'de> for CoefficientPrior {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PriorVisitor)
    }
}

impl Request {
    /// Priors that no data could make legal.
    pub(crate) fn refuse_priors(&self) -> Result<(), DataError> {
        let named = self.priors.iter().filter_map(|(name, prior)| prior.sd.map(|sd| (name.as_str(), sd)));
        let every = [("prior-sd", self.prior_sd), ("intercept-prior-sd", self.intercept_prior_sd)];
        if let Some((name, sd)) = every.into_iter().chain(named).find(|(_, sd)| sd.is_nan() || *sd <= 0.0) {
            return Err(DataError::Usage(format!(
                "{name} is {sd}, but a number above 0, or inf, is required"
            )));
        }
        for (name, prior) in &self.priors {
            let Some(mean) = prior.mean else { continue };
            if !mean.is_finite() {
                return Err(DataError::Usage(format!(
                    "the prior mean of {name} is {mean}, but a finite number is required"
                )));
            }
            let general = if name == "(Intercept)" { self.intercept_prior_sd } else { self.prior_sd };
            if prior.sd.unwrap_or(general).is_infinite() {
                return Err(DataError::Usage(format!(
                    "the prior of {name} has the mean {mean} but an infinite sd, so it is flat and the mean has no effect: give a finite sd, or leave the mean out"
                )));
            }
        }
        Ok(())
    }
}

/// What 0 and 1 of a prior are in the response (P1): its mean and sd, less the offset, for a linear model whose features are standardised, whether or not sigma is given; 0
/// and 1 for all other models.
pub(crate) struct Unit {
    pub(crate) mean: f64,
    pub(crate) sd: f64,
    /// What to say if it is not the usual one.
    pub(crate) note: Option<String>,
}

impl Unit {
    pub(crate) fn of(request: &Request, prepared: &Prepared) -> Result<Self, DataError> {
        if request.spec.family != Family::Linear || !request.spec.standardise {
            return Ok(Self { mean: 0.0, sd: 1.0, note: None });
        }
        let (mean, sd) = centred(prepared)?;
        if sd > 0.0 {
            return Ok(Self { mean, sd, note: None });
        }
        let n = prepared.rows_used;
        let less = if prepared.encoding.offset.is_some() { ", less its offset," } else { "" };
        let Some(sigma) = request.sigma else {
            return Err(DataError::BadData(format!(
                "the response {}{less} is the same in all {n} rows, so nothing is known of the noise: give sigma",
                prepared.encoding.response
            )));
        };
        let note = format!(
            "the sd of the response '{}'{less} is 0, so priors are in units of sigma, {sigma}, instead",
            prepared.encoding.response
        );
        Ok(Self { mean, sd: sigma, note: Some(note) })
    }
}

/// Mean and sd of the response less its offset; an sd below 1e-12 of the size is rounding, and 0.
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
    Ok((mean, if sd > 1e-12 * mean.abs() && sd.is_finite() { sd } else { 0.0 }))
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
    /// What is asked, in the units of the design.
    pub(crate) fn new(request: &Request, prepared: &Prepared, unit: &Unit) -> Result<Self, DataError> {
        let encoding = &prepared.encoding;
        let names = encoding.coefficients();
        let terms: Vec<&str> = encoding.features.iter().map(|f| f.term.as_str()).collect();
        let dropped = prepared.dropped.iter().map(|l| l.name.as_str());
        let known: Vec<&str> = names.iter().map(String::as_str).chain(terms.clone()).chain(dropped).collect();
        if let Some(name) = request.priors.keys().find(|name| !known.contains(&name.as_str())) {
            let hint = nearest(known.iter().copied(), name);
            return Err(DataError::Usage(format!(
                "a prior is given for '{name}', which is no coefficient{hint}"
            )));
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
        Prior::independent(self.mean.clone(), &self.sd)
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
    if j < usize::from(encoding.intercept) && centred() { " where features are average" } else { "" }
}

/// Five digits, without zeros at the end.
pub(crate) fn number(x: f64) -> String {
    if x == 0.0 {
        return "0".into();
    }
    if !(1e-3..1e7).contains(&x.abs()) {
        return format!("{x:.3e}");
    }
    trimmed(significant(x, 5))
}

fn trimmed(text: String) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// Three digits.
pub(crate) fn short(x: f64) -> String {
    if (1e-3..1e4).contains(&x) { trimmed(significant(x, 3)) } else { format!("{x:.2e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priors_in_json_are_numbers_or_pairs() {
        let read = |text: &str| serde_json::from_str::<CoefficientPrior>(text);
        let of = |mean, sd| CoefficientPrior { mean, sd };
        for (text, prior) in [
            ("1.5", of(None, Some(1.5))),
            ("2", of(None, Some(2.0))),
            ("\"inf\"", of(None, Some(f64::INFINITY))),
            ("{\"mean\":0.5,\"sd\":1.0}", of(Some(0.5), Some(1.0))),
            ("{\"mean\":-1}", of(Some(-1.0), None)),
            ("{\"sd\":\"inf\"}", of(None, Some(f64::INFINITY))),
        ] {
            assert_eq!(read(text).ok(), Some(prior), "{text}");
            let again = serde_json::to_string(&prior).expect("JSON");
            assert_eq!(read(&again).ok(), Some(prior), "{again}");
        }
        for (text, word) in
            [("{\"mu\":1}", "no 'mu'"), ("{}", "empty"), ("\"wide\"", "no number"), ("[1, 2]", "mean = 0.5")]
        {
            let error = read(text).expect_err("refused").to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
