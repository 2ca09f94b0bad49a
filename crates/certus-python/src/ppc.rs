//! Data sets that the posterior predicts, and the data beside them: checks, log likelihoods, the report.

use certus_fit::Checks;
use certus_fit::report::Extras;
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;

use crate::error::data;
use crate::fitted::Fitted;
use crate::model::Model;

/// A posterior predictive check of a model's fit: the numbers as JSON, how far they can be trusted, and the residuals.
#[pyfunction]
pub(crate) fn ppc<'py>(
    py: Python<'py>,
    fitted: &Fitted,
    model: &Model,
) -> PyResult<(String, String, Bound<'py, PyArray1<f64>>)> {
    let found = py.detach(|| fitted.0.ppc(model.problem())).map_err(|e| data(py, &e))?;
    let json = serde_json::to_string(&found).expect("statistics are plain values");
    Ok((json, found.words(), PyArray1::from_slice(py, &found.residuals)))
}

/// Data sets that the posterior predicts for the rows of a model: a row for each row, a column for each set.
#[pyfunction]
pub(crate) fn simulate<'py>(
    py: Python<'py>,
    fitted: &Fitted,
    model: &Model,
    count: usize,
    seed: u64,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let found = py.detach(|| fitted.0.simulate(model.problem(), count, seed)).map_err(|e| data(py, &e))?;
    let rows = found.len() / count.max(1);
    PyArray1::from_vec(py, found).reshape([rows, count])
}

/// The log likelihoods of the rows of a model, times their weights, at the draws of `sample`: a row for each row of the
/// model, a column for each draw.
#[pyfunction]
pub(crate) fn log_likelihood<'py>(
    py: Python<'py>,
    fitted: &Fitted,
    model: &Model,
    count: usize,
    seed: u64,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let found =
        py.detach(|| fitted.0.log_likelihood(model.problem(), count, seed)).map_err(|e| data(py, &e))?;
    let rows = found.len() / count.max(1);
    PyArray1::from_vec(py, found).reshape([rows, count])
}

/// The report, one HTML page, with what the rows of the model show; without it, with the reason why they are absent.
#[pyfunction]
#[pyo3(signature = (fitted, model, reason))]
pub(crate) fn report(py: Python<'_>, fitted: &Fitted, model: Option<&Model>, reason: String) -> String {
    py.detach(|| {
        let checks = match model {
            Some(model) => fitted.0.checks(model.problem(), model.sample()),
            None => Checks::absent(reason),
        };
        certus_fit::report::report(&fitted.0.record, &Extras { checks, ..fitted.0.extras() })
    })
}
