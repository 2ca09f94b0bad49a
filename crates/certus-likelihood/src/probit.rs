//! y ∈ {0, 1}, P(y = 1) = Φ(t): with s = 2y − 1 and the normal hazard h, φ = −log Φ(st), φ′ = −s h(−st), φ″ = h′(−st) ∈
//! (0, 1).
//!
//! h″ > 0 (Sampford 1953), so φ″ decreases in s t and its least value on [t − D, t + D] is at t + sD. The zeros of Φ
//! next to the axis lie at Im ≈ ±2.8, so the trapezoid rule converges; its constant in the strip is not proved, so what
//! rests on it is only estimated.

use std::sync::Arc;

use crate::bounds::Bounds;
use crate::draw::uniform;
use crate::loss::{Datum, Loss, sealed::Seal};
use crate::response::{Entry, Link, Values};
use crate::special::{hazard, hazard_derivative, neg_log_normal_cdf};
use crate::strip::{Strip, of_counts};

/// Bernoulli responses with the probit link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probit;

pub(crate) const ENTRY: Entry = Entry {
    name: "probit",
    about: "0/1 responses with the probit link",
    values: Values::Binary,
    link: Link::Probit,
    parameter: None,
    reject: |datum| Probit.reject(datum),
    make: |_| Ok(Arc::new(Probit)),
    draw: |rng, t, _, _| f64::from(u8::from(uniform(rng) < Link::Probit.response(t))),
};

fn sign(datum: Datum) -> f64 {
    2.0 * datum.y - 1.0
}

impl Loss for Probit {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn is_ours(&self, _: Seal) -> bool {
        true
    }

    fn reject(&self, datum: Datum) -> Option<String> {
        (datum.y != 0.0 && datum.y != 1.0).then(|| {
            format!(
                "the response is {}, but 0 or 1 is required; of two other levels name the event (--event, in Python \
                    event=)",
                datum.y
            )
        })
    }

    fn value(&self, t: f64, datum: Datum) -> f64 {
        neg_log_normal_cdf(sign(datum) * t)
    }

    fn first_derivative(&self, t: f64, datum: Datum) -> f64 {
        -sign(datum) * hazard(-sign(datum) * t)
    }

    fn second_derivative(&self, t: f64, datum: Datum) -> f64 {
        hazard_derivative(-sign(datum) * t)
    }
}

impl Bounds for Probit {
    fn second_derivative_min(&self, _datum: Datum) -> f64 {
        0.0
    }

    fn second_derivative_max(&self, _datum: Datum) -> Option<f64> {
        Some(1.0)
    }

    fn second_derivative_near(&self, t: f64, radius: f64, datum: Datum) -> f64 {
        hazard_derivative(-sign(datum) * t - radius)
    }

    /// sup h″ = 0.2946… (numerical, at x ≈ −0.7): 0.3 is safe.
    fn third_derivative_max(&self, _datum: Datum) -> Option<f64> {
        Some(0.3)
    }
}

impl Strip for Probit {
    fn strip(&self) -> f64 {
        2.0
    }

    fn scale(&self, mean: f64, sd: f64, _datum: Datum) -> f64 {
        1.0 + mean.abs() + sd
    }

    of_counts!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::consistent;

    #[test]
    fn probit() {
        let data = [0.0, 1.0].map(|y| Datum { y, trials: 1.0 });
        let ts = [-60.0, -49.9, -20.0, -6.0, -4.9, -1.0, -0.7, 0.0, 0.3, 2.0, 6.0];
        consistent(&Probit, &data, &ts);
        for t in [-1e4, -100.0] {
            assert!((Probit.second_derivative(t, data[1]) - (1.0 - 1.0 / (t * t))).abs() < 7.0 / t.powi(4));
            assert!((Probit.first_derivative(t, data[1]) - t).abs() < 2.0 / t.abs());
        }
    }
}
