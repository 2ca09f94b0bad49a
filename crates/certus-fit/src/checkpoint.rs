//! Checkpoints: two generations of a saved state, of which at least one is always whole.
//!
//! A file is a header of 104 bytes and the state. All numbers are little-endian.
//!
//! | bytes | what |
//! |---|---|
//! | 0..16 | `certus.checkpoin` |
//! | 16..20 | version, 1 |
//! | 20..24 | [`Kind`] |
//! | 24..32 | generation, from 1 |
//! | 32..40 | length of the state |
//! | 40..72 | [`Fingerprint`] of the fit: settings and data |
//! | 72..104 | SHA-256 of the 72 bytes before and of the state |
//!
//! Generation g is written to `checkpoint.(g mod 2)`, so the newest one is never touched while its successor is
//! written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::atomic::write_on;
use crate::directory::{CHECKPOINTS, FitDirectory};
use crate::error::Error;
use crate::file_system::FileSystem;

const MAGIC: &[u8; 16] = b"certus.checkpoin";
const VERSION: u32 = 1;
const SUMMED: usize = 72;
const HEADER: usize = 104;

/// Whose state it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `certus::State`, a run with settings.
    Plan,
    /// `certus::auto::AutoState`, a black box without settings.
    Auto,
    /// `certus_models::auto::ModelState`.
    Model,
    /// `certus_mixed::Journal`.
    Scales,
}

impl Kind {
    const ALL: [(Kind, u32); 4] = [(Kind::Plan, 1), (Kind::Auto, 2), (Kind::Model, 3), (Kind::Scales, 4)];

    fn code(self) -> u32 {
        Self::ALL.iter().find(|k| k.0 == self).map_or(0, |k| k.1)
    }
}

/// SHA-256 of whatever decides a fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Of several parts; ("ab", "c") and ("a", "bc") differ.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A checkpoint that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Whose state it is.
    pub kind: Kind,
    /// Counts up by one with every checkpoint.
    pub generation: u64,
    /// Of the fit it belongs to.
    pub fingerprint: Fingerprint,
    /// The saved state.
    pub state: Vec<u8>,
}

impl Checkpoint {
    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.kind.code().to_le_bytes());
        bytes.extend(self.generation.to_le_bytes());
        bytes.extend((self.state.len() as u64).to_le_bytes());
        bytes.extend(self.fingerprint.0);
        let sum = check_sum(&bytes, &self.state);
        bytes.extend(sum);
        bytes.extend(&self.state);
        bytes
    }

    /// Reads what [`encode`](Self::encode) made. For anything else the error says what is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let (header, state) = bytes.split_at_checked(HEADER).ok_or("it ends within its header")?;
        let word = |at: usize| header[at..at + 4].try_into().map(u32::from_le_bytes).expect("four bytes");
        let long = |at: usize| header[at..at + 8].try_into().map(u64::from_le_bytes).expect("eight bytes");
        if !header.starts_with(MAGIC) {
            return Err("it does not start with the magic word");
        }
        if word(16) != VERSION {
            return Err("it was written by another version");
        }
        if long(32) != state.len() as u64 {
            return Err("its length is not the one in its header");
        }
        if header[SUMMED..] != check_sum(&header[..SUMMED], state) {
            return Err("its checksum is wrong");
        }
        let kind = Kind::ALL.iter().find(|k| k.1 == word(20)).ok_or("its kind is unknown")?.0;
        let fingerprint = Fingerprint(header[40..SUMMED].try_into().expect("32 bytes"));
        Ok(Self { kind, generation: long(24), fingerprint, state: state.to_vec() })
    }
}

fn check_sum(header: &[u8], state: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(header).chain_update(state).finalize().into()
}

/// The newest checkpoint, and what was wrong with a newer one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latest {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// A note for the user if a generation was damaged or belongs to another fit.
    pub note: Option<String>,
}

/// The checkpoints of one fit in one directory.
#[derive(Debug)]
pub struct Checkpoints {
    path: PathBuf,
    disk: Arc<dyn FileSystem>,
    kind: Kind,
    fingerprint: Fingerprint,
    /// Of the newest one that is whole.
    generation: u64,
}

impl Checkpoints {
    /// For a fit with this fingerprint. Continues counting from the newest checkpoint of that fit.
    pub fn new(directory: &FitDirectory, kind: Kind, fingerprint: Fingerprint) -> Self {
        let mut checkpoints =
            Self { path: directory.run(), disk: directory.disk(), kind, fingerprint, generation: 0 };
        checkpoints.generation = checkpoints.latest().map_or(0, |latest| latest.checkpoint.generation);
        checkpoints
    }

    /// Saves a state as the next generation.
    pub fn write(&mut self, state: &[u8]) -> Result<(), Error> {
        let (path, generation) = (self.next(), self.generation + 1);
        let (kind, fingerprint) = (self.kind, self.fingerprint);
        let bytes = Checkpoint { kind, generation, fingerprint, state: state.to_vec() }.encode();
        self.disk.create_dir_all(&self.path).map_err(|source| Error::write(&path, source))?;
        write_on(&*self.disk, &path, &bytes)?;
        self.generation = generation;
        Ok(())
    }

    fn next(&self) -> PathBuf {
        self.path.join(CHECKPOINTS[((self.generation + 1) % 2) as usize])
    }

    /// The newest whole checkpoint of this fit.
    pub fn latest(&self) -> Result<Latest, Error> {
        let (mut best, mut notes, mut foreign, mut damaged) = (None::<Checkpoint>, Vec::new(), None, None);
        for name in CHECKPOINTS {
            let path = self.path.join(name);
            let bytes = match fs::read(&path) {
                Ok(bytes) => bytes,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => {
                    notes.push(format!("{name} cannot be read: {source}"));
                    damaged = Some(Error::Missing { path, source });
                    continue;
                }
            };
            match Checkpoint::decode(&bytes) {
                Err(reason) => {
                    notes.push(format!("{name} is damaged ({reason})"));
                    damaged = Some(Error::damaged(&path, reason));
                }
                Ok(c) if c.fingerprint != self.fingerprint || c.kind != self.kind => {
                    notes.push(format!("{name} belongs to another fit"));
                    foreign = Some(Error::AnotherFit { path });
                }
                Ok(c) if best.as_ref().is_none_or(|b| b.generation < c.generation) => best = Some(c),
                Ok(_) => {}
            }
        }
        match best {
            Some(checkpoint) => {
                let note = (!notes.is_empty())
                    .then(|| format!("{}; resuming from the other one", notes.join(" and ")));
                Ok(Latest { checkpoint, note })
            }
            None => Err(foreign.or(damaged).unwrap_or_else(|| none_there(&self.path))),
        }
    }
}

fn none_there(path: &Path) -> Error {
    let source = io::Error::new(io::ErrorKind::NotFound, "there is no checkpoint");
    Error::Missing { path: path.join(CHECKPOINTS[0]), source }
}

/// Says when the next checkpoint is due. A clock decides when a state is saved, never what is in it.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    every: Duration,
    last: Instant,
}

impl Timer {
    /// Due for the first time after `every`.
    pub fn new(every: Duration) -> Self {
        Self { every, last: Instant::now() }
    }

    /// True once `every` has passed since the last [`reset`](Self::reset).
    pub fn due(&self) -> bool {
        self.last.elapsed() >= self.every
    }

    /// To be called when a checkpoint is on the disk, so that a slow disk does not make a run write all the time.
    pub fn reset(&mut self) {
        self.last = Instant::now();
    }
}

#[cfg(test)]
mod tests;
