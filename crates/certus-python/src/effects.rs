//! Answers to questions about the response, with their certified errors.

use certus_fit::{Certifying, Contrast, Held, Question};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::columns::table;
use crate::error::data;
use crate::fitted::Fitted;
use crate::model::Model;

/// Answers to questions about expected responses, averaged over the rows of columns, as JSON. Errors are certified
/// with the model of the fit, or, where none is given, with that of the columns if they are those of the fit.
#[pyfunction]
#[pyo3(signature = (
    fitted, columns, contrasts, slopes, held, interval=None, linear_predictor=false, model=None, call=1
))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn effects(
    py: Python<'_>,
    fitted: &Fitted,
    columns: &Bound<'_, PyDict>,
    contrasts: Vec<String>,
    slopes: Vec<String>,
    held: Vec<(String, Vec<String>)>,
    interval: Option<f64>,
    linear_predictor: bool,
    model: Option<&Model>,
    call: u32,
) -> PyResult<String> {
    let table = table(py, columns)?;
    let contrasts = contrasts.iter().map(|text| text.parse::<Contrast>()).collect::<Result<_, _>>();
    let contrasts = contrasts.map_err(|e| data(py, &e))?;
    let held = held.into_iter().map(|(column, values)| Held { column, values }).collect();
    let question = Question { contrasts, slopes, held, interval, linear_predictor };
    let answers = || -> Result<_, certus_fit::Error> {
        let own = match model {
            None if fitted.0.certifies_effects() => fitted.0.model_of(&table),
            _ => None,
        };
        let problem = model.map(Model::problem).or(own.as_ref());
        let goal = fitted.0.settings().ok().map(|settings| settings.goal()).transpose()?;
        let with = problem.zip(goal.as_ref());
        let certifying = with.map(|(problem, goal)| Certifying::new(problem, goal, call)).transpose()?;
        fitted.0.effects(&table, &question, certifying)
    };
    let found = py.detach(answers).map_err(|e| data(py, &e))?;
    Ok(serde_json::to_string(&found).expect("answers are plain values"))
}
