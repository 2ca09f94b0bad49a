//! Ranks that talk over MPI, with a limit to every wait: who is silent for longer ends the job.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mpi::collective::Root;
use mpi::environment::Universe;
use mpi::point_to_point::{Destination, Source};
use mpi::request::{Request, Scope};
use mpi::topology::{Communicator, SimpleCommunicator};
use mpi::{Tag, Threading};

use crate::transport::Transport;

/// Marks the last message of a rank.
const FAREWELL: Tag = 0x7fff + 1;
/// A process that waits yields its core this long before it begins to sleep: as long as an iteration where it has a
/// core of its own (a core that sleeps is given to others, and comes back late), not long where ranks outnumber the
/// cores.
const EAGER: [Duration; 2] = [Duration::from_millis(250), Duration::from_millis(2)];
/// The longest sleep between two looks at a message.
const NAP: Duration = Duration::from_millis(1);
/// How much longer every further rank waits before it speaks, so that mostly one does.
const STAGGER: Duration = Duration::from_millis(300);

/// What to do when a wait was too long: told whom it was for (`None` for a message to all) and how long it lasted. The
/// job is ended afterwards.
pub type Silence = Box<dyn Fn(Option<usize>, Duration) + Send + Sync>;

/// This process among the ranks of `mpirun`.
pub struct Mpi {
    rank: usize,
    count: usize,
    limit: Duration,
    silence: Silence,
    code: u8,
    eager: Duration,
    over: AtomicBool,
    // finalised when it is dropped
    universe: std::sync::Mutex<Option<Universe>>,
}

impl std::fmt::Debug for Mpi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {} of {} over MPI", self.rank, self.count)
    }
}

/// The processes of this host, as the launcher says.
pub fn local_count() -> usize {
    std::env::var("OMPI_COMM_WORLD_LOCAL_SIZE").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

impl Mpi {
    /// Joins the ranks; call it once, before any thread is started. `None` if MPI does not let several threads take
    /// turns.
    ///
    /// Waits longer than `limit` end the job with `code` after `silence` was called.
    pub fn start(limit: Duration, code: u8, silence: Silence) -> Option<Self> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let crowded = local_count() > cores;
        if crowded && std::env::var_os("OMPI_MCA_mpi_yield_when_idle").is_none() {
            // SAFETY: no other thread exists yet that could read the environment.
            #[allow(unsafe_code)]
            unsafe {
                std::env::set_var("OMPI_MCA_mpi_yield_when_idle", "1");
            }
        }
        let (universe, threading) = mpi::initialize_with_threading(Threading::Serialized)?;
        if threading < Threading::Serialized {
            return None;
        }
        let world = universe.world();
        Some(Self {
            rank: world.rank() as usize,
            count: world.size() as usize,
            limit: limit + STAGGER * (world.rank() as u32).min(10),
            silence,
            code,
            eager: EAGER[usize::from(crowded)],
            over: AtomicBool::new(false),
            universe: std::sync::Mutex::new(Some(universe)),
        })
    }

    /// Ends all ranks on the spot.
    pub fn abort(&self, code: u8) -> ! {
        SimpleCommunicator::world().abort(i32::from(code))
    }

    /// The last call: waits until every rank is here. If one is not within `limit`, calls `late` and ends all ranks
    /// with `code`.
    pub fn farewell(&self, limit: Duration, code: u8, late: &dyn Fn()) {
        let world = SimpleCommunicator::world();
        let pass = |from: usize, to: usize| {
            let (mut word, said) = ([0.0_f64], [1.0_f64]);
            mpi::request::scope(|scope| {
                if self.rank == to {
                    let peer = world.process_at_rank(from as i32);
                    let request = peer.immediate_receive_into_with_tag(scope, &mut word[..], FAREWELL);
                    finish(request, self.eager, limit, code, late);
                } else {
                    let peer = world.process_at_rank(to as i32);
                    let request = peer.immediate_send_with_tag(scope, &said[..], FAREWELL);
                    finish(request, self.eager, limit, code, late);
                }
            });
        };
        let others = || (1..self.count).filter(|r| self.rank == 0 || *r == self.rank);
        others().for_each(|r| pass(r, 0));
        others().for_each(|r| pass(0, r));
        self.over.store(true, Ordering::Relaxed);
        // MPI_Finalize, while nobody else is in MPI
        self.universe.lock().expect("no thread panics while it holds the lock").take();
    }

    fn wait<'a, D: ?Sized, S: Scope<'a>>(&self, request: Request<'a, D, S>, peer: Option<usize>) {
        finish(request, self.eager, self.limit, self.code, &|| (self.silence)(peer, self.limit));
    }
}

/// Waits for a message, for the first `eager` of it without sleep. If it does not come within the limit, calls `late`
/// and ends all ranks with `code`.
fn finish<'a, D: ?Sized, S: Scope<'a>>(
    mut request: Request<'a, D, S>,
    eager: Duration,
    limit: Duration,
    code: u8,
    late: &dyn Fn(),
) {
    let (began, mut nap) = (Instant::now(), Duration::from_micros(20));
    loop {
        request = match request.test() {
            Ok(_) => return,
            Err(pending) => pending,
        };
        let waited = began.elapsed();
        if waited > limit {
            late();
            SimpleCommunicator::world().abort(i32::from(code));
        }
        if waited < eager {
            std::thread::yield_now();
        } else {
            std::thread::sleep(nap);
            nap = (2 * nap).min(NAP);
        }
    }
}

impl Drop for Mpi {
    /// Without a farewell the others may be anywhere, and `MPI_Finalize` would wait for them.
    fn drop(&mut self) {
        if !self.over.load(Ordering::Relaxed) {
            std::mem::forget(self.universe.get_mut().map(Option::take));
        }
    }
}

impl Transport for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn count(&self) -> usize {
        self.count
    }

    fn send(&self, to: usize, numbers: &[f64], tag: u16) {
        mpi::request::scope(|scope| {
            let peer = SimpleCommunicator::world();
            let peer = peer.process_at_rank(to as i32);
            self.wait(peer.immediate_send_with_tag(scope, numbers, Tag::from(tag)), Some(to));
        });
    }

    fn receive(&self, from: usize, numbers: &mut [f64], tag: u16) {
        mpi::request::scope(|scope| {
            let peer = SimpleCommunicator::world();
            let peer = peer.process_at_rank(from as i32);
            self.wait(peer.immediate_receive_into_with_tag(scope, numbers, Tag::from(tag)), Some(from));
        });
    }

    fn broadcast(&self, from: usize, numbers: &mut [f64]) {
        mpi::request::scope(|scope| {
            let root = SimpleCommunicator::world();
            let root = root.process_at_rank(from as i32);
            let whom = (from != self.rank).then_some(from);
            self.wait(root.immediate_broadcast_into(scope, numbers), whom);
        });
    }
}
