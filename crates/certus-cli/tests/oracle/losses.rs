//! The six responses written out from their definitions: −log p(y | t), its slope and its bend. Nothing here is
//! certus's.

use std::f64::consts::{PI, SQRT_2};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Response {
    Linear { sigma: f64 },
    Logistic,
    Binomial,
    Probit,
    Poisson,
    NegativeBinomial { k: f64 },
}

#[derive(Clone, Debug)]
pub struct Row {
    pub y: f64,
    pub trials: f64,
    pub x: Vec<f64>,
    pub weight: f64,
    pub offset: f64,
    pub group: usize,
}

impl Response {
    pub fn name(self) -> &'static str {
        match self {
            Response::Linear { .. } => "linear",
            Response::Logistic => "logistic",
            Response::Binomial => "binomial",
            Response::Probit => "probit",
            Response::Poisson => "poisson",
            Response::NegativeBinomial { .. } => "negative-binomial",
        }
    }

    /// What φ has besides its dependence on t, which only the evidence sees.
    pub fn constant(self, row: &Row) -> f64 {
        match self {
            Response::Linear { sigma } => (sigma * (2.0 * PI).sqrt()).ln(),
            Response::Logistic | Response::Probit => 0.0,
            Response::Binomial => {
                log_factorial(row.y) + log_factorial(row.trials - row.y) - log_factorial(row.trials)
            }
            Response::Poisson => log_factorial(row.y),
            Response::NegativeBinomial { k } => {
                let rising: f64 = (0..row.y as u32).map(|i| (k + f64::from(i)).ln()).sum();
                log_factorial(row.y) - rising - k * k.ln()
            }
        }
    }

    /// φ at t without the constant.
    pub fn value(self, t: f64, row: &Row) -> f64 {
        match self {
            // one exponential instead of two
            Response::Poisson => t.exp() - row.y * t,
            Response::Logistic | Response::Binomial => {
                row.trials * (t.max(0.0) + (-t.abs()).exp().ln_1p()) - row.y * t
            }
            _ => self.at(t, row).0,
        }
    }

    /// (φ, φ′, φ″) at t without the constant.
    pub fn at(self, t: f64, row: &Row) -> (f64, f64, f64) {
        let sigmoid = |t: f64| if t >= 0.0 { 1.0 / (1.0 + (-t).exp()) } else { t.exp() / (1.0 + t.exp()) };
        let softplus = |t: f64| t.max(0.0) + (-t.abs()).exp().ln_1p();
        match self {
            Response::Linear { sigma } => {
                let (r, p) = (t - row.y, 1.0 / (sigma * sigma));
                (0.5 * p * r * r, p * r, p)
            }
            Response::Logistic | Response::Binomial => {
                let (n, s) = (row.trials, sigmoid(t));
                (n * softplus(t) - row.y * t, n * s - row.y, n * s * sigmoid(-t))
            }
            Response::Probit => {
                let sign = 2.0 * row.y - 1.0;
                let (log, hazard) = log_normal_cdf(sign * t);
                (-log, -sign * hazard, hazard * (hazard + sign * t))
            }
            Response::Poisson => (t.exp() - row.y * t, t.exp() - row.y, t.exp()),
            Response::NegativeBinomial { k } => {
                let (size, s) = (row.y + k, sigmoid(t - k.ln()));
                let value = size * (k.ln() + softplus(t - k.ln())) - row.y * t;
                (value, size * s - row.y, size * s * sigmoid(k.ln() - t))
            }
        }
    }
}

fn log_factorial(n: f64) -> f64 {
    (2..=n as u32).map(|i| f64::from(i).ln()).sum()
}

/// log Φ(x) and the hazard φ(x)/Φ(x): the series of the error function in the middle, a continued fraction to the left.
fn log_normal_cdf(x: f64) -> (f64, f64) {
    let density = (-0.5 * x * x).exp() / (2.0 * PI).sqrt();
    if x < -2.5 {
        // Φ(x) = density·1/(y + 1/(y + 2/(y + 3/…))), y = −x
        let y = -x;
        let fraction = (1..80).rev().fold(y, |tail, k| y + f64::from(k) / tail);
        return (-0.5 * x * x - (fraction * (2.0 * PI).sqrt()).ln(), fraction);
    }
    // Φ = ½ + density·(x + x³/3 + x⁵/15 + …)
    if x < 6.0 {
        let (mut term, mut sum, mut k) = (x, x, 1.0);
        while term.abs() > 1e-18 * sum.abs() && k < 400.0 {
            term *= x * x / (2.0 * k + 1.0);
            sum += term;
            k += 1.0;
        }
        let cdf = 0.5 + density * sum;
        return (cdf.ln(), density / cdf);
    }
    let tail = density / (1..80).rev().fold(x, |tail, k| x + f64::from(k) / tail);
    ((-tail).ln_1p(), density / (1.0 - tail))
}

#[test]
fn the_normal_cdf() {
    for (x, p) in [(0.0, 0.5), (1.0, 0.841_344_746_068_542_9), (-2.0, 0.022_750_131_948_179_21)] {
        assert!((log_normal_cdf(x).0 - f64::ln(p)).abs() < 1e-13);
    }
    // both formulas where they meet, and the derivative of log Φ is the hazard
    for x in [-2.5, 6.0, -1.0, 3.0, -7.0] {
        let h = 1e-5;
        let (a, b) = (log_normal_cdf(x - h), log_normal_cdf(x + h));
        let slope = (b.0 - a.0) / (2.0 * h);
        assert!((slope - log_normal_cdf(x).1).abs() < 1e-8 * (1.0 + x.abs()), "{x}");
    }
    assert!((log_normal_cdf(-30.0).0 + 454.321_244).abs() < 1e-5 && SQRT_2 > 1.0);
}
