//! Targets that break other tools: each must end well, with the status expected of it, within 10 seconds, and never say
//! "reached" when it is not. The true gap of every log-concave one is exact: they are products of one-dimensional
//! densities, integrated by the trapezoid rule.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::f64::consts::PI;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use certus::fit::Status;
use certus::{Gaussian, Goal, PointTarget, TargetError, auto};

type Density = Box<dyn Fn(&[f64], &mut [f64]) -> Result<f64, TargetError> + Sync>;

struct Case {
    name: &'static str,
    dim: usize,
    /// log p and its gradient.
    density: Density,
    start: Option<Vec<f64>>,
    expected: &'static [Status],
    /// −log p of one coordinate, if the target is a log-concave product of such: (coordinate, z) ↦ ψ, and the scale of
    /// the coordinate.
    product: Option<Product>,
    /// What the message must contain.
    words: &'static str,
}

type Product = (fn(usize, f64) -> f64, fn(usize) -> (f64, f64));

impl PointTarget for Case {
    fn dim(&self) -> usize {
        self.dim
    }
    fn log_density_at(&self, z: &[f64], g: &mut [f64]) -> Result<f64, TargetError> {
        (self.density)(z, g)
    }
}

/// E ψ(m + s x) for x ~ N(0, 1): the trapezoid rule with 4001 nodes on [−10, 10]; kinks cost 1e-5.
fn expectation(psi: impl Fn(f64) -> f64, m: f64, s: f64) -> f64 {
    let h = 20.0 / 4000.0;
    (0..=4000)
        .map(|k| {
            let x = -10.0 + h * f64::from(k);
            h * (-0.5 * x * x).exp() / (2.0 * PI).sqrt() * psi(m + s * x)
        })
        .sum()
}

/// The least E ψ − log s over (m, s) by coordinate-wise golden sections, in units of the coordinate's scale.
fn best(psi: impl Fn(f64) -> f64, center: f64, scale: f64) -> f64 {
    let f = |m: f64, log_s: f64| expectation(|z| psi(center + scale * z), m, log_s.exp()) - log_s;
    let golden = |g: &dyn Fn(f64) -> f64, mut a: f64, mut b: f64| {
        let r = (5f64.sqrt() - 1.0) / 2.0;
        for _ in 0..60 {
            let (x, y) = (b - r * (b - a), a + r * (b - a));
            if g(x) < g(y) { b = y } else { a = x }
        }
        0.5 * (a + b)
    };
    let (mut m, mut s) = (0.0, 0.0);
    for _ in 0..12 {
        m = golden(&|x| f(x, s), m - 4.0, m + 4.0);
        s = golden(&|x| f(m, x), s - 3.0, s + 3.0);
    }
    f(m, s) - scale.ln()
}

/// f(q) + const exactly, for a product: E ψ needs q's marginals only.
fn energy(case: &Case, q: &Gaussian) -> Option<f64> {
    let (psi, _) = case.product?;
    let sd = q.sd();
    let sum: f64 = (0..case.dim).map(|i| expectation(|z| psi(i, z), q.mean()[i], sd[i])).sum();
    Some(sum - q.factor().log_det())
}

/// Its least value: the best Gaussian of a product is a product.
fn least_energy(case: &Case) -> Option<f64> {
    let (psi, place) = case.product?;
    Some((0..case.dim).map(|i| best(|z| psi(i, z), place(i).0, place(i).1)).sum())
}

/// One coordinate at a time, from ψ and ψ′.
fn product(psi: fn(usize, f64) -> f64, slope: fn(usize, f64) -> f64) -> Density {
    Box::new(move |z, g| {
        let mut value = 0.0;
        for (i, (z, g)) in z.iter().zip(g).enumerate() {
            *g = -slope(i, *z);
            value -= psi(i, *z);
        }
        Ok(value)
    })
}

fn huge(i: usize) -> (f64, f64) {
    let scale = 10f64.powi(8 - 4 * (i as i32 % 5));
    (3.0 * scale, scale)
}

fn softplus(t: f64) -> f64 {
    t.max(0.0) + (-t.abs()).exp().ln_1p()
}

/// Noise without state: a hash of the point's bits.
fn hash_noise(z: &[f64], k: usize) -> f64 {
    let mut h = 0x9E37_79B9_7F4A_7C15_u64 ^ k as u64;
    for x in z {
        h = (h ^ x.to_bits()).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        h ^= h >> 29;
    }
    (h >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0
}

fn gaussian(z: &[f64], g: &mut [f64]) -> f64 {
    for (i, g) in g.iter_mut().enumerate() {
        *g = -(z[i] - 1.0);
    }
    -0.5 * z.iter().map(|x| (x - 1.0).powi(2)).sum::<f64>()
}

/// Two unit normals at ±a on the first coordinate, weights 1 − w and w; standard normal in the others.
fn mixture(a: f64, w: f64) -> Density {
    Box::new(move |z, g| {
        let parts = [(1.0 - w).ln() - 0.5 * (z[0] + a).powi(2), w.ln() - 0.5 * (z[0] - a).powi(2)];
        let largest = parts[0].max(parts[1]);
        let total = largest + parts.iter().map(|p| (p - largest).exp()).sum::<f64>().ln();
        let right = (parts[1] - total).exp();
        g[0] = -(z[0] + a) * (1.0 - right) - (z[0] - a) * right;
        for i in 1..z.len() {
            g[i] = -z[i];
        }
        Ok(total - 0.5 * z[1..].iter().map(|x| x * x).sum::<f64>())
    })
}

/// log p(z) = Σ −2 log(1 + z²/3): Student's t with three degrees of freedom.
fn student(z: &[f64], g: &mut [f64]) -> f64 {
    let mut value = 0.0;
    for (z, g) in z.iter().zip(g) {
        *g = -4.0 * z / (3.0 + z * z);
        value -= 2.0 * (z * z / 3.0).ln_1p();
    }
    value
}

/// Neal's funnel: v ~ N(0, 9), x_i ~ N(0, e^v).
pub(crate) fn funnel(z: &[f64], g: &mut [f64]) -> f64 {
    let (v, n) = (z[0], (z.len() - 1) as f64);
    let sum: f64 = z[1..].iter().map(|x| x * x).sum();
    g[0] = -v / 9.0 - 0.5 * n + 0.5 * sum * (-v).exp();
    for i in 1..z.len() {
        g[i] = -z[i] * (-v).exp();
    }
    -v * v / 18.0 - 0.5 * n * v - 0.5 * sum * (-v).exp()
}

pub(crate) const EFFECTS: [(f64, f64); 8] = [
    (28.0, 15.0),
    (8.0, 10.0),
    (-3.0, 16.0),
    (7.0, 11.0),
    (-1.0, 9.0),
    (1.0, 11.0),
    (18.0, 10.0),
    (12.0, 18.0),
];

/// Eight schools, centred: (μ, log τ, θ_j), μ ~ N(0, 5), τ half-Cauchy(5).
fn eight_schools(z: &[f64], g: &mut [f64]) -> f64 {
    let (mu, log_tau) = (z[0], z[1]);
    let tau = log_tau.exp();
    let mut value = -mu * mu / 50.0 - (tau * tau / 25.0).ln_1p() + log_tau;
    g[0] = -mu / 25.0;
    g[1] = 1.0 - 2.0 * tau * tau / (25.0 + tau * tau);
    for (j, (y, s)) in EFFECTS.iter().enumerate() {
        let theta = z[2 + j];
        let (r, e) = ((theta - mu) / tau, (y - theta) / s);
        value += -log_tau - 0.5 * r * r - 0.5 * e * e;
        g[0] += r / tau;
        g[1] += r * r - 1.0;
        g[2 + j] = -r / tau + e / s;
    }
    value
}

fn cases() -> Vec<Case> {
    use Status::*;
    let case = |name, dim, density: Density, expected, words| Case {
        name,
        dim,
        density,
        start: None,
        expected,
        product: None,
        words,
    };
    let total = |f: fn(&[f64], &mut [f64]) -> f64| -> Density { Box::new(move |z, g| Ok(f(z, g))) };
    let not_convex: &[Status] = &[Reached, Limit];
    let mut all = vec![
        case(
            "banana",
            2,
            total(|z, g| {
                let r = (z[1] - z[0] * z[0]) / 0.5;
                g[0] = -z[0] + 2.0 * z[0] * r / 0.5;
                g[1] = -r / 0.5;
                -0.5 * (z[0] * z[0] + r * r)
            }),
            not_convex,
            "not log-concave",
        ),
        case("two equal modes", 2, mixture(2.5, 0.5), not_convex, "not log-concave"),
        case("two unequal modes", 3, mixture(2.0, 0.3), not_convex, "not log-concave"),
        case("funnel", 6, total(funnel), &[Limit], ""),
        case("eight schools, centred", 10, total(eight_schools), &[Limit], ""),
        case("Student t, 3 degrees", 1, total(student), not_convex, "not log-concave"),
        case("Student t, 3 degrees, five of them", 5, total(student), not_convex, "not log-concave"),
        case(
            "Cauchy",
            2,
            total(|z, g| {
                g.iter_mut().zip(z).for_each(|(g, z)| *g = -2.0 * z / (1.0 + z * z));
                -z.iter().map(|z| (z * z).ln_1p()).sum::<f64>()
            }),
            &[Limit],
            "",
        ),
        case(
            "flat direction",
            3,
            total(|z, g| {
                (g[0], g[1], g[2]) = (-z[0], 0.0, -z[2]);
                -0.5 * (z[0] * z[0] + z[2] * z[2])
            }),
            &[NoProgress],
            "coordinate 1",
        ),
        case(
            "flat ridge",
            3,
            total(|z, g| {
                let (t, s) = (z[0] + 1.7 * z[1] - 1.0, z[2] - 0.3 * z[1]);
                (g[0], g[1], g[2]) = (-t, -1.7 * t + 0.3 * s, -s);
                -0.5 * (t * t + s * s)
            }),
            &[NoProgress],
            "the direction (",
        ),
        case(
            "constant",
            2,
            total(|_, g| {
                g.fill(0.0);
                3.0
            }),
            &[NoProgress],
            "flat",
        ),
        case(
            "improper: grows for ever",
            2,
            total(|z, g| {
                (g[0], g[1]) = (2.0 * z[0] + 1.0, -z[1]);
                z[0] * z[0] + z[0] - 0.5 * z[1] * z[1]
            }),
            &[NoProgress, NonFinite, Limit],
            "",
        ),
        case(
            "improper: linear",
            1,
            total(|z, g| {
                g[0] = 1.0;
                z[0]
            }),
            &[NoProgress, NonFinite, Limit],
            "",
        ),
        case(
            "gradient with the sign flipped",
            4,
            total(|z, g| {
                let value = gaussian(z, g);
                g.iter_mut().for_each(|g| *g = -*g);
                value
            }),
            &[AssumptionViolated],
            "ratio of -1.0",
        ),
        case(
            "gradient twice too long",
            4,
            total(|z, g| {
                let value = gaussian(z, g);
                g.iter_mut().for_each(|g| *g *= 2.0);
                value
            }),
            &[AssumptionViolated],
            "ratio of 2.0",
        ),
        case(
            "gradient half too long",
            4,
            total(|z, g| {
                let value = gaussian(z, g);
                g.iter_mut().for_each(|g| *g *= 1.5);
                value
            }),
            &[AssumptionViolated],
            "ratio of 1.5",
        ),
        case(
            "one coordinate of the gradient wrong",
            4,
            total(|z, g| {
                let value = gaussian(z, g);
                g[2] = -g[2];
                value
            }),
            &[AssumptionViolated],
            "does not match the log density",
        ),
        case(
            "noisy gradient",
            5,
            total(|z, g| {
                let value = gaussian(z, g);
                g.iter_mut().enumerate().for_each(|(k, g)| *g += 0.3 * hash_noise(z, k));
                value
            }),
            &[Reached, Limit],
            "",
        ),
        case(
            "very noisy gradient",
            5,
            total(|z, g| {
                let value = gaussian(z, g);
                g.iter_mut().enumerate().for_each(|(k, g)| *g += 30.0 * hash_noise(z, k));
                value
            }),
            &[AssumptionViolated, Limit],
            "",
        ),
        case(
            "undefined below zero",
            2,
            total(|z, g| {
                (g[0], g[1]) = (2.0 / z[0] - 1.0, -z[1]);
                2.0 * z[0].ln() - z[0] - 0.5 * z[1] * z[1]
            }),
            &[NonFinite],
            "the log density is NaN",
        ),
        case(
            "undefined at the start",
            1,
            total(|z, g| {
                g[0] = 2.0 / z[0] - 1.0;
                2.0 * z[0].ln() - z[0]
            }),
            &[NonFinite],
            "the start",
        ),
        case(
            "minus infinity outside a box",
            2,
            total(|z, g| {
                let value = gaussian(z, g);
                if z.iter().any(|x| x.abs() > 2.0) { f64::NEG_INFINITY } else { value }
            }),
            &[NonFinite],
            "the log density is -inf",
        ),
    ];
    // log-concave ones, whose true gap is known
    let reached: &[Status] = &[Reached];
    let mut concave =
        |name, dim, psi: fn(usize, f64) -> f64, slope, place: fn(usize) -> (f64, f64), expected| {
            all.push(Case {
                name,
                dim,
                density: product(psi, slope),
                start: None,
                expected,
                product: Some((psi, place)),
                words: "",
            });
        };
    concave("one normal", 1, |_, z| 0.5 * (z - 2.0).powi(2), |_, z| z - 2.0, |_| (2.0, 1.0), reached);
    concave(
        "one logistic",
        1,
        |_, z| 3.0 * softplus(z) - z,
        |_, z| 3.0 / (1.0 + (-z).exp()) - 1.0,
        |_| (-0.7, 1.2),
        reached,
    );
    concave(
        "huge and tiny scales",
        10,
        |i, z| 0.5 * ((z - huge(i).0) / huge(i).1).powi(2),
        |i, z| (z - huge(i).0) / huge(i).1.powi(2),
        huge,
        reached,
    );
    concave(
        "huge and tiny scales, skewed",
        5,
        |i, z| {
            let t = (z - huge(i).0) / huge(i).1;
            0.2 * t * t + softplus(t)
        },
        |i, z| {
            let t = (z - huge(i).0) / huge(i).1;
            (0.4 * t + 1.0 / (1.0 + (-t).exp())) / huge(i).1
        },
        |i| (huge(i).0 - huge(i).1, huge(i).1),
        reached,
    );
    concave("a kink", 3, |_, z: f64| z.abs(), |_, z: f64| z.signum(), |_| (0.0, 1.3), &[Reached, Limit]);
    concave(
        "a hinge",
        2,
        |_, z| 0.1 * z * z + 4.0 * z.max(0.0),
        |_, z| 0.2 * z + if z > 0.0 { 4.0 } else { 0.0 },
        |_| (-2.0, 1.5),
        &[Reached, Limit],
    );
    concave(
        "tails like exp(exp)",
        4,
        |_, z| (2.0 * z).cosh(),
        |_, z| 2.0 * (2.0 * z).sinh(),
        |_| (0.0, 0.5),
        reached,
    );
    concave("quartic", 4, |_, z| 0.25 * z.powi(4), |_, z| z.powi(3), |_| (0.0, 0.8), reached);
    // the undefined ones start inside of their domain
    for case in &mut all {
        if case.name == "undefined below zero" {
            case.start = Some(vec![1.0, 0.0]);
        }
    }
    all
}

fn run(seeds: u64) {
    let mut wrong = Vec::new();
    for case in &cases() {
        let (mut statuses, mut worst, mut slowest) = (Vec::new(), 0.0_f64, Duration::ZERO);
        let least = least_energy(case);
        for seed in 0..seeds {
            let goal = Goal { seed, start: case.start.clone(), threads: Some(1), ..Goal::default() };
            let outcome = auto(case, &goal).unwrap();
            slowest = slowest.max(outcome.elapsed);
            let status = outcome.status.clone();
            let gap = energy(case, &outcome.gaussian).zip(least).map(|(f, least)| f - least);
            let gap = gap.filter(|_| status == Status::Reached);
            worst = worst.max(gap.unwrap_or(0.0));
            let mut complain =
                |why: String| wrong.push(format!("{} (seed {seed}): {why}: {}", case.name, outcome.message));
            if !case.expected.contains(&status) {
                complain(format!("status {}", status.as_str()));
            }
            if !outcome.message.contains(case.words) {
                complain(format!("no word of {:?}", case.words));
            }
            // reached at 0.01 with twice a standard error to spare: 0.02 is what a false one would exceed
            if gap.is_some_and(|g| g > 0.02) {
                complain(format!("reached, but the gap is {}", gap.unwrap()));
            }
            if outcome.elapsed > Duration::from_secs(10) {
                complain(format!("{:?}", outcome.elapsed));
            }
            statuses.push(format!("{} {}", status.as_str(), outcome.counts.gradients));
        }
        statuses.dedup();
        println!(
            "{:<40} {slowest:>10.1?} worst gap {worst:.1e}  {}",
            case.name,
            statuses[..statuses.len().min(3)].join(", ")
        );
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn hard_targets_end_well() {
    run(3);
}

#[test]
#[ignore = "twenty seeds"]
fn full_hard_targets_end_well() {
    run(20);
}

/// An error of the user's comes back as itself, with the last good Gaussian.
#[test]
fn user_errors_come_back() {
    struct Failing(AtomicU64);
    impl PointTarget for Failing {
        fn dim(&self) -> usize {
            2
        }
        fn log_density_at(&self, z: &[f64], g: &mut [f64]) -> Result<f64, TargetError> {
            if self.0.fetch_add(1, Ordering::Relaxed) == 200 {
                return Err("the disk is full".into());
            }
            Ok(student(z, g))
        }
    }
    let outcome = auto(&Failing(AtomicU64::new(0)), &Goal::default()).unwrap();
    assert_eq!(outcome.status, Status::UserError);
    assert!(outcome.message.contains("the disk is full") && outcome.error.is_some());
    assert!(outcome.gaussian.is_proper() && outcome.counts.gradients >= 200);
}
