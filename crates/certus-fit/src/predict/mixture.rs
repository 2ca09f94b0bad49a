//! Predictions of a model whose group sd is not known: for the groups of the fit, for a new group, and averaged over
//! the population of groups.

use certus::Gaussian;
use certus::combination::Combinations;
use certus_mixed::collapsed::{Node, quantile};
use certus_mixed::linear::TermFit;

use crate::coefficient_map::CoefficientMap;
use crate::error::Error;
use crate::posterior_draws::PosteriorDraws;
use crate::predict::groups::Groups;
use crate::predict::scales::ByDraws;
use crate::predict::{Prediction, Predictions, Responses, each_row};
use crate::refusal::RequestError;
use crate::variance::mixture::{Law, MixturePosterior};
use crate::variance::names::UnknownScales;
use certus_data::leaves::Storage;
use certus_data::table::Source;

/// Steps of a rule for a normal law, in sds, and how far it goes.
const STEP: f64 = 0.25;
const FAR: i32 = 24;

/// Predictions for the rows of a source, in its order, by draws of coefficients and log scales where there are any.
/// New groups and the population need no column of groups; where there are no groups, `groups` is `Known`.
pub fn predict_mixture(
    responses: &Responses,
    meaning: &CoefficientMap,
    unknown_scales: &UnknownScales,
    mixture_posterior: &MixturePosterior,
    draws: Option<&PosteriorDraws>,
    groups: Groups,
    source: &dyn Source,
    storage: &Storage,
) -> Result<Predictions, Error> {
    let known = groups == Groups::Known;
    if unknown_scales.effects.is_empty() && !known {
        return Err(RequestError::no_effect("`groups`", "fits with groups, but this fit has none").into());
    }
    if known && !unknown_scales.effects.is_empty() && mixture_posterior.effects.is_none() {
        return Err(RequestError::NoEffects.into());
    }
    let meaning = &if known { meaning.clone() } else { meaning.without_groups() };
    if let Some(draws) = draws {
        let effects = mixture_posterior.effects.as_ref();
        return ByDraws { responses, meaning, unknown_scales, effects, draws, groups }
            .predict(source, storage);
    }
    let gaussian = mixture_posterior.gaussian().map_err(certus_models::Error::from)?;
    let (mut combinations, (nodes, scales), mut out) =
        (Combinations::new(&gaussian), mixture_posterior.thinned(), Vec::new());
    let gaps = each_row(meaning, source, storage, |row, trials| {
        let (terms, offset, levels) = (row.terms, row.offset, row.levels);
        let z = row.columns(unknown_scales);
        // where nothing varies, every group is as good as any
        let spread = scales.iter().map(|scales| unknown_scales.sd_of_new(scales, &z)).collect();
        let row = Row { responses, z, spread, offset, trials };
        out.push(match groups {
            Groups::Known if !unknown_scales.effects.is_empty() => {
                let at: Vec<usize> =
                    unknown_scales.effects.iter().map(|e| e.first + levels[e.term]).collect();
                row.known(&gaussian, &mut combinations, mixture_posterior, terms, &at)
            }
            Groups::Known | Groups::New => row.new_group(&nodes, terms),
            Groups::Population => row.population(&nodes, terms),
        });
    })?;
    Ok(Predictions::new(responses, out, gaps))
}

struct Row<'a> {
    responses: &'a Responses,
    /// Of every effect.
    z: Vec<f64>,
    /// The sd of Σ z v of a new group, at every node.
    spread: Vec<f64>,
    offset: f64,
    trials: f64,
}

impl Row<'_> {
    /// t = aβ + Σ z_e v_e is taken to be normal; its variance from covariances where there is one group, else from
    /// draws. `at` are the places of the effects.
    fn known(
        &self,
        gaussian: &Gaussian,
        combinations: &mut Combinations<'_>,
        mixture_posterior: &MixturePosterior,
        terms: &[(usize, f64)],
        at: &[usize],
    ) -> Prediction {
        let d = gaussian.dim();
        let Some(effects) = &mixture_posterior.effects else {
            return self.of_law(&Law(vec![[1.0, f64::NAN, 0.0]]));
        };
        let (mean, sd) = combinations.moments(terms);
        let each = || self.z.iter().zip(at);
        let mean = mean + self.offset + each().map(|(z, at)| z * effects.mean[*at]).sum::<f64>();
        let variance = if effects.deviations.is_empty() {
            let mut sum = sd * sd;
            for (z, at) in each() {
                let covariance = &effects.covariance[at * d..][..d];
                let with: f64 = terms.iter().map(|(j, a)| a * covariance[*j]).sum();
                sum += z * z * effects.variance[*at] + 2.0 * z * with;
            }
            if let [first, _, ..] = at {
                let pairs = self.z.len() * (self.z.len() - 1) / 2;
                let between = &effects.between[first * pairs..][..pairs];
                let pairs = TermFit::pairs(self.z.len()).zip(between);
                sum += pairs.map(|((i, j), c)| 2.0 * self.z[i] * self.z[j] * c).sum::<f64>();
            }
            sum
        } else {
            let draws = effects.deviations.chunks_exact(d + effects.mean.len());
            let count = draws.len() as f64;
            let one = |draw: &[f64]| {
                let own: f64 = terms.iter().map(|(j, a)| a * draw[*j]).sum();
                (own + each().map(|(z, at)| z * draw[d + at]).sum::<f64>()).powi(2)
            };
            draws.map(one).sum::<f64>() / count
        };
        Prediction::normal(self.responses, self.trials, mean, variance.max(0.0).sqrt())
    }

    /// t ~ N(aβ̂ + offset, |Lᵀa|² + Var Σ z v) at each node of the grid.
    fn law_of_new(&self, nodes: &[Node], terms: &[(usize, f64)]) -> Law {
        let mut law = MixturePosterior::law(nodes, terms);
        for (one, spread) in law.0.iter_mut().zip(&self.spread) {
            one[1] += self.offset;
            one[2] = one[2].hypot(*spread);
        }
        law
    }

    fn new_group(&self, nodes: &[Node], terms: &[(usize, f64)]) -> Prediction {
        self.of_law(&self.law_of_new(nodes, terms))
    }

    fn of_law(&self, law: &Law) -> Prediction {
        let link = self.responses.link;
        let mean: f64 = law.0.iter().map(|[w, m, s]| w * link.expected_response(*m, *s)).sum();
        let square: f64 = law
            .0
            .iter()
            .map(|[w, m, s]| {
                let own = link.expected_response(*m, *s);
                w * (link.response_sd(*m, *s).powi(2) + (own - mean).powi(2))
            })
            .sum();
        let at = |p: f64| link.response(law.quantile(p));
        let observed = self.responses.of_law(self.trials, law);
        Prediction {
            observed,
            ..Prediction::of(self.responses, self.trials, (mean, square.sqrt()), at, law.moments())
        }
    }

    /// r(m, s) = ∫ response(m + su) N(u) du is what is predicted, s the sd of Σ z v; m = aβ + offset and s have their
    /// posterior. An observation is one of a new group.
    fn population(&self, nodes: &[Node], terms: &[(usize, f64)]) -> Prediction {
        let law = MixturePosterior::law(nodes, terms);
        let (center, linear_sd) = law.moments();
        let total: f64 = (-FAR..=FAR).map(|k| (-0.5 * (STEP * f64::from(k)).powi(2)).exp()).sum();
        let mut atoms: Vec<(f64, f64)> = Vec::new();
        for ([w, m, s], spread) in law.0.iter().zip(&self.spread) {
            for k in -FAR..=FAR {
                let u = STEP * f64::from(k);
                let r = self.responses.link.expected_response(m + self.offset + s * u, *spread);
                atoms.push((r, w * (-0.5 * u * u).exp() / total));
            }
        }
        let mean: f64 = atoms.iter().map(|(r, w)| w * r).sum();
        let square: f64 = atoms.iter().map(|(r, w)| w * (r - mean).powi(2)).sum();
        atoms.sort_by(|a, b| a.0.total_cmp(&b.0));
        let moments = (mean, square.sqrt());
        let observed = self.responses.of_law(self.trials, &self.law_of_new(nodes, terms));
        let linear = (center + self.offset, linear_sd);
        let at = |p| quantile(&atoms, p);
        Prediction { observed, ..Prediction::of(self.responses, self.trials, moments, at, linear) }
    }
}
