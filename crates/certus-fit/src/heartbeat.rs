//! A file per process of a run that says, once a second, that it is alive, so that a silent one can be named.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

/// Time between two beats.
pub const BEAT: Duration = Duration::from_secs(1);

/// The file of a rank.
pub fn heartbeat_file(directory: &Path, rank: usize) -> PathBuf {
    directory.join(format!("heartbeat-{rank}.log"))
}

/// Beats until it is dropped; then the file is removed.
#[derive(Debug)]
pub struct Heartbeat {
    path: PathBuf,
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    /// Begins to write the file of `rank` in `directory`. A beat that cannot be written is left out: the run does not
    /// depend on it.
    pub fn start(directory: &Path, rank: usize) -> Self {
        let path = heartbeat_file(directory, rank);
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let (file, told) = (path.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let (lock, bell) = &*told;
            let Ok(mut done) = lock.lock() else { return };
            let mut beats = 0u64;
            while !*done {
                let _ =
                    fs::write(&file, format!("rank {rank}, process {}, beat {beats}\n", std::process::id()));
                beats += 1;
                match bell.wait_timeout(done, BEAT) {
                    Ok((guard, _)) => done = guard,
                    Err(_) => return,
                }
            }
        });
        Self { path, stop, thread: Some(thread) }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        if let Ok(mut done) = self.stop.0.lock() {
            *done = true;
        }
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// The ranks whose last beat is more than three beats ago, with how long; by the clock of the file system, which all
/// write to.
pub fn silent(directory: &Path, ranks: usize) -> Vec<(usize, Duration)> {
    let beat = |rank: usize| fs::metadata(heartbeat_file(directory, rank)).and_then(|m| m.modified()).ok();
    let beats: Vec<Option<SystemTime>> = (0..ranks).map(beat).collect();
    let Some(newest) = beats.iter().flatten().max() else { return Vec::new() };
    let since = |at: &SystemTime| newest.duration_since(*at).unwrap_or_default();
    let late = |(rank, at): (usize, &Option<SystemTime>)| at.as_ref().map(|at| (rank, since(at)));
    beats.iter().enumerate().filter_map(late).filter(|(_, since)| *since > 3 * BEAT).collect()
}

/// Removes what ranks that were killed left behind.
pub fn clear_heartbeats(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let rank = name.strip_prefix("heartbeat-").and_then(|rest| rest.strip_suffix(".log"));
        if rank.is_some_and(|rank| rank.parse::<usize>().is_ok()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_silent_one_is_named() {
        let directory = std::env::temp_dir().join(format!("certus-heartbeat-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let beats = [Heartbeat::start(&directory, 0), Heartbeat::start(&directory, 2)];
        let began = std::time::Instant::now();
        while !beats.iter().all(|b| b.path.exists()) && began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let old = fs::File::create(heartbeat_file(&directory, 1)).expect("a file");
        old.set_modified(SystemTime::now() - Duration::from_secs(60)).expect("a time");
        let found = silent(&directory, 4);
        assert!(found.len() == 1 && found[0].0 == 1 && found[0].1 > Duration::from_secs(50), "{found:?}");
        drop(beats);
        assert!(!heartbeat_file(&directory, 0).exists() && heartbeat_file(&directory, 1).exists());
        clear_heartbeats(&directory);
        assert!(fs::read_dir(&directory).expect("it is there").next().is_none());
        fs::remove_dir_all(&directory).expect("removed");
    }
}
