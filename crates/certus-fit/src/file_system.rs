//! What this crate does to files, apart from reading them: a trait, so that tests can let any of it fail, or let the
//! machine stop after it.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// A file that is being written.
pub(crate) trait NewFile: Write {
    /// Flushes what was written to the disk.
    fn sync(&mut self) -> io::Result<()>;
}

/// Changes of files and directories. Names are durable once their directory was flushed, bytes once their file was.
pub(crate) trait FileSystem: fmt::Debug + Send + Sync {
    /// Makes a file at which nothing may exist, not even a link.
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>>;
    /// Gives a file or directory another name, in place of the file that had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name, which nothing may have.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file or a link.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes a directory.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Flushes the names in a directory. Only Unix can open a directory for that, and some network file systems refuse
    /// to flush one.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// Makes a directory and those above it.
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        if path.as_os_str().is_empty() || path.is_dir() {
            return Ok(());
        }
        path.parent().map_or(Ok(()), |parent| self.create_dir_all(parent))?;
        match self.create_dir(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            other => other,
        }
    }

    /// Removes a directory with all that is in it; links are removed and not followed.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let directory = entry.file_type()?.is_dir();
            if directory { self.remove_dir_all(&entry.path()) } else { self.remove_file(&entry.path()) }?;
        }
        self.remove_dir(path)
    }

    /// Removes a file that may not exist.
    fn remove(&self, path: &Path) -> io::Result<()> {
        match self.remove_file(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

/// The disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Disk;

impl NewFile for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

impl FileSystem for Disk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        Ok(Box::new(File::create_new(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        if !cfg!(unix) {
            return Ok(());
        }
        match File::open(path)?.sync_all() {
            Err(e) if matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
            other => other,
        }
    }

    // safe against links that are laid meanwhile
    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }
}

#[cfg(test)]
pub(crate) mod simulated;
