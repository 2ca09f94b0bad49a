//! How well fits predict rows that they have not seen: leave-one-out cross-validation by smoothed importance sampling
//! (PSIS-LOO) and WAIC, from draws of the posterior; and differences between models of the same responses.

use std::sync::Arc;

use certus::certificate::counted;
use certus::diagnostics::RowFit;
use certus_likelihood::{Likelihood, Response};
use serde::Serialize;

use crate::at_draws::AtDraws;
use crate::error::Error;
use crate::fit::Fit;
use crate::predict::{DRAWS, SEED};
use crate::problem::Problem;

/// k̂ above which the contribution of a row cannot be trusted.
const UNRELIABLE: f64 = 0.7;
/// Rows that are named.
const NAMED: usize = 10;

/// An estimate of Σ log p(yᵢ | …) over the rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Criterion {
    /// The expected log pointwise predictive density.
    pub elpd: f64,
    /// Its standard error, the rows being a sample.
    pub se: f64,
    /// The effective number of parameters.
    pub p: f64,
}

/// What draws of the posterior say of a fit's predictions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loo {
    /// Leave-one-out cross-validation.
    pub loo: Criterion,
    /// The widely applicable information criterion.
    pub waic: Criterion,
    /// Rows; one with a weight is that many.
    pub rows: f64,
    /// Draws of the posterior.
    pub draws: usize,
    /// The largest k̂.
    pub k_hat: Option<f64>,
    /// Rows whose k̂ exceeds 0.7.
    pub unreliable: usize,
    /// The first of these, counted from 1 among the rows of the fit.
    pub unreliable_rows: Vec<usize>,
    /// What was assumed beyond the draws.
    pub note: Option<&'static str>,
    /// log p(yᵢ | y₋ᵢ) of every row.
    #[serde(skip)]
    pub elpd: Vec<f64>,
    /// Its k̂; NaN where the weights have no tail.
    #[serde(skip)]
    pub k: Vec<f64>,
    /// The weights of the rows.
    #[serde(skip)]
    pub weights: Vec<f64>,
}

/// A model among others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LooRow {
    /// The name it was given.
    pub name: String,
    /// Leave-one-out cross-validation.
    pub loo: Criterion,
    /// Rows whose k̂ exceeds 0.7.
    pub unreliable: usize,
    /// Its elpd less that of the best model.
    pub difference: f64,
    /// The standard error of the difference.
    pub difference_se: f64,
}

impl AtDraws<'_> {
    /// The likelihood at every draw, or one for all of them.
    fn likelihoods(&self, response: Response) -> Result<Vec<Arc<dyn Likelihood>>, Error> {
        let one = |parameter: &Option<f64>| response.likelihood(*parameter);
        Ok(self.parameters.iter().map(one).collect::<Result<_, _>>()?)
    }
}

impl Fit {
    /// The log likelihoods of the rows at the draws of [`Fit::draws`], times their weights: those of the first row at
    /// all draws, then those of the second, …
    pub fn log_likelihood(&self, problem: &Problem, count: usize, seed: u64) -> Result<Vec<f64>, Error> {
        let at = self.at_draws(problem, count, seed)?;
        let likelihoods = at.likelihoods(self.record.model.parse()?)?;
        let mut out = Vec::new();
        at.each_row(
            problem,
            &|leaf, i, linear| {
                let (datum, weight) = (leaf.datum(i), leaf.weight_of(i));
                let value = |k: &usize| likelihoods[k % likelihoods.len()].value(linear[*k], datum);
                at.order.iter().map(|k| -weight * value(k)).collect::<Vec<f64>>()
            },
            &mut |values| out.extend(values),
        )?;
        Ok(out)
    }

    /// PSIS-LOO and WAIC on the rows of the fit, whose `problem` is built from the same data.
    pub fn loo(&self, problem: &Problem) -> Result<Loo, Error> {
        let at = self.at_draws(problem, DRAWS, SEED)?;
        let likelihoods = at.likelihoods(self.record.model.parse()?)?;
        let (mut fits, mut weights, mut draws) = (Vec::new(), Vec::new(), 0);
        at.each_row(
            problem,
            &|leaf, i, mut values| {
                let datum = leaf.datum(i);
                for (k, t) in values.iter_mut().enumerate() {
                    *t = -likelihoods[k % likelihoods.len()].value(*t, datum);
                }
                (RowFit::new(&values), values.len(), leaf.weight_of(i))
            },
            &mut |(fit, count, weight)| {
                fits.push(fit);
                weights.push(weight);
                draws = count;
            },
        )?;
        let fits =
            fits.into_iter().collect::<Result<Vec<RowFit>, _>>().map_err(certus_models::Error::from)?;
        Ok(Loo::new(&fits, weights, draws, at.note))
    }
}

impl Loo {
    fn new(fits: &[RowFit], weights: Vec<f64>, draws: usize, note: Option<&'static str>) -> Self {
        let sum =
            |of: &dyn Fn(&RowFit) -> f64| -> f64 { fits.iter().zip(&weights).map(|(f, w)| w * of(f)).sum() };
        let criterion = |of: &dyn Fn(&RowFit) -> f64| {
            let each: Vec<f64> = fits.iter().map(of).collect();
            let (elpd, se) = total(&each, &weights);
            Criterion { elpd, se, p: sum(&|f| f.lppd) - elpd }
        };
        let (loo, waic) = (criterion(&|f| f.elpd), criterion(&|f| f.lppd - f.variance));
        let bad = |f: &RowFit| f.k_hat.is_some_and(|k| k > UNRELIABLE);
        let places = fits.iter().enumerate().filter(|(_, f)| bad(f)).map(|(i, _)| i + 1);
        Self {
            loo,
            waic,
            rows: weights.iter().sum(),
            draws,
            k_hat: fits.iter().filter_map(|f| f.k_hat).reduce(f64::max),
            unreliable: places.clone().count(),
            unreliable_rows: places.take(NAMED).collect(),
            note,
            elpd: fits.iter().map(|f| f.elpd).collect(),
            k: fits.iter().map(|f| f.k_hat.unwrap_or(f64::NAN)).collect(),
            weights,
        }
    }

    /// Of log likelihoods, those of a row at all draws together.
    pub fn of_values(values: &[f64], draws: usize) -> Result<Self, Error> {
        let fits = values.chunks_exact(draws.max(1)).map(RowFit::new).collect::<Result<Vec<_>, _>>();
        let fits = fits.map_err(certus_models::Error::from)?;
        let weights = vec![1.0; fits.len()];
        Ok(Self::new(&fits, weights, draws, None))
    }

    /// How far the numbers can be trusted.
    pub fn words(&self) -> String {
        let draws = format!("estimated from {} of the posterior", counted(self.draws as u64, "draw"));
        let k = self.k_hat.map_or(String::new(), |k| format!(", k-hat at most {k:.2}"));
        if self.unreliable == 0 {
            return format!("{draws}{k}");
        }
        let rows: Vec<String> = self.unreliable_rows.iter().map(usize::to_string).collect();
        let more = if self.unreliable > rows.len() { ", …" } else { "" };
        format!(
            "{draws}{k}; unreliable: k-hat exceeds 0.7 in {} ({}{more}), which the posterior depends on too much",
            counted(self.unreliable as u64, "row"),
            rows.join(", ")
        )
    }

    /// Models of the same rows, the best first.
    pub fn compare(fits: &[(String, &Loo)]) -> Vec<LooRow> {
        let mut order: Vec<&(String, &Loo)> = fits.iter().collect();
        order.sort_by(|a, b| b.1.loo.elpd.total_cmp(&a.1.loo.elpd));
        let Some((_, best)) = order.first() else { return Vec::new() };
        let row = |(name, own): &&(String, &Loo)| {
            let apart: Vec<f64> = own.elpd.iter().zip(&best.elpd).map(|(a, b)| a - b).collect();
            let (difference, difference_se) = total(&apart, &own.weights);
            LooRow { name: name.clone(), loo: own.loo, unreliable: own.unreliable, difference, difference_se }
        };
        order.iter().map(row).collect()
    }
}

/// W = Σw numbers, x of them w times each: their sum and its standard error √(W Var x), the numbers being a sample.
fn total(x: &[f64], weights: &[f64]) -> (f64, f64) {
    let count: f64 = weights.iter().sum();
    let sum: f64 = x.iter().zip(weights).map(|(x, w)| w * x).sum();
    let mean = sum / count;
    let squares: f64 = x.iter().zip(weights).map(|(x, w)| w * (x - mean).powi(2)).sum();
    (sum, (count * squares / (count - 1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows 0, 1, 3 with weights 1, 2, 1: mean 5/4, Σ w(x − m)² = 25/16 + 2/16 + 49/16 = 19/4, √(4 · 19/12).
    #[test]
    fn totals() {
        let (sum, se) = total(&[0.0, 1.0, 3.0], &[1.0, 2.0, 1.0]);
        assert_eq!(sum, 5.0);
        assert!((se - (19.0_f64 / 3.0).sqrt()).abs() < 1e-15);
    }
}
