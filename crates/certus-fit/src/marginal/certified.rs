//! Answers whose error is certified: posterior means of bounded functions (math: D8, part 7).

use certus::certificate::weights::BoundedFunctions;
use certus_data::Table;
use certus_likelihood::Link;
use certus_models::posterior::{FUNCTION_POINTS, bounded_means};

use super::average::Average;
use super::{MarginalEffect, MarginalEffects};
use crate::error::Error;
use crate::fit::Fit;
use crate::problem::Problem;
use crate::record::Source;

/// Evaluations of a linear predictor's term, at most.
const WORK: f64 = 2e10;

/// What answers are certified with.
#[derive(Clone, Copy)]
pub struct Certifying<'a> {
    /// The model of the fit, with its rows.
    pub problem: &'a Problem,
    /// All errors hold, together, with probability 1 − δ.
    pub delta: f64,
    /// Of the draws.
    pub seed: u64,
}

/// An average expected response, or the difference of two.
pub(super) struct Bounded {
    /// The answer it belongs to.
    pub(super) row: usize,
    pub(super) table: Table,
    pub(super) less: Option<Table>,
}

struct Functions<'a> {
    average: &'a Average<'a>,
    parts: &'a [Bounded],
    weights: &'a [f64],
    bounds: Vec<(f64, f64)>,
}

impl BoundedFunctions for Functions<'_> {
    fn bounds(&self) -> &[(f64, f64)] {
        &self.bounds
    }

    fn values(&self, points: &[f64], out: &mut [f64]) -> Result<(), certus::Error> {
        let at = self.average.at(points);
        let of = |table: &Table| {
            at.of(table, self.weights).map_err(|error| certus::Error::BadState(error.to_string()))
        };
        for (k, part) in self.parts.iter().enumerate() {
            let mut values = of(&part.table)?;
            if let Some(less) = &part.less {
                values.iter_mut().zip(of(less)?).for_each(|(a, b)| *a -= b);
            }
            out.iter_mut()
                .skip(k)
                .step_by(self.parts.len())
                .zip(values)
                .for_each(|(out, value)| *out = value);
        }
        Ok(())
    }
}

impl Fit {
    /// True if probabilities that this fit predicts can be certified.
    pub fn certifies_probabilities(&self) -> bool {
        let corrected = self.record.table.as_ref().is_some_and(|table| table.source == Source::Corrected);
        let bounded = self.link().is_ok_and(|link| matches!(link, Link::Logit | Link::Probit));
        corrected && bounded && self.mixture.is_none()
    }

    /// Replaces estimates by those that are certified, and states their errors.
    pub(super) fn certify(
        &self,
        with: Certifying<'_>,
        average: &Average<'_>,
        parts: &[Bounded],
        weights: &[f64],
        found: &mut MarginalEffects,
    ) -> Result<(), Error> {
        let tables = parts.iter().map(|part| 1 + usize::from(part.less.is_some())).sum::<usize>();
        let work = (weights.len() * tables * (average.terms() + 4)) as f64 * FUNCTION_POINTS as f64;
        let Some(model) = with.problem.model().filter(|_| !parts.is_empty() && work <= WORK) else {
            return Ok(());
        };
        let bound = |part: &Bounded| if part.less.is_some() { (-1.0, 1.0) } else { (0.0, 1.0) };
        let bounds = parts.iter().map(bound).collect();
        let functions = Functions { average, parts, weights, bounds };
        let Ok(enclosed) = bounded_means(model, &self.gaussian, &functions, with.delta, with.seed)? else {
            return Ok(());
        };
        for (part, own) in parts.iter().zip(enclosed) {
            let MarginalEffect { estimate, error, .. } = &mut found.rows[part.row];
            *estimate = own.estimate;
            *error = Some(own.error());
        }
        found.delta = Some(with.delta);
        Ok(())
    }
}
