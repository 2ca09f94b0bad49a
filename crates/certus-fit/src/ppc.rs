//! Data that the posterior predicts for the rows of the fit, beside the data it was fitted to: statistics of simulated
//! data sets, and randomised quantile residuals (Dunn and Smyth 1996).

use certus::certificate::counted;
use certus_likelihood::{Response, Values};

use crate::checks::{CheckedRow, Frequency, Ppc, Statistic};
use crate::error::Error;
use crate::fit::Fit;
use crate::predict::{DRAWS, SEED, standard_quantile};
use crate::problem::Problem;
use crate::simulate::SimulatedRow;

/// The ends of the interval that is shown.
const INTERVAL: [f64; 2] = [0.05, 0.95];
/// Residuals beyond this are counted: of good ones 0.27 % are.
const FAR: f64 = 3.0;

/// Bins of counts, at most.
const BINS: usize = 20;

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
        if response.values() == Values::Binary {
            return vec![("mean", mean)];
        }
        let sd = ((squares - sum * sum / rows) / (rows - 1.0).max(1.0)).max(0.0).sqrt();
        let mut out = vec![("mean", mean), ("sd", sd), ("smallest", least), ("largest", largest)];
        if response.values() != Values::Numbers {
            out.push(("share of zeros", zeros / rows));
        }
        out
    }
}

/// How often each count occurs, in the data and in every simulated data set.
struct Histogram {
    /// Counts of a bin; the last bin has all that are greater, too.
    width: f64,
    bins: usize,
    observed: Vec<f64>,
    simulated: Vec<u32>,
}

impl Histogram {
    /// Of counts up to about `greatest`; `None` of other responses.
    fn new(response: Response, greatest: f64) -> Option<Self> {
        if !matches!(response.values(), Values::Counts) || !greatest.is_finite() {
            return None;
        }
        let width = ((greatest + 1.0) / BINS as f64).ceil().max(1.0);
        let bins = (greatest / width).floor() as usize + 2;
        Some(Self { width, bins, observed: vec![0.0; bins], simulated: Vec::new() })
    }

    fn bin(&self, y: f64) -> usize {
        ((y / self.width).floor() as usize).min(self.bins - 1)
    }

    fn add(&mut self, row: &SimulatedRow) {
        self.simulated.resize(row.drawn.len() * self.bins, 0);
        let own = self.bin(row.y);
        self.observed[own] += 1.0;
        for (set, y) in row.drawn.iter().enumerate() {
            let at = set * self.bins + self.bin(*y);
            self.simulated[at] += 1;
        }
    }

    fn frequencies(&self) -> Vec<Frequency> {
        let one = |bin: usize| {
            let own: Vec<f64> =
                self.simulated.iter().skip(bin).step_by(self.bins).map(|n| f64::from(*n)).collect();
            let Statistic { observed, mean, low, high, .. } = Statistic::new("", self.observed[bin], own);
            let first = bin as f64 * self.width;
            let last = if bin + 1 == self.bins { f64::INFINITY } else { first + self.width - 1.0 };
            Frequency { counts: [first, last], observed, mean, low, high }
        };
        (0..self.bins).map(one).collect()
    }
}

impl Fit {
    /// Compares the responses with data sets that the posterior predicts for the same rows, one for each draw; of
    /// estimates, with those of [`Fit::simulate`].
    pub fn ppc(&self, problem: &Problem) -> Result<Ppc, Error> {
        self.ppc_of_some(problem, DRAWS, 1)
    }

    /// The same with `draws` data sets of about one row of every so many.
    pub(crate) fn ppc_of_some(&self, problem: &Problem, draws: usize, every: usize) -> Result<Ppc, Error> {
        let response: Response = self.record.model.parse()?;
        // other data have other random numbers
        let seed = problem.prepared.responses;
        let mut at = match self.is_estimate() {
            true => self.at_estimate(problem, self.affordable(problem, draws), seed)?,
            false => self.at_draws(problem, draws, SEED)?,
        };
        at.every = every;
        let summary = problem.prepared.response;
        let (mut own, mut simulated) = (Sums::NONE, Vec::new());
        let mut histogram = Histogram::new(response, summary.max);
        let mut checked = Vec::new();
        at.each_simulated(problem, response, None, seed, &mut |row| {
            own.add(row.y, summary.mean);
            simulated.resize(row.drawn.len(), Sums::NONE);
            simulated.iter_mut().zip(&row.drawn).for_each(|(sums, y)| sums.add(*y, summary.mean));
            histogram.iter_mut().for_each(|histogram| histogram.add(&row));
            let residual = residual(row.y, &row.drawn, row.uniform);
            checked.push(CheckedRow { y: row.y, trials: row.trials, expected: row.expected, residual });
        })?;
        let residuals: Vec<f64> = checked.iter().map(|row| row.residual).collect();
        let rows = residuals.len() as f64;
        let sets: Vec<_> =
            simulated.iter().map(|sums| sums.statistics(response, summary.mean, rows)).collect();
        let observed = own.statistics(response, summary.mean, rows);
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
            at_estimates: self.is_estimate(),
            frequencies: histogram.map(|histogram| histogram.frequencies()).unwrap_or_default(),
            residuals,
            checked,
        })
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
