//! Progress on stderr, and durations: a bar on a terminal, plain lines elsewhere, nothing when quiet.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use certus::certificate::counted;
use certus_fit::RunProgress;
use indicatif::{ProgressBar, ProgressStyle};

use crate::terminal::{plain, say};

/// Steps of the bar.
const LENGTH: u64 = 1000;
/// A line this often where there is no terminal.
const LINES: Duration = Duration::from_secs(10);

/// What is shown while a fit runs.
pub struct ProgressDisplay {
    bar: Option<ProgressBar>,
    plain: bool,
    goal: f64,
    first: Option<f64>,
    last: Option<Instant>,
    /// What the run was doing when that was last shown.
    stage: &'static str,
}

impl ProgressDisplay {
    /// A bar on a terminal, lines elsewhere, nothing if `quiet`.
    pub fn new(quiet: bool, goal: f64) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = (!quiet && terminal).then(|| {
            let bar = ProgressBar::new(LENGTH);
            if let Ok(style) = ProgressStyle::with_template("{elapsed:>4} [{bar:24}] {msg}") {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self { bar, plain: !quiet && !terminal, goal, first: None, last: None, stage: "" }
    }

    /// Shows what is being done before the first step.
    pub fn say(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(plain(text).into_owned());
        } else if self.plain {
            say(text);
        }
    }

    /// A note that does not wait for the end, even if nothing else is shown.
    pub fn note(&self, words: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| crate::exit::note(words)),
            None => crate::exit::note(words),
        }
    }

    /// After a step: where the bound is between the first one and the goal, on a logarithmic scale.
    pub fn step(&mut self, progress: &RunProgress) {
        let point = &progress.point;
        let often = self.stage == progress.doing() && self.last.is_some_and(|t| t.elapsed() <= LINES);
        if let Some(bar) = &self.bar {
            if let Some(bound) = point.bound {
                let first = *self.first.get_or_insert((10.0 * bound).max(10.0 * self.goal));
                let done = (first / bound).ln() / (first / self.goal).ln();
                bar.set_position((LENGTH as f64 * done.clamp(0.0, 1.0)) as u64);
            }
            bar.set_message(plain(&progress.words(self.goal)).into_owned());
        } else if self.plain && !often {
            say(&format!("{:8.1} s  {}", point.elapsed.as_secs_f64(), progress.words(self.goal)));
            (self.last, self.stage) = (Some(Instant::now()), progress.doing());
        }
    }

    /// The bar, for the code that has to clear it.
    pub fn bar(&self) -> Option<ProgressBar> {
        self.bar.clone()
    }

    /// Clears the bar.
    pub fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// What is shown while many fits run: groups done, how many a second, how long it will take.
pub struct Counter {
    bar: Option<ProgressBar>,
    plain: bool,
    state: Mutex<Count>,
}

#[derive(Default)]
struct Count {
    done: usize,
    all: usize,
    begun: Option<Instant>,
    last: Option<Instant>,
}

impl Counter {
    /// A bar on a terminal, lines elsewhere, nothing if `quiet`.
    pub fn new(quiet: bool) -> Self {
        let ProgressDisplay { bar, plain, .. } = ProgressDisplay::new(quiet, 1.0);
        Self { bar, plain, state: Mutex::default() }
    }

    /// Shows what is being done.
    pub fn say(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(plain(text).into_owned());
        } else if self.plain {
            say(text);
        }
    }

    /// So many groups are to come; the rows are read before the first of them.
    pub fn begin(&self, groups: usize) {
        self.state.lock().expect("no thread panics while it holds the lock").all = groups;
        if groups > 0 {
            self.say(&format!("reading the rows of {}", counted(groups, "group")));
        }
    }

    /// Another group is done.
    pub fn step(&self) {
        let mut count = self.state.lock().expect("no thread panics while it holds the lock");
        let begun = *count.begun.get_or_insert_with(Instant::now);
        count.done += 1;
        let often = if self.bar.is_some() { Duration::from_millis(120) } else { LINES };
        if count.last.is_some_and(|t| t.elapsed() < often) {
            return;
        }
        count.last = Some(Instant::now());
        let speed = count.done as f64 / begun.elapsed().as_secs_f64().max(1e-3);
        let left = (count.all - count.done.min(count.all)) as f64 / speed;
        let text =
            format!("{} of {} groups, {speed:.0} fits per second, {left:.0} s left", count.done, count.all);
        if let Some(bar) = &self.bar {
            bar.set_position(LENGTH * count.done as u64 / count.all.max(1) as u64);
            bar.set_message(plain(&text).into_owned());
        } else if self.plain {
            say(&format!("{:8.1} s  {text}", begun.elapsed().as_secs_f64()));
        }
    }

    /// Clears the bar.
    pub fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
