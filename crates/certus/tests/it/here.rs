//! A fit on the calling thread: every call of the target and the observer is made there, and the bits are those of any
//! other fit.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::thread;

use certus::{Goal, PointTarget, TargetError, auto, auto_here};

/// log p = −Σ cosh z, which belongs to one thread if it is told so.
struct Cosh(Option<thread::ThreadId>);

impl PointTarget for Cosh {
    fn dim(&self) -> usize {
        40
    }

    fn log_density_at(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, TargetError> {
        assert!(self.0.is_none_or(|id| id == thread::current().id()), "called on another thread");
        gradient.iter_mut().zip(z).for_each(|(g, z)| *g = -z.sinh());
        Ok(-z.iter().map(|z| z.cosh()).sum::<f64>())
    }
}

#[test]
fn every_call_is_made_on_the_calling_thread() {
    let (goal, here) = (Goal { gap: 0.05, seed: 3, ..Goal::default() }, thread::current().id());
    let mut seen = 0;
    let own = auto_here(&Cosh(Some(here)), &goal, &mut |_| {
        assert_eq!(thread::current().id(), here);
        seen += 1;
        ControlFlow::Continue(())
    })
    .unwrap();
    let other = auto(&Cosh(None), &goal).unwrap();
    assert!(seen > 0);
    assert_eq!((own.status, own.gaussian), (other.status, other.gaussian));
}
