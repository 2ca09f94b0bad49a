//! Predictions of a model whose group sd is not known: for the groups of the fit, for a new group, and averaged over
//! the population of groups.

use certus::Gaussian;
use certus::combination::Combinations;
use certus_mixed::collapsed::{Node, quantile};

use crate::coefficient_map::CoefficientMap;
use crate::error::Error;
use crate::posterior_draws::PosteriorDraws;
use crate::predict::groups::Groups;
use crate::predict::scales::ByDraws;
use crate::predict::{Prediction, each_row};
use crate::refusal::RequestError;
use crate::variance::mixture::{Law, MixturePosterior};
use crate::variance::names::UnknownScales;
use certus_data::encoding::ColumnEncoding;
use certus_data::leaves::Storage;
use certus_data::table::Source;
use certus_likelihood::Link;

/// Steps of a rule for a normal law, in sds, and how far it goes.
const STEP: f64 = 0.25;
const FAR: i32 = 24;

/// Predictions for the rows of a source, in its order, by draws of coefficients and log scales where there are any.
/// New groups and the population need no column of groups; where there are no groups, `groups` is `Known`.
pub fn predict_mixture(
    link: Link,
    meaning: &CoefficientMap,
    unknown_scales: &UnknownScales,
    mixture_posterior: &MixturePosterior,
    draws: Option<&PosteriorDraws>,
    groups: Groups,
    source: &dyn Source,
    storage: &Storage,
) -> Result<Vec<Prediction>, Error> {
    let mut meaning = meaning.clone();
    let known = groups == Groups::Known;
    if unknown_scales.effect.is_none() && !known {
        return Err(RequestError::no_effect("`groups`", "fits with groups, but this fit has none").into());
    }
    if known && unknown_scales.effect.is_some() && mixture_posterior.effects.is_none() {
        return Err(RequestError::NoEffects.into());
    }
    if !known {
        meaning.encoding.groups.clear();
        // columns that only name groups come last
        while meaning.encoding.columns.last().is_some_and(|c| c.how == ColumnEncoding::Label) {
            meaning.encoding.columns.pop();
        }
    }
    if let Some(draws) = draws {
        let (effect, effects) = (unknown_scales.effect.as_ref(), mixture_posterior.effects.as_ref());
        return ByDraws { link, meaning: &meaning, effect, effects, draws, groups }.predict(source, storage);
    }
    let gaussian = mixture_posterior.gaussian().map_err(certus_models::Error::from)?;
    let (mut combinations, (nodes, _), mut out) =
        (Combinations::new(&gaussian), mixture_posterior.thinned(), Vec::new());
    each_row(&meaning, source, storage, |terms, offset, trials, levels| {
        let Some(effect) = &unknown_scales.effect else {
            // nothing varies, so every group is as good as any
            out.push(Row { link, z: 0.0, offset, trials }.new_group(&nodes, terms));
            return;
        };
        // the intercept's own column is 1
        let z = terms.iter().find(|t| t.0 == effect.feature).map_or(0.0, |t| t.1) + effect.shift;
        let row = Row { link, z, offset, trials };
        out.push(match groups {
            Groups::Known => row.known(&gaussian, &mut combinations, mixture_posterior, terms, levels[0]),
            Groups::New => row.new_group(&nodes, terms),
            Groups::Population => row.population(&nodes, terms),
        });
    })?;
    Ok(out)
}

struct Row {
    link: Link,
    z: f64,
    offset: f64,
    trials: f64,
}

impl Row {
    /// t = aβ + z v is taken to be normal: Var t = Var aβ + z² Var v + 2z Cov(aβ, v).
    fn known(
        &self,
        gaussian: &Gaussian,
        combinations: &mut Combinations<'_>,
        mixture_posterior: &MixturePosterior,
        terms: &[(usize, f64)],
        level: usize,
    ) -> Prediction {
        let d = gaussian.dim();
        let Some(effects) = &mixture_posterior.effects else {
            return self.of_law(&Law(vec![[1.0, f64::NAN, 0.0]]));
        };
        let (mean, sd) = combinations.moments(terms);
        let covariance = &effects.covariance[level * d..][..d];
        let with: f64 = terms.iter().map(|(j, a)| a * covariance[*j]).sum();
        let variance = sd * sd + self.z * self.z * effects.variance[level] + 2.0 * self.z * with;
        let mean = mean + self.offset + self.z * effects.mean[level];
        let sd = variance.max(0.0).sqrt();
        Prediction::normal(self.link, self.trials, mean, sd)
    }

    /// t ~ N(aβ̂ + offset, |Lᵀa|² + z²σ²) at each sd of the grid.
    fn new_group(&self, nodes: &[Node], terms: &[(usize, f64)]) -> Prediction {
        let mut law = MixturePosterior::law(nodes, terms);
        for (one, node) in law.0.iter_mut().zip(nodes) {
            one[1] += self.offset;
            one[2] = one[2].hypot(self.z * node.sd);
        }
        self.of_law(&law)
    }

    fn of_law(&self, law: &Law) -> Prediction {
        let mean: f64 = law.0.iter().map(|[w, m, s]| w * self.link.expected_response(*m, *s)).sum();
        let square: f64 = law
            .0
            .iter()
            .map(|[w, m, s]| {
                let own = self.link.expected_response(*m, *s);
                w * (self.link.response_sd(*m, *s).powi(2) + (own - mean).powi(2))
            })
            .sum();
        let at = |p: f64| self.link.response(law.quantile(p));
        Prediction::of(self.trials, (mean, square.sqrt()), at, law.moments())
    }

    /// r(m, σ) = ∫ response(m + zσu) N(u) du is what is predicted; m = aβ + offset and σ have their posterior.
    fn population(&self, nodes: &[Node], terms: &[(usize, f64)]) -> Prediction {
        let law = MixturePosterior::law(nodes, terms);
        let (center, linear_sd) = law.moments();
        let total: f64 = (-FAR..=FAR).map(|k| (-0.5 * (STEP * f64::from(k)).powi(2)).exp()).sum();
        let mut atoms: Vec<(f64, f64)> = Vec::new();
        for ([w, m, s], node) in law.0.iter().zip(nodes) {
            for k in -FAR..=FAR {
                let u = STEP * f64::from(k);
                let r = self.link.expected_response(m + self.offset + s * u, (self.z * node.sd).abs());
                atoms.push((r, w * (-0.5 * u * u).exp() / total));
            }
        }
        let mean: f64 = atoms.iter().map(|(r, w)| w * r).sum();
        let square: f64 = atoms.iter().map(|(r, w)| w * (r - mean).powi(2)).sum();
        atoms.sort_by(|a, b| a.0.total_cmp(&b.0));
        let moments = (mean, square.sqrt());
        Prediction::of(self.trials, moments, |p| quantile(&atoms, p), (center + self.offset, linear_sd))
    }
}
