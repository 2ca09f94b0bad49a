//! Rows in a NumPy matrix, read in place; with stan.rs the unsafe code of this crate.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use certus_models::Error;
use certus_models::rows::{Block, LEAF, Leaf, Rows};
use numpy::{PyArray2, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

/// A float64 matrix in C order, with the columns beside it. The array is kept alive, and NumPy does not allow it to be
/// resized meanwhile; changing its numbers while a model uses them changes the model.
pub(crate) struct Borrowed {
    _owner: Py<PyArray2<f64>>,
    x: *const f64,
    columns: usize,
    pub(crate) y: Vec<f64>,
    pub(crate) trials: Vec<f64>,
    pub(crate) offset: Vec<f64>,
    pub(crate) weight: Vec<f64>,
    stop: Arc<AtomicBool>,
}

// SAFETY: the pointer is only read, and what it points to lives as long as `_owner`.
unsafe impl Send for Borrowed {}
// SAFETY: as above.
unsafe impl Sync for Borrowed {}

impl Borrowed {
    /// `stop` ends passes. `None` if the matrix is not in C order or has another number of rows than there are
    /// responses.
    pub(crate) fn new(x: &PyReadonlyArray2<'_, f64>, y: Vec<f64>, stop: Arc<AtomicBool>) -> Option<Self> {
        let slice = x.as_slice().ok()?;
        (x.shape()[0] == y.len()).then(|| Self {
            x: slice.as_ptr(),
            columns: x.shape()[1],
            _owner: (**x).clone().unbind(),
            y,
            trials: Vec::new(),
            offset: Vec::new(),
            weight: Vec::new(),
            stop,
        })
    }
}

impl Rows for Borrowed {
    fn len(&self) -> usize {
        self.y.len()
    }

    fn columns(&self) -> usize {
        self.columns
    }

    fn stop(&self) -> Option<&Arc<AtomicBool>> {
        Some(&self.stop)
    }

    fn leaf(&self, index: usize, visit: &mut dyn FnMut(Leaf<'_>)) -> Result<(), Error> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        let first = index * LEAF;
        let range = first..(first + LEAF).min(self.y.len());
        let p = self.columns;
        // SAFETY: the slice lies within the len × columns numbers that `new` saw, and `_owner` keeps them alive.
        let x = unsafe { std::slice::from_raw_parts(self.x.add(first * p), range.len() * p) };
        let part = |v: &'_ [f64]| if v.is_empty() { 0..0 } else { range.clone() };
        visit(Leaf {
            first,
            x: Block::new(x, range.len(), p, p, false)?,
            y: &self.y[range.clone()],
            trials: &self.trials[part(&self.trials)],
            offset: &self.offset[part(&self.offset)],
            weight: &self.weight[part(&self.weight)],
        });
        Ok(())
    }
}
