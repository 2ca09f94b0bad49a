//! What one observation contributes to a certificate: exact first moments and lower bounds of its curvature near w,
//! each with an allowance for quadrature and rounding that is written out here.

use crate::error::{Error, NotFinite};
use crate::expectation::Quadrature;
use crate::rows::{Rows, most};
use certus_likelihood::{Datum, Likelihood, Moments};

/// Half an ulp of 1.
const UNIT: f64 = 0.5 * f64::EPSILON;

/// Quadrature and evaluation errors of E φ′ and E φ″(1, x, x²), per [`Likelihood::scale`].
const ALLOWANCE: f64 = 1e-13;

/// γ_n = n u/(1 − n u): n roundings in a row err by at most this, relatively.
pub(crate) fn gamma(n: usize) -> f64 {
    let nu = n as f64 * UNIT;
    nu / (1.0 - nu)
}

/// Longest chain of additions of a sum over rows: a leaf in sequence, then the tree.
pub(crate) const CHAIN: usize = crate::rows::LEAF + 64;

/// One observation in the frame of w: t ~ N(mean, sd²), ã = Cᵀa, sd = |ã|.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Row {
    pub(crate) mean: f64,
    pub(crate) sd: f64,
    pub(crate) weight: f64,
    pub(crate) datum: Datum,
    /// The computed mean errs by at most this.
    pub(crate) shift: f64,
    /// The computed ã errs by at most this, in norm.
    pub(crate) delta: f64,
}

/// E φ′ and E φ″ of a row, weighted, and a bound on the error of both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct First {
    pub(crate) slope: f64,
    pub(crate) curvature: f64,
    error: f64,
}

/// Bounds on the errors of sums over rows, in norm: of Σ e₁ ã and of Σ q₀ ã ãᵀ.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Errors {
    pub(crate) mean: f64,
    pub(crate) factor: f64,
}

impl Row {
    /// From entries of a with the posterior sds |C_j·| and means of their coefficients. A dot product of n terms errs
    /// by γ_n Σ|a_j||x_j|, and |C|ᵀ|a| has norm at most Σ|a_j||C_j·|.
    pub(crate) fn new(mean: f64, sd: f64, weight: f64, datum: Datum, sizes: Sizes) -> Self {
        let delta = gamma(sizes.terms + 2) * sizes.spread + gamma(sizes.terms + 4) * sd;
        Self { mean, sd, weight, datum, shift: gamma(sizes.terms + 3) * sizes.level, delta }
    }

    /// How much φ″ can grow over the shift of t that rounding may cause, within the nodes that matter (|φ‴| ≤ φ″;
    /// Poisson's sit at sd).
    fn growth(&self) -> f64 {
        (self.shift + self.delta * (self.sd + 9.0)).exp()
    }

    /// By how much E φ can be off because the law of t is: |E φ′|ε + sd E φ″ δ (Stein), and the second order.
    pub(crate) fn moved(&self, m: &Moments) -> f64 {
        let second = m.q0 * self.shift * self.shift + m.q2 * self.delta * self.delta;
        m.e1.abs() * self.shift + self.sd * m.q0 * self.delta + self.growth() * second
    }

    /// E φ′ and E φ″ at w. A shift of t by ε + δ|x| changes both by at most E φ″(ε + δ|x|), φ″ taken at its largest.
    pub(crate) fn first_order(&self, likelihood: &dyn Likelihood, quadrature: &Quadrature) -> First {
        let m = quadrature.slopes(likelihood, self.mean, self.sd, self.datum);
        let moved = self.growth() * (m.q0 * self.shift + (m.q0 * m.q2).max(0.0).sqrt() * self.delta);
        let error = ALLOWANCE * likelihood.scale(self.mean, self.sd, self.datum) + moved;
        First { slope: self.weight * m.e1, curvature: self.weight * m.q0, error: self.weight * error }
    }

    /// What the row adds to the errors of the gradient's sums: each term's own, that of ã, and γ for a chain of
    /// additions.
    pub(crate) fn first_order_errors(&self, first: &First, chain: usize) -> Errors {
        let (sd, added) = (self.sd + self.delta, gamma(chain));
        let twice = self.delta * (2.0 * sd + self.delta);
        Errors {
            mean: sd * first.error + (added * sd + self.delta) * first.slope.abs(),
            factor: sd * sd * first.error + (added * sd * sd + twice) * first.curvature,
        }
    }

    /// Q⁻ = (q₀, |q₁|, q₂), weighted: Q_n(w′) ≥ Q⁻ for every w′ in E_r = {|dm|² + ω|dC|² ≤ r²} (Lemma C). By
    /// Cauchy-Schwarz the rounding of mean and ã widens the reach r·sd by at most |(shift, √ω·delta)|.
    pub(crate) fn lower(
        &self,
        likelihood: &dyn Likelihood,
        quadrature: &Quadrature,
        r: f64,
        omega: f64,
    ) -> [f64; 3] {
        let least = likelihood.second_derivative_min(self.datum);
        if likelihood.second_derivative_max(self.datum) == Some(least) {
            return [self.weight * least, 0.0, self.weight * least];
        }
        let reach = r * (self.sd + self.delta) + self.shift.hypot(omega.sqrt() * self.delta);
        let [q0, q1, q2] = quadrature.lower_moments(likelihood, self.mean, self.sd, self.datum, reach, omega);
        let error = ALLOWANCE * likelihood.scale(self.mean, self.sd, self.datum);
        [self.weight * (q0 - error), self.weight * (q1.abs() + error), self.weight * (q2 - error)]
    }

    /// Weighted upper bounds of λ_max(Q) and √E φ‴² on the ball |w′ − w| ≤ r.
    pub(crate) fn upper(&self, likelihood: &dyn Likelihood, grids: &Upper, r: f64) -> Option<(f64, f64)> {
        let (mean, sd, datum) = (self.mean, self.sd, self.datum);
        let reach = r * (sd + self.delta) + self.shift.hypot(self.delta);
        let at = grids.exact.moments(likelihood, mean, sd, datum);
        let scale = likelihood.scale(mean, sd, datum);
        // an error of the square is one of the root's square
        let root = |square: f64| (square + ALLOWANCE * scale * scale).sqrt();
        let third_derivative = root(grids.exact.third_derivative(likelihood, mean, sd, datum).powi(2));
        let (mut curvature, mut third_derivative) =
            likelihood.max_around(mean, sd, reach, datum, &at, third_derivative)?;
        // beyond this reach e^D N(x) is no longer negligible where the nodes end; nor is an unbounded φ″
        let bounded = likelihood.second_derivative_max(datum).is_some();
        if bounded && likelihood.third_below_second() && reach <= 0.8 {
            let [q0, q1, q2, square] = grids.shifted.upper_moments(likelihood, mean, sd, datum, reach);
            curvature = curvature.min(0.5 * (q0 + q2) + (0.5 * (q0 - q2)).hypot(q1));
            third_derivative = third_derivative.min(root(square));
        }
        let error = ALLOWANCE * scale;
        Some((self.weight * (curvature + error), self.weight * (third_derivative + error)))
    }

    /// What the row adds to the error of Σ k ã ãᵀ.
    pub(crate) fn curvature_error(&self, k: f64, chain: usize) -> f64 {
        let sd = self.sd + self.delta;
        k * (gamma(chain) * sd * sd + self.delta * (2.0 * sd + self.delta))
    }
}

/// Grids for upper bounds on a ball.
pub(crate) struct Upper {
    exact: Quadrature,
    shifted: Quadrature,
}

impl Upper {
    pub(crate) fn new(likelihood: &dyn Likelihood, largest_sd: f64, radius: f64) -> Self {
        let strip = likelihood.strip();
        Self {
            exact: Quadrature::new(strip, largest_sd),
            shifted: Quadrature::lower(strip, largest_sd, radius, 1.0),
        }
    }
}

/// Sizes that rounding is proportional to: of a row with `terms` entries, Σ|a_j||C_j·| and Σ|a_j||m_j| + |offset|.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    pub(crate) terms: usize,
    pub(crate) spread: f64,
    pub(crate) level: f64,
}

/// The trapezoid rule needs about 70 nodes per unit of sd; beyond this we decline.
const LARGEST_SD: f64 = 3000.0;

/// The largest sd of some rows, and 1 if a mean or an sd is no number.
pub(crate) fn extremes(rows: &[Row]) -> [f64; 2] {
    let largest = rows.iter().fold(0.0_f64, |a, r| a.max(r.sd));
    let bad = rows.iter().any(|r| !r.mean.is_finite() || r.sd.is_nan());
    [largest, f64::from(u8::from(bad))]
}

/// The largest sd of the rows, if certificates can work with them; `rows` are those of `source` that are here.
pub(crate) fn largest_sd(rows: &[Row], source: &dyn Rows) -> Result<f64, Error> {
    largest_of_all(&mut extremes(rows), source)
}

/// The same from the [`extremes`] of the rows that are here.
pub(crate) fn largest_of_all(here: &mut [f64; 2], source: &dyn Rows) -> Result<f64, Error> {
    most(source, here);
    let [largest, bad] = *here;
    if bad > 0.0 {
        return Err(NotFinite::Quantity { what: "a linear predictor" }.into());
    }
    if largest > LARGEST_SD {
        return Err(NotFinite::WidePredictor { sd: largest, most: LARGEST_SD }.into());
    }
    Ok(largest)
}

/// Q⁻ of every row on E_r.
pub(crate) fn lower(
    rows: &[Row],
    likelihood: &dyn Likelihood,
    largest_sd: f64,
    radius: f64,
    omega: f64,
) -> Vec<[f64; 3]> {
    const RUN: usize = 256;
    let quadrature = Quadrature::lower(likelihood.strip(), largest_sd, radius, omega);
    let mut out = vec![[0.0; 3]; rows.len()];
    certus::parallel::for_each_piece(&mut out, RUN, 1, &|piece, part| {
        for (row, out) in rows[RUN * piece..].iter().zip(part) {
            *out = row.lower(likelihood, &quadrature, radius, omega);
        }
    });
    out
}

/// (k_m, k_C) with [α β] Q⁻ [α β]ᵀ + q₀|b⊥|² ≥ k_m α² + k_C |b|²: k_m = q₀ − θ|q₁|, k_C = min(q₀, q₂ − |q₁|/θ). Where
/// one of them would fall below half of λ_min(Q⁻), θ is moved for this row until it is that half; without it rows of
/// large sd never certify. Both 0 if Q⁻ is not positive: Q is never negative.
pub(crate) fn split([q0, q1, q2]: [f64; 3], theta: f64) -> (f64, f64) {
    let lowest = 0.5 * (q0 + q2) - (0.25 * (q0 - q2) * (q0 - q2) + q1 * q1).sqrt();
    let half = 0.5 * lowest.min(q0).min(q2);
    if half.is_nan() || half <= 0.0 {
        return (0.0, 0.0);
    }
    let (mean, factor) = (q0 - theta * q1, q2 - q1 / theta);
    if factor < half {
        (q0 - q1 * (q1 / (q2 - half)), half)
    } else if mean < half {
        (half, q0.min(q2 - q1 * (q1 / (q0 - half))))
    } else {
        (mean, q0.min(factor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use certus_likelihood::{Binomial, Logistic, NegativeBinomial, Poisson, Probit};

    /// The split is below the form it bounds, in every direction.
    #[test]
    fn the_split_bounds_the_form() {
        for [q0, q1, q2] in [[0.2, 0.05, 0.1], [0.2, 0.0, 0.3], [0.1, 0.09, 0.09], [1e-9, 1e-5, 1.0]] {
            for theta in [0.35, 0.5, 0.71, 1.0] {
                let (mean, factor) = split([q0, q1, q2], theta);
                for k in 0..=100 {
                    for sign in [-1.0, 1.0] {
                        let (a, b) = ((0.0314 * f64::from(k)).cos(), sign * (0.0314 * f64::from(k)).sin());
                        let form = q0 * a * a + 2.0 * q1 * a * b + q2 * b * b;
                        assert!(form >= mean * a * a + factor * b * b - 1e-15, "{q0} {q1} {q2} {theta}");
                    }
                }
                assert!(factor <= q0);
            }
        }
        assert_eq!(split([1e-20, 1.0, 1e-20], 0.5), (0.0, 0.0));
    }

    /// Lemma C by brute force: Q at random points of E_r dominates Q⁻.
    #[test]
    fn lower_bounds_hold_on_the_ellipse() {
        let likelihoods: [&dyn Likelihood; 2] = [&Logistic, &Poisson];
        for likelihood in likelihoods {
            for (mean, sd) in [(0.3, 0.5), (-2.0, 2.0), (1.0, 0.01)] {
                let datum = Datum { y: 1.0, trials: 1.0 };
                let row = Row { mean, sd, weight: 1.0, datum, shift: 0.0, delta: 0.0 };
                for (r, omega) in [(0.1, 2.0), (0.7, 1.0), (1.2, 2.0)] {
                    let quadrature = Quadrature::lower(likelihood.strip(), 2.0 * sd, r, omega);
                    let [l0, l1, l2] = row.lower(likelihood, &quadrature, r, omega);
                    let exact = Quadrature::new(likelihood.strip(), 4.0 * sd);
                    for k in 0..40 {
                        let angle = 0.157 * f64::from(k);
                        let (mean, moved) =
                            (mean + r * sd * angle.cos(), sd + r * sd * angle.sin() / omega.sqrt());
                        let m = exact.moments(likelihood, mean, moved.abs(), datum);
                        // Q − Q⁻ is positive semidefinite, whichever sign the bounded |q₁| had
                        let form = |a: f64, b: f64| m.q0 * a * a + 2.0 * m.q1 * a * b + m.q2 * b * b;
                        for j in 0..20 {
                            let (a, b) = ((0.157 * f64::from(j)).cos(), (0.157 * f64::from(j)).sin());
                            let low = l0 * a * a - 2.0 * l1 * (a * b).abs() + l2 * b * b;
                            assert!(form(a, b) >= low, "{mean} {moved} {r} {omega}");
                        }
                    }
                }
            }
        }
    }

    /// The trapezoid sums against ones with a step some twenty times smaller, from `second_derivative_near` itself, up
    /// to sds of 60: they err by at most the allowance, and so do E φ′ and E φ″.
    #[test]
    fn quadrature_errs_by_less_than_its_allowance() {
        let counts = NegativeBinomial::new(1.5).expect("valid");
        let likelihoods: [&dyn Likelihood; 4] = [&Logistic, &Probit, &counts, &Binomial];
        let datum = Datum { y: 1.0, trials: 3.0 };
        for likelihood in likelihoods {
            for (mean, sd) in [(0.4, 0.01), (-1.0, 0.6), (2.0, 4.0), (-3.0, 25.0), (5.0, 60.0)] {
                let datum =
                    if likelihood.name() == "binomial" { datum } else { Datum { trials: 1.0, ..datum } };
                let row = Row { mean, sd, weight: 1.0, datum, shift: 0.0, delta: 0.0 };
                let step = 0.05 / (5.0 + sd);
                let fine = |at: &dyn Fn(f64) -> f64| {
                    let count = (9.5 / step) as i64;
                    let term = |x: f64| step * (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt() * at(x);
                    (-count..=count).map(|k| term(k as f64 * step)).sum::<f64>()
                };
                let allowed = ALLOWANCE * likelihood.scale(mean, sd, datum);
                let first = row.first_order(likelihood, &Quadrature::new(likelihood.strip(), sd));
                let slope = fine(&|x| likelihood.first_derivative(mean + sd * x, datum));
                let curvature = fine(&|x| likelihood.second_derivative(mean + sd * x, datum));
                assert!(
                    first.error >= (first.slope - slope).abs()
                        && first.error >= (first.curvature - curvature).abs()
                );
                assert!(first.error > 0.0 && first.error <= allowed * (1.0 + 1e-12));
                for (r, omega) in [(0.0, 2.0), (0.3, 1.0), (1.3, 2.0)] {
                    let quadrature = Quadrature::lower(likelihood.strip(), sd, r, omega);
                    let lower = quadrature.lower_moments(likelihood, mean, sd, datum, r * sd, omega);
                    for (power, lower) in lower.into_iter().enumerate() {
                        let reach = |x: f64| r * sd * (1.0 + x * x / omega).sqrt();
                        let at = |x: f64| likelihood.second_derivative_near(mean + sd * x, reach(x), datum);
                        let exact = fine(&|x| x.powi(power as i32) * at(x));
                        let name = likelihood.name();
                        assert!((lower - exact).abs() <= allowed, "{name} {mean} {sd} {r}: {lower} {exact}");
                    }
                }
            }
        }
    }

    /// Upper bounds hold at the centre and around it, also for Poisson rows whose mass lies beyond the nodes.
    #[test]
    fn upper_bounds_hold() {
        for (mean, sd, r) in [
            (0.3, 0.5, 0.3),
            (-12.0, 5.0, 0.01),
            (-18.0, 6.0, 0.01),
            (-30.0, 8.0, 0.001),
            (-50.0, 10.0, 0.001),
        ] {
            let datum = Datum { y: 1.0, trials: 1.0 };
            let row = Row { mean, sd, weight: 1.0, datum, shift: 0.0, delta: 0.0 };
            let likelihoods: [&dyn Likelihood; 2] = [&Poisson, &Logistic];
            for likelihood in likelihoods {
                let grids = Upper::new(likelihood, 2.0 * sd, r);
                let (curvature, third_derivative) = row.upper(likelihood, &grids, r).expect("known");
                let exact = Quadrature::new(likelihood.strip(), 2.0 * sd);
                for k in 0..24 {
                    let angle = 0.2618 * f64::from(k);
                    let (mean, sd) = (mean + r * sd * angle.cos(), sd + r * sd * angle.sin());
                    let m = exact.moments(likelihood, mean, sd, datum);
                    let top = 0.5 * (m.q0 + m.q2) + (0.5 * (m.q0 - m.q2)).hypot(m.q1);
                    assert!(
                        curvature >= top * (1.0 - 1e-12),
                        "{} {mean} {sd}: {curvature} {top}",
                        likelihood.name()
                    );
                    let third = if likelihood.name() == "poisson" {
                        (mean + sd * sd).exp()
                    } else {
                        exact.third_derivative(likelihood, mean, sd, datum)
                    };
                    assert!(
                        third_derivative >= third * (1.0 - 1e-12),
                        "{} {mean} {sd}: {third_derivative} {third}",
                        likelihood.name()
                    );
                }
            }
        }
    }
}
