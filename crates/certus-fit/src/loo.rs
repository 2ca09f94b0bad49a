//! How well fits predict rows that they have not seen: leave-one-out cross-validation by smoothed importance sampling
//! (PSIS-LOO) and WAIC, from draws of the posterior; and differences between models of the same responses.

use std::sync::Arc;

use certus::certificate::counted;
use certus::diagnostics::RowFit;
use certus::parallel;
use certus_likelihood::{Likelihood, Response};
use certus_models::rows::{Leaf, leaves};
use serde::Serialize;

use crate::error::Error;
use crate::fit::Fit;
use crate::predict::{DRAWS, KnownGroups, SEED, unknown_parameter};
use crate::problem::Problem;
use crate::refusal::RequestError;

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

/// Linear predictors at draws.
enum Predictors<'a> {
    /// Of latents: draws of the first, of the second, …
    Latents(Vec<f64>, usize),
    Groups(KnownGroups<'a>),
}

impl Predictors<'_> {
    fn linear(&self, terms: &[(usize, f64)], offset: f64, levels: &[usize]) -> Vec<f64> {
        match self {
            Self::Latents(columns, draws) => {
                let mut t = vec![offset; *draws];
                for (j, a) in terms {
                    certus::linalg::add_scaled(&mut t, *a, &columns[j * draws..][..*draws]);
                }
                t
            }
            Self::Groups(groups) => groups.linear(terms, offset, levels),
        }
    }
}

/// Of draws one after the other, those of each latent together.
fn columns(latents: &[f64], dim: usize) -> Predictors<'static> {
    let draws = latents.len() / dim.max(1);
    let columns = (0..dim * draws).map(|at| latents[at % draws * dim + at / draws]).collect();
    Predictors::Latents(columns, draws)
}

impl Fit {
    /// PSIS-LOO and WAIC on the rows of the fit, whose `problem` is built from the same data.
    pub fn loo(&self, problem: &Problem) -> Result<Loo, Error> {
        let (predictors, parameters, note) = self.predictors()?;
        let response: Response = self.record.model.parse()?;
        let likelihoods: Vec<Arc<dyn Likelihood>> =
            parameters.iter().map(|parameter| response.likelihood(*parameter)).collect::<Result<_, _>>()?;
        let (meaning, prepared) = (&problem.meaning, &problem.prepared);
        let (rows, p) = (meaning.rows(), prepared.encoding.features.len());
        let of_row = |leaf: &Leaf<'_>, i: usize| {
            let x: Vec<f64> = (0..p).map(|j| leaf.x.get(i, j)).collect();
            let levels: Vec<usize> =
                prepared.codes.iter().map(|codes| codes[leaf.first + i] as usize).collect();
            let mut terms = Vec::new();
            rows.terms(&x, &levels, &mut terms);
            let mut values = predictors.linear(&terms, leaf.offset_of(i), &levels);
            let datum = leaf.datum(i);
            for (k, t) in values.iter_mut().enumerate() {
                *t = -likelihoods[k % likelihoods.len()].value(*t, datum);
            }
            (RowFit::new(&values), values.len())
        };
        let (mut fits, mut weights, mut draws, mut installed) = (Vec::new(), Vec::new(), 0, Ok(()));
        for index in 0..leaves(&*prepared.rows) {
            prepared.rows.leaf(index, &mut |leaf| {
                let mut own: Vec<_> = (0..leaf.y.len()).map(|_| None).collect();
                let work =
                    || parallel::for_each_piece(&mut own, 1, 8, &|i, out| out[0] = Some(of_row(&leaf, i)));
                if let Err(error) = parallel::install(None, work) {
                    installed = Err(error);
                }
                weights.extend((0..leaf.y.len()).map(|i| leaf.weight_of(i)));
                fits.extend(own.into_iter().flatten().map(|(fit, count)| {
                    draws = count;
                    fit
                }));
            })?;
        }
        installed.map_err(certus_models::Error::from)?;
        let fits =
            fits.into_iter().collect::<Result<Vec<RowFit>, _>>().map_err(certus_models::Error::from)?;
        Ok(Loo::new(&fits, weights, draws, note))
    }

    /// Linear predictors at draws of the posterior, the likelihood's parameter at the same draws (one if it is given,
    /// or there is none), and what was assumed.
    #[expect(clippy::type_complexity, reason = "three things about the same draws")]
    fn predictors(&self) -> Result<(Predictors<'_>, Vec<Option<f64>>, Option<&'static str>), Error> {
        let meaning = self.meaning()?;
        let response: Response = self.record.model.parse()?;
        let given = response.parameter().map(|p| (p, self.record.settings[p.name()].as_f64()));
        let unknown = given.filter(|(_, value)| value.is_none()).map(|(p, _)| p.name());
        let parameters = || match (unknown, given) {
            (Some(name), _) => unknown_parameter(self, name).into_iter().map(Some).collect(),
            (None, given) => vec![given.and_then(|(_, value)| value)],
        };
        let Some((mixture, scales)) = &self.mixture else {
            let latents = self.latents(DRAWS, SEED);
            return Ok((columns(&latents, self.gaussian.dim()), parameters(), None));
        };
        match &self.posterior_draws {
            Some(draws) => {
                let effects = mixture.effects.as_ref();
                if !scales.effects.is_empty() && effects.is_none() {
                    return Err(RequestError::NoLoo("it does not have the effects of its groups").into());
                }
                let drawn_apart = effects.is_some_and(|effects| !effects.deviations.is_empty());
                if drawn_apart && unknown.is_some() {
                    let words =
                        "the effects of its groups and the parameter of the likelihood have no joint draws";
                    return Err(RequestError::NoLoo(words).into());
                }
                let groups = KnownGroups::new(meaning.dim(), scales, effects, draws);
                let note = "the effects of groups are taken to be normal, given the coefficients";
                let note = (!scales.effects.is_empty()).then_some(note);
                Ok((Predictors::Groups(groups), parameters(), note))
            }
            None if mixture.log_covariance.is_some() => {
                Err(RequestError::NoLoo("its scales are estimates; infer their posterior instead").into())
            }
            None if scales.effects.is_empty() => {
                let mut latents = Vec::new();
                mixture.each_draw(scales, DRAWS, SEED, |z, _| latents.extend_from_slice(z));
                Ok((columns(&latents, mixture.dim()), parameters(), None))
            }
            None => Err(RequestError::NoLoo("the effects of its groups have no draws").into()),
        }
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
