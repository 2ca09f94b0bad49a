//! What the losses with φ″ = w σσ̄(t − c) have in common: logistic, binomial and negative-binomial ones, which give w as `size` and c as
//! `center`.
//!
//! With s = σσ̄ ≤ ¼: |φ‴| = w s|1 − 2σ| ≤ φ″ and ≤ w/(6√3), φ⁗ = w(s − 6s²), (log φ″)′ = −tanh((t−c)/2), (log φ″)″ = −½ sech²((t−c)/2) ≥ −½.
//! φ″ is even about c and falls away from it, and |σ|, |σσ̄| ≤ 1 in |Im t| ≤ π/2.
//!
//! |1 + e^{x+iτ}|² = (1 + eˣ)²(1 − 4s sin²(τ/2)) ≥ (1 + eˣ)² cos²(τ/2), so Re φ(t + iτ) ≥ φ(t) + w log cos(τ/2) and |σ(x + iτ)| ≤ σ(x)/cos(τ/2)
//! for |τ| < π.

/// The methods of an `impl Likelihood` that follow from this.
macro_rules! sigmoid_methods {
    () => {
        fn least_bend(&self, _datum: Datum) -> f64 {
            0.0
        }

        fn most_bend(&self, datum: Datum) -> Option<f64> {
            Some(0.25 * self.size(datum))
        }

        fn bend_near(&self, t: f64, radius: f64, datum: Datum) -> f64 {
            self.bend(t, datum) * $crate::special::exp(-radius)
        }

        fn bend_within(&self, t: f64, radius: f64, datum: Datum) -> f64 {
            self.size(datum) * $crate::special::sigmoid_slope((t - self.center()).abs() + radius)
        }

        fn log_bend(&self, t: f64, _datum: Datum) -> Option<(f64, f64)> {
            Some((-(0.5 * (t - self.center())).tanh(), 0.5))
        }

        fn most_twist(&self, datum: Datum) -> Option<f64> {
            Some(self.size(datum) / (6.0 * 3f64.sqrt()))
        }

        fn most_turn(&self, datum: Datum) -> Option<f64> {
            Some(0.125 * self.size(datum))
        }

        fn twist_below_bend(&self) -> bool {
            true
        }

        fn strip(&self) -> f64 {
            std::f64::consts::FRAC_PI_2
        }

        fn strip_is_proved(&self) -> bool {
            true
        }

        fn scale(&self, _mean: f64, _sd: f64, datum: Datum) -> f64 {
            self.size(datum)
        }
    };
}
pub(crate) use sigmoid_methods;

/// What is bounded for all t alike.
macro_rules! sigmoid_strip {
    () => {
        fn strip_loss(&self, tau: f64) -> Option<f64> {
            let cosine = (0.5 * tau).cos();
            let inside = tau.abs() < std::f64::consts::PI && cosine > 0.0;
            Some(if inside { -cosine.ln() } else { f64::INFINITY })
        }

        fn strip_size(&self, datum: Datum) -> f64 {
            self.size(datum)
        }

        /// φ′ = wσ − y.
        fn rotated_slope(&self, _t: f64, _s: f64, _lean: f64, tau: f64, datum: Datum) -> Option<f64> {
            let cosine = (0.5 * tau).cos();
            let inside = tau.abs() < std::f64::consts::PI && cosine > 0.0;
            Some(if inside { self.size(datum) / cosine + datum.y.abs() } else { f64::INFINITY })
        }
    };
}
pub(crate) use sigmoid_strip;
