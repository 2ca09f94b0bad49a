//! What an answer is made of: averages over the rows of tables, and how large they may be as functions of the latents.

use certus::certificate::weights::FunctionSize;
use certus::combination::Combinations;
use certus_data::Table;
use certus_likelihood::Link;

use super::average::{Average, Linear};
use super::question::Comparison;
use crate::error::Error;

/// For the rounding of sums of rows.
const OUTWARD: f64 = 1.0 + 1e-9;

/// What is averaged.
pub(super) enum Made {
    Expected(Table),
    Compared(Comparison, [Table; 2]),
    /// The difference quotient over ± h.
    Slope(f64, [Table; 2]),
}

impl Made {
    /// Tables that are averaged over.
    pub(super) fn tables(&self) -> usize {
        if matches!(self, Self::Expected(_)) { 1 } else { 2 }
    }

    /// The answer at every draw.
    pub(super) fn values(&self, average: &Average<'_>, weights: &[f64]) -> Result<Vec<f64>, Error> {
        let both = |[a, b]: &[Table; 2], of: &dyn Fn(f64, f64) -> f64| -> Result<Vec<f64>, Error> {
            let each = average.of(a, weights)?.into_iter().zip(average.of(b, weights)?);
            Ok(each.map(|(a, b)| of(a, b)).collect())
        };
        match self {
            Self::Expected(table) => average.of(table, weights),
            Self::Compared(how, tables) => both(tables, &|a, b| how.of(a, b)),
            Self::Slope(h, tables) => both(tables, &|a, b| (a - b) / (2.0 * h)),
        }
    }

    /// The answer as a linear function of the latents, if the responses are linear and it is one.
    pub(super) fn linear(&self, average: &Average<'_>, weights: &[f64]) -> Result<Option<Linear>, Error> {
        let less = |[a, b]: &[Table; 2], scale: f64| -> Result<Linear, Error> {
            let ((a, of_a), (b, of_b)) = (average.linear_mean(a, weights)?, average.linear_mean(b, weights)?);
            let sums = of_a.iter().zip(of_b).map(|(a, b)| scale * (a - b));
            Ok((scale * (a - b), collected(sums)))
        };
        Ok(match self {
            _ if average.link() != Link::Identity => None,
            Self::Expected(table) => {
                let (constant, sums) = average.linear_mean(table, weights)?;
                Some((constant, collected(sums.into_iter())))
            }
            Self::Compared(Comparison::Difference, tables) => Some(less(tables, 1.0)?),
            Self::Slope(h, tables) => Some(less(tables, 0.5 / h)?),
            Self::Compared(..) => None,
        })
    }

    /// How large the answer may be.
    pub(super) fn size(
        &self,
        average: &Average<'_>,
        weights: &[f64],
        combinations: &mut Combinations<'_>,
    ) -> Result<FunctionSize, Error> {
        if let Some((constant, terms)) = self.linear(average, weights)? {
            let (mean, sd) = combinations.moments(&terms);
            return Ok(FunctionSize::Normal { mean: constant + mean, sd });
        }
        // L: 0 ≤ dp/dt ≤ L
        let steepest = match average.link() {
            Link::Logit => 0.25,
            Link::Probit => 0.5 * std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2,
            _ => return Ok(FunctionSize::Unknown),
        };
        match self {
            Self::Expected(_) => Ok(FunctionSize::Between(0.0, 1.0)),
            Self::Compared(Comparison::Difference, _) => Ok(FunctionSize::Between(-1.0, 1.0)),
            Self::Compared(..) => Ok(FunctionSize::Unknown),
            Self::Slope(h, [above, below]) => {
                let total: f64 = weights.iter().sum();
                let (above, below) = (average.linear(above)?, average.linear(below)?);
                let (mut centre, mut constant, mut slope) = (0.0, 0.0, 0.0);
                for ((above, below), weight) in above.iter().zip(&below).zip(weights) {
                    // combinations add up what has the same latent
                    let of = |terms: &[(usize, f64)], h: f64| {
                        terms.iter().map(|(j, a)| (*j, 0.5 * a / h)).collect::<Vec<_>>()
                    };
                    let terms = [of(&above.1, *h), of(&below.1, -h)].concat();
                    let (mean, sd) = combinations.moments(&terms);
                    let mean = mean + (above.0 - below.0) * 0.5 / h;
                    centre += weight / total * mean;
                    constant += weight.abs() / total * mean.abs();
                    slope += weight.abs() / total * sd;
                }
                // a quotient is θd with 0 ≤ θ ≤ L: within L|d|/2 of Ld/2, and d within sd |uᵀx| of its mean
                let [centre, constant] = [centre, constant * OUTWARD].map(|x| 0.5 * steepest * x);
                Ok(FunctionSize::Linear { centre, constant, slope: steepest * slope * OUTWARD })
            }
        }
    }
}

/// The latents that have a weight.
fn collected(sums: impl Iterator<Item = f64>) -> Vec<(usize, f64)> {
    sums.enumerate().filter(|(_, weight)| *weight != 0.0).collect()
}
