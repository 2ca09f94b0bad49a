//! Counts y with mean eᵗ and variance eᵗ + e²ᵗ/k, dispersion k given:
//! φ(t) = (y+k) log(k + eᵗ) − y t + log Γ(y+1) + log Γ(k) − log Γ(y+k) − k log k; φ″ = (y+k) σσ̄(t − log k) ≤ (y+k)/4.

use super::{Datum, Likelihood, sigmoid::sigmoid_methods, slice_methods};
use crate::error::Error;
use crate::special::{ln_gamma, sigmoid, sigmoid_slope, softplus};

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

impl NegativeBinomial {
    fn size(&self, datum: Datum) -> f64 {
        datum.y + self.k
    }

    fn center(&self) -> f64 {
        self.log_k
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

    sigmoid_methods!();
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
