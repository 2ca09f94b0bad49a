//! Why importance weights certify nothing.

/// Why the weights say nothing of how close q is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WeightObstacle {
    /// No tail is finite.
    Tail {
        /// r₀ of the set that came closest to r₀ < z.
        slope: f64,
        /// Its z.
        z: f64,
    },
    /// Z may be 0: there are too few draws.
    Unresolved {
        /// Z is at most this.
        most: f64,
    },
    /// The bounds of Z exclude each other: the ELBO is not what it was said to be, or the draws were unlucky.
    Contradiction {
        /// Z is at least this, …
        least: f64,
        /// … and at most this.
        most: f64,
    },
}

/// Why the weights say nothing of how close q is, and how far away it is at least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightsDeclined {
    /// Why.
    pub obstacle: WeightObstacle,
    /// KL(q ‖ p) is at least this, with probability 1 − δ; this needs no convexity.
    pub kl_at_least: f64,
}
