//! Where the data live. Models never own a matrix: they pull *leaves*, fixed runs of consecutive rows, and return
//! mergeable partial sums, which are combined in one fixed binary tree. Memory, files and other processes give the same
//! bits.

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use certus::parallel;

use crate::error::{Error, InvalidData};
use crate::matrix::{Matrix, strided, view};
use crate::ranks::{self, Ranks};
use certus_likelihood::Datum;

/// Rows of a leaf. Boundaries depend on row numbers only.
pub const LEAF: usize = 1024;

/// A matrix somebody else owns, row-major or column-major.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    data: &'a [f64],
    rows: usize,
    columns: usize,
    stride: usize,
    column_major: bool,
}

impl<'a> Block<'a> {
    /// Entry (i, j) is `data[i + j * stride]` if `column_major`, else `data[i * stride + j]`.
    pub fn new(
        data: &'a [f64],
        rows: usize,
        columns: usize,
        stride: usize,
        column_major: bool,
    ) -> Result<Self, Error> {
        let (short, long) = if column_major { (rows, columns) } else { (columns, rows) };
        let needed = if short == 0 || long == 0 { 0 } else { (long - 1) * stride + short };
        if data.len() < needed || (stride < short && long > 1) {
            return Err(InvalidData::Matrix { rows, columns, stride, needed, found: data.len() }.into());
        }
        Ok(Self { data, rows, columns, stride, column_major })
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Entry (i, j).
    pub fn get(&self, i: usize, j: usize) -> f64 {
        if self.column_major { self.data[i + j * self.stride] } else { self.data[i * self.stride + j] }
    }

    /// Rows `first..first + count`.
    pub fn row_range(&self, first: usize, count: usize) -> Self {
        debug_assert!(first + count <= self.rows);
        let start = if self.column_major { first } else { first * self.stride };
        Self { data: &self.data[start.min(self.data.len())..], rows: count, ..*self }
    }

    pub(crate) fn view(&self) -> Matrix<'a> {
        if self.columns == 0 || self.rows == 0 {
            view(&[], self.rows, self.columns)
        } else {
            strided(self.data, self.rows, self.columns, self.stride, self.column_major)
        }
    }
}

/// A fixed run of consecutive rows.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'a> {
    /// Number of the first row.
    pub first: usize,
    /// Features.
    pub x: Block<'a>,
    /// Responses.
    pub y: &'a [f64],
    /// Trials of a binomial response; 1 if empty.
    pub trials: &'a [f64],
    /// Added to the linear predictor; 0 if empty.
    pub offset: &'a [f64],
    /// Observation weights; 1 if empty.
    pub weight: &'a [f64],
}

impl Leaf<'_> {
    /// The observation of row i of the leaf.
    pub fn datum(&self, i: usize) -> Datum {
        Datum { y: self.y[i], trials: self.trials.get(i).copied().unwrap_or(1.0) }
    }

    /// Its offset.
    pub fn offset_of(&self, i: usize) -> f64 {
        self.offset.get(i).copied().unwrap_or(0.0)
    }

    /// Its weight.
    pub fn weight_of(&self, i: usize) -> f64 {
        self.weight.get(i).copied().unwrap_or(1.0)
    }
}

/// A source of leaves. Hierarchical models ask for the leaves of one group after the other: a source that reads from
/// outside memory should be sorted by group, and keep the leaf it read last.
pub trait Rows: Send + Sync {
    /// Number of rows N.
    fn len(&self) -> usize;

    /// True if there is no row.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of feature columns.
    fn columns(&self) -> usize;

    /// The processes over which the leaves are spread; only those of this rank can be asked for here.
    fn ranks(&self) -> Option<&dyn Ranks> {
        None
    }

    /// A flag that somebody may set to end every pass over the rows: then [`leaf`](Self::leaf) is [`Error::Stopped`],
    /// and models that keep rows in another order end their passes, too.
    fn stop(&self) -> Option<&Arc<AtomicBool>> {
        None
    }

    /// Hands leaf `index` (rows `index * LEAF..`) to `visit`.
    fn leaf(&self, index: usize, visit: &mut dyn FnMut(Leaf<'_>)) -> Result<(), Error>;
}

/// Number of leaves.
pub fn leaves(rows: &dyn Rows) -> usize {
    rows.len().div_ceil(LEAF)
}

/// The leaves that are here.
pub fn own_leaves(rows: &dyn Rows) -> Range<usize> {
    match rows.ranks() {
        Some(ranks) => {
            let bounds = ranks.manifest(leaves(rows));
            bounds[ranks.rank()]..bounds[ranks.rank() + 1]
        }
        None => 0..leaves(rows),
    }
}

/// The rows that are here.
pub fn own_rows(rows: &dyn Rows) -> Range<usize> {
    let own = own_leaves(rows);
    (own.start * LEAF).min(rows.len())..(own.end * LEAF).min(rows.len())
}

/// Combines `length` numbers of every leaf in the fixed tree, on every rank; `None` if there is no leaf.
pub fn over_leaves(
    rows: &dyn Rows,
    length: usize,
    leaf: &(impl Fn(usize) -> Result<Vec<f64>, Error> + Sync),
    combine: &(impl Fn(&mut [f64], &[f64]) + Sync),
    give: &(impl Fn(Vec<f64>) + Sync),
) -> Result<Option<Vec<f64>>, Error> {
    let count = leaves(rows);
    let bounds = rows.ranks().map(|ranks| (ranks, ranks.manifest(count)));
    let spread = bounds.as_ref().map(|(ranks, bounds)| (*ranks, &bounds[..]));
    ranks::reduce(spread, count, length, leaf, combine, give)
}

/// a ← a + b.
pub fn add(a: &mut [f64], b: &[f64]) {
    a.iter_mut().zip(b).for_each(|(x, y)| *x += y);
}

/// The largest of each number over all ranks.
pub(crate) fn most(rows: &dyn Rows, numbers: &mut [f64]) {
    if let Some(ranks) = rows.ranks() {
        ranks.most(numbers);
    }
}

/// Rows in memory.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Features, row-major or column-major.
    pub x: Vec<f64>,
    /// True if `x` is column-major.
    pub column_major: bool,
    /// Responses.
    pub y: Vec<f64>,
    /// Trials, or empty.
    pub trials: Vec<f64>,
    /// Offsets, or empty.
    pub offset: Vec<f64>,
    /// Weights, or empty.
    pub weight: Vec<f64>,
    /// Feature columns.
    pub columns: usize,
}

impl Rows for Memory {
    fn len(&self) -> usize {
        self.y.len()
    }

    fn columns(&self) -> usize {
        self.columns
    }

    fn leaf(&self, index: usize, visit: &mut dyn FnMut(Leaf<'_>)) -> Result<(), Error> {
        let (first, n) = (index * LEAF, self.y.len());
        let range = first..(first + LEAF).min(n);
        let stride = if self.column_major { n } else { self.columns };
        let x = Block::new(&self.x, n, self.columns, stride, self.column_major)?;
        let part = |v: &'_ Vec<f64>, name: &str| -> Result<std::ops::Range<usize>, Error> {
            match v.len() {
                0 => Ok(0..0),
                l if l == n => Ok(range.clone()),
                found => Err(InvalidData::Length { what: name.into(), found, rows: n }.into()),
            }
        };
        visit(Leaf {
            first,
            x: x.row_range(first, range.len()),
            y: &self.y[range.clone()],
            trials: &self.trials[part(&self.trials, "trials")?],
            offset: &self.offset[part(&self.offset, "offset")?],
            weight: &self.weight[part(&self.weight, "weight")?],
        });
        Ok(())
    }
}

/// Buffers that partial sums borrow and give back, so that repeated passes do not allocate.
#[derive(Debug, Default)]
pub struct Pool(Mutex<Vec<Vec<f64>>>);

impl Pool {
    /// A buffer of zeros to use at will; give it back.
    pub fn buffer(&self, length: usize) -> Vec<f64> {
        let mut buffer = self.0.lock().ok().and_then(|mut free| free.pop()).unwrap_or_default();
        buffer.clear();
        buffer.resize(length, 0.0);
        buffer
    }

    /// Gives a buffer back.
    pub fn give(&self, buffer: Vec<f64>) {
        if let Ok(mut free) = self.0.lock() {
            free.push(buffer);
        }
    }

    /// Σ over leaves of vectors of `length` numbers, in the fixed tree. `work(leaf, scratch, out)` adds its part to
    /// `out`; `scratch` is a buffer to use at will.
    pub fn sum(
        &self,
        rows: &dyn Rows,
        length: usize,
        work: &(impl Fn(Leaf<'_>, &mut Vec<f64>, &mut [f64]) + Sync),
    ) -> Result<Vec<f64>, Error> {
        let leaf = |index: usize| -> Result<Vec<f64>, Error> {
            let (mut out, mut scratch) = (self.buffer(length), self.buffer(0));
            rows.leaf(index, &mut |leaf| work(leaf, &mut scratch, &mut out))?;
            self.give(scratch);
            Ok(out)
        };
        let sum = over_leaves(rows, length, &leaf, &add, &|buffer| self.give(buffer))?;
        Ok(sum.unwrap_or_else(|| self.buffer(length)))
    }

    /// Numbers of every row that is here, `width` each, on all ranks: for few rows only.
    pub fn everywhere(&self, rows: &dyn Rows, width: usize, own: Vec<f64>) -> Result<Vec<f64>, Error> {
        if rows.ranks().is_none() {
            return Ok(own);
        }
        let first = own_rows(rows).start;
        self.sum(rows, rows.len() * width, &|leaf, _, out| {
            let n = leaf.y.len() * width;
            out[leaf.first * width..][..n].copy_from_slice(&own[(leaf.first - first) * width..][..n]);
        })
    }

    /// Fills `out` (`width` numbers for every row that is here) leaf by leaf.
    pub fn map(
        &self,
        rows: &dyn Rows,
        width: usize,
        out: &mut [f64],
        work: &(impl Fn(Leaf<'_>, &mut Vec<f64>, &mut [f64]) + Sync),
    ) -> Result<(), Error> {
        let (failure, first) = (Failure::default(), own_leaves(rows).start);
        parallel::for_each_piece(out, LEAF * width, 1, &|index, part| {
            let mut scratch = self.buffer(0);
            failure.note(rows.leaf(first + index, &mut |leaf| work(leaf, &mut scratch, part)));
            self.give(scratch);
        });
        failure.into_result()
    }
}

/// What went wrong in a parallel pass that cannot stop half way.
#[derive(Debug, Default)]
pub(crate) struct Failure(Mutex<Option<Error>>);

impl Failure {
    pub(crate) fn note(&self, result: Result<(), Error>) {
        if let Err(error) = result {
            self.0.lock().expect("no thread panics while it holds the lock").get_or_insert(error);
        }
    }

    pub(crate) fn into_result(self) -> Result<(), Error> {
        self.0.into_inner().expect("no thread panics while it holds the lock").map_or(Ok(()), Err)
    }
}
