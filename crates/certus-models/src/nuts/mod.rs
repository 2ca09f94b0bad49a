//! Draws from the posterior by the no-U-turn sampler of `nuts-rs`, in the frame of q.
//!
//! The chains move x with z = m + Cx, so that the density to sample is close to standard normal where q is close to the
//! posterior. What they say is an estimate: it holds as far as the chains have mixed, which [`Diagnosed`] reports.

mod diagnostics;
mod frame;

use std::sync::atomic::{AtomicUsize, Ordering};

use certus::random::{Purpose, Random};
use certus::{Gaussian, Target, parallel};
use nuts_rs::{Chain, CpuMath, DiagNutsSettings, Settings};

use crate::error::{Error, InvalidModel};
use diagnostics::FEWEST;
use frame::Frame;

pub use diagnostics::{Diagnosed, diagnosed};

/// How much is drawn.
///
/// | setting | default | purpose | range |
/// |---|---|---|---|
/// | `chains` | 4 | independent chains, each from a draw of q | at least 1 |
/// | `warmup` | 500 | first draws of a chain, which set step and scales and are not kept | any |
/// | `draws` | 1000 | draws kept of a chain | at least 4 |
/// | `seed` | 0 | of everything random | any |
/// | `grain` | 1 | chains that run one after the other; `usize::MAX` for all | any |
///
/// Give `usize::MAX` as the grain if an evaluation waits for other ranks, which must meet in the same order, or if the
/// target must be called on the calling thread. It changes no bit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NutsSettings {
    /// Independent chains.
    pub chains: usize,
    /// First draws of a chain, which are not kept.
    pub warmup: usize,
    /// Draws kept of a chain.
    pub draws: usize,
    /// Of everything random.
    pub seed: u64,
    /// Chains that run one after the other.
    pub grain: usize,
    /// The mean acceptance that the length of steps is adapted to, below 1: the higher, the shorter they are.
    pub acceptance: f64,
}

impl Default for NutsSettings {
    fn default() -> Self {
        Self { chains: 4, warmup: 500, draws: 1000, seed: 0, grain: 1, acceptance: 0.8 }
    }
}

/// The draws of all chains after the warm-up; none is left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Chains {
    /// The number of latents d.
    pub dim: usize,
    /// The number of chains.
    pub chains: usize,
    /// Latents, draw after draw, chain after chain.
    pub values: Vec<f64>,
    /// Draws whose trajectory ended early: the energy grew by more than 1000, or the log density or its gradient was
    /// not finite. The sampler may not reach what lies there.
    pub divergences: u64,
}

impl Chains {
    /// A function of the latents, over all chains.
    pub fn diagnosed(&self, of: impl FnMut(&[f64]) -> f64) -> Diagnosed {
        let series: Vec<f64> = self.values.chunks_exact(self.dim).map(of).collect();
        diagnosed(&series, self.chains)
    }
}

/// What one chain gives.
#[derive(Default)]
struct Run {
    values: Vec<f64>,
    divergences: u64,
}

/// Draws from `target`. The same bits for any number of threads.
///
/// A log density that is not finite is an error at the start of a chain and a divergence elsewhere. An error of the
/// target ends the run; if several chains fail, it is that of the first of them.
pub fn nuts(target: &dyn Target, q: &Gaussian, settings: &NutsSettings) -> Result<Chains, Error> {
    let NutsSettings { chains, draws, grain, .. } = *settings;
    let dim = target.dim();
    if dim == 0 || q.dim() != dim || !q.is_proper() {
        return Err(InvalidModel::Gaussian { coefficients: dim }.into());
    }
    for (name, value, least, required) in
        [("chains", chains, 1, "at least 1"), ("draws", draws, FEWEST, "at least 4")]
    {
        if value < least {
            return Err(InvalidModel::Setting { name, value: value as f64, required }.into());
        }
    }
    let value = settings.acceptance;
    if !(value > 0.0 && value < 1.0) {
        let (name, required) = ("acceptance", "between 0 and 1");
        return Err(InvalidModel::Setting { name, value, required }.into());
    }
    let failed = AtomicUsize::new(usize::MAX);
    let mut runs: Vec<Result<Run, Error>> = (0..chains).map(|_| Ok(Run::default())).collect();
    parallel::for_each_piece(&mut runs, 1, grain, &|chain, run| {
        // A chain gives up only for one before it, so that the error returned does not depend on threads.
        run[0] = one(target, q, settings, chain, &|| failed.load(Ordering::Relaxed) < chain);
        if run[0].is_err() {
            failed.fetch_min(chain, Ordering::Relaxed);
        }
    });
    let mut all = Chains { dim, chains, values: Vec::with_capacity(chains * draws * dim), divergences: 0 };
    for run in runs {
        let run = run?;
        all.values.extend_from_slice(&run.values);
        all.divergences += run.divergences;
    }
    Ok(all)
}

/// One chain, from a draw of q.
fn one(
    target: &dyn Target,
    q: &Gaussian,
    settings: &NutsSettings,
    chain: usize,
    useless: &dyn Fn() -> bool,
) -> Result<Run, Error> {
    let NutsSettings { warmup, draws, seed, acceptance, .. } = *settings;
    let (dim, stream) = (q.dim(), 2 * chain as u64);
    let random = Random::new(seed, Purpose::Chain, 0);
    let mut start = vec![0.0; dim];
    random.normals(stream, 0, dim, &mut start);
    let mut options = DiagNutsSettings {
        num_tune: warmup as u64,
        num_draws: draws as u64,
        // the gradients of the target as they are
        gradient_clipping: None,
        ..DiagNutsSettings::default()
    };
    options.adapt_options.step_size_settings.target_accept = acceptance;
    let math = CpuMath::new(Frame::new(target, q));
    let mut sampler = options
        .new_chain(chain as u64, math, &mut random.generator(stream + 1))
        .expect("only numbers of draws differ from the defaults");
    sampler
        .set_position(&start)
        .map_err(|error| frame::cause(error.downcast().ok(), format!("the start of chain {chain}")))?;
    let mut run = Run { values: vec![0.0; draws * dim], divergences: 0 };
    for draw in 0..warmup + draws {
        if useless() {
            return Err(Error::Stopped);
        }
        let (x, progress) = sampler.draw().map_err(|error| {
            frame::cause(error.downcast().ok(), format!("draw {draw} of chain {chain}, with its warm-up"))
        })?;
        if let Some(kept) = draw.checked_sub(warmup) {
            q.transform(&x, &mut run.values[kept * dim..][..dim]);
            run.divergences += u64::from(progress.diverging);
        }
    }
    Ok(run)
}
