//! A linear mixed model with any number of group terms: its rows as sums of cross-products, the names and the order of
//! its effects (docs/mixed.md).

use certus_data::Prepared;
use certus_mixed::linear::{
    Conditional, Criterion, Error as MixedError, LeastSquares, Row, Statistics, Sums, criterion_at,
};
use certus_models::Error;
use certus_models::error::InvalidModel;

use crate::variance::effect_rows::{EffectRow, each_row};
use crate::variance::engine::JointLaw;
use crate::variance::names::UnknownScales;
use crate::variance::several::{CURES, EffectTerms, hardly_apart};

/// The rows of a linear mixed model, summed up.
pub(crate) struct LinearMixed {
    pub(super) statistics: Statistics,
    pub(crate) criterion: Criterion,
    pub(crate) terms: EffectTerms,
    /// What −2 log L of the columns of the data is above that of the design's: they are divided by their units, which
    /// REML counts.
    pub(super) log_units: f64,
    /// n, the sum of the weights.
    pub(crate) weight: f64,
    /// Multiplications that the proof of a global maximum may take, and whether it is asked for.
    pub(super) global: (f64, bool),
}

impl LinearMixed {
    /// Sums up the rows, in two passes: least squares, then cross-products around it.
    pub(crate) fn new(
        prepared: &Prepared,
        unknown_scales: &UnknownScales,
        criterion: Criterion,
    ) -> Result<Self, Error> {
        let encoding = &prepared.encoding;
        let terms = EffectTerms::new(prepared, unknown_scales);
        let design = terms.design();
        let (_, scale) = encoding.center_and_scale();
        let named = |error: MixedError| refused(&error, &terms.coefficients, &terms.names);
        let mut first = LeastSquares::new(design.fixed);
        let mut weight = 0.0;
        each_row(prepared, &terms, &mut |row| {
            weight += row.weight;
            first.push(&linear(row));
        })?;
        let base = first.solve().map_err(named)?;
        let mut sums = Sums::new(&design, base).map_err(named)?;
        let mut pushed = Ok(());
        each_row(prepared, &terms, &mut |row| {
            if pushed.is_ok() {
                pushed = sums.push(&linear(row));
            }
        })?;
        pushed.map_err(named)?;
        let statistics = sums.finish().map_err(named)?;
        let log_units = match criterion {
            Criterion::Reml => 2.0 * scale.iter().map(|s| s.ln()).sum::<f64>(),
            Criterion::Ml => 0.0,
        };
        Ok(Self { statistics, criterion, terms, log_units, weight, global: (0.0, false) })
    }

    /// Coefficients.
    pub(crate) fn dim(&self) -> usize {
        self.statistics.fixed()
    }

    /// Levels of all groups.
    pub(crate) fn groups(&self) -> usize {
        self.terms.levels()
    }

    /// log L of the user's columns, from −2 log L of the design's.
    pub(crate) fn log_likelihood(&self, value: f64) -> f64 {
        -0.5 * (value + self.log_units)
    }

    /// T of every term and σ at some scales of the model, σ the last of them.
    fn factors(&self, scales: &[f64]) -> (Vec<Vec<f64>>, f64) {
        let sigma = scales.last().copied().unwrap_or(f64::NAN);
        let relative = |term| self.terms.factor(term, scales).iter().map(|t| t / sigma).collect();
        (self.terms.list.iter().map(relative).collect(), sigma)
    }

    /// −2 log L at some scales of the model.
    pub(super) fn value_at(&self, scales: &[f64]) -> Result<f64, Error> {
        let (factors, sigma) = self.factors(scales);
        self.named(criterion_at(&self.statistics, self.criterion, &factors, sigma))
    }

    /// The model at some scales.
    pub(crate) fn conditional(&self, scales: &[f64]) -> Result<Conditional<'_>, Error> {
        let (factors, sigma) = self.factors(scales);
        self.named(Conditional::new(&self.statistics, &factors, sigma))
    }

    /// Of the effects given coefficients and scales, in the order of the model: means, variances, and deviations
    /// from the means at standard normal numbers.
    pub(super) fn effects_given(
        &self,
        beta: &[f64],
        scales: &[f64],
        normals: &[f64],
    ) -> Result<[Vec<f64>; 3], Error> {
        let at = self.conditional(scales)?;
        let (means, variances) = at.effects(&[beta]).swap_remove(0);
        let apart = self.named(at.deviation(normals))?;
        Ok([means, variances, apart].map(|x| self.terms.ordered(&x)))
    }

    /// What the engine says, by the names of the model.
    pub(crate) fn named<T>(&self, result: Result<T, MixedError>) -> Result<T, Error> {
        result.map_err(|error| refused(&error, &self.terms.coefficients, &self.terms.names))
    }
}

impl JointLaw for LinearMixed {
    fn effects_count(&self) -> usize {
        self.terms.levels_of_effects().count()
    }

    fn drawn_effects(&self, beta: &[f64], scales: &[f64], normals: &[f64]) -> Result<Vec<f64>, Error> {
        let [means, _, apart] = self.effects_given(beta, scales, normals)?;
        Ok(means.iter().zip(&apart).map(|(m, x)| m + x).collect())
    }

    fn drawn_effects_of_all(
        &self,
        betas: &[&[f64]],
        scales: &[f64],
        normals: &[f64],
    ) -> Result<Vec<Vec<f64>>, Error> {
        let at = self.conditional(scales)?;
        let each = at.effects(betas).into_iter().zip(normals.chunks_exact(self.effects_count().max(1)));
        let one = |((means, _), z): ((Vec<f64>, Vec<f64>), &[f64])| {
            let apart = self.named(at.deviation(z))?;
            let sum: Vec<f64> = means.iter().zip(&apart).map(|(m, x)| m + x).collect();
            Ok(self.terms.ordered(&sum))
        };
        each.map(one).collect()
    }

    /// Levels with their matrices, and dense factors of the connected components of the factors but one.
    fn cost(&self) -> f64 {
        let design = self.terms.design();
        let all: usize = design.terms.iter().map(|t| t.effects * design.levels[t.factor]).sum();
        let width = (LinearMixed::dim(self) + 1) as f64;
        10.0 * all as f64 * (1.0 + 0.1 * width * width) + self.statistics.cubes() / 20.0
    }
}

/// A row as the engine takes it.
fn linear<'a>(row: &EffectRow<'a>) -> Row<'a> {
    let response = row.datum.y - row.offset;
    Row { levels: row.levels, effects: row.effects, fixed: row.fixed, response, weight: row.weight }
}

/// An error of the engine by the names of the model.
fn refused(error: &MixedError, coefficients: &[String], terms: &[String]) -> Error {
    let name = |t: usize| terms.get(t).cloned().unwrap_or_default();
    let (what, remedy) = match error {
        MixedError::Collinear { column } => (
            format!(
                "the coefficient of {} is not identified: its column is a combination of those before it",
                coefficients.get(*column).cloned().unwrap_or_default()
            ),
            "leave it out",
        ),
        MixedError::Confounded { term, .. } => (
            format!("the fixed effects explain {} completely, so its sd is not identified", name(*term)),
            "leave the term out",
        ),
        MixedError::IllConditioned { term, .. } => hardly_apart(&name(*term)),
        MixedError::PerfectFit => (
            "the fixed effects fit the response without error, so there is no noise to estimate".into(),
            "leave out features, or check the response",
        ),
        MixedError::AsManyAsRows { term, columns, rows } => (
            format!(
                "{} has {columns} effects for {rows} rows and cannot be told from the noise",
                name(*term)
            ),
            "leave the term out",
        ),
        MixedError::TooFewRows { rows, fixed } => (
            format!("{rows} rows (by weight or in number) are too few for {fixed} coefficients"),
            "leave out features",
        ),
        other => (other.to_string(), CURES),
    };
    InvalidModel::Unsupported { what, remedy }.into()
}
