//! What is asked of a group's sd that is not given: how it is found, and its prior.

use std::str::FromStr;

use certus_models::collapsed::SdPrior;

use crate::encoding::{Encoding, Group};
use crate::error::DataError;

/// Scale of the prior of an sd: as wide as that of the coefficients.
const SCALE: f64 = 2.5;
/// Degrees of freedom of the half-t prior.
const FREEDOM: f64 = 3.0;

/// How an sd that is not given is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scales {
    /// Its posterior, on a grid.
    #[default]
    Posterior,
    /// The maximum of its profile likelihood.
    Estimate,
}

impl FromStr for Scales {
    type Err = DataError;

    fn from_str(word: &str) -> Result<Self, DataError> {
        match word {
            "posterior" => Ok(Self::Posterior),
            "estimate" => Ok(Self::Estimate),
            _ => Err(DataError::Usage(format!("scales is '{word}', but posterior or estimate is required"))),
        }
    }
}

/// The part of a request that speaks of unknown sds; `None` where nothing was said.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScaleRequest {
    scales: Option<Scales>,
    prior: Option<SdPrior>,
}

impl ScaleRequest {
    /// From the words of the command line.
    pub fn new(prior: Option<&str>, scale: Option<f64>, scales: Option<&str>) -> Result<Self, DataError> {
        let usage = |words: String| Err(DataError::Usage(words));
        if let Some(bad) = scale.filter(|s| !(*s > 0.0 && s.is_finite())) {
            return usage(format!("sd-prior-scale is {bad}, but a finite number above 0 is required"));
        }
        let width = scale.unwrap_or(SCALE);
        let prior = match (prior, scale) {
            (Some("half-normal"), _) | (None, Some(_)) => Some(SdPrior::HalfNormal(width)),
            (Some("half-t"), _) => Some(SdPrior::HalfT(FREEDOM, width)),
            (Some("exponential"), _) => Some(SdPrior::Exponential(width)),
            (Some("flat"), None) => Some(SdPrior::Flat),
            (Some("flat"), Some(_)) => {
                return usage("sd-prior flat has no scale: leave sd-prior-scale out".into());
            }
            (Some(other), _) => {
                return usage(format!(
                    "there is no sd-prior '{other}': use one of half-normal, half-t, exponential, flat"
                ));
            }
            (None, None) => None,
        };
        let scales = scales.map(str::parse).transpose()?;
        if scales == Some(Scales::Estimate) && prior.is_some() {
            return usage(
                "scales estimate maximises the likelihood, which has no prior of the sd: leave sd-prior out"
                    .into(),
            );
        }
        Ok(Self { scales, prior })
    }

    /// How.
    pub fn scales(&self) -> Scales {
        self.scales.unwrap_or_default()
    }

    /// The prior.
    pub fn prior(&self) -> SdPrior {
        self.prior.unwrap_or(SdPrior::HalfNormal(SCALE))
    }

    /// Refused where no sd is unknown.
    pub(crate) fn refuse_without_unknown(&self) -> Result<(), DataError> {
        let given = [("scales", self.scales.is_some()), ("sd-prior", self.prior.is_some())];
        match given.into_iter().find(|(_, given)| *given) {
            Some((name, _)) => Err(DataError::Usage(format!(
                "{name} is given, but no sd of a group is unknown: leave it out, or leave out group-sd"
            ))),
            None => Ok(()),
        }
    }
}

/// A prior in words, of an sd of which one is `unit` on the user's scale.
pub(crate) fn prior_words(prior: SdPrior, unit: f64) -> String {
    let short = |x: f64| crate::problem::short(x * unit);
    match prior {
        SdPrior::HalfNormal(scale) => format!("half-normal({})", short(scale)),
        SdPrior::HalfT(df, scale) => format!("half-t({df}, {})", short(scale)),
        SdPrior::Exponential(mean) => format!("exponential(mean {})", short(mean)),
        SdPrior::Flat => "flat".into(),
    }
}

/// The group whose sd is unknown and the column that varies by it, if there is one. The only place that says which models with unknown sds can be had.
pub(crate) fn unknown(encoding: &Encoding) -> Result<Option<(&Group, usize)>, DataError> {
    let groups = &encoding.groups;
    let Some(group) = groups.iter().find(|g| g.sd.is_none()) else { return Ok(None) };
    let refuse = |what: String| {
        let name = &group.name;
        Err(DataError::Usage(format!(
            "the sd of the group {name} is not given, and {what}: give the sds (--group-sd X or {name}=X, in Python group_sd=X or {{\"{name}\": X}}), or leave one effect of one group"
        )))
    };
    match (groups.len(), group.slopes.as_slice()) {
        (1, [feature]) => Ok(Some((group, *feature))),
        (1, several) => refuse(format!(
            "{} coefficients vary by it, but only one with an unknown sd is built yet",
            several.len()
        )),
        (several, _) => {
            refuse(format!("there are {several} group terms, but only one with an unknown sd is built yet"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read() {
        let of = |prior, scale, scales| ScaleRequest::new(prior, scale, scales);
        let usual = of(None, None, None).expect("legal");
        assert_eq!((usual.scales(), usual.prior()), (Scales::Posterior, SdPrior::HalfNormal(2.5)));
        assert_eq!(of(None, Some(1.0), None).map(|r| r.prior()).ok(), Some(SdPrior::HalfNormal(1.0)));
        assert_eq!(of(Some("half-t"), None, None).map(|r| r.prior()).ok(), Some(SdPrior::HalfT(3.0, 2.5)));
        for (asked, word) in [
            (of(Some("cauchy"), None, None), "half-t"),
            (of(Some("flat"), Some(1.0), None), "leave sd-prior-scale out"),
            (of(None, Some(-1.0), None), "-1"),
            (of(None, None, Some("both")), "posterior or estimate"),
            (of(Some("flat"), None, Some("estimate")), "leave sd-prior out"),
        ] {
            let error = asked.expect_err("refused");
            assert!(error.exit_code() == 64 && error.to_string().contains(word), "{error}");
        }
        assert!(of(Some("flat"), None, None).and_then(|r| r.refuse_without_unknown()).is_err());
    }
}
