//! Newton's method for the covariance matrices: average information far away, the exact Hessian at the end, singular
//! matrices where the criterion wants them (docs/mixed.md, L0).

use certus::linalg;

use super::chart::Frame;
use super::derivatives::{Derivatives, Direction, directions, gammas, traces};
use super::error::Error;
use super::moments::Moments;
use super::point::{Criterion, Point};
use super::slopes::Slopes;
use super::statistics::Statistics;

/// No step is larger than this in any term's S.
const LONGEST: f64 = 3.0;
/// Below this decrement (twice the distance to the minimum of F, about) the exact Hessian takes over, unless
/// convergence is fast without.
const NEAR: f64 = 1e-9;
/// A decrement that falls to this part of itself in every step is as good as with the exact Hessian.
const FAST: f64 = 1e-4;
/// Below this decrement it does so wherever convergence is slow, and after this many steps everywhere.
const CLOSE: f64 = 0.1;
const PATIENCE: usize = 25;
/// Below this decrement there is nothing to gain.
const DONE: f64 = 1e-22;
/// A standard deviation below this part of σ (effects scaled by their rms) is tried at 0: early, because near a
/// singular matrix its range moves slowly in this chart.
const SMALL: f64 = 0.05;
/// Directions that may be released from singular matrices.
const RELEASES: usize = 10;
/// Where searches begin, in parts of σ (effects scaled by their rms); columns of Z up to which there are several;
/// minima that differ by less are one.
const STARTS: [f64; 3] = [0.5, 0.1, 3.0];
const CHEAP: usize = 2000;
const AGREE: f64 = 1e-7;
/// Steps at most.
const STEPS: usize = 1000;

/// A point with its first derivatives.
pub(super) struct Place<'a> {
    pub(super) frames: Vec<Frame>,
    pub(super) point: Point<'a>,
    pub(super) slopes: Slopes,
    /// WᵀΓW of every term.
    pub(super) gammas: Vec<Vec<f64>>,
}

/// Where the search ended.
pub(super) struct Found<'a> {
    pub(super) place: Place<'a>,
    pub(super) iterations: usize,
    pub(super) evaluations: usize,
    pub(super) decrement: f64,
}

impl<'a> Place<'a> {
    pub(super) fn new(point: Point<'a>, frames: Vec<Frame>) -> Self {
        let slopes = Slopes::new(&point);
        let gammas = gammas(&point, &slopes).iter().zip(&frames).map(|(g, frame)| frame.pulled(g)).collect();
        Self { frames, point, slopes, gammas }
    }

    pub(super) fn at(s: &'a Statistics, criterion: Criterion, frames: Vec<Frame>) -> Result<Self, Error> {
        let terms: Vec<Vec<f64>> = frames.iter().map(Frame::t).collect();
        Ok(Self::new(Point::new(s, criterion, &terms)?, frames))
    }

    /// The chart's bend added to a Hessian of affine Σ.
    pub(super) fn bent(&self, directions: &[Direction], mut hessian: Vec<f64>) -> Vec<f64> {
        let d = directions.len();
        for (b, v) in directions.iter().enumerate() {
            for (a, u) in directions.iter().enumerate().filter(|(_, u)| u.term == v.term) {
                hessian[b * d + a] += self.frames[u.term].bend(&self.gammas[u.term], &u.basis, &v.basis);
            }
        }
        hessian
    }
}

/// −H⁻¹g with the eigenvalues of H raised to a small part of the largest, no longer than `LONGEST` along any
/// eigenvector (where the criterion is flat, the others still move); and the decrement gᵀH⁻¹g.
pub(super) fn newton(h: &[f64], g: &[f64]) -> Option<(Vec<f64>, f64)> {
    let (values, vectors) = linalg::eigen(h, g.len())?;
    Some(step_along(&values, &vectors, g))
}

/// The same with the absolute values of the eigenvalues.
fn newton_by_size(h: &[f64], g: &[f64]) -> Option<(Vec<f64>, f64)> {
    let (values, vectors) = linalg::eigen(h, g.len())?;
    let sizes: Vec<f64> = values.iter().map(|value| value.abs()).collect();
    Some(step_along(&sizes, &vectors, g))
}

fn step_along(values: &[f64], vectors: &[f64], g: &[f64]) -> (Vec<f64>, f64) {
    let d = g.len();
    let floor = 1e-10 * values.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    let (mut step, mut decrement) = (vec![0.0; d], 0.0);
    for (value, v) in values.iter().zip(vectors.chunks_exact(d)) {
        let (along, value) = (linalg::dot(v, g), value.max(floor));
        if value > 0.0 {
            decrement += along * along / value;
            let by = (along / value).clamp(-LONGEST, LONGEST);
            step.iter_mut().zip(v).for_each(|(s, v)| *s -= by * v);
        }
    }
    (step, decrement)
}

/// S of every term from coordinates.
pub(super) fn unpacked(frames: &[Frame], directions: &[Direction], step: &[f64]) -> Vec<Vec<f64>> {
    let mut out: Vec<Vec<f64>> = frames.iter().map(|f| vec![0.0; f.k * f.k]).collect();
    for (v, x) in directions.iter().zip(step) {
        out[v.term].iter_mut().zip(&v.basis).for_each(|(s, b)| *s += x * b);
    }
    out
}

pub(super) fn moved(frames: &[Frame], s: &[Vec<f64>], by: f64) -> Option<Vec<Frame>> {
    frames
        .iter()
        .zip(s)
        .map(|(frame, s)| frame.moved(&s.iter().map(|x| by * x).collect::<Vec<_>>()))
        .collect()
}

/// The lowest minimum of the criterion that is found from several starts; from one where that takes long.
pub(super) fn search(s: &Statistics, criterion: Criterion) -> Result<Found<'_>, Error> {
    let starts = if s.layout.columns() <= CHEAP { &STARTS[..] } else { &STARTS[..1] };
    let rms = s.rms();
    let frames = |start: f64| rms.iter().map(|r| Frame::start(r, start)).collect();
    let mut best = search_from(s, criterion, frames(starts[0]));
    let mut evaluations = best.as_ref().map_or(0, |found| found.evaluations);
    for &start in &starts[1..] {
        let Ok(found) = search_from(s, criterion, frames(start)) else { continue };
        evaluations += found.evaluations;
        // the first wins where they agree
        let lower = |best: &Found<'_>| found.place.point.value < best.place.point.value - AGREE;
        if best.as_ref().map_or(true, lower) {
            best = Ok(found);
        }
    }
    best.map(|found| Found { evaluations, ..found })
}

/// Variances of terms with one effect each, relative to σ²; 0 is a small one.
pub(super) fn at_ratios(s: &Statistics, ratios: &[f64]) -> Vec<Frame> {
    let of = |(ratio, rms): (&f64, &Vec<f64>)| Frame::start(rms, (ratio.sqrt() * rms[0]).max(1e-3));
    ratios.iter().zip(&s.rms()).map(of).collect()
}

/// A minimum.
pub(super) fn search_from(
    s: &Statistics,
    criterion: Criterion,
    frames: Vec<Frame>,
) -> Result<Found<'_>, Error> {
    let rms = s.rms();
    let mut place = Place::at(s, criterion, frames)?;
    let (mut evaluations, mut last, mut exact) = (1, f64::INFINITY, None::<Vec<f64>>);
    let mut tried = vec![SMALL; rms.len()];
    let mut releases = 0;
    for iterations in 0..STEPS {
        let directions = directions(s, &place.frames);
        let derivatives = Derivatives::new(&place.point, &place.slopes, &directions);
        let g = &derivatives.gradient;
        let mut step = Vec::new();
        let mut decrement = 0.0;
        if !g.is_empty() {
            let failed = || Error::NotConverged { iterations, decrement: f64::NAN };
            let information = match &exact {
                Some(h) if h.len() == g.len() * g.len() => h.clone(),
                _ => place.bent(&directions, derivatives.average()),
            };
            (step, decrement) = newton(&information, g).ok_or_else(failed)?;
            // where the average information does not converge fast, the exact Hessian does
            let slow =
                decrement > 0.1 * last && decrement > 1e-12 && (decrement < CLOSE || iterations >= PATIENCE);
            if (decrement < NEAR && decrement > FAST * last && exact.is_none()) || slow {
                let e = traces(&Moments::new(&place.point, &place.slopes), &directions);
                let hessian = place.bent(&directions, derivatives.hessian(&e));
                // a saddle on the way is left by the average information
                exact = None;
                if linalg::extreme_eigenvalues(&hessian, g.len()).is_some_and(|(least, _)| least > 0.0) {
                    (step, decrement) = newton(&hessian, g).ok_or_else(failed)?;
                    exact = Some(hessian);
                } else if iterations >= PATIENCE {
                    // unless that takes too long, as in a narrow valley: then by the size of the curvature
                    (step, decrement) = newton_by_size(&hessian, g).ok_or_else(failed)?;
                }
            }
        }
        let stalled = decrement < 1e-12 && decrement > 0.25 * last;
        if decrement < DONE || stalled {
            match release(&place) {
                Some(_) if releases == RELEASES => return Err(Error::NotConverged { iterations, decrement }),
                Some(frames) => {
                    place = Place::at(s, criterion, frames)?;
                    (releases, last, exact, evaluations) =
                        (releases + 1, f64::INFINITY, None, evaluations + 1);
                    continue;
                }
                None => return Ok(Found { place, iterations, evaluations, decrement }),
            }
        }
        last = decrement;
        let s_step = unpacked(&place.frames, &directions, &step);
        let longest = s_step.iter().map(|s| linalg::dot(s, s).sqrt()).fold(0.0, f64::max);
        let mut by = (LONGEST / longest).min(1.0);
        let (value, shortest) = (place.point.value, 1e-9 * by);
        let descent = -linalg::dot(&step, g);
        let next = loop {
            let slack = 1e-12 * (1.0 + value.abs());
            let candidate = moved(&place.frames, &s_step, by).and_then(|frames| {
                evaluations += 1;
                let terms: Vec<Vec<f64>> = frames.iter().map(Frame::t).collect();
                let point = Point::new(s, criterion, &terms).ok()?;
                (point.value <= value - 1e-4 * by * descent + slack).then_some((point, frames))
            });
            if let Some((point, frames)) = candidate {
                break Some(Place::new(point, frames));
            }
            by /= 3.0;
            if by < shortest {
                break None;
            }
        };
        let Some(next) = next else {
            if decrement < 1e-8 {
                return Ok(Found { place, iterations, evaluations, decrement });
            }
            return Err(Error::NotConverged { iterations, decrement });
        };
        place = next;
        for term in 0..rms.len() {
            let Some((least, frame)) = place.frames[term].reduced(&rms[term]) else { continue };
            if least >= tried[term] {
                continue;
            }
            // the derivative at 0 must be positive
            let mut frames = place.frames.clone();
            frames[term] = frame;
            evaluations += 1;
            let singular = Place::at(s, criterion, frames)?;
            let outward = singular.frames[term].outward(&singular.gammas[term]);
            let better = singular.point.value <= place.point.value;
            if better && outward.is_some_and(|(least, _)| least > 0.0) {
                (place, last, exact) = (singular, f64::INFINITY, None);
            } else {
                tried[term] = 0.1 * least;
            }
        }
    }
    Err(Error::NotConverged { iterations: STEPS, decrement: last })
}

/// The frames with one more direction where the criterion falls off a singular matrix; nothing where it does not.
fn release(place: &Place<'_>) -> Option<Vec<Frame>> {
    for (term, frame) in place.frames.iter().enumerate() {
        if let Some((least, vector)) = frame.outward(&place.gammas[term])
            && least < -1e-6
        {
            let mut frames = place.frames.clone();
            frames[term] = frame.released(&vector);
            return Some(frames);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::sample::{Noise, random};
    use super::*;

    /// Small models with two effects, some of which have a singular estimate: no random matrix near or far has a
    /// smaller criterion, and at singular estimates no derivative leads away.
    #[test]
    fn nothing_nearby_is_better() {
        let mut noise = Noise(3);
        let mut singular = 0;
        for case in 0..40 {
            let (levels, rows) = if case % 4 < 2 { (5, 24) } else { (9, 120) };
            let s = random(&[levels], &[(0, 2)], rows, &mut noise);
            let criterion = if case % 2 == 0 { Criterion::Reml } else { Criterion::Ml };
            let found = search(&s, criterion).unwrap();
            let place = &found.place;
            let frame = &place.frames[0];
            if frame.rank < 2 {
                singular += 1;
                assert!(frame.outward(&place.gammas[0]).unwrap().0 >= -1e-6);
            }
            let t = frame.t();
            for trial in 0..400 {
                let size = 10f64.powf(-4.0 + 4.5 * f64::from(trial) / 400.0);
                let other: Vec<f64> = t.iter().map(|x| x + size * noise.next()).collect();
                let value = Point::new(&s, criterion, &[other]).unwrap().value;
                assert!(value >= place.point.value - 1e-9, "case {case}: {value} {}", place.point.value);
            }
        }
        assert!((8..33).contains(&singular), "{singular} singular");
    }
}
