//! The fit without settings: it arrives where it must, says what it may, stops when it is told, and gives the same bits
//! on any threads.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::time::Duration;

use crate::common::*;
use certus::auto::AutoState;
use certus::certificate::Level;
use certus::fit::Status;
use certus::{
    Curvature, Family, Goal, PointTarget, Provenance, TargetError, auto, auto_observed, auto_resume,
};

/// log p without any constants.
struct Opaque<'a>(&'a GaussianTarget);

impl PointTarget for Opaque<'_> {
    fn dim(&self) -> usize {
        PointTarget::dim(self.0)
    }
    fn log_density_at(&self, z: &[f64], g: &mut [f64]) -> Result<f64, TargetError> {
        self.0.log_density_at(z, g)
    }
}

/// φ = Σ h z²/2 + log cosh(z − 1), so h ≤ φ″ ≤ h + 1; what is declared may be something else.
struct Hill {
    dim: usize,
    declared: Option<(f64, f64)>,
}

impl PointTarget for Hill {
    fn dim(&self) -> usize {
        self.dim
    }
    fn log_density_at(&self, z: &[f64], g: &mut [f64]) -> Result<f64, TargetError> {
        let mut value = 0.0;
        for (z, g) in z.iter().zip(g) {
            *g = -z - (z - 1.0).tanh();
            value -= 0.5 * z * z + (z - 1.0).abs() + (-2.0 * (z - 1.0).abs()).exp().ln_1p() - 2f64.ln();
        }
        Ok(value)
    }
    fn curvature(&self) -> Option<Curvature> {
        let (mu, m) = self.declared?;
        Some(Curvature::new(mu, m, Provenance::DeclaredByUser("by hand".into())).unwrap())
    }
}

/// Rotated Gaussians with condition numbers up to 10⁸ are found to 1e-3 sd, in a few hundred gradients.
#[test]
fn gaussian_targets_are_found_exactly() {
    for (d, kappa) in [(1, 1.0), (3, 1e2), (20, 1e4), (30, 1e8), (140, 1e2)] {
        let t = GaussianTarget::with_kappa(d, kappa, &mut Dice::new(d as u64));
        let mut frame = None;
        let outcome = auto_observed(&Opaque(&t), &Goal::default(), &mut |p| {
            frame = p.gaussian.filter(|_| p.iteration == 0).cloned().or(frame.take());
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(outcome.status, Status::Reached, "d = {d}: {}", outcome.message);
        let best = t.optimum(&Family::Lower);
        // secants of a quadratic are exact: the frame is the posterior before the first step
        for (width, sd) in frame.unwrap().sd().iter().zip(best.sd()) {
            assert!((width / sd - 1.0).abs() < 1e-4, "d = {d}: the frame's sd {width} against {sd}");
        }
        for i in 0..d {
            let sd = best.sd()[i];
            let (mean, width) = (outcome.gaussian.mean()[i], outcome.gaussian.sd()[i]);
            assert!((mean - best.mean()[i]).abs() < 0.03 * sd, "d = {d}, mean {i}");
            assert!((width / sd - 1.0).abs() < 0.03, "d = {d}, sd {i}: {width} against {sd}");
        }
        assert_eq!(outcome.certificate.gap.statement.level(), Level::Estimated);
        // p is normalised: f is the gap
        assert!(outcome.neg_elbo.value.abs() < 0.01, "{:?}", outcome.neg_elbo);
    }
}

#[test]
fn declared_constants_make_it_probable() {
    let outcome =
        auto(&Hill { dim: 3, declared: Some((1.0, 2.0)) }, &Goal { gap: 0.05, ..Goal::default() }).unwrap();
    assert_eq!(outcome.status, Status::Reached, "{}", outcome.message);
    assert_eq!(outcome.certificate.gap.statement.level(), Level::Probable { delta: 0.01 });
    assert!(outcome.certificate.gap.statement.bound().unwrap() <= 0.05);
    // constants that the draws contradict
    let outcome = auto(&Hill { dim: 3, declared: Some((1.0, 1.2)) }, &Goal::default()).unwrap();
    assert_eq!(outcome.status, Status::AssumptionViolated, "{}", outcome.message);
    assert_eq!(outcome.certificate.gap.statement.level(), Level::None);
    // nothing declared: only estimated
    let outcome = auto(&Hill { dim: 3, declared: None }, &Goal::default()).unwrap();
    assert_eq!(
        (outcome.status.clone(), outcome.certificate.gap.statement.level()),
        (Status::Reached, Level::Estimated)
    );
    assert!(outcome.message.contains("nothing is proved"));
}

#[test]
fn limits_stop_it_with_what_it_has() {
    let target = Hill { dim: 40, declared: None };
    let limited = auto(&target, &Goal { gap: 1e-9, max_gradients: Some(3000), ..Goal::default() }).unwrap();
    assert_eq!(limited.status, Status::Limit);
    assert!(limited.message.contains(" gradients; the gap is about "), "{}", limited.message);
    assert!(
        limited.counts.gradients >= 2000 && limited.counts.gradients < 4500,
        "{}",
        limited.counts.gradients
    );
    let late = auto(&target, &Goal { max_time: Some(Duration::ZERO), ..Goal::default() }).unwrap();
    assert_eq!(late.status, Status::Limit);
    assert_eq!(late.certificate.gap.statement.level(), Level::None);
    let mut calls = 0;
    let stopped = auto_observed(&target, &Goal { gap: 1e-9, ..Goal::default() }, &mut |p| {
        calls += 1;
        if p.iteration >= 7 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert_eq!(stopped.status, Status::Interrupted);
    assert!(stopped.gaussian.is_proper() && calls > 7);
    for goal in [Goal { gap: 0.0, ..Goal::default() }, Goal { start: Some(vec![0.0]), ..Goal::default() }] {
        assert!(auto(&target, &goal).is_err());
    }
}

/// The count is of every point at which the target was asked.
#[test]
fn every_gradient_is_counted() {
    use std::sync::atomic::{AtomicU64, Ordering};
    struct Counting(Hill, AtomicU64);
    impl PointTarget for Counting {
        fn dim(&self) -> usize {
            self.0.dim
        }
        fn log_density_at(&self, z: &[f64], g: &mut [f64]) -> Result<f64, TargetError> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.log_density_at(z, g)
        }
    }
    let target = Counting(Hill { dim: 4, declared: None }, AtomicU64::new(0));
    let outcome = auto(&target, &Goal::default()).unwrap();
    assert_eq!(outcome.counts.gradients, target.1.into_inner());
    assert!(outcome.trace.windows(2).all(|w| w[0].gradients <= w[1].gradients));
}

#[test]
fn same_bits_on_any_number_of_threads() {
    let target = Hill { dim: 80, declared: None };
    let run = |threads, seed| {
        let outcome = auto(&target, &Goal { threads: Some(threads), seed, ..Goal::default() }).unwrap();
        (outcome.gaussian, outcome.counts, outcome.neg_elbo.value.to_bits())
    };
    let one = run(1, 0);
    assert!(run(2, 0) == one && run(3, 0) == one);
    assert!(run(1, 1) != one);
}

/// Stopped at any step, saved and gone on, the run ends with the bits and the count of one that was never stopped;
/// damaged bytes are refused.
#[test]
fn a_saved_run_goes_on_with_the_same_bits() {
    let target = Hill { dim: 5, declared: None };
    let goal = Goal { gap: 3e-4, ..Goal::default() };
    let whole = auto(&target, &goal).unwrap();
    assert_eq!(whole.status, Status::Reached, "{}", whole.message);
    let mut saved = Vec::new();
    auto_observed(&target, &goal, &mut |p| {
        saved.extend(p.state.map(AutoState::encode));
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(saved.len() > 20);
    for bytes in saved.iter().step_by(7) {
        let state = AutoState::decode(bytes).unwrap();
        assert_eq!(&state.encode(), bytes);
        let outcome = auto_resume(&target, &goal, &state, &mut |_| ControlFlow::Continue(())).unwrap();
        assert!(outcome.gaussian == whole.gaussian && outcome.counts == whole.counts);
        assert_eq!(outcome.message, whole.message);
    }
    let bytes = &saved[20];
    for length in 0..bytes.len() {
        assert!(AutoState::decode(&bytes[..length]).is_err());
    }
    for k in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[k] ^= 1 << (k % 8);
        assert!(AutoState::decode(&damaged).is_err(), "byte {k}");
    }
}
