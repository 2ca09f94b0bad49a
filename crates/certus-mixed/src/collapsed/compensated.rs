//! A sum that keeps what rounding takes from it.

use certus_likelihood::internals::add_exactly;

/// A sum, and what was rounded away of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Compensated {
    sum: f64,
    low: f64,
}

impl Compensated {
    /// Adds a number.
    pub(crate) fn add(&mut self, x: f64) {
        add_exactly(&mut self.sum, &mut self.low, x);
    }

    /// Adds another sum.
    pub(crate) fn join(&mut self, other: Self) {
        self.add(other.sum);
        self.low += other.low;
    }

    /// The sum with what was rounded away.
    pub(crate) fn value(self) -> f64 {
        self.sum + self.low
    }
}
