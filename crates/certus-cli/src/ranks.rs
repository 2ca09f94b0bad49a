//! This process among others: alone, or one rank of a run under `mpirun`. Rank 0 talks, writes and says when to stop;
//! what it says all do.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use certus_fit::heartbeat::{self, Heartbeat};
use certus_models::Ranks;

use crate::exit::{Code, Failure};
use crate::mpi::MpiRank;
use crate::terminal::say;

/// How long a rank waits for another before it ends the run, unless the environment says otherwise.
const LIMIT: Duration = Duration::from_secs(600);
/// Where the environment says so.
const LIMIT_VARIABLE: &str = "CERTUS_RANK_TIMEOUT";
/// If this is set, every rank says at the end how many numbers it sent.
const COUNT_VARIABLE: &str = "CERTUS_RANK_COUNT";
/// A rank that failed waits this long for the others to fail in the same way.
const GRACE: Duration = Duration::from_secs(5);
/// The same where rank 0 was told to stop: it has to end within 2 s.
const STOP_GRACE: Duration = Duration::from_millis(300);
/// Iterates are compared at the powers of two and at multiples of this.
const COMPARED: u64 = 64;

/// All processes of this run, as one of them sees them.
pub struct Communicator {
    mpi_rank: Option<MpiRank>,
    ranks: Option<Arc<dyn Ranks>>,
    /// The directory of heartbeats, once there is one.
    directory: Arc<Mutex<Option<PathBuf>>>,
    heartbeat: Mutex<Option<Heartbeat>>,
    limit: Duration,
}

/// How many processes a launcher started together, and how that is known.
pub fn launched() -> Option<(usize, &'static str)> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok();
    let direct =
        ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"].into_iter().find_map(|name| Some((number(name)?, name)));
    // srun with PMIx does not say it otherwise
    let slurm =
        || number("PMIX_RANK").and(number("SLURM_STEP_NUM_TASKS")).map(|n| (n, "SLURM_STEP_NUM_TASKS"));
    direct.or_else(slurm)
}

/// True for the one of several processes that speaks before they have met.
pub fn speaks() -> bool {
    let ranks = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];
    ranks.iter().find_map(|name| std::env::var(name).ok()).is_none_or(|rank| rank == "0")
}

impl Communicator {
    /// Joins the others, if this process was started with any. `single` names a command that one process runs alone.
    pub fn join(single: Option<&str>) -> Result<Self, Failure> {
        let directory: Arc<Mutex<Option<PathBuf>>> = Arc::default();
        let mut communicator =
            Self { mpi_rank: None, ranks: None, directory, limit: LIMIT, heartbeat: Mutex::new(None) };
        let Some((count, variable)) = launched() else { return Ok(communicator) };
        if let Some(command) = single.filter(|_| count > 1) {
            return Err(Failure::new(
                Code::Usage,
                format!(
                    "`certus {command}` runs in one process, but {count} were started: leave mpirun out{}",
                    if command == "fit-many" { " and give each process its --part K/P" } else { "" }
                ),
            ));
        }
        if let Ok(text) = std::env::var(LIMIT_VARIABLE) {
            communicator.limit = certus_fit::duration(LIMIT_VARIABLE, &text)?;
        }
        let heard = communicator.directory.clone();
        let silence = move |peer: Option<usize>, waited: Duration| {
            let directory = heard.lock().ok().and_then(|directory| directory.clone());
            lost(directory.as_deref(), count, peer, waited);
        };
        communicator.mpi_rank = MpiRank::open(count, variable, communicator.limit, Box::new(silence))?;
        communicator.ranks = communicator.mpi_rank.as_ref().map(MpiRank::ranks);
        communicator.same(0, build().as_bytes(), "builds or processors");
        Ok(communicator)
    }

    /// True for the one process that talks and writes.
    pub fn leads(&self) -> bool {
        self.rank() == 0
    }

    fn rank(&self) -> usize {
        self.ranks.as_ref().map_or(0, |ranks| ranks.rank())
    }

    /// The others, for sums over rows.
    pub fn ranks(&self) -> Option<Arc<dyn Ranks>> {
        self.ranks.clone()
    }

    /// Threads of this process unless the user says: the cores, shared with the other ranks of this host.
    pub fn threads(&self) -> Option<usize> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.mpi_rank.as_ref().map(|mpi_rank| (cores / mpi_rank.neighbours()).max(1))
    }

    /// What rank 0 says, on every rank.
    pub fn decide(&self, word: u64) -> u64 {
        self.ranks.as_ref().map_or(word, |ranks| ranks.decide(word))
    }

    /// Work that only rank 0 does; if it fails there, it has failed everywhere.
    pub fn first<T>(&self, work: impl FnOnce() -> Result<T, Failure>) -> Result<Option<T>, Failure> {
        let Some(ranks) = &self.ranks else { return work().map(Some) };
        let done = self.leads().then(work).transpose();
        let code = done.as_ref().map_or_else(|failure| failure.code as u64, |_| 0);
        match ranks.decide(code) {
            0 => done,
            code => {
                Err(done.err().unwrap_or_else(|| Failure::new(Code::by_number(code as u8), "rank 0 failed")))
            }
        }
    }

    /// What rank 0 has, on every rank.
    pub fn share(&self, bytes: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let Some(ranks) = &self.ranks else { return bytes };
        let there = ranks.decide(u64::from(bytes.is_some())) == 1;
        there.then(|| ranks.broadcast(0, bytes.unwrap_or_default()))
    }

    /// Ends the run if the bytes of iteration `iteration` are not those of rank 0.
    fn same(&self, iteration: u64, bytes: &[u8], what: &str) {
        let Some(ranks) = &self.ranks else { return };
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let own = hasher.finish();
        if ranks.decide(own) != own {
            let place = if iteration > 0 { format!(" after iteration {iteration}") } else { String::new() };
            say(&format!(
                "certus: rank {} and rank 0 do not agree{place}: they have different {what}, so their results would \
                    differ; start all ranks from the same build on the same kind of processor",
                ranks.rank()
            ));
            if let Some(mpi_rank) = &self.mpi_rank {
                mpi_rank.abort(Code::Lost);
            }
        }
    }

    /// Compares the iterate now and then; `save` makes its bytes.
    pub fn compare(&self, iteration: u64, save: &dyn Fn() -> Vec<u8>) {
        if self.ranks.is_some() && (iteration.is_power_of_two() || iteration.is_multiple_of(COMPARED)) {
            self.same(iteration, &save(), "iterates");
        }
    }

    /// Says in `directory` that this rank is alive, until it leaves; nothing for a process alone.
    pub fn beat(&self, directory: Option<&Path>) {
        let (Some(directory), Some(_)) = (directory, &self.ranks) else { return };
        if self.leads() {
            heartbeat::clear_heartbeats(directory);
        }
        self.decide(0);
        *self.heartbeat.lock().expect("no thread panics while it holds the lock") =
            Some(Heartbeat::start(directory, self.rank()));
        *self.directory.lock().expect("no thread panics while it holds the lock") =
            Some(directory.to_path_buf());
    }

    /// The end of this process: waits for the others, so that none is cut off, and gives the code to end with. A rank
    /// that failed alone takes the others down.
    pub fn leave(&self, ended: &Result<Code, Failure>) -> Code {
        let code = ended.as_ref().map_or_else(|failure| failure.code, |code| *code);
        drop(self.heartbeat.lock().expect("no thread panics while it holds the lock").take());
        let Some(mpi_rank) = &self.mpi_rank else { return code };
        if std::env::var_os(COUNT_VARIABLE).is_some() {
            say(&format!("rank {}: {} numbers", self.rank(), mpi_rank.numbers_sent()));
        }
        match ended {
            Err(failure) => mpi_rank.farewell(if code.is_stop() { STOP_GRACE } else { GRACE }, code, &|| {
                if !self.leads() {
                    say(&format!("certus: rank {}: {}", self.rank(), failure.message));
                }
            }),
            Ok(_) => mpi_rank.farewell(self.limit, Code::Lost, &|| {
                say(&format!(
                    "certus: rank {} has finished, but another rank has not finished within {:?}",
                    self.rank(),
                    self.limit
                ));
            }),
        }
        // the launcher passes on the first code that is not 0: that of rank 0
        if self.leads() { code } else { Code::Reached }
    }
}

/// What the arithmetic depends on.
fn build() -> String {
    #[cfg(target_arch = "x86_64")]
    let features = [
        std::arch::is_x86_feature_detected!("avx2"),
        std::arch::is_x86_feature_detected!("fma"),
        std::arch::is_x86_feature_detected!("avx512f"),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let features = [false; 3];
    format!("{} {} {features:?}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH)
}

/// Names the rank that does not answer: by its heartbeat if there is one, else the one that was waited for.
fn lost(directory: Option<&Path>, count: usize, peer: Option<usize>, waited: Duration) {
    let seconds = |time: Duration| format!("{:.0} s", time.as_secs_f64());
    let silent = directory.map(|directory| heartbeat::silent(directory, count)).unwrap_or_default();
    let names: Vec<String> = silent
        .iter()
        .map(|(rank, since)| format!("rank {rank} (no heartbeat for {})", seconds(*since)))
        .collect();
    let who = match (names.is_empty(), peer) {
        (false, _) => names.join(", "),
        (true, Some(peer)) => format!("rank {peer}, or one that it waits for,"),
        (true, None) => "another rank".into(),
    };
    say(&format!(
        "certus: {who} did not answer within {} ({LIMIT_VARIABLE}): the run ends here; `certus resume` continues from \
            the last checkpoint",
        seconds(waited)
    ));
}
