//! Random models for the tests of this module.
#![allow(clippy::unwrap_used)]

use super::layout::{Design, Term};
use super::statistics::Statistics;
use super::sums::Row;

/// Numbers in (−1, 1) without a pattern.
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// A random model: levels of factors, (factor, effects) of terms.
pub(crate) fn random(
    levels: &[usize],
    terms: &[(usize, usize)],
    rows: usize,
    noise: &mut Noise,
) -> Statistics {
    let code = |noise: &mut Noise, most: usize| ((noise.next() + 1.0) * 0.5 * most as f64) as u32;
    let codes = |noise: &mut Noise| levels.iter().map(|&l| code(noise, l)).collect();
    with_codes(levels, terms, rows, noise, &codes)
}

/// The same with the levels that `codes` draws for a row.
pub(crate) fn with_codes(
    levels: &[usize],
    terms: &[(usize, usize)],
    rows: usize,
    noise: &mut Noise,
    codes: &dyn Fn(&mut Noise) -> Vec<u32>,
) -> Statistics {
    let design = Design {
        levels: levels.to_vec(),
        terms: terms.iter().map(|&(factor, effects)| Term { factor, effects }).collect(),
        fixed: 2,
    };
    let count: usize = terms.iter().map(|t| t.1).sum();
    let mut cells = Vec::new();
    for _ in 0..rows {
        let codes = codes(noise);
        let z: Vec<f64> = (0..count).map(|i| if i == 0 { 1.0 } else { noise.next() }).collect();
        let x = vec![1.0, noise.next()];
        let y = 3.0
            + 2.0 * noise.next()
            + 0.3 * f64::from(codes[0]) * z[count - 1]
            + 1.5 * (13.0 * f64::from(codes[0])).sin();
        cells.push((codes, z, x, y, 0.5 + (noise.next() + 1.0)));
    }
    let rows = cells.iter().map(|(levels, effects, fixed, response, weight)| Row {
        levels,
        effects,
        fixed,
        response: *response,
        weight: *weight,
    });
    Statistics::from_rows(&design, rows).unwrap()
}
