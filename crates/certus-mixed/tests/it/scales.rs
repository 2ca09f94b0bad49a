//! Unknown noise and dispersion, against closed forms, sums on fine grids and the likelihood with groups integrated
//! out.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use certus_likelihood::special::ln_gamma;
use certus_likelihood::{Likelihood, Linear, NegativeBinomial};
use certus_mixed::collapsed::{Collapsed, Order, SdPrior};
use certus_mixed::scales::{Care, Crossed, Dispersion, Grouping, LinearNoise, ScaleProblem};
use certus_models::{Design, Glm, Memory, Prior};

use crate::common::Dice;

/// Rows in groups of up to `most`, with two columns: linear responses with noise 0.6 or counts with dispersion k.
fn rows(
    dice: &mut Dice,
    groups: usize,
    most: usize,
    sd: f64,
    dispersion: Option<f64>,
) -> (Memory, Vec<usize>) {
    let (mut x, mut y, mut group) = (vec![], vec![], vec![]);
    for g in 0..groups {
        let u = dice.normal();
        for _ in 0..1 + (dice.uniform() * most as f64) as usize {
            let row = [dice.normal(), dice.normal()];
            let t = 0.4 + 0.7 * row[0] - 0.3 * row[1] + sd * u;
            y.push(match dispersion {
                None => t + 0.6 * dice.normal(),
                Some(k) => count(dice, t.exp(), k),
            });
            x.extend(row);
            group.push(g);
        }
    }
    (Memory { x, y, columns: 2, ..Memory::default() }, group)
}

/// A count with mean `rate` and dispersion k (infinite: Poisson), by inversion.
fn count(dice: &mut Dice, rate: f64, k: f64) -> f64 {
    let (mut left, mut y) = (dice.uniform(), 0.0);
    let mut mass = if k.is_finite() { (k / (k + rate)).powf(k) } else { (-rate).exp() };
    while left > mass && y < 2000.0 {
        left -= mass;
        y += 1.0;
        mass *= if k.is_finite() { (k + y - 1.0) / y * rate / (k + rate) } else { rate / y };
    }
    y
}

fn prior(sd: f64) -> Prior {
    Prior::independent(vec![0.0; 3], &[sd; 3]).unwrap()
}

fn design(memory: &Memory) -> Design {
    Design::new(Arc::new(memory.clone()), true)
}

/// With flat priors σ² is inverse gamma and β has a t distribution; the likelihood is largest at σ² = RSS/n.
#[test]
fn noise_without_groups_has_a_closed_form() {
    let mut dice = Dice::new(11);
    let (memory, _) = rows(&mut dice, 30, 1, 0.0, None);
    let n = memory.y.len() as f64;
    let model = LinearNoise::new(&design(&memory), None, prior(f64::INFINITY)).unwrap();
    let at_one = model.conditional_fit(&[0.0], &[0.0; 3], Care::Full).unwrap();
    let rss: f64 = (0..memory.y.len())
        .map(|i| {
            let fit =
                at_one.beta[0] + at_one.beta[1] * memory.x[2 * i] + at_one.beta[2] * memory.x[2 * i + 1];
            (memory.y[i] - fit).powi(2)
        })
        .sum();
    let found = model.estimate().unwrap();
    let best = (rss / n).sqrt();
    assert!((found.scales[0] / best - 1.0).abs() < 1e-6, "{} {best}", found.scales[0]);
    assert_eq!(found.intervals[0].proved, Ok(()));
    let [low, high] = found.intervals[0].sds;
    assert!(low < best && best < high && high / low < 1.0001, "{low} {best} {high}");
    assert!((found.log_errors[0] / (0.5 / n).sqrt() - 1.0).abs() < 1e-3);
    let by_hand = -0.5 * n * ((std::f64::consts::TAU * best * best).ln() + 1.0);
    assert!((found.log_likelihood - by_hand).abs() < 1e-9);

    // p(σ) constant: σ² ~ inverse gamma (ν/2, RSS/2), ν = n − d − 1
    let posterior = model.posterior(&[SdPrior::Flat]).unwrap();
    let nu = n - 4.0;
    let mean = (0.5 * rss).sqrt() * (ln_gamma(0.5 * (nu - 1.0)) - ln_gamma(0.5 * nu)).exp();
    let square = rss / (nu - 2.0);
    let (found_mean, found_sd) = posterior.scale(0);
    assert!((found_mean / mean - 1.0).abs() < 1e-5, "{found_mean} {mean}");
    assert!((found_sd / (square - mean * mean).sqrt() - 1.0).abs() < 1e-3);
    // β: t with ν degrees of freedom, variance RSS/(ν − 2)·(XᵀX)⁻¹
    let unit = at_one.lower[4].powi(2) + at_one.lower[1].powi(2);
    let (_, sd) = posterior.mixture.coefficient(1);
    assert!((sd / (square * unit).sqrt() - 1.0).abs() < 1e-4, "{sd}");
    // ∫ p(y|β, σ)dβ dσ = ½ Γ(ν/2)(RSS/2)^{−ν/2}(2π)^{(d−n)/2} det(XᵀX)^{−1/2}
    let evidence = -(2f64.ln()) + ln_gamma(0.5 * nu) - 0.5 * nu * (0.5 * rss).ln()
        + 0.5 * (3.0 - n) * std::f64::consts::TAU.ln()
        - 0.5 * at_one.log_det;
    assert!((posterior.mixture.log_evidence - evidence).abs() < 1e-4);
    // P(σ < median) by a fine sum
    let density = |t: f64| (-nu * t - 0.5 * rss * (-2.0 * t).exp()).exp();
    for p in [0.05, 0.5, 0.95] {
        let to = posterior.scale_quantile(0, p).ln();
        let sum = |from: f64, to: f64| {
            let h = (to - from) / 4000.0;
            (0..4000).map(|k| density(from + (f64::from(k) + 0.5) * h)).sum::<f64>() * h
        };
        let below = sum(-4.0, to) / (sum(-4.0, to) + sum(to, 3.0));
        assert!((below - p).abs() < 2e-4, "{p}: {below}");
    }
}

/// Responses of mean 10⁸ and sd about 1, with and without groups: what is found of the noise is that of the same
/// responses about 0, to the digits that the responses themselves have left, 10⁸ε = 2e-8; sums of squares of the
/// responses themselves would leave nothing at all.
#[test]
fn noise_far_from_zero_keeps_its_digits() {
    let mut dice = Dice::new(21);
    let (memory, group) = rows(&mut dice, 12, 6, 0.7, None);
    let mut far = memory.clone();
    far.y.iter_mut().for_each(|y| *y += 1e8);
    for grouping in [None, Some(Grouping { codes: &group, column: None, shift: 0.0 })] {
        let [near, far] = [&memory, &far].map(|memory| {
            LinearNoise::new(&design(memory), grouping, prior(f64::INFINITY)).unwrap().estimate().unwrap()
        });
        for (a, b) in near.scales.iter().zip(&far.scales) {
            assert!((a / b - 1.0).abs() < 1e-5, "{:?} {:?}", near.scales, far.scales);
        }
        assert!((far.beta[0] - near.beta[0] - 1e8).abs() < 1e-6, "{:?} {:?}", near.beta, far.beta);
        assert!((far.beta[1] - near.beta[1]).abs() < 1e-6);
        // a row's share of −F moves by |r|·1e-8 at most
        assert!((far.log_likelihood - near.log_likelihood).abs() < 1e-5);
        assert_eq!(far.intervals[0].proved.is_ok(), grouping.is_none());
    }
}

/// The closed form with groups is the likelihood with groups integrated out, for intercepts and slopes, weights and
/// offsets.
#[test]
fn noise_with_groups_is_the_collapsed_likelihood() {
    let mut dice = Dice::new(12);
    for effect in [None, Some(2)] {
        let (mut memory, group) = rows(&mut dice, 15, 6, 0.8, None);
        memory.weight = memory.y.iter().map(|_| 0.5 + dice.uniform()).collect();
        memory.offset = memory.y.iter().map(|_| 0.3 * dice.normal()).collect();
        let model = LinearNoise::new(
            &design(&memory),
            Some(Grouping { codes: &group, column: effect, shift: 0.0 }),
            prior(1.5),
        )
        .unwrap();
        for x in [[0.3, -0.4], [-1.0, 0.2], [2.0, 0.0]] {
            let logs = model.log_scales(&x);
            let conditional_fit = model.conditional_fit(&x, &[0.0; 3], Care::Full).unwrap();
            let likelihood: Arc<dyn Likelihood> = Arc::new(Linear::new(logs[1].exp()).unwrap());
            let collapsed = Collapsed::new(&design(&memory), &group, effect, likelihood, prior(1.5)).unwrap();
            let at = collapsed.at(&conditional_fit.beta, logs[0], Order::Second).unwrap();
            assert!((at.value - conditional_fit.value).abs() <= at.error + 1e-11 * at.value.abs(), "{x:?}");
            assert!(at.gradient[..3].iter().all(|g| g.abs() < 1e-7), "{:?}", at.gradient);
            let block: Vec<f64> = (0..9).map(|k| at.hessian[(k / 3) * 4 + k % 3]).collect();
            let log_det = certus::linalg::log_det_positive(&block, 3).unwrap();
            // the second derivatives of a sum that is right to 1e-10
            assert!(
                (log_det - conditional_fit.log_det).abs() < 1e-7,
                "{log_det} {}",
                conditional_fit.log_det
            );
            let [low, high] = model.bracket(&x, &conditional_fit.beta).unwrap();
            assert!(low <= at.value + at.error && at.value - at.error <= high && high - low < 1e-8);
        }
    }
}

/// Two scales: at the estimate all derivatives vanish; the posterior is that of a fine grid by hand.
#[test]
fn two_scales_of_a_linear_model() {
    let mut dice = Dice::new(13);
    let (memory, group) = rows(&mut dice, 20, 6, 0.7, None);
    let model = LinearNoise::new(
        &design(&memory),
        Some(Grouping { codes: &group, column: None, shift: 0.0 }),
        prior(2.5),
    )
    .unwrap();
    let found = model.estimate().unwrap();
    let likelihood = |sigma: f64| -> Collapsed {
        let likelihood: Arc<dyn Likelihood> = Arc::new(Linear::new(sigma).unwrap());
        Collapsed::new(&design(&memory), &group, None, likelihood, prior(2.5)).unwrap()
    };
    let value = |sigma: f64, order| likelihood(sigma).at(&found.beta, found.scales[0].ln(), order).unwrap();
    let here = value(found.scales[1], Order::Second);
    assert!(here.gradient.iter().all(|g| g.abs() < 2e-3), "{:?}", here.gradient);
    let noise = (value(found.scales[1] * 1.001, Order::Value).value
        - value(found.scales[1] / 1.001, Order::Value).value)
        / 0.002;
    assert!(noise.abs() < 2e-3, "{noise}");
    assert!(found.intervals.iter().all(|i| i.proved.is_err()));

    let priors = [SdPrior::HalfNormal(2.5), SdPrior::Exponential(2.0)];
    let posterior = model.posterior(&priors).unwrap();
    assert!(posterior.mixture.refinement < 1e-2);
    let mut sums = [0.0; 6];
    let mut marginals = [std::collections::BTreeMap::new(), std::collections::BTreeMap::new()];
    let step = 0.02;
    for i in -300..=120 {
        for j in -100..=60 {
            let (log_sd, log_sigma) = (f64::from(i) * step, f64::from(j) * step);
            let conditional_fit =
                model.conditional_fit(&[log_sd - log_sigma, log_sigma], &[0.0; 3], Care::Full).unwrap();
            let log = -conditional_fit.value - 0.5 * conditional_fit.log_det
                + 1.5 * std::f64::consts::TAU.ln()
                + priors[0].log_density(log_sd.exp())
                + priors[1].log_density(log_sigma.exp())
                + log_sd
                + log_sigma;
            let w = log.exp();
            let parts = [1.0, log_sd.exp(), (2.0 * log_sd).exp(), log_sigma.exp(), (2.0 * log_sigma).exp()];
            parts.iter().zip(&mut sums).for_each(|(p, s)| *s += w * p);
            sums[5] += w * conditional_fit.beta[1];
            *marginals[0].entry(i).or_insert(0.0) += w;
            *marginals[1].entry(j).or_insert(0.0) += w;
        }
    }
    let evidence = (sums[0] * step * step).ln();
    assert!((posterior.mixture.log_evidence - evidence).abs() < 1e-4);
    for j in 0..2 {
        let (mean, square) = (sums[1 + 2 * j] / sums[0], sums[2 + 2 * j] / sums[0]);
        let (m, s) = posterior.scale(j);
        let sd = (square - mean * mean).sqrt();
        assert!((m - mean).abs() < 1e-3 * sd && (s / sd - 1.0).abs() < 1e-3, "{j}: {m} {mean} {s} {sd}");
        // the share of the grid below a quantile, linear between its points
        for p in [0.05, 0.5, 0.95] {
            let q = posterior.scale_quantile(j, p).ln();
            let below: f64 = marginals[j]
                .iter()
                .map(|(at, w)| w / sums[0] * ((q - f64::from(*at) * step) / step + 0.5).clamp(0.0, 1.0))
                .sum();
            // a cubic through nodes h = 0.7 sds apart errs by 3h⁴/128 of a fourth derivative, 6e-3 of perhaps a fifth,
            // in the logarithm of the density
            assert!((below - p).abs() < 2e-3, "scale {j}, {p}: {below}");
        }
    }
    assert!((posterior.mixture.coefficient(1).0 - sums[5] / sums[0]).abs() < 1e-5);
    // effects: those of the collapsed model with every node's noise
    let effects = model.effects_of(0..model.groups(), &posterior.mixture.nodes, &posterior.scales);
    assert_eq!(effects.len(), 20);
    let mut means = vec![0.0; 20];
    let mut together = vec![0.0; 20];
    for (node, scales) in
        posterior.mixture.nodes.iter().zip(&posterior.scales).filter(|(n, _)| n.weight > 1e-6)
    {
        let mut one = posterior.mixture.clone();
        one.nodes = vec![node.clone()];
        one.nodes[0].weight = 1.0;
        for (g, effect) in likelihood(scales[1]).effects(&one).iter().enumerate() {
            means[g] += node.weight * effect.mean;
            together[g] += node.weight * (effect.covariance[0] + effect.mean * node.mean[0]);
        }
    }
    let level = posterior.mixture.coefficient(0).0;
    for ((effect, mean), together) in effects.iter().zip(means).zip(together) {
        assert!((effect.covariance[0] - (together - mean * level)).abs() < 1e-4, "{effect:?} {together}");
        assert!((effect.mean - mean).abs() < 1e-4, "{effect:?} {mean}");
        assert!(effect.quantiles[0] < effect.quantiles[1] && effect.quantiles[1] < effect.quantiles[2]);
    }
}

/// No effect: the group sd is 0 about half the time, and the noise is still found.
#[test]
fn no_effect_in_a_linear_model_is_zero() {
    let mut dice = Dice::new(14);
    let mut zeros = 0;
    for _ in 0..16 {
        let (memory, group) = rows(&mut dice, 30, 6, 0.0, None);
        let found = LinearNoise::new(
            &design(&memory),
            Some(Grouping { codes: &group, column: None, shift: 0.0 }),
            prior(2.5),
        )
        .unwrap()
        .estimate()
        .unwrap();
        assert!((found.scales[1] / 0.6 - 1.0).abs() < 0.4, "{found:?}");
        assert!(found.log_errors[1] < 0.2);
        zeros += usize::from(found.scales[0] == 0.0);
    }
    // 16 halves: outside once in 480 times
    assert!((3..=13).contains(&zeros), "{zeros}");
}

/// The dispersion of counts without groups: the maximum is where a search by hand finds it, the interval is proved, the
/// posterior is that of a fine grid.
#[test]
fn dispersion_without_groups() {
    let mut dice = Dice::new(15);
    for prior_sd in [2.5, f64::INFINITY] {
        let (memory, _) = rows(&mut dice, 150, 3, 0.0, Some(1.5));
        let likelihood: Arc<dyn Likelihood> = Arc::new(NegativeBinomial::new(1.0).unwrap());
        let model = Dispersion::Plain(Glm::new(design(&memory), likelihood, prior(prior_sd)).unwrap());
        let found = model.estimate(&[0.0; 3]).unwrap();
        let profile = |x: f64| model.conditional_fit(&[x], &found.beta, Care::Full).unwrap();
        let (mut low, mut high) = (-3.0, 2.0);
        for _ in 0..60 {
            let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
            if profile(a).value < profile(b).value { high = b } else { low = a }
        }
        let best = (0.5 * (low + high)).exp();
        assert!((found.scales[0] / best - 1.0).abs() < 1e-4, "{} {best}", found.scales[0]);
        // bounds of the profile hold, from its minimum and from a β near it
        for x in [-1.0, -0.2, 0.3] {
            let conditional_fit = profile(x);
            for off in [0.0, 1e-7] {
                let beta: Vec<f64> = conditional_fit.beta.iter().map(|b| b + off).collect();
                let [low, high] = model.bracket(&[x], &beta).unwrap();
                assert!(
                    low <= conditional_fit.value && conditional_fit.value <= high && high - low < 1e-6,
                    "{low} {high} {conditional_fit:?}"
                );
            }
        }
        let interval = &found.intervals[0];
        assert_eq!(interval.proved, Ok(()), "{interval:?}");
        assert!(interval.sds[0] < best && best < interval.sds[1] && interval.sds[1] / interval.sds[0] < 1.01);
        // four standard errors
        assert!((found.scales[0].ln() + 0.5 * 1.5_f64.ln()).abs() < 4.0 * found.log_errors[0]);
        let half = SdPrior::HalfNormal(1.0);
        let posterior = model.posterior(&[0.0; 3], &[half]).unwrap();
        let mut sums = [0.0; 3];
        for i in -100..=40 {
            let x = 0.03 * f64::from(i);
            let conditional_fit = profile(x);
            let log = -conditional_fit.value - 0.5 * conditional_fit.log_det
                + found.value
                + half.log_density(x.exp())
                + x;
            [1.0, x.exp(), (2.0 * x).exp()].iter().zip(&mut sums).for_each(|(p, s)| *s += p * log.exp());
        }
        let mean = sums[1] / sums[0];
        let sd = (sums[2] / sums[0] - mean * mean).sqrt();
        let (m, s) = posterior.scale(0);
        assert!((m - mean).abs() < 2e-3 * sd && (s / sd - 1.0).abs() < 2e-3, "{m} {mean} {s} {sd}");
    }
}

/// Poisson counts: the scale is 0 about half the time, and the posterior reaches down to it.
#[test]
fn poisson_counts_have_no_dispersion() {
    let mut dice = Dice::new(16);
    let mut zeros = 0;
    for _ in 0..12 {
        let (memory, _) = rows(&mut dice, 120, 1, 0.0, Some(f64::INFINITY));
        let likelihood: Arc<dyn Likelihood> = Arc::new(NegativeBinomial::new(1.0).unwrap());
        let model = Dispersion::Plain(Glm::new(design(&memory), likelihood, prior(2.5)).unwrap());
        let found = model.estimate(&[0.0; 3]).unwrap();
        assert_eq!(found.intervals[0].proved, Ok(()), "{found:?}");
        assert!(found.intervals[0].sds[1] < 0.8);
        zeros += usize::from(found.scales[0] == 0.0);
        let posterior = model.posterior(&[0.0; 3], &[SdPrior::HalfNormal(1.0)]).unwrap();
        let low = posterior.scale_quantile(0, 0.05);
        assert!(posterior.mixture.refinement < 1e-3 && low < 0.2, "{} {low}", posterior.mixture.refinement);
    }
    assert!((2..=10).contains(&zeros), "{zeros}");
}

/// Counts with groups: both scales are estimated where the derivatives vanish, and lie within four standard errors of
/// the truth.
#[test]
fn dispersion_with_groups() {
    let mut dice = Dice::new(17);
    let (memory, group) = rows(&mut dice, 120, 8, 0.6, Some(2.0));
    let collapsed = |k: f64| {
        let likelihood: Arc<dyn Likelihood> = Arc::new(NegativeBinomial::new(k).unwrap());
        Collapsed::new(&design(&memory), &group, None, likelihood, prior(2.5)).unwrap()
    };
    let model = Dispersion::Grouped(collapsed(1.0));
    let found = model.estimate(&[0.0; 3]).unwrap();
    let k = Dispersion::dispersion(found.scales[1]);
    let at = |k: f64, order| collapsed(k).at(&found.beta, found.scales[0].ln(), order).unwrap();
    let slopes = at(k, Order::Second).gradient;
    let last = (at(k * 1.001, Order::Value).value - at(k / 1.001, Order::Value).value) / 0.002;
    // 1e-3 standard errors at curvatures of a hundred
    assert!(slopes.iter().all(|g| g.abs() < 2e-2) && last.abs() < 2e-2, "{slopes:?} {last}");
    for (j, truth) in [0.6, 0.5_f64.sqrt()].iter().enumerate() {
        assert!((found.scales[j] / truth).ln().abs() < 4.0 * found.log_errors[j], "{found:?}");
    }
    let priors = [SdPrior::HalfNormal(2.5), SdPrior::HalfNormal(1.0)];
    let posterior = model.posterior(&found.beta, &priors).unwrap();
    assert!(posterior.mixture.refinement < 1e-2);
    for (j, truth) in [0.6, 0.5_f64.sqrt()].iter().enumerate() {
        let [low, high] = [0.0005, 0.9995].map(|p| posterior.scale_quantile(j, p));
        assert!(low < *truth && *truth < high, "{j}: {low} {high}");
        // near the estimate, where the likelihood has its weight
        let (mean, sd) = posterior.scale(j);
        assert!((mean - found.scales[j]).abs() < sd);
    }
    assert!(posterior.mixture.nodes.iter().all(|n| n.error < 1e-6));
    let effects = model.effects_of(0..model.groups(), &posterior.mixture.nodes, &posterior.scales).unwrap();
    assert_eq!(effects.len(), 120);
    assert!(effects.iter().all(|e| e.sd > 0.05 && e.sd < 0.7 && e.quantiles[0] < e.quantiles[2]));
    println!("{} evaluations, {} nodes", posterior.mixture.evaluations, posterior.mixture.nodes.len());
}

/// Crossed factors in a linear model: everything given both sds is Gaussian, so the marginal likelihood is that of a
/// dense covariance matrix by hand.
#[test]
fn crossed_factors_of_a_linear_model() {
    let mut dice = Dice::new(18);
    let (mut memory, group) = rows(&mut dice, 14, 8, 0.7, None);
    let n = memory.y.len();
    let level: Vec<usize> = (0..n).map(|_| ((dice.uniform() * 4.999) as usize).min(4)).collect();
    let effects = dice.normals(5);
    (0..n).for_each(|i| memory.y[i] += 0.8 * effects[level[i]]);
    let likelihood: Arc<dyn Likelihood> = Arc::new(Linear::new(0.6).unwrap());
    let model = Crossed::new(&design(&memory), &group, &level, likelihood, prior(2.5)).unwrap();
    // y ~ N(0, V) with β integrated over, too
    let by_hand = |x: [f64; 2]| -> f64 {
        let [one, two] = x.map(|x| (2.0 * x).exp());
        let mut v = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..n {
                let same = |a: &[usize]| f64::from(u8::from(a[i] == a[j]));
                let product = 1.0 + (0..2).map(|c| memory.x[2 * i + c] * memory.x[2 * j + c]).sum::<f64>();
                v[i * n + j] = 6.25 * product + one * same(&group) + two * same(&level);
            }
            v[i * n + i] += 0.36;
        }
        let mut l = v;
        assert!(certus::linalg::cholesky(&mut l, n));
        let log_det: f64 = (0..n).map(|j| 2.0 * l[j * (n + 1)].ln()).sum();
        let mut y = memory.y.clone();
        certus::linalg::solve_lower(&l, n, false, &mut y);
        -0.5 * (n as f64 * std::f64::consts::TAU.ln() + log_det + certus::linalg::norm_squared(&y))
    };
    for x in [[-0.3, -0.2], [0.4, -1.5]] {
        let conditional_fit = model.conditional_fit(&x, &[0.0; 8], Care::Full).unwrap();
        let ours =
            -conditional_fit.value - 0.5 * conditional_fit.log_det + 0.5 * 8.0 * std::f64::consts::TAU.ln();
        assert!((ours - by_hand(x)).abs() < 1e-6, "{ours} {}", by_hand(x));
    }
    let priors = [SdPrior::HalfNormal(2.5); 2];
    let posterior = model.posterior(&priors).unwrap();
    let (mut sums, step) = ([0.0; 3], 0.1);
    for i in -50..=25 {
        for j in -50..=25 {
            let x = [i, j].map(|k| f64::from(k) * step);
            let log =
                by_hand(x) + x.iter().map(|x| SdPrior::HalfNormal(2.5).log_density(x.exp()) + x).sum::<f64>();
            let w = log.exp();
            [1.0, x[0].exp(), x[1].exp()].iter().zip(&mut sums).for_each(|(p, s)| *s += p * w);
        }
    }
    assert!((posterior.mixture.log_evidence - (sums[0] * step * step).ln()).abs() < 1e-3);
    for j in 0..2 {
        let (mean, sd) = posterior.scale(j);
        assert!((mean - sums[1 + j] / sums[0]).abs() < 5e-3 * sd, "{j}: {mean} {}", sums[1 + j] / sums[0]);
    }
    let found = model.estimate().unwrap();
    assert!(found.scales.iter().all(|s| *s > 0.1 && *s < 3.0), "{found:?}");
    assert_eq!(model.effects(&posterior).len(), 14);
    // the effects of the smaller factor, which are known up to their mean, are near those drawn
    for (a, b) in [(0, 1), (2, 3)] {
        let [one, other] = [a, b].map(|k| posterior.mixture.coefficient(3 + k));
        let off = one.0 - other.0 - 0.8 * (effects[a] - effects[b]);
        assert!(off.abs() < 4.0 * one.1.hypot(other.1), "{off}");
    }
}

/// A balanced layout: `groups` groups of four rows with exact group means 1.5·(−1, …, 1) and residuals ±0.5; the
/// rows, the groups, and the sums of squares between and within the groups.
fn balanced(groups: usize) -> (Memory, Vec<usize>, f64, f64) {
    let mean = |g: usize| 1.5 * (2.0 * g as f64 / (groups - 1) as f64 - 1.0);
    let y = |i: usize| mean(i / 4) + if i.is_multiple_of(2) { 0.5 } else { -0.5 };
    let rows = 4 * groups;
    let memory = Memory { x: vec![], y: (0..rows).map(y).collect(), columns: 0, ..Memory::default() };
    let between = (0..groups).map(|g| 4.0 * mean(g).powi(2)).sum();
    (memory, (0..rows).map(|i| i / 4).collect(), between, 0.25 * rows as f64)
}

/// Flat priors and few groups: the density of the sd falls like a power, and its second moment is far out. With τ the
/// sd and μ flat, p(y | τ, σ) ∝ σ^{−3J}e^{−W/2σ²}(σ² + 4τ²)^{−(J−1)/2}e^{−B/2(σ² + 4τ²)}; sums by hand reach e³⁰.
#[test]
fn heavy_tails_keep_their_moments() {
    let flat = || Prior::independent(vec![0.0], &[f64::INFINITY]).unwrap();
    for groups in [4, 5, 7] {
        let (memory, group, between, within) = balanced(groups);
        let j = groups as f64;
        let log = |theta: f64, log_sigma: f64| {
            let (noise, total) =
                ((2.0 * log_sigma).exp(), (2.0 * log_sigma).exp() + 4.0 * (2.0 * theta).exp());
            let power = 3.0 * j * log_sigma + 0.5 * (j - 1.0) * total.ln();
            theta + log_sigma - power - 0.5 * (within / noise + between / total)
        };
        // mean and sd of τ
        let moments = |log_sigmas: &[f64]| {
            let (mut sums, h) = ([0.0; 3], 0.05);
            for k in -400..=600 {
                for log_sigma in log_sigmas {
                    let theta = f64::from(k) * h;
                    let weight = log(theta, *log_sigma).exp();
                    (0..3).for_each(|p| sums[p] += weight * (p as f64 * theta).exp());
                }
            }
            let [mean, square] = [sums[1], sums[2]].map(|s| s / sums[0]);
            (mean, (square - mean * mean).sqrt())
        };
        // σ known
        let likelihood: Arc<dyn Likelihood> = Arc::new(Linear::new(0.5).unwrap());
        let model = Collapsed::new(&design(&memory), &group, None, likelihood, flat()).unwrap();
        let one = model.posterior(&[0.0], 1.0, SdPrior::Flat).unwrap();
        // σ unknown
        let grouping = Some(Grouping { codes: &group, column: None, shift: 0.0 });
        let two = LinearNoise::new(&design(&memory), grouping, flat()).unwrap();
        let two = two.posterior(&[SdPrior::Flat; 2]).unwrap();
        if groups == 4 {
            // the sd of τ is infinite
            assert!(one.refinement.is_infinite() && two.mixture.refinement.is_infinite());
            continue;
        }
        let log_sigmas: Vec<f64> = (-60..=60).map(|k| f64::from(k) * 0.05).collect();
        let pairs = [
            (one.sd(), moments(&[0.5f64.ln()]), one.refinement, 1e-4),
            (two.scale(0), moments(&log_sigmas), two.mixture.refinement, 1e-3),
        ];
        for ((mean, sd), by_hand, refinement, tolerance) in pairs {
            assert!(refinement < 1e-2, "{groups}: {refinement}");
            let off = ((mean - by_hand.0).abs() / by_hand.1).max((sd / by_hand.1 - 1.0).abs());
            assert!(off < tolerance, "{groups}: {mean} {sd} {by_hand:?}");
        }
    }
}
