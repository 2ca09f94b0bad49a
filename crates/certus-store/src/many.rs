//! What many fits leave on disk: a manifest, a file per finished chunk, and one table of all of them at the end.
//!
//! | file | what |
//! |---|---|
//! | `many.json` | [`Manifest`]: what was asked for, and of which groups |
//! | `chunks/000017.json` | [`Chunk`]: the results of a run of groups; whole or not there |
//! | `fits.parquet` | a row per group, once every chunk is there |
//!
//! Chunks are functions of settings and data, so it does not matter which process made one, nor whether two did.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::directory::write_through;
use crate::error::Error;
use crate::grid::{Cells, Grid};

/// The manifest.
pub const MANIFEST: &str = "many.json";
/// The table of results.
pub const FITS: &str = "fits.parquet";
const CHUNKS: &str = "chunks";
const VERSION: u32 = 1;

/// What was asked for, and of which groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Of this file's form.
    pub version: u32,
    /// What the user set; only the caller reads it.
    pub settings: serde_json::Value,
    /// Tells these fits from others: settings that matter, groups and numbers of rows.
    pub fingerprint: String,
    /// The key column.
    pub by: String,
    /// Groups.
    pub groups: usize,
    /// Rows of all groups.
    pub rows: usize,
    /// Groups of a chunk.
    pub chunk: usize,
    /// Parameters whose columns come first.
    pub parameters: Vec<String>,
}

impl Manifest {
    /// The version written.
    pub const VERSION: u32 = VERSION;

    /// Number of chunks.
    pub fn chunks(&self) -> usize {
        self.groups.div_ceil(self.chunk.max(1))
    }
}

/// The key of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Key {
    /// A number.
    Number(f64),
    /// Days since 1970-01-01.
    Date(f64),
    /// A truth value.
    Boolean(bool),
    /// Text.
    Text(String),
}

/// The result of one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupResult {
    /// Its key.
    pub key: Key,
    /// Its rows.
    pub rows: u64,
    /// How it ended, in the words of `fit.json`.
    pub status: String,
    /// The bound on the gap, in nats.
    pub gap_bound: Option<f64>,
    /// proved, probable, estimated or none.
    pub gap_level: String,
    /// The negative ELBO.
    pub neg_elbo: Option<f64>,
    /// In words.
    pub message: String,
    /// Mean and sd by the chunk's names.
    pub parameters: Vec<Option<[f64; 2]>>,
}

/// The results of a run of groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    /// The manifest's fingerprint.
    pub of: String,
    /// A hash of the rows it was made of, in hexadecimal digits.
    pub data: String,
    /// Names of the parameters.
    pub names: Vec<String>,
    /// A result per group, in their order.
    pub fits: Vec<GroupResult>,
}

/// A directory of many fits.
#[derive(Debug)]
pub struct ManyDirectory {
    path: PathBuf,
    _lock: Option<File>,
}

impl ManyDirectory {
    /// Makes the directory, or goes on with one that has the same manifest. `shared` lets other processes that say so write there as well.
    /// With `overwrite` the files of other fits of this kind are removed first.
    pub fn begin(path: &Path, manifest: &Manifest, shared: bool, overwrite: bool) -> Result<Self, Error> {
        let text = serde_json::to_vec_pretty(manifest).expect("manifests are plain values");
        fs::create_dir_all(path).map_err(|e| Error::cannot_create(path, e))?;
        let directory = Self { path: path.to_path_buf(), _lock: lock(path, shared)? };
        match directory.manifest() {
            Ok(there)
                if there.fingerprint == manifest.fingerprint && there.version == VERSION && !overwrite => {}
            Ok(_) if overwrite => directory.clear()?,
            Ok(_) => return Err(Error::OtherFits { path: path.to_path_buf() }),
            Err(Error::Missing { .. }) => {
                let empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
                if !empty && !directory.only_ours() {
                    return Err(Error::NotAFit { path: path.to_path_buf() });
                }
            }
            Err(_) if overwrite => directory.clear()?,
            Err(other) => return Err(other),
        }
        let chunks = path.join(CHUNKS);
        fs::create_dir_all(&chunks).map_err(|e| Error::cannot_create(&chunks, e))?;
        if directory.manifest().is_err() {
            write_through(&path.join(MANIFEST), &text)?;
        }
        Ok(directory)
    }

    /// A directory that is there.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let directory = Self { path: path.to_path_buf(), _lock: None };
        directory.manifest()?;
        Ok(directory)
    }

    /// True if the directory holds many fits.
    pub fn is_one(path: &Path) -> bool {
        path.join(MANIFEST).is_file()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The manifest.
    pub fn manifest(&self) -> Result<Manifest, Error> {
        let path = self.path.join(MANIFEST);
        let text = fs::read(&path).map_err(|source| Error::Missing { path: path.clone(), source })?;
        serde_json::from_slice(&text).map_err(|e| Error::damaged(&path, e.to_string()))
    }

    fn chunk_path(&self, chunk: usize) -> PathBuf {
        self.path.join(CHUNKS).join(format!("{chunk:06}.json"))
    }

    /// A chunk that is there, whole and of these fits, else `None`.
    pub fn chunk(&self, manifest: &Manifest, chunk: usize) -> Option<Chunk> {
        let text = fs::read(self.chunk_path(chunk)).ok()?;
        let groups = manifest.chunk.min(manifest.groups - chunk * manifest.chunk);
        let read: Chunk = serde_json::from_slice(&text).ok()?;
        (read.of == manifest.fingerprint && read.fits.len() == groups).then_some(read)
    }

    /// Writes a chunk, whole or not at all.
    pub fn write_chunk(&self, chunk: usize, content: &Chunk) -> Result<(), Error> {
        let text = serde_json::to_vec(content).expect("chunks are plain values");
        write_through(&self.chunk_path(chunk), &text)
    }

    /// The table of all chunks, written as `fits.parquet`; the chunks that are missing if there are any. `visit` sees every result.
    pub fn collect(
        &self,
        manifest: &Manifest,
        visit: &mut dyn FnMut(&GroupResult),
    ) -> Result<Result<(), Vec<usize>>, Error> {
        let mut table = Table::new(manifest);
        let mut missing = Vec::new();
        for index in 0..manifest.chunks() {
            match self.chunk(manifest, index) {
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
        write_through(&self.path.join(FITS), &table.to_parquet(manifest)?)?;
        self.sweep();
        Ok(Ok(()))
    }

    /// The bytes of the table of these chunks, all of them in order.
    pub fn table(manifest: &Manifest, chunks: Vec<Chunk>) -> Result<Vec<u8>, Error> {
        let mut table = Table::new(manifest);
        chunks.into_iter().for_each(|chunk| table.add(chunk));
        table.to_parquet(manifest)
    }

    /// A file of the directory as JSON: the manifest, or a chunk.
    pub fn json(&self, chunk: Option<usize>) -> Result<serde_json::Value, Error> {
        let path = chunk.map_or_else(|| self.path.join(MANIFEST), |chunk| self.chunk_path(chunk));
        let text = fs::read(&path).map_err(|source| Error::Missing { path: path.clone(), source })?;
        serde_json::from_slice(&text).map_err(|e| Error::damaged(&path, e.to_string()))
    }

    /// Removes what writers that were killed left half done.
    fn sweep(&self) {
        for directory in [self.path.clone(), self.path.join(CHUNKS)] {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            let halves = entries.filter(|e| is_half(&e.file_name().to_string_lossy()));
            // whoever still writes one would do it again
            halves.for_each(|e| drop(fs::remove_file(e.path())));
        }
    }

    /// True if nothing but our own beginnings is there.
    fn only_ours(&self) -> bool {
        let mut entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        entries.all(|e| {
            let name = e.file_name().to_string_lossy().into_owned();
            name == CHUNKS || is_half(&name)
        })
    }

    /// Removes fits of this kind and nothing else; the manifest goes last.
    fn clear(&self) -> Result<(), Error> {
        let gone = |path: PathBuf, result: io::Result<()>| match result {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::write(&path, e)),
            _ => Ok(()),
        };
        let (chunks, fits, manifest) =
            (self.path.join(CHUNKS), self.path.join(FITS), self.path.join(MANIFEST));
        gone(chunks.clone(), fs::remove_dir_all(&chunks))?;
        gone(fits.clone(), fs::remove_file(&fits))?;
        gone(manifest.clone(), fs::remove_file(&manifest))
    }
}

fn is_half(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".tmp")
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

/// Results column by column.
struct Table {
    keys: Vec<Key>,
    rows: Vec<i64>,
    status: Vec<String>,
    bound: Vec<Option<f64>>,
    level: Vec<String>,
    neg_elbo: Vec<Option<f64>>,
    message: Vec<String>,
    names: Vec<String>,
    /// Mean and sd by name; shorter than the table while the last groups had none.
    parameters: Vec<Vec<Option<[f64; 2]>>>,
}

impl Table {
    fn new(manifest: &Manifest) -> Self {
        Self {
            keys: Vec::new(),
            rows: Vec::new(),
            status: Vec::new(),
            bound: Vec::new(),
            level: Vec::new(),
            neg_elbo: Vec::new(),
            message: Vec::new(),
            names: manifest.parameters.clone(),
            parameters: vec![Vec::new(); manifest.parameters.len()],
        }
    }

    fn add(&mut self, chunk: Chunk) {
        let place = |name: &String| {
            let known = self.names.iter().position(|n| n == name);
            known.unwrap_or_else(|| {
                self.names.push(name.clone());
                self.parameters.push(Vec::new());
                self.names.len() - 1
            })
        };
        let places: Vec<usize> = chunk.names.iter().map(place).collect();
        for fit in chunk.fits {
            for (place, value) in places.iter().zip(&fit.parameters) {
                let column = &mut self.parameters[*place];
                column.resize(self.keys.len(), None);
                column.push(*value);
            }
            self.keys.push(fit.key);
            self.rows.push(fit.rows as i64);
            self.status.push(fit.status);
            self.bound.push(fit.gap_bound);
            self.level.push(fit.gap_level);
            self.neg_elbo.push(fit.neg_elbo);
            self.message.push(fit.message);
        }
    }

    fn to_parquet(&self, manifest: &Manifest) -> Result<Vec<u8>, Error> {
        let n = self.keys.len();
        let mut columns: Vec<(String, Cells)> = vec![
            ("key".into(), key_cells(&self.keys)),
            ("rows".into(), Cells::Whole(self.rows.clone())),
            ("status".into(), Cells::Text(self.status.clone())),
            ("gap_bound".into(), Cells::Number(self.bound.clone())),
            ("gap_level".into(), Cells::Text(self.level.clone())),
            ("neg_elbo".into(), Cells::Number(self.neg_elbo.clone())),
            ("message".into(), Cells::Text(self.message.clone())),
        ];
        for (name, values) in self.names.iter().zip(&self.parameters) {
            for (k, what) in ["mean", "sd"].into_iter().enumerate() {
                let cell = |i: usize| values.get(i).copied().flatten().map(|pair| pair[k]);
                columns.push((format!("{what}_{name}"), Cells::Number((0..n).map(cell).collect())));
            }
        }
        let comment = format!("posteriors by {} of certus, a row per group", manifest.by);
        Grid { columns: &columns, comment: &comment }.to_parquet()
    }
}

/// Whole numbers and whole days as such, so that the table can be joined with the data.
fn key_cells(keys: &[Key]) -> Cells {
    let all = |holds: &dyn Fn(&Key) -> bool| keys.iter().all(holds);
    let number = |key: &Key| match key {
        Key::Number(x) | Key::Date(x) => *x,
        Key::Boolean(b) => f64::from(u8::from(*b)),
        Key::Text(_) => f64::NAN,
    };
    if all(&|k| matches!(k, Key::Number(x) if x.fract() == 0.0 && x.abs() < 9e15)) {
        Cells::Whole(keys.iter().map(|k| number(k) as i64).collect())
    } else if all(&|k| matches!(k, Key::Number(_))) {
        Cells::Number(keys.iter().map(|k| Some(number(k))).collect())
    } else if all(&|k| matches!(k, Key::Date(x) if x.fract() == 0.0 && x.abs() < 1e9)) {
        Cells::Date(keys.iter().map(|k| number(k) as i32).collect())
    } else {
        let label = |key: &Key| match key {
            Key::Text(text) => text.clone(),
            Key::Boolean(b) => b.to_string(),
            // days with a fraction
            Key::Number(x) | Key::Date(x) => x.to_string(),
        };
        Cells::Text(keys.iter().map(label).collect())
    }
}
