//! Posterior means of bounded functions of the latents, such as predicted probabilities (math: D8, part 7).
//!
//! E_p f = c + E_q w(f − c)/Z for every c. With |f − c| ≤ m, the weights cut at e^τ leave out at most m E_q(w − e^τ)₊.

use super::bounded::{Clip, Sums};
use super::pairs::{Cut, Pair, Pairs};
use super::plan::{closest, pilot_pairs};
use super::tail::Tails;
use super::{
    EVIDENCE, Enclosed, REPORTED, WeightObstacle, WeightProblem, WeightSettings, WeightsDeclined, ratio,
};
use crate::error::Error;

/// Points that functions are evaluated at together.
const RUN: usize = 1024;

/// Functions of the latents, and bounds of their values.
pub trait BoundedFunctions: Sync {
    /// The smallest and the largest value that each can have.
    fn bounds(&self) -> &[(f64, f64)];

    /// All of them at points that follow each other, point after point.
    fn values(&self, points: &[f64], out: &mut [f64]) -> Result<(), Error>;
}

/// One function in the sums.
#[derive(Clone, Copy)]
struct Centred {
    /// c.
    centre: f64,
    /// m.
    most: f64,
    clip: Clip,
}

/// Sums over pairs.
struct Found {
    weight: Sums,
    functions: Vec<Sums>,
    outside: Vec<f64>,
}

/// w̄ at x and at −x.
fn cut_weights(pair: &Pair<'_>, cut: Cut) -> [f64; 2] {
    pair.v.map(|v| v.min(cut.tau).exp())
}

impl WeightProblem<'_> {
    /// The posterior means of functions in intervals that hold, all of them, with probability 1 − δ; or why there are
    /// none. The attempt must be one that nothing else was chosen by.
    pub fn certify_functions(
        &self,
        functions: &dyn BoundedFunctions,
        settings: &WeightSettings,
    ) -> Result<Result<Vec<Enclosed>, WeightsDeclined>, Error> {
        // of these functions and nothing else
        WeightProblem { reported: &[], ..*self }.certify_alone(functions, settings)
    }

    fn certify_alone(
        &self,
        functions: &dyn BoundedFunctions,
        settings: &WeightSettings,
    ) -> Result<Result<Vec<Enclosed>, WeightsDeclined>, Error> {
        self.check(settings)?;
        let bounds = functions.bounds();
        if let Some((low, high)) = bounds.iter().find(|(low, high)| !(low < high && (high - low).is_finite()))
        {
            return Err(Error::invalid("the bounds of a function", format!("{low}, {high}"), "low < high"));
        }
        let (pilot, main) = (self.pairs(settings, &[], 0), self.pairs(settings, &[], 1));
        let plan = self.plan(&pilot, settings)?;
        let none =
            |slope, z| WeightsDeclined { obstacle: WeightObstacle::Tail { slope, z }, kl_at_least: 0.0 };
        let Some(cut) = plan.cut else { return Ok(Err(none(plan.closest.slope, plan.closest.z))) };
        let few = pilot_pairs(settings.pairs);
        let centred = centred(&pilot, few, cut, functions)?;
        let (n, values) = (settings.pairs, evaluated(&main, settings.pairs, functions)?);
        let found = tally(&main, n, cut, &values, &centred, plan.clip(cut), &plan.thresholds)?;
        let (n, delta) = (n as f64, settings.delta);
        let sets = self.sets(&plan.thresholds, &found.outside, n, delta);
        let tail = Tails::new(&sets, self.kappa()).at(cut.tau);
        if !tail.is_finite() {
            let closest = closest(&sets);
            return Ok(Err(none(closest.slope, closest.z)));
        }
        let (slack, beyond) = (self.slack(cut), tail.moments[0]);
        let y = found.weight.interval(n, plan.clip(cut), EVIDENCE * delta);
        // Jensen: Z ≥ e^{−E W}
        let z = ((1.0 + y.0 - slack).max((-self.neg_elbo.1).exp()), 1.0 + y.1 + slack + beyond);
        if !(z.0 > 0.0 && z.0 <= z.1) {
            let obstacle = WeightObstacle::Contradiction { least: z.0, most: z.1 };
            return Ok(Err(WeightsDeclined { obstacle, kl_at_least: 0.0 }));
        }
        let each = REPORTED * delta / bounds.len().max(1) as f64;
        let about = 1.0 + found.weight.mean(n);
        let one = |((own, sums), &(low, high)): ((&Centred, &Sums), &(f64, f64))| {
            let v = sums.interval(n, own.clip, each);
            let room = own.most * (beyond + slack);
            let (a, b) = ratio((v.0 - room, v.1 + room), z);
            let (a, b) = ((own.centre + a).max(low), (own.centre + b).min(high));
            Enclosed { estimate: (own.centre + sums.mean(n) / about).clamp(a, b), low: a, high: b }
        };
        Ok(Ok(centred.iter().zip(&found.functions).zip(bounds).map(one).collect()))
    }
}

/// The values of the functions at both points of pairs `0..count`, pair after pair.
fn evaluated(pairs: &Pairs<'_>, count: usize, functions: &dyn BoundedFunctions) -> Result<Vec<f64>, Error> {
    let (d, k) = (pairs.problem.q.dim(), functions.bounds().len());
    let points = pairs.latents(count);
    let mut out = vec![0.0; 2 * count * k];
    for (points, out) in points.chunks(RUN * d).zip(out.chunks_mut(RUN * k.max(1))) {
        functions.values(points, out)?;
    }
    match out.iter().position(|x| !x.is_finite()) {
        Some(at) => {
            let place = format!("pair {}", at / (2 * k));
            Err(Error::NonFinite { what: "a function of the latents", value: out[at], place })
        }
        None => Ok(out),
    }
}

/// c is the pilot's estimate of E_p f, and the clip three times its largest w̄(f − c).
fn centred(
    pilot: &Pairs<'_>,
    count: usize,
    cut: Cut,
    functions: &dyn BoundedFunctions,
) -> Result<Vec<Centred>, Error> {
    let bounds = functions.bounds();
    let (k, values) = (bounds.len(), evaluated(pilot, count, functions)?);
    let weights: Vec<[f64; 2]> = pilot.each_in_order(count, |pair| cut_weights(&pair, cut))?;
    let at = |pair: usize, which: usize, f: usize| values[(2 * pair + which) * k + f];
    let total: f64 = weights.iter().map(|[a, b]| a + b).sum();
    let centred = bounds.iter().enumerate().map(|(f, (low, high))| {
        let each = weights.iter().enumerate();
        let sum: f64 = each.clone().map(|(p, [a, b])| a * at(p, 0, f) + b * at(p, 1, f)).sum();
        let centre = (sum / total).clamp(*low, *high);
        let size = |(p, [a, b]): (usize, &[f64; 2])| {
            (0.5 * (a * (at(p, 0, f) - centre) + b * (at(p, 1, f) - centre))).abs()
        };
        let most = (high - centre).max(centre - low);
        let clip = Clip::of_pilot(each.map(size).fold(0.0, f64::max), cut.tau.exp() * most);
        Centred { centre, most, clip }
    });
    Ok(centred.collect())
}

fn tally(
    main: &Pairs<'_>,
    count: usize,
    cut: Cut,
    values: &[f64],
    centred: &[Centred],
    clip: Clip,
    sets: &[(f64, f64)],
) -> Result<Found, Error> {
    let k = centred.len();
    let nothing = || Found {
        weight: Sums::default(),
        functions: vec![Sums::default(); k],
        outside: vec![0.0; sets.len()],
    };
    let visit = |found: &mut Found, pair: Pair<'_>| {
        let [a, b] = cut_weights(&pair, cut);
        found.weight.add(0.5 * (a + b) - 1.0, clip);
        let (plus, minus) = values[2 * pair.index * k..][..2 * k].split_at(k);
        for (f, own) in centred.iter().enumerate() {
            let v = 0.5 * (a * (plus[f] - own.centre) + b * (minus[f] - own.centre));
            found.functions[f].add(v, own.clip);
        }
        for (outside, (level, slope)) in found.outside.iter_mut().zip(sets) {
            *outside += f64::from(u8::from(pair.v[0] > *level || pair.slopes[0] > *slope));
        }
    };
    main.fold(count, nothing, visit, |a, b| {
        a.weight.join(&b.weight);
        a.functions.iter_mut().zip(&b.functions).for_each(|(a, b)| a.join(b));
        a.outside.iter_mut().zip(&b.outside).for_each(|(a, b)| *a += b);
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Coins, gaussian, problem, truth};
    use super::*;
    use crate::gaussian::Gaussian;

    /// σ(2z), {z < q's mean} and {z > 6 sds}, a difference of two of them in units of its own.
    struct Some4 {
        middle: f64,
        far: f64,
        bounds: [(f64, f64); 4],
    }

    impl Some4 {
        fn new(q: &Gaussian) -> Self {
            let middle = q.mean()[0];
            let far = middle + 6.0 * q.sd()[0];
            Self { middle, far, bounds: [(0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (-50.0, 50.0)] }
        }

        fn at(&self, z: f64) -> [f64; 4] {
            let (odds, below) = (1.0 / (1.0 + (-2.0 * z).exp()), f64::from(u8::from(z < self.middle)));
            [odds, below, f64::from(u8::from(z > self.far)), 50.0 * (odds - below)]
        }
    }

    impl BoundedFunctions for Some4 {
        fn bounds(&self) -> &[(f64, f64)] {
            &self.bounds
        }

        fn values(&self, points: &[f64], out: &mut [f64]) -> Result<(), Error> {
            for (z, out) in points.iter().zip(out.chunks_exact_mut(4)) {
                out.copy_from_slice(&self.at(*z));
            }
            Ok(())
        }
    }

    /// Part 7: posterior means of bounded functions against sums over a grid. A statement is false with probability at
    /// most 1e-3 in each of 21 runs.
    #[test]
    fn means_of_functions_are_enclosed() {
        for (case, (count, lean)) in [(20.0, 0.6), (200.0, 0.7), (2000.0, 0.5)].into_iter().enumerate() {
            let target = Coins { rows: vec![(1.0, count, lean * count)], prior_sd: 3.0 };
            let spread = (count * lean * (1.0 - lean)).powf(-0.5);
            let mode = (lean / (1.0 - lean)).ln();
            // off by a quarter of an sd, so that weights differ between x and −x
            let middle = mode - 0.25 * spread;
            let q = gaussian(middle, spread);
            let found = truth(&target, middle, spread);
            let functions = Some4::new(&q);
            let grid: Vec<(f64, f64)> = (-40_000..=40_000)
                .map(|i| mode + spread * f64::from(i) * 5e-4)
                .map(|z| (z, (-target.value(z).0 - found.log_evidence).exp()))
                .collect();
            let total: f64 = grid.iter().map(|g| g.1).sum();
            let mean = |k: usize| grid.iter().map(|(z, p)| p * functions.at(*z)[k]).sum::<f64>() / total;
            let wanted = [0, 1, 2, 3].map(mean);
            for seed in 0..7 {
                let settings = WeightSettings { pairs: 8000, delta: 1e-3, seed, attempt: 9 };
                let problem = problem(&target, &q, (found.neg_elbo, 1e-9));
                let enclosed = problem.certify_functions(&functions, &settings).unwrap().unwrap();
                for (own, wanted) in enclosed.iter().zip(wanted) {
                    let room = 1e-6 * (1.0 + wanted.abs());
                    assert!(
                        own.low - room <= wanted && wanted <= own.high + room,
                        "{case} {seed}: {own:?} {wanted}"
                    );
                    assert!(own.low <= own.estimate && own.estimate <= own.high);
                }
                let width = |k: usize| enclosed[k].high - enclosed[k].low;
                assert!(width(0) < [0.12, 0.03, 0.01][case] && width(1) < 0.3, "{case}: {enclosed:?}");
                // what no draw sees is not less than what is cut off
                let alone = WeightProblem { reported: &[], ..problem };
                let tail = alone.certify(&settings).unwrap().unwrap().tail;
                assert!(enclosed[2].high > 0.5 * tail && enclosed[2].low == 0.0, "{tail} {enclosed:?}");
                // units do not matter
                let [low, high] = [enclosed[3].low, enclosed[3].high].map(|x| x / 50.0);
                assert!(low >= enclosed[0].low - enclosed[1].high - 1e-9 - width(1), "{low}");
                assert!(high <= enclosed[0].high - enclosed[1].low + 1e-9 + width(1), "{high}");
            }
        }
    }

    /// p = q: all weights are 1, so that every part of the interval can be written down.
    #[test]
    fn the_interval_of_a_function_by_hand() {
        struct Below;
        impl BoundedFunctions for Below {
            fn bounds(&self) -> &[(f64, f64)] {
                &[(0.0, 1.0), (-1.0, 3.0)]
            }

            fn values(&self, points: &[f64], out: &mut [f64]) -> Result<(), Error> {
                for (z, out) in points.iter().zip(out.chunks_exact_mut(2)) {
                    out.copy_from_slice(&[f64::from(u8::from(*z < 0.4)), 0.5]);
                }
                Ok(())
            }
        }
        let (target, q) = (Coins { rows: Vec::new(), prior_sd: 1.0 }, gaussian(0.0, 1.0));
        let rounding = 1e-6;
        let problem = problem(&target, &q, (-0.5 * std::f64::consts::TAU.ln(), 0.3));
        let problem = WeightProblem { rounding, ..problem };
        let settings = WeightSettings { pairs: 8000, delta: 0.04, seed: 3, attempt: 5 };
        let alone = WeightProblem { reported: &[], ..problem };
        // ½Σ{±x < 0.4}
        let half_below = |z: &f64| 0.5 * f64::from(u8::from(*z < 0.4));
        let below = |which: u64, pairs: usize| {
            let z = alone.pairs(&settings, &[], which).latents(pairs);
            z.chunks_exact(2).map(|pair| pair.iter().map(half_below).sum()).collect::<Vec<f64>>()
        };
        let (pilot, main) = (below(0, 1000), below(1, 8000));
        let (n, c) = (8000.0, pilot.iter().sum::<f64>() / 1000.0);
        let mean = main.iter().map(|f| f - c).sum::<f64>() / n;
        let variance = main.iter().map(|f| (f - c - mean).powi(2)).sum::<f64>() / (n - 1.0);
        // the same plan and the same pairs
        let certificate = alone.certify(&settings).unwrap().unwrap();
        let (cap, m) = (certificate.tau.exp(), c.max(1.0 - c));
        let half = |variance: f64, largest: f64, most: f64, delta: f64| {
            let clip = (3.0 * largest).clamp(0.05 * most, most);
            let unseen = 1.0 - (delta / 3.0).powf(1.0 / n);
            let log = (6.0 / delta).ln();
            (2.0 * variance * log / n).sqrt() + 14.0 * clip * log / (3.0 * (n - 1.0)) + (most - clip) * unseen
        };
        let largest = pilot.iter().map(|f| (f - c).abs()).fold(0.0, f64::max);
        // δ/2 for two functions, δ/8 for Z
        let wide = half(variance, largest, cap * m, 0.01);
        let z = half(0.0, 0.0, (cap - 1.0).max(1.0), 0.005);
        // rounding is allowed for
        let slack = 4.0 * rounding * (1.0 + certificate.tau) * cap * 16.0;
        let z = ((1.0 - z - slack).max((-0.3_f64).exp()), 1.0 + z + slack + certificate.tail);
        let enclosed = problem.certify_functions(&Below, &settings).unwrap().unwrap();
        let room = m * (certificate.tail + slack);
        for (end, by_hand) in [
            (enclosed[0].high, c + ratio((mean - wide - room, mean + wide + room), z).1),
            (enclosed[0].low, c + ratio((mean - wide - room, mean + wide + room), z).0),
            (enclosed[0].estimate, c + mean),
            (enclosed[1].estimate, 0.5),
        ] {
            assert!((end - by_hand).abs() < 1e-8, "{end} {by_hand} {enclosed:?}");
        }
    }
}
