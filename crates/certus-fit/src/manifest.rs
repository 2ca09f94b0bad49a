//! `manifest.json`: length and SHA-256 of every file of a result, written last, so that a result is whole and unchanged
//! or refused.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::Error;

/// The name of the file.
pub const MANIFEST: &str = "manifest.json";
/// What tells many fits from one.
pub(crate) const MANY: &str = "many.json";
const VERSION: u32 = 1;

/// Length and SHA-256 of every file of a result, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    version: u32,
    files: BTreeMap<String, Entry>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Its length.
    bytes: u64,
    /// Its SHA-256, in hexadecimal digits.
    sha256: String,
}

impl Manifest {
    /// The manifest of files of a directory.
    pub(crate) fn of(directory: &Path, names: impl IntoIterator<Item = String>) -> Result<Self, Error> {
        let mut files = BTreeMap::new();
        for name in names {
            let path = directory.join(&name);
            let entry = Entry::of(&path).map_err(|source| Error::Missing { path, source })?;
            files.insert(name, entry);
        }
        Ok(Self { version: VERSION, files })
    }

    /// The text of `manifest.json`.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("manifests are plain values");
        text.push(b'\n');
        text
    }

    /// Reads a manifest; `None` if there is none. `known` says which names a manifest of this kind can have.
    pub(crate) fn read(path: &Path, known: impl Fn(&str) -> bool) -> Result<Option<Self>, Error> {
        let text = match fs::metadata(path)
            .and_then(|there| if there.is_file() { fs::read(path) } else { Ok(Vec::new()) })
        {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::Missing { path: path.to_path_buf(), source }),
        };
        let manifest: Self =
            serde_json::from_slice(&text).map_err(|e| Error::changed(path, e.to_string()))?;
        if manifest.version != VERSION {
            let words =
                format!("it has version {}, but this program reads version {VERSION}", manifest.version);
            return Err(Error::changed(path, words));
        }
        // a name that leads elsewhere is never opened
        match manifest.files.keys().find(|name| !known(name)) {
            Some(name) => {
                Err(Error::changed(path, format!("it lists '{name}', which is not a file of a result")))
            }
            None => Ok(Some(manifest)),
        }
    }

    /// The files it lists.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// True if it lists this file.
    pub(crate) fn lists(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    /// An error unless the file is the one it lists under this name.
    pub(crate) fn check(&self, name: &str, path: &Path) -> Result<(), Error> {
        let there = fs::metadata(path).map_err(|e| missing(path, &e))?;
        if !there.is_file() {
            return Err(Error::changed(path, "it is not a regular file"));
        }
        let wanted = self.entry(name, path)?;
        // what is endless or huge is not read
        if there.len() != wanted.bytes {
            return Err(length(path, there.len(), wanted.bytes));
        }
        let found = Entry::of(path).map_err(|e| missing(path, &e))?;
        wanted.compare(&found, path)
    }

    /// The same of bytes that were read from it.
    pub(crate) fn check_bytes(&self, name: &str, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        let found = Entry { bytes: bytes.len() as u64, sha256: hex(&Sha256::digest(bytes)) };
        self.entry(name, path)?.compare(&found, path)
    }

    fn entry(&self, name: &str, path: &Path) -> Result<&Entry, Error> {
        self.files.get(name).ok_or_else(|| Error::changed(path, format!("{MANIFEST} does not list it")))
    }
}

impl Entry {
    fn of(path: &Path) -> io::Result<Self> {
        let (mut file, mut hash, mut bytes) = (File::open(path)?, Sha256::new(), 0);
        let mut buffer = vec![0; 1 << 16];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(Self { bytes, sha256: hex(&hash.finalize()) }),
                n => {
                    hash.update(&buffer[..n]);
                    bytes += n as u64;
                }
            }
        }
    }

    fn compare(&self, found: &Self, path: &Path) -> Result<(), Error> {
        if found.bytes != self.bytes {
            return Err(length(path, found.bytes, self.bytes));
        }
        if found.sha256 != self.sha256 {
            return Err(Error::changed(path, format!("its SHA-256 is not the one in {MANIFEST}")));
        }
        Ok(())
    }
}

fn length(path: &Path, found: u64, wanted: u64) -> Error {
    Error::changed(path, format!("it has {found} bytes, but {wanted} in {MANIFEST}"))
}

fn missing(path: &Path, error: &io::Error) -> Error {
    Error::changed(path, format!("{MANIFEST} lists it, but it cannot be read ({error})"))
}

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
