//! A target that is not a Python function, behind a Python object: it is called without the interpreter.

use std::sync::Arc;

use certus::Target;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::error::{usage, user};

/// Log densities and gradients.
type Evaluated<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray2<f64>>);

/// A log density in Rust or C, such as a Stan library. It can be called from Python like any `log_density`.
#[pyclass(frozen, module = "certus._certus")]
pub(crate) struct Native {
    pub(crate) target: Arc<dyn Target + Send + Sync>,
}

impl Native {
    /// For code that opens libraries.
    pub(crate) fn new(target: Arc<dyn Target + Send + Sync>) -> Self {
        Self { target }
    }
}

#[pymethods]
impl Native {
    /// d.
    #[getter]
    fn dim(&self) -> usize {
        self.target.dim()
    }

    /// Log densities and gradients at the rows of `points`.
    fn __call__<'py>(&self, py: Python<'py>, points: PyReadonlyArray2<'py, f64>) -> PyResult<Evaluated<'py>> {
        let (n, d) = (points.shape()[0], points.shape()[1]);
        if d != self.target.dim() {
            let words = format!("points has {d} columns, but the target has dimension {}", self.target.dim());
            return Err(usage(py, &words));
        }
        let points: Vec<f64> = points.as_array().iter().copied().collect();
        let (mut values, mut gradients) = (vec![0.0; n], vec![0.0; n * d]);
        py.detach(|| self.target.log_density(&points, &mut values, &mut gradients))
            .map_err(|e| user(py, &e.to_string()))?;
        Ok((PyArray1::from_vec(py, values), PyArray1::from_vec(py, gradients).reshape([n, d])?))
    }
}
