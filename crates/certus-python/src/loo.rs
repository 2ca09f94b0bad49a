//! Leave-one-out cross-validation of fits.

use certus_fit::{Loo, ModelComparison};
use numpy::{PyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::error::{data, usage};
use crate::fitted::Fitted;
use crate::model::Model;

/// What draws of the posterior say of a fit's predictions.
#[pyclass(frozen, module = "certus._certus")]
pub(crate) struct CrossValidation(Loo);

#[pymethods]
impl CrossValidation {
    /// Of a fit of a model, on its rows.
    #[staticmethod]
    fn of_model(py: Python<'_>, fitted: &Fitted, model: &Model) -> PyResult<Self> {
        let found = py.detach(|| fitted.0.loo(model.problem()));
        found.map(Self).map_err(|e| data(py, &e))
    }

    /// Of log likelihoods, a row for each draw.
    #[staticmethod]
    fn of_values(py: Python<'_>, values: PyReadonlyArray2<'_, f64>) -> PyResult<Self> {
        let (draws, rows) = (values.shape()[0], values.shape()[1]);
        let own = values.as_array();
        let by_row: Vec<f64> = (0..rows).flat_map(|i| own.column(i).to_vec()).collect();
        let found = py.detach(|| Loo::of_values(&by_row, draws));
        found.map(Self).map_err(|e| data(py, &e))
    }

    /// The numbers, as JSON.
    fn json(&self) -> String {
        serde_json::to_string(&self.0).expect("criteria are plain values")
    }

    /// log p(yᵢ | y₋ᵢ) of every row.
    fn elpd<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.0.elpd)
    }

    /// k̂ of every row.
    fn k<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.0.k)
    }

    /// How far the numbers can be trusted.
    fn words(&self) -> String {
        self.0.words()
    }
}

/// Fits of the same responses, the best first: their rows as JSON.
#[pyfunction]
pub(crate) fn compare(
    py: Python<'_>,
    names: Vec<String>,
    fits: Vec<Py<Fitted>>,
    found: Vec<Py<CrossValidation>>,
) -> PyResult<String> {
    let named = || names.iter().cloned();
    let fits: Vec<_> = named().zip(&fits).map(|(name, fit)| (name, &fit.get().0.record)).collect();
    // black boxes do not say what their responses are
    if fits.iter().all(|(_, record)| record.model != "target")
        && let Some(reason) = ModelComparison::new(&fits).reason
    {
        return Err(usage(py, &format!("the fits cannot be compared: {reason}")));
    }
    let found: Vec<(String, &Loo)> = named().zip(&found).map(|(name, loo)| (name, &loo.get().0)).collect();
    if let Some(pair) = found.windows(2).find(|pair| pair[0].1.elpd.len() != pair[1].1.elpd.len()) {
        let [(a, one), (b, two)] = pair else { unreachable!("pairs") };
        let words = format!("{a} has {} rows and {b} {}", one.elpd.len(), two.elpd.len());
        return Err(usage(py, &format!("the fits cannot be compared: {words}")));
    }
    Ok(serde_json::to_string(&Loo::compare(&found)).expect("rows are plain values"))
}
