//! What becomes of a linear predictor: the expected response, and new observations by simulation.

use std::cell::Cell;

use certus::random::{Purpose, Random};
use certus_likelihood::{Link, Response};
use rand_distr::{Distribution, Open01, StandardNormal};

use crate::error::Error;
use crate::fit::Fit;
use crate::predict::levels::Levels;
use crate::variance::mixture::Law;

/// The stream of the first row ([`Purpose`] lists them all); every row has its own.
const STREAM: u64 = 1 << 47;
/// Observations of a row whose linear predictor has no draws of its own.
pub(crate) const DRAWS: usize = 4000;
/// The seed of draws of a mixture's scales.
pub(crate) const SEED: u64 = 0;

/// What is predicted.
pub struct Responses {
    /// Of the expected response.
    pub link: Link,
    /// Of quantiles.
    pub levels: Levels,
    observations: Option<Observations>,
}

struct Observations {
    response: Response,
    /// The parameter of the likelihood at draws; one if it was given or there is none.
    parameters: Vec<f64>,
    /// The next row.
    row: Cell<u64>,
}

impl Responses {
    /// Expected responses alone.
    pub fn expected(link: Link, levels: Levels) -> Self {
        Self { link, levels, observations: None }
    }

    /// Those of a fit, and observations if they have levels.
    pub(crate) fn of_fit(fit: &Fit, levels: Levels) -> Result<Self, Error> {
        if levels.observed.is_empty() {
            return Ok(Self::expected(fit.link()?, levels));
        }
        let response: Response = fit.record.model.parse()?;
        let parameters = match response.parameter() {
            None => vec![f64::NAN],
            Some(parameter) => match fit.record.settings[parameter.name()].as_f64() {
                Some(given) => vec![given],
                None => unknown_parameter(fit, parameter.name()),
            },
        };
        let observations = Observations { response, parameters, row: Cell::new(0) };
        Ok(Self { link: response.link(), levels, observations: Some(observations) })
    }

    /// Quantiles of `count` observations; `t(k, luck)` is the k-th linear predictor, `luck()` a standard
    /// normal and a uniform number.
    fn quantiles(
        &self,
        trials: f64,
        count: usize,
        mut t: impl FnMut(usize, &mut dyn FnMut() -> (f64, f64)) -> f64,
    ) -> Vec<f64> {
        let Some(Observations { response, parameters, row }) = &self.observations else { return Vec::new() };
        let mut rng = Random::new(0, Purpose::Sample, 0).generator(STREAM + row.replace(row.get() + 1));
        let mut values: Vec<f64> = (0..count)
            .map(|k| {
                let t = t(k, &mut || (StandardNormal.sample(&mut rng), Open01.sample(&mut rng)));
                response.draw(&mut rng, t, parameters[k % parameters.len()], trials)
            })
            .collect();
        values.sort_by(f64::total_cmp);
        // values that were drawn, because counts have no others
        let at = |p: f64| values[((p * count as f64).ceil() as usize).clamp(1, count) - 1];
        self.levels.observed.iter().map(|p| at(*p)).collect()
    }

    /// Of a linear predictor t ~ N(mean, sd²).
    pub(super) fn of_normal(&self, trials: f64, mean: f64, sd: f64) -> Vec<f64> {
        self.quantiles(trials, DRAWS, |_, luck| mean + sd * luck().0)
    }

    /// Of a mixture.
    pub(super) fn of_law(&self, trials: f64, law: &Law) -> Vec<f64> {
        self.quantiles(trials, DRAWS, |_, luck| {
            let (normal, mut uniform) = luck();
            let place = law.0.iter().position(|[weight, ..]| {
                uniform -= weight;
                uniform <= 0.0
            });
            let [_, mean, sd] = law.0[place.unwrap_or(law.0.len() - 1)];
            mean + sd * normal
        })
    }

    /// Of draws of the linear predictor, each once.
    pub(super) fn of_draws(&self, trials: f64, linear: &[f64]) -> Vec<f64> {
        self.quantiles(trials, linear.len(), |k, _| linear[k])
    }
}

/// Draws of a parameter of the likelihood that was not given, in the order of the fit's draws.
pub(crate) fn unknown_parameter(fit: &Fit, name: &str) -> Vec<f64> {
    let Some((mixture, unknown)) = &fit.mixture else { return vec![f64::NAN] };
    let Some(row) = unknown.rows.iter().find(|row| row.name == name) else { return vec![f64::NAN] };
    if let Some(draws) = &fit.posterior_draws {
        return draws.each().map(|z| row.at_logs(&z[z.len() - unknown.scales.len()..])).collect();
    }
    let mut out = Vec::new();
    mixture.each_draw(unknown, DRAWS, SEED, |_, scales| out.push(row.at(scales)));
    out
}
