//! Progress on stderr, and durations: a bar on a terminal, plain lines elsewhere, nothing when quiet.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use certus::auto::TracePoint;
use certus::certificate::figure;
use indicatif::{ProgressBar, ProgressStyle};

use crate::exit::{Code, Failure};

/// Steps of the bar.
const LENGTH: u64 = 1000;
/// A line this often where there is no terminal.
const LINES: Duration = Duration::from_secs(10);

/// What is shown while a fit runs.
pub struct Watch {
    bar: Option<ProgressBar>,
    plain: bool,
    goal: f64,
    first: Option<f64>,
    last: Option<Instant>,
    /// What the run was doing when that was last shown.
    stage: String,
}

impl Watch {
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
        Self { bar, plain: !quiet && !terminal, goal, first: None, last: None, stage: String::new() }
    }

    /// Says what is going on before the first step.
    pub fn say(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_string());
        } else if self.plain {
            eprintln!("{text}");
        }
    }

    /// After a step: where the bound is between the first one and the goal, on a logarithmic scale.
    pub fn step(&mut self, point: &TracePoint) {
        let text = format!(
            "{}, goal {}; iteration {}, {} gradients",
            point.words(),
            figure(self.goal),
            point.iteration,
            point.gradients
        );
        if let Some(bar) = &self.bar {
            if let Some(bound) = point.bound {
                let first = *self.first.get_or_insert((10.0 * bound).max(10.0 * self.goal));
                let done = (first / bound).ln() / (first / self.goal).ln();
                bar.set_position((LENGTH as f64 * done.clamp(0.0, 1.0)) as u64);
            }
            bar.set_message(text);
        } else if self.plain && self.last.is_none_or(|t| t.elapsed() > LINES) {
            eprintln!("{:8.1} s  {text}", point.elapsed.as_secs_f64());
            self.last = Some(Instant::now());
        }
    }

    /// While groups are integrated out: what is being done.
    pub fn pass(&mut self, progress: &certus_data::Progress) {
        let text = format!("{}; {} passes", progress.words, progress.passes);
        let stage = progress.words.split(':').next().unwrap_or_default();
        let often = self.stage == stage && self.last.is_some_and(|t| t.elapsed() <= LINES);
        if let Some(bar) = &self.bar {
            bar.set_message(text);
        } else if self.plain && !often {
            eprintln!("{:8.1} s  {text}", progress.elapsed.as_secs_f64());
            (self.last, self.stage) = (Some(Instant::now()), stage.into());
        }
    }

    /// The bar, for whoever has to clear it.
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
        let Watch { bar, plain, .. } = Watch::new(quiet, 1.0);
        Self { bar, plain, state: Mutex::default() }
    }

    /// Says what is going on.
    pub fn say(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_string());
        } else if self.plain {
            eprintln!("{text}");
        }
    }

    /// So many groups are to come; the rows are read before the first of them.
    pub fn begin(&self, groups: usize) {
        self.state.lock().expect("nobody panics while holding it").all = groups;
        if groups > 0 {
            self.say(&format!("reading the rows of {groups} groups"));
        }
    }

    /// Another group is done.
    pub fn step(&self) {
        let mut count = self.state.lock().expect("nobody panics while holding it");
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
            format!("{} of {} groups, {speed:.0} fits a second, {left:.0} s left", count.done, count.all);
        if let Some(bar) = &self.bar {
            bar.set_position(LENGTH * count.done as u64 / count.all.max(1) as u64);
            bar.set_message(text);
        } else if self.plain {
            eprintln!("{:8.1} s  {text}", begun.elapsed().as_secs_f64());
        }
    }

    /// Clears the bar.
    pub fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// 90s, 5m, 2h, 1.5h, 250ms; a bare number is seconds.
pub fn duration(text: &str) -> Result<Duration, Failure> {
    let bad = || Failure::new(Code::Usage, format!("'{text}' is no time: write 90s, 5m or 2h"));
    let (number, unit) = match text.find(|c: char| c.is_ascii_alphabetic()) {
        Some(at) => text.split_at(at),
        None => (text, "s"),
    };
    let number: f64 = number.trim().parse().map_err(|_| bad())?;
    let factor = match unit.trim() {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return Err(bad()),
    };
    Duration::try_from_secs_f64(number * factor).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        for (text, seconds) in [("90s", 90.0), ("5m", 300.0), ("1.5h", 5400.0), ("2", 2.0), ("250ms", 0.25)] {
            assert_eq!(duration(text).expect("a time").as_secs_f64(), seconds);
        }
        for text in ["", "soon", "-1s", "5 parsecs", "nan", "1e400h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
