//! Simulated data sets for the rows of a fit: what its posterior predicts, or, of estimates, the fitted model itself
//! with new effects of groups (a parametric bootstrap).

use certus::certificate::counted;
use certus::random::{Purpose, Random};
use certus_likelihood::Response;
use rand_distr::{Distribution, Open01};

use crate::at_draws::AtDraws;
use crate::error::Error;
use crate::fit::Fit;
use crate::problem::Problem;
use crate::refusal::RequestError;

/// The stream of the first row ([`Purpose`] lists them all); every row has its own.
const STREAM: u64 = 1 << 48;

/// A row with simulated responses.
pub(crate) struct SimulatedRow {
    pub(crate) y: f64,
    pub(crate) trials: f64,
    /// The expected response, its mean over all draws.
    pub(crate) expected: f64,
    pub(crate) drawn: Vec<f64>,
    /// A uniform number.
    pub(crate) uniform: f64,
    weighted: bool,
}

impl AtDraws<'_> {
    /// For every row in order, a response that is drawn at each draw of the posterior in `which`; without it, at each.
    pub(crate) fn each_simulated(
        &self,
        problem: &Problem,
        response: Response,
        which: Option<&[usize]>,
        seed: u64,
        take: &mut dyn FnMut(SimulatedRow),
    ) -> Result<(), Error> {
        let (random, link) = (Random::new(seed, Purpose::Sample, 0), response.link());
        let mut weighted = false;
        self.each_row(
            problem,
            &|leaf, i, linear| {
                let mut rng = random.generator(STREAM + (leaf.first + i) as u64);
                let datum = leaf.datum(i);
                let mut one = |k: usize| {
                    let parameter = self.parameters[k % self.parameters.len()].unwrap_or(f64::NAN);
                    response.draw(&mut rng, linear[k], parameter, datum.trials)
                };
                let drawn: Vec<f64> = match which {
                    Some(which) => which.iter().map(|k| one(*k)).collect(),
                    None => (0..linear.len()).map(one).collect(),
                };
                let mean = linear.iter().map(|t| link.response(*t)).sum::<f64>() / linear.len() as f64;
                SimulatedRow {
                    y: datum.y,
                    trials: datum.trials,
                    expected: datum.trials * mean,
                    drawn,
                    uniform: Open01.sample(&mut rng),
                    weighted: leaf.weight_of(i) != 1.0,
                }
            },
            &mut |row: SimulatedRow| {
                weighted |= row.weighted;
                take(row);
            },
        )?;
        if weighted { Err(RequestError::WeightedRows.into()) } else { Ok(()) }
    }
}

impl Fit {
    /// `count` data sets for the rows: the responses of the first row in all sets, then those of the second, …
    ///
    /// Of a posterior, set k is what it predicts at draw k of [`Fit::draws`] with the same seed, for the groups of the
    /// fit. Of estimates (REML, ML, `scales` estimate), all sets have the estimated coefficients and scales, and each
    /// has new effects of every group.
    pub fn simulate(&self, problem: &Problem, count: usize, seed: u64) -> Result<Vec<f64>, Error> {
        let response: Response = self.record.model.parse()?;
        let at = match self.is_estimate() {
            true => self.at_estimate(problem, count, seed)?,
            false => self.at_draws(problem, count, seed)?,
        };
        let mut out = Vec::new();
        let mut take = |row: SimulatedRow| out.extend(row.drawn);
        at.each_simulated(problem, response, Some(&at.order), seed, &mut take)?;
        Ok(out)
    }

    /// What [`Fit::simulate`] simulates, in words.
    pub fn simulated_words(&self, problem: &Problem, count: usize) -> String {
        let sets = counted(count as u64, "data set");
        match (self.is_estimate(), problem.prepared.encoding.groups.is_empty()) {
            (true, false) => {
                format!("{sets} at the estimates, with new effects of all groups (parametric bootstrap)")
            }
            (true, true) => format!("{sets} at the estimates (parametric bootstrap)"),
            (false, _) => format!("{sets} that the posterior predicts"),
        }
    }
}
