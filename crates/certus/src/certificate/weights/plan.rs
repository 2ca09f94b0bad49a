//! What pilot pairs choose: the thresholds of the sets, where weights are cut, how variables are clipped (math: D8).
//!
//! Any choice is valid, since every statement comes from other pairs; a good one makes intervals narrow.

use super::bounded::{Clip, Sums, probability_at_most};
use super::pairs::{Cut, Pair, Pairs, Variables};
use super::tail::{GoodSet, Tail, Tails};
use super::{REPORTED, WeightProblem, WeightSettings, XI};
use crate::error::Error;
use crate::parallel;

/// The weights are cut at e^τ with τ at most this.
pub(super) const LARGEST_TAU: f64 = 8.0;
/// Candidates for τ: every so many points of the grid of tails.
const STRIDE: usize = 40;
/// Pilot pairs, at least (but a quarter of the pairs will do) and at most; an eighth of the pairs in between.
const PILOT: (usize, usize) = (500, 4000);
/// Thresholds of the sets: quantiles of the pilot, and its largest value plus these parts of its distance from the
/// median.
const SHARES: [f64; 7] = [0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995];
const BEYOND: [f64; 4] = [0.0, 0.1, 0.25, 0.5];
/// Nothing is clipped.
const WHOLE: Clip = Clip { clip: f64::INFINITY, most: f64::INFINITY };

/// What pilot pairs choose.
pub(super) struct Plan {
    /// w₀ and r₀ of every set.
    pub(super) thresholds: Vec<(f64, f64)>,
    /// Where weights are cut; `None` if no tail is finite.
    pub(super) cut: Option<Cut>,
    /// The largest variables.
    pub(super) largest: Variables<f64>,
    /// The set that is closest to a finite tail.
    pub(super) closest: GoodSet,
}

impl Plan {
    /// How Y is recorded.
    pub(super) fn clip(&self, cut: Cut) -> Clip {
        Clip::of_pilot(self.largest.weight, cut.most(0).weight)
    }
}

/// Pilot pairs of a certificate with so many pairs.
pub(super) fn pilot_pairs(pairs: usize) -> usize {
    (pairs / 8).clamp(PILOT.0.min(pairs.div_ceil(4)), PILOT.1)
}

/// The set with the largest z − r₀.
pub(super) fn closest(sets: &[GoodSet]) -> GoodSet {
    let better = |a: &&GoodSet, b: &&GoodSet| (a.z - a.slope).total_cmp(&(b.z - b.slope));
    *sets.iter().max_by(better).expect("there are eleven")
}

pub(super) fn clips(largest: &Variables<f64>, most: &Variables<f64>) -> Variables<Clip> {
    let mut clips = Variables::all(Clip { clip: 0.0, most: 0.0 }, most.means.len());
    clips.zip(largest, |clip, largest| clip.clip = *largest);
    clips.zip(most, |clip, most| *clip = Clip::of_pilot(clip.clip, *most));
    clips
}

/// A pilot pair.
struct Drawn {
    v: [f64; 2],
    slopes: [f64; 2],
    along: Vec<f64>,
}

/// What the pilot has seen of a variable.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    sums: Sums,
    largest: f64,
}

/// The variables of the pilot with weights cut at e^τ.
fn seen(drawn: &[Drawn], cut: Cut) -> Variables<Seen> {
    let reported = drawn.first().map_or(0, |pair| pair.along.len());
    let (mut all, mut here) = (Variables::all(Seen::default(), reported), Variables::all(0.0, reported));
    for Drawn { v, slopes, along } in drawn {
        cut.of(&Pair { v: *v, slopes: *slopes, along }, &mut here);
        all.zip(&here, |seen, x| {
            seen.sums.add(*x, WHOLE);
            seen.largest = seen.largest.max(x.abs());
        });
    }
    all
}

fn largest(seen: &Variables<Seen>) -> Variables<f64> {
    let mut out = Variables::all(0.0, seen.means.len());
    out.zip(seen, |out, seen| *out = seen.largest);
    out
}

/// Half the width of the widest interval of a mean or an sd, in sds of q, that `n` pairs would give if their variables
/// were those of the `pilot` and Z were 1: T₁ and the interval of M for a mean, half of (T₀ + T₂)/2 and the interval
/// of S for an sd. If nothing is reported, T₀ and the interval of Y.
fn foreseen(pilot: (&Variables<Seen>, f64), cut: Cut, tail: &Tail, n: f64, delta: f64) -> f64 {
    let (seen, count) = pilot;
    let (reported, [t0, t1, t2]) = (seen.means.len(), tail.moments);
    let clips = clips(&largest(seen), &cut.most(reported));
    let each = REPORTED * delta / (2.0 * reported.max(1) as f64);
    let unseen = probability_at_most(0.0, n, each / 3.0);
    let half = |seen: &Seen, clip: &Clip| seen.sums.foreseen(count, n, *clip, each / 3.0, unseen);
    if reported == 0 {
        return t0 + half(&seen.weight, &clips.weight);
    }
    let means = seen.means.iter().zip(&clips.means).map(|(seen, clip)| t1 + half(seen, clip));
    let squares = seen.squares.iter().zip(&clips.squares);
    let sds = squares.map(|(seen, clip)| 0.5 * (0.5 * (t0 + t2) + half(seen, clip)));
    means.chain(sds).fold(0.0, f64::max)
}

impl WeightProblem<'_> {
    /// What the pilot's pairs choose for the main ones.
    pub(super) fn plan(&self, pilot: &Pairs<'_>, settings: &WeightSettings) -> Result<Plan, Error> {
        let keep = |pair: Pair<'_>| Drawn { v: pair.v, slopes: pair.slopes, along: pair.along.to_vec() };
        let drawn: Vec<Drawn> = pilot.each_in_order(pilot_pairs(settings.pairs), keep)?;
        let (thresholds, sets) = self.nested(&drawn, settings);
        let tails = Tails::new(&sets, self.kappa());
        let finite = |(_, tail): &(f64, Tail)| tail.is_finite();
        let candidates: Vec<(f64, Tail)> = tails.up_to(LARGEST_TAU).step_by(STRIDE).filter(finite).collect();
        let (pairs, count) = (settings.pairs as f64, drawn.len() as f64);
        let width = |i: usize| {
            let (cut, tail) = (Cut { tau: candidates[i].0, xi: XI }, &candidates[i].1);
            let seen = seen(&drawn, cut);
            (foreseen((&seen, count), cut, tail, pairs, settings.delta), cut, largest(&seen))
        };
        type Candidate = (f64, Cut, Variables<f64>);
        let narrower = |a: Candidate, b: Candidate| if b.0 < a.0 { b } else { a };
        let closest = closest(&sets);
        Ok(match parallel::reduce(candidates.len(), 1, &width, &narrower) {
            Some((_, cut, largest)) => Plan { thresholds, cut: Some(cut), largest, closest },
            None => {
                let largest = largest(&seen(&drawn, Cut { tau: LARGEST_TAU, xi: XI }));
                Plan { thresholds, cut: None, largest, closest }
            }
        })
    }

    /// Thresholds of nested sets, and the sets that the main pairs would give if they were like the pilot's.
    fn nested(&self, drawn: &[Drawn], settings: &WeightSettings) -> (Vec<(f64, f64)>, Vec<GoodSet>) {
        let points: Vec<[f64; 2]> =
            drawn.iter().flat_map(|pair| [0, 1].map(|i| [pair.v[i], pair.slopes[i]])).collect();
        let sorted = |column: usize| {
            let mut all: Vec<f64> = points.iter().map(|point| point[column]).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let (levels, slopes) = (sorted(0), sorted(1));
        let at = |all: &[f64], share: f64| all[((share * all.len() as f64) as usize).min(all.len() - 1)];
        let far = |all: &[f64], part: f64| {
            let largest = all[all.len() - 1];
            largest + part * (largest - at(all, 0.5))
        };
        let inner = SHARES.iter().map(|&share| (at(&levels, share), at(&slopes, share)));
        let outer = BEYOND.iter().map(|&part| (far(&levels, part), far(&slopes, part)));
        let thresholds: Vec<(f64, f64)> = inner.chain(outer).collect();
        let main = settings.pairs as f64;
        let outside: Vec<f64> = thresholds
            .iter()
            .map(|(level, slope)| {
                let count = points.iter().filter(|[v, r]| v > level || r > slope).count();
                ((count + 1) as f64 / points.len() as f64 * main).min(main)
            })
            .collect();
        let sets = self.sets(&thresholds, &outside, main, settings.delta);
        (thresholds, sets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pilot pairs and τ = 1: the half widths of a mean and of an sd, of which the larger counts; of Y where
    /// nothing is reported.
    #[test]
    fn widths_by_hand() {
        let (cut, e) = (Cut { tau: 1.0, xi: 4.0 }, 1.0_f64.exp());
        let drawn = |reported: usize| {
            let pair = |v, along: f64| Drawn { v, slopes: [0.0; 2], along: vec![along; reported] };
            [pair([0.2, 0.1], 1.5), pair([-0.1, 0.0], -0.5)]
        };
        let width = |moments, reported| {
            let tail = Tail { moments, entropy: 0.0 };
            foreseen((&seen(&drawn(reported), cut), 2.0), cut, &tail, 1000.0, 0.12)
        };
        // δ/4 for the mean, a third of it for either side and for what is clipped
        let half = |values: [f64; 2], most: f64, third: f64| {
            let (variance, log) = (0.5 * (values[0] - values[1]).powi(2), (2.0 / third).ln());
            let clip = (3.0 * values[0].abs().max(values[1].abs())).clamp(0.05 * most, most);
            (2.0 * variance * log / 1000.0).sqrt()
                + 14.0 * clip * log / (3.0 * 999.0)
                + (most - clip) * (1.0 - third.powf(1e-3))
        };
        let (a, b, c) = (0.2_f64.exp(), 0.1_f64.exp(), (-0.1_f64).exp());
        let weights = [0.5 * (a + b) - 1.0, 0.5 * (c + 1.0) - 1.0];
        let mean = half([0.5 * (a - b) * 1.5, 0.5 * (c - 1.0) * -0.5], 2.0 * e, 0.01);
        let square = half([weights[0] * 1.25, weights[1] * -0.75], 15.0 * (e - 1.0), 0.01);
        for (moments, by_hand) in
            [([0.01, 0.0, 0.05], 0.5 * (0.03 + square)), ([0.01, 0.7, 0.05], 0.7 + mean)]
        {
            assert!((width(moments, 1) / by_hand - 1.0).abs() < 1e-7, "{moments:?} {by_hand}");
        }
        let alone = 0.3 + half(weights, e - 1.0, 0.01);
        assert!((width([0.3, 0.0, 9.0], 0) / alone - 1.0).abs() < 1e-7, "{alone}");
    }
}
