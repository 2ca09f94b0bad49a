//! A checker of certificates that depends on the standard library alone and shares no code with the solver.
//!
//! docs/certificate-format.md defines the format, states the theorems and proves every inequality that is used here.
#![forbid(unsafe_code)]

mod array;
mod ball;
mod block;
mod draws;
mod gap;
mod mixed;
mod model;
mod moments;
mod posterior;
mod rule;
mod sd;
mod sha256;
mod text;
mod write;

pub use ball::{Ball, exp, log, log_one_plus};
pub use block::Rows;
pub use draws::{Direction, DrawsCertificate, Weighted};
pub use gap::{Certificate, Claim, Proof, Sums};
pub use mixed::{MixedCertificate, Seen};
pub use model::{Column, Model, Precision};
pub use moments::{Likelihood, Moments, Quadrature};
pub use posterior::sentence;
pub use rule::{Rule, Stated, check, check_block, read};
pub use sd::{Block, Group, GroupRow, Integral, Nodes, Point, SdCertificate, SdSums, integrate};
pub use sha256::{Hash, hex, leaf, root, sha256};
pub use text::{Refusal, triangle};
