//! What a certificate states of a block: numbers within a radius.

use crate::ball::Ball;
use crate::refusal::Refusal;

/// A vector, or a symmetric matrix by its lower triangle row by row, within a radius in the Euclidean norm.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stated {
    /// The numbers.
    pub parts: Vec<f64>,
    /// The radius.
    pub rad: f64,
}

impl Stated {
    /// Checks that all members of this, which was computed, are within the radius of what is stated.
    pub(crate) fn agrees(&self, stated: &Self, d: usize, what: &str) -> Result<(), Refusal> {
        let apart: Vec<Ball> =
            self.parts.iter().zip(&stated.parts).map(|(a, b)| Ball::exact(*a) - *b).collect();
        // entries of a triangle off its diagonal count twice
        let (is_matrix, once) = (apart.len() > d, |sum: Ball, x: &Ball| sum + *x * *x);
        let mut square = apart.iter().fold(Ball::ZERO, once);
        if is_matrix {
            square =
                (0..d).fold(square * 2.0, |sum, i| sum - apart[i * (i + 3) / 2] * apart[i * (i + 3) / 2]);
        }
        let apart = (square.sqrt() + self.rad).upper();
        // NaN is not below anything
        if apart <= stated.rad {
            return Ok(());
        }
        let rad = stated.rad;
        Err(Refusal::NotProved(format!(
            "{what} is not proved to be within {rad:e} of what is stated (but within {apart:e})"
        )))
    }
}
