//! A checker of certificates that depends on the standard library alone and shares no code with the solver.
//!
//! docs/certificate-format.md defines the format, states the theorems and proves every inequality that is used here.
#![forbid(unsafe_code)]

mod array;
mod ball;
mod draws;
mod gap;
mod mixed;
mod model;
mod moments;
mod read;
mod refusal;
mod rule;
mod sd;
mod sha256;
mod stated;
mod text;
mod write;

pub use ball::{Ball, exp, log, log_one_plus};
pub use draws::{Direction, DrawsCertificate, Weighted};
pub use gap::block::Rows;
pub use gap::posterior::sentence;
pub use gap::{Certificate, Claim, Proof, Sums};
pub use mixed::{MixedCertificate, Seen};
pub use model::{Column, Model, Precision};
pub use moments::{Likelihood, Moments, Quadrature};
pub use read::read;
pub use refusal::Refusal;
pub use rule::{Rule, check, check_block};
pub use sd::{Block, Group, GroupRow, Integral, Nodes, Point, SdCertificate, SdSums, integrate};
pub use sha256::{Hash, hex, leaf, root, sha256};
pub use stated::Stated;
pub use text::triangle;
