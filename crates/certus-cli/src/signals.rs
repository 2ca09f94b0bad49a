//! How a run is stopped from outside: signals, `--max-time`, and a thread that ends the process where a step takes too
//! long to stop by itself.
//!
//! A stop is asked for by the first SIGINT, SIGTERM or SIGHUP, or by the clock. Then
//!
//! 1. at once: reading stops at the next batch of rows after a signal, and a run after its current step, which
//!    certifies what it found;
//! 2. after [`PATIENCE`]: [`Signals::flag`] is set, and every pass over rows ends at its next leaf (`Error::Stopped`);
//! 3. after [`LAST`]: the process ends where it is, with what was left to say and to write by [`Signals::on_end`].
//!
//! Whoever writes files or results does so inside of [`Signals::writing`], which the end waits for. Clocks stop a run
//! and never steer it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, mpsc};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::exit::{Code, Failure, print_json};
use crate::terminal::say;

/// A run that is told to stop has this long to end its step and to certify what it found.
const PATIENCE: Duration = Duration::from_millis(600);
/// Optional work is abandoned this long after the time limit.
const GIVE_UP: Duration = Duration::from_millis(800);
/// The process ends after this long: the promise is 2 s, with the files that are written at the end and the gigabytes
/// that are given back, which takes a second where the machine is short of memory.
const LAST: Duration = Duration::from_millis(900);
/// How long abandoned work may take to end at its next leaf.
const FREED: Duration = Duration::from_millis(300);
/// How often signals and the clock are checked.
const LOOK: Duration = Duration::from_millis(20);
/// How long the last message may take to be written: its reader may have stopped.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// What is printed when a run was stopped.
pub struct FinalWords {
    /// On stderr.
    pub message: String,
    /// On stdout, if there is anything.
    pub record: Option<String>,
}

impl FinalWords {
    /// Nothing but a message.
    pub fn saying(message: String) -> Self {
        Self { message, record: None }
    }
}

/// What stopped a run.
pub struct Reason {
    /// The exit code.
    pub code: Code,
    /// "stopped by SIGTERM".
    pub words: String,
    /// What the run was doing: "reading the data".
    pub doing: String,
}

/// Writes what there is when a run is stopped before it has a result, and says so.
type OnEnd = Box<dyn FnMut(&Reason) -> FinalWords + Send>;

struct Work {
    doing: String,
    on_end: OnEnd,
}

struct Shared {
    /// The code of the first signal, 0 before it.
    signal: Arc<AtomicUsize>,
    began: Instant,
    limit: Option<Duration>,
    flag: Arc<AtomicBool>,
    /// True once there is nothing left to stop.
    over: AtomicBool,
    /// Read by those that write files, written by the end of the process.
    files: RwLock<()>,
    work: Mutex<Work>,
}

/// The signals and the clock of one command.
pub struct Signals {
    shared: Arc<Shared>,
}

impl Signals {
    /// Listens for signals from now on. The first one tells the run to stop, the second one ends the process
    /// immediately.
    pub fn listen() -> Result<Self, Failure> {
        Self::with_limit(None, Instant::now(), true)
    }

    /// The same with the limit of time of a command that began at `began`. A process that does not `act` only takes
    /// note of signals: rank 0 says when all stop.
    pub fn with_limit(limit: Option<Duration>, began: Instant, act: bool) -> Result<Self, Failure> {
        let (signal, again) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        for (number, code) in heard() {
            signal_hook::flag::register_conditional_shutdown(number, code as i32, again.clone())
                .and_then(|_| signal_hook::flag::register(number, again.clone()))
                .and_then(|_| signal_hook::flag::register_usize(number, signal.clone(), code as usize))
                .map_err(|e| Failure::new(Code::Bug, format!("cannot listen for signals: {e}")))?;
        }
        let nothing = |reason: &Reason| {
            FinalWords::saying(format!("{} while {}; nothing was written", reason.words, reason.doing))
        };
        let work = Work { doing: "starting".into(), on_end: Box::new(nothing) };
        let shared = Arc::new(Shared {
            signal,
            began,
            limit,
            flag: Arc::default(),
            over: AtomicBool::new(false),
            files: RwLock::new(()),
            work: Mutex::new(work),
        });
        if act {
            let watched = shared.clone();
            std::thread::Builder::new()
                .name("signals".into())
                .spawn(move || watched.watch())
                .map_err(|e| Failure::new(Code::Bug, format!("cannot start a thread: {e}")))?;
        }
        Ok(Self { shared })
    }

    /// The exit code, if a signal came.
    pub fn seen(&self) -> Option<Code> {
        self.shared.seen()
    }

    /// The exit code, if a signal came or the time is over.
    pub fn asked(&self) -> Option<Code> {
        self.seen().or_else(|| self.shared.late().then_some(Code::Limit))
    }

    /// "stopped by SIGTERM", if a signal came or the time is over.
    pub fn stopped_by(&self) -> Option<String> {
        self.asked().map(|code| self.shared.reason(code).words)
    }

    /// What is left of the time.
    pub fn time_left(&self) -> Option<Duration> {
        self.shared.limit.map(|limit| limit.saturating_sub(self.shared.began.elapsed()))
    }

    /// True when passes over rows must end, see the head of this file.
    pub fn flag(&self) -> &Arc<AtomicBool> {
        &self.shared.flag
    }

    /// True once the flag is set.
    pub fn must_end(&self) -> bool {
        self.shared.flag.load(Ordering::Relaxed)
    }

    /// What the run is doing now: "reading the data".
    pub fn doing(&self, what: &str) {
        self.shared.work().doing = what.into();
    }

    /// What is to be written and said if the run is stopped from now on without a result.
    pub fn on_end(&self, on_end: impl FnMut(&Reason) -> FinalWords + Send + 'static) {
        self.shared.work().on_end = Box::new(on_end);
    }

    /// While this is held the process does not end: for files, and for results on stdout.
    pub fn writing(&self) -> RwLockReadGuard<'_, ()> {
        self.shared.files.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes and prints the result; from here on there is nothing left to stop.
    pub fn finish<T>(&self, write: impl FnOnce() -> T) -> T {
        let _writing = self.writing();
        self.shared.over.store(true, Ordering::Relaxed);
        write()
    }

    /// Ends a run that was stopped before it had a result.
    pub fn end(&self) -> Failure {
        self.finish(|| {
            let reason = self.shared.reason(self.asked().unwrap_or(Code::Interrupted));
            let parting = (self.shared.work().on_end)(&reason);
            match parting.record.as_deref().map(print_json) {
                Some(Err(failure)) => failure,
                _ => Failure::new(reason.code, parting.message),
            }
        })
    }

    /// Does optional work on a thread of its own, and abandons it: at once after a signal, and if it does not end soon
    /// after the time is over. Meanwhile it looks around.
    pub fn unless_stopped<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        mut look: impl FnMut(),
    ) -> Option<T> {
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || drop(send.send(work())));
        let mut since = None;
        loop {
            look();
            match receive.recv_timeout(LOOK) {
                Ok(done) => return Some(done),
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    panic!("the thread that did the work panicked")
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            let late = self.shared.late() && since.get_or_insert_with(Instant::now).elapsed() >= GIVE_UP;
            if late || self.seen().is_some() {
                // whoever goes on needs the threads that it keeps busy, and then passes over rows of its own
                self.shared.flag.store(true, Ordering::Relaxed);
                let goes_on = matches!(receive.recv_timeout(FREED), Err(mpsc::RecvTimeoutError::Timeout));
                self.shared.flag.store(goes_on, Ordering::Relaxed);
                return None;
            }
        }
    }
}

impl Drop for Signals {
    /// The run has ended; if the process is being ended already, it does not come back from here.
    fn drop(&mut self) {
        let _writing = self.writing();
        self.shared.over.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn seen(&self) -> Option<Code> {
        match self.signal.load(Ordering::Relaxed) {
            0 => None,
            code => Some(Code::by_number(code as u8)),
        }
    }

    fn late(&self) -> bool {
        self.limit.is_some_and(|limit| self.began.elapsed() >= limit)
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reason(&self, code: Code) -> Reason {
        let words = match code {
            Code::Limit => format!("stopped by --max-time {:?}", self.limit.unwrap_or_default()),
            Code::Terminated => "stopped by SIGTERM".into(),
            Code::HungUp => "stopped by SIGHUP".into(),
            _ => "stopped by Ctrl-C".into(),
        };
        Reason { code, words, doing: self.work().doing.clone() }
    }

    /// Steps 2 and 3 of the head of this file.
    fn watch(&self) {
        let mut asked: Option<(Code, Instant)> = None;
        while !self.over.load(Ordering::Relaxed) {
            if asked.is_none() {
                let code = self.seen().or_else(|| self.late().then_some(Code::Limit));
                asked = code.map(|code| (code, Instant::now()));
            }
            if let Some((code, since)) = asked {
                if since.elapsed() >= PATIENCE {
                    self.flag.store(true, Ordering::Relaxed);
                }
                if since.elapsed() >= LAST {
                    return self.end_process(code);
                }
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Ends the process, unless the run ends by itself while its files are waited for.
    fn end_process(&self, code: Code) {
        let _files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        if self.over.load(Ordering::Relaxed) {
            return;
        }
        let reason = self.reason(code);
        let parting = (self.work().on_end)(&reason);
        let (send, receive) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            if let Some(record) = &parting.record {
                let _ = print_json(record);
            }
            say(&Failure::new(code, parting.message).to_string());
            drop(send);
        });
        let _ = receive.recv_timeout(LAST_WORDS);
        std::process::exit(code as i32);
    }
}

/// A file that would grow beyond the limit of this process (`ulimit -f`) is an error of its write, as on a full disk,
/// and not the silent end of the process.
pub fn survive_limits() {
    #[cfg(unix)]
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

/// The signals that stop a run, and the codes to end with.
fn heard() -> Vec<(i32, Code)> {
    let mut all = vec![(SIGINT, Code::Interrupted), (SIGTERM, Code::Terminated)];
    #[cfg(unix)]
    if !ignored(signal_hook::consts::SIGHUP) {
        all.push((signal_hook::consts::SIGHUP, Code::HungUp));
    }
    all
}

/// True if this process was started with a signal ignored, as by `nohup`, or if that cannot be known (it can on Linux).
#[cfg(unix)]
fn ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    mask.is_none_or(|mask| mask >> (signal - 1) & 1 == 1)
}
