//! Predictions for new rows: the linear predictor is normal, the expected response its image.

mod groups;
mod levels;
mod mixture;
mod observe;
mod scales;

pub use groups::Groups;
pub use levels::Levels;
pub use mixture::predict_mixture;
pub use observe::Responses;
pub(crate) use observe::{DRAWS, SEED, unknown_parameter};
pub(crate) use scales::KnownGroups;

use certus::Gaussian;
use certus::combination::Combinations;
use certus::gaussian::NORMAL_95;
use certus_models::rows::leaves;

use crate::coefficient_map::CoefficientMap;
use crate::posterior_draws::PosteriorDraws;
use crate::quantile::quantile;
use crate::variance::mixture::Law;
use crate::variance::names::UnknownScales;
use certus_data::leaves::Storage;
use certus_data::table::Source;
use certus_data::{DataError, Gaps};
use certus_likelihood::Link;

/// What is expected of one row.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The response's mean, over the posterior and the likelihood.
    pub mean: f64,
    /// Standard deviation of the expected response over the posterior.
    pub sd: f64,
    /// Quantiles of the expected response over the posterior, at the levels of [`Levels::expected`].
    pub quantiles: Vec<f64>,
    /// Mean of the linear predictor, the offset included.
    pub linear_mean: f64,
    /// Its standard deviation.
    pub linear_sd: f64,
    /// Quantiles of a new observation by simulation, at the levels of [`Levels::observed`].
    pub observed: Vec<f64>,
}

impl Prediction {
    /// All of it, in the order of [`Levels::names`].
    pub fn numbers(&self) -> Vec<f64> {
        let quantiles = self.quantiles.iter().copied();
        let before = [self.mean, self.sd].into_iter().chain(quantiles);
        before.chain([self.linear_mean, self.linear_sd]).chain(self.observed.iter().copied()).collect()
    }

    /// Of a row that has a missing value: nothing is known.
    fn missing(levels: &Levels) -> Self {
        let none = |levels: &[f64]| vec![f64::NAN; levels.len()];
        let (quantiles, observed) = (none(&levels.expected), none(&levels.observed));
        let unknown = f64::NAN;
        Self { mean: unknown, sd: unknown, quantiles, linear_mean: unknown, linear_sd: unknown, observed }
    }

    /// Of a linear predictor t ~ N(mean, sd²).
    pub(crate) fn normal(responses: &Responses, trials: f64, mean: f64, sd: f64) -> Self {
        let link = responses.link;
        let at = |p: &f64| trials * link.response(mean + standard_quantile(*p) * sd);
        Self {
            mean: trials * link.expected_response(mean, sd),
            sd: trials * link.response_sd(mean, sd),
            quantiles: responses.levels.expected.iter().map(at).collect(),
            linear_mean: mean,
            linear_sd: sd,
            observed: responses.of_normal(trials, mean, sd),
        }
    }

    /// Of draws of a linear predictor; the response rises with it.
    pub(crate) fn of_draws(responses: &Responses, trials: f64, mut linear: Vec<f64>) -> Self {
        let (link, of_linear) = (responses.link, mean_and_sd(&linear));
        let observed = responses.of_draws(trials, &linear);
        linear.sort_by(f64::total_cmp);
        let expected: Vec<f64> = linear.iter().map(|t| link.response(*t)).collect();
        let at = |p| link.response(quantile(&linear, p));
        Self { observed, ..Self::of(responses, trials, mean_and_sd(&expected), at, of_linear) }
    }

    /// Of the mean, the sd and the quantile function of the expected response of one trial, and the moments of the
    /// linear predictor.
    pub(crate) fn of(
        responses: &Responses,
        trials: f64,
        (mean, sd): (f64, f64),
        quantile: impl Fn(f64) -> f64,
        (linear_mean, linear_sd): (f64, f64),
    ) -> Self {
        let quantiles = responses.levels.expected.iter().map(|p| trials * quantile(*p)).collect();
        let (mean, sd) = (trials * mean, trials * sd);
        Self { mean, sd, quantiles, linear_mean, linear_sd, observed: Vec::new() }
    }
}

/// The quantile of a standard normal number at p.
pub(crate) fn standard_quantile(p: f64) -> f64 {
    match p {
        0.05 => -NORMAL_95,
        0.5 => 0.0,
        0.95 => NORMAL_95,
        _ => Law(vec![[1.0, 0.0, 1.0]]).quantile(p),
    }
}

/// Predictions for the rows of a source, in its order.
#[derive(Clone, Debug, PartialEq)]
pub struct Predictions {
    /// One per row; NaN for those with a missing value.
    pub rows: Vec<Prediction>,
    /// The rows with missing values.
    pub gaps: Gaps,
}

impl Predictions {
    /// Those of the rows without missing values, and where the others are.
    fn new(responses: &Responses, complete: Vec<Prediction>, gaps: Gaps) -> Self {
        let mut rows = Vec::with_capacity(complete.len() + gaps.rows.len());
        let mut complete = complete.into_iter();
        for &gap in &gaps.rows {
            rows.extend(complete.by_ref().take(gap - rows.len()));
            rows.push(Prediction::missing(&responses.levels));
        }
        rows.extend(complete);
        Self { rows, gaps }
    }

    /// How many rows have no prediction, in words.
    pub fn note(&self) -> Option<String> {
        let (place, column) = self.gaps.first.as_ref()?;
        let (count, all) = (self.gaps.rows.len(), self.rows.len());
        let (have, their) = if count == 1 { ("has", "its") } else { ("have", "their") };
        Some(format!(
            "{count} of {all} rows {have} missing values and no prediction, {their} cells are empty: the first is \
                {place}, column '{column}'"
        ))
    }

    /// Row after row.
    pub fn numbers(&self) -> Vec<f64> {
        self.rows.iter().flat_map(Prediction::numbers).collect()
    }
}

/// Of draws.
pub(crate) fn mean_and_sd(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt())
}

/// What the linear predictor of a row is made of.
pub(crate) struct PredictedRow<'a> {
    /// (latent, weight).
    pub(crate) terms: &'a [(usize, f64)],
    /// The columns that only vary by group.
    pub(crate) only: &'a [f64],
    pub(crate) offset: f64,
    /// The levels of its groups.
    pub(crate) levels: &'a [usize],
}

impl PredictedRow<'_> {
    /// What multiplies every effect.
    pub(crate) fn columns(&self, unknown_scales: &UnknownScales) -> Vec<f64> {
        unknown_scales.effects.iter().map(|e| e.column(self.terms, self.only)).collect()
    }

    /// Σ a z + offset, z the latents.
    pub(crate) fn along(&self, z: &[f64]) -> f64 {
        self.offset + self.terms.iter().map(|(j, a)| a * z[*j]).sum::<f64>()
    }
}

/// Visits the rows without missing values, with their trials; and where the other rows are.
pub(crate) fn each_row(
    meaning: &CoefficientMap,
    source: &dyn Source,
    storage: &Storage,
    mut visit: impl FnMut(&PredictedRow<'_>, f64),
) -> Result<Gaps, DataError> {
    let (encoded, gaps) = meaning.encoding.encode_complete(source, storage)?;
    let (rows, p) = (meaning.rows(), meaning.encoding.features.len());
    let (mut x, mut levels, mut terms) = (vec![0.0; p], vec![0; encoded.codes.len()], Vec::new());
    let mut only = vec![0.0; encoded.effects.len()];
    for index in 0..leaves(&*encoded.rows) {
        encoded.rows.leaf(index, &mut |leaf| {
            for i in 0..leaf.y.len() {
                (0..p).for_each(|j| x[j] = leaf.x.get(i, j));
                for (level, codes) in levels.iter_mut().zip(&encoded.codes) {
                    *level = codes[leaf.first + i] as usize;
                }
                for (value, column) in only.iter_mut().zip(&encoded.effects) {
                    *value = column[leaf.first + i];
                }
                rows.terms(&x, &levels, &mut terms);
                let (terms, only, levels, offset) = (&terms[..], &only[..], &levels[..], leaf.offset_of(i));
                visit(&PredictedRow { terms, only, offset, levels }, leaf.datum(i).trials);
            }
        })?;
    }
    Ok(gaps)
}

/// Predictions for the rows of a source, in its order. Columns, levels and groups must be those of the fit.
pub fn predict(
    responses: &Responses,
    meaning: &CoefficientMap,
    w: &Gaussian,
    source: &dyn Source,
    storage: &Storage,
) -> Result<Predictions, DataError> {
    let (mut combinations, mut out) = (Combinations::new(w), Vec::new());
    let gaps = each_row(meaning, source, storage, |row, trials| {
        let (mean, sd) = combinations.moments(row.terms);
        out.push(Prediction::normal(responses, trials, mean + row.offset, sd));
    })?;
    Ok(Predictions::new(responses, out, gaps))
}

/// Predictions by draws of the posterior.
pub fn predict_posterior(
    responses: &Responses,
    meaning: &CoefficientMap,
    draws: &PosteriorDraws,
    source: &dyn Source,
    storage: &Storage,
) -> Result<Predictions, DataError> {
    let mut out = Vec::new();
    let gaps = each_row(meaning, source, storage, |row, trials| {
        let linear = draws.each().map(|z| row.along(z)).collect();
        out.push(Prediction::of_draws(responses, trials, linear));
    })?;
    Ok(Predictions::new(responses, out, gaps))
}

/// Expected responses of the rows of a source at draws, row after row for each draw.
pub fn predict_draws(
    link: Link,
    meaning: &CoefficientMap,
    latents: &[f64],
    source: &dyn Source,
    storage: &Storage,
) -> Result<Vec<f64>, DataError> {
    let (dim, mut by_row) = (meaning.dim(), Vec::new());
    let n = latents.len() / dim.max(1);
    let gaps = each_row(meaning, source, storage, |row, trials| {
        by_row.extend(latents.chunks_exact(dim).map(|z| trials * link.response(row.along(z))));
    })?;
    gaps.refuse()?;
    let rows = by_row.len() / n.max(1);
    Ok((0..n * rows).map(|k| by_row[(k % rows) * n + k / rows]).collect())
}
