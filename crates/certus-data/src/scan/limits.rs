//! Limits on what a file may ask of the reader, and decoders that fail kept from taking the program with them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::error::{DataError, FileError};

/// What a reader may take. A file beyond a limit is bad data, named with the limit; nothing of it is used.
///
/// Memory and patience bind a reader in a process of its own (`certus __read`); columns and cells bind every reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Address space of the process that decodes a file without a query, in bytes, beside `memory_per_byte`.
    pub memory: u64,
    /// The same for each byte of the files: row groups are decoded as a whole, and compressed ones grow.
    pub memory_per_byte: u64,
    /// Address space of the process where a query is asked, which may join and sort, instead of `memory`.
    pub query_memory: u64,
    /// How long the process may be silent, beside `patience_per_mebibyte`. Queries and pipes may be silent for ever:
    /// `--max-time` ends them.
    pub patience: Duration,
    /// The same for each MiB of the files.
    pub patience_per_mebibyte: Duration,
    /// Columns of a file.
    pub columns: usize,
    /// Bytes of a cell of text.
    pub cell: usize,
}

impl Default for ReadLimits {
    /// 768 MiB and 64 bytes for each of the files (8 GiB with a query), 60 s and 1 s for each MiB, 100,000 columns,
    /// cells of 1 MiB.
    fn default() -> Self {
        Self {
            memory: 768 << 20,
            memory_per_byte: 64,
            query_memory: 8 << 30,
            patience: Duration::from_secs(60),
            patience_per_mebibyte: Duration::from_secs(1),
            columns: 100_000,
            cell: 1 << 20,
        }
    }
}

impl ReadLimits {
    /// Address space for files of so many bytes together.
    pub fn memory_for(&self, bytes: u64, query: bool) -> u64 {
        let own = if query { self.query_memory } else { self.memory };
        own.saturating_add(bytes.saturating_mul(self.memory_per_byte))
    }

    /// How long the reader of files of so many bytes may be silent.
    pub fn patience_for(&self, bytes: u64) -> Duration {
        let mebibytes = u32::try_from(bytes >> 20).unwrap_or(u32::MAX);
        self.patience.saturating_add(self.patience_per_mebibyte.saturating_mul(mebibytes))
    }

    /// Refuses a file with too many columns.
    pub(super) fn check_columns(&self, name: &str, columns: usize) -> Result<(), DataError> {
        let too_many = || FileError::TooLarge {
            name: name.into(),
            reason: format!("it has {columns} columns, but {} are the most that are read", self.columns),
        };
        if columns <= self.columns { Ok(()) } else { Err(too_many().into()) }
    }

    /// Refuses a cell of too much text; `place` is its row in words.
    pub(super) fn check_cell(
        &self,
        text: &str,
        name: &str,
        place: impl Fn() -> String,
    ) -> Result<(), DataError> {
        let too_long = || FileError::TooLarge {
            name: place(),
            reason: format!(
                "its cell of column '{name}' has {} bytes, but {} are the most of a text: a quote may not be closed",
                text.len(),
                self.cell
            ),
        };
        if text.len() <= self.cell { Ok(()) } else { Err(too_long().into()) }
    }
}

/// The result of a decoder; if it panics, the file it reads is damaged.
pub(super) fn guarded<T>(name: &str, decode: impl FnOnce() -> Result<T, DataError>) -> Result<T, DataError> {
    // nothing that it was working on is used again
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|panic| Err(failed(name, &*panic)))
}

/// The error of a decoder that panicked.
pub(super) fn failed(name: &str, panic: &(dyn Any + Send)) -> DataError {
    let words = panic.downcast_ref::<&str>().map(ToString::to_string);
    let words = words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    let first = words.lines().next().unwrap_or_default();
    FileError::Damaged { name: name.into(), reason: format!("its decoder failed ({first})") }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn limits_grow_with_files_and_never_overflow() {
        let limits = ReadLimits::default();
        assert_eq!(limits.memory_for(0, false), 768 << 20);
        assert!(limits.memory_for(507, false) < 1 << 30, "a small file can't take a gigabyte");
        assert_eq!(limits.memory_for(u64::MAX, true), u64::MAX);
        assert_eq!(limits.patience_for(3 << 20), Duration::from_secs(63));
        assert!(limits.patience_for(u64::MAX) > Duration::from_secs(1 << 30));
    }

    #[test]
    fn a_panic_of_a_decoder_is_bad_data() {
        let error =
            guarded("a.arrow", || -> Result<(), DataError> { panic!("index {} of 3", 7) }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Data);
        assert_eq!(error.to_string(), "a.arrow can't be read: its decoder failed (index 7 of 3)");
    }
}
