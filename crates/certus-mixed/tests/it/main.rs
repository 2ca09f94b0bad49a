//! What is integrated out against quadrature and published fits.
//! One binary, because each is linked with everything that the crate depends on.

mod ascent;
mod collapsed;
mod collapsed_claims;
mod collapsed_digits;
mod collapsed_intervals;
mod collapsed_maxima;
#[path = "../../../certus-models/tests/common/mod.rs"]
mod common;
mod correlated;
mod crossed;
mod density;
mod linear;
mod scales;
