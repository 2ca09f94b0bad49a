//! Modes that q does not describe: searches for maxima of the log density from q's far tail and from points that the
//! caller gives.

use super::curvature::{curved, polish};
use super::mode::{Place, Search, SearchStep};
use crate::certificate::words::{counted, nearest, percent};
use crate::error::Error;
use crate::factor::Workspace;
use crate::gaussian::Gaussian;
use crate::linalg;
use crate::moving::{Axes, Violation};
use crate::random::Random;
use crate::target::Target;

/// The draws of the far tail ([`crate::random::Purpose`] lists all streams).
const STREAM: u64 = 1 << 42;
/// How far out they are in every coordinate, in sds of q: each on both sides of its mean.
const FAR: [f64; 3] = [3.0, 9.0, 27.0];
/// Directions of each distance.
const DIRECTIONS: usize = 4;
/// Points given by the caller that are tried, at most.
const GIVEN: usize = 16;
/// Steps of a search, at most.
const STEPS: u64 = 300;
/// Maxima are different if they are further apart than this, in sds of q, …
const APART: f64 = 0.3;
/// … and the log density between them is lower than at both by this, in nats.
const BARRIER: f64 = 0.02;
/// Points between two maxima.
const BETWEEN: usize = 15;
/// A mode this close to q's mean, in sds of q, is described by q: its draws see it.
const SEEN: f64 = 2.5;
/// The least share of the posterior, compared with what q describes, that counts as a mode of its own.
const SHARE: f64 = 1e-3;
/// Beyond this many sds of q a search has run away.
const AWAY: f64 = 1e6;
/// Draws at which a symmetry is tested.
const TESTED: usize = 8;

/// A maximum of the log density.
#[derive(Clone, Debug, PartialEq)]
pub struct Mode {
    /// Where it is.
    pub point: Vec<f64>,
    /// log p there.
    pub log_density: f64,
    /// The logarithm of the integral of p around it, by Laplace's approximation.
    pub log_mass: f64,
    /// Its distance from q's mean, in sds of q.
    pub distance: f64,
    /// The symmetry of p that maps q's own mode to it, in words.
    pub symmetry: Option<String>,
}

/// What the searches found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Modes {
    /// Distinct maxima; the first is the one that a search from q's mean reaches, the others by their mass, largest
    /// first.
    pub found: Vec<Mode>,
    /// Searches that were made.
    pub starts: u64,
    /// Searches that ended at no maximum, because the log density keeps rising or the steps were used up.
    pub unended: u64,
    /// Of how many of `found`, beside the first, q's share of the posterior says that they matter.
    pub missed: usize,
    /// Two of the maxima with a valley between them: no log-concave density has that.
    pub violation: Option<Violation>,
}

impl Modes {
    /// Why there are several modes, if q misses any.
    pub fn several(&self) -> Option<String> {
        let missed = &self.found.get(1..).unwrap_or_default()[..self.missed];
        let (first, home) = (missed.first()?, self.found.first()?);
        let what = match self.missed {
            1 => "another mode".into(),
            n => format!("{n} other modes"),
        };
        let height = first.log_density - home.log_density;
        let relation = match &first.symmetry {
            Some(symmetry) => format!(
                "of equal height, which {symmetry} maps to q's own: a symmetry of the model, and the numbers \
                 describe one of the copies"
            ),
            None => format!(
                "whose log density is {} nats {}, with a share of about {} % of both (Laplace's approximation)",
                nearest(height.abs(), 3),
                if height > 0.0 { "higher" } else { "lower" },
                percent(self.share(1))
            ),
        };
        let place = nearest(first.distance, 2);
        Some(format!(
            "q describes one of several modes: {what} was found about {place} sd from q's mean, {relation}"
        ))
    }

    /// The share of mode k of what it and q's own mode have together, by Laplace's approximation.
    pub fn share(&self, k: usize) -> f64 {
        match (self.found.first(), self.found.get(k)) {
            (Some(home), Some(mode)) => 1.0 / (1.0 + (home.log_mass - mode.log_mass).exp()),
            _ => f64::NAN,
        }
    }

    /// "; one mode found from 13 starts", or "" if there was no search.
    pub(super) fn words(&self) -> String {
        let starts = counted(self.starts, "start");
        match (self.starts, self.found.len()) {
            (0, _) => String::new(),
            (_, 0) => format!("; no mode found from {starts}"),
            (_, 1) => format!("; one mode found from {starts}"),
            (_, n) => format!("; {n} modes found from {starts}, none of the others missed by q"),
        }
    }
}

/// A search for modes.
pub(super) struct ModeSearch<'a> {
    pub(super) target: &'a dyn Target,
    pub(super) q: &'a Gaussian,
    pub(super) random: Random,
    /// The log evidence of what q describes.
    pub(super) log_evidence: f64,
    /// More starts.
    pub(super) given: &'a [Vec<f64>],
    /// Asked before every step.
    pub(super) proceed: &'a dyn Fn() -> bool,
}

impl ModeSearch<'_> {
    /// Searches from q's mean, from its far tail and from what is given.
    pub(super) fn run(&self) -> Result<Modes, Error> {
        let mut modes = Modes::default();
        let mut from_mean = false;
        for start in self.starts() {
            if !(self.proceed)() {
                break;
            }
            modes.starts += 1;
            let Some(place) = self.climb(start)? else {
                modes.unended += 1;
                continue;
            };
            if let Some(mode) = self.new_mode(place, &mut modes)? {
                from_mean |= modes.starts == 1;
                modes.found.push(mode);
            }
        }
        // where the search from q's mean has no end, the closest is q's own
        let closest = (0..modes.found.len())
            .min_by(|&a, &b| modes.found[a].distance.total_cmp(&modes.found[b].distance));
        if let Some(closest) = closest.filter(|_| !from_mean) {
            modes.found.swap(0, closest);
        }
        let rest = modes.found.get_mut(1..).unwrap_or_default();
        rest.sort_by(|a, b| b.log_mass.total_cmp(&a.log_mass));
        let least = self.log_evidence + SHARE.ln();
        let missed = |mode: &Mode| mode.log_mass >= least && mode.distance > SEEN;
        // those that are missed come first
        rest.sort_by_key(|mode| !missed(mode));
        modes.missed = rest.iter().filter(|mode| missed(mode)).count();
        self.recognise(&mut modes)?;
        Ok(modes)
    }

    fn starts(&self) -> Vec<Vec<f64>> {
        let (q, dim) = (self.q, self.q.dim());
        let mut starts = vec![q.mean().to_vec()];
        starts.extend(self.given.iter().take(GIVEN).cloned());
        let directions = if dim == 1 { 1 } else { DIRECTIONS * FAR.len() };
        let mut u = vec![0.0; dim * directions];
        self.random.normals(STREAM, 0, dim, &mut u);
        for (k, far) in FAR.iter().enumerate() {
            let own = u.chunks_exact(dim).skip(k * DIRECTIONS % directions).take(DIRECTIONS.min(directions));
            for u in own {
                // one sd per coordinate, on average
                let length = (linalg::norm_squared(u) / dim as f64).sqrt().max(f64::MIN_POSITIVE);
                for sign in [far / length, -far / length] {
                    let x: Vec<f64> = u.iter().map(|u| sign * u).collect();
                    let mut z = vec![0.0; dim];
                    q.transform(&x, &mut z);
                    starts.push(z);
                }
            }
        }
        starts
    }

    /// Where a search from `start` ends, if it ends at a maximum within reach.
    fn climb(&self, start: Vec<f64>) -> Result<Option<Place>, Error> {
        let mut here = Place::at(self.target, start)?;
        // outside of the domain: closer to q
        for _ in 0..4 {
            if here.is_finite() {
                break;
            }
            let closer = here.point.iter().zip(self.q.mean()).map(|(z, m)| 0.5 * (z + m)).collect();
            here = Place::at(self.target, closer)?;
        }
        if !here.is_finite() {
            return Ok(None);
        }
        let mut search = Search::new(here);
        while search.iterations < STEPS && (self.proceed)() {
            if search.step(self.target)? != SearchStep::Moved {
                let mut here = search.here;
                polish(self.target, &mut here, &Axes::of(self.q.factor()))?;
                let near = self.distance(&here.point, self.q.mean()) < AWAY;
                return Ok(Some(here).filter(|here| near && here.is_finite()));
            }
        }
        Ok(None)
    }

    /// |C⁻¹(a − b)|.
    fn distance(&self, a: &[f64], b: &[f64]) -> f64 {
        let mut x: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
        match self.q.factor().solve(&mut x, &mut Workspace::default()) {
            true => linalg::norm_squared(&x).sqrt(),
            false => f64::NAN,
        }
    }

    /// The maximum at the end of a search, if it is one and none of those that are known.
    fn new_mode(&self, place: Place, modes: &mut Modes) -> Result<Option<Mode>, Error> {
        let known = &modes.found;
        let is_near =
            |place: &Place| known.iter().any(|mode| self.distance(&place.point, &mode.point) <= APART);
        if is_near(&place) {
            return Ok(None);
        }
        let mut search = Search::new(place);
        let there = curved(self.target, &search)?;
        if there.flat.is_some() || !there.convex {
            return Ok(None);
        }
        polish(self.target, &mut search.here, &there.axes)?;
        let here = search.here;
        if !here.is_finite() || is_near(&here) {
            return Ok(None);
        }
        // at a maximum a Newton step gains next to nothing
        let mut whitened = vec![0.0; here.point.len()];
        there.axes.add_apply_transpose(&here.slope, &mut whitened);
        if 0.5 * linalg::norm_squared(&whitened) > 0.5 * BARRIER {
            return Ok(None);
        }
        let mut violation = None;
        for mode in known {
            let valley = self.valley(&here, mode)?;
            if valley.is_nan() || valley <= BARRIER {
                return Ok(None);
            }
            // what is not finite between them may only be not defined
            let rounding = 1e-9 * here.value.abs().max(mode.log_density.abs());
            if violation.is_none() && valley.is_finite() && valley > rounding {
                violation = Some(Violation::Maxima([mode.point.clone(), here.point.clone()], valley));
            }
        }
        if modes.violation.is_none() {
            modes.violation = violation;
        }
        let around = there.axes.gaussian(&here.point)?;
        Ok(Some(Mode {
            log_density: -here.value,
            log_mass: -here.value + around.log_normaliser(),
            distance: self.distance(&here.point, self.q.mean()),
            point: here.point,
            symmetry: None,
        }))
    }

    /// By how many nats the log density on the segment between two maxima is lower than at both.
    fn valley(&self, here: &Place, mode: &Mode) -> Result<f64, Error> {
        let dim = here.point.len();
        let mut points = Vec::with_capacity(dim * BETWEEN);
        for k in 1..=BETWEEN {
            let t = k as f64 / (BETWEEN + 1) as f64;
            points.extend(here.point.iter().zip(&mode.point).map(|(a, b)| a + t * (b - a)));
        }
        let (mut values, mut gradients) = (vec![0.0; BETWEEN], vec![0.0; points.len()]);
        self.target.log_density(&points, &mut values, &mut gradients).map_err(Error::Target)?;
        let least = values
            .iter()
            .map(|v| if v.is_nan() { f64::NEG_INFINITY } else { *v })
            .fold(f64::INFINITY, f64::min);
        Ok((-here.value).min(mode.log_density) - least)
    }

    /// Modes of equal height that a permutation or a change of signs of the coordinates maps to the first: it is a
    /// symmetry if log p is the same at draws of q and at their images.
    fn recognise(&self, modes: &mut Modes) -> Result<(), Error> {
        let Some((home, others)) = modes.found.split_first_mut() else { return Ok(()) };
        let scale = self.q.sd();
        for mode in others {
            if (mode.log_density - home.log_density).abs() > 0.01 {
                continue;
            }
            let exchanged = |keep| permutation(&home.point, &mode.point, &scale, keep);
            let images = [
                exchanged(true).map(|image| (image, "relabelling coordinates")),
                exchanged(false).map(|image| (image, "relabelling coordinates")),
                signs(&home.point, &mode.point, &scale).map(|image| (image, "changing signs of coordinates")),
            ];
            for (image, words) in images.into_iter().flatten() {
                if self.is_symmetric(&image)? {
                    mode.symmetry = Some(words.into());
                    break;
                }
            }
        }
        Ok(())
    }

    fn is_symmetric(&self, image: &[(usize, f64)]) -> Result<bool, Error> {
        let dim = self.q.dim();
        let mut u = vec![0.0; dim * TESTED];
        self.random.normals(STREAM + 1, 0, dim, &mut u);
        let mut z = vec![0.0; dim * TESTED];
        self.q.transform(&u, &mut z);
        let mapped: Vec<f64> = z
            .chunks_exact(dim)
            .flat_map(|z| image.iter().map(|&(i, sign)| sign * z[i]).collect::<Vec<_>>())
            .collect();
        let values = |points: &[f64]| -> Result<Vec<f64>, Error> {
            let (mut values, mut gradients) = (vec![0.0; TESTED], vec![0.0; dim * TESTED]);
            self.target.log_density(points, &mut values, &mut gradients).map_err(Error::Target)?;
            Ok(values)
        };
        let (own, other) = (values(&z)?, values(&mapped)?);
        Ok(own.iter().zip(&other).all(|(a, b)| (a - b).abs() <= 1e-9 * (1.0 + a.abs())))
    }
}

/// Coordinate i of `b` is coordinate `image[i].0` of `a`, if the two have the same coordinates in another order; those
/// that may stay do so if they are kept, else they are exchanged with equal ones.
fn permutation(a: &[f64], b: &[f64], scale: &[f64], keep: bool) -> Option<Vec<(usize, f64)>> {
    let close = |i: usize, j: usize| (b[i] - a[j]).abs() <= 0.1 * scale[j];
    let stays = |i: usize| keep && close(i, i);
    let mut free: Vec<usize> = (0..a.len()).filter(|&j| !stays(j)).collect();
    let mut image = Vec::with_capacity(a.len());
    for i in 0..b.len() {
        if stays(i) {
            image.push((i, 1.0));
            continue;
        }
        let other = free.iter().position(|&j| j != i && close(i, j));
        let at = other.or_else(|| free.iter().position(|&j| close(i, j)))?;
        image.push((free.remove(at), 1.0));
    }
    Some(image)
}

/// Coordinate i of `b` is that of `a` or its negative, if that is so of all.
fn signs(a: &[f64], b: &[f64], scale: &[f64]) -> Option<Vec<(usize, f64)>> {
    let one = |i: usize| {
        let close = |x: f64| (b[i] - x).abs() <= 0.1 * scale[i];
        if close(a[i]) { Some((i, 1.0)) } else { close(-a[i]).then_some((i, -1.0)) }
    };
    (0..a.len()).map(one).collect()
}
