//! Columns and settings to a model that stays in memory, its plan and its fit.

use std::ops::ControlFlow;
use std::sync::Arc;

use certus::Status;
use certus_data::{Batch, ColumnInfo, DataError, Prepared, Source, Storage, Table};
use certus_fit::{Compared, Fit, Problem, Request, Settings};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::columns::{numbers, table};
use crate::error::{code, data, raise, usage};
use crate::fitted::Fitted;
use crate::interrupt::{Cancellation, ProgressCallback, Shared, WorkResult, interrupt, run_interruptibly};
use crate::memory::Borrowed;
use crate::settings::read;

/// A model with its data.
#[pyclass(frozen, module = "certus._certus")]
pub(crate) struct Model {
    problem: Arc<Problem>,
    request: Request,
    settings: Settings,
    cancellation: Arc<Cancellation>,
    /// Some of its rows, for reports.
    sample: Table,
}

impl Model {
    pub(crate) fn sample(&self) -> &Table {
        &self.sample
    }

    pub(crate) fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The model, and what cancels its passes over the rows.
    pub(crate) fn shared(&self) -> (Arc<Problem>, Arc<Cancellation>) {
        (self.problem.clone(), self.cancellation.clone())
    }
}

/// A source that a flag ends.
pub(crate) struct Stoppable<'a> {
    pub(crate) source: &'a dyn Source,
    pub(crate) stop: &'a Shared,
}

impl Source for Stoppable<'_> {
    fn columns(&self) -> &[ColumnInfo] {
        self.source.columns()
    }

    fn scan(
        &self,
        wanted: &[usize],
        visit: &mut dyn FnMut(&Batch<'_>) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        self.source.scan(wanted, &mut |batch| {
            if self.stop.is_stopped() {
                return Err(DataError::Stopped);
            }
            visit(batch)
        })
    }
}

/// The model, or what stopped its making.
pub(crate) fn built<T>(py: Python<'_>, made: WorkResult<Result<T, certus_fit::Error>>) -> PyResult<T> {
    match (made.result, made.stopped) {
        (_, Some(error)) => Err(error),
        (Some(Ok(problem)), None) => Ok(problem),
        (Some(Err(error)), None) => Err(data(py, &error)),
        (None, None) => Err(late(py)),
    }
}

/// The time was over before there was anything to return.
fn late(py: Python<'_>) -> PyErr {
    raise(py, 10, "max_time was reached before there was a result: increase it")
}

#[pymethods]
impl Model {
    /// Of columns `{name: (kind, cells)}`.
    #[new]
    fn new(py: Python<'_>, columns: &Bound<'_, PyDict>, settings: &str) -> PyResult<Self> {
        let settings = read(py, settings)?;
        let request = settings.request().map_err(|e| data(py, &e))?;
        let table = table(py, columns)?;
        let (cancellation, own) = (Arc::new(Cancellation::default()), request.clone());
        let theirs = cancellation.clone();
        let problem =
            run_interruptibly(py, ProgressCallback::none(), None, &|_| cancellation.set(), move |stop| {
                let _work = theirs.begin();
                let storage = Storage { stop: Some(theirs.flag()), ..Storage::default() };
                let problem = Problem::new(&Stoppable { source: &table, stop }, &own, &storage)?;
                let sample = problem.some_rows(&table)?;
                Ok::<_, certus_fit::Error>((problem, sample))
            });
        let (problem, sample) = built(py, problem)?;
        Ok(Self { problem: Arc::new(problem), request, settings, cancellation, sample })
    }

    /// Of a matrix in C order that is not copied; `None` if that is not possible, because a column must be dropped.
    #[staticmethod]
    #[pyo3(signature = (x, y, names, settings, trials=None, offset=None, weights=None))]
    fn of_matrix(
        py: Python<'_>,
        x: PyReadonlyArray2<'_, f64>,
        y: &Bound<'_, PyAny>,
        names: Vec<String>,
        settings: &str,
        trials: Option<&Bound<'_, PyAny>>,
        offset: Option<&Bound<'_, PyAny>>,
        weights: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<Self>> {
        let settings = read(py, settings)?;
        let request = settings.request().map_err(|e| data(py, &e))?;
        let y = numbers(y)?;
        let (rows, columns) = (x.shape()[0], x.shape()[1]);
        if y.len() != rows || names.len() != columns {
            let words = format!(
                "X has {rows} rows and {columns} columns, y {} entries, and there are {} names",
                y.len(),
                names.len()
            );
            return Err(raise(py, 65, &words));
        }
        let cancellation = Arc::new(Cancellation::default());
        let Some(mut borrowed) = Borrowed::new(&x, y, cancellation.flag()) else { return Ok(None) };
        let part = |name: &str, cells: Option<&Bound<'_, PyAny>>| -> PyResult<Vec<f64>> {
            let cells = cells.map_or(Ok(Vec::new()), numbers)?;
            if !(cells.is_empty() || cells.len() == rows) {
                let words = format!("{name} has {} entries, but X has {rows} rows", cells.len());
                return Err(raise(py, 65, &words));
            }
            Ok(cells)
        };
        borrowed.trials = part("trials", trials)?;
        borrowed.offset = part("offset", offset)?;
        borrowed.weight = part("weights", weights)?;
        let rows = Arc::new(borrowed);
        let (theirs, own) = (cancellation.clone(), request.clone());
        let made =
            run_interruptibly(py, ProgressCallback::none(), None, &|_| cancellation.set(), move |_| {
                let _work = theirs.begin();
                let Some(prepared) = Prepared::of_rows(rows, &names, &own.spec)? else { return Ok(None) };
                let problem = Problem::of(prepared, &own)?;
                let sample = problem.some_numbers()?;
                Ok::<_, certus_fit::Error>(Some((problem, sample)))
            });
        Ok(built(py, made)?.map(|(problem, sample)| Self {
            problem: Arc::new(problem),
            request,
            settings,
            cancellation,
            sample,
        }))
    }

    /// Names of the coefficients on the user's scale.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.problem.quantities.iter().map(|q| q.name.clone()).collect()
    }

    /// Latents.
    #[getter]
    fn dim(&self) -> usize {
        self.problem.meaning.dim()
    }

    /// True if scales of it are not given.
    #[getter]
    fn collapsed(&self) -> bool {
        self.problem.collapsed().is_some()
    }

    /// Rows in use.
    #[getter]
    fn rows(&self) -> usize {
        self.problem.prepared.rows_used
    }

    /// What was noticed.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.problem.notes()
    }

    /// What a fit would do: the text, and the fields as JSON.
    fn plan(&self, py: Python<'_>, settings: &str) -> PyResult<(String, String)> {
        let settings = read(py, settings)?.or(&self.settings);
        let (goal, choice) =
            (settings.goal().map_err(|e| data(py, &e))?, settings.choice().map_err(|e| data(py, &e))?);
        let posterior = settings.posterior().map_err(|e| data(py, &e))?;
        let plan = py.detach(|| self.problem.plan(&goal, &choice, posterior)).map_err(|e| data(py, &e))?;
        Ok((plan.to_string(), serde_json::to_string(&plan).expect("a plan is plain values")))
    }

    /// Fits.
    #[pyo3(signature = (settings, progress=None))]
    fn fit(&self, py: Python<'_>, settings: &str, progress: Option<Py<PyAny>>) -> PyResult<Fitted> {
        let settings = read(py, settings)?.or(&self.settings);
        let (goal, choice) =
            (settings.goal().map_err(|e| data(py, &e))?, settings.choice().map_err(|e| data(py, &e))?);
        settings.request().map_err(|e| data(py, &e))?;
        self.problem.check_settings(&settings).map_err(|e| data(py, &e))?;
        let (asked, limit) = (settings.asked().map_err(|e| data(py, &e))?, goal.max_time);
        let posterior = settings.posterior().map_err(|e| data(py, &e))?;
        let (theirs, cancellation) = (self.problem.clone(), self.cancellation.clone());
        let ended = run_interruptibly(
            py,
            ProgressCallback::new(py, progress, goal.gap),
            limit,
            &|_| self.cancellation.set(),
            move |shared| {
                let _work = cancellation.begin();
                let mut ended = theirs.run(&goal, &choice, asked, None, &mut |now, _| {
                    shared.show(Some(now.clone()));
                    if shared.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })?;
                // what follows is no step of the run
                shared.show(None);
                if ended.outcome.status == Status::Reached {
                    let found = theirs.compare(&goal, posterior, asked, &ended, &|_| {});
                    let stopped = cancellation.is_set() && !found.is_whole();
                    ended.with(if stopped { Compared::stopped("the fit was stopped") } else { found });
                }
                // here, because the summary of thousands of coefficients takes a second, which the limit includes
                Ok::<Fit, certus_models::Error>(Fit::of_run(ended, &theirs, &settings, &goal))
            },
        );
        match (ended.result, ended.stopped) {
            (_, Some(error)) if !interrupt(py, &error) => Err(error),
            (Some(Ok(fit)), _) => Ok(Fitted(Arc::new(fit))),
            (Some(Err(error)), stopped) => Err(self.failed(py, error, stopped)),
            (None, stopped) => Err(stopped.unwrap_or_else(|| late(py))),
        }
    }

    /// Log densities at the rows of `latents`.
    fn log_density<'py>(
        &self,
        py: Python<'py>,
        latents: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let points = self.points(py, &latents)?;
        let mut values = vec![0.0; latents.shape()[0]];
        let mut gradients = vec![0.0; points.len()];
        let Some(model) = self.problem.model() else {
            let words = "scales of this model are not given, so its posterior has no density of latents";
            return Err(usage(py, words));
        };
        py.detach(|| {
            let d = self.dim();
            // in runs, so that the scratch memory of a batch stays small
            for ((z, v), g) in
                points.chunks(64 * d).zip(values.chunks_mut(64)).zip(gradients.chunks_mut(64 * d))
            {
                model.log_density(z, v, g)?;
            }
            Ok(())
        })
        .map_err(|e: certus::error::TargetError| raise(py, 65, &e.to_string()))?;
        Ok(PyArray1::from_vec(py, values))
    }

    /// Log likelihoods of every row in use at the rows of `latents`.
    fn log_likelihood<'py>(
        &self,
        py: Python<'py>,
        latents: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let points = self.points(py, &latents)?;
        let likelihood = self.request.likelihood().map_err(|e| data(py, &e))?;
        let values =
            py.detach(|| self.problem.log_likelihood(&*likelihood, &points)).map_err(|e| data(py, &e))?;
        PyArray1::from_vec(py, values).reshape([latents.shape()[0], self.rows()])
    }

    /// The responses of the rows in use.
    fn responses<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let rows = &self.problem.prepared.rows;
        let mut out = Vec::with_capacity(rows.len());
        for index in 0..certus_models::rows::leaves(&**rows) {
            rows.leaf(index, &mut |leaf| out.extend_from_slice(leaf.y))
                .map_err(|e| data(py, &DataError::from(e)))?;
        }
        Ok(PyArray1::from_vec(py, out))
    }
}

impl Model {
    /// A fit without a result: what stopped it, or what went wrong.
    fn failed(&self, py: Python<'_>, error: certus_models::Error, stopped: Option<PyErr>) -> PyErr {
        if error.is_stopped() {
            return stopped.unwrap_or_else(|| late(py));
        }
        let witness = self.problem.witness(&error);
        let error = DataError::from(error);
        raise(py, code(error.kind()), &format!("{error}{witness}"))
    }

    fn points(&self, py: Python<'_>, latents: &PyReadonlyArray2<'_, f64>) -> PyResult<Vec<f64>> {
        if latents.shape()[1] != self.dim() {
            let words =
                format!("latents has {} columns, but the model has {}", latents.shape()[1], self.dim());
            return Err(usage(py, &words));
        }
        Ok(latents.as_array().iter().copied().collect())
    }
}
