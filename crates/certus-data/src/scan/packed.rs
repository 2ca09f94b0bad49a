//! Files compressed by gzip: unpacked into a directory of their own, which is removed when they have been read.

use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::files::{opened, short};
use crate::error::{DataError, FileError};

/// Bytes that are unpacked at a time.
const PIECE: usize = 1 << 16;

/// Unpacked files; they exist as long as this does.
pub(super) struct Unpacked {
    directory: PathBuf,
    /// In the order of the packed ones, also by name.
    pub(super) files: Vec<PathBuf>,
}

impl Unpacked {
    /// Unpacks files into a new directory within the system's directory for temporary files.
    pub(super) fn new(packed: &[PathBuf]) -> Result<Self, DataError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("certus-unpacked-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let temporary = std::env::temp_dir();
        let directory = temporary.join(name);
        let failed = |file: &Path, source| FileError::Unpack {
            name: short(file),
            directory: temporary.clone(),
            source,
        };
        let Some(first) = packed.first() else { return Err(FileError::NoFile.into()) };
        private().create(&directory).map_err(|e| failed(first, e))?;
        // from here on, an error removes the directory
        let mut own = Self { directory, files: Vec::with_capacity(packed.len()) };
        for (k, file) in packed.iter().enumerate() {
            let to = own.directory.join(format!("{k:08}.csv"));
            let mut out = File::create(&to).map_err(|e| failed(file, e))?;
            let mut from = opened(file, true)
                .map_err(|e| FileError::Read { name: short(file), reason: e.to_string() })?;
            let mut piece = vec![0; PIECE];
            loop {
                let bytes = match from.read(&mut piece) {
                    Ok(0) => break,
                    Ok(bytes) => bytes,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                    Err(e) => return Err(not_gzip(short(file), &e).into()),
                };
                out.write_all(&piece[..bytes]).map_err(|e| failed(file, e))?;
            }
            own.files.push(to);
        }
        Ok(own)
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.directory).ok();
    }
}

/// A file whose name ends in gz and which cannot be unpacked.
fn not_gzip(name: String, error: &io::Error) -> FileError {
    let reason =
        format!("{error}; a name that ends in gz requires a complete gzip file (test it: gzip -t {name})");
    FileError::Damaged { name, reason }
}

/// Makes directories that nobody else may read.
fn private() -> DirBuilder {
    #[cfg_attr(not(unix), allow(unused_mut))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}
