//! The settings that `python/certus` writes as JSON, and what is refused of them.

use certus::Outcome;
use certus_fit::Settings;
use pyo3::prelude::*;

use crate::error::{data, usage};

/// From JSON that `python/certus` wrote, or that fit.json holds.
pub(crate) fn read(py: Python<'_>, json: &str) -> PyResult<Settings> {
    serde_json::from_str(json).map_err(|e| usage(py, &format!("the settings: {e}")))
}

/// The requested level, applied.
pub(crate) fn judge(py: Python<'_>, settings: &Settings, outcome: &mut Outcome) -> PyResult<()> {
    if let Some(asked) = settings.asked().map_err(|e| data(py, &e))? {
        asked.judge(outcome);
    }
    Ok(())
}
