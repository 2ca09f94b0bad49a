//! What the losses with φ″ = w σσ̄(t − c) have in common: logistic, binomial and negative-binomial ones, which give w
//! as `size` and c as `center`.
//!
//! With s = σσ̄ ≤ ¼: |φ‴| = w s|1 − 2σ| ≤ φ″ and ≤ w/(6√3), φ⁗ = w(s − 6s²), (log φ″)′ = −tanh((t−c)/2), (log φ″)″ = −½
//! sech²((t−c)/2) ≥ −½. φ″ is even about c and falls away from it, and |σ|, |σσ̄| ≤ 1 in |Im t| ≤ π/2.
//!
//! |1 + e^{x+iτ}|² = (1 + eˣ)²(1 − 4s sin²(τ/2)) ≥ (1 + eˣ)² cos²(τ/2), so Re φ(t + iτ) ≥ φ(t) + w log cos(τ/2) and
//! |σ(x + iτ)| ≤ σ(x)/cos(τ/2) for |τ| < π.

use std::f64::consts::{FRAC_PI_2, PI};

use crate::bounds::Bounds;
use crate::loss::{Datum, Loss};
use crate::special::{exp, sigmoid_derivative};
use crate::strip::{Strip, of_counts};

/// φ″ = w σσ̄(t − c).
pub(crate) trait Sigmoid: Loss {
    /// w.
    fn size(&self, datum: Datum) -> f64;

    /// c.
    fn center(&self) -> f64;
}

impl<L: Sigmoid> Bounds for L {
    fn second_derivative_max(&self, datum: Datum) -> Option<f64> {
        Some(0.25 * self.size(datum))
    }

    fn second_derivative_near(&self, t: f64, radius: f64, datum: Datum) -> f64 {
        self.second_derivative(t, datum) * exp(-radius)
    }

    fn second_derivative_within(&self, t: f64, radius: f64, datum: Datum) -> f64 {
        self.size(datum) * sigmoid_derivative((t - self.center()).abs() + radius)
    }

    fn log_second_derivative(&self, t: f64, _datum: Datum) -> Option<(f64, f64)> {
        Some((-(0.5 * (t - self.center())).tanh(), 0.5))
    }

    fn third_derivative_max(&self, datum: Datum) -> Option<f64> {
        Some(self.size(datum) / (6.0 * 3f64.sqrt()))
    }

    fn third_below_second(&self) -> bool {
        true
    }

    fn fourth_derivative_max(&self, datum: Datum) -> Option<f64> {
        Some(0.125 * self.size(datum))
    }
}

/// Successes y among w trials, one or more: φ′ = wσ − y, so that 0 ≤ y ≤ w.
pub(crate) trait Successes: Sigmoid {}

impl<L: Successes> Strip for L {
    fn strip(&self) -> f64 {
        STRIP
    }

    fn strip_is_proved(&self) -> bool {
        true
    }

    fn scale(&self, _mean: f64, _sd: f64, datum: Datum) -> f64 {
        self.size(datum)
    }

    fn strip_loss(&self, tau: f64) -> Option<f64> {
        Some(strip_loss(tau))
    }

    fn strip_size(&self, datum: Datum) -> f64 {
        self.size(datum)
    }

    /// Re φ itself up to |τ| = π/2, where it is convex (docs/collapsed.md, K1).
    fn rotated(&self, t: f64, tau: f64, datum: Datum) -> Option<[f64; 3]> {
        let size = self.size(datum);
        let own = [self.value(t, datum), self.first_derivative(t, datum), self.second_derivative(t, datum)];
        Some(rotated(own, t, tau, size))
    }

    /// φ′ = wσ − y.
    fn rotated_first_derivative(&self, _t: f64, _s: f64, _lean: f64, tau: f64, datum: Datum) -> Option<f64> {
        Some(rotated_first_derivative(self.size(datum), tau, datum.y))
    }

    of_counts!();
}

/// Half of the strip up to the poles.
pub(crate) const STRIP: f64 = FRAC_PI_2;

/// −log cos(τ/2).
pub(crate) fn strip_loss(tau: f64) -> f64 {
    cosine(tau).map_or(f64::INFINITY, |cosine| -cosine.ln())
}

/// φ with φ′ and φ″ at t, as those of a convex function nowhere above Re φ(t + iτ′) for |τ′| ≤ |τ|: w times the
/// difference of the softplus functions is added, or w log cos(τ/2) beyond π/2.
pub(crate) fn rotated(own: [f64; 3], t: f64, tau: f64, size: f64) -> [f64; 3] {
    let [value, slope, curvature] = own;
    if tau.abs() > FRAC_PI_2 {
        return [value - size * strip_loss(tau), slope, curvature];
    }
    let (there, here) = (rotated_softplus(t, tau.cos()), rotated_softplus(t, 1.0));
    let moved = |k: usize| size * (there[k] - here[k]);
    [value + moved(0), slope + moved(1), (curvature + moved(2)).max(0.0)]
}

/// Re log(1 + e^{t+iτ}) = ½ log(1 + 2c eᵗ + e^{2t}), c = cos τ, with its first two derivatives. With z = eᵗ the second
/// is (cz + 2z² + cz³)/(1 + 2cz + z²)², so it is convex for c ≥ 0, and it falls with |τ|.
fn rotated_softplus(t: f64, c: f64) -> [f64; 3] {
    // z for t ≤ 0, else 1/z
    let z = exp(-t.abs());
    let whole = 1.0 + z * (2.0 * c + z);
    let value = t.max(0.0) + 0.5 * (z * (2.0 * c + z)).ln_1p();
    let slope = if t > 0.0 { (1.0 + c * z) / whole } else { z * (c + z) / whole };
    [value, slope, z * (c + z * (2.0 + c * z)) / (whole * whole)]
}

/// A bound of |φ′| = |wσ − y| at t + iτ.
pub(crate) fn rotated_first_derivative(size: f64, tau: f64, y: f64) -> f64 {
    cosine(tau).map_or(f64::INFINITY, |cosine| size / cosine + y.abs())
}

/// cos(τ/2) for |τ| < π.
fn cosine(tau: f64) -> Option<f64> {
    let cosine = (0.5 * tau).cos();
    (tau.abs() < PI && cosine > 0.0).then_some(cosine)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Binomial, Likelihood, Logistic, NegativeBinomial};

    /// Re φ(t + iτ) by complex arithmetic: Re log(1 + e^{t+iτ}) is log |1 + e^{t+iτ}|, and what is linear is rotated as
    /// it is.
    fn by_hand(likelihood: &dyn Likelihood, t: f64, tau: f64, size: f64, shift: f64, datum: Datum) -> f64 {
        let (re, im) = (1.0 + (t - shift).exp() * tau.cos(), (t - shift).exp() * tau.sin());
        likelihood.value(t, datum) + size * (re.hypot(im).ln() - (t - shift).exp().ln_1p())
    }

    #[test]
    fn rotated_losses_are_below_and_convex() {
        let negative = NegativeBinomial::new(2.5).unwrap();
        let cases: [(&dyn Likelihood, Datum, f64, f64); 3] = [
            (&Logistic, Datum { y: 1.0, trials: 1.0 }, 1.0, 0.0),
            (&Binomial, Datum { y: 3.0, trials: 7.0 }, 7.0, 0.0),
            (&negative, Datum { y: 4.0, trials: 1.0 }, 6.5, 2.5f64.ln()),
        ];
        for (likelihood, datum, size, shift) in cases {
            for tau in [0.0, 0.3, -0.9, 1.5, FRAC_PI_2, 1.7, 2.9] {
                for t in (-24..=24).map(|k| 0.5 * f64::from(k)) {
                    let [value, slope, curvature] = likelihood.rotated(t, tau, datum).unwrap();
                    for part in [0.0, 0.4, 0.8, 1.0] {
                        let exact = by_hand(likelihood, t, part * tau, size, shift, datum);
                        assert!(value <= exact + 1e-13 * (1.0 + exact.abs()), "{t} {tau} {value} {exact}");
                    }
                    if tau.abs() <= FRAC_PI_2 {
                        let exact = by_hand(likelihood, t, tau, size, shift, datum);
                        assert!((value - exact).abs() < 1e-13 * (1.0 + exact.abs()), "{t} {tau}");
                    }
                    // derivatives by central differences, whose errors are h² and ε/h²
                    let h = 1e-3;
                    let [left, right] = [t - h, t + h].map(|t| likelihood.rotated(t, tau, datum).unwrap());
                    let [first, second] =
                        [(right[0] - left[0]) / (2.0 * h), (right[1] - left[1]) / (2.0 * h)];
                    assert!((first - slope).abs() < 1e-5 * size, "{t} {tau} {first} {slope}");
                    assert!((second - curvature).abs() < 1e-5 * size, "{t} {tau} {second} {curvature}");
                    assert!(curvature >= 0.0);
                }
            }
        }
    }
}
