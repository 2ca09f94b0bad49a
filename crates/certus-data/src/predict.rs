//! Predictions for new rows: the linear predictor is normal, the expected response its image.

use certus::Gaussian;
use certus::combination::Combinations;
use certus::gaussian::NORMAL_95;
use certus_models::rows::leaves;
use certus_models::special::{neg_log_normal_cdf, sigmoid};

use crate::error::DataError;
use crate::leaves::Storage;
use crate::meaning::Meaning;
use crate::spec::Family;
use crate::table::Source;

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
}

impl Prediction {
    /// Of a linear predictor t ~ N(mean, sd²).
    pub(crate) fn normal(family: Family, trials: f64, mean: f64, sd: f64) -> Self {
        let at = |z: f64| trials * family.response(mean + z * sd);
        Self {
            mean: trials * family.expected_response(mean, sd),
            sd: trials * family.response_sd(mean, sd),
            q05: at(-NORMAL_95),
            q50: at(0.0),
            q95: at(NORMAL_95),
            linear_mean: mean,
            linear_sd: sd,
        }
    }

    /// Of the mean, the sd and the quantile function of the expected response of one trial, and the moments of the linear predictor.
    pub(crate) fn of(
        trials: f64,
        (mean, sd): (f64, f64),
        quantile: impl Fn(f64) -> f64,
        (linear_mean, linear_sd): (f64, f64),
    ) -> Self {
        let at = |p: f64| trials * quantile(p);
        let (mean, sd) = (trials * mean, trials * sd);
        Self { mean, sd, q05: at(0.05), q50: at(0.5), q95: at(0.95), linear_mean, linear_sd }
    }
}

impl Family {
    /// The expected response of one trial at the linear predictor t.
    pub fn response(self, t: f64) -> f64 {
        match self {
            Self::Linear => t,
            Self::Logistic | Self::Binomial => sigmoid(t),
            Self::Probit => (-neg_log_normal_cdf(t)).exp(),
            Self::Poisson | Self::NegativeBinomial => t.exp(),
        }
    }

    /// Its mean for t ~ N(mean, sd²): closed forms, and for the sigmoid the trapezoid rule.
    ///
    /// σ(m + s u) has its poles at |Im u| = π/s, and for |Im u| ≤ a = min(π/s, 6)/1.2 it is at most 2, for there |1 + e^{−t}| ≥ sin 30°. So
    /// the step h = a/8 has an error of at most 4 e^{a²/2 − 2πa/h} ≤ 4 e^{12.5 − 50}, and beyond |u| = 9 lies less than 1e-18.
    pub fn expected_response(self, mean: f64, sd: f64) -> f64 {
        match self {
            Self::Linear => mean,
            Self::Probit => self.response(mean / (1.0 + sd * sd).sqrt()),
            Self::Poisson | Self::NegativeBinomial => (mean + 0.5 * sd * sd).exp(),
            Self::Logistic | Self::Binomial => self.over(mean, sd, |x| x),
        }
    }

    /// The standard deviation of the expected response of one trial for t ~ N(mean, sd²).
    pub fn response_sd(self, mean: f64, sd: f64) -> f64 {
        match self {
            Self::Linear => sd,
            Self::Poisson | Self::NegativeBinomial => {
                (mean + 0.5 * sd * sd).exp() * (sd * sd).exp_m1().sqrt()
            }
            Self::Logistic | Self::Binomial | Self::Probit => {
                let center = self.expected_response(mean, sd);
                self.over(mean, sd, |x| (x - center) * (x - center)).sqrt()
            }
        }
    }

    /// E g(response(t)) by the trapezoid rule.
    fn over(self, mean: f64, sd: f64, g: impl Fn(f64) -> f64) -> f64 {
        let step = (std::f64::consts::PI / sd).min(6.0) / 9.6;
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

/// What a row's linear predictor is made of: `visit(terms, offset, trials, levels)`, row by row.
pub(crate) fn each_row(
    meaning: &Meaning,
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
    family: Family,
    meaning: &Meaning,
    w: &Gaussian,
    source: &dyn Source,
    storage: &Storage,
) -> Result<Vec<Prediction>, DataError> {
    let (mut combinations, mut out) = (Combinations::new(w), Vec::new());
    each_row(meaning, source, storage, |terms, offset, trials, _| {
        let (mean, sd) = combinations.moments(terms);
        out.push(Prediction::normal(family, trials, mean + offset, sd));
    })?;
    Ok(out)
}

/// Expected responses of the rows of a source at `n` draws of q, row after row for each draw.
pub fn predict_draws(
    family: Family,
    meaning: &Meaning,
    w: &Gaussian,
    source: &dyn Source,
    storage: &Storage,
    n: usize,
    seed: u64,
) -> Result<Vec<f64>, DataError> {
    let (latents, mut by_row) = (w.sample(n, seed), Vec::new());
    each_row(meaning, source, storage, |terms, offset, trials, _| {
        by_row.extend(latents.chunks_exact(w.dim()).map(|z| {
            let t = offset + terms.iter().map(|(j, a)| a * z[*j]).sum::<f64>();
            trials * family.response(t)
        }));
    })?;
    let rows = by_row.len() / n.max(1);
    Ok((0..n * rows).map(|k| by_row[(k % rows) * n + k / rows]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a rule with a step forty times finer, and a closed form: E σ(t) for mean 0 is 1/2.
    #[test]
    fn expected_responses() {
        for sd in [1e-3, 0.3, 1.0, 3.0, 10.0, 40.0] {
            assert!((Family::Logistic.expected_response(0.0, sd) - 0.5).abs() < 1e-15);
            for mean in [-3.0, 0.7, 12.0] {
                let (mut sum, mut weights) = (0.0, 0.0);
                for k in -40_000..=40_000 {
                    let u = f64::from(k) * 2.5e-4;
                    let weight = (-0.5 * u * u).exp();
                    sum += weight * sigmoid(mean + sd * u);
                    weights += weight;
                }
                let error = Family::Logistic.expected_response(mean, sd) - sum / weights;
                assert!(error.abs() < 1e-12, "{mean} {sd}: {error}");
            }
        }
        // E Φ(t)² − 1/4 at mean 0 is asin(s²/(1 + s²))/2π
        for sd in [0.1, 1.0, 3.0, 10.0] {
            let s2: f64 = sd * sd;
            let exact = ((s2 / (1.0 + s2)).asin() / std::f64::consts::TAU).sqrt();
            assert!((Family::Probit.response_sd(0.0, sd) - exact).abs() < 1e-9, "{sd}");
        }
        let exact = (2.0f64.exp() - 1.0).sqrt() * (1.0f64 + 0.3).exp();
        assert!((Family::Poisson.response_sd(0.3, 2f64.sqrt()) - exact).abs() < 1e-13);
        assert_eq!(Family::Linear.expected_response(1.5, 2.0), 1.5);
        assert!((Family::Poisson.expected_response(0.0, 2f64.sqrt()) - 1f64.exp()).abs() < 1e-14);
        assert!((Family::Probit.expected_response(1.0, 0.0) - 0.841_344_746_068_542_9).abs() < 1e-15);
    }
}
