//! The one way in which this crate writes files: whole or not at all, under a temporary name that cannot be predicted.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::file_system::{Disk, FileSystem};

/// Writes a file so that its path always holds either the old bytes or the new ones, even if the machine stops at any
/// moment: temporary file beside it, fsync, rename, fsync of the directory. The temporary file is removed if that
/// fails.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    write_on(&Disk, path, bytes)
}

/// The same on a given file system.
pub(crate) fn write_on(disk: &dyn FileSystem, path: &Path, bytes: &[u8]) -> Result<(), Error> {
    write_unflushed(disk, path, bytes)?;
    disk.sync_directory(parent_of(path)).map_err(|source| Error::write(path, source))
}

/// The same for one of several files of a directory, which is flushed once all are there: until then the machine may
/// forget the name, and with it the new bytes.
pub(crate) fn write_unflushed(disk: &dyn FileSystem, path: &Path, bytes: &[u8]) -> Result<(), Error> {
    write_through(disk, path, &temporary(path), bytes)
}

/// The same through the temporary file `half`.
pub(crate) fn write_through(
    disk: &dyn FileSystem,
    path: &Path,
    half: &Path,
    bytes: &[u8],
) -> Result<(), Error> {
    // the first error is the one to tell
    let moved = || disk.rename(half, path).inspect_err(|_| drop(disk.remove_file(half)));
    fill(disk, half, bytes).and_then(|()| moved()).map_err(|source| Error::write(path, source))
}

/// [`write_atomically`] for a path at which nothing may exist, not even a link: what another process puts there
/// meanwhile stays.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let half = temporary(path);
    let write = || {
        fill(&Disk, &half, bytes)?;
        match Disk.link(&half, path) {
            Ok(()) => Disk.remove_file(&half)?,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Err(e),
            // a file system without such links
            Err(_) if fs::symlink_metadata(path).is_err() => Disk.rename(&half, path)?,
            Err(_) => return Err(io::ErrorKind::AlreadyExists.into()),
        }
        Disk.sync_directory(parent_of(path))
    };
    write().map_err(|source| {
        // the first error is the one to tell
        let _ = fs::remove_file(&half);
        match source.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists { path: path.to_path_buf() },
            _ => Error::write(path, source),
        }
    })
}

/// Makes the temporary file, which must not exist, and flushes it; it is removed if that fails.
fn fill(disk: &dyn FileSystem, half: &Path, bytes: &[u8]) -> io::Result<()> {
    // fails at a link, wherever it leads
    let mut file = disk.create(half)?;
    file.write_all(bytes).and_then(|()| file.sync()).inspect_err(|_| drop(disk.remove_file(half)))
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

/// The directory of a path.
pub(crate) fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
