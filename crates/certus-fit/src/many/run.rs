//! The run over chunks: as many rows at a time as memory allows, a group per thread, a chunk handed over when its last
//! group is done.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use certus::Goal;

use super::{Chunks, Gathered, GroupFit, Many};
use crate::error::Error;
use crate::level::RequiredLevel;
use crate::method_choice::MethodChoice;
use crate::refusal::RequestError;
use certus_data::summary::mix;
use certus_data::table::Source;

/// Bytes of rows at a time. What does not fit is read in another pass.
const MEMORY: usize = 1 << 30;

/// Is told what happens, on the thread on which it happens.
pub trait ManyObserver: Sync {
    /// True to stop: finished chunks are kept, the others given up.
    fn stop(&self) -> bool;
    /// Another group is done.
    fn group(&self);
    /// A chunk is done: its fits in the order of its groups, and a hash of its data. False stops the run.
    fn chunk(&self, chunk: usize, fits: Vec<GroupFit>, data: u64) -> bool;
}

/// How every group is fitted.
pub struct ManySettings {
    /// The goal; the key of its random streams is the group's, and the clock stops nothing.
    pub goal: Goal,
    /// Exact, stochastic or planned.
    pub choice: MethodChoice,
    /// The level that counts as reached.
    pub level: Option<RequiredLevel>,
    /// Threads; all cores if `None`.
    pub threads: Option<usize>,
    /// Bytes of rows at a time; a gigabyte if `None`.
    pub memory: Option<usize>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManyStatus {
    /// Every requested chunk is done.
    Done,
    /// The watcher wanted it to stop.
    Stopped,
}

impl Many {
    /// Fits the groups of the chunks `todo`. `known` are the hashes of the data that finished chunks were made of: if
    /// the data have changed, nothing is fitted.
    pub fn run(
        &self,
        source: &dyn Source,
        chunks: &Chunks,
        todo: &[usize],
        known: &[(usize, u64)],
        how: &ManySettings,
        observer: &dyn ManyObserver,
    ) -> Result<ManyStatus, Error> {
        let how = ManySettings { goal: Goal { max_time: None, ..how.goal.clone() }, ..*how };
        let budget = how.memory.unwrap_or(MEMORY);
        let (mut rest, mut first) = (todo, true);
        while !rest.is_empty() {
            let now = self.fitting(chunks, rest, budget);
            let mut chosen = vec![false; self.keys.len()];
            rest[..now].iter().flat_map(|c| chunks.groups_of(*c)).for_each(|g| chosen[g] = true);
            let rows = self.gather(source, &|g| chosen[g])?;
            if std::mem::take(&mut first) {
                for &(chunk, hash) in known {
                    if data_of(&rows, chunks, chunk) != hash {
                        let first = self.keys.key(chunks.groups_of(chunk).start).label();
                        return Err(RequestError::ChunkChanged { chunk, first }.into());
                    }
                }
            }
            if self.round(&rows, chunks, &rest[..now], &how, observer)? == ManyStatus::Stopped {
                return Ok(ManyStatus::Stopped);
            }
            rest = &rest[now..];
        }
        Ok(ManyStatus::Done)
    }

    /// How many of the chunks fit into memory, at least one.
    fn fitting(&self, chunks: &Chunks, todo: &[usize], budget: usize) -> usize {
        let mut bytes = 0;
        let fits = |chunk: &&usize| {
            let rows: usize = chunks.groups_of(**chunk).map(|g| self.keys.rows(g)).sum();
            bytes += rows * self.row_bytes();
            bytes <= budget
        };
        todo.iter().take_while(fits).count().max(1)
    }

    /// The groups of these chunks, one per thread at a time.
    fn round(
        &self,
        rows: &Gathered<'_>,
        chunks: &Chunks,
        todo: &[usize],
        how: &ManySettings,
        observer: &dyn ManyObserver,
    ) -> Result<ManyStatus, Error> {
        let groups: Vec<(usize, usize)> =
            todo.iter().enumerate().flat_map(|(k, c)| chunks.groups_of(*c).map(move |g| (k, g))).collect();
        let open: Vec<Mutex<Vec<GroupFit>>> = todo.iter().map(|_| Mutex::default()).collect();
        let (next, stopped, failure) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(None));
        let stop = || stopped.load(Ordering::Relaxed) || observer.stop();
        let work = || {
            while !stop() {
                let Some(&(k, g)) = groups.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                let fit = match self.fit(rows, g, &how.goal, &how.choice, how.level, &stop) {
                    Ok(Some(fit)) => fit,
                    Ok(None) => break,
                    Err(error) => {
                        failure
                            .lock()
                            .expect("no thread panics while it holds the lock")
                            .get_or_insert(error);
                        break;
                    }
                };
                observer.group();
                let range = chunks.groups_of(todo[k]);
                let mut fits = {
                    let mut fits = open[k].lock().expect("no thread panics while it holds the lock");
                    fits.push(fit);
                    if fits.len() < range.len() {
                        continue;
                    }
                    std::mem::take(&mut *fits)
                };
                fits.sort_by_key(|fit| fit.group);
                if !observer.chunk(todo[k], fits, data_of(rows, chunks, todo[k])) {
                    break;
                }
            }
            stopped.store(true, Ordering::Relaxed);
        };
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = how.threads.unwrap_or_else(cores).clamp(1, groups.len().max(1));
        // a pool of one thread each: a small fit is done before others could help
        let started: Vec<Result<(), certus::Error>> = std::thread::scope(|scope| {
            let one = || certus::parallel::install(Some(1), work);
            let all: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
            let join = |t: std::thread::ScopedJoinHandle<'_, _>| {
                t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            all.into_iter().map(join).collect()
        });
        if let Some(error) = failure.into_inner().expect("no thread panics while it holds the lock") {
            return Err(error);
        }
        started.into_iter().collect::<Result<(), _>>().map_err(certus_models::Error::Core)?;
        Ok(if stopped.into_inner() { ManyStatus::Stopped } else { ManyStatus::Done })
    }
}

/// The hash of a chunk's data.
fn data_of(rows: &Gathered<'_>, chunks: &Chunks, chunk: usize) -> u64 {
    chunks.groups_of(chunk).fold(0, |hash, g| mix(hash, rows.hash(g)))
}
