//! The responses that certus supports, as one table: what each is called, which values it takes, its link, and how its
//! likelihood is made.

use std::f64::consts::PI;
use std::str::FromStr;
use std::sync::Arc;

use rand::Rng;

use crate::special::{neg_log_normal_cdf, sigmoid};
use crate::{Datum, Error, Likelihood, Response};

/// The values a response takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Finite numbers; the response says which.
    Numbers,
    /// 0 or 1.
    Binary,
    /// Successes among the trials of the same row.
    Successes,
    /// 0, 1, 2, ...
    Counts,
}

/// How the expected response (of one trial) follows from the linear predictor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// t.
    Identity,
    /// σ(t).
    Logit,
    /// Φ(t).
    Probit,
    /// eᵗ.
    Log,
}

/// An auxiliary parameter: what the likelihood needs besides the linear predictor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auxiliary {
    /// The standard deviation of the noise.
    Sigma,
    /// k of the variance mean + mean²/k.
    Dispersion,
}

impl Auxiliary {
    /// As users write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sigma => "sigma",
            Self::Dispersion => "dispersion",
        }
    }
}

/// One line of the table.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    /// For lists of models, a few words.
    pub(crate) about: &'static str,
    pub(crate) values: Values,
    pub(crate) link: Link,
    pub(crate) parameter: Option<Auxiliary>,
    /// What is wrong with an observation, whatever the parameter.
    pub(crate) reject: fn(Datum) -> Option<String>,
    /// The likelihood with its parameter; without one, the number is ignored.
    pub(crate) make: fn(f64) -> Result<Arc<dyn Likelihood>, Error>,
    /// An observation with this linear predictor, parameter and number of trials.
    pub(crate) draw: fn(&mut dyn Rng, f64, f64, f64) -> f64,
}

/// Declares the enum and the table.
macro_rules! responses {
    ($($file:ident::$Name:ident),* $(,)?) => {
        $(pub use $file::$Name;)*

        /// A response and its likelihood, by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Response {
            $(#[doc = concat!("See [`struct@", stringify!($Name), "`].")] $Name,)*
        }

        impl Response {
            /// All of them, in the order in which they are listed to users.
            pub const ALL: &[Self] = &[$(Self::$Name),*];

            fn entry(self) -> &'static response::Entry {
                match self { $(Self::$Name => &$file::ENTRY,)* }
            }
        }
    };
}
pub(crate) use responses;

impl Response {
    /// As users write it.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// What it is for, in a few words.
    pub fn about(self) -> &'static str {
        self.entry().about
    }

    /// All names, "a, b, c".
    pub fn names() -> String {
        Self::ALL.iter().map(|response| response.name()).collect::<Vec<_>>().join(", ")
    }

    /// The values it takes.
    pub fn values(self) -> Values {
        self.entry().values
    }

    /// Its link.
    pub fn link(self) -> Link {
        self.entry().link
    }

    /// The parameter its likelihood needs.
    pub fn parameter(self) -> Option<Auxiliary> {
        self.entry().parameter
    }

    /// Its likelihood. A parameter must be given exactly where there is one.
    pub fn likelihood(self, parameter: Option<f64>) -> Result<Arc<dyn Likelihood>, Error> {
        match (self.parameter(), parameter) {
            (None, None) => (self.entry().make)(f64::NAN),
            (Some(_), Some(value)) => (self.entry().make)(value),
            _ => Err(Error::Unknown { response: self.name().into(), parameter }),
        }
    }

    /// An observation with the linear predictor `t`; a parameter that there is none of is ignored, and so are trials.
    pub fn draw(self, rng: &mut dyn Rng, t: f64, parameter: f64, trials: f64) -> f64 {
        (self.entry().draw)(rng, t, parameter, trials)
    }

    /// What is wrong with an observation, or `None`; no parameter changes that.
    pub fn reject(self, datum: Datum) -> Option<String> {
        (self.entry().reject)(datum)
    }
}

impl FromStr for Response {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.iter().copied().find(|response| response.name() == name);
        found.ok_or_else(|| Error::NoSuchResponse { name: name.into(), known: Self::names() })
    }
}

impl Link {
    /// The expected response at the linear predictor t.
    pub fn response(self, t: f64) -> f64 {
        match self {
            Self::Identity => t,
            Self::Logit => sigmoid(t),
            Self::Probit => (-neg_log_normal_cdf(t)).exp(),
            Self::Log => t.exp(),
        }
    }

    /// The variance of a response on the scale of t, given t, where there is a fixed one.
    pub fn latent_variance(self) -> Option<f64> {
        match self {
            Self::Logit => Some(PI * PI / 3.0),
            Self::Probit => Some(1.0),
            Self::Identity | Self::Log => None,
        }
    }

    /// Mean of the expected response for t ~ N(mean, sd²): closed forms, and for the sigmoid the trapezoid rule.
    ///
    /// σ(m + s u) has its poles at |Im u| = π/s, and for |Im u| ≤ a = min(π/s, 6)/1.2 it is at most 2, for there |1 +
    /// e^{−t}| ≥ sin 30°. So the step h = a/8 has an error of at most 4 e^{a²/2 − 2πa/h} ≤ 4 e^{12.5 − 50}, and beyond
    /// |u| = 9 lies less than 1e-18.
    pub fn expected_response(self, mean: f64, sd: f64) -> f64 {
        match self {
            Self::Identity => mean,
            Self::Probit => self.response(mean / (1.0 + sd * sd).sqrt()),
            Self::Log => (mean + 0.5 * sd * sd).exp(),
            Self::Logit => self.over(mean, sd, |x| x),
        }
    }

    /// Replaces linear predictors by their responses; never inlined, so that crates which are built without
    /// optimisation have the loop optimised.
    #[inline(never)]
    pub fn respond(self, t: &mut [f64]) {
        t.iter_mut().for_each(|t| *t = self.response(*t));
    }

    /// Standard deviation of the expected response for t ~ N(mean, sd²).
    pub fn response_sd(self, mean: f64, sd: f64) -> f64 {
        match self {
            Self::Identity => sd,
            Self::Log => (mean + 0.5 * sd * sd).exp() * (sd * sd).exp_m1().sqrt(),
            Self::Logit | Self::Probit => {
                let center = self.expected_response(mean, sd);
                self.over(mean, sd, |x| (x - center) * (x - center)).sqrt()
            }
        }
    }

    /// E g(response(t)) by the trapezoid rule.
    fn over(self, mean: f64, sd: f64, g: impl Fn(f64) -> f64) -> f64 {
        let step = (PI / sd).min(6.0) / 9.6;
        let nodes = (9.0 / step).ceil() as i64;
        let (mut sum, mut weights) = (0.0, 0.0);
        for k in -nodes..=nodes {
            let u = k as f64 * step;
            let weight = (-0.5 * u * u).exp();
            sum += weight * g(self.response(mean + sd * u));
            weights += weight;
        }
        sum / weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_likelihoods() {
        for &response in Response::ALL {
            assert_eq!(response.name().parse(), Ok(response));
            let parameter = response.parameter().map(|_| 2.5);
            let likelihood = response.likelihood(parameter).expect("legal");
            assert_eq!(likelihood.name(), response.name());
            assert_eq!(likelihood.parameter(), response.parameter().map(|p| (p.name(), 2.5)));
            let other = if parameter.is_some() { None } else { Some(2.5) };
            assert!(response.likelihood(other).is_err());
            assert!(response.reject(Datum { y: f64::NAN, trials: 1.0 }).is_some());
        }
        let error = "no-such-response".parse::<Response>().expect_err("there is none").to_string();
        assert!(error.contains("no-such-response") && error.ends_with(&Response::names()), "{error}");
    }

    /// Against a rule with a step forty times finer, and a closed form: E σ(t) for mean 0 is 1/2.
    #[test]
    fn expected_responses() {
        for sd in [1e-3, 0.3, 1.0, 3.0, 10.0, 40.0] {
            assert!((Link::Logit.expected_response(0.0, sd) - 0.5).abs() < 1e-15);
            for mean in [-3.0, 0.7, 12.0] {
                let (mut sum, mut weights) = (0.0, 0.0);
                for k in -40_000..=40_000 {
                    let u = f64::from(k) * 2.5e-4;
                    let weight = (-0.5 * u * u).exp();
                    sum += weight * sigmoid(mean + sd * u);
                    weights += weight;
                }
                let error = Link::Logit.expected_response(mean, sd) - sum / weights;
                assert!(error.abs() < 1e-12, "{mean} {sd}: {error}");
            }
        }
        // E Φ(t)² − 1/4 at mean 0 is asin(s²/(1 + s²))/2π
        for sd in [0.1, 1.0, 3.0, 10.0] {
            let s2: f64 = sd * sd;
            let exact = ((s2 / (1.0 + s2)).asin() / std::f64::consts::TAU).sqrt();
            assert!((Link::Probit.response_sd(0.0, sd) - exact).abs() < 1e-9, "{sd}");
        }
        let exact = (2.0f64.exp() - 1.0).sqrt() * (1.0f64 + 0.3).exp();
        assert!((Link::Log.response_sd(0.3, 2f64.sqrt()) - exact).abs() < 1e-13);
        assert_eq!(Link::Identity.expected_response(1.5, 2.0), 1.5);
        assert!((Link::Log.expected_response(0.0, 2f64.sqrt()) - 1f64.exp()).abs() < 1e-14);
        assert!((Link::Probit.expected_response(1.0, 0.0) - 0.841_344_746_068_542_9).abs() < 1e-15);
    }
}
