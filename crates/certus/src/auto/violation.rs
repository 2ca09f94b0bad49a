//! What contradicts log-concavity, in words.

use super::slope::short;
use crate::certificate::words::nearest;
use crate::moving::Violation;

/// What contradicts log-concavity.
pub(super) fn in_words(violation: &Violation) -> String {
    match violation {
        Violation::Gradients(witness) => format!(
            "according to its gradients, the second derivative of −log p between {} and {} is {:.3e}",
            short(&witness.points[0]),
            short(&witness.points[1]),
            witness.along
        ),
        Violation::Maxima([one, other], nats) => format!(
            "it has maxima at {} and {}, and between them it is lower than at both by {} nats",
            short(one),
            short(other),
            nearest(*nats, 3)
        ),
    }
}

/// The message of a declaration that is contradicted.
pub(super) fn contradicted(violation: &Violation) -> String {
    format!("declaration contradicted: the target is declared log-concave, but {}", in_words(violation))
}
