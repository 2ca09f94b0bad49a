//! Answers to questions about the response, with their certified errors.

use std::sync::Arc;

use certus_data::Storage;
use certus_fit::{Certifying, Contrast, Held, Question};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::columns::table;
use crate::error::data;
use crate::fitted::Fitted;
use crate::interrupt::{ProgressCallback, Shared, run_interruptibly};
use crate::model::{Model, Stoppable, built};

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
    let fit = fitted.0.clone();
    let (problem, cancellation) = match model.map(Model::shared) {
        Some((problem, cancellation)) => (Some(problem), cancellation),
        None => (None, Arc::default()),
    };
    let theirs = cancellation.clone();
    let answers = move |stop: &Shared| -> Result<_, certus_fit::Error> {
        let _work = theirs.begin();
        let source = Stoppable { source: &table, stop };
        let own = match &problem {
            None if fit.certifies_effects() => {
                fit.model_of(&source, &Storage { stop: Some(theirs.flag()), ..Storage::default() })
            }
            _ => None,
        };
        let goal = fit.settings().ok().map(|settings| settings.goal()).transpose()?;
        let with = problem.as_deref().or(own.as_ref()).zip(goal.as_ref());
        let certifying = with.map(|(problem, goal)| Certifying::new(problem, goal, call)).transpose()?;
        fit.effects(&source, &question, certifying)
    };
    let found = run_interruptibly(py, ProgressCallback::none(), None, &|_| cancellation.set(), answers);
    Ok(serde_json::to_string(&built(py, found)?).expect("answers are plain values"))
}
