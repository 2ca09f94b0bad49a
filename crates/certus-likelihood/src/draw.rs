//! Draws of observations: what is simulated has the law of the likelihood.

use rand::Rng;
use rand_distr::{Binomial, Distribution, Gamma, Open01, Poisson, StandardNormal};

/// A standard normal number.
pub(crate) fn normal(rng: &mut dyn Rng) -> f64 {
    StandardNormal.sample(rng)
}

/// A number between 0 and 1.
pub(crate) fn uniform(rng: &mut dyn Rng) -> f64 {
    Open01.sample(rng)
}

/// Successes among trials.
pub(crate) fn binomial(rng: &mut dyn Rng, trials: f64, p: f64) -> f64 {
    Binomial::new(trials as u64, p).map_or(f64::NAN, |law| law.sample(rng) as f64)
}

/// A count; a rate that is too small for a number is 0, one that is too large for the law stays what it is.
pub(crate) fn poisson(rng: &mut dyn Rng, rate: f64) -> f64 {
    if rate > 0.0 { Poisson::new(rate).map_or(rate, |law| law.sample(rng)) } else { 0.0 * rate }
}

/// A gamma variable of mean and variance `shape`.
pub(crate) fn gamma(rng: &mut dyn Rng, shape: f64) -> f64 {
    Gamma::new(shape, 1.0).map_or(f64::NAN, |law| law.sample(rng))
}

#[cfg(test)]
mod tests {
    use certus::random::{Purpose, Random};

    use crate::Response;

    /// Mean and variance of every response, within 5 standard errors: those of a variance are √(kurtosis/n) of it, and
    /// no kurtosis here exceeds 6.
    #[test]
    fn draws_have_the_moments_of_the_likelihood() {
        let n = 200_000;
        let p = 1.0 / (1.0 + (-0.4_f64).exp());
        let phi = 0.655_421_741_610_324_2;
        let rate = 0.4_f64.exp();
        for (response, parameter, trials, mean, variance) in [
            (Response::Linear, Some(2.0), 1.0, 0.4, 4.0),
            (Response::Logistic, None, 1.0, p, p * (1.0 - p)),
            (Response::Probit, None, 1.0, phi, phi * (1.0 - phi)),
            (Response::Binomial, None, 7.0, 7.0 * p, 7.0 * p * (1.0 - p)),
            (Response::Poisson, None, 1.0, rate, rate),
            (Response::NegativeBinomial, Some(3.0), 1.0, rate, rate + rate * rate / 3.0),
        ] {
            let mut rng = Random::new(5, Purpose::Simulate, 0).generator(7);
            let draw = |_| response.draw(&mut rng, 0.4, parameter.unwrap_or(f64::NAN), trials);
            let values: Vec<f64> = (0..n).map(draw).collect();
            let m = values.iter().sum::<f64>() / n as f64;
            let v = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
            let name = response.name();
            assert!((m - mean).abs() < 5.0 * (variance / n as f64).sqrt(), "{name}: {m} {mean}");
            assert!((v / variance - 1.0).abs() < 5.0 * (6.0 / n as f64).sqrt(), "{name}: {v} {variance}");
        }
    }
}
