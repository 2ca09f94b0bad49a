//! Predictions for new rows: the linear predictor is normal, the expected response its image.

mod groups;
mod mixture;
mod observe;
mod scales;

pub use groups::Groups;
pub use mixture::predict_mixture;
pub use observe::Responses;

use certus::Gaussian;
use certus::combination::Combinations;
use certus::gaussian::NORMAL_95;
use certus_models::rows::leaves;

use crate::coefficient_map::CoefficientMap;
use crate::posterior_draws::PosteriorDraws;
use crate::quantile::quantile;
use certus_data::DataError;
use certus_data::leaves::Storage;
use certus_data::table::Source;
use certus_likelihood::Link;

/// What is expected of one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The response's mean, over the posterior and the likelihood.
    pub mean: f64,
    /// Standard deviation of the expected response over the posterior.
    pub sd: f64,
    /// 5 % quantile of the expected response over the posterior.
    pub q05: f64,
    /// Its median.
    pub q50: f64,
    /// Its 95 % quantile.
    pub q95: f64,
    /// Mean of the linear predictor, the offset included.
    pub linear_mean: f64,
    /// Its standard deviation.
    pub linear_sd: f64,
    /// 5 % and 95 % quantiles of a new observation, if they are asked for: by simulation.
    pub observed: Option<[f64; 2]>,
}

impl Prediction {
    /// Names of [`Self::numbers`].
    pub const NAMES: [&str; 7] = ["mean", "sd", "q05", "q50", "q95", "linear_mean", "linear_sd"];

    /// Names of the quantiles of a new observation.
    pub const OBSERVED: [&str; 2] = ["y05", "y95"];

    /// All of it, in the order of the columns that files and Python have; those of an observation are the last.
    pub fn numbers(&self) -> Vec<f64> {
        let own = [self.mean, self.sd, self.q05, self.q50, self.q95, self.linear_mean, self.linear_sd];
        own.into_iter().chain(self.observed.into_iter().flatten()).collect()
    }

    /// Of a linear predictor t ~ N(mean, sd²).
    pub(crate) fn normal(responses: &Responses, trials: f64, mean: f64, sd: f64) -> Self {
        let link = responses.link;
        let at = |z: f64| trials * link.response(mean + z * sd);
        Self {
            mean: trials * link.expected_response(mean, sd),
            sd: trials * link.response_sd(mean, sd),
            q05: at(-NORMAL_95),
            q50: at(0.0),
            q95: at(NORMAL_95),
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
        Self { observed, ..Self::of(trials, mean_and_sd(&expected), at, of_linear) }
    }

    /// Of the mean, the sd and the quantile function of the expected response of one trial, and the moments of the
    /// linear predictor.
    pub(crate) fn of(
        trials: f64,
        (mean, sd): (f64, f64),
        quantile: impl Fn(f64) -> f64,
        (linear_mean, linear_sd): (f64, f64),
    ) -> Self {
        let at = |p: f64| trials * quantile(p);
        let (mean, sd) = (trials * mean, trials * sd);
        let [q05, q50, q95] = [0.05, 0.5, 0.95].map(at);
        Self { mean, sd, q05, q50, q95, linear_mean, linear_sd, observed: None }
    }
}

/// Of draws.
pub(crate) fn mean_and_sd(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt())
}

/// What a row's linear predictor is made of: `visit(terms, offset, trials, levels)`, row by row.
pub(crate) fn each_row(
    meaning: &CoefficientMap,
    source: &dyn Source,
    storage: &Storage,
    mut visit: impl FnMut(&[(usize, f64)], f64, f64, &[usize]),
) -> Result<(), DataError> {
    let encoded = meaning.encoding.encode(source, storage)?;
    let (rows, p) = (meaning.rows(), meaning.encoding.features.len());
    let (mut x, mut levels, mut terms) = (vec![0.0; p], vec![0; encoded.codes.len()], Vec::new());
    for index in 0..leaves(&*encoded.rows) {
        encoded.rows.leaf(index, &mut |leaf| {
            for i in 0..leaf.y.len() {
                (0..p).for_each(|j| x[j] = leaf.x.get(i, j));
                for (level, codes) in levels.iter_mut().zip(&encoded.codes) {
                    *level = codes[leaf.first + i] as usize;
                }
                rows.terms(&x, &levels, &mut terms);
                visit(&terms, leaf.offset_of(i), leaf.datum(i).trials, &levels);
            }
        })?;
    }
    Ok(())
}

/// Predictions for the rows of a source, in its order. Columns, levels and groups must be those of the fit.
pub fn predict(
    responses: &Responses,
    meaning: &CoefficientMap,
    w: &Gaussian,
    source: &dyn Source,
    storage: &Storage,
) -> Result<Vec<Prediction>, DataError> {
    let (mut combinations, mut out) = (Combinations::new(w), Vec::new());
    each_row(meaning, source, storage, |terms, offset, trials, _| {
        let (mean, sd) = combinations.moments(terms);
        out.push(Prediction::normal(responses, trials, mean + offset, sd));
    })?;
    Ok(out)
}

/// Predictions by draws of the posterior.
pub fn predict_posterior(
    responses: &Responses,
    meaning: &CoefficientMap,
    draws: &PosteriorDraws,
    source: &dyn Source,
    storage: &Storage,
) -> Result<Vec<Prediction>, DataError> {
    let mut out = Vec::new();
    each_row(meaning, source, storage, |terms, offset, trials, _| {
        let linear = |z: &[f64]| offset + terms.iter().map(|(j, a)| a * z[*j]).sum::<f64>();
        out.push(Prediction::of_draws(responses, trials, draws.each().map(linear).collect()));
    })?;
    Ok(out)
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
    each_row(meaning, source, storage, |terms, offset, trials, _| {
        by_row.extend(latents.chunks_exact(dim).map(|z| {
            let t = offset + terms.iter().map(|(j, a)| a * z[*j]).sum::<f64>();
            trials * link.response(t)
        }));
    })?;
    let rows = by_row.len() / n.max(1);
    Ok((0..n * rows).map(|k| by_row[(k % rows) * n + k / rows]).collect())
}
