//! The maximum of the corrected log likelihood Λ + c (docs/mixed.md, X1).
//!
//! Newton's method with the exact gradient of Λ, differences of c with common random numbers, and the Hessian of Λ, to
//! which BFGS adds what c contributes. Independent sets of draws give the Monte-Carlo error of the maximum.

use certus::linalg;

use super::conditional::Conditional;
use super::correction::{Draws, Summary, Weights};
use super::error::Error;
use super::model::CrossedModel;
use super::search::{Found, Search, picked, solved, times, update};

/// Independent sets of draws.
const SETS: u64 = 4;
/// Step of the differences of c, in standard errors.
const DIFFERENCE: f64 = 0.05;
/// Steps with one set of draws, at most.
const ROUNDS: usize = 12;
/// The decrement that is close enough: 1e-4 standard errors.
const CLOSE: f64 = 1e-8;
/// The Monte-Carlo standard error of a log standard deviation (of a coefficient in its standard errors) beyond which
/// the number of draws is doubled.
const ERROR: f64 = 0.01;
/// Draws per set: the first number, and the last unless it is given.
const FIRST: usize = 64;
const LAST: usize = 2048;
/// Beyond these the weights say nothing.
pub(super) const WORST_K: f64 = 0.7;
pub(super) const LEAST_EFFICIENCY: f64 = 0.05;

/// How the correction is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// Draws of each of four independent sets; without it their number is doubled from 64 to at most 2048 until the
    /// Monte-Carlo error of every log standard deviation is below 0.01.
    pub draws: Option<usize>,
    /// The seed.
    pub seed: u64,
}

/// The maximum of Λ + c.
pub(super) struct Corrected<'a> {
    pub(super) at: Conditional<'a>,
    pub(super) hessian: Vec<f64>,
    /// Monte-Carlo standard errors of the free parameters.
    pub(super) noise: Vec<f64>,
    pub(super) summary: Summary,
    /// Draws of each set.
    pub(super) draws: usize,
    pub(super) sets: usize,
    pub(super) decrement: f64,
}

impl Sampling {
    pub(super) fn first(&self, usual: usize) -> Result<usize, Error> {
        let draws = self.draws.unwrap_or(usual);
        if draws.is_multiple_of(4) && (32..=65536).contains(&draws) {
            Ok(draws)
        } else {
            Err(Error::Draws { draws })
        }
    }
}

impl<'a> Search<'a, '_> {
    /// From the maximum of Λ to that of Λ + c.
    pub(super) fn correct(&mut self, found: Found<'a>, sampling: Sampling) -> Result<Corrected<'a>, Error> {
        let mut draws = sampling.first(FIRST)?;
        let (free, mut hessian) = (found.free, found.hessian);
        let mut at = found.at;
        loop {
            let steps = self.steps(&hessian, &free);
            let sets: Vec<Draws> =
                sets(self.model).map(|set| Draws::new(self.model, draws, sampling.seed, set)).collect();
            let weights =
                |at: &Conditional<'_>| sets.iter().map(|d| at.weights(d)).collect::<Result<Vec<_>, _>>();
            // weights that say nothing already at the maximum of Λ need no search
            let summary = Weights::joined(&weights(&at)?).summary();
            if !trusted(&summary) && sampling.draws.is_none() && 2 * draws <= LAST {
                draws *= 2;
                continue;
            }
            if !trusted(&summary) {
                let noise = vec![f64::INFINITY; free.len()];
                let sets = sets.len();
                return Ok(Corrected { at, hessian, noise, summary, draws, sets, decrement: f64::NAN });
            }
            let (next, decrement) = self.ascend(at, &free, &hessian, &steps, &sets)?;
            at = next;
            hessian = self.hessian(&at, &free, &steps.iter().map(|s| 0.2 * s).collect::<Vec<_>>())?;
            let noise = self.noise(&at, &free, &hessian, &steps, &sets)?;
            let enough =
                sampling.draws.is_some() || 2 * draws > LAST || self.precise(&at, &free, &hessian, &noise);
            if enough {
                let summary = Weights::joined(&weights(&at)?).summary();
                let sets = sets.len();
                return Ok(Corrected { at, hessian, noise, summary, draws, sets, decrement });
            }
            draws *= 2;
        }
    }

    /// Steps of differences: a part of the standard errors.
    fn steps(&self, hessian: &[f64], free: &[usize]) -> Vec<f64> {
        let d = free.len();
        let one = |j: usize| {
            let mut e = vec![0.0; d];
            e[j] = 1.0;
            solved(hessian, &e).map_or(1.0, |x| x[j].max(0.0).sqrt())
        };
        (0..d).map(|j| DIFFERENCE * one(j)).collect()
    }

    /// Newton's method on −Λ − c, c the mean over the sets.
    fn ascend(
        &mut self,
        mut at: Conditional<'a>,
        free: &[usize],
        hessian: &[f64],
        steps: &[f64],
        sets: &[Draws],
    ) -> Result<(Conditional<'a>, f64), Error> {
        let d = free.len();
        let mut inverse = vec![0.0; d * d];
        for j in 0..d {
            let mut e = vec![0.0; d];
            e[j] = 1.0;
            let column = solved(hessian, &e).ok_or_else(|| self.lost(&at, f64::NAN))?;
            inverse[j * d..][..d].copy_from_slice(&column);
        }
        let mut g = self.slope(&at, free, steps, sets)?;
        let mut decrement = f64::INFINITY;
        for _ in 0..ROUNDS {
            let direction = times(&inverse, &g);
            let now = linalg::dot(&direction, &g);
            if now < CLOSE {
                return Ok((at, now));
            }
            // c is known by its slopes only: steps of at most one standard error, less where they do not help
            let part = (1.0 / now.sqrt()).min(1.0) * if now > decrement { 0.5 } else { 1.0 };
            decrement = now;
            let mut x = at.parameters.clone();
            free.iter().zip(&direction).for_each(|(&j, s)| x[j] -= part * s);
            let next = self.evaluate(&x, Some(&at.v))?;
            let slope = self.slope(&next, free, steps, sets)?;
            let step: Vec<f64> = direction.iter().map(|s| -part * s).collect();
            let change: Vec<f64> = slope.iter().zip(&g).map(|(a, b)| a - b).collect();
            update(&mut inverse, d, &step, &change);
            (at, g) = (next, slope);
            self.iterations += 1;
            self.look(&at)?;
        }
        let now = linalg::dot(&times(&inverse, &g), &g);
        // a thousandth of a standard error is below what is printed
        if now < 1e-6 { Ok((at, now)) } else { Err(self.lost(&at, now)) }
    }

    /// −∇(Λ + c), c the mean over the sets.
    fn slope(
        &mut self,
        at: &Conditional<'a>,
        free: &[usize],
        steps: &[f64],
        sets: &[Draws],
    ) -> Result<Vec<f64>, Error> {
        let each = self.corrections(at, free, steps, sets)?;
        let mut g = picked(&at.gradient(), free);
        for set in &each {
            g.iter_mut().zip(set).for_each(|(g, c)| *g -= c / each.len() as f64);
        }
        Ok(g)
    }

    /// ∇c of every set, by central differences with the same draws.
    fn corrections(
        &mut self,
        at: &Conditional<'a>,
        free: &[usize],
        steps: &[f64],
        sets: &[Draws],
    ) -> Result<Vec<Vec<f64>>, Error> {
        let mut out = vec![vec![0.0; free.len()]; sets.len()];
        for (j, (&parameter, step)) in free.iter().zip(steps).enumerate() {
            for sign in [1.0, -1.0] {
                let mut x = at.parameters.clone();
                x[parameter] += sign * step;
                let moved = self.evaluate(&x, Some(&at.v))?;
                for (out, draws) in out.iter_mut().zip(sets) {
                    out[j] += sign * moved.weights(draws)?.correction() / (2.0 * step);
                }
            }
        }
        Ok(out)
    }

    /// Monte-Carlo standard errors of the maximum: the spread of H⁻¹∇c over the sets.
    fn noise(
        &mut self,
        at: &Conditional<'a>,
        free: &[usize],
        hessian: &[f64],
        steps: &[f64],
        sets: &[Draws],
    ) -> Result<Vec<f64>, Error> {
        let each = self.corrections(at, free, steps, sets)?;
        let moves: Option<Vec<Vec<f64>>> = each.iter().map(|g| solved(hessian, g)).collect();
        let moves = moves.ok_or_else(|| self.lost(at, f64::NAN))?;
        let n = moves.len() as f64;
        if moves.len() == 1 {
            return Ok(vec![0.0; free.len()]);
        }
        let of = |j: usize| {
            let mean = moves.iter().map(|m| m[j]).sum::<f64>() / n;
            let spread: f64 = moves.iter().map(|m| (m[j] - mean).powi(2)).sum();
            (spread / (n * (n - 1.0))).sqrt()
        };
        Ok((0..free.len()).map(of).collect())
    }

    /// Whether Monte-Carlo errors are small: 0.01 of every sd, and of the standard error of every coefficient.
    fn precise(&self, at: &Conditional<'_>, free: &[usize], hessian: &[f64], noise: &[f64]) -> bool {
        let layout = &self.model.layout;
        let errors = self.steps(hessian, free);
        free.iter().zip(noise).zip(errors).all(|((&j, noise), step)| {
            let error = step / DIFFERENCE;
            let place = layout.places.iter().rfind(|p| p.start <= j);
            let size = match place {
                None => error,
                Some(place) => {
                    let (i, _) =
                        super::layout::lower(place.effects).nth(j - place.start).expect("within the term");
                    let t = layout.term(place, &at.parameters);
                    let k = place.effects;
                    (0..k).map(|l| t[l * k + i].powi(2)).sum::<f64>().sqrt().max(error)
                }
            };
            *noise <= ERROR * size
        })
    }
}

/// The independent sets of draws; one where nothing is sampled.
pub(super) fn sets(model: &CrossedModel) -> std::ops::Range<u64> {
    0..if model.components.iter().any(|c| c.columns.len() > 1) { SETS } else { 1 }
}

/// Whether the weights can be trusted.
pub(super) fn trusted(summary: &Summary) -> bool {
    summary.k_hat.is_none_or(|k| k <= WORST_K) && summary.efficiency >= LEAST_EFFICIENCY
}
