//! While Rust works: Ctrl-C is noticed, progress is shown, and the interpreter is free for others.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use certus::auto::TracePoint;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

/// Signals are looked at this often, and progress is shown no more often.
const LOOK: Duration = Duration::from_millis(50);

/// Shows where a run is: `progress(seconds, iteration, gradients, bound)`, with the gap in words instead of a number if `wants_words`.
pub(crate) struct Progress {
    show: Option<Py<PyAny>>,
    wants_words: bool,
    last: Instant,
}

impl Progress {
    pub(crate) fn new(py: Python<'_>, show: Option<Py<PyAny>>) -> Self {
        let asked = |show: &Py<PyAny>| show.getattr(py, "wants_words")?.extract::<bool>(py);
        let wants_words = show.as_ref().is_some_and(|show| asked(show).unwrap_or(false));
        Self { show, wants_words, last: Instant::now() }
    }

    /// Looks at signals, and shows the point if it is time.
    pub(crate) fn look(&mut self, py: Python<'_>, point: Option<&TracePoint>) -> PyResult<()> {
        py.check_signals()?;
        let (Some(show), Some(point)) = (&self.show, point) else { return Ok(()) };
        if self.last.elapsed() >= LOOK {
            self.last = Instant::now();
            let (seconds, iteration, gradients) =
                (point.elapsed.as_secs_f64(), point.iteration, point.gradients);
            if self.wants_words {
                show.call1(py, (seconds, iteration, gradients, point.words()))?;
            } else {
                show.call1(py, (seconds, iteration, gradients, point.bound))?;
            }
        }
        Ok(())
    }
}

/// Runs `work` on another thread without the interpreter, while this one looks at signals and at the last point that `work` left. What
/// stopped it, if anything did, comes with its result: `work` must end soon after the flag is set.
///
/// Python handles signals on its main thread only, and pools of Rust are other threads: so somebody has to wait here.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    mut progress: Progress,
    work: impl FnOnce(&AtomicBool, &Mutex<Option<TracePoint>>) -> T + Send,
) -> (T, Option<PyErr>) {
    let (stop, point) = (AtomicBool::new(false), Mutex::new(None));
    py.detach(|| {
        std::thread::scope(|scope| {
            let (done, wait) = mpsc::channel::<()>();
            let worker = scope.spawn(|| {
                let result = work(&stop, &point);
                drop(done);
                result
            });
            let mut stopped = None;
            while let Err(RecvTimeoutError::Timeout) = wait.recv_timeout(LOOK) {
                if stopped.is_none() {
                    let now = point.lock().ok().and_then(|point| *point);
                    if let Err(error) = Python::attach(|py| progress.look(py, now.as_ref())) {
                        stop.store(true, Ordering::Relaxed);
                        stopped = Some(error);
                    }
                }
            }
            (worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), stopped)
        })
    })
}

/// True for Ctrl-C, after which a fit is returned with what it has.
pub(crate) fn interrupt(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyKeyboardInterrupt>(py)
}
