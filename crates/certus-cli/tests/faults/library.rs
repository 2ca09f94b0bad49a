//! Faults of a user's log density, through the library: values and gradients that are no numbers or too large, errors
//! and panics, at several iterations; and settings that make no sense.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use certus::{Curvature, Goal, PointTarget, Provenance, Settings, Target, TargetError};

use super::table::{Ended, Row};

/// What is wrong with an evaluation.
#[derive(Clone, Copy)]
enum Fault {
    Value(f64),
    Gradient(f64),
    Error,
    Panic,
}

impl Fault {
    fn name(self) -> String {
        match self {
            Fault::Value(x) => format!("a value of {x:e}"),
            Fault::Gradient(x) => format!("a gradient of {x:e}"),
            Fault::Error => "an error".into(),
            Fault::Panic => "a panic".into(),
        }
    }
}

/// N(0, diag(1, 1/4)), with a fault once it is armed.
struct Faulty {
    fault: Fault,
    armed: AtomicBool,
    declared: bool,
    /// Evaluations before it arms itself.
    after: u64,
    seen: AtomicU64,
}

impl Faulty {
    fn new(fault: Fault, declared: bool, after: u64) -> Self {
        Self { fault, armed: AtomicBool::new(false), declared, after, seen: AtomicU64::new(0) }
    }
}

impl PointTarget for Faulty {
    fn dim(&self) -> usize {
        2
    }

    fn log_density_at(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, TargetError> {
        gradient.copy_from_slice(&[-z[0], -4.0 * z[1]]);
        let value = -0.5 * (z[0] * z[0] + 4.0 * z[1] * z[1]);
        let late = self.seen.fetch_add(1, Ordering::Relaxed) >= self.after;
        if !(late || self.armed.load(Ordering::Relaxed)) {
            return Ok(value);
        }
        match self.fault {
            Fault::Value(x) => return Ok(x),
            Fault::Gradient(x) => gradient[1] = x,
            Fault::Error => return Err("the sensor is off".into()),
            Fault::Panic => panic!("a panic of the user"),
        }
        Ok(value)
    }

    fn curvature(&self) -> Option<Curvature> {
        let declared = Provenance::DeclaredByUser("second derivatives".into());
        self.declared.then(|| Curvature::new(1.0, 4.0, declared).expect("legal"))
    }
}

/// Iterations of a run.
const ITERATIONS: u64 = 80;

fn settings() -> Settings {
    Settings { iterations: ITERATIONS, batch: 3, threads: Some(1), ..Settings::default() }
}

fn said(result: std::thread::Result<Result<(String, String), certus::Error>>) -> Ended {
    match result {
        Ok(Ok((how, said))) => Ended { how, said },
        Ok(Err(error)) => Ended { how: "refused".into(), said: error.to_string() },
        Err(panic) => Ended {
            how: "panic".into(),
            said: panic.downcast_ref::<&str>().map(ToString::to_string).unwrap_or_default(),
        },
    }
}

/// A run by the paper's method whose target fails from iteration `at` on.
fn run(fault: Fault, at: u64) -> Ended {
    let target = Faulty::new(fault, true, u64::MAX);
    target.armed.store(at == 0, Ordering::Relaxed);
    said(catch_unwind(AssertUnwindSafe(|| {
        let fit = certus::fit::fit_observed(&target, &settings(), &mut |progress, _| {
            target.armed.store(progress.iteration >= at, Ordering::Relaxed);
            std::ops::ControlFlow::Continue(())
        })?;
        // whatever happened, the iterate that is returned is finite
        assert!(fit.gaussian.mean().iter().all(|m| m.is_finite()), "the mean is not finite");
        assert!(fit.status.as_str() == "limit" || fit.guarantee.is_err(), "a guarantee of a run that failed");
        Ok((fit.status.as_str().into(), fit.message))
    })))
}

/// The same without settings, from the evaluation `after` on.
fn auto(fault: Fault, after: u64) -> Ended {
    let target = Faulty::new(fault, false, after);
    said(catch_unwind(AssertUnwindSafe(|| {
        let outcome = certus::auto(&target, &Goal { threads: Some(1), ..Goal::default() })?;
        let reached = outcome.status.as_str() == "reached";
        assert!(!reached, "reached with a target that fails");
        Ok((outcome.status.as_str().into(), outcome.message))
    })))
}

/// A target of this dimension without any fault.
struct Plain(usize);

impl Target for Plain {
    fn dim(&self) -> usize {
        self.0
    }

    fn log_density(
        &self,
        points: &[f64],
        values: &mut [f64],
        gradients: &mut [f64],
    ) -> Result<(), TargetError> {
        values.fill(0.0);
        gradients.iter_mut().zip(points).for_each(|(g, z)| *g = -z);
        Ok(())
    }
}

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let faults = [
        Fault::Value(f64::NAN),
        Fault::Value(f64::INFINITY),
        Fault::Value(1e308),
        Fault::Gradient(f64::NAN),
        Fault::Gradient(f64::INFINITY),
        Fault::Gradient(1e308),
        Fault::Error,
        Fault::Panic,
    ];
    for fault in faults {
        let (status, words) = match fault {
            Fault::Value(_) => ("non_finite", "log density"),
            Fault::Gradient(_) => ("non_finite", "gradient"),
            Fault::Error => ("user_error", "the sensor is off"),
            Fault::Panic => ("panic", "a panic of the user"),
        };
        for at in [0, 1, 57, ITERATIONS - 1] {
            let what = format!("{} at iteration {at} of a run with settings", fault.name());
            // a run that cannot start is an error and not a status; 1e308 is a number that a start can have
            let starts = at > 0 || matches!(fault, Fault::Panic | Fault::Value(1e308));
            let status = if starts { status } else { "refused" };
            rows.push(Row::new(&what, status, words, move |_| run(fault, at)));
        }
        for after in [0, 1, 57, 400] {
            let what = format!("{} from evaluation {after} on, without settings", fault.name());
            rows.push(Row::new(&what, status, words, move |_| auto(fault, after)));
        }
    }
    let refused = |what: &str, words: &str, provoke: fn() -> Result<(String, String), certus::Error>| {
        Row::new(what, "refused", words, move |_| said(catch_unwind(provoke)))
    };
    let ended = |fit: certus::Fit| (fit.status.as_str().to_string(), fit.message);
    let _ = ended;
    rows.push(refused("a target without coordinates", "", || {
        certus::auto(&Plain(0), &Goal::default()).map(|o| (o.status.as_str().into(), o.message))
    }));
    rows.push(refused("100,000 threads in a goal", "at most 1024 threads", || {
        let goal = Goal { threads: Some(100_000), ..Goal::default() };
        certus::auto(&Plain(2), &goal).map(|o| (o.status.as_str().into(), o.message))
    }));
    rows.push(refused("a gap that is not a number", "gap is NaN", || {
        let goal = Goal { gap: f64::NAN, ..Goal::default() };
        certus::auto(&Plain(2), &goal).map(|o| (o.status.as_str().into(), o.message))
    }));
    rows.push(refused("constants of the wrong order", "strong_convexity is 5", || {
        Curvature::new(5.0, 4.0, Provenance::DeclaredByUser(String::new()))
            .map(|_| (String::new(), String::new()))
    }));
    rows.push(refused("a run without draws", "batch", || {
        let settings = Settings { batch: 0, ..settings() };
        let fit = certus::fit(&Faulty::new(Fault::Error, true, u64::MAX), &settings)?;
        Ok((fit.status.as_str().into(), fit.message))
    }));
    rows
}
