//! Gradient, average information and Hessian of the criterion along directions of the terms' covariance matrices
//! (docs/mixed.md, (2)).

use super::chart::Frame;
use super::moments::Moments;
use super::point::Point;
use super::slopes::Slopes;
use super::small;
use super::statistics::Statistics;

/// E = WBWᵀ of one term, B of an orthonormal basis.
pub(super) struct Direction {
    pub(super) term: usize,
    pub(super) factor: usize,
    /// B.
    pub(super) basis: Vec<f64>,
    /// E, at its place in the factor's matrix.
    pub(super) e: Vec<f64>,
}

/// The directions in which the terms may move.
pub(super) fn directions(s: &Statistics, frames: &[Frame]) -> Vec<Direction> {
    let mut out = Vec::new();
    for (term, (frame, place)) in frames.iter().zip(&s.layout.places).enumerate() {
        for basis in frame.basis() {
            out.push(direction(s, term, place.factor, &frame.w, basis));
        }
    }
    out
}

/// One direction.
pub(super) fn direction(s: &Statistics, term: usize, factor: usize, w: &[f64], basis: Vec<f64>) -> Direction {
    let place = &s.layout.places[term];
    let mut e = vec![0.0; s.layout.factors[factor].effects.pow(2)];
    s.layout.embed(place, &small::congruence(w, &basis, place.effects), &mut e);
    Direction { term, factor, basis, e }
}

/// (2): derivatives of F = D + m log Q along directions, Σ affine.
pub(super) struct Derivatives {
    pub(super) gradient: Vec<f64>,
    /// ∂Q/Q.
    pub(super) q1: Vec<f64>,
    /// ∂²Q/Q.
    pub(super) q2: Vec<f64>,
    m: f64,
}

impl Derivatives {
    pub(super) fn new(point: &Point<'_>, slopes: &Slopes, directions: &[Direction]) -> Self {
        let (all, d, m) = (slopes.u.len(), directions.len(), point.freedom());
        let trace: Vec<f64> =
            directions.iter().map(|v| small::inner(&slopes.trace[v.factor], &v.e)).collect();
        let q1: Vec<f64> =
            directions.iter().map(|v| -small::inner(&slopes.outer[v.factor], &v.e) / point.q).collect();
        let mut moved = vec![0.0; all * d];
        for (v, moved) in directions.iter().zip(moved.chunks_exact_mut(all)) {
            let factor = point.statistics.layout.factors[v.factor];
            let (k, at) = (factor.effects, factor.start..factor.start + factor.columns());
            for (to, u) in moved[at.clone()].chunks_exact_mut(k).zip(slopes.u[at].chunks_exact(k)) {
                (0..k).for_each(|i| to[i] = (0..k).map(|l| v.e[l * k + i] * u[l]).sum());
            }
        }
        let image = slopes.times(point, &moved);
        let mut q2 = vec![0.0; d * d];
        for b in 0..d {
            for a in 0..=b {
                let sum = small::inner(&moved[a * all..][..all], &image[b * all..][..all]);
                (q2[b * d + a], q2[a * d + b]) = (2.0 * sum / point.q, 2.0 * sum / point.q);
            }
        }
        let gradient = trace.iter().zip(&q1).map(|(t, q)| t + m * q).collect();
        Self { gradient, q1, q2, m }
    }

    /// The average information m(q₂/2 − q₁q₁ᵀ).
    pub(super) fn average(&self) -> Vec<f64> {
        self.square(|a, b| self.m * (0.5 * self.q2[b * self.q1.len() + a] - self.q1[a] * self.q1[b]))
    }

    /// ∂²F = −E + m(q₂ − q₁q₁ᵀ).
    pub(super) fn hessian(&self, e: &[f64]) -> Vec<f64> {
        let d = self.q1.len();
        self.square(|a, b| -e[b * d + a] + self.m * (self.q2[b * d + a] - self.q1[a] * self.q1[b]))
    }

    fn square(&self, entry: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        let d = self.q1.len();
        (0..d * d).map(|i| entry(i % d, i / d)).collect()
    }
}

/// E_ab = tr(RE_aRE_b).
pub(super) fn traces(moments: &Moments, directions: &[Direction]) -> Vec<f64> {
    let d = directions.len();
    let mut out = vec![0.0; d * d];
    for (b, v) in directions.iter().enumerate() {
        for (a, u) in directions.iter().enumerate().take(b + 1) {
            let sum = moments.trace(u.factor, &u.e, v.factor, &v.e);
            (out[b * d + a], out[a * d + b]) = (sum, sum);
        }
    }
    out
}

/// ∂F/∂Σ of every term.
pub(super) fn gammas(point: &Point<'_>, slopes: &Slopes) -> Vec<Vec<f64>> {
    let (layout, m) = (&point.statistics.layout, point.freedom());
    let places = layout.places.iter();
    places
        .map(|place| {
            let (trace, outer) = (
                layout.part(place, &slopes.trace[place.factor]),
                layout.part(place, &slopes.outer[place.factor]),
            );
            trace.iter().zip(&outer).map(|(t, o)| t - m * o / point.q).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::point::Criterion;
    use super::super::sample::{Noise, random};
    use super::super::search::Place;
    use super::*;

    /// F at Σ + x·E of a direction with both signs, by an unsymmetric root of the matrix.
    fn value(s: &Statistics, criterion: Criterion, sigmas: &[Vec<f64>]) -> f64 {
        let roots: Vec<Vec<f64>> = sigmas
            .iter()
            .map(|m| {
                let k = m.len().isqrt();
                let mut l = m.clone();
                assert!(small::cholesky(&mut l, k), "{m:?}");
                (0..k).for_each(|j| (0..j).for_each(|i| l[j * k + i] = 0.0));
                l
            })
            .collect();
        Point::new(s, criterion, &roots).unwrap().value
    }

    fn check(s: &Statistics, criterion: Criterion, frames: Vec<Frame>, what: &str) {
        let place = Place::at(s, criterion, frames.clone()).unwrap();
        // directions in which Σ stays positive semidefinite are enough at a singular matrix: W positive definite there
        let directions = directions(s, &frames);
        let derivatives = Derivatives::new(&place.point, &place.slopes, &directions);
        let e = traces(&Moments::new(&place.point, &place.slopes), &directions);
        let (h, d) = (derivatives.hessian(&e), directions.len());
        let center: Vec<Vec<f64>> =
            frames.iter().map(|f| small::congruence(&f.t(), &small::identity(f.k), f.k)).collect();
        let at = |moves: &[(usize, f64)]| {
            let mut sigmas = center.clone();
            for &(i, x) in moves {
                let v = &directions[i];
                let e = s.layout.part(&s.layout.places[v.term], &v.e);
                sigmas[v.term].iter_mut().zip(&e).for_each(|(a, b)| *a += x * b);
            }
            value(s, criterion, &sigmas)
        };
        let (step, wide) = (1e-4, 2e-3);
        for a in 0..d {
            let slope = (8.0 * (at(&[(a, step)]) - at(&[(a, -step)]))
                - (at(&[(a, 2.0 * step)]) - at(&[(a, -2.0 * step)])))
                / (12.0 * step);
            let size = 1.0 + (derivatives.gradient[a] - derivatives.m * derivatives.q1[a]).abs();
            assert!(
                (slope - derivatives.gradient[a]).abs() < 1e-7 * size,
                "{what} {a}: {slope} {derivatives:?}"
            );
            for b in 0..=a {
                let mut sum = 0.0;
                for (x, y) in [(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)] {
                    sum += x * y * at(&[(a, x * wide), (b, y * wide)]);
                }
                let second = sum / (4.0 * wide * wide);
                let size = 1.0 + e[a * (d + 1)] + derivatives.q2[a * (d + 1)] * place.point.freedom();
                assert!(
                    (second - h[b * d + a]).abs() < 1e-4 * size,
                    "{what} {a} {b}: {second} {}",
                    h[b * d + a]
                );
            }
        }
    }

    impl std::fmt::Debug for Derivatives {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{:?} (∂Q/Q {:?})", self.gradient, self.q1)
        }
    }

    /// (2) against differences of (1): one to three effects, terms that share a factor, nested and crossed factors,
    /// dense and sparse meetings, scales on both sides of where the form of R changes.
    #[test]
    fn gradient_and_hessian_are_those_of_the_criterion() {
        let mut noise = Noise(7);
        type Case = (&'static [usize], &'static [(usize, usize)]);
        let cases: [Case; 8] = [
            (&[8], &[(0, 1)]),
            (&[8], &[(0, 2)]),
            (&[8], &[(0, 3)]),
            (&[8], &[(0, 1), (0, 1)]),
            (&[9, 4], &[(0, 1), (1, 1)]),
            (&[9, 4], &[(0, 2), (1, 1)]),
            (&[7, 5, 3], &[(0, 1), (1, 2), (2, 1)]),
            (&[60, 50], &[(0, 2), (1, 2)]),
        ];
        for (levels, terms) in cases {
            let s = random(levels, terms, if levels[0] > 20 { 150 } else { 60 }, &mut noise);
            for criterion in [Criterion::Reml, Criterion::Ml] {
                for scale in [0.2, 1.0, 5.0] {
                    let frames: Vec<Frame> = terms
                        .iter()
                        .map(|&(_, k)| {
                            let mut w: Vec<f64> = (0..k * k).map(|_| 0.4 * scale * noise.next()).collect();
                            (0..k).for_each(|i| w[i * (k + 1)] += scale);
                            Frame { k, rank: k, w }
                        })
                        .collect();
                    check(&s, criterion, frames, &format!("{levels:?} {terms:?} {criterion:?} {scale}"));
                }
            }
        }
    }
}
