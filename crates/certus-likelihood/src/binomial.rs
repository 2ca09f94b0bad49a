//! y successes in n trials, logit link: φ(t) = n log(1 + eᵗ) − y t − log C(n, y), n times the logistic curvature.

use std::sync::Arc;

use crate::draw::binomial;
use crate::loss::{Datum, Loss, sealed::Seal};
use crate::response::{Entry, Link, Values};
use crate::sigmoid::{Sigmoid, Successes};
use crate::special::{ln_gamma, sigmoid, sigmoid_derivative, softplus};

/// Binomial responses with the logit link; the number of trials comes with each observation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Binomial;

pub(crate) const ENTRY: Entry = Entry {
    name: "binomial",
    about: "Numbers of successes among trials",
    values: Values::Successes,
    link: Link::Logit,
    parameter: None,
    reject: |datum| Binomial.reject(datum),
    make: |_| Ok(Arc::new(Binomial)),
    draw: |rng, t, _, trials| binomial(rng, trials, Link::Logit.response(t)),
};

impl Sigmoid for Binomial {
    fn size(&self, datum: Datum) -> f64 {
        datum.trials
    }

    fn center(&self) -> f64 {
        0.0
    }
}

impl Loss for Binomial {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn is_ours(&self, _: Seal) -> bool {
        true
    }

    fn reject(&self, datum: Datum) -> Option<String> {
        let Datum { y, trials } = datum;
        let whole = |x: f64| x >= 0.0 && x.is_finite() && x.fract() == 0.0;
        if !whole(trials) {
            Some(format!("the number of trials is {trials}, but a whole number of at least 0 is required"))
        } else if !whole(y) || y > trials {
            Some(format!(
                "the response is {y}, but a whole number between 0 and the {trials} trials is required"
            ))
        } else {
            None
        }
    }

    #[inline(always)]
    fn value(&self, t: f64, datum: Datum) -> f64 {
        let Datum { y, trials: n } = datum;
        let choices = ln_gamma(n + 1.0) - ln_gamma(y + 1.0) - ln_gamma(n - y + 1.0);
        // n log(1+eᵗ) − y t = (n−y) log(1+eᵗ) + y log(1+e^{−t}): both terms small where they should be
        (n - y) * softplus(t) + y * softplus(-t) - choices
    }

    #[inline(always)]
    fn first_derivative(&self, t: f64, datum: Datum) -> f64 {
        (datum.trials - datum.y) * sigmoid(t) - datum.y * sigmoid(-t)
    }

    #[inline(always)]
    fn second_derivative(&self, t: f64, datum: Datum) -> f64 {
        datum.trials * sigmoid_derivative(t)
    }
}

impl Successes for Binomial {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::consistent;

    #[test]
    fn binomial() {
        let data = [(0.0, 1.0), (3.0, 7.0), (7.0, 7.0), (0.0, 0.0)].map(|(y, trials)| Datum { y, trials });
        consistent(&Binomial, &data, &[-20.0, -2.0, 0.0, 0.7, 15.0]);
        for (y, trials) in [(1.0, 0.0), (0.5, 2.0), (-1.0, 3.0), (1.0, 2.5)] {
            assert!(Binomial.reject(Datum { y, trials }).is_some(), "{y} of {trials}");
        }
        // the probabilities of all outcomes add up to 1
        let total: f64 =
            (0..=9).map(|y| (-Binomial.value(0.4, Datum { y: f64::from(y), trials: 9.0 })).exp()).sum();
        assert!((total - 1.0).abs() < 1e-13);
    }
}
