//! How much of the variance of a latent response coefficients and groups explain: R² of Nakagawa and Schielzeth (2013),
//! with random slopes by Johnson (2014).

use certus_data::Prepared;
use certus_likelihood::Link;
use certus_models::Error;

use crate::variance::effect_rows::each_row;
use crate::variance::names::UnknownScales;
use crate::variance::several::EffectTerms;

/// Moments of the columns of fixed effects and of group effects over the rows, weighted.
pub(crate) struct ColumnMoments {
    terms: EffectTerms,
    weight: f64,
    mean: Vec<f64>,
    /// Σ w(x − x̄)(x − x̄)ᵀ.
    square: Vec<f64>,
    /// Σ wzzᵀ of the effects' columns, in the order of the terms.
    effects: Vec<f64>,
}

impl ColumnMoments {
    /// One pass over the rows.
    pub(crate) fn new(prepared: &Prepared, unknown_scales: &UnknownScales) -> Result<Self, Error> {
        let terms = EffectTerms::new(prepared, unknown_scales);
        let (p, k) = (terms.fixed, unknown_scales.effects.len());
        let (mut weight, mut mean) = (0.0, vec![0.0; p]);
        let (mut square, mut effects) = (vec![0.0; p * p], vec![0.0; k * k]);
        let mut away = vec![0.0; p];
        each_row(prepared, &terms, &mut |row| {
            weight += row.weight;
            // means and squares around them are updated together, so that no digits cancel
            let part = row.weight / weight;
            for j in 0..p {
                away[j] = row.fixed[j] - mean[j];
                mean[j] += part * away[j];
            }
            for j in 0..p {
                let by = row.weight * (1.0 - part) * away[j];
                square[j * p..][..p].iter_mut().zip(&away).for_each(|(s, a)| *s += by * a);
            }
            for j in 0..k {
                let by = row.weight * row.effects[j];
                effects[j * k..][..k].iter_mut().zip(row.effects).for_each(|(s, z)| *s += by * z);
            }
        })?;
        Ok(Self { terms, weight, mean, square, effects })
    }

    /// n, the sum of the weights.
    pub(crate) fn weight(&self) -> f64 {
        self.weight
    }

    /// R², marginal (by the coefficients) and conditional (by coefficients and groups), at an estimate; nothing for
    /// responses whose noise has no variance on the scale of the link.
    pub(crate) fn r_squared(&self, link: Link, beta: &[f64], scales: &[f64]) -> Option<[f64; 2]> {
        let noise = match link {
            Link::Identity => scales.last()?.powi(2),
            Link::Logit => std::f64::consts::PI.powi(2) / 3.0,
            Link::Probit => 1.0,
            _ => return None,
        };
        let p = self.mean.len();
        let form: f64 = (0..p * p).map(|e| beta[e / p] * beta[e % p] * self.square[e]).sum();
        let fixed = form / (self.weight - 1.0);
        let (mut groups, mut first, all) = (0.0, 0, self.terms.unknown_scales.effects.len());
        for term in &self.terms.list {
            let (t, k) = (self.terms.factor(term, scales), term.effects.len());
            for i in 0..k {
                for j in 0..k {
                    let covariance: f64 = (0..k).map(|l| t[l * k + i] * t[l * k + j]).sum();
                    groups += covariance * self.effects[(first + j) * all + first + i] / self.weight;
                }
            }
            first += k;
        }
        let total = fixed + groups + noise;
        (total > 0.0 && total.is_finite()).then(|| [fixed / total, (fixed + groups) / total])
    }
}
