//! A table of the posterior of coefficients and scales from draws of (β, log scales).

use certus::certificate::Level;
use certus::diagnostics::WeightedDraws;
use certus::diagnostics::importance::STATED;
use certus_models::nuts::{Chains, diagnosed};

use super::table::{Marginal, PosteriorTable, QUANTILES, largest, nuts_words, quantiles, shuffled};
use crate::coefficient_map::Quantity;
use crate::record::Source;
use crate::variance::names::{Shape, UnknownScales};

/// The name of the mean error of the log likelihood at the draws, in nats.
pub(super) const LIKELIHOOD_ERROR: &str = "likelihood error";

/// The rows of the table, as functions of a draw.
pub(super) struct ScaleRows<'a> {
    pub(super) quantities: &'a [Quantity],
    pub(super) unknown_scales: &'a UnknownScales,
}

/// One row at a draw.
type RowAt<'a> = Box<dyn Fn(&[f64]) -> f64 + 'a>;

impl ScaleRows<'_> {
    /// Every row, and whether it has a mean; the mean of a dispersion may be infinite.
    fn each(&self) -> impl Iterator<Item = (RowAt<'_>, bool)> {
        let own = self.quantities.iter().map(|quantity| {
            let at = |z: &[f64]| quantity.terms.iter().map(|(i, a)| a * z[*i]).sum::<f64>();
            (Box::new(at) as RowAt<'_>, true)
        });
        let count = self.unknown_scales.scales.len();
        let more = self.unknown_scales.rows.iter().map(move |row| {
            let at = move |z: &[f64]| row.at_logs(&z[z.len() - count..]);
            (Box::new(at) as RowAt<'_>, row.shape != Shape::Dispersion)
        });
        own.chain(more)
    }
}

fn shown(all: &[f64]) -> [f64; 3] {
    [all[0], all[1], all[2]]
}

/// By importance sampling; 2.6 standard errors.
pub(super) fn importance_table(
    rows: &ScaleRows<'_>,
    points: &WeightedDraws,
    constants: Vec<(&'static str, f64)>,
    kept: Option<usize>,
    seed: u64,
) -> PosteriorTable {
    // weights that are wrong by a part e move a mean by e sds at most, an sd by e of it
    let wrong = constants.iter().find(|(n, _)| *n == LIKELIHOOD_ERROR).map_or(0.0, |(_, x)| *x);
    let marginals = rows.each().map(|(at, has_moments)| {
        let series = points.series(at);
        let quantiles = shown(&points.quantiles_of(&series, &QUANTILES.map(|(p, _)| p)));
        if !has_moments {
            return Marginal::without_moments(quantiles);
        }
        let (mean, sd) = points.moments(&series);
        let off = |standard_error: f64| STATED * standard_error / sd.value + wrong;
        let (mean_error, sd_error) = (off(mean.standard_error), off(sd.standard_error));
        let quantile_error = f64::INFINITY;
        Marginal { mean: mean.value, sd: sd.value, quantiles, mean_error, sd_error, quantile_error }
    });
    let of = |name: &str| constants.iter().find(|(n, _)| *n == name).map_or(f64::NAN, |(_, x)| *x);
    PosteriorTable {
        source: Source::Importance,
        level: Level::Estimated,
        marginals: marginals.collect(),
        made: format!(
            "importance sampling of coefficients and scales with {} draws worth {:.0}, k-hat {:.2}",
            of("draws"),
            of("effective sample size"),
            of("k-hat")
        ),
        draws: points.resampled(kept.unwrap_or(0), seed),
        constants,
    }
}

/// Of chains, and their largest R-hat; 2.6 standard errors.
pub(super) fn nuts_table(
    rows: &ScaleRows<'_>,
    chains: Chains,
    kept: Option<usize>,
    seed: u64,
) -> (PosteriorTable, f64) {
    let Chains { dim, chains: count, values, divergences } = chains;
    let (mut r_hat, mut ess) = (1.0_f64, f64::INFINITY);
    let marginals: Vec<Marginal> = rows
        .each()
        .map(|(at, has_moments)| {
            let series: Vec<f64> = values.chunks_exact(dim).map(at).collect();
            let found = diagnosed(&series, count);
            r_hat = largest([r_hat, found.r_hat].into_iter());
            if !has_moments {
                return Marginal::without_moments(quantiles(series, found.ess).0);
            }
            ess = ess.min(found.ess);
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
    let table = PosteriorTable {
        source: Source::Nuts,
        level: Level::Estimated,
        marginals,
        made: nuts_words(n, count, r_hat, divergences),
        draws: shuffled(dim, values, kept.unwrap_or(0).min(n), seed),
        constants: vec![
            ("draws", n as f64),
            ("R-hat", r_hat),
            ("effective sample size", ess),
            ("divergences", divergences as f64),
        ],
    };
    (table, r_hat)
}
