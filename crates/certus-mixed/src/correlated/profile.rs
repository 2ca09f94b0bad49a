//! Profile intervals of standard deviations and correlations: where −2 log L (− 2 log prior), maximised over everything
//! else, exceeds its minimum by a given amount (docs/mixed.md, profiles).
//!
//! At a fixed coordinate c(Σ) = x, c a log sd or the artanh of a correlation, F is minimised by Newton's method for
//! its Lagrangian F − λ(c − x) in the chart of G1; λ = dF/dx is the slope of the profile.

use std::ops::ControlFlow;

use certus::linalg;

use super::coordinate::Scale;
use super::error::Error;
use super::fit::CorrelatedFit;
use super::rows::Model;
use super::search::{COARSE, Place, SMALL, Watch, descend, newton, unpacked};
use crate::ends::{End, Height, Interval, end};
use crate::linear::TermFit;
use crate::linear::chart::Frame;
use crate::linear::small;

/// A standard deviation below this part of 1 in the linear predictor (the effect times its column's rms) counts as 0.
const NOTHING: f64 = 1e-3;
/// Where the search for an end begins if the estimate is 0, in the same units.
const START: f64 = 0.1;
/// A correlation beyond this counts as ±1.
const FULL: f64 = 0.9999;
/// The first guess of the other sds, in the same units, where one is 0.
const START_WITHOUT: f64 = 0.5;
/// Where the search begins for correlations beyond it.
const INSIDE: f64 = 0.95;
/// The artanh of a correlation that is 1 to rounding.
const ONE: f64 = 19.0;
/// How close −2 log L must be to the cut, as a part of 1 + the cut.
const CLOSE: f64 = 1e-4;
/// Converged: half of it is what is left to gain in log L.
const DONE: f64 = 1e-5;
/// Steps in which F falls by less than that, as far as its integrals can tell, in a row.
const STALLED: usize = 2;
/// What F may lose where a small direction is left out.
const HARDLY: f64 = 0.02;
/// Steps at one value of the coordinate, at most.
const STEPS: usize = 40;
/// |S| of one step, at most.
const LONGEST: f64 = 1.0;
/// Times that a singular matrix is left again, at most.
const RELEASES: usize = 3;

/// The minimum at one value of the coordinate.
struct Level {
    place: Place,
    slope: f64,
}

impl Model {
    /// The intervals of the standard deviations, then of the correlations ([`TermFit::pairs`]), in which their profiles
    /// are at most `cut` above the minimum (the χ²₁ quantile of the level: 3.841 for 95 %). Nothing where the search
    /// for an end failed, for correlations with an effect whose sd is 0, and for those of a singular matrix of three
    /// effects. `watch` is told the estimate before every interval, and may end the search, which is then an error.
    pub fn profiles(
        &self,
        fit: &CorrelatedFit,
        cut: f64,
        watch: &mut Watch<'_>,
    ) -> Result<Vec<Option<Interval>>, Error> {
        let k = self.design.effects;
        let best = Place::at(self, fit.fixed.clone(), fit.frame.clone(), COARSE)?;
        let found = |interval: Result<Option<Interval>, Error>| match interval {
            Err(Error::Stopped) => Err(Error::Stopped),
            other => Ok(other.ok().flatten()),
        };
        let mut out = Vec::new();
        let mut look = || match watch(&fit.factor(), fit.log_likelihood) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Stopped),
        };
        for i in 0..k {
            look()?;
            out.push(found(self.sd_profile(fit, &best, i, cut))?);
        }
        for (i, j) in TermFit::pairs(k) {
            look()?;
            let positive = |e: usize| out[e].map(|own: Interval| own.low > 0.0);
            let interval = match positive(i).zip(positive(j)) {
                None => None,
                Some(_) if fit.term.sds[i] * fit.term.sds[j] == 0.0 => None,
                Some(_) if fit.term.rank < k && k > 2 => None,
                Some((true, true)) => found(self.correlation_profile(fit, &best, (i, j), cut))?,
                // beside an sd of 0, which is not excluded, any correlation has the same likelihood
                Some(_) => Some(Interval { low: -1.0, high: 1.0 }),
            };
            out.push(interval);
        }
        Ok(out)
    }

    fn sd_profile(
        &self,
        fit: &CorrelatedFit,
        best: &Place,
        i: usize,
        cut: f64,
    ) -> Result<Option<Interval>, Error> {
        let profile = Profile { model: self, scale: Scale::Sd(i), least: best.objective.value };
        let unit = 1.0 / self.rms()[i];
        let zero = fit.term.sds[i] < NOTHING * unit;
        let guess = first_step(fit.term.log_sd_errors.get(i).copied(), cut).min(1.0);
        let start = if zero { START * unit } else { fit.term.sds[i] }.ln();
        let begin = if zero { profile.moved(best, start)? } else { best.clone() };
        let high = profile.end(begin.clone(), start, guess, f64::INFINITY, cut)?;
        let low = if zero || profile.without(best, i)? <= cut {
            Some(0.0)
        } else {
            profile.end(begin, start, -guess, (NOTHING * unit).ln(), cut)?.map(f64::exp)
        };
        Ok(low.zip(high).map(|(low, high)| Interval { low, high: high.exp() }))
    }

    fn correlation_profile(
        &self,
        fit: &CorrelatedFit,
        best: &Place,
        (i, j): (usize, usize),
        cut: f64,
    ) -> Result<Option<Interval>, Error> {
        let (k, limit) = (self.design.effects, FULL.atanh());
        let profile = Profile { model: self, scale: Scale::Correlation(i, j), least: best.objective.value };
        let own = fit.term.correlations[j * k + i].clamp(-FULL, FULL).atanh();
        let place = TermFit::pairs(k).position(|pair| pair == (i, j)).map(|at| k + at);
        let variance = place.and_then(|at| fit.covariance.get(at * (k + k * (k - 1) / 2 + 1)));
        let guess =
            first_step(variance.map(|v| v.sqrt()), cut).min(1.0) + (own.abs() - INSIDE.atanh()).max(0.0);
        // near ±1 the chart is badly scaled
        let near = own.clamp(-INSIDE.atanh(), INSIDE.atanh());
        let begin = if own == near { best.clone() } else { profile.moved(best, near)? };
        let of = |up: bool| -> Result<Option<f64>, Error> {
            let sign = if up { 1.0 } else { -1.0 };
            if own * sign >= limit || (own * sign > INSIDE.atanh() && profile.at(best, sign * ONE)? <= cut) {
                return Ok(Some(sign));
            }
            let x = profile.end(begin.clone(), own, sign * guess, sign * limit, cut)?;
            Ok(x.map(|x| if x * sign >= limit { sign } else { x.tanh() }))
        };
        Ok(of(false)?.zip(of(true)?).map(|(low, high)| Interval { low, high }))
    }
}

/// The first step to an end: what the curvature says.
fn first_step(error: Option<f64>, cut: f64) -> f64 {
    error.filter(|e| e.is_finite() && *e > 0.0).map_or(0.5, |e| e * cut.sqrt())
}

struct Profile<'a> {
    model: &'a Model,
    scale: Scale,
    /// F at the estimate.
    least: f64,
}

impl Profile<'_> {
    /// The end in the direction of `step` from the coordinate `start`, the first search from the place `from`.
    fn end(&self, from: Place, start: f64, step: f64, limit: f64, cut: f64) -> Result<Option<f64>, Error> {
        let mut place = from;
        end(End { start, step, limit, cut, close: CLOSE }, |x| {
            let level = match self.minimise(&place, x) {
                // an sd that vanishes is known to be beyond the cut
                Err(Error::NotConverged { sds, .. }) if self.vanishes(&sds) => {
                    return Ok(Height { above: f64::INFINITY, slope: f64::NAN });
                }
                level => level?,
            };
            let height =
                Height { above: 2.0 * (level.place.objective.value - self.least), slope: 2.0 * level.slope };
            place = level.place;
            Ok(height)
        })
    }

    /// Whether an sd is as good as 0 that the coordinate depends on: profiles go down only where 0 is beyond the cut.
    fn vanishes(&self, sds: &[f64]) -> bool {
        let rms = self.model.rms();
        let small = |e: usize| sds[e] * rms[e] < 2.0 * SMALL;
        match self.scale {
            Scale::Sd(i) => small(i),
            Scale::Correlation(i, j) => small(i) || small(j),
        }
    }

    /// How far −2 log L is above its minimum at c = x with everything else as it is: the profile is not higher.
    fn at(&self, place: &Place, x: f64) -> Result<f64, Error> {
        let frame = self.scale.adjusted(&place.frame, x).ok_or_else(|| self.lost(place))?;
        let there = Place::at(self.model, place.beta.clone(), frame, COARSE)?;
        Ok(2.0 * (there.objective.value - self.least))
    }

    /// How far −2 log L is above its minimum if effect i has an sd of 0; nothing of that is known (0) if the search
    /// without it ends elsewhere.
    fn without(&self, best: &Place, i: usize) -> Result<f64, Error> {
        let (k, rms) = (best.frame.k, self.model.rms());
        let others = Frame::start(rms, START_WITHOUT);
        let columns = (0..k).filter(|&j| j != i).flat_map(|j| others.w[j * k..][..k].to_vec());
        let mut w: Vec<f64> = columns.collect();
        w.resize(k * k, 0.0);
        let frame = Frame { k, rank: k - 1, w };
        let mut watch = |_: &[f64], _: f64| ControlFlow::Continue(());
        let found = match descend(self.model, best.beta.clone(), frame, &mut watch) {
            // the others vanish, too
            Err(Error::NotConverged { sds, .. }) if sds.iter().zip(rms).all(|(sd, r)| sd * r < NOTHING) => {
                let none = Frame { rank: 0, ..Frame::start(rms, START_WITHOUT) };
                descend(self.model, best.beta.clone(), none, &mut watch)?
            }
            found => found?,
        };
        let own = (0..k).all(|l| found.place.frame.t()[l * k + i] == 0.0);
        Ok(if own { 2.0 * (found.place.objective.value - self.least) } else { 0.0 })
    }

    /// The same coefficients at c = x.
    fn moved(&self, place: &Place, x: f64) -> Result<Place, Error> {
        let frame = match (self.scale, self.scale.coordinate(&place.frame)) {
            // an sd of 0 has no logarithm: an independent effect of that size is added
            (Scale::Sd(i), None) => {
                let (k, mut frame) = (place.frame.k, place.frame.clone());
                let free = (frame.rank * k..k * k).step_by(k);
                let column = free.max_by(|x, y| frame.w[x + i].abs().total_cmp(&frame.w[y + i].abs()));
                let Some(column) = column else { return Err(self.lost(place)) };
                frame.w[column..column + k].fill(0.0);
                frame.w[column + i] = x.exp();
                for l in 0..k {
                    frame.w.swap(column + l, frame.rank * k + l);
                }
                frame.rank += 1;
                frame
            }
            _ => self.scale.adjusted(&place.frame, x).ok_or_else(|| self.lost(place))?,
        };
        Place::at(self.model, place.beta.clone(), frame, COARSE)
    }

    fn lost(&self, place: &Place) -> Error {
        Error::NotConverged {
            iterations: STEPS,
            decrement: f64::NAN,
            sds: super::evaluate::sds(&place.frame),
        }
    }

    /// The lowest F at c = x, from a place nearby.
    fn minimise(&self, from: &Place, x: f64) -> Result<Level, Error> {
        let p = self.model.design.fixed;
        let groups = self.model.levels().len() as f64;
        let (mut place, mut slope, mut tried, mut releases) = (from.clone(), 0.0, SMALL, 0);
        // whether the place has c = x, and can be compared with the next
        let (mut there, mut stalled) = (false, 0);
        for _ in 0..STEPS {
            let (objective, frame) = (&place.objective, &place.frame);
            let d = objective.gradient.len();
            let (a, bend) = self.scale.derivatives(frame, p).ok_or_else(|| self.lost(&place))?;
            let own = self.scale.coordinate(frame).ok_or_else(|| self.lost(&place))?;
            // the Hessian of the Lagrangian, convex across the constraint
            let steep = small::inner(&a, &a);
            let trace: f64 = objective.hessian.iter().step_by(d + 1).skip(p).map(|h| h.abs()).sum();
            let lagrangian: Vec<f64> = (0..d * d)
                .map(|e| objective.hessian[e] - slope * bend[e] + trace / steep * a[e % d] * a[e / d])
                .collect();
            let solve = |g: &[f64]| newton(&lagrangian, g).ok_or_else(|| self.lost(&place));
            let ((down, _), (along, _)) = (solve(&objective.gradient)?, solve(&a)?);
            let size = -small::inner(&a, &along);
            let multiplier = -(small::inner(&a, &down) - (x - own)) / size;
            let step: Vec<f64> = (0..d).map(|j| down[j] - multiplier * along[j]).collect();
            // the multiplier is that of F itself: the added term has the slope trace·(x − c)
            slope = multiplier - trace / steep * (x - own);
            let descent: f64 = -(0..d).map(|j| (objective.gradient[j] - slope * a[j]) * step[j]).sum::<f64>();
            if there && (descent < DONE || stalled == STALLED) {
                match self.released(&place, slope).filter(|_| releases < RELEASES) {
                    Some(frame) => {
                        let frame = self.scale.adjusted(&frame, x).ok_or_else(|| self.lost(&place))?;
                        place = Place::at(self.model, place.beta, frame, COARSE)?;
                        (releases, tried, stalled) = (releases + 1, 1e-4, 0);
                        continue;
                    }
                    None => return Ok(Level { place, slope }),
                }
            }
            let s = unpacked(frame, &step[p..]);
            let longest = linalg::dot(&s, &s).sqrt();
            let mut by = (LONGEST / longest).min(1.0);
            let shortest = 1e-6 * by;
            let slack = 1e-11 * (1.0 + objective.value.abs()) + 2.0 * COARSE * groups.sqrt();
            let next = loop {
                let beta: Vec<f64> = place.beta.iter().zip(&step).map(|(b, v)| b + by * v).collect();
                let moved = frame.moved(&s.iter().map(|v| by * v).collect::<Vec<_>>());
                if let Some(frame) = moved.and_then(|frame| self.scale.adjusted(&frame, x)) {
                    match Place::at(self.model, beta, frame, COARSE) {
                        // the first step only leads to c = x
                        Ok(next) if !there => break Some(next),
                        Ok(next) if next.objective.value <= objective.value - 1e-4 * by * descent + slack => {
                            break Some(next);
                        }
                        Err(Error::Stopped) => return Err(Error::Stopped),
                        _ => {}
                    }
                }
                by /= 3.0;
                if by < shortest {
                    break None;
                }
            };
            match next {
                Some(next) => {
                    let falls = !there || objective.value - next.objective.value > DONE;
                    stalled = if falls { 0 } else { stalled + 1 };
                    (place, there) = (next, true);
                }
                None if there && descent < 1e-3 => return Ok(Level { place, slope }),
                None => return Err(self.lost(&place)),
            }
            (place, tried) = self.reduced(place, x, tried)?;
        }
        Err(self.lost(&place))
    }

    /// The place without its smallest direction, if that is small and F hardly larger there: near a singular matrix
    /// the chart of all directions is badly scaled, and the face is left again if F falls outward.
    fn reduced(&self, place: Place, x: f64, tried: f64) -> Result<(Place, f64), Error> {
        // a row that is turned to a correlation needs every direction
        if place.frame.rank <= 1 || matches!(self.scale, Scale::Correlation(..)) {
            return Ok((place, tried));
        }
        let Some((smallest, frame)) = place.frame.reduced(self.model.rms()) else {
            return Ok((place, tried));
        };
        let Some(frame) = self.scale.adjusted(&frame, x).filter(|_| smallest < tried) else {
            return Ok((place, tried));
        };
        match Place::at(self.model, place.beta.clone(), frame, COARSE) {
            Ok(next) if next.objective.value <= place.objective.value + HARDLY => Ok((next, tried)),
            Err(Error::Stopped) => Err(Error::Stopped),
            _ => Ok((place, 0.1 * smallest)),
        }
    }

    /// The frame with one more direction, if the Lagrangian falls outward.
    fn released(&self, place: &Place, slope: f64) -> Option<Frame> {
        let (k, r) = (place.frame.k, place.frame.rank);
        let mut outward = place.objective.outward.clone();
        if let Scale::Sd(i) = self.scale {
            // ∂c/∂Σ_ii = 1/(2Σ_ii)
            let t = place.frame.t();
            let variance: f64 = (0..k).map(|l| t[l * k + i].powi(2)).sum();
            let w = |a: usize| place.frame.w[a * k + i];
            for a in r..k {
                (r..k).for_each(|b| outward[a * k + b] -= slope * w(a) * w(b) / (2.0 * variance));
            }
        }
        let (least, vector) = place.frame.outward(&outward)?;
        (least < -1e-6).then(|| place.frame.released(&vector))
    }
}
