//! What is proved of an estimate: a ball with exactly one stationary point (docs/mixed.md, L1), standard deviations of
//! 0 on the boundary (L2), or nothing, and why.

use super::ball::{Ball, Constants, Unproved, ball};
use super::boundary;
use super::chart::{Frame, unit};
use super::derivatives::{Direction, direction};
use super::enclosure::Enclosure;
use super::point::{Criterion, Point};
use super::rounding::{Verified, verified};
use super::search::Place;
use super::singular::singular;
use super::slopes::Slopes;
use super::small;
use super::statistics::Statistics;

/// What is proved of the estimated covariance matrices, rounding included (docs/mixed.md, R1).
#[derive(Debug, Clone, PartialEq)]
pub enum Proof {
    /// L1.
    Ball(Ball),
    /// L2: these terms are 0 at every minimum near the estimate.
    Boundary {
        /// The terms.
        zero: Vec<usize>,
        /// Per such term, the variance ratio up to which the criterion increases, with the other terms in `ball`.
        reach: Vec<f64>,
        /// L1 for the other terms, on the face where these are 0; nothing if there are no others.
        ball: Option<Ball>,
    },
    /// L4: singular covariance matrices of several effects; a local minimum with matrices of the same rank is in a ball
    /// whose `relative_error` is that of the variance of every effect, and no other local minimum is near.
    Singular {
        /// The terms with singular matrices, those whose sds are 0 among them.
        terms: Vec<usize>,
        /// The ball about the terms that have a variance.
        ball: Ball,
    },
    /// Nothing.
    None {
        /// Why.
        reason: Unproved,
    },
}

/// R1: the relative perturbations of the factor of S, of the levels' factors and of the sums; an allowance where it is
/// carried through inverses.
pub(super) fn perturbation(point: &Point<'_>) -> f64 {
    let s = point.statistics;
    let u = 0.5 * f64::EPSILON;
    let gamma = |n: f64| n * u / (1.0 - n * u);
    let factor = |q: f64, size: f64| gamma(q + 1.0) * size / (1.0 - gamma(q + 1.0));
    let k = s.layout.factors[0].effects as f64;
    let rows = (s.rows as f64).sqrt() + s.largest as f64 + 8.0;
    // effects that can hardly be told apart lose as many digits as their condition number has
    let conditions = s.conditions();
    let rest = conditions[1..].iter().copied().fold(1.0, f64::max);
    // the factor of S has the rounding of its blocks
    let blocks = point.sizes.iter().enumerate().map(|(c, size)| factor(s.components.size(c) as f64, *size));
    let levels = blocks.fold(0.0, f64::max) * rest + factor(k, point.largest_block) * conditions[0];
    // columns of X are rounded where they are centred and scaled
    (levels + gamma(rows)) * inflation(point) + 4.0 * u * s.spread * (s.weight / point.q).sqrt()
}

/// How much of XᵀV⁻¹X's digits cancel: the largest variance inflation of a coefficient, at least 1.
fn inflation(point: &Point<'_>) -> f64 {
    let p = point.statistics.layout.fixed;
    let width = p + 1;
    let l: Vec<f64> = (0..p * p).map(|e| point.lx[e / p * width + e % p]).collect();
    let mut most = 1.0f64;
    for j in 0..p {
        let size: f64 = (0..=j).map(|c| l[c * p + j] * l[c * p + j]).sum();
        let mut column = vec![0.0; p];
        column[j] = 1.0;
        small::forward(&l, p, &mut column);
        let inflated = size * small::inner(&column, &column);
        most = if inflated.is_nan() { f64::INFINITY } else { most.max(inflated) };
    }
    most
}

/// What can be proved at this place.
pub(super) fn prove(s: &Statistics, place: &Place<'_>) -> Proof {
    let none = |reason| Proof::None { reason };
    let zero: Vec<usize> =
        place.frames.iter().enumerate().filter(|(_, f)| f.rank < f.k).map(|(term, _)| term).collect();
    let Some((directions, mut at)) = derivatives(s, place.point.criterion, &place.frames, &zero) else {
        return none(Unproved::Rounding);
    };
    // σ is made of the Q of the estimate itself
    at.q_error += 1.01 * (place.point.q / at.q - 1.0).abs() * (1.0 + at.q_error);
    let units = units(s, &place.frames, &zero);
    let constants = Constants { directions: &directions, at: &at, units: &units };
    if zero.iter().any(|&term| place.frames[term].k > 1) {
        return match singular(&constants, &place.frames) {
            Ok(ball) => Proof::Singular { terms: zero, ball },
            Err(reason) => none(reason),
        };
    }
    let inside: Vec<usize> = (0..directions.len()).filter(|&i| !zero.contains(&directions[i].term)).collect();
    let ball = if inside.is_empty() { None } else { Some(ball(&constants, &inside)) };
    match (ball, zero.is_empty()) {
        (Some(Err(reason)), _) => none(reason),
        (Some(Ok(ball)), true) => Proof::Ball(ball),
        (ball, _) => {
            let ball = ball.and_then(Result::ok);
            match boundary::increasing(&constants, &inside, &zero, ball.as_ref()) {
                Ok(region) => {
                    let reach = zero
                        .iter()
                        .map(|&t| region.side * boundary::frame(s, t, zero.len()).powi(2))
                        .collect();
                    let ball = ball.map(|b| b.within(region.radius));
                    Proof::Boundary { zero, reach, ball }
                }
                Err(reason) => none(reason),
            }
        }
    }
}

/// Derivatives with bounds of their errors, in units of the estimate: Z ← ZW, so that T is the identity, or 0 for the
/// terms `zero`.
pub(super) fn derivatives(
    s: &Statistics,
    criterion: Criterion,
    frames: &[Frame],
    zero: &[usize],
) -> Option<(Vec<Direction>, Verified)> {
    let exact = Enclosure::new(s, &s.layout.blocks(&units(s, frames, zero)));
    let range = |f: &Frame| {
        let mut t = small::identity(f.k);
        t[f.rank * f.k..].fill(0.0);
        t
    };
    let terms: Vec<Vec<f64>> = frames.iter().map(range).collect();
    let point = Point::new(&exact.middle, criterion, &terms).ok()?;
    let slopes = Slopes::new(&point);
    let mut directions = Vec::new();
    for (term, frame) in frames.iter().enumerate() {
        let (factor, one) = (s.layout.places[term].factor, small::identity(frame.k));
        let outside = (frame.rank..frame.k).flat_map(|j| (j..frame.k).map(move |i| (i, j)));
        let basis = frame.basis().into_iter().chain(outside.map(|(i, j)| unit(frame.k, i, j)));
        directions.extend(basis.map(|b| direction(s, term, factor, &one, b)));
    }
    let at = verified(&exact, criterion, &point, &slopes, &directions)?;
    Some((directions, at))
}

/// W of every term: T, and what is outside of its range in units of L2 (for terms `zero`).
pub(super) fn units(s: &Statistics, frames: &[Frame], zero: &[usize]) -> Vec<Vec<f64>> {
    let of = |(t, f): (usize, &Frame)| {
        let mut w = f.w.clone();
        if f.rank == 0 && f.k == 1 {
            w[0] = boundary::frame(s, t, zero.len());
        } else if f.rank < f.k {
            let outside = &mut w[f.rank * f.k..];
            let unit = boundary::unit(s, t, zero.len(), outside);
            outside.iter_mut().for_each(|x| *x *= unit);
        }
        w
    };
    frames.iter().enumerate().map(of).collect()
}
