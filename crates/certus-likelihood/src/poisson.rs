//! Counts y with rate eᵗ: φ(t) = eᵗ − y t + log y!, φ″ = eᵗ, not bounded above. All expectations are closed:
//! E e^{mean + sd·x}(1, x, x²) = e^{mean + sd²/2}(1, sd, 1 + sd²).

use std::sync::Arc;

use crate::bounds::Bounds;
use crate::draw::poisson;
use crate::loss::{Datum, Loss, Moments, sealed::Seal};
use crate::response::{Entry, Link, Values};
use crate::special::ln_gamma;
use crate::strip::{Strip, of_counts};

/// Poisson responses with the log link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Poisson;

pub(crate) const ENTRY: Entry = Entry {
    name: "poisson",
    about: "Counts",
    values: Values::Counts,
    link: Link::Log,
    parameter: None,
    reject: |datum| Poisson.reject(datum),
    make: |_| Ok(Arc::new(Poisson)),
    draw: |rng, t, _, _| poisson(rng, t.exp()),
};

impl Loss for Poisson {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn is_ours(&self, _: Seal) -> bool {
        true
    }

    fn reject(&self, datum: Datum) -> Option<String> {
        let y = datum.y;
        let whole = y >= 0.0 && y.is_finite() && y.fract() == 0.0;
        (!whole).then(|| format!("the response is {y}, but a whole number of at least 0 is required"))
    }

    #[inline(always)]
    fn value(&self, t: f64, datum: Datum) -> f64 {
        t.exp() - datum.y * t + ln_gamma(datum.y + 1.0)
    }

    #[inline(always)]
    fn first_derivative(&self, t: f64, datum: Datum) -> f64 {
        t.exp() - datum.y
    }

    #[inline(always)]
    fn second_derivative(&self, t: f64, _datum: Datum) -> f64 {
        t.exp()
    }

    fn exact_moments(&self, mean: f64, sd: f64, datum: Datum) -> Option<Moments> {
        let e = (mean + 0.5 * sd * sd).exp();
        Some(Moments {
            e0: e - datum.y * mean + ln_gamma(datum.y + 1.0),
            e1: e - datum.y,
            q0: e,
            q1: e * sd,
            q2: e * (1.0 + sd * sd),
        })
    }
}

impl Bounds for Poisson {
    fn second_derivative_min(&self, _datum: Datum) -> f64 {
        0.0
    }

    fn second_derivative_max(&self, _datum: Datum) -> Option<f64> {
        None
    }

    fn second_derivative_near(&self, t: f64, radius: f64, _datum: Datum) -> f64 {
        (t - radius).exp()
    }

    /// log φ″ = t.
    fn log_second_derivative(&self, _t: f64, _datum: Datum) -> Option<(f64, f64)> {
        Some((1.0, 0.0))
    }

    fn third_derivative_max(&self, _datum: Datum) -> Option<f64> {
        None
    }

    /// Both grow with mean and sd, so they are largest at the corner: λ_max(Q) = e^{mean + sd²/2}((√(sd² + 4) +
    /// sd)/2)², E φ‴² = e^{2mean + 2sd²}.
    fn max_around(
        &self,
        mean: f64,
        sd: f64,
        reach: f64,
        _: Datum,
        _: &Moments,
        _: f64,
    ) -> Option<(f64, f64)> {
        let (mean, sd) = (mean + reach, sd + reach);
        let top = (mean + 0.5 * sd * sd).exp() * (0.5 * ((sd * sd + 4.0).sqrt() + sd)).powi(2);
        Some((top * (1.0 + 1e-12), (mean + sd * sd).exp() * (1.0 + 1e-12)))
    }

    fn third_below_second(&self) -> bool {
        true
    }

    /// With x = sd + y the density of y is N(0, 1) again: E eᵗ g(x) = e^{mean + sd²/2} E g(sd + y), which neither
    /// overflows nor loses the nodes that matter.
    fn lower_moments(
        &self,
        mean: f64,
        sd: f64,
        _datum: Datum,
        nodes: &[f64],
        weights: &[f64],
        reach: f64,
        omega: f64,
    ) -> Option<[f64; 3]> {
        let mut q = [0.0; 3];
        for (y, w) in nodes.iter().zip(weights) {
            let x = sd + y;
            let term = w * (-reach * (1.0 + x * x / omega).sqrt()).exp();
            q = [q[0] + term, q[1] + term * x, q[2] + term * x * x];
        }
        Some(q.map(|q| q * (mean + 0.5 * sd * sd).exp()))
    }
}

impl Strip for Poisson {
    fn strip(&self) -> f64 {
        f64::INFINITY
    }

    /// Re e^{t + iτ} = eᵗ cos τ, convex in t and falling with |τ| while |τ| < π/2.
    fn rotated(&self, t: f64, tau: f64, datum: Datum) -> Option<[f64; 3]> {
        if tau.abs() >= std::f64::consts::FRAC_PI_2 {
            return None;
        }
        let rate = t.exp() * tau.cos();
        Some([rate - datum.y * t + ln_gamma(datum.y + 1.0), rate - datum.y, rate])
    }

    /// |φ′| ≤ e^{t + s x} + y, and E e^{s x} = e^{s²/2 − s·lean}.
    fn rotated_first_derivative(&self, t: f64, s: f64, lean: f64, _tau: f64, datum: Datum) -> Option<f64> {
        Some((t + 0.5 * s * s - s * lean).exp() + datum.y)
    }

    fn strip_is_proved(&self) -> bool {
        true
    }

    /// The exponent mean + sd²/2 is itself rounded.
    fn scale(&self, mean: f64, sd: f64, datum: Datum) -> f64 {
        (mean + 0.5 * sd * sd).exp() * (1.0 + sd * sd + mean.abs()) + datum.y
    }

    of_counts!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::consistent;

    #[test]
    fn poisson() {
        let data = [0.0, 1.0, 17.0].map(|y| Datum { y, trials: 1.0 });
        consistent(&Poisson, &data, &[-20.0, -1.0, 0.0, 1.5, 5.0]);
        assert!(Poisson.reject(Datum { y: 1.5, trials: 1.0 }).is_some());
        let total: f64 =
            (0..60).map(|y| (-Poisson.value(1.0, Datum { y: f64::from(y), trials: 1.0 })).exp()).sum();
        assert!((total - 1.0).abs() < 1e-13);
    }
}
