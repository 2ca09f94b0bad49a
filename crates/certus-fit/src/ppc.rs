//! Data that the posterior predicts for the rows of the fit, beside the data it was fitted to: statistics of simulated
//! data sets, and randomised quantile residuals (Dunn and Smyth 1996).

use certus::certificate::counted;
use certus::random::{Purpose, Random};
use certus_likelihood::Response;
use rand_distr::{Distribution, Open01};
use serde::Serialize;

use crate::at_draws::AtDraws;
use crate::error::Error;
use crate::fit::Fit;
use crate::predict::standard_quantile;
use crate::problem::Problem;
use crate::refusal::RequestError;

/// The stream of the first row ([`Purpose`] lists them all); every row has its own.
const STREAM: u64 = 1 << 48;
/// The ends of the interval that is shown.
const INTERVAL: [f64; 2] = [0.05, 0.95];
/// Residuals beyond this are counted: of good ones 0.27 % are.
const FAR: f64 = 3.0;

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

/// A posterior predictive check.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ppc {
    /// Statistics.
    pub statistics: Vec<Statistic>,
    /// Data sets that were simulated, one for each draw of the posterior.
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
    /// Standard normal where the model is right: Φ⁻¹ of the probability of less than the response, at a random place
    /// within the probability of the response itself.
    #[serde(skip)]
    pub residuals: Vec<f64>,
}

/// Σ (y − centre), Σ (y − centre)², smallest, largest, zeros.
#[derive(Clone, Copy)]
struct Sums([f64; 5]);

impl Sums {
    const NONE: Self = Self([0.0, 0.0, f64::INFINITY, f64::NEG_INFINITY, 0.0]);

    fn add(&mut self, y: f64, centre: f64) {
        let [sum, squares, least, largest, zeros] = &mut self.0;
        let apart = y - centre;
        *sum += apart;
        *squares += apart * apart;
        (*least, *largest) = (least.min(y), largest.max(y));
        *zeros += f64::from(u8::from(y == 0.0));
    }

    /// The statistics that say something of such a response.
    fn statistics(&self, response: Response, centre: f64, rows: f64) -> Vec<(&'static str, f64)> {
        let [sum, squares, least, largest, zeros] = self.0;
        let mean = centre + sum / rows;
        if matches!(response, Response::Logistic | Response::Probit) {
            return vec![("mean", mean)];
        }
        let sd = ((squares - sum * sum / rows) / (rows - 1.0).max(1.0)).max(0.0).sqrt();
        let mut out = vec![("mean", mean), ("sd", sd), ("smallest", least), ("largest", largest)];
        if response != Response::Linear {
            out.push(("share of zeros", zeros / rows));
        }
        out
    }
}

impl AtDraws<'_> {
    /// For every row in order: the response, and a response that is drawn at each draw of the posterior in `which`, and
    /// a uniform number.
    fn each_simulated(
        &self,
        problem: &Problem,
        response: Response,
        which: &(dyn Fn(usize) -> Vec<usize> + Sync),
        seed: u64,
        take: &mut dyn FnMut(f64, Vec<f64>, f64),
    ) -> Result<(), Error> {
        let random = Random::new(seed, Purpose::Sample, 0);
        let mut weighted = false;
        self.each_row(
            problem,
            &|leaf, i, linear| {
                let mut rng = random.generator(STREAM + (leaf.first + i) as u64);
                let datum = leaf.datum(i);
                let drawn = which(linear.len()).into_iter().map(|k| {
                    let parameter = self.parameters[k % self.parameters.len()].unwrap_or(f64::NAN);
                    response.draw(&mut rng, linear[k], parameter, datum.trials)
                });
                let drawn: Vec<f64> = drawn.collect();
                (datum.y, drawn, Open01.sample(&mut rng), leaf.weight_of(i) != 1.0)
            },
            &mut |(y, drawn, uniform, unequal): (f64, Vec<f64>, f64, bool)| {
                weighted |= unequal;
                take(y, drawn, uniform);
            },
        )?;
        if weighted { Err(RequestError::WeightedRows.into()) } else { Ok(()) }
    }
}

impl Fit {
    /// Compares the responses with data sets that the posterior predicts for the same rows, one for each draw.
    pub fn ppc(&self, problem: &Problem) -> Result<Ppc, Error> {
        let response: Response = self.record.model.parse()?;
        let at = self.at_draws()?;
        let centre = problem.prepared.response.mean;
        let (mut own, mut simulated) = (Sums::NONE, Vec::new());
        let mut residuals = Vec::new();
        let all = |count: usize| (0..count).collect();
        // other data have other random numbers
        let seed = problem.prepared.responses;
        at.each_simulated(problem, response, &all, seed, &mut |y, drawn, uniform| {
            own.add(y, centre);
            simulated.resize(drawn.len(), Sums::NONE);
            simulated.iter_mut().zip(&drawn).for_each(|(sums, y)| sums.add(*y, centre));
            residuals.push(residual(y, &drawn, uniform));
        })?;
        let rows = residuals.len() as f64;
        let sets: Vec<_> = simulated.iter().map(|sums| sums.statistics(response, centre, rows)).collect();
        let observed = own.statistics(response, centre, rows);
        let statistics = observed.iter().enumerate().map(|(k, (name, observed))| {
            Statistic::new(name, *observed, sets.iter().map(|of| of[k].1).collect())
        });
        let mean = residuals.iter().sum::<f64>() / rows;
        let squares: f64 = residuals.iter().map(|r| (r - mean).powi(2)).sum();
        Ok(Ppc {
            statistics: statistics.collect(),
            draws: sets.len(),
            rows: residuals.len(),
            residual_mean: mean,
            residual_sd: (squares / (rows - 1.0).max(1.0)).sqrt(),
            far: residuals.iter().filter(|r| r.abs() > FAR).count(),
            note: at.note,
            residuals,
        })
    }

    /// `count` data sets that the posterior predicts for the rows of the fit, each at a draw of its own as far as there
    /// are so many: the responses of the first row in all sets, then those of the second, …
    pub fn simulate(&self, problem: &Problem, count: usize, seed: u64) -> Result<Vec<f64>, Error> {
        let response: Response = self.record.model.parse()?;
        let at = self.at_draws()?;
        let spread = |draws: usize| (0..count).map(|k| k * draws / count.max(1) % draws.max(1)).collect();
        let mut out = Vec::new();
        at.each_simulated(problem, response, &spread, seed, &mut |_, drawn, _| out.extend(drawn))?;
        Ok(out)
    }
}

/// Φ⁻¹((less + u · as much + ½) / (n + 1)).
fn residual(y: f64, drawn: &[f64], uniform: f64) -> f64 {
    let less = drawn.iter().filter(|x| **x < y).count() as f64;
    let equal = drawn.iter().filter(|x| **x == y).count() as f64;
    standard_quantile((less + uniform * equal + 0.5) / (drawn.len() as f64 + 1.0))
}

impl Statistic {
    fn new(name: &'static str, observed: f64, mut simulated: Vec<f64>) -> Self {
        simulated.sort_by(f64::total_cmp);
        let n = simulated.len() as f64;
        let count = |of: &dyn Fn(f64) -> bool| simulated.iter().filter(|x| of(**x)).count() as f64;
        let at = |p: f64| simulated[((p * n).ceil() as usize).clamp(1, simulated.len()) - 1];
        Self {
            name,
            observed,
            mean: simulated.iter().sum::<f64>() / n,
            low: at(INTERVAL[0]),
            high: at(INTERVAL[1]),
            above: (count(&|x| x > observed) + 0.5 * count(&|x| x == observed)) / n,
        }
    }
}

impl Ppc {
    /// How the numbers were made, and what residuals say.
    pub fn words(&self) -> String {
        let sets = counted(self.draws as u64, "simulated data set");
        let expected = 0.0027 * self.rows as f64;
        format!(
            "estimated from {sets}; residuals: mean {:.2}, sd {:.2} (about 0 and 1 where the model is right), {} \
             beyond ±3 (about {expected:.1} expected)",
            self.residual_mean, self.residual_sd, self.far
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four data sets with 1, 2, 2, 5 beside 2: one above, two equal.
    #[test]
    fn statistics_by_hand() {
        let one = Statistic::new("mean", 2.0, vec![2.0, 5.0, 1.0, 2.0]);
        assert_eq!((one.mean, one.low, one.high, one.above), (2.5, 1.0, 5.0, 0.5));
        let mut sums = Sums::NONE;
        [0.0, 3.0, 0.0, 5.0].iter().for_each(|y| sums.add(*y, 1.0));
        let found = sums.statistics(Response::Poisson, 1.0, 4.0);
        let sd = (18.0_f64 / 3.0).sqrt();
        let names: Vec<_> = found.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["mean", "sd", "smallest", "largest", "share of zeros"]);
        assert_eq!(found.iter().map(|(_, x)| *x).collect::<Vec<_>>(), [2.0, sd, 0.0, 5.0, 0.5]);
    }

    /// 2 of 4 are less and one is as much: (2 + u + ½) / 5.
    #[test]
    fn residuals_by_hand() {
        let drawn = [0.0, 1.0, 2.0, 3.0];
        assert_eq!(residual(2.0, &drawn, 0.0), 0.0);
        assert!((residual(2.0, &drawn, 0.5) - standard_quantile(0.6)).abs() < 1e-15);
        assert!(residual(9.0, &drawn, 0.5).is_finite() && residual(-9.0, &drawn, 0.5) < -1.2);
    }
}
