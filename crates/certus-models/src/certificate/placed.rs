//! The rows of a dense model in the frame of a Gaussian: kept where they are few, made again for every pass where they
//! are many, so that the memory of a certificate does not grow with the rows. Both ways give the same bits.

use certus::{Gaussian, parallel};

use super::row::{self, Row, Sizes};
use crate::design::DesignLeaf;
use crate::error::Error;
use crate::exact::{KEEP, is_lower, whiten};
use crate::glm::{Glm, predictors};
use crate::matrix::view;
use crate::rows::{Failure, LEAF, Leaf, own_leaves};

/// Numbers that a kept row takes.
const WIDTH: usize = size_of::<Row>() / size_of::<f64>();

/// The rows of a model around w = (m, C).
pub(crate) struct Placed<'a> {
    model: &'a Glm,
    /// m.
    mean: Vec<f64>,
    /// C, dense.
    pub(super) c: Vec<f64>,
    /// True if C is lower triangular.
    pub(super) lower: bool,
    /// |C_j·|.
    sds: Vec<f64>,
    /// Those that are here, or none if they are made again.
    rows: Vec<Row>,
    /// Ã = A C, leaf by leaf, or empty.
    whitened: Vec<f64>,
    largest_sd: f64,
}

impl<'a> Placed<'a> {
    pub(crate) fn new(model: &'a Glm, w: &Gaussian) -> Result<Self, Error> {
        Self::keeping(model, w, KEEP)
    }

    /// Keeps rows, and Ã, up to so many numbers of each.
    pub(super) fn keeping(model: &'a Glm, w: &Gaussian, most: usize) -> Result<Self, Error> {
        let (n, d) = (model.here().len(), model.dim());
        let mut placed = Self {
            model,
            mean: w.mean().to_vec(),
            c: w.factor().to_dense(),
            lower: is_lower(w),
            sds: w.sd(),
            rows: Vec::new(),
            whitened: Vec::new(),
            largest_sd: 0.0,
        };
        let source = model.design.rows();
        if n * d <= most {
            let mut whitened = vec![0.0; n * d];
            model.pool.map(source, d, &mut whitened, &|leaf, scratch, out| {
                model.design.prepare(leaf, scratch, |leaf| placed.whiten(&leaf, out));
            })?;
            placed.whitened = whitened;
        }
        let (failure, first) = (Failure::default(), own_leaves(source).start);
        let place = |index: usize, rows: &mut [Row]| {
            let mut scratch = model.pool.buffer(0);
            failure.note(source.leaf(first + index, &mut |leaf| {
                placed.with_whitened(leaf, &mut scratch, |leaf, at| placed.place(leaf, at, rows));
            }));
            model.pool.give(scratch);
        };
        // the largest sd, and 1 if a mean or an sd is no number
        let (rows, mut both) = if n * WIDTH <= most {
            let mut rows = vec![Row::default(); n];
            parallel::for_each_piece(&mut rows, LEAF, 1, &place);
            let both = row::extremes(&rows);
            (rows, both)
        } else {
            let mut each = vec![[0.0; 2]; own_leaves(source).len()];
            parallel::for_each_piece(&mut each, 1, 1, &|index, out| {
                let mut rows = vec![Row::default(); LEAF.min(n - index * LEAF)];
                place(index, &mut rows);
                out[0] = row::extremes(&rows);
            });
            (Vec::new(), each.iter().fold([0.0_f64; 2], |a, b| [a[0].max(b[0]), a[1].max(b[1])]))
        };
        failure.into_result()?;
        placed.rows = rows;
        placed.largest_sd = row::largest_of_all(&mut both, source)?;
        Ok(placed)
    }

    pub(crate) fn model(&self) -> &'a Glm {
        self.model
    }

    /// Every row that is here; none if they are made again.
    pub(crate) fn kept(&self) -> &[Row] {
        &self.rows
    }

    /// True if rows are made again.
    pub(crate) fn is_streamed(&self) -> bool {
        self.rows.is_empty() && !self.model.here().is_empty()
    }

    pub(crate) fn largest_sd(&self) -> f64 {
        self.largest_sd
    }

    fn whiten(&self, leaf: &DesignLeaf<'_>, out: &mut [f64]) {
        let d = self.mean.len();
        whiten(leaf, view(&self.c, d, d), self.lower, out);
    }

    /// The rows of a leaf with ã the rows of `whitened`.
    fn place(&self, leaf: &DesignLeaf<'_>, whitened: &[f64], rows: &mut [Row]) {
        let n = leaf.data.len();
        let mut t = self.model.pool.buffer(n);
        predictors(leaf, &self.mean, &mut t);
        for (i, row) in rows.iter_mut().enumerate() {
            let square: f64 = whitened.iter().skip(i).step_by(n).map(|x| x * x).sum();
            let (mut spread, mut level) = (0.0, leaf.offset[i].abs());
            for (j, sd) in self.sds.iter().enumerate() {
                let a = leaf.a[(i, j)].abs();
                spread += a * sd;
                level += a * self.mean[j].abs();
            }
            let sizes = Sizes { terms: self.sds.len(), spread, level };
            *row = Row::new(t[i], square.sqrt(), leaf.weight[i], leaf.data[i], sizes);
        }
        self.model.pool.give(t);
    }

    /// Calls `work(leaf, its Ã (column-major))`, Ã kept or made again.
    pub(crate) fn with_whitened(
        &self,
        leaf: Leaf<'_>,
        scratch: &mut Vec<f64>,
        work: impl FnOnce(&DesignLeaf<'_>, &[f64]),
    ) {
        let (d, origin) = (self.mean.len(), self.model.here().start);
        self.model.design.prepare(leaf, scratch, |leaf| {
            let (first, n) = (leaf.first - origin, leaf.data.len());
            if !self.whitened.is_empty() {
                return work(&leaf, &self.whitened[first * d..][..n * d]);
            }
            let mut made = self.model.pool.buffer(n * d);
            self.whiten(&leaf, &mut made);
            work(&leaf, &made);
            self.model.pool.give(made);
        });
    }

    /// Calls `work(first row among those that are here, rows, Ã)` for a leaf. Where both are kept nothing else of the
    /// leaf is needed.
    fn with_rows(&self, leaf: Leaf<'_>, scratch: &mut Vec<f64>, work: impl FnOnce(usize, &[Row], &[f64])) {
        let (d, first, n) = (self.mean.len(), leaf.first - self.model.here().start, leaf.y.len());
        if !self.rows.is_empty() && !self.whitened.is_empty() {
            return work(first, &self.rows[first..][..n], &self.whitened[first * d..][..n * d]);
        }
        self.with_whitened(leaf, scratch, |leaf, at| {
            if !self.rows.is_empty() {
                return work(first, &self.rows[first..][..n], at);
            }
            let mut rows = vec![Row::default(); n];
            self.place(leaf, at, &mut rows);
            work(first, &rows, at);
        });
    }

    /// Calls `work(rows, Ã)` for leaf `index` of those that are here.
    pub(crate) fn leaf(&self, index: usize, mut work: impl FnMut(&[Row], &[f64])) -> Result<(), Error> {
        let source = self.model.design.rows();
        let mut scratch = self.model.pool.buffer(0);
        source.leaf(own_leaves(source).start + index, &mut |leaf| {
            self.with_rows(leaf, &mut scratch, |_, rows, at| work(rows, at));
        })?;
        self.model.pool.give(scratch);
        Ok(())
    }

    /// Σ over leaves of `work(first row among those that are here, rows, Ã of the leaf (column-major), out)`.
    pub(crate) fn sum(
        &self,
        length: usize,
        work: &(impl Fn(usize, &[Row], &[f64], &mut [f64]) + Sync),
    ) -> Result<Vec<f64>, Error> {
        self.model.pool.sum(self.model.design.rows(), length, &|leaf, scratch, out| {
            self.with_rows(leaf, scratch, |first, rows, at| work(first, rows, at, out));
        })
    }

    /// Fills `out`, `width` numbers for every row that is here.
    pub(crate) fn map(
        &self,
        width: usize,
        out: &mut [f64],
        work: &(impl Fn(&[Row], &[f64], &mut [f64]) + Sync),
    ) -> Result<(), Error> {
        self.model.pool.map(self.model.design.rows(), width, out, &|leaf, scratch, out| {
            self.with_rows(leaf, scratch, |_, rows, at| work(rows, at, out));
        })
    }
}
