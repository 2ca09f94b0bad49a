//! Profile intervals of standard deviations of terms with one effect: where −2 log L, maximised over everything else,
//! exceeds its minimum by a given amount (docs/mixed.md, profiles).
//!
//! At a fixed sd the minimum of −Λ − c is found with c replaced by its tangent at the estimate, so that gradients are
//! exact and cheap; c itself, with the draws of the fit, enters the height of the profile there. What that changes is
//! of second order in how far the two minima are apart.

use std::ops::ControlFlow;

use certus::linalg;

use super::conditional::Conditional;
use super::corrected::sets;
use super::correction::{Draws, Weights};
use super::error::Error;
use super::fit::{CrossedFit, Method};
use super::inner::Inner;
use super::model::CrossedModel;
use super::search::{Search, Watch, picked, solved, times, update};
use crate::ends::{End, Height, Interval, end};

/// Where the search for the upper end begins if the estimate is 0 (the effect scaled by its root mean square).
const START: f64 = 0.1;
/// A standard deviation below this counts as 0, in the same units.
const NOTHING: f64 = 1e-3;
/// How close −2 log L must be to the cut, as a part of 1 + the cut.
const CLOSE: f64 = 1e-4;
/// Converged: half of it is what is left to gain in log L.
const DONE: f64 = 1e-5;
/// Steps at one value of the sd, at most.
const STEPS: usize = 40;

/// The intervals of the terms' standard deviations in which the profile is at most `cut` above the minimum (the χ²₁
/// quantile of the level: 3.841 for 95 %); nothing for terms of several effects and where the search failed. Other
/// terms whose sd is 0 at the estimate stay there. `watch` may end the search, which is then an error.
pub fn profiles(
    model: &CrossedModel,
    fit: &CrossedFit,
    cut: f64,
    watch: &mut Watch<'_>,
) -> Result<Vec<Option<Interval>>, Error> {
    let inner = match fit.method {
        Method::Laplace => Inner::Mode,
        Method::Corrected(_) => Inner::Integral,
    };
    let used = fit.correction.as_ref().filter(|c| c.trusted);
    let draws = match (fit.method, used) {
        (Method::Corrected(sampling), Some(c)) => {
            sets(model).map(|set| Draws::new(model, c.draws, sampling.seed, set)).collect()
        }
        _ => Vec::new(),
    };
    let mut continues = |_: &[f64], _: f64| ControlFlow::Continue(());
    let search = Search { model, inner, watch: &mut continues, evaluations: 0, iterations: 0 };
    let at = Conditional::new(model, inner, &fit.parameters, None)?;
    let tangent = if draws.is_empty() { vec![0.0; at.parameters.len()] } else { at.gradient() };
    let mut profile = Profile { search, fit, draws, tangent, least: at.value, correction: 0.0 };
    profile.correction = profile.correction(&at)?;
    let mut out = Vec::new();
    for (term, place) in model.layout.places.iter().enumerate() {
        if place.effects > 1 {
            out.push(None);
            continue;
        }
        if watch(&fit.parameters, fit.log_likelihood).is_break() {
            return Err(Error::Stopped);
        }
        match profile.interval(&at, place.start, 1.0 / model.rms()[term][0], cut) {
            Err(Error::Stopped) => return Err(Error::Stopped),
            interval => out.push(interval.ok().flatten()),
        }
    }
    Ok(out)
}

struct Profile<'a, 'w> {
    search: Search<'a, 'w>,
    fit: &'w CrossedFit,
    draws: Vec<Draws>,
    /// −∇c at the estimate.
    tangent: Vec<f64>,
    /// −Λ and c there.
    least: f64,
    correction: f64,
}

/// The minimum at one sd.
struct Level<'a> {
    at: Conditional<'a>,
    height: Height,
}

impl<'a> Profile<'a, '_> {
    fn interval(
        &mut self,
        best: &Conditional<'a>,
        parameter: usize,
        unit: f64,
        cut: f64,
    ) -> Result<Option<Interval>, Error> {
        let own = self.fit.parameters[parameter];
        let zero = own < NOTHING * unit;
        let start = if zero { START * unit } else { own };
        let place = self.fit.free.iter().position(|&j| j == parameter);
        let error = place.and_then(|at| {
            let mut e = vec![0.0; self.fit.free.len()];
            e[at] = 1.0;
            solved(&self.fit.hessian, &e).map(|x| x[at].max(0.0).sqrt() / own)
        });
        let step = error.filter(|e| *e > 0.0).map_or(0.5, |e| e * cut.sqrt()).min(1.0);
        let low = if zero || self.minimise(best, parameter, 0.0)?.height.above <= cut {
            Some(0.0)
        } else {
            let limit = (NOTHING * unit).ln();
            self.end(best, parameter, End { start: start.ln(), step: -step, limit, cut, close: CLOSE })?
        };
        let limit = f64::INFINITY;
        let high = self.end(best, parameter, End { start: start.ln(), step, limit, cut, close: CLOSE })?;
        Ok(low.zip(high).map(|(low, high)| Interval { low, high }))
    }

    fn end(&mut self, best: &Conditional<'a>, parameter: usize, search: End) -> Result<Option<f64>, Error> {
        let mut from: Option<Conditional<'a>> = None;
        let found = end(search, |x| {
            let level = self.minimise(from.as_ref().unwrap_or(best), parameter, x.exp())?;
            from = Some(level.at);
            Ok(level.height)
        })?;
        Ok(found.map(f64::exp))
    }

    /// The smallest −Λ − c over the other parameters, from a point nearby.
    fn minimise(&mut self, from: &Conditional<'a>, parameter: usize, value: f64) -> Result<Level<'a>, Error> {
        let d = self.fit.free.len();
        let kept: Vec<usize> = (0..d).filter(|&e| self.fit.free[e] != parameter).collect();
        let others: Vec<usize> = kept.iter().map(|&e| self.fit.free[e]).collect();
        let n = others.len();
        let block: Vec<f64> = (0..n * n).map(|e| self.fit.hessian[kept[e / n] * d + kept[e % n]]).collect();
        let mut inverse = vec![0.0; n * n];
        for j in 0..n {
            let mut e = vec![0.0; n];
            e[j] = 1.0;
            let column = solved(&block, &e).ok_or_else(|| self.search.lost(from, f64::NAN))?;
            inverse[j * n..][..n].copy_from_slice(&column);
        }
        let mut x = from.parameters.clone();
        let move_by = value - x[parameter];
        x[parameter] = value;
        // where the curvature expects the others
        if let Some(own) = self.fit.free.iter().position(|&j| j == parameter) {
            let pull: Vec<f64> = kept.iter().map(|&e| move_by * self.fit.hessian[own * d + e]).collect();
            others.iter().zip(times(&inverse, &pull)).for_each(|(&j, s)| x[j] -= s);
        }
        let mut at = self.search.evaluate(&x, Some(&from.v))?;
        let mut slopes = at.gradient();
        for _ in 0..STEPS {
            let g = self.tilted(&slopes, &others);
            let direction = times(&inverse, &g);
            let decrement = linalg::dot(&direction, &g);
            if decrement < DONE {
                return self.level(at, &slopes, parameter);
            }
            let mut part = (2.0 / decrement.sqrt()).min(1.0);
            let height =
                |at: &Conditional<'_>, tangent: &[f64]| at.value - linalg::dot(tangent, &at.parameters);
            let now = height(&at, &self.tangent);
            let next = loop {
                let mut x = at.parameters.clone();
                others.iter().zip(&direction).for_each(|(&j, s)| x[j] -= part * s);
                match self.search.evaluate(&x, Some(&at.v)) {
                    Ok(next) if height(&next, &self.tangent) <= now - 1e-4 * part * decrement => {
                        break Some(next);
                    }
                    Err(Error::Stopped) => return Err(Error::Stopped),
                    _ => part *= 0.3,
                }
                if part < 1e-6 {
                    break None;
                }
            };
            let Some(next) = next else { return Err(self.search.lost(&at, decrement)) };
            let new = next.gradient();
            let change: Vec<f64> = self.tilted(&new, &others).iter().zip(&g).map(|(a, b)| a - b).collect();
            let step: Vec<f64> = direction.iter().map(|s| -part * s).collect();
            update(&mut inverse, n, &step, &change);
            (at, slopes) = (next, new);
        }
        Err(self.search.lost(&at, f64::NAN))
    }

    /// −∇Λ − ∇c, c by its tangent.
    fn tilted(&self, slopes: &[f64], parameters: &[usize]) -> Vec<f64> {
        picked(slopes, parameters).iter().zip(parameters).map(|(g, &j)| g - self.tangent[j]).collect()
    }

    fn level(&self, at: Conditional<'a>, slopes: &[f64], parameter: usize) -> Result<Level<'a>, Error> {
        let gained = self.correction(&at)? - self.correction;
        let above = 2.0 * (at.value - self.least - gained);
        let slope = 2.0 * at.parameters[parameter] * (slopes[parameter] - self.tangent[parameter]);
        Ok(Level { at, height: Height { above, slope } })
    }

    /// c, 0 where it is not part of the likelihood.
    fn correction(&self, at: &Conditional<'_>) -> Result<f64, Error> {
        if self.draws.is_empty() {
            return Ok(0.0);
        }
        let each = self.draws.iter().map(|d| at.weights(d)).collect::<Result<Vec<_>, _>>()?;
        Ok(Weights::joined(&each).correction())
    }
}
