//! Step sizes γ₀, γ₁, …

/// A rule for γ_t, t = 0, 1, ….
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Schedule {
    /// γ_t = step (also what a horizon rule becomes once T is known).
    Constant {
        /// γ.
        step: f64,
    },
    /// γ_t = min{cap, (2t+1)/(μ(t+1)²)}: the `min` form, legal for every cap (A18; the printed switch at 4⌊L/μ⌋ is
    /// not).
    Decaying {
        /// The largest step the theorem allows.
        cap: f64,
        /// μ of the one-step inequality E⁺ ≤ (1 − γμ)E + 2σ²γ².
        strong_convexity: f64,
    },
    /// The γ_t that makes the proved one-step bound on E|w − w*|² smallest, given the bound reached so far.
    Greedy,
}

impl Schedule {
    /// γ_t; `greedy` is what [`Schedule::Greedy`] takes at this iteration.
    pub fn step_size(&self, iteration: u64, greedy: impl FnOnce() -> f64) -> f64 {
        match *self {
            Schedule::Constant { step } => step,
            Schedule::Decaying { cap, strong_convexity } => {
                let t = iteration as f64;
                cap.min((2.0 * t + 1.0) / (strong_convexity * (t + 1.0) * (t + 1.0)))
            }
            Schedule::Greedy => greedy(),
        }
    }
}
