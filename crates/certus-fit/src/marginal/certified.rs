//! Answers whose errors are certified: posterior means and quantiles of functions of the latents (math: D8, parts 7 and
//! 8), and linear functions of a fit whose certificate speaks of all of them (math: D3, D5, D7).

use std::f64::consts::PI;

use certus::Goal;
use certus::certificate::weights::{FunctionSize, LatentFunctions};
use certus::combination::Combinations;
use certus_data::{Source, Storage};
use certus_models::posterior::{FunctionGoal, enclosed_functions};

use super::average::Average;
use super::made::Made;
use super::{MarginalEffect, MarginalEffects};
use crate::error::Error;
use crate::fit::Fit;
use crate::predict::standard_quantile;
use crate::problem::Problem;
use crate::record::{self, RecordedLevel};
use crate::refusal::RequestError;
use crate::settings::Settings;

/// Evaluations of a linear predictor's term, at most; and up to which there are four times as many draws.
const WORK: f64 = 2e10;
const LIGHT: f64 = 4e9;
/// Numbers that functions may have, at most, for as many draws.
const NUMBERS: usize = 20_000_000;
/// For the rounding of a mean, of an sd and of what is made of them.
const ROUNDING: f64 = 1e-11;

/// What answers are certified with.
#[derive(Clone, Copy)]
pub struct Certifying<'a> {
    /// The model of the fit, with its rows.
    problem: &'a Problem,
    /// All errors hold, together, with probability 1 − δ.
    delta: f64,
    /// Of the draws.
    seed: u64,
    /// 1, 2, …
    call: u32,
}

impl<'a> Certifying<'a> {
    /// For the `call`-th questions about a fit, from 1 on: each has draws of its own and the part 6/(π²n²) of the δ of
    /// the fit, so that whatever is asked after having seen earlier answers, all of them hold together with probability
    /// 1 − δ.
    pub fn new(problem: &'a Problem, goal: &Goal, call: u32) -> Result<Self, Error> {
        if call == 0 {
            let (setting, required) = ("`call`".into(), "1 or more");
            return Err(RequestError::Number { setting, value: 0.0, required }.into());
        }
        let n = f64::from(call);
        Ok(Self { problem, delta: goal.delta * 6.0 / (PI * PI * n * n), seed: goal.seed, call })
    }
}

struct Functions<'a> {
    average: &'a Average<'a>,
    parts: &'a [Made],
    weights: &'a [f64],
    sizes: Vec<FunctionSize>,
}

impl LatentFunctions for Functions<'_> {
    fn sizes(&self) -> &[FunctionSize] {
        &self.sizes
    }

    fn values(&self, points: &[f64], out: &mut [f64]) -> Result<(), certus::Error> {
        let at = self.average.at(points);
        for (k, part) in self.parts.iter().enumerate() {
            let values = part.values(&at, self.weights);
            let values = values.map_err(|error| certus::Error::BadState(error.to_string()))?;
            let places = out.iter_mut().skip(k).step_by(self.parts.len());
            places.zip(values).for_each(|(out, value)| *out = value);
        }
        Ok(())
    }
}

impl Fit {
    /// True if answers can be certified with the model of the fit.
    pub fn certifies_effects(&self) -> bool {
        let corrected =
            self.record.table.as_ref().is_some_and(|table| table.source == record::Source::Corrected);
        corrected && self.mixture.is_none()
    }

    /// The model of this fit, if it is one of these rows.
    pub fn model_of(&self, source: &dyn Source, storage: &Storage) -> Option<Problem> {
        let request = self.settings().ok()?.request().ok()?;
        let problem = Problem::new(source, &request, storage).ok()?;
        let fingerprint = format!("{:016x}", problem.prepared.fingerprint);
        (self.record.data.fingerprint.as_ref() == Some(&fingerprint)).then_some(problem)
    }

    /// The settings of the fit.
    pub fn settings(&self) -> Result<Settings, String> {
        serde_json::from_value(self.record.settings.clone()).map_err(|error| error.to_string())
    }

    /// Replaces estimates and ends of intervals by those that are certified, and states their errors.
    pub(super) fn certify(
        &self,
        with: &Certifying<'_>,
        average: &Average<'_>,
        parts: &[Made],
        weights: &[f64],
        found: &mut MarginalEffects,
    ) -> Result<(), Error> {
        let Some(model) = with.problem.model() else { return Ok(()) };
        let goal = |many: bool| FunctionGoal {
            delta: with.delta,
            seed: with.seed,
            call: u64::from(with.call - 1),
            many,
        };
        let tables = parts.iter().map(Made::tables).sum::<usize>();
        let each = (weights.len() * tables * (average.terms() + 4)) as f64;
        let work = |many: bool| each * goal(many).points() as f64;
        if work(false) > WORK {
            found.declined = Some("their draws would take long for this many rows and questions".into());
            return Ok(());
        }
        let many = work(true) <= LIGHT && parts.len() * goal(true).points() <= NUMBERS;
        let mut combinations = Combinations::new(&self.gaussian);
        let sizes = parts.iter().map(|part| part.size(average, weights, &mut combinations));
        let sizes = sizes.collect::<Result<Vec<_>, _>>()?;
        let functions = Functions { average, parts, weights, sizes };
        let tail = 0.5 * (1.0 - found.interval);
        let levels = [tail, 1.0 - tail];
        let enclosed = match enclosed_functions(model, &self.gaussian, &functions, &levels, &goal(many))? {
            Ok(enclosed) => enclosed,
            Err(why) => {
                found.declined = Some(why);
                return Ok(());
            }
        };
        for (row, own) in found.rows.iter_mut().zip(enclosed) {
            if let Some(mean) = own.mean {
                (row.estimate, row.error) = (mean.estimate, Some(mean.error()));
            }
            if let [Some(low), Some(high)] = own.quantiles[..] {
                (row.conf_low, row.conf_high) = (low.estimate, high.estimate);
                row.interval_error = Some(low.error().max(high.error()));
            }
        }
        let stated = |row: &MarginalEffect| row.error.is_some() || row.interval_error.is_some();
        if found.rows.iter().any(stated) {
            (found.theorem, found.delta) = (Some("D8".into()), Some(with.delta));
        }
        Ok(())
    }

    /// The same of linear functions, from what is known of all of them at once, so that it holds however many there
    /// are: means and sds of every combination (D3, D5, D7), and no event's probability off by more than √(KL/2)
    /// (Pinsker), which brackets quantiles. The numbers are those of the Gaussian itself.
    pub(super) fn certify_linear(
        &self,
        average: &Average<'_>,
        parts: &[Made],
        weights: &[f64],
        found: &mut MarginalEffects,
    ) -> Result<(), Error> {
        let posterior = &self.record.certificate.posterior;
        let (Some(theorem), Some(kl)) = (&posterior.theorem, posterior.bound) else { return Ok(()) };
        let certain = matches!(posterior.level, RecordedLevel::Proved | RecordedLevel::Probable);
        let of_every = ["D3", "D5", "D7"].contains(&theorem.as_str());
        let own = self.record.table.is_none() && self.posterior_draws.is_none() && self.mixture.is_none();
        let (true, Some(mean_error), Some(sd_error)) =
            (certain && of_every && own, posterior.mean_error, posterior.sd_error)
        else {
            return Ok(());
        };
        let off = (0.5 * kl).sqrt();
        let mut combinations = Combinations::new(&self.gaussian);
        for (row, part) in found.rows.iter_mut().zip(parts) {
            let Some((constant, terms)) = part.linear(average, weights)? else { continue };
            let (mean, sd) = combinations.moments(&terms);
            let size = terms.iter().map(|(j, a)| (a * self.gaussian.mean()[*j]).abs()).sum::<f64>();
            let rounding = ROUNDING * (constant.abs() + size + sd);
            let tail = 0.5 * (1.0 - found.interval);
            let z = standard_quantile(1.0 - tail);
            row.estimate = constant + mean;
            row.std_error = sd;
            (row.conf_low, row.conf_high) = (row.estimate - z * sd, row.estimate + z * sd);
            row.error = Some(mean_error * sd + rounding);
            let ends = match theorem.as_str() {
                // the posterior is normal
                "D7" => Some(mean_error + z * sd_error),
                _ if off < tail => {
                    let [near, far] = [tail + off, tail - off].map(|p| -standard_quantile(p));
                    Some((far - z).max(z - near))
                }
                _ => None,
            };
            row.interval_error = ends.map(|ends| ends * sd + rounding);
        }
        if found.rows.iter().any(|row| row.error.is_some()) {
            found.theorem = Some(theorem.clone());
            found.delta = posterior.delta;
        }
        Ok(())
    }
}
