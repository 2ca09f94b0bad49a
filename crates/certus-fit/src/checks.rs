//! What is shown of a fit beside its data, as plain values: statistics of simulated data sets, rows with what was
//! predicted of them, and expected responses along each predictor.

use serde::Serialize;

/// A statistic of the data, and of data sets that the posterior predicts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Statistic {
    /// Such as `sd`.
    pub name: &'static str,
    /// Of the data.
    pub observed: f64,
    /// Its mean over simulated data sets.
    pub mean: f64,
    /// 5 % of the simulated data sets have less.
    pub low: f64,
    /// 5 % have more.
    pub high: f64,
    /// The share of simulated data sets that have more, those that have as much counted half.
    pub above: f64,
}

/// How often a count was observed, and how often it is in data sets that the posterior predicts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frequency {
    /// The least and the greatest count of the bin.
    pub counts: [f64; 2],
    /// Rows of the data.
    pub observed: f64,
    /// The mean over simulated data sets.
    pub mean: f64,
    /// 5 % of the simulated data sets have fewer such rows.
    pub low: f64,
    /// 5 % have more.
    pub high: f64,
}

/// A row of the fit with what the posterior says of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckedRow {
    /// The response.
    pub y: f64,
    /// The trials of a binomial response, else 1.
    pub trials: f64,
    /// The expected response, its mean over the posterior.
    pub expected: f64,
    /// Standard normal where the model is right: Φ⁻¹ of the probability of less than the response, at a random place
    /// within the probability of the response itself.
    pub residual: f64,
}

/// A posterior predictive check.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ppc {
    /// Statistics.
    pub statistics: Vec<Statistic>,
    /// Data sets that were simulated, one for each draw of the posterior, if there is one.
    pub draws: usize,
    /// Rows.
    pub rows: usize,
    /// The mean of the residuals; about 0 where the model is right.
    pub residual_mean: f64,
    /// Their sd; about 1 where the model is right, or a little less.
    pub residual_sd: f64,
    /// How many are beyond ±3.
    pub far: usize,
    /// What was assumed beyond the draws.
    pub note: Option<&'static str>,
    /// True if the data sets were simulated at estimates of the scales, with new effects of all groups.
    pub at_estimates: bool,
    /// The residuals of the rows, see [`CheckedRow::residual`].
    #[serde(skip)]
    pub residuals: Vec<f64>,
    /// The same rows with what was predicted.
    #[serde(skip)]
    pub checked: Vec<CheckedRow>,
    /// Of counts, how often each occurs.
    #[serde(skip)]
    pub frequencies: Vec<Frequency>,
}

/// The places of a curve.
#[derive(Clone, Debug, PartialEq)]
pub enum Places {
    /// Of a column of numbers.
    Numbers(Vec<f64>),
    /// Of a column with levels.
    Levels(Vec<String>),
}

/// The expected response where a column has one value in every row, averaged over the rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The column.
    pub column: String,
    /// Its values.
    pub places: Places,
    /// Estimate and the ends of its 90 % interval at each of them.
    pub points: Vec<[f64; 3]>,
}

/// What each predictor does.
#[derive(Clone, Debug, PartialEq)]
pub struct Curves {
    /// One for each of the first predictors.
    pub list: Vec<Curve>,
    /// Predictors that have none.
    pub left: usize,
    /// Rows that were averaged over.
    pub averaged: usize,
    /// Draws that the numbers are made of.
    pub draws: usize,
    /// True if responses are averages over the population of groups.
    pub population: bool,
}

/// What a report shows beside the fit; where something is not known, the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Checks {
    /// What each predictor does.
    pub curves: Result<Curves, String>,
    /// The data beside simulated data sets.
    pub rows: Result<Ppc, String>,
    /// About one row of every so many was looked at.
    pub every: usize,
}

impl Checks {
    /// Nothing is known, for one reason.
    pub fn absent(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { curves: Err(reason.clone()), rows: Err(reason), every: 1 }
    }
}

impl Default for Checks {
    fn default() -> Self {
        Self::absent("the report was made without the rows of the fit")
    }
}
