//! The fit directory, and the one way in which this crate writes files: whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// The record.
pub const RECORD: &str = "fit.json";
/// The Gaussian.
pub const ARRAYS: &str = "arrays.safetensors";
/// What the user set, written when a fit begins.
pub const SETTINGS: &str = "settings.json";
/// How rows are made and what the latents mean.
pub const MEANING: &str = "meaning.json";
/// The effects of the groups, where their sd was not given.
pub const GROUPS: &str = "groups.parquet";
/// The report.
pub const REPORT: &str = "report.html";
/// The two generations of checkpoints.
pub const CHECKPOINTS: [&str; 2] = ["checkpoint.0", "checkpoint.1"];

/// A directory that holds one fit.
#[derive(Debug)]
pub struct FitDirectory {
    path: PathBuf,
    /// Open and locked while this process writes a fit there.
    lock: Option<File>,
}

impl FitDirectory {
    /// Makes the directory (and those above it) and locks it. What exists is an error; with `overwrite`, the files of the fit that is there
    /// are removed and nothing else, and a directory with other files and no fit is refused.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self, Error> {
        if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            fs::create_dir_all(parent).map_err(|e| Error::cannot_create(path, e))?;
        }
        match fs::create_dir(path) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                if !overwrite || !path.is_dir() {
                    return Err(Error::Exists { path: path.to_path_buf() });
                }
                let mut directory = Self { path: path.to_path_buf(), lock: None };
                directory.lock()?;
                directory.clear()?;
                return Ok(directory);
            }
            Err(e) => return Err(Error::cannot_create(path, e)),
        }
        sync_directory(parent_of(path)).map_err(|e| Error::cannot_create(path, e))?;
        let mut directory = Self { path: path.to_path_buf(), lock: None };
        directory.lock()?;
        Ok(directory)
    }

    /// A directory that is there, to read from it; call [`lock`](Self::lock) before going on with its fit.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let missing = |source| Error::Missing { path: path.to_path_buf(), source };
        let kind = fs::metadata(path).map_err(missing)?;
        if !kind.is_dir() {
            return Err(Error::damaged(path, "a fit is a directory"));
        }
        Ok(Self { path: path.to_path_buf(), lock: None })
    }

    /// Keeps other processes from writing a fit there, until this value is dropped. Where the system has no such locks, nothing happens.
    pub fn lock(&mut self) -> Result<(), Error> {
        let Ok(file) = File::open(&self.path) else { return Ok(()) };
        match file.try_lock() {
            Err(fs::TryLockError::WouldBlock) => Err(Error::InUse { path: self.path.clone() }),
            _ => {
                self.lock = Some(file);
                Ok(())
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file of the directory, whole or not at all.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        write_atomically(&self.file(name), bytes)
    }

    /// Reads a file of the directory.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        let path = self.file(name);
        fs::read(&path).map_err(|source| Error::Missing { path, source })
    }

    /// Removes the checkpoints of a fit that is done.
    pub fn remove_checkpoints(&self) -> Result<(), Error> {
        CHECKPOINTS.iter().try_for_each(|name| self.remove(name))?;
        sync_directory(&self.path).map_err(|e| Error::write(&self.path, e))
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        for path in [self.file(name), temporary(&self.file(name))] {
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Error::write(&path, e)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes what a fit leaves. The record goes last, so that a directory in which this was interrupted is still seen to be a fit.
    fn clear(&self) -> Result<(), Error> {
        let ours = [CHECKPOINTS[0], CHECKPOINTS[1], ARRAYS, GROUPS, MEANING, REPORT, SETTINGS, RECORD];
        let entries = fs::read_dir(&self.path).map_err(|e| Error::write(&self.path, e))?;
        let names: Vec<_> = entries.filter_map(|e| e.ok().map(|e| e.file_name())).collect();
        let fit = names.iter().any(|n| {
            ours.iter()
                .any(|name| n == name || Some(n.as_os_str()) == temporary(&self.file(name)).file_name())
        });
        if !fit && !names.is_empty() {
            return Err(Error::NotAFit { path: self.path.clone() });
        }
        ours.iter().try_for_each(|name| self.remove(name))?;
        sync_directory(&self.path).map_err(|e| Error::write(&self.path, e))
    }
}

/// The steps of an atomic write, in order; a crash can come before each of them and after the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Make the temporary file in the same directory.
    Create,
    /// Write the first half.
    Begin,
    /// Write the rest.
    End,
    /// Flush the file to the disk.
    SyncFile,
    /// Put it in its place.
    Rename,
    /// Flush the directory.
    SyncDirectory,
}

/// Writes a file so that its path always holds either the old bytes or the new ones, even if the machine stops at any moment: temporary file
/// beside it, fsync, rename, fsync of the directory. The temporary file is removed if that fails.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    write_steps(path, bytes, &mut |_| Ok(())).map_err(|source| {
        // the first error is the one to tell
        let _ = fs::remove_file(temporary(path));
        Error::write(path, source)
    })
}

/// The same under a name that no other process uses meanwhile, for files that several may write, all with the same bytes.
#[cfg(feature = "parquet")]
pub(crate) fn write_through(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{SystemTime, UNIX_EPOCH};

    static NEXT: AtomicU64 = AtomicU64::new(0);
    let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos());
    let own = format!("{}-{started:x}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let half = temporary(&path.with_added_extension(own));
    let write = || {
        let mut file = File::create(&half)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        drop(file);
        fs::rename(&half, path)?;
        sync_directory(parent_of(path))
    };
    write().map_err(|source| {
        let _ = fs::remove_file(&half);
        Error::write(path, source)
    })
}

/// The steps, each announced to `before`, whose error stops everything on the spot, as a crash would.
pub(crate) fn write_steps(
    path: &Path,
    bytes: &[u8],
    before: &mut dyn FnMut(Step) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = temporary(path);
    before(Step::Create)?;
    let mut file = File::create(&temporary)?;
    let (first, second) = bytes.split_at(bytes.len() / 2);
    before(Step::Begin)?;
    file.write_all(first)?;
    before(Step::End)?;
    file.write_all(second)?;
    before(Step::SyncFile)?;
    file.sync_all()?;
    drop(file);
    before(Step::Rename)?;
    fs::rename(&temporary, path)?;
    before(Step::SyncDirectory)?;
    sync_directory(parent_of(path))
}

/// The name beside `path` under which it is written.
pub(crate) fn temporary(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".tmp");
    path.with_file_name(name)
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes names durable. Only Unix can open a directory for that, and some network file systems refuse to flush one.
fn sync_directory(path: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    match File::open(path)?.sync_all() {
        Err(e) if matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        other => other,
    }
}
