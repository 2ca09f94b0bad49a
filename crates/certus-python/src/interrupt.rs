//! While Rust works: Ctrl-C is noticed, progress is shown, and the interpreter is free for others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use certus_fit::RunProgress;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

/// Signals are checked this often, and progress is shown no more often.
const LOOK: Duration = Duration::from_millis(50);
/// After Ctrl-C, or when its time is over, work has this long to end its step and to certify what it found.
pub(crate) const PATIENCE: Duration = Duration::from_millis(800);
/// After this long it is not waited for: the promise is 2 s.
const LAST: Duration = Duration::from_millis(1500);

/// The user's `progress(seconds, iteration, gradients, bound)`, which gets a line of words instead of the bound if it
/// `wants_words`.
pub(crate) struct ProgressCallback {
    show: Option<Py<PyAny>>,
    wants_words: bool,
    /// The gap to be reached.
    goal: f64,
    last: Instant,
}

impl ProgressCallback {
    pub(crate) fn none() -> Self {
        Self { show: None, wants_words: false, goal: f64::NAN, last: Instant::now() }
    }

    pub(crate) fn new(py: Python<'_>, show: Option<Py<PyAny>>, goal: f64) -> Self {
        let asked = |show: &Py<PyAny>| show.getattr(py, "wants_words")?.extract::<bool>(py);
        let wants_words = show.as_ref().is_some_and(|show| asked(show).unwrap_or(false));
        Self { show, wants_words, goal, last: Instant::now() }
    }

    /// Looks at signals, and shows where the run is if it is time.
    pub(crate) fn look(&mut self, py: Python<'_>, progress: Option<&RunProgress>) -> PyResult<()> {
        py.check_signals()?;
        let (Some(show), Some(progress)) = (&self.show, progress) else { return Ok(()) };
        if self.last.elapsed() >= LOOK {
            self.last = Instant::now();
            let point = &progress.point;
            let (seconds, iteration, gradients) =
                (point.elapsed.as_secs_f64(), point.iteration, point.gradients);
            if self.wants_words {
                show.call1(py, (seconds, iteration, gradients, progress.words(self.goal)))?;
            } else {
                show.call1(py, (seconds, iteration, gradients, point.bound))?;
            }
        }
        Ok(())
    }
}

/// What the thread that works and the one that waits for it share.
#[derive(Default)]
pub(crate) struct Shared {
    /// Set when the work should end after its current step.
    pub(crate) stop: AtomicBool,
    /// Where the work is.
    pub(crate) progress: Mutex<Option<RunProgress>>,
}

impl Shared {
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn show(&self, now: Option<RunProgress>) {
        if let Ok(mut progress) = self.progress.lock() {
            *progress = now;
        }
    }
}

/// How work ended.
pub(crate) struct WorkResult<T> {
    /// Its result; `None` if it could not be waited for.
    pub(crate) result: Option<T>,
    /// What stopped it, if anything did.
    pub(crate) stopped: Option<PyErr>,
    /// True if its time was over some time before it ended.
    pub(crate) late: bool,
}

/// Runs `work` on another thread without the interpreter, while this one checks signals, the clock and the last point
/// that `work` left. When a stop is requested, the work has [`PATIENCE`] to end its step; then `end_now` is called,
/// which should make it end within a step; after [`LAST`] it is not waited for any more.
///
/// Python handles signals on its main thread only, and pools of Rust are other threads: so one thread has to wait here.
pub(crate) fn run_interruptibly<T: Send + 'static>(
    py: Python<'_>,
    mut display: ProgressCallback,
    limit: Option<Duration>,
    end_now: &(dyn Fn(&Shared) + Sync),
    work: impl FnOnce(&Shared) -> T + Send + 'static,
) -> WorkResult<T> {
    let shared = Arc::new(Shared::default());
    py.detach(|| {
        let (send, receive) = mpsc::channel();
        let theirs = shared.clone();
        let worker = std::thread::spawn(move || drop(send.send(work(&theirs))));
        let (began, mut asked, mut stopped, mut late) = (Instant::now(), None, None, false);
        loop {
            match receive.recv_timeout(LOOK) {
                Ok(result) => return WorkResult { result: Some(result), stopped, late },
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => match worker.join() {
                    Err(panic) => std::panic::resume_unwind(panic),
                    Ok(()) => return WorkResult { result: None, stopped, late },
                },
            }
            if stopped.is_none() {
                let now = shared.progress.lock().ok().and_then(|now| now.clone());
                if let Err(error) = Python::attach(|py| display.look(py, now.as_ref())) {
                    shared.stop.store(true, Ordering::Relaxed);
                    asked.get_or_insert_with(Instant::now);
                    stopped = Some(error);
                }
            }
            if limit.is_some_and(|limit| began.elapsed() >= limit) {
                asked.get_or_insert_with(Instant::now);
            }
            let Some(since) = asked.map(|asked: Instant| asked.elapsed()) else { continue };
            if since >= PATIENCE {
                late = stopped.is_none();
                end_now(&shared);
            }
            if since >= LAST {
                return WorkResult { result: None, stopped, late };
            }
        }
    })
}

/// Cancels the passes over the rows of one model. Several fits may use the model at once, and one may still be ending
/// when the next begins.
#[derive(Default)]
pub(crate) struct Cancellation {
    flag: Arc<AtomicBool>,
    users: Mutex<usize>,
    left: Condvar,
}

/// A piece of work that a [`Cancellation`] can end.
pub(crate) struct Work<'a>(&'a Cancellation);

impl Cancellation {
    /// For the rows.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        self.flag.clone()
    }

    /// Begins a piece of work, after whatever is being ended has ended.
    pub(crate) fn begin(&self) -> Work<'_> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        while self.is_set() {
            users = self.left.wait(users).unwrap_or_else(PoisonError::into_inner);
        }
        *users += 1;
        Work(self)
    }

    pub(crate) fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// Ends the work at its next leaf of rows, if it is the only one on this model: the others must not end with it.
    pub(crate) fn set(&self) {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if *users == 1 {
            self.flag.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        let mut users = self.0.users.lock().unwrap_or_else(PoisonError::into_inner);
        *users -= 1;
        if *users == 0 {
            self.0.flag.store(false, Ordering::Relaxed);
        }
        self.0.left.notify_all();
    }
}

/// True for Ctrl-C, after which a fit is returned with what it has.
pub(crate) fn interrupt(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyKeyboardInterrupt>(py)
}
