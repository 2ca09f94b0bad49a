//! y ∈ {0, 1}, P(y = 1) = σ(t): with s = 2y − 1, φ(t) = log(1 + e^{−st}), φ′ = −sσ(−st), φ″ = σ(t)σ(−t) ≤ 1/4 (A5).
//!
//! |φ‴| = φ″|1 − 2σ| ≤ φ″, so φ″ falls by at most e^{−D} over a distance D; sup|φ‴| = 1/(6√3). Poles of σ at ±πi: in the strip
//! |Im t| ≤ π/2, |σ| and |σσ| are at most 1, which gives the trapezoid error (math: E).

use super::{Datum, Likelihood, slice_methods};
use crate::special::{exp, sigmoid, sigmoid_slope, softplus};

/// Bernoulli responses with the logit link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Logistic;

impl Likelihood for Logistic {
    fn name(&self) -> &'static str {
        "logistic"
    }

    fn reject(&self, datum: Datum) -> Option<String> {
        (datum.y != 0.0 && datum.y != 1.0)
            .then(|| format!("the response is {}, but 0 or 1 is required", datum.y))
    }

    #[inline(always)]
    fn value(&self, t: f64, datum: Datum) -> f64 {
        softplus((1.0 - 2.0 * datum.y) * t)
    }

    #[inline(always)]
    fn slope(&self, t: f64, datum: Datum) -> f64 {
        let s = 1.0 - 2.0 * datum.y;
        s * sigmoid(s * t)
    }

    #[inline(always)]
    fn bend(&self, t: f64, _datum: Datum) -> f64 {
        sigmoid_slope(t)
    }

    fn least_bend(&self, _datum: Datum) -> f64 {
        0.0
    }

    fn most_bend(&self, _datum: Datum) -> Option<f64> {
        Some(0.25)
    }

    fn bend_near(&self, t: f64, radius: f64, _datum: Datum) -> f64 {
        sigmoid_slope(t) * exp(-radius)
    }

    /// φ″ is even and falls with |t|.
    fn bend_within(&self, t: f64, radius: f64, _datum: Datum) -> f64 {
        sigmoid_slope(t.abs() + radius)
    }

    /// (log φ″)′ = −tanh(t/2), (log φ″)″ = −½ sech²(t/2) ≥ −½.
    fn log_bend(&self, t: f64, _datum: Datum) -> Option<(f64, f64)> {
        Some((-(0.5 * t).tanh(), 0.5))
    }

    fn most_twist(&self, _datum: Datum) -> Option<f64> {
        Some(1.0 / (6.0 * 3f64.sqrt()))
    }

    /// φ⁗ = s − 6s², s = σσ̄ ≤ ¼.
    fn most_turn(&self, _datum: Datum) -> Option<f64> {
        Some(0.125)
    }

    fn twist_below_bend(&self) -> bool {
        true
    }

    fn strip(&self) -> f64 {
        std::f64::consts::FRAC_PI_2
    }

    fn strip_is_proved(&self) -> bool {
        true
    }

    fn scale(&self, _mean: f64, _sd: f64, _datum: Datum) -> f64 {
        1.0
    }

    slice_methods!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::likelihood::checks::consistent;

    #[test]
    fn logistic() {
        let data = [0.0, 1.0].map(|y| Datum { y, trials: 1.0 });
        consistent(&Logistic, &data, &[-30.0, -4.0, -1.0, 0.0, 0.3, 2.0, 9.0, 36.0]);
        assert!(Logistic.reject(Datum { y: 0.5, trials: 1.0 }).is_some_and(|m| m.contains("0.5")));
        // relative accuracy in the far tail, where 1 − σ(t) would be 0
        let far = Logistic.slope(50.0, data[1]);
        assert!((far / -(-50f64).exp() - 1.0).abs() < 1e-14);
    }
}
