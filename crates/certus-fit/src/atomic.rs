//! The one way in which this crate writes files: whole or not at all, under a temporary name that cannot be predicted.

use std::collections::hash_map::RandomState;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// The steps of a write and of the replacement of a result, in order; a crash can come before each of them and after
/// the last.
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
    /// Remove a file of the old result that the new one does not replace.
    Remove,
    /// Move a file of the new result to its place.
    Move,
    /// Move the manifest, after which the result is complete where it belongs.
    MoveManifest,
    /// Remove what the run needed.
    Clean,
}

/// What a crash is simulated with: called before every step, and its error stops everything on the spot.
pub(crate) type Before<'a> = &'a mut dyn FnMut(Step) -> io::Result<()>;

/// Writes a file so that its path always holds either the old bytes or the new ones, even if the machine stops at any
/// moment: temporary file beside it, fsync, rename, fsync of the directory. The temporary file is removed if that
/// fails.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let half = temporary(path);
    write_steps(path, &half, bytes, &mut |_| Ok(())).map_err(|source| {
        // the first error is the one to tell
        let _ = fs::remove_file(&half);
        Error::write(path, source)
    })
}

/// The same for one of several files of a directory, which is flushed once all are there: until then the machine may
/// forget the name, and with it the new bytes.
pub(crate) fn write_unflushed(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let half = temporary(path);
    put(path, &half, bytes, &mut |_| Ok(())).map_err(|source| {
        let _ = fs::remove_file(&half);
        Error::write(path, source)
    })
}

/// [`write_atomically`] for a path at which nothing may exist, not even a link: what another process puts there
/// meanwhile stays.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let half = temporary(path);
    let write = || {
        fill(&half, bytes, &mut |_| Ok(()))?;
        match fs::hard_link(&half, path) {
            Ok(()) => fs::remove_file(&half)?,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Err(e),
            // a file system without such links
            Err(_) if fs::symlink_metadata(path).is_err() => fs::rename(&half, path)?,
            Err(_) => return Err(io::ErrorKind::AlreadyExists.into()),
        }
        sync_directory(parent_of(path))
    };
    write().map_err(|source| {
        let _ = fs::remove_file(&half);
        match source.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists { path: path.to_path_buf() },
            _ => Error::write(path, source),
        }
    })
}

/// The steps of [`write_atomically`], each announced to `before`.
pub(crate) fn write_steps(path: &Path, half: &Path, bytes: &[u8], before: Before<'_>) -> io::Result<()> {
    put(path, half, bytes, before)?;
    before(Step::SyncDirectory)?;
    sync_directory(parent_of(path))
}

/// All of them but the flush of the directory.
fn put(path: &Path, half: &Path, bytes: &[u8], before: Before<'_>) -> io::Result<()> {
    fill(half, bytes, before)?;
    before(Step::Rename)?;
    fs::rename(half, path)
}

/// Makes the temporary file, which must not exist, and flushes it.
fn fill(half: &Path, bytes: &[u8], before: Before<'_>) -> io::Result<()> {
    before(Step::Create)?;
    // fails at a link, wherever it leads
    let mut file = File::create_new(half)?;
    let (first, second) = bytes.split_at(bytes.len() / 2);
    before(Step::Begin)?;
    file.write_all(first)?;
    before(Step::End)?;
    file.write_all(second)?;
    before(Step::SyncFile)?;
    file.sync_all()
}

/// A name beside `path` under which it is written: random, 64 bits from the keys that the system gives every process.
pub(crate) fn temporary(path: &Path) -> PathBuf {
    let random = RandomState::new().build_hasher().finish();
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{random:016x}.tmp"));
    path.with_file_name(name)
}

/// True for a name that [`temporary`] makes, or made before names were random.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".tmp")
}

/// Removes a file that may not exist.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// The directory of a path.
pub(crate) fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes names durable. Only Unix can open a directory for that, and some network file systems refuse to flush one.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    match File::open(path)?.sync_all() {
        Err(e) if matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        other => other,
    }
}
