//! What is asked of scales that are not given (the sd of a group, the noise, the dispersion): which can be had, how they are found, and their prior.

use std::str::FromStr;

use certus_models::collapsed::SdPrior;

use crate::encoding::{Encoding, Group};
use crate::error::DataError;
use crate::spec::Family;

/// Scale of the prior of a scale: as wide as that of the coefficients.
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
                "{name} is given, but no sd of a group is unknown, and neither noise nor dispersion: leave it out, or leave out group-sd, sigma or dispersion"
            ))),
            None => Ok(()),
        }
    }
}

/// A prior in words, of an sd of which one is `unit` on the user's scale.
pub(crate) fn prior_words(prior: SdPrior, unit: f64) -> String {
    let short = |x: f64| crate::prior::short(x * unit);
    match prior {
        SdPrior::HalfNormal(scale) => format!("half-normal({})", short(scale)),
        SdPrior::HalfT(df, scale) => format!("half-t({df}, {})", short(scale)),
        SdPrior::Exponential(mean) => format!("exponential(mean {})", short(mean)),
        SdPrior::Flat => "flat".into(),
    }
}

/// The same prior in other units.
pub(crate) fn in_units(prior: SdPrior, of: f64) -> SdPrior {
    match prior {
        SdPrior::HalfNormal(scale) => SdPrior::HalfNormal(scale * of),
        SdPrior::HalfT(df, scale) => SdPrior::HalfT(df, scale * of),
        SdPrior::Exponential(mean) => SdPrior::Exponential(mean * of),
        SdPrior::Flat => SdPrior::Flat,
    }
}

/// A scale of the likelihood itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// The sd of the errors of a linear model.
    Noise,
    /// The dispersion of negative-binomial counts.
    Dispersion,
}

impl Own {
    /// Its name among the arguments.
    pub(crate) fn flag(self) -> &'static str {
        match self {
            Self::Noise => "sigma",
            Self::Dispersion => "dispersion",
        }
    }
}

/// What is not given of a model, one of the two at least.
pub(crate) struct Unknown<'a> {
    /// The group whose sd is not given, and the column that varies by it.
    pub(crate) effect: Option<(&'a Group, usize)>,
    /// The scale of the likelihood.
    pub(crate) own: Option<Own>,
}

/// The scale of the likelihood, if it has one that is not given.
pub(crate) fn own(family: Family, sigma: Option<f64>, dispersion: Option<f64>) -> Option<Own> {
    match family {
        Family::Linear if sigma.is_none() => Some(Own::Noise),
        Family::NegativeBinomial if dispersion.is_none() => Some(Own::Dispersion),
        _ => None,
    }
}

/// What is not given; `None` if everything is. The only place that says which models with unknown scales can be had.
pub(crate) fn unknown(
    encoding: &Encoding,
    family: Family,
    sigma: Option<f64>,
    dispersion: Option<f64>,
) -> Result<Option<Unknown<'_>>, DataError> {
    let (groups, own) = (&encoding.groups, own(family, sigma, dispersion));
    let word = own.map_or("", Own::flag);
    let Some(group) = groups.iter().find(|g| g.sd.is_none()) else {
        return match (own, groups.first()) {
            (None, _) => Ok(None),
            (Some(_), None) => Ok(Some(Unknown { effect: None, own })),
            (Some(_), Some(group)) => Err(DataError::Usage(format!(
                "{word} is not given, but the sd of the group {} is: give both (--{word} X, in Python {word}=X), or neither, which can be had with one effect of one group",
                group.name
            ))),
        };
    };
    let also = if own.is_some() { format!(" and {word}") } else { String::new() };
    let refuse = |what: String| {
        let name = &group.name;
        Err(DataError::Usage(format!(
            "the sd of the group {name} is not given, and {what}: give the sds{also} (--group-sd X or {name}=X, in Python group_sd=X or {{\"{name}\": X}}), or leave one effect of one group"
        )))
    };
    match (groups.len(), group.slopes.as_slice()) {
        (1, [feature]) => Ok(Some(Unknown { effect: Some((group, *feature)), own })),
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
