//! Randomness as a pure function of (seed, purpose, model key, iteration, sample, block of 256 coordinates).
//!
//! The key of a ChaCha8 stream holds seed, purpose and model; its stream number is the iteration; its position
//! holds sample and block. Any thread or process can therefore rebuild any part of any draw.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Open01, StandardNormal};

use crate::parallel;

/// Coordinates that share one position of the stream.
pub const BLOCK: usize = 256;
/// Words (u32) reserved for one block: the ziggurat needs about 520 of 4096.
const WORDS_LOG2: u32 = 12;
const BLOCKS_LOG2: u32 = 24;
/// Coordinates drawn in sequence by one task (about 30 µs).
const TASK: usize = 16 * BLOCK;

/// What a draw is used for; draws of different purposes are independent, and so are those of different iterations.
///
/// | purpose | iteration | whose |
/// |---|---|---|
/// | `Step` | t | step t of a run |
/// | `Rows` | t | the batch of rows of step t |
/// | `Check` | k = 1, 2, … | the k-th check of [`crate::certificate::Checks`], of the gap or of the posterior |
/// | `Check` | 0xD6·2³² to 0xD6·2³² + 3 | the envelope of `certus-models` |
/// | `Check` | 0xD8·2³² + 2k, + 1 | attempt k of [`crate::certificate::weights`]: the pilot, the pairs |
/// | `Estimate` | 0; 1 | [`crate::diagnostics::neg_elbo`]; [`crate::diagnostics::importance()`] |
/// | `Estimate` | 2 | [`crate::diagnostics::WeightedDraws::resampled`] |
/// | `Estimate` | 2³² + k | the k-th look of [`crate::auto()`] |
/// | `Estimate` | 2⁴⁰, 2⁴⁰ + 1 | its check of the gradient |
/// | `Estimate` | 2⁴¹ | its last search for a violation of convexity, of black boxes only |
/// | `Estimate` | 2⁴², 2⁴² + 1 | its searches for modes, of black boxes only |
/// | `Estimate` | 2⁴¹ + 2k, + 1 | batch k of the draws of `certus-mixed`'s proposal: normals; which component |
/// | `Estimate` | 2⁴³ + k | batch k of the draws of scales of linear mixed models, in `certus-fit` |
/// | `Estimate` | 2⁴⁵ + k | set k of the draws that correct a Laplace approximation, in `certus-mixed` |
/// | `Sample` | 0; 1, 2; 3 | normals; which component; scales of estimates, in `certus-fit` |
/// | `Sample` | 2⁴¹ | normals of predictions by draws of scales, in `certus-fit` |
/// | `Sample` | 2⁴² | draws of effects of linear mixed models, for predictions, in `certus-fit` |
/// | `Sample` | 2⁴⁴ | effects of linear mixed models over draws of the scales, in `certus-fit` |
/// | `Sample` | 2⁴⁶ | draws of effects of other models with several group effects, in `certus-fit` |
/// | `Sample` | 2⁴⁷ + k, 2⁴⁸ + k | new observations of row k, simulated responses of row k, in `certus-fit` |
/// | `Sample` | 2⁴⁹ | effects of new groups in simulated data sets, in `certus-fit` |
/// | `Chain` | 2k; 2k + 1 | chain k of the sampler of `certus-models`: its start; the key of its own generator |
///
/// A statement that holds with probability 1 − δ over its draws holds for a Gaussian that was chosen without them. So
/// what certifies has its own purpose: a Gaussian may be chosen by a run and by any estimate, with any seed, and be
/// certified with the same seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// The steps of a run.
    Step = 1,
    /// Certificates made after or between steps.
    Check = 2,
    /// Draws handed to the user.
    Sample = 3,
    /// Simulated data and starting points.
    Simulate = 4,
    /// Estimates, which certify nothing.
    Estimate = 5,
    /// Which rows a step looks at.
    Rows = 6,
    /// Markov chains.
    Chain = 7,
}

/// A source of independent standard normal vectors with random access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random {
    seed: u64,
    purpose: Purpose,
    model: u64,
}

impl Random {
    /// The source for one purpose of one model (key 0 unless many models share a seed).
    pub fn new(seed: u64, purpose: Purpose, model: u64) -> Self {
        Self { seed, purpose, model }
    }

    /// Fills the `dim × n` column-major `out` with the standard normal vectors `first_sample..` of `iteration`.
    pub fn normals(&self, iteration: u64, first_sample: u64, dim: usize, out: &mut [f64]) {
        self.draws(&StandardNormal, iteration, first_sample, dim, out);
    }

    /// The same with numbers uniform on the open interval (0, 1). They use the words of the stream that the normals of
    /// the same iteration use: give the two different iterations.
    pub fn uniforms(&self, iteration: u64, first_sample: u64, dim: usize, out: &mut [f64]) {
        self.draws(&Open01, iteration, first_sample, dim, out);
    }

    /// A generator for code that takes one. It has the words of the stream that the normals of the same iteration use:
    /// give the two different iterations.
    pub fn generator(&self, iteration: u64) -> impl rand::Rng + use<> {
        self.stream(iteration)
    }

    fn draws(
        &self,
        law: &(impl Distribution<f64> + Sync),
        iteration: u64,
        first_sample: u64,
        dim: usize,
        out: &mut [f64],
    ) {
        debug_assert!(dim > 0 && out.len().is_multiple_of(dim));
        let columns = (TASK / dim).max(1);
        parallel::for_each_piece(out, columns * dim, 1, &|run, part| {
            let first = first_sample + (run * columns) as u64;
            if columns > 1 {
                let mut rng = self.stream(iteration);
                for (sample, column) in part.chunks_exact_mut(dim).enumerate() {
                    fill(law, &mut rng, first + sample as u64, 0, column);
                }
            } else {
                parallel::for_each_piece(part, TASK, 1, &|run, part| {
                    fill(law, &mut self.stream(iteration), first, run * (TASK / BLOCK), part);
                });
            }
        });
    }

    fn stream(&self, iteration: u64) -> ChaCha8Rng {
        let mut key = [0u8; 32];
        for (bytes, word) in key.chunks_exact_mut(8).zip([self.seed, self.purpose as u64, self.model, 0]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(iteration);
        rng
    }
}

/// The coordinates of one sample from block `first_block` on.
fn fill(
    law: &impl Distribution<f64>,
    rng: &mut ChaCha8Rng,
    sample: u64,
    first_block: usize,
    out: &mut [f64],
) {
    for (block, part) in out.chunks_mut(BLOCK).enumerate() {
        let block = first_block + block;
        debug_assert!(sample < 1 << 32 && block < 1 << BLOCKS_LOG2);
        rng.set_word_pos((u128::from(sample) << BLOCKS_LOG2 | block as u128) << WORDS_LOG2);
        for x in part {
            *x = law.sample(rng);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_can_be_rebuilt() {
        let random = Random::new(7, Purpose::Step, 3);
        let (dim, n) = (700, 5);
        let mut all = vec![0.0; dim * n];
        random.normals(11, 0, dim, &mut all);
        let mut column = vec![0.0; dim];
        random.normals(11, 3, dim, &mut column);
        assert_eq!(column, all[3 * dim..4 * dim]);
        // A longer vector starts with the same blocks.
        let mut longer = vec![0.0; 1000];
        random.normals(11, 3, 1000, &mut longer);
        assert_eq!(column[..512], longer[..512]);
    }

    #[test]
    fn every_part_of_the_address_matters() {
        let draw = |seed, purpose, model, iteration, sample| {
            let mut out = [0.0; 4];
            Random::new(seed, purpose, model).normals(iteration, sample, 4, &mut out);
            out
        };
        let base = draw(1, Purpose::Step, 0, 0, 0);
        for other in [
            draw(2, Purpose::Step, 0, 0, 0),
            draw(1, Purpose::Check, 0, 0, 0),
            draw(1, Purpose::Chain, 0, 0, 0),
            draw(1, Purpose::Step, 1, 0, 0),
            draw(1, Purpose::Step, 0, 1, 0),
            draw(1, Purpose::Step, 0, 0, 1),
        ] {
            assert_ne!(base, other);
        }
    }

    /// The bits are a contract: a change of generator or distribution crate must be noticed.
    #[test]
    fn the_bits_are_pinned() {
        let mut out = [0.0; 3];
        Random::new(0, Purpose::Step, 0).normals(0, 0, 3, &mut out);
        assert_eq!(out.map(f64::to_bits), PINNED);
        Random::new(0, Purpose::Step, 0).uniforms(0, 0, 3, &mut out);
        assert_eq!(out.map(f64::to_bits), PINNED_UNIFORMS);
    }
    const PINNED_UNIFORMS: [u64; 3] = [4598164172489452468, 4599414792194510442, 4600351335808796774];
    const PINNED: [u64; 3] = [13829323065693378234, 13831188253810008134, 13821934144635596686];

    /// Uniforms lie inside (0, 1) and have the moments 1/2, 1/3, 1/4 within 5 standard errors on 2·10⁵ draws.
    #[test]
    fn uniform_moments() {
        let n = 200_000;
        let mut x = vec![0.0; n];
        Random::new(6, Purpose::Check, 0).uniforms(0, 0, 3, &mut x[..199_998]);
        Random::new(6, Purpose::Check, 0).uniforms(1, 0, 2, &mut x[199_998..]);
        assert!(x.iter().all(|v| *v > 0.0 && *v < 1.0));
        for k in [1, 2, 3] {
            let mean = x.iter().map(|v| v.powi(k)).sum::<f64>() / n as f64;
            let want = 1.0 / f64::from(k + 1);
            let variance = 1.0 / f64::from(2 * k + 1) - want * want;
            assert!((mean - want).abs() < 5.0 * (variance / n as f64).sqrt(), "moment {k}: {mean}");
        }
    }

    /// Blocks and samples do not share words of the stream: no value comes twice.
    #[test]
    fn blocks_do_not_overlap() {
        let (dim, n) = (1500, 20);
        let mut x = vec![0.0; dim * n];
        Random::new(9, Purpose::Step, 0).normals(3, 0, dim, &mut x);
        let distinct: std::collections::HashSet<u64> = x.iter().map(|v| v.to_bits()).collect();
        assert_eq!(distinct.len(), x.len());
    }

    /// Mean 0, variance 1, fourth moment 3 within 5 standard errors on 2·10⁵ draws.
    #[test]
    fn moments() {
        let n = 200_000;
        let mut x = vec![0.0; n];
        Random::new(5, Purpose::Simulate, 0).normals(0, 0, 1000, &mut x);
        let moment = |k: i32| x.iter().map(|v| v.powi(k)).sum::<f64>() / n as f64;
        let se = |variance: f64| 5.0 * (variance / n as f64).sqrt();
        assert!(moment(1).abs() < se(1.0));
        assert!((moment(2) - 1.0).abs() < se(2.0));
        assert!((moment(4) - 3.0).abs() < se(96.0));
    }
}
