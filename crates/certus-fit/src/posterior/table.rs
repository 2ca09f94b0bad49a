//! A table of the posterior: means, sds and quantiles of what is printed, with their errors, and draws.

use certus::Gaussian;
use certus::certificate::Level;
use certus::certificate::weights::{Enclosed, WeightCertificate};
use certus::certificate::words::counted;
use certus::combination::Combinations;
use certus::diagnostics::importance::STATED;
use certus::diagnostics::{Estimate, Importance, WeightedDraws};
use certus::gaussian::NORMAL_95;
use certus_models::nuts::{Chains, diagnosed};

use crate::quantile::quantile;
use crate::record::{self, Record, Source};

/// Draws that are kept, at most and at least, and the numbers they may take.
const DRAWS: (usize, usize) = (4000, 400);
const NUMBERS: usize = 8_000_000;
/// Weighted points that quantiles and draws come from, at most.
const POINTS: usize = 20_000;
/// The quantiles: probabilities, and where the standard normal distribution has them.
pub(super) const QUANTILES: [(f64, f64); 3] = [(0.05, -NORMAL_95), (0.5, 0.0), (0.95, NORMAL_95)];

/// A row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Marginal {
    /// The mean.
    pub mean: f64,
    /// The sd.
    pub sd: f64,
    /// The quantiles at 5, 50 and 95 %.
    pub quantiles: [f64; 3],
    /// How far the mean may be off, in units of `sd`.
    pub mean_error: f64,
    /// How far the sd may be off, as a fraction of it.
    pub sd_error: f64,
    /// How far a quantile may be off, in units of `sd`; infinite if that is not known.
    pub quantile_error: f64,
}

impl Marginal {
    /// Of what may have no mean: none is stated.
    pub(super) fn without_moments(quantiles: [f64; 3]) -> Self {
        let none = f64::NAN;
        Self {
            mean: none,
            sd: none,
            quantiles,
            mean_error: none,
            sd_error: none,
            quantile_error: f64::INFINITY,
        }
    }

    /// True unless none of its moments is stated.
    fn has_moments(&self) -> bool {
        [self.mean, self.sd, self.mean_error, self.sd_error].iter().any(|x| !x.is_nan())
    }
}

/// Rows, where they come from, and draws.
#[derive(Clone, Debug, PartialEq)]
pub struct PosteriorTable {
    /// Where they come from.
    pub source: Source,
    /// How sure the errors are.
    pub level: Level,
    /// A row for everything that is printed.
    pub marginals: Vec<Marginal>,
    /// Latents of draws, one after the other.
    pub draws: Vec<f64>,
    /// How it was made, in words.
    pub made: String,
    /// Figures that tell how good the source is.
    pub constants: Vec<(&'static str, f64)>,
}

/// Draws that are kept of so many latents; `None` if there are too many latents.
pub(super) fn kept(dim: usize) -> Option<usize> {
    Some(DRAWS.0.min(NUMBERS / dim.max(1))).filter(|n| *n >= DRAWS.1)
}

/// Weighted points of so many latents.
pub(super) fn points(dim: usize) -> usize {
    POINTS.min(4 * NUMBERS / dim.max(1))
}

impl PosteriorTable {
    /// The largest error of a mean, in sds.
    pub fn mean_error(&self) -> f64 {
        largest(self.stated().map(|m| m.mean_error))
    }

    /// The largest error of an sd, as a fraction of it.
    pub fn sd_error(&self) -> f64 {
        largest(self.stated().map(|m| m.sd_error))
    }

    /// Rows whose moments are stated.
    fn stated(&self) -> impl Iterator<Item = &Marginal> {
        self.marginals.iter().filter(|m| m.has_moments())
    }

    /// A figure that tells how good the source is.
    pub(super) fn constant(&self, name: &str) -> Option<f64> {
        self.constants.iter().find(|(own, _)| *own == name).map(|(_, x)| *x)
    }

    /// The largest error of a quantile, in sds; infinite if that is not known.
    pub fn quantile_error(&self) -> f64 {
        largest(self.stated().map(|m| m.quantile_error))
    }

    /// The larger of the errors of means and sds.
    pub(super) fn error(&self) -> f64 {
        largest([self.mean_error(), self.sd_error()].into_iter())
    }

    /// Corrected by weights whose tail is proved (D8).
    pub(super) fn corrected(
        q: &Gaussian,
        reported: &[Vec<(usize, f64)>],
        found: &WeightCertificate,
        points: &WeightedDraws,
        level: Level,
        pairs: f64,
        seed: u64,
    ) -> Self {
        let moments = found.means.iter().zip(&found.sds).map(|(mean, sd)| {
            let off = |e: &Enclosed| e.error() / sd.estimate;
            ((mean.estimate, off(mean)), (sd.estimate, off(sd)))
        });
        let mut marginals = weighted(q, reported, moments, points);
        for (row, ends) in marginals.iter_mut().zip(&found.quantiles) {
            let each = row.quantiles.iter_mut().zip(ends).map(|(quantile, &(low, high))| {
                *quantile = quantile.clamp(low, high);
                (high - *quantile).max(*quantile - low)
            });
            row.quantile_error = largest(each) / row.sd;
        }
        Self {
            source: Source::Corrected,
            level,
            marginals,
            draws: points.resampled(kept(q.dim()).unwrap_or(0), seed),
            made: format!(
                "the fitted Gaussian corrected by the importance weights of {pairs} pairs of draws (D8)"
            ),
            constants: vec![("pairs of draws", pairs)],
        }
    }

    /// By importance sampling with Pareto-smoothed weights; 2.6 standard errors.
    pub(super) fn importance(
        q: &Gaussian,
        reported: &[Vec<(usize, f64)>],
        found: &Importance,
        points: &WeightedDraws,
        seed: u64,
    ) -> Self {
        let moments = found.mean.iter().zip(&found.sd).map(|(mean, sd)| {
            let off = |e: &Estimate| STATED * e.standard_error / sd.value;
            ((mean.value, off(mean)), (sd.value, off(sd)))
        });
        let (draws, k_hat) = (found.log_weights.len() as f64, found.k_hat.unwrap_or(f64::NAN));
        Self {
            source: Source::Importance,
            level: Level::Estimated,
            marginals: weighted(q, reported, moments, points),
            draws: points.resampled(kept(q.dim()).unwrap_or(0), seed),
            made: format!("importance sampling with {draws} draws of the fitted Gaussian, k-hat {k_hat:.2}"),
            constants: vec![
                ("draws", draws),
                ("k-hat", k_hat),
                ("effective sample size", found.effective_sample_size),
            ],
        }
    }

    /// Independent draws of the posterior itself, `dim` latents each; 2.6 standard errors.
    pub(super) fn exact(
        dim: usize,
        reported: &[Vec<(usize, f64)>],
        draws: Vec<f64>,
        acceptance: f64,
    ) -> Self {
        let n = (draws.len() / dim.max(1)) as f64;
        let marginals = each_series(dim, reported, &draws).map(|series| {
            let mean = series.iter().sum::<f64>() / n;
            let power = |k: i32| series.iter().map(|x| (x - mean).powi(k)).sum::<f64>() / n;
            let (variance, fourth) = (power(2), power(4));
            let sd = (variance * n / (n - 1.0)).sqrt();
            // the spread of s² is (μ₄ − σ⁴)/n, and ds = ds²/(2s)
            let spread = ((fourth - variance * variance).max(0.0) / n).sqrt() / (2.0 * variance);
            let (mean_error, sd_error) = (STATED / n.sqrt(), STATED * spread);
            let (quantiles, off) = quantiles(series, n);
            Marginal { mean, sd, quantiles, mean_error, sd_error, quantile_error: off / sd }
        });
        Self {
            source: Source::Exact,
            level: Level::Estimated,
            marginals: marginals.collect(),
            made: format!("{n} independent exact draws (D6)"),
            draws,
            constants: vec![("draws", n), ("acceptance", acceptance)],
        }
    }

    /// Of chains, and their largest R-hat; 2.6 standard errors.
    pub(super) fn nuts(reported: &[Vec<(usize, f64)>], chains: Chains, seed: u64) -> (Self, f64) {
        let Chains { dim, chains: count, values, divergences } = chains;
        let (mut r_hat, mut ess) = (1.0_f64, f64::INFINITY);
        let marginals: Vec<Marginal> = each_series(dim, reported, &values)
            .map(|series| {
                let found = diagnosed(&series, count);
                (r_hat, ess) = (largest([r_hat, found.r_hat].into_iter()), ess.min(found.ess));
                let (quantiles, off) = quantiles(series, found.ess);
                Marginal {
                    mean: found.mean,
                    sd: found.sd,
                    quantiles,
                    mean_error: STATED * found.mean_se / found.sd,
                    sd_error: STATED * found.sd_se / found.sd,
                    quantile_error: off / found.sd,
                }
            })
            .collect();
        let n = values.len() / dim.max(1);
        let table = Self {
            source: Source::Nuts,
            level: Level::Estimated,
            marginals,
            made: nuts_words(n, count, r_hat, divergences),
            draws: shuffled(dim, values, kept(dim).unwrap_or(0).min(n), seed),
            constants: vec![
                ("draws", n as f64),
                ("R-hat", r_hat),
                ("effective sample size", ess),
                ("divergences", divergences as f64),
            ],
        };
        (table, r_hat)
    }

    /// True if every number is one.
    pub(super) fn is_finite(&self) -> bool {
        let finite = |m: &Marginal| {
            let all = [m.mean, m.sd, m.mean_error, m.sd_error];
            let moments = !m.has_moments() || all.iter().all(|x| x.is_finite());
            moments && m.quantiles.iter().all(|x| x.is_finite())
        };
        self.marginals.iter().all(finite) && self.draws.iter().all(|x| x.is_finite())
    }
}

/// "4000 NUTS draws of 4 chains, R-hat at most 1.01, 3 divergences"; R-hat is rounded up, so that 1.00 is never said of
/// 1.01.
pub(super) fn nuts_words(draws: usize, chains: usize, r_hat: f64, divergences: u64) -> String {
    let shown = (100.0 * r_hat).ceil() / 100.0;
    let broken =
        if divergences > 0 { format!(", {}", counted(divergences, "divergence")) } else { String::new() };
    format!("{draws} NUTS draws of {chains} chains, R-hat at most {shown:.2}{broken}")
}

/// The draws of all chains in random order, as many as are kept.
pub(super) fn shuffled(dim: usize, values: Vec<f64>, kept: usize, seed: u64) -> Vec<f64> {
    let count = values.len() / dim.max(1);
    WeightedDraws::new(dim, values, &vec![0.0; count])
        .map(|draws| draws.resampled(kept, seed))
        .unwrap_or_default()
}

/// The largest number; what is none is larger than all.
pub(super) fn largest(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(0.0, |a, b| if b.is_nan() { f64::INFINITY } else { a.max(b) })
}

/// Rows of means and sds with their errors, and quantiles of the weighted points.
fn weighted(
    q: &Gaussian,
    reported: &[Vec<(usize, f64)>],
    moments: impl Iterator<Item = ((f64, f64), (f64, f64))>,
    points: &WeightedDraws,
) -> Vec<Marginal> {
    let mut combinations = Combinations::new(q);
    let rows = reported.iter().zip(moments).map(|(terms, ((mean, mean_error), (sd, sd_error)))| {
        let found = points.quantiles(terms, combinations.moments(terms), &QUANTILES);
        let (quantiles, quantile_error) = ([found[0], found[1], found[2]], f64::INFINITY);
        Marginal { mean, sd, quantiles, mean_error, sd_error, quantile_error }
    });
    rows.collect()
}

/// What is printed, draw by draw.
fn each_series<'a>(
    dim: usize,
    reported: &'a [Vec<(usize, f64)>],
    draws: &'a [f64],
) -> impl Iterator<Item = Vec<f64>> + 'a {
    reported.iter().map(move |terms| {
        draws.chunks_exact(dim).map(|z| terms.iter().map(|&(i, a)| a * z[i]).sum()).collect()
    })
}

/// The quantiles of draws, interpolated, and how far they may be off: between the quantiles whose probabilities are 2.6
/// standard errors √(p(1 − p)/n) of `n` independent draws away.
pub(super) fn quantiles(mut series: Vec<f64>, n: f64) -> ([f64; 3], f64) {
    series.sort_by(f64::total_cmp);
    let found = QUANTILES.map(|(p, _)| quantile(&series, p));
    let off = QUANTILES.iter().zip(found).flat_map(|(&(p, _), at)| {
        let width = STATED * (p * (1.0 - p) / n).sqrt();
        [p - width, p + width]
            .map(|p| if (0.0..=1.0).contains(&p) { (quantile(&series, p) - at).abs() } else { f64::NAN })
    });
    (found, largest(off))
}

impl Record {
    /// The record that prints a table instead of the Gaussian's own numbers.
    #[must_use]
    pub(crate) fn printing_table(self, table: &PosteriorTable) -> Self {
        let rows = table.marginals.iter().map(|m| {
            let [q05, q50, q95] = m.quantiles;
            [m.mean, m.sd, q05, q50, q95, m.mean_error, m.sd_error, m.quantile_error]
        });
        let recorded = record::Table::new(
            table.source,
            table.level,
            [table.mean_error(), table.sd_error(), table.quantile_error()],
            table.made.clone(),
            &table.constants,
        );
        self.printing(recorded, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use certus::factor::{Factor, Lower};

    fn standard() -> (Gaussian, WeightedDraws) {
        let factor = Factor::Lower(Lower::new(1, vec![1.0]).expect("positive"));
        let q = Gaussian::new(vec![0.0], factor).expect("proper");
        let draws = WeightedDraws::new(1, q.sample(100, 1), &[0.0; 100]).expect("finite");
        (q, draws)
    }

    /// The truth may be at either end of its interval; 2.6 standard errors of an estimate; both in printed sds.
    #[test]
    fn errors_by_hand() {
        let (q, draws) = standard();
        let certificate = WeightCertificate {
            kl: (0.0, 0.1),
            reverse_kl: 0.1,
            total_variation: 0.1,
            log_evidence: (0.0, 0.1),
            means: vec![Enclosed { estimate: 1.0, low: 0.6, high: 1.2 }],
            sds: vec![Enclosed { estimate: 2.0, low: 1.9, high: 2.5 }],
            quantiles: vec![[(0.0, 2.0), (-0.5, 0.25), (f64::NEG_INFINITY, f64::INFINITY)]],
            mean_error: 9.0,
            sd_error: 9.0,
            width: 9.0,
            tau: 1.0,
            tail: 0.0,
            log_weights: Vec::new(),
        };
        let (reported, level) = ([vec![(0, 1.0)]], Level::Probable { delta: 0.01 });
        let table = PosteriorTable::corrected(&q, &reported, &certificate, &draws, level, 10.0, 0);
        let row = table.marginals[0];
        assert!((row.mean_error - 0.2).abs() < 1e-15 && (row.sd_error - 0.25).abs() < 1e-15, "{row:?}");
        // the median 0 lies in its interval, the 5 % quantile −1.64 is moved into its own, of the 95 % nothing is known
        assert_eq!((row.mean, row.sd, &row.quantiles[..2]), (1.0, 2.0, &[0.0, 0.0][..]));
        assert_eq!(row.quantile_error, f64::INFINITY);
        let mut narrow = certificate.clone();
        narrow.quantiles[0][2] = (1.0, 1.5);
        let row = PosteriorTable::corrected(&q, &reported, &narrow, &draws, level, 10.0, 0).marginals[0];
        assert_eq!((row.quantiles[2], row.quantile_error), (1.5, 1.0));
        assert_eq!((table.mean_error(), table.sd_error(), table.error()), (row.mean_error, 0.25, 0.25));
        assert_eq!(table.draws.len(), 4000);
        let one = |value, standard_error| vec![Estimate { value, standard_error }];
        let found = Importance {
            log_evidence: Estimate { value: 0.0, standard_error: 0.0 },
            kl: Estimate { value: 0.0, standard_error: 0.0 },
            neg_elbo: Estimate { value: 0.0, standard_error: 0.0 },
            k_hat: Some(0.1),
            tail_index: Some(0.1),
            mean: one(1.0, 0.1),
            sd: one(2.0, 0.2),
            effective_sample_size: 100.0,
            log_weights: vec![0.0; 100],
        };
        let row = PosteriorTable::importance(&q, &reported, &found, &draws, 0).marginals[0];
        assert!((row.mean_error - 0.13).abs() < 1e-15 && (row.sd_error - 0.26).abs() < 1e-15, "{row:?}");
    }

    /// ±1 twice: mean 0, sd √(4/3), fourth moment 1, so that s has no error; the mean has 2.6/√4 of an sd.
    #[test]
    fn exact_draws_by_hand() {
        let table = PosteriorTable::exact(1, &[vec![(0, 2.0)]], vec![0.5, -0.5, 0.5, -0.5], 0.5);
        let row = table.marginals[0];
        assert_eq!((row.mean, row.sd, row.mean_error, row.sd_error), (0.0, (4.0_f64 / 3.0).sqrt(), 1.3, 0.0));
        assert_eq!(row.quantiles[1], 0.0);
        // evenly spread values, worth 400: the median is the least well known, 2.6 √(0.25/400)
        let (found, off) = quantiles((0..=1000).map(|i| f64::from(i) / 1000.0).collect(), 400.0);
        assert!(found.iter().zip([0.05, 0.5, 0.95]).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
        assert!((off - 0.065).abs() < 1e-12, "{off}");
    }

    /// A number that is none is never small.
    #[test]
    fn nothing_is_swallowed() {
        assert_eq!(largest([0.1, f64::NAN, 0.2].into_iter()), f64::INFINITY);
        assert_eq!((kept(10), kept(20_000), kept(20_001)), (Some(4000), Some(400), None));
    }
}
