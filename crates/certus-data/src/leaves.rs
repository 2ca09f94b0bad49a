//! Encoded rows in leaves: in memory up to a budget, beyond it in a file without a name, from which any leaf can be
//! read again.
//!
//! DIFFERENCE: design.md streams files anew on every pass. Models ask for leaves from several threads and, by group, in
//! any order; a scratch file of plain numbers answers that at the speed of the disk, while a scan would decode the file
//! again up to each leaf.

use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use certus_models::error::InvalidData;
use certus_models::rows::{Block, LEAF, Leaf, Rows};
use certus_models::{Error, Ranks};

use crate::error::{DataError, FileError};

/// How much memory encoded rows may take, and where the rest goes.
#[derive(Clone, Debug)]
pub struct Storage {
    /// Bytes kept in memory.
    pub memory: usize,
    /// Directory of the scratch file; the system's if `None`.
    pub directory: Option<PathBuf>,
    /// Processes that share the rows: each reads all of the data and keeps the leaves of its rank.
    pub ranks: Option<Arc<dyn Ranks>>,
    /// Once it is true, no leaf can be read any more ([`Error::Stopped`]), so that every pass over the rows ends at its
    /// next leaf. Not for rows that are spread: ranks must stop together.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Default for Storage {
    /// 384 MiB.
    fn default() -> Self {
        Self { memory: 384 << 20, directory: None, ranks: None, stop: None }
    }
}

/// Which of the columns of a leaf behind the features are there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extras {
    pub(crate) response: bool,
    pub(crate) trials: bool,
    pub(crate) offset: bool,
    pub(crate) weight: bool,
}

impl Extras {
    pub(crate) fn count(self) -> usize {
        [self.response, self.trials, self.offset, self.weight].into_iter().filter(|x| *x).count()
    }
}

/// Takes rows and cuts them into leaves.
pub(crate) struct Writer {
    width: usize,
    buffer: Vec<f64>,
    filled: usize,
    budget: usize,
    directory: PathBuf,
    memory: Vec<Vec<f64>>,
    spilled: Option<File>,
    rows: usize,
    /// The leaves to keep.
    own: Range<usize>,
    ranks: Option<Arc<dyn Ranks>>,
    stop: Option<Arc<AtomicBool>>,
}

impl Writer {
    pub(crate) fn new(width: usize, storage: &Storage) -> Self {
        Self {
            width,
            buffer: vec![0.0; width * LEAF],
            filled: 0,
            budget: storage.memory / (8 * LEAF * width.max(1)),
            directory: storage.directory.clone().unwrap_or_else(std::env::temp_dir),
            memory: Vec::new(),
            spilled: None,
            rows: 0,
            own: 0..usize::MAX,
            ranks: None,
            stop: storage.stop.clone(),
        }
    }

    /// Keeps the leaves of this rank only, of `rows` rows in all.
    pub(crate) fn spread(mut self, rows: usize, ranks: Option<Arc<dyn Ranks>>) -> Self {
        if let Some(ranks) = &ranks {
            let bounds = ranks.manifest(rows.div_ceil(LEAF));
            self.own = bounds[ranks.rank()]..bounds[ranks.rank() + 1];
        }
        Self { ranks, ..self }
    }

    /// Appends rows `0..count`, given column by column.
    pub(crate) fn push(&mut self, columns: &[Vec<f64>], count: usize) -> Result<(), DataError> {
        debug_assert_eq!(columns.len(), self.width);
        let mut done = 0;
        while done < count {
            let take = (LEAF - self.filled).min(count - done);
            let kept = self.own.contains(&(self.rows / LEAF));
            for (c, column) in columns.iter().enumerate().filter(|_| kept) {
                self.buffer[c * LEAF + self.filled..][..take].copy_from_slice(&column[done..done + take]);
            }
            (self.filled, self.rows, done) = (self.filled + take, self.rows + take, done + take);
            if self.filled == LEAF {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DataError> {
        let n = std::mem::take(&mut self.filled);
        if n == 0 || !self.own.contains(&((self.rows - n) / LEAF)) {
            return Ok(());
        }
        let leaf: Vec<f64> =
            self.buffer.chunks_exact(LEAF).flat_map(|column| &column[..n]).copied().collect();
        if self.memory.len() < self.budget {
            self.memory.push(leaf);
            return Ok(());
        }
        let failed = |source| FileError::Scratch { directory: self.directory.clone(), source };
        let bytes: Vec<u8> = leaf.iter().flat_map(|x| x.to_le_bytes()).collect();
        if self.spilled.is_none() {
            self.spilled = Some(scratch(&self.directory).map_err(failed)?);
        }
        let file = self.spilled.as_mut().expect("made above");
        Ok(file.write_all(&bytes).map_err(failed)?)
    }

    pub(crate) fn finish(mut self, extras: Extras) -> Result<Leaves, DataError> {
        self.flush()?;
        Ok(Leaves {
            rows: self.rows,
            width: self.width,
            kept: (0..self.width - extras.count()).collect(),
            extras,
            memory: self.memory,
            spilled: self.spilled,
            own: self.own,
            ranks: self.ranks,
            stop: self.stop,
        })
    }
}

/// A new file that nobody else can name: it is unlinked at once (where the system allows it) and gone when it is
/// closed.
fn scratch(directory: &std::path::Path) -> std::io::Result<File> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("certus-rows-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = directory.join(name);
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path).ok();
    Ok(file)
}

/// Encoded rows: per leaf, column after column, the features and then response, trials, offset and weight, as far as
/// they are there.
#[derive(Debug)]
pub(crate) struct Leaves {
    rows: usize,
    width: usize,
    kept: Vec<usize>,
    extras: Extras,
    memory: Vec<Vec<f64>>,
    spilled: Option<File>,
    /// The leaves that are here.
    own: Range<usize>,
    ranks: Option<Arc<dyn Ranks>>,
    stop: Option<Arc<AtomicBool>>,
}

impl Leaves {
    /// Without some features: leaves in memory are closed up, those in the file are skipped over when read.
    pub(crate) fn without(mut self, features: &[usize]) -> Self {
        let rows = self.rows;
        for (index, leaf) in self.memory.iter_mut().enumerate() {
            let n = LEAF.min(rows - (self.own.start + index) * LEAF);
            let mut entry = 0..;
            leaf.retain(|_| !features.contains(&(entry.next().expect("endless") / n)));
        }
        let mut place = 0..;
        self.kept.retain(|_| !features.contains(&place.next().expect("endless")));
        self
    }

    fn read(&self, index: usize, n: usize) -> std::io::Result<Vec<f64>> {
        let file = self.spilled.as_ref().ok_or_else(|| std::io::Error::other("there is no such leaf"))?;
        let wanted = self.kept.iter().copied().chain(self.width - self.extras.count()..self.width);
        let start = (index - self.own.start - self.memory.len()) * LEAF * self.width * 8;
        let mut bytes = vec![0; (self.kept.len() + self.extras.count()) * n * 8];
        if bytes.len() == self.width * n * 8 {
            read_at(file, &mut bytes, start)?;
        } else {
            for (column, part) in wanted.zip(bytes.chunks_exact_mut(8 * n)) {
                read_at(file, part, start + column * n * 8)?;
            }
        }
        Ok(bytes.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect())
    }
}

/// Bytes from a place of the file; threads read at once.
#[cfg(unix)]
fn read_at(file: &File, out: &mut [u8], place: usize) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, place as u64)
}

/// Bytes from a place of the file; threads read one after the other, because a file has one place here.
#[cfg(not(unix))]
fn read_at(mut file: &File, out: &mut [u8], place: usize) -> std::io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _turn = TURN.lock().map_err(|_| std::io::Error::other("a reader panicked"))?;
    file.seek(SeekFrom::Start(place as u64))?;
    file.read_exact(out)
}

impl Rows for Leaves {
    fn len(&self) -> usize {
        self.rows
    }

    fn columns(&self) -> usize {
        self.kept.len()
    }

    fn ranks(&self) -> Option<&dyn Ranks> {
        self.ranks.as_deref()
    }

    fn stop(&self) -> Option<&Arc<AtomicBool>> {
        self.stop.as_ref()
    }

    fn leaf(&self, index: usize, visit: &mut dyn FnMut(Leaf<'_>)) -> Result<(), Error> {
        let (first, p) = (index * LEAF, self.kept.len());
        let n = LEAF.min(self.rows.saturating_sub(first));
        if self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(Error::Stopped);
        }
        if !self.own.contains(&index) {
            return Err(InvalidData::LeafElsewhere { leaf: index }.into());
        }
        let owned;
        let values = match self.memory.get(index - self.own.start) {
            Some(leaf) => leaf,
            None => {
                owned = self
                    .read(index, n)
                    .map_err(|error| InvalidData::LeafUnreadable { leaf: index, error })?;
                &owned
            }
        };
        let mut rest = &values[p * n..];
        let mut next = |there: bool| -> &[f64] {
            let (part, after) = rest.split_at(if there { n } else { 0 });
            rest = after;
            part
        };
        let Extras { response, trials, offset, weight } = self.extras;
        let zeros = [0.0; LEAF];
        let given = next(response);
        visit(Leaf {
            first,
            x: Block::new(&values[..p * n], n, p, n, true)?,
            y: if response { given } else { &zeros[..n] },
            trials: next(trials),
            offset: next(offset),
            weight: next(weight),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    /// Column c of row i is 10 i + c.
    fn filled(rows: usize, storage: &Storage, extras: Extras) -> Leaves {
        let width = 3 + extras.count();
        let mut writer = Writer::new(width, storage);
        let mut done = 0;
        while done < rows {
            let n = 700.min(rows - done);
            let columns: Vec<Vec<f64>> =
                (0..width).map(|c| (done..done + n).map(|i| (10 * i + c) as f64).collect()).collect();
            writer.push(&columns, n).unwrap();
            done += n;
        }
        writer.finish(extras).unwrap()
    }

    #[test]
    fn memory_and_scratch_file_give_the_same_leaves() {
        let extras = Extras { response: true, weight: true, ..Extras::default() };
        let small = Storage { memory: 2 * 8 * LEAF * 5, ..Storage::default() };
        for storage in [Storage::default(), small, Storage { memory: 0, ..Storage::default() }] {
            for removed in [vec![], vec![1], vec![0, 2]] {
                let rows = 5 * LEAF + 17;
                let leaves = filled(rows, &storage, extras).without(&removed);
                let kept: Vec<usize> = (0..3).filter(|c| !removed.contains(c)).collect();
                assert_eq!((leaves.len(), leaves.columns()), (rows, kept.len()));
                let mut seen = 0;
                for index in [5, 0, 3, 1, 2, 4] {
                    leaves
                        .leaf(index, &mut |leaf| {
                            assert_eq!(leaf.first, index * LEAF);
                            seen += leaf.y.len();
                            for i in 0..leaf.y.len() {
                                let ten = 10 * (leaf.first + i);
                                for (j, c) in kept.iter().enumerate() {
                                    assert_eq!(leaf.x.get(i, j), (ten + c) as f64);
                                }
                                assert_eq!((leaf.y[i], leaf.weight[i]), ((ten + 3) as f64, (ten + 4) as f64));
                            }
                            assert!(leaf.trials.is_empty() && leaf.offset.is_empty());
                        })
                        .unwrap();
                }
                assert_eq!(seen, rows);
            }
        }
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let storage = Storage { memory: 0, directory: Some("/no/such/place".into()), ..Storage::default() };
        let mut writer = Writer::new(1, &storage);
        let error = writer.push(&[vec![1.0; LEAF]], LEAF).unwrap_err();
        assert!(error.kind() == ErrorKind::Io && error.to_string().contains("/no/such/place"), "{error}");
    }
}
