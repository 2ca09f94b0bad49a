//! Formulas, read as on the command line.

use certus_data::Formula;
use certus_data::formula::Pieces;
use pyo3::prelude::*;

use crate::error::usage;

/// Response, intercept, columns of every term (fixed or varying), columns of every group, columns of the offset, the
/// column of trials, with `.` the columns that it leaves out.
type Parts = (
    String,
    bool,
    Vec<Vec<String>>,
    Vec<Vec<String>>,
    Option<Vec<String>>,
    Option<String>,
    Option<Vec<String>>,
);

/// The parts of a formula.
#[pyfunction]
pub(crate) fn read_formula(py: Python<'_>, text: &str) -> PyResult<Parts> {
    let own: Formula = text.parse().map_err(|e: certus_data::FormulaError| usage(py, &e.to_string()))?;
    if own.computed.is_some() && own.others.is_some() {
        let words =
            "'.' has no columns where the response is computed: name the columns, or compute it before";
        return Err(usage(py, words));
    }
    if own.computed.is_some() {
        return Err(usage(py, "a response that is computed is evaluated in Python"));
    }
    let texts = |names: Vec<&str>| names.into_iter().map(String::from).collect::<Vec<_>>();
    let varying = own.groups.iter().flat_map(|group| &group.effects);
    let fixed = own.fixed.iter().chain(varying).map(|term| texts(term.columns())).collect();
    let groups = own.groups.into_iter().map(|group| group.factor).collect();
    let offset = own.offset.as_ref().map(|offset| texts(offset.columns()));
    Ok((own.response, own.intercept, fixed, groups, offset, own.trials, own.others))
}

/// A formula without its group terms, and these: effects, whether they are correlated, factor.
#[pyfunction]
pub(crate) fn formula_pieces(text: &str) -> (String, Vec<(String, bool, String)>) {
    let own = Pieces::of(text);
    let groups = own.groups.into_iter().map(|group| (group.effects, group.correlated, group.factor));
    (own.fixed, groups.collect())
}

/// The name of a column as a formula writes it.
#[pyfunction]
pub(crate) fn quoted(name: &str) -> String {
    certus_data::quoted(name).into_owned()
}
