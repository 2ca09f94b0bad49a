//! Standard normal draws that any checker can repeat, and the normal density (docs/certificate-format.md, section 13).

use crate::ball::{Ball, U, log, up};
use crate::refusal::Refusal;
use crate::sha256::{Hash, sha256};

/// The normal density.
pub(super) fn density(x: Ball) -> Ball {
    (-(x * x * 0.5)).exp() * Ball { mid: 0.398_942_280_401_432_7, rad: U }
}

/// Birnbaum's h with Q(x) ≥ γ(x) h, x ≥ 0.
pub(super) fn birnbaum(x: Ball) -> Ball {
    Ball::exact(2.0) / (x + (x * x + 4.0).sqrt())
}

/// Independent standard normals: the polar method, from SHA-256 in counter mode.
pub(super) struct Normals {
    pub(super) seed: Hash,
    pub(super) count: u64,
    pub(super) left: Option<Ball>,
}

impl Normals {
    pub(super) fn next(&mut self) -> Result<Ball, Refusal> {
        if let Some(left) = self.left.take() {
            return Ok(left);
        }
        loop {
            let hash = sha256(&[&self.seed, &self.count.to_le_bytes()]);
            self.count += 1;
            let v = [0, 16].map(|from| {
                let bits = hash[from..from + 16].iter().fold(0u128, |sum, byte| sum << 8 | u128::from(*byte));
                // (2k + 1)/2¹²⁸ − 1, whose further bits are not known
                let v = (bits ^ (1 << 127)) as i128 as f64 / 2f64.powi(127);
                Ball::new(v, up(U * v.abs() + 2f64.powi(-127)))
            });
            let s = v[0] * v[0] + v[1] * v[1];
            if s.lower() >= 1.0 {
                continue;
            }
            if s.upper() >= 1.0 {
                return Err(Refusal::NotProved("a draw is too close to the circle".into()));
            }
            let f = (-log(s) * 2.0 / s).sqrt();
            self.left = Some(v[1] * f);
            return Ok(v[0] * f);
        }
    }
}
