//! The scales of a model that are not given, how they read on the user's scale, and the effect that varies by group.

use crate::error::Error;
use crate::variance::request::{UnknownParameters, unknown};
use certus_data::encoding::{Encoding, Group};
use certus_likelihood::{Auxiliary, Link, Response};
use certus_mixed::linear::TermFit;

/// A scale that is not given.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleName {
    /// `sd(city)`, `sd(city: rain)` for a slope, `cor(city: (Intercept), rain)`, `sigma` for the noise, `sd(rates)` for
    /// counts: y is Poisson with a rate of this relative sd.
    pub name: String,
    /// One unit of the design on the user's scale.
    pub unit: f64,
    /// True for a correlation between two effects of a group.
    pub correlation: bool,
}

/// A coefficient that varies by a group of unknown sd.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomEffect {
    /// The group.
    pub group: String,
    /// Its place among the groups.
    pub term: usize,
    /// Its levels, and the place of the first among the effects of all groups.
    pub levels: usize,
    /// See `levels`.
    pub first: usize,
    /// The place of its sd among the scales, or behind them among those that are given: see `UnknownScales::sd`.
    pub scale: usize,
    /// The column of the design.
    pub feature: usize,
    /// Its place among the columns that only vary, if it is one of these.
    pub only: Option<usize>,
    /// Its name.
    pub coefficient: String,
    /// One unit of the design on the user's scale.
    pub unit: f64,
    /// What is added to the centred column so that it varies as the user's does.
    pub shift: f64,
}

impl RandomEffect {
    /// What multiplies the effect in a row with these terms of the coefficients and these columns that only vary; the
    /// intercept's own column is 1.
    pub(crate) fn column(&self, terms: &[(usize, f64)], only: &[f64]) -> f64 {
        match self.only {
            Some(k) => only[k] * self.unit,
            None => terms.iter().find(|t| t.0 == self.feature).map_or(0.0, |t| t.1) + self.shift,
        }
    }
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
    /// A correlation: tanh x, of one that is not a scale.
    Correlation,
}

impl Shape {
    /// The coordinate x of a scale, or of a correlation.
    fn coordinate(self, scale: f64) -> f64 {
        if self == Self::Correlation { scale.atanh() } else { scale.ln() }
    }

    pub(crate) fn of(self, x: f64) -> f64 {
        match self {
            Self::Correlation => x.tanh(),
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
    /// x at some scales, which may be 0.
    pub(crate) fn coordinate(&self, scales: &[f64]) -> f64 {
        let part = |(c, s): (&f64, &f64)| if *c == 0.0 { 0.0 } else { c * self.shape.coordinate(*s) };
        self.combination.iter().zip(scales).map(part).sum()
    }

    /// At the coordinates of scales: their logarithms, and the artanh of correlations.
    pub(crate) fn at_logs(&self, logs: &[f64]) -> f64 {
        self.shape.of(self.combination.iter().zip(logs).map(|(c, l)| c * l).sum())
    }

    /// At some scales, which may be 0.
    pub(crate) fn at(&self, scales: &[f64]) -> f64 {
        self.shape.of(self.coordinate(scales))
    }
}

/// The scales of a model that are not given.
#[derive(Clone, Debug, PartialEq)]
pub struct UnknownScales {
    /// In the order of the nodes: those of groups first, of each its sds, then correlations.
    pub scales: Vec<ScaleName>,
    /// What varies by group.
    pub effects: Vec<RandomEffect>,
    /// Sds of effects that are given, in units of the design.
    pub(crate) given: Vec<f64>,
    pub(crate) rows: Vec<Row>,
}

impl UnknownScales {
    /// Of a fit; `None` if everything was given, unless groups are `integrated` out in any case.
    pub fn of(
        encoding: &Encoding,
        response: Response,
        sigma: Option<f64>,
        dispersion: Option<f64>,
        integrated: bool,
    ) -> Result<Option<Self>, Error> {
        let unknown = match unknown(encoding, response, sigma, dispersion)? {
            Some(unknown) => unknown,
            None if integrated => UnknownParameters { groups: &encoding.groups, own: None },
            None => return Ok(None),
        };
        let (scales, effects, given, rows) = Default::default();
        let mut out = Self { scales, effects, given, rows };
        for (term, group) in unknown.groups.iter().enumerate() {
            out.add_group(encoding, term, group);
        }
        let own = out.scales.len();
        let count = own + usize::from(unknown.own.is_some());
        let of = |parts: &[(usize, f64)]| {
            let mut combination = vec![0.0; count];
            parts.iter().for_each(|(j, c)| combination[*j] = *c);
            combination
        };
        for (j, scale) in out.scales.iter().enumerate() {
            let shape = if scale.correlation { Shape::Correlation } else { Shape::Scale(scale.unit) };
            out.rows.push(Row { name: scale.name.clone(), combination: of(&[(j, 1.0)]), shape });
        }
        // sds that are given come behind those that are not
        for effect in &mut out.effects {
            if let Some(sd) = unknown.groups[effect.term].sd {
                effect.scale = count + out.given.len();
                out.given.push(sd);
            }
        }
        // the share of the only intercept that varies in the variance of a response on the latent scale, where there
        // is such a scale
        if let [effect] = &out.effects[..]
            && encoding.is_intercept(effect.feature)
            && out.given.is_empty()
        {
            let alone = of(&[(0, 1.0)]);
            let share = match (response.link(), response.parameter()) {
                (Link::Identity, Some(Auxiliary::Sigma)) if unknown.own.is_some() => {
                    Some((1.0, of(&[(0, 1.0), (1, -1.0)])))
                }
                (Link::Identity, Some(Auxiliary::Sigma)) => sigma.map(|s| (s * s, alone)),
                (link, _) => link.latent_variance().map(|variance| (variance, alone)),
            };
            if let Some((rest, combination)) = share {
                let name = format!("icc({})", effect.group);
                out.rows.push(Row { name, combination, shape: Shape::Share(rest) });
            }
        }
        if let Some(parameter) = unknown.own {
            let name = match parameter {
                Auxiliary::Sigma => "sigma",
                Auxiliary::Dispersion => "sd(rates)",
            };
            let row = |name: &str, shape| Row { name: name.into(), combination: of(&[(own, 1.0)]), shape };
            out.scales.push(ScaleName { name: name.into(), unit: 1.0, correlation: false });
            out.rows.push(row(name, Shape::Scale(1.0)));
            if parameter == Auxiliary::Dispersion {
                out.rows.push(row("dispersion", Shape::Dispersion));
            }
        }
        Ok(Some(out))
    }

    /// The sd of an effect at some scales.
    pub(crate) fn sd(&self, effect: &RandomEffect, scales: &[f64]) -> f64 {
        match effect.scale.checked_sub(self.scales.len()) {
            Some(given) => self.given[given],
            None => scales[effect.scale],
        }
    }

    /// The effects of a group: their sds, then their correlations, unless the sds are given.
    fn add_group(&mut self, encoding: &Encoding, term: usize, group: &Group) {
        let (center, scale) = encoding.center_and_scale();
        for &feature in &group.slopes {
            let only = encoding.effect(feature);
            let slope = feature.checked_sub(usize::from(encoding.intercept)).filter(|_| only.is_none());
            let name = match encoding.is_intercept(feature) {
                true => format!("sd({})", group.name),
                false => format!("sd({}: {})", group.name, encoding.coefficient(feature)),
            };
            let unit = match only {
                Some(effect) => 1.0 / encoding.effects[effect].unit,
                None => slope.map_or(1.0, |j| 1.0 / scale[j]),
            };
            self.effects.push(RandomEffect {
                group: group.name.clone(),
                term,
                levels: group.levels.len(),
                first: self.effects.last().map_or(0, |e| e.first + e.levels),
                scale: self.scales.len(),
                feature,
                only,
                coefficient: encoding.coefficient(feature),
                unit,
                shift: slope.map_or(0.0, |j| center[j] / scale[j]),
            });
            if group.sd.is_none() {
                self.scales.push(ScaleName { name, unit, correlation: false });
            }
        }
        if group.correlated && group.sd.is_none() {
            for (i, j) in TermFit::pairs(group.slopes.len()) {
                let [a, b] = [j, i].map(|e| encoding.coefficient(group.slopes[e]));
                let name = format!("cor({}: {a}, {b})", group.name);
                self.scales.push(ScaleName { name, unit: 1.0, correlation: true });
            }
        }
    }

    /// The effects of one group term, and the places of their correlations among the scales (`None` if they are
    /// independent).
    pub(crate) fn term(&self, term: usize) -> (&[RandomEffect], Option<usize>) {
        let own = self.effects.iter().position(|e| e.term == term).unwrap_or(self.effects.len());
        let count = self.effects[own..].iter().take_while(|e| e.term == term).count();
        let effects = &self.effects[own..own + count];
        let next = effects.last().map_or(0, |e| e.scale + 1);
        (effects, self.scales.get(next).is_some_and(|s| s.correlation).then_some(next))
    }

    /// The sd of Σ_e z_e v_e, v the effects of groups that are not in the data, at some scales; z in the order of the
    /// effects.
    pub(crate) fn sd_of_new(&self, scales: &[f64], z: &[f64]) -> f64 {
        let mut sum = 0.0;
        for term in 0..self.effects.last().map_or(0, |e| e.term + 1) {
            let (effects, correlations) = self.term(term);
            let first = self.effects.iter().position(|e| e.term == term).unwrap_or(0);
            let part = |k: usize| z[first + k] * self.sd(&effects[k], scales);
            sum += (0..effects.len()).map(|k| part(k).powi(2)).sum::<f64>();
            let Some(at) = correlations else { continue };
            for (place, (i, j)) in TermFit::pairs(effects.len()).enumerate() {
                let both = part(i) * part(j);
                // beside an sd of 0 there is no correlation
                sum += if both == 0.0 { 0.0 } else { 2.0 * both * scales[at + place] };
            }
        }
        sum.max(0.0).sqrt()
    }

    /// The coordinates of scales: logarithms, and artanh of correlations.
    pub(crate) fn coordinates(&self, scales: &[f64]) -> Vec<f64> {
        let each = self.scales.iter().zip(scales);
        each.map(|(own, s)| if own.correlation { s.atanh() } else { s.ln() }).collect()
    }

    /// The scales at such coordinates.
    pub(crate) fn of_coordinates(&self, coordinates: &[f64]) -> Vec<f64> {
        let each = self.scales.iter().zip(coordinates);
        each.map(|(own, x)| if own.correlation { x.tanh() } else { x.exp() }).collect()
    }

    /// Names of the scales, in words.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.scales.iter().map(|s| s.name.as_str()).collect();
        match names.split_last() {
            Some((last, [])) => last.to_string(),
            Some((last, others)) => format!("{} and {last}", others.join(", ")),
            None => String::new(),
        }
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
