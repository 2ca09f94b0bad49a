//! The fit directory: the result, and beside it in `.run` the run that will replace it.
//!
//! A run writes its settings, its checkpoints and the files of its result to `.run`. [`commit`](FitDirectory::commit)
//! writes `.run/manifest.json` last: with that the new result is complete, and nothing before that touched the old one.
//! Then the files are moved to their places, the manifest last. A process that opens a directory in which that was
//! interrupted completes it or, without write permission, reads every file where it is.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use crate::atomic::{is_temporary, parent_of, write_on, write_unflushed};
pub use crate::atomic::{write_atomically, write_new};
use crate::error::Error;
use crate::file_system::{Disk, FileSystem};
use crate::manifest::{MANIFEST, MANY, Manifest};

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
/// The report; made from the result, not a part of it.
pub const REPORT: &str = "report.html";
/// The two generations of checkpoints.
pub const CHECKPOINTS: [&str; 2] = ["checkpoint.0", "checkpoint.1"];
/// The files of a result, which the manifest lists.
pub const RESULT: [&str; 5] = [ARRAYS, RECORD, GROUPS, MEANING, SETTINGS];
/// Where a run works.
pub const RUN: &str = ".run";
/// Records from this schema on have a manifest beside them.
const WITH_MANIFEST: u32 = 3;

/// A directory that holds one fit.
#[derive(Debug)]
pub struct FitDirectory {
    path: PathBuf,
    disk: Arc<dyn FileSystem>,
    /// Open and locked while this process writes a fit there.
    lock: Option<File>,
    /// Of the existing result, if it has one.
    manifest: Option<Manifest>,
}

impl FitDirectory {
    /// Makes the directory (and those above it), locks it and begins a run. What exists is an error; with `overwrite`,
    /// the existing fit stays until the new one is [committed](Self::commit), and a directory with other files and no
    /// fit is refused.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self, Error> {
        Self::create_on(Arc::new(Disk), path, overwrite)
    }

    pub(crate) fn create_on(disk: Arc<dyn FileSystem>, path: &Path, overwrite: bool) -> Result<Self, Error> {
        let failed = |e| Error::cannot_create(path, e);
        if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            disk.create_dir_all(parent).map_err(failed)?;
        }
        let made = disk.create_dir(path);
        let mut directory = Self { path: path.to_path_buf(), disk, lock: None, manifest: None };
        match made {
            Ok(()) => {
                directory.disk.sync_directory(parent_of(path)).map_err(failed)?;
                directory.lock()?;
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && overwrite && path.is_dir() => {
                directory.lock()?;
                directory.must_be_a_fit()?;
                // a result that is complete is the one to keep; what can't be read is not
                if let Ok(Some(staged)) = Manifest::read(&directory.run_file(MANIFEST), known) {
                    directory.settle(&staged)?;
                }
                directory.clean(&[])?;
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                return Err(Error::Exists { path: path.to_path_buf() });
            }
            Err(e) => return Err(failed(e)),
        }
        directory.disk.create_dir_all(&directory.run()).map_err(|e| Error::write(&directory.run(), e))?;
        directory.disk.sync_directory(path).map_err(|e| Error::write(path, e))?;
        Ok(directory)
    }

    /// Opens an existing fit for reading: every file is compared with the manifest first.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut directory = Self::found(path)?;
        // a result that is complete but not yet in its place is put there, unless its own process is about to, or
        // nobody may write
        if directory.run_file(MANIFEST).exists() && directory.lock().is_ok() {
            let _ = directory.recover();
        }
        directory.lock = None;
        directory.check()?;
        Ok(directory)
    }

    /// Opens an existing fit to resume it. Its result, if it has one, is compared with its manifest first.
    pub fn resume(path: &Path) -> Result<Self, Error> {
        let mut directory = Self::found(path)?;
        directory.lock()?;
        directory.recover()?;
        // before there was a place for runs
        let old: Vec<_> = CHECKPOINTS.iter().filter(|name| directory.file(name).is_file()).collect();
        if !old.is_empty() {
            directory.disk.create_dir_all(&directory.run()).map_err(|e| Error::write(&directory.run(), e))?;
            for name in old {
                let to = directory.run_file(name);
                directory.disk.rename(&directory.file(name), &to).map_err(|e| Error::write(&to, e))?;
            }
        }
        directory.clean(&[SETTINGS, CHECKPOINTS[0], CHECKPOINTS[1]])?;
        if !directory.replaces() {
            directory.check()?;
        }
        Ok(directory)
    }

    fn found(path: &Path) -> Result<Self, Error> {
        let missing = |source| Error::Missing { path: path.to_path_buf(), source };
        if !fs::metadata(path).map_err(missing)?.is_dir() {
            return Err(Error::damaged(path, "a fit is a directory"));
        }
        Ok(Self { path: path.to_path_buf(), disk: Arc::new(Disk), lock: None, manifest: None })
    }

    /// Keeps other processes from writing a fit there, until this value is dropped. Where the system has no such locks,
    /// nothing happens.
    fn lock(&mut self) -> Result<(), Error> {
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

    /// The path of a file of the result, or of the report.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Where the run works.
    pub(crate) fn run(&self) -> PathBuf {
        self.path.join(RUN)
    }

    /// Where it is written.
    pub(crate) fn disk(&self) -> Arc<dyn FileSystem> {
        self.disk.clone()
    }

    pub(crate) fn run_file(&self, name: &str) -> PathBuf {
        self.run().join(name)
    }

    /// Writes a file of the result of this run, whole or not at all; it takes its place with [`commit`](Self::commit).
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.disk.create_dir_all(&self.run()).map_err(|e| Error::write(&self.run(), e))?;
        write_unflushed(&*self.disk, &self.run_file(name), bytes)
    }

    /// Reads a file of the result and compares it with the manifest.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        let moved = |e: &io::Error| e.kind() == io::ErrorKind::NotFound;
        let bytes = match fs::read(self.place(name)) {
            // its own process has just put it in its place
            Err(e) if moved(&e) => fs::read(self.file(name)),
            other => other,
        };
        let bytes = bytes.map_err(|source| self.missing(name, source))?;
        if let Some(manifest) = &self.manifest {
            manifest.check_bytes(name, &self.file(name), &bytes).map_err(|e| self.replaced(e))?;
        }
        Ok(bytes)
    }

    /// What the user set: of the run that is not finished, else of the result.
    pub fn settings(&self) -> Result<Vec<u8>, Error> {
        let path = self.run_file(SETTINGS);
        match fs::read(&path) {
            Ok(bytes) => Ok(bytes),
            Err(e) if e.kind() == io::ErrorKind::NotFound => self.read(SETTINGS),
            Err(source) => Err(Error::Missing { path, source }),
        }
    }

    /// True if there is a run that has no result yet: what stands in the directory, if anything, is of another run,
    /// which it will replace.
    pub fn replaces(&self) -> bool {
        self.run_file(SETTINGS).exists()
    }

    /// True if there is a result.
    pub fn has_result(&self) -> bool {
        self.has(RECORD)
    }

    /// True if the result has this file.
    pub fn has(&self, name: &str) -> bool {
        self.place(name).exists()
    }

    /// True if there is a result with a Gaussian, and not the record alone of a run that was stopped before it had one.
    pub fn has_gaussian(&self) -> bool {
        self.has(ARRAYS)
    }

    /// A note for the user if nothing protects the files.
    pub fn note(&self) -> Option<String> {
        let unchecked = self.manifest.is_none() && self.has_result();
        unchecked.then(|| format!("{} has no {MANIFEST}, so its files are not checked", self.path.display()))
    }

    /// Makes what was written the result, in place of the earlier one. The checkpoints stay if the fit can be resumed.
    pub fn commit(&self, unfinished: bool) -> Result<(), Error> {
        let there = |name: &&str| self.run_file(name).is_file();
        let names: Vec<String> = RESULT.iter().filter(|name| there(name)).map(ToString::to_string).collect();
        let manifest = Manifest::of(&self.run(), names)?;
        let path = self.run_file(MANIFEST);
        // what the manifest lists must be on the disk before it
        self.disk.sync_directory(&self.run()).map_err(|e| Error::write(&path, e))?;
        write_on(&*self.disk, &path, &manifest.encode())?;
        self.settle(&manifest)?;
        if unfinished { self.clean(&CHECKPOINTS) } else { self.clean(&[]) }
    }

    /// Removes what a run that is done left behind.
    pub fn remove_run(&self) -> Result<(), Error> {
        self.clean(&[])
    }

    /// Ends a commit that was interrupted.
    fn recover(&self) -> Result<(), Error> {
        match Manifest::read(&self.run_file(MANIFEST), known)? {
            Some(staged) => self.settle(&staged),
            None => Ok(()),
        }
    }

    /// Moves a complete result to its place. May be interrupted at any step and begun again.
    fn settle(&self, staged: &Manifest) -> Result<(), Error> {
        let steps = || {
            let stale = RESULT.into_iter().filter(|name| !staged.lists(name));
            for name in stale.chain([REPORT]).chain(CHECKPOINTS) {
                self.disk.remove(&self.file(name))?;
            }
            for name in staged.names() {
                match self.disk.rename(&self.run_file(name), &self.file(name)) {
                    // moved before the interruption
                    Err(e) if e.kind() == io::ErrorKind::NotFound && self.file(name).exists() => {}
                    other => other?,
                }
            }
            self.disk.sync_directory(&self.path)?;
            self.disk.rename(&self.run_file(MANIFEST), &self.file(MANIFEST))?;
            // before the place that it comes from is removed
            self.disk.sync_directory(&self.path)
        };
        steps().map_err(|e| Error::write(&self.path, e))
    }

    /// Removes everything of the run but these files, and halves that writers left in the directory when they were
    /// killed.
    fn clean(&self, but: &[&str]) -> Result<(), Error> {
        let failed = |e| Error::write(&self.path, e);
        // nothing is removed at the other end of a link
        if fs::symlink_metadata(self.run()).is_ok_and(|there| !there.is_dir()) {
            return Err(Error::damaged(&self.run(), "it must be a directory, and not a link to one"));
        }
        for entry in fs::read_dir(self.run()).into_iter().flatten().flatten() {
            if !but.iter().any(|name| entry.file_name() == *name) {
                self.disk.remove(&entry.path()).map_err(failed)?;
            }
        }
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let ours = RESULT.iter().chain([&REPORT, &MANIFEST]).chain(&CHECKPOINTS);
            if is_temporary(&name) && ours.into_iter().any(|n| name[1..].starts_with(&format!("{n}."))) {
                self.disk.remove(&entry.path()).map_err(failed)?;
            }
        }
        // fails where something is kept
        let _ = self.disk.remove_dir(&self.run());
        self.disk.sync_directory(&self.path).map_err(failed)
    }

    /// A directory with other files and no fit is not overwritten.
    fn must_be_a_fit(&self) -> Result<(), Error> {
        let entries = fs::read_dir(&self.path).map_err(|e| Error::write(&self.path, e))?;
        let names: Vec<_> = entries.filter_map(|e| e.ok().map(|e| e.file_name())).collect();
        let is = |name: &std::ffi::OsString| {
            let ours = RESULT.iter().chain([&RUN, &REPORT]).chain(&CHECKPOINTS);
            ours.into_iter().any(|n| name == n)
        };
        let many = names.iter().any(|name| name == MANY);
        if many || !(names.is_empty() || names.iter().any(is)) {
            return Err(Error::NotAFit { path: self.path.clone() });
        }
        Ok(())
    }

    /// Where a file of the result is now: not yet in its place if a commit was interrupted.
    fn place(&self, name: &str) -> PathBuf {
        let staged = self.run_file(name);
        if self.run_file(MANIFEST).exists() && staged.exists() { staged } else { self.file(name) }
    }

    /// Takes the manifest of the result and compares every file with it. A result that is replaced meanwhile is read
    /// again.
    fn check(&mut self) -> Result<(), Error> {
        let mut attempts = 3;
        loop {
            self.manifest = self.current()?;
            let compared = self.manifest.as_ref().map_or(Ok(()), |manifest| self.compare(manifest));
            attempts -= 1;
            if compared.is_ok() || attempts == 0 {
                return compared;
            }
        }
    }

    fn compare(&self, manifest: &Manifest) -> Result<(), Error> {
        for name in RESULT {
            if manifest.lists(name) {
                let place = self.place(name);
                manifest.check(name, &place)?;
            } else if self.file(name).exists() && !self.run_file(MANIFEST).exists() {
                return Err(Error::changed(&self.file(name), format!("{MANIFEST} does not list it")));
            }
        }
        if manifest.lists(RECORD) {
            Ok(())
        } else {
            Err(Error::changed(&self.file(MANIFEST), "it lists no fit.json"))
        }
    }

    /// The manifest of the result as it is now.
    fn current(&self) -> Result<Option<Manifest>, Error> {
        for path in [self.run_file(MANIFEST), self.file(MANIFEST)] {
            if let Some(manifest) = Manifest::read(&path, known)? {
                return Ok(Some(manifest));
            }
        }
        #[derive(Deserialize)]
        struct Version {
            schema: u32,
        }
        let record = fs::read(self.file(RECORD)).ok();
        let version = record.and_then(|text| serde_json::from_slice::<Version>(&text).ok());
        match version {
            Some(Version { schema }) if schema >= WITH_MANIFEST => {
                let words = format!("it is missing, but every fit of schema {schema} has one");
                Err(Error::changed(&self.file(MANIFEST), words))
            }
            _ => Ok(None),
        }
    }

    /// The error for a file that cannot be read.
    fn missing(&self, name: &str, source: io::Error) -> Error {
        if source.kind() == io::ErrorKind::NotFound && self.replaces() && !self.has_result() {
            return Error::Unfinished { path: self.path.clone() };
        }
        Error::Missing { path: self.file(name), source }
    }

    /// The same error, unless the result was replaced since it was opened.
    fn replaced(&self, error: Error) -> Error {
        match self.current() {
            Ok(now) if now != self.manifest => Error::Replaced { path: self.path.clone() },
            _ => error,
        }
    }
}

/// The names that a manifest of a fit can have.
fn known(name: &str) -> bool {
    RESULT.contains(&name)
}

/// See [`crate::rewrite_manifest`].
pub(crate) fn rewrite_manifest(directory: &Path) -> Result<(), Error> {
    let there = |name: &&str| directory.join(name).is_file();
    let names: Vec<String> = RESULT.iter().filter(|name| there(name)).map(ToString::to_string).collect();
    write_atomically(&directory.join(MANIFEST), &Manifest::of(directory, names)?.encode())
}

#[cfg(test)]
mod tests;
