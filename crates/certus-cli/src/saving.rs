//! The states of a run that are saved: on the disk every so often, and in memory between two slow steps, for a run that
//! must end within one.

use std::time::{Duration, Instant};

use certus_fit::{Checkpoints, Error, Timer};

/// A state is kept in memory no more often than this.
const OFTEN: Duration = Duration::from_millis(250);
/// And no more often than so many times the time it takes.
const SHARE: u32 = 20;
/// Bytes of a state that are kept: more could not be written in the time that is left at the end.
const MOST: usize = 64 << 20;

/// What is saved of a run. Clocks decide when a state is saved, never what is in it.
pub struct Saving {
    checkpoints: Checkpoints,
    timer: Timer,
    /// A state newer than the newest checkpoint, and the iterations it had.
    kept: Option<(u64, Vec<u8>)>,
    /// When a state may be kept again; never if it is too large.
    next: Option<Instant>,
    /// Iterations of the newest checkpoint of this run.
    saved: Option<u64>,
    /// Iterations taken.
    taken: u64,
}

impl Saving {
    /// A checkpoint every `every`.
    pub fn new(checkpoints: Checkpoints, every: Duration) -> Self {
        let next = Some(Instant::now());
        Self { checkpoints, timer: Timer::new(every), kept: None, next, saved: None, taken: 0 }
    }

    /// After a step: a checkpoint if one is due or the run is to `stop`.
    pub fn step(&mut self, iteration: u64, stop: bool, save: &dyn Fn() -> Vec<u8>) -> Result<(), Error> {
        self.taken = iteration;
        let began = Instant::now();
        if stop || self.timer.due() {
            let state = save();
            let written = self.checkpoints.write(&state);
            self.timer.reset();
            if let Err(error) = written {
                // tried again at the end: the disk may have room by then
                self.kept = (state.len() <= MOST).then_some((iteration, state));
                return Err(error);
            }
            (self.kept, self.saved) = (None, Some(iteration));
        } else if self.next.is_some_and(|next| began >= next) {
            let state = save();
            self.next = (state.len() <= MOST).then(|| began + OFTEN.max(SHARE * began.elapsed()));
            self.kept = self.next.map(|_| (iteration, state));
        }
        Ok(())
    }

    /// Writes the state that is newer than the newest checkpoint, if there is one.
    pub fn write_kept(&mut self) -> Result<(), Error> {
        let Some((iteration, state)) = self.kept.take() else { return Ok(()) };
        self.checkpoints.write(&state)?;
        self.saved = Some(iteration);
        Ok(())
    }

    /// Iterations taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Iterations of the state that a resumed run would start from, if this run has saved one.
    pub fn saved(&self) -> Option<u64> {
        self.saved
    }
}
