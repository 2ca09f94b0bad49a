//! φ in the complex plane, |Im t| small: where quadrature takes its step and its error from.

use crate::bounds::Bounds;
use crate::loss::Datum;

/// Bounds in a strip around the real axis.
pub trait Strip: Bounds {
    /// φ is analytic in |Im t| < strip; the trapezoid rule takes its step from it.
    fn strip(&self) -> f64;

    /// What errors of E φ′ and E φ″(1, x, x²) are measured by: the trapezoid rule and the evaluation of its terms err
    /// by less than 1e-13 of it.
    fn scale(&self, mean: f64, sd: f64, datum: Datum) -> f64;

    /// True if everything a likelihood claims is proved: the trapezoid rule's error, [`Self::scale`], and |φ‴| ≤ φ″
    /// where rounding of t counts. Only then are statements about models with this loss more than estimates. Of a
    /// likelihood from outside this crate they are declared by the user.
    fn strip_is_proved(&self) -> bool {
        false
    }

    /// g(τ) with Re φ(t + iτ) ≥ φ(t) − size·g(τ) for every t, where [`Self::strip_size`] gives the size; g is even,
    /// convex and grows with |τ|. Infinite where nothing is claimed, `None` if there is no such bound for all t alike.
    fn strip_loss(&self, _tau: f64) -> Option<f64> {
        None
    }

    /// The size that goes with [`Self::strip_loss`].
    fn strip_size(&self, _datum: Datum) -> f64 {
        0.0
    }

    /// A convex function of t that is nowhere above Re φ(t + iτ′) for |τ′| ≤ |τ|, as its value and its first two
    /// derivatives; `None` where nothing is proved.
    fn rotated(&self, t: f64, tau: f64, datum: Datum) -> Option<[f64; 3]> {
        let loss = self.strip_loss(tau)? * self.strip_size(datum);
        Some([self.value(t, datum) - loss, self.first_derivative(t, datum), self.second_derivative(t, datum)])
    }

    /// c with |φ′(t + s(x + ia))| ≤ c on average over x ~ N(−lean, 1) and every |a| with |s a| ≤ |τ|; `None` where
    /// nothing is proved.
    fn rotated_first_derivative(
        &self,
        _t: f64,
        _s: f64,
        _lean: f64,
        _tau: f64,
        _datum: Datum,
    ) -> Option<f64> {
        None
    }

    /// a with E|φ′| ≤ |E φ′| + a over any law of t; infinite where nothing is claimed.
    fn first_derivative_spread(&self, _s: f64, _datum: Datum) -> f64 {
        f64::INFINITY
    }

    /// c with |φ′(t + x)| ≤ (|φ′(t)| + c)e^{|x|} for all t and x; infinite where nothing is claimed.
    fn first_derivative_growth(&self, _datum: Datum) -> f64 {
        f64::INFINITY
    }

    /// The sum of the sizes of the numbers that φ is computed from, on average over a law with |t| ≤ `reach` and E|φ′|
    /// ≤ `first` (docs/collapsed.md, part K11); infinite where nothing is claimed.
    fn terms(&self, _reach: f64, _first: f64, _datum: Datum) -> f64 {
        f64::INFINITY
    }
}

/// These three of φ′ = μ − r with 0 ≤ r ≤ y and a rate μ ≥ 0 that is exponential or at most [`Strip::strip_size`]: |φ′|
/// ≤
/// φ′ + 2y; counts and rates times predictors and logarithms of counts.
macro_rules! of_counts {
    () => {
        fn terms(&self, reach: f64, first: f64, datum: Datum) -> f64 {
            let counts = datum.y.abs() + datum.trials + 1.0;
            (first + counts) * (1.0 + reach + counts.ln())
        }

        crate::strip::of_counts!(but terms);
    };
    (but terms) => {
        fn first_derivative_spread(&self, _s: f64, datum: Datum) -> f64 {
            2.0 * datum.y.abs()
        }

        fn first_derivative_growth(&self, datum: Datum) -> f64 {
            2.0 * datum.y.abs() + self.strip_size(datum)
        }
    };
}
pub(crate) use of_counts;
