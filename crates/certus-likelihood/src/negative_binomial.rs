//! Counts y with mean eᵗ and variance eᵗ + e²ᵗ/k, dispersion k given:
//! φ(t) = (y+k) log(k + eᵗ) − y t + log Γ(y+1) + log Γ(k) − log Γ(y+k) − k log k; φ″ = (y+k) σσ̄(t − log k) ≤ (y+k)/4.

use std::f64::consts::FRAC_PI_2;
use std::sync::Arc;

use crate::draw::{gamma, poisson};
use crate::error::Error;
use crate::loss::{Datum, Loss, sealed::Seal};
use crate::poisson::Poisson;
use crate::response::{Auxiliary, Entry, Link, Values};
use crate::sigmoid::{self, Sigmoid};
use crate::special::{ln_gamma, sigmoid, sigmoid_derivative, softplus};
use crate::strip::{Strip, of_counts};

/// Negative-binomial responses with the log link and known dispersion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NegativeBinomial {
    k: f64,
    log_k: f64,
}

pub(crate) const ENTRY: Entry = Entry {
    name: "negative-binomial",
    about: "Overdispersed counts",
    values: Values::Counts,
    link: Link::Log,
    parameter: Some(Auxiliary::Dispersion),
    reject: |datum| Poisson.reject(datum),
    make: |k| Ok(Arc::new(NegativeBinomial::new(k)?)),
    draw: |rng, t, k, _| {
        let rate = t.exp() * gamma(rng, k) / k;
        poisson(rng, rate)
    },
};

/// From this k on, φ is written and bounded as that of a Poisson response, which it is near.
const LARGE: f64 = 32.0;

impl NegativeBinomial {
    /// With dispersion k (variance mean + mean²/k).
    pub fn new(dispersion: f64) -> Result<Self, Error> {
        if dispersion > 0.0 && dispersion.is_finite() {
            Ok(Self { k: dispersion, log_k: dispersion.ln() })
        } else {
            Err(Error::Parameter { name: "dispersion", value: dispersion })
        }
    }
}

impl Sigmoid for NegativeBinomial {
    fn size(&self, datum: Datum) -> f64 {
        datum.y + self.k
    }

    fn center(&self) -> f64 {
        self.log_k
    }
}

impl Loss for NegativeBinomial {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn is_ours(&self, _: Seal) -> bool {
        true
    }

    fn parameter(&self) -> Option<(&'static str, f64)> {
        Some(("dispersion", self.k))
    }

    fn reject(&self, datum: Datum) -> Option<String> {
        Poisson.reject(datum)
    }

    #[inline(always)]
    fn value(&self, t: f64, datum: Datum) -> f64 {
        let (y, s) = (datum.y, t - self.log_k);
        if self.k >= LARGE {
            return (self.k + y) * softplus(s) - y * t - ln_rising_ratio(self.k, y) + ln_gamma(y + 1.0);
        }
        // (y+k) log(k + eᵗ) − y t − k log k = k log(1+eˢ) + y log(1+e^{−s})
        let constant = ln_gamma(y + 1.0) + ln_gamma(self.k) - ln_gamma(y + self.k);
        self.k * softplus(s) + y * softplus(-s) + constant
    }

    #[inline(always)]
    fn first_derivative(&self, t: f64, datum: Datum) -> f64 {
        let s = t - self.log_k;
        self.k * sigmoid(s) - datum.y * sigmoid(-s)
    }

    #[inline(always)]
    fn second_derivative(&self, t: f64, datum: Datum) -> f64 {
        (datum.y + self.k) * sigmoid_derivative(t - self.log_k)
    }
}

impl Strip for NegativeBinomial {
    fn strip(&self) -> f64 {
        sigmoid::STRIP
    }

    fn strip_is_proved(&self) -> bool {
        true
    }

    fn scale(&self, _mean: f64, _sd: f64, datum: Datum) -> f64 {
        self.size(datum)
    }

    fn strip_loss(&self, tau: f64) -> Option<f64> {
        (self.k < LARGE).then(|| sigmoid::strip_loss(tau))
    }

    /// For a large k nothing: φ′ = (y + k)σ(s) − y grows at most as e^t does.
    fn strip_size(&self, datum: Datum) -> f64 {
        if self.k < LARGE { self.size(datum) } else { 0.0 }
    }

    /// For a large k: |k + e^{t+iτ}| ≥ k + e^t cos τ for |τ| < π/2, so Re φ(t + iτ) ≥ φ(t + log cos τ) + y log cos τ,
    /// which is convex and falls with |τ|.
    fn rotated(&self, t: f64, tau: f64, datum: Datum) -> Option<[f64; 3]> {
        if self.k < LARGE {
            let own =
                [self.value(t, datum), self.first_derivative(t, datum), self.second_derivative(t, datum)];
            return Some(sigmoid::rotated(own, t - self.center(), tau, self.size(datum)));
        }
        if tau.abs() >= FRAC_PI_2 {
            return None;
        }
        let shift = tau.cos().ln();
        let at = t + shift;
        Some([
            self.value(at, datum) + datum.y * shift,
            self.first_derivative(at, datum),
            self.second_derivative(at, datum),
        ])
    }

    /// φ′ = (y + k)σ − y. For a large k: |k + e^{t+iτ}| ≥ k, so |φ′| ≤ (1 + y/k)e^{t + s x} + y, and E e^{s x} =
    /// e^{s²/2 − s·lean}.
    fn rotated_first_derivative(&self, t: f64, s: f64, lean: f64, tau: f64, datum: Datum) -> Option<f64> {
        if self.k >= LARGE {
            return Some((1.0 + datum.y / self.k) * (t + 0.5 * s * s - s * lean).exp() + datum.y);
        }
        Some(sigmoid::rotated_first_derivative(self.size(datum), tau, datum.y))
    }

    /// t − log k, and a small k beside the counts: a large one only enters as (y + k)σ(t − log k) ≤ y + φ′.
    fn terms(&self, reach: f64, first: f64, datum: Datum) -> f64 {
        let counts = datum.y + self.k.min(LARGE) + 2.0;
        (first + counts) * (1.0 + reach + self.log_k.abs() + counts.ln())
    }

    of_counts!(but terms);
}

/// log Γ(k + y) − log Γ(k) − y log k for k ≥ 32, by Stirling's series, whose next term is below 3e-17: no large numbers
/// are subtracted.
fn ln_rising_ratio(k: f64, y: f64) -> f64 {
    let series = |x: f64| {
        let q = 1.0 / (x * x);
        (1.0 / 12.0 - q * (1.0 / 360.0 - q * (1.0 / 1260.0 - q / 1680.0))) / x
    };
    (k + y - 0.5) * (y / k).ln_1p() - y + series(k + y) - series(k)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::consistent;

    #[test]
    fn negative_binomial() {
        let data = [0.0, 1.0, 40.0].map(|y| Datum { y, trials: 1.0 });
        for k in [0.3, 1.0, 25.0, 50.0, 1e4] {
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
