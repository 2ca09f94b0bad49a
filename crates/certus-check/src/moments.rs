//! What a row contributes: E φ′ and E φ″ xᵏ, k = 0 … 4, where the predictor is t = c + s x with a standard normal x
//! (docs/certificate-format.md, "Moments" and "The trapezoidal rule").

use crate::ball::{Ball, TINY, U, exp, two_sum, up};

/// The likelihoods of version 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Likelihood {
    /// φ(t) = (y − t)²/(2σ²), with σ.
    Linear(f64),
    /// φ(t) = log(1 + eᵗ) − y t.
    Logistic,
    /// φ(t) = n log(1 + eᵗ) − y t.
    Binomial,
    /// φ(t) = eᵗ − y t.
    Poisson,
}

impl Likelihood {
    /// The name in certificates.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linear(_) => "linear",
            Self::Logistic => "logistic",
            Self::Binomial => "binomial",
            Self::Poisson => "poisson",
        }
    }

    /// κ with |φ‴| ≤ κ φ″.
    pub fn bend(self) -> f64 {
        if matches!(self, Self::Linear(_)) { 0.0 } else { 1.0 }
    }

    /// What is wrong with a response, if anything.
    pub fn reject(self, y: f64, trials: f64) -> Option<&'static str> {
        let whole = |x: f64| x >= 0.0 && x.fract() == 0.0;
        match self {
            Self::Binomial => {
                (!(whole(y) && whole(trials) && y <= trials)).then_some("0 ≤ y ≤ trials, whole numbers")
            }
            _ if trials != 1.0 => Some("trials = 1"),
            Self::Linear(_) => (!y.is_finite()).then_some("a finite y"),
            Self::Logistic => (y != 0.0 && y != 1.0).then_some("y = 0 or 1"),
            Self::Poisson => (!whole(y)).then_some("a whole number y ≥ 0"),
        }
    }
}

/// E φ′ and E φ″ xᵏ.
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    /// E φ′(c + s x).
    pub slope: Ball,
    /// E φ″(c + s x) xᵏ.
    pub curvature: [Ball; 5],
}

/// Nodes end here.
const END: f64 = 9.0;
/// At least 2∫₉^∞ xᵏ N(x) dx.
const TAILS: [f64; 5] = [2.3e-19, 2.1e-18, 1.9e-17, 1.8e-16, 1.6e-15];
/// The strip |Im t| ≤ 2.5, in which |σ| and |σ′| are at most 3.
const STRIP: f64 = 2.5;
/// Errors of the rule that are small enough.
const GOAL: f64 = 1e-18;
/// Uncertainties of the logarithm of E that the formulas of a node are proved for.
const REACH: f64 = 0.2;

/// The trapezoidal rule with one step.
#[derive(Debug)]
struct Rule {
    /// It may be used for sds up to this.
    most: f64,
    /// Its error for integrands σ(c + s z) zᵏ N(z) and σ′(c + s z) zᵏ N(z).
    error: f64,
    /// The relative error of the weights.
    inexact: f64,
    /// Nodes x and weights η N(x).
    nodes: Vec<(f64, f64)>,
}

/// The rules, coarse to fine.
#[derive(Debug)]
pub struct Quadrature(Vec<Rule>);

impl Quadrature {
    /// All rules with steps 2⁻ᵏ and 3·2⁻ᵏ⁻²: their nodes are exact numbers.
    pub fn all() -> &'static Self {
        static ALL: std::sync::OnceLock<Quadrature> = std::sync::OnceLock::new();
        let steps = || (1..10).flat_map(|k| [1.0 / f64::from(1 << k), 0.75 / f64::from(1 << k)]);
        ALL.get_or_init(|| Self(steps().filter_map(Rule::new).collect()))
    }

    /// E σ(c + s x) and E σ′(c + s x) xᵏ for every c and s of the balls; nothing is known if s is too large.
    fn logistic(&self, c: Ball, s: Ball) -> Moments {
        let unknown = Ball::new(0.0, f64::INFINITY);
        let rule = match self.0.iter().find(|rule| s.upper() <= rule.most) {
            Some(rule) if c.rad.is_finite() => rule,
            _ => return Moments { slope: unknown, curvature: [unknown; 5] },
        };
        let (mut slope, mut lost, mut slope_rad, mut worst) = (0.0, 0.0, 0.0, 0.0f64);
        let mut sums = [0.0f64; 5];
        for &(x, weight) in &rule.nodes {
            let product = s.mid * x;
            let t = product + c.mid;
            // how far log E can be from the truth
            let reach = c.rad + s.rad * x.abs() + U * (product.abs() + t.abs()) + 16.0 * U;
            if reach.is_nan() || reach > REACH {
                return Moments { slope: unknown, curvature: [unknown; 5] };
            }
            let e = exp(-t.abs()).mid;
            let b = 1.0 / (1.0 + e);
            let (sigma, v) = (if t >= 0.0 { b } else { e * b }, e * b * b);
            let change = reach * (1.0 + 2.0 * reach);
            let (sum, low) = two_sum(slope, weight * sigma);
            (slope, lost) = (sum, lost + low);
            slope_rad += weight * (v * change + sigma * (6.0 * U + rule.inexact));
            worst = worst.max(change);
            let mut term = weight * v;
            for sum in &mut sums {
                *sum += term;
                term *= x;
            }
        }
        let n = rule.nodes.len() as f64;
        let relative = worst + rule.inexact + (n + 16.0) * U;
        let mut curvature = [Ball::ZERO; 5];
        for k in 0..5 {
            // Σ of the terms' sizes; |x|ᵏ ≤ (|x|ᵏ⁻¹ + |x|ᵏ⁺¹)/2 for odd k
            let sizes = if k % 2 == 0 { sums[k] } else { 0.5 * (sums[k - 1] + sums[k + 1]) };
            // all sizes are rounded sums of nonnegative terms themselves
            let sizes = sizes * (1.0 + 2.0 * n * U);
            curvature[k] = Ball::new(sums[k], up(relative * sizes + rule.error + 0.25 * TAILS[k] + n * TINY));
        }
        // the sum of what rounding took away is rounded: n² u² of the whole
        let own = (1.0 + 2.0 * n * U) * slope_rad + (2.0 * U + 2.0 * n * n * U * U) * (slope + n * TINY);
        let slope = Ball::new(slope + lost, up(own + rule.error + TAILS[0] + n * TINY));
        Moments { slope, curvature }
    }

    /// E φ′ and E φ″ xᵏ of a row with response y.
    pub fn moments(&self, likelihood: Likelihood, y: f64, trials: f64, c: Ball, s: Ball) -> Moments {
        match likelihood {
            Likelihood::Linear(sd) => {
                let precision = Ball::exact(1.0) / (Ball::exact(sd) * sd);
                let zero = Ball::ZERO;
                Moments {
                    slope: (c - y) * precision,
                    curvature: [precision, zero, precision, zero, precision * 3.0],
                }
            }
            Likelihood::Poisson => {
                let square = s * s;
                let rate = (c + square * 0.5).exp();
                // E (s + x)ᵏ, because eᵗ N(x) moves the normal by s
                let powers =
                    [Ball::exact(1.0), s, square + 1.0, s * (square + 3.0), square * (square + 6.0) + 3.0];
                Moments { slope: rate - y, curvature: powers.map(|power| rate * power) }
            }
            Likelihood::Logistic | Likelihood::Binomial => {
                let one = self.logistic(c, s);
                Moments { slope: one.slope * trials - y, curvature: one.curvature.map(|p| p * trials) }
            }
        }
    }
}

impl Rule {
    /// The rule with a step, if a strip is found in which its error reaches the goal.
    fn new(step: f64) -> Option<Self> {
        let two_pi = Ball { mid: std::f64::consts::TAU, rad: 8.0 * U };
        // 6(4 + 2a² + a⁴)e^{a²/2}/(e^{2πa/η} − 1)
        let error = |a: f64| {
            let square = Ball::exact(a) * a;
            let growth = (square * (square + 2.0) + 4.0) * 6.0 * (square * 0.5).exp();
            // e^{−x}/(1 − e^{−x}) = 1/(eˣ − 1)
            let small = (-two_pi * a / step).exp();
            (growth * small / (Ball::exact(1.0) - small)).upper()
        };
        let mut a = 6.0 * step;
        while error(a) > GOAL {
            a *= 1.02;
            if a > 8.0 {
                return None;
            }
        }
        // 1/√(2π)
        let density = Ball { mid: 0.398_942_280_401_432_7, rad: U };
        let count = (END / step) as i32;
        let (mut nodes, mut inexact) = (Vec::new(), 0.0f64);
        for j in -count..=count {
            // at most 14 bits, so that x² is exact too
            let x = f64::from(j) * step;
            let weight = exp(-0.5 * x * x) * density * step;
            inexact = inexact.max(up(weight.rad / (weight.mid - weight.rad)));
            nodes.push((x, weight.mid));
        }
        Some(Self { most: (STRIP / a) * (1.0 - 4.0 * U), error: error(a), inexact, nodes })
    }
}
