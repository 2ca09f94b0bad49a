//! Means and quantiles of functions against sums over a grid, and by hand.

use super::functions::{FunctionSize, LatentFunctions};
use super::normal::upper_tail;
use super::tests::{Coins, Truth, gaussian, problem, truth};
use super::*;

/// Functions of one latent.
struct Several<'a> {
    sizes: Vec<FunctionSize>,
    of: &'a (dyn Fn(f64) -> Vec<f64> + Sync),
}

impl LatentFunctions for Several<'_> {
    fn sizes(&self) -> &[FunctionSize] {
        &self.sizes
    }

    fn values(&self, points: &[f64], out: &mut [f64]) -> Result<(), Error> {
        for (z, out) in points.iter().zip(out.chunks_exact_mut(self.sizes.len())) {
            out.copy_from_slice(&(self.of)(*z));
        }
        Ok(())
    }
}

/// A posterior whose mode is so many sds from the mean of q, and p over a fine grid.
fn posterior(count: f64, lean: f64, shift: f64) -> (Coins, Gaussian, Truth, Vec<(f64, f64)>) {
    let target = Coins { rows: vec![(1.0, count, lean * count)], prior_sd: 3.0 };
    let spread = (count * lean * (1.0 - lean)).powf(-0.5);
    let mode = (lean / (1.0 - lean)).ln();
    let middle = mode + shift * spread;
    let found = truth(&target, middle, spread);
    let grid: Vec<(f64, f64)> = (-40_000..=40_000)
        .map(|i| mode + spread * f64::from(i) * 5e-4)
        .map(|z| (z, (-target.value(z).0 - found.log_evidence).exp()))
        .collect();
    let total: f64 = grid.iter().map(|g| g.1).sum();
    let grid = grid.into_iter().map(|(z, p)| (z, p / total)).collect();
    (target, gaussian(middle, spread), found, grid)
}

/// Part 7: posterior means of bounded functions against sums over a grid. A statement is false with probability at
/// most 1e-3 in each of 21 runs.
#[test]
fn means_of_functions_are_enclosed() {
    for (case, (count, lean)) in [(20.0, 0.6), (200.0, 0.7), (2000.0, 0.5)].into_iter().enumerate() {
        // off by a quarter of an sd, so that weights differ between x and −x
        let (target, q, found, grid) = posterior(count, lean, -0.25);
        let (middle, sd) = (q.mean()[0], q.sd()[0]);
        let of = move |z: f64| {
            let (odds, below) = (1.0 / (1.0 + (-2.0 * z).exp()), f64::from(u8::from(z < middle)));
            vec![odds, below, f64::from(u8::from(z > middle + 6.0 * sd)), 50.0 * (odds - below)]
        };
        let unit = FunctionSize::Between(0.0, 1.0);
        let functions =
            Several { sizes: vec![unit, unit, unit, FunctionSize::Between(-50.0, 50.0)], of: &of };
        let wanted: Vec<f64> = (0..4).map(|k| grid.iter().map(|(z, p)| p * of(*z)[k]).sum::<f64>()).collect();
        for seed in 0..7 {
            let settings = WeightSettings { pairs: 8000, delta: 1e-3, seed, attempt: 9 };
            let problem = problem(&target, &q, (found.neg_elbo, 1e-9));
            let enclosed = problem.certify_functions(&functions, &[], &settings).unwrap().unwrap();
            let enclosed: Vec<Enclosed> = enclosed.iter().map(|own| own.mean.unwrap()).collect();
            for (own, wanted) in enclosed.iter().zip(&wanted) {
                let room = 1e-6 * (1.0 + wanted.abs());
                assert!(
                    own.low - room <= *wanted && *wanted <= own.high + room,
                    "{case} {seed}: {own:?} {wanted}"
                );
                assert!(own.low <= own.estimate && own.estimate <= own.high);
            }
            let width = |k: usize| enclosed[k].high - enclosed[k].low;
            assert!(width(0) < [0.13, 0.032, 0.011][case] && width(1) < 0.32, "{case}: {enclosed:?}");
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

/// Parts 7 and 8: a linear function, one that grows no faster and one of which nothing is known, and quantiles of all.
#[test]
fn linear_functions_and_quantiles_are_enclosed() {
    for (case, (count, lean)) in [(60.0, 0.6), (200.0, 0.7), (2000.0, 0.5)].into_iter().enumerate() {
        let (target, q, found, grid) = posterior(count, lean, 0.1);
        let (middle, sd) = (q.mean()[0], q.sd()[0]);
        let of = |z: f64| vec![2.0 - 3.0 * z, (z + 0.3).abs() * (1.0 + z.sin()), (4.0 * z).exp()];
        let sizes = vec![
            FunctionSize::Normal { mean: 2.0 - 3.0 * middle, sd: 3.0 * sd },
            FunctionSize::Linear { centre: 0.0, constant: 2.0 * (middle + 0.3).abs(), slope: 2.0 * sd },
            FunctionSize::Unknown,
        ];
        let functions = Several { sizes, of: &of };
        let levels = [0.05, 0.5, 0.9];
        for seed in 0..7 {
            let settings = WeightSettings { pairs: 8000, delta: 1e-3, seed, attempt: 9 };
            let problem = problem(&target, &q, (found.neg_elbo, 1e-9));
            let enclosed = problem.certify_functions(&functions, &levels, &settings).unwrap().unwrap();
            assert!(enclosed[2].mean.is_none());
            for (k, own) in enclosed.iter().enumerate() {
                let wanted = grid.iter().map(|(z, p)| p * of(*z)[k]).sum::<f64>();
                let variance = grid.iter().map(|(z, p)| p * (of(*z)[k] - wanted).powi(2)).sum::<f64>();
                if let Some(mean) = own.mean {
                    let room = 1e-6 * (1.0 + wanted.abs());
                    assert!(
                        mean.low - room <= wanted && wanted <= mean.high + room,
                        "{case} {mean:?} {wanted}"
                    );
                    let widest = [0.4, 0.25, 0.2][case];
                    assert!(mean.high - mean.low < widest * variance.sqrt(), "{case} {k}: {mean:?}");
                }
                for (quantile, alpha) in own.quantiles.iter().zip(levels) {
                    let quantile = quantile.unwrap();
                    // half a point of the grid has a probability below 2e-4
                    let below =
                        |t: f64| grid.iter().filter(|(z, _)| of(*z)[k] <= t).map(|g| g.1).sum::<f64>();
                    let (least, most) = (below(quantile.low), below(quantile.high));
                    assert!(least <= alpha + 3e-4 && most >= alpha - 3e-4, "{case} {k}: {least} {most}");
                    assert!(most - least < [0.15, 0.08, 0.06][case], "{case} {k} {alpha}: {least} {most}");
                    let about = below(quantile.estimate);
                    assert!((about - alpha).abs() < 0.025, "{case} {k}: {about}");
                }
            }
            // the law under q helps
            let width = |k: usize| {
                let found = enclosed[k].quantiles[1].unwrap();
                let below = |t: f64| grid.iter().filter(|(z, _)| of(*z)[k] <= t).map(|g| g.1).sum::<f64>();
                below(found.high) - below(found.low)
            };
            assert!(width(0) < width(2), "{case}: {} {}", width(0), width(2));
        }
    }
}

/// What no draw tells is not said: a function that is not finite, and a quantile beyond the pilot's.
#[test]
fn what_is_not_enclosed() {
    let (target, q, found, _) = posterior(200.0, 0.7, 0.0);
    let of = |z: f64| vec![(z - 1.0).ln(), z.exp()];
    let functions = Several { sizes: vec![FunctionSize::Unknown; 2], of: &of };
    let settings = WeightSettings { pairs: 8000, delta: 1e-3, seed: 1, attempt: 9 };
    let problem = problem(&target, &q, (found.neg_elbo, 1e-9));
    let enclosed = problem.certify_functions(&functions, &[1e-4, 0.3], &settings).unwrap().unwrap();
    assert_eq!(enclosed[0].quantiles, [None, None]);
    assert!(enclosed[1].quantiles[0].is_none() && enclosed[1].quantiles[1].is_some());
    for levels in [[0.0], [1.0], [f64::NAN]] {
        assert!(problem.certify_functions(&functions, &levels, &settings).is_err());
    }
    for size in [
        FunctionSize::Between(1.0, 1.0),
        FunctionSize::Linear { centre: 0.0, constant: -1.0, slope: 1.0 },
        FunctionSize::Normal { mean: 0.0, sd: f64::INFINITY },
    ] {
        let functions = Several { sizes: vec![size, FunctionSize::Unknown], of: &of };
        assert!(problem.certify_functions(&functions, &[], &settings).is_err());
    }
}

/// p = q: all weights are 1, so that every part of the intervals can be written down.
#[test]
fn the_interval_of_a_function_by_hand() {
    let (target, q) = (Coins { rows: Vec::new(), prior_sd: 1.0 }, gaussian(0.0, 1.0));
    let of = |z: f64| vec![f64::from(u8::from(z < 0.4)), 0.5, 3.0 * z - 1.0];
    let sizes = vec![
        FunctionSize::Between(0.0, 1.0),
        FunctionSize::Between(-1.0, 3.0),
        FunctionSize::Linear { centre: 2.0, constant: 3.0, slope: 3.0 },
    ];
    let functions = Several { sizes, of: &of };
    let rounding = 1e-6;
    let problem = problem(&target, &q, (-0.5 * std::f64::consts::TAU.ln(), 0.3));
    let problem = WeightProblem { rounding, ..problem };
    let settings = WeightSettings { pairs: 8000, delta: 0.04, seed: 3, attempt: 5 };
    let alone = WeightProblem { reported: &[], ..problem };
    // ½Σf(±x) and the values themselves
    let values = |k: usize, which: u64, pairs: usize| {
        let z = alone.pairs(&settings, &[], which).latents(pairs);
        z.chunks_exact(2).map(|pair| [of(pair[0])[k], of(pair[1])[k]]).collect::<Vec<_>>()
    };
    let certificate = alone.certify(&settings).unwrap().unwrap();
    let (cap, n) = (certificate.tau.exp(), 8000.0);
    let half = |variance: f64, largest: f64, most: f64, delta: f64| {
        let clip = (3.0 * largest).clamp(0.05 * most, most);
        let unseen = 1.0 - (delta / 3.0).powf(1.0 / n);
        let log = (6.0 / delta).ln();
        (2.0 * variance * log / n).sqrt() + 14.0 * clip * log / (3.0 * (n - 1.0)) + (most - clip) * unseen
    };
    // δ/8 for Z; rounding is allowed for
    let y = half(0.0, 0.0, (cap - 1.0).max(1.0), 0.005);
    let slack = 4.0 * rounding * (1.0 + certificate.tau) * cap * 16.0;
    let z = ((1.0 - y - slack).max((-0.3_f64).exp()), 1.0 + y + slack + certificate.tail);
    let enclosed = problem.certify_functions(&functions, &[], &settings).unwrap().unwrap();
    let linear = tail_of(&alone, &settings, certificate.tau);
    for (k, (constant, slope)) in [(0.0, 0.0), (0.0, 0.0), (3.0, 3.0)].into_iter().enumerate() {
        let (pilot, main) = (values(k, 0, 1000), values(k, 1, 8000));
        let c = pilot.iter().flatten().sum::<f64>() / 2000.0;
        let constant = match k {
            0 => c.max(1.0 - c),
            1 => 2.5,
            _ => constant + (c - 2.0).abs(),
        };
        let m = constant + 4.0 * slope;
        let off = |pair: &[f64; 2]| 0.5 * ((pair[0] - c).clamp(-m, m) + (pair[1] - c).clamp(-m, m));
        let largest = pilot.iter().map(off).fold(0.0, |a: f64, b| a.max(b.abs()));
        let mean = main.iter().map(off).sum::<f64>() / n;
        let variance = main.iter().map(|pair| (off(pair) - mean).powi(2)).sum::<f64>() / (n - 1.0);
        // δ/12 for each of three functions
        let wide = half(variance, largest, cap * m, 0.04 / 12.0);
        let clipped = 2.0 * cap * ((-8.0_f64).exp() / std::f64::consts::TAU.sqrt() - 4.0 * upper_tail(4.0));
        let room = constant * certificate.tail + slope * (linear + clipped) + m * slack;
        let own = enclosed[k].mean.unwrap();
        for (end, by_hand) in [
            (own.high, c + ratio((mean - wide - room, mean + wide + room), z).1),
            (own.low, c + ratio((mean - wide - room, mean + wide + room), z).0),
            (own.estimate, c + mean),
        ] {
            assert!((end - by_hand).abs() < 1e-7, "{k}: {end} {by_hand} {own:?}");
        }
    }
}

/// T₁ at τ, from the sets of the certificate.
fn tail_of(problem: &WeightProblem<'_>, settings: &WeightSettings, tau: f64) -> f64 {
    let plan = problem.plan(&problem.pairs(settings, &[], 0), settings).unwrap();
    // all weights are 1: no draw is outside of any set but by rounding
    let main = problem.pairs(settings, &[], 1);
    let outside = main
        .fold(
            settings.pairs,
            || vec![0.0; plan.thresholds.len()],
            |out, pair| {
                for (out, (level, slope)) in out.iter_mut().zip(&plan.thresholds) {
                    *out += f64::from(u8::from(pair.v[0] > *level || pair.slopes[0] > *slope));
                }
            },
            |a, b| a.iter_mut().zip(&b).for_each(|(a, b)| *a += b),
        )
        .unwrap();
    let sets = problem.sets(&plan.thresholds, &outside, settings.pairs as f64, settings.delta);
    Tails::new(&sets, problem.kappa()).at(tau).moments[1]
}
