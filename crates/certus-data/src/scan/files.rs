//! Which files a path stands for, and in which format.

use std::path::{Path, PathBuf};

use crate::error::DataError;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Text with this separator and a header.
    Csv(u8),
    Parquet,
    Arrow,
}

impl Format {
    fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "csv" => Some(Self::Csv(b',')),
            "tsv" => Some(Self::Csv(b'\t')),
            "parquet" | "pq" => Some(Self::Parquet),
            "arrow" | "ipc" | "feather" => Some(Self::Arrow),
            _ => None,
        }
    }
}

/// The files behind some paths, in the order of their full names, and their common format. Directories are searched to the bottom;
/// hidden files, those whose name starts with `_`, and unknown extensions are passed over.
pub(super) fn list(paths: &[PathBuf]) -> Result<(Vec<PathBuf>, Format), DataError> {
    let mut found: Vec<(PathBuf, Format)> = Vec::new();
    for path in paths {
        let full = path.canonicalize().map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => {
                DataError::NoInput(format!("there is no file or directory {}", path.display()))
            }
            _ => DataError::Read(format!("{} can't be opened: {e}", path.display())),
        })?;
        if full.is_dir() {
            let before = found.len();
            search(&full, &mut found)?;
            if found.len() == before {
                return Err(DataError::NoInput(format!(
                    "the directory {} holds no file that ends in csv, tsv, parquet, pq, arrow, ipc or feather",
                    path.display()
                )));
            }
        } else {
            let format = Format::of(&full).ok_or_else(|| {
                DataError::Usage(format!(
                    "{} is of an unknown format: its name must end in csv, tsv, parquet, pq, arrow, ipc or feather",
                    path.display()
                ))
            })?;
            found.push((full, format));
        }
    }
    // by letters, as DataFusion sorts them, not component by component
    found.sort_by(|a, b| a.0.as_os_str().as_encoded_bytes().cmp(b.0.as_os_str().as_encoded_bytes()));
    found.dedup();
    let Some((first, format)) = found.first().cloned() else {
        return Err(DataError::Usage("no file is named".into()));
    };
    if let Some((other, _)) = found.iter().find(|(_, f)| *f != format) {
        return Err(DataError::Usage(format!(
            "{} and {} are of different formats: read one format at a time",
            first.display(),
            other.display()
        )));
    }
    Ok((found.into_iter().map(|(path, _)| path).collect(), format))
}

fn search(directory: &Path, found: &mut Vec<(PathBuf, Format)>) -> Result<(), DataError> {
    let failed = |e: std::io::Error| DataError::Read(format!("{} can't be read: {e}", directory.display()));
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let hidden = path.file_name().is_none_or(|name| matches!(name.as_encoded_bytes()[0], b'.' | b'_'));
        if hidden {
            continue;
        } else if path.is_dir() {
            search(&path, found)?;
        } else if let Some(format) = Format::of(&path) {
            found.push((path, format));
        }
    }
    Ok(())
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
