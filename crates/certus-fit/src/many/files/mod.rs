//! What many fits leave on disk: the request, a file per finished chunk, and one table of all of them at the end.
//!
//! | file | what |
//! |---|---|
//! | `many.json` | [`Manifest`]: the request, and the groups |
//! | `chunks/000017.json` | [`Chunk`]: the results of a run of groups; whole or not there |
//! | `fits.parquet` | a row per group, once every chunk is complete |
//! | `manifest.json` | length and SHA-256 of all of these, written last |
//!
//! Chunks are functions of settings and data, so it does not matter which process made one, nor whether two did. They,
//! and `many.json`, hold the SHA-256 of their own bytes (`checksum.rs`), because they are read before there is a
//! manifest.
//! Fits that replace others are made in `.run` and moved once their manifest is written.

mod table;
mod types;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::table::Table;
pub use self::types::{Chunk, GroupResult, Key, Manifest};
use crate::atomic::{is_temporary, parent_of, write_on};
use crate::checksum::{verify_checksum, with_checksum};
use crate::directory::RUN;
use crate::error::Error;
use crate::file_system::{Disk, FileSystem};
use crate::manifest::{self, MANY};

/// The request.
pub const MANIFEST: &str = MANY;
/// The table of results.
pub const FITS: &str = "fits.parquet";
const CHUNKS: &str = "chunks";
const VERSION: u32 = 2;

/// A directory of many fits.
#[derive(Debug)]
pub struct ManyDirectory {
    path: PathBuf,
    disk: Arc<dyn FileSystem>,
    /// Where chunks are made: the directory, or `.run` in it if they are to replace an earlier result.
    work: PathBuf,
    _lock: Option<File>,
}

impl ManyDirectory {
    /// Makes the directory, or resumes one that has the same manifest. `shared` allows other processes that set it to
    /// write there as well. With `overwrite` other fits of this kind are replaced once these are complete.
    pub fn begin(path: &Path, manifest: &Manifest, shared: bool, overwrite: bool) -> Result<Self, Error> {
        Self::begin_on(Arc::new(Disk), path, manifest, shared, overwrite)
    }

    fn begin_on(
        disk: Arc<dyn FileSystem>,
        path: &Path,
        manifest: &Manifest,
        shared: bool,
        overwrite: bool,
    ) -> Result<Self, Error> {
        let failed = |e| Error::cannot_create(path, e);
        if !path.exists() {
            disk.create_dir_all(path).map_err(failed)?;
            disk.sync_directory(parent_of(path)).map_err(failed)?;
        }
        let mut directory = Self::at(disk, path);
        directory._lock = lock(path, shared)?;
        directory.recover()?;
        let run = path.join(RUN);
        if overwrite {
            gone(&run, directory.disk.remove_dir_all(&run))?;
        }
        let same = |there: &Manifest| there.fingerprint == manifest.fingerprint && there.version == VERSION;
        let finished = path.join(FITS).exists();
        if read(&run).is_ok_and(|there| same(&there)) {
            directory.work = run;
        } else {
            match read(path) {
                Ok(there) if same(&there) && !overwrite => {}
                Ok(_) | Err(Error::Changed { .. } | Error::Damaged { .. }) if overwrite && finished => {
                    directory.work = run;
                }
                Ok(_) | Err(Error::Changed { .. } | Error::Damaged { .. }) if overwrite => {
                    directory.clear()?;
                }
                Ok(_) => return Err(Error::OtherFits { path: path.to_path_buf() }),
                Err(Error::Missing { .. }) if directory.only_ours() => {}
                Err(Error::Missing { .. }) => return Err(Error::NotAFit { path: path.to_path_buf() }),
                Err(other) => return Err(other),
            }
        }
        let chunks = directory.work.join(CHUNKS);
        directory.disk.create_dir_all(&chunks).map_err(|e| Error::cannot_create(&chunks, e))?;
        // the names of directories are there before what is moved out of them
        directory.disk.sync_directory(&directory.work).map_err(failed)?;
        directory.disk.sync_directory(path).map_err(failed)?;
        if directory.manifest().is_err() {
            write_on(&*directory.disk, &directory.work.join(MANIFEST), &with_checksum(manifest))?;
        }
        if directory.work == directory.path && path.join(manifest::MANIFEST).exists() {
            directory.check()?;
        }
        Ok(directory)
    }

    /// Opens an existing directory; if other fits are being made to replace it, those.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut directory = Self::at(Arc::new(Disk), path);
        if path.join(RUN).join(manifest::MANIFEST).exists()
            && let Ok(_alone) = lock(path, false)
        {
            directory.recover()?;
        }
        if path.join(RUN).join(MANIFEST).is_file() {
            directory.work = path.join(RUN);
        }
        directory.manifest()?;
        if directory.work == directory.path && path.join(manifest::MANIFEST).exists() {
            directory.check()?;
        }
        Ok(directory)
    }

    fn at(disk: Arc<dyn FileSystem>, path: &Path) -> Self {
        Self { path: path.to_path_buf(), disk, work: path.to_path_buf(), _lock: None }
    }

    /// True if the directory holds many fits.
    pub fn is_one(path: &Path) -> bool {
        path.join(MANIFEST).is_file() || path.join(RUN).join(MANIFEST).is_file()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The request.
    pub fn manifest(&self) -> Result<Manifest, Error> {
        read(&self.work)
    }

    fn chunk_path(&self, chunk: usize) -> PathBuf {
        self.work.join(chunk_name(chunk))
    }

    /// An existing chunk of these fits, else `None`; an error if it is not what was written.
    pub fn chunk(&self, manifest: &Manifest, chunk: usize) -> Result<Option<Chunk>, Error> {
        let path = self.chunk_path(chunk);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::Missing { path, source }),
        };
        let bad = |words: String| Error::changed_chunk(&path, words);
        verify_checksum(&text).map_err(|words| bad(words.into()))?;
        let groups = manifest.chunk.min(manifest.groups - chunk * manifest.chunk);
        let read: Chunk = serde_json::from_slice(&text).map_err(|e| bad(e.to_string()))?;
        Ok((read.of == manifest.fingerprint && read.fits.len() == groups).then_some(read))
    }

    /// Writes a chunk, whole or not at all.
    pub fn write_chunk(&self, chunk: usize, content: &Chunk) -> Result<(), Error> {
        // of what is no longer there
        let manifest = self.work.join(manifest::MANIFEST);
        self.disk.remove(&manifest).map_err(|e| Error::write(&manifest, e))?;
        write_on(&*self.disk, &self.chunk_path(chunk), &with_checksum(content))
    }

    /// The table of all chunks, written as `fits.parquet`; the chunks that are missing if there are any. `visit` sees
    /// every result.
    pub fn collect(
        &self,
        manifest: &Manifest,
        visit: &mut dyn FnMut(&GroupResult),
    ) -> Result<Result<(), Vec<usize>>, Error> {
        let mut table = Table::new(manifest);
        let mut missing = Vec::new();
        for index in 0..manifest.chunks() {
            match self.chunk(manifest, index)? {
                Some(chunk) if missing.is_empty() => {
                    chunk.fits.iter().for_each(&mut *visit);
                    table.add(chunk);
                }
                Some(_) => {}
                None => missing.push(index),
            }
        }
        if !missing.is_empty() {
            return Ok(Err(missing));
        }
        self.publish(&table.to_parquet(manifest)?)?;
        self.sweep();
        Ok(Ok(()))
    }

    /// The bytes of the table of these chunks, all of them in order.
    pub fn table(manifest: &Manifest, chunks: Vec<Chunk>) -> Result<Vec<u8>, Error> {
        let mut table = Table::new(manifest);
        chunks.into_iter().for_each(|chunk| table.add(chunk));
        table.to_parquet(manifest)
    }

    /// The members of `many.json`, or of a chunk, as they stand there, without the check sum.
    pub fn json(&self, chunk: Option<usize>) -> Result<serde_json::Value, Error> {
        let path = chunk.map_or_else(|| self.work.join(MANIFEST), |chunk| self.chunk_path(chunk));
        let text = fs::read(&path).map_err(|source| Error::Missing { path: path.clone(), source })?;
        let mut value: serde_json::Value =
            serde_json::from_slice(&text).map_err(|e| Error::damaged(&path, e.to_string()))?;
        value.as_object_mut().map(|members| members.remove(crate::checksum::FIELD));
        Ok(value)
    }

    /// Writes the table and then the manifest, with which the fits are complete, and puts them in their place.
    fn publish(&self, table: &[u8]) -> Result<(), Error> {
        write_on(&*self.disk, &self.work.join(FITS), table)?;
        write_manifest(&*self.disk, &self.work)?;
        if self.work == self.path { Ok(()) } else { self.settle() }
    }

    /// Ends a replacement that was interrupted.
    fn recover(&self) -> Result<(), Error> {
        let complete = self.path.join(RUN).join(manifest::MANIFEST).exists();
        if complete { self.settle() } else { Ok(()) }
    }

    /// Moves complete fits from `.run` to their place. May be interrupted at any step and begun again.
    fn settle(&self) -> Result<(), Error> {
        let run = self.path.join(RUN);
        let steps = || {
            if run.join(CHUNKS).exists() {
                match self.disk.remove_dir_all(&self.path.join(CHUNKS)) {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                    _ => {}
                }
            }
            for name in [CHUNKS, FITS, MANIFEST, manifest::MANIFEST] {
                if name == manifest::MANIFEST {
                    self.disk.sync_directory(&self.path)?;
                }
                match self.disk.rename(&run.join(name), &self.path.join(name)) {
                    // moved before the interruption
                    Err(e) if e.kind() == io::ErrorKind::NotFound && self.path.join(name).exists() => {}
                    other => other?,
                }
            }
            self.disk.sync_directory(&self.path)?;
            self.disk.remove_dir_all(&run)
        };
        steps().map_err(|e| Error::write(&self.path, e))
    }

    /// An error unless the files are those that the manifest lists; chunks may be gone, they are not needed any more.
    pub fn check(&self) -> Result<(), Error> {
        let run = self.path.join(RUN);
        let whole = run.join(manifest::MANIFEST).exists();
        let at = |name: &str| {
            let staged = run.join(name);
            if whole && staged.exists() { staged } else { self.path.join(name) }
        };
        let path = at(manifest::MANIFEST);
        let Some(list) = manifest::Manifest::read(&path, known)? else {
            return Err(Error::changed(
                &path,
                "it is missing, so the table was never finished or it was removed",
            ));
        };
        for name in list.names() {
            let place = at(name);
            if place.exists() || !name.starts_with(CHUNKS) {
                list.check(name, &place)?;
            }
        }
        let mut there = chunk_names(&at(CHUNKS)).chain([MANIFEST, FITS].map(String::from));
        match there.find(|name| !list.lists(name)) {
            Some(name) => Err(Error::changed(&path, format!("it does not list {name}"))),
            None => Ok(()),
        }
    }

    /// Removes what writers that were killed left half done.
    fn sweep(&self) {
        for directory in [self.path.clone(), self.path.join(CHUNKS)] {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            let halves = entries.filter(|e| is_temporary(&e.file_name().to_string_lossy()));
            // whoever still writes one would do it again
            halves.for_each(|e| drop(self.disk.remove_file(&e.path())));
        }
    }

    /// True if it contains nothing but files of an unfinished run of ours.
    fn only_ours(&self) -> bool {
        let mut entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        entries.all(|e| {
            let name = e.file_name().to_string_lossy().into_owned();
            name == CHUNKS || is_temporary(&name)
        })
    }

    /// Removes fits of this kind that were never finished, and nothing else.
    fn clear(&self) -> Result<(), Error> {
        let chunks = self.path.join(CHUNKS);
        gone(&chunks, self.disk.remove_dir_all(&chunks))?;
        for name in [manifest::MANIFEST, MANIFEST] {
            let path = self.path.join(name);
            gone(&path, self.disk.remove_file(&path))?;
        }
        Ok(())
    }
}

fn gone(path: &Path, result: io::Result<()>) -> Result<(), Error> {
    match result {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::write(path, e)),
        _ => Ok(()),
    }
}

fn chunk_name(chunk: usize) -> String {
    format!("{CHUNKS}/{chunk:06}.json")
}

/// The names that a manifest of many fits can have.
fn known(name: &str) -> bool {
    let chunk = name.strip_prefix(CHUNKS).and_then(|n| n.strip_prefix('/')?.strip_suffix(".json"));
    name == MANIFEST || name == FITS || chunk.is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
}

/// `many.json` of a directory.
fn read(directory: &Path) -> Result<Manifest, Error> {
    let path = directory.join(MANIFEST);
    let text = fs::read(&path).map_err(|source| Error::Missing { path: path.clone(), source })?;
    let manifest = serde_json::from_slice::<Manifest>(&text);
    if let Some(there) = manifest.as_ref().ok().filter(|there| there.version != VERSION) {
        let words = format!(
            "it has version {}, but this program reads version {VERSION}: fit again with --overwrite",
            there.version
        );
        return Err(Error::damaged(&path, words));
    }
    verify_checksum(&text).map_err(|words| Error::changed(&path, words))?;
    manifest.map_err(|e| Error::changed(&path, e.to_string()))
}

/// The chunks in a directory of chunks.
fn chunk_names(chunks: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(chunks).into_iter().flatten().flatten();
    entries.map(|e| format!("{CHUNKS}/{}", e.file_name().to_string_lossy())).filter(|name| known(name))
}

/// Writes the manifest of a directory of many fits.
fn write_manifest(disk: &dyn FileSystem, directory: &Path) -> Result<(), Error> {
    let own = [MANIFEST, FITS].into_iter().filter(|name| directory.join(name).is_file());
    let names = chunk_names(&directory.join(CHUNKS)).chain(own.map(String::from));
    let list = manifest::Manifest::of(directory, names)?;
    write_on(disk, &directory.join(manifest::MANIFEST), &list.encode())
}

/// The same after files were changed on purpose: see [`crate::rewrite_manifest`].
pub(crate) fn rewrite(directory: &Path) -> Result<(), Error> {
    let names = chunk_names(&directory.join(CHUNKS)).chain([MANIFEST.to_string()]);
    for path in names.map(|name| directory.join(name)) {
        let text = fs::read(&path).map_err(|source| Error::Missing { path: path.clone(), source })?;
        // what is no longer an object is refused when it is read
        if let Ok(mut members) = serde_json::from_slice::<serde_json::Map<_, serde_json::Value>>(&text) {
            members.remove(crate::checksum::FIELD);
            write_on(&Disk, &path, &with_checksum(&members))?;
        }
    }
    write_manifest(&Disk, directory)
}

/// One writer, or several that share; where the system has no locks, nothing happens.
fn lock(path: &Path, shared: bool) -> Result<Option<File>, Error> {
    let Ok(file) = File::open(path) else { return Ok(None) };
    let locked = if shared { file.try_lock_shared() } else { file.try_lock() };
    match locked {
        Err(fs::TryLockError::WouldBlock) => Err(Error::InUse { path: path.to_path_buf() }),
        _ => Ok(Some(file)),
    }
}

#[cfg(test)]
mod tests;
