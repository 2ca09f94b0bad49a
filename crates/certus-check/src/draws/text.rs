//! The text of a certificate of posterior means and sds (docs/certificate-format.md, section 13).

use super::{Direction, Draws, DrawsCertificate};
use crate::gap::rows_and_blocks;
use crate::model::Model;
use crate::refusal::Refusal;
use crate::sha256::sha256;
use crate::text::Lines;

/// Pairs times coefficients, or times directions, at most.
const NUMBERS: u64 = 1 << 24;

impl DrawsCertificate {
    /// Reads a certificate with this claim.
    pub fn read(text: &str) -> Result<Self, Refusal> {
        let (mut lines, _) = Lines::begin(text)?;
        let delta = lines.number("delta")?;
        let model = Model::read(&mut lines)?;
        let d = model.dim();
        let (rows, block_rows) = rows_and_blocks(&mut lines)?;
        let root = lines.hash("root")?;
        let (mean, factor) = (lines.numbers("mean", d)?, lines.triangle("factor-row", d)?);
        lines.theorem("D8")?;
        let (pairs, level) = (lines.count("pairs")?, lines.number("level")?);
        let [growth, cap] =
            [lines.numbers("growth", 2)?, lines.numbers("cap", 2)?].map(|two| [two[0], two[1]]);
        let count = lines.count("directions")?;
        if pairs.saturating_mul(count.max(d as u64)) > NUMBERS {
            return Err(Refusal::NotCheckable(format!("{pairs} pairs are too many")));
        }
        let mut directions = Vec::new();
        for _ in 0..count {
            let words = lines.words("direction")?;
            let (name, weights) = words.split_first().ok_or_else(|| lines.wrong("a name is missing"))?;
            let weights = lines.each(weights, Lines::parse)?;
            if weights.len() != d {
                return Err(lines.wrong("\"direction\" takes a name and d numbers"));
            }
            directions.push(Direction { name: (*name).into(), weights, mean: [0.0; 2], sd: [0.0; 2] });
        }
        let seed = lines.hash("seed")?;
        // what was chosen before the draws were known
        let above = text.find("\nseed ").map(|at| sha256(&[&text.as_bytes()[..=at]]));
        if above != Some(seed) {
            return Err(Refusal::NotProved("the seed is not the hash of what is above it".into()));
        }
        let (tail, divergence) = (lines.number("tail")?, lines.number("divergence")?);
        for direction in &mut directions {
            let four = lines.numbers("moments", 4)?;
            (direction.mean, direction.sd) = ([four[0], four[1]], [four[2], four[3]]);
        }
        let blocks = (0..rows.div_ceil(block_rows)).map(|_| lines.hash("block"));
        let blocks = blocks.collect::<Result<Vec<_>, _>>()?;
        lines.end()?;
        let (rows, draws) = ([rows, block_rows], Draws::default());
        let out = Self {
            delta,
            model,
            rows,
            root,
            mean,
            factor,
            pairs,
            level,
            growth,
            cap,
            directions,
            seed,
            tail,
            divergence,
            blocks,
            draws,
        };
        out.requirements()?;
        Ok(out)
    }
}
