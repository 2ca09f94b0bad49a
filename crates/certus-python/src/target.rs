//! A Python function as a target, and the fit of a target.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use certus::auto::{AutoProgress, TracePoint};
use certus::certificate::{Level, counted};
use certus::error::TargetError;
use certus::{Curvature, Goal, Outcome, Provenance, Status, Target};
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::error::{core, data, raise, usage, user};
use crate::fitted::{Fitted, parameters};
use crate::interrupt::{PATIENCE, ProgressCallback, Shared, WorkResult, interrupt, run_interruptibly};
use crate::native::Native;
use crate::settings::{judge, read};
use certus_fit::{Fit, PosteriorChoice, PosteriorTable, RunProgress, Settings};

/// A function from a C-order (B, d) array to ((B,), (B, d)).
struct Function {
    function: Py<PyAny>,
    asarray: Py<PyAny>,
    dim: usize,
    curvature: Option<Curvature>,
    log_concave: bool,
    /// After this, calls are refused.
    deadline: Option<Instant>,
    late: AtomicBool,
}

impl Function {
    /// Copies one of the two results into our memory.
    fn take(&self, py: Python<'_>, result: &Bound<'_, PyAny>, what: &str, out: &mut [f64]) -> PyResult<()> {
        let shape: &[usize] = if what == "values" { &[out.len()] } else { &[out.len() / self.dim, self.dim] };
        let array = match result.cast::<PyUntypedArray>() {
            Ok(array) => array.clone(),
            Err(_) => self.asarray.bind(py).call1((result,))?.cast_into::<PyUntypedArray>()?,
        };
        let Ok(numbers) = array.extract::<PyReadonlyArrayDyn<'_, f64>>() else {
            let words = format!(
                "log_density returned {what} of dtype {}, but float64 is required{}",
                array.dtype(),
                if array.dtype().to_string() == "float32" {
                    " (with JAX: jax.config.update(\"jax_enable_x64\", True))"
                } else {
                    ""
                }
            );
            return Err(user(py, &words));
        };
        if numbers.shape() != shape {
            let words = format!(
                "log_density returned {what} of shape {:?}, but {shape:?} is required: one entry per row of the points",
                numbers.shape()
            );
            return Err(user(py, &words));
        }
        match numbers.as_slice() {
            Ok(slice) => out.copy_from_slice(slice),
            Err(_) => out.iter_mut().zip(numbers.as_array()).for_each(|(o, x)| *o = *x),
        }
        Ok(())
    }

    fn call(
        &self,
        py: Python<'_>,
        points: &[f64],
        values: &mut [f64],
        gradients: &mut [f64],
    ) -> PyResult<()> {
        py.check_signals()?;
        // DIFFERENCE: the points are copied into an array of Python's own. A view of our memory would cost nothing
        // either, but a function that keeps its argument would read freed memory later.
        let array = PyArray1::from_slice(py, points).reshape([values.len(), self.dim])?;
        let result = self.function.call1(py, (array,))?;
        let Ok((first, second)) = result.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>(py) else {
            let kind = result.bind(py).get_type().name()?.to_string();
            let words = format!(
                "log_density returned a {kind}, but two arrays are required: the log densities, and their gradients"
            );
            return Err(user(py, &words));
        };
        self.take(py, &first, "values", values)?;
        self.take(py, &second, "gradients", gradients)
    }
}

impl Target for Function {
    fn dim(&self) -> usize {
        self.dim
    }

    fn log_density(
        &self,
        points: &[f64],
        values: &mut [f64],
        gradients: &mut [f64],
    ) -> Result<(), TargetError> {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.late.store(true, Ordering::Relaxed);
            return Err(certus::Stopped.into());
        }
        Python::attach(|py| self.call(py, points, values, gradients)).map_err(Into::into)
    }

    fn curvature(&self) -> Option<Curvature> {
        self.curvature.clone()
    }

    fn log_concave(&self) -> bool {
        self.log_concave
    }
}

/// A native target with declared constants, which a flag stops.
struct Stoppable<'a> {
    target: &'a (dyn Target + Send + Sync),
    curvature: Option<Curvature>,
    log_concave: bool,
    stop: &'a Shared,
}

impl Target for Stoppable<'_> {
    fn dim(&self) -> usize {
        self.target.dim()
    }

    fn log_density(
        &self,
        points: &[f64],
        values: &mut [f64],
        gradients: &mut [f64],
    ) -> Result<(), TargetError> {
        if self.stop.is_stopped() {
            return Err(certus::Stopped.into());
        }
        self.target.log_density(points, values, gradients)
    }

    fn curvature(&self) -> Option<Curvature> {
        self.curvature.clone().or_else(|| self.target.curvature())
    }

    fn log_concave(&self) -> bool {
        self.log_concave || self.target.log_concave()
    }
}

fn seen(p: &AutoProgress<'_>) -> RunProgress {
    let point = TracePoint {
        elapsed: p.elapsed,
        iteration: p.iteration,
        gradients: p.gradients,
        neg_elbo: None,
        bound: p.gap.map(|gap| gap.upper()),
        level: if p.gap.is_some() { Level::Estimated } else { Level::None },
    };
    RunProgress { point, scales: None }
}

/// With draws of NUTS, where they are wanted.
fn sampled(
    outcome: Result<Outcome, certus::Error>,
    target: &dyn Target,
    choice: PosteriorChoice,
    goal: &Goal,
    here: bool,
) -> Result<(Outcome, Option<PosteriorTable>), certus::Error> {
    let mut outcome = outcome?;
    let table = PosteriorTable::sampled(&mut outcome, target, choice, goal, here);
    Ok((outcome, table))
}

/// Fits a Gaussian to a function or a native target. `declared` is (strong_convexity, smoothness, mode, reason),
/// `starts` are points from which other modes are searched for.
#[pyfunction]
#[pyo3(signature = (log_density, dim, names, settings, declared=None, start=None, progress=None,
    log_concave=false, starts=Vec::new()))]
#[allow(clippy::type_complexity, clippy::too_many_arguments)]
pub(crate) fn fit_target(
    py: Python<'_>,
    log_density: Bound<'_, PyAny>,
    dim: usize,
    names: Vec<String>,
    settings: &str,
    declared: Option<(f64, f64, Option<Vec<f64>>, String)>,
    start: Option<Vec<f64>>,
    progress: Option<Py<PyAny>>,
    log_concave: bool,
    starts: Vec<Vec<f64>>,
) -> PyResult<Fitted> {
    let settings = read(py, settings)?;
    let mut goal = settings.goal().map_err(|e| data(py, &e))?;
    (goal.start, goal.more_starts, goal.batch) = (start, starts, settings.batch);
    goal.validate().map_err(|e| core(py, e))?;
    let choice = settings.posterior().map_err(|e| data(py, &e))?;
    only_for_targets(py, &settings)?;
    let curvature = match declared {
        None => None,
        Some((least, most, mode, reason)) => {
            let curvature =
                Curvature::new(least, most, Provenance::DeclaredByUser(reason)).map_err(|e| core(py, e))?;
            Some(match mode {
                Some(mode) => {
                    goal.start.get_or_insert_with(|| mode.clone());
                    curvature.with_mode(mode)
                }
                None => curvature,
            })
        }
    };
    let mut display = ProgressCallback::new(py, progress, goal.gap);
    let WorkResult { result, stopped, late } = if let Ok(native) = log_density.cast::<Native>() {
        let target = native.get().target.clone();
        let end_now = |shared: &Shared| shared.stop.store(true, Ordering::Relaxed);
        run_interruptibly(py, display, goal.max_time, &end_now, move |shared| {
            let target = Stoppable { target: &*target, curvature, log_concave, stop: shared };
            let outcome = certus::auto_observed(&target, &goal, &mut |p| {
                shared.show(Some(seen(p)));
                if shared.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            sampled(outcome, &target, choice, &goal, false)
        })
    } else {
        let asarray = py.import("numpy")?.getattr("asarray")?.unbind();
        // steps that look at the clock have this long to do so
        let deadline = goal.max_time.and_then(|limit| Instant::now().checked_add(limit + PATIENCE));
        let function = Function {
            function: log_density.unbind(),
            asarray,
            dim,
            curvature,
            log_concave,
            deadline,
            late: AtomicBool::new(false),
        };
        let mut stopped = None;
        let outcome = py.detach(|| {
            let outcome = certus::auto_here(&function, &goal, &mut |p| match Python::attach(|py| {
                display.look(py, Some(&seen(p)))
            }) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    stopped = Some(error);
                    ControlFlow::Break(())
                }
            });
            sampled(outcome, &function, choice, &goal, true)
        });
        WorkResult { result: Some(outcome), stopped, late: function.late.into_inner() }
    };
    let Some(outcome) = result else {
        let words = "max_time was reached before there was a result: increase it";
        return Err(stopped.unwrap_or_else(|| raise(py, 10, words)));
    };
    let (mut outcome, table) = outcome.map_err(|e| core(py, e))?;
    judge(py, &settings, &mut outcome)?;
    let stopped = stopped.or_else(|| raised(py, &outcome));
    match stopped {
        Some(error) if interrupt(py, &error) => {
            outcome.status = Status::Interrupted;
            outcome.message = format!("interrupted after {}", counted(outcome.counts.gradients, "gradient"));
        }
        Some(error) => return Err(error),
        // the target refused its last call because the time was over
        None if late && outcome.status != Status::Reached => {
            outcome.status = Status::Limit;
            outcome.message =
                format!("the time limit was reached after {}", counted(outcome.counts.gradients, "gradient"));
        }
        None => {}
    }
    let nothing_done = outcome.trace.is_empty();
    let (status, message) = (outcome.status.clone(), outcome.message.clone());
    let named = parameters(&names, &outcome.gaussian);
    let fitted =
        Fitted(Arc::new(Fit::of_target(outcome, names, named, &settings, table).map_err(|e| data(py, &e))?));
    let code = match status {
        Status::NonFinite => 12,
        Status::AssumptionViolated if nothing_done || log_concave => 13,
        Status::UserError => 20,
        _ => return Ok(fitted),
    };
    let error = raise(py, code, &message);
    error.value(py).setattr("partial", Py::new(py, fitted)?)?;
    Err(error)
}

/// Seconds per step of Algorithm 1 with `batch` draws on a function: what a step through Python costs.
#[pyfunction]
pub(crate) fn seconds_per_step(
    py: Python<'_>,
    log_density: Py<PyAny>,
    dim: usize,
    batch: usize,
    steps: u32,
) -> PyResult<f64> {
    let asarray = py.import("numpy")?.getattr("asarray")?.unbind();
    let late = AtomicBool::new(false);
    let (curvature, log_concave, deadline) = (None, false, None);
    let function = Function { function: log_density, asarray, dim, curvature, log_concave, deadline, late };
    let settings = certus::Settings {
        batch,
        step_rule: certus::StepRule::Constant(1e-3),
        ..certus::Settings::default()
    };
    let time = || {
        let plan = certus::Plan::new(&function, &settings)?;
        let (mut state, mut memory) = (plan.start(), plan.memory());
        let clock = std::time::Instant::now();
        for _ in 0..steps {
            plan.step(&function, &mut state, &mut memory)?;
        }
        Ok(clock.elapsed().as_secs_f64() / f64::from(steps.max(1)))
    };
    py.detach(time).map_err(|e| core(py, e))
}

/// The exception that user code raised.
fn raised(py: Python<'_>, outcome: &Outcome) -> Option<PyErr> {
    match outcome.error.as_deref() {
        Some(certus::Error::Target(error)) => error.downcast_ref::<PyErr>().map(|e| e.clone_ref(py)),
        _ => None,
    }
}

/// Methods of models are refused.
fn only_for_targets(py: Python<'_>, settings: &Settings) -> PyResult<()> {
    match settings.method.as_deref() {
        None | Some("auto" | "stochastic") => Ok(()),
        Some(other) => {
            let words = format!(
                "method '{other}' applies only to models such as certus.logistic; the fit of a log density supports \
                    'auto'"
            );
            Err(usage(py, &words))
        }
    }
}
