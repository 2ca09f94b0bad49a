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

/// A bound of |φ′| = |wσ − y| at t + iτ.
pub(crate) fn rotated_first_derivative(size: f64, tau: f64, y: f64) -> f64 {
    cosine(tau).map_or(f64::INFINITY, |cosine| size / cosine + y.abs())
}

/// cos(τ/2) for |τ| < π.
fn cosine(tau: f64) -> Option<f64> {
    let cosine = (0.5 * tau).cos();
    (tau.abs() < PI && cosine > 0.0).then_some(cosine)
}
