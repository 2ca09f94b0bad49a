//! Every ball contains the truth, computed with 60 digits.

use certus_check::{Ball, Certificate, Claim, Column, Likelihood, Model, Precision, Quadrature, Rows, exp};
use dashu_float::{FBig, round::mode::HalfEven};

pub(crate) type Big = FBig<HalfEven, 2>;
/// 60 digits.
const BITS: usize = 200;

pub(crate) fn big(x: f64) -> Big {
    Big::try_from(x).unwrap().with_precision(BITS).value()
}

/// Numbers without a pattern (SplitMix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn between(&mut self, a: f64, b: f64) -> f64 {
        a + (b - a) * self.unit()
    }

    /// Of any size and sign.
    fn wild(&mut self) -> f64 {
        let size = 10f64.powf(self.between(-8.0, 8.0));
        if self.unit() < 0.5 { -size } else { size }
    }
}

#[track_caller]
pub(crate) fn contains(ball: Ball, truth: &Big, what: &str) {
    let apart = truth.clone() - big(ball.mid);
    let apart = if apart < big(0.0) { -apart } else { apart };
    assert!(ball.rad.is_finite(), "{what}: {ball:?}");
    assert!(apart <= big(ball.rad), "{what}: {ball:?} does not contain {truth}");
}

#[test]
fn arithmetic() {
    let mut dice = Dice(1);
    for _ in 0..3_000 {
        let ball = |dice: &mut Dice| {
            let mid = dice.wild();
            Ball::new(mid, mid.abs() * 10f64.powf(dice.between(-18.0, -0.5)))
        };
        let (a, b) = (ball(&mut dice), ball(&mut dice));
        // members, the ends most of all
        for (at, bt) in [(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0), (0.3, -0.7)] {
            let (x, y) = (big(a.mid) + big(at) * big(a.rad), big(b.mid) + big(bt) * big(b.rad));
            contains(a + b, &(x.clone() + y.clone()), "sum");
            contains(a - b, &(x.clone() - y.clone()), "difference");
            contains(a * b, &(x.clone() * y.clone()), "product");
            contains(a / b, &(x.clone() / y.clone()), "quotient");
            if x > big(0.0) {
                contains(a.sqrt(), &x.sqrt(), "root");
            }
            let small = Ball::new(a.mid.clamp(-600.0, 600.0), a.rad.min(0.9));
            let z = big(small.mid) + big(at) * big(small.rad);
            if small.mid < 100.0 {
                contains(small.exp(), &z.exp(), "exponential");
            }
        }
    }
}

#[test]
fn exponential() {
    let mut dice = Dice(2);
    let mut worst = 0.0f64;
    for k in 0..20_000 {
        let x = match k % 3 {
            0 => dice.between(-700.0, 115.0),
            1 => dice.between(-1.0, 1.0),
            // where the reduction changes its k
            _ => {
                (dice.between(-900.0, 150.0).floor() + 0.5)
                    * std::f64::consts::LN_2
                    * (1.0 + 1e-15 * dice.unit())
            }
        };
        let (ball, truth) = (exp(x), big(x).exp());
        contains(ball, &truth, &format!("exp({x})"));
        let apart: Big = (big(ball.mid) - truth.clone()) / truth;
        worst = worst.max((apart.to_f64().value() * 9_007_199_254_740_992.0).abs());
    }
    // proved: 4.3; the radius is 8
    assert!(worst < 4.3, "{worst} u");
}

/// E σ(c + s x) and E σ′(c + s x) xᵏ by a much finer rule with 60 digits.
fn reference(c: &Big, s: &Big) -> (Big, [Big; 5]) {
    let tau = big(std::f64::consts::TAU) + big(2.449_293_598_294_706_4e-16);
    // 2π·2.9/(s η) ≥ 100
    let step = (0.18 / s.to_f64().value().max(1e-9)).min(0.3);
    let step = 2f64.powf(step.log2().floor());
    let norm = big(step) / tau.sqrt();
    let (mut slope, mut curvature) = (big(0.0), [(); 5].map(|()| big(0.0)));
    let count = (14.0 / step) as i32;
    for j in -count..=count {
        let x = big(f64::from(j) * step);
        let t = c.clone() + s.clone() * x.clone();
        let weight = norm.clone() * (x.clone() * x.clone() * big(-0.5)).exp();
        let sigma = big(1.0) / (big(1.0) + (-t).exp());
        slope += weight.clone() * sigma.clone();
        let mut term = weight * sigma.clone() * (big(1.0) - sigma);
        for sum in &mut curvature {
            *sum += term.clone();
            term *= x.clone();
        }
    }
    (slope, curvature)
}

#[test]
fn moments_of_the_logistic_loss() {
    let (mut dice, quadrature) = (Dice(3), Quadrature::all());
    for k in 0..24 {
        let s = match k % 4 {
            0 => dice.between(0.0, 0.5),
            1 => dice.between(0.4, 3.0),
            2 => dice.between(1e-12, 1e-3),
            _ => dice.between(2.0, 12.0),
        };
        let c = dice.between(-15.0, 15.0);
        let (slope, curvature) = reference(&big(c), &big(s));
        let found = quadrature.moments(Likelihood::Logistic, 0.0, 1.0, Ball::exact(c), Ball::exact(s));
        contains(found.slope, &slope, &format!("c {c} s {s}"));
        assert!(found.slope.rad < 1e-14, "{:?}", found.slope);
        for (k, (ball, truth)) in found.curvature.iter().zip(&curvature).enumerate() {
            contains(*ball, truth, &format!("c {c} s {s} k {k}"));
        }
        // c and s that are not exact
        let wide = |x: f64, by: f64| Ball::new(x + by, by.abs() * 1.000_001);
        for by in [1e-9, -1e-3] {
            let (c, s) = (wide(c, by), wide(s, 0.5 * by));
            let found = quadrature.moments(Likelihood::Binomial, 2.0, 3.0, c, s);
            contains(found.slope, &(slope.clone() * big(3.0) - big(2.0)), "wide slope");
            for (ball, truth) in found.curvature.iter().zip(&curvature) {
                contains(*ball, &(truth.clone() * big(3.0)), "wide curvature");
            }
        }
    }
    let too_wide = quadrature.moments(Likelihood::Logistic, 0.0, 1.0, Ball::ZERO, Ball::exact(1e4));
    assert!(too_wide.slope.rad.is_infinite());
}

/// A certificate of which only the model and the Gaussian count.
pub(crate) fn bare(likelihood: Likelihood, dice: &mut Dice, d: usize, rows: u64) -> Certificate {
    let factor = (0..d).flat_map(|i| (0..=i).map(move |j| i == j)).collect::<Vec<_>>();
    let factor = factor.iter().map(|own| if *own { dice.between(0.1, 0.5) } else { dice.between(-0.2, 0.2) });
    Certificate {
        claim: Claim::Gap,
        bound: 1.0,
        factor: factor.collect(),
        model: Model {
            likelihood,
            intercept: true,
            columns: (1..d)
                .map(|j| Column {
                    name: format!("x{j}"),
                    centre: dice.between(-1.0, 1.0),
                    scale: dice.between(0.5, 2.0),
                })
                .collect(),
            prior_mean: vec![0.0; d],
            prior_precision: Precision::Diagonal(vec![1.0; d]),
        },
        rows,
        block_rows: rows,
        root: [0; 32],
        mean: (0..d).map(|_| dice.between(-1.0, 1.0)).collect(),
        radius: 0.01,
        tau: std::f64::consts::SQRT_2,
        theta: 0.71,
        lambda_mean: 0.5,
        lambda_factor: 0.5,
        solution_mean: vec![0.0; d],
        solution_factor: vec![0.0; d * (d + 1) / 2],
        blocks: Vec::new(),
    }
}

/// e and (p_k) of a row without its weight, c and |ã| given, with 60 digits.
fn row_truth(likelihood: Likelihood, y: f64, trials: f64, c: &Big, s: &Big) -> (Big, [Big; 5]) {
    let (zero, one) = (big(0.0), big(1.0));
    let square = s.clone() * s.clone();
    match likelihood {
        Likelihood::Linear(sd) => {
            let precision = one / (big(sd) * big(sd));
            let three = big(3.0) * precision.clone();
            let p = [precision.clone(), zero.clone(), precision.clone(), zero, three];
            ((c.clone() - big(y)) * precision, p)
        }
        Likelihood::Poisson => {
            let rate = (c.clone() + square.clone() / big(2.0)).exp();
            let powers = [
                big(1.0),
                s.clone(),
                big(1.0) + square.clone(),
                s.clone() * (big(3.0) + square.clone()),
                big(3.0) + big(6.0) * square.clone() + square.clone() * square,
            ];
            (rate.clone() - big(y), powers.map(|power| rate.clone() * power))
        }
        _ => {
            let (slope, p) = reference(c, s);
            (slope * big(trials) - big(y), p.map(|p| p * big(trials)))
        }
    }
}

/// k_m and k_C of section 3 without rounding, θ_n in plain numbers.
fn weights_truth(certificate: &Certificate, p: &[Big; 5], s: &Big) -> [Big; 2] {
    let kappa = big(certificate.model.likelihood.bend());
    let reach = kappa * big(certificate.radius) * s.clone();
    let delta = reach.clone() / (big(certificate.tau) * big(certificate.tau));
    let shrink = (-reach).exp();
    let [q0, q1, q2] =
        [0, 1, 2].map(|k| shrink.clone() * (p[k].clone() - delta.clone() / big(2.0) * p[k + 2].clone()));
    let q1 = if q1 < big(0.0) { -q1 } else { q1 };
    let [x, y, z] = [&q0, &q1, &q2].map(|q| q.to_f64().value());
    let low = 0.5 * (0.5 * (x + z) - (0.5 * (x - z)).hypot(y));
    if low <= 0.0 {
        return [big(0.0), big(0.0)];
    }
    let theta = certificate.theta.min(if y > 0.0 { (x - low) / y } else { f64::INFINITY }).max(y / (z - low));
    let mean = q0.clone() - big(theta) * q1.clone();
    let other = q2 - q1 / big(theta);
    let factor = if other < q0 { other } else { q0 };
    if mean < big(0.0) || factor < big(0.0) { [big(0.0), big(0.0)] } else { [mean, factor] }
}

/// Random problems: the balls of Σ e ã and Σ p₀ ãã′ contain the truth, Σ k_m ãã′ and Σ k_C ãã′ are below it and less
/// than the exporter's room away.
fn sums_of_random_problems(count: usize) -> [f64; 4] {
    let mut worst = [0.0f64; 4];
    for problem in 0..count {
        let mut dice = Dice(100 + problem as u64);
        let likelihood = match problem % 4 {
            0 => Likelihood::Linear(dice.between(0.3, 2.0)),
            1 => Likelihood::Logistic,
            2 => Likelihood::Binomial,
            _ => Likelihood::Poisson,
        };
        let (d, n) = (
            1 + problem / 4 % 4,
            3 + (dice.unit() * 60.0) as u64 % (if problem % 4 % 3 == 0 { 60 } else { 9 }),
        );
        let mut certificate = bare(likelihood, &mut dice, d, n);
        certificate.radius = 10f64.powf(dice.between(-8.0, -1.0));
        let (mut bytes, mut gradient) = (Vec::new(), vec![big(0.0); d]);
        let mut sums = [(); 3].map(|()| vec![big(0.0); d * d]);
        for _ in 0..n {
            let x: Vec<f64> = (1..d).map(|_| dice.between(-2.0, 2.0)).collect();
            let trials = if likelihood == Likelihood::Binomial { 3.0 } else { 1.0 };
            let y = if dice.unit() < 0.5 { 1.0 } else { 0.0 };
            let (offset, weight) = (dice.between(-0.5, 0.5), dice.between(0.0, 2.0));
            x.iter().chain(&[y, trials, offset, weight]).for_each(|x| bytes.extend(x.to_le_bytes()));
            let mut v = vec![big(1.0)];
            for (x, column) in x.iter().zip(&certificate.model.columns) {
                v.push((big(*x) - big(column.centre)) / big(column.scale));
            }
            let c =
                v.iter().zip(&certificate.mean).fold(big(offset), |sum, (v, m)| sum + v.clone() * big(*m));
            let entry = |i: usize, j: usize| big(certificate.factor[i * (i + 1) / 2 + j]);
            let a: Vec<Big> =
                (0..d).map(|j| (j..d).fold(big(0.0), |sum, i| sum + v[i].clone() * entry(i, j))).collect();
            let s = a.iter().fold(big(0.0), |sum, a| sum + a.clone() * a.clone()).sqrt();
            let (slope, p) = row_truth(likelihood, y, trials, &c, &s);
            let p = p.map(|p| p * big(weight));
            let [mean, factor] = weights_truth(&certificate, &p, &s);
            for i in 0..d {
                gradient[i] += slope.clone() * a[i].clone() * big(weight);
                for j in 0..d {
                    for (sum, k) in sums.iter_mut().zip([&p[0], &mean, &factor]) {
                        sum[i * d + j] += k.clone() * a[i].clone() * a[j].clone();
                    }
                }
            }
        }
        let found = Rows::new(&certificate).sums(&bytes, 0).unwrap();
        let norm = |parts: &mut dyn Iterator<Item = Big>| {
            parts.fold(big(0.0), |sum, one| sum + one.clone() * one).sqrt()
        };
        let apart = norm(&mut (0..d).map(|i| gradient[i].clone() - big(found[0].parts[i])));
        assert!(apart <= big(found[0].rad), "{problem}, gradient");
        worst[0] = worst[0].max(apart.to_f64().value() / found[0].rad);
        let trace = (0..d).map(|i| found[1].parts[i * (i + 3) / 2]).sum::<f64>();
        for part in 1..4 {
            let mine = |at: usize| {
                let (i, j) = ((at / d).max(at % d), (at / d).min(at % d));
                sums[part - 1][at].clone() - big(found[part].parts[i * (i + 1) / 2 + j])
            };
            let apart = norm(&mut (0..d * d).map(mine));
            // lower bounds may be lower
            let room = if part == 1 { found[1].rad } else { 4.0 * found[part].rad + 1e-10 * trace };
            assert!(apart <= big(room), "{problem}, part {part}");
            worst[part] = worst[part].max(apart.to_f64().value() / room);
            for i in 0..d {
                assert!(part == 1 || mine(i * (d + 1)) >= big(-found[part].rad), "{problem}, part {part}");
            }
        }
        assert!(found.iter().all(|sum| sum.rad < 1e-12 * (10.0 + trace)), "{found:?}");
    }
    worst
}

#[test]
fn sums_of_a_block() {
    sums_of_random_problems(16);
}

/// The long version (bench/results/*-proofs.txt): the largest distances are printed as parts of the radii.
#[test]
#[ignore = "long"]
#[allow(clippy::print_stdout)]
fn full() {
    let [gradient, curvature, mean, factor] = sums_of_random_problems(200);
    println!(
        "200 problems, 60 digits: every ball contains the truth; largest distance/radius: gradient {gradient:.3}, \
         curvature {curvature:.3}; lower bounds, distance/room: mean {mean:.1e}, factor {factor:.1e}"
    );
}
