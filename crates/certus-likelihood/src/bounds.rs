//! Bounds on the derivatives of φ: the constants that make a fit certifiable.

use crate::loss::{Datum, Loss, Moments};

/// Bounds on the second, third and fourth derivatives. The defaults claim nothing, and a certificate then has nothing
/// to rest on.
pub trait Bounds: Loss {
    /// θ_min ≤ φ″ everywhere.
    fn second_derivative_min(&self, _datum: Datum) -> f64 {
        0.0
    }

    /// φ″ ≤ θ_max everywhere, or `None` if φ″ is not bounded.
    fn second_derivative_max(&self, _datum: Datum) -> Option<f64> {
        None
    }

    /// A lower bound of φ″ on [t − radius, t + radius] (math: Lemma C).
    fn second_derivative_near(&self, _t: f64, _radius: f64, datum: Datum) -> f64 {
        self.second_derivative_min(datum)
    }

    /// The least value of φ″ on [t − radius, t + radius], or a lower bound. Unlike [`Self::second_derivative_near`] it
    /// need not be smooth in t.
    fn second_derivative_within(&self, t: f64, radius: f64, datum: Datum) -> f64 {
        self.second_derivative_near(t, radius, datum)
    }

    /// (a, c) with φ″(t + x) ≥ φ″(t)e^{ax − cx²/2} for every x: the slope of log φ″ at t and a bound of how fast that
    /// falls.
    fn log_second_derivative(&self, _t: f64, _datum: Datum) -> Option<(f64, f64)> {
        None
    }

    /// |φ‴| ≤ this everywhere, or `None`.
    fn third_derivative_max(&self, _datum: Datum) -> Option<f64> {
        None
    }

    /// True if |φ‴| ≤ φ″ everywhere, so that φ″ changes by at most e^D within D.
    fn third_below_second(&self) -> bool {
        false
    }

    /// |φ⁗| ≤ this everywhere, or `None`.
    fn fourth_derivative_max(&self, _datum: Datum) -> Option<f64> {
        None
    }

    /// Upper bounds of λ_max(Q) and √E φ‴² over all laws whose t moves by at most reach·√(1 + x²) from mean + sd·x,
    /// given the moments and √E φ‴² = `third` there. φ″ grows by c₃D at most, and E D(1, x; x, x²) ≤ √2·√3·reach; √E
    /// φ‴² by c₄√E D² = √2 c₄ reach.
    fn max_around(
        &self,
        _mean: f64,
        _sd: f64,
        reach: f64,
        datum: Datum,
        at: &Moments,
        third: f64,
    ) -> Option<(f64, f64)> {
        let (second_max, third_max) = (self.second_derivative_max(datum)?, self.third_derivative_max(datum)?);
        let top = 0.5 * (at.q0 + at.q2) + (0.5 * (at.q0 - at.q2)).hypot(at.q1);
        let second = second_max.min(top + 2.45 * third_max * reach);
        let moved = self
            .fourth_derivative_max(datum)
            .map_or(f64::INFINITY, |c| third + std::f64::consts::SQRT_2 * c * reach);
        Some((second, third_max.min(moved)))
    }

    /// [`Slices::lower_trapezoid`](crate::Slices::lower_trapezoid) in another form. Where φ″ has no upper bound it must
    /// be
    /// given: the plain sum ends at 9 sds, and then claims nothing.
    fn lower_moments(
        &self,
        _mean: f64,
        _sd: f64,
        _datum: Datum,
        _nodes: &[f64],
        _weights: &[f64],
        _reach: f64,
        _omega: f64,
    ) -> Option<[f64; 3]> {
        None
    }
}
