//! Errors of Rust to the exceptions of `certus.errors`, one class per exit code of the command line.

use certus_data::{DataError, ErrorKind};
use certus_fit::{Interface, RequestError};
use pyo3::prelude::*;

/// The exception for an exit code.
pub(crate) fn raise(py: Python<'_>, code: u8, message: &str) -> PyErr {
    let made = py.import("certus.errors").and_then(|errors| errors.call_method1("of", (code, message)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// The code by which `certus.errors` finds the class of a kind of failure: that of the command line.
pub(crate) fn code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::NotFinite => 12,
        ErrorKind::NotIdentified => 13,
        ErrorKind::Request => 64,
        ErrorKind::Data => 65,
        ErrorKind::NotFound => 66,
        ErrorKind::Defect => 70,
        ErrorKind::Output => 73,
        ErrorKind::Io => 74,
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

/// An error of which the kind is known.
pub(crate) trait Kinded: std::fmt::Display {
    /// Its kind.
    fn kind(&self) -> ErrorKind;
}

impl Kinded for DataError {
    fn kind(&self) -> ErrorKind {
        self.kind()
    }
}

impl Kinded for RequestError {
    fn kind(&self) -> ErrorKind {
        self.kind()
    }
}

impl Kinded for certus_fit::Error {
    fn kind(&self) -> ErrorKind {
        self.kind()
    }
}

/// Requests and data.
pub(crate) fn data(py: Python<'_>, error: &dyn Kinded) -> PyErr {
    raise(py, code(error.kind()), &Interface::Python.spell(&error.to_string()))
}

/// Files.
pub(crate) fn store(py: Python<'_>, error: &certus_fit::Error) -> PyErr {
    raise(py, code(error.kind()), &Interface::Python.spell(&error.to_string()))
}

/// The core.
pub(crate) fn core(py: Python<'_>, error: certus::Error) -> PyErr {
    data(py, &DataError::Model(certus_models::Error::Core(error)))
}
