//! y ∈ {0, 1}, P(y = 1) = σ(t): with s = 2y − 1, φ(t) = log(1 + e^{−st}), φ′ = −sσ(−st), φ″ = σ(t)σ(−t) ≤ 1/4 (A5).
//!
//! |φ‴| = φ″|1 − 2σ| ≤ φ″, so φ″ falls by at most e^{−D} over a distance D; sup|φ‴| = 1/(6√3). Poles of σ at ±πi: in the strip
//! |Im t| ≤ π/2, |σ| and |σσ| are at most 1, which gives the trapezoid error (math: E).

use super::{Datum, Likelihood, sigmoid::sigmoid_methods, slice_methods};
use crate::special::{exp, log_1p_unit, sigmoid, sigmoid_slope, softplus};

/// Bernoulli responses with the logit link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Logistic;

impl Logistic {
    fn size(&self, _datum: Datum) -> f64 {
        1.0
    }

    fn center(&self) -> f64 {
        0.0
    }
}

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

    /// One exponential for all three: |st| = |t|.
    #[inline(always)]
    fn all(&self, t: f64, datum: Datum) -> [f64; 3] {
        let s = 1.0 - 2.0 * datum.y;
        let (turned, e) = (s * t, exp(-t.abs()));
        let top = if turned >= 0.0 { 1.0 } else { e };
        [turned.max(0.0) + log_1p_unit(e), s * (top / (1.0 + e)), e / ((1.0 + e) * (1.0 + e))]
    }

    sigmoid_methods!();
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
