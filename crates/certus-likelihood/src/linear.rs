//! y ~ N(t, σ²), σ given: φ(t) = (t − y)²/(2σ²) + ½ log 2πσ² (A3: plus), φ″ = 1/σ² (A2).

use std::f64::consts::PI;
use std::sync::Arc;

use crate::bounds::Bounds;
use crate::draw::normal;
use crate::error::Error;
use crate::loss::{Datum, Loss, Moments, sealed::Seal};
use crate::response::{Auxiliary, Entry, Link, Values};
use crate::strip::Strip;

/// Normal errors with known standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Linear {
    sigma: f64,
}

pub(crate) const ENTRY: Entry = Entry {
    name: "linear",
    about: "Continuous responses with normal noise",
    values: Values::Numbers,
    link: Link::Identity,
    parameter: Some(Auxiliary::Sigma),
    reject: |datum| Linear { sigma: 1.0 }.reject(datum),
    make: |sigma| Ok(Arc::new(Linear::new(sigma)?)),
    draw: |rng, t, sigma, _| t + sigma * normal(rng),
};

impl Linear {
    /// With error standard deviation `sigma`.
    pub fn new(sigma: f64) -> Result<Self, Error> {
        if sigma > 0.0 && sigma.is_finite() {
            Ok(Self { sigma })
        } else {
            Err(Error::Parameter { name: "sigma", value: sigma })
        }
    }

    fn precision(&self) -> f64 {
        1.0 / (self.sigma * self.sigma)
    }

    fn constant(&self) -> f64 {
        0.5 * (2.0 * PI).ln() + self.sigma.ln()
    }
}

impl Loss for Linear {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn is_ours(&self, _: Seal) -> bool {
        true
    }

    fn parameter(&self) -> Option<(&'static str, f64)> {
        Some(("sigma", self.sigma))
    }

    fn reject(&self, datum: Datum) -> Option<String> {
        (!datum.y.is_finite())
            .then(|| format!("the response is {}, but a finite number is required", datum.y))
    }

    #[inline(always)]
    fn value(&self, t: f64, datum: Datum) -> f64 {
        0.5 * self.precision() * (t - datum.y).powi(2) + self.constant()
    }

    #[inline(always)]
    fn first_derivative(&self, t: f64, datum: Datum) -> f64 {
        self.precision() * (t - datum.y)
    }

    #[inline(always)]
    fn second_derivative(&self, _t: f64, _datum: Datum) -> f64 {
        self.precision()
    }

    fn is_quadratic(&self) -> bool {
        true
    }

    fn exact_moments(&self, mean: f64, sd: f64, datum: Datum) -> Option<Moments> {
        let q = self.precision();
        let r = mean - datum.y;
        Some(Moments { e0: 0.5 * q * (r * r + sd * sd) + self.constant(), e1: q * r, q0: q, q1: 0.0, q2: q })
    }
}

impl Bounds for Linear {
    fn second_derivative_min(&self, _datum: Datum) -> f64 {
        self.precision()
    }

    fn second_derivative_max(&self, _datum: Datum) -> Option<f64> {
        Some(self.precision())
    }

    fn second_derivative_near(&self, _t: f64, _radius: f64, _datum: Datum) -> f64 {
        self.precision()
    }

    fn log_second_derivative(&self, _t: f64, _datum: Datum) -> Option<(f64, f64)> {
        Some((0.0, 0.0))
    }

    fn third_derivative_max(&self, _datum: Datum) -> Option<f64> {
        Some(0.0)
    }

    fn fourth_derivative_max(&self, _datum: Datum) -> Option<f64> {
        Some(0.0)
    }
}

impl Strip for Linear {
    fn strip(&self) -> f64 {
        f64::INFINITY
    }

    /// Re (t + iτ − y)² = (t − y)² − τ².
    fn strip_loss(&self, tau: f64) -> Option<f64> {
        Some(0.5 * tau * tau)
    }

    fn strip_size(&self, _datum: Datum) -> f64 {
        self.precision()
    }

    /// E|t + s x + iτ − y| ≤ |t − y| + |s|(|lean| + 1) + |τ|.
    fn rotated_first_derivative(&self, t: f64, s: f64, lean: f64, tau: f64, datum: Datum) -> Option<f64> {
        Some(self.precision() * ((t - datum.y).abs() + s.abs() * (lean.abs() + 1.0) + tau.abs()))
    }

    /// φ′ varies with t, whose sd is at most |s|.
    fn first_derivative_spread(&self, s: f64, _datum: Datum) -> f64 {
        self.precision() * s.abs()
    }

    /// (t − y)²/σ² = φ′²σ², and the constant.
    fn terms(&self, _reach: f64, first: f64, _datum: Datum) -> f64 {
        first * first / self.precision() + 1.0 + self.sigma.ln().abs()
    }

    fn strip_is_proved(&self) -> bool {
        true
    }

    fn scale(&self, mean: f64, _sd: f64, datum: Datum) -> f64 {
        self.precision() * (1.0 + mean.abs() + datum.y.abs())
    }

    fn first_derivative_growth(&self, datum: Datum) -> f64 {
        2.0 * datum.y.abs() + self.strip_size(datum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::consistent;

    #[test]
    fn linear() {
        let data = [0.0, -3.0, 7.5].map(|y| Datum { y, trials: 1.0 });
        consistent(&Linear::new(0.3).expect("valid"), &data, &[-5.0, 0.0, 2.0, 40.0]);
        assert!(Linear::new(0.0).is_err() && Linear::new(f64::NAN).is_err());
        assert!(Linear::new(1.0).expect("valid").reject(Datum { y: f64::NAN, trials: 1.0 }).is_some());
    }

    /// A3: −log N(y | t, σ²) at t = y is +½ log 2πσ²; the printed sign is minus.
    #[test]
    fn erratum_a3() {
        let value = Linear::new(0.3).expect("valid").value(1.0, Datum { y: 1.0, trials: 1.0 });
        assert!((value - 0.5 * (2.0 * PI * 0.09).ln()).abs() < 1e-15);
    }
}
