//! Counts y with mean eᵗ and variance eᵗ + e²ᵗ/k, dispersion k given:
//! φ(t) = (y+k) log(k + eᵗ) − y t + log Γ(y+1) + log Γ(k) − log Γ(y+k) − k log k; φ″ = (y+k) σσ̄(t − log k) ≤ (y+k)/4.

use super::{Datum, Likelihood, slice_methods};
use crate::error::Error;
use crate::special::{exp, ln_gamma, sigmoid, sigmoid_slope, softplus};

/// Negative-binomial responses with the log link and known dispersion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NegativeBinomial {
    k: f64,
    log_k: f64,
}

impl NegativeBinomial {
    /// With dispersion k (variance mean + mean²/k).
    pub fn new(dispersion: f64) -> Result<Self, Error> {
        if dispersion > 0.0 && dispersion.is_finite() {
            Ok(Self { k: dispersion, log_k: dispersion.ln() })
        } else {
            Err(Error::Model(format!("dispersion is {dispersion}, but a finite number above 0 is required")))
        }
    }
}

impl Likelihood for NegativeBinomial {
    fn name(&self) -> &'static str {
        "negative-binomial"
    }

    fn parameter(&self) -> Option<(&'static str, f64)> {
        Some(("dispersion", self.k))
    }

    fn reject(&self, datum: Datum) -> Option<String> {
        super::Poisson.reject(datum)
    }

    #[inline(always)]
    fn value(&self, t: f64, datum: Datum) -> f64 {
        let (y, s) = (datum.y, t - self.log_k);
        // (y+k) log(k + eᵗ) − y t − k log k = k log(1+eˢ) + y log(1+e^{−s})
        let constant = ln_gamma(y + 1.0) + ln_gamma(self.k) - ln_gamma(y + self.k);
        self.k * softplus(s) + y * softplus(-s) + constant
    }

    #[inline(always)]
    fn slope(&self, t: f64, datum: Datum) -> f64 {
        let s = t - self.log_k;
        self.k * sigmoid(s) - datum.y * sigmoid(-s)
    }

    #[inline(always)]
    fn bend(&self, t: f64, datum: Datum) -> f64 {
        (datum.y + self.k) * sigmoid_slope(t - self.log_k)
    }

    fn least_bend(&self, _datum: Datum) -> f64 {
        0.0
    }

    fn most_bend(&self, datum: Datum) -> Option<f64> {
        Some(0.25 * (datum.y + self.k))
    }

    fn bend_near(&self, t: f64, radius: f64, datum: Datum) -> f64 {
        self.bend(t, datum) * exp(-radius)
    }

    /// φ″ is even about log k and falls away from it.
    fn bend_within(&self, t: f64, radius: f64, datum: Datum) -> f64 {
        (datum.y + self.k) * sigmoid_slope((t - self.log_k).abs() + radius)
    }

    /// As for the logistic loss, about log k.
    fn log_bend(&self, t: f64, _datum: Datum) -> Option<(f64, f64)> {
        Some((-(0.5 * (t - self.log_k)).tanh(), 0.5))
    }

    fn most_twist(&self, datum: Datum) -> Option<f64> {
        Some((datum.y + self.k) / (6.0 * 3f64.sqrt()))
    }

    /// φ⁗ = s − 6s², s = σσ̄ ≤ ¼.
    fn most_turn(&self, datum: Datum) -> Option<f64> {
        Some(0.125 * (datum.y + self.k))
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

    fn scale(&self, _mean: f64, _sd: f64, datum: Datum) -> f64 {
        datum.y + self.k
    }

    slice_methods!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::likelihood::checks::consistent;

    #[test]
    fn negative_binomial() {
        let data = [0.0, 1.0, 40.0].map(|y| Datum { y, trials: 1.0 });
        for k in [0.3, 1.0, 25.0] {
            let likelihood = NegativeBinomial::new(k).expect("valid");
            consistent(&likelihood, &data, &[-15.0, -1.0, 0.0, 2.0, 6.0]);
            let terms =
                (0..4000).map(|y| (-likelihood.value(0.5, Datum { y: f64::from(y), trials: 1.0 })).exp());
            let (total, mean) =
                terms.enumerate().fold((0.0, 0.0), |(a, b), (y, p)| (a + p, b + p * y as f64));
            assert!(
                (total - 1.0).abs() < 1e-10 && (mean - 0.5_f64.exp()).abs() < 1e-9,
                "k = {k}: {total} {mean}"
            );
        }
        assert!(NegativeBinomial::new(-1.0).is_err());
    }
}
