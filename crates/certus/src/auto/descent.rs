//! The descent of a black box: when to look, how large the batches are, what to do when the estimates do not fall.

use crate::bytes::{Reader, Writer, bad};
use crate::diagnostics::Estimate;
use crate::error::Error;
use crate::factor::{Factor, Family, Lower};
use crate::gaussian::Gaussian;
use crate::moving::{Measured, Moving, MovingMemory};
use crate::random::Random;
use crate::target::Target;

/// Pairs of a step: the fewest, and the most.
const FEWEST: usize = 8;
const MOST: usize = 512;
/// Draws of a step that may be asked for.
pub(super) const MOST_GIVEN: usize = 1 << 20;
/// Pairs behind the last word, at least.
const LAST: usize = 512;
/// Estimates of iteration `LOOKS + k` belong to the k-th look.
const LOOKS: u64 = 1 << 32;
const MAGIC: &[u8; 16] = b"certus auto v1\n\n";
/// How often the descent may go back to an earlier Gaussian with shorter steps.
const RESTARTS: u32 = 6;

/// What the next step of a black box needs: plain data, saveable.
#[derive(Clone, Debug, PartialEq)]
pub struct AutoState {
    moving: Moving,
    pairs: usize,
    /// Pairs taken, all told, and at the next look.
    taken: u64,
    next: u64,
    shown: u64,
    looks: u64,
    restarts: u32,
    /// The best Gaussian looked at, with its estimate.
    best: Option<(Gaussian, Estimate)>,
    noise: f64,
    /// Checks of the gap made with declared constants.
    pub(super) checks: u64,
    /// Single-point gradients spent, by whomever.
    pub(super) gradients: u64,
    /// True of a second descent.
    pub(super) began_again: bool,
}

/// Pairs of a batch that was asked for.
fn pairs_of(batch: usize) -> usize {
    batch.div_ceil(2)
}

impl AutoState {
    /// With batches of `batch` draws, or of as many as the noise requires.
    pub(super) fn new(moving: Moving, batch: Option<usize>) -> Self {
        let dim = moving.dim();
        let fixed = batch.map(pairs_of);
        let pairs = fixed.unwrap_or_else(|| FEWEST.max((dim / 16).next_power_of_two()).min(MOST));
        let next = (4 * pairs as u64).max(dim as u64 / 4);
        Self {
            moving,
            pairs,
            taken: 0,
            next,
            shown: 0,
            looks: 0,
            restarts: 0,
            best: None,
            noise: f64::INFINITY,
            checks: 0,
            gradients: 0,
            began_again: false,
        }
    }

    /// The state as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new(MAGIC);
        out.count(self.moving.dim() as u64);
        let flags = u64::from(self.best.is_some()) + 2 * u64::from(self.began_again);
        for count in [self.pairs as u64, self.taken, self.next, self.shown, self.looks] {
            out.count(count);
        }
        for count in [u64::from(self.restarts), self.checks, self.gradients, flags] {
            out.count(count);
        }
        // infinite before the first look, which a saved number cannot be
        out.numbers([&if self.noise.is_finite() { self.noise } else { -1.0 }]);
        self.moving.write(&mut out);
        if let Some((w, gap)) = &self.best {
            out.numbers([&gap.value, &gap.standard_error]);
            out.numbers(w.mean().iter().chain(w.factor().values()));
        }
        out.finish()
    }

    /// The state that [`AutoState::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut words = Reader::new(bytes, MAGIC)?;
        let dim = words.count()?;
        // two matrices follow: refused before any memory is asked for
        if dim == 0 || dim.saturating_mul(dim).saturating_mul(16) > bytes.len() as u64 {
            return Err(bad("its dimension does not fit its length"));
        }
        let dim = dim as usize;
        let mut count = || words.count();
        let (pairs, taken, next, shown, looks) = (count()?, count()?, count()?, count()?, count()?);
        let (restarts, checks, gradients, flags) = (count()?, count()?, count()?, count()?);
        let (Ok(restarts), true, true) =
            (u32::try_from(restarts), (1..=MOST_GIVEN as u64 / 2).contains(&pairs), flags < 4)
        else {
            return Err(bad("one of its counts is out of range"));
        };
        let noise = Some(words.number()?).filter(|x| *x >= 0.0).unwrap_or(f64::INFINITY);
        let like = Gaussian::isotropic(vec![0.0; dim], 1.0, &Family::Lower)?;
        let moving = Moving::read(&mut words, &like)?;
        let best = if flags % 2 == 1 {
            let gap = Estimate { value: words.number()?, standard_error: words.number()? };
            let mean = words.numbers(dim)?;
            let factor = Factor::Lower(Lower::new(dim, words.numbers(dim * dim)?)?);
            Some((Gaussian::new(mean, factor)?, gap))
        } else {
            None
        };
        words.finish()?;
        let pairs = pairs as usize;
        let began_again = flags >= 2;
        Ok(Self {
            moving,
            pairs,
            taken,
            next,
            shown,
            looks,
            restarts,
            best,
            noise,
            checks,
            gradients,
            began_again,
        })
    }

    /// d.
    pub fn dim(&self) -> usize {
        self.moving.dim()
    }

    pub(super) fn iteration(&self) -> u64 {
        self.moving.iteration()
    }

    pub(super) fn averaged(&self) -> Result<Gaussian, Error> {
        self.moving.averaged()
    }

    pub(super) fn step(
        &mut self,
        target: &dyn Target,
        random: &Random,
        memory: &mut MovingMemory,
    ) -> Result<(), Error> {
        self.moving.step(target, random, self.pairs, memory)?;
        self.taken += self.pairs as u64;
        Ok(())
    }

    /// The iteration of the next estimate's draws.
    pub(super) fn next_look(&mut self) -> u64 {
        self.looks += 1;
        LOOKS + self.looks - 1
    }

    /// True whenever a fifth more pairs were taken than at the last time.
    pub(super) fn is_worth_showing(&mut self) -> bool {
        let worth = 5 * self.taken >= 6 * self.shown && !self.is_due();
        if worth {
            self.shown = self.taken;
        }
        worth
    }

    pub(super) fn is_due(&self) -> bool {
        self.taken >= self.next
    }

    /// Measures the average since the last look with fresh pairs: an eighth of those taken; once more with up to as
    /// many if that is enough to tell that the goal is reached.
    pub(super) fn look(
        &mut self,
        target: &dyn Target,
        random: &Random,
        goal: f64,
    ) -> Result<(Gaussian, Measured), Error> {
        let gaussian = self.moving.averaged()?;
        let pairs = (self.taken as usize / 8).max(32);
        let mut measured = Measured::new(target, &gaussian, random, self.next_look(), pairs)?;
        let Estimate { value, standard_error } = measured.gap;
        if value < 0.8 * goal && standard_error > 0.15 * goal {
            // the error falls at least with the root of the draws, about with their number where noise rules
            let more = (pairs as f64 * (standard_error / (0.12 * goal)).max(1.5)).min(1e9) as usize;
            if more <= self.taken as usize + 64 {
                measured = Measured::new(target, &gaussian, random, self.next_look(), more)?;
            }
        }
        // what will be said at the end rests on this many draws
        if measured.gap.upper() <= goal && measured.log_weights.len() < 2 * LAST {
            measured = Measured::new(target, &gaussian, random, self.next_look(), LAST)?;
        }
        self.noise = measured.noise;
        Ok((gaussian, measured))
    }

    /// Chooses batch and pace for the next stretch, or says why there is none.
    ///
    /// An estimate that rises clearly means steps too long for this target: back to the best, with steps a quarter as
    /// long. One that does not fall although noise does not explain it means steps too short: they become four times as
    /// long.
    pub(super) fn judge(
        &mut self,
        gaussian: &Gaussian,
        gap: Estimate,
        batch: Option<usize>,
    ) -> Result<(), String> {
        let Estimate { value, standard_error } = gap;
        let low = value - 2.0 * standard_error;
        let floor = self.noise / self.moving.seen().max(1.0);
        match &self.best {
            Some((best, at)) if low > 2.0 * (at.value + 2.0 * at.standard_error).max(0.0) + 4.0 * floor => {
                self.restarts += 1;
                if self.restarts > RESTARTS {
                    return Err(
                        "the estimate of the gap keeps rising: no Gaussian fits this target, or its gradients are too \
                            noisy"
                            .into(),
                    );
                }
                self.moving.go_to(best);
                self.moving.scale_seen(4.0);
            }
            Some((_, at)) if low > 0.5 * at.value && value > 8.0 * floor => {
                self.moving.scale_seen(0.25);
                self.best = Some((gaussian.clone(), gap));
            }
            Some((_, at)) if value > at.value => {}
            _ => self.best = Some((gaussian.clone(), gap)),
        }
        // as many pairs as leave a step eight times noisier than its signal, and no more than an eighth of those taken
        let signal = (2.0 * value).max(2.0 * standard_error);
        let wanted = (self.noise / (8.0 * signal)).clamp(1.0, MOST as f64) as usize;
        let allowed = (self.taken as usize / 8).max(FEWEST);
        let grown = || self.pairs.max(wanted.min(allowed).min(MOST).next_power_of_two());
        self.pairs = batch.map_or_else(grown, pairs_of);
        self.moving.restart_average();
        self.next = 2 * self.taken;
        Ok(())
    }
}
