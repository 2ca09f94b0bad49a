//! The effects of groups as a table, `groups.parquet`: a row per group and coefficient, the same columns for every kind
//! of fit.

use certus::Gaussian;
use certus::certificate::Gap;
use certus::combination::Combinations;
use certus::gaussian::NORMAL_95;
use certus_data::encoding::Encoding;

use crate::coefficient_map::CoefficientMap;
use crate::error::Error;
use crate::grid::{Cells, Grid};
use crate::posterior_draws::PosteriorDraws;
use crate::quantile::quantile;
use crate::record::{GroupEffect, Source};
use crate::variance::RandomEffect;
use crate::variance::mixture::Effects;

/// Columns of text as names and the number of the name in every row.
pub struct Labels {
    /// The names.
    pub names: Vec<String>,
    /// Which of them.
    pub cells: Vec<u32>,
}

/// What the numbers of a fit are computed from.
pub enum EffectSource<'a> {
    /// The Gaussian.
    Gaussian(&'a Gaussian),
    /// The draws that the fit keeps.
    Draws(&'a PosteriorDraws),
}

/// Mean, sd and the quantiles 0.05, 0.5 and 0.95 of combinations of latents.
enum Summaries<'a> {
    Gaussian(Combinations<'a>),
    Draws(&'a PosteriorDraws, Vec<f64>),
}

impl<'a> Summaries<'a> {
    fn new(source: &EffectSource<'a>) -> Self {
        match source {
            EffectSource::Gaussian(w) => Self::Gaussian(Combinations::new(w)),
            EffectSource::Draws(draws) => Self::Draws(draws, Vec::with_capacity(draws.count())),
        }
    }

    fn of(&mut self, terms: &[(usize, f64)]) -> ([f64; 2], [f64; 3]) {
        match self {
            Self::Gaussian(combinations) => {
                let (mean, sd) = combinations.moments(terms);
                ([mean, sd], [mean - NORMAL_95 * sd, mean, mean + NORMAL_95 * sd])
            }
            Self::Draws(draws, values) => {
                values.clear();
                values.extend(draws.each().map(|z| terms.iter().map(|(i, a)| a * z[*i]).sum::<f64>()));
                let n = values.len() as f64;
                let mean = values.iter().sum::<f64>() / n;
                let sd = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
                values.sort_by(f64::total_cmp);
                ([mean, sd], [0.05, 0.5, 0.95].map(|p| quantile(values, p)))
            }
        }
    }
}

/// The table, on the scale of the data.
pub struct GroupTable {
    /// The group term.
    pub term: Labels,
    /// Its level.
    pub group: Labels,
    /// The coefficient of the design that varies.
    pub coefficient: Labels,
    /// Rows of the data with that level.
    pub rows: Vec<i64>,
    /// Mean and sd of the group's own coefficient; empty where these are not known.
    pub own: [Vec<f64>; 2],
    /// What it differs by from the outer one: mean, sd, and the quantiles 0.05, 0.5 and 0.95.
    pub deviation: [Vec<f64>; 5],
}

impl GroupTable {
    /// Of a fit whose group sds are given; `None` where the coefficients are listed one by one. `rows` are those of
    /// every level of every term.
    pub fn new(meaning: &CoefficientMap, rows: &[Vec<i64>], source: &EffectSource<'_>) -> Option<Self> {
        if !meaning.has_table() {
            return None;
        }
        let encoding = &meaning.encoding;
        let (names, first) = level_names(encoding);
        let mut table = Self::empty(encoding, names, meaning.dim());
        let mut summaries = Summaries::new(source);
        meaning.for_each_effect(|place, own, deviation| {
            let term = place.group.unwrap_or_default();
            table.term.cells.push(term as u32);
            table.group.cells.push((first[term] + place.level) as u32);
            table.coefficient.cells.push(place.feature as u32);
            table.rows.push(rows[term][place.level]);
            let (moments, _) = summaries.of(own);
            table.own.iter_mut().zip(moments).for_each(|(to, x)| to.push(x));
            let (moments, quantiles) = summaries.of(deviation);
            table.push_deviation(moments, quantiles);
        });
        Some(table)
    }

    /// Of a fit whose groups were integrated out; `own` has their coefficients where these are known.
    pub fn integrated(
        encoding: &Encoding,
        varying: &[RandomEffect],
        effects: &[GroupEffect],
        own: &[[f64; 2]],
    ) -> Self {
        let (names, first) = level_names(encoding);
        let mut table = Self::empty(encoding, names, effects.len());
        for effect in varying {
            let all = effects.get(effect.first..effect.first + effect.levels).unwrap_or_default();
            for (level, e) in all.iter().enumerate() {
                table.term.cells.push(effect.term as u32);
                table.group.cells.push((first[effect.term] + level) as u32);
                table.coefficient.cells.push(effect.feature as u32);
                table.rows.push(e.rows as i64);
                table.push_deviation([e.mean, e.sd], [e.q05, e.q50, e.q95]);
            }
        }
        table.own = [0, 1].map(|k| own.iter().map(|moments| moments[k]).collect());
        table
    }

    fn empty(encoding: &Encoding, levels: Vec<String>, rows: usize) -> Self {
        let labels = |names: Vec<String>| Labels { names, cells: Vec::with_capacity(rows) };
        Self {
            term: labels(encoding.groups.iter().map(|g| g.name.clone()).collect()),
            group: labels(levels),
            coefficient: labels(encoding.varying()),
            rows: Vec::with_capacity(rows),
            own: std::array::from_fn(|_| Vec::new()),
            deviation: std::array::from_fn(|_| Vec::with_capacity(rows)),
        }
    }

    fn push_deviation(&mut self, [mean, sd]: [f64; 2], [low, median, high]: [f64; 3]) {
        self.deviation.iter_mut().zip([mean, sd, low, median, high]).for_each(|(to, x)| to.push(x));
    }

    /// The file; what is proved of the numbers is in its metadata.
    pub fn to_parquet(self, stated: &str) -> Result<Vec<u8>, Error> {
        const DEVIATION: [&str; 5] =
            ["deviation", "deviation_sd", "deviation_q05", "deviation_q50", "deviation_q95"];
        let rows = self.rows.len();
        let label = |labels: Labels| Cells::Label(labels.names, labels.cells);
        let texts = [("term", self.term), ("group", self.group), ("coefficient", self.coefficient)];
        let own = |values: Vec<f64>| -> Cells<'_> {
            Cells::Number((0..rows).map(|k| values.get(k).copied()).collect())
        };
        let [mean, sd] = self.own.map(own);
        let mut columns: Vec<(String, Cells<'_>)> =
            texts.map(|(name, labels)| (name.to_string(), label(labels))).into();
        columns.extend(
            [("rows", Cells::Whole(self.rows)), ("mean", mean), ("sd", sd)].map(|(n, c)| (n.into(), c)),
        );
        let deviation = DEVIATION.iter().zip(&self.deviation);
        columns.extend(deviation.map(|(name, x)| (name.to_string(), Cells::Every(x, 0, 1))));
        Grid { columns: &columns, comment: stated }.to_parquet()
    }

    /// The certificate of every mean and sd of the table, in words: what holds in the frame of q holds for every
    /// combination of latents.
    pub fn stated(gap: &Gap) -> String {
        let facts = gap.facts();
        match facts.errors() {
            Some(errors) => format!("{}: {errors}", facts.level_words()),
            None => Self::NOTHING.into(),
        }
    }

    /// What is said of means and sds of draws.
    pub fn stated_draws(source: Source, count: usize) -> String {
        format!("estimated: means, sds and quantiles of {count} draws ({})", source.words())
    }

    /// What is said of means and sds without a certificate.
    pub const NOTHING: &str = "nothing is proved about these means and sds";
}

/// Mean and sd of every group's own coefficient, on the user's scale, in the order of the effects v:
/// β + v, of variance Var β + Var v + 2 Cov(β, v), or v where that varies around 0; nothing if the covariances were not
/// kept.
pub fn own_coefficients(
    meaning: &CoefficientMap,
    varying: &[RandomEffect],
    effects: &Effects,
    source: &EffectSource<'_>,
) -> Vec<[f64; 2]> {
    let (coefficients, mut summaries) = (meaning.quantities(), Summaries::new(source));
    let (d, mut out) = (coefficients.len(), Vec::new());
    if effects.covariance.len() != effects.mean.len() * d {
        return out;
    }
    for effect in varying {
        let terms = match effect.only {
            Some(_) => &[][..],
            None => &coefficients[effect.feature].terms,
        };
        let ([mean, sd], _) = summaries.of(terms);
        for at in effect.first..effect.first + effect.levels {
            let with = &effects.covariance[at * d..][..d];
            let covariance: f64 = terms.iter().map(|(j, a)| a * with[*j]).sum();
            let unit = effect.unit;
            let variance = sd * sd + unit * unit * effects.variance[at] + 2.0 * unit * covariance;
            out.push([mean + unit * effects.mean[at], variance.max(0.0).sqrt()]);
        }
    }
    out
}

/// The names of all levels, one term after the other, and where each begins.
fn level_names(encoding: &Encoding) -> (Vec<String>, Vec<usize>) {
    let (mut names, mut first) = (Vec::new(), Vec::new());
    for group in &encoding.groups {
        first.push(names.len());
        names.extend((0..group.levels.len()).map(|level| group.level_name(level)));
    }
    (names, first)
}
