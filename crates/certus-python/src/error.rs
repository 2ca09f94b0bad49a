//! Errors of Rust to the exceptions of `certus.errors`, one class per exit code of the command line.

use certus_data::DataError;
use pyo3::prelude::*;

/// The exception for an exit code.
pub(crate) fn raise(py: Python<'_>, code: u8, message: &str) -> PyErr {
    let made = py.import("certus.errors").and_then(|errors| errors.call_method1("of", (code, message)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// What user code did that stops a fit: code 20.
pub(crate) fn user(py: Python<'_>, message: &str) -> PyErr {
    raise(py, 20, message)
}

/// Wrong arguments: code 64.
pub(crate) fn usage(py: Python<'_>, message: &str) -> PyErr {
    raise(py, 64, message)
}

/// Bad data: code 65.
pub(crate) fn data(py: Python<'_>, error: &DataError) -> PyErr {
    raise(py, error.exit_code(), &error.to_string())
}

/// Files.
pub(crate) fn store(py: Python<'_>, error: &certus_store::Error) -> PyErr {
    raise(py, error.exit_code(), &error.to_string())
}

/// The core.
pub(crate) fn core(py: Python<'_>, error: certus::Error) -> PyErr {
    data(py, &DataError::Model(certus_models::Error::Core(error)))
}
