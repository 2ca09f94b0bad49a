//! Which files a path stands for, and in which format.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use crate::error::{DataError, FileError};
use crate::identity::Identity;

/// In the order in which they are preferred.
const SEPARATORS: [u8; 3] = [b',', b';', b'\t'];
/// Bytes of a first line that are looked at.
const FIRST_LINE: u64 = 1 << 20;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Text with a header.
    Csv {
        /// Between cells.
        separator: u8,
        /// True if it is compressed by gzip.
        packed: bool,
    },
    Parquet,
    Arrow,
}

impl Format {
    /// Of a file that is named; in a directory, a text is more likely to be about the data.
    fn of_named(path: &Path) -> Option<Self> {
        match extension(path)? {
            (packed, text) if text == "txt" => Some(Self::Csv { separator: separator(path, packed), packed }),
            _ => Self::of(path),
        }
    }

    fn of(path: &Path) -> Option<Self> {
        let (packed, extension) = extension(path)?;
        match extension.as_str() {
            "csv" => Some(Self::Csv { separator: separator(path, packed), packed }),
            "tsv" => Some(Self::Csv { separator: b'\t', packed }),
            "parquet" | "pq" if !packed => Some(Self::Parquet),
            "arrow" | "ipc" | "feather" if !packed => Some(Self::Arrow),
            _ => None,
        }
    }
}

/// The ending of a name in lower case, without `.gz`, and whether that was there.
fn extension(path: &Path) -> Option<(bool, String)> {
    let last = |path: &Path| Some(path.extension()?.to_str()?.to_ascii_lowercase());
    match last(path)?.as_str() {
        "gz" => Some((true, last(Path::new(path.file_stem()?))?)),
        own => Some((false, own.to_string())),
    }
}

/// The contents of a file, unpacked if it is `packed`.
pub(super) fn opened(path: &Path, packed: bool) -> io::Result<Box<dyn Read>> {
    let file = File::open(path)?;
    Ok(if packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) })
}

/// The separator of a file of text: of comma, semicolon and tab the one that its first line has most of, outside
/// quotes; a comma if it has none. What cannot be read is reported when it is opened.
fn separator(path: &Path, packed: bool) -> u8 {
    let mut line = Vec::new();
    if let Ok(file) = opened(path, packed) {
        let _ = BufReader::new(file.take(FIRST_LINE)).read_until(b'\n', &mut line);
    }
    let (mut quoted, mut counts) = (false, [0_usize; 3]);
    for byte in line {
        quoted ^= byte == b'"';
        if let Some(k) = SEPARATORS.iter().position(|s| *s == byte).filter(|_| !quoted) {
            counts[k] += 1;
        }
    }
    let most = counts.iter().max().copied().unwrap_or(0);
    SEPARATORS[counts.iter().position(|count| *count == most).unwrap_or(0)]
}

/// The files behind some paths.
pub(super) struct Listed {
    /// In the order of their full names.
    pub files: Vec<PathBuf>,
    /// Of all of them.
    pub format: Format,
    /// True if a path was that of a directory.
    pub searched: bool,
}

/// The files behind some paths, each once. Directories are searched to the bottom; hidden files, those whose name
/// starts with `_`, and unknown extensions are passed over.
pub(super) fn list(paths: &[PathBuf]) -> Result<Listed, DataError> {
    let mut search = Search::default();
    let mut searched = false;
    for path in paths {
        let full = path.canonicalize().map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => FileError::NotFound { path: path.clone() },
            _ => FileError::Open { path: path.clone(), source: e },
        })?;
        if full.is_dir() {
            searched = true;
            let before = search.found.len();
            search.directory(&full)?;
            search.links()?;
            if search.found.len() == before && !search.passed {
                return Err(FileError::EmptyDirectory { path: path.clone() }.into());
            }
        } else {
            let format =
                Format::of_named(&full).ok_or_else(|| FileError::UnknownFormat { path: path.clone() })?;
            search.file(full, format)?;
        }
    }
    let mut found = search.found;
    // by letters, as DataFusion sorts them, not component by component
    found.sort_by(|a, b| a.0.as_os_str().as_encoded_bytes().cmp(b.0.as_os_str().as_encoded_bytes()));
    let Some((first, format)) = found.first().cloned() else {
        return Err(FileError::NoFile.into());
    };
    if let Some((other, _)) = found.iter().find(|(_, f)| *f != format) {
        return Err(FileError::TwoFormats { first, other: other.clone() }.into());
    }
    Ok(Listed { files: found.into_iter().map(|(path, _)| path).collect(), format, searched })
}

/// What a search has found. A file or directory with several names is taken once: under the first of its own names, and
/// under that of a link only if it lies nowhere else.
#[derive(Default)]
struct Search {
    found: Vec<(PathBuf, Format)>,
    /// Files and directories that were seen.
    seen: BTreeSet<Identity>,
    /// Links that wait until everything that is no link was seen.
    links: BTreeSet<PathBuf>,
    /// True if something was passed over because it had been seen.
    passed: bool,
}

impl Search {
    /// True for what was not seen before.
    fn is_new(&mut self, path: &Path) -> Result<bool, DataError> {
        let identity =
            Identity::of(path).map_err(|source| FileError::Open { path: path.to_path_buf(), source })?;
        let new = self.seen.insert(identity);
        self.passed |= !new;
        Ok(new)
    }

    fn file(&mut self, path: PathBuf, format: Format) -> Result<(), DataError> {
        if self.is_new(&path)? {
            self.found.push((path, format));
        }
        Ok(())
    }

    fn directory(&mut self, directory: &Path) -> Result<(), DataError> {
        if !self.is_new(directory)? {
            return Ok(());
        }
        let failed = |e: std::io::Error| FileError::Read {
            name: directory.display().to_string(),
            reason: e.to_string(),
        };
        let entries = std::fs::read_dir(directory).map_err(failed)?;
        let mut entries = entries.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        // which of two names of a file comes first must not depend on the file system
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let kind = entry.file_type().map_err(failed)?;
            let hidden =
                path.file_name().is_none_or(|name| matches!(name.as_encoded_bytes()[0], b'.' | b'_'));
            if hidden {
                continue;
            } else if kind.is_symlink() {
                self.links.insert(path);
            } else if kind.is_dir() {
                self.directory(&path)?;
            } else if let Some(format) = Format::of(&path) {
                self.file(path, format)?;
            }
        }
        Ok(())
    }

    /// Links, the first name first, with those that are found on the way.
    fn links(&mut self) -> Result<(), DataError> {
        while let Some(path) = self.links.pop_first() {
            if path.is_dir() {
                self.directory(&path)?;
            } else if let Some(format) = Format::of(&path) {
                self.file(path, format)?;
            }
        }
        Ok(())
    }
}

/// A path as the URL of a file, every unusual byte escaped, so that none is taken for a pattern.
pub(super) fn url(path: &Path) -> String {
    let mut url = String::from("file://");
    for &byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => url.push(char::from(byte)),
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

/// The name of a file as messages show it.
pub(super) fn short(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}
