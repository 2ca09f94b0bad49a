//! Which file a path leads to, whatever it is called: two paths with one identity are one file.

use std::io;
use std::path::Path;

/// Device and inode; where there are none, the full path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity(Inner);

#[cfg(unix)]
type Inner = (u64, u64);
#[cfg(not(unix))]
type Inner = std::path::PathBuf;

impl Identity {
    /// Of the file or directory at the end of all links.
    #[cfg(unix)]
    pub fn of(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;

        let there = std::fs::metadata(path)?;
        Ok(Self((there.dev(), there.ino())))
    }

    /// Of the file or directory at the end of all links.
    #[cfg(not(unix))]
    pub fn of(path: &Path) -> io::Result<Self> {
        path.canonicalize().map(Self)
    }
}
