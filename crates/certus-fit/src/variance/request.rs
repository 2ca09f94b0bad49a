//! What is requested for scales that are not given (the sd of a group, the noise, the dispersion): which are supported,
//! how they are estimated, and their prior.

use std::str::FromStr;

use certus_mixed::collapsed::SdPrior;
use certus_mixed::linear::Criterion;

use certus_data::encoding::{Encoding, Group};
use certus_data::{SpecError, Unavailable};
use certus_likelihood::{Auxiliary, Link, Response};

use crate::error::Error;
use crate::refusal::RequestError;

/// Scale of the prior of a scale: as wide as that of the coefficients.
const SCALE: f64 = 2.5;
/// The word for estimates by the Laplace approximation alone.
const LAPLACE: &str = "laplace";
/// What `prove` is for.
pub(crate) const PROVABLE: &str = "linear mixed models that are estimated (`reml`, `ml`)";
/// Degrees of freedom of the half-t prior.
const FREEDOM: f64 = 3.0;

/// How an sd that is not given is estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scales {
    /// Its posterior: on a grid, or of several by draws.
    #[default]
    Posterior,
    /// The maximum of its profile likelihood.
    Estimate,
}

impl FromStr for Scales {
    type Err = RequestError;

    fn from_str(word: &str) -> Result<Self, RequestError> {
        match word {
            "posterior" => Ok(Self::Posterior),
            "estimate" | LAPLACE => Ok(Self::Estimate),
            _ => Err(RequestError::word("scales", word, ["posterior", "estimate", LAPLACE])),
        }
    }
}

/// What is to be proved of the estimate of a linear mixed model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prove {
    /// A maximum near it.
    Local,
    /// Also that it is the highest of all.
    Global,
}

/// The part of a request that is about unknown sds; `None` where nothing is requested.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScaleRequest {
    scales: Option<Scales>,
    prior: Option<SdPrior>,
    criterion: Option<Criterion>,
    laplace: bool,
    prove: Option<Prove>,
}

impl ScaleRequest {
    /// From the words of the command line.
    pub fn new(prior: Option<&str>, scale: Option<f64>, scales: Option<&str>) -> Result<Self, RequestError> {
        if let Some(bad) = scale.filter(|s| !(*s > 0.0 && s.is_finite())) {
            let (setting, required) = ("sd-prior-scale".into(), "a finite number above 0");
            return Err(RequestError::Number { setting, value: bad, required });
        }
        let width = scale.unwrap_or(SCALE);
        let prior = match (prior, scale) {
            (Some("half-normal"), _) | (None, Some(_)) => Some(SdPrior::HalfNormal(width)),
            (Some("half-t"), _) => Some(SdPrior::HalfT(FREEDOM, width)),
            (Some("exponential"), _) => Some(SdPrior::Exponential(width)),
            (Some("flat"), None) => Some(SdPrior::Flat),
            (Some("flat"), Some(_)) => {
                return Err(RequestError::Excluded {
                    setting: "sd-prior",
                    value: "flat",
                    reason: "has no scale",
                    other: "sd-prior-scale",
                });
            }
            (Some(other), _) => {
                let known = ["half-normal", "half-t", "exponential", "flat"];
                return Err(RequestError::word("sd-prior", other, known));
            }
            (None, None) => None,
        };
        let laplace = scales == Some(LAPLACE);
        let scales = scales.map(str::parse).transpose()?;
        if scales == Some(Scales::Estimate) && prior.is_some() {
            return Err(RequestError::Excluded {
                setting: "scales",
                value: "estimate",
                reason: "maximises the likelihood, which has no prior on the sd",
                other: "sd-prior",
            });
        }
        Ok(Self { scales, prior, criterion: None, laplace, prove: None })
    }

    /// The same with the estimate of a linear mixed model by this criterion, whose coefficients have flat priors.
    pub(crate) fn with_criterion(self, criterion: Criterion) -> Result<Self, RequestError> {
        let name = criterion_name(criterion);
        let no_effect = |setting: &str| {
            RequestError::no_effect(setting, format!("posteriors, but {name} estimates the scales"))
        };
        if self.scales == Some(Scales::Posterior) {
            return Err(no_effect("`scales` posterior"));
        }
        if self.prior.is_some() {
            return Err(no_effect("`sd-prior`"));
        }
        Ok(Self { scales: Some(Scales::Estimate), criterion: Some(criterion), ..self })
    }

    /// The same with what is to be proved.
    pub(crate) fn with_proof(self, word: &str) -> Result<Self, RequestError> {
        let prove = match word {
            "local" => Prove::Local,
            "global" => Prove::Global,
            _ => return Err(RequestError::word("prove", word, ["local", "global"])),
        };
        if self.criterion.is_none() {
            return Err(RequestError::no_effect("`prove`", PROVABLE));
        }
        Ok(Self { prove: Some(prove), ..self })
    }

    /// What is to be proved, if that is requested.
    pub fn prove(&self) -> Option<Prove> {
        self.prove
    }

    /// Whether the Laplace approximation is asked for, without its correction.
    pub fn laplace(&self) -> bool {
        self.laplace
    }

    /// By which criterion a linear mixed model is estimated, if by one.
    pub fn criterion(&self) -> Option<Criterion> {
        self.criterion
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
    pub(crate) fn refuse_without_unknown(&self) -> Result<(), RequestError> {
        let given = [("scales", self.scales.is_some()), ("sd-prior", self.prior.is_some())];
        match given.into_iter().find(|(_, given)| *given) {
            Some((setting, _)) => Err(RequestError::NoUnknownScale { setting }),
            None => Ok(()),
        }
    }
}

/// As settings and sentences have it.
pub(crate) fn criterion_name(criterion: Criterion) -> &'static str {
    match criterion {
        Criterion::Reml => "REML",
        Criterion::Ml => "ML",
    }
}

/// A prior in words, of an sd of which one is `unit` on the user's scale.
pub(crate) fn prior_words(prior: SdPrior, unit: f64) -> String {
    let short = |x: f64| crate::number::short(x * unit);
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

/// What is not given of a model, one of the two at least.
pub(crate) struct UnknownParameters<'a> {
    /// The groups whose sds are not given.
    pub(crate) groups: &'a [Group],
    /// The parameter of the likelihood.
    pub(crate) own: Option<Auxiliary>,
}

/// The parameter of the likelihood, if it has one that is not given.
pub(crate) fn own(response: Response, sigma: Option<f64>, dispersion: Option<f64>) -> Option<Auxiliary> {
    response.parameter().filter(|parameter| match parameter {
        Auxiliary::Sigma => sigma.is_none(),
        Auxiliary::Dispersion => dispersion.is_none(),
    })
}

/// What is not given; `None` if everything is. The only place that decides which models with unknown scales are
/// supported: one effect of one group, any number of them in a linear model whose noise is not given either, or in
/// another model whose own parameter is given or which has none; of linear models also some scales beside sds that are
/// given.
pub(crate) fn unknown(
    encoding: &Encoding,
    response: Response,
    sigma: Option<f64>,
    dispersion: Option<f64>,
) -> Result<Option<UnknownParameters<'_>>, Error> {
    let (groups, own) = (&encoding.groups[..], own(response, sigma, dispersion));
    let unknown_sds = groups.iter().any(|g| g.sd.is_none());
    if response.parameter() == Some(Auxiliary::Sigma)
        && let Some(group) = groups.iter().find(|g| g.sd.is_some())
        && (own.is_some() || unknown_sds)
    {
        beside_given(encoding, group, own)?;
        return Ok(Some(UnknownParameters { groups, own }));
    }
    let Some(group) = groups.iter().find(|g| g.sd.is_none()) else {
        return match (own, groups.first()) {
            (None, _) => Ok(None),
            (Some(_), None) => Ok(Some(UnknownParameters { groups, own })),
            (Some(own), Some(group)) => {
                Err(RequestError::OneScaleGiven { parameter: own.name(), group: group.name.clone() }.into())
            }
        };
    };
    let linear = response.link() == Link::Identity;
    let all = match own {
        Some(parameter) => parameter == Auxiliary::Sigma,
        None => !linear,
    } && groups.iter().all(|g| g.sd.is_none());
    if let Some(effect) = encoding.effects.first().filter(|_| !all) {
        let effect = match effect.parts.is_empty() {
            true => "the intercept".into(),
            false => format!("'{}'", effect.name),
        };
        let (needed, cure) = match own {
            Some(_) => ("a dispersion that is given", "give the dispersion"),
            None => ("a sigma that is not given", "leave out sigma"),
        };
        let reason = Unavailable::NotFixed { effect, needed, cure };
        return Err(SpecError::Unavailable { term: term_of(encoding, group), reason }.into());
    }
    match (groups.len(), group.slopes.as_slice()) {
        (1, [_]) => Ok(Some(UnknownParameters { groups, own })),
        _ if all => Ok(Some(UnknownParameters { groups, own })),
        (terms, effects) => {
            let reason = Unavailable::UnknownSds {
                group: group.name.clone(),
                terms,
                effects: effects.len(),
                parameter: own.map(Auxiliary::name),
            };
            Err(SpecError::Unavailable { term: term_of(encoding, group), reason }.into())
        }
    }
}

/// Scales that may be unknown beside sds that are given.
const BESIDE_GIVEN: usize = 2;

/// Refuses what a linear model of which some sds are given and some scales are not cannot have: more unknown scales
/// than a grid takes, correlations, and slopes whose given sd is about a centred column.
fn beside_given(encoding: &Encoding, given: &Group, own: Option<Auxiliary>) -> Result<(), Error> {
    let unknown = encoding.groups.iter().filter(|g| g.sd.is_none());
    let (count, correlated) = unknown.fold((usize::from(own.is_some()), false), |(count, correlated), g| {
        (count + g.slopes.len(), correlated || g.correlated)
    });
    if count > BESIDE_GIVEN || correlated || !encoding.effects.is_empty() {
        return Err(RequestError::TooManyBesideGiven { group: given.name.clone(), unknown: count }.into());
    }
    if !given_as_they_vary(encoding) {
        return Err(RequestError::SlopesBesideGiven { group: given.name.clone() }.into());
    }
    Ok(())
}

/// True if the columns that vary with a given sd are those of the user: intercepts, or columns that are not centred.
pub(crate) fn given_as_they_vary(encoding: &Encoding) -> bool {
    let centred = encoding.center_and_scale().0.iter().any(|c| *c != 0.0);
    let mut given = encoding.groups.iter().filter(|g| g.sd.is_some());
    given.all(|g| !centred || g.slopes.iter().all(|j| encoding.is_intercept(*j)))
}

/// A group term as a formula has it.
pub(crate) fn term_of(encoding: &Encoding, group: &Group) -> String {
    let name = |j: &usize| if encoding.is_intercept(*j) { "1".into() } else { encoding.coefficient(*j) };
    let names: Vec<String> = group.slopes.iter().map(name).collect();
    let bar = if group.correlated || names.len() == 1 { "|" } else { "||" };
    format!("({} {bar} {})", names.join(" + "), group.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

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
            (of(None, None, Some("both")), "posterior, estimate, laplace"),
            (of(Some("flat"), None, Some("estimate")), "leave sd-prior out"),
            (of(Some("flat"), None, None).and_then(|r| r.with_criterion(Criterion::Reml)), "sd-prior"),
            (of(None, None, Some("posterior")).and_then(|r| r.with_criterion(Criterion::Ml)), "scales"),
        ] {
            let error = asked.expect_err("refused");
            assert!(error.kind() == ErrorKind::Request && error.to_string().contains(word), "{error}");
        }
        assert!(of(Some("flat"), None, None).and_then(|r| r.refuse_without_unknown()).is_err());
    }
}
