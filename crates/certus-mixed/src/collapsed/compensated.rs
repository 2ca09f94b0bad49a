//! A sum that keeps what rounding takes from it.

use certus_likelihood::internals::add_exactly;

/// A sum, and what was rounded away of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compensated {
    sum: f64,
    low: f64,
}

impl Compensated {
    /// Adds a number.
    pub(super) fn add(&mut self, x: f64) {
        add_exactly(&mut self.sum, &mut self.low, x);
    }

    /// Adds another sum.
    pub(super) fn join(&mut self, other: Self) {
        self.add(other.sum);
        self.low += other.low;
    }

    /// The sum with what was rounded away.
    pub(super) fn value(self) -> f64 {
        self.sum + self.low
    }
}
