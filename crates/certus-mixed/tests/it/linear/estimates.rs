//! Estimates against lme4 1.1-31 (bobyqa, rhoend 1e-10), a 40-digit root and closed forms.
#![allow(clippy::unwrap_used)]

use certus_mixed::linear::{
    Criterion, Design, Error, Proof, Row, Scale, Statistics, Term, deviation_len, deviations, fit, modes,
    profile,
};

use super::data::{Data, load};

/// (model, criterion, θ, σ, −2 log L, (coefficient, standard error)): lme4's output. θ of two terms in their order, of
/// one by columns.
type Reference = (&'static str, Criterion, &'static [f64], f64, f64, &'static [(f64, f64)]);

const REFERENCES: [Reference; 16] = [
    (
        "sleep",
        Criterion::Reml,
        &[0.96673291381, 0.01516905702, 0.23090959445],
        25.5918157,
        1743.628271958,
        &[(251.4051048, 6.8245564), (10.46728596, 1.5457889)],
    ),
    (
        "sleep",
        Criterion::Ml,
        &[0.92922530342, 0.01816572322, 0.22264542481],
        25.59181592,
        1751.939344463,
        &[(251.4051048, 6.632276), (10.46728596, 1.5022368)],
    ),
    (
        "sleepzc",
        Criterion::Reml,
        &[0.9798961447, 0.2342305866],
        25.56528557,
        1743.669293581,
        &[(251.4051048, 6.8853806), (10.46728596, 1.559566)],
    ),
    (
        "sleepzc",
        Criterion::Ml,
        &[0.9458106946, 0.2269282307],
        25.55613471,
        1752.00325514,
        &[(251.4051048, 6.7076738), (10.46728596, 1.5193145)],
    ),
    (
        "penicillin",
        Criterion::Reml,
        &[1.539677603, 3.512415364],
        0.5499231367,
        330.8605889911,
        &[(22.97222222, 0.80857342)],
    ),
    (
        "penicillin",
        Criterion::Ml,
        &[1.537593489, 3.219753461],
        0.5499322013,
        332.1883486685,
        &[(22.97222222, 0.74459573)],
    ),
    (
        "pastes",
        Criterion::Reml,
        &[3.526901743, 1.563460092],
        0.823407566,
        246.9907458535,
        &[(60.05333333, 0.67687004)],
    ),
    (
        "pastes",
        Criterion::Ml,
        &[3.526901738, 1.329912218],
        0.8234075557,
        247.9944658624,
        &[(60.05333333, 0.64213535)],
    ),
    ("dyestuff", Criterion::Reml, &[0.8483237832], 49.51009997, 319.6542768423, &[(1527.5, 19.383412)]),
    ("dyestuff", Criterion::Ml, &[0.7525806953], 49.51009995, 327.3270598811, &[(1527.5, 17.694554)]),
    ("dyestuff2", Criterion::Reml, &[0.0], 3.715684274, 161.8282778123, &[(5.6656, 0.67838803)]),
    ("dyestuff2", Criterion::Ml, &[0.0], 3.653231351, 162.8730366538, &[(5.6656, 0.66698574)]),
    (
        "machines_n",
        Criterion::Reml,
        &[3.878565989, 4.972094978],
        0.9615766391,
        215.6875680082,
        &[(52.35555556, 2.4858302), (7.966666667, 2.1769755), (13.91666667, 2.1769755)],
    ),
    (
        "machines_n",
        Criterion::Ml,
        &[3.532776033, 4.538881074],
        0.9615766346,
        225.2694469398,
        &[(52.35555556, 2.2692421), (7.966666667, 1.9872977), (13.91666667, 1.9872977)],
    ),
    (
        "machines_r",
        Criterion::Reml,
        &[4.242281978, 2.958336793, -1.400626327, 5.348920819, 2.075424165, 2.907868741],
        0.9615766881,
        208.3112183164,
        &[(52.35555556, 1.6807107), (7.966666667, 2.4208501), (13.91666667, 1.5400998)],
    ),
    (
        "machines_r",
        Criterion::Ml,
        &[3.865477535, 2.719970888, -1.266592702, 4.860684469, 1.890200019, 2.642436856],
        0.9615766724,
        216.4178273096,
        &[(52.35555556, 1.5342723), (7.966666667, 2.2099242), (13.91666667, 1.4059122)],
    ),
];

fn close(found: f64, expected: f64, relative: f64) {
    assert!(
        (found - expected).abs() <= relative * expected.abs().max(f64::MIN_POSITIVE),
        "{found} {expected}"
    );
}

#[test]
fn estimates_are_those_of_lme4() {
    for (name, criterion, theta, sigma, value, fixed) in REFERENCES {
        let found = fit(&load(name).statistics(), criterion).unwrap();
        println!("{name} {criterion:?} {} steps, decrement {:e}", found.iterations, found.decrement);
        let own: Vec<f64> = found.terms.iter().flat_map(|t| t.theta.clone()).collect();
        assert_eq!(own.len(), theta.len());
        for (a, b) in own.iter().zip(theta) {
            assert!((a - b).abs() <= (2e-5 * b.abs()).max(1e-6), "{name} {criterion:?}: {own:?} {theta:?}");
        }
        close(found.sigma, sigma, 1e-6);
        assert!((found.value - value).abs() < 1e-6, "{name}: {} {value}", found.value);
        let p = fixed.len();
        for (i, (beta, error)) in fixed.iter().enumerate() {
            close(found.fixed[i], *beta, 1e-6);
            close(found.fixed_covariance[i * (p + 1)].sqrt(), *error, 1e-6);
        }
        assert!(!matches!(found.proof, Proof::None { .. }), "{name}: {:?}", found.proof);
    }
}

/// lme4's `ranef(fm, condVar = TRUE)` is closed form for a balanced one-way layout: b̂ = γn/(1 + γn)·(mean − grand
/// mean), σ²γ/(1 + γn) with the grand mean given, and the part of the grand mean's variance besides.
#[test]
fn a_balanced_layout_has_closed_forms() {
    let data = load("dyestuff");
    let (n, groups) = (5.0, 6.0);
    let mut means = [0.0; 6];
    for (i, y) in data.response.iter().enumerate() {
        means[data.levels[i][0] as usize] += y / n;
    }
    let grand = means.iter().sum::<f64>() / groups;
    let between = means.iter().map(|m| (m - grand) * (m - grand)).sum::<f64>();
    let within: f64 =
        data.response.iter().zip(&data.levels).map(|(y, l)| (y - means[l[0] as usize]).powi(2)).sum();
    let noise = within / (groups * (n - 1.0));
    for (criterion, divisor) in [(Criterion::Reml, groups - 1.0), (Criterion::Ml, groups)] {
        let statistics = data.statistics();
        let found = fit(&statistics, criterion).unwrap();
        let variance = between / divisor - noise / n;
        let gamma = variance / noise;
        close(found.sigma.powi(2), noise, 1e-12);
        close(found.terms[0].sds[0].powi(2), variance, 1e-11);
        close(found.fixed[0], grand, 1e-13);
        let modes = &modes(&statistics, &found).unwrap()[0];
        let shrink = gamma * n / (1.0 + gamma * n);
        for (level, mean) in means.iter().enumerate() {
            assert!((modes.means[level] - shrink * (mean - grand)).abs() < 1e-9 * variance.sqrt());
            let given = noise * gamma / (1.0 + gamma * n);
            close(modes.given_fixed[level], given, 1e-10);
            let of_mean = noise * (1.0 + gamma * n) / (n * groups);
            close(modes.variances[level], given + shrink * shrink * of_mean, 1e-10);
        }
        // the Hessian in (log sd, log σ): independent mean squares of 5 (or 6) and 24 degrees of freedom
        close(found.log_sigma_error, (0.5 / (groups * (n - 1.0))).sqrt(), 1e-9);
        let top = 2.0 * (between / divisor).powi(2) / divisor;
        let error = (top + 2.0 * (noise / n).powi(2) / (groups * (n - 1.0))).sqrt() / (2.0 * variance);
        close(found.terms[0].log_sd_errors[0], error, 1e-9);
    }
}

/// The root of the REML equations of sleepstudy to 20 digits, by Newton's method with 40.
#[test]
fn the_ball_contains_the_root() {
    let root = [0.966_732_951_864_803_4, 0.015_169_054_270_484_688, 0.230_909_594_760_483_35];
    let found = fit(&load("sleep").statistics(), Criterion::Reml).unwrap();
    for (a, b) in found.terms[0].theta.iter().zip(&root) {
        assert!((a - b).abs() < 1e-12, "{a} {b}");
    }
    assert!((found.value - 1_743.628_271_958_490_8).abs() < 1e-9);
    let Proof::Ball(ball) = &found.proof else { panic!("{:?}", found.proof) };
    println!("{ball:?}");
    assert!(ball.unique && ball.inner < 1e-6 && ball.epsilon >= ball.rounding);
    assert!((0.030..0.037).contains(&ball.excluded[0]), "{ball:?}");
    // S of Σ_root = T(I + S)Tᵀ
    let t = &found.terms[0].theta;
    let m = [root[0] / t[0], (root[1] - t[1] * root[0] / t[0]) / t[2], root[2] / t[2]];
    let off = [m[0] * m[0] - 1.0, m[0] * m[1], m[0] * m[1], m[1] * m[1] + m[2] * m[2] - 1.0];
    let size = off.iter().map(|x| x * x).sum::<f64>().sqrt();
    assert!(size <= ball.relative_error[0], "{size} {ball:?}");
    let sds = t[0] / root[0] - 1.0;
    let (low, high) = ball.sd_factors(0);
    assert!(low - 1.0 <= sds && sds <= high - 1.0);
}

#[test]
fn zero_is_proved_for_dyestuff2() {
    // derivative of F in γ at 0, and up to where it increases, from an independent computation
    for (criterion, reach) in [(Criterion::Reml, 0.0420), (Criterion::Ml, 0.0460)] {
        let found = fit(&load("dyestuff2").statistics(), criterion).unwrap();
        assert_eq!(found.terms[0].rank, 0);
        assert_eq!(found.terms[0].sds, [0.0]);
        let Proof::Boundary { zero, reach: own, ball } = &found.proof else { panic!("{:?}", found.proof) };
        assert_eq!((zero.as_slice(), ball), (&[0][..], &None));
        assert!(own[0] > 0.7 * reach && own[0] < 1.02 * reach, "{own:?}");
    }
}

/// Sums over any split of the rows, and responses far from 0.
#[test]
fn statistics_merge_and_keep_their_digits() {
    for name in ["sleep", "pastes", "machines_r", "penicillin"] {
        let mut data = load(name);
        let whole = fit(&data.statistics(), Criterion::Reml).unwrap();
        let n = data.response.len();
        let base = whole.fixed.clone();
        for parts in [2, 3, 7] {
            let mut sums = data.sums(&base, (0..n).filter(|i| i % parts == 0));
            for part in 1..parts {
                sums.merge(&data.sums(&base, (0..n).filter(|i| i % parts == part))).unwrap();
            }
            let merged = fit(&sums.finish().unwrap(), Criterion::Reml).unwrap();
            close(merged.value, whole.value, 1e-12);
            close(merged.sigma, whole.sigma, 1e-12);
        }
        data.response.iter_mut().for_each(|y| *y += 1e6);
        let far = fit(&data.statistics(), Criterion::Reml).unwrap();
        close(far.value, whole.value, 1e-8);
        close(far.terms[0].sds[0], whole.terms[0].sds[0], 1e-7);
    }
}

/// A weight of 2 is the row twice.
#[test]
fn weights_are_frequencies() {
    let mut weighted = load("sleep");
    let mut twice = weighted.clone();
    for i in (0..weighted.response.len()).filter(|i| i % 3 == 0) {
        weighted.weights[i] = 2.0;
        twice.response.push(weighted.response[i]);
        twice.effects.push(weighted.effects[i].clone());
        twice.fixed.push(weighted.fixed[i].clone());
        twice.levels.push(weighted.levels[i].clone());
        twice.weights.push(1.0);
    }
    for criterion in [Criterion::Reml, Criterion::Ml] {
        let a = fit(&weighted.statistics(), criterion).unwrap();
        let b = fit(&twice.statistics(), criterion).unwrap();
        close(a.value, b.value, 1e-11);
        close(a.sigma, b.sigma, 1e-10);
        close(a.log_sigma_error, b.log_sigma_error, 1e-8);
    }
}

/// Draws have the covariances that `modes` and the fixed effects state.
#[test]
fn deviations_have_the_covariances_of_the_modes() {
    for name in ["sleep", "penicillin"] {
        let statistics = load(name).statistics();
        let found = fit(&statistics, Criterion::Reml).unwrap();
        let (length, p) = (deviation_len(&statistics), statistics.fixed());
        // the draws are linear in the numbers, so that unit vectors give a root of the covariance matrix
        let units: Vec<f64> =
            (0..length * length).map(|e| f64::from(u8::from(e % length == e / length))).collect();
        let root = deviations(&statistics, &found, &units).unwrap();
        let covariance =
            |i: usize, j: usize| root.chunks_exact(length).map(|draw| draw[i] * draw[j]).sum::<f64>();
        for i in 0..p {
            for j in 0..p {
                close(covariance(i, j), found.fixed_covariance[i * p + j], 1e-9);
            }
        }
        let mut at = p;
        for modes in modes(&statistics, &found).unwrap() {
            let k = modes.effects;
            for level in 0..modes.means.len() / k {
                for (i, j) in (0..k).flat_map(|i| (0..k).map(move |j| (i, j))) {
                    let stated = modes.variances[(level * k + j) * k + i];
                    assert!((covariance(at + i, at + j) - stated).abs() < 1e-9 * stated.abs().max(1.0));
                }
                for (i, c) in (0..k).flat_map(|i| (0..p).map(move |c| (i, c))) {
                    let stated = modes.with_fixed[(level * k + i) * p + c];
                    assert!((covariance(at + i, c) - stated).abs() < 1e-9 * stated.abs().max(1.0));
                }
                at += k;
            }
        }
        assert_eq!(at, length);
    }
}

/// Enough levels and columns that sums and products are shared between threads.
#[test]
fn threads_do_not_change_a_bit() {
    let (n, levels, crossed) = (9_000, 3_000, 150);
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    let codes: Vec<[u32; 2]> =
        (0..n).map(|_| [(next() % levels) as u32, (next() % crossed) as u32]).collect();
    let noise: Vec<f64> = (0..n).map(|_| next() as f64 / f64::from(1u32 << 30)).collect();
    let response = |i: usize| noise[i] + (codes[i][0] % 7) as f64 * 0.2 + (codes[i][1] % 5) as f64 * 0.1;
    let design = Design {
        levels: vec![levels as usize, crossed as usize],
        terms: vec![Term { factor: 0, effects: 1 }, Term { factor: 1, effects: 1 }],
        fixed: 1,
    };
    let run = |threads| {
        let work = || {
            let rows = (0..n).map(|i| Row {
                levels: &codes[i],
                effects: &[1.0, 1.0],
                fixed: &[1.0],
                response: response(i),
                weight: 1.0,
            });
            let statistics = Statistics::from_rows(&design, rows).unwrap();
            let found = fit(&statistics, Criterion::Reml).unwrap();
            let modes = modes(&statistics, &found).unwrap();
            (found, modes)
        };
        certus::parallel::install(Some(threads), work).unwrap()
    };
    assert_eq!(run(1), run(3));
}

#[test]
fn bad_requests_have_typed_errors() {
    let mut data = load("sleep");
    data.fixed.iter_mut().for_each(|x| x.push(x[0] + 2.0 * x[1]));
    data.design.fixed = 3;
    let rows = |data: &Data| {
        let rows: Vec<usize> = (0..data.response.len()).collect();
        Statistics::from_rows(&data.design, rows.iter().map(|&i| data.row(i))).map(|_| ())
    };
    assert_eq!(rows(&data), Err(Error::Collinear { column: 2 }));
    let mut data = load("sleep");
    data.levels[17][0] = 18;
    assert_eq!(rows(&data), Err(Error::Level { row: 17, factor: 0, level: 18, levels: 18 }));
    let mut data = load("sleep");
    data.weights[3] = 0.0;
    assert!(matches!(rows(&data), Err(Error::Value { row: 3, what: "the weight", .. })));
    // one level: in the span of the intercept
    let mut data = load("dyestuff");
    data.levels.iter_mut().for_each(|l| l[0] = 0);
    data.design.levels = vec![1];
    let found = fit(&data.statistics(), Criterion::Reml);
    assert_eq!(found.unwrap_err(), Error::Confounded { term: 0, effect: 0 });
    let mut data = load("dyestuff");
    (0..30).for_each(|i| data.levels[i][0] = i as u32);
    data.design.levels = vec![30];
    let found = fit(&data.statistics(), Criterion::Reml);
    assert_eq!(found.unwrap_err(), Error::AsManyAsRows { term: 0, columns: 30, rows: 30 });
}

/// One sd, responses shuffled: about half of the estimates are 0. Every one is proved, by L1 or L2.
#[test]
fn shuffled_responses_are_proved() {
    let mut data = load("dyestuff");
    let (mut zero, mut state) = (0, 9u64);
    for _ in 0..40 {
        for i in (1..data.response.len()).rev() {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            data.response.swap(i, ((state >> 33) % (i as u64 + 1)) as usize);
        }
        let found = fit(&data.statistics(), Criterion::Reml).unwrap();
        match &found.proof {
            Proof::Boundary { .. } => zero += 1,
            Proof::Ball(ball) => assert!(ball.unique),
            Proof::Singular { .. } => panic!("there is one effect"),
            Proof::None { reason } => panic!("{reason}"),
        }
    }
    assert!((12..32).contains(&zero), "{zero} of 40");
}

/// 95 % profile intervals (ML) for Dyestuff and sleepstudy as published for lme4's `confint`, to the
/// digits printed there.
#[test]
fn profiles_are_those_of_lme4() {
    let cut = 3.841_458_820_694_124;
    let effect = |term, effect| Scale::Effect { term, effect };
    let cases = [
        ("dyestuff", effect(0, 0), 12.1975, 84.0631),
        ("dyestuff", Scale::Noise, 38.2300, 67.6577),
        ("sleep", effect(0, 0), 14.3815, 37.7160),
        ("sleep", effect(0, 1), 3.8012, 8.7534),
        ("sleep", Scale::Noise, 22.8983, 28.8580),
    ];
    for (name, scale, low, high) in cases {
        let statistics = load(name).statistics();
        let found = fit(&statistics, Criterion::Ml).unwrap();
        let interval = profile(&statistics, &found, scale, cut).unwrap().unwrap();
        println!("{name} {scale:?} {interval:?}");
        close(interval.low, low, 1e-3);
        close(interval.high, high, 1e-3);
    }
    let statistics = load("dyestuff2").statistics();
    let found = fit(&statistics, Criterion::Ml).unwrap();
    let interval = profile(&statistics, &found, effect(0, 0), cut).unwrap().unwrap();
    assert!(interval.low == 0.0 && interval.high > 0.5 && interval.high < 4.0, "{interval:?}");
}

/// The profile of σ in a balanced layout of a groups of b rows, by hand: −2 log L is, but for a constant, a(b−1) log σ²
/// + W/σ² + a log τ + bB/τ, τ = σ² + b·variance ≥ σ², W and B the sums of squares; also where the other sd is 0.
#[test]
fn profiles_of_the_noise_have_closed_forms() {
    let (a, b, cut) = (6.0, 5.0, 2.705_543_454_095_404);
    for name in ["dyestuff", "dyestuff2"] {
        let data = load(name);
        let mut means = [0.0; 6];
        (0..30).for_each(|i| means[data.levels[i][0] as usize] += data.response[i] / b);
        let grand = means.iter().sum::<f64>() / a;
        let between: f64 = means.iter().map(|m| b * (m - grand).powi(2)).sum();
        let within: f64 =
            (0..30).map(|i| (data.response[i] - means[data.levels[i][0] as usize]).powi(2)).sum();
        let height = |sd: f64| {
            let (noise, tau) = (sd * sd, (between / a).max(sd * sd));
            a * (b - 1.0) * noise.ln() + within / noise + a * tau.ln() + between / tau
        };
        let statistics = data.statistics();
        let found = fit(&statistics, Criterion::Ml).unwrap();
        let interval = profile(&statistics, &found, Scale::Noise, cut).unwrap().unwrap();
        for end in [interval.low, interval.high] {
            let above = height(end) - height(found.sigma);
            assert!((above - cut).abs() < 1e-6, "{name} {interval:?}: {above}");
        }
    }
}
