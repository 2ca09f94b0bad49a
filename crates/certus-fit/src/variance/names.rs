//! The scales of a model that are not given, how they read on the user's scale, and the effect that varies by group.

use crate::error::Error;
use crate::variance::request::unknown;
use certus_data::encoding::Encoding;
use certus_likelihood::{Auxiliary, Link, Response};

/// A scale that is not given.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleName {
    /// `sd(city)`, `sd(city: rain)` for a slope, `sigma` for the noise, `sd(rates)` for counts: y is Poisson with a
    /// rate of this relative sd.
    pub name: String,
    /// One unit of the design on the user's scale.
    pub unit: f64,
}

/// The coefficient that varies by a group of unknown sd.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomEffect {
    /// The group.
    pub group: String,
    /// The column of the design.
    pub feature: usize,
    /// One unit of the design on the user's scale.
    pub unit: f64,
    /// What is added to the centred column so that it varies as the user's does.
    pub shift: f64,
}

/// How a number follows from x = Σ c_j log s_j.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    /// A scale, in its unit: unit·eˣ.
    Scale(f64),
    /// A share of the variance: e²ˣ/(e²ˣ + the rest).
    Share(f64),
    /// The dispersion of counts: e⁻²ˣ. Its mean may be infinite, so none is given.
    Dispersion,
}

impl Shape {
    pub(crate) fn of(self, x: f64) -> f64 {
        match self {
            Self::Scale(unit) => unit * x.exp(),
            Self::Share(rest) => 1.0 / (1.0 + rest * (-2.0 * x).exp()),
            Self::Dispersion => (-2.0 * x).exp(),
        }
    }
}

/// A row of the table of parameters that follows from the scales.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// c.
    pub(crate) combination: Vec<f64>,
    pub(crate) shape: Shape,
}

impl Row {
    /// At the logarithms of scales.
    pub(crate) fn at_logs(&self, logs: &[f64]) -> f64 {
        self.shape.of(self.combination.iter().zip(logs).map(|(c, l)| c * l).sum())
    }

    /// At some scales, which may be 0.
    pub(crate) fn at(&self, scales: &[f64]) -> f64 {
        let part = |(c, s): (&f64, &f64)| if *c == 0.0 { 0.0 } else { c * s.ln() };
        self.shape.of(self.combination.iter().zip(scales).map(part).sum())
    }
}

/// The scales of a model that are not given.
#[derive(Clone, Debug, PartialEq)]
pub struct UnknownScales {
    /// In the order of the nodes: the sd of groups first.
    pub scales: Vec<ScaleName>,
    /// What varies by group.
    pub effect: Option<RandomEffect>,
    pub(crate) rows: Vec<Row>,
}

impl UnknownScales {
    /// Of a fit; `None` if everything was given.
    pub fn of(
        encoding: &Encoding,
        response: Response,
        sigma: Option<f64>,
        dispersion: Option<f64>,
    ) -> Result<Option<Self>, Error> {
        let Some(unknown) = unknown(encoding, response, sigma, dispersion)? else { return Ok(None) };
        let count = usize::from(unknown.effect.is_some()) + usize::from(unknown.own.is_some());
        let of = |parts: &[(usize, f64)]| {
            let mut out = vec![0.0; count];
            parts.iter().for_each(|(j, c)| out[*j] = *c);
            out
        };
        let mut out = Self { scales: Vec::new(), effect: None, rows: Vec::new() };
        if let Some((group, feature)) = unknown.effect {
            let (center, scale) = encoding.center_and_scale();
            let slope = feature.checked_sub(usize::from(encoding.intercept));
            let name = match slope {
                Some(j) => format!("sd({}: {})", group.name, encoding.features[j].name),
                None => format!("sd({})", group.name),
            };
            let unit = slope.map_or(1.0, |j| 1.0 / scale[j]);
            let shift = slope.map_or(0.0, |j| center[j] / scale[j]);
            out.effect = Some(RandomEffect { group: group.name.clone(), feature, unit, shift });
            out.rows.push(Row {
                name: name.clone(),
                combination: of(&[(0, 1.0)]),
                shape: Shape::Scale(unit),
            });
            out.scales.push(ScaleName { name, unit });
            // the variance of a response on the latent scale given its group, where there is such a scale
            let alone = of(&[(0, 1.0)]);
            let share = match (response.link(), response.parameter()) {
                (Link::Identity, Some(Auxiliary::Sigma)) if unknown.own.is_some() => {
                    Some((1.0, of(&[(0, 1.0), (1, -1.0)])))
                }
                (Link::Identity, Some(Auxiliary::Sigma)) => sigma.map(|s| (s * s, alone)),
                (link, _) => link.latent_variance().map(|variance| (variance, alone)),
            };
            if let Some((rest, combination)) = share.filter(|_| slope.is_none()) {
                let name = format!("icc({})", group.name);
                out.rows.push(Row { name, combination, shape: Shape::Share(rest) });
            }
        }
        if let Some(own) = unknown.own {
            let last = of(&[(count - 1, 1.0)]);
            let name = match own {
                Auxiliary::Sigma => "sigma",
                Auxiliary::Dispersion => "sd(rates)",
            };
            let row = |name: &str, shape| Row { name: name.into(), combination: last.clone(), shape };
            out.scales.push(ScaleName { name: name.into(), unit: 1.0 });
            out.rows.push(row(name, Shape::Scale(1.0)));
            if own == Auxiliary::Dispersion {
                out.rows.push(row("dispersion", Shape::Dispersion));
            }
        }
        Ok(Some(out))
    }

    /// Names of the scales, in words.
    pub fn names(&self) -> String {
        self.scales.iter().map(|s| s.name.as_str()).collect::<Vec<_>>().join(" and ")
    }

    /// "sd(clinic) is", "sd(clinic) and sigma are".
    pub(crate) fn are(&self) -> String {
        format!("{} {}", self.names(), if self.scales.len() > 1 { "are" } else { "is" })
    }

    /// Scales on the user's scale.
    pub(crate) fn user(&self, scales: &[f64]) -> Vec<f64> {
        self.scales.iter().zip(scales).map(|(own, s)| own.unit * s).collect()
    }
}
