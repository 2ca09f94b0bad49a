//! Profile intervals of standard deviations: where the criterion, minimised over everything else, exceeds its minimum
//! by a given amount (docs/mixed.md, profiles).

use certus::linalg;

use super::chart::Frame;
use super::derivatives::{Derivatives, directions};
use super::error::Error;
use super::fit::LinearMixedFit;
use super::search::{Place, moved, newton, unpacked};
use super::small;
use super::statistics::Statistics;
use crate::ends::{End, Height, Interval, end};

/// A standard deviation of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Of an effect of a term.
    Effect {
        /// The term.
        term: usize,
        /// The effect within it.
        effect: usize,
    },
    /// σ.
    Noise,
}

/// Below this part of σ (the effect scaled by its column's rms) a standard deviation is 0.
const NOTHING: f64 = 1e-4;
/// Where the search for an sd begins whose estimate is 0, as a part of σ.
const START: f64 = 0.05;
/// How close the criterion must be to the cut.
const CLOSE: f64 = 1e-8;

/// What is minimised at a fixed sd v: F + m(ρ − log ρ − 1), ρ = Q·Σ_aa/(m v²), which is −2 log L with σ² = v²/Σ_aa.
struct Profile<'a> {
    statistics: &'a Statistics,
    fit: &'a LinearMixedFit,
    scale: Scale,
}

/// A minimum at one v: the frames, the value, and its derivative in log v.
struct Level {
    frames: Vec<Frame>,
    value: f64,
    slope: f64,
}

/// The interval of a standard deviation in which the profile is at most `cut` above the minimum (the χ²₁ quantile of
/// the level: 3.841 for 95 %). Nothing for effects of a singular matrix of several effects.
pub fn profile(
    statistics: &Statistics,
    fit: &LinearMixedFit,
    scale: Scale,
    cut: f64,
) -> Result<Option<Interval>, Error> {
    let rms = statistics.rms();
    let mut frames: Vec<Frame> = Vec::new();
    for (term, t) in fit.terms.iter().zip(&fit.factors) {
        let k = term.sds.len();
        if term.rank < k && k > 1 {
            return Ok(None);
        }
        frames.push(Frame { k, rank: term.rank, w: t.clone() });
    }
    // a term that is 0 at the estimate may be positive elsewhere on the profile
    for (frame, rms) in frames.iter_mut().zip(&rms).filter(|(frame, _)| frame.rank == 0) {
        *frame = Frame { k: 1, rank: 1, w: vec![START / rms[0]] };
    }
    let (start, unit) = match scale {
        Scale::Noise => (fit.sigma, fit.sigma * NOTHING),
        Scale::Effect { term, effect } => {
            let unit = fit.sigma / rms[term][effect];
            (fit.terms[term].sds[effect].max(START * unit), NOTHING * unit)
        }
    };
    let profile = Profile { statistics, fit, scale };
    let guess = match scale {
        Scale::Noise => fit.log_sigma_error,
        Scale::Effect { term, effect } => fit.terms[term].log_sd_errors.get(effect).copied().unwrap_or(0.5),
    };
    let guess = if guess.is_finite() { (guess * cut.sqrt()).clamp(1e-4, 2.0) } else { 0.5 };
    let zero = matches!(scale, Scale::Effect { term, .. } if fit.terms[term].rank == 0);
    let high = profile.end(&frames, start, guess, cut, unit)?;
    let low = if zero { 0.0 } else { profile.end(&frames, start, -guess, cut, unit)? };
    Ok(Some(Interval { low, high }))
}

impl Profile<'_> {
    /// The end in the direction of `guess`, a step in log v; 0 if there is none above `unit`.
    fn end(&self, frames: &[Frame], start: f64, guess: f64, cut: f64, unit: f64) -> Result<f64, Error> {
        let (mut frames, mut from) = (frames.to_vec(), start.ln());
        let low = guess < 0.0;
        let limit = if low { unit.ln() } else { f64::INFINITY };
        let search = End { start: start.ln(), step: guess, limit, cut, close: CLOSE };
        let found = end(search, |at| {
            let level = self.minimise(&self.scaled(&frames, (at - from).exp()), at.exp())?;
            (frames, from) = (level.frames, at);
            Ok(Height { above: level.value - self.fit.value, slope: level.slope })
        })?;
        let at = found.ok_or(Error::NotConverged { iterations: 100, decrement: f64::NAN })?;
        Ok(if low && at <= limit { 0.0 } else { at.exp() })
    }

    /// A first guess at a new v: the term's matrix scaled with it.
    fn scaled(&self, frames: &[Frame], by: f64) -> Vec<Frame> {
        let mut out = frames.to_vec();
        match self.scale {
            Scale::Effect { term, .. } => out[term].w.iter_mut().for_each(|x| *x *= by),
            Scale::Noise => out.iter_mut().for_each(|f| f.w.iter_mut().for_each(|x| *x /= by)),
        }
        out
    }

    /// Σ_aa, 1 for σ.
    fn relative(&self, frames: &[Frame]) -> f64 {
        match self.scale {
            Scale::Noise => 1.0,
            Scale::Effect { term, effect } => {
                let (k, t) = (frames[term].k, frames[term].t());
                (0..k).map(|j| t[j * k + effect].powi(2)).sum()
            }
        }
    }

    /// log ρ at a place.
    fn excess(&self, place: &Place<'_>, v: f64) -> f64 {
        (place.point.q / place.point.freedom() * self.relative(&place.frames) / (v * v)).ln()
    }

    fn minimise(&self, frames: &[Frame], v: f64) -> Result<Level, Error> {
        let s = self.statistics;
        let m = super::point::freedom(s, self.fit.criterion);
        let total = |place: &Place<'_>| {
            let excess = self.excess(place, v);
            place.point.value + m * (excess.exp() - excess - 1.0)
        };
        let mut place = Place::at(s, self.fit.criterion, frames.to_vec())?;
        let mut value = total(&place);
        for _ in 0..200 {
            let directions = directions(s, &place.frames);
            let derivatives = Derivatives::new(&place.point, &place.slopes, &directions);
            let d = directions.len();
            let rho = self.excess(&place, v).exp();
            let share = |v: &super::derivatives::Direction| match self.scale {
                Scale::Effect { term, effect } if v.term == term => {
                    let e = s.layout.part(&s.layout.places[term], &v.e);
                    e[effect * (place.frames[term].k + 1)] / self.relative(&place.frames)
                }
                _ => 0.0,
            };
            let l: Vec<f64> = directions.iter().zip(&derivatives.q1).map(|(v, q)| q + share(v)).collect();
            let gradient: Vec<f64> =
                derivatives.gradient.iter().zip(&l).map(|(g, l)| g + m * (rho - 1.0) * l).collect();
            let mut information = derivatives.average();
            (0..d * d).for_each(|i| information[i] += m * rho * l[i % d] * l[i / d]);
            let slope = -2.0 * m * (rho - 1.0);
            if d == 0 {
                return Ok(Level { frames: place.frames, value, slope });
            }
            let (step, decrement) = newton(&information, &gradient)
                .ok_or(Error::NotConverged { iterations: 0, decrement: f64::NAN })?;
            if decrement < 1e-14 {
                return Ok(Level { frames: place.frames, value, slope });
            }
            let steps = unpacked(&place.frames, &directions, &step);
            let longest = steps.iter().map(|s| small::inner(s, s).sqrt()).fold(0.0, f64::max);
            let (mut by, descent) = ((2.0 / longest).min(1.0), -linalg::dot(&step, &gradient));
            let mut next = None;
            for _ in 0..25 {
                let candidate = moved(&place.frames, &steps, by)
                    .and_then(|frames| Place::at(s, self.fit.criterion, frames).ok());
                if let Some(candidate) = candidate {
                    let new = total(&candidate);
                    if new <= value - 1e-4 * by * descent {
                        next = Some((candidate, new));
                        break;
                    }
                }
                by /= 3.0;
            }
            // no step is better: as far as rounding lets it go
            let Some((candidate, new)) = next else {
                return Ok(Level { frames: place.frames, value, slope });
            };
            let gained = value - new;
            (place, value) = (candidate, new);
            if gained < 1e-12 * (1.0 + value.abs()) {
                let slope = -2.0 * m * (self.excess(&place, v).exp() - 1.0);
                return Ok(Level { frames: place.frames, value, slope });
            }
        }
        Err(Error::NotConverged { iterations: 200, decrement: f64::NAN })
    }
}
