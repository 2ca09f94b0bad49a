//! What the next step needs, saveable to bytes; what a reader of one step wants; the memory steps reuse.

use crate::averaging::Average;
use crate::error::Error;
use crate::estimator::{Gradient, Sampling};
use crate::factor::Workspace;
use crate::gaussian::Gaussian;

/// All that a run carries from one step to the next. It holds no clock, host or thread count.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub(super) iteration: u64,
    pub(super) iterate: Gaussian,
    pub(super) bound: f64,
    pub(super) average: Option<Average>,
    pub(super) gradients: u64,
}

/// What one step tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Info {
    /// γ_t.
    pub step_size: f64,
    /// The average of −log p over the step's draws, at the iterate before the step.
    pub energy: f64,
}

/// Buffers of a step, made once.
pub struct Memory {
    pub(super) gradient: Gradient,
    pub(super) workspace: Workspace,
}

impl Memory {
    pub(super) fn new(dim: usize, sampling: Sampling) -> Self {
        Self { gradient: Gradient::new(dim, sampling), workspace: Workspace::default() }
    }
}

const MAGIC: &[u8; 16] = b"certus state v1\n";

impl State {
    pub(super) fn new(iterate: Gaussian, bound: f64, gradients: u64) -> Self {
        Self { iteration: 0, iterate, bound, average: None, gradients }
    }

    /// Steps taken.
    pub fn iteration(&self) -> u64 {
        self.iteration
    }

    /// w_t.
    pub fn iterate(&self) -> &Gaussian {
        &self.iterate
    }

    /// The folded bound on E|w_t − w*|²; infinite where no theorem applies.
    pub fn bound(&self) -> f64 {
        self.bound
    }

    /// Single-point gradients spent so far.
    pub fn gradients(&self) -> u64 {
        self.gradients
    }

    /// The state as bytes: a magic word, counts, then every number in little-endian order.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let mut word = |bits: u64| out.extend_from_slice(&bits.to_le_bytes());
        let values = self.iterate.factor().values().len() as u64;
        for count in [self.iterate.dim() as u64, values, self.iteration, self.gradients] {
            word(count);
        }
        word(self.bound.to_bits());
        word(u64::from(self.average.is_some()));
        let mut gaussian = |w: &Gaussian| {
            w.mean().iter().chain(w.factor().values()).for_each(|x| word(x.to_bits()));
        };
        gaussian(&self.iterate);
        if let Some(average) = &self.average {
            gaussian(&average.mean);
            word(average.log_total.to_bits());
        }
        out
    }

    /// The state that [`State::encode`] wrote; `like` is any state of the same plan (its start, say) and gives the
    /// family.
    pub fn decode(bytes: &[u8], like: &State) -> Result<Self, Error> {
        let bad = |what: &str| Error::BadState(what.to_string());
        let body = bytes.strip_prefix(MAGIC).ok_or_else(|| bad("it does not start with the magic word"))?;
        let (chunks, rest) = body.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(bad("its length is not a whole number of words"));
        }
        let mut words = chunks.iter().map(|c| u64::from_le_bytes(*c));
        let mut word = || words.next().ok_or_else(|| bad("it ends too early"));
        let (dim, values) = (like.iterate.dim() as u64, like.iterate.factor().values().len() as u64);
        if (word()?, word()?) != (dim, values) {
            return Err(bad("it belongs to a problem of another size or family"));
        }
        let mut state = like.clone();
        state.iteration = word()?;
        state.gradients = word()?;
        state.bound = f64::from_bits(word()?);
        let averaged = match word()? {
            0 => false,
            1 => true,
            _ => return Err(bad("the flag of its average is neither 0 nor 1")),
        };
        let mut gaussian = |w: &mut Gaussian| -> Result<(), Error> {
            let (mean, factor) = w.parts_mut();
            for x in mean.iter_mut().chain(factor.values_mut()) {
                *x = f64::from_bits(word()?);
            }
            if w.is_proper() { Ok(()) } else { Err(bad("its Gaussian is not proper")) }
        };
        gaussian(&mut state.iterate)?;
        state.average = if averaged {
            let mut mean = like.iterate.clone();
            gaussian(&mut mean)?;
            Some(Average { mean, log_total: f64::from_bits(word()?) })
        } else {
            None
        };
        if words.next().is_some() {
            return Err(bad("it has trailing words"));
        }
        Ok(state)
    }
}
